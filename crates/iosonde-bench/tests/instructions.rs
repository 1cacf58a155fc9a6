//! An operation costs the release binary no more instructions than the committed count. The count
//! is callgrind's, so it does not depend on the load of the machine.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests; the count is shown")]

use std::path::Path;
use std::process::Command;

use iosonde_rig::skip;

#[test]
fn an_operation_takes_no_more_instructions_than_committed() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // Next to the directory of this test binary, `target/debug/deps`.
    let own = std::env::current_exe().unwrap();
    let binary = own.ancestors().nth(3).unwrap().join("release/iosonde");
    if !binary.exists() {
        return skip("the release binary is not built; run `cargo build --release` first");
    }
    let mut bench = Command::new(env!("CARGO_BIN_EXE_iosonde-bench"));
    bench.arg("instructions").arg("--iosonde").arg(binary);
    bench.arg("--gate").arg(workspace.join("benches/instructions.toml"));
    let ended = bench.output().unwrap();
    let (said, why) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    if let Some(reason) = said.strip_prefix("skipped: ") {
        return skip(reason);
    }
    eprintln!("{said}");
    assert!(ended.status.success(), "{said}{why}");
    assert!(said.contains("committed: "), "{said}{why}");
}
