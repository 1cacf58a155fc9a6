//! `throttled`: the program was blocked on I/O for much longer than requests were in flight.

use super::{Detect, Detector, Figures, Finding, Severity, percent};
use iosonde_model::record::profile::{Op, ProfileRun};

use super::super::traffic::{Tally, uses};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "throttled",
    meaning: "The program was blocked on I/O for much longer than requests were in flight.",
    method: "time blocked on I/O and time with requests in flight",
    action: "Look for a limit of its cgroup: io.max, or blkio.throttle.* of version 1.",
    subject: "I/O held before it becomes a request",
    severity: Severity::Limit,
    detect,
};

/// Smallest share of the time, beyond that in syncs, that a thread is blocked on average.
const BLOCKED: f64 = 0.3;
/// Multiple of the time with requests in flight that this share must reach.
const TIMES: f64 = 4.0;
/// Fewest requests to report.
const REQUESTS: u64 = 10;
/// Largest untraced share of the program's bytes: it may be blocked on these.
const UNTRACED: f64 = 0.1;
/// Untraced bytes that do not matter: the program's output, and its executable file.
const SLIGHT_BYTES: u64 = 4 << 20;

/// Compares the blocked time of the mean thread, which at least one thread reaches, with the sum of
/// the latencies of all requests on its devices: a thread may wait for requests of others, and
/// requests are in flight no longer than that sum. Syncs wait for more than requests.
fn detect(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    let own = figures.program.as_ref().filter(|own| own.requests() >= REQUESTS)?;
    let calls = run.calls?;
    let ways = [(Op::Read, calls.storage_read_bytes), (Op::Write, calls.storage_write_bytes)];
    let is_traced = |(op, moved): (Op, u64)| {
        let untraced = moved.saturating_sub(own.op(op).bytes);
        untraced <= SLIGHT_BYTES || untraced as f64 <= UNTRACED * moved as f64
    };
    if !ways.into_iter().all(is_traced) {
        return None;
    }
    let threads: u32 = run.groups.iter().map(|group| group.threads).sum();
    let blocked = figures.machine.program_io_delay? / f64::from(threads.max(1));
    let there = Tally::of(run.traffic.iter().filter(|each| uses(run, &each.device)));
    let latencies = there.queued.sum() + there.device_time.sum();
    let in_flight = latencies as f64 / run.measured_ns.max(1) as f64;
    let held = blocked - figures.waits.in_syncs.unwrap_or(0.0);
    if held < BLOCKED || held < TIMES * in_flight {
        return None;
    }
    let words = format!(
        "Its threads were blocked on I/O for {} of the time, but requests were in flight for {}: a \
         limit held its I/O before it became a request, or it waited for storage without a device.",
        percent(blocked),
        percent(in_flight),
    );
    let finding = DETECTOR.supported(words);
    Some(finding.with("blocked_time_share", blocked).with("in_flight_share", in_flight))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of, with_syncs};
    use iosonde_model::record::profile::{Class, SyncKind};

    #[test]
    fn time_blocked_without_requests_is_reported() {
        let few = Flow { requests: 400, ..Flow::default() };
        let mut run = profile_of(&[few]);
        run.io_delay_ns = None;
        assert_eq!(ask(detect, &run), None, "no delay accounting");
        run.io_delay_ns = Some(9_800_000_000);
        let message = words(detect, &run);
        let expected =
            "blocked on I/O for 98 % of the time, but requests were in flight for 0.400 %";
        assert!(message.contains(expected), "{message}");
        // Not reported with requests in flight, its own or others', in syncs, or on an untraced
        // device.
        let slow = Flow { device_ns: 20_000_000, ..few };
        let mut waits = profile_of(&[slow]);
        waits.io_delay_ns = run.io_delay_ns;
        assert_eq!(ask(detect, &waits), None);
        let others = Flow { class: Class::Other, requests: 50_000, ..few };
        let mut waits = profile_of(&[few, others]);
        waits.io_delay_ns = run.io_delay_ns;
        assert_eq!(ask(detect, &waits), None);
        let mut syncs = run.clone();
        with_syncs(&mut syncs, "app", SyncKind::Fsync, 100, 90_000_000);
        assert_eq!(ask(detect, &syncs), None);
        let mut elsewhere = run.clone();
        let calls = elsewhere.calls.as_mut();
        assert!(calls.map(|calls| calls.storage_read_bytes += 1 << 30).is_some());
        assert_eq!(ask(detect, &elsewhere), None);
        // One of eight threads always, or all of them an eighth of the time.
        let mut threads = profile_of(&[Flow { threads: 8, ..few }]);
        threads.io_delay_ns = run.io_delay_ns;
        assert_eq!(ask(detect, &threads), None);
    }
}
