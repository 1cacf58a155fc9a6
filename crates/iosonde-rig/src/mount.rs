//! A served directory as a guard: it stays mounted until the guard is dropped.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use rustix::mount::UnmountFlags;

use crate::fuse::{Core, Server};
use crate::latency::Rng;
use crate::schedule::Schedule;
use crate::scratch::ScratchDir;
use crate::script::Script;
use crate::truth::Truth;
use crate::{Unavailable, require_root};

/// Threads that answer requests. A few suffice: waiting requests are entries of the heap.
const THREADS: usize = 4;
/// Threads that read requests from the kernel.
const READERS: usize = 2;

/// A directory of known behaviour, served by threads of this process until it is dropped. All users
/// may use it. Files are created by name: the server does not support O_TMPFILE.
///
/// A process killed with SIGKILL leaves a dead mount point behind; `umount -l` removes it.
pub struct FuseMount {
    core: Arc<Core>,
    session: BackgroundSession,
    path: PathBuf,
    _dir: Option<ScratchDir>,
}

impl FuseMount {
    /// Serves the script in a new temporary directory.
    pub fn new(script: Script) -> Result<Self, Unavailable> {
        let dir = ScratchDir::new()
            .map_err(|error| Unavailable::new(format!("no temporary directory: {error}")))?;
        let mut mount = Self::at(dir.path(), script)?;
        mount._dir = Some(dir);
        Ok(mount)
    }

    /// Serves the script in `path`, which must exist.
    pub fn at(path: &Path, script: Script) -> Result<Self, Unavailable> {
        require_root()?;
        if !Path::new("/dev/fuse").exists() {
            return Err(Unavailable::new("/dev/fuse is missing: this kernel has no FUSE"));
        }
        let failed = |error: std::io::Error| {
            Unavailable::new(format!("cannot serve {}: {error}", path.display()))
        };
        let core = Arc::new(Core::new(script));
        let server = Server::new(Arc::clone(&core), Schedule::start(THREADS).map_err(failed)?);
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("iosonde-rig".to_owned()),
            MountOption::Subtype("rig".to_owned()),
            MountOption::DefaultPermissions,
            MountOption::NoSuid,
            MountOption::NoDev,
        ];
        config.acl = SessionACL::All;
        config.n_threads = Some(READERS);
        let session = fuser::spawn_mount(server, path, &config).map_err(failed)?;
        Ok(Self { core, session, path: path.to_owned(), _dir: None })
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Record of what the device did since its start or last restart.
    pub fn truth(&self) -> Truth {
        self.core.truth()
    }

    /// Clears the truth. Clock and fault counts restart at the next read or write.
    pub fn restart(&self) {
        self.core.restart();
    }

    /// Drops all unsynced data, as a power cut does, and the kernel's cached pages of them. File
    /// names are always durable; file lengths need a sync.
    pub fn power_cut(&self) {
        self.cut(|| false);
    }

    /// As [`Self::power_cut`], but a random half of the unsynced pages had already been written, as
    /// by a cache that writes back in its own order.
    pub fn power_cut_amid_writeback(&self, seed: u64) {
        let mut chance = Rng::new(seed);
        self.cut(|| chance.next_u64() & 1 == 0);
    }

    fn cut(&self, is_kept: impl FnMut() -> bool) {
        let notifier = self.session.notifier();
        for ino in self.core.power_cut(is_kept) {
            // An error only means that the kernel does not know the file and caches nothing.
            let _ = notifier.inval_inode(fuser::INodeNo(ino), 0, 0);
        }
    }

    /// Whether the directory was unmounted from outside.
    pub fn ended(&self) -> bool {
        self.session.guard.is_finished()
    }
}

impl Drop for FuseMount {
    fn drop(&mut self) {
        if !self.ended() && rustix::mount::unmount(&self.path, UnmountFlags::empty()).is_err() {
            // Still in use. MNT_FORCE aborts the connection, so that users get errors instead of
            // waiting for a vanished device; then the mount point can be detached.
            let _ = rustix::mount::unmount(&self.path, UnmountFlags::FORCE);
            let _ = rustix::mount::unmount(&self.path, UnmountFlags::DETACH);
        }
    }
}
