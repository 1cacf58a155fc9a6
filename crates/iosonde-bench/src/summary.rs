//! The results as text and tables, and their storage.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use iosonde_stats::{Ratio, ratio::median};

use crate::case::{CaseName, Goal};
use crate::cost;
use crate::machine::Foreign;
use crate::measure::ask;
use crate::numbers::{rate, ratio, spread, whole};
use crate::rounds::{CaseResult, Control, Sample, Start};
use crate::tool::{Kind, Work};
use crate::watched::Programs;
use crate::{BenchError, RunArgs, doing};
use crate::{passes, verify, watched_table};

/// If the control deviates by more than this share, there is no verdict.
const MAX_DEVIATION: f64 = 0.03;
/// Most CPUs that other processes may use.
const MAX_FOREIGN_CPUS: f64 = 0.10;
/// Fewest rounds for a verdict.
const MIN_ROUNDS: u32 = 5;

pub(crate) struct BenchReport {
    control: Control,
    rounds: u32,
    setup: String,
    /// Cases run so far.
    pub(crate) cases: Vec<(CaseName, CaseResult)>,
}

impl BenchReport {
    /// A report that has its control and no cases yet.
    pub(crate) fn new(
        control: Control,
        args: &RunArgs,
        cpu: usize,
        facts: Vec<(&'static str, String)>,
    ) -> Self {
        let mut setup = String::from("# Setup\n\n");
        for (name, value) in facts {
            let _ = writeln!(setup, "- {name}: {value}");
        }
        let _ = writeln!(
            setup,
            "- each tool pinned to CPU {cpu}, {} s per run, {} rounds, order reversed every other \
             round\n\n## Versions\n",
            args.seconds, args.rounds
        );
        for kind in [Kind::IosondeUring, Kind::FioDefault, Kind::FioNewDefault, Kind::Elbencho] {
            let version = kind.program(args).map(|program| {
                ask(&program.to_string_lossy(), &["--version"]).unwrap_or_else(|e| e.to_string())
            });
            let version = version.unwrap_or_else(|reason| reason);
            let _ = writeln!(setup, "- {}: {}", kind.title(), first_line(&version));
        }
        setup.push_str("\n## Commands, with the depth of the first case of each tool\n\n");
        let mut listed = BTreeSet::new();
        let programs = Programs::named();
        for case in CaseName::ALL {
            let work = Work {
                files: &[],
                bytes: case.most_bytes().min(2 << 30),
                depth: case.depth(),
                seconds: case.seconds(args.seconds),
                load: case.load(),
                half_rate: 1e6,
                programs: &programs,
            };
            for kind in case.contenders() {
                let words = kind.arguments(&work).join(" ");
                if !words.is_empty() && listed.insert((*kind, case.load() as u8)) {
                    let _ = writeln!(setup, "- {}: `{words}`", kind.title());
                }
            }
        }
        Self { control, rounds: args.rounds, setup, cases: Vec::new() }
    }

    /// Reasons against a verdict in a case with this CPU use of others; empty if there are none.
    fn doubts(&self, foreign: &Foreign) -> Vec<String> {
        let mut doubts = Vec::new();
        match self.control.deviation {
            Some(deviation) if deviation <= MAX_DEVIATION => {}
            Some(deviation) => doubts.push(format!(
                "the control deviates by {:.1} %, more than {:.0} %",
                deviation * 100.0,
                MAX_DEVIATION * 100.0
            )),
            None => doubts.push("no control".to_owned()),
        }
        if self.rounds < MIN_ROUNDS {
            doubts.push(format!("{} rounds are fewer than {MIN_ROUNDS}", self.rounds));
        }
        if foreign.cpus > MAX_FOREIGN_CPUS {
            let named =
                foreign.busiest.as_ref().filter(|(_, share)| *share > MAX_FOREIGN_CPUS / 2.0);
            let who = named.map_or_else(String::new, |(name, share)| {
                format!(" (still running: {name} with {:.0} %)", share * 100.0)
            });
            let share = foreign.cpus * 100.0;
            doubts.push(format!("other processes used {share:.0} % of a CPU{who}"));
        }
        doubts
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or("")
}

/// A figure of each sample of a tool, in order of rounds.
pub(crate) fn column(
    result: &CaseResult,
    tool: &str,
    figure: impl Fn(&Sample) -> Option<f64>,
) -> Vec<f64> {
    let mut samples: Vec<&Sample> =
        result.samples.iter().filter(|sample| sample.tool == tool).collect();
    samples.sort_by_key(|sample| sample.round);
    samples.into_iter().filter_map(figure).collect()
}

/// The median over rounds of the ratio of our figure to theirs.
pub(crate) fn ratio_in_rounds(
    result: &CaseResult,
    ours: Kind,
    theirs: Kind,
    figure: impl Fn(&Sample) -> f64,
) -> Option<f64> {
    let a = column(result, ours.title(), |sample| Some(figure(sample)));
    let b = column(result, theirs.title(), |sample| Some(figure(sample)));
    if a.len() != b.len() {
        return None;
    }
    let pairs: Vec<(f64, f64)> = a.into_iter().zip(b).collect();
    Ratio::in_rounds(&pairs).map(|ratio| ratio.median)
}

/// Reported median over the floor, as the median over rounds.
fn over_floor(result: &CaseResult, kind: Kind) -> Option<f64> {
    median(&column(result, kind.title(), |sample| Some(sample.p50_ns? / sample.floor_ns?)))
}

/// A figure of a start, as the median over rounds.
fn start(described: &CaseResult, kind: Kind, figure: impl Fn(Start) -> f64) -> Option<f64> {
    median(&column(described, kind.title(), |sample| sample.start.map(&figure)))
}

/// Text of the control, which is printed first.
pub(crate) fn control_text(result: &BenchReport) -> String {
    let deviation = result.control.deviation.map_or_else(
        || "not measured".to_owned(),
        |deviation| format!("{:.2} %", deviation * 100.0),
    );
    let others = result.control.foreign.cpus * 100.0;
    format!(
        "Control, the same command twice in each of {} rounds: deviation {deviation} (the noise \
         floor);\nothers used {others:.0} % of a CPU.\n",
        result.rounds
    )
}

/// The table of a case that compares tools.
fn tools_table(case: CaseName, described: &CaseResult) -> String {
    let mut text = String::from(
        "| tool | IOPS median | min to max | iosonde / it: IOPS | CPU ns per I/O | \
         iosonde / it: CPU | mean ns | p50 ns | p99 ns |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let ours = case.contenders()[0];
    for &kind in case.contenders() {
        let iops = column(described, kind.title(), |sample| Some(sample.iops));
        let (Some(middle), Some((low, high))) = (median(&iops), spread(&iops)) else { continue };
        let of =
            |figure: fn(&Sample) -> Option<f64>| median(&column(described, kind.title(), figure));
        let _ = writeln!(
            text,
            "| {} | {} | {} to {} | {} | {} | {} | {} | {} | {} |",
            kind.title(),
            rate(middle),
            rate(low),
            rate(high),
            ratio(ratio_in_rounds(described, ours, kind, |sample| sample.iops)),
            whole(of(|sample| Some(sample.cpu_ns_per_op))),
            ratio(ratio_in_rounds(described, ours, kind, |sample| sample.cpu_ns_per_op)),
            whole(of(|sample| sample.mean_ns)),
            whole(of(|sample| sample.p50_ns)),
            whole(of(|sample| sample.p99_ns)),
        );
    }
    text
}

/// Text of a case: its table, its goals, its doubts.
pub(crate) fn case_text(case: CaseName, described: &CaseResult, result: &BenchReport) -> String {
    let table = match case {
        _ if case.is_cost_table() => cost::table(case, described),
        CaseName::Blocks => passes::table(case, described),
        _ if case.is_watched() => watched_table::table(case, described),
        CaseName::VerifyMemory | CaseName::VerifyDisk => verify::table(case, described),
        _ => tools_table(case, described),
    };
    let mut text = format!("\n## {}\n\n{table}\n", case.title());
    let ours = case.contenders()[0];
    if let Some(over) = over_floor(described, ours) {
        let floor = median(&column(described, ours.title(), |sample| sample.floor_ns));
        let _ = writeln!(text, "Floor {} ns; reported p50 / floor {over:.3}.", whole(floor));
    }
    for (tool, reason) in &described.skipped {
        let _ = writeln!(text, "skipped: {tool}: {reason}");
    }
    let doubts = result.doubts(&described.foreign);
    for &goal in case.goals() {
        let noise = result.control.deviation.unwrap_or(0.0);
        let Some((what, value, met)) = judged(goal, ours, described, noise) else { continue };
        let verdict = match (doubts.is_empty(), met) {
            (false, _) => "not judged",
            (true, true) => "reached",
            (true, false) => "NOT reached",
        };
        let _ = writeln!(text, "{verdict}: {what}; measured {value}");
    }
    if !doubts.is_empty() {
        let _ = writeln!(text, "No verdict: {}.", doubts.join("; "));
    }
    text
}

/// The goal, the measured value, and whether it is met; `None` if it was not measured.
fn judged(
    goal: Goal,
    ours: Kind,
    described: &CaseResult,
    noise: f64,
) -> Option<(String, String, bool)> {
    let iops = |peer| ratio_in_rounds(described, ours, peer, |sample| sample.iops);
    let cpu = |peer| ratio_in_rounds(described, ours, peer, |sample| sample.cpu_ns_per_op);
    Some(match goal {
        Goal::RateAtLeast(peer, least) => {
            let value = iops(peer)?;
            let what = format!("IOPS at least {least:.2} x {}", peer.title());
            (what, format!("{value:.3}"), value >= least)
        }
        Goal::RateAlike(peer) => {
            let value = iops(peer)?;
            // On a shared disk the scatter of the rounds is the noise.
            let theirs = column(described, peer.title(), |sample| Some(sample.iops));
            let (low, high) = spread(&theirs)?;
            let noise = noise.max((high - low) / median(&theirs)? / 2.0);
            let what = format!("IOPS within {:.1} % of {}", noise * 100.0, peer.title());
            (what, format!("{value:.3}"), (value - 1.0).abs() <= noise)
        }
        Goal::CpuAtMost(peer, most) => {
            let value = cpu(peer)?;
            let what = format!("CPU per I/O at most {most:.2} x {}", peer.title());
            (what, format!("{value:.3}"), value <= most)
        }
        Goal::VerifiesAtLeast(peer, least) => {
            let speed = |sample: &Sample| sample.cpu_ns_per_op.recip();
            let value = ratio_in_rounds(described, ours, peer, speed)?;
            let what =
                format!("bytes verified per CPU second at least {least:.2} x {}", peer.title());
            (what, format!("{value:.3}"), value >= least)
        }
        Goal::IopsAtLeast(least) => {
            let value = median(&column(described, ours.title(), |sample| Some(sample.iops)))?;
            (format!("at least {}", rate(least)), rate(value), value >= least)
        }
        Goal::FillAtLeast(least) => {
            let value = cost::filled_per_s(described, ours)?;
            let what = format!("fresh data at {:.0} GB/s per core or more", least / 1e9);
            (what, format!("{:.1}", value / 1e9), value >= least)
        }
        Goal::FirstIoWithin(most_s) => {
            let value = start(described, ours, |start| start.first_io_s)?;
            let what = format!("first I/O within {most_s:.1} s");
            (what, format!("{value:.3} s"), value <= most_s)
        }
        Goal::MemoryWithin(most) => {
            const MIB: f64 = (1 << 20) as f64;
            let value = start(described, ours, |start| start.besides_buffers as f64)?;
            let what = format!("memory besides buffers within {} MiB", most >> 20);
            (what, format!("{:.0} MiB", value / MIB), value <= most as f64)
        }
        Goal::LossAtMost(most) => {
            let value = watched_table::loss(described)?;
            let what = format!("a loss of at most {:.0} %", most * 100.0);
            (what, format!("{:.1} %", value * 100.0), value <= most)
        }
        Goal::LossOverBpftraceAtMost(most) => {
            let value = watched_table::loss_over_bpftrace(described)?;
            let what = format!("a loss of at most {most:.2} x bpftrace's");
            (what, format!("{value:.2}"), value <= most)
        }
        Goal::ReleasedWithin(most_s) => {
            let value = watched_table::released_later_s(described)?;
            let what = format!("the command starts at most {:.0} ms later", most_s * 1e3);
            (what, format!("{:.0} ms", value * 1e3), value <= most_s)
        }
        Goal::MemoryGrowsAtMost(most) => {
            let value = watched_table::memory_growth(described)?;
            let what = format!("memory after ten times the length at most {most:.1} times");
            (what, format!("{value:.3}"), value <= most)
        }
        Goal::FloorAtMost(most) => {
            let value = over_floor(described, ours)?;
            let what = format!("reported p50 at most {most:.2} x the floor");
            (what, format!("{value:.3}"), value <= most)
        }
    })
}

/// Stores the report as `DATE-LABEL/{setup.md,raw.ndjson,summary.md}` without paths of this
/// machine. Returns the directory.
pub(crate) fn save(
    below: &Path,
    label: &str,
    result: &mut BenchReport,
    dir: &Path,
) -> Result<PathBuf, BenchError> {
    let kept = below.join(format!("{}-{label}", ask("date", &["-u", "+%F"])?));
    fs::create_dir_all(&kept).map_err(doing(format!("cannot make {}", kept.display())))?;
    let mut raw = String::new();
    let mut summary = format!("# Summary\n\n{}", control_text(result));
    for sample in &result.control.samples {
        let _ = writeln!(raw, "{}", serde_json::json!(sample));
    }
    for (case, described) in &result.cases {
        for sample in &described.samples {
            let _ = writeln!(raw, "{}", serde_json::json!(sample));
        }
        summary.push_str(&case_text(*case, described, result));
    }
    let home = dir.to_string_lossy();
    for (name, text) in
        [("setup.md", &result.setup), ("raw.ndjson", &raw), ("summary.md", &summary)]
    {
        let text = text.replace(&*home, "DIR");
        fs::write(kept.join(name), text).map_err(doing(format!("cannot write {name}")))?;
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn described(rates: &[(Kind, [f64; 3])]) -> CaseResult {
        let sample = |tool, round, iops| Sample {
            case: "qd128".to_owned(),
            cpu_ns_per_op: 1e9 / iops,
            p50_ns: Some(525.0),
            floor_ns: Some(500.0),
            ..Sample::bare(tool, round, iops)
        };
        let samples = rates.iter().flat_map(|(kind, rates)| {
            let rounds = (0..).zip(rates);
            rounds.map(|(round, &iops)| sample(kind.title(), round, iops)).collect::<Vec<_>>()
        });
        CaseResult { samples: samples.collect(), ..CaseResult::default() }
    }

    fn result(deviation: f64) -> BenchReport {
        let control = Control { deviation: Some(deviation), ..Control::default() };
        BenchReport { control, rounds: 5, setup: String::new(), cases: Vec::new() }
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        // A slow third round affects both: the ratio of medians is 1.4, within rounds it is 2.
        let described = described(&[
            (Kind::IosondeUring, [200.0, 280.0, 100.0]),
            (Kind::FioTuned, [100.0, 140.0, 50.0]),
        ]);
        let ours = Kind::IosondeUring;
        let found = ratio_in_rounds(&described, ours, Kind::FioTuned, |sample| sample.iops);
        assert_eq!(found, Some(2.0));
        assert_eq!(ratio_in_rounds(&described, ours, Kind::TIoUring, |sample| sample.iops), None);
        assert_eq!(over_floor(&described, ours), Some(1.05));
    }

    #[test]
    fn goals_are_judged_only_in_silence() {
        let described = described(&[
            (Kind::IosondeUring, [200.0; 3]),
            (Kind::FioTuned, [100.0; 3]),
            (Kind::TIoUring, [300.0; 3]),
        ]);
        let quiet = case_text(CaseName::Qd128, &described, &result(0.01));
        assert!(quiet.contains("\nreached: IOPS at least 1.35 x fio io_uring tuned"), "{quiet}");
        assert!(quiet.contains("\nNOT reached: IOPS at least 0.98 x t/io_uring"), "{quiet}");
        assert!(!quiet.contains("newer fio") && !quiet.contains("No verdict"), "{quiet}");
        let noisy = case_text(CaseName::Qd128, &described, &result(0.05));
        assert!(noisy.contains("not judged: ") && !noisy.contains("reached: "), "{noisy}");
        let busy = Foreign { cpus: 0.4, busiest: Some(("cc1".to_owned(), 0.3)) };
        let crowded =
            case_text(CaseName::Qd128, &CaseResult { foreign: busy, ..described }, &result(0.01));
        assert!(
            crowded.contains("other processes used 40 % of a CPU (still running: cc1"),
            "{crowded}"
        );
    }
}
