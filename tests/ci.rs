//! The scripts of `make test`: a test that hangs, one that passes on retry, one that is skipped.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A script of `.ci`, in the root of the workspace.
fn script(name: &str) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(root.join(".ci").join(name));
    command.current_dir(root).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn fed(mut command: Command, input: &str) -> (Output, String) {
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, said)
}

/// A shell script that acts as a test program, with a name as cargo gives it.
fn program(folder: &Path, suite: &str, text: &str) -> PathBuf {
    let path = folder.join(format!("{suite}-0123456789abcdef"));
    let list = "[ \"$1\" = --list ] && { printf 'a::one: test\\ntwo: test\\n'; exit; }";
    fs::write(&path, format!("#!/bin/sh\n{list}\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_test_that_hangs_is_named_and_its_child_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let text = format!(
        "echo 'test a::one ... ok'\nsh -c 'trap \"\" INT TERM; echo $$ > {}; exec sleep 500'\n\
         echo 'test two ... FAILED'\necho 'test result: FAILED. 1 passed; 1 failed'; exit 101",
        pid.display()
    );
    let mut limit = script("limit");
    limit.arg(program(folder.path(), "x", &text)).env("IOSONDE_TEST_LIMIT", "5");
    let (output, said) = fed(limit, "");
    assert_eq!(output.status.code(), Some(124), "{said}");
    assert!(said.contains("no test has ended for 5 s; not ended: two\n"), "{said}");
    assert!(said.contains("test two ... FAILED"), "the others go on: {said}");
    let pid = fs::read_to_string(pid).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "{pid}");
}

#[test]
fn what_ends_in_time_keeps_its_status_and_its_output() {
    let folder = tempfile::tempdir().unwrap();
    let mut limit = script("limit");
    limit.arg(program(folder.path(), "x", "echo \"$2\"; printf half; exit 7")).args(["a", "b  c"]);
    let (output, said) = fed(limit, "");
    assert_eq!((output.status.code(), &*said), (Some(7), "b  c\nhalf"));
}

/// Output of `cargo test` for a suite in which `two` fails.
fn failed(program: &Path) -> String {
    format!(
        "     Running tests/x.rs ({})\ntest two ... FAILED\n\nfailures:\n\n---- two stdout ----\n\
         why\n\nfailures:\n    two\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored;\n\n\
         error: 1 target failed:\n    `--test x`\n",
        program.display()
    )
}

#[test]
fn only_a_test_of_devices_may_pass_on_retry_and_a_skip_is_no_pass() {
    let pass = "echo \"test $2 ... ok\"; echo 'test result: ok. 1 passed; 0 failed'";
    let skip = format!("echo 'skipped: no device; untested: two'; {pass}");
    let fail = "echo 'test result: FAILED. 0 passed; 1 failed'; exit 101";
    for (suite, text, passes, says) in [
        ("device", pass, true, "passed on retry: device: two"),
        ("device", &*skip, false, "could not run: device: two"),
        ("device", fail, false, "failed again"),
        ("engine", pass, false, ""),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (output, said) = fed(script("again"), &failed(&program(folder.path(), suite, text)));
        assert_eq!(output.status.success(), passes, "{suite}, {text}: {said}");
        assert!(said.contains(says), "{said}");
        assert!(!said.is_empty() || suite == "engine", "{said}");
    }
}

#[test]
fn the_summary_counts_what_was_skipped_apart() {
    let log = "     Running tests/x.rs (target/debug/deps/x-0123456789abcdef)\n\
               test a::one ... ok\ntest two ... ok\ntest three ... ok\n\nsuccesses:\n\n\
               ---- a::one stdout ----\nskipped: no device; untested: one\n\n\
               ---- two stdout ----\nskipped in part: no ring; untested: two: io_uring\n\n\
               successes:\n    a::one\n    two\n    three\n\n\
               test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured\n\
               passed on retry: device: four\n";
    let (output, said) = fed(script("summary"), log);
    assert!(output.status.success());
    assert!(said.contains("ok, 2 passed, 0 failed, 1 skipped, 0 ignored\n"), "{said}");
    assert!(said.contains("1 skipped, 0 ignored, 1 passed on retry\n"), "{said}");
    for line in ["  no device; untested: one", "passed on retry: device: four"] {
        assert!(said.contains(line), "{said}");
    }
    assert!(said.contains("  skipped in part: no ring; untested: two: io_uring"), "{said}");
}

#[test]
fn the_summary_ends_with_what_failed_unless_it_passed_on_retry() {
    let log = failed(Path::new("target/debug/deps/x-0123456789abcdef"));
    let (_, said) = fed(script("summary"), &log);
    assert!(said.ends_with("\nfailed: tests/x.rs: two\n"), "{said}");
    let (_, said) = fed(script("summary"), &format!("{log}passed on retry: x: two\n"));
    assert!(!said.contains("failed: "), "{said}");
    assert!(said.ends_with("\npassed on retry: x: two\n"), "{said}");
}
