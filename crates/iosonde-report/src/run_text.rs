//! One run as text, in a layout similar to that of fio and blkbench.

pub(crate) mod load;

use crate::fio::settled::settled_text;
use std::fmt::Write;

use iosonde_analysis::arrivals::{ArrivalFigures, ArrivalVerdict};
use iosonde_analysis::consistency::{Consistency, Severity};
use iosonde_analysis::figures::{self, DirectionFigures, Durable, Figures, LatencyFigures, Steady};
use iosonde_analysis::phases::PhaseFigures;
use iosonde_model::plan::EngineKind;
use iosonde_model::record::run::{Outcome, Run, by_signal};
use iosonde_model::units::{bytes, count, duration};
use iosonde_stats::dependent::NoInterval;
use iosonde_stats::{Estimate, Quantile, Standing};

use super::clean::clean;
use load::headline;
pub(super) use load::{rw, size};

/// Percentiles per line.
const PER_LINE: usize = 4;

/// The result of a run as text, without findings. An INVALID run has its consistency checks instead
/// of a headline.
pub fn run_text(run: &Run, figures: &Figures, consistency: &Consistency) -> String {
    let mut out = vec![headline(run)];
    out.extend(run.plan.notes.iter().map(|note| format!("  note: {}", clean(note))));
    match &run.outcome {
        Outcome::Complete => {}
        Outcome::Failed { error } => out.push(format!("  FAILED: {}", clean(error))),
        Outcome::Interrupted { signal } => {
            out.push(format!("  PARTIAL: interrupted {}", by_signal(*signal)));
        }
    }
    if consistency.valid() {
        measured(&mut out, run, figures);
    } else {
        out.push("  INVALID: a consistency check failed, so there is no headline".into());
    }
    out.push(ios(run, figures));
    out.extend(first_errors(run));
    out.extend(figures.durable.as_ref().map(durable_text));
    out.extend(settled_text(run));
    out.push(engine(run));
    out.push(consistency_text(consistency));
    if run.plan.engine.kind == EngineKind::IoUringCmd {
        let reason = "NVMe commands bypass the block layer, and its counters do not see them";
        out.push(format!("  device counters: n/a: {reason}"));
    }
    for entry in consistency.broken() {
        let word = if entry.severity == Severity::Invalid { "INVALID" } else { "note" };
        out.push(format!(
            "    {word}: {}: {} (off by {}, tolerance {})",
            entry.code,
            clean(&entry.words()),
            count::percent(entry.residual),
            count::percent(entry.tolerance),
        ));
    }
    out.join("\n") + "\n"
}

fn measured(out: &mut Vec<String>, run: &Run, figures: &Figures) {
    out.extend(steady_note(figures.steady, "run").map(|note| format!("  {note}")));
    let both = figures.all.read.ops > 0 && figures.all.write.ops + figures.all.trim.ops > 0;
    direction(out, "read", &figures.all.read);
    direction(out, "write", &figures.all.write);
    direction(out, "trim", &figures.all.trim);
    if figures.all.sync.ops > 0 {
        let rate = count::significant_or_whole(figures.all.sync.iops);
        out.push(format!("  sync: {rate} per second"));
        latencies(out, "lat", &figures.all.sync.latency);
    }
    if both {
        rate(out, "total", &figures.all.total);
    }
    if let Some(stalls) = &figures.stalls {
        let number =
            format!("  stalls: {} of at most {}", stalls.count, duration::span(stalls.longest_ns));
        // An open loop catches up after stalls.
        let rates = match figures.arrivals {
            Some(_) => String::new(),
            None => format!(
                ", IOPS={} with, {} without",
                count::significant_or_whole(stalls.with),
                count::significant_or_whole(stalls.without)
            ),
        };
        out.push(number + &rates);
    }
    if figures.all.total.ops == 0 {
        out.push("  no operation completed in the measured window".into());
    }
    if figures.roles.len() > 1 {
        for role in &figures.roles {
            let (name, jobs) = (clean(&role.role), count::of(role.jobs.into(), "job"));
            let DirectionFigures { iops, bytes_per_s, latency, .. } = &role.total;
            out.push(format!("  role {name}: {jobs}, {}", means(*iops, *bytes_per_s, latency)));
        }
    }
    for of in &figures.phases {
        phase(out, of, figures);
    }
    for target in &figures.targets {
        let means = means(target.iops, target.bytes_per_s, &target.latency);
        out.push(format!("  target {}: {means}", clean(&target.path)));
    }
    for of in &figures.priorities {
        let whose = match of.class {
            0 => "priority of the thread".into(),
            class if of.hint > 0 => format!("priority {class}/{}, hint {}", of.level, of.hint),
            class => format!("priority {class}/{}", of.level),
        };
        let share = count::significant(of.percent);
        out.push(format!("  {}, {whose}: {share} % of the requests", of.direction));
        out.push(in_short("lat", &of.latency));
    }
    if let Some(open) = &figures.arrivals {
        open_loop(out, open);
    }
    let requested = figures.all.depth_asked;
    let depth = match figures.all.has_depth(figures.inline) {
        true if figures.arrivals.is_some() => {
            format!("  depth: at most {requested}, measured={:.1}", figures.all.depth_seen)
        }
        true => format!("  depth: requested={requested}, measured={:.1}", figures.all.depth_seen),
        false => {
            format!("  depth: requested={requested}, inline (requests complete inside submission)")
        }
    };
    out.push(depth);
    out.push(cpu(figures));
    let overhead = run.backend.tool_overhead_ps as f64 / 1e3;
    if overhead > 0.0 {
        let median = figures.all.total.latency.at(0.5);
        let share = median.filter(|ns| *ns > 0).map_or(String::new(), |ns| {
            match overhead * 100.0 / ns as f64 {
                percent if percent < 0.01 => " (below 0.01 % of the median)".into(),
                percent => format!(" ({} % of the median)", count::significant(percent)),
            }
        });
        out.push(format!("  tool overhead: {} per I/O{share}", duration::latency(overhead)));
        if run.backend.tool_overhead_data_ps > 0 {
            let data = duration::latency(run.backend.tool_overhead_data_ps as f64 / 1e3);
            out.push(format!("  tool overhead for data: {data} of it"));
        }
    }
}

/// Note if the run did not become steady as planned; `what` has the figures.
pub(crate) fn steady_note(steady: Steady, what: &str) -> Option<String> {
    match steady {
        Steady::AsPlanned => None,
        Steady::Lengthened { ns } => Some(format!("warm-up lengthened by {}", duration::span(ns))),
        Steady::NoSteadyPart => {
            Some(format!("no steady state reached: one mean does not describe this {what}"))
        }
    }
}

/// `IOPS=1,000, BW=4.10 MB/s, avg=1.20 ms`
fn means(iops: f64, bytes_per_s: f64, latency: &LatencyFigures) -> String {
    let (iops, rate) = (count::significant_or_whole(iops), bytes::per_second(bytes_per_s));
    let mean = latency.mean_ns.map_or("n/a".into(), duration::latency);
    format!("IOPS={iops}, BW={rate}, avg={mean}")
}

/// The rate and the main latency figures of one phase.
fn phase(out: &mut Vec<String>, of: &PhaseFigures, figures: &Figures) {
    let mut name = format!("phase {} of {}", of.number, duration::span(of.phase.ns));
    if figures.roles.len() > 1 {
        name = format!("role {}, {name}", clean(&of.role));
    }
    if of.phase.rate_percent == 0.0 {
        name.push_str(", idle");
    } else if of.phase.rate_percent != 100.0 {
        let _ = write!(name, ", {} % of the rate", of.phase.rate_percent);
    }
    if let Some(percent) = of.phase.read_percent {
        let _ = write!(name, ", {percent} % reads");
    }
    if of.window_ns == 0 {
        return out.push(format!("  {name}: n/a (no recorded interval lies within it)"));
    }
    rate(out, &name, &of.total);
    if of.total.ops > 0 {
        let latency = if figures.arrivals.is_some() { "response" } else { "lat" };
        out.push(in_short(latency, &of.total.latency));
    }
}

fn direction(out: &mut Vec<String>, name: &str, figures: &DirectionFigures) {
    if figures.ops == 0 {
        return;
    }
    rate(out, name, figures);
    out.extend(within(figures));
    if figures.latency.quantiles.is_empty() {
        return;
    }
    let main = if figures.service.is_some() { "response" } else { "lat" };
    latencies(out, main, &figures.latency);
    let parts = [
        ("service", &figures.service),
        ("lag", &figures.lag),
        ("slat", &figures.slat),
        ("clat", &figures.clat),
    ];
    out.extend(parts.iter().filter_map(|(name, part)| Some(in_short(name, part.as_ref()?))));
}

/// The main figures of a part of the latency on one line.
fn in_short(name: &str, latency: &LatencyFigures) -> String {
    let Some(mean_ns) = latency.mean_ns else { return format!("    {name}: n/a") };
    let (scale, unit) = scale(mean_ns);
    let whole = |ns: Option<u64>| scaled(ns.map(|ns| ns as f64), scale);
    format!(
        "    {name} ({unit}): avg={}, p50={}, p99={}, max={}",
        count::significant(mean_ns / scale),
        whole(latency.at(0.5)),
        whole(latency.at(0.99)),
        whole(latency.max_ns),
    )
}

/// Operations due in an open loop, and how they were served.
fn open_loop(out: &mut Vec<String>, open: &ArrivalFigures) {
    let requested = open.asked_per_s.map_or("as scheduled".into(), |per_s| {
        format!("requested={} per second", count::significant_or_whole(per_s))
    });
    let mut text = format!(
        "  open loop: {requested}, due={}, done={} per second, late={}, queued={}, dropped={}",
        open.due,
        count::significant_or_whole(open.achieved_per_s),
        open.late,
        open.queued,
        open.dropped,
    );
    if let Some(cv) = open.gap_cv {
        let cv = if cv < 0.001 { 0.0 } else { cv };
        let _ = write!(text, ", gap cv={}", count::significant(cv));
    }
    out.push(text);
    if open.verdict == ArrivalVerdict::Unsustainable {
        let interval = open.growth.filter(|growth| growth.is_proven).map(|growth| {
            let [low, high] = [growth.low, growth.high].map(count::significant);
            format!(", 95 % interval {low} to {high}")
        });
        let (overload, interval) = (open.overload(), interval.unwrap_or_default());
        out.push(format!("  UNSUSTAINABLE: {overload}{interval}; so there are no percentiles"));
    }
}

fn rate(out: &mut Vec<String>, name: &str, figures: &DirectionFigures) {
    out.push(format!(
        "  {name}: IOPS={}, BW={}MiB/s ({}MB/s)",
        count::significant_or_whole(figures.iops),
        count::significant_or_whole(figures.bytes_per_s / 1_048_576.0),
        count::significant_or_whole(figures.bytes_per_s / 1e6),
    ));
}

fn latencies(out: &mut Vec<String>, name: &str, latency: &LatencyFigures) {
    let Some(mean_ns) = latency.mean_ns else {
        let why = match latency.count {
            0 => "no operation began and ended in the window",
            _ => "at an unsustainable rate latencies only reflect the length of the run",
        };
        return out.push(format!("    {name}: n/a ({why})"));
    };
    let (scale, unit) = scale(mean_ns);
    out.push(format!(
        "    {name} ({unit}): min={}, max={}, avg={}, stdev={}",
        scaled(latency.min_ns.map(|ns| ns as f64), scale),
        scaled(latency.max_ns.map(|ns| ns as f64), scale),
        scaled(latency.mean_ns, scale),
        scaled(latency.std_dev_ns, scale),
    ));
    out.push(format!("    {name} percentiles ({unit}), n={}:", count::thousands(latency.count)));
    let cells: Vec<String> =
        latency.quantiles.iter().map(|quantile| percentile(quantile, scale)).collect();
    let rows = cells.len().div_ceil(PER_LINE);
    for (index, row) in cells.chunks(PER_LINE).enumerate() {
        let comma = if index + 1 < rows { "," } else { "" };
        out.push(format!("     | {}{comma}", row.join(", ")));
    }
    let intervals = latency.quantiles.iter();
    out.extend(intervals.filter_map(|quantile| interval(quantile, scale, unit)));
    out.extend(without_interval(latency));
    if latency.overflow > 0 {
        out.push(format!("    {} latencies beyond 18 minutes", count::thousands(latency.overflow)));
    }
}

/// The unit for a block of latencies, chosen by their mean.
fn scale(mean_ns: f64) -> (f64, &'static str) {
    if mean_ns < 1e3 {
        (1.0, "nsec")
    } else if mean_ns < 1e6 {
        (1e3, "usec")
    } else {
        (1e6, "msec")
    }
}

fn scaled(ns: Option<f64>, scale: f64) -> String {
    ns.map_or("n/a".into(), |ns| count::significant(ns / scale))
}

/// `99.00th=[   45]`; `~` marks low confidence.
fn percentile(quantile: &Quantile, scale: f64) -> String {
    let mark = if quantile.is_rough() { "~" } else { "" };
    let value = quantile
        .value_ns()
        .map_or("n/a".into(), |ns| format!("{mark}{}", count::significant(ns as f64 / scale)));
    format!("{:>5.2}th=[{value:>6}]", quantile.q * 100.0)
}

/// The interval of a percentile that is not solid, or the reason why it has no value.
fn interval(quantile: &Quantile, scale: f64, unit: &str) -> Option<String> {
    let words = match quantile.estimate {
        Estimate::NotEarned { .. } => format!("n/a ({})", figures::reason(quantile)?),
        Estimate::Value { interval: Ok((low, high)), standing, .. }
            if standing != Standing::Solid =>
        {
            format!(
                "95 % interval {} to {} {unit}{}",
                count::significant(low as f64 / scale),
                count::significant(high as f64 / scale),
                if standing == Standing::LowConfidence { ", low confidence" } else { "" }
            )
        }
        Estimate::Value { .. } => return None,
    };
    Some(format!("     {}: {words}", ordinal(quantile)))
}

/// The percentiles with a value but no interval, listed by reason.
fn without_interval(latency: &LatencyFigures) -> impl Iterator<Item = String> {
    let without = |reason| {
        let names: Vec<String> = latency
            .quantiles
            .iter()
            .filter(|quantile| quantile.interval() == Some(Err(reason)))
            .map(ordinal)
            .collect();
        (!names.is_empty())
            .then(|| format!("     95 % interval of {}: n/a: {reason}", names.join(", ")))
    };
    [NoInterval::RunLonger, NoInterval::OnlyWhole].into_iter().filter_map(without)
}

fn ordinal(quantile: &Quantile) -> String {
    format!("{:.2}th", quantile.q * 100.0)
}

/// The 95 % intervals of rate and mean latency within the run.
fn within(figures: &DirectionFigures) -> Option<String> {
    let (scale, unit) = scale(figures.latency.mean_ns?);
    let iops = ends(figures.iops_interval?, count::significant_or_whole);
    let mean = ends(figures.latency.mean_interval_ns, |ns| count::significant(ns / scale));
    let unit =
        if figures.latency.mean_interval_ns.is_ok() { format!(" {unit}") } else { String::new() };
    Some(format!("    95 % interval: IOPS {iops}; avg {mean}{unit}"))
}

fn ends(interval: Result<(f64, f64), NoInterval>, words: impl Fn(f64) -> String) -> String {
    match interval {
        Ok((low, high)) => format!("{} to {}", words(low), words(high)),
        Err(reason) => format!("n/a: {reason}"),
    }
}

fn cpu(figures: &Figures) -> String {
    let percent = |share: Option<f64>| match share {
        Some(share) => format!("{:.1}%", share * 100.0),
        None => "n/a".into(),
    };
    format!(
        "  cpu: usr={}, sys={}; per I/O: {}, {} syscalls, {} context switches",
        percent(figures.cpu_user_share),
        percent(figures.cpu_system_share),
        figures.cpu_ns_per_op.map_or("n/a".into(), duration::latency),
        figures.syscalls_per_op.map_or("n/a".into(), count::significant),
        figures.switches_per_op.map_or("n/a".into(), count::significant),
    )
}

fn ios(run: &Run, figures: &Figures) -> String {
    let ops: u64 = run.jobs.iter().map(|job| job.read.ops + job.write.ops + job.trim.ops).sum();
    let flushes = u32::from(run.final_sync.is_some());
    let mut text = format!("  ios: total={ops}, errors={}, flushes={flushes}", figures.errors);
    let abandoned: u32 = run.jobs.iter().map(|job| job.abandoned).sum();
    if abandoned > 0 {
        let _ = write!(text, ", never returned={abandoned}");
    }
    let mut kinds: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
    for (name, times) in run.jobs.iter().flat_map(|job| &job.errors) {
        *kinds.entry(name).or_default() += times;
    }
    for (name, times) in kinds {
        let _ = write!(text, ", {} x {times}", clean(name));
    }
    text
}

fn first_errors(run: &Run) -> impl Iterator<Item = String> {
    run.jobs.iter().enumerate().filter_map(|(index, job)| {
        let (offset, length, errno) = job.first_error.as_ref()?;
        let errno = clean(errno);
        Some(format!("  first error of job {index}: {errno} at offset {offset}, {length} B"))
    })
}

fn durable_text(durable: &Durable) -> String {
    match (durable.bytes_per_s, &durable.error) {
        (Some(rate), _) => format!(
            "  durable: {} with the final fsync, which took {}",
            bytes::per_second(rate),
            duration::latency(durable.sync_ns as f64)
        ),
        (None, Some(errno)) => {
            format!("  durable: nothing is known to be, fsync failed with {}", clean(errno))
        }
        (None, None) => "  durable: n/a".into(),
    }
}

fn engine(run: &Run) -> String {
    let mut text = format!("  engine: {}", clean(&run.backend.engine));
    if !run.backend.features.is_empty() {
        let _ = write!(text, " ({})", clean(&run.backend.features.join(", ")));
    }
    if run.plan.engine.kind.is_real() {
        text.push_str(if run.target.direct { ", direct" } else { ", buffered" });
    }
    if let Some(filesystem) = &run.target.filesystem {
        let _ = write!(text, ", {}", clean(filesystem));
    }
    let _ = write!(text, ", timed by {}", clean(&run.backend.clock));
    text
}

fn consistency_text(consistency: &Consistency) -> String {
    let broken = consistency.broken().count();
    let total = consistency.entries.len();
    if broken == 0 {
        format!("  consistency: all {total} checks passed")
    } else {
        format!("  consistency: {broken} of {total} checks failed")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_analysis::{consistency, figures};
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::spec::Phase;

    fn text_of(run: &Run) -> String {
        let figures = figures(run);
        run_text(run, &figures, &consistency(run, &figures))
    }

    #[test]
    fn a_run_reads_as_users_of_fio_expect() {
        let text = text_of(&run_of(&[Load { jobs: 4, noise: 0.0, ..Load::default() }]));
        crate::golden::assert_golden("run.txt", &text);
    }

    #[test]
    fn an_invalid_run_has_no_headline() {
        let mut run = run_of(&[Load::default()]);
        run.jobs[0].read.bytes += 1;
        let text = text_of(&run);
        assert!(text.contains("INVALID") && !text.contains("IOPS="), "{text}");
        assert!(text.contains("bytes: bytes 205,058,049, expected operations x size "), "{text}");
    }

    #[test]
    fn each_phase_has_its_own_rate() {
        let shape = |t: f64| if t < 0.5 { 1.0 } else { 0.0 };
        let mut run = run_of(&[Load { noise: 0.0, shape, ..Load::default() }]);
        let phase = |ns, rate_percent| Phase { ns, rate_percent, ..Phase::default() };
        run.plan.warmup_ns = 0;
        run.plan.jobs[0].phases = vec![phase(5_000_000_000, 100.0), phase(5_000_000_000, 0.0)];
        let text = text_of(&run);
        let busy =
            "  phase 1 of 5.0 s: IOPS=5,000, BW=19.5MiB/s (20.5MB/s)\n    lat (msec): avg=6.";
        assert!(text.contains(busy), "{text}");
        assert!(text.contains("  phase 2 of 5.0 s, idle: IOPS=0, BW=0MiB/s (0MB/s)\n"), "{text}");
        run.plan.jobs[0].phases = vec![phase(50_000_000, 100.0), phase(20_000_000, 30.0)];
        let text = text_of(&run);
        let short = "  phase 2 of 20.0 ms, 30 % of the rate: n/a (no recorded interval lies within";
        assert!(text.contains(short), "{text}");
    }

    #[test]
    fn an_unearned_percentile_says_what_it_needs() {
        let text = text_of(&run_of(&[Load { depth: 1, iops: 20.0, ..Load::default() }]));
        assert!(text.contains("99.00th: n/a (needs 370 I/Os, had 200)"), "{text}");
        assert!(text.contains("99.00th=[   n/a]"), "{text}");
    }

    #[test]
    fn errors_and_foreign_strings_are_shown_safely() {
        let mut run = run_of(&[Load::default()]);
        run.jobs[0].errors.insert("read EIO".into(), 3);
        run.jobs[0].first_error = Some((4096, 4096, "EIO".into()));
        run.backend.engine = "io\u{1b}[31m_uring".into();
        run.outcome = Outcome::Failed { error: "EIO at\n4096".into() };
        let text = text_of(&run);
        assert!(text.contains("errors=3, flushes=0, read EIO x 3"), "{text}");
        assert!(text.contains(r"FAILED: EIO at\n4096"), "{text}");
        assert!(text.contains(r"engine: io\x1b[31m_uring"), "{text}");
        assert!(text.contains("first error of job 0: EIO at offset 4096, 4096 B"), "{text}");
    }
}
