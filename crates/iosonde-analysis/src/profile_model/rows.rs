//! The traffic that becomes a role: by device, thread group, class and direction, with the small
//! remainder merged.

use crate::grouped::grouped;
use crate::replayed::JOURNAL;
use iosonde_model::record::profile::{Class, Op, ProfileRun, Subject, Traffic};
use iosonde_model::record::run::CounterSeries;
use iosonde_stats::Histogram;

/// Largest number of roles of one model, besides those of the remainder.
const MOST_ROWS: usize = 12;
/// Share of all requests below which a row goes to the remainder.
const SMALL: f64 = 0.005;
/// Share of all requests below which a whole device is left out.
const SMALL_DEVICE: f64 = 0.01;

/// Fewest requests of a journal for a role.
const FEWEST: u64 = 20;

/// The traffic of one role.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) device: String,
    pub(super) class: Class,
    pub(super) op: Op,
    /// The thread groups, of which the first gives the name; the remainder has several.
    pub(super) groups: Vec<u32>,
    pub(super) group_name: String,
    /// Threads of these groups that did I/O.
    pub(super) threads: u32,
    /// Threads with independent sequential streams; at least one.
    pub(super) streams: u32,
    pub(super) requests: u64,
    pub(super) bytes: u64,
    pub(super) durable: u64,
    pub(super) latency_sum_ns: u128,
    pub(super) sizes: Vec<(u64, u64)>,
    pub(super) sequential: u64,
    pub(super) strided: u64,
    /// Inter-arrival times; `None` in the remainder, whose groups arrived independently.
    pub(super) gaps: Option<Histogram>,
    /// Bursts, as [`Traffic::bursts`]; none in the remainder.
    pub(super) bursts: Vec<u64>,
    /// Start of the first request and end of the last, ns.
    pub(super) active: (u64, u64),
    /// Requests over time; empty in earlier records.
    pub(super) counters: CounterSeries,
}

impl Row {
    fn of(run: &ProfileRun, traffic: &Traffic) -> Row {
        let group = run.groups.get(traffic.group as usize);
        let name = match traffic.class {
            Class::Journal => JOURNAL.into(),
            _ => group.map(|group| group.name.clone()).unwrap_or_default(),
        };
        let own = run.threads.iter().filter(|thread| thread.of_program && thread.name == name);
        let (mut running, mut sequential) = (0u32, 0u32);
        for thread in own {
            let requests = thread.reads + thread.writes;
            running += u32::from(requests > 0);
            sequential += u32::from(requests > 0 && thread.sequential * 2 > requests);
        }
        let is_own = traffic.class == Class::Program;
        Row {
            device: traffic.device.clone(),
            class: traffic.class,
            op: traffic.op,
            groups: vec![traffic.group],
            group_name: name,
            threads: match traffic.class {
                Class::Journal => 1,
                _ => group.map_or(running, |group| group.threads).max(1),
            },
            streams: if is_own { sequential.clamp(1, 64) } else { 1 },
            requests: traffic.requests,
            bytes: traffic.bytes,
            durable: traffic.durable,
            latency_sum_ns: traffic.latency.sum(),
            sizes: traffic.sizes.clone(),
            sequential: traffic.sequential,
            strided: traffic.strided,
            gaps: Some(traffic.gaps.clone()),
            bursts: traffic.bursts.clone(),
            active: traffic.active_ns.unwrap_or((0, run.measured_ns)),
            counters: traffic.counters.clone(),
        }
    }

    /// Adds a row of the same device and direction.
    fn take_in(&mut self, other: Row) {
        self.groups.extend(other.groups);
        self.group_name = "others".into();
        self.threads += other.threads;
        self.streams = 1;
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.durable += other.durable;
        self.latency_sum_ns += other.latency_sum_ns;
        self.sizes.extend(other.sizes);
        self.sequential += other.sequential;
        self.strided += other.strided;
        self.gaps = None;
        self.bursts.clear();
        self.active = (self.active.0.min(other.active.0), self.active.1.max(other.active.1));
        self.counters.add(&other.counters);
    }

    /// Requests that did not continue a stream. The kernel counts continuations when a request
    /// starts and requests when it ends, so a busy stream may show more continuations than
    /// requests.
    pub(super) fn scattered(&self) -> u64 {
        self.requests.saturating_sub(self.sequential)
    }

    pub(super) fn active_ns(&self) -> u64 {
        self.active.1.saturating_sub(self.active.0)
    }

    /// The name of the role, before conversion to a name of the spec.
    pub(super) fn name(&self) -> String {
        let way = match (self.op, self.class) {
            (Op::Read, Class::Journal) => return format!("{JOURNAL} read"),
            (_, Class::Journal) => return JOURNAL.into(),
            (Op::Read, _) => "read",
            (Op::Write, Class::WriteBack) => "write-back",
            (Op::Write, _) => "write",
            _ => "discard",
        };
        format!("{} {way}", self.group_name)
    }

    /// The row as text.
    pub(super) fn words(&self) -> String {
        let who = match (self.groups.len(), self.group_name.as_str()) {
            (1, _) if self.class == Class::Journal => "the file system's journal".to_string(),
            (1, "") => "threads without a name".to_string(),
            (1, name) => format!("`{name}`"),
            (several, _) => format!("{several} small thread groups"),
        };
        let way = match self.op {
            Op::Read => "reads",
            Op::Write => "writes",
            _ => "discards",
        };
        format!("{way} of {who}")
    }
}

/// Whether the row of a journal is too small for a role.
fn is_small_journal(row: &Row, requests: u64, bytes: u64) -> bool {
    let is_small = |part: u64, whole: u64| (part as f64) < SMALL * whole as f64;
    row.class == Class::Journal
        && (row.requests < FEWEST || is_small(row.requests, requests) && is_small(row.bytes, bytes))
}

/// Whether these threads are the profiler's own, before it executed the command.
fn is_own(run: &ProfileRun, traffic: &Traffic) -> bool {
    let name = run.groups.get(traffic.group as usize).map_or("", |group| group.name.as_str());
    let words = match &run.subject {
        Subject::Command { words, .. } | Subject::Process { words, .. } => words.as_slice(),
        _ => &[],
    };
    let runs_it = words.iter().any(|word| word.rsplit('/').next() == Some("iosonde"));
    name == "iosonde" && !runs_it
}

/// The rows, the busiest first, and what was left out.
pub(super) fn rows(run: &ProfileRun) -> (Vec<Row>, Vec<String>) {
    let regenerated = |traffic: &&Traffic| {
        (traffic.class.is_of_the_program() || traffic.class == Class::Journal)
            && matches!(traffic.op, Op::Read | Op::Write | Op::Discard)
            && traffic.requests > 0
            && !is_own(run, traffic)
    };
    let mut all: Vec<Row> =
        run.traffic.iter().filter(regenerated).map(|traffic| Row::of(run, traffic)).collect();
    let program = all.iter().filter(|row| row.class != Class::Journal);
    let (whole, moved) = program.fold((0, 0), |sum, row| (sum.0 + row.requests, sum.1 + row.bytes));
    all.retain(|row| !is_small_journal(row, whole, moved));
    let mut left_out = Vec::new();
    let of_devices = grouped(all.iter().map(|row| (&row.device, row.requests)));
    let of_devices =
        of_devices.into_iter().map(|(device, requests)| (device, requests.iter().sum()));
    let mut of_devices: Vec<(&String, u64)> = of_devices.collect();
    of_devices.sort_by_key(|(_, requests)| std::cmp::Reverse(*requests));
    let is_small = |requests: u64, share: f64| (requests as f64) < share * whole as f64;
    for (device, requests) in of_devices.iter().filter(|(_, n)| is_small(*n, SMALL_DEVICE)) {
        left_out.push(format!("{requests} requests to {device}: less than 1 % of all"));
    }
    let mut kept: Vec<Row> = Vec::new();
    for (device, _) in of_devices.iter().filter(|(_, n)| !is_small(*n, SMALL_DEVICE)) {
        let mut here: Vec<Row> = all.iter().filter(|row| row.device == **device).cloned().collect();
        here.sort_by_key(|row| std::cmp::Reverse(row.requests));
        let mut rest: Vec<Row> = Vec::new();
        for row in here {
            let has_room = kept.len() < MOST_ROWS && !is_small(row.requests, SMALL);
            if has_room || row.class == Class::Journal {
                kept.push(row);
                continue;
            }
            match rest.iter_mut().find(|other| other.op == row.op) {
                Some(other) => other.take_in(row),
                None => rest.push(row),
            }
        }
        kept.extend(rest);
    }
    (kept, left_out)
}
