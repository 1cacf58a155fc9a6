//! Result of the verifier's self-test: the mutation matrix.

use serde::Serialize;

/// Results of the simulations of one fault.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct MatrixRow {
    /// The fault, as typed.
    pub fault: &'static str,
    /// The required result, in words.
    pub expected: &'static str,
    /// Simulations in which the fault occurred.
    pub struck: u64,
    /// Of these, simulations with visible damage at the end: a later write may hide it.
    pub visible: u64,
    /// Of these, simulations in which every damaged block was found.
    pub detected: u64,
    /// Of these, simulations in which every block was classified correctly.
    pub named: u64,
    /// Blocks that were reported but not damaged.
    pub false_alarms: u64,
    /// Seeds of simulations with a wrong result; the first few.
    pub wrong_seeds: Vec<u64>,
}

impl MatrixRow {
    /// Whether the fault was missed or misclassified, or there was a false alarm.
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
    /// Simulations of a fault with visible damage.
    pub fn visible(&self) -> u64 {
        self.rows.iter().map(|row| row.visible).sum()
    }

    /// Whether every fault was found and classified correctly, without false alarms. A fault
    /// without visible damage proves nothing.
    pub fn is_clean(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(|row| row.visible > 0) && !self.has_failed()
    }

    /// Whether any result is wrong so far.
    pub fn has_failed(&self) -> bool {
        self.rows.iter().any(MatrixRow::has_failed) || self.alarms > 0 || self.soak_alarms > 0
    }
}

/// One simulation in detail.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Repetition {
    /// The fault with its place, as typed; `none` for a look-alike.
    pub fault: String,
    /// Seed of the simulation.
    pub seed: u64,
    /// What was simulated, in words.
    pub scene: String,
    /// Whether the fault occurred.
    pub struck: bool,
    /// Whether there was visible damage.
    pub visible: bool,
    /// Whether all of it was found.
    pub detected: bool,
    /// Whether it was classified correctly.
    pub named: bool,
    /// Blocks that were reported but not damaged.
    pub false_alarms: u64,
    /// Whether the result is right.
    pub right: bool,
    /// Blocks that were damaged or reported, in ascending order.
    pub blocks: Vec<RepetitionBlock>,
}

#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct RepetitionBlock {
    /// First byte on the simulated target.
    pub offset: u64,
    /// If it is damaged, its correct classes.
    pub damaged: Vec<&'static str>,
    /// If it was reported, its class.
    pub found: Option<&'static str>,
}
