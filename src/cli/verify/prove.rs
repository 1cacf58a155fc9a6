//! The modes that write: flush, pipeline, soak, write, powercut.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::options::{ProveArgs, Request};
use super::phases::Phases;
use super::print::{conclude, dry_run};
use super::resolved_target::{ResolvedTarget, Trims};
use crate::cli::exit::{About, Exit, Failure, wrong};
use crate::cli::keep::Keeper;
use crate::cli::output::{Output, note};
use crate::cli::place::{self, Place};
use iosonde_engine::backend::fault::FaultLog;
use iosonde_engine::engine::verify::{FlushObserver, Journal, RunInputs};
use iosonde_engine::engine::waits::Wait;
use iosonde_engine::host::{ANSWER_WITHIN, Witness};
use iosonde_model::plan::verify::STREAM_VERSION;
use iosonde_model::plan::{Engine, RunId, VerifyMode, VerifyPlan, VerifySetting};
use iosonde_model::record::VerifyRun;
use iosonde_model::record::ledger_file::{
    LEDGER_SCHEMA, LedgerHeader, LedgerWriter, Progress as Noted,
};
use iosonde_model::record::run::Outcome;
use iosonde_model::record::witness_log::Line;

/// Writes without reading back; `verify check` reads later: after a remount, a reboot, a kill, or
/// on another host.
///
/// A file that does not exist is created with --size, and is kept.
///
/// Examples:
///   iosonde verify write data.img --size 1g --ledger data.ledger --runtime 30
///   iosonde verify check data.img --ledger data.ledger
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(super) struct WriteArgs {
    /// File that records the progress of writing; it must not exist, and must not be on the target
    #[arg(long, value_name = "FILE")]
    ledger: PathBuf,
    /// Sync the ledger before every write that it announces: slow, and needed only if the host of
    /// the ledger may lose power
    #[arg(long)]
    ledger_sync: bool,
    #[command(flatten)]
    pub(super) prove: ProveArgs,
}

/// Writes, and reports to a witness before and after every flush, until the power is cut.
///
/// The witness is a command with a line protocol on stdin and stdout, preferably on another host:
/// `iosonde verify witness --log FILE`. Data reported to it as flushed must survive; `verify check
/// --witness-log FILE` checks exactly that. A kill, a reboot, or stopping a virtual machine is not
/// a power cut: caches survive.
///
/// Examples:
///   iosonde verify powercut data.img --size 1g --witness 'ssh host iosonde verify witness --log w'
///   iosonde verify check data.img --witness-log w
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(super) struct PowerCutArgs {
    /// The witness, a shell command line
    #[arg(long, value_name = "COMMAND")]
    witness: String,
    #[command(flatten)]
    pub(super) prove: ProveArgs,
}

/// Record of a run that outlives its process.
enum Memory<'a> {
    Nobody,
    Ledger { path: &'a Path, synced: bool },
    Witness(&'a str),
}

impl Memory<'_> {
    /// Checks before anything is created that the ledger is a new file and not the target.
    fn can_be_made(&self, target: &Path) -> Result<(), Failure> {
        let Memory::Ledger { path, .. } = self else { return Ok(()) };
        let path = path.display();
        if self.is_at(target) {
            return Err(wrong(format!(
                "--ledger `{path}` is the target itself: give another name"
            )));
        }
        if self.exists() {
            return Err(wrong(format!(
                "--ledger `{path}` exists: a ledger is never overwritten; use another name"
            )));
        }
        Ok(())
    }

    fn is_at(&self, target: &Path) -> bool {
        let absolute = |path: &Path| std::path::absolute(path).ok();
        matches!(self, Memory::Ledger { path, .. } if absolute(path) == absolute(target))
    }

    fn exists(&self) -> bool {
        matches!(self, Memory::Ledger { path, .. } if path.symlink_metadata().is_ok())
    }
}

/// Runs `flush`, `pipeline` or `soak`.
pub(super) fn at_once(
    args: &ProveArgs,
    mode: VerifyMode,
    words: &[String],
) -> Result<Exit, Failure> {
    run(args, mode, &Memory::Nobody, words)
}

/// Runs `write`.
pub(super) fn write(args: &WriteArgs, words: &[String]) -> Result<Exit, Failure> {
    let memory = Memory::Ledger { path: &args.ledger, synced: args.ledger_sync };
    run(&args.prove, VerifyMode::Write, &memory, words)
}

/// Runs `powercut`.
pub(super) fn power_cut(args: &PowerCutArgs, words: &[String]) -> Result<Exit, Failure> {
    run(&args.prove, VerifyMode::PowerCut, &Memory::Witness(&args.witness), words)
}

fn run(
    args: &ProveArgs,
    mode: VerifyMode,
    memory: &Memory<'_>,
    words: &[String],
) -> Result<Exit, Failure> {
    args.result.output_format.supports("verify")?;
    let requested = args.requested(mode)?;
    let eta_interval_ns = args.eta_interval_ns()?;
    let path = args.path()?;
    memory.can_be_made(&path)?;
    let opening = Wait::begin("opening", path.to_string_lossy());
    let engine = args.engine_for(&path)?;
    let place = Place::find()?;
    let resolved = args.resolve_target(mode, &engine, &path, &place)?;
    let seed = args.ops.randseed.unwrap_or_else(place::fresh_seed);
    let setting = setting(args, engine, &requested, &resolved, mode, seed, &place);
    let plan = VerifyPlan::resolve(&setting)?;
    args.admit(&resolved.medium, &plan)?;
    drop(opening);
    let output = Output::new(args.result.output_format);
    if args.result.dry_run {
        return dry_run(&plan, output);
    }
    super::selftest_first(seed, &place)?;
    place.admit(resolved.held.as_slice(), true)?;
    let header =
        header(&plan, &resolved, &place, matches!(memory, Memory::Ledger { synced: true, .. }));
    let mut inputs = RunInputs {
        fault: requested.fault.map(|what| (what, FaultLog::default())),
        ..RunInputs::default()
    };
    let writer = journals(memory, &header, &mut inputs)?;
    let witness = hello(memory, header, &mut inputs)?;
    let fresh = resolved.fresh;
    let mut keeper = Keeper::open(args.result.results.as_deref(), "verify", words);
    keeper.keep_undo(resolved.held.as_ref().map_or(&[], |held| &held.undo))?;
    let context = place.context(resolved.held, resolved.medium);
    keeper.keep("host.json", &place.host);
    let phases = Phases::new(eta_interval_ns, &plan);
    if let Some(fresh) = fresh {
        fresh.keep();
        note(&format!("`{}` is created, and is kept", path.display()));
    }
    let run = phases.prove(inputs, &context, None)?;
    let kept = end_ledger(writer, &run);
    let ended = witness.map_or(Ok(()), |witness| say_goodbye(&witness, &run));
    let exit = conclude(&run, words, output, keeper);
    // A failure of the ledger or the witness does not suppress the result.
    let failures = [kept, ended].into_iter().filter_map(Result::err);
    Ok(failures.fold(exit, |exit, failure| {
        note(&format!("error: {}", failure.message));
        exit.or_graver(failure.exit)
    }))
}

fn setting(
    args: &ProveArgs,
    engine: Engine,
    requested: &Request,
    resolved: &ResolvedTarget,
    mode: VerifyMode,
    seed: u64,
    place: &Place,
) -> VerifySetting {
    let usual_depth = if engine.kind.is_synchronous() { 1 } else { 16 };
    if requested.trim_percent.is_none() && resolved.trims == Trims::NotByRing {
        note(
            "note: no trims: the io_uring of this kernel cannot discard on a block device, which \
             needs Linux 6.12; --ioengine psync can",
        );
    }
    let usual_trims = if resolved.trims == Trims::Yes && !args.ops.overlap { 5 } else { 0 };
    VerifySetting {
        mode,
        run: fresh_run(),
        engine,
        target: resolved.target.clone(),
        offset_bytes: resolved.offset_bytes,
        jobs: args.ops.numjobs,
        overlap: args.ops.overlap,
        iodepth: args.engine.iodepth.unwrap_or(usual_depth),
        block_bytes: requested.block_bytes,
        sector_bytes: resolved.sector_bytes,
        blocks: requested.blocks,
        read_percent: requested.read_percent,
        trim_percent: requested.trim_percent.unwrap_or(usual_trims),
        flush_every: requested.flush_every,
        passes: requested.passes,
        ops: requested.ops,
        only_job: requested.only_job,
        length_ns: requested.length_ns,
        written_bytes: requested.written_bytes,
        delay_ns: requested.delay_ns,
        trims_make_zeros: resolved.trims_make_zeros,
        begins_as_zeros: resolved.begins_as_zeros,
        seed,
        cpus: place.cpus(),
        memory_limit_bytes: place.buffer_limit_bytes().saturating_mul(2),
    }
}

/// A new random identity of a run, independent of the seed.
fn fresh_run() -> RunId {
    let mut random = [0u8; 16];
    let drawn = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    match drawn {
        Ok(16) => RunId(u128::from_le_bytes(random)),
        _ => RunId(u128::from(place::fresh_seed()) << 64 | u128::from(place::fresh_seed())),
    }
}

fn header(
    plan: &VerifyPlan,
    resolved: &ResolvedTarget,
    place: &Place,
    synced: bool,
) -> LedgerHeader {
    let jobs = &plan.plan.jobs;
    let region_start = jobs.first().map_or(0, |job| job.region_start);
    LedgerHeader {
        schema: LEDGER_SCHEMA.into(),
        program: env!("CARGO_PKG_VERSION").into(),
        run_id: plan.run,
        stream_version: STREAM_VERSION,
        jobs: jobs.len() as u32,
        block_bytes: plan.block_bytes.into(),
        sector_bytes: plan.sector_bytes.into(),
        target: plan.plan.target().path.clone(),
        identity: resolved.identity.clone(),
        target_bytes: resolved.held.as_ref().map_or(plan.plan.target().bytes, |held| held.bytes),
        region_start,
        region_bytes: plan.blocks() * u64::from(plan.block_bytes),
        boot_id: super::boot_id(place),
        created_unix_ns: iosonde_sys::clock::realtime_ns(),
        synced,
        plan: serde_json::to_value(plan).unwrap_or_default(),
    }
}

/// Creates the ledger, with a part for every job.
fn journals(
    memory: &Memory<'_>,
    header: &LedgerHeader,
    inputs: &mut RunInputs,
) -> Result<Option<LedgerWriter>, Failure> {
    let Memory::Ledger { path, .. } = memory else { return Ok(None) };
    let (writer, jobs) = LedgerWriter::create(path, header).map_err(|error| {
        let exists = error.kind() == std::io::ErrorKind::AlreadyExists;
        let fix = if exists { "; a ledger is never overwritten: use another name" } else { "" };
        let exit = if exists { Exit::Usage } else { Exit::Environment };
        Failure::new(exit, format!("--ledger `{}`: {error}{fix}", path.display()))
    })?;
    inputs.journals = jobs.into_iter().map(|job| Box::new(job) as Box<dyn Journal>).collect();
    Ok(Some(writer))
}

/// Starts the witness and sends it the header of the run.
fn hello(
    memory: &Memory<'_>,
    header: LedgerHeader,
    inputs: &mut RunInputs,
) -> Result<Option<Arc<Witness>>, Failure> {
    let Memory::Witness(command) = memory else { return Ok(None) };
    let witness = Arc::new(Witness::start(command, ANSWER_WITHIN).or_environment("--witness")?);
    let line = Line::hello(header).or_environment("--witness")?;
    witness.say(&line).or_environment("--witness")?;
    inputs.flush_observer = Some(Arc::clone(&witness) as Arc<dyn FlushObserver>);
    Ok(Some(witness))
}

/// Records the orderly end of a run in the ledger, unless the run failed.
fn end_ledger(writer: Option<LedgerWriter>, run: &VerifyRun) -> Result<(), Failure> {
    let Some(writer) = writer else { return Ok(()) };
    if matches!(run.outcome, Outcome::Failed { .. }) {
        return Ok(());
    }
    let ends: Vec<Noted> = run.jobs.iter().map(|job| Noted::ended(job.ops, job.ops)).collect();
    writer.finish(&ends).or_environment("--ledger")
}

fn say_goodbye(witness: &Witness, run: &VerifyRun) -> Result<(), Failure> {
    if matches!(run.outcome, Outcome::Failed { .. }) {
        return Ok(());
    }
    witness.end().or_environment("--witness")
}
