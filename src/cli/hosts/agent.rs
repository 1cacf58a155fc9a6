//! `iosonde agent`: the part of a command on several hosts that runs on each host.
//!
//! It uses standard input and output, opens no port and needs no password: permission to start it
//! is permission to measure. The command is a child with a socket as its standard input. The agent
//! relays messages between it and the coordinator, and ends it when the coordinator is gone.

use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use clap::Args;
use iosonde_sys::clock::monotonic_ns;
use rustix::process::{Pid, Signal, kill_process};

use super::peers::BARRIER;
use super::protocol::{Messages, News, Order, PROTOCOL, ProtocolError, send};
use crate::cli::exit::{About, Exit, Failure};

/// Carry out the command of a coordinator on this host, for `--hosts`; not for people.
///
/// It speaks the protocol of docs/hosts.md on standard input and output.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct AgentArgs {
    /// The file of this program, which was sent here and is removed
    #[arg(long, value_name = "FILE", hide = true)]
    sent: Option<PathBuf>,
}

/// Longest interval between messages to the coordinator.
const ALIVE_EVERY: Duration = Duration::from_secs(1);
/// Largest part of a command's standard output that is passed on, bytes.
const MAX_OUTPUT: u64 = 16 << 20;

/// Input of the agent's loop.
pub(super) enum Event {
    Order(Order),
    /// The coordinator is gone, or sent an invalid message.
    NoCoordinator(Option<ProtocolError>),
    News(News),
    /// The command has ended with this standard output.
    Ended(io::Result<ExitStatus>, Vec<u8>),
}

/// The running command.
pub(super) struct Work {
    pid: Option<Pid>,
    pub(super) orders: UnixStream,
}

impl Work {
    pub(super) fn signal(&self, signal: Signal) {
        // A child that has ended needs no signal.
        self.pid.map(|pid| kill_process(pid, signal));
    }
}

/// Runs the command.
pub(in crate::cli) fn agent(args: &AgentArgs) -> Result<Exit, Failure> {
    if let Some(sent) = &args.sent {
        // Only the file of this process is removed; it keeps running without a name.
        let own = std::env::current_exe().ok().and_then(|own| own.canonicalize().ok());
        if own.is_some() && own == sent.canonicalize().ok() {
            let _ = std::fs::remove_file(sent);
        }
    }
    let (to, events) = channel();
    let orders = to.clone();
    thread::spawn(move || read_orders(&orders));
    serve(&to, &events).or_environment("the coordinator cannot be reached")
}

/// Serves the coordinator until the command ends or the coordinator is gone.
fn serve(to: &Sender<Event>, events: &Receiver<Event>) -> io::Result<Exit> {
    let mut stdout = io::stdout().lock();
    let uname = rustix::system::uname();
    send(
        &mut stdout,
        &News::Hello {
            protocol: PROTOCOL,
            program: env!("CARGO_PKG_VERSION").into(),
            node: uname.nodename().to_string_lossy().into_owned(),
            kernel: uname.release().to_string_lossy().into_owned(),
        },
    )?;
    let mut work: Option<Work> = None;
    let mut is_alone = false;
    loop {
        let event = match events.recv_timeout(ALIVE_EVERY) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) => Event::News(News::Alive),
            Err(RecvTimeoutError::Disconnected) => return Ok(Exit::Environment),
        };
        match event {
            Event::Order(Order::Ping { sent_ns }) => {
                send(&mut stdout, &News::Pong { sent_ns, clock_ns: monotonic_ns() })?;
            }
            Event::Order(Order::Begin { words }) if work.is_none() => match begin(&words, to) {
                Ok(begun) => work = Some(begun),
                Err(error) => {
                    send(&mut stdout, &News::Said { line: format!("error: {error}") })?;
                    send(&mut stdout, &ended(Exit::Environment))?;
                    return Ok(Exit::Environment);
                }
            },
            Event::Order(Order::Stop) => match &work {
                Some(work) => work.signal(Signal::INT),
                None => {
                    send(&mut stdout, &ended(Exit::Signal(2)))?;
                    return Ok(Exit::Done);
                }
            },
            Event::Order(order) => {
                if let Some(work) = &mut work {
                    // The end of a command is reported below.
                    let _ = send(&mut work.orders, &order);
                }
            }
            Event::NoCoordinator(why) => {
                is_alone = true;
                let Some(work) = &work else {
                    return match why {
                        Some(error) => Err(io::Error::other(error)),
                        None => Ok(Exit::Environment),
                    };
                };
                work.signal(Signal::TERM);
            }
            // The command itself stores its results on this host.
            Event::News(_) if is_alone => {}
            Event::News(news) => send(&mut stdout, &news)?,
            Event::Ended(..) if is_alone => return Ok(Exit::Environment),
            Event::Ended(status, output) => {
                let code = status.map_or(Exit::Environment.code(), code_of);
                let output = String::from_utf8_lossy(&output).into_owned();
                send(&mut stdout, &News::Ended { code, output })?;
                return Ok(Exit::Done);
            }
        }
    }
}

/// Message for a command that did not begin.
fn ended(exit: Exit) -> News {
    News::Ended { code: exit.code(), output: String::new() }
}

pub(super) fn code_of(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(Exit::Environment.code())
}

fn read_orders(to: &Sender<Event>) {
    let mut orders = Messages::new(io::stdin().lock());
    loop {
        let event = match orders.next() {
            Ok(Some(order)) => Event::Order(order),
            Ok(None) => Event::NoCoordinator(None),
            Err(error) => Event::NoCoordinator(Some(error)),
        };
        let is_last = matches!(event, Event::NoCoordinator(_));
        if to.send(event).is_err() || is_last {
            return;
        }
    }
}

/// Starts the command, and threads that read its output.
pub(super) fn begin(words: &[String], to: &Sender<Event>) -> io::Result<Work> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut child = Command::new("/proc/self/exe")
        .args(words)
        .env(BARRIER, "1")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let news = to.clone();
    let from = ours.try_clone()?;
    let hears = thread::spawn(move || {
        let mut messages = Messages::new(BufReader::new(from));
        while let Ok(Some(message)) = messages.next() {
            if news.send(Event::News(message)).is_err() {
                return;
            }
        }
    });
    let stderr = child.stderr.take();
    let lines = to.clone();
    let reads = thread::spawn(move || {
        for line in stderr.into_iter().flat_map(|from| BufReader::new(from).lines()) {
            let Ok(line) = line else { return };
            if lines.send(Event::News(News::Said { line })).is_err() {
                return;
            }
        }
    });
    let to = to.clone();
    thread::spawn(move || {
        let (status, output) = wait(child);
        // All its messages come before its end.
        let _ = (hears.join(), reads.join());
        let _ = to.send(Event::Ended(status, output));
    });
    Ok(Work { pid, orders: ours })
}

/// Waits for the end of the command; returns its standard output.
fn wait(mut child: Child) -> (io::Result<ExitStatus>, Vec<u8>) {
    let mut output = Vec::new();
    if let Some(mut stdout) = child.stdout.take() {
        // The excess is read and dropped, so that the command does not block.
        let _ = stdout.by_ref().take(MAX_OUTPUT).read_to_end(&mut output);
        let _ = io::copy(&mut stdout, &mut io::sink());
    }
    (child.wait(), output)
}
