//! The coordinator: all hosts pass the same stages, and none begins a stage before all have reached
//! it. A lost host does not delay the others.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use iosonde_model::record::hosts::HostEnd;
use iosonde_sys::clock::monotonic_ns;

use super::Region;
use super::connection::{Connection, Heard, Stage};
use super::launch::Launcher;
use super::outcome::Outcome;
use super::protocol::Order;
use super::server::Server;
use super::shared::refusal;
use super::view::View;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::note;
use iosonde_engine::engine::signal_in;

/// Round trips to compare a clock.
pub(super) const PINGS: u32 = 16;
/// Time from the start order to the start, ns, in addition to the longest round trip.
pub(super) const START_AFTER_NS: u64 = 20_000_000;
/// Interval between checks for signals and silent hosts.
const LOOK: Duration = Duration::from_millis(50);
/// Time limit for the partial result of a host after a stop order.
const STOPS_WITHIN: Duration = Duration::from_secs(15);
/// Time limit for a launcher to end after its agent.
const LAUNCHER_ENDS_WITHIN: Duration = Duration::from_secs(2);

/// Task for the hosts.
pub(super) struct Request<'a> {
    pub(super) hosts: &'a [String],
    pub(super) launcher: &'a Launcher,
    /// Command of each host.
    pub(super) words: Vec<Vec<String>>,
    /// A host that sends nothing for this long is lost.
    pub(super) silence: Duration,
    /// Parts of shared storage that the hosts use.
    pub(super) region: Option<Region>,
}

/// All hosts and their events.
pub(super) struct Session<'a> {
    request: &'a Request<'a>,
    pub(super) hosts: Vec<Connection>,
    /// Server that the hosts share.
    pub(super) server: Option<Server>,
    heard: Receiver<Heard>,
    // Kept, so that the channel outlives the threads.
    _to: Sender<Heard>,
    signal: Arc<AtomicUsize>,
    /// When the hosts were ordered to stop.
    stopping: Option<Instant>,
    /// Time of the last check for signals and silent hosts.
    looked: Instant,
    view: View,
}

impl<'a> Session<'a> {
    /// Starts an agent on each host.
    pub(super) fn open(
        request: &'a Request<'a>,
        server: Option<Server>,
        signal: Arc<AtomicUsize>,
    ) -> Session<'a> {
        let (to, heard) = channel();
        let names = request.hosts.iter().enumerate();
        let hosts = names.map(|(at, name)| Connection::open(name, at, request.launcher, &to));
        let hosts = hosts.collect();
        let (looked, view) = (Instant::now(), View::new());
        Session { request, hosts, server, heard, _to: to, signal, stopping: None, looked, view }
    }

    /// Runs the command on all hosts.
    ///
    /// # Errors
    /// If it was cancelled before any host wrote anything.
    pub(super) fn carry_out(&mut self) -> Result<(), Failure> {
        self.until(|host| host.stage == Stage::Connected);
        self.refuse_missing("not every host can be reached")?;
        self.compare_clocks();
        self.refuse_missing("not every host can be reached")?;
        for (host, words) in self.hosts.iter_mut().zip(&self.request.words) {
            host.stage = Stage::Begun;
            host.order(&Order::Begin { words: words.clone() });
        }
        self.until(|host| host.stage == Stage::Admitted);
        // A command that neither writes nor measures ends here.
        let have_ended = self.hosts.iter().all(|host| host.outcome.known.end.is_done());
        if have_ended {
            return Ok(());
        }
        self.refuse_missing("not every host can take part")?;
        let known: Vec<_> = self.hosts.iter().map(|host| &host.outcome.known).collect();
        if let Some(failure) = refusal(&known, self.request.region) {
            self.stop();
            self.until(|_| false);
            return Err(failure);
        }
        for host in self.hosts.iter_mut().filter(|host| !host.is_over()) {
            host.stage = Stage::Preparing;
            host.order(&Order::Prepare);
        }
        loop {
            self.until(|host| matches!(host.stage, Stage::Ready(_)));
            if let Some(server) = &mut self.server {
                server.ends();
            }
            if self.hosts.iter().all(Connection::is_over) {
                return Ok(());
            }
            self.start_next();
        }
    }

    /// Starts the first run that any host is ready for, on all hosts ready for it.
    fn start_next(&mut self) {
        let ready = |host: &Connection| match host.stage {
            Stage::Ready(cell) => Some(cell),
            _ => None,
        };
        let Some(cell) = self.hosts.iter().filter_map(ready).min() else { return };
        self.lose_strays(|host| ready(host) == Some(cell));
        if let Some(server) = &mut self.server {
            server.begins(cell);
        }
        let farthest_ns = self.hosts.iter().filter(|host| ready(host) == Some(cell));
        let farthest_ns = farthest_ns.filter_map(|host| host.outcome.known.clock);
        let farthest_ns = farthest_ns.map(|clock| clock.round_trip_ns).max().unwrap_or(0);
        let at_ns = monotonic_ns() + START_AFTER_NS + farthest_ns;
        for host in self.hosts.iter_mut().filter(|host| ready(host) == Some(cell)) {
            let at_ns = host.outcome.there_ns(at_ns);
            host.stage = Stage::Running(cell);
            host.order(&Order::Start { cell, at_ns });
        }
    }

    /// Drops ready hosts whose run differs from that of the first ready host: figures of different
    /// loads must not be combined.
    fn lose_strays(&mut self, is_ready: impl Fn(&Connection) -> bool) {
        let Some(first) = self.hosts.iter().find(|host| is_ready(host)) else { return };
        let (name, title) = (first.outcome.known.name.clone(), first.title.clone());
        for at in 0..self.hosts.len() {
            let host = &self.hosts[at];
            if is_ready(host) && host.title != title {
                let why = format!(
                    "it is at `{}` while {name} is at `{title}`: its experiment, what may be \
                     written there, or the size of its target differs",
                    host.title
                );
                self.lose(at, why);
            }
        }
    }

    fn lose(&mut self, at: usize, why: String) {
        let before = self.hosts[at].stage;
        self.hosts[at].lose(why);
        self.say_lost(at, before);
    }

    /// Makes the round trips, on all hosts at once.
    fn compare_clocks(&mut self) {
        for round in 1..=PINGS {
            self.hosts.iter_mut().filter(|host| !host.is_over()).for_each(Connection::ping);
            self.until(|host| host.pongs >= round);
        }
    }

    /// Cancels the command if a host is missing.
    fn refuse_missing(&mut self, what: &str) -> Result<(), Failure> {
        if !self.hosts.iter().any(Connection::is_over) && self.stopping.is_none() {
            return Ok(());
        }
        let hosts: Vec<&Outcome> = self.hosts.iter().map(|host| &host.outcome).collect();
        let mut failure = called_off(what, &hosts);
        self.stop();
        self.until(|_| false);
        if let Some(signal) = self.signalled() {
            failure.exit = Exit::Signal(signal);
        }
        Err(failure)
    }

    pub(super) fn signalled(&self) -> Option<i32> {
        signal_in(&self.signal)
    }

    fn stop(&mut self) {
        if self.stopping.is_none() {
            self.stopping = Some(Instant::now());
            self.hosts.iter_mut().for_each(|host| host.order(&Order::Stop));
        }
    }

    /// Handles events until each host satisfies the condition or has ended.
    fn until(&mut self, is_there: impl Fn(&Connection) -> bool) {
        while !self.hosts.iter().all(|host| host.is_over() || is_there(host)) {
            self.hear();
        }
    }

    /// Handles events until a host makes progress or the next check is due.
    fn hear(&mut self) {
        let mut is_farther = false;
        while !is_farther && self.looked.elapsed() < LOOK {
            if let Ok(heard) = self.heard.recv_timeout(LOOK) {
                is_farther = self.take(heard);
            }
            while let Ok(heard) = self.heard.try_recv() {
                is_farther |= self.take(heard);
            }
        }
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            self.lose_silent();
            if self.signalled().is_some() {
                self.stop();
            }
            self.view.show(&self.hosts);
        }
    }

    /// Handles an event of a host; returns whether the host made progress.
    fn take(&mut self, heard: Heard) -> bool {
        let host = &mut self.hosts[heard.host];
        let before = (host.stage, host.pongs);
        let line = host.take(heard.what, heard.at_ns);
        let is_farther = before != (host.stage, host.pongs);
        if let Some(line) = line {
            let line = format!("{}: {line}", host.outcome.known.name);
            self.view.above(|| note(&line));
        }
        self.say_lost(heard.host, before.0);
        is_farther
    }

    /// Losses before admission are reported for all hosts together.
    fn say_lost(&self, at: usize, before: Stage) {
        let known = &self.hosts[at].outcome.known;
        if let (true, HostEnd::Lost { why }) = (before.is_under_way(), &known.end) {
            let line = format!("warning: {} is lost: {why}", known.name);
            self.view.above(|| note(&line));
        }
    }

    fn lose_silent(&mut self) {
        let stopped = self.stopping.is_some_and(|since| since.elapsed() > STOPS_WITHIN);
        for at in 0..self.hosts.len() {
            let host = &self.hosts[at];
            if host.is_over() {
                continue;
            }
            if stopped {
                self.lose(at, format!("it did not stop within {} s", STOPS_WITHIN.as_secs()));
            } else if host.silence() > self.request.silence {
                let limit = self.request.silence.as_secs_f64();
                self.lose(at, format!("it sent nothing for {limit} s (--host-timeout)"));
            }
        }
    }

    /// Ends all connections.
    pub(super) fn close(&mut self) {
        self.view.clear();
        // Lost hosts are closed first, without waiting.
        self.hosts.iter_mut().for_each(|host| {
            if matches!(host.outcome.known.end, HostEnd::Lost { .. }) {
                host.close(Duration::ZERO);
            }
        });
        self.hosts.iter_mut().for_each(|host| host.close(LAUNCHER_ENDS_WITHIN));
    }
}

/// Failure of a command that was cancelled because hosts are missing.
pub(super) fn called_off(what: &str, hosts: &[&Outcome]) -> Failure {
    let count = hosts.len();
    let mut missing: Vec<(String, Vec<&str>)> = Vec::new();
    for (why, name) in hosts.iter().filter_map(|host| Some((host.why()?, &host.known.name))) {
        match missing.iter_mut().find(|(same, _)| *same == why) {
            Some((_, names)) => names.push(name),
            None => missing.push((why, vec![name])),
        }
    }
    let lines = missing.iter().map(|(why, names)| format!("{}: {why}", names.join(", ")));
    let lines = match missing.len() {
        0 => " interrupted".to_owned(),
        1 => format!(" {}", lines.collect::<String>()),
        _ => lines.map(|line| format!("\n{line}")).collect(),
    };
    let ends = hosts.iter().map(|host| &host.known.end);
    let ends = ends.filter(|end| **end != HostEnd::Unknown).map(exit_of);
    let exit = match ends.fold(Exit::Done, Exit::or_graver) {
        Exit::Done => Exit::Environment,
        exit => exit,
    };
    let message = format!("{what}, and nothing was written on any of {count} hosts:{lines}");
    Failure::new(exit, message)
}

/// Exit code for the end of a host.
pub(super) fn exit_of(end: &HostEnd) -> Exit {
    match end {
        HostEnd::Exited { code } => Exit::of_code(*code),
        HostEnd::Lost { .. } | HostEnd::Unknown => Exit::Environment,
    }
}
