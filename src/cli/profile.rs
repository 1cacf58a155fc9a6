//! `iosonde profile`: profiles the storage I/O of a program.

mod against;
mod emit;
mod folder;
mod live;
mod request;

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use against::Beside;
use clap::Args;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use emit::Emitted;
use folder::Folder;
use live::LiveView;

use super::color::colored;
use super::exit::{Exit, Failure};
use super::output::note;
use super::screen;
use iosonde_analysis::profile::{Against, figures};
use iosonde_engine::host::{self, Root};
use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::{Ended, Method, Missing, Source};
use iosonde_model::record::run::by_signal;
use iosonde_report::profile_text;
use iosonde_watch::{Live, WatchError, rehearse, wake_writing, watch};

/// Profile the storage I/O of a program, traced in the kernel: of a command, or of what is running,
/// by -p PID, --cgroup NAME or --container NAME, with --for 30 (seconds) or until it ends; or of
/// the whole machine, by --for 30 alone.
///
/// The command keeps its user, its streams and its exit code; the report goes to stderr and, with
/// the record, into a folder. Tracing each request needs CAP_BPF and CAP_PERFMON; without them the
/// counters of the processes and disks are reported, and the missing data is listed.
///
/// An interrupt is forwarded to the command; a second one within two seconds aborts.
///
/// Examples:
///   sudo iosonde profile -- dd if=/dev/zero of=test bs=1M count=1000
///   sudo iosonde profile --json -o results/ -- dd if=/dev/sda of=/dev/null bs=4k count=100000
///   sudo iosonde profile -d nvme0n1 -- fio job.fio
///   sudo iosonde profile --emit app.toml -- ./app && iosonde run app.toml --path . --size 1g
///   sudo iosonde profile -p 4711 --for 30
///   sudo iosonde profile --for 30
///   sudo iosonde profile --live
///   sudo iosonde profile --stacks -- ./app
///   sudo iosonde profile --cgroup system.slice/postgresql.service --for 1m
///
/// Exit code: that of the command, 128 + n if a signal killed it; 125 if it could not be profiled,
/// 126 if it cannot be executed, 127 if it is not found.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct ProfileArgs {
    /// Folder for the results, in which report.txt is that of the latest run [default: a new one in
    /// the user's state directory]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Disk to trace, such as vda or /dev/vda1 (a partition means its disk); may be repeated
    /// [default: all disks]
    #[arg(short, long, value_name = "NAME")]
    device: Vec<String>,
    /// Profile this process and its descendants until it ends; with a COMMAND, until the command
    /// ends
    #[arg(short, long, value_name = "PID", group = "attached")]
    pid: Option<u32>,
    /// Profile the processes of this cgroup: a directory of /sys/fs/cgroup, or a name below it
    #[arg(long, value_name = "PATH", group = "attached")]
    cgroup: Option<PathBuf>,
    /// Profile this container: its name or the beginning of its ID, at docker or podman
    #[arg(long, value_name = "NAME", group = "attached")]
    container: Option<String>,
    /// The same as --pid, if it is a number, or --cgroup
    #[arg(long, value_name = "PID|PATH", group = "attached")]
    attach: Option<PathBuf>,
    /// How long to profile a running process or cgroup; alone, the whole machine
    #[arg(long = "for", value_name = "TIME")]
    length: Option<String>,
    /// Sampling interval, and interval of the time series
    #[arg(long, value_name = "TIME", default_value = "250ms")]
    interval: String,
    /// Maximum time to wait after the end for dirty pages of the program to be written
    /// [default: 2s]
    #[arg(long, value_name = "TIME")]
    settle: Option<String>,
    /// Write report.json into the folder too
    #[arg(long)]
    json: bool,
    /// Write the program's I/O as a workload file that `iosonde run` replays
    #[arg(long, value_name = "FILE")]
    emit: Option<PathBuf>,
    /// Compare with a stored result of `iosonde run` on the same device: report the share of its
    /// rates that the program uses
    #[arg(long, value_name = "RESULT")]
    against: Option<PathBuf>,
    /// Record call stacks where requests begin and threads wait: flame graphs in the folder
    /// (stacks-*.svg), and folded stacks (stacks-*.folded)
    #[arg(long)]
    stacks: bool,
    /// Live view, refreshed each second: processes, files and cgroups on a terminal, a line
    /// elsewhere; without a selection, the whole machine until q is pressed
    #[arg(long)]
    live: bool,
    /// Print each step
    #[arg(short, long)]
    verbose: bool,
    /// Print what would be profiled and what cannot be traced, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) fn profile(args: &ProfileArgs, words: &[String]) -> Result<Exit, Failure> {
    let mut requested = request::requested(args).map_err(unprofiled)?;
    let beside = args.against.as_deref().map(Beside::at).transpose().map_err(unprofiled)?;
    let root = Root::system();
    if args.dry_run {
        let (source, disks) = rehearse(&root, &requested)?;
        note(&rehearsal(&source, &disks));
        return Ok(Exit::Done);
    }
    let host = host::facts(&root);
    let emitted = args.emit.as_deref().map(Emitted::at).transpose().map_err(unprofiled)?;
    let folder = Folder::open(args.output.as_deref(), words).map_err(unprofiled)?;
    let parents = folder.parent.as_deref().into_iter();
    let mut places = parents.chain(emitted.as_ref().map(Emitted::parent));
    requested.may_write_later = places.any(is_anothers);
    let mut say = |line: &str| {
        if args.verbose {
            note(line);
        }
    };
    let mut view = args.live.then(|| LiveView::open(subject_of(args)));
    let live = view.as_mut().map(|view| view as &mut dyn Live);
    let watched = watch(&root, host, &requested, &mut say, live);
    drop(view);
    wake_writing();
    let run = watched?;
    let exit = end_of(&run.ended);
    let mut is_reported = print(&run, beside.as_ref(), folder, args.json, exit);
    is_reported &= emitted.is_none_or(|emitted| emitted.write(&run));
    // The command's own failure takes precedence over ours.
    Ok(if is_reported || exit.code() != 0 { exit } else { Exit::Unprofiled })
}

/// The subject of a live view; `None` for the whole machine.
fn subject_of(args: &ProfileArgs) -> Option<String> {
    let cgroup = args.cgroup.as_ref().map(|path| format!("cgroup {}", path.display()));
    let process = || args.pid.map(|pid| format!("process {pid}"));
    let container = || args.container.as_ref().map(|name| format!("container {name}"));
    let either = || args.attach.as_ref().map(|word| word.display().to_string());
    cgroup.or_else(process).or_else(container).or_else(either)
}

/// Whether the folder or one of its ancestors belongs to another user: writing there may need
/// additional privileges.
fn is_anothers(folder: &Path) -> bool {
    let us = rustix::process::geteuid().as_raw();
    let whole = folder.canonicalize();
    let way = whole.as_deref().unwrap_or(folder).ancestors();
    way.filter_map(|each| each.metadata().ok()).any(|facts| facts.uid() != us)
}

/// Writes the report to stderr and into the folder; returns whether all requested outputs were
/// written.
fn print(
    run: &ProfileRun,
    beside: Option<&Beside>,
    mut folder: Folder,
    json: bool,
    exit: Exit,
) -> bool {
    let figures = figures(run);
    let against = beside.map(|beside| beside.analysed(run, &figures));
    let text = |screen| profile_text(run, &figures, against.as_ref(), screen);
    // If stderr is closed, the folder is still written.
    let shown = text(screen::error_columns());
    let _ = io::stderr().write_all(colored(&shown, &io::stderr()).as_bytes());
    let mut is_kept = folder.keep(run, &text(usize::MAX));
    let analysed: Vec<Against> = against.iter().flatten().cloned().collect();
    is_kept &= folder.keep_document(json, (run, &figures, &analysed), exit);
    let is_whole = !matches!(run.ended, Ended::Interrupted { .. });
    folder.finish(is_whole, exit.code(), &ended_text(&run.ended));
    if let Some(Err(reason)) = &against {
        note(&format!("error: --against: {reason}"));
    }
    is_kept && against.is_none_or(|against| against.is_ok())
}

/// Describes what would be profiled.
fn rehearsal(source: &Source, disks: &[String]) -> String {
    let how = match source.method {
        Method::Tracepoints => {
            format!("each request would be traced, and attributed at {}", source.attribution)
        }
        Method::Counters => {
            "requests would not be traced; counters of processes and disks would be used".into()
        }
    };
    let disks = match disks {
        [] => "disks: those that the program uses".to_owned(),
        disks => format!("disks: {}", disks.join(", ")),
    };
    let mut lines = vec![how, disks];
    let refused = source.programs.iter().filter_map(|program| {
        Some(format!("not attached: {}: {}", program.tracepoint, program.refused.as_ref()?))
    });
    lines.extend(refused);
    lines.extend(source.missing.iter().map(|Missing { what, reason, fix }| {
        let fix = fix.as_ref().map_or(String::new(), |fix| format!(" -> {fix}"));
        format!("missing: {what}: {reason}{fix}")
    }));
    lines.join("\n")
}

/// The exit code is that of the command.
pub(super) fn end_of(ended: &Ended) -> Exit {
    match ended {
        Ended::Exited { code } => Exit::AsCommand(u8::try_from(code & 0xff).unwrap_or(0)),
        Ended::Killed { signal } | Ended::Interrupted { signal } => Exit::Signal(*signal),
        Ended::TimeUp | Ended::Gone | Ended::Stopped => Exit::Done,
    }
}

pub(super) fn ended_text(ended: &Ended) -> String {
    match ended {
        Ended::Exited { code } => format!("the command exited with {code}"),
        Ended::Killed { signal } => format!("the command was killed by signal {signal}"),
        Ended::TimeUp => "the time limit was reached".into(),
        Ended::Stopped => "ended by the user".into(),
        Ended::Gone => "the profiled process or cgroup has ended".into(),
        Ended::Interrupted { signal } => format!("interrupted {}", by_signal(*signal)),
    }
}

impl From<WatchError> for Failure {
    fn from(error: WatchError) -> Failure {
        let exit = match &error {
            WatchError::NotFound { .. } => Exit::AsCommand(127),
            WatchError::NotExecutable { .. } => Exit::AsCommand(126),
            WatchError::Left { signal } => Exit::Signal(*signal),
            _ => Exit::Unprofiled,
        };
        Failure::new(exit, error.to_string())
    }
}

/// Gives a failure to profile the exit code that commands do not use.
fn unprofiled(failure: Failure) -> Failure {
    Failure { exit: Exit::Unprofiled, ..failure }
}

/// Usage errors end like all our own failures, with codes distinct from those of commands.
pub(super) fn misused(error: &clap::Error, words: &[String]) -> Failure {
    let has_dashes = words.iter().any(|word| word == "--");
    let hint = "the command must follow --, as in: iosonde profile -- dd if=/dev/zero of=test";
    let hint = (!has_dashes && begins_command(error)).then(|| hint.to_owned());
    unprofiled(Failure { hint, ..Failure::usage(error) })
}

/// Whether clap found a word that is not an option where only options are allowed.
fn begins_command(error: &clap::Error) -> bool {
    let word = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) if error.kind() == ErrorKind::UnknownArgument => word,
        _ => return false,
    };
    !word.starts_with('-')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_folder_in_the_home_of_another_user_is_his_by_whatever_name() {
        let dir = tempfile::tempdir().unwrap();
        let way = dir.path().canonicalize().unwrap();
        let owner = |folder: &Path| folder.metadata().unwrap().uid();
        let us = rustix::process::geteuid().as_raw();
        assert_eq!(is_anothers(dir.path()), way.ancestors().any(|each| owner(each) != us));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/", &link).unwrap();
        assert_eq!(is_anothers(&link), owner(Path::new("/")) != us);
    }
}
