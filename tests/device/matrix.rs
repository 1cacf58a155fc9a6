//! All eight workloads on every file system that can be made here.

use std::path::Path;

use iosonde_rig::guard::{FsKind, ImageMount};

use crate::request::{ask, here, names, turn};
use crate::truth::Zram;

#[test]
fn every_row_balances_on_every_file_system() {
    let _turn = turn();
    for kind in FsKind::ALL {
        let place = Path::new("/dev/shm");
        let Some(mount) = here(ImageMount::below(place, kind, 3 << 30, "")) else { continue };
        balances(kind.name(), mount.path());
    }
}

#[test]
fn every_row_balances_on_a_device_that_hands_requests_to_workers() {
    let _turn = turn();
    let Some(zram) = here(Zram::new(3 << 30)) else { return };
    balances("zram", zram.dir.path());
}

/// Eight workloads, measured completely, with valid consistency checks; no file is left in the
/// directory.
fn balances(name: &str, path: &Path) {
    let before = names(path);
    let answer = ask("check {} 256M --seconds 0.5", path).answer().exits(0);
    let cells = answer.at("/cells").as_array().unwrap();
    assert_eq!(cells.len(), 8, "{name}");
    for cell in cells {
        assert_eq!(cell["status"], "complete", "{name}: {}", answer.gist());
        assert!(cell["summary"]["total"]["ops"].as_u64().unwrap() > 0, "{name}");
    }
    assert_eq!(answer.at("/complete"), true);
    assert_eq!(names(path), before, "{name}");
}
