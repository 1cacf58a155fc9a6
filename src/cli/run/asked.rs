//! What was asked of `run`, understood.

use super::RunArgs;
use crate::analysis::expectation::Expectation;
use crate::backend::BACKENDS;
use crate::cli::exit::{Exit, Failure};
use crate::cli::place;
use crate::plan::{Engine, EngineKind, Stop};
use crate::spec::Rw;
use crate::target::Direct;
use crate::units::{bytes, count, duration};

/// Longest time that can be asked for: sums of a few of them stay far from 64 bits.
const LONGEST_NS: u64 = 8760 * 3_600_000_000_000;

/// Percentage of reads of a mixed load where none is given.
const MIX_PERCENT: u8 = 50;
/// What was asked, understood.
pub(super) struct Asked {
    pub(super) rw: Rw,
    pub(super) block_bytes: u64,
    pub(super) stop: Stop,
    pub(super) warmup_ns: u64,
    pub(super) size_bytes: Option<u64>,
    pub(super) offset_bytes: u64,
    pub(super) eta_interval_ns: u64,
    pub(super) direct: Direct,
    pub(super) engine: Engine,
    pub(super) expectations: Vec<Expectation>,
    /// Percentage of reads of a mixed load.
    pub(super) mix: u8,
}

/// Understands the command line, or says what in it cannot be.
pub(super) fn understand(args: &RunArgs) -> Result<Asked, Failure> {
    let size = |option: &str, text: &str| {
        bytes::parse(text).map_err(|error| Failure::value(option, &error))
    };
    let time = |option: &str, text: &str| {
        let ns =
            duration::parse(text, 1_000_000_000).map_err(|error| Failure::value(option, &error))?;
        if ns <= LONGEST_NS {
            return Ok(ns);
        }
        let message = format!("{option}: found `{text}`, expected at most a year (8760h)");
        Err(Failure::new(Exit::Asked, message))
    };
    let stop = match args.number_ios {
        Some(ops) => Stop::AfterOps(ops),
        None => Stop::AfterNs(time("--runtime", &args.runtime)?),
    };
    if matches!(stop, Stop::AfterNs(0) | Stop::AfterOps(0)) {
        return Err(Failure::new(Exit::Asked, "found a length of 0, expected a positive one"));
    }
    let size_bytes = args.size.as_deref().map(|text| size("--size", text)).transpose()?;
    if size_bytes == Some(0) {
        return Err(Failure::new(Exit::Asked, "--size: found 0, expected at least one block"));
    }
    let mut expectations = Vec::new();
    for text in &args.expect {
        let parsed = Expectation::parse(text, &[])
            .map_err(|error| Failure::new(Exit::Asked, format!("--expect '{text}': {error}")))?;
        expectations.push(parsed);
    }
    let rw = rw(&args.rw)?;
    effective(args, rw)?;
    Ok(Asked {
        rw,
        block_bytes: size("--bs", &args.bs)?,
        stop,
        warmup_ns: time("--ramp-time", &args.ramp_time)?,
        size_bytes,
        offset_bytes: size("--offset", &args.offset)?,
        eta_interval_ns: time("--eta-interval", &args.eta_interval)?,
        direct: match args.direct.as_deref() {
            Some("0") => Direct::Never,
            Some(_) => Direct::Demanded,
            None => Direct::Preferred,
        },
        engine: engine(args)?,
        expectations,
        mix: args.rwmixread.unwrap_or(MIX_PERCENT),
    })
}

fn rw(word: &str) -> Result<Rw, Failure> {
    let known = Rw::WORDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
    known.map(|(_, rw)| *rw).ok_or_else(|| {
        let names = Rw::WORDS.map(|(name, _)| name);
        Failure::new(Exit::Asked, not_one_of("--rw", word, &names))
    })
}

/// What the load leaves without effect is an error, not a silence.
fn effective(args: &RunArgs, rw: Rw) -> Result<(), Failure> {
    let mixed = matches!(rw, Rw::Rw | Rw::RandRw);
    let reads_only = matches!(rw, Rw::Read | Rw::RandRead);
    let idle = [
        ("--rwmixread", args.rwmixread.is_some() && !mixed),
        ("--norandommap", args.norandommap && !rw.is_random()),
        ("--overwrite-file", args.overwrite_file.is_some() && reads_only),
    ];
    let found = idle.iter().find(|(_, idle)| *idle);
    found.map_or(Ok(()), |(option, _)| {
        let message = format!("{option} has no effect with --rw {}", args.rw);
        Err(Failure::new(Exit::Asked, message))
    })
}

fn engine(args: &RunArgs) -> Result<Engine, Failure> {
    let Some(word) = args.ioengine.as_deref() else {
        let engine = place::default_engine();
        return with_modes(args, engine);
    };
    let kinds = [EngineKind::IoUring, EngineKind::Psync, EngineKind::Null, EngineKind::Sim];
    let Some(kind) = kinds.into_iter().find(|kind| kind.word() == word.replace('-', "_")) else {
        let names = BACKENDS.map(|(name, _)| name);
        return Err(Failure::new(Exit::Asked, not_one_of("--ioengine", word, &names)));
    };
    let engine = Engine::of(kind);
    with_modes(args, engine)
}

/// An option that would have no effect is an error, not a silence.
fn with_modes(args: &RunArgs, engine: Engine) -> Result<Engine, Failure> {
    for (option, given) in [("--sqpoll", args.sqpoll), ("--hipri", args.hipri)] {
        if given && engine.kind != EngineKind::IoUring {
            let message = format!("{option} has no effect with the {} engine", engine.kind.word());
            return Err(Failure::new(Exit::Asked, message));
        }
    }
    Ok(Engine { sqpoll: args.sqpoll, iopoll: args.hipri, ..engine })
}

fn not_one_of(option: &str, word: &str, names: &[&str]) -> String {
    let near = count::nearest(word, names.iter().copied());
    let meant = near.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
    format!("{option}: found `{word}`, expected one of {}{meant}", names.join(", "))
}
