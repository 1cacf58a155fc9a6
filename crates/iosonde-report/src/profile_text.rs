//! A profile as text, in a layout familiar to users of tracing scripts.

mod cells;
mod course;
mod file_systems;
mod page;
mod source;
mod spreads;
mod stacks;
mod summary;
mod tables;
mod waits;

use iosonde_analysis::profile::{Against, DeviceFigures, Figures, Side};
use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::{Ended, Subject};
use iosonde_model::record::run::by_signal;
use iosonde_model::units::duration;

use super::answer::Answer;
use super::clean::clean;
use super::wrap::Text;

use cells::LABEL;
pub use page::profile_sections;

/// The whole report of a profile for a screen of `screen` columns. `against` is the comparison with
/// a run, if requested.
pub fn profile_text(
    run: &ProfileRun,
    figures: &Figures,
    against: Option<&Result<Against, String>>,
    screen: usize,
) -> String {
    let mut out = Text::new(screen, cells::COLUMNS);
    out.push_str(&Answer::of_profile(run, figures).text(out.columns));
    waits::waits(&mut out, figures);
    heading(&mut out, run, figures);
    source::unbalanced(&mut out, figures);
    source::findings(&mut out, figures);
    out.push('\n');
    summary::summary(&mut out, run, figures);
    out.push('\n');
    spreads::histograms(&mut out, figures);
    out.push('\n');
    spreads::processor(&mut out, run, figures);
    out.push('\n');
    tables::threads(&mut out, run, figures);
    tables::classes_table(run, figures).write_below(&mut out, "\nWho the Requests Are For");
    tables::flags_table(figures).write_below(&mut out, "\nRequests by Flag");
    file_systems::table(run).write_below(&mut out, "\nFile Systems, for All Programs");
    tables::syncs(&mut out, run, figures);
    tables::files(&mut out, figures);
    tables::cgroups(&mut out, figures);
    course::places(&mut out, figures);
    course::arrivals(&mut out, figures);
    course::course(&mut out, figures);
    if let Some(against) = against {
        beside(&mut out, against);
    }
    stacks::stacks(&mut out, run);
    source::source(&mut out, run, figures);
    out.into_string()
}

/// Title, duration, devices and kernel, and the end if the profile was interrupted.
fn heading(out: &mut Text, run: &ProfileRun, figures: &Figures) {
    out.hanging("=== IO Profile: ", &format!("{} ===", title(&run.subject)));
    let mut names: Vec<String> = used(figures).map(|device| clean(&device.name)).collect();
    if names.is_empty() {
        names = figures.devices.iter().map(|device| clean(&device.name)).collect();
    }
    let devices = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let kernel = run.host.kernel.as_deref().map_or("unknown".into(), clean);
    let after = match run.settle_ns {
        ns if ns >= 100_000_000 => format!(" (and {} watched afterwards)", duration::span(ns)),
        _ => String::new(),
    };
    let line = format!(
        "{}{after} | Device: {devices} | Kernel: {kernel}",
        duration::span(run.measured_ns)
    );
    out.hanging("Duration: ", &line);
    if let Some(ended) = ended(&run.ended) {
        out.hanging("Ended: ", &ended);
    }
}

/// The command; words with blanks are quoted.
fn title(subject: &Subject) -> String {
    let joined = |words: &[String]| {
        let each = words.iter().map(|word| {
            let word = clean(word);
            let plain = !word.is_empty() && !word.contains(char::is_whitespace);
            if plain { word } else { format!("'{word}'") }
        });
        each.collect::<Vec<_>>().join(" ")
    };
    match subject {
        Subject::Command { words, .. } => joined(words),
        Subject::Process { pid, words } if words.is_empty() => format!("process {pid}"),
        Subject::Process { pid, words } => format!("{} (process {pid})", joined(words)),
        Subject::Cgroup { path } => format!("cgroup {}", clean(path)),
        Subject::Machine => "the whole machine".into(),
    }
}

fn ended(ended: &Ended) -> Option<String> {
    match ended {
        Ended::Exited { code: 0 } | Ended::TimeUp | Ended::Stopped => None,
        Ended::Exited { code } => Some(format!("the command exited with code {code}")),
        Ended::Killed { signal } => Some(format!("the command was killed by signal {signal}")),
        Ended::Gone => Some("the profiled process or cgroup ended".into()),
        Ended::Interrupted { signal } => {
            Some(format!("profiling was interrupted {}; this is what was seen", by_signal(*signal)))
        }
    }
}

/// The devices to which the program sent requests.
fn used(figures: &Figures) -> impl Iterator<Item = &DeviceFigures> {
    let has_requests = |side: &Side| side.requests() > 0;
    figures.devices.iter().filter(move |of| of.program.as_ref().is_some_and(has_requests))
}

/// The share of the device's performance in a run that the program used, or why it is unknown.
fn beside(out: &mut Text, against: &Result<Against, String>) {
    out.push_str("\nOf What the Device Can:\n");
    match against {
        Ok(against) => out.hanging("  ", &clean(&against.words)),
        Err(reason) => out.hanging("  ", &clean(&no_data(Some(reason)))),
    }
}

/// A line of the summary: label and words, wrapped below the first word.
fn labelled(out: &mut Text, label: &str, words: &str) {
    let head = format!("  {:<width$} ", clean(label), width = LABEL - 3);
    out.hanging(&head, &clean(words));
}

/// Text for a missing figure.
fn no_data(reason: Option<&str>) -> String {
    format!("no data ({})", reason.unwrap_or("not seen"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{assert_golden, assert_screens};
    use iosonde_analysis::profile::against::KnownBy;
    use iosonde_analysis::profile::figures;
    use iosonde_fixtures::profile::{Flow, by_counters, database, profile_of};
    use iosonde_model::record::profile::{Class, Missing};

    fn text_of(run: &ProfileRun) -> String {
        let text = profile_text(run, &figures(run), None, usize::MAX);
        for line in text.lines() {
            assert!(line.chars().count() <= cells::COLUMNS, "{line}");
        }
        text
    }

    #[test]
    fn a_database_reads_as_users_of_tracing_scripts_expect() {
        assert_golden("profile.txt", &text_of(&database()));
    }

    #[test]
    fn the_answer_stands_first_on_every_screen() {
        for (name, run) in [("profile", database()), ("profile-counters", by_counters())] {
            let figures = figures(&run);
            assert_screens(name, |screen| profile_text(&run, &figures, None, screen));
        }
    }

    #[test]
    fn what_the_device_can_is_reported_where_it_was_asked_for() {
        let run = database();
        let figures = figures(&run);
        let heading = "\nOf What the Device Can:\n";
        assert!(!profile_text(&run, &figures, None, usize::MAX).contains(heading));
        let formatted = Against {
            device: "vda".into(),
            known_by: KnownBy::Identity,
            load: "random reads of 4 KiB, 32 in flight".into(),
            ops: Vec::new(),
            words: "Of what vda did, the program uses a quarter.".into(),
        };
        let text = profile_text(&run, &figures, Some(&Ok(formatted)), usize::MAX);
        let formatted =
            text.find(&format!("{heading}  Of what vda did, the program uses a quarter.\n"));
        assert!(formatted.is_some(), "{text}");
        let text =
            profile_text(&run, &figures, Some(&Err("not the same device".into())), usize::MAX);
        assert!(text.contains(&format!("{heading}  no data (not the same device)\n")), "{text}");
    }

    #[test]
    fn what_counters_cannot_show_is_no_data_and_never_zero() {
        let text = text_of(&by_counters());
        assert_golden("profile-counters.txt", &text);
        for label in ["IOPS:", "Queue Depth:", "IO Latency:", "fsync calls:", "O_DIRECT:"] {
            let line = text.lines().find(|line| line.trim_start().starts_with(label));
            assert!(line.is_some_and(|line| line.contains("no data (")), "{label}\n{text}");
        }
    }

    #[test]
    fn a_device_that_shows_no_requests_is_said_and_is_not_zero() {
        // Requests of other programs make no difference.
        let others = Flow { class: Class::Other, requests: 50_000, ..Flow::default() };
        for flows in [&[][..], &[others]] {
            let mut run = profile_of(flows);
            run.calls = None;
            run.devices.insert(0, by_counters().devices.remove(0));
            run.devices[0].facts.name = "zram0".into();
            run.devices[0].invisible = Some("it has no request queue".into());
            let text = text_of(&run);
            assert!(text.contains("no data (zram0: it has no request queue)"), "{text}");
            assert!(!text.contains("Read 0") && !text.contains("IO Latency:\n"), "{text}");
            assert!(!text.contains("no request of the program"), "{text}");
            assert!(text.contains("not visible on zram0"), "{text}");
        }
    }

    #[test]
    fn a_program_that_did_nothing_did_nothing() {
        let text = text_of(&profile_of(&[]));
        assert!(text.contains("no request of the program reached a device"), "{text}");
        assert!(text.contains("Throughput:    Read 0.0 MB/s | Write 0.0 MB/s"), "{text}");
    }

    #[test]
    fn failed_consistency_checks_come_first() {
        let mut run = database();
        run.traffic[0].requests -= 2_000;
        let text = text_of(&run);
        let at = text.find("CONSISTENCY CHECKS FAILED").unwrap_or(usize::MAX);
        assert!(at < text.find("IO Summary").unwrap_or(0), "{text}");
        assert!(text.contains("the trace has too few"), "{text}");
    }

    #[test]
    fn names_are_harmless_and_may_have_spaces() {
        let mut run = database();
        run.threads[0].name = "my \u{1b}[31mthread".into();
        run.files[0].path = format!("/data/{}/\u{202e}name", "deep/".repeat(60));
        run.source.missing.push(Missing {
            what: "syncs by io_uring".into(),
            reason: "no\u{7} tracepoint".into(),
            fix: None,
        });
        run.subject =
            Subject::Process { pid: 7, words: vec!["a b".into(), "\u{1b}]0;x\u{7}".into()] };
        let text = text_of(&run);
        assert!(text.contains(r"my \x1b[31mthread (tid 1000)"), "{text}");
        assert!(text.contains("IO Profile: 'a b' \\x1b]0;x\\x07 (process 7) ==="), "{text}");
        assert!(text.contains("by io_uring: no data (no\\x07 tracepoint)"), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text}");
    }
}
