//! Derives from a profile a load that can be run elsewhere.
//!
//! The model regenerates the block layer's requests, not the program's calls: the kernel's page
//! cache, read-ahead, write-back and file system have already acted on them. A role covers the
//! requests of one thread group to one device in one direction; the write-back of its pages is a
//! separate role, because its sizes and times differ. Inter-arrival times, sizes and the sequential
//! fraction are recorded for exactly these rows, so each role has them exactly and the mix follows
//! from the rates.
//!
//! Offsets are recorded per device and direction. The touched blocks of each are placed
//! contiguously: the gaps that a file system left between them are not part of the model.

mod arrivals;
mod durable;
mod journal;
mod places;
mod rows;
mod sizes;

use places::Layout;
use rows::{Row, rows};

use crate::grouped::distinct;
use crate::{experiment, replayed};
use iosonde_model::record::profile::{Class, Method, Op, ProfileRun, Subject};
use iosonde_model::spec::{Access, Draw, Pace, Rate, Region, Role, Rw, Sizes, Threads, Workload};
use iosonde_model::units::{bytes, count};
use iosonde_stats::quantile::at_rank;

/// A profile as a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Modelled {
    /// The load.
    pub workload: Workload,
    /// What each role represents, as text.
    pub roles: Vec<String>,
    /// The devices, in the order in which roles number their targets.
    pub targets: Vec<ModelledTarget>,
    /// Requests that are regenerated.
    pub requests: u64,
    /// Length of one round of phases, ns: the time profiled, or until the last request if later.
    pub measured_ns: u64,
    /// What was left out or is unknown, and why, one sentence each.
    pub left_out: Vec<String>,
}

/// A device of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelledTarget {
    /// Kernel name of the profiled disk.
    pub device: String,
    /// Bytes that a target needs for its roles' regions.
    pub needed_bytes: u64,
}

/// Reason why a profile is not enough for a load.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotEnough {
    /// Only totals are known.
    #[error(
        "no workload can be derived from this profile: individual requests were not traced{}; \
         profile again where the kernel's tracepoints are available (see `iosonde doctor`)",
        if .reason.is_empty() { String::new() } else { format!(" ({reason})") }
    )]
    NoRequests { reason: String },
    /// The program did hardly any I/O.
    #[error(
        "no workload can be derived from this profile: {found} request(s) of the program reached \
         a device, expected at least {needed}; profile a longer run, or one whose data is not in \
         the page cache yet"
    )]
    Idle { found: u64, needed: u64 },
}

/// Fewest requests for a meaningful distribution.
const FEWEST: u64 = 20;
/// Sequential fraction at or above which a role is sequential, and at or below which it is random.
const SEQUENTIAL: (f64, f64) = (0.98, 0.02);
/// Share of a device's requests at or above which its depth on arrival is attributed to a role.
const DOMINANT: f64 = 0.3;
/// Largest grid of random offsets, bytes.
const MOST_ALIGN: u64 = 64 << 10;
/// Largest queue depth of one role.
const MOST_DEPTH: u64 = 1024;

/// The load of a profile.
///
/// # Errors
/// If individual requests were not traced, or the program made too few.
pub fn workload(run: &ProfileRun) -> Result<Modelled, NotEnough> {
    if run.source.method != Method::Tracepoints {
        let missing = run.source.missing.iter().find(|missing| missing.what.contains("request"));
        let reason = missing.map(|missing| missing.reason.clone()).unwrap_or_default();
        return Err(NotEnough::NoRequests { reason });
    }
    // For a profile of a replay, only its jobs count.
    let jobs = replayed::jobs(run, None);
    let run = jobs.as_ref().map_or(run, |jobs| &jobs.run);
    let (rows, mut left_out) = rows(run);
    let requests: u64 = rows.iter().map(|row| row.requests).sum();
    if requests < FEWEST {
        return Err(NotEnough::Idle { found: requests, needed: FEWEST });
    }
    let devices = distinct(rows.iter().map(|row| row.device.as_str()));
    let layouts: Vec<Layout> =
        devices.iter().map(|device| Layout::new(run, device, &rows)).collect();
    let mut roles = Vec::new();
    let mut remarks = Vec::new();
    for row in &rows {
        let at = devices.iter().position(|device| *device == row.device).unwrap_or(0);
        let mut role = role(run, row, &rows, &layouts[at]);
        if devices.len() > 1 {
            role.targets = vec![u16::try_from(at).unwrap_or(u16::MAX)];
        }
        role.name = unique(&role.name, &roles);
        roles.push(role);
        remarks.push(remark(run, row));
    }
    durable::attach(run, &rows, &mut roles, &mut left_out);
    for role in roles.iter_mut().filter(|role| role.pace.burst_length() > 1.0) {
        // A burst is submitted at once.
        role.batch = role.iodepth;
    }
    left_out.extend(layouts.iter().flat_map(|layout| layout.remarks.iter().cloned()));
    left_out.extend(others(run, &rows));
    let targets = devices.iter().zip(&layouts).map(|(device, layout)| ModelledTarget {
        device: (*device).to_string(),
        needed_bytes: layout.whole_bytes,
    });
    Ok(Modelled {
        workload: whole(run, &rows, &roles),
        targets: targets.collect(),
        requests,
        measured_ns: arrivals::round_ns(run, &rows),
        left_out,
        roles: remarks,
    })
}

fn whole(run: &ProfileRun, rows: &[Row], roles: &[Role]) -> Workload {
    let sum = |op: Op| rows.iter().filter(|row| row.op == op).map(|row| row.requests).sum::<u64>();
    let (reads, all) = (sum(Op::Read), rows.iter().map(|row| row.requests).sum::<u64>());
    let name = subject(run);
    let largest = rows.iter().zip(roles).max_by_key(|(row, _)| row.requests);
    Workload {
        name: slug(&name, "profile"),
        title: name.clone(),
        pattern: format!("replay of {name}"),
        models: format!(
            "The requests that {name} caused at the block layer, by thread group and direction."
        ),
        block_size: largest.and_then(|(_, role)| role.block_size).unwrap_or(4096),
        read_percent: (reads as f64 * 100.0 / all.max(1) as f64).round() as u8,
        roles: roles.to_vec(),
    }
}

/// The name of the profiled program: the command without its path.
fn subject(run: &ProfileRun) -> String {
    let word = match &run.subject {
        Subject::Command { words, .. } | Subject::Process { words, .. } => words.first().cloned(),
        Subject::Cgroup { path } => Some(path.clone()),
        Subject::Machine => Some("machine".into()),
    };
    let word = word.unwrap_or_default();
    let last = word.trim_end_matches('/').rsplit('/').next().unwrap_or("");
    if last.is_empty() { "a program".into() } else { last.to_string() }
}

/// Lower case, digits and hyphens; `otherwise` if nothing is left.
fn slug(text: &str, otherwise: &str) -> String {
    let slug = experiment::slug(text);
    if slug.is_empty() { otherwise.into() } else { slug }
}

fn unique(name: &str, roles: &[Role]) -> String {
    let taken = |name: &str| roles.iter().any(|role| role.name == name);
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.to_string()).chain(numbered).find(|name| !taken(name)).unwrap_or_default()
}

/// One row as a role, without its syncs.
fn role(run: &ProfileRun, row: &Row, rows: &[Row], layout: &Layout) -> Role {
    let sequential = row.sequential as f64 / row.requests.max(1) as f64;
    let is_in_order = sequential >= SEQUENTIAL.0;
    let rw = match (row.op, is_in_order) {
        (Op::Read, true) => Rw::Read,
        (Op::Read, false) => Rw::RandRead,
        (Op::Write, true) => Rw::Write,
        (Op::Write, false) => Rw::RandWrite,
        (_, true) => Rw::Trim,
        (_, false) => Rw::RandTrim,
    };
    let drawn = sizes::split(run, row);
    let place = layout.of(row);
    let phased = arrivals::arrivals(run, row, rows);
    let streams = if is_in_order { row.streams } else { 1 };
    // Writes with a sync between them are no burst, however fast.
    let is_loop = durable::is_loop_of_syncs(run, row);
    let pace = if is_loop { phased.pace } else { arrivals::gathered(phased.pace, row) };
    let mut role = Role {
        threads: Threads::Count(streams),
        iodepth: Some(depth(run, row, rows).div_ceil(streams)),
        pace: shared(pace, streams),
        phases: phased.phases,
        offset: Some(place.offset),
        size: Some(place.bytes),
        ..Role::new(&slug(&row.name(), "others"), rw)
    };
    let most = drawn.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    role.block_size = most.map(|(size, _)| *size);
    if drawn.len() != 1 {
        let draw = Draw::Split(drawn);
        role.sizes = match row.op {
            Op::Read => Sizes { read: draw, ..Sizes::default() },
            Op::Write => Sizes { write: draw, ..Sizes::default() },
            _ => Sizes { trim: draw, ..Sizes::default() },
        };
    }
    if rw.is_random() {
        // Pages of a database, for example, are at multiples of their size.
        let size = sizes::commonest(row);
        let of_size = row.sizes.iter().filter(|(each, _)| each.is_multiple_of(size));
        let fits = of_size.map(|(_, requests)| requests).sum::<u64>() * 2 > row.requests;
        role.block_align = (fits && size <= place.bytes && size <= MOST_ALIGN).then_some(size);
        role.access = place.access;
        let is_mixed = sequential > SEQUENTIAL.1;
        role.random_percent = is_mixed.then(|| sizes::rounded(100.0 * (1.0 - sequential)));
    } else {
        role.access = Access::Permutation;
        role.region = if streams > 1 { Region::Staggered } else { Region::Shared };
    }
    role
}

/// Gives each of several threads a part of the rate.
fn shared(pace: Pace, threads: u32) -> Pace {
    match pace {
        Pace::Rate { rate: Rate::Ops(ops), arrivals } if threads > 1 => Pace::Rate {
            rate: Rate::Ops(ops / f64::from(threads)),
            arrivals: arrivals::of_one_among(arrivals, threads),
        },
        pace => pace,
    }
}

/// Most requests that the role may have in flight: the largest of the mean by Little's law over its
/// active time, rounded up; its number of threads, each of which may wait for one; and the 95th
/// percentile found by arrivals, if it has a large part of the device's requests. Never more than
/// were observed.
fn depth(run: &ProfileRun, row: &Row, rows: &[Row]) -> u32 {
    let mean = (row.latency_sum_ns as f64 / row.active_ns().max(1) as f64).ceil() as u64;
    let device = run.devices.iter().find(|device| device.facts.name == row.device);
    let seen = device.map(|device| &device.program_depth);
    let most = seen.map_or(0, |depth| u64::from(depth.max));
    let threads = if row.class == Class::Program { u64::from(row.threads) } else { 1 };
    let of_device = rows.iter().filter(|other| other.device == row.device);
    let share = row.requests as f64 / of_device.map(|other| other.requests).sum::<u64>() as f64;
    let arrivals =
        seen.filter(|_| share >= DOMINANT).map_or(0, |depth| on_arrival(&depth.arrivals));
    let wanted = mean.max(threads).max(arrivals);
    let limited = if most > 0 { wanted.min(most.max(mean)) } else { wanted };
    u32::try_from(limited.clamp(1, MOST_DEPTH)).unwrap_or(1)
}

/// The 95th percentile of the depth found by arrivals, the new request included.
fn on_arrival(arrivals: &[(u32, u64)]) -> u64 {
    let all: u64 = arrivals.iter().map(|(_, requests)| requests).sum();
    let level = at_rank(arrivals.iter().copied(), (0.95 * all as f64).ceil() as u64);
    level.map_or(0, |level| u64::from(level) + 1)
}

fn remark(run: &ProfileRun, row: &Row) -> String {
    let seconds = count::significant(row.active_ns() as f64 / 1e9);
    let share = |part: u64| count::significant(part as f64 * 100.0 / row.requests.max(1) as f64);
    let mut text = format!(
        "{} on {}: {} requests, {}, in {seconds} s; {} % sequential",
        row.words(),
        row.device,
        count::thousands(row.requests),
        bytes::rough(row.bytes),
        share(row.sequential),
    );
    if row.strided * 4 > row.requests {
        text.push_str(&format!(
            "; {} % at a constant distance, which is not recorded and not regenerated",
            share(row.strided)
        ));
    }
    if row.class == Class::WriteBack {
        text.push_str("; written back by the kernel");
    }
    if run.groups.is_empty() {
        text.push_str("; threads were not distinguished");
    }
    text
}

/// Traffic that no role regenerates.
fn others(run: &ProfileRun, rows: &[Row]) -> Vec<String> {
    let sum = |wanted: &dyn Fn(Class, Op) -> bool| -> u64 {
        let rows = run.traffic.iter().filter(|row| wanted(row.class, row.op));
        rows.map(|row| row.requests).sum()
    };
    let moves = |op: Op| matches!(op, Op::Read | Op::Write | Op::Discard);
    let mut out = Vec::new();
    let mut say = |requests: u64, what: &str| {
        if requests > 0 {
            out.push(format!("{} {what}", count::thousands(requests)));
        }
    };
    let journal: u64 =
        rows.iter().filter(|row| row.class == Class::Journal).map(|row| row.requests).sum();
    say(
        sum(&|class, op| class == Class::Journal && moves(op)) - journal,
        "requests of the file system's journal and metadata: too few for a role",
    );
    say(
        sum(&|class, op| class == Class::DeviceFlush && op == Op::Flush),
        "flushes: the syncs of the replay cause new ones",
    );
    say(sum(&|class, op| class == Class::Other && moves(op)), "requests by or for other programs");
    say(
        sum(&|class, op| class.is_of_the_program() && op == Op::Other),
        "zone and driver commands of the program, which the replay cannot issue",
    );
    let errors: u64 = run.traffic.iter().map(|row| row.errors).sum();
    say(errors, "of the requests failed; the replay issues them like any other");
    let lost: u64 = run.lost.values().sum();
    say(lost, "events were lost by the profiler: see the profile");
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_fixtures::profile_model::{chunk, profile, row};
    use iosonde_model::plan::{
        Engine, EngineKind, IoKind, OnError, Op as PlanOp, OpStream, Setting, Stop, Target, resolve,
    };
    use iosonde_model::record::profile::{Depth, Missing, Places, ThreadRun, Traffic};

    fn setting(bytes: u64) -> Setting {
        let target = Target { path: "/t".into(), bytes, direct: true, align_bytes: 512 };
        Setting {
            engine: Engine::of(EngineKind::IoUring),
            targets: vec![target],
            offset_bytes: 0,
            cpus: 2,
            iodepth: 1,
            seed: 1,
            warmup_ns: 0,
            stop: Stop::AfterNs(1_000_000_000),
            on_error: OnError::Stop,
            final_sync: true,
            buffer_limit_bytes: 1 << 30,
        }
    }

    /// A database: random reads, log appends, write-back of its pages.
    fn database() -> ProfileRun {
        let mut run = profile(vec![
            Traffic { sequential: 1800, ..row(Class::Program, Op::Read, 6000) },
            Traffic { sequential: 3000, group: 2, ..row(Class::Program, Op::Write, 3000) },
            Traffic {
                sizes: vec![(4096, 500), (65_536, 400), (1 << 20, 100)],
                bytes: 500 * 4096 + 400 * 65_536 + (100 << 20),
                ..row(Class::WriteBack, Op::Write, 1000)
            },
            row(Class::Journal, Op::Write, 77),
            row(Class::Other, Op::Write, 5),
        ]);
        run.places = vec![Places {
            device: "vda".into(),
            chunk_bytes: 16 << 20,
            block_bytes: 4096,
            chunks: vec![chunk(1, (4000, 6000), (0, 0)), chunk(2, (0, 0), (4096, 4096))],
            ..Places::default()
        }];
        run
    }

    #[test]
    fn a_profile_becomes_a_load_that_does_the_same_requests() {
        let modelled = workload(&database()).unwrap();
        assert_eq!(modelled.requests, 10_077);
        let names: Vec<&str> =
            modelled.workload.roles.iter().map(|role| role.name.as_str()).collect();
        assert_eq!(names, ["app-read", "worker-write", "app-write-back", "journal"]);
        assert_eq!(modelled.workload.read_percent, 60);
        let plan = resolve(&modelled.workload, &setting(modelled.targets[0].needed_bytes)).unwrap();
        let ops = |job: usize, n: usize| -> Vec<PlanOp> {
            let mut stream = OpStream::new(&plan.jobs[job], Stop::AfterNs(1));
            std::iter::from_fn(|| stream.next_op()).take(n).collect()
        };
        let follows = |ops: &[PlanOp]| -> usize {
            let follow =
                |pair: &&[PlanOp]| pair[0].offset + u64::from(pair[0].bytes) == pair[1].offset;
            ops.windows(2).filter(follow).count()
        };
        let reads = ops(0, 10_000);
        assert!(reads.iter().all(|op| op.way == IoKind::Read && op.bytes == 4096));
        // 30 % are sequential; the tolerance is five standard deviations of a binomial.
        assert!((follows(&reads) as f64 - 3000.0).abs() < 230.0, "{}", follows(&reads));
        let writes = ops(1, 1000);
        assert!(writes.iter().all(|op| op.way == IoKind::Write && op.bytes == 4096));
        assert!(follows(&writes) >= 990, "{}", follows(&writes));
        let large = ops(2, 10_000).iter().filter(|op| op.bytes == 65_536).count();
        assert!((large as f64 - 4000.0).abs() < 250.0, "{large}");
        let formatted = modelled.left_out.join("\n");
        assert!(formatted.contains("77 requests of the file system's journal"), "{formatted}");
        assert!(formatted.contains("5 requests by or for other programs"), "{formatted}");
    }

    #[test]
    fn the_same_target_but_a_block_shorter_is_refused() {
        let modelled = workload(&database()).unwrap();
        let refusal =
            resolve(&modelled.workload, &setting(modelled.targets[0].needed_bytes - 4096));
        assert!(refusal.unwrap_err().to_string().contains("beyond the end of the target"));
    }

    #[test]
    fn what_was_not_seen_makes_no_load() {
        let mut run = database();
        run.source.method = Method::Counters;
        run.source.missing =
            vec![Missing { what: "requests".into(), reason: "no CAP_BPF".into(), fix: None }];
        let error = workload(&run).unwrap_err().to_string();
        assert!(error.contains("no CAP_BPF") && error.contains("doctor"), "{error}");
        let idle = profile(vec![row(Class::Program, Op::Read, 3), row(Class::Other, Op::Read, 99)]);
        assert_eq!(workload(&idle), Err(NotEnough::Idle { found: 3, needed: FEWEST }));
    }

    #[test]
    fn the_depth_is_littles_or_the_threads_and_no_more_than_was_seen() {
        let depth_of = |latency_ns: u64, threads: u32, depth: Depth| {
            let mut traffic = row(Class::Program, Op::Read, 10_000);
            traffic.latency.clear();
            traffic.latency.record_many(latency_ns, 10_000);
            let mut run = profile(vec![traffic]);
            run.groups[1].threads = threads;
            run.devices[0].program_depth = depth;
            workload(&run).unwrap().workload.roles[0].iodepth.unwrap()
        };
        // 1000/s of 100 µs and of 3.5 ms.
        assert_eq!(depth_of(100_000, 1, Depth::default()), 1);
        assert_eq!(depth_of(3_500_000, 1, Depth::default()), 4);
        assert_eq!(depth_of(100_000, 16, Depth::default()), 16);
        assert_eq!(depth_of(100_000, 16, Depth { max: 5, ..Depth::default() }), 5);
        let bursts =
            Depth { max: 32, arrivals: vec![(0, 10), (7, 88), (31, 2)], ..Depth::default() };
        assert_eq!(depth_of(100_000, 1, bursts), 8);
    }

    #[test]
    fn a_stream_of_which_more_began_than_ended_is_sequential() {
        let traffic = Traffic { sequential: 10_031, ..row(Class::Program, Op::Read, 10_000) };
        let role = workload(&profile(vec![traffic])).unwrap().workload.roles.remove(0);
        assert_eq!((role.rw, role.access), (Rw::Read, Access::Permutation));
    }

    #[test]
    fn several_sequential_threads_are_several_streams() {
        let traffic = Traffic { sequential: 9_990, ..row(Class::Program, Op::Read, 10_000) };
        let mut run = profile(vec![traffic]);
        let thread = |tid| ThreadRun {
            name: "app".into(),
            tid: Some(tid),
            of_program: true,
            reads: 2500,
            sequential: 2499,
            ..ThreadRun::default()
        };
        run.threads = (1..=4).map(thread).collect();
        run.groups[1].threads = 4;
        let role = workload(&run).unwrap().workload.roles.remove(0);
        assert_eq!((role.rw, role.threads, role.iodepth), (Rw::Read, Threads::Count(4), Some(1)));
        assert_eq!(role.region, iosonde_model::spec::Region::Staggered);
        let Pace::Rate { rate: iosonde_model::spec::Rate::Ops(ops), .. } = role.pace else {
            panic!()
        };
        assert!((ops - 250.0).abs() < 1e-9, "a quarter of the rate each: {ops}");
    }

    #[test]
    fn two_devices_are_two_targets_and_names_stay_unique() {
        let other = Traffic { device: "vdb".into(), ..row(Class::Program, Op::Read, 900) };
        let small = Traffic { device: "vdc".into(), ..row(Class::Program, Op::Read, 2) };
        let modelled =
            workload(&profile(vec![row(Class::Program, Op::Read, 1000), other, small])).unwrap();
        let roles = &modelled.workload.roles;
        assert_eq!([&roles[0].name, &roles[1].name], ["app-read", "app-read-2"]);
        assert_eq!([&roles[0].targets, &roles[1].targets], [&vec![0], &vec![1]]);
        assert_eq!(modelled.targets[1].device, "vdb");
        assert!(modelled.left_out[0].contains("vdc"), "{:?}", modelled.left_out);
    }

    #[test]
    fn many_small_groups_become_one_remainder() {
        let mut run = profile(vec![row(Class::Program, Op::Write, 100_000)]);
        for group in 3..40 {
            run.groups.push(Default::default());
            run.traffic.push(Traffic { group, ..row(Class::Program, Op::Write, 100) });
        }
        let modelled = workload(&run).unwrap();
        assert_eq!(modelled.requests, 103_700);
        assert_eq!(modelled.workload.roles.len(), 2);
        assert_eq!(modelled.workload.roles[1].name, "others-write");
    }
}
