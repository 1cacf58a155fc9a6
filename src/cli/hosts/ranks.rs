//! Ranks of an MPI job as hosts: `mpirun -n 4 iosonde run …`.
//!
//! Each rank runs the command in a child, as an agent does. All ranks meet in collective
//! operations: before the first write, before each run, and after the last run. The child stores
//! its result before its rank joins the others, since a rank that dies ends the whole job.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use iosonde_model::record::hosts::{HostClock, HostEnd};
use iosonde_sys::clock::monotonic_ns;
use mpi::Threading;
use mpi::datatype::PartitionMut;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Root, Source};
use rustix::process::Signal;

use super::agent::{Event, Work, begin, code_of};
use super::connection::Stage;
use super::outcome::Outcome;
use super::protocol::{News, Order, send};
use super::server::Server;
use super::session::{PINGS, START_AFTER_NS, called_off};
use super::shared::refusal;
use super::{Command, Ended, Region, conclude, has_effect, of_host};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Output, note};
use crate::cli::watchdog;
use iosonde_engine::engine::signal_in;

/// Polling interval for signals and other ranks; sleeping leaves CPU time to ranks that still
/// measure.
const LOOK: Duration = Duration::from_millis(1);

/// Runs the command on every rank; the first rank reports.
///
/// # Errors
/// If the command cannot run, or was cancelled before any rank wrote anything.
pub(super) fn join(command: &Command<'_>, words: &[String]) -> Result<Exit, Failure> {
    let Some((universe, _)) = mpi::initialize_with_threading(Threading::Funneled) else {
        return Err(environment("MPI cannot be initialised".into()));
    };
    let world = universe.world();
    let is_first = world.rank() == 0;
    match take_part(&world, command, words) {
        // Only the first rank prints what applies to all.
        Ok(exit) if is_first => Ok(exit),
        Err(failure) if is_first => Err(failure),
        _ => Ok(Exit::Done),
    }
}

fn environment(message: String) -> Failure {
    Failure::new(Exit::Environment, message)
}

/// Runs the part of this rank.
fn take_part(
    world: &SimpleCommunicator,
    command: &Command<'_>,
    words: &[String],
) -> Result<Exit, Failure> {
    has_effect(command)?;
    let ranks = Ranks::of(world);
    let name = format!("rank{}", ranks.own);
    let mut outcome = Outcome::of(&name);
    outcome.known.clock = Some(ranks.compare_clocks());
    let uname = rustix::system::uname();
    outcome.known.node = uname.nodename().to_string_lossy().into_owned();
    outcome.known.kernel = uname.release().to_string_lossy().into_owned();
    let (to, events) = channel();
    // Random values must be the same on all ranks.
    let same = ranks.of_first(&serde_json::to_vec(&command.same).map_err(wrong)?);
    let same = serde_json::from_slice(&same).map_err(wrong)?;
    let command = &Command { same, ..*command };
    let begun = begin(&of_host(command, words, (&name, ranks.own, ranks.count)), &to);
    let (work, stage) = match begun {
        Ok(work) => (Some(work), Stage::Begun),
        Err(error) => {
            outcome.known.end = HostEnd::Lost { why: error.to_string() };
            (None, Stage::Ended)
        }
    };
    let signal = watchdog::heed();
    let title = String::new();
    let server = if ranks.own == 0 { command.hosts.server() } else { Ok(None) };
    let mut member = Member { ranks, outcome, work, stage, title, events, server, signal };
    member.admit(command.hosts.host_region)?;
    while member.start() {}
    let gathered = member.ranks.gather(&serde_json::to_vec(&member.outcome).map_err(wrong)?)?;
    if member.ranks.own > 0 {
        return Ok(Exit::Done);
    }
    let outcomes: Result<Vec<Outcome>, _> =
        gathered.iter().map(|bytes| serde_json::from_slice(bytes)).collect();
    let outcomes = outcomes.map_err(wrong)?;
    let signal = member.signalled();
    let output = Output::to(command.output_format, command.output)?;
    let server = member.server.ok().flatten().map(Server::into_read);
    let ended = Ended { outcomes, server, signal };
    Ok(conclude(command, words, "mpirun", ended, output))
}

fn wrong(error: serde_json::Error) -> Failure {
    environment(format!("what the ranks say to each other cannot be understood: {error}"))
}

struct Ranks<'a> {
    world: &'a SimpleCommunicator,
    own: usize,
    count: usize,
}

impl Ranks<'_> {
    fn of(world: &SimpleCommunicator) -> Ranks<'_> {
        Ranks { world, own: world.rank() as usize, count: world.size() as usize }
    }

    /// Compares this rank's clock with that of the first rank, by round trips.
    fn compare_clocks(&self) -> HostClock {
        let mut own = HostClock::default();
        for other in 1..self.count {
            if self.own == 0 {
                let there = self.world.process_at_rank(other as i32);
                let mut best = HostClock { offset_ns: 0, round_trip_ns: u64::MAX };
                for _ in 0..PINGS {
                    let sent_ns = monotonic_ns();
                    there.send(&sent_ns);
                    let (clock_ns, _) = there.receive::<u64>();
                    let round_trip_ns = monotonic_ns() - sent_ns;
                    if round_trip_ns < best.round_trip_ns {
                        let middle_ns = sent_ns + round_trip_ns / 2;
                        let offset_ns = clock_ns as i64 - middle_ns as i64;
                        best = HostClock { offset_ns, round_trip_ns };
                    }
                }
                there.send(&[best.offset_ns, best.round_trip_ns as i64][..]);
            } else if self.own == other {
                let first = self.world.process_at_rank(0);
                while first.immediate_probe().is_none() {
                    thread::sleep(LOOK);
                }
                for _ in 0..PINGS {
                    first.receive::<u64>();
                    first.send(&monotonic_ns());
                }
                let mut found = [0_i64; 2];
                first.receive_into(&mut found[..]);
                own = HostClock { offset_ns: found[0], round_trip_ns: found[1] as u64 };
            }
        }
        let mut barrier = self.world.immediate_barrier();
        while let Err(pending) = barrier.test() {
            barrier = pending;
            thread::sleep(LOOK);
        }
        own
    }

    /// Collects the numbers of all ranks on every rank.
    fn all<const N: usize>(&self, own: [u64; N]) -> Vec<[u64; N]> {
        let mut all = vec![0; N * self.count];
        self.world.all_gather_into(&own[..], &mut all[..]);
        all.as_chunks::<N>().0.to_vec()
    }

    /// Broadcasts the bytes of the first rank.
    fn of_first(&self, own: &[u8]) -> Vec<u8> {
        let first = self.world.process_at_rank(0);
        let mut bytes = own.to_vec();
        let mut length = bytes.len() as u64;
        first.broadcast_into(&mut length);
        bytes.resize(length as usize, 0);
        first.broadcast_into(&mut bytes[..]);
        bytes
    }

    /// Gathers the bytes of all ranks on the first rank; empty on the others.
    fn gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
        let first = self.world.process_at_rank(0);
        let lengths = self.all([own.len() as u64]);
        let sum: u64 = lengths.iter().map(|[length]| length).sum();
        if sum > i32::MAX as u64 {
            return Err(environment(format!(
                "the records of all ranks have {sum} B, and MPI gathers at most {}: each rank has \
                 kept its own, which `iosonde report` shows there",
                i32::MAX
            )));
        }
        if self.own > 0 {
            first.gather_varcount_into(own);
            return Ok(Vec::new());
        }
        let counts: Vec<i32> = lengths.iter().map(|[length]| *length as i32).collect();
        let starts = counts.iter().scan(0, |next, count| {
            let start = *next;
            *next += count;
            Some(start)
        });
        let starts: Vec<i32> = starts.collect();
        let mut bytes = vec![0_u8; sum as usize];
        first.gather_varcount_into_root(
            own,
            &mut PartitionMut::new(&mut bytes[..], &counts[..], &starts[..]),
        );
        let mut rest = &bytes[..];
        let part = |[length]: &[u64; 1]| {
            let (part, behind) = rest.split_at(*length as usize);
            rest = behind;
            part.to_vec()
        };
        Ok(lengths.iter().map(part).collect())
    }
}

/// This rank and the command that it runs.
struct Member<'a> {
    ranks: Ranks<'a>,
    outcome: Outcome,
    work: Option<Work>,
    stage: Stage,
    /// Title of the current run.
    title: String,
    events: Receiver<Event>,
    /// Server that the ranks share, or why its counters cannot be read; only on the first rank.
    server: Result<Option<Server>, Failure>,
    signal: Arc<AtomicUsize>,
}

impl Member<'_> {
    fn signalled(&self) -> Option<i32> {
        signal_in(&self.signal)
    }

    /// Interrupts the command.
    fn stop(&self) {
        if let (Some(work), false) = (&self.work, self.stage == Stage::Ended) {
            work.signal(Signal::INT);
        }
    }

    fn order(&mut self, order: &Order) {
        if let Some(work) = &mut self.work {
            // If the command has ended, the next event reports it.
            let _ = send(&mut work.orders, order);
        }
    }

    /// Waits until the command of every rank waits for the others or has ended.
    fn meet(&mut self) {
        let mut is_passed_on = false;
        let mut barrier = None;
        loop {
            if self.signalled().is_some() && !is_passed_on {
                is_passed_on = true;
                self.stop();
            }
            match barrier.take() {
                None if matches!(self.stage, Stage::Admitted | Stage::Ready(_) | Stage::Ended) => {
                    barrier = Some(self.ranks.world.immediate_barrier());
                }
                None => self.hear(),
                Some(request) => match request.test() {
                    Ok(_) => return,
                    Err(pending) => {
                        barrier = Some(pending);
                        thread::sleep(LOOK);
                    }
                },
            }
        }
    }

    /// Handles an event of the command.
    fn hear(&mut self) {
        let news = match self.events.recv_timeout(LOOK) {
            Ok(Event::News(news)) => news,
            Ok(Event::Ended(status, output)) => {
                self.outcome.output = String::from_utf8_lossy(&output).into_owned();
                if self.outcome.known.end == HostEnd::Unknown {
                    let code = status.map_or(Exit::Environment.code(), code_of);
                    self.outcome.known.end = HostEnd::Exited { code };
                }
                self.stage = Stage::Ended;
                return;
            }
            Err(RecvTimeoutError::Disconnected) => {
                self.stage = Stage::Ended;
                return;
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => return,
        };
        match news {
            News::Admitted { targets } => {
                self.outcome.known.targets = targets;
                self.stage = Stage::Admitted;
            }
            News::Ready { cell, title } => {
                self.title = title;
                self.stage = Stage::Ready(cell);
            }
            News::Opened { cell, at_ns } => self.outcome.opened.push((cell, at_ns)),
            News::Record { cell, run } => self.outcome.measured(cell, *run),
            News::Said { line } => {
                if let Some(line) = self.outcome.says(line, self.stage) {
                    note(&format!("{}: {line}", self.outcome.known.name));
                }
            }
            _ => {}
        }
    }

    /// Meets the others before the first write: a rank that cannot take part stops all.
    fn admit(&mut self, region: Option<Region>) -> Result<(), Failure> {
        self.meet();
        let gathered = self.ranks.gather(&serde_json::to_vec(&self.outcome).map_err(wrong)?)?;
        let have_ended = self.ranks.all([u64::from(self.outcome.known.end.is_done())]);
        if have_ended.iter().all(|[has_ended]| *has_ended == 1) {
            return Ok(());
        }
        let hosts: Result<Vec<Outcome>, _> =
            gathered.iter().map(|bytes| serde_json::from_slice(bytes)).collect();
        let refusal = self.refusal(&hosts.map_err(wrong)?, region);
        if self.ranks.of_first(&[u8::from(refusal.is_some())]) == [0] {
            self.stage = if self.stage == Stage::Ended { Stage::Ended } else { Stage::Preparing };
            self.order(&Order::Prepare);
            return Ok(());
        }
        self.stop();
        while self.stage != Stage::Ended {
            self.hear();
        }
        Err(refusal.unwrap_or_else(|| environment("called off".into())))
    }

    /// Why no rank may continue, if so; only the first rank can decide it.
    fn refusal(&self, hosts: &[Outcome], region: Option<Region>) -> Option<Failure> {
        if hosts.iter().any(|host| host.known.end != HostEnd::Unknown) {
            let hosts: Vec<&Outcome> = hosts.iter().collect();
            let mut failure = called_off("not every rank can take part", &hosts);
            if let Some(signal) = self.signalled() {
                failure.exit = Exit::Signal(signal);
            }
            return Some(failure);
        }
        if let Err(failure) = &self.server {
            return Some(failure.clone());
        }
        let known: Vec<_> = hosts.iter().map(|host| &host.known).collect();
        refusal(&known, region)
    }

    /// Meets the others and starts the first run that any rank waits for; `false` if every command
    /// has ended.
    fn start(&mut self) -> bool {
        self.meet();
        if let Ok(Some(server)) = &mut self.server {
            server.ends();
        }
        let own = match self.stage {
            Stage::Ready(cell) => [1, cell as u64, hash(&self.title)],
            _ => [0; 3],
        };
        let all = self.ranks.all(own);
        let ready = all.iter().enumerate().filter(|(_, [is_ready, ..])| *is_ready == 1);
        let first = ready.min_by_key(|(_, [_, cell, _])| *cell);
        let Some((rank, [_, cell, title])) = first else { return false };
        if let Ok(Some(server)) = &mut self.server {
            server.begins(*cell as usize);
        }
        let at_ns = (monotonic_ns() + START_AFTER_NS).to_ne_bytes();
        let at_ns = self.ranks.of_first(&at_ns);
        let at_ns = u64::from_ne_bytes(at_ns.try_into().unwrap_or_default());
        match own {
            [1, own_cell, own_title] if own_cell == *cell && own_title == *title => {
                let (cell, at_ns) = (*cell as usize, self.outcome.there_ns(at_ns));
                self.stage = Stage::Running(cell);
                self.order(&Order::Start { cell, at_ns });
            }
            [1, own_cell, _] if own_cell == *cell => {
                let why = format!(
                    "it is at `{}` and rank{rank} is not: its experiment, what may be written \
                     there, or the size of its target differs",
                    self.title
                );
                note(&format!("warning: {} is lost: {why}", self.outcome.known.name));
                self.outcome.known.end = HostEnd::Lost { why };
                self.stop();
                self.stage = Stage::Preparing;
            }
            // This rank is ahead of the others, or has ended.
            _ => {}
        }
        true
    }
}

fn hash(title: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    title.hash(&mut hasher);
    hasher.finish()
}
