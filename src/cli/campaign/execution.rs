//! Runs the missing part of a campaign: devices in parallel, the experiments of each in order.

use std::fs::{File, TryLockError};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::begin::{BEGIN, Begin, begin_of};
use super::events::{ALL, Events};
use super::plan::{devices, identity, reason, targets, unused};
use super::state::{State, Step, events, folder_of, read, steps};
use super::{OutputArgs, RunArgs, summary};
use crate::cli::exit::{About, Exit, Failure, environment, wrong};
use crate::cli::hosts::BARRIER;
use crate::cli::keep::Keeper;
use crate::cli::output::{Output, note};
use crate::cli::place::Place;
use crate::cli::screen;
use iosonde_model::spec::campaign::{Campaign, Device};
use iosonde_report::clean::clean;
use iosonde_report::html::html;

/// Interval between checks whether a process has ended.
const LOOK: Duration = Duration::from_millis(20);
/// Interval between checks of the events in an experiment's folder.
const LOOK_AT_FOLDER: Duration = Duration::from_secs(1);

/// `campaign run`.
pub(super) fn run(args: &RunArgs, words: &[String]) -> Result<Exit, Failure> {
    let campaign = args.file.load()?;
    let output = args.output.clone().or(campaign.output.clone().map(Into::into));
    let Some(output) = output else {
        return Err(wrong("give --output DIR, or `output` in the campaign file"));
    };
    if campaign.experiments.is_empty() {
        return Err(wrong("the campaign has no experiment: add [[experiment]], or give --preset"));
    }
    unused(&output)?;
    devices(&campaign)?;
    let place = Place::find()?;
    place.admit_named(targets(&campaign))?;
    let begin = Begin::of(&campaign)?;
    // If two campaigns begin at once, the second finds the folder of the first.
    let locked = std::fs::create_dir_all(&output).and_then(|()| File::open(&output));
    let locked = locked.and_then(|folder| folder.lock().map(|()| folder));
    let locked = locked.or_environment(format!("--output: {}", output.display()))?;
    unused(&output)?;
    let keeper = Keeper::insist("--output DIR", &output, "campaign", words);
    let mut keeper = keeper.or_environment("--output")?;
    keeper.keep(BEGIN, &begin);
    keeper.keep_cell("campaign.json", &campaign);
    drop(locked);
    let mut events = Events::new(keeper, String::new());
    events.add("begin", ALL, &format!("campaign {}", campaign.name));
    let all = (&campaign, Some(begin));
    execute(all, &output, events, &place, Output::new(args.file.output_format))
}

/// `campaign resume`.
pub(super) fn resume(args: &OutputArgs, words: &[String]) -> Result<Exit, Failure> {
    args.output_format.supports("campaign resume")?;
    let (campaign, folder) = read(&args.output)?;
    let begin = begin_of(&folder)?;
    devices_present(&campaign);
    let place = Place::find()?;
    place.admit_named(targets(&campaign))?;
    let lines = events(&folder);
    let keeper = Keeper::reopen(&folder, "campaign", words).map_err(environment)?;
    let mut events = Events::new(keeper, lines);
    events.add("resume", ALL, &format!("campaign {}", campaign.name));
    let all = (&campaign, begin);
    execute(all, &args.output, events, &place, Output::new(args.output_format))
}

/// Warns of missing devices. A missing device later ends only its own work.
fn devices_present(campaign: &Campaign) {
    for device in campaign.devices.iter().filter(|device| !device.is_simulated()) {
        if let Err(failure) = identity(device) {
            note(&format!("warning: {}", clean(&failure.message)));
        }
    }
}

/// State shared by all devices.
struct Shared<'a> {
    campaign: &'a Campaign,
    /// State when it began, if recorded.
    begin: Option<Begin>,
    output: &'a Path,
    place: &'a Place,
    events: Mutex<Events>,
    /// Index of the next device without a thread.
    next: AtomicUsize,
}

impl Shared<'_> {
    fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event to the log and prints it on stderr.
    fn add(&self, action: &str, device: &str, details: &str) {
        self.events().add(action, device, details);
        note(&format!("{action}: {}: {}", clean(device), clean(details)));
    }
}

fn execute(
    (campaign, begin): (&Campaign, Option<Begin>),
    output: &Path,
    events: Events,
    place: &Place,
    mut out: Output,
) -> Result<Exit, Failure> {
    let next = AtomicUsize::new(0);
    let shared = Shared { campaign, begin, output, place, events: Mutex::new(events), next };
    let threads = campaign.parallel.unwrap_or(campaign.devices.len()).min(campaign.devices.len());
    let mut exit = Exit::Done;
    std::thread::scope(|scope| {
        let work = || {
            let mut own = Exit::Done;
            while let Some(device) =
                campaign.devices.get(shared.next.fetch_add(1, Ordering::Relaxed))
            {
                own = own.or_graver(marked(&shared, device));
            }
            own
        };
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for each in all {
            exit = exit.or_graver(each.join().unwrap_or(Exit::Environment));
        }
    });
    if let Some(signal) = place.interrupted() {
        exit = Exit::Signal(signal);
    }
    let signoff = summary::sign_off(campaign, output)?;
    let is_complete = signoff.complete;
    let mut events = shared.events.into_inner().unwrap_or_else(PoisonError::into_inner);
    events.add("end", ALL, if is_complete { "complete" } else { "incomplete" });
    if events.is_lost() {
        exit = exit.or_graver(Exit::Environment);
    }
    if !is_complete {
        exit = exit.or_graver(Exit::Inconclusive);
    }
    let mut keeper = events.into_keeper();
    keeper.keep_cell("signoff.json", &signoff);
    match html(&signoff.report(output)) {
        Ok(page) => keeper.keep_bytes("report.html", &page),
        Err(error) => note(&format!("warning: report.html cannot be drawn: {error}")),
    }
    out.text(&signoff.text(output, screen::columns()));
    out.value(&json!(signoff));
    let exit = out.end(exit);
    let is_stored = keeper.close(is_complete, exit.code(), &signoff.verdict).is_some();
    let shown = clean(&output.display().to_string());
    if is_stored {
        note(&format!("results stored in {shown}"));
    }
    if !is_complete {
        note(&format!("to run what is missing: iosonde campaign resume {shown}"));
    }
    Ok(exit)
}

/// Does the work on a device between the two events that mark it in the logs.
fn marked(shared: &Shared<'_>, device: &Device) -> Exit {
    let name = &device.name;
    shared.events().add("begin", name, &format!("device {}", device.path));
    let exit = one_device(shared, device);
    shared.events().add("end", name, &format!("exit code {}", exit.code()));
    exit
}

/// Runs the experiments of a device in order until a stop rule ends the work.
fn one_device(shared: &Shared<'_>, device: &Device) -> Exit {
    let name = &device.name;
    let mut exit = Exit::Done;
    let claim = match claimed(shared, device) {
        Ok(Some(claim)) => claim,
        Ok(None) => return exit,
        Err(error) => {
            shared.add("stop", name, &format!("its folder: {error}"));
            return Exit::Environment;
        }
    };
    let began = Instant::now();
    let mut logged = Logged::default();
    for step in steps(shared.campaign, device, shared.output) {
        if shared.place.interrupted().is_some() {
            return exit;
        }
        let experiment = &step.requested.name;
        let state = match step.state() {
            Ok(State::Done(_, code, verdict)) => {
                exit = exit.or_graver(Exit::of_code(code));
                // A kill may have come before the log line for its end.
                logged.complete(shared, &step, code, &verdict);
                continue;
            }
            Ok(state) => state,
            Err(failure) => {
                shared.add("stop", name, &failure.message);
                return exit.or_graver(failure.exit);
            }
        };
        if shared.events().is_lost() {
            return exit.or_graver(Exit::Environment);
        }
        let late = |ns: u64| began.elapsed() >= Duration::from_nanos(ns);
        if shared.campaign.after_ns().is_some_and(late) {
            let after = shared.campaign.stop.after.as_deref().unwrap_or_default();
            shared.add("stop", name, &format!("stop.after {after}: {experiment} not begun"));
            return exit;
        }
        // The name may refer to another device since the last experiment.
        if !device.is_simulated()
            && let Err(failure) = is_there(shared, device)
        {
            shared.add("stop", name, &format!("{experiment} not begun: {}", failure.message));
            let gone = Exit::Environment;
            return exit.or_graver(if failure.exit == Exit::Refused { failure.exit } else { gone });
        }
        // A begun experiment uses the copy of the file in its folder.
        if let (State::Waiting, Some(begin)) = (&state, &shared.begin)
            && let Err(failure) = begin.are_same_files(step.requested)
        {
            shared.add("stop", name, &format!("{experiment} not begun: {}", failure.message));
            return exit.or_graver(failure.exit);
        }
        let how = match &state {
            State::Partial(_, runs) => format!("{experiment}, resumed after {runs} runs"),
            _ => experiment.clone(),
        };
        shared.add("start", name, &how);
        let (code, said) = carry_out(shared, &step, &state, &claim, &mut logged);
        let (code, verdict) = match step.state() {
            Ok(State::Done(_, code, verdict)) => {
                logged.complete(shared, &step, code, &verdict);
                (code, None)
            }
            // One of its limits ended it early; the missing runs can follow later.
            _ if code == Exit::Done.code() => (Exit::Inconclusive.code(), Some(said)),
            _ => match step.missing() {
                because if because.is_empty() => (code, Some(said)),
                because => (code, Some(because)),
            },
        };
        exit = exit.or_graver(Exit::of_code(code));
        if let Some(verdict) = verdict {
            logged.add_events(shared, &step);
            shared.add("fail", name, &format!("{experiment}: exit code {code}: {verdict}"));
        }
        let stop = &shared.campaign.stop;
        let ends = match code {
            0 | 7 => false,
            3 => stop.missed,
            6 => stop.invalid,
            _ => true,
        };
        if ends && shared.place.interrupted().is_none() {
            shared.add("stop", name, &format!("after {experiment}: exit code {code}"));
            return exit;
        }
    }
    exit
}

/// Checks that a device exists and is the expected one.
fn is_there(shared: &Shared<'_>, device: &Device) -> Result<(), Failure> {
    match &shared.begin {
        Some(begin) => begin.is_same_device(device),
        None => identity(device).map(drop),
    }
}

/// Locks the folder of a device. Each process for the device inherits the lock as its standard
/// input, which it does not read: if this process is killed, the lock is free only when the last of
/// them has ended and closed the device. `None` if a signal ended the wait.
fn claimed(shared: &Shared<'_>, device: &Device) -> std::io::Result<Option<File>> {
    let folder = folder_of(device, shared.output);
    std::fs::create_dir_all(&folder)?;
    let claim = File::open(&folder)?;
    let mut is_noted = false;
    loop {
        match claim.try_lock() {
            Ok(()) => return Ok(Some(claim)),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => {}
        }
        if shared.place.interrupted().is_some() {
            return Ok(None);
        }
        if !is_noted {
            is_noted = true;
            let name = clean(&device.name);
            note(&format!("waiting: {name}: a process of the previous campaign has not ended yet"));
        }
        std::thread::sleep(LOOK);
    }
}

/// Runs an experiment or its missing part; returns its exit code and its message.
fn carry_out(
    shared: &Shared<'_>,
    step: &Step<'_>,
    state: &State,
    claim: &File,
    logged: &mut Logged,
) -> (u8, String) {
    let mut words = match state {
        State::Partial(folder, _) => {
            let folder = folder.to_string_lossy().into_owned();
            let mut words = vec!["experiment".into(), "resume".into(), folder];
            words.extend(step.device.consent());
            words
        }
        _ => {
            let mut words = step.requested.words(step.device);
            words.push(format!("--results={}", step.folder.to_string_lossy()));
            words.extend(prepared_by(shared, step));
            words
        }
    };
    words.extend(["--eta-interval=0".into(), "--end-with-parent".into()]);
    let started = claim.try_clone().and_then(|claim| {
        let mut command = child(&words);
        command.stdin(claim).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()
    });
    let mut process = match started {
        Ok(process) => process,
        Err(error) => return (Exit::Environment.code(), format!("it cannot be started: {error}")),
    };
    let stderr = process.stderr.take();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut said = Vec::new();
            // Our messages are shorter than this.
            if let Some(stderr) = stderr {
                let _ = std::io::Read::read_to_end(
                    &mut std::io::Read::take(stderr, 1 << 20),
                    &mut said,
                );
            }
            said
        });
        let code = ended(shared, &mut process, &mut || logged.add_changes(shared, step));
        (code, reason(&reader.join().unwrap_or_default()))
    })
}

/// Option `--prepared-by` with the previous experiment on the device, if it is complete and
/// prepared the device. Earlier ones do not count: the device was written since.
fn prepared_by(shared: &Shared<'_>, step: &Step<'_>) -> Option<String> {
    if !step.requested.skip_if_prepared {
        return None;
    }
    let all = steps(shared.campaign, step.device, shared.output);
    let before = all.iter().take_while(|other| other.folder != step.folder).last();
    let folder = before.and_then(|before| match before.state() {
        Ok(State::Done(folder, ..)) if before.is_prepared() => Some(folder),
        _ => None,
    });
    let name = &step.requested.name;
    if folder.is_none() {
        let why =
            format!("{name}: nothing is skipped: no experiment just before it prepared the device");
        shared.add("skip-decision", &step.device.name, &why);
    }
    Some(format!("--prepared-by={}", folder?.to_string_lossy()))
}

/// Waits for a process and returns its exit code; passes an interrupt on to it once.
fn ended(shared: &Shared<'_>, process: &mut Child, meanwhile: &mut dyn FnMut()) -> u8 {
    let mut is_passed_on = false;
    let mut looked = Instant::now();
    loop {
        match process.try_wait() {
            Ok(Some(status)) => {
                let code = status.code().and_then(|code| u8::try_from(code).ok());
                return code.unwrap_or(Exit::Environment.code());
            }
            Ok(None) => {}
            Err(_) => return Exit::Environment.code(),
        }
        if !is_passed_on && shared.place.interrupted().is_some() {
            let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
            is_passed_on = pid.is_some_and(|pid| kill_process(pid, Signal::INT).is_ok());
        }
        if looked.elapsed() >= LOOK_AT_FOLDER {
            meanwhile();
            looked = Instant::now();
        }
        std::thread::sleep(LOOK);
    }
}

/// Events of a device's experiments that the log must contain. A kill may have prevented a line, so
/// each event is logged as often as the folders contain it.
#[derive(Default)]
struct Logged {
    /// Events of the previous experiments.
    before: Vec<(&'static str, String)>,
    /// Modification time of the folder read last.
    changed: Option<SystemTime>,
}

impl Logged {
    /// Logs the events of an experiment that the log lacks.
    fn add_events(&self, shared: &Shared<'_>, step: &Step<'_>) {
        let all = step.happened();
        for (place, event) in all.iter().enumerate() {
            if self.is_missing(shared, step, event, &all[..=place]) {
                shared.events().add(event.0, &step.device.name, &event.1);
            }
        }
    }

    /// Does so only if the folder has changed since.
    fn add_changes(&mut self, shared: &Shared<'_>, step: &Step<'_>) {
        let changed = step.changed();
        if changed != self.changed {
            self.changed = changed;
            self.add_events(shared, step);
        }
    }

    /// Logs the missing events of a complete experiment, and its result.
    fn complete(&mut self, shared: &Shared<'_>, step: &Step<'_>, code: u8, verdict: &str) {
        self.add_events(shared, step);
        let details = format!("{}: exit code {code}: {verdict}", step.requested.name);
        let event = (if code == 0 { "finish" } else { "fail" }, details);
        if self.is_missing(shared, step, &event, std::slice::from_ref(&event)) {
            shared.add(event.0, &step.device.name, &event.1);
        }
        self.before.push(event);
        self.before.extend(step.happened());
    }

    /// Whether the log lacks an event. `own` holds the events of its experiment up to this one.
    fn is_missing(
        &self,
        shared: &Shared<'_>,
        step: &Step<'_>,
        event: &(&'static str, String),
        own: &[(&'static str, String)],
    ) -> bool {
        let wanted = self.before.iter().chain(own).filter(|each| *each == event).count();
        shared.events().count(event.0, &step.device.name, &event.1) < wanted
    }
}

/// This program with these arguments, in its own process group: a signal from the terminal reaches
/// only the campaign, which passes it on once.
pub(super) fn child(words: &[String]) -> Command {
    let program = std::env::current_exe().unwrap_or_else(|_| "iosonde".into());
    let mut command = Command::new(program);
    // It has no peers, even if the campaign runs on several hosts.
    command.args(words).env_remove(BARRIER).stdin(Stdio::null()).process_group(0);
    command
}
