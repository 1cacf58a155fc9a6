//! What `-h` prints: ten lines of at most 60 columns. `--help` prints every option.
//!
//! Commands with many options have a screen that says which of them matter. The others list the
//! first of theirs.

use clap::Command;

/// Commands with their first screen, in which `NAME` stands for the command.
const SCREENS: [(&[&str], &str); 18] = [
    (
        &[""],
        "\
Usage: iosonde VERB [OPTIONS]   (VERB -h, VERB --help)
  check       is this storage healthy, and how fast?
  run         measure one load, by fio's options
  verify      does it return what was written?
  profile     what does this program do to storage?
  experiment  where is the knee, the crossover, the tail?
  campaign    qualify many devices, unattended
  compare     is the difference real?
  report      show and find results; --explain WORD
  doctor      what can be measured here?
",
    ),
    (
        &["check"],
        "\
Usage: iosonde check [OPTIONS] [PATH] [SIZE]
Eight application workloads, one table, one verdict.
  [PATH]           directory to measure; default: .
  [SIZE]           of the test file; default: 256M to 1G
  --quick          3 seconds per workload
  --only NAMES     some workloads: --only database,cache
  --read-only      measure without writing
  --reference RUN  compare with a kept result
  --dry-run        print what would be done and written
  --help           every option, with examples
",
    ),
    (
        &["run"],
        "\
Usage: iosonde run [OPTIONS] [FILE|WORKLOAD]
One load, by fio's options, a file, or a built-in name.
  --path PATH      file, device or directory; with --size
  --rw MODE        read, write, randread, randwrite, randrw
  --bs SIZE        of one operation; default: 4k
  --iodepth N      requests in flight per job; default: 1
  --runtime TIME   length; default: 10 s
  --show NAME      print a built-in workload
  --dry-run        print the plan, and do nothing
  --help           every option, with examples
",
    ),
    (
        &["verify"],
        "\
Usage: iosonde verify MODE [OPTIONS] [PATH]
  flush      write everything once, flush, read it back
  pipeline   a ring of jobs, each reads what another wrote
  soak       overwrite, read, trim and flush at random
  write      write now; `check` reads it back later
  check      read back what `write` or `powercut` wrote
  powercut   write until the power is cut; with `witness`
  fsync      is fsync honoured?
  selftest   test the verifier with injected faults
  --help     more; verify MODE -h: options of a mode
",
    ),
    (
        &["verify write"],
        "\
Usage: iosonde verify write [OPTIONS] --ledger FILE [PATH]
  [PATH]           file, device or directory
  --ledger FILE    new file that records what was written
  --size SIZE      of the region; in a directory: needed
  --bs SIZE        of a block
  --numjobs N      jobs, each in its part of the region
  --runtime TIME   maximum time
  --dry-run        print what would be done and written
  --help           every option
Then: iosonde verify check PATH --ledger FILE
",
    ),
    (
        &["verify soak", "verify flush", "verify pipeline"],
        "\
Usage: iosonde NAME [OPTIONS] [PATH]
  [PATH]           file, device or directory
  --size SIZE      of the region; in a directory: needed
  --bs SIZE        of a block
  --numjobs N      jobs, each in its part of the region
  --runtime TIME   maximum time, then all is read back
  --ops N          operations per job
  --ioengine NAME  io_uring, psync, sim and others
  --dry-run        print what would be done and written
  --help           every option
",
    ),
    (
        &["verify check"],
        "\
Usage: iosonde verify check [OPTIONS] [PATH]
Reads back what `write` or `powercut` wrote; writes nothing.
  [PATH]             file or device
  --ledger FILE      the ledger of `verify write`
  --witness-log FILE the log of `verify witness`
  --survived WHAT    which writes must be present
  --dry-run          print what would be read
  --help             every option
",
    ),
    (
        &["verify powercut"],
        "\
Usage: iosonde verify powercut --witness COMMAND [PATH]
Writes, and reports each flush, until the power is cut.
  [PATH]            file or device
  --witness COMMAND `iosonde verify witness` elsewhere
  --size SIZE       of the region
  --flush-every N   writes of a job between its flushes
  --runtime TIME    end after this time, without a cut
  --dry-run         print what would be done and written
  --help            every option; then: verify check -h
",
    ),
    (
        &["experiment resume"],
        "\
Usage: iosonde experiment resume [OPTIONS] FOLDER
Runs what is missing, in the original order.
  FOLDER           its folder, whose name ends in .partial
  --accept-altered read results that were altered since
  --help           every option
",
    ),
    (
        &["verify fsync"],
        "\
Usage: iosonde verify fsync [OPTIONS] PATH
Does fsync reach the device? Each test states what it shows.
  PATH             directory, file or device
  --size SIZE      of the test file
  --dry-run        print what would be done and written
  --help           every option
",
    ),
    (
        &["profile"],
        "\
Usage: iosonde profile [OPTIONS] [-- COMMAND]
What a program does to storage, traced in the kernel.
  -- COMMAND       profile this command
  -p PID           or a process that is running
  --cgroup NAME    or a cgroup; --container NAME
  --for 30         for 30 s; alone: the whole machine
  --live           a view of the machine, each second
  --emit FILE      write its I/O as a workload for `run`
  -o DIR           keep the result here
  --help           every option, with examples
",
    ),
    (
        &["experiment"],
        "\
Usage: iosonde experiment list|show|run|resume
  list             the built-in experiments
  show NAME        print its file, to start a new one from
  run NAME [PATH]  run it: knee, crossover, tail
  resume FOLDER    complete what was interrupted
  --help           more; experiment run -h: its options
",
    ),
    (
        &["campaign"],
        "\
Usage: iosonde campaign ACTION [OPTIONS]
  configure    make or change a campaign file, by a menu
  check, plan  whether FILE is right, what it would run
  run FILE     run it
  resume DIR   complete what was interrupted
  status DIR   its progress
  report DIR   the results, and the sign-off
  export fio FILE  one fio job file per point
  demo         unpack a recorded one, to try report on
  --help       more; campaign run -h: its options
",
    ),
    (
        &["experiment run"],
        "\
Usage: iosonde experiment run [OPTIONS] NAME [PATH]
  NAME             built in (experiment list), or a file
  [PATH]           directory, file or device
  --quick          shorter runs, fewer repeats
  --size SIZE      of the test file
  --repeats N      runs of each point
  --set NAME=VALUE change an option of every run
  --results DIR    keep the result here
  --dry-run        print the runs, their time and bytes
  --help           every option
",
    ),
    (
        &["campaign run"],
        "\
Usage: iosonde campaign run [OPTIONS] FILE
  FILE             a campaign file (campaign configure)
  --preset NAME    change all experiments, as quick does
  --set KEY=VALUE  change a field of it
  --output DIR     keep the results here
  --help           every option
First: campaign check FILE, campaign plan FILE
",
    ),
    (
        &["compare"],
        "\
Usage: iosonde compare [OPTIONS] A B
Is the difference real? A, B: results, or folders of them.
  --run CMD        twice: measure both now, alternating
  --tolerance 5%   differences below this do not count
  --gate RULE      fail if it is missed: iops>-5%
  --metrics LIST   only these: iops,p99
  --peers PATH     find the device unlike its peers
  --page FILE      write the comparison as a page
  --help           every option, with examples
",
    ),
    (
        &["report"],
        "\
Usage: iosonde report [OPTIONS] [RESULT]
Without RESULT: a list of what is kept.
  [RESULT]         folder, last, last~2, or start of name
  --output-format  html, markdown, csv, json, parquet, …
  --output FILE    write it there
  --card FILE      one picture (.png, .svg) for a ticket
  --explain WORD   what a word of a report means
  --prune KEEP     which are older than the newest KEEP
  --recheck        judge it again by this version
  --help           every option
",
    ),
    (
        &["doctor"],
        "\
Usage: iosonde doctor [OPTIONS] [PATH]
What can be measured here, and what does measuring cost?
  [PATH]           directory, file or device; default: .
  --output-format  normal or json
  --hosts LIST     on these hosts at the same time
  --help           every option
",
    ),
];

/// The command with a first screen in place of its help, and so for those below it, whose names
/// begin with `name`.
pub(super) fn instead_of_help(command: Command, name: &str) -> Command {
    let screen = SCREENS.iter().find(|(names, _)| names.contains(&name));
    let text = match screen {
        Some((_, text)) => text.replace("iosonde NAME", &format!("iosonde {name}")),
        None => first_options(&command, name),
    };
    let command = command.override_help(text);
    command.mut_subcommands(|inner| {
        let whole = format!("{name} {}", inner.get_name());
        instead_of_help(inner, whole.trim_start())
    })
}

/// Columns of a screen, and of the names at its left side.
const WIDTH: usize = 60;
const NAMES: usize = 16;
/// Lines for what the command takes.
const MOST: usize = 7;

/// The purpose of a command, and the first of what it takes.
fn first_options(command: &Command, name: &str) -> String {
    let below = command.get_subcommands().filter(|below| below.get_name() != "help");
    let below = below.map(|below| (below.get_name().to_owned(), words(below.get_about())));
    let takes = |arg: &&clap::Arg| !arg.is_hide_set() && arg.get_id() != "version";
    let options = command.get_arguments().filter(takes).map(|arg| {
        let value = arg.get_value_names().and_then(|names| names.first()).map(|name| name.as_str());
        let value = value.filter(|_| arg.get_action().takes_values()).unwrap_or_default();
        let name = match arg.get_long() {
            Some(long) => format!("--{long} {value}").trim_end().to_owned(),
            None => value.to_owned(),
        };
        (name, words(arg.get_help()))
    });
    let lines: Vec<String> = below
        .chain(options)
        .take(MOST)
        .map(|(name, help)| {
            let name = format!("  {name:NAMES$} ");
            let room = WIDTH - name.chars().count().min(WIDTH / 2);
            format!("{name}{}", clause(&help, room))
        })
        .filter(|line| line.chars().count() <= WIDTH)
        .collect();
    let about = words(command.get_about());
    let about = clause(&about, WIDTH);
    let needed = needed(command);
    let usage = [" [OPTIONS]", ""].map(|more| format!("Usage: iosonde {name}{more}{needed}"));
    let usage = usage.into_iter().find(|usage| usage.len() <= WIDTH).unwrap_or_default();
    let whole = [usage, about.to_owned()].into_iter().chain(lines);
    let whole = whole.chain([format!("  {:NAMES$} every option\n", "--help")]);
    whole.collect::<Vec<String>>().join("\n")
}

/// What has to be given, beside options.
fn needed(command: &Command) -> String {
    if command.has_subcommands() {
        return " COMMAND".into();
    }
    let names = command.get_arguments().filter_map(|arg| {
        let value = arg.get_value_names()?.first()?;
        match (arg.get_long(), arg.is_required_set()) {
            (None, true) => Some(format!(" {value}")),
            (None, false) => Some(format!(" [{value}]")),
            (Some(long), true) => Some(format!(" --{long} {value}")),
            (Some(_), false) => None,
        }
    });
    names.collect()
}

fn words(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

/// The beginning of a text that fits: its first clause, or as many of its words.
fn clause(text: &str, room: usize) -> &str {
    let fits = |text: &&str| text.chars().count() <= room;
    let clause = |ends: &[char]| text.split(ends).next().unwrap_or_default().trim_end();
    let whole = [text, clause(&[';', ':', '(']), clause(&[';', ':', '(', ',', '.'])];
    if let Some(found) = whole.into_iter().find(fits) {
        return found;
    }
    let ends = text.char_indices().filter(|(_, letter)| *letter == ' ').map(|(at, _)| at);
    let cut = ends.take_while(|at| text[..*at].chars().count() <= room).last();
    &text[..cut.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// The command of this name.
    fn find(name: &str) -> Command {
        let mut command = super::super::command();
        for word in name.split(' ').filter(|word| !word.is_empty()) {
            command = command.find_subcommand(word).unwrap().clone();
        }
        command
    }

    #[test]
    fn a_first_screen_has_ten_lines_and_only_options_that_exist() {
        for (names, text) in SCREENS {
            assert!(text.lines().count() <= 10, "{text}");
            let wide = text.lines().find(|line| line.chars().count() > 60);
            assert_eq!(wide, None);
            for name in names {
                let command = find(name);
                let words = text.lines().skip(1).filter_map(|line| line.split_whitespace().next());
                for word in words.filter(|word| word.starts_with("--") && word.len() > 2) {
                    let is_there = word == "--help"
                        || command.get_arguments().any(|arg| arg.get_long() == Some(&word[2..]));
                    assert!(is_there, "{name}: {word}");
                }
            }
        }
    }

    /// Every command below this one, by its whole name.
    fn below(command: &Command, name: &str, found: &mut Vec<(String, String)>) {
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            let whole = format!("{name} {}", inner.get_name()).trim_start().to_owned();
            below(inner, &whole, found);
            found.push((inner.clone().render_help().to_string(), whole));
        }
    }

    #[test]
    fn every_command_has_a_first_screen() {
        let mut all = Vec::new();
        below(&instead_of_help(super::super::command(), ""), "", &mut all);
        assert!(all.len() > 30, "{}", all.len());
        for (text, name) in all {
            assert!(text.starts_with(&format!("Usage: iosonde {name}")), "{name}: {text}");
            assert!(text.lines().count() <= 10, "{name}: {text}");
            assert!(text.contains("--help"), "{name}: {text}");
            let wide = text.lines().find(|line| line.chars().count() > WIDTH);
            assert_eq!(wide, None, "{name}");
        }
    }

    #[test]
    fn a_clause_is_cut_at_a_word() {
        assert_eq!(clause("Most bytes written", 20), "Most bytes written");
        assert_eq!(clause("Its folder, whose name ends in .partial", 20), "Its folder");
        assert_eq!(clause("A very long description of one thing", 20), "A very long");
    }

    #[test]
    fn a_first_screen_lists_every_command_below() {
        for name in ["", "verify", "experiment", "campaign"] {
            let (_, text) = SCREENS.iter().find(|(names, _)| names.contains(&name)).unwrap();
            let command = find(name);
            for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
                assert!(text.contains(below.get_name()), "{name}: {}", below.get_name());
            }
        }
    }
}
