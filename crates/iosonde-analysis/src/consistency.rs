//! Consistency checks: identities that hold in every sound measurement.
//!
//! Little's law, bytes = operations x size, and histogram counts = operations hold by construction:
//! if one fails, the run is INVALID and has no headline figures. The others are cross-checks
//! against device counters, another clock, or physics; if one fails, the result remains valid with
//! a note.

mod count;
mod device;
mod little;
mod time;

use serde::Serialize;

use iosonde_model::record::run::Run;
use iosonde_model::units::count::{significant, thousands};

use super::figures::Figures;

pub(crate) use device::{moved_bytes, ours as our_bytes, work as device_work};
pub(crate) use little::shows_depth;
pub(crate) use time::window_ns;

/// All identities of a run that could be evaluated.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Consistency {
    /// The identities in the order of evaluation.
    pub entries: Vec<Identity>,
}

/// One identity with this run's numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Identity {
    /// Short name (`little`, `depth`, `bytes`, …).
    pub code: &'static str,
    /// The equation as text, with its numbers: a left side, a sign of [`SIGNS`], a right side.
    pub equation: String,
    /// Relative difference of the two sides; for one-sided checks by how much the bound is passed.
    pub residual: f64,
    /// Largest residual accepted.
    pub tolerance: f64,
    /// Whether it holds.
    pub ok: bool,
    /// Consequence if it fails.
    pub severity: Severity,
    /// Whether the term named by the equation explains the difference.
    #[serde(skip)]
    pub explained: bool,
}

/// Consequence of a failed identity.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The measurement is inconsistent: no headline figures.
    Invalid,
    /// The result is valid, with a note.
    Note,
}

impl Consistency {
    /// Whether no identity of severity [`Severity::Invalid`] fails.
    pub fn valid(&self) -> bool {
        self.broken().all(|entry| entry.severity != Severity::Invalid)
    }

    /// The identities that fail.
    pub fn broken(&self) -> impl Iterator<Item = &Identity> {
        self.entries.iter().filter(|entry| !entry.ok)
    }

    /// The failed identity with this code.
    pub fn broken_code(&self, code: &str) -> Option<&Identity> {
        self.broken().find(|entry| entry.code == code)
    }
}

/// Sign of an equation, and its words for the right side.
const SIGNS: [(&str, &str); 4] =
    [(" = ", ""), (" >= ", "at least "), (" <= ", "at most "), (" > ", "more than ")];

impl Identity {
    /// Found and expected value of a failed identity.
    pub fn words(&self) -> String {
        let first = SIGNS.iter().filter_map(|sign| Some((self.equation.find(sign.0)?, sign)));
        let Some((at, (sign, word))) = first.min_by_key(|(at, _)| *at) else {
            return self.equation.clone();
        };
        let (found, expected) = (&self.equation[..at], &self.equation[at + sign.len()..]);
        format!("{found}, expected {word}{expected}")
    }

    /// An identity that holds if `residual <= tolerance`; a NaN does not hold.
    pub(crate) fn new(
        code: &'static str,
        severity: Severity,
        residual: f64,
        tolerance: f64,
        equation: String,
    ) -> Identity {
        let ok = residual <= tolerance;
        Identity { code, equation, residual, tolerance, ok, severity, explained: false }
    }
}

/// Evaluates every identity whose terms this run has.
pub fn consistency(run: &Run, figures: &Figures) -> Consistency {
    let mut entries = Vec::new();
    entries.extend(little::little(run));
    entries.extend(little::depth(run, figures));
    entries.push(count::bytes(run));
    entries.push(count::histogram(run));
    entries.push(count::mean(run));
    entries.push(count::intervals(run));
    entries.extend(count::region(run));
    entries.extend(device::transfers(run));
    entries.extend(device::queue(run));
    entries.extend(time::latency(run));
    entries.push(time::drift(run));
    entries.push(time::suspended(run));
    entries.extend(time::cpu(run));
    entries.extend(time::bandwidth(run, figures));
    entries.extend(time::floor(run, figures));
    Consistency { entries }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn a_consistent_run_balances() {
        let run = run_of(&[Load { jobs: 4, ..Load::default() }]);
        let consistency = consistency(&run, &figures(&run));
        assert_eq!(consistency.broken().collect::<Vec<_>>(), Vec::<&Identity>::new());
        assert!(consistency.valid());
        assert!(consistency.entries.len() >= 10);
    }

    #[test]
    fn what_fails_says_what_was_found_and_what_was_expected() {
        let words = |equation: &str| {
            Identity::new("depth", Severity::Note, 1.0, 0.0, equation.to_owned()).words()
        };
        assert_eq!(
            words("mean queue depth 2.44 >= requested depth 16.0"),
            "mean queue depth 2.44, expected at least requested depth 16.0"
        );
        assert_eq!(words("a 1 = b 2 + c = 3"), "a 1, expected b 2 + c = 3");
        assert_eq!(
            words("smallest latency 0 ns > 0"),
            "smallest latency 0 ns, expected more than 0"
        );
        assert_eq!(words("nothing"), "nothing");
    }

    #[test]
    fn the_consistency_checks_of_the_published_samples_fail() {
        // Published: 3,694 operations/s at 0.54 ms with 32 in flight. Little says 2.
        let mut run = run_of(&[Load { iops: 3_694.0, ..Load::default() }]);
        run.jobs[0].read.latency = iosonde_stats::Histogram::new();
        let ops = run.jobs[0].read.ops;
        run.jobs[0].read.latency.record_many(540_000, ops);
        let consistency = consistency(&run, &figures(&run));
        assert!(!consistency.valid());
        assert_eq!(
            consistency.broken_code("little").map(|entry| entry.severity),
            Some(Severity::Invalid)
        );
    }
}
