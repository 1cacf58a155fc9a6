//! A command line of fio: recognised by `--name` or a job file, and split into options of jobs, job
//! files, and options of the command as a whole.

use std::ffi::OsString;
use std::path::Path;

use iosonde_model::spec::catalogue;
use iosonde_model::spec::fio::command::{Word, canonical};
use iosonde_model::spec::fio::{command, table};

use clap::ValueEnum;

use crate::cli::exit::{Failure, wrong};
use crate::cli::output::OutputFormat;
use crate::cli::words::unfit;

/// A command line with fio's syntax.
#[derive(Clone, Debug, Default)]
pub(crate) struct FioLine {
    /// Options of jobs, in order.
    pub(super) options: Vec<Word>,
    /// Job files, in order; `-` is standard input.
    pub(super) files: Vec<String>,
    /// Sections of the files to run; empty means all.
    pub(super) sections: Vec<String>,
    /// Whether writing is forbidden.
    pub(super) readonly: bool,
    /// Action instead of a run.
    pub(super) instead: Instead,
    /// Formats of the result, ascending, in addition to the one that our own parser receives.
    pub(super) more_formats: Vec<OutputFormat>,
    /// Whether terse output has version 5.
    terse_five: bool,
    /// Whether terse output is added.
    terse_too: bool,
    /// Whether the bandwidth of all jobs of a group is logged.
    pub(super) bandwidth_log: bool,
    /// Whether progress is requested, wherever it goes.
    pub(super) asks_for_eta: bool,
    /// Notes on options accepted without effect.
    pub(super) notes: Vec<String>,
    /// Options of this program.
    own: Vec<String>,
}

/// Action instead of a run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) enum Instead {
    /// None: the jobs are run.
    #[default]
    Nothing,
    /// Read and check the jobs.
    Parse,
    /// Print the jobs as a command line of fio.
    ShowCommand,
    /// List what would make the result misleading.
    Lint,
    /// Print how this program treats an option of fio, or all of them.
    Options(String),
    /// Print the engines.
    Engines(String),
}

/// Our own options that can be combined with fio's; true if they take a value.
const BESIDE: [(&str, bool); 23] = [
    ("accept-unseen", true),
    ("accept-unseen-processes", true),
    ("agent", true),
    ("allow-env", false),
    ("destroy-data", true),
    ("dry-run", false),
    ("eta-interval", true),
    ("expect", true),
    ("help", false),
    ("hlog", true),
    ("host-region", true),
    ("host-timeout", true),
    ("hosts", true),
    ("inspect-time", true),
    ("launch", true),
    ("output", true),
    ("overwrite-file", true),
    ("overwrite-signature", true),
    ("progress", true),
    ("prometheus", true),
    ("results", true),
    ("series", true),
    ("version", false),
];

/// Options of fio's command line itself; true if they take a value.
const SESSION: [(&str, bool); 21] = [
    ("alloc-size", true),
    ("append-terse", false),
    ("bandwidth-log", false),
    ("cmdhelp", true),
    ("enghelp", true),
    ("eta", true),
    ("eta-newline", true),
    ("max-jobs", true),
    ("minimal", false),
    ("output-format", true),
    ("parse-only", false),
    ("readonly", false),
    ("section", true),
    ("seed", true),
    ("showcmd", false),
    ("status-interval", true),
    ("terse-version", true),
    ("warnings-fatal", false),
    ("latency-log", false),
    ("lint", false),
    ("idle-prof", true),
];

const SEVERAL_MACHINES: &str = "use --hosts=node1,node2, which starts iosonde there by ssh";
const TRIGGER: &str = "iosonde does not run programs; use `iosonde verify powercut` for power cuts";

/// Options of fio's command line that are refused, with what to use instead.
const REFUSED: [(&str, &str); 15] = [
    ("latency-log", "use --series=FILE.csv, which has the latency of every interval"),
    ("idle-prof", "the report always has the CPU time of the run"),
    ("debug", "the plan is printed by --dry-run"),
    ("server", SEVERAL_MACHINES),
    ("client", SEVERAL_MACHINES),
    ("daemonize", SEVERAL_MACHINES),
    ("remote-config", SEVERAL_MACHINES),
    ("trigger-file", TRIGGER),
    ("trigger-timeout", TRIGGER),
    ("trigger", TRIGGER),
    ("trigger-remote", TRIGGER),
    ("aux-path", "give the whole path of each file"),
    ("inflate-log", "logs are written as text"),
    ("cpuclock-test", "`iosonde doctor` reports on the clock"),
    ("crctest", "`iosonde verify selftest` tests the verifier"),
];

/// A command-line argument.
enum Item {
    Option { name: String, value: Option<String> },
    File(String),
}

impl FioLine {
    /// Reads a command line of fio, and returns the remaining arguments for our own parser; `None`
    /// if it is not fio's.
    pub(crate) fn find(words: &[OsString]) -> Result<Option<(FioLine, Vec<OsString>)>, Failure> {
        if words.get(1).is_none_or(|verb| verb != "run") {
            return Ok(None);
        }
        // fio's syntax requires UTF-8.
        let Some(texts) = words[2..].iter().map(|word| word.to_str()).collect::<Option<Vec<_>>>()
        else {
            return Ok(None);
        };
        let items = items(&texts);
        let is_fio = items.iter().any(|item| match item {
            Item::Option { name, .. } => {
                matches!(name.as_str(), "name" | "cmdhelp" | "enghelp" | "showcmd" | "lint")
            }
            Item::File(word) => is_job_file(word),
        });
        if !is_fio {
            return Ok(None);
        }
        let mut line = FioLine::default();
        for item in items {
            match item {
                Item::File(word) => line.files.push(word),
                Item::Option { name, value } => line.option(&name, value)?,
            }
        }
        line.settle_formats();
        // Our own parser requires a load.
        let placeholder = "job.fio".to_string();
        let own = line.own.iter().cloned().chain([placeholder]).map(OsString::from);
        let own = words[..2].iter().cloned().chain(own).collect();
        Ok(Some((line, own)))
    }

    /// Sections of the jobs on the command line itself.
    pub(super) fn sections(&self) -> Vec<iosonde_model::spec::fio::lex::Section> {
        command::sections(&self.options)
    }

    fn option(&mut self, name: &str, value: Option<String>) -> Result<(), Failure> {
        let own = name.replace('_', "-");
        if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == own) {
            return Err(wrong(format!("--{own}, an option of fio, is not supported: {why}")));
        }
        if SESSION.iter().any(|(session, _)| *session == own) {
            return self.session(&own, value);
        }
        if BESIDE.iter().any(|(beside, _)| *beside == own) {
            self.asks_for_eta |= own == "eta-interval";
            self.own.push(match value {
                Some(value) => format!("--{own}={value}"),
                None => format!("--{own}"),
            });
            return Ok(());
        }
        match table::find(&canonical(name)) {
            Ok(_) => {
                // A switch without a value is on.
                let value = value.or_else(|| is_switch(name).then(|| "1".into()));
                self.options.push(Word { name: name.into(), value });
                Ok(())
            }
            Err(unknown) => Err(wrong(not_fios(&own, &unknown))),
        }
    }

    /// Puts the formats into fio's order; the last of them is for our own parser.
    fn settle_formats(&mut self) {
        let formats = &mut self.more_formats;
        if self.terse_too {
            let is_first = formats.is_empty();
            formats.extend(is_first.then_some(OutputFormat::Normal));
            formats.push(OutputFormat::Terse);
        }
        if formats.contains(&OutputFormat::JsonPlus) {
            formats.retain(|format| *format != OutputFormat::FioJson);
        }
        if self.terse_five {
            let terse = formats.iter_mut().filter(|format| **format == OutputFormat::Terse);
            terse.for_each(|format| *format = OutputFormat::TerseFive);
        }
        formats.sort_by_key(|format| format.turn());
        formats.dedup();
        let name = formats.pop().and_then(|format| format.to_possible_value());
        if let Some(name) = name {
            self.own.insert(0, format!("--output-format={}", name.get_name()));
        }
    }

    fn session(&mut self, name: &str, value: Option<String>) -> Result<(), Failure> {
        let needed = SESSION.iter().any(|(session, takes)| *session == name && *takes);
        let value = match value {
            Some(value) if needed => value,
            // Without a value they list everything.
            None if matches!(name, "cmdhelp" | "enghelp") => "all".into(),
            None if needed => {
                let message = format!("--{name}: found no value; write it after an equals sign");
                return Err(wrong(message));
            }
            _ => String::new(),
        };
        let refuse = |expected: &str| Err(unfit(&format!("--{name}"), &value, expected));
        match name {
            "output-format" => {
                let formats = value.split(',').map(|word| OutputFormat::of_fio(word.trim()));
                match formats.collect() {
                    Some(formats) => self.more_formats = formats,
                    None => return refuse("normal, json, json+ or terse, separated by commas"),
                }
            }
            "minimal" => self.more_formats = vec![OutputFormat::Terse],
            "append-terse" => self.terse_too = true,
            "terse-version" if !matches!(value.as_str(), "3" | "5") => {
                return refuse("3 or 5, the versions that are written");
            }
            "terse-version" if value == "5" => self.terse_five = true,
            "terse-version" => {}
            "eta" => match value.as_str() {
                "never" => self.own.push("--eta-interval=0".into()),
                "always" => self.asks_for_eta = true,
                "auto" => {}
                _ => return refuse("always, never or auto"),
            },
            // A time without a unit is in seconds, both in fio and here.
            "eta-newline" => {
                self.asks_for_eta = true;
                self.own.push(format!("--eta-interval={value}"));
            }
            "status-interval" => {
                self.asks_for_eta = true;
                self.own.push(format!("--eta-interval={value}"));
                self.notes.push(
                    "--status-interval: a progress line is printed as often; for all figures of \
                     every interval use --series=FILE.csv"
                        .into(),
                );
            }
            "readonly" => self.readonly = true,
            "bandwidth-log" => self.bandwidth_log = true,
            "lint" => self.instead = Instead::Lint,
            "parse-only" => self.instead = Instead::Parse,
            "showcmd" => self.instead = Instead::ShowCommand,
            "cmdhelp" => self.instead = Instead::Options(value),
            "enghelp" => self.instead = Instead::Engines(value),
            "section" => self.sections.push(value),
            "seed" => self.options.push(Word { name: "randseed".into(), value: Some(value) }),
            // No effect: nothing is preallocated, and unreadable options are always fatal.
            _ => {}
        }
        Ok(())
    }
}

/// Splits the arguments after the verb.
fn items(words: &[&str]) -> Vec<Item> {
    let mut items = Vec::new();
    let mut words = words.iter().copied().peekable();
    while let Some(word) = words.next() {
        let Some(option) = option_of(word) else {
            items.push(Item::File(word.into()));
            continue;
        };
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (option, None),
        };
        let next = words.peek().filter(|next| option_of(next).is_none());
        let takes_next = match next {
            _ if value.is_some() => false,
            Some(next) if is_switch(name) => matches!(*next, "0" | "1"),
            Some(_) => takes_value(name),
            None => false,
        };
        let value = if takes_next { words.next().map(str::to_string) } else { value };
        items.push(Item::Option { name: name.into(), value });
    }
    items
}

/// The option without its one or two hyphens, both of which fio accepts.
fn option_of(word: &str) -> Option<&str> {
    let short = |rest: &&str| rest.len() > 1 && rest.starts_with(|c: char| c.is_ascii_alphabetic());
    match word {
        // fio accepts the beginning of an option's name.
        "-o" => Some("output"),
        _ => word.strip_prefix("--").or_else(|| word.strip_prefix('-').filter(short)),
    }
}

/// Whether an option without a value is on.
fn is_switch(name: &str) -> bool {
    use iosonde_model::spec::fio::value::Kind;
    let entry = table::find(&canonical(name));
    entry.is_ok_and(|entry| matches!(entry.kind, Kind::Bool | Kind::Switch))
}

/// Whether an option takes the next argument as its value.
fn takes_value(name: &str) -> bool {
    let name = name.replace('_', "-");
    let known = SESSION.iter().chain(&BESIDE).find(|(known, _)| *known == name);
    match known {
        Some((_, takes)) => *takes,
        // These options of our own take no separate value.
        None => !matches!(name.as_str(), "profile" | "continue-on-error" | "slat" | "cross-check"),
    }
}

/// Whether an argument names a job file and not a workload of ours.
fn is_job_file(word: &str) -> bool {
    let path = Path::new(word);
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("toml") => false,
        Some("fio" | "ini" | "job") => true,
        _ if word == "-" => true,
        _ => catalogue::workload(word).is_err() && path.is_file(),
    }
}

/// Message on an option that fio does not have.
fn not_fios(name: &str, unknown: &str) -> String {
    let instead = match name {
        "path" => "use --filename or --directory",
        "speed" => "change the rates of the job file, or use a workload file",
        "latency-target" | "until" | "steady" | "region" | "stride" | "phase" | "profile"
        | "cross-check" => "it belongs to the command line without --name and without a job file",
        _ => return format!("--{name}: {unknown}"),
    };
    format!("--{name} is not a fio option, and this command line is read as fio's: {instead}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn find(words: &str) -> Option<(FioLine, String)> {
        let words: Vec<OsString> =
            format!("iosonde run {words}").split_whitespace().map(OsString::from).collect();
        let (line, own) = FioLine::find(&words).unwrap()?;
        let own: Vec<String> =
            own[2..].iter().map(|word| word.to_string_lossy().into_owned()).collect();
        Some((line, own.join(" ")))
    }

    fn shown(words: &str) -> String {
        let (line, _) = find(words).unwrap();
        command::words(&line.sections())
    }

    #[test]
    fn a_name_or_a_job_file_makes_it_fios() {
        for words in ["--rw=read --path a", "app.toml --path x.fio", "kv-store --path ."] {
            assert!(find(words).is_none(), "{words}");
        }
        for words in ["--name=a", "--name a", "-name=a", "a.fio --size 1g", "-", "--rw read a.ini"]
        {
            assert!(find(words).is_some(), "{words}");
        }
    }

    #[test]
    fn switches_stand_alone_and_one_hyphen_is_enough() {
        let shown = shown("-direct=1 --time-based --direct --randrepeat 0 -rw randread -name=a");
        assert_eq!(
            shown,
            "fio --direct=1 --time_based=1 --direct=1 --randrepeat=0 --rw=randread --name=a"
        );
        let (line, _) = find("--name=a --direct job.fio").unwrap();
        assert_eq!(line.files, ["job.fio"]);
    }

    #[test]
    fn what_concerns_the_command_goes_to_our_own_parser() {
        let (line, own) =
            find("--name=a --output-format=json --eta=never --destroy-data X --section b").unwrap();
        assert_eq!(own, "--output-format=fio-json --eta-interval=0 --destroy-data=X job.fio");
        assert_eq!((line.options.len(), line.sections.len()), (1, 1));
    }

    #[test]
    fn several_formats_stand_in_fios_order() {
        let formats = |words: &str| {
            let (line, own) = find(&format!("--name=a {words}")).unwrap();
            (line.more_formats, own)
        };
        use OutputFormat::{FioJson, JsonPlus, Terse, TerseFive};
        for (words, more, last) in [
            ("--output-format=normal,json", vec![FioJson], "normal"),
            ("--output-format=json,json+,terse", vec![Terse], "json+"),
            ("--output-format=terse,json+,normal", vec![Terse, JsonPlus], "normal"),
            ("--append-terse --terse-version=5", vec![TerseFive], "normal"),
            ("--output-format=json --append-terse", vec![Terse], "fio-json"),
            ("--output-format=json --minimal", vec![], "terse"),
        ] {
            let own = format!("--output-format={last} job.fio");
            assert_eq!(formats(words), (more, own), "{words}");
        }
    }

    #[test]
    fn what_is_not_fios_is_refused_by_name() {
        let refused = |words: &str| {
            let words: Vec<OsString> =
                format!("iosonde run --name=a {words}").split(' ').map(OsString::from).collect();
            FioLine::find(&words).unwrap_err().message
        };
        assert!(refused("--path=x").contains("--filename"));
        assert!(refused("--iodpeth=3").contains("did you mean `iodepth`"));
        assert!(refused("--client=x").contains("--hosts=node1,node2"));
        assert!(refused("--terse-version=4").contains("expected 3 or 5"));
        assert!(refused("--output-format=json,xml").contains("separated by commas"));
        assert!(refused("--section").contains("no value"));
    }
}
