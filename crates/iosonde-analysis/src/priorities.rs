//! Figures of the requests of each priority.

use serde::Serialize;

use super::document;
use super::figures::LatencyFigures;
use super::intervals::DIRECTIONS;
use iosonde_model::record::run::{PriorityRun, Run};
use iosonde_model::spec::Priority;

/// Reads or writes of one priority.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PriorityFigures {
    /// `read` or `write`.
    pub direction: &'static str,
    /// Class as in ioprio_set(2); 0 if the requests have the class of their thread.
    pub class: u8,
    /// Level within the class.
    pub level: u8,
    /// Hint for the device; 0 is none.
    pub hint: u16,
    /// Their share of the requests of this direction, percent.
    pub percent: f64,
    /// Latency from before submission to after reaping.
    #[serde(rename = "latency_ns", serialize_with = "document::percentiles")]
    pub latency: LatencyFigures,
}

/// Adds the requests of other jobs to those of the same priority.
pub fn merge(sums: &mut Vec<PriorityRun>, more: &[PriorityRun]) {
    for run in more {
        match sums.iter_mut().find(|sum| sum.priority == run.priority) {
            Some(sum) => sum.latency.merge(&run.latency),
            None => sums.push(run.clone()),
        }
    }
    sums.sort_by_key(|sum| sum.priority);
}

/// Sums over the jobs, for each priority with requests.
pub(super) fn priorities(run: &Run) -> Vec<PriorityFigures> {
    let mut found = Vec::new();
    for (direction, of) in DIRECTIONS {
        let mut sums = Vec::new();
        run.jobs.iter().for_each(|job| merge(&mut sums, &of(job).priorities));
        let all: u64 = sums.iter().map(|sum| sum.latency.count()).sum();
        let figures = |PriorityRun { priority, latency }: &PriorityRun| {
            let (class, level, hint) = Priority::parts(*priority);
            let percent = latency.count() as f64 * 100.0 / all.max(1) as f64;
            let latency = LatencyFigures::of(latency);
            PriorityFigures { direction, class, level, hint, percent, latency }
        };
        found.extend(sums.iter().filter(|sum| sum.latency.count() > 0).map(figures));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_stats::Histogram;

    #[test]
    fn jobs_are_summed_by_priority() {
        let mut run = run_of(&[Load { jobs: 2, ..Load::default() }]);
        let of = |priority, latency_ns, times| {
            let mut latency = Histogram::new();
            latency.record_many(latency_ns, times);
            PriorityRun { priority, latency }
        };
        run.jobs[0].read.priorities = vec![of(0, 1_000, 30), of(0x2003, 500, 10)];
        run.jobs[1].read.priorities = vec![of(0, 3_000, 30), of(0x6000, 900, 30)];
        let found = priorities(&run);
        let words: Vec<_> = found.iter().map(|f| (f.class, f.level, f.percent)).collect();
        assert_eq!(words, [(0, 0, 60.0), (1, 3, 10.0), (3, 0, 30.0)]);
        assert_eq!(found[0].latency.count, 60);
        assert!(found.iter().all(|figures| figures.direction == "read"));
        assert!(priorities(&run_of(&[Load::default()])).is_empty());
    }
}
