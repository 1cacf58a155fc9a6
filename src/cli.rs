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
mod first_screen;
mod hosts;
mod inspect;
mod intact;
mod keep;
mod keys;
mod layout;
mod live;
mod output;
mod outputs;
mod page;
mod place;
mod profile;
mod progress;
mod recorded;
mod report;
mod results;
mod run;
mod scratch;
mod screen;
mod share;
mod supervisor;
mod verify;
mod watchdog;
mod words;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::builder::{Resettable, StyledStr};
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use rustix::process::Signal;

use exit::{Exit, Failure};
use output::{Output, OutputFormat, note};
use supervisor::Role;
use words::{lossy, values};

#[doc(hidden)]
pub use hosts::read_frames;

/// Measures storage, explains why a number is what it is, and reports when it cannot be trusted.
#[derive(Debug, Parser)]
#[command(
    name = "iosonde",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    max_term_width = 100,
    after_long_help = "With every verb: --use NAME takes the options of [named.NAME] in \
                       ~/.config/iosonde/config.toml."
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
    /// The command for many hosts, if this verb supports them.
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
    color::none_without_a_true_terminal();
    let typed = verify::instead_of_run(normalised(std::env::args_os()));
    let mut given = match config::with_defaults(typed.clone(), Cli::command) {
        Ok(words) => words,
        Err(failure) => {
            let words = lossy(&typed);
            let verb = words.get(1).cloned().unwrap_or_default();
            return failed(OutputFormat::in_words(&words), &verb, &failure).into();
        }
    };
    if given.len() == 1 {
        given.push("check".into());
        note(
            "no verb given: iosonde check . (iosonde check --dry-run shows what it would write, \
             --help lists the verbs)",
        );
    }
    // For records and messages. clap gets the arguments unchanged: a path need not be UTF-8.
    let words = lossy(&given);
    let verb = words.get(1).cloned().unwrap_or_default();
    // The stdout of `profile`, and arguments like our options, may belong to its command.
    let is_profile = verb == "profile";
    let format_in = |words: &[OsString]| match is_profile {
        true => OutputFormat::default(),
        false => OutputFormat::in_words(&lossy(words)),
    };
    let (fio, own) = match run::FioLine::find(&given) {
        Ok(Some((line, own))) => (Some(line), own),
        Ok(None) => (None, given),
        Err(failure) => return failed(format_in(&given), &verb, &failure).into(),
    };
    let format = format_in(&own);
    let parsed = parse(&own);
    if let Ok(Cli { verb: Verb::Experiment(args) }) = &parsed
        && args.ends_with_parent()
    {
        // Before the process splits: the supervisor forwards the signal.
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
        Err(error) if is_profile => Err(profile::misused(&error, &words)),
        Err(error) => Err(run::explained(&error, &words)
            .or_else(|| experiment::explained(&error))
            .unwrap_or_else(|| Failure::usage(&error))),
    };
    watchdog::end(exit.unwrap_or_else(|failure| failed(format, &verb, &failure))).into()
}

/// Reports a failure and returns its exit code.
fn failed(format: OutputFormat, verb: &str, failure: &Failure) -> Exit {
    Output::new(format).failure(verb, failure);
    failure.exit
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

/// The role of this process. `None`, without supervisor and watchdog, for a profile, which ends
/// with its command, and for a witness, which ends with its peer.
fn link(verb: &Verb, words: &[String]) -> Option<Role> {
    let is_unreal = values(words, "--ioengine").any(|engine| ["null", "sim"].contains(&engine));
    match verb {
        Verb::Profile(_) => None,
        Verb::Verify(args) if args.is_witness() => None,
        // MPI started this process as a rank; the commands of its agent have their own supervisors.
        _ if hosts::is_rank() => Some(Role::Works(supervisor::Link::alone())),
        // `null` and `sim` access no storage.
        _ if is_unreal => Some(Role::Works(supervisor::Link::alone())),
        _ => Some(supervisor::supervised()),
    }
}

/// The whole command line with its help, for manual pages and completions.
pub fn command() -> clap::Command {
    reflowed(Cli::command().mut_subcommand("verify", verify::hide_what_has_no_effect))
}

/// Reflows the help so that lines wrap only at the width of the screen: the short description and
/// each paragraph of the long one become one line. A line continues the previous one if neither is
/// indented, or if it is indented further than an indented list item.
fn reflowed(command: clap::Command) -> clap::Command {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let long = command.get_long_about().map(|about| {
        let text = about.to_string();
        let mut lines: Vec<String> = Vec::new();
        for line in text.lines() {
            let goes_on = |last: &String| {
                let is_paragraph = depth(line) == 0 && depth(last) == 0;
                let is_item = depth(line) > depth(last) && depth(last) > 0;
                let is_text = !last.is_empty() && !line.trim().is_empty();
                is_text && !last.ends_with([':', '\\']) && (is_paragraph || is_item)
            };
            match lines.last_mut().filter(|last| goes_on(last)) {
                Some(last) => *last = format!("{last} {}", line.trim_start()),
                None => lines.push(line.to_owned()),
            }
        }
        StyledStr::from(lines.join("\n"))
    });
    let short = command.get_about().map(|about| {
        let text = about.to_string().replace('\n', " ");
        StyledStr::from(text.strip_suffix('.').unwrap_or(&text).to_owned())
    });
    let long = Resettable::from(long);
    command.long_about(long).about(Resettable::from(short)).mut_subcommands(reflowed)
}

fn parse(words: &[OsString]) -> Result<Cli, clap::Error> {
    let command = command().mut_subcommands(|verb| verb.arg_required_else_help(false));
    let is_short = words.iter().take_while(|word| *word != "--").any(|word| word == "-h");
    let command = match is_short {
        true => first_screen::instead_of_help(command, ""),
        false => command,
    };
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
    fn short_descriptions_are_one_line_without_a_dot() {
        fn look(command: &clap::Command) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!about.contains('\n') && !about.ends_with('.'), "{about}");
            command.get_subcommands().for_each(look);
        }
        look(&command());
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
