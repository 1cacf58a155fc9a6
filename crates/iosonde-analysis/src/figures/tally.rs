//! Figures of a direction, summed over jobs.

use super::{Cut, DirectionFigures, LatencyFigures};
use iosonde_model::record::run::DirectionRun;
use iosonde_stats::Histogram;
use iosonde_stats::dependent::{Batch, Loop, NoInterval};

/// Sums of one direction over jobs, after the cut.
#[derive(Clone, Default)]
pub(super) struct Tally {
    pub(super) ops: u64,
    bytes: u64,
    latency: Histogram,
    /// Whether any of it came from an open loop.
    open: bool,
    response: Histogram,
    lag: Histogram,
    slat: Histogram,
    clat: Histogram,
}

impl Tally {
    pub(super) fn of<'a>(directions: impl Iterator<Item = &'a DirectionRun>, cut: Cut) -> Tally {
        let mut tally = Tally::default();
        for direction in directions {
            tally.add(direction, cut.skip_ns);
        }
        tally
    }

    fn add(&mut self, direction: &DirectionRun, skip_ns: u64) {
        // Runs with these histograms are never cut.
        let is_open = direction.response.count() > 0;
        self.open |= is_open;
        // Next to an open loop, the latency of a closed loop counts as its response time.
        self.response.merge(if is_open { &direction.response } else { &direction.latency });
        self.lag.merge(&direction.lag);
        self.slat.merge(&direction.slat);
        self.clat.merge(&direction.clat);
        if skip_ns == 0 {
            self.ops += direction.ops;
            self.bytes += direction.bytes;
            self.latency.merge(&direction.latency);
            return;
        }
        let counters = &direction.counters;
        let skipped = intervals(skip_ns, counters.width_ns);
        let early = |counts: &[u64]| counts.iter().take(skipped).sum::<u64>();
        self.ops += direction.ops.saturating_sub(early(&counters.ops));
        self.bytes += direction.bytes.saturating_sub(early(&counters.bytes));
        let skipped = intervals(skip_ns, direction.latencies.width_ns);
        let series = &direction.latencies;
        for (interval, exact) in series.intervals.iter().zip(&series.exact).skip(skipped) {
            self.latency.merge(&Histogram::from_interval(interval, *exact));
        }
    }

    pub(super) fn merge(&mut self, other: &Tally) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.latency.merge(&other.latency);
        self.open |= other.open;
        self.response.merge(&other.response);
        self.lag.merge(&other.lag);
        self.slat.merge(&other.slat);
        self.clat.merge(&other.clat);
    }

    pub(super) fn figures(
        &self,
        cut: Cut,
        batches: &Result<Vec<Batch>, NoInterval>,
    ) -> DirectionFigures {
        let batches = batches.as_deref().map_err(|reason| *reason);
        let (open, apart) = (self.open, self.slat.count() > 0);
        let latency = if open { &self.response } else { &self.latency };
        let (done, latency) = ((self.ops, self.bytes), (latency, Loop::from(open)));
        DirectionFigures {
            service: open.then(|| LatencyFigures::of(&self.latency)),
            lag: open.then(|| LatencyFigures::of(&self.lag)),
            slat: apart.then(|| LatencyFigures::of(&self.slat)),
            clat: apart.then(|| LatencyFigures::of(&self.clat)),
            ..DirectionFigures::of_window(done, cut.window_ns, latency, batches)
        }
    }
}

/// Intervals of this width that begin before `skip_ns`.
fn intervals(skip_ns: u64, width_ns: u64) -> usize {
    if width_ns == 0 { 0 } else { usize::try_from(skip_ns.div_ceil(width_ns)).unwrap_or(0) }
}
