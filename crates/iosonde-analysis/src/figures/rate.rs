//! Rate of a direction in a window, and its confidence interval.

use super::{DirectionFigures, LatencyFigures};
use iosonde_stats::Histogram;
use iosonde_stats::dependent::{self, Batches, Loop};

impl DirectionFigures {
    /// The figures that every job records; the others are `None`.
    pub(crate) fn of_window(
        (ops, bytes): (u64, u64),
        window_ns: u64,
        (latency, of_loop): (&Histogram, Loop),
        batches: Batches<'_>,
    ) -> DirectionFigures {
        let per_second = |count: u64| match window_ns {
            0 => 0.0,
            window_ns => count as f64 * 1e9 / window_ns as f64,
        };
        let iops = per_second(ops);
        let rate = batches.and_then(dependent::rate);
        let bounds = rate.map(|rate| dependent::Ratio { value: iops, ..rate }.bounds());
        let too_few = batches.ok().filter(|_| rate.is_err());
        DirectionFigures {
            ops,
            bytes,
            iops,
            iops_interval: (ops > 0).then_some(bounds),
            iops_scatter: too_few.map(dependent::scatter_of_rate),
            bytes_per_s: per_second(bytes),
            latency: LatencyFigures::over_time(latency, of_loop, batches),
            service: None,
            lag: None,
            slat: None,
            clat: None,
        }
    }
}
