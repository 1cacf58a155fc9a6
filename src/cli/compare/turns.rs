//! Measures both sides now, alternating: a new process per run, pairs in a seeded random order.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{CompareArgs, contrasted, note, place, print, request_text};
use crate::cli::exit::{About, Exit, Failure, environment, wrong};
use crate::cli::intact::AcceptArgs;
use crate::cli::keep::Keeper;
use crate::cli::recorded::{Record, record};
use crate::cli::scratch::scratch;
use crate::cli::words::split;
use iosonde_analysis::comparison::contrast::{FEWEST_ROUNDS, SIGNIFICANT};
use iosonde_analysis::comparison::observation::METRICS;
use iosonde_analysis::comparison::{Kind, Observation, Request, Side};
use iosonde_model::plan::interleave;
use iosonde_model::record::Run;
use iosonde_model::units::count;
use iosonde_report::clean::clean;
use iosonde_report::comparison_json;
use iosonde_stats::permutation::smallest_paired_p;

/// Default number of rounds.
const ROUNDS: u32 = 10;
/// Options that would redirect the result.
const OURS: [&str; 3] = ["--results", "--output-format", "--dry-run"];
/// Polling interval for the end of a run.
const LOOK: Duration = Duration::from_millis(5);

/// Number of tests, and fewest rounds that allow a significant p. Without `--metrics`, every metric
/// of one direction is a test, except bandwidth, which repeats IOPS.
fn fewest_rounds(metrics: &[String]) -> (usize, usize) {
    let tests = if metrics.is_empty() { METRICS.len() - 1 } else { metrics.len() };
    let decides = |rounds: &usize| smallest_paired_p(*rounds) * tests as f64 <= SIGNIFICANT;
    (tests, (FEWEST_ROUNDS..64).find(decides).unwrap_or(FEWEST_ROUNDS))
}

fn too_few(rounds: u32, tests: usize, fewest: usize) -> Failure {
    let tests = if tests == 1 { "1 metric".to_owned() } else { format!("{tests} metrics") };
    wrong(format!(
        "--rounds: found {rounds}, expected at least {fewest}: fewer cannot show a difference of \
         {tests}, whatever is measured; compare fewer metrics (--metrics iops), or make more rounds"
    ))
}

/// Measures both command lines in rounds, and compares them within rounds.
pub(super) fn compare(args: &CompareArgs, words: &[String]) -> Result<Exit, Failure> {
    let [a, b] = args.run.as_slice() else {
        return Err(wrong(format!("--run: found {}, expected two: A and B", args.run.len())));
    };
    let commands = [command(a)?, command(b)?];
    let requested = request_text(args, place::fresh_seed())?;
    // Differences between the two command lines are intended.
    let requested = Request { in_rounds: true, allow: Kind::ALL.to_vec(), ..requested };
    let rounds = args.rounds.unwrap_or(ROUNDS);
    let (tests, fewest) = fewest_rounds(&args.metrics);
    if (rounds as usize) < fewest {
        return Err(too_few(rounds, tests, fewest));
    }
    let place = place::Place::find()?;
    let scratch = scratch()?;
    let open = |verb| {
        let mut keeper = Keeper::open(args.results.as_deref(), verb, words);
        keeper.keep("host.json", &place.host);
        keeper
    };
    let mut keepers = [open("compare-a"), open("compare-b")];
    let names_device = |word: &String| word.replace('_', "-").starts_with("--destroy-data");
    if commands.iter().flatten().any(names_device)
        && keepers.iter().any(|keeper| keeper.path().is_none())
    {
        let message = "--run: found --destroy-data, but the results are not kept, so the previous \
                       content of the device cannot be saved; nothing was written. Give another \
                       place by --results DIR";
        return Err(Failure::new(Exit::Refused, message));
    }
    let mut sides = [a, b].map(|text| Side { name: text.clone(), runs: Vec::new() });
    let mut failed = None;
    for (round, second_begins) in (1..).zip(interleave::by_chance(rounds, requested.seed)) {
        let mut both = [None, None];
        for index in if second_begins { [1, 0] } else { [0, 1] } {
            let measured = measure(
                scratch.path(),
                &commands[index],
                &args.run[index],
                &place.signal,
                &mut keepers[index],
            );
            let run = match measured {
                Ok(Some(run)) => run,
                Ok(None) => break,
                Err(failure) => {
                    failed = Some(failure);
                    break;
                }
            };
            keepers[index].keep_cell(&format!("{round:04}-run.json"), &run);
            both[index] = Some(Observation::of(&run, "", Some(&place.host)));
        }
        let [Some(a), Some(b)] = both else { break };
        let analysed =
            |run: &Observation| run.value("iops").map_or("n/a".into(), count::significant_or_whole);
        note(&format!(
            "round {round} of {rounds}: A {} IOPS, B {} IOPS",
            analysed(&a),
            analysed(&b)
        ));
        sides[0].runs.push(a);
        sides[1].runs.push(b);
    }
    let [a, b] = &sides;
    let exit = match (place.interrupted(), &failed) {
        (Some(signal), _) => Exit::Signal(signal),
        (None, Some(failure)) => failure.exit,
        (None, None) => Exit::Done,
    };
    // The rounds before a failure are valid and are reported.
    if let Some(failure) = failed.as_ref().filter(|_| !a.runs.is_empty()) {
        let message: Vec<String> = failure.message.lines().map(clean).collect();
        note(&format!("error: {}", message.join("\n")));
        note(&format!("warning: only the rounds before this are compared: 1 to {}", a.runs.len()));
    }
    let analysed = contrasted(a, b, &requested);
    let ended = match (&analysed, failed) {
        (_, Some(failure)) if a.runs.is_empty() => Err(failure),
        (Ok(analysed), _) => {
            let exit = print(args, analysed, exit);
            keepers[1].keep("comparison.json", &comparison_json(analysed, exit.code()));
            Ok(exit)
        }
        (Err(_), Some(failure)) => Err(failure),
        (Err(_), None) if exit != Exit::Done => {
            Err(Failure::new(exit, "interrupted in the first round"))
        }
        (Err(failure), None) => Err(failure.clone()),
    };
    let code = ended.as_ref().map_or_else(|failure| failure.exit.code(), |exit| exit.code());
    let complete = a.runs.len() == rounds as usize;
    for (letter, keeper) in ["A", "B"].into_iter().zip(keepers) {
        if let Some(path) = keeper.close(complete, code, "compared in alternating runs") {
            note(&format!("runs of {letter} stored in {}", path.display()));
        }
    }
    ended
}

/// Arguments of a command line of `iosonde run`, without the program name.
fn command(text: &str) -> Result<Vec<String>, Failure> {
    let refuse = |why: &str| wrong(format!("--run: `{text}`: {why}"));
    let mut words = split(text).map_err(refuse)?;
    if words.first().is_some_and(|word| Path::new(word).file_name() == Some("iosonde".as_ref())) {
        words.remove(0);
    }
    if words.first().is_none_or(|word| word != "run") {
        return Err(refuse("expected a command line such as 'iosonde run --path a.img --rw read'"));
    }
    let normal = |word: &String| word.split('=').next().unwrap_or_default().replace('_', "-");
    if let Some(word) = words.iter().find(|word| OURS.contains(&normal(word).as_str())) {
        return Err(refuse(&format!("omit {word}: `compare` reads the result")));
    }
    if !words.iter().any(|word| normal(word) == "--progress") {
        words.extend(["--progress", "none"].map(String::from));
    }
    Ok(words)
}

/// Runs a command line and reads its result; `None` if a signal ended it.
fn measure(
    scratch: &Path,
    words: &[String],
    text: &str,
    signal: &AtomicUsize,
    keeper: &mut Keeper,
) -> Result<Option<Run>, Failure> {
    let about = format!("--run: `{text}`");
    let (results, errors) = (scratch.join("results"), scratch.join("stderr"));
    let program = std::env::current_exe().or_environment(&about)?;
    let child = Command::new(program)
        .args(words)
        .arg("--results")
        .arg(&results)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&errors).or_environment(&about)?)
        .spawn()
        .or_environment(&about)?;
    let code = wait(child, signal).or_environment(&about)?;
    keeper.adopt_undo(&results).or_environment(&about)?;
    if signal.load(Ordering::Relaxed) != 0 {
        return Ok(None);
    }
    let analysed = fs::read_to_string(&errors).unwrap_or_default();
    // A completed run counts, whatever its exit code.
    let is_measured = [Exit::Done, Exit::Missed, Exit::Invalid, Exit::Inconclusive];
    let Some(code) = code.filter(|code| is_measured.iter().any(|exit| exit.code() == *code)) else {
        let exit = match code {
            Some(2) => Exit::Usage,
            Some(5) => Exit::Refused,
            _ => Exit::Environment,
        };
        let message = format!("--run: `{text}` could not be measured:\n{}", last(&analysed));
        return Err(Failure::new(exit, message));
    };
    let mut folders = fs::read_dir(&results).or_environment(&about)?.filter_map(Result::ok);
    let Some(folder) = folders.next().map(|entry| entry.path()) else {
        return Err(environment(format!("{about}: ended with {code} and stored no result")));
    };
    let read = record("--run", &folder, AcceptArgs::NEVER);
    fs::remove_dir_all(&results).or_environment(&about)?;
    match read?.0 {
        Record::Run(run) => Ok(Some(*run)),
        Record::Profile(_) => Err(environment(format!("{about}: stored no record of a run"))),
    }
}

/// Waits for the end and forwards the first signal received; returns the exit code.
fn wait(mut child: Child, signal: &AtomicUsize) -> std::io::Result<Option<u8>> {
    let mut is_passed_on = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code().and_then(|code| u8::try_from(code).ok()));
        }
        if !is_passed_on && signal.load(Ordering::Relaxed) != 0 {
            is_passed_on = true;
            // A terminal signals both processes at once; further signals would abort the child.
            let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        }
        std::thread::sleep(LOOK);
    }
}

/// The last lines of a run's output.
fn last(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(6)..].join("\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_command_line_is_one_of_run_and_keeps_its_result() {
        let words = command("/usr/bin/iosonde run --rw read").unwrap();
        assert_eq!(words, ["run", "--rw", "read", "--progress", "none"]);
        assert_eq!(command("run --progress text").unwrap().len(), 3);
        for (text, words) in [
            ("iosonde check .", "expected a command line"),
            ("", "expected a command line"),
            ("run --results x", "omit --results: "),
            ("run --output_format=json", "omit --output_format=json: "),
            ("run 'x", "unclosed quote"),
        ] {
            let message = command(text).unwrap_err().message;
            assert!(message.contains(words), "{message}");
        }
    }
}
