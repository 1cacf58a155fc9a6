//! Processes of a cgroup (version 1 or 2) and of its descendants.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use iosonde_engine::host::Root;

/// Where hierarchies are mounted, in lookup order.
const HIERARCHIES: [&str; 8] =
    ["", "unified", "systemd", "blkio", "memory", "cpu", "cpuacct", "pids"];
/// Largest number of cgroups visited.
const LIMIT: usize = 4096;

/// The directory of a cgroup: a path below `/sys/fs/cgroup`, or a name in any hierarchy there
/// (`system.slice/postgresql.service`, as `/proc/PID/cgroup` shows it).
pub(super) fn folder(root: &Root, requested: &Path) -> Option<PathBuf> {
    let short = requested.strip_prefix("/").unwrap_or(requested);
    let below = |hierarchy: &str| Path::new("/sys/fs/cgroup").join(hierarchy).join(short);
    let mut places = vec![requested.to_path_buf()];
    places.extend(HIERARCHIES.map(below));
    places.into_iter().find(|place| place.is_absolute() && is_cgroup(root, place))
}

pub(super) fn is_cgroup(root: &Root, folder: &Path) -> bool {
    root.exists(folder.join("cgroup.procs"))
}

/// Processes in the cgroup and its descendants.
pub(super) fn processes(root: &Root, folder: &Path) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![folder.to_path_buf()];
    let mut looked = 0;
    while let Some(place) = waiting.pop() {
        let listed = root.text_up_to(place.join("cgroup.procs"), 8 << 20).unwrap_or_default();
        // 0 means a process that is not visible in this PID namespace.
        found.extend(
            listed.lines().filter_map(|line| line.parse().ok()).filter(|pid: &u32| *pid != 0),
        );
        looked += 1;
        if looked < LIMIT {
            let inside = root.names(&place).into_iter().map(|name| place.join(name));
            waiting.extend(inside.filter(|place| is_cgroup(root, place)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn by_path_or_by_name_with_those_below() {
        let dir = tempfile::tempdir().unwrap();
        for (name, pids) in [("a", "1\n0\n2\n"), ("a/b", "3\n"), ("a/b/c", "")] {
            let folder = dir.path().join("sys/fs/cgroup/systemd").join(name);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("cgroup.procs"), pids).unwrap();
        }
        let root = Root::at(dir.path());
        let expected = Path::new("/sys/fs/cgroup/systemd/a");
        for requested in ["/sys/fs/cgroup/systemd/a", "/a", "a", "systemd/a"] {
            assert_eq!(
                folder(&root, Path::new(requested)).as_deref(),
                Some(expected),
                "{requested}"
            );
        }
        assert_eq!(folder(&root, Path::new("z")), None);
        assert_eq!(processes(&root, expected), BTreeSet::from([1, 2, 3]));
    }
}
