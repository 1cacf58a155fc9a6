//! Limits that fail a run: the longest operation, and the lowest rate of each kind of operation,
//! like fio's `rate_min`: checked after two seconds, over periods of a given length.

use super::job::JobLoop;
use super::tally::Tally;
use crate::backend::Queue;
use iosonde_model::plan::{IoKind, Limits, Rate};
use iosonde_model::units::duration;

/// No rate is required for this long after the window opens, ns.
const SETTLE_NS: u64 = 2_000_000_000;

/// Watches the rates of one job.
#[derive(Debug)]
pub(super) struct Least {
    over_ns: u64,
    ways: Vec<Way>,
}

/// One kind of operation with a lowest rate.
#[derive(Debug)]
struct Way {
    way: IoKind,
    rate: Rate,
    /// When the current period began, ns, and the count at that time.
    since: Option<(u64, u64)>,
}

impl Least {
    pub(super) fn new(limits: &Limits) -> Least {
        let ways = [
            (IoKind::Read, limits.least_read),
            (IoKind::Write, limits.least_write),
            (IoKind::Trim, limits.least_trim),
        ];
        let way =
            |(way, rate): (IoKind, Option<Rate>)| rate.map(|rate| Way { way, rate, since: None });
        Least { over_ns: limits.least_over_ns, ways: ways.into_iter().filter_map(way).collect() }
    }

    /// The rate missed in a period that has just ended; the window opened at `open_ns`.
    fn missed(&mut self, tally: &Tally, open_ns: u64, now_ns: u64) -> Option<String> {
        if self.ways.is_empty() || now_ns < open_ns.saturating_add(SETTLE_NS) {
            return None;
        }
        let over_ns = self.over_ns;
        self.ways.iter_mut().find_map(|way| way.missed(tally, over_ns, now_ns))
    }
}

impl<Q: Queue> JobLoop<'_, Q> {
    /// Ends the run if an operation exceeded the largest latency, or a rate was too low.
    pub(super) fn fail_if_slow(&mut self, now_ns: u64) {
        let open_ns = self.requests.tally.window().open_ns;
        let missed = match self.stopping_since_ns {
            None => self.least.missed(&self.requests.tally, open_ns, now_ns),
            Some(_) => None,
        };
        if let Some(missed) = missed {
            self.requests.control.fail(missed);
        }
        let most_ns = self.job.span.most_latency_ns;
        let slowest_ns = if most_ns == 0 { 0 } else { self.requests.tally.slowest_ns() };
        if slowest_ns > most_ns {
            self.requests.control.fail(format!(
                "an operation took {}, and max_latency is {}",
                duration::span(slowest_ns),
                duration::span(most_ns)
            ));
        }
    }
}

impl Way {
    fn missed(&mut self, tally: &Tally, over_ns: u64, now_ns: u64) -> Option<String> {
        let (ops, bytes) = tally.counted(self.way);
        let (done, least, unit, name) = match self.rate {
            Rate::Ops(least) => (ops, least, "operations/s", "rate_iops_min"),
            Rate::Bytes(least) => (bytes, least, "B/s", "rate_min"),
        };
        let missed = match self.since {
            Some((since_ns, _)) if now_ns - since_ns < over_ns => return None,
            Some((since_ns, before)) => {
                let rate = (done - before) as f64 * 1e9 / (now_ns - since_ns) as f64;
                (rate < least).then(|| {
                    format!(
                        "{name}: {} at {rate:.0} {unit}, and {least} are the least",
                        self.way.word()
                    )
                })
            }
            None => None,
        };
        self.since = Some((now_ns, done));
        missed
    }
}
