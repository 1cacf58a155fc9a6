//! A workload as requested: defaults unset, sizes as text, threads as shares.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::commit::Commit;
use super::engine::Engine;
use super::limits::{Flow, Limits};
use super::listed::Listed;
use super::load::{
    Data, EachWrite, Pace, Phase, Placement, Reap, Sequence, Service, Sizes, Span, Strides, Sync,
    Think, Zone,
};
use super::priority::Priorities;
use crate::units;

/// A load as a user or a catalogue file describes it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Workload {
    /// Short identifier, lower case, used on the command line (`kv-store`).
    pub name: String,
    /// Name as printed in tables (`KV-Store`).
    pub title: String,
    /// A few words on the access pattern, as printed in tables (`append+rand read`).
    pub pattern: String,
    /// The real application that this models, in one or two sentences.
    #[serde(default)]
    pub models: String,
    /// Nominal size of one operation; a role may override it.
    #[serde(deserialize_with = "units::bytes::deserialize")]
    pub block_size: u64,
    /// Nominal share of reads, percent of operations, `0..=100`.
    pub read_percent: u8,
    /// The kinds of threads; at least one.
    #[serde(rename = "role")]
    pub roles: Vec<Role>,
}

/// Suffix of the title of a durable variant.
pub const DURABLE: &str = " +D";

impl Workload {
    /// Whether any role writes.
    pub fn writes(&self) -> bool {
        self.roles.iter().any(|role| role.rw.writes())
    }

    /// The same load with every write durable before it completes.
    pub fn durable(&self) -> Workload {
        let mut durable = self.clone();
        durable.name.push_str("-durable");
        durable.title.push_str(DURABLE);
        for role in durable.roles.iter_mut().filter(|role| role.rw.writes()) {
            role.sync.each_write = EachWrite::Dsync;
        }
        durable
    }
}

/// One kind of thread within a workload.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Role {
    /// Name of the role, unique within the workload (`append`).
    pub name: String,
    /// Direction and order of the operations.
    pub rw: Rw,
    /// Number of threads.
    #[serde(default)]
    pub threads: Threads,
    /// Size of one operation; the workload's nominal size if absent.
    #[serde(default, deserialize_with = "units::bytes::deserialize_option")]
    pub block_size: Option<u64>,
    /// Percentage of reads in a mixed role, `0..=100`; the workload's nominal share if absent.
    pub read_percent: Option<u8>,
    /// Requests kept in flight by each thread; the run's default if absent.
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
    /// Share of a random role's operations whose offset is drawn, percent; each of the others
    /// begins where the previous one ended. All if absent.
    pub random_percent: Option<f64>,
    /// Indexes of the run's targets that it uses, from 0; empty means all.
    #[serde(default)]
    pub targets: Vec<u16>,
    /// Start of its region, relative to the start of the run's region.
    #[serde(default, deserialize_with = "units::bytes::deserialize_option")]
    pub offset: Option<u64>,
    /// Length of its region; the rest of the run's region if absent.
    #[serde(default, deserialize_with = "units::bytes::deserialize_option")]
    pub size: Option<u64>,
    /// Distance between the regions of neighbouring threads; 0 if absent.
    #[serde(default, deserialize_with = "units::bytes::deserialize_option")]
    pub offset_increment: Option<u64>,
    /// Distribution of block sizes; by default every operation has the block size.
    #[serde(default)]
    pub sizes: Sizes,
    /// Grid of random offsets; the smallest block size if absent.
    #[serde(default, deserialize_with = "units::bytes::deserialize_option")]
    pub block_align: Option<u64>,
    /// Distance between the starts of successive sequential operations, bytes; negative for
    /// descending. Contiguous if absent.
    pub stride: Option<i64>,
    /// When operations are due.
    #[serde(default)]
    pub pace: Pace,
    /// Pause of a thread after a number of operations.
    #[serde(default)]
    pub think: Think,
    /// Time phases that a thread repeats in a cycle.
    #[serde(default, rename = "phase")]
    pub phases: Vec<Phase>,
    /// When written data is made durable.
    #[serde(default)]
    pub sync: Sync,
    /// Content of the written data.
    #[serde(default)]
    pub data: Data,
    /// Most requests per submission; chosen by depth if absent.
    pub batch: Option<u32>,
    /// How completions are waited for.
    #[serde(default)]
    pub reap: Reap,
    /// CPU, memory and priority placement of its threads.
    #[serde(default)]
    pub place: Placement,
    /// I/O priorities of single requests.
    #[serde(default)]
    pub priorities: Priorities,
    /// Its own engine, if the roles of a workload use different ones.
    pub engine: Option<Engine>,
    /// Start and end of its threads, if they differ from those of the run.
    #[serde(default)]
    pub span: Span,
    /// How a thread selects the next target.
    #[serde(default)]
    pub service: Service,
    /// Zones of a strided walk, if any.
    #[serde(default)]
    pub strides: Strides,
    /// Operations per run of random offsets. The first offset is drawn; the others follow it or,
    /// with `run-repeats`, repeat it.
    pub run_length: Option<u64>,
    /// Whether all operations of such a run have the same offset.
    #[serde(default)]
    pub run_repeats: bool,
    /// Limits that it must keep, and the errors that it tolerates.
    #[serde(default)]
    pub limits: Limits,
    /// Its share of a common pace.
    pub flow: Option<Flow>,
    /// Its part in commits.
    pub commit: Option<Commit>,
    /// Its own seed.
    pub seed: Option<u64>,
    /// Operations to repeat one by one instead of drawing them; the role ends with the last.
    #[serde(default)]
    pub listed: Vec<Listed>,
}

impl Role {
    /// Sets another pace and keeps the syncs per write: the writes of a burst count as one.
    pub fn set_pace(&mut self, pace: Pace) {
        let writes_each = self.pace.burst_length() / pace.burst_length();
        let every = self.sync.every_writes;
        self.sync.every_writes =
            ((every as f64 * writes_each).round() as u64).max(u64::from(every > 0));
        self.pace = pace;
    }

    /// Whether it uses this target of the run.
    pub(crate) fn uses(&self, target: u16) -> bool {
        self.targets.is_empty() || self.targets.contains(&target)
    }

    /// A role of one thread with this name, direction and order, and defaults for the rest.
    pub fn new(name: &str, rw: Rw) -> Role {
        Role { name: name.into(), rw, threads: Threads::Count(1), ..Role::default() }
    }
}

/// Direction and order, in fio's terms.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rw {
    /// Random reads.
    #[default]
    RandRead,
    /// Random reads and writes.
    RandRw,
    /// Random trims.
    RandTrim,
    /// Random writes.
    RandWrite,
    /// Sequential reads.
    Read,
    /// Sequential reads and writes.
    Rw,
    /// Sequential trims.
    Trim,
    /// Sequential trims, each followed by a write of the same block.
    TrimWrite,
    /// Random trims, each followed by a write of the same block.
    RandTrimWrite,
    /// Sequential writes.
    Write,
}

impl Rw {
    /// Every accepted word, in the order of the help text; of synonyms, the canonical one is first.
    pub const WORDS: [(&'static str, Rw); 12] = [
        ("read", Rw::Read),
        ("write", Rw::Write),
        ("randread", Rw::RandRead),
        ("randwrite", Rw::RandWrite),
        ("rw", Rw::Rw),
        ("readwrite", Rw::Rw),
        ("randrw", Rw::RandRw),
        ("randreadwrite", Rw::RandRw),
        ("trim", Rw::Trim),
        ("randtrim", Rw::RandTrim),
        ("trimwrite", Rw::TrimWrite),
        ("randtrimwrite", Rw::RandTrimWrite),
    ];

    /// Whether offsets are drawn at random.
    pub fn is_random(self) -> bool {
        use Rw::{RandRead, RandRw, RandTrim, RandTrimWrite, RandWrite};
        matches!(self, RandRead | RandRw | RandWrite | RandTrim | RandTrimWrite)
    }

    /// Share of reads in percent; `mix` applies only to the mixed kinds.
    pub fn read_percent(self, mix: u8) -> u8 {
        match self {
            Rw::Read | Rw::RandRead => 100,
            Rw::Write | Rw::RandWrite | Rw::Trim | Rw::RandTrim => 0,
            Rw::TrimWrite | Rw::RandTrimWrite => 0,
            Rw::Rw | Rw::RandRw => mix,
        }
    }

    /// Whether any operation writes.
    pub fn writes(self) -> bool {
        !matches!(self, Rw::Read | Rw::RandRead | Rw::Trim | Rw::RandTrim)
    }

    /// Whether operations other than reads are trims instead of writes.
    pub fn trims(self) -> bool {
        matches!(self, Rw::Trim | Rw::RandTrim) || self.rewrites()
    }

    /// Whether each trim is followed by a write of the same block.
    pub fn rewrites(self) -> bool {
        matches!(self, Rw::TrimWrite | Rw::RandTrimWrite)
    }

    /// Whether reads and writes are mixed.
    pub fn is_mixed(self) -> bool {
        matches!(self, Rw::Rw | Rw::RandRw)
    }

    /// The canonical word.
    pub fn word(self) -> &'static str {
        Rw::WORDS.iter().find(|(_, rw)| *rw == self).map_or("", |(word, _)| word)
    }
}

impl fmt::Display for Rw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Number of threads of a role, before the number of CPUs is known.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Threads {
    /// One thread per allowed CPU.
    #[default]
    PerCpu,
    /// Exactly this many.
    Count(u32),
    /// One thread per CPU, less those of roles with a fixed count; at least one.
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
    /// Every thread works on the whole region, and sequential streams begin at equal distances.
    Staggered,
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
    /// At the last offset before it wraps.
    Last,
}

/// How random offsets are drawn.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// A seeded permutation: every block once before any block repeats.
    #[default]
    Permutation,
    /// Operations of several sizes, every byte once before any repeats: each begins at the first
    /// free block after a random one and ends before the next used one, as with fio's random map.
    RandomMap,
    /// Independent uniform draws: blocks may repeat.
    Uniform,
    /// A Zipf law: the share of a block falls with this power of its rank.
    Zipf(f64),
    /// This share of the blocks gets the complementary share of operations (`0.2`: 20 % get 80 %).
    Pareto(f64),
    /// A normal distribution around the middle of the region; standard deviation in percent of it.
    Normal(f64),
    /// Uniform within zones; each has a share of the operations and of the region (hot and cold).
    Zoned(Vec<Zone>),
    /// One pass of writes that leaves flash with this much spare space, in percent of the region,
    /// in the state that many random passes would.
    SinglePass(f64),
    /// Blocks of the region in the listed order, repeated.
    Sequence(Sequence),
}
