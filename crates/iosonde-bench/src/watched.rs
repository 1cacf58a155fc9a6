//! Slowdown of a profiled program by `iosonde profile`, compared with none and with bpftrace.
//!
//! The profiled program is this binary: it runs fio and measures the CPU time of the machine
//! meanwhile, so that neither the profiler's start nor its report counts as a cost per operation.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::Method;
use serde::{Deserialize, Serialize};

use crate::measure::{Ran, ask};
use crate::parse::{self, Reported};
use crate::tool::Work;
use crate::{BenchError, RunArgs, WithinArgs, doing, machine};

/// Mount point of the kernel's tracepoints.
const TRACEFS: &str = "/sys/kernel/tracing";
/// Length of the long run over that of the short one.
const LONGER: f64 = 10.0;

/// The profiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Watcher {
    Nobody,
    Profile,
    Bpftrace,
}

/// The profiled program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// fio's random reads.
    Reads,
    /// The same reads for ten times as long.
    LongReads,
    /// A program that exits immediately.
    Start,
}

/// Figures of a profiled run, in addition to its rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Watched {
    /// Seconds from the start of the profiler until its command ran.
    pub(crate) released_s: f64,
    /// CPU time of the whole machine while the command ran, per operation: it includes work that
    /// the kernel charges to other processes.
    pub(crate) machine_ns_per_op: f64,
    /// Largest resident memory of the profile's collector, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) collector_bytes: Option<u64>,
    /// Losses that the profile reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lost: Option<u64>,
}

/// Output of the `within` command.
#[derive(Debug, Serialize, Deserialize)]
struct Account {
    released_unix_ns: u64,
    machine_ns: u64,
    /// The output of the program that it ran.
    said: String,
}

/// Programs named on a profiler's command line.
#[derive(Debug)]
pub(crate) struct Programs {
    fio: PathBuf,
    within: PathBuf,
    script: PathBuf,
}

impl Programs {
    /// Paths of the programs to run.
    pub(crate) fn of(args: &RunArgs) -> Result<Self, BenchError> {
        let within = std::env::current_exe().map_err(doing("cannot find this program"))?;
        Ok(Self { fio: args.fio.clone(), within, script: args.bpftrace_script.clone() })
    }

    /// Names of the programs, for display.
    pub(crate) fn named() -> Self {
        let [fio, within, script] = ["fio", "iosonde-bench", "benches/profile.bt"].map(Into::into);
        Self { fio, within, script }
    }
}

/// The `within` command: runs a program; prints its output and the machine's CPU time meanwhile.
pub(crate) fn within(args: &WithinArgs, out: &mut impl Write) -> Result<(), BenchError> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let released_unix_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    let words: Vec<&str> = args.command.iter().map(String::as_str).collect();
    let [program, words @ ..] = &words[..] else { return Ok(()) };
    let before = machine::busy_ns();
    let said = ask(program, words)?;
    let machine_ns = machine::busy_ns().saturating_sub(before);
    let account = Account { released_unix_ns, machine_ns, said };
    writeln!(out, "{}", serde_json::json!(account)).map_err(doing("cannot write the account"))
}

/// Finds the account in a profiler's output; bpftrace prints text before and after it.
fn account(said: &str) -> Option<Account> {
    let text = &said[said.find('{')?..];
    serde_json::Deserializer::from_str(text).into_iter().next()?.ok()
}

/// Title in the tables.
pub(crate) fn title(watcher: Watcher, subject: Subject) -> &'static str {
    match (watcher, subject) {
        (Watcher::Nobody, Subject::Start) => "none (the command alone)",
        (Watcher::Nobody, _) => "nobody",
        (Watcher::Profile, Subject::LongReads) => "iosonde profile, ten times as long",
        (Watcher::Profile, _) => "iosonde profile",
        (Watcher::Bpftrace, _) => "bpftrace",
    }
}

/// The profiler's arguments for this work.
pub(crate) fn arguments(watcher: Watcher, subject: Subject, work: &Work<'_>) -> Vec<String> {
    let programs = work.programs;
    let name = |path: &Path| path.to_string_lossy().into_owned();
    let mut command: Vec<String> = vec!["within".into(), "--".into()];
    if subject == Subject::Start {
        command.push("true".into());
    } else {
        let seconds = work.seconds * if subject == Subject::LongReads { LONGER } else { 1.0 };
        let file = work.files.first().map_or_else(|| "FILE".into(), |file| name(file));
        command.push(name(&programs.fio));
        let words = format!(
            "--name=a --size={} --rw=randread --bs=4k --direct=1 --runtime={seconds} \
             --time_based --thread=1 --output-format=json --ioengine=io_uring --iodepth={}",
            work.bytes, work.depth
        );
        command.extend(words.split_whitespace().map(str::to_owned));
        command.push(format!("--filename={file}"));
    }
    let within = name(&programs.within);
    match watcher {
        Watcher::Nobody => command,
        Watcher::Profile => {
            ["profile".into(), "--".into(), within].into_iter().chain(command).collect()
        }
        // bpftrace takes the command as one argument and splits it at spaces.
        Watcher::Bpftrace => {
            let command = format!("{within} {}", command.join(" "));
            vec![name(&programs.script), "-c".into(), command]
        }
    }
}

/// The rate of the profiled program; for a start, the rate of starts.
pub(crate) fn reported(ran: &Ran, subject: Subject) -> Option<Reported> {
    let account = account(&ran.said)?;
    match subject {
        Subject::Start => {
            let iops = ran.wall.as_secs_f64().recip();
            Some(Reported { iops, ops: Some(1.0), ..Reported::default() })
        }
        Subject::Reads | Subject::LongReads => parse::fio(&account.said),
    }
}

/// The other figures; `None` for a profile that did not record each request.
pub(crate) fn watched(
    watcher: Watcher,
    ran: &Ran,
    called: SystemTime,
    ops: f64,
    record: Option<&str>,
) -> Option<Watched> {
    let account = account(&ran.said)?;
    let called_ns = called.duration_since(UNIX_EPOCH).ok()?.as_nanos() as f64;
    let mut watched = Watched {
        released_s: (account.released_unix_ns as f64 - called_ns) / 1e9,
        machine_ns_per_op: account.machine_ns as f64 / ops,
        collector_bytes: None,
        lost: None,
    };
    if watcher == Watcher::Profile {
        let run: ProfileRun = serde_json::from_str(record?).ok()?;
        if run.source.method != Method::Tracepoints {
            return None;
        }
        watched.collector_bytes = Some(run.collector.max_rss_bytes);
        watched.lost = Some(run.lost.values().sum());
    }
    Some(watched)
}

/// The file system of tracepoints. Mounted for bpftrace if it is not, and unmounted on drop.
#[derive(Debug)]
pub(crate) struct Tracefs {
    ours: bool,
}

impl Tracefs {
    /// Ignores failures: bpftrace then reports them itself.
    pub(crate) fn there() -> Self {
        let ours = !Path::new(TRACEFS).join("events").is_dir()
            && ask("mount", &["-t", "tracefs", "tracefs", TRACEFS]).is_ok();
        Self { ours }
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        if self.ours {
            let _ = ask("umount", &[TRACEFS]);
        }
    }
}

/// A loop device over a file in memory: the fastest request-based device that every machine has.
#[derive(Debug)]
pub(crate) struct Loop(PathBuf);

impl Loop {
    pub(crate) fn over(file: &Path) -> Result<Self, BenchError> {
        let file = file.to_string_lossy();
        ask("losetup", &["--find", "--show", "--direct-io=on", &file]).map(|name| Self(name.into()))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.clone()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = ask("losetup", &["--detach", &self.0.to_string_lossy()]);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn work(programs: &Programs) -> Work<'_> {
        let load = crate::tool::Load::Reads;
        Work { files: &[], bytes: 4096, depth: 32, seconds: 2.0, load, half_rate: 0.0, programs }
    }

    #[test]
    fn the_account_is_found_among_what_the_watcher_says() {
        let said = "Attaching 7 probes...\n\
                    {\"released_unix_ns\":5,\"machine_ns\":9,\"said\":\"{}\"}\n\n@depth: {1}\n";
        let account = account(said).unwrap();
        assert_eq!((account.released_unix_ns, account.machine_ns), (5, 9));
        assert!(super::account("nothing").is_none());
    }

    #[test]
    fn all_watchers_run_the_same_command() {
        let programs = Programs::named();
        let words = |watcher| arguments(watcher, Subject::LongReads, &work(&programs)).join(" ");
        let alone = words(Watcher::Nobody);
        assert!(alone.starts_with("within -- fio --name=a --size=4096"), "{alone}");
        assert!(alone.contains("--runtime=20 "), "{alone}");
        let (profile, bpftrace) = (words(Watcher::Profile), words(Watcher::Bpftrace));
        assert_eq!(profile, format!("profile -- iosonde-bench {alone}"));
        assert_eq!(bpftrace, format!("benches/profile.bt -c iosonde-bench {alone}"));
    }
}
