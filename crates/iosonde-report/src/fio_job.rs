//! Writes a plan as a fio job file: the inverse of `spec::fio`, for cross-checks. It uses only
//! options that every fio since 3.33 accepts, and reports what fio cannot express.

mod order;
mod pace;
mod priorities;
mod sizes;
mod span;

use std::fmt::Write as _;

use order::order;
use pace::pace;
use priorities::priorities;
use sizes::sizes;
use span::{limits, service, span};

use iosonde_model::plan::{
    Engine, EngineKind, Job, LatencyGoal, NumaMode, OnError, Order, Plan, PrecisionGoal, Stop,
};
use iosonde_model::spec::{Data, EachWrite, SyncCall, Wait};

/// Parts of a plan that fio cannot express.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("cannot be expressed as a fio job: {}", .0.join("; "))]
pub struct Unsayable(pub Vec<String>);

/// Options with their values; `None` for an option without a value.
type Words = Vec<(&'static str, Option<String>)>;

/// The options of a job, and what fio cannot express.
#[derive(Default)]
struct Said {
    words: Words,
    missing: Vec<String>,
}

impl Said {
    fn say(&mut self, option: &'static str, value: impl ToString) {
        self.words.push((option, Some(value.to_string())));
    }

    fn say_if(&mut self, holds: bool, option: &'static str, value: impl ToString) {
        if holds {
            self.say(option, value);
        }
    }

    /// Adds an option without a value.
    fn word(&mut self, option: &'static str) {
        self.words.push((option, None));
    }

    fn word_if(&mut self, holds: bool, option: &'static str) {
        if holds {
            self.word(option);
        }
    }

    /// Adds something that fio cannot express.
    fn lacks(&mut self, what: impl Into<String>) {
        self.missing.push(what.into());
    }

    fn lacks_if(&mut self, holds: bool, what: &str) {
        if holds {
            self.lacks(what);
        }
    }

    /// Adds a time; fio's shortest unit is a microsecond.
    fn time(&mut self, option: &'static str, ns: u64) {
        let (count, unit) = match self.whole(option, ns, (1000, "us")) {
            micros if micros.is_multiple_of(1_000_000) => (micros / 1_000_000, "s"),
            micros if micros.is_multiple_of(1_000) => (micros / 1_000, "ms"),
            micros => (micros, "us"),
        };
        self.say(option, format!("{count}{unit}"));
    }

    /// The same unless it is zero.
    fn time_if_any(&mut self, option: &'static str, ns: u64) {
        if ns > 0 {
            self.time(option, ns);
        }
    }

    /// Converts a time to the only unit of an option, and reports a remainder.
    fn whole(&mut self, option: &str, ns: u64, (unit_ns, unit): (u64, &str)) -> u64 {
        if !ns.is_multiple_of(unit_ns) {
            self.lacks(format!("{option}: found {ns} ns, expected a whole number of {unit}"));
        }
        ns / unit_ns
    }
}

/// A plan, and the indexes of the targets that are files created by the run.
pub type Group<'a> = (&'a Plan, &'a [u16]);

/// The job file that makes fio carry out the plans one after another. In place of a target created
/// by the run, fio creates and removes its own file in the same directory.
///
/// # Errors
/// If fio cannot express some parts of the plans; lists them.
pub fn fio_job(groups: &[Group<'_>]) -> Result<String, Unsayable> {
    let mut text = String::new();
    for (name, words) in &sections(groups)? {
        let _ = writeln!(text, "{}[{name}]", if text.is_empty() { "" } else { "\n" });
        for (option, value) in words {
            let _ = match value {
                Some(value) => writeln!(text, "{option}={value}"),
                None => writeln!(text, "{option}"),
            };
        }
    }
    Ok(text)
}

/// The same as arguments of the `fio` command.
///
/// # Errors
/// If fio cannot express some parts of the plans; lists them.
pub fn fio_arguments(groups: &[Group<'_>]) -> Result<Vec<String>, Unsayable> {
    let mut arguments = Vec::new();
    for (name, words) in sections(groups)? {
        arguments.push(format!("--name={name}"));
        arguments.extend(words.into_iter().map(|(option, value)| match value {
            Some(value) => format!("--{option}={value}"),
            None => format!("--{option}"),
        }));
    }
    Ok(arguments)
}

/// One section per job. Each contains all options, since fio would apply global ones to later
/// groups too.
fn sections(groups: &[Group<'_>]) -> Result<Vec<(String, Words)>, Unsayable> {
    let mut missing = Vec::new();
    let mut sections = Vec::new();
    for (index, (plan, fresh)) in groups.iter().enumerate() {
        let mut jobs = plan.jobs.as_slice();
        while let Some(first) = jobs.first() {
            let (copies, increment) = copies(jobs);
            let mut out = Said::default();
            out.word_if(index > 0 && jobs.len() == plan.jobs.len(), "stonewall");
            common(plan, &mut out);
            own(plan, first, fresh, &mut out);
            if copies > 1 {
                out.say("numjobs", copies);
                out.say_if(increment > 0, "offset_increment", increment);
                if shares_turns(first) && plan.stop == Stop::AfterOnePass {
                    out.lacks("jobs that cover one region together, each block once");
                }
            }
            missing.extend(out.missing);
            sections.push((section_name(&first.role), out.words));
            jobs = &jobs[copies..];
        }
    }
    missing.sort();
    missing.dedup();
    if missing.is_empty() { Ok(sections) } else { Err(Unsayable(missing)) }
}

/// Number of copies of the first job at the start of `jobs`, and the distance of their regions.
/// Copies differ only in seeds and in equidistant regions.
fn copies(jobs: &[Job]) -> (usize, u64) {
    let like = |a: &Job, b: &Job| {
        let neutral = |job: &Job| Job {
            seed: 0,
            region_start: 0,
            order: match &job.order {
                Order::Permutation { lanes, .. } => {
                    Order::Permutation { seed: 0, lane: 0, lanes: *lanes }
                }
                Order::RandomMap { .. } => Order::RandomMap { seed: 0 },
                other => other.clone(),
            },
            ..job.clone()
        };
        neutral(a) == neutral(b)
    };
    let first = &jobs[0];
    let distance = |job: &Job, from: &Job| job.region_start.checked_sub(from.region_start);
    let increment = jobs.get(1).and_then(|second| distance(second, first)).unwrap_or(0);
    let count = jobs.windows(2).take_while(|pair| {
        like(first, &pair[1]) && distance(&pair[1], &pair[0]) == Some(increment)
    });
    (1 + count.count(), increment)
}

fn shares_turns(job: &Job) -> bool {
    matches!(job.order, Order::Permutation { lanes, .. } if lanes > 1)
}

/// Options common to all jobs.
fn common(plan: &Plan, out: &mut Said) {
    if plan.jobs.iter().all(|job| job.engine.is_none()) {
        engine(&plan.engine, out);
    }
    let direct = plan.targets.iter().any(|target| target.direct);
    if plan.targets.iter().any(|target| target.direct != direct) {
        out.lacks("direct and buffered I/O in one run");
    }
    out.say("direct", u8::from(direct));
    out.word("thread");
    out.word("group_reporting");
    // fio reads a signed number; 0 means unset.
    out.say("randseed", (plan.seed & i64::MAX as u64).max(1));
    if let PrecisionGoal::Settled(settling) = plan.until {
        out.say("steadystate", settling);
        out.time("steadystate_duration", settling.window_ns());
        out.time("steadystate_ramp_time", settling.ramp_ns);
        if settling.interval_ns != 1_000_000_000 {
            out.time("steadystate_check_interval", settling.interval_ns);
        }
    } else if plan.until != PrecisionGoal::None {
        out.lacks("an end as soon as a figure is known: runtime is the longest it may take");
    }
    if plan.latency != LatencyGoal::None {
        out.lacks("a latency target, for fio finds its depth in another way");
    }
    if let Stop::AfterNs(ns) | Stop::AfterNsOrBytes(ns, _) = plan.stop {
        out.time("runtime", ns);
    }
    out.word_if(matches!(plan.stop, Stop::AfterNs(_)), "time_based");
    out.time_if_any("ramp_time", plan.warmup_ns);
    out.say_if(plan.on_error == OnError::Continue, "continue_on_error", "all");
    out.say_if(plan.final_sync, "end_fsync", 1);
}

fn engine(engine: &Engine, out: &mut Said) {
    match EngineKind::of_fio(engine.kind.name()) {
        Some(kind) => out.say("ioengine", kind.name()),
        None => out.lacks(format!("the {} engine", engine.kind.name())),
    }
    if engine.kind.is_uring() {
        let modes = [
            ("hipri", engine.iopoll),
            ("sqthread_poll", engine.sqpoll),
            ("registerfiles", engine.registered_files),
            ("fixedbufs", engine.fixed_buffers),
        ];
        for (option, _) in modes.iter().filter(|(_, on)| *on) {
            out.say(option, 1);
        }
        if let Some(cpu) = engine.sqpoll_cpu {
            out.say("sqthread_poll_cpu", cpu);
        }
        out.say("nonvectored", u8::from(!engine.vectored));
    }
}

/// Options of one job.
fn own(plan: &Plan, job: &Job, fresh: &[u16], out: &mut Said) {
    let files = targets(plan, job, fresh, out);
    direction(job, out);
    sizes(job, out);
    out.say("offset", job.region_start);
    // For a stream that goes backwards, fio counts the hole before its first block.
    let above = if job.stride_bytes < 0 { job.stride_bytes.unsigned_abs() } else { 0 };
    out.say("size", (job.region_bytes + above).saturating_mul(files));
    match plan.stop_of(job) {
        Stop::AfterBytes(bytes) | Stop::AfterNsOrBytes(_, bytes) => out.say("io_size", bytes),
        Stop::AfterOps(ops) => {
            out.say("number_ios", ops);
            // Otherwise fio stops at the size.
            out.say("io_size", ops.saturating_mul(job.block_bytes));
        }
        Stop::AfterNs(_) | Stop::AfterOnePass | Stop::EachJob => {}
    }
    span(plan, job, out);
    queue(plan.engine_of(job).kind, job, out);
    order(job, out);
    pace(job, out);
    if job.writes_data() {
        durability(job, out);
        data(&job.data, out);
    }
    if job.data.checked {
        let by_pattern = !job.data.pattern.is_empty();
        out.say("verify", if by_pattern { "pattern" } else { "crc32c" });
        out.say_if(by_pattern, "verify_pattern", digits(&job.data.pattern));
    }
    limits(job, out);
    service(job, out);
    placement(job, out);
    priorities(job, out);
}

/// Writes the files of a job; returns their number.
fn targets(plan: &Plan, job: &Job, fresh: &[u16], out: &mut Said) -> u64 {
    let indexes: Vec<u16> = if job.targets.is_empty() { vec![0] } else { job.targets.clone() };
    let made = indexes.iter().filter(|index| fresh.contains(index)).count();
    let paths: Vec<String> = indexes
        .iter()
        .filter_map(|index| Some((index, plan.targets.get(usize::from(*index))?)))
        .map(|(index, target)| match fresh.contains(index) {
            true => format!("{}/iosonde.fio.{index}", target.path.trim_end_matches('/')),
            false => target.path.clone(),
        })
        .collect();
    if paths.iter().any(|path| path.contains([';', '#', '\n', '\r']) || path.trim() != path) {
        out.lacks("a path with `;`, `#`, a line break or a blank at its end");
    }
    if plan.engine.kind != EngineKind::Null {
        let names: Vec<String> = paths.iter().map(|path| path.replace(':', "\\:")).collect();
        out.say("filename", names.join(":"));
    }
    if made > 0 && made < indexes.len() {
        out.lacks("a job on files that are there and on files of its own");
    }
    if made > 0 {
        // Written in full before the run and removed after it, as by iosonde.
        out.say("overwrite", 1);
        out.say("unlink", 1);
    }
    indexes.len() as u64
}

fn direction(job: &Job, out: &mut Said) {
    let random = !matches!(job.order, Order::Sequential { .. });
    let word = match (job.read_percent, job.trims) {
        (100, _) => "read",
        (0, _) if job.rewrites => "trimwrite",
        (0, false) => "write",
        (0, true) => "trim",
        (_, false) => "rw",
        (_, true) => {
            out.lacks("reads mixed with trims");
            "rw"
        }
    };
    let hole = match job.stride_bytes {
        0 => String::new(),
        stride => match i64::try_from(job.block_bytes) {
            Ok(block) => format!(":{}", stride - block),
            Err(_) => String::new(),
        },
    };
    let prefix = if random { "rand" } else { "" };
    let run = match job.order {
        Order::Runs { length, .. } => format!(":{length}"),
        _ => String::new(),
    };
    out.say("rw", format!("{prefix}{word}{hole}{run}"));
    out.say_if(word == "rw", "rwmixread", job.read_percent);
}

fn queue(engine: EngineKind, job: &Job, out: &mut Said) {
    out.say("iodepth", job.iodepth);
    if engine.is_synchronous() {
        return;
    }
    out.say("iodepth_batch_submit", job.batch);
    out.say("iodepth_batch_complete_min", job.reap.complete_min);
    let most = if job.reap.complete_max == 0 { job.iodepth } else { job.reap.complete_max };
    out.say("iodepth_batch_complete_max", most);
    out.say_if(job.reap.refill_at > 0, "iodepth_low", job.reap.refill_at);
    out.lacks_if(job.reap.wait != Wait::Event, "waiting without sleeping");
}

fn durability(job: &Job, out: &mut Said) {
    if job.sync.every_writes > 0 {
        let option = match job.sync.call {
            SyncCall::Fsync => "fsync",
            SyncCall::Fdatasync => "fdatasync",
        };
        let writes = (job.pace.burst_length() / job.sync.per_write()).round().max(1.0);
        out.say(option, writes);
        out.lacks_if(job.sync.extra_syncs > 0, "several syncs in a number of writes");
    }
    out.lacks_if(job.sync.barrier, "group commit");
    out.lacks_if(job.sync.in_flight > 0, "a limit of the syncs in flight");
    out.lacks_if(job.commit.is_some(), "commits of another job");
    match job.sync.each_write {
        EachWrite::Accepted => {}
        EachWrite::Dsync => out.say("sync", "dsync"),
        EachWrite::Sync => out.say("sync", "sync"),
    }
    out.say_if(job.sync.atomic, "atomic", 1);
}

/// A pattern in fio's notation.
fn digits(pattern: &[u8]) -> String {
    let digits: String = pattern.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

/// The data to be written, unless the verification determines it.
fn data(data: &Data, out: &mut Said) {
    if data.checked {
        return;
    }
    if !data.pattern.is_empty() {
        return out.say("buffer_pattern", digits(&data.pattern));
    }
    if data.zeros {
        out.word("zero_buffers");
    } else if data.constant {
        out.say("scramble_buffers", 0);
    } else {
        out.word("refill_buffers");
    }
    if data.compress_percent > 0 {
        out.say("buffer_compress_percentage", data.compress_percent);
        out.say("buffer_compress_chunk", 4096);
    }
    out.say_if(data.dedupe_percent > 0, "dedupe_percentage", data.dedupe_percent);
    if data.set_percent > 0 {
        out.say("dedupe_mode", "working_set");
        out.say("dedupe_working_set_percentage", data.set_percent);
        out.say("dedupe_global", u8::from(data.set_shared));
    }
}

fn placement(job: &Job, out: &mut Said) {
    out.say_if(job.place.nice != 0, "nice", job.place.nice);
    let (class, level) = job.place.io_priority;
    if class > 0 {
        out.say("prioclass", class);
        out.say("prio", level);
    }
    if !job.place.cpus.is_empty() {
        let cpus: Vec<String> = job.place.cpus.iter().map(u32::to_string).collect();
        out.say("cpus_allowed", cpus.join(","));
    }
    if let Some(node) = job.place.numa_node {
        let mode = match job.place.numa_mode {
            NumaMode::Bind => "bind",
            NumaMode::Prefer => "prefer",
            NumaMode::Interleave => "interleave",
        };
        let more = job.place.more_numa_nodes.iter().map(|node| format!(",{node}"));
        out.say("numa_mem_policy", format!("{mode}:{node}{}", more.collect::<String>()));
    }
    out.say_if(job.place.huge_pages, "mem", "mmaphuge");
}

/// A section name that fio accepts and does not take for `global`.
fn section_name(role: &str) -> String {
    let clean: String = role
        .chars()
        .map(|c| if c.is_control() || ";#[]".contains(c) { '_' } else { c })
        .take(200)
        .collect();
    let clean = clean.trim();
    match clean {
        "" => "job".into(),
        name if name.starts_with("global") => format!("job-{name}"),
        name => name.into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_model::plan::Target;
    use iosonde_model::spec::{
        Flow, LatencyTarget, Limits, Phase, Priorities, Priority, Pursuit, Rate, Sync,
    };

    fn plan(jobs: Vec<Job>) -> Plan {
        let target = Target { path: "/d:1".into(), bytes: 1 << 30, direct: true, align_bytes: 512 };
        Plan {
            latency: LatencyGoal::None,
            until: PrecisionGoal::None,
            name: "p".into(),
            title: "P".into(),
            pattern: "p".into(),
            nominal_block_bytes: 4096,
            nominal_read_percent: 100,
            engine: Engine::of(EngineKind::Libaio),
            targets: vec![target.clone(), target],
            seed: 5,
            warmup_ns: 0,
            stop: Stop::AfterNs(1_500_000_000),
            on_error: OnError::Stop,
            final_sync: false,
            interval_ns: 1,
            intervals_per_histogram: 1,
            pinned: false,
            notes: Vec::new(),
            jobs,
        }
    }

    #[test]
    fn copies_become_numjobs_with_an_increment() {
        let job = |start| Job { role: "a".into(), region_start: start, ..Job::default() };
        let text = fio_job(&[(&plan(vec![job(0), job(8192), job(16_384), job(0)]), &[])]).unwrap();
        assert_eq!(text.matches("numjobs=3").count(), 1, "{text}");
        assert!(text.contains("offset_increment=8192"), "{text}");
        assert!(text.contains("filename=/d\\:1\n") && text.contains("runtime=1500ms"), "{text}");
        assert_eq!(text.matches("[a]").count(), 2, "{text}");
    }

    #[test]
    fn priorities_are_a_percentage_or_a_split() {
        let of = |percent, bytes| Priority { percent, bytes, class: 2, level: 1, hint: 0 };
        let said = |read: Vec<Priority>| {
            let priorities = Priorities { read, write: Vec::new() };
            fio_job(&[(&plan(vec![Job { priorities, ..Job::default() }]), &[])])
        };
        let text = said(vec![of(20, 0)]).unwrap();
        for line in ["cmdprio_percentage=20,0\n", "cmdprio_class=2,1\n", "cmdprio=1,0\n"] {
            assert!(text.contains(line), "{text}");
        }
        let text = said(vec![of(20, 4096), of(30, 8192)]).unwrap();
        assert!(text.contains("cmdprio_bssplit=4096/20/2/1:8192/30/2/1,\n"), "{text}");
        let error = said(vec![Priority { hint: 1, ..of(20, 0) }]).unwrap_err();
        assert_eq!(error.0, ["hints of I/O priorities"]);
    }

    #[test]
    fn what_fio_has_no_words_for_is_named() {
        let job = Job {
            read_percent: 0,
            phases: vec![Phase { ns: 1, rate_percent: 100.0, ..Phase::default() }],
            sync: Sync { every_writes: 4, barrier: true, ..Sync::default() },
            ..Job::default()
        };
        let mut plan = plan(vec![job]);
        plan.engine = Engine::of(EngineKind::Sim);
        let error = fio_job(&[(&plan, &[])]).unwrap_err();
        assert_eq!(error.0, ["group commit", "phases", "the sim engine"]);
    }

    #[test]
    fn a_time_is_exact_or_named() {
        let with = |least_over_ns, sleep_ns| {
            let limits =
                Limits { least_read: Some(Rate::Ops(5.0)), least_over_ns, ..Limits::default() };
            let flow = Some(Flow { id: 1, weight: 2, sleep_ns });
            let job = Job { limits, flow, ..Job::default() };
            fio_job(&[(&Plan { warmup_ns: sleep_ns, ..plan(vec![job]) }, &[])])
        };
        let text = with(20_000_000, 7_000).unwrap();
        for line in ["rate_cycle=20\n", "flow_sleep=7\n", "ramp_time=7us\n"] {
            assert!(text.contains(line), "{text}");
        }
        let missing = [
            "flow_sleep: found 1500 ns, expected a whole number of us",
            "ramp_time: found 1500 ns, expected a whole number of us",
            "rate_cycle: found 20500000 ns, expected a whole number of ms",
        ];
        assert_eq!(with(20_500_000, 1_500).unwrap_err().0, missing);
    }

    #[test]
    fn a_seed_is_one_that_fio_reads() {
        let seeded = |seed| Plan { seed, ..plan(vec![Job::default()]) };
        for (seed, said) in [(u64::MAX, i64::MAX as u64), (5, 5), (0, 1), (1 << 63, 1)] {
            let text = fio_job(&[(&seeded(seed), &[])]).unwrap();
            assert!(text.contains(&format!("randseed={said}\n")), "{text}");
        }
    }

    #[test]
    fn a_role_never_makes_a_global_section() {
        assert_eq!(section_name("global"), "job-global");
        assert_eq!(section_name("a]\n#b"), "a___b");
        assert_eq!(section_name(" "), "job");
    }

    #[test]
    fn a_latency_target_is_not_left_out() {
        let mut sought = plan(vec![Job::default()]);
        assert!(fio_job(&[(&sought, &[])]).is_ok());
        sought.latency = LatencyGoal::Target {
            target: LatencyTarget { quantile: 0.99, limit_ns: 5_000_000 },
            pursuit: Pursuit::Search,
            patience_ns: 1_000_000_000,
        };
        let error = fio_job(&[(&sought, &[])]).unwrap_err().to_string();
        assert!(error.contains("a latency target"), "{error}");
    }
}
