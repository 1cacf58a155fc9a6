//! The cgroup directories of this process, for a controller: its own and all above it.
//!
//! Source: cgroups(7). The hierarchy may be mounted anywhere, as a whole or in part.

use std::path::{Path, PathBuf};

use super::{Root, mount};

/// One hierarchy that may hold limits for this process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Hierarchy {
    /// Whether it is the unified (version 2) hierarchy.
    pub(super) unified: bool,
    /// Directories from the process's own cgroup up to the mount point.
    pub(super) levels: Vec<PathBuf>,
}

/// The hierarchies in which `controller` may limit this process: version 1, version 2, or, on a
/// hybrid system, both.
pub(super) fn hierarchies(root: &Root, controller: &str) -> Vec<Hierarchy> {
    let membership = root.text("/proc/self/cgroup").unwrap_or_default();
    let mounts = mount::all(root);
    let mut found = Vec::new();
    for line in membership.lines() {
        // `4:memory:/a/b`, `0::/a/b`
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let unified = number == "0" && controllers.is_empty();
        if !unified && !controllers.split(',').any(|name| name == controller) {
            continue;
        }
        let mine = mounts.iter().filter(|mount| {
            if unified {
                mount.filesystem == "cgroup2"
            } else {
                mount.filesystem == "cgroup" && mount.options.iter().any(|o| o == controller)
            }
        });
        let levels = mine
            .map(|mount| levels(&mount.point, &mount.root, Path::new(path)))
            .find(|levels| levels.first().is_some_and(|own| root.exists(own)));
        found.extend(levels.map(|levels| Hierarchy { unified, levels }));
    }
    found
}

/// The directories of cgroup `path` where the part of the hierarchy below `mounted` is mounted at
/// `point`. For a cgroup outside that part (another namespace), only the mount point.
fn levels(point: &Path, mounted: &Path, path: &Path) -> Vec<PathBuf> {
    let inside = path.strip_prefix(mounted).unwrap_or(Path::new(""));
    let inside = if inside.components().any(|c| c == std::path::Component::ParentDir) {
        Path::new("")
    } else {
        inside
    };
    inside.ancestors().map(|part| point.join(part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(point: &str, mounted: &str, path: &str) -> Vec<String> {
        let levels = levels(Path::new(point), Path::new(mounted), Path::new(path));
        levels.iter().map(|level| level.display().to_string()).collect()
    }

    #[test]
    fn own_directory_first_then_upwards() {
        assert_eq!(shown("/cg", "/", "/a/b"), ["/cg/a/b", "/cg/a", "/cg/"]);
        assert_eq!(shown("/cg", "/", "/"), ["/cg/"]);
    }

    #[test]
    fn a_part_of_the_hierarchy_is_mounted() {
        assert_eq!(shown("/cg", "/docker/1", "/docker/1"), ["/cg/"]);
        assert_eq!(shown("/cg", "/docker/1", "/docker/1/x"), ["/cg/x", "/cg/"]);
        assert_eq!(shown("/cg", "/docker/1", "/elsewhere"), ["/cg/"]);
        assert_eq!(shown("/cg", "/", "/../../x"), ["/cg/"]);
    }
}
