//! Limits of a job: least rates, tolerated errors, and its share of a common pace.

use serde::{Deserialize, Serialize};

use super::load::Rate;
use crate::units;

/// Rates below which a run fails, and errors that do not end it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    /// Lowest rate of reads.
    pub least_read: Option<Rate>,
    /// Lowest rate of writes.
    pub least_write: Option<Rate>,
    /// Lowest rate of trims.
    pub least_trim: Option<Rate>,
    /// Interval over which a rate is measured, ns.
    #[serde(deserialize_with = "units::duration::deserialize")]
    pub least_over_ns: u64,
    /// Error numbers of reads that are counted but do not end the run.
    pub ignored_read: Vec<i32>,
    /// Error numbers of writes, trims and syncs that are counted but do not end the run.
    pub ignored_write: Vec<i32>,
    /// Error numbers of verification that are counted but do not end the run.
    pub ignored_verify: Vec<i32>,
}

impl Limits {
    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        *self == Limits::default()
    }

    /// Whether any error is ignored.
    pub fn ignores_some(&self) -> bool {
        let lists = [&self.ignored_read, &self.ignored_write, &self.ignored_verify];
        lists.iter().any(|list| !list.is_empty())
    }
}

/// The share of a job in the operations of one flow.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Flow {
    pub id: u64,
    /// The jobs of a flow share its operations in proportion to their weights.
    pub weight: u32,
    /// A job that is ahead waits until nothing is in flight, and then this long, ns; 0 means until
    /// another job has done more.
    #[serde(default, deserialize_with = "units::duration::deserialize")]
    pub sleep_ns: u64,
}
