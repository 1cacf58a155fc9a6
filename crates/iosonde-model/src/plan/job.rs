//! One job of a plan: what a thread and its queue will do, to the last detail.

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
    /// Name of the role it plays.
    pub role: String,
    /// Largest operation, bytes: the size of a buffer, and of every operation unless `sizes` says
    /// otherwise.
    pub block_bytes: u64,
    /// Share of reads, percent of operations that move data.
    pub read_percent: u8,
    /// Order of the offsets.
    pub order: Order,
    /// First byte of its region.
    pub region_start: u64,
    /// Length of its region, bytes; a multiple of `unit_bytes`.
    pub region_bytes: u64,
    /// Requests kept in flight.
    pub iodepth: u32,
    /// Requests handed over at once, at most.
    pub batch: u32,
    /// Whether the batch was requested: it is then kept also where smaller ones are faster.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_batch: bool,
    /// This job's own seed: of its mix, its data and its uniform offsets. No two jobs share it.
    pub seed: u64,
    /// Which of the plan's targets it uses, in turn; empty means the first alone.
    #[serde(default)]
    pub targets: Vec<u16>,
    /// Whether what is not read is trimmed instead of written.
    #[serde(default)]
    pub trims: bool,
    /// How sizes are drawn.
    #[serde(default)]
    pub sizes: Sizes,
    /// Offsets are whole multiples of this from the start of the region, bytes; 0 stands for
    /// `block_bytes`.
    #[serde(default)]
    pub unit_bytes: u64,
    /// From the start of one sequential operation to the start of the next, bytes, negative for
    /// descending; 0 means that they adjoin.
    #[serde(default)]
    pub stride_bytes: i64,
    /// When operations are due.
    #[serde(default)]
    pub pace: Pace,
    /// Pause of the whole job after every so many operations.
    #[serde(default)]
    pub think: Think,
    /// Stretches of time through which the job goes round and round; empty means one that never
    /// ends.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// When what was written is made durable.
    #[serde(default)]
    pub sync: Sync,
    /// Which bytes are written.
    #[serde(default)]
    pub data: Data,
    /// How completions are waited for.
    #[serde(default)]
    pub reap: Reap,
    /// Where the job's thread and memory are.
    #[serde(default)]
    pub place: Placement,
    /// Which of its requests have a priority of their own.
    #[serde(default, skip_serializing_if = "Priorities::is_none")]
    pub priorities: Priorities,
    /// Its own engine, where the jobs of a run differ in it.
    pub engine: Option<Engine>,
    /// When it begins and ends, where that is not when the run does.
    #[serde(default)]
    pub span: Span,
    /// How it chooses among its targets.
    #[serde(default)]
    pub service: Service,
    /// Its zones, if it walks in some.
    #[serde(default)]
    pub strides: Strides,
    /// What it has to keep, and which errors it survives.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// Its share of a common pace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Flow>,
    /// Its part in commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<Commit>,
    /// Whether each block that was trimmed is written next.
    #[serde(default)]
    pub rewrites: bool,
    /// Whether it reads what an equal job has written, and does nothing else.
    #[serde(default)]
    pub rereads: bool,
    /// The operations it repeats one by one, instead of drawing them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listed: Vec<Listed>,
}

impl Default for Job {
    /// The plainest job: one reader of one 4 KiB block, one request at a time.
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

    /// Whether the job reads at all.
    pub fn reads(&self) -> bool {
        self.rereads || self.shares().any(|percent| percent > 0)
    }

    /// Whether what is read is compared with what is written there. A job that writes as well may
    /// read what it has not written yet, and is verified by another that rereads.
    pub fn compares(&self) -> bool {
        self.data.checked && self.reads() && !self.changes()
    }

    /// Whether the job changes what is stored: writes or trims.
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

    /// Whether the job trims at all.
    pub fn discards(&self) -> bool {
        (self.trims && self.changes()) || self.lists(IoKind::Trim)
    }

    fn lists(&self, way: IoKind) -> bool {
        self.listed.iter().any(|op| op.way == way)
    }

    /// Whether it plays this role, or is one of several copies of it, `role.1` and so on.
    pub fn plays(&self, role: &str) -> bool {
        let number = self.role.strip_prefix(role).and_then(|rest| rest.strip_prefix('.'));
        self.role == role || number.is_some_and(|number| number.parse::<u32>().is_ok())
    }

    /// Its shares of reads, one per phase.
    fn shares(&self) -> impl Iterator<Item = u8> {
        let phases = self.phases.iter().filter_map(|phase| phase.read_percent);
        std::iter::once(self.read_percent).chain(phases)
    }

    /// Whether the job keeps its depth in flight all the time: nothing but a free slot decides
    /// about sending.
    pub fn keeps_depth(&self) -> bool {
        !self.is_open_loop()
            && self.flow.is_none()
            && self.commit.is_none()
            && self.think.ns == 0
            && self.phases.is_empty()
            && !self.sync.barrier
    }

    /// Smallest and largest size of an operation of this way, bytes.
    pub fn size_range(&self, way: IoKind) -> (u64, u64) {
        let draw = match way {
            // What reads again has the sizes of what was written.
            IoKind::Read if self.rereads => &self.sizes.write,
            IoKind::Read => &self.sizes.read,
            IoKind::Write => &self.sizes.write,
            IoKind::Trim => &self.sizes.trim,
            IoKind::Sync => return (0, 0),
        };
        draw.range(self.block_bytes)
    }

    /// Whether operations are due at times of their own, whatever the storage does.
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
    /// Every block of the region once before any twice, in a seeded order. `lane` of `lanes`
    /// threads take turns on one order, so that together they cover it once.
    Permutation {
        /// Seed of the order, on which its threads agree.
        seed: u64,
        /// This thread's turn, `0..lanes`.
        lane: u32,
        /// Threads sharing the order.
        lanes: u32,
    },
    /// Ascending, wrapping round; `lane` of `lanes` threads take turns on one stream.
    Sequential {
        /// Block index within the region at which the stream begins.
        start_block: u64,
        /// This thread's turn, `0..lanes`.
        lane: u32,
        /// Threads sharing the stream.
        lanes: u32,
    },
    /// Operations of several sizes, every byte once before any twice, by a map of what is used.
    RandomMap {
        /// Seed of the places.
        seed: u64,
    },
    /// Independent uniform draws.
    Uniform,
    /// Independent draws; the k-th most popular block has a share proportional to k^-theta. The
    /// popular ones are scattered over the region.
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
    /// Independent draws, uniform within each of several zones that follow one another.
    Zoned {
        /// The zones; shares of each kind add up to 100.
        zones: Vec<Zone>,
    },
    /// One pass that leaves flash with this much spare as many random passes would: blocks are
    /// written again, so that what stays valid falls with age.
    SinglePass {
        /// Seed of the order in which blocks are written for the last time.
        seed: u64,
        /// Flash beyond the region, percent of it, above 0.
        spare_percent: f64,
    },
    /// Blocks one by one as they stand in a list, again and again.
    Sequence(Sequence),
    /// Runs of operations: the first of each begins where another order has it, and the others
    /// where the one before ended, or again at the same place.
    Runs {
        /// Operations of a run.
        length: u64,
        /// Whether all operations of a run have one place.
        same: bool,
        /// That order.
        between: Box<Order>,
    },
    /// A share of the operations in another order, and each of the others where the one before it
    /// ended.
    Following {
        /// That share, percent, below 100.
        drawn_percent: f64,
        /// That order.
        between: Box<Order>,
    },
}
