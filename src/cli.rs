//! The command line: one file per command. Only this module prints and chooses exit codes.

mod campaign;
mod check;
mod color;
mod compare;
mod config;
mod consent;
mod cross_check;
mod doctor;
mod ending;
mod exit;
mod experiment;
mod hosts;
mod inspect;
mod intact;
mod keep;
mod keys;
mod live;
mod output;
mod outputs;
mod place;
mod profile;
mod progress;
mod recorded;
mod report;
mod results;
mod run;
mod screen;
mod supervisor;
mod verify;
mod watchdog;
mod words;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use rustix::process::Signal;

use exit::{Exit, Failure};
use output::{Output, OutputFormat, note};
use supervisor::Role;

/// Measures storage, explains why a number is what it is, and reports when it cannot be trusted.
#[derive(Debug, Parser)]
#[command(
    name = "iosonde",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Check(Box<check::CheckArgs>),
    Run(Box<run::RunArgs>),
    Profile(Box<profile::ProfileArgs>),
    Experiment(experiment::ExperimentArgs),
    Campaign(campaign::CampaignArgs),
    Compare(Box<compare::CompareArgs>),
    Report(report::ReportArgs),
    Doctor(doctor::DoctorArgs),
    Verify(verify::VerifyArgs),
    #[command(hide = true)]
    Agent(hosts::AgentArgs),
}

impl Verb {
    /// What to carry out on many hosts, if it can be.
    fn on_hosts(&self) -> Option<hosts::Command<'_>> {
        match self {
            Verb::Check(args) => Some(args.on_hosts()),
            Verb::Run(args) => Some(args.on_hosts()),
            Verb::Doctor(args) => Some(args.on_hosts()),
            Verb::Verify(args) => args.on_hosts(),
            Verb::Experiment(args) => args.on_hosts(),
            Verb::Campaign(args) => args.on_hosts(),
            _ => None,
        }
    }
}

/// Parses the command line, runs the command, and returns the exit code.
pub fn main() -> ExitCode {
    let mut given = verify::instead_of_run(normalised(std::env::args_os()));
    match config::with_defaults(given.clone()) {
        Ok(words) => given = words,
        Err(failure) => {
            let words: Vec<String> =
                given.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            let verb = words.get(1).cloned().unwrap_or_default();
            Output::new(OutputFormat::in_words(&words)).failure(&verb, &failure);
            return failure.exit.into();
        }
    }
    if given.len() == 1 {
        given.push("check".into());
        note(
            "no verb given: iosonde check . (--dry-run shows what it would write, --help lists the \
             verbs)",
        );
    }
    // For the record and for messages; clap gets the arguments unchanged, so that any path can be
    // given.
    let words: Vec<String> = given.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let verb = words.get(1).cloned().unwrap_or_default();
    // Its stdout belongs to the command, and so may an argument that looks like one of our options.
    let is_profile = verb == "profile";
    let fio = run::FioLine::find(&given);
    let (fio, own) = match fio {
        Ok(Some((line, own))) => (Ok(Some(line)), own),
        Ok(None) => (Ok(None), given),
        Err(failure) => (Err(failure), given),
    };
    let own_words: Vec<String> =
        own.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let format = OutputFormat::in_words(if is_profile { &[] } else { &own_words });
    let fio = match fio {
        Ok(line) => line,
        Err(failure) => {
            Output::new(format).failure(&verb, &failure);
            return failure.exit.into();
        }
    };
    let parsed = parse(&own);
    if let Ok(Cli { verb: Verb::Experiment(args) }) = &parsed
        && args.ends_with_parent()
    {
        // Before the process splits: it is the supervisor that passes the signal on.
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
    }
    if let Ok(cli) = &parsed
        && let Some(link) = link(&cli.verb, &words)
    {
        match link {
            Role::Ended(code) => return code,
            Role::Works(link) => watchdog::start(link, &verb, format),
        }
    }
    let exit = match parsed {
        Ok(cli) => carry_out(&cli.verb, fio.as_ref(), &words),
        Err(error)
            if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) =>
        {
            let mut output = Output::new(OutputFormat::Normal);
            output.text(&error.render().to_string());
            return output.end(Exit::Done).into();
        }
        Err(error) if is_profile => Err(profile::misused(Failure::usage(&error), &words)),
        Err(error) => Err(run::explained(&error, &words).unwrap_or_else(|| Failure::usage(&error))),
    };
    let exit = exit.unwrap_or_else(|failure| {
        Output::new(format).failure(&verb, &failure);
        failure.exit
    });
    watchdog::end(exit).into()
}

fn carry_out(verb: &Verb, fio: Option<&run::FioLine>, words: &[String]) -> Result<Exit, Failure> {
    if let Some(command) = verb.on_hosts()
        && let Some(exit) = hosts::on_hosts(&command, words)?
    {
        return Ok(exit);
    }
    match verb {
        Verb::Check(args) => check::check(args, words),
        Verb::Run(args) => run::run(args, fio, words),
        Verb::Profile(args) => profile::profile(args, words),
        Verb::Experiment(args) => experiment::experiment(args, words),
        Verb::Campaign(args) => campaign::campaign(args, words),
        Verb::Compare(args) => compare::compare(args, words),
        Verb::Report(args) => report::report(args),
        Verb::Doctor(args) => doctor::doctor(args),
        Verb::Verify(args) => verify::verify(args, words),
        Verb::Agent(args) => hosts::agent(args),
    }
}

/// Who watches this verb, and in which process it is carried out. A profile ends as its command
/// does, a witness when the other side ends.
fn link(verb: &Verb, words: &[String]) -> Option<Role> {
    let is_engine = |word: &String| ["null", "sim"].contains(&word.as_str());
    let spaced = words.windows(2).any(|pair| pair[0] == "--ioengine" && is_engine(&pair[1]));
    let is_unreal = spaced
        || words.iter().any(|word| {
            word.strip_prefix("--ioengine=").is_some_and(|word| is_engine(&word.to_owned()))
        });
    match verb {
        Verb::Profile(_) => None,
        Verb::Verify(args) if args.is_witness() => None,
        // MPI knows this process, and its commands have supervisors of their own.
        _ if hosts::is_rank() => Some(Role::Works(supervisor::Link::alone())),
        // No storage is asked anything.
        _ if is_unreal => Some(Role::Works(supervisor::Link::alone())),
        _ => Some(supervisor::supervised()),
    }
}

/// Reads bytes as the messages between coordinator and agent, and returns how many of either kind
/// there are: for fuzzing.
#[doc(hidden)]
pub fn read_frames(bytes: &[u8]) -> [usize; 2] {
    hosts::read_frames(bytes)
}

/// The whole command line with its help, for manual pages and completions.
pub fn command() -> clap::Command {
    Cli::command().mut_subcommand("verify", verify::hide_what_has_no_effect)
}

/// What `-h` shows of a command: its first screen. `--help` shows every option.
const FIRST_SCREEN: [(&str, &[&str]); 9] = [
    ("check", &["quick", "read_only", "only", "dry_run"]),
    ("run", &["path", "rw", "bs", "iodepth", "runtime", "show"]),
    ("profile", &["pid", "cgroup", "container", "length", "emit"]),
    ("compare", &["run", "tolerance", "gate", "page"]),
    ("report", &["output_format", "output", "card", "explain", "prune"]),
    ("doctor", &["output_format"]),
    ("experiment run", &["quick", "size", "repeats", "dry_run", "results"]),
    ("verify soak", &["path", "size", "runtime", "jobs", "dry_run"]),
    ("verify fsync", &["size", "dry_run"]),
];

/// The command with a short `-h`; `name` is that of the command, with those above it.
fn with_first_screen(command: clap::Command, name: &str) -> clap::Command {
    let about = command.get_about().map(|about| about.to_string().replace('\n', " "));
    let shown = FIRST_SCREEN.iter().find(|(known, _)| *known == name).map(|(_, shown)| *shown);
    let command = match about {
        Some(about) => command.about(about),
        None => command,
    };
    let command = match shown {
        None => command,
        Some(shown) => command.mut_args(|arg| {
            let is_first = arg.is_positional() || shown.contains(&arg.get_id().as_str());
            arg.hide_short_help(!is_first)
        }),
    };
    command.mut_subcommands(|inner| {
        let whole = format!("{name} {}", inner.get_name());
        with_first_screen(inner, whole.trim_start())
    })
}

fn parse(words: &[OsString]) -> Result<Cli, clap::Error> {
    let command =
        with_first_screen(command(), "").mut_subcommands(|verb| verb.arg_required_else_help(false));
    Cli::from_arg_matches(&command.try_get_matches_from(words)?)
}

/// Hyphens and underscores are equivalent in option names, and `-?` prints help.
fn normalised(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut rest_is_verbatim = false;
    words
        .map(|word| {
            rest_is_verbatim |= word == "--";
            // An argument that is not UTF-8 is a path or an error, never an option name.
            let Some(text) = word.to_str().filter(|_| !rest_is_verbatim) else { return word };
            if text == "-?" {
                return "--help".into();
            }
            match (text.starts_with("--"), text.split_once('=')) {
                (true, Some((name, value))) => format!("{}={value}", name.replace('_', "-")).into(),
                (true, None) => text.replace('_', "-").into(),
                (false, _) => word,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn hyphen_and_underscore_are_the_same_in_names_only() {
        let words = ["iosonde", "--ramp_time=1_0", "--ramp_time", "a_b", "-?", "--", "--a_b"];
        let normal = normalised(words.iter().map(OsString::from));
        assert_eq!(
            normal,
            ["iosonde", "--ramp-time=1_0", "--ramp-time", "a_b", "--help", "--", "--a_b"]
        );
    }
}
