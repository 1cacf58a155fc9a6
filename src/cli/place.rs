//! The environment shared by all commands: the machine, the clock, the engine, a seed.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use iosonde_sys::{Clock, ring};

use super::exit::{Exit, Failure, wrong};
use super::hosts::Agent;
use super::output::note;
use super::watchdog;
use crate::schedule::{Peers, RunContext};
use iosonde_engine::backend::uring_cmd::CommandTarget;
use iosonde_engine::engine::{Control, Medium, signal_in};
use iosonde_engine::host::{self, Root};
use iosonde_engine::target::{Direct, Held};
use iosonde_model::plan::{Engine, EngineKind, OnError, Setting, Stop, Target};
use iosonde_model::record::HostFacts;
use iosonde_model::record::hosts::TargetIdentity;
use iosonde_model::units::bytes;

/// The machine as found by a command.
pub(crate) struct Place {
    pub(crate) root: Root,
    pub(crate) host: HostFacts,
    pub(crate) clock: Clock,
    pub(crate) signal: Arc<AtomicUsize>,
    /// The connection to the other hosts that run the same command.
    agent: Option<Arc<Agent>>,
}

impl Place {
    /// Collects the facts. From now on the verb must end by itself after a signal.
    pub(crate) fn find() -> Result<Place, Failure> {
        let signal = watchdog::heed();
        let root = Root::system();
        let host = host::facts(&root);
        let clock = clock(&host);
        let agent = Agent::find(&signal)?;
        Ok(Place { root, host, clock, signal, agent })
    }

    /// With other hosts: waits until the command may begin to write on all of them.
    ///
    /// # Errors
    /// If another host cannot take part, or after a signal.
    pub(crate) fn admit(&self, targets: &[Held], writes: bool) -> Result<(), Failure> {
        self.agent.as_ref().map_or(Ok(()), |agent| agent.admit(&self.root, targets, writes))
    }

    /// Like [`Place::admit`], for targets that are opened later.
    ///
    /// # Errors
    /// As [`Place::admit`].
    pub(crate) fn admit_named(&self, targets: Vec<TargetIdentity>) -> Result<(), Failure> {
        self.agent.as_ref().map_or(Ok(()), |agent| agent.admit_named(targets))
    }

    /// Whether the same command runs on other hosts.
    pub(crate) fn has_peers(&self) -> bool {
        self.agent.is_some()
    }

    /// The context with every run starting at the same time on all hosts.
    pub(crate) fn together(&self, context: RunContext) -> RunContext {
        let peers = self.agent.clone().map(|agent| agent as Arc<dyn Peers>);
        RunContext { peers, ..context }
    }

    /// The context for running plans on this target.
    pub(crate) fn context(&self, held: Option<Held>, medium: Medium) -> RunContext {
        RunContext {
            root: self.root.clone(),
            clock: self.clock,
            held,
            medium,
            control: Arc::new(Control::new(Arc::clone(&self.signal))),
            last_end: Arc::default(),
            keeps_cache: false,
            peers: None,
        }
    }

    /// Number of CPUs to scale to: allowed CPUs within the cgroup's quota, at most 64.
    pub(crate) fn cpus(&self) -> u32 {
        self.host.cpus_allowed.or(self.host.cpus_online).unwrap_or(1).clamp(1, 64)
    }

    /// A quarter of the available memory, bytes; 256 MiB if unknown.
    pub(crate) fn buffer_limit_bytes(&self) -> u64 {
        self.host.memory_available_bytes.map_or(256 << 20, |bytes| bytes / 4)
    }

    /// The default setting: all of these targets, one request in flight, no further options.
    pub(crate) fn setting(&self, engine: Engine, targets: Vec<Target>, seed: u64) -> Setting {
        Setting {
            engine,
            targets,
            offset_bytes: 0,
            cpus: self.cpus(),
            iodepth: 1,
            seed,
            warmup_ns: 0,
            stop: Stop::AfterNs(1),
            on_error: OnError::Stop,
            final_sync: false,
            buffer_limit_bytes: self.buffer_limit_bytes(),
        }
    }

    /// Whether a signal has requested termination.
    pub(crate) fn interrupted(&self) -> Option<i32> {
        signal_in(&self.signal)
    }

    /// The end by that signal, or `Exit::Done`.
    pub(crate) fn end(&self) -> Exit {
        self.interrupted().map_or(Exit::Done, Exit::Signal)
    }
}

/// Checks that a region lies within a target of `available` bytes.
pub(crate) fn contains(available: u64, start: u64, end: u64, what: &str) -> Result<(), Failure> {
    let has = bytes::exact(available);
    if available == 0 {
        return Err(wrong(format!("{what} has 0 B: there is nothing to read or write")));
    }
    if start >= available {
        let found = bytes::exact(start);
        return Err(wrong(format!("--offset: found {found}, but {what} has {has}")));
    }
    if end > available {
        let reach = bytes::exact(end);
        return Err(wrong(format!("--size and --offset reach to {reach}, but {what} has {has}")));
    }
    Ok(())
}

/// The direct I/O mode for the value of `--direct`.
pub(crate) fn direct(word: Option<&str>) -> Direct {
    match word {
        Some("0") => Direct::Never,
        Some(_) => Direct::Demanded,
        None => Direct::Preferred,
    }
}

/// The help of `--ioengine` with these engines.
pub(crate) fn engine_help(engines: impl Iterator<Item = EngineKind>) -> String {
    format!(
        "{}; `iosonde run --enghelp` says what each is for [default: virtio-blk-vhost-user if the \
         target is a socket, else io_uring]",
        EngineKind::either_of(engines)
    )
}

/// The default engine for these targets. A socket is taken for that of a vhost-user server.
pub(crate) fn engine_for(targets: &[impl AsRef<Path>]) -> Engine {
    let is_socket = |facts: std::fs::Metadata| facts.file_type().is_socket();
    match targets.iter().any(|path| path.as_ref().metadata().is_ok_and(is_socket)) {
        true => Engine::of(EngineKind::VhostUser),
        false => default_engine(),
    }
}

/// Prints the destination of a symbolic link.
pub(crate) fn print_link(held: &Held) {
    if let Some(leads_to) = &held.leads_to {
        note(&format!("`{}` leads to `{}`", held.path.display(), leads_to.display()));
    }
}

/// The medium of these targets: the files or, for NVMe generic devices, their namespaces.
pub(crate) fn medium(all: &[Held]) -> Medium {
    let commanded = |held: &Held| {
        let (namespace, block) = (held.namespace.clone()?, Arc::clone(&held.file));
        Some(CommandTarget { namespace, block })
    };
    match all.iter().map(commanded).collect() {
        Some(targets) if !all.is_empty() => Medium::Nvme(targets),
        _ => Medium::Files(all.iter().map(|held| Arc::clone(&held.file)).collect()),
    }
}

/// The TSC if it is invariant and the kernel itself uses it, otherwise CLOCK_MONOTONIC.
fn clock(host: &HostFacts) -> Clock {
    if host.invariant_tsc == Some(true) && host.clocksource.as_deref() == Some("tsc") {
        Clock::tsc()
    } else {
        Clock::monotonic()
    }
}

/// io_uring, or if it is blocked, one synchronous thread per request in flight, with the reason.
pub(crate) fn default_engine() -> Engine {
    let (kind, chosen_because) = match ring::probe() {
        Ok(()) => (EngineKind::IoUring, String::new()),
        Err(error) => (
            EngineKind::Psync,
            format!(
                "io_uring cannot be used here ({error}): using one thread per request in flight; \
                 `iosonde doctor` shows how to fix this"
            ),
        ),
    };
    Engine { chosen_because, ..Engine::of(kind) }
}

/// Warns if another engine than the usual one was chosen, with the reason.
pub(crate) fn warn_about(engine: &Engine) {
    if !engine.chosen_because.is_empty() {
        note(&format!("warning: {}", engine.chosen_because));
    }
}

/// A generated seed: printed and stored, so that the run can be repeated.
pub(crate) fn fresh_seed() -> u64 {
    iosonde_model::plan::chance::mix(
        iosonde_sys::clock::realtime_ns() ^ u64::from(std::process::id()),
    )
}
