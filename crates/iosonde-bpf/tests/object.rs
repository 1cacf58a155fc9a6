//! The object that is kept is what its source gives.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::Command;

use iosonde_rig::skip;

#[test]
fn the_object_is_that_of_the_source() {
    if Command::new("clang-14").arg("--version").output().is_err() {
        skip("clang-14 is not installed, with which the kernel programs are built");
        return;
    }
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let place = tempfile::tempdir().unwrap();
    let built = place.path().join("profile.bpf.o");
    let ended = Command::new(programs.join("build")).arg(&built).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(ended.stderr.is_empty(), "{}", String::from_utf8_lossy(&ended.stderr));
    let same = fs::read(&built).unwrap() == fs::read(programs.join("profile.bpf.o")).unwrap();
    assert!(same, "the kept object differs: run crates/iosonde-bpf/bpf/build, and commit it");
}
