//! A profile from start to end: attach, hold, follow, drop privileges, release, sample, settle,
//! report.

use std::collections::BTreeSet;

use iosonde_sys::clock::{boottime_ns, monotonic_ns, realtime_ns};
use iosonde_sys::held::{Reaped, RunningCommand};
use iosonde_sys::thread::{peak_rss_bytes, usage_of_process};

use super::counters::Tally;
use super::interrupts::Interrupts;
use super::request::{Request, WatchError};
use super::scope::{Scope, Who};
use super::telemetry::{Telemetry, machine_switches};
use super::tracer::{Recent, Tracer, Wanted};
use super::{devices, launch, privilege, processes, result};
use iosonde_engine::host::Root;
use iosonde_model::record::HostFacts;
use iosonde_model::record::profile::{Ended, Missing, PROFILE_SCHEMA, ProfileRun, Source};
use iosonde_model::record::run::ProcessUse;

/// Polling interval for processes without a descriptor that signals their end.
const UNANNOUNCED_NS: u64 = 10_000_000;
/// Polling interval for the keys of a live view.
const KEYS_NS: u64 = 50_000_000;
/// Refresh interval of a live view.
const REFRESH_NS: u64 = 1_000_000_000;
/// Polling interval for dirty pages.
const SETTLING_NS: u64 = 20_000_000;

/// A live view of a running profile.
pub trait Live {
    /// Shows the last second.
    fn show(&mut self, recent: Recent);
    /// Whether and how the user ended the profile.
    fn ended(&mut self) -> Option<Ended>;
}

/// Runs a profile and returns the record. `say` gets a line for each step.
///
/// # Errors
/// If the request cannot be resolved, or the command cannot be run. A kernel that provides little
/// is not an error: missing data is listed in the record.
pub fn watch<'a>(
    root: &'a Root,
    host: HostFacts,
    requested: &'a Request,
    say: &mut dyn FnMut(&str),
    live: Option<&'a mut (dyn Live + 'a)>,
) -> Result<ProfileRun, WatchError> {
    let mut scope = Scope::find(root, requested)?;
    let interrupts = Interrupts::listen(!requested.command.is_empty())?;
    let (mut tracer, mut source) = attach(root, requested, &scope);
    say(&result::how(&source));
    enough(requested, tracer.is_some(), &source)?;
    let has_command = !requested.command.is_empty();
    let held = has_command.then(|| launch::hold(&requested.command)).transpose()?;
    if let Some(held) = &held {
        scope.is_held(held.pid());
    }
    let shown = scope.disks.first().or(scope.home.as_ref());
    let telemetry = Telemetry::new(root, shown.map(|disk| &disk.facts));
    let mut members = scope.members(root, &BTreeSet::new());
    if let Some(tracer) = &mut tracer {
        source.missing.extend(follow(tracer, &members));
        // Children created while their parents were being added.
        let all = scope.members(root, &members);
        source.missing.extend(follow(tracer, &(&all - &members)));
        members = all;
    }
    if let Err(error) = privilege::give_up(requested.may_write_later) {
        say(&format!("privileges were not dropped: {error}"));
    }
    let is_command = scope.is_command();
    let mut tally = (!scope.is_machine()).then(|| Tally::new(root, boottime_ns(), !is_command));
    if let Some(tally) = &mut tally {
        tally.reads_threads |= tracer.is_none();
        tally.look(root, members.iter().copied());
    }
    let before = (machine_switches(root), usage_of_process());
    let mut run = ProfileRun {
        schema: PROFILE_SCHEMA.into(),
        program: env!("CARGO_PKG_VERSION").into(),
        subject: scope.subject(requested),
        started_unix_ns: realtime_ns(),
        unwatched: result::unwatched(root, !requested.devices.is_empty()),
        host,
        source,
        ..ProfileRun::default()
    };
    let mut watch = Watch {
        root,
        requested,
        scope,
        interrupts,
        tracer,
        telemetry,
        tally,
        members,
        live,
        began_ns: 0,
    };
    let before_begin = devices::counters(root);
    watch.begin();
    let begun = devices::counters(root);
    // Waits for a CPU before the release do not belong to the run.
    let held_ns = held.as_ref().and_then(|held| processes::run_delay(root, held.pid(), held.pid()));
    let running = held.map(|held| launch::release(root, held, &requested.command)).transpose()?;
    say("watching");
    let (ended, ended_ns) = watch.until_end(running.as_ref())?;
    run.measured_ns = ended_ns - watch.began_ns;
    let at_end = devices::counters(root);
    if let Some(tally) = &mut watch.tally {
        tally.reads_threads = true;
    }
    // `/proc` shows an ended command until it is reaped.
    watch.look(ended_ns);
    let command = running.as_ref().map(RunningCommand::pid);
    if is_command && matches!(ended, Ended::Gone) {
        let others = watch.members.iter().copied().filter(|pid| Some(*pid) != command);
        let names = processes::running(root, others);
        run.source.missing.extend(result::outliving(&names));
    }
    let reaped = running.map(|running| launch::reap(root, running)).transpose()?;
    if let (Some(tally), Some(pid), Some((_, Some(calls)))) = (&mut watch.tally, command, &reaped) {
        tally.charge(pid, calls);
    }
    let reaped = reaped.map(|(reaped, _)| reaped);
    let charged = watch.tally.as_ref().map(Tally::sums);
    run.ended = reaped.map_or(ended, |reaped| match reaped.end {
        Ok(code) => Ended::Exited { code },
        Err(signal) => Ended::Killed { signal },
    });
    say("ended");
    run.settle_ns = watch.settle();
    let end_ns = monotonic_ns();
    let ending = devices::counters(root);
    if let Some(tracer) = &mut watch.tracer {
        tracer.pause();
    }
    let after_end = devices::counters(root);
    let after = (machine_switches(root), usage_of_process());
    run.machine_switches = before.0.zip(after.0);
    run.collector = ProcessUse {
        span_ns: end_ns - watch.began_ns,
        cpu_user_ns: after.1.user_ns - before.1.user_ns,
        cpu_system_ns: after.1.system_ns - before.1.system_ns,
        voluntary_switches: after.1.voluntary_switches - before.1.voluntary_switches,
        involuntary_switches: after.1.involuntary_switches - before.1.involuntary_switches,
        max_rss_bytes: peak_rss_bytes(),
    };
    if let Some(charged) = charged {
        run.calls = charged.calls;
        run.io_delay_ns = charged.io_delay_ns;
        run.run_delay_ns = charged.run_delay_ns;
        run.cpu = Some(match reaped.filter(|_| is_command) {
            Some(reaped) => used(&reaped, run.measured_ns),
            None => ProcessUse { span_ns: run.measured_ns, ..charged.cpu },
        });
        run.source.missing.extend(charged.missing);
        run.source.missing.extend((!is_command).then(result::switches_of_ended));
    } else {
        run.source.missing.push(result::uncounted());
    }
    let Watch { scope, tracer, telemetry, members, .. } = watch;
    run.telemetry = telemetry.end(end_ns);
    let home = scope.home.as_ref();
    run.devices = devices::profiled(root, &scope.disks, home, (&before_begin, &after_end));
    for device in &mut run.devices {
        let of = |all: &devices::Counters| all.get(&device.facts.name).copied();
        device.counters_within = of(&begun).zip(of(&ending));
        device.counters_at_end = of(&at_end);
    }
    run.source.missing.extend(result::missing(&run, root));
    if let Some(tracer) = tracer {
        let is_over = is_command && members.iter().eq(command.iter());
        let mut traced = tracer.finish(end_ns);
        let held_ns = held_ns.unwrap_or(0);
        traced.run_delay_ns = traced.run_delay_ns.map(|ns| ns.saturating_sub(held_ns));
        result::fill_in(&mut run, root, traced, is_over);
    }
    Ok(run)
}

/// Source and names of the disks that would be profiled: the selected disks, or that of the
/// directory. The command must exist, but is not started.
///
/// # Errors
/// As for [`watch`].
pub fn rehearse(root: &Root, requested: &Request) -> Result<(Source, Vec<String>), WatchError> {
    launch::find(&requested.command)?;
    let scope = Scope::find(root, requested)?;
    let (_, source) = attach(root, requested, &scope);
    let disks = scope.disks.iter().chain(scope.home.iter().filter(|_| scope.disks.is_empty()));
    let named = |disk: &devices::Disk| {
        devices::invisible(root, &disk.facts).unwrap_or_else(|| disk.facts.name.clone())
    };
    Ok((source, disks.map(named).collect()))
}

/// The tracer, or the reason why counters are used instead.
fn attach(root: &Root, requested: &Request, scope: &Scope) -> (Option<Tracer>, Source) {
    let devices = scope.disks.iter().map(|disk| disk.number).collect();
    let (interval_ns, stacks) = (requested.interval_ns, requested.stacks);
    let wanted = Wanted { devices, interval_ns, stacks, ..Wanted::default() };
    match Tracer::attach(root, &wanted) {
        Ok(tracer) => {
            let source = tracer.source();
            (Some(tracer), source)
        }
        Err(mut missing) => {
            if let Some(rights) = privilege::lacking() {
                missing.reason = format!("this user lacks {rights}");
                missing.fix = Some(privilege::FIX.into());
            }
            (None, Source { missing: vec![missing], ..Source::default() })
        }
    }
}

/// Checks that the available data is enough for the request, before a command is started.
fn enough(requested: &Request, is_traced: bool, source: &Source) -> Result<(), WatchError> {
    let Some(option) = requested.needs_requests.filter(|_| !is_traced) else { return Ok(()) };
    let missing = source.missing.first();
    Err(WatchError::NoRequests {
        option,
        reason: missing.map_or_else(|| "no tracepoints".into(), |missing| missing.reason.clone()),
        fix: missing.and_then(|missing| missing.fix.clone()),
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
        fix: None,
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

/// A running profile.
struct Watch<'a> {
    root: &'a Root,
    requested: &'a Request,
    scope: Scope,
    interrupts: Interrupts,
    tracer: Option<Tracer>,
    telemetry: Telemetry,
    /// `None` if the whole machine is profiled.
    tally: Option<Tally>,
    members: BTreeSet<u32>,
    live: Option<&'a mut (dyn Live + 'a)>,
    began_ns: u64,
}

impl Watch<'_> {
    fn begin(&mut self) {
        self.began_ns = monotonic_ns();
        self.telemetry.begin(self.began_ns);
        if let Some(tracer) = &mut self.tracer {
            tracer.begin(self.began_ns);
            if self.live.is_some() {
                tracer.keep_recent(self.began_ns);
            }
        }
    }

    /// Shows the activity since the last refresh.
    fn refresh(&mut self, now_ns: u64) {
        if let (Some(live), Some(tracer)) = (&mut self.live, &mut self.tracer) {
            tracer.poll(now_ns);
            // Data that cannot be read now counts as lost at the next reading.
            if let Ok(recent) = tracer.recent(now_ns, self.tally.is_some()) {
                live.show(recent);
            }
        }
    }

    fn look(&mut self, now_ns: u64) {
        if let Some(tracer) = &mut self.tracer {
            // Includes children without a parent in the tree.
            self.members.extend(tracer.followed());
        }
        if let Some(tally) = &mut self.tally {
            let members = self.scope.members(self.root, &self.members);
            // The kernel programs follow children, but not a process that is moved into a cgroup.
            if let (Some(tracer), Who::Cgroup(_)) = (&mut self.tracer, &self.scope.who) {
                follow(tracer, &(&members - &self.members));
            }
            self.members = members;
            tally.look(self.root, self.members.iter().copied());
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.poll(now_ns);
        }
        self.telemetry.look(now_ns);
    }

    /// Waits for the end; returns how and when it ended. The end of a command is known when it is
    /// reaped.
    fn until_end(&mut self, running: Option<&RunningCommand>) -> Result<(Ended, u64), WatchError> {
        let until_ns =
            self.requested.for_ns.map_or(u64::MAX, |ns| self.began_ns.saturating_add(ns));
        let mut next_ns = self.began_ns + self.requested.interval_ns;
        let mut refresh_ns = self.began_ns + REFRESH_NS;
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
                None if let Some(ended) = self.live.as_mut().and_then(|live| live.ended()) => {
                    Some(ended)
                }
                None => (now_ns >= until_ns).then_some(Ended::TimeUp),
            };
            if let Some(ended) = ended {
                return Ok((ended, now_ns));
            }
            if now_ns >= next_ns {
                self.look(now_ns);
                let late = (monotonic_ns() - next_ns) / self.requested.interval_ns;
                next_ns += (late + 1) * self.requested.interval_ns;
            }
            if self.live.is_some() && now_ns >= refresh_ns {
                self.refresh(now_ns);
                refresh_ns = now_ns + REFRESH_NS;
            }
            let keys_ns = if self.live.is_some() { now_ns + KEYS_NS } else { u64::MAX };
            let watched = self.scope.end();
            // A command beside an attached process has no descriptor.
            let is_announced = watched.is_some() && (running.is_none() || self.scope.is_command());
            let wake_ns = if is_announced { next_ns } else { now_ns + UNANNOUNCED_NS };
            let handle = watched.filter(|_| is_announced);
            self.interrupts.sleep(wake_ns.min(until_ns).min(next_ns).min(keys_ns), handle);
        }
    }

    /// Waits for write-back of pages that the program dirtied, as far as the tracer knows; returns
    /// the time, ns. A signal ends only the waiting: the profile is still reported.
    fn settle(&mut self) -> u64 {
        let began_ns = monotonic_ns();
        let until_ns = began_ns.saturating_add(self.requested.settle_ns);
        let mut next_ns = began_ns + self.requested.interval_ns;
        while let Some(tracer) = &mut self.tracer
            && tracer.dirty_bytes().is_some_and(|bytes| bytes > 0)
            && monotonic_ns() < until_ns
            && matches!(self.interrupts.take(None), Ok(None))
        {
            if monotonic_ns() >= next_ns {
                tracer.poll(monotonic_ns());
                next_ns += self.requested.interval_ns;
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
            fix: Some("run it with sudo".into()),
        };
        let source = Source { missing: vec![missing], ..Source::default() };
        let requested = Request { needs_requests: Some("--emit"), ..Request::default() };
        let converted = enough(&requested, false, &source).map_err(|error| error.to_string());
        let expected = "--emit needs individual requests, which cannot be traced (this user lacks \
            CAP_BPF); run it with sudo";
        assert_eq!(converted, Err(expected.to_owned()));
        assert!(enough(&requested, true, &source).is_ok());
        assert!(enough(&Request::default(), false, &source).is_ok());
    }
}
