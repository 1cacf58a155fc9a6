//! What became of the verifier's own test: the mutation matrix.

use serde::Serialize;

/// What became of the simulations of one fault.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct MatrixRow {
    /// The fault, as typed.
    pub fault: &'static str,
    /// What had to come of it, in words.
    pub expected: &'static str,
    /// Simulations in which it struck.
    pub struck: u64,
    /// Of these, those in which it could be seen at the end: a later write may cover it.
    pub visible: u64,
    /// Of these, those in which every damaged block was found.
    pub detected: u64,
    /// Of these, those in which every one was given its right name.
    pub named: u64,
    /// Blocks that were found and were not damaged.
    pub false_alarms: u64,
    /// Seeds of simulations that did not come out right; the first few.
    pub wrong_seeds: Vec<u64>,
}

impl MatrixRow {
    /// Whether the fault was missed or called something else, or anything else was found.
    pub fn has_failed(&self) -> bool {
        self.detected < self.visible || self.named < self.visible || self.false_alarms > 0
    }
}

/// The mutation matrix.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Matrix {
    /// One row per fault.
    pub rows: Vec<MatrixRow>,
    /// Simulations without a fault.
    pub look_alikes: u64,
    /// Of these, those that raised an alarm.
    pub alarms: u64,
    /// Seeds of those; the first few.
    pub alarm_seeds: Vec<u64>,
    /// Operations of the long simulation without a fault.
    pub soak_ops: u64,
    /// Blocks that it checked.
    pub soak_checked: u64,
    /// Alarms that it raised.
    pub soak_alarms: u64,
}

impl Matrix {
    /// Simulations of a fault that could be seen.
    pub fn visible(&self) -> u64 {
        self.rows.iter().map(|row| row.visible).sum()
    }

    /// Whether every fault was found and rightly named, and nothing else was. A test of nothing
    /// proves nothing.
    pub fn is_clean(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(|row| row.visible > 0) && !self.has_failed()
    }

    /// Whether anything came out wrong so far.
    pub fn has_failed(&self) -> bool {
        self.rows.iter().any(MatrixRow::has_failed) || self.alarms > 0 || self.soak_alarms > 0
    }
}

/// One simulation, looked at closely.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Repetition {
    /// The fault with its place, as typed; `none` for a look-alike.
    pub fault: String,
    /// Seed of the simulation.
    pub seed: u64,
    /// What was simulated, in words.
    pub scene: String,
    /// Whether the fault struck.
    pub struck: bool,
    /// Whether there was something to be found.
    pub visible: bool,
    /// Whether all of it was found.
    pub detected: bool,
    /// Whether it was rightly named.
    pub named: bool,
    /// Blocks that were found and were not damaged.
    pub false_alarms: u64,
    /// Whether it came out right.
    pub right: bool,
    /// Blocks that were damaged or found, in ascending order.
    pub blocks: Vec<RepetitionBlock>,
}

#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct RepetitionBlock {
    /// First byte on the simulated target.
    pub offset: u64,
    /// If it is damaged, what it may be called.
    pub damaged: Vec<&'static str>,
    /// If it was found, what it was called.
    pub found: Option<&'static str>,
}
