//! One watching from its beginning to its end: attach, hold, follow, give up rights, release, look
//! now and then, settle, tell.

use std::collections::BTreeSet;

use iosonde_sys::clock::{boottime_ns, monotonic_ns, realtime_ns};
use iosonde_sys::held::{Reaped, RunningCommand};
use iosonde_sys::thread::{peak_rss_bytes, usage_of_process};

use super::ask::{Asked, WatchError};
use super::counters::Tally;
use super::interrupts::Interrupts;
use super::scope::{Scope, Who};
use super::telemetry::{Telemetry, machine_switches};
use super::tracer::{Tracer, Wanted};
use super::{devices, launch, privilege, result};
use iosonde_engine::host::Root;
use iosonde_model::record::HostFacts;
use iosonde_model::record::profile::{Ended, Missing, PROFILE_SCHEMA, ProfileRun, Source};
use iosonde_model::record::run::ProcessUse;

/// A process whose end the kernel does not announce is looked at so often.
const UNANNOUNCED_NS: u64 = 10_000_000;
/// Between two looks at what is still dirty.
const SETTLING_NS: u64 = 20_000_000;

/// Watches, and tells what was seen. `say` gets a line for each step.
///
/// # Errors
/// If what was asked is not there, or the command cannot be run. A kernel that shows little is no
/// error: what is missing stands in the record.
pub fn watch(
    root: &Root,
    host: HostFacts,
    asked: &Asked,
    say: &mut dyn FnMut(&str),
) -> Result<ProfileRun, WatchError> {
    let mut scope = Scope::find(root, asked)?;
    let interrupts = Interrupts::listen(!asked.command.is_empty())?;
    let (mut tracer, mut source) = attach(root, asked, &scope);
    say(&result::how(&source));
    enough(asked, tracer.is_some(), &source)?;
    let held = match asked.command.is_empty() {
        true => None,
        false => Some(launch::hold(&asked.command)?),
    };
    if let Some(held) = &held {
        scope.is_held(held.pid());
    }
    let shown = scope.disks.first().or(scope.home.as_ref());
    let telemetry = Telemetry::new(root, shown.map(|disk| &disk.facts));
    let mut members = scope.members(root, &BTreeSet::new());
    if let Some(tracer) = &mut tracer {
        source.missing.extend(follow(tracer, &members));
        // Children that came while their parents were entered.
        let all = scope.members(root, &members);
        source.missing.extend(follow(tracer, &(&all - &members)));
        members = all;
    }
    if let Err(error) = privilege::give_up(asked.may_write_later) {
        say(&format!("the rights of this user are kept: {error}"));
    }
    let is_command = matches!(scope.who, Who::Command(_));
    let mut tally = Tally::new(root, boottime_ns(), !is_command);
    tally.look(root, members.iter().copied());
    let before = (devices::counters(root), machine_switches(root), usage_of_process());
    let mut run = ProfileRun {
        schema: PROFILE_SCHEMA.into(),
        program: env!("CARGO_PKG_VERSION").into(),
        subject: scope.subject(asked),
        started_unix_ns: realtime_ns(),
        unwatched: result::unwatched(root, !asked.devices.is_empty()),
        host,
        source,
        ..ProfileRun::default()
    };
    let mut watch =
        Watch { root, asked, scope, interrupts, tracer, telemetry, tally, members, began_ns: 0 };
    watch.begin();
    let running = held.map(|held| launch::release(root, held, &asked.command)).transpose()?;
    say("watching");
    let (ended, ended_ns) = watch.until_end(running.as_ref())?;
    run.measured_ns = ended_ns - watch.began_ns;
    // While a command that has ended is not reaped, `/proc` still knows it.
    watch.look(ended_ns);
    let command = running.as_ref().map(RunningCommand::pid);
    let reaped = running.map(|running| launch::reap(root, running)).transpose()?;
    if let (Some(pid), Some((_, Some(calls)))) = (command, &reaped) {
        watch.tally.charge(pid, calls);
    }
    let reaped = reaped.map(|(reaped, _)| reaped);
    let charged = watch.tally.sums();
    run.ended = reaped.map_or(ended, |reaped| match reaped.end {
        Ok(code) => Ended::Exited { code },
        Err(signal) => Ended::Killed { signal },
    });
    say("ended");
    run.settle_ns = watch.settle();
    let end_ns = monotonic_ns();
    let after = (devices::counters(root), machine_switches(root), usage_of_process());
    run.machine_switches = before.1.zip(after.1);
    run.collector = ProcessUse {
        span_ns: end_ns - watch.began_ns,
        cpu_user_ns: after.2.user_ns - before.2.user_ns,
        cpu_system_ns: after.2.system_ns - before.2.system_ns,
        voluntary_switches: after.2.voluntary_switches - before.2.voluntary_switches,
        involuntary_switches: after.2.involuntary_switches - before.2.involuntary_switches,
        max_rss_bytes: peak_rss_bytes(),
    };
    run.calls = charged.calls;
    run.io_delay_ns = charged.io_delay_ns;
    run.cpu = Some(match reaped.filter(|_| is_command) {
        Some(reaped) => used(&reaped, run.measured_ns),
        None => ProcessUse { span_ns: run.measured_ns, ..charged.cpu },
    });
    let Watch { scope, tracer, telemetry, members, .. } = watch;
    run.telemetry = telemetry.end(end_ns);
    let home = scope.home.as_ref();
    run.devices = devices::profiled(root, &scope.disks, home, (&before.0, &after.0));
    run.source.missing.extend(charged.missing);
    run.source.missing.extend(result::missing(&run, root, !is_command));
    if let Some(tracer) = tracer {
        let is_over = is_command && members.iter().eq(command.iter());
        result::fill_in(&mut run, root, tracer.finish(end_ns), is_over);
    }
    Ok(run)
}

/// What would be watched: the source, and the names of the chosen disks or of that of the folder.
///
/// # Errors
/// As [`watch`], but for the command.
pub fn rehearse(root: &Root, asked: &Asked) -> Result<(Source, Vec<String>), WatchError> {
    let scope = Scope::find(root, asked)?;
    let (_, source) = attach(root, asked, &scope);
    let disks = scope.disks.iter().chain(scope.home.iter().filter(|_| scope.disks.is_empty()));
    let named = |disk: &devices::Disk| match devices::invisible(root, &disk.facts) {
        Some(why) => why,
        None => disk.facts.name.clone(),
    };
    Ok((source, disks.map(named).collect()))
}

/// The tracer; or else why not, and counters in its place.
fn attach(root: &Root, asked: &Asked, scope: &Scope) -> (Option<Tracer>, Source) {
    let devices = scope.disks.iter().map(|disk| disk.number).collect();
    let wanted = Wanted { devices, interval_ns: asked.interval_ns, ..Wanted::default() };
    match Tracer::attach(root, &wanted) {
        Ok(tracer) => {
            let source = tracer.source();
            (Some(tracer), source)
        }
        Err(mut missing) => {
            if let Some(rights) = privilege::lacking() {
                missing.reason = format!("this user lacks {rights}");
                missing.mend = Some(privilege::MEND.into());
            }
            (None, Source { missing: vec![missing], ..Source::default() })
        }
    }
}

/// Whether what is seen is enough for what was asked: known before a command is started.
fn enough(asked: &Asked, is_traced: bool, source: &Source) -> Result<(), WatchError> {
    let Some(option) = asked.needs_requests.filter(|_| !is_traced) else { return Ok(()) };
    let missing = source.missing.first();
    Err(WatchError::NoRequests {
        option,
        reason: missing.map_or_else(|| "no tracepoints".into(), |missing| missing.reason.clone()),
        mend: missing.and_then(|missing| missing.mend.clone()),
    })
}

fn follow(tracer: &mut Tracer, pids: &BTreeSet<u32>) -> Option<Missing> {
    let refused: Vec<(u32, String)> =
        pids.iter().filter_map(|pid| Some((*pid, tracer.follow(*pid).err()?))).collect();
    let (_, reason) = refused.first()?;
    let which: Vec<String> = refused.iter().take(8).map(|(pid, _)| pid.to_string()).collect();
    Some(Missing {
        what: format!("requests of {} processes ({})", refused.len(), which.join(", ")),
        reason: reason.clone(),
        mend: None,
    })
}

fn used(reaped: &Reaped, span_ns: u64) -> ProcessUse {
    ProcessUse {
        span_ns,
        cpu_user_ns: reaped.usage.user_ns,
        cpu_system_ns: reaped.usage.system_ns,
        voluntary_switches: reaped.usage.voluntary_switches,
        involuntary_switches: reaped.usage.involuntary_switches,
        max_rss_bytes: reaped.peak_rss_bytes,
    }
}

/// A watching that is on.
struct Watch<'a> {
    root: &'a Root,
    asked: &'a Asked,
    scope: Scope,
    interrupts: Interrupts,
    tracer: Option<Tracer>,
    telemetry: Telemetry,
    tally: Tally,
    members: BTreeSet<u32>,
    began_ns: u64,
}

impl Watch<'_> {
    fn begin(&mut self) {
        self.began_ns = monotonic_ns();
        self.telemetry.begin(self.began_ns);
        if let Some(tracer) = &mut self.tracer {
            tracer.begin(self.began_ns);
        }
    }

    /// One look at everything.
    fn look(&mut self, now_ns: u64) {
        if let Some(tracer) = &mut self.tracer {
            // Children that nobody of the tree has any more.
            self.members.extend(tracer.followed());
        }
        let members = self.scope.members(self.root, &self.members);
        if let Some(tracer) = &mut self.tracer {
            // Children are followed by the kernel; whoever is moved into a cgroup is not.
            if matches!(self.scope.who, Who::Cgroup(_)) {
                follow(tracer, &(&members - &self.members));
            }
            tracer.poll(now_ns);
        }
        self.members = members;
        self.tally.look(self.root, self.members.iter().copied());
        self.telemetry.look(now_ns);
    }

    /// How it ended and when; a command tells its own end when it is reaped.
    fn until_end(&mut self, running: Option<&RunningCommand>) -> Result<(Ended, u64), WatchError> {
        let until_ns = self.asked.for_ns.map_or(u64::MAX, |ns| self.began_ns.saturating_add(ns));
        let mut next_ns = self.began_ns + self.asked.interval_ns;
        loop {
            let signal = self.interrupts.take(running)?;
            let has_ended = match running {
                Some(running) => {
                    running.has_ended().map_err(WatchError::system("wait for the command"))?
                }
                None => self.scope.is_gone(self.root),
            };
            let now_ns = monotonic_ns();
            let ended = match signal {
                _ if has_ended => Some(Ended::Gone),
                Some(signal) => Some(Ended::Interrupted { signal }),
                None => (now_ns >= until_ns).then_some(Ended::TimeUp),
            };
            if let Some(ended) = ended {
                return Ok((ended, now_ns));
            }
            if now_ns >= next_ns {
                self.look(now_ns);
                let late = (monotonic_ns() - next_ns) / self.asked.interval_ns;
                next_ns += (late + 1) * self.asked.interval_ns;
            }
            let watched = self.scope.end();
            // A command beside an attached process has no handle of its own.
            let is_announced = watched.is_some() && (running.is_none() || self.is_command());
            let wake_ns = if is_announced { next_ns } else { now_ns + UNANNOUNCED_NS };
            let handle = watched.filter(|_| is_announced);
            self.interrupts.sleep(wake_ns.min(until_ns).min(next_ns), handle);
        }
    }

    fn is_command(&self) -> bool {
        matches!(self.scope.who, Who::Command(_))
    }

    /// Waits for pages that the program left dirty, as far as the tracer knows of any; how long.
    /// Whatever signal comes ends the waiting, and only that: what was seen is told all the same.
    fn settle(&mut self) -> u64 {
        let began_ns = monotonic_ns();
        let until_ns = began_ns.saturating_add(self.asked.settle_ns);
        let mut next_ns = began_ns + self.asked.interval_ns;
        while let Some(tracer) = &mut self.tracer
            && tracer.dirty_bytes().is_some_and(|bytes| bytes > 0)
            && monotonic_ns() < until_ns
            && matches!(self.interrupts.take(None), Ok(None))
        {
            if monotonic_ns() >= next_ns {
                tracer.poll(monotonic_ns());
                next_ns += self.asked.interval_ns;
            }
            self.interrupts.sleep(monotonic_ns() + SETTLING_NS, None);
        }
        monotonic_ns() - began_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_takes_requests_is_refused_where_there_are_none() {
        let missing = Missing {
            what: "single requests".into(),
            reason: "this user lacks CAP_BPF".into(),
            mend: Some("run it by sudo".into()),
        };
        let source = Source { missing: vec![missing], ..Source::default() };
        let asked = Asked { needs_requests: Some("--emit"), ..Asked::default() };
        let told = enough(&asked, false, &source).map_err(|error| error.to_string());
        let expected = "--emit: single requests cannot be seen (this user lacks CAP_BPF), and it \
                        takes them; run it by sudo";
        assert_eq!(told, Err(expected.to_owned()));
        assert!(enough(&asked, true, &source).is_ok());
        assert!(enough(&Asked::default(), false, &source).is_ok());
    }
}
