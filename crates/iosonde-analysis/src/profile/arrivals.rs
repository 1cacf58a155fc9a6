//! The arrival process: regular, random, or bursty.

use serde::Serialize;

use iosonde_model::record::profile::{Class, Op, ProfileRun};
use iosonde_stats::Histogram;

/// Coefficient of variation of the inter-arrival times below which arrivals are regular, and at or
/// above which they are bursty: the classes of variability of Hopp and Spearman, *Factory Physics*,
/// chapter 8. A Poisson process has 1.
const REGULAR_BELOW: f64 = 0.75;
const BURSTY_FROM: f64 = 1.33;
/// Number of longest gaps that are excluded: pauses between the phases of a program.
const PAUSES: u64 = 3;
/// Fewest gaps for a meaningful coefficient of variation.
const GAPS: u64 = 30;

/// Arrivals of one kind of requests of one thread group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArrivalFigures {
    /// Kernel name of the disk.
    pub device: String,
    /// Name of the threads.
    pub group: String,
    pub class: Class,
    pub op: Op,
    /// Number of gaps between successive starts.
    pub gaps: u64,
    /// Arrivals per second while active: the inverse of the mean gap, without the longest three.
    pub per_s: f64,
    /// Standard deviation of the gaps over their mean.
    #[serde(rename = "gap_cv")]
    pub cv: f64,
    /// The kind of arrival process.
    pub process: Process,
}

iosonde_model::words! {
    /// A kind of arrival process.
    #[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Process {
        /// The gaps are about equal, as those of a closed loop on a steady device.
        Regular => "regular",
        /// Arrivals as from many independent sources.
        PoissonLike => "Poisson-like",
        /// Several at once, then a long pause.
        Bursty => "bursty",
    }
}

impl Process {
    fn of(cv: f64) -> Process {
        if cv < REGULAR_BELOW {
            Process::Regular
        } else if cv < BURSTY_FROM {
            Process::PoissonLike
        } else {
            Process::Bursty
        }
    }
}

/// Each kind of the program's reads and writes with enough gaps, the most frequent first.
pub(super) fn arrivals(run: &ProfileRun) -> Vec<ArrivalFigures> {
    let moved = run.traffic.iter().filter(|traffic| {
        traffic.class.is_of_the_program() && matches!(traffic.op, Op::Read | Op::Write)
    });
    let mut figures: Vec<ArrivalFigures> = moved
        .filter_map(|traffic| {
            let gaps = traffic.gaps.count();
            let (mean, cv) = mean_and_cv(&traffic.gaps).filter(|_| gaps >= GAPS)?;
            Some(ArrivalFigures {
                device: traffic.device.clone(),
                group: super::group_name(run, traffic.group),
                class: traffic.class,
                op: traffic.op,
                gaps,
                per_s: 1e9 / mean,
                cv,
                process: Process::of(cv),
            })
        })
        .collect();
    figures.sort_by_key(|each| std::cmp::Reverse(each.gaps));
    figures
}

/// Mean and coefficient of variation of all gaps but the longest three, to bucket accuracy.
fn mean_and_cv(gaps: &Histogram) -> Option<(f64, f64)> {
    let kept = gaps.count().saturating_sub(PAUSES);
    let (mut left, mut sum, mut squares) = (kept, 0.0, 0.0);
    for (gap, times) in gaps.midpoints() {
        let times = times.min(left);
        left -= times;
        sum += gap as f64 * times as f64;
        squares += (gap as f64).powi(2) * times as f64;
    }
    let mean = sum / kept.max(1) as f64;
    let variance = (squares / kept.max(1) as f64 - mean * mean).max(0.0);
    (mean > 0.0).then(|| (mean, variance.sqrt() / mean))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_fixtures::profile::{Flow, profile_of};

    fn process(gaps_ns: &[u64]) -> Option<Process> {
        let mut run = profile_of(&[Flow::default()]);
        let mut gaps = Histogram::new();
        gaps_ns.iter().for_each(|ns| gaps.record(*ns));
        run.traffic[0].gaps = gaps;
        arrivals(&run).first().map(|each| each.process)
    }

    #[test]
    fn even_random_and_bursty_arrivals_are_distinguished() {
        assert_eq!(process(&[1_000; 100]), Some(Process::Regular));
        // Quantiles of the exponential distribution, whose CV is 1.
        let exponential: Vec<u64> =
            (0..1_000).map(|i| (-1e6 * (1.0 - (f64::from(i) + 0.5) / 1e3).ln()) as u64).collect();
        assert_eq!(process(&exponential), Some(Process::PoissonLike));
        let bursts: Vec<u64> = (0..100).map(|i| if i % 10 == 0 { 1_000_000 } else { 10 }).collect();
        assert_eq!(process(&bursts), Some(Process::Bursty));
        assert_eq!(process(&[1_000; 29]), None);
        // A pause between two phases is not a burst.
        let mut paused = [1_000; 100];
        paused[50] = 1_000_000_000;
        assert_eq!(process(&paused), Some(Process::Regular));
    }

    #[test]
    fn the_rate_is_that_while_requests_came() {
        let figures = arrivals(&profile_of(&[Flow::default()]));
        assert!((figures[0].per_s - 5_000.0).abs() < 1.0 && figures[0].cv < 1e-3);
        assert_eq!(figures[0].group, "app");
    }
}
