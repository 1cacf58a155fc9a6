//! Comparison with the figures that another program measures.

use serde::Serialize;

use super::figures::figures;
use super::series;
use iosonde_model::record::WitnessRun;
use iosonde_model::record::run::Run;
use iosonde_stats::Ratio;
use iosonde_stats::ratio::ROUNDS_FOR_INTERVAL;

/// Ratios that differ from one by no more than this share count as equal.
pub const TOLERANCE: f64 = 0.05;

/// The measurements of both programs in one round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CrossRound {
    pub ours: Seen,
    /// The other program's measurement.
    pub theirs: Seen,
}

/// The measurement of one program, all data operations together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Seen {
    /// Operations per second.
    pub iops: f64,
    /// Median latency from before submission, ns.
    pub p50_ns: Option<u64>,
    /// 99th percentile of that latency, ns.
    pub p99_ns: Option<u64>,
}

/// Whether both programs agree.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// The whole interval lies within [`TOLERANCE`] of one.
    Agrees,
    /// The interval excludes one, and the ratio is further away than [`TOLERANCE`].
    Differs,
    /// The interval is too wide for either, or there is none.
    Undecided,
}

/// One load as we and another program measured it; ratios are ours over theirs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CrossCheck {
    /// Title of the workload.
    pub title: String,
    /// Name and version of the other program: `fio-3.33`.
    pub witness: String,
    /// Completed rounds, in order; the other program went first in every second one.
    pub rounds: Vec<CrossRound>,
    /// Ratio of the operations per second.
    pub iops: Option<Ratio>,
    /// Ratio of the median latencies: information, not part of the verdict.
    pub p50: Option<Ratio>,
    /// Ratio of the 99th percentiles: likewise.
    pub p99: Option<Ratio>,
    /// The verdict; `None` without a ratio.
    pub agreement: Option<Agreement>,
    /// Why there is no ratio, or fewer rounds than requested.
    pub missing: Option<String>,
}

/// Evaluates rounds; `missing` is the reason why there are none or fewer than requested.
pub fn cross_check<'a>(
    title: &str,
    witness: &str,
    rounds: impl IntoIterator<Item = (&'a Run, &'a WitnessRun)>,
    missing: Option<String>,
) -> CrossCheck {
    let rounds: Vec<CrossRound> = rounds
        .into_iter()
        .map(|(ours, theirs)| CrossRound { ours: seen(ours), theirs: witnessed(theirs) })
        .collect();
    let ratio = |of: &dyn Fn(&Seen) -> Option<f64>| {
        let pair = |round: &CrossRound| of(&round.ours).zip(of(&round.theirs));
        Ratio::in_rounds(&rounds.iter().map(pair).collect::<Option<Vec<_>>>()?)
    };
    let iops = ratio(&|seen| Some(seen.iops));
    let p50 = ratio(&|seen| seen.p50_ns.map(|ns| ns as f64));
    let p99 = ratio(&|seen| seen.p99_ns.map(|ns| ns as f64));
    CrossCheck {
        title: title.into(),
        witness: witness.into(),
        iops,
        p50,
        p99,
        agreement: iops.as_ref().map(judge),
        missing,
        rounds,
    }
}

fn judge(ratio: &Ratio) -> Agreement {
    let Some((low, high)) = ratio.interval else { return Agreement::Undecided };
    let (least, most) = (1.0 / (1.0 + TOLERANCE), 1.0 + TOLERANCE);
    if least <= low && high <= most {
        Agreement::Agrees
    } else if (low > 1.0 || high < 1.0) && !(least..=most).contains(&ratio.median) {
        Agreement::Differs
    } else {
        Agreement::Undecided
    }
}

/// Our run by the rules of the other program: the whole window, with no additional warm-up removed.
fn seen(run: &Run) -> Seen {
    let ops: u64 = run.jobs.iter().map(series::data_ops).sum();
    let latency = figures(run).all.total.latency;
    Seen {
        iops: ops as f64 * 1e9 / run.measured_ns.max(1) as f64,
        p50_ns: latency.at(0.5),
        p99_ns: latency.at(0.99),
    }
}

fn witnessed(run: &WitnessRun) -> Seen {
    Seen { iops: run.iops, p50_ns: run.quantile_ns(0.5), p99_ns: run.quantile_ns(0.99) }
}

impl CrossCheck {
    /// The result as text.
    pub fn words(&self) -> String {
        let witness = self.witness.replacen('-', " ", 1);
        let Some((ratio, agreement)) = self.iops.zip(self.agreement) else {
            let reason = self.missing.as_deref().unwrap_or("one of the two counted nothing");
            return format!("{witness}: n/a ({reason})");
        };
        let formatted = match ratio.interval {
            Some((low, high)) => format!("ratio {:.2} [{low:.2}, {high:.2}]", ratio.median),
            None => format!("ratio {:.2}, no 95 % interval", ratio.median),
        };
        let rounds =
            if ratio.rounds == 1 { "1 round" } else { &format!("{} rounds", ratio.rounds) };
        let verdict = match (agreement, ratio.interval) {
            (Agreement::Agrees, _) => "agrees",
            (Agreement::Differs, _) => "differs",
            (Agreement::Undecided, Some(_)) => "is inconclusive",
            (Agreement::Undecided, None) => "has no verdict",
        };
        let mut words = format!("{witness} {verdict}: {formatted} over {rounds}");
        if agreement == Agreement::Undecided {
            words.push_str(&match ratio.interval {
                Some(_) => "; more rounds (--cross-check-rounds) narrow the interval".to_string(),
                None => format!("; {ROUNDS_FOR_INTERVAL} rounds are the minimum for an interval"),
            });
        }
        if let Some(reason) = &self.missing {
            words.push_str(&format!("; ended early: {reason}"));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::collections::BTreeMap;

    use super::*;
    use iosonde_fixtures::{Load, run_of};

    fn checked(ratios: &[f64]) -> CrossCheck {
        let run = run_of(&[Load { noise: 0.0, iops: 1000.0, ..Load::default() }]);
        let iops = seen(&run).iops;
        let fio = |ratio: &f64| WitnessRun {
            program: "fio-3.33".into(),
            ops: 100,
            iops: iops / ratio,
            latency: BTreeMap::from([(1000, 100)]),
        };
        let theirs: Vec<WitnessRun> = ratios.iter().map(fio).collect();
        cross_check("T", "fio-3.33", theirs.iter().map(|theirs| (&run, theirs)), None)
    }

    #[test]
    fn agreement_needs_the_whole_interval() {
        let agrees = checked(&[1.01, 1.0, 1.02, 1.04, 0.98, 1.01]);
        assert_eq!(agrees.agreement, Some(Agreement::Agrees));
        assert_eq!(agrees.words(), "fio 3.33 agrees: ratio 1.01 [0.98, 1.04] over 6 rounds");
        let differs = checked(&[1.4, 1.38, 1.5, 1.41, 1.39, 1.42]);
        assert_eq!(differs.agreement, Some(Agreement::Differs));
        assert!(differs.words().starts_with("fio 3.33 differs: ratio 1.40 [1.38, 1.50]"));
        // An interval that is too wide, or a real difference that does not matter.
        for ratios in [[0.8, 1.0, 1.2, 1.0, 1.1, 0.9], [1.02, 1.03, 1.06, 1.02, 1.03, 1.04]] {
            assert_eq!(checked(&ratios).agreement, Some(Agreement::Undecided), "{ratios:?}");
        }
    }

    #[test]
    fn few_rounds_are_not_judged() {
        let few = checked(&[1.0; 5]);
        assert_eq!(few.agreement, Some(Agreement::Undecided));
        assert!(few.words().contains("6 rounds are the minimum"), "{}", few.words());
        let none = cross_check("T", "fio-3.33", [], Some("the sim engine".into()));
        assert_eq!(none.words(), "fio 3.33: n/a (the sim engine)");
        assert_eq!(none.agreement, None);
    }
}
