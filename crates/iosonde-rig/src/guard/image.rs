//! A file system on an image, mounted over a loop device.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::MountFlags;

use super::{LoopDevice, doing, run, unmount};
use crate::scratch::ScratchDir;
use crate::{Unavailable, require_root};

/// The supported file systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsKind {
    /// ext4; any size from about 1 MiB.
    Ext4,
    /// XFS; from 300 MiB.
    Xfs,
    /// Btrfs; from 109 MiB.
    Btrfs,
}

impl FsKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ext4, Self::Xfs, Self::Btrfs];

    /// Its name in the kernel.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    fn quiet_flags(self) -> &'static [&'static str] {
        match self {
            Self::Ext4 => &["-q", "-F"],
            Self::Xfs => &["-q", "-f"],
            Self::Btrfs => &["-q", "-f"],
        }
    }
}

/// A mounted file system that all users may write. Image, device and mount are removed on drop.
#[derive(Debug)]
pub struct ImageMount {
    path: PathBuf,
    device: LoopDevice,
    // Declared last: removed after the mount and the loop device below it.
    _dir: ScratchDir,
}

impl ImageMount {
    /// A new file system of `size_bytes`, with mount options as in `mount -o` (`compress=zstd`), or
    /// an empty string. The image is a sparse file in the system's temporary directory.
    pub fn new(kind: FsKind, size_bytes: u64, options: &str) -> Result<Self, Unavailable> {
        Self::below(&std::env::temp_dir(), kind, size_bytes, options)
    }

    /// As [`Self::new`], with the image in a new directory below `parent`.
    pub fn below(
        parent: &Path,
        kind: FsKind,
        size_bytes: u64,
        options: &str,
    ) -> Result<Self, Unavailable> {
        require_root()?;
        let dir = ScratchDir::below(parent).map_err(doing("make a temporary directory"))?;
        let image = dir.path().join("image");
        Self::over(&image, dir, kind, size_bytes, options)
    }

    /// As [`Self::new`], with the image at this path. It is not removed on drop.
    pub fn at(
        image: &Path,
        kind: FsKind,
        size_bytes: u64,
        options: &str,
    ) -> Result<Self, Unavailable> {
        require_root()?;
        let dir = ScratchDir::new().map_err(doing("make a temporary directory"))?;
        Self::over(image, dir, kind, size_bytes, options)
    }

    fn over(
        image: &Path,
        dir: ScratchDir,
        kind: FsKind,
        size_bytes: u64,
        options: &str,
    ) -> Result<Self, Unavailable> {
        let device = LoopDevice::new(image, size_bytes)?;
        let mkfs = format!("mkfs.{}", kind.name());
        run(Command::new(mkfs).args(kind.quiet_flags()).arg(device.path()))?;
        let path = dir.path().join("mount");
        fs::create_dir(&path).map_err(doing("make a mount point"))?;
        let data = std::ffi::CString::new(options).map_err(doing("use the mount options"))?;
        let flags = MountFlags::NODEV | MountFlags::NOSUID;
        rustix::mount::mount(device.path(), &path, kind.name(), flags, data.as_c_str())
            .map_err(doing(format!("mount {}", kind.name())))?;
        let mount = Self { path, device, _dir: dir };
        fs::set_permissions(&mount.path, fs::Permissions::from_mode(0o1777))
            .map_err(doing("open the mount to all users"))?;
        Ok(mount)
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The loop device below it.
    pub fn device(&self) -> &LoopDevice {
        &self.device
    }

    /// Remounts it read-only, or writable again.
    pub fn set_read_only(&self, read_only: bool) -> Result<(), Unavailable> {
        let mode = if read_only { MountFlags::RDONLY } else { MountFlags::empty() };
        rustix::mount::mount_remount(&self.path, mode, c"").map_err(doing("remount"))
    }
}

impl Drop for ImageMount {
    fn drop(&mut self) {
        unmount(&self.path);
    }
}
