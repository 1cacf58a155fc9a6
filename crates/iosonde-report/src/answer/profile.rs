//! The answer of a profile.

use super::Answer;
use crate::explain::terms::{self, Kind};
use iosonde_analysis::finding::{Finding, Severity};
use iosonde_analysis::profile::{Figures, Side};
use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::{Ended, Method, Op};
use iosonde_model::units::{bytes, count, duration};

/// Fewer requests than this do not represent the program.
const FEW: u64 = 30;
/// If waits for storage take a smaller share of the time, the program is not limited by storage.
const SLIGHT: f64 = 0.05;
/// With a larger share of the time on a CPU or in its run queue, the program is limited by CPUs.
const MOSTLY: f64 = 0.8;

impl Answer {
    /// What the program does to storage, with its most severe finding.
    pub fn of_profile(run: &ProfileRun, figures: &Figures) -> Answer {
        let load = match &figures.program {
            Some(side) if side.requests() > 0 => load(side),
            Some(_) => match run.devices.as_slice() {
                [one] => format!("no request reached {}", one.facts.name),
                _ => "no request reached a device".to_owned(),
            },
            None => match &figures.calls {
                Some(calls) => format!(
                    "{} read and {} written, by its counters",
                    bytes::per_second(calls.storage_read_bytes_per_s),
                    bytes::per_second(calls.storage_write_bytes_per_s)
                ),
                None => "its requests could not be seen".to_owned(),
            },
        };
        let requests = figures.program.as_ref().map_or(0, Side::requests);
        let is_short = (1..FEW).contains(&requests);
        let is_idle = figures.program.as_ref().is_some_and(|side| side.requests() == 0);
        let is_of_cpus = is_of_cpus(run, figures);
        // Findings of mere information do not matter to a program that hardly waits for storage.
        let says =
            |of: &&Finding| of.severity > Severity::Fact || (!of.subject.is_empty() && !is_of_cpus);
        let finding = figures.findings.iter().find(says);
        let found = finding.map(|finding| format!("; {}", finding.subject)).unwrap_or_default();
        let lost: u64 = run.lost.values().sum();
        let confidence = match () {
            () if !figures.consistency.valid() => {
                "none: consistency checks failed, see below".to_owned()
            }
            () if run.source.method == Method::Counters => {
                "low: sums by counters only, no request was traced".to_owned()
            }
            () if figures.program.is_none() => {
                "low: the requests of its devices cannot be seen".to_owned()
            }
            () if figures.consistency.broken_code("lost").is_some() => {
                format!("medium: {} records were lost", count::thousands(lost))
            }
            () if is_short => format!("low: fewer than {FEW} requests"),
            () if matches!(run.ended, Ended::Interrupted { .. }) => {
                "medium: interrupted, this is what was seen until then".to_owned()
            }
            () if figures.findings.iter().any(|finding| finding.code == "other_traffic") => {
                "medium: other programs used the same device".to_owned()
            }
            () => "high".to_owned(),
        };
        let action = finding.and_then(|finding| {
            let action = terms::action(&[Kind::ProfileFinding], finding.code)?;
            Some(format!("{action} (iosonde report --explain {})", finding.code))
        });
        let next = action.unwrap_or_else(|| match run.source.method {
            Method::Counters => {
                "Trace each request: repeat as root, or with CAP_BPF and CAP_PERFMON.".to_owned()
            }
            Method::Tracepoints if is_idle || are_writes_unseen(figures) => {
                idle(run, figures).to_owned()
            }
            Method::Tracepoints if is_short => "Profile it while it does more I/O".to_owned(),
            Method::Tracepoints if is_of_cpus => format!(
                "Look at its CPU time first: waits for storage take less than {:.0} % of its time",
                SLIGHT * 100.0
            ),
            Method::Tracepoints => "Replay it elsewhere: repeat with --emit app.toml, then \
                                    iosonde run app.toml --path PATH"
                .to_owned(),
        });
        Answer { result: format!("{load}{found}"), confidence, next }
    }
}

/// Whether CPUs limit the program. Few observed waits do not prove it: waits in asynchronous I/O or
/// for a durable commit are not counted as waits.
fn is_of_cpus(run: &ProfileRun, figures: &Figures) -> bool {
    let Some(side) = figures.program.as_ref().filter(|_| run.unwatched.is_none()) else {
        return false;
    };
    let depths = figures.devices.iter().filter_map(|device| device.program_depth.as_ref());
    let busy: Option<f64> = depths.map(|depth| depth.busy_share).sum();
    let (Some(busy), Some(blocked)) = (busy, figures.machine.program_io_delay) else {
        return false;
    };
    // Relative to the run time of the program; its pages may be written after its end.
    let in_flight = busy * side.window_ns as f64 / figures.window_ns.max(1) as f64;
    let waits = in_flight + blocked + figures.waits.in_syncs.unwrap_or_default();
    let runs = figures.waits.on_cpu.unwrap_or_default();
    let ready = figures.machine.program_run_delay.unwrap_or_default();
    waits < SLIGHT && runs + ready > MOSTLY
}

/// Whether no write of the program reached a traced disk.
fn are_writes_unseen(figures: &Figures) -> bool {
    let mut findings = figures.findings.iter();
    findings.any(|finding| finding.code == "dirty_left" && finding.subject.is_empty())
}

/// Next action if no request, or no write, reached a traced disk.
fn idle(run: &ProfileRun, figures: &Figures) -> &'static str {
    let is_left = figures.findings.iter().any(|finding| finding.code == "dirty_left");
    match (run.unwatched.as_deref() == Some(ProfileRun::SELECTED), is_left) {
        (false, _) => "Profile it while it does I/O",
        (true, false) => "Repeat it without -d: its files may be on another disk",
        (true, true) => {
            "Repeat it without -d and with --settle 40: its data may be elsewhere, or in memory"
        }
    }
}

fn load(side: &Side) -> String {
    let ways = [(Op::Read, "reads/s"), (Op::Write, "writes/s"), (Op::Discard, "discards/s")];
    let ways = ways.into_iter().filter(|(op, _)| side.op(*op).requests > 0);
    let ways: Vec<String> = ways
        .map(|(op, word)| {
            let op = side.op(op);
            let p99 =
                op.latency.at(0.99).map(|ns| format!(", p99 {}", duration::latency(ns as f64)));
            format!(
                "{} {word} ({}{})",
                count::significant_or_whole(op.requests_per_s),
                bytes::per_second(op.bytes_per_s),
                p99.unwrap_or_default()
            )
        })
        .collect();
    match ways.is_empty() {
        true => "only flushes and other requests without data".to_owned(),
        false => ways.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_analysis::profile::figures;
    use iosonde_fixtures::profile::{Flow, by_counters, database, profile_of};
    use iosonde_model::record::profile::CallCounts;

    #[test]
    fn what_it_does_and_its_first_finding_stand_first() {
        let run = database();
        let found = Answer::of_profile(&run, &figures(&run));
        assert!(found.result.starts_with("8,000 reads/s ("), "{found:?}");
        assert_eq!(found.confidence, "high");
        assert!(found.next.contains("--explain sync_small_writes"), "{found:?}");
    }

    #[test]
    fn where_another_disk_was_selected_the_advice_is_to_trace_all() {
        let next = |unwatched: Option<&str>, dirtied: u64| {
            let mut run = profile_of(&[]);
            run.unwatched = unwatched.map(str::to_owned);
            let calls = CallCounts { storage_write_bytes: dirtied, ..CallCounts::default() };
            run.calls = Some(calls);
            let found = Answer::of_profile(&run, &figures(&run));
            assert!(!found.result.contains("late write-back") || unwatched.is_none(), "{found:?}");
            found.next
        };
        assert_eq!(next(None, 0), "Profile it while it does I/O");
        let selected = Some(ProfileRun::SELECTED);
        assert!(next(selected, 0).starts_with("Repeat it without -d: "));
        assert!(next(selected, 100 << 20).starts_with("Repeat it without -d and with --settle 40"));
        assert!(next(None, 100 << 20).starts_with("Add a sync"));
    }

    #[test]
    fn bursts_of_a_program_whose_time_goes_to_the_cpus_are_not_its_answer() {
        let bursts = Flow { op: Op::Write, burst: 100, ..Flow::default() };
        let answer = |requests, io_delay_ns, cpu_ns| {
            let mut run = profile_of(&[Flow { requests, ..bursts }]);
            run.io_delay_ns = io_delay_ns;
            run.cpu.as_mut().unwrap().cpu_user_ns = cpu_ns;
            let figures = figures(&run);
            assert!(figures.findings.iter().any(|finding| finding.code == "bursty"));
            Answer::of_profile(&run, &figures)
        };
        const SECOND: u64 = 1_000_000_000;
        let slight = answer(500, Some(SECOND / 20), 9 * SECOND);
        assert!(!slight.result.contains("bursts"), "{slight:?}");
        assert!(slight.next.starts_with("Look at its CPU time first: "), "{slight:?}");
        // Many requests in flight, long blocked time, unknown blocked time, waits that were not
        // traced.
        for other in [
            answer(50_000, Some(SECOND / 20), 9 * SECOND),
            answer(500, Some(SECOND), 9 * SECOND),
            answer(500, None, 9 * SECOND),
            answer(500, Some(SECOND / 20), SECOND),
        ] {
            assert!(!other.next.starts_with("Look at its CPU time"), "{other:?}");
        }
    }

    #[test]
    fn sums_by_counters_have_low_confidence() {
        let run = by_counters();
        let found = Answer::of_profile(&run, &figures(&run));
        assert!(found.confidence.starts_with("low: "), "{found:?}");
    }
}
