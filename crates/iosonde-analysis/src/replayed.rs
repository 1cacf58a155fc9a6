//! The jobs of a replay, without the other work of its process: it inspects the target before,
//! prepares a test file, flushes afterwards, and stores the result.

use iosonde_model::record::profile::{Class, Depth, Op, ProfileRun, Subject, ThreadRun, Traffic};

/// The name of the role of a file system's journal and metadata.
pub(crate) const JOURNAL: &str = "journal";
/// The name of the role that writes a test file before the load.
const LAYOUT: &str = "layout";
/// The directions that move data.
const WAYS: [Op; 3] = [Op::Read, Op::Write, Op::Discard];
/// Share of requests outside the jobs above which offsets and depth are not attributed to the jobs.
const BESIDE: f64 = 0.01;
/// Largest relative difference between the writes found in a journal's region and those of its job.
const NEAR: f64 = 0.1;

/// A profile of a replay, reduced to its jobs.
pub(crate) struct Jobs {
    /// The record; the role of a journal counts as a journal.
    pub(crate) run: ProfileRun,
    /// The directions whose offsets include requests outside the jobs.
    pub(crate) blurred: Vec<Op>,
    /// Whether the depth includes requests outside the jobs.
    pub(crate) is_unclear: bool,
    /// Whether the series cover only the jobs.
    pub(crate) has_series: bool,
    /// Whether the depth of the program includes a journal.
    pub(crate) has_journal: bool,
    /// Whether the program's depth includes overlapping requests from before the load.
    pub(crate) has_preparation: bool,
}

/// The role of a thread that is named like a job of the load, such as `job 0 writer`, possibly
/// truncated; `None` for other threads.
fn role(name: &str) -> Option<&str> {
    let (number, role) = name.strip_prefix("job ")?.split_once(' ').unwrap_or((&name[4..], ""));
    number.parse::<u32>().ok().map(|_| role).filter(|role| *role != LAYOUT)
}

/// Whether a role is that of a journal: `journal`, and `journal-2` of a second device.
fn is_journal(role: &str) -> bool {
    role.strip_prefix(JOURNAL).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Name of the threads of a group.
fn group(run: &ProfileRun, number: u32) -> &str {
    run.groups.get(number as usize).map_or("", |group| group.name.as_str())
}

/// Whether a profile is of a run of this program.
pub(crate) fn is_replay(run: &ProfileRun) -> bool {
    let Subject::Command { words, .. } = &run.subject else { return false };
    let moves = |row: &Traffic| row.class.is_of_the_program() && WAYS.contains(&row.op);
    let mut moved = run.traffic.iter().filter(|row| moves(row) && row.requests > 0);
    let has_jobs = moved.any(|row| role(group(run, row.group)).is_some());
    has_jobs && words.iter().any(|word| word == "run")
}

/// The jobs; `None` if the profile is not of a replay. `region` is that of a journal: offset and
/// length on the disk, bytes, if the workload has one.
pub(crate) fn jobs(run: &ProfileRun, region: Option<(u64, u64)>) -> Option<Jobs> {
    if !is_replay(run) {
        return None;
    }
    let name = |row: &Traffic| group(run, row.group);
    let workers: Vec<Op> = WAYS.into_iter().filter(|op| are_of_workers(run, *op)).collect();
    let moves = |row: &Traffic| row.class.is_of_the_program() && WAYS.contains(&row.op);
    let (mut kept, mut beside): (Vec<Traffic>, Vec<Traffic>) = (Vec::new(), Vec::new());
    let mut system: Vec<&Traffic> = Vec::new();
    let is_job = |row: &&Traffic| role(name(row)).is_some();
    let of_jobs: Vec<&Traffic> = run.traffic.iter().filter(is_job).collect();
    // On other devices the process stores its result.
    let is_used = |device: &str| of_jobs.iter().any(|job| job.device == device);
    for row in run.traffic.iter().filter(|row| is_used(&row.device)) {
        let is_of_system = matches!(row.class, Class::Journal | Class::DeviceFlush | Class::Other);
        match role(name(row)) {
            Some(name) if is_journal(name) => {
                kept.push(Traffic { class: Class::Journal, ..row.clone() })
            }
            Some(_) => kept.push(row.clone()),
            None if is_of_system => system.push(row),
            None if workers.contains(&row.op) => kept.push(row.clone()),
            None if moves(row) => beside.push(row.clone()),
            None => {}
        }
    }
    let first_ns = of_jobs.iter().filter_map(|row| row.active_ns).map(|(from, _)| from).min()?;
    kept.extend(system.into_iter().filter_map(|row| since(row, first_ns)));
    kept.iter_mut().for_each(|row| leave_flushes(run, row));
    let mut alone = ProfileRun { traffic: kept, ..run.clone() };
    alone.syncs.retain(|sync| role(group(run, sync.group)).is_some_and(|role| !is_journal(role)));
    alone.devices.retain(|device| is_used(&device.facts.name));
    alone.places.retain(|places| is_used(&places.device));
    for row in run.traffic.iter().filter(|row| moves(row) && !is_used(&row.device)) {
        take_out(&mut alone, row);
    }
    let whole: u64 = run.traffic.iter().filter(|row| moves(row)).map(|row| row.requests).sum();
    let others: u64 = beside.iter().map(|row| row.requests).sum();
    let is_before = beside.iter().all(|row| row.active_ns.is_some_and(|(_, to)| to <= first_ns));
    let is_unclear = !is_before && others as f64 > BESIDE * whole as f64;
    // Earlier records do not have the requests of each group over time.
    let has_series = !is_unclear || beside.iter().all(|row| !row.counters.is_empty());
    for row in beside.iter().filter(|row| is_before || !row.counters.is_empty()) {
        take_out(&mut alone, row);
    }
    if is_before {
        beside.iter().for_each(|row| shorten(&mut alone, row));
    }
    let is_blurred = |op: &Op| {
        let sum = |rows: &[Traffic]| -> u64 {
            rows.iter().filter(|row| row.op == *op && moves(row)).map(|row| row.requests).sum()
        };
        sum(&beside) as f64 > BESIDE * sum(&run.traffic) as f64
    };
    let mut blurred: Vec<Op> = WAYS.into_iter().filter(is_blurred).collect();
    let of_journal = |row: &&Traffic| role(name(row)).is_some_and(is_journal);
    let journal = of_jobs.into_iter().filter(|row| WAYS.contains(&row.op)).filter(of_journal);
    let journal: Vec<Traffic> = journal.cloned().collect();
    for row in &journal {
        take_out_journal(&mut alone, row);
        if !region.is_some_and(|region| leave_region(&mut alone, row, region)) {
            blurred.push(row.op);
        }
    }
    let has_preparation = beside.iter().any(|row| {
        let lasted_ns = row.active_ns.map_or(0, |(from, to)| to - from);
        row.latency.sum() > u128::from(lasted_ns)
    });
    let has_journal = !journal.is_empty();
    Some(Jobs { run: alone, blurred, is_unclear, has_series, has_journal, has_preparation })
}

/// A file system's requests since the load began. They are not divided by time, but a row that
/// ended before is left out.
fn since(row: &Traffic, first_ns: u64) -> Option<Traffic> {
    let Some((from, to)) = row.active_ns else { return Some(row.clone()) };
    let active_ns = Some((from.max(first_ns), to));
    (to > first_ns).then(|| Traffic { active_ns, ..row.clone() })
}

/// Subtracts the flushes that the process made outside its jobs from those of a device.
fn leave_flushes(run: &ProfileRun, flushes: &mut Traffic) {
    let is_beside = |row: &&Traffic| {
        let is_job = role(group(run, row.group)).is_some();
        row.op == Op::Flush && row.class.is_of_the_program() && !is_job
    };
    if flushes.class == Class::DeviceFlush && !are_of_workers(run, Op::Flush) {
        let beside = run.traffic.iter().filter(|row| row.device == flushes.device);
        let beside: u64 = beside.filter(is_beside).map(|row| row.requests).sum();
        flushes.requests = flushes.requests.saturating_sub(beside);
    }
}

/// Whether the requests of other threads in this direction were made by io_uring workers for jobs:
/// a worker's name has the number of the thread for which it works.
fn are_of_workers(run: &ProfileRun, op: Op) -> bool {
    let requests = |thread: &ThreadRun| match op {
        Op::Read => thread.reads,
        Op::Write => thread.writes,
        _ => thread.others,
    };
    let is_of_job = |thread: &ThreadRun| {
        let of = thread.name.strip_prefix("iou-wrk-").and_then(|number| number.parse().ok());
        of.is_some_and(|of: u32| {
            run.threads.iter().any(|job| job.tid == Some(of) && role(&job.name).is_some())
        })
    };
    let own = run.threads.iter().filter(|thread| thread.of_program && !thread.of_kernel);
    let others = own.filter(|thread| role(&thread.name).is_none() && requests(thread) > 0);
    let mut others = others.peekable();
    others.peek().is_some() && others.all(is_of_job)
}

/// Subtracts the requests of one thread outside the jobs from the series; in earlier records, the
/// first requests.
fn take_out(run: &mut ProfileRun, row: &Traffic) {
    take_from_series(run, row, |ops| {
        let mut left = row.requests;
        for ops in ops {
            let part = left.min(*ops);
            *ops -= part;
            left -= part;
        }
    });
}

/// Subtracts one thread's requests before the jobs from the time with one request in flight.
fn shorten(run: &mut ProfileRun, row: &Traffic) {
    let device = run.devices.iter_mut().find(|device| device.facts.name == row.device);
    let Some(device) = device else { return };
    let lasted_ns = u64::try_from(row.latency.sum()).unwrap_or(u64::MAX);
    let shorten = |depth: &mut Depth| {
        for (_, ns) in depth.time_ns.iter_mut().filter(|(level, _)| *level == 1) {
            *ns = ns.saturating_sub(lasted_ns);
        }
    };
    shorten(&mut device.program_depth);
    shorten(&mut device.depth);
}

/// Subtracts the requests of a journal from the series of its direction; in earlier records, the
/// same share everywhere.
fn take_out_journal(run: &mut ProfileRun, row: &Traffic) {
    take_from_series(run, row, |ops| {
        let whole: u64 = ops.iter().sum();
        let kept = 1.0 - (row.requests as f64 / whole.max(1) as f64).min(1.0);
        let (mut so_far, mut given) = (0, 0);
        for ops in ops {
            so_far += *ops;
            let now = (so_far as f64 * kept).round() as u64;
            *ops = now - given;
            given = now;
        }
    });
}

/// Subtracts the requests of a row from the series of their direction: by its counters or, in
/// earlier records without counters, by `guess`.
fn take_from_series(run: &mut ProfileRun, row: &Traffic, guess: impl Fn(&mut [u64])) {
    for series in run.series.iter_mut().filter(|series| series.op == row.op) {
        let ops = &mut series.counters.ops;
        if row.counters.is_empty() {
            guess(ops);
        } else {
            ops.iter_mut().zip(&row.counters.ops).for_each(|(all, own)| *all -= (*own).min(*all));
        }
    }
}

/// Removes a journal's region from the places of its disk; returns whether its requests were there.
fn leave_region(run: &mut ProfileRun, row: &Traffic, (offset, bytes): (u64, u64)) -> bool {
    let Some(places) = run.places.iter_mut().find(|places| places.device == row.device) else {
        return true;
    };
    let is_within = |number: u64| {
        let at = number * places.chunk_bytes;
        at >= offset && at < offset + bytes
    };
    let within = places.chunks.iter().filter(|chunk| is_within(chunk.number));
    let found: u64 = within.map(|chunk| chunk.writes).sum();
    let found = (found << places.chunk_shift) as f64;
    places.chunks.retain(|chunk| !is_within(chunk.number));
    (found / row.requests.max(1) as f64 - 1.0).abs() <= NEAR
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_fixtures::profile_model::{chunk, profile, row, series, sync};
    use iosonde_model::record::profile::{Group, Places, SyncKind};

    const MIB: u64 = 1 << 20;

    /// A replay: 100 reads that inspect the target in the first second, then 1,000 writes of a job
    /// and 500 of a journal.
    fn replay() -> ProfileRun {
        let late = Some((1_000_000_000, 10_000_000_000));
        let mut run = profile(vec![
            Traffic { active_ns: Some((0, 900_000_000)), ..row(Class::Program, Op::Read, 100) },
            Traffic { group: 2, active_ns: late, ..row(Class::Program, Op::Write, 1000) },
            Traffic { group: 3, active_ns: late, ..row(Class::Program, Op::Write, 500) },
            row(Class::DeviceFlush, Op::Flush, 37),
            row(Class::Program, Op::Flush, 7),
        ]);
        run.subject = Subject::Command {
            words: ["iosonde", "run", "app.toml"].map(String::from).into(),
            pid: 1,
        };
        let names = ["other threads", "iosonde", "job 0 app-write", "job 1 journal"];
        run.groups = names.map(|name| Group { name: name.into(), threads: 1 }).into();
        run.syncs = vec![
            sync(SyncKind::Fsync, 1, 7),
            sync(SyncKind::Fdatasync, 2, 100),
            sync(SyncKind::Fdatasync, 3, 250),
        ];
        let mut reads = vec![0; 100];
        reads[..10].fill(10);
        run.series = vec![series(Op::Read, reads), series(Op::Write, vec![15; 100])];
        run.places = vec![Places {
            device: "vda".into(),
            chunk_bytes: MIB,
            block_bytes: 4096,
            chunks: vec![chunk(0, (100, 100), (200, 1000)), chunk(5, (0, 0), (256, 500))],
            ..Places::default()
        }];
        run
    }

    #[test]
    fn a_journal_and_an_inspection_are_taken_out() {
        let jobs = jobs(&replay(), Some((5 * MIB, MIB))).unwrap();
        let rows: Vec<(Class, u64)> =
            jobs.run.traffic.iter().map(|row| (row.class, row.requests)).collect();
        let expected = [(Class::Program, 1000), (Class::Journal, 500), (Class::DeviceFlush, 30)];
        assert_eq!(rows, expected);
        assert_eq!(jobs.run.syncs.iter().map(|sync| sync.calls).collect::<Vec<_>>(), [100]);
        let ops = |at: usize| jobs.run.series[at].counters.ops.iter().sum::<u64>();
        assert_eq!([ops(0), ops(1)], [0, 1000]);
        let chunks = &jobs.run.places[0].chunks;
        assert_eq!(chunks.iter().map(|chunk| chunk.number).collect::<Vec<_>>(), [0]);
        assert_eq!(
            (jobs.blurred, jobs.is_unclear, jobs.has_journal),
            (vec![Op::Read], false, true)
        );
    }

    /// A test file is written at depth 8 before the load; its file system has a journal.
    #[test]
    fn the_preparation_of_a_file_is_no_job() {
        let mut run = replay();
        run.groups.push(Group { name: "job 0 layout".into(), threads: 1 });
        let mut layout = Traffic {
            group: 4,
            active_ns: Some((100_000_000, 900_000_000)),
            ..row(Class::Program, Op::Write, 64)
        };
        for _ in 0..64 {
            layout.latency.record(100_000_000);
        }
        let journal =
            |active_ns| Traffic { active_ns: Some(active_ns), ..row(Class::Journal, Op::Write, 9) };
        run.traffic.push(layout);
        run.traffic.push(journal((100_000_000, 800_000_000)));
        run.traffic.push(journal((0, 5_000_000_000)));
        run.syncs.push(sync(SyncKind::Fsync, 4, 3));
        let jobs = jobs(&run, Some((5 * MIB, MIB))).unwrap();
        let writes = jobs.run.traffic.iter().filter(|row| row.op == Op::Write);
        let writes: Vec<_> = writes.map(|row| (row.class, row.requests, row.active_ns)).collect();
        let late = Some((1_000_000_000, 10_000_000_000));
        let since = Some((1_000_000_000, 5_000_000_000));
        let program = (Class::Program, 1000, late);
        let expected = [program, (Class::Journal, 500, late), (Class::Journal, 9, since)];
        assert_eq!(writes, expected);
        assert_eq!(jobs.run.syncs.iter().map(|sync| sync.calls).sum::<u64>(), 100);
        assert!(jobs.has_preparation && !jobs.is_unclear);
        assert!(!super::jobs(&replay(), None).unwrap().has_preparation);
        // If it is the only I/O, it is the load itself.
        run.groups[2].name = "x".into();
        run.groups[3].name = "y".into();
        assert!(!is_replay(&run));
    }

    #[test]
    fn a_journal_that_is_elsewhere_blurs_the_writes() {
        let blurred = |region| jobs(&replay(), region).unwrap().blurred;
        assert_eq!(blurred(Some((7 * MIB, MIB))), [Op::Read, Op::Write]);
        assert_eq!(blurred(None), [Op::Read, Op::Write]);
    }

    #[test]
    fn a_worker_of_io_uring_counts_for_its_job() {
        let thread = |name: &str, tid: u32, writes: u64| ThreadRun {
            name: name.into(),
            tid: Some(tid),
            of_program: true,
            writes,
            ..ThreadRun::default()
        };
        let mut run = replay();
        run.traffic.push(Traffic { group: 1, ..row(Class::Program, Op::Write, 40) });
        let writes = |run: &ProfileRun| -> u64 {
            let rows = &jobs(run, None).unwrap().run.traffic;
            let own = rows.iter().filter(|row| row.class == Class::Program);
            own.map(|row| row.requests).sum()
        };
        run.threads = vec![thread("job 0 app-write", 11, 1000), thread("iou-wrk-11", 12, 40)];
        assert_eq!(writes(&run), 1040);
        // Requests of the program's own thread.
        run.threads.push(thread("iosonde", 10, 5));
        assert_eq!(writes(&run), 1000);
    }

    #[test]
    fn what_the_process_does_on_other_devices_is_left_out() {
        let mut run = replay();
        let elsewhere = Traffic {
            device: "vdb".into(),
            active_ns: Some((0, 60_000_000_000)),
            counters: series(Op::Write, vec![1; 100]).counters,
            ..row(Class::WriteBack, Op::Write, 100)
        };
        run.traffic.push(elsewhere);
        let alone = jobs(&run, Some((5 * MIB, MIB))).unwrap();
        assert!(alone.run.traffic.iter().all(|row| row.device == "vda"));
        assert_eq!(alone.run.series[1].counters.ops.iter().sum::<u64>(), 900);
        assert!(!alone.is_unclear && alone.blurred == [Op::Read]);
    }

    #[test]
    fn each_device_may_have_a_journal() {
        let mut run = replay();
        run.groups[3].name = "job 1 journal-2".into();
        let classes = jobs(&run, None).unwrap().run.traffic.into_iter().map(|row| row.class);
        assert_eq!(classes.filter(|class| *class == Class::Journal).count(), 1);
    }

    #[test]
    fn a_journal_leaves_the_series_when_it_wrote() {
        let mut run = replay();
        let early: Vec<u64> = (0..100).map(|at| if at < 50 { 10 } else { 0 }).collect();
        run.traffic[2].counters = series(Op::Write, early).counters;
        let left = jobs(&run, None).unwrap().run.series.remove(1).counters.ops;
        assert_eq!((left[0], left[49], left[50], left[99]), (5, 5, 15, 15));
        // An earlier record does not have the counters: the same share everywhere.
        let left = jobs(&replay(), None).unwrap().run.series.remove(1).counters.ops;
        assert_eq!((left[0], left[99]), (10, 10));
    }

    #[test]
    fn another_program_is_no_replay() {
        let mut run = replay();
        run.groups[2].name = "job x".into();
        run.groups[3].name = "jobber".into();
        assert!(!is_replay(&run) && jobs(&run, None).is_none());
    }
}
