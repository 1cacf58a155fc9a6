//! The coordinator's connection to a host.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use iosonde_model::record::hosts::{HostClock, HostEnd};
use iosonde_sys::clock::monotonic_ns;
use rustix::process::{Pid, Signal, kill_process_group};

use super::launch::{Launcher, Sent};
use super::outcome::{Outcome, keep_last};
use super::protocol::{Messages, News, Order, PROTOCOL, send};

/// Stack size of a thread; the coordinator's threads do little.
const STACK_BYTES: usize = 256 << 10;
/// Time limit for reading the launcher's standard error after a connection ends.
const LAST_WORDS_WITHIN: Duration = Duration::from_millis(200);
/// Size of the parts in which the program is sent.
const PART_BYTES: usize = 64 << 10;

/// An event of a host.
pub(super) struct Heard {
    /// Index of the host in the list.
    pub(super) host: usize,
    /// Time on the coordinator's clock, ns.
    pub(super) at_ns: u64,
    pub(super) what: What,
}

/// Content of an event.
pub(super) enum What {
    News(News),
    /// The host took another part of the program.
    Taken,
    /// Line that the launcher wrote to standard error.
    Launcher(String),
    /// The connection ended, for this reason.
    Closed(String),
}

/// Progress of a host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    /// Its agent was started.
    Launched,
    /// The agent has answered.
    Connected,
    /// It has received the command.
    Begun,
    /// Its targets are open; nothing was written.
    Admitted,
    /// It prepares a run, or is between runs.
    Preparing,
    /// It waits for the start of the run with this index.
    Ready(usize),
    /// It measures.
    Running(usize),
    /// It has ended, or was lost.
    Ended,
}

impl Stage {
    /// Whether the host was admitted with all others and has not ended.
    pub(super) fn is_under_way(self) -> bool {
        matches!(self, Stage::Preparing | Stage::Ready(_) | Stage::Running(_))
    }
}

/// A host, its agent, and their messages.
pub(super) struct Connection {
    pub(super) outcome: Outcome,
    pub(super) stage: Stage,
    /// Title of the current run.
    pub(super) title: String,
    /// Elapsed ns and operations at the last two progress messages, the latest last.
    pub(super) moved: [(u64, u64); 2],
    /// Number of answers to pings.
    pub(super) pongs: u32,
    /// Program to send if the host requests it.
    sent: Option<Sent>,
    place: usize,
    to: Sender<Heard>,
    child: Option<Child>,
    orders: Option<ChildStdin>,
    heard: Instant,
    by_launcher: Vec<String>,
}

impl Connection {
    /// Starts the agent, and threads that read from it.
    pub(super) fn open(
        name: &str,
        index: usize,
        launcher: &Launcher,
        to: &Sender<Heard>,
    ) -> Connection {
        let mut connection = Connection {
            outcome: Outcome::of(name),
            stage: Stage::Launched,
            title: String::new(),
            moved: [(0, 0); 2],
            pongs: 0,
            sent: launcher.sent.clone(),
            place: index,
            to: to.clone(),
            child: None,
            orders: None,
            heard: Instant::now(),
            by_launcher: Vec::new(),
        };
        let started = launcher.start(name).and_then(|mut child| {
            listen(&mut child, index, to)?;
            Ok(child)
        });
        match started {
            Ok(mut child) => {
                connection.orders = child.stdin.take();
                if let (Some(to), Some(sent)) = (&mut connection.orders, &launcher.sent) {
                    // If this fails, the reader of the connection reports the host as lost.
                    let _ = to.write_all(sent.script.as_bytes());
                }
                connection.child = Some(child);
            }
            Err(error) => {
                let words = launcher.words(name).join(" ");
                connection.lose(format!("`{words}` cannot be run: {error}"));
            }
        }
        connection
    }

    pub(super) fn is_over(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// Time since the last message.
    pub(super) fn silence(&self) -> Duration {
        self.heard.elapsed()
    }

    /// Sends an order. If this fails, the reader of the connection reports the host as lost.
    pub(super) fn order(&mut self, order: &Order) {
        if let Some(to) = &mut self.orders {
            let _ = send(to, order);
        }
    }

    /// Marks the host as lost.
    pub(super) fn lose(&mut self, why: String) {
        if self.is_over() {
            return;
        }
        // A failing launcher reports the reason, such as an unknown host name or a refused login.
        // Some add a line below it.
        let of_command = &self.outcome.known.said;
        let said = if self.by_launcher.is_empty() { of_command } else { &self.by_launcher };
        let last = said.iter().skip(said.len().saturating_sub(2)).map(|line| line.trim());
        let said = last.collect::<Vec<_>>().join("; ");
        let said = if said.is_empty() { said } else { format!(" ({said})") };
        self.outcome.known.end = HostEnd::Lost { why: format!("{why}{said}") };
        self.end();
    }

    fn end(&mut self) {
        self.stage = Stage::Ended;
        // The agent ends its command when its standard input is closed.
        self.orders = None;
    }

    /// Handles an event; returns a line to show to the user, if any.
    pub(super) fn take(&mut self, what: What, at_ns: u64) -> Option<String> {
        self.heard = Instant::now();
        match what {
            What::Launcher(line) => keep_last(&mut self.by_launcher, line),
            What::Closed(why) => self.lose(why),
            What::News(_) if self.is_over() => {}
            What::Taken => {}
            What::News(news) => return self.news(news, at_ns),
        }
        None
    }

    fn news(&mut self, news: News, at_ns: u64) -> Option<String> {
        match (news, self.stage) {
            (News::Wanted, Stage::Launched) if self.sent.is_some() => self.send_program(),
            (News::Hello { protocol, program, node, kernel }, Stage::Launched) => {
                let own = env!("CARGO_PKG_VERSION");
                if protocol != PROTOCOL || program != own {
                    self.lose(format!(
                        "iosonde {program} (protocol {protocol}) is installed there, expected \
                         {own} (protocol {PROTOCOL}): install the same version on every host, or \
                         name it with --agent"
                    ));
                    return None;
                }
                (self.outcome.known.node, self.outcome.known.kernel) = (node, kernel);
                self.stage = Stage::Connected;
            }
            (News::Pong { sent_ns, clock_ns }, Stage::Connected) if sent_ns <= at_ns => {
                let round_trip_ns = at_ns - sent_ns;
                self.pongs += 1;
                let middle_ns = at_ns - round_trip_ns / 2;
                let offset_ns = clock_ns as i64 - middle_ns as i64;
                let best = &mut self.outcome.known.clock;
                if best.is_none_or(|best| round_trip_ns < best.round_trip_ns) {
                    *best = Some(HostClock { offset_ns, round_trip_ns });
                }
            }
            (News::Admitted { targets }, Stage::Begun) => {
                self.outcome.known.targets = targets;
                self.stage = Stage::Admitted;
            }
            (News::Ready { cell, title }, Stage::Preparing | Stage::Running(_)) => {
                self.title = title;
                self.moved = [(0, 0); 2];
                self.stage = Stage::Ready(cell);
            }
            (News::Opened { cell, at_ns }, Stage::Running(_)) => {
                self.outcome.opened.push((cell, at_ns))
            }
            (News::Moved { elapsed_ns, ops }, Stage::Running(_)) => {
                self.moved = [self.moved[1], (elapsed_ns, ops)];
            }
            (News::Record { cell, run }, Stage::Running(_)) => {
                self.outcome.measured(cell, *run);
                self.stage = Stage::Preparing;
            }
            (News::Said { line }, stage) => {
                return self.outcome.says(line, stage);
            }
            (News::Alive, _) => {}
            (News::Ended { code, output }, _) => {
                self.outcome.known.end = HostEnd::Exited { code };
                self.outcome.output = output;
                self.end();
            }
            // Late answers to pings.
            (News::Pong { .. } | News::Moved { .. }, _) => {}
            (other, stage) => {
                let found = format!("{other:?}");
                let found: String = found.chars().take(60).collect();
                self.lose(format!("unexpected message {found} while {stage:?}"));
            }
        }
        None
    }

    /// Sends the program, once. Nothing else is sent until its agent answers.
    fn send_program(&mut self) {
        let (Some(sent), Some(orders)) = (self.sent.take(), &self.orders) else { return };
        let (host, heard) = (self.place, self.to.clone());
        let sending = orders.as_fd().try_clone_to_owned().and_then(|to| {
            let mut to = std::fs::File::from(to);
            let send = move || {
                for part in sent.program.chunks(PART_BYTES) {
                    let taken = Heard { host, at_ns: monotonic_ns(), what: What::Taken };
                    if to.write_all(part).is_err() || heard.send(taken).is_err() {
                        return;
                    }
                }
            };
            thread::Builder::new().stack_size(STACK_BYTES).spawn(send)
        });
        if let Err(error) = sending {
            self.lose(format!("the program cannot be sent: {error}"));
        }
    }

    /// Requests the time of the host.
    pub(super) fn ping(&mut self) {
        self.order(&Order::Ping { sent_ns: monotonic_ns() });
    }

    /// Ends the launcher and thus the connection.
    pub(super) fn close(&mut self, patience: Duration) {
        self.orders = None;
        let Some(mut child) = self.child.take() else { return };
        let until = Instant::now() + patience;
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() >= until {
                // The launcher leads its own process group, with all that it has started here.
                if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                    let _ = kill_process_group(group, Signal::KILL);
                }
                let _ = child.wait();
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Starts threads that read the output of an agent and its launcher.
fn listen(child: &mut Child, host: usize, to: &Sender<Heard>) -> std::io::Result<()> {
    let thread = || thread::Builder::new().stack_size(STACK_BYTES);
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let lines = to.clone();
    let launcher = thread().spawn(move || {
        let lines_of = stderr.into_iter().flat_map(|from| BufReader::new(from).lines());
        for line in lines_of.map_while(Result::ok) {
            let what = What::Launcher(line);
            if lines.send(Heard { host, at_ns: monotonic_ns(), what }).is_err() {
                return;
            }
        }
    })?;
    let Some(stdout) = stdout else { return Ok(()) };
    let to = to.clone();
    thread().spawn(move || {
        let mut messages = Messages::new(BufReader::new(stdout));
        loop {
            let next = messages.next();
            let at_ns = monotonic_ns();
            let what = match next {
                Ok(Some(news)) => What::News(news),
                Ok(None) => What::Closed("the connection ended".into()),
                Err(error) => What::Closed(error.to_string()),
            };
            let is_last = matches!(what, What::Closed(_));
            if is_last {
                wait_for(&launcher);
            }
            if to.send(Heard { host, at_ns, what }).is_err() || is_last {
                return;
            }
        }
    })?;
    Ok(())
}

/// Waits for the thread that reads why the launcher ended.
fn wait_for(reader: &thread::JoinHandle<()>) {
    let until = Instant::now() + LAST_WORDS_WITHIN;
    while !reader.is_finished() && Instant::now() < until {
        thread::sleep(Duration::from_millis(2));
    }
}
