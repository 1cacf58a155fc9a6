//! Text form of a plan for `--dry-run`.

use super::{Job, LatencyGoal, Order, Plan, PrecisionGoal, Pursuit, Stop};
use crate::spec::{
    Arrivals, Commit, Draw, EachWrite, Pace, Priority, Rate, Sequence, Sizes, SyncCall, Think, Zone,
};
use crate::units::clean::clean;
use crate::units::{bytes, count, duration};

/// Describes a plan for `--dry-run`: one line per fact, resolved values only.
pub fn describe(plan: &Plan) -> String {
    let mut out = format!("plan {}  ({})\n", clean(&plan.title), &plan.hash()[..12]);
    let mut line = |name: &str, words: String| out.push_str(&format!("  {name:<9} {words}\n"));
    let engine = plan.engine.kind.name();
    line(
        "engine",
        match plan.engine.chosen_because.as_str() {
            "" => engine.into(),
            why => format!("{engine} ({why})"),
        },
    );
    for target in &plan.targets {
        let bytes = count::thousands(target.bytes);
        let how = if target.direct { "direct" } else { "buffered" };
        let (path, align) = (clean(&target.path), target.align_bytes);
        line("target", format!("{path}, {bytes} bytes from 0, {how}, alignment {align} B"));
    }
    line("seed", plan.seed.to_string());
    let seconds = |ns: u64| format!("{} s", count::significant(ns as f64 / 1e9));
    line(
        "length",
        match plan.stop {
            Stop::AfterNs(ns) => {
                format!("{} warm-up, then {} measured", seconds(plan.warmup_ns), seconds(ns))
            }
            Stop::AfterOps(ops) => format!("{} operations per job", count::thousands(ops)),
            Stop::AfterBytes(length) => format!("{} per job", bytes::exact(length)),
            Stop::AfterNsOrBytes(ns, length) => {
                format!("{} measured, or less with {} per job", seconds(ns), bytes::exact(length))
            }
            Stop::AfterOnePass => "one pass over each region".into(),
            Stop::EachJob => "each job to its own end".into(),
        },
    );
    line("buffers", bytes::exact(plan.buffer_bytes()));
    line("writes", volume(plan));
    plan.notes.iter().for_each(|note| line("note", clean(note)));
    if let LatencyGoal::Target { target, pursuit, patience_ns } = plan.latency {
        let (how, most, patience) = (pursuit.word(), plan.depth(), duration::span(patience_ns));
        let what = if pursuit == Pursuit::Search { "each depth" } else { "converging" };
        line(
            "latency",
            format!(
                "{target}, by {how} of a depth from 1 to {most}, {what} at most for {patience}"
            ),
        );
    }
    match plan.until {
        PrecisionGoal::None => {}
        PrecisionGoal::Known { precision, look_ns } => {
            let every = duration::span(look_ns);
            let words = format!(
                "{precision} at two checks in a row, one every {every}; the length is the maximum"
            );
            line("until", words);
        }
        PrecisionGoal::Steady { round_ns, max, window, range_percent, slope_percent } => {
            let round = duration::latency(round_ns as f64);
            let words = format!(
                "rounds of {round}, {max} at most; {window} in a row are steady if their range is \
                 within {range_percent} % of the mean, and their slope within {slope_percent} %"
            );
            line("steady", words);
        }
        PrecisionGoal::Settled(settling) => {
            let intervals = settling.intervals;
            let [each, ramp] = [settling.interval_ns, settling.ramp_ns].map(duration::span);
            let words = format!(
                "{settling} over {intervals} of {each} each, from {ramp} after the start; the \
                 length is the maximum"
            );
            line("steady", words);
        }
    }
    for (index, job) in plan.jobs.iter().enumerate() {
        let words = format!(
            "{}: {} % reads, {} blocks, depth {}, {} in [{}, {}){}",
            job.role,
            job.read_percent,
            sizes_words(job),
            job.iodepth,
            order_words(&job.order),
            job.region_start,
            job.region_start + job.region_bytes,
            span_words(job) + &load_words(job),
        );
        line(&format!("job {index:<5}"), words);
    }
    out
}

/// The sizes of a job: one draw, or one each for reads and other operations if they differ.
fn sizes_words(job: &Job) -> String {
    let Sizes { read, write, trim } = &job.sizes;
    let one = |draw: &Draw| match draw {
        Draw::Block => bytes::exact(job.block_bytes),
        Draw::Fixed(length) => bytes::exact(*length),
        Draw::Range { low, high, .. } => {
            format!("{} to {}", bytes::exact(*low), bytes::exact(*high))
        }
        Draw::Split(shares) => {
            let share = |(length, percent): &(u64, f64)| {
                format!("{} ({} %)", bytes::exact(*length), count::significant(*percent))
            };
            shares.iter().map(share).collect::<Vec<_>>().join(" or ")
        }
    };
    let other = if job.trims { trim } else { write };
    match (job.reads(), job.changes()) {
        (true, true) if read != other => format!("{} / {}", one(read), one(other)),
        (true, _) => one(read),
        _ => one(other),
    }
}

/// The start, end and engine of a job, if they are its own.
fn span_words(job: &Job) -> String {
    let span = &job.span;
    let mut words = String::new();
    let mut say = |applies: bool, what: String| {
        if applies {
            words.push_str(&format!(", {what}"));
        }
    };
    if let Some(engine) = &job.engine {
        say(true, format!("by {}", engine.kind.name()));
    }
    say(span.delay_ns > 0, format!("begins {} later", duration::span(span.delay_ns)));
    say(!span.after.is_empty(), format!("begins after {}", clean(&span.after)));
    say(span.ends_all, "its end is that of all jobs".into());
    say(span.ends_group, format!("its end is that of all jobs of group {}", span.group));
    let most_ns = span.most_latency_ns;
    say(most_ns > 0, format!("fails with a latency above {}", duration::span(most_ns)));
    match span.stop {
        None | Some(Stop::EachJob) => {}
        Some(Stop::AfterNs(ns)) => say(true, format!("ends after {}", duration::span(ns))),
        Some(Stop::AfterOps(ops)) => {
            say(true, format!("ends after {} operations", count::thousands(ops)));
        }
        Some(Stop::AfterBytes(length)) => say(true, format!("ends after {}", bytes::exact(length))),
        Some(Stop::AfterNsOrBytes(ns, length)) => {
            say(true, format!("ends after {} or {}", duration::span(ns), bytes::exact(length)))
        }
        Some(Stop::AfterOnePass) => say(true, "ends after one pass".into()),
    }
    words
}

/// Settings of the load that differ from the defaults.
fn load_words(job: &Job) -> String {
    let mut words = Vec::new();
    let mut say = |applies: bool, what: String| {
        if applies {
            words.push(format!(", {what}"));
        }
    };
    let ms = |ns: u64| format!("{} ms", count::significant(ns as f64 / 1e6));
    say(job.trims, "trims".into());
    say(job.stride_bytes != 0, format!("stride {} B", job.stride_bytes));
    say(job.unit() != job.block_bytes, format!("offsets in steps of {}", bytes::exact(job.unit())));
    say(job.targets.len() > 1, format!("{} targets in turn", job.targets.len()));
    match &job.pace {
        Pace::Closed => {}
        Pace::Rate { rate, arrivals } => {
            let law = match arrivals {
                Arrivals::Constant => "constant",
                Arrivals::Poisson => "Poisson",
                Arrivals::Drawn(_) => "drawn",
                Arrivals::Bursts(_) => "bursts of",
            };
            say(true, format!("open loop, {}, {law} arrivals", rate_words(rate)));
        }
        Pace::Each { read, other, .. } => {
            let [read, other] = [read, other].map(rate_words);
            say(true, format!("open loop, reads {read}, writes {other}"));
        }
        Pace::Recorded(times) => say(true, format!("open loop, {} recorded times", times.len())),
    }
    let Think { ns, every_ops, every_ns, .. } = job.think;
    say(ns > 0 && every_ns == 0, format!("a pause of {} after every {every_ops}", ms(ns)));
    say(ns > 0 && every_ns > 0, format!("a pause of {} after every {}", ms(ns), ms(every_ns)));
    let least = [job.limits.least_read, job.limits.least_write, job.limits.least_trim];
    let over_ns = job.limits.least_over_ns;
    say(least.iter().any(Option::is_some), format!("fails below a rate over {}", ms(over_ns)));
    say(job.limits.ignores_some(), "some errors do not end the run".into());
    if let Some(flow) = job.flow {
        say(true, format!("flow {} with a weight of {}", flow.id, flow.weight));
    }
    say(job.rewrites, "each trimmed block written next".into());
    let [range, skip] = [job.strides.range_bytes, job.strides.skip_bytes].map(bytes::exact);
    say(job.strides.range_bytes > 0, format!("zones of {range}, {skip} apart"));
    say(!job.phases.is_empty(), format!("{} phases", job.phases.len()));
    let sync = job.sync;
    let call = if sync.call == SyncCall::Fsync { "fsync" } else { "fdatasync" };
    let alone = match (sync.barrier, sync.by_call) {
        (false, _) => "",
        (true, false) => ", alone",
        (true, true) => ", alone, by call",
    };
    let counted = if job.pace.burst_length() > 1.0 { "bursts" } else { "writes" };
    let often = match sync.extra_syncs {
        0 => format!("{call} after every {} {counted}{alone}", sync.every_writes),
        more => format!("{} {call} in every {} {counted}{alone}", more + 1, sync.every_writes),
    };
    let often = match sync.followed {
        0 => often,
        followed => format!("{often}, after {followed} of them"),
    };
    say(sync.every_writes > 0, often);
    say(sync.in_flight > 0, format!("{} syncs in flight at most", sync.in_flight));
    match &job.commit {
        Some(Commit::WaitsFor { role, percent }) => {
            let percent = count::significant(*percent);
            say(true, format!("{percent} % of the syncs after a commit of `{role}`"));
        }
        Some(Commit::Writes(writes)) => {
            say(true, format!("commits of {} writes on demand", count::significant(*writes)));
        }
        None => {}
    }
    say(sync.each_write == EachWrite::Dsync, "every write durable (data)".into());
    say(sync.each_write == EachWrite::Sync, "every write durable (data and metadata)".into());
    say(sync.atomic, "every write as a whole or not at all".into());
    let data = &job.data;
    say(!data.pattern.is_empty(), format!("a pattern of {} B", data.pattern.len()));
    say(data.compress_percent > 0, format!("{} % compressible", data.compress_percent));
    say(data.dedupe_percent > 0, format!("{} % repeated", data.dedupe_percent));
    let whose = if data.set_shared { "one set for all jobs" } else { "a set" };
    let of_set = format!("from {whose}, {} % of the region", data.set_percent);
    say(data.set_percent > 0, of_set);
    say(data.zeros, "zeros".into());
    say(data.constant, "the same bytes again and again".into());
    for (way, list) in [("reads", &job.priorities.read), ("writes", &job.priorities.write)] {
        list.iter().for_each(|priority| say(true, priority_words(way, priority)));
    }
    say(!job.place.cpus.is_empty(), format!("on CPUs {:?}", job.place.cpus));
    say(job.place.huge_pages, "buffers in huge pages".into());
    words.concat()
}

fn rate_words(rate: &Rate) -> String {
    match rate {
        Rate::Ops(ops) => format!("{} operations/s", count::significant(*ops)),
        Rate::Bytes(length) => bytes::per_second(*length),
    }
}

/// The requests with a priority of their own.
fn priority_words(way: &str, priority: &Priority) -> String {
    let Priority { percent, bytes: size, class, level, hint } = priority;
    let of_size = if *size > 0 { format!(" of {}", bytes::exact(*size)) } else { String::new() };
    let hint = if *hint > 0 { format!(", hint {hint}") } else { String::new() };
    format!("{percent} % of the {way}{of_size} with I/O priority {class}/{level}{hint}")
}

/// Amount of data to be written, as far as the plan determines it.
fn volume(plan: &Plan) -> String {
    if !plan.writes() {
        return "nothing".into();
    }
    let write_share = |job: &Job| f64::from(100 - job.read_percent) / 100.0;
    let sum = |of: &dyn Fn(&Job) -> f64| plan.jobs.iter().map(of).sum::<f64>() as u64;
    match plan.stop {
        Stop::AfterNs(_) => "as much as the target takes in the time".into(),
        Stop::EachJob => "as much as the jobs do until they end".into(),
        Stop::AfterOps(ops) => {
            let bytes = sum(&|job| ops as f64 * job.block_bytes as f64 * write_share(job));
            format!("about {}", bytes::rough(bytes))
        }
        Stop::AfterBytes(length) | Stop::AfterNsOrBytes(_, length) => {
            let most = match plan.stop {
                Stop::AfterNsOrBytes(..) => "at most",
                _ => "about",
            };
            format!("{most} {}", bytes::rough(sum(&|job| length as f64 * write_share(job))))
        }
        Stop::AfterOnePass => {
            let bytes = |job: &Job| job.region_bytes as f64 * write_share(job);
            bytes::exact(sum(&|job| bytes(job) / f64::from(lanes(&job.order))))
        }
    }
}

fn lanes(order: &Order) -> u32 {
    match *order {
        Order::Permutation { lanes, .. } | Order::Sequential { lanes, .. } => lanes,
        Order::Following { ref between, .. } | Order::Runs { ref between, .. } => lanes(between),
        _ => 1,
    }
}

fn order_words(order: &Order) -> String {
    match *order {
        Order::Permutation { lanes: 1, .. } => "permuted".into(),
        Order::Permutation { lane, lanes, .. } => format!("permuted (turn {lane} of {lanes})"),
        Order::Sequential { start_block, lanes: 1, .. } => {
            format!("sequential from block {start_block}")
        }
        Order::Sequential { start_block, lane, lanes } => {
            format!("sequential from block {start_block} (turn {lane} of {lanes})")
        }
        Order::SinglePass { spare_percent, .. } => format!("single-pass:{spare_percent}"),
        Order::RandomMap { .. } => "random, every byte once".into(),
        Order::Uniform => "uniform".into(),
        Order::Zipf { theta } => format!("zipf:{theta}"),
        Order::Pareto { h } => format!("pareto:{h}"),
        Order::Normal { deviation_percent } => format!("normal:{deviation_percent}"),
        Order::Zoned { ref zones } => {
            let zone = |zone: &Zone| format!("{}/{}", zone.access_percent, zone.size_percent);
            format!("zoned:{}", zones.iter().map(zone).collect::<Vec<_>>().join(":"))
        }
        Order::Sequence(Sequence { ref blocks, advances }) => {
            let blocks: Vec<String> = blocks.iter().map(u32::to_string).collect();
            let how = if advances { ", further on each time" } else { "" };
            format!("sequence:{}{how}", blocks.join(","))
        }
        Order::Runs { length, same, ref between } => {
            let how = if same { "at each place" } else { "from each place on" };
            format!("{} ({length} {how})", order_words(between))
        }
        Order::Following { drawn_percent, ref between } => {
            format!(
                "{} ({} %, the others following on)",
                order_words(between),
                count::significant(drawn_percent)
            )
        }
    }
}
