//! Result of another program for the same load.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One run of another program, as it reported it: all jobs and directions together, without syncs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct WitnessRun {
    /// Name and version as the program reports them: `fio-3.33`.
    pub program: String,
    /// Operations completed.
    pub ops: u64,
    /// Operations per second: each direction over its own time, summed.
    pub iops: f64,
    /// Latency from before submission: midpoint of a bucket in ns, and its operations.
    pub latency: BTreeMap<u64, u64>,
}

impl WitnessRun {
    /// The nearest-rank quantile of the latency, ns; `None` where nothing was measured.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        let count: u64 = self.latency.values().sum();
        let rank = ((count as f64 * q).ceil() as u64).max(1);
        let mut below = 0;
        self.latency.iter().find_map(|(ns, ops)| {
            below += ops;
            (below >= rank).then_some(*ns)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_by_nearest_rank() {
        let latency = BTreeMap::from([(10, 98), (20, 1), (900, 1)]);
        let run = WitnessRun { latency, ..WitnessRun::default() };
        assert_eq!(run.quantile_ns(0.5), Some(10));
        assert_eq!(run.quantile_ns(0.99), Some(20));
        assert_eq!(run.quantile_ns(1.0), Some(900));
        assert_eq!(WitnessRun::default().quantile_ns(0.5), None);
    }
}
