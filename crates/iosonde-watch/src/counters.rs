//! The kernel's accounting of processes, summed over a changing process tree.
//!
//! A process that has waited for a child is charged with the child's counts. So the sum over
//! running processes includes those that have ended, if a process of the tree waited for them.

use std::collections::BTreeMap;

use super::privilege;
use super::processes::{self, Process};
use iosonde_bpf::WAITS;
use iosonde_engine::host::Root;
use iosonde_model::record::profile::{CallCounts, Missing};
use iosonde_model::record::run::ProcessUse;

/// Data that is missing if `/proc/PID/io` is not readable.
pub(super) const CALLS: &str = "read and write calls";

/// Whether the kernel accounts I/O waits of each thread (delay accounting).
pub(super) fn accounts_delays(root: &Root) -> bool {
    root.number::<u8>("/proc/sys/kernel/task_delayacct") == Some(1)
}

/// Seven figures of `CallCounts`, then user and system ticks.
type Charge = [u64; 9];

/// All processes seen, each with its first and last charge.
#[derive(Debug)]
pub(super) struct Tally {
    members: BTreeMap<(u32, u64), Member>,
    /// Ticks since boot at the start: later processes start at zero.
    began_ticks: u64,
    /// Whether the kernel accounts delays.
    delays: bool,
    /// Whether the delays of every thread are read each time, not only when its process is new.
    pub(super) reads_threads: bool,
    /// Whether context switches are wanted, which requires reading every thread.
    switches: bool,
}

#[derive(Debug, Default)]
struct Member {
    parent: u32,
    first: Charge,
    last: Charge,
    first_switches: (u64, u64),
    last_switches: (u64, u64),
    peak_rss_bytes: u64,
    /// First and last delays of each thread.
    delays: BTreeMap<u32, (Delays, Delays)>,
    lives: bool,
    /// Whether its calls could be read at least once.
    is_readable: bool,
}

/// Waiting time of a thread since its start; `None` if the kernel does not account it.
#[derive(Clone, Copy, Debug, Default)]
struct Delays {
    /// For block I/O, ticks.
    block: Option<u64>,
    /// For a CPU, ns.
    run: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Charged {
    pub(super) calls: Option<CallCounts>,
    /// Everything except the span.
    pub(super) cpu: ProcessUse,
    pub(super) io_delay_ns: Option<u64>,
    pub(super) run_delay_ns: Option<u64>,
    pub(super) missing: Vec<Missing>,
}

impl Tally {
    /// `began_ns` is on CLOCK_BOOTTIME.
    pub(super) fn new(root: &Root, began_ns: u64, switches: bool) -> Tally {
        let delays = accounts_delays(root);
        let began_ticks = began_ns / tick_ns();
        Tally { members: BTreeMap::new(), began_ticks, delays, reads_threads: delays, switches }
    }

    /// Samples these processes, and treats all others seen before as ended.
    pub(super) fn look(&mut self, root: &Root, pids: impl IntoIterator<Item = u32>) {
        for member in self.members.values_mut() {
            member.lives = false;
        }
        for process in pids.into_iter().filter_map(|pid| processes::process(root, pid)) {
            self.look_at(root, process);
        }
    }

    fn look_at(&mut self, root: &Root, process: Process) {
        let Process { pid, parent, started, .. } = process;
        let key = (pid, started);
        let is_new = !self.members.contains_key(&key);
        let calls = processes::calls(root, pid);
        let was_here = started < self.began_ticks;
        let member = self.members.entry(key).or_default();
        (member.parent, member.lives) = (parent, true);
        let [.., user, system] = &mut member.last;
        (*user, *system) = (process.user, process.system);
        if let Some(calls) = calls {
            member.know(&calls);
        }
        // `/proc` shows no thread figures of an ended thread group.
        if self.switches && !process.is_zombie {
            let (voluntary, involuntary, peak) = processes::switches_and_peak(root, pid);
            member.last_switches = (voluntary, involuntary);
            member.peak_rss_bytes = member.peak_rss_bytes.max(peak);
        }
        let are_read = is_new || self.reads_threads;
        for tid in if are_read { processes::threads(root, pid) } else { Vec::new() } {
            let now = Delays {
                block: self.delays.then(|| processes::block_delay(root, pid, tid)).flatten(),
                run: processes::run_delay(root, pid, tid),
            };
            let first = if is_new && was_here { now } else { Delays::default() };
            let (_, last) = member.delays.entry(tid).or_insert((first, now));
            // A thread that has just ended keeps its last figures.
            *last = Delays { block: now.block.or(last.block), run: now.run.or(last.run) };
        }
        if is_new && was_here {
            member.first = member.last;
            member.first_switches = member.last_switches;
        }
    }

    /// Sets the final counts of a process that has just been reaped.
    pub(super) fn charge(&mut self, pid: u32, calls: &CallCounts) {
        if let Some((_, member)) = self.members.range_mut((pid, 0)..=(pid, u64::MAX)).next_back() {
            member.know(calls);
        }
    }

    /// The totals since the start.
    pub(super) fn sums(&self) -> Charged {
        let is_member = |pid: u32| self.members.range((pid, 0)..=(pid, u64::MAX)).next().is_some();
        let mut sums = [0i128; 9];
        let (mut voluntary, mut involuntary, mut peak) = (0u64, 0u64, 0u64);
        for member in self.members.values() {
            // A process whose parent was in the tree has become part of the parent's charge.
            let counts = member.lives || !is_member(member.parent);
            for (sum, (first, last)) in sums.iter_mut().zip(member.first.iter().zip(member.last)) {
                *sum += if counts { i128::from(last) } else { 0 } - i128::from(*first);
            }
            voluntary += member.last_switches.0.saturating_sub(member.first_switches.0);
            involuntary += member.last_switches.1.saturating_sub(member.first_switches.1);
            peak = peak.max(member.peak_rss_bytes);
        }
        let sums = sums.map(|sum| u64::try_from(sum).unwrap_or(0));
        let readable = self.members.values().any(|member| member.is_readable);
        Charged {
            calls: readable.then(|| calls(&sums)),
            cpu: ProcessUse {
                span_ns: 0,
                cpu_user_ns: sums[7].saturating_mul(tick_ns()),
                cpu_system_ns: sums[8].saturating_mul(tick_ns()),
                voluntary_switches: voluntary,
                involuntary_switches: involuntary,
                max_rss_bytes: peak,
            },
            io_delay_ns: self
                .delays
                .then(|| self.delay(|delays| delays.block).unwrap_or(0).saturating_mul(tick_ns())),
            run_delay_ns: self.delay(|delays| delays.run),
            missing: self.missing(),
        }
    }

    /// Waiting time of all threads since the start; `None` if it is known for none.
    fn delay(&self, of: fn(&Delays) -> Option<u64>) -> Option<u64> {
        let threads = self.members.values().flat_map(|member| member.delays.values());
        let each = threads
            .filter_map(|(first, last)| Some(of(last)?.saturating_sub(of(first).unwrap_or(0))));
        each.reduce(|sum, more| sum + more)
    }

    fn missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        let unreadable = self.members.values().filter(|member| !member.is_readable).count();
        if unreadable > 0 {
            missing.push(Missing {
                what: CALLS.into(),
                reason: format!(
                    "/proc/PID/io of {unreadable} of {} processes may not be read by this user",
                    self.members.len()
                ),
                fix: Some(privilege::FIX_FOR_OTHERS.into()),
            });
        }
        if !self.delays {
            missing.push(Missing {
                what: WAITS.into(),
                reason: "the kernel does not account delays (kernel.task_delayacct is not 1)"
                    .into(),
                fix: Some("as root: sysctl kernel.task_delayacct=1, before the start".into()),
            });
        }
        missing
    }
}

impl Member {
    fn know(&mut self, calls: &CallCounts) {
        self.is_readable = true;
        self.last[..7].copy_from_slice(&figures(calls));
    }
}

fn figures(calls: &CallCounts) -> [u64; 7] {
    [
        calls.reads,
        calls.writes,
        calls.read_bytes,
        calls.written_bytes,
        calls.storage_read_bytes,
        calls.storage_write_bytes,
        calls.cancelled_bytes,
    ]
}

fn calls(sums: &Charge) -> CallCounts {
    CallCounts {
        reads: sums[0],
        writes: sums[1],
        read_bytes: sums[2],
        written_bytes: sums[3],
        storage_read_bytes: sums[4],
        storage_write_bytes: sums[5],
        cancelled_bytes: sums[6],
    }
}

/// Unit of times in `/proc`, ns.
fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fs;
    use std::path::Path;

    use super::*;

    /// A process of a recorded `/proc`: `value` is each of its I/O figures and its user ticks.
    fn record(dir: &Path, pid: u32, parent: u32, started: u64, value: u64) {
        let place = dir.join(format!("proc/{pid}"));
        let thread = place.join(format!("task/{pid}"));
        fs::create_dir_all(&thread).unwrap();
        let stat = format!(
            "{pid} (x y) S {parent} 0 0 0 0 0 0 0 0 0 {value} 0 0 0 20 0 1 0 {started} 0 0 0 0 0 0 \
             0 0 0 0 0 0 0 0 0 17 1 0 0 {value} 0"
        );
        fs::write(place.join("stat"), &stat).unwrap();
        fs::write(thread.join("stat"), &stat).unwrap();
        fs::write(thread.join("schedstat"), format!("1 {value} 1\n")).unwrap();
        let io = ["rchar", "wchar", "syscr", "syscw"].map(|name| format!("{name}: {value}\n"));
        let more = format!("read_bytes: {value}\nwrite_bytes: {value}\n");
        let cancelled = format!("cancelled_write_bytes: {value}\n");
        fs::write(place.join("io"), io.concat() + &more + &cancelled).unwrap();
        let status = format!(
            "VmHWM:\t{value} kB\nvoluntary_ctxt_switches:\t{value}\n\
             nonvoluntary_ctxt_switches:\t{value}\n"
        );
        fs::write(thread.join("status"), status).unwrap();
    }

    fn machine() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("proc/sys/kernel")).unwrap();
        fs::write(dir.path().join("proc/sys/kernel/task_delayacct"), "1\n").unwrap();
        let root = Root::at(dir.path());
        (dir, root)
    }

    const LATER: u64 = 1 << 40;

    #[test]
    fn a_child_that_was_waited_for_is_in_its_parent_and_counted_once() {
        let (dir, root) = machine();
        let mut tally = Tally::new(&root, 0, false);
        record(dir.path(), 10, 1, LATER, 5);
        record(dir.path(), 11, 10, LATER, 100);
        tally.look(&root, [10, 11]);
        assert_eq!(tally.sums().calls.unwrap().reads, 105);
        // 10 waits for 11, which had done 120 by then.
        record(dir.path(), 10, 1, LATER, 126);
        tally.look(&root, [10]);
        let charged = tally.sums();
        assert_eq!(charged.calls.unwrap().reads, 126);
        assert_eq!(charged.cpu.cpu_user_ns, 126 * tick_ns());
    }

    #[test]
    fn an_orphan_keeps_what_was_last_seen() {
        let (dir, root) = machine();
        let mut tally = Tally::new(&root, 0, false);
        record(dir.path(), 10, 1, LATER, 5);
        record(dir.path(), 11, 1, LATER, 100);
        tally.look(&root, [10, 11]);
        record(dir.path(), 10, 1, LATER, 7);
        tally.look(&root, [10]);
        assert_eq!(tally.sums().calls.unwrap().storage_write_bytes, 107);
    }

    #[test]
    fn what_was_before_does_not_count() {
        let (dir, root) = machine();
        let mut tally = Tally::new(&root, u64::MAX, true);
        record(dir.path(), 10, 1, 50, 1000);
        record(dir.path(), 11, 10, 60, 300);
        tally.look(&root, [10, 11]);
        assert_eq!(tally.sums().calls.unwrap(), CallCounts::default());
        // 11 does 20 more and is waited for: 10 gets all its 320.
        record(dir.path(), 10, 1, 50, 1000 + 320 + 3);
        tally.look(&root, [10]);
        let charged = tally.sums();
        assert_eq!(charged.calls.unwrap().written_bytes, 23);
        assert_eq!(charged.cpu.voluntary_switches, 323);
        assert_eq!(charged.io_delay_ns, Some(323 * tick_ns()));
        assert_eq!(charged.run_delay_ns, Some(323));
    }

    #[test]
    fn a_thread_that_ends_while_it_is_looked_at_keeps_its_delays() {
        let (dir, root) = machine();
        let mut tally = Tally::new(&root, 0, false);
        record(dir.path(), 10, 1, LATER, 7);
        tally.look(&root, [10]);
        tally.reads_threads = true;
        for name in ["stat", "schedstat"] {
            fs::remove_file(dir.path().join("proc/10/task/10").join(name)).unwrap();
        }
        tally.look(&root, [10]);
        let charged = tally.sums();
        assert_eq!((charged.io_delay_ns, charged.run_delay_ns), (Some(7 * tick_ns()), Some(7)));
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let (dir, root) = machine();
        let mut tally = Tally::new(&root, 0, false);
        record(dir.path(), 10, 1, LATER, 40);
        tally.look(&root, [10]);
        record(dir.path(), 10, 1, LATER + 1, 2);
        tally.look(&root, [10]);
        assert_eq!(tally.sums().calls.unwrap().writes, 42);
    }

    #[test]
    fn the_last_word_is_that_of_the_reaping() {
        let (dir, root) = machine();
        let mut tally = Tally::new(&root, 0, false);
        record(dir.path(), 10, 1, LATER, 4);
        tally.look(&root, [10]);
        tally.charge(10, &CallCounts { reads: 9, ..CallCounts::default() });
        assert_eq!(tally.sums().calls.unwrap().reads, 9);
        tally.charge(11, &CallCounts::default());
        assert_eq!(tally.sums().calls.unwrap().reads, 9);
    }

    #[test]
    fn what_may_not_be_read_is_missing_and_not_zero() {
        let (dir, root) = machine();
        fs::write(dir.path().join("proc/sys/kernel/task_delayacct"), "0\n").unwrap();
        record(dir.path(), 10, 1, LATER, 40);
        fs::remove_file(dir.path().join("proc/10/io")).unwrap();
        let mut tally = Tally::new(&root, 0, false);
        tally.look(&root, [10]);
        let charged = tally.sums();
        assert_eq!((charged.calls, charged.io_delay_ns), (None, None));
        assert_eq!(charged.run_delay_ns, Some(40));
        // Nearly every kernel accounts this one.
        fs::remove_file(dir.path().join("proc/10/task/10/schedstat")).unwrap();
        let mut tally = Tally::new(&root, 0, false);
        tally.look(&root, [10]);
        assert_eq!(tally.sums().run_delay_ns, None);
        let whats: Vec<&str> = charged.missing.iter().map(|each| each.what.as_str()).collect();
        let expected = ["read and write calls", "time the program waited for block I/O"];
        assert_eq!(whats, expected);
        assert!(charged.missing[0].reason.contains("1 of 1 processes"));
    }
}
