//! Runs one program once on one CPU: its output and its cost.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::BenchError;

/// The output and the cost of a finished program.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) said: String,
    /// CPU time of all its threads, user and system.
    pub(crate) cpu: Duration,
    pub(crate) wall: Duration,
}

fn cpu_of(who: UsageWho) -> Duration {
    getrusage(who).map_or(Duration::ZERO, |usage| {
        let us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        Duration::from_micros(us.unsigned_abs())
    })
}

/// CPU time of all children that were waited for.
fn children_cpu() -> Duration {
    cpu_of(UsageWho::RUSAGE_CHILDREN)
}

/// CPU time of this process and of all children that were waited for.
pub(crate) fn our_cpu() -> Duration {
    children_cpu() + cpu_of(UsageWho::RUSAGE_SELF)
}

fn output(mut command: Command, program: &str, fine: &[i32]) -> Result<Output, BenchError> {
    let run = command.stdin(Stdio::null()).output();
    let output = run.map_err(|error| BenchError::NotRun { program: program.to_owned(), error })?;
    if output.status.code().is_some_and(|code| fine.contains(&code)) {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.trim().lines().last().unwrap_or("").to_owned();
    let status = output.status.to_string();
    Err(BenchError::Failed { program: program.to_owned(), status, said: last })
}

/// Largest resident memory of any child so far, bytes.
pub(crate) fn children_peak_bytes() -> Option<u64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok()?;
    Some(usage.max_rss().unsigned_abs() * 1024)
}

/// Runs a program pinned to `cpus`, which must exit with a status in `fine`. Only one may run at a
/// time: the CPU time is that of all children.
pub(crate) fn pinned(
    cpus: &str,
    program: &Path,
    arguments: &[String],
    state_dir: &Path,
    fine: &[i32],
) -> Result<Ran, BenchError> {
    let mut command = Command::new("taskset");
    command.arg("-c").arg(cpus).arg(program).args(arguments);
    // iosonde stores each run; keep these out of the user's own results.
    command.env("XDG_STATE_HOME", state_dir);
    let (before, start) = (children_cpu(), Instant::now());
    let output = output(command, &program.to_string_lossy(), fine)?;
    Ok(Ran {
        said: String::from_utf8_lossy(&output.stdout).into_owned(),
        wall: start.elapsed(),
        cpu: children_cpu().saturating_sub(before),
    })
}

/// Runs a program to its end and returns its trimmed output.
pub(crate) fn ask(program: &str, arguments: &[&str]) -> Result<String, BenchError> {
    let mut command = Command::new(program);
    command.args(arguments);
    let output = output(command, program, &[0])?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn cpu_time_is_counted_and_sleep_is_not() {
        let shell = |script: &str| {
            let arguments = ["-c".to_owned(), script.to_owned()];
            pinned("0", Path::new("/bin/sh"), &arguments, Path::new("/nonexistent"), &[0])
        };
        let busy = shell("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo $i").unwrap();
        assert_eq!(busy.said.trim(), "300000");
        assert!(busy.cpu > Duration::from_millis(20) && busy.cpu <= busy.wall);
        let idle = shell("sleep 0.2").unwrap();
        assert!(idle.cpu < Duration::from_millis(100) && idle.wall >= Duration::from_millis(200));
        assert!(shell("echo no >&2; exit 3").unwrap_err().to_string().contains("no"));
    }
}
