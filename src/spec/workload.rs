//! A workload as asked: defaults open, sizes in words, threads in shares.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units;

/// A load, as a user or a catalogue file words it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Workload {
    /// Short identifier, lower case, used on the command line (`kv-store`).
    pub name: String,
    /// Name as printed in tables (`KV-Store`).
    pub title: String,
    /// A few words on the access pattern, as printed in tables (`append+rand read`).
    pub pattern: String,
    /// What real application this stands for, one or two sentences.
    #[serde(default)]
    pub models: String,
    /// Nominal size of one operation; a role may have its own.
    #[serde(deserialize_with = "units::bytes::deserialize")]
    pub block_size: u64,
    /// Nominal share of reads, percent of operations, `0..=100`.
    pub read_percent: u8,
    /// Who does what. At least one.
    #[serde(rename = "role")]
    pub roles: Vec<Role>,
}

/// One kind of thread within a workload.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Role {
    /// Name of the role, unique within the workload (`append`).
    pub name: String,
    /// Direction and order of the operations.
    pub rw: Rw,
    /// How many threads play it.
    #[serde(default)]
    pub threads: Threads,
    /// Size of one operation; the workload's nominal size if absent.
    #[serde(default, deserialize_with = "units::bytes::deserialize_option")]
    pub block_size: Option<u64>,
    /// Percentage of reads in a mixed role, `0..=100`; the workload's nominal share if absent.
    #[serde(default)]
    pub read_percent: Option<u8>,
    /// Requests kept in flight by each thread; the run's default if absent.
    #[serde(default)]
    pub iodepth: Option<u32>,
    /// Whether the threads share the region or divide it.
    #[serde(default)]
    pub region: Region,
    /// Where a sequential stream begins.
    #[serde(default)]
    pub start: Start,
    /// How random offsets are drawn.
    #[serde(default)]
    pub access: Access,
}

/// Direction and order, in fio's words.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rw {
    /// Random reads.
    RandRead,
    /// Random reads and writes.
    RandRw,
    /// Random writes.
    RandWrite,
    /// Sequential reads.
    Read,
    /// Sequential reads and writes.
    Rw,
    /// Sequential writes.
    Write,
}

impl Rw {
    /// Every word accepted, in the order the help prints them.
    pub const WORDS: [(&'static str, Rw); 8] = [
        ("read", Rw::Read),
        ("write", Rw::Write),
        ("randread", Rw::RandRead),
        ("randwrite", Rw::RandWrite),
        ("rw", Rw::Rw),
        ("readwrite", Rw::Rw),
        ("randrw", Rw::RandRw),
        ("randreadwrite", Rw::RandRw),
    ];

    /// Whether offsets are drawn at random.
    pub fn is_random(self) -> bool {
        matches!(self, Rw::RandRead | Rw::RandRw | Rw::RandWrite)
    }

    /// Share of reads in percent; `mix` applies to the mixed words only.
    pub fn read_percent(self, mix: u8) -> u8 {
        match self {
            Rw::Read | Rw::RandRead => 100,
            Rw::Write | Rw::RandWrite => 0,
            Rw::Rw | Rw::RandRw => mix,
        }
    }

    /// The canonical word.
    pub fn word(self) -> &'static str {
        match self {
            Rw::RandRead => "randread",
            Rw::RandRw => "randrw",
            Rw::RandWrite => "randwrite",
            Rw::Read => "read",
            Rw::Rw => "rw",
            Rw::Write => "write",
        }
    }
}

impl fmt::Display for Rw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// How many threads play a role, before the number of CPUs is known.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Threads {
    /// One thread per allowed CPU.
    #[default]
    PerCpu,
    /// Exactly this many.
    Count(u32),
    /// Whatever the roles before and after leave of one thread per CPU; at least one.
    Rest,
    /// This percentage of one thread per CPU; at least one.
    Percent(u8),
}

/// How the threads of a role divide the target.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Region {
    /// Every thread works on the whole region.
    #[default]
    Shared,
    /// Each thread has an equal, disjoint part.
    Partitioned,
}

/// Where a sequential stream begins within its region.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// At the beginning.
    #[default]
    Zero,
    /// At an aligned offset drawn from the seed.
    Random,
}

/// How random offsets are drawn.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// A seeded permutation: every block once before any block twice.
    #[default]
    Permutation,
    /// Independent uniform draws: blocks may repeat.
    Uniform,
}
