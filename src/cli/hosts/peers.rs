//! The command's end of the socket to its agent: it waits before the first write and before each
//! run, so that all hosts continue together.

use std::io::{self, BufReader};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use iosonde_engine::engine::waits::Wait;
use iosonde_engine::engine::{Progress, signal_in};
use iosonde_engine::host::Root;
use iosonde_engine::target::Held;
use iosonde_model::plan::Plan;
use iosonde_model::record::Run;
use iosonde_model::record::facts::FilesystemClass;
use iosonde_model::record::hosts::TargetIdentity;
use iosonde_sys::clock::monotonic_ns;
use rustix::process::Signal;

use super::protocol::{Messages, News, Order, send};
use crate::cli::exit::{About, Exit, Failure};
use crate::schedule::Peers;

/// Set if standard input is a socket to an agent.
pub(crate) const BARRIER: &str = "IOSONDE_BARRIER";
/// Interval between checks for a signal.
const LOOK: Duration = Duration::from_millis(25);
/// Interval between progress messages to the coordinator, ns.
const MOVED_EVERY_NS: u64 = 500_000_000;

/// Connection to the agent, and through it to the other hosts.
#[derive(Debug)]
pub(crate) struct Agent {
    to: Mutex<UnixStream>,
    orders: Mutex<Receiver<Order>>,
    signal: Arc<AtomicUsize>,
    /// Number of runs that have ended.
    cell: AtomicUsize,
    /// Time of the next progress message, ns since the start of the run.
    moved_ns: AtomicU64,
}

impl Agent {
    /// Connects to the agent that started this process, if one did.
    ///
    /// # Errors
    /// If standard input should be a socket and is not.
    pub(crate) fn find(signal: &Arc<AtomicUsize>) -> Result<Option<Arc<Agent>>, Failure> {
        if std::env::var_os(BARRIER).is_none() {
            return Ok(None);
        }
        let agent = Agent::connect(Arc::clone(signal))
            .or_environment(format!("{BARRIER} is set, but standard input is not a socket"))?;
        Ok(Some(Arc::new(agent)))
    }

    fn connect(signal: Arc<AtomicUsize>) -> io::Result<Agent> {
        let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let from = stream.try_clone()?;
        let (to, orders) = channel();
        let gone = Arc::clone(&signal);
        std::thread::spawn(move || {
            let mut messages = Messages::new(BufReader::new(from));
            while let Ok(Some(order)) = messages.next() {
                if to.send(order).is_err() {
                    return;
                }
            }
            // The agent is gone, so nobody waits for this command any more.
            let end = Signal::TERM.as_raw() as usize;
            let _ = gone.compare_exchange(0, end, Ordering::Relaxed, Ordering::Relaxed);
        });
        let (to, orders) = (Mutex::new(stream), Mutex::new(orders));
        Ok(Agent { to, orders, signal, cell: AtomicUsize::new(0), moved_ns: AtomicU64::new(0) })
    }

    /// Reports the open targets, and waits until every host may continue.
    ///
    /// # Errors
    /// If the coordinator cancels the command.
    pub(crate) fn admit(&self, root: &Root, targets: &[Held], writes: bool) -> Result<(), Failure> {
        let identity = |held: &Held| TargetIdentity {
            path: held.path.to_string_lossy().into_owned(),
            identity: identity(held, root),
            writes,
        };
        self.admit_named(targets.iter().map(identity).collect())
    }

    /// Does the same for targets that are opened later.
    ///
    /// # Errors
    /// If the coordinator cancels the command.
    pub(crate) fn admit_named(&self, targets: Vec<TargetIdentity>) -> Result<(), Failure> {
        self.say(&News::Admitted { targets });
        match self.order() {
            Some(Order::Prepare) => Ok(()),
            _ => Err(Failure::new(
                signal_in(&self.signal).map_or(Exit::Environment, Exit::Signal),
                "called off before anything was written: another host cannot take part",
            )),
        }
    }

    /// Sends news to the coordinator. If it is gone, the agent ends this process.
    fn say(&self, news: &News) {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = send(&mut *to, news);
    }

    /// Next order; `None` after a signal, or if the agent is gone.
    fn order(&self) -> Option<Order> {
        let _waiting = Wait::begin("waiting for the other hosts", "the coordinator".to_owned());
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if self.signal.load(Ordering::Relaxed) != 0 {
                return None;
            }
            match orders.recv_timeout(LOOK) {
                Ok(order) => return Some(order),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }
}

impl Peers for Agent {
    fn starts_in(&self, plan: &Plan) -> Option<u64> {
        let cell = self.cell.load(Ordering::Relaxed);
        self.moved_ns.store(0, Ordering::Relaxed);
        self.say(&News::Ready { cell, title: plan.title.clone() });
        match self.order()? {
            Order::Start { cell: started, at_ns } if started == cell => {
                Some(at_ns.saturating_sub(monotonic_ns()))
            }
            _ => None,
        }
    }

    fn opened(&self, ago_ns: u64) {
        let cell = self.cell.load(Ordering::Relaxed);
        self.say(&News::Opened { cell, at_ns: monotonic_ns() - ago_ns });
    }

    fn moved(&self, progress: &Progress) {
        if progress.elapsed_ns >= self.moved_ns.load(Ordering::Relaxed) {
            self.moved_ns.store(progress.elapsed_ns + MOVED_EVERY_NS, Ordering::Relaxed);
            self.say(&News::Moved { elapsed_ns: progress.counted_ns, ops: progress.ops });
        }
    }

    fn finished(&self, run: &Run) {
        let cell = self.cell.fetch_add(1, Ordering::Relaxed);
        self.say(&News::Record { cell, run: Box::new(run.clone()) });
    }
}

/// Identity of this storage, equal on all hosts that use it; empty if no other host can.
fn identity(held: &Held, root: &Root) -> String {
    let facts = held.describe(root);
    let here = root.text("proc/sys/kernel/random/boot_id").unwrap_or_default();
    let here = here.trim();
    let stat = rustix::fs::fstat(&held.file).ok();
    if rustix::fs::FileType::from_raw_mode(stat.map_or(0, |stat| stat.st_mode)).is_block_device() {
        let device = facts.device.unwrap_or_default();
        let known = device.wwid.or(device.serial).filter(|name| !name.trim().is_empty());
        return known.unwrap_or_else(|| format!("{here} {:?}", device.major_minor));
    }
    // An unnamed file belongs to this host alone.
    let Some(stat) = stat.filter(|stat| stat.st_nlink > 0) else { return String::new() };
    let source = facts.mount_source.unwrap_or_default();
    // A server presents the same inode numbers to all clients.
    let is_served = match facts.class {
        FilesystemClass::Network | FilesystemClass::HostShare => true,
        FilesystemClass::UserSpace => !source.starts_with("/dev/"),
        _ => false,
    };
    let place = if is_served { source } else { format!("{here} {:x}", stat.st_dev) };
    format!("{place} inode {}", stat.st_ino)
}
