//! The walk-through of fio-tests, verb for verb, as `tests/walkthrough.sh` goes through it: on a
//! loop device, with the batches counted that reach the kernel.

use std::path::Path;
use std::process::Command;

use iosonde_rig::{default_signals_for_children, skip, skip_part};

#[test]
fn the_walk_through_of_fio_tests_is_gone_through_verb_for_verb() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/walkthrough.sh");
    default_signals_for_children();
    let ended = Command::new("bash").arg(script).arg(env!("CARGO_BIN_EXE_iosonde")).output();
    let ended = ended.unwrap();
    let [out, err] = [&ended.stdout, &ended.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(ended.status.success(), "{out}{err}");
    let skipped = |line: &str| line.strip_prefix("skipped: ").map(str::to_owned);
    let reasons: Vec<String> = out.lines().filter_map(skipped).collect();
    if let Some(reason) = reasons.iter().find(|reason| reason.starts_with("the walk-through")) {
        return skip(reason);
    }
    for reason in reasons {
        skip_part("the walk-through", reason);
    }
    assert!(out.contains("walk-through complete"), "{out}{err}");
    for verb in ["menuconfig", "campaign export fio", "check", "dryrun", "run", "ssv", "graph"] {
        assert!(out.lines().any(|line| line.starts_with("== ") && line.contains(verb)), "{verb}");
    }
    // None of the batches is larger than what was requested, where strace could count them.
    assert!(out.contains("most frequent: ") || out.contains("skipped: counting"), "{out}");
}
