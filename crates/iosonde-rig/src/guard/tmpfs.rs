//! A tmpfs of a given size.

use std::ffi::CString;
use std::path::Path;

use rustix::mount::MountFlags;

use super::{doing, unmount};
use crate::scratch::ScratchDir;
use crate::{Unavailable, require_root};

/// A mounted tmpfs that all users may write, unmounted on drop.
#[derive(Debug)]
pub struct TmpfsMount {
    dir: ScratchDir,
}

impl TmpfsMount {
    /// A new tmpfs that holds at most `size_bytes`.
    pub fn new(size_bytes: u64) -> Result<Self, Unavailable> {
        require_root()?;
        let dir = ScratchDir::new().map_err(doing("make a temporary directory"))?;
        let options = CString::new(format!("size={size_bytes},mode=1777"))
            .map_err(doing("write the mount options"))?;
        let flags = MountFlags::NODEV | MountFlags::NOSUID;
        rustix::mount::mount("iosonde-rig", dir.path(), "tmpfs", flags, options.as_c_str())
            .map_err(doing("mount a tmpfs"))?;
        Ok(Self { dir })
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for TmpfsMount {
    fn drop(&mut self) {
        unmount(self.dir.path());
    }
}
