//! The operations of one depth: only those submitted at it count, except the first ones.

use iosonde_stats::sequential::{Bin, Verdict, design_effect, fewest_without, wald};
use iosonde_stats::summary::{Summary, autocorrelation_time};

/// Width of an interval for the design effect, ns.
pub(super) const BIN_NS: u64 = 10_000_000;
/// Intervals kept before neighbours are merged.
const MAX_BINS: usize = 512;
/// Completions dropped at the start, in multiples of the depth. By Little's law they take three
/// mean latencies, in which the queue of the device settles.
const DROPPED_DEPTHS: u64 = 3;

/// Totals since the run began of operations that completed in the epoch of their submission.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(in crate::engine) struct Counts {
    /// Completed operations.
    pub ops: u64,
    /// Of those, slower than the limit.
    pub exceeded: u64,
}

impl Counts {
    fn since(self, before: Counts) -> Bin {
        Bin { ops: self.ops - before.ops, exceeded: self.exceeded - before.exceeded }
    }
}

/// Evidence from the operations of an epoch so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Evidence {
    /// Observed time, ns.
    pub span_ns: u64,
    /// Operations, and those slower than the limit.
    pub seen: Bin,
    /// Design effect, by which both are divided because slow operations come in clusters.
    pub effect: f64,
    /// Operations per second.
    pub iops: f64,
    /// Relative standard error of `iops`.
    pub iops_error: f64,
}

impl Evidence {
    /// Wald's sequential test against the allowed share.
    pub(super) fn verdict(&self, allowed: f64) -> Verdict {
        let Bin { ops, exceeded } = self.seen;
        wald(allowed, ops as f64 / self.effect, exceeded as f64 / self.effect)
    }

    /// Whether there are enough operations for a pass because not one was slow.
    pub(super) fn is_spotless(&self, allowed: f64) -> bool {
        self.seen.exceeded == 0 && self.seen.ops >= fewest_without(allowed)
    }
}

/// One depth, from the change to it until the next.
#[derive(Debug)]
pub(super) struct Epoch {
    /// Requests in flight, over all jobs.
    pub depth: u32,
    /// When the epoch began, ns.
    pub began_ns: u64,
    /// Completions still to be dropped; `None` when that is done.
    dropping: Option<u64>,
    /// Time and counts at which counting begins.
    base: (u64, Counts),
    /// Time and counts at the start of the current interval.
    last: (u64, Counts),
    bin_ns: u64,
    bins: Vec<Bin>,
}

impl Epoch {
    /// Begins at this depth; the first completions will be dropped.
    pub(super) fn begin(depth: u32, now_ns: u64, counts: Counts) -> Epoch {
        Epoch {
            depth,
            began_ns: now_ns,
            dropping: Some(DROPPED_DEPTHS * u64::from(depth)),
            base: (now_ns, counts),
            last: (now_ns, counts),
            bin_ns: BIN_NS,
            bins: Vec::with_capacity(MAX_BINS),
        }
    }

    /// Discards the evidence; the depth stays, so that nothing has to be dropped.
    pub(super) fn renew(&mut self, now_ns: u64, counts: Counts) {
        self.began_ns = now_ns;
        self.restart(now_ns, counts);
    }

    fn restart(&mut self, now_ns: u64, counts: Counts) {
        self.dropping = None;
        (self.base, self.last) = ((now_ns, counts), (now_ns, counts));
        self.bin_ns = BIN_NS;
        self.bins.clear();
    }

    /// Takes in the counts up to now.
    pub(super) fn add(&mut self, now_ns: u64, counts: Counts) {
        if let Some(drop) = self.dropping {
            if counts.since(self.base.1).ops >= drop {
                self.restart(now_ns, counts);
            }
            return;
        }
        if now_ns - self.last.0 < self.bin_ns {
            return;
        }
        self.bins.push(counts.since(self.last.1));
        self.last = (now_ns, counts);
        if self.bins.len() == MAX_BINS {
            let pair = |pair: &[Bin]| Bin {
                ops: pair.iter().map(|bin| bin.ops).sum(),
                exceeded: pair.iter().map(|bin| bin.exceeded).sum(),
            };
            self.bins = self.bins.chunks(2).map(pair).collect();
            self.bin_ns *= 2;
        }
    }

    /// Observed time so far, ns; 0 while completions are dropped.
    pub(super) fn span_ns(&self) -> u64 {
        self.last.0 - self.base.0
    }

    /// Evidence from the whole intervals.
    pub(super) fn evidence(&self) -> Evidence {
        let span_ns = self.span_ns();
        let seen = self.last.1.since(self.base.1);
        let iops = if span_ns == 0 { 0.0 } else { seen.ops as f64 * 1e9 / span_ns as f64 };
        let rates: Vec<f64> = self.bins.iter().map(|bin| bin.ops as f64).collect();
        let relative = Summary::of(&rates).and_then(|rates| rates.cv()).unwrap_or(0.0);
        let independent = rates.len() as f64 / autocorrelation_time(&rates);
        Evidence {
            span_ns,
            seen,
            effect: design_effect(&self.bins),
            iops,
            iops_error: relative / independent.max(1.0).sqrt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_completions_are_dropped_and_the_rest_is_counted() {
        let mut epoch = Epoch::begin(4, 0, Counts { ops: 100, exceeded: 9 });
        epoch.add(10_000_000, Counts { ops: 111, exceeded: 20 });
        assert_eq!(epoch.span_ns(), 0, "11 of 12 dropped");
        epoch.add(20_000_000, Counts { ops: 112, exceeded: 21 });
        for at in 1..=1_500u64 {
            let counts = Counts { ops: 112 + at, exceeded: 21 };
            epoch.add(20_000_000 + at * BIN_NS, counts);
        }
        let evidence = epoch.evidence();
        assert!(epoch.bins.len() < MAX_BINS);
        assert!((evidence.iops - 100.0).abs() < 1e-9, "{evidence:?}");
        assert_eq!(evidence.seen.exceeded, 0);
        assert_eq!(evidence.effect, 1.0);
        assert!(evidence.iops_error < 1e-9);
        assert_eq!(evidence.verdict(0.01), Verdict::Pass);
        assert!(evidence.is_spotless(0.01) && !evidence.is_spotless(0.001));
        epoch.renew(30_000_000_000, Counts { ops: 2_000, exceeded: 21 });
        assert_eq!(epoch.evidence().seen, Bin::default());
    }
}
