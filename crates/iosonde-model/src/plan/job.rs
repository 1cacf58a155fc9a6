//! One job of a plan: the complete specification of a thread and its queue.

use serde::{Deserialize, Serialize};

use super::IoKind;
use crate::spec::engine::Engine;
use crate::spec::{
    Commit, Data, Flow, Limits, Listed, Pace, Phase, Placement, Priorities, Reap, Sequence,
    Service, Sizes, Span, Strides, Sync, Think, Zone,
};

/// One thread and one queue.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Job {
    /// Name of its role.
    pub role: String,
    /// Largest operation and buffer, bytes; the size of every operation unless `sizes` is set.
    pub block_bytes: u64,
    /// Share of reads, percent of operations that transfer data.
    pub read_percent: u8,
    /// Order of the offsets.
    pub order: Order,
    /// Start of its region, bytes.
    pub region_start: u64,
    /// Length of its region, bytes; a multiple of `unit_bytes`.
    pub region_bytes: u64,
    /// Requests kept in flight.
    pub iodepth: u32,
    /// Most requests per submission.
    pub batch: u32,
    /// Whether the batch was requested; it is then kept even if smaller ones are faster.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_batch: bool,
    /// Seed of its mix, data and uniform offsets; no two jobs have the same.
    pub seed: u64,
    /// Indexes of the plan's targets that it uses; empty means only the first.
    #[serde(default)]
    pub targets: Vec<u16>,
    /// Whether operations other than reads are trims instead of writes.
    #[serde(default)]
    pub trims: bool,
    /// Distribution of block sizes.
    #[serde(default)]
    pub sizes: Sizes,
    /// Offsets are multiples of this from the start of the region, bytes; 0 means `block_bytes`.
    #[serde(default)]
    pub unit_bytes: u64,
    /// Distance between the starts of successive sequential operations, bytes; negative for
    /// descending, 0 for contiguous.
    #[serde(default)]
    pub stride_bytes: i64,
    /// When operations are due.
    #[serde(default)]
    pub pace: Pace,
    /// Pause of the whole job after a number of operations.
    #[serde(default)]
    pub think: Think,
    /// Time phases that the job repeats in a cycle; empty means a single endless one.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// When written data is made durable.
    #[serde(default)]
    pub sync: Sync,
    /// Content of the written data.
    #[serde(default)]
    pub data: Data,
    /// How completions are waited for.
    #[serde(default)]
    pub reap: Reap,
    /// Placement and priority of its thread and memory.
    #[serde(default)]
    pub place: Placement,
    /// I/O priorities of single requests.
    #[serde(default, skip_serializing_if = "Priorities::is_none")]
    pub priorities: Priorities,
    /// Its own engine, if the jobs of a run use different ones.
    pub engine: Option<Engine>,
    /// Its start and end, if they differ from those of the run.
    #[serde(default)]
    pub span: Span,
    /// How it selects the next target.
    #[serde(default)]
    pub service: Service,
    /// Zones of a strided walk, if any.
    #[serde(default)]
    pub strides: Strides,
    /// Limits that it must keep, and the errors that it tolerates.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// Its share of a common pace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Flow>,
    /// Its part in group commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<Commit>,
    /// Whether each trim is followed by a write of the same block.
    #[serde(default)]
    pub rewrites: bool,
    /// Whether it only reads what an equal job has written.
    #[serde(default)]
    pub rereads: bool,
    /// Operations to repeat one by one instead of drawing them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listed: Vec<Listed>,
}

impl Default for Job {
    /// A minimal job: reads of one 4 KiB block at depth 1.
    fn default() -> Job {
        Job {
            role: "job".into(),
            block_bytes: 4096,
            read_percent: 100,
            order: Order::Uniform,
            region_start: 0,
            region_bytes: 4096,
            iodepth: 1,
            batch: 1,
            keeps_batch: false,
            seed: 0,
            targets: Vec::new(),
            trims: false,
            sizes: Sizes::default(),
            unit_bytes: 0,
            stride_bytes: 0,
            pace: Pace::default(),
            think: Think::default(),
            phases: Vec::new(),
            sync: Sync::default(),
            data: Data::default(),
            reap: Reap::default(),
            place: Placement::default(),
            priorities: Priorities::default(),
            engine: None,
            span: Span::default(),
            service: Service::default(),
            strides: Strides::default(),
            limits: Limits::default(),
            flow: None,
            commit: None,
            rewrites: false,
            rereads: false,
            listed: Vec::new(),
        }
    }
}

impl Job {
    /// Grid of the offsets within the region, bytes.
    pub fn unit(&self) -> u64 {
        if self.unit_bytes == 0 { self.block_bytes } else { self.unit_bytes }
    }

    /// Whether the job has reads.
    pub fn reads(&self) -> bool {
        self.rereads || self.shares().any(|percent| percent > 0)
    }

    /// Whether read data is compared with what was written. A job that also writes may read blocks
    /// before it writes them; another job with `rereads` verifies it.
    pub fn compares(&self) -> bool {
        self.data.checked && self.reads() && !self.changes()
    }

    /// Whether the job modifies stored data by writes or trims.
    pub fn changes(&self) -> bool {
        !self.rereads && self.shares().any(|percent| percent < 100)
    }

    /// Whether the job writes data.
    pub fn writes_data(&self) -> bool {
        self.changes() && (!self.trims || self.rewrites)
    }

    /// Whether the job sends syncs among its operations.
    pub fn syncs(&self) -> bool {
        self.sync.every_writes > 0 || self.lists(IoKind::Sync)
    }

    /// Whether the job has trims.
    pub fn discards(&self) -> bool {
        (self.trims && self.changes()) || self.lists(IoKind::Trim)
    }

    fn lists(&self, way: IoKind) -> bool {
        self.listed.iter().any(|op| op.way == way)
    }

    /// Whether it has this role or is a numbered copy of it (`role.1`).
    pub fn plays(&self, role: &str) -> bool {
        let number = self.role.strip_prefix(role).and_then(|rest| rest.strip_prefix('.'));
        self.role == role || number.is_some_and(|number| number.parse::<u32>().is_ok())
    }

    /// Its shares of reads: its own, and those of its phases.
    fn shares(&self) -> impl Iterator<Item = u8> {
        let phases = self.phases.iter().filter_map(|phase| phase.read_percent);
        std::iter::once(self.read_percent).chain(phases)
    }

    /// Whether the job always keeps its depth in flight: it submits whenever a slot is free.
    pub fn keeps_depth(&self) -> bool {
        !self.is_open_loop()
            && self.flow.is_none()
            && self.commit.is_none()
            && self.think.ns == 0
            && self.phases.is_empty()
            && !self.sync.barrier
    }

    /// Smallest and largest size of operations of this kind, bytes.
    pub fn size_range(&self, way: IoKind) -> (u64, u64) {
        let draw = match way {
            // A rereading job has the sizes of the writes.
            IoKind::Read if self.rereads => &self.sizes.write,
            IoKind::Read => &self.sizes.read,
            IoKind::Write => &self.sizes.write,
            IoKind::Trim => &self.sizes.trim,
            IoKind::Sync => return (0, 0),
        };
        draw.range(self.block_bytes)
    }

    /// Whether operations have due times that do not depend on the storage.
    pub fn is_open_loop(&self) -> bool {
        self.pace != Pace::Closed
    }

    /// Bytes of I/O buffers: one page-aligned slot per request in flight.
    pub fn buffer_bytes(&self) -> u64 {
        u64::from(self.iodepth) * self.block_bytes.next_multiple_of(4096)
    }
}

/// Order of the offsets of a job.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Every block of the region once before any repeats, in a seeded order. `lanes` threads take
    /// turns on one order, so that together they cover it once; this thread is `lane`.
    Permutation {
        /// Seed of the order, common to its threads.
        seed: u64,
        /// This thread's turn, `0..lanes`.
        lane: u32,
        /// Threads sharing the order.
        lanes: u32,
    },
    /// Ascending with wrap-around; `lanes` threads take turns on one stream.
    Sequential {
        /// Block index within the region at which the stream begins.
        start_block: u64,
        /// This thread's turn, `0..lanes`.
        lane: u32,
        /// Threads sharing the stream.
        lanes: u32,
    },
    /// Operations of several sizes, every byte once before any repeats, by a map of used blocks.
    RandomMap {
        /// Seed of the offsets.
        seed: u64,
    },
    /// Independent uniform draws.
    Uniform,
    /// Independent draws; the k-th most popular block has a share proportional to k^-theta. Popular
    /// blocks are scattered over the region.
    Zipf {
        /// Skew, above 0.
        theta: f64,
    },
    /// Independent draws from a Pareto law, scattered over the region: a share `h` of the blocks
    /// gets a share `1 - h` of the operations.
    Pareto {
        /// Share, above 0 and below 1.
        h: f64,
    },
    /// Independent draws around the middle of the region.
    Normal {
        /// Standard deviation, percent of the region.
        deviation_percent: f64,
    },
    /// Independent draws, uniform within each of several contiguous zones.
    Zoned {
        /// The zones; shares of each kind add up to 100.
        zones: Vec<Zone>,
    },
    /// One pass that leaves flash with this much spare space as many random passes would: it
    /// rewrites some blocks, so that the valid share falls with age.
    SinglePass {
        /// Seed of the order in which blocks are last written.
        seed: u64,
        /// Flash beyond the region, percent of it, above 0.
        spare_percent: f64,
    },
    /// The listed blocks in order, repeated.
    Sequence(Sequence),
    /// Runs of operations: another order gives the offset of the first, and the others follow the
    /// previous one or repeat its offset.
    Runs {
        /// Operations of a run.
        length: u64,
        /// Whether all operations of a run have the same offset.
        same: bool,
        /// The order of the first operations.
        between: Box<Order>,
    },
    /// Another order gives a share of the offsets; each other operation follows the previous one.
    Following {
        /// The share, percent, below 100.
        drawn_percent: f64,
        /// The other order.
        between: Box<Order>,
    },
}
