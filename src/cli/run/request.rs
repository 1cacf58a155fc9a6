//! Converts the command line of `run` to a request.

use super::RunArgs;
use super::latency::Latency;
use super::resolved_target::ResolvedTarget;
use super::words::{Extent, extent, time, unfit};
use crate::cli::exit::{About, Failure, wrong};
use crate::cli::place;
use crate::cli::share::Share;
use iosonde_analysis::expectation::Expectation;
use iosonde_engine::target::Direct;
use iosonde_model::plan::{Engine, EngineKind, Stop};
use iosonde_model::spec::{Precision, Role, Speed, SpeedError, Threads, Wait, Workload};

/// Percentages of a target are rounded down to a multiple of the block size and of this.
const GRAIN_BYTES: u64 = 4096;

/// The request of a command line.
pub(super) struct Request {
    pub(super) workload: Workload,
    pub(super) stop: Stop,
    pub(super) warmup_ns: u64,
    pub(super) size: Option<Extent>,
    offset: Extent,
    /// Part of the region to use.
    share: Share,
    /// Distance between the first job's region and the last one's, bytes.
    increments_bytes: u64,
    pub(super) eta_interval_ns: u64,
    pub(super) direct: Direct,
    pub(super) engine: Engine,
    pub(super) expectations: Vec<Expectation>,
    pub(super) latency: Option<Latency>,
    pub(super) until: Option<Precision>,
    /// Length of a round with --steady, ns.
    pub(super) steady_round_ns: Option<u64>,
    /// Replay speed of a workload file, if given.
    pub(super) speed: Option<Speed>,
}

/// Converts the command line to a request.
pub(super) fn understand(args: &RunArgs) -> Result<Request, Failure> {
    let target = &args.target;
    let size = target.size.as_deref().map(|text| extent("--size", text)).transpose()?;
    if matches!(size, Some(Extent::Bytes(0) | Extent::Percent(0))) {
        return Err(unfit("--size", target.size.as_deref().unwrap_or(""), "at least one block"));
    }
    let expectations = expectations(&args.run.expect)?;
    let engine = args.engine.engine(&args.target.paths())?;
    let speed = args.speed.as_deref().map(Speed::parse).transpose();
    let speed = speed.map_err(|error| not_so_fast(&error))?;
    let mut workload = match (&args.file, speed) {
        (Some(path), None) => super::file::workload(path)?,
        (Some(path), Some(speed)) => {
            super::file::workload(path)?.at_speed(speed).map_err(|error| not_so_fast(&error))?
        }
        (None, None) => flags(args)?,
        (None, Some(_)) => {
            let message = "--speed has no effect without a workload file; beside --rw give \
                           --rate-iops or --rate";
            return Err(wrong(message));
        }
    };
    // Completions in shared memory are polled, unless another wait mode is requested.
    if engine.kind == EngineKind::VhostUser && args.submit.wait.is_none() {
        workload.roles.iter_mut().for_each(|role| role.reap.wait = Wait::Poll);
    }
    let neighbours = u64::from(args.load.jobs()) - 1;
    let increment_bytes = args.load.increment_bytes()?.unwrap_or(0);
    let requested = Request {
        stop: args.length.stop()?,
        warmup_ns: args.length.warmup_ns()?,
        size,
        offset: extent("--offset", target.offset.as_deref().unwrap_or("0"))?,
        share: Share::parse(target.share.as_deref())?,
        increments_bytes: increment_bytes.saturating_mul(neighbours),
        eta_interval_ns: time("--eta-interval", &args.run.eta_interval, 1_000_000_000)?,
        direct: place::direct(args.engine.direct.as_deref()),
        engine,
        expectations,
        latency: args.latency.latency()?,
        until: args.length.until()?,
        steady_round_ns: args.length.steady_round_ns()?,
        speed,
        workload,
    };
    target.consent.check_kinds()?;
    if !requested.engine.kind.is_real() || !requested.changes() {
        target.consent.none("nothing is written")?;
    }
    Ok(requested)
}

fn not_so_fast(error: &SpeedError) -> Failure {
    let gap = if matches!(error, SpeedError::Malformed { .. }) { ":" } else { "" };
    wrong(format!("--speed{gap} {error}"))
}

/// Parses expectations of the result.
pub(super) fn expectations(rules: &[String]) -> Result<Vec<Expectation>, Failure> {
    let parse =
        |text: &String| Expectation::parse(text, &[]).or_wrong(format!("--expect '{text}'"));
    rules.iter().map(parse).collect()
}

/// Converts the flags to a workload of one role.
fn flags(args: &RunArgs) -> Result<Workload, Failure> {
    let load = args.load.load()?;
    let role = args.submit.onto(args.data.onto(args.pace.onto(load.role)?)?)?;
    Ok(Workload {
        name: "run".into(),
        title: role.rw.word().into(),
        pattern: role.rw.word().into(),
        models: String::new(),
        block_size: load.block_bytes,
        read_percent: load.read_percent,
        roles: vec![role],
    })
}

impl Request {
    /// Whether a role writes or trims.
    fn role_changes(&self, role: &Role) -> bool {
        let usual = self.workload.read_percent;
        let own = role.rw.read_percent(role.read_percent.unwrap_or(usual));
        let mut phases = role.phases.iter().filter_map(|phase| phase.read_percent);
        own < 100 || role.rw.is_mixed() && phases.any(|percent| percent < 100)
    }

    /// Whether the load writes or trims.
    pub(super) fn changes(&self) -> bool {
        self.workload.roles.iter().any(|role| self.role_changes(role))
    }

    /// Whether a role that uses this target writes or trims.
    pub(super) fn changes_target(&self, index: u16) -> bool {
        let uses = |targets: &[u16]| targets.is_empty() || targets.contains(&index);
        let mut roles = self.workload.roles.iter();
        roles.any(|role| uses(&role.targets) && self.role_changes(role))
    }

    /// End of the space that all roles need, if each gives it: the size of a file created for them.
    pub(super) fn needed_bytes(&self) -> Option<u64> {
        let end = |role: &Role| {
            let distances = match role.threads {
                Threads::Count(threads) => u64::from(threads.max(1)) - 1,
                _ if role.offset_increment.is_some() => return None,
                _ => 0,
            };
            let shift = role.offset_increment.unwrap_or(0).checked_mul(distances)?;
            role.size?.checked_add(role.offset.unwrap_or(0))?.checked_add(shift)
        };
        let ends: Option<Vec<u64>> = self.workload.roles.iter().map(end).collect();
        ends?.into_iter().max()
    }

    /// First byte of the region; 0 unless given in bytes.
    pub(super) fn offset_bytes(&self) -> u64 {
        if let Extent::Bytes(offset_bytes) = self.offset { offset_bytes } else { 0 }
    }

    /// First byte and end of the region on a target of this size (`u64::MAX` if it has none).
    pub(super) fn region(&self, available: u64) -> Result<(u64, u64), Failure> {
        let grain_bytes = self.workload.block_size.max(GRAIN_BYTES);
        let length = |extent| match extent {
            Extent::Bytes(length) => Ok(length),
            Extent::Percent(_) if available == u64::MAX => {
                Err(wrong("a percentage of a target without a size; give bytes"))
            }
            Extent::Percent(percent) => {
                let length = u128::from(available) * u128::from(percent) / 100;
                Ok(length as u64 / grain_bytes * grain_bytes)
            }
        };
        let offset_bytes = length(self.offset)?;
        let end_bytes = match self.size {
            None => available,
            Some(size) => {
                offset_bytes.saturating_add(length(size)?).saturating_add(self.increments_bytes)
            }
        };
        Ok((offset_bytes, end_bytes))
    }

    /// First byte and end of the requested part of a region.
    pub(super) fn share_of(&self, offset: u64, end: u64) -> Result<(u64, u64), Failure> {
        if !self.share.is_whole() && self.increments_bytes > 0 {
            return Err(wrong("--share and --offset-increment cannot be combined"));
        }
        self.share.of((offset, end), self.workload.block_size)
    }

    /// The workload on the targets. With increments, each region has the length given by --size.
    pub(super) fn over(&self, resolved: &ResolvedTarget) -> Workload {
        let mut workload = self.workload.clone();
        if self.increments_bytes > 0 && self.size.is_some() {
            let end_bytes = resolved.targets[0].bytes;
            let length = end_bytes - resolved.offset_bytes - self.increments_bytes;
            workload.roles.iter_mut().for_each(|role| role.size = Some(length));
        }
        workload
    }
}
