//! How well a rate is known.

use iosonde_stats::dependent::{self, Batch, NoInterval};

/// The interval of a rate; and where its batches are too few for one, what half of it would be,
/// about, as a share of the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RateInterval {
    pub(crate) interval: Option<Result<(f64, f64), NoInterval>>,
    pub(crate) scatter: Option<f64>,
}

impl RateInterval {
    /// Of `ops` operations, `iops` per second; the window may be a little longer than its batches.
    pub(crate) fn of(ops: u64, iops: f64, batches: Result<&[Batch], NoInterval>) -> RateInterval {
        let rate = batches.and_then(dependent::rate);
        let bounds = rate.map(|rate| dependent::Ratio { value: iops, ..rate }.bounds());
        let too_few = batches.ok().filter(|_| rate.is_err());
        RateInterval {
            interval: (ops > 0).then_some(bounds),
            scatter: too_few.map(dependent::scatter_of_rate),
        }
    }
}
