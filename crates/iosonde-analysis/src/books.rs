//! Do the books balance? Identities that a sound measurement cannot break.
//!
//! Little's law, bytes = operations x size, and histogram counts = operations hold by construction:
//! where one fails, the run is INVALID and gets no headline. The others compare us with a second
//! witness (device counters, another clock, physics); where one fails, the result stands with a
//! note.

mod count;
mod device;
mod little;
mod time;

use serde::Serialize;

use iosonde_model::record::run::Run;

use super::figures::Figures;

pub(crate) use device::{ours as our_bytes, work as device_work};
pub(crate) use time::window_ns;

/// All identities of a run that could be judged.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Books {
    /// In the order in which they were judged.
    pub entries: Vec<Identity>,
}

/// One equation with this run's numbers in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Identity {
    /// Short name (`little`, `depth`, `bytes`, …).
    pub code: &'static str,
    /// The equation in words and numbers.
    pub equation: String,
    /// Relative difference of the two sides; for one-sided checks by how much the bound is passed.
    pub residual: f64,
    /// Largest residual accepted.
    pub tolerance: f64,
    /// Whether it holds.
    pub ok: bool,
    /// What follows where it does not.
    pub gravity: Gravity,
}

/// What follows from an identity that fails.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Gravity {
    /// The measurement contradicts itself: no headline.
    Invalid,
    /// The result stands, with a note.
    Note,
}

impl Books {
    /// Whether no grave identity fails.
    pub fn valid(&self) -> bool {
        self.broken().all(|entry| entry.gravity != Gravity::Invalid)
    }

    /// The identities that fail.
    pub fn broken(&self) -> impl Iterator<Item = &Identity> {
        self.entries.iter().filter(|entry| !entry.ok)
    }

    /// An identity that fails, by code.
    pub fn broken_code(&self, code: &str) -> Option<&Identity> {
        self.broken().find(|entry| entry.code == code)
    }
}

impl Identity {
    /// An identity that holds if `residual <= tolerance`; a NaN does not hold.
    fn new(
        code: &'static str,
        gravity: Gravity,
        residual: f64,
        tolerance: f64,
        equation: String,
    ) -> Identity {
        Identity { code, equation, residual, tolerance, ok: residual <= tolerance, gravity }
    }
}

/// Judges every identity that this run has the terms for.
pub fn books(run: &Run, figures: &Figures) -> Books {
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
    Books { entries }
}

/// Number with three significant digits.
fn n3(value: f64) -> String {
    iosonde_model::units::count::significant(value)
}

/// Count with separators.
fn count_of(number: u64) -> String {
    iosonde_model::units::count::thousands(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn a_consistent_run_balances() {
        let run = run_of(&[Load { jobs: 4, ..Load::default() }]);
        let books = books(&run, &figures(&run));
        assert_eq!(books.broken().collect::<Vec<_>>(), Vec::<&Identity>::new());
        assert!(books.valid());
        assert!(books.entries.len() >= 10);
    }

    #[test]
    fn the_books_of_the_published_samples_do_not_balance() {
        // Published: 3,694 operations/s at 0.54 ms with 32 in flight. Little says 2.
        let mut run = run_of(&[Load { iops: 3_694.0, ..Load::default() }]);
        run.jobs[0].read.latency = iosonde_stats::Histogram::new();
        let ops = run.jobs[0].read.ops;
        run.jobs[0].read.latency.record_many(540_000, ops);
        let books = books(&run, &figures(&run));
        assert!(!books.valid());
        assert_eq!(books.broken_code("little").map(|entry| entry.gravity), Some(Gravity::Invalid));
    }
}
