//! A program that is runnable without a CPU waits for the CPU, not for its storage.

use std::process::{Child, Command};

use iosonde_model::record::stacks::StackKind;

use super::{disk, has, merged, own, profile, traffic};
use crate::request::turn;

/// A process that never gives up the CPU; killed on drop.
struct Busy(Child);

impl Busy {
    fn new() -> Busy {
        let line = ["-c", "0", "sh", "-c", "while :; do :; done"];
        Busy(Command::new("taskset").args(line).spawn().unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_wait_for_io_ends_with_the_request_and_not_when_there_is_a_cpu() {
    let _turn = turn();
    let Some(mount) = (has("dd") && has("taskset")).then(disk).flatten() else { return };
    std::fs::write(mount.path().join("file"), vec![1; 4 << 20]).unwrap();
    let _busy = [Busy::new(), Busy::new()];
    // It wakes up on a CPU whose other tasks have priority.
    let line = "taskset -c 0 nice -n 19 dd if=file of=/dev/null bs=4k count=300 iflag=direct";
    let profile = profile(mount.device(), mount.path(), line).option("--stacks");
    let Some(run) = profile.seen() else { return };
    let requests = merged(&traffic(&run, own), |kind| &kind.latency);
    assert!(requests.count() >= 300, "{requests:?}");
    // Margin for a machine that stalls now and then.
    let most_ns = requests.sum() as u64 * 3 / 2 + 50_000_000;
    let blocked_ns = run.io_delay_ns.unwrap();
    assert!((1..most_ns).contains(&blocked_ns), "{blocked_ns} of {most_ns}");
    let ready_ns = run.run_delay_ns.unwrap();
    assert!(ready_ns > 4 * most_ns, "{ready_ns} without a CPU, {most_ns} waiting at most");
    assert!(ready_ns < 2 * run.measured_ns, "{ready_ns} in {}", run.measured_ns);
    let reads = run.stacks.iter().filter(|stack| {
        let reads = stack.kernel.iter().any(|name| name.contains("file_read_iter"));
        stack.kind == StackKind::Wait && stack.thread == "dd" && reads
    });
    let waited_ns: u64 = reads.map(|stack| stack.amount).sum();
    assert!((1..most_ns).contains(&waited_ns), "{waited_ns} of {most_ns}");
}
