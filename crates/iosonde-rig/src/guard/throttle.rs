//! A cgroup that limits the I/O of the commands run in it: a device of known rate.
//!
//! The rate is exact. Latencies come in slices (100 ms in version 1), so no percentile can be
//! tested. Version 1 limits direct I/O and reads only: buffered data are written by the kernel.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::doing;
use crate::{Unavailable, require_root};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Limits on one device; `None` means no limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct IoLimits {
    /// Reads per second.
    pub read_iops: Option<u64>,
    /// Writes per second.
    pub write_iops: Option<u64>,
    /// Bytes read per second.
    pub read_bytes_per_s: Option<u64>,
    /// Bytes written per second.
    pub write_bytes_per_s: Option<u64>,
}

impl IoLimits {
    fn named(&self, names: [&'static str; 4]) -> impl Iterator<Item = (&'static str, u64)> {
        let limits =
            [self.read_iops, self.write_iops, self.read_bytes_per_s, self.write_bytes_per_s];
        names.into_iter().zip(limits).filter_map(|(name, limit)| limit.map(|limit| (name, limit)))
    }
}

/// A cgroup with I/O limits, removed on drop. Remaining processes move to its parent.
#[derive(Debug)]
pub struct IoThrottle {
    dir: PathBuf,
    parent: PathBuf,
}

/// Mount point of a cgroup file system of that type; `option` must be among its super options.
fn mount_point(fs_type: &str, option: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (place, origin) = line.split_once(" - ")?;
        let mut origin = origin.split(' ');
        let found = origin.next() == Some(fs_type)
            && (option.is_empty() || origin.nth(1)?.split(',').any(|word| word == option));
        found.then(|| place.split(' ').nth(4).map(PathBuf::from))?
    })
}

impl IoThrottle {
    /// Limits the device with that major and minor number, by version 2 if it has the io
    /// controller, otherwise by version 1.
    pub fn new(device: (u32, u32), limits: &IoLimits) -> Result<Self, Unavailable> {
        require_root()?;
        Self::version_2(device, limits).or_else(|no_2| {
            Self::version_1(device, limits).map_err(|no_1| {
                Unavailable::new(format!("no cgroup I/O limit here: {no_2}; {no_1}"))
            })
        })
    }

    /// As [`Self::new`], by `blkio.throttle.*` of cgroup version 1 only.
    pub fn version_1(device: (u32, u32), limits: &IoLimits) -> Result<Self, Unavailable> {
        let root = mount_point("cgroup", "blkio")
            .ok_or_else(|| Unavailable::new("no version 1 blkio controller is mounted"))?;
        let group = Self::child_of(&root)?;
        let files =
            ["read_iops_device", "write_iops_device", "read_bps_device", "write_bps_device"];
        for (file, limit) in limits.named(files) {
            let rule = format!("{}:{} {limit}", device.0, device.1);
            fs::write(group.dir.join(format!("blkio.throttle.{file}")), rule)
                .map_err(doing(format!("set blkio.throttle.{file}")))?;
        }
        Ok(group)
    }

    /// As [`Self::new`], by `io.max` of cgroup version 2 only.
    pub fn version_2(device: (u32, u32), limits: &IoLimits) -> Result<Self, Unavailable> {
        let root = mount_point("cgroup2", "")
            .ok_or_else(|| Unavailable::new("no version 2 hierarchy is mounted"))?;
        let controllers = fs::read_to_string(root.join("cgroup.controllers"))
            .map_err(doing("read cgroup.controllers"))?;
        if !controllers.split_whitespace().any(|controller| controller == "io") {
            return Err(Unavailable::new("version 2 has no io controller"));
        }
        // Stays enabled on drop: other groups may use it by then.
        fs::write(root.join("cgroup.subtree_control"), "+io")
            .map_err(doing("turn the io controller on"))?;
        let group = Self::child_of(&root)?;
        let mut rule = format!("{}:{}", device.0, device.1);
        for (word, limit) in limits.named(["riops", "wiops", "rbps", "wbps"]) {
            rule.push_str(&format!(" {word}={limit}"));
        }
        fs::write(group.dir.join("io.max"), rule).map_err(doing("set io.max"))?;
        Ok(group)
    }

    fn child_of(parent: &Path) -> Result<Self, Unavailable> {
        let serial = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = parent.join(format!("iosonde-rig-{}-{serial}", std::process::id()));
        fs::create_dir(&dir).map_err(doing(format!("make cgroup {}", dir.display())))?;
        Ok(Self { dir, parent: parent.to_owned() })
    }

    /// The file to which a process number is written to move the process into the group.
    pub fn processes(&self) -> PathBuf {
        self.dir.join("cgroup.procs")
    }

    /// A command that runs `program` inside the group from its first instruction on. Arguments are
    /// added to it as usual.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(r#"echo $$ > "$0" && exec "$@""#);
        shell.arg(self.processes()).arg(program);
        shell
    }
}

impl Drop for IoThrottle {
    fn drop(&mut self) {
        // A group can be removed only after its dying processes are reaped.
        for _ in 0..50 {
            let left = fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default();
            for process in left.lines() {
                let _ = fs::write(self.parent.join("cgroup.procs"), process);
            }
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}
