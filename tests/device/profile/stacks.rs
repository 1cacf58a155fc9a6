//! Stacks: every request has one, and a wait of known length is found at its origin.

use iosonde_model::record::stacks::{StackKind, StackRun};

use super::{MIB, bytes, disk, group, has, own, profile, traffic, writes};
use crate::request::turn;

#[test]
fn requests_and_waits_have_their_stacks() {
    let _turn = turn();
    let Some(mount) = has("dd").then(disk).flatten() else { return };
    let script = "dd if=/dev/zero of=file bs=64k count=128 oflag=direct; sleep 1";
    let asked = profile(mount.device(), mount.path(), script).option("--stacks");
    let Some(run) = asked.seen() else { return };
    let of = |kind: StackKind, thread: &str| -> Vec<&StackRun> {
        let all = run.stacks.iter();
        all.filter(|stack| stack.kind == kind && stack.thread == thread).collect()
    };
    let written = traffic(&run, |kind| writes(kind) && own(kind) && group(&run, kind) == "dd");
    assert_eq!(bytes(&written), 8 * MIB);
    let requests = of(StackKind::Request, "dd");
    let amount: u64 = requests.iter().map(|stack| stack.amount).sum();
    // The same threads also read metadata of the file system.
    let all = bytes(&traffic(&run, |kind| own(kind) && group(&run, kind) == "dd"));
    assert!((8 * MIB..=all).contains(&amount), "{amount} of {all}: {requests:?}");
    for stack in requests {
        assert!(stack.kernel.iter().any(|name| name.contains("submit_bio")), "{stack:?}");
        assert!(!stack.kernel.iter().any(|name| name.contains("bpf")), "{stack:?}");
    }
    let naps = of(StackKind::Wait, "sleep");
    let slept_ns: u64 = naps
        .iter()
        .filter(|stack| stack.kernel.iter().any(|name| name.contains("nanosleep")))
        .map(|stack| stack.amount)
        .sum();
    assert!((1_000_000_000..3_000_000_000).contains(&slept_ns), "{naps:?}");
    assert!(naps.iter().any(|stack| !stack.user.is_empty()), "{naps:?}");
}
