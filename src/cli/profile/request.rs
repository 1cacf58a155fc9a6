//! Converts options to a profile request.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::ProfileArgs;
use crate::cli::exit::{About, Failure, wrong};
use crate::cli::words::time;
use iosonde_watch::{Attached, Request};

const SECOND_NS: u64 = 1_000_000_000;
/// Default for the longest wait for dirty pages.
const SETTLE_NS: u64 = 2 * SECOND_NS;
/// A shorter interval would disturb the program; a longer one is too coarse.
const INTERVALS_NS: std::ops::RangeInclusive<u64> = SECOND_NS / 10..=3600 * SECOND_NS;

pub(super) fn requested(args: &ProfileArgs) -> Result<Request, Failure> {
    let for_ns = args.length.as_deref().map(|text| time("--for", text)).transpose()?;
    let attached = match &args.container {
        Some(name) => Some(Attached::Cgroup(container(name)?)),
        None => attached(args),
    };
    let is_of_all = args.command.is_empty() && attached.is_none();
    if is_of_all && for_ns.is_none() && !args.live {
        return Err(wrong(
            "nothing to profile: give a command after --; --pid, --cgroup or --container for a \
             running one; or --for TIME or --live alone for the whole machine",
        ));
    }
    if !args.command.is_empty() && args.live {
        return Err(wrong(
            "--live: a command keeps the terminal; start it elsewhere and give --pid",
        ));
    }
    if is_of_all && args.settle.is_some() {
        return Err(wrong(
            "--settle has no effect on the whole machine, which goes on writing after the end",
        ));
    }
    if !args.command.is_empty() && for_ns.is_some() {
        return Err(wrong(
            "--for has no effect with a command, which is profiled until it ends; to end it \
             earlier: iosonde profile -- timeout TIME COMMAND",
        ));
    }
    if for_ns == Some(0) {
        return Err(wrong("--for: found 0, expected a time above 0"));
    }
    let interval_ns = time("--interval", &args.interval)?;
    if !INTERVALS_NS.contains(&interval_ns) {
        let found = &args.interval;
        return Err(wrong(format!("--interval: found {found}, expected a time from 100ms to 1h")));
    }
    Ok(Request {
        command: args.command.clone(),
        attached: if is_of_all { Some(Attached::Machine) } else { attached },
        devices: args.device.clone(),
        folder: PathBuf::from("."),
        interval_ns,
        settle_ns: settle_ns(args, is_of_all)?,
        for_ns,
        may_write_later: false,
        stacks: args.stacks,
        needs_requests: [
            ("--emit", args.emit.is_some()),
            ("--against", args.against.is_some()),
            ("--stacks", args.stacks),
            ("--live", args.live),
        ]
        .into_iter()
        .find_map(|(option, is_given)| is_given.then_some(option)),
    })
}

/// Cgroup of a running container, found through its first process as docker or podman reports it.
fn container(name: &str) -> Result<PathBuf, Failure> {
    let inspect = |program: &str| {
        let words = ["inspect", "--format", "{{.State.Pid}}", "--", name];
        let ended = Command::new(program).args(words).stdin(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&ended.stdout).trim().to_owned();
        text.parse::<u32>().ok().filter(|pid| *pid > 0 && ended.status.success())
    };
    let pid = ["docker", "podman"].into_iter().find_map(inspect).ok_or_else(|| {
        wrong(format!(
            "--container: neither docker nor podman knows a running container `{name}`; --cgroup \
             PATH profiles the cgroup of any other"
        ))
    })?;
    let file = format!("/proc/{pid}/cgroup");
    let text = std::fs::read_to_string(&file).or_wrong(format!("--container: {file}"))?;
    // The line of cgroup v2 begins with 0::; of v1, the line of the block controller counts.
    let lines = || text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let of_blocks = lines().find(|(controllers, _)| controllers.split(',').any(|c| c == "blkio"));
    let path = lines().find(|(controllers, _)| controllers.is_empty()).or(of_blocks);
    let path = path.map(|(_, path)| path.trim_start_matches('/')).unwrap_or_default();
    if path.is_empty() {
        return Err(wrong("--container: its processes are in the root cgroup; give --pid"));
    }
    Ok(PathBuf::from(path))
}

/// On the whole machine there is no wait: it never stops dirtying pages.
fn settle_ns(args: &ProfileArgs, is_of_all: bool) -> Result<u64, Failure> {
    let given = args.settle.as_deref().map(|text| time("--settle", text)).transpose()?;
    Ok(given.unwrap_or(if is_of_all { 0 } else { SETTLE_NS }))
}

fn attached(args: &ProfileArgs) -> Option<Attached> {
    let process = args.pid.map(Attached::Process);
    let cgroup = || args.cgroup.clone().map(Attached::Cgroup);
    let either = || {
        let word = args.attach.as_ref()?;
        let pid = word.to_str().and_then(|word| word.parse().ok());
        Some(pid.map_or_else(|| Attached::Cgroup(word.clone()), Attached::Process))
    };
    process.or_else(cgroup).or_else(either)
}
