//! What a job has to keep, which errors it survives, and its share of a common pace.

use serde::{Deserialize, Serialize};

use super::load::Rate;
use crate::units;

/// What ends a run as failed, and which errors do not.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    /// Lowest rate of reads.
    pub least_read: Option<Rate>,
    /// Lowest rate of writes.
    pub least_write: Option<Rate>,
    /// Lowest rate of trims.
    pub least_trim: Option<Rate>,
    /// Time over which a rate is taken, ns.
    #[serde(deserialize_with = "units::duration::deserialize")]
    pub least_over_ns: u64,
    /// Errors of reads that are counted and do not end the run, as Linux numbers them.
    pub ignored_read: Vec<i32>,
    /// The same of writes, trims and syncs.
    pub ignored_write: Vec<i32>,
    /// The same of data that is not what was written.
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

/// The share of a job in what the jobs of one flow do together.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Flow {
    /// Number of the flow.
    pub id: u64,
    /// Its operations relate to those of the others of this flow as its weight to theirs.
    pub weight: u32,
    /// A job that is ahead waits until nothing is in flight, and then so long, ns; 0 means until
    /// another job has done more.
    #[serde(default, deserialize_with = "units::duration::deserialize")]
    pub sleep_ns: u64,
}
