//! `verify check`: reads back the data of an earlier run.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::options::ProveArgs;
use super::phases::Phases;
use super::print::{conclude, dry_run};
use super::resolved_target::ResolvedTarget;
use crate::cli::exit::{About, Exit, Failure, shown, wrong};
use crate::cli::keep::Keeper;
use crate::cli::output::{Output, note};
use crate::cli::place::Place;
use iosonde_engine::engine::verify::RunInputs;
use iosonde_engine::engine::waits::Wait;
use iosonde_model::content::ledger::{Ledger, Survival};
use iosonde_model::content::outcomes::Outcomes;
use iosonde_model::plan::resolve::MAX_IODEPTH;
use iosonde_model::plan::verify::STREAM_VERSION;
use iosonde_model::plan::{Target, VerifyMode, VerifyPlan};
use iosonde_model::record::ledger_file::{LedgerFile, LedgerHeader, Reader};
use iosonde_model::record::verify::LedgerUse;
use iosonde_model::record::witness_log::WitnessLog;
use iosonde_model::units::bytes;
use iosonde_model::units::count::thousands;

/// Reads back what `verify write` or `verify powercut` wrote, and checks it against the ledger or
/// log of that run. Writes nothing.
///
/// After a normal end, a kill or an interrupt, all acknowledged writes must be present; after a
/// power cut or a crash of the machine, all flushed writes. The ledger determines which applies, if
/// possible; --survived overrides it.
///
/// Examples:
///   iosonde verify check data.img --ledger data.ledger
///   iosonde verify check /dev/nvme1n1 --witness-log w --iodepth 32
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(super) struct CheckArgs {
    /// The ledger written by `verify write`
    #[arg(long, value_name = "FILE", required_unless_present = "witness_log")]
    ledger: Option<PathBuf>,
    /// The log of `verify witness` for `verify powercut`
    #[arg(long, value_name = "FILE", conflicts_with = "ledger")]
    witness_log: Option<PathBuf>,
    /// Which writes must be present
    #[arg(long, value_enum, value_name = "WHAT")]
    survived: Option<Survived>,
    #[command(flatten)]
    pub(super) prove: ProveArgs,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Survived {
    /// All acknowledged writes: at most the process was killed
    Acknowledged,
    /// All flushed writes: the power was cut, or the machine crashed
    Durable,
}

/// Records of the run that wrote.
struct Known {
    header: LedgerHeader,
    plan: VerifyPlan,
    ledgers: Vec<Ledger>,
    /// Replaces the ledgers if all jobs wrote one region.
    outcomes: Option<Outcomes>,
    used: LedgerUse,
}

/// Runs `verify check`.
pub(super) fn check(args: &CheckArgs, words: &[String]) -> Result<Exit, Failure> {
    let prove_args = &args.prove;
    prove_args.result.output_format.supports("verify check")?;
    let eta_interval_ns = prove_args.eta_interval_ns()?;
    let path = prove_args.path()?;
    let place = Place::find()?;
    let known = known(args, &place)?;
    let opening = Wait::begin("opening", path.to_string_lossy());
    let engine = prove_args.engine_for(&path)?;
    let resolved = prove_args.resolve_target(VerifyMode::Check, &engine, &path, &place)?;
    warn_other_name(&known.header, &resolved);
    let memory_limit_bytes = place.buffer_limit_bytes().saturating_mul(2);
    let plan = plan_of_check(prove_args, &known, &resolved, engine, memory_limit_bytes)?;
    prove_args.admit(&resolved.medium, &plan)?;
    drop(opening);
    let output = Output::new(prove_args.result.output_format);
    if prove_args.result.dry_run {
        return dry_run(&plan, output);
    }
    known.used.notes.iter().for_each(|line| note(&format!("warning: {line}")));
    super::selftest_first(plan.plan.seed, &place)?;
    let survival = match known.used.durable_only {
        true => Survival::Durable,
        false => Survival::Acknowledged,
    };
    let inputs = RunInputs {
        ledgers: known.ledgers,
        outcomes: known.outcomes,
        survival: Some(survival),
        ..RunInputs::default()
    };
    place.admit(resolved.held.as_slice(), false)?;
    let context = place.context(resolved.held, resolved.medium);
    let mut keeper = Keeper::open(prove_args.result.results.as_deref(), "verify", words);
    keeper.keep("host.json", &place.host);
    let run = Phases::new(eta_interval_ns, &plan).prove(inputs, &context, Some(known.used))?;
    Ok(conclude(&run, words, output, keeper))
}

fn known(args: &CheckArgs, place: &Place) -> Result<Known, Failure> {
    let memory = args.ledger.as_ref().or(args.witness_log.as_ref());
    let _reading = memory.map(|path| Wait::begin("reading", path.to_string_lossy()));
    match (&args.ledger, &args.witness_log) {
        (Some(path), _) => from_ledger(path, args.survived, place),
        (None, Some(path)) => from_witness(path, args.survived, place),
        (None, None) => Err(wrong("--ledger or --witness-log is missing")),
    }
}

fn from_ledger(path: &Path, requested: Option<Survived>, place: &Place) -> Result<Known, Failure> {
    let boot_id = super::boot_id(place);
    let reader = Reader { stream_version: STREAM_VERSION, boot_id: boot_id.as_deref() };
    let about = format!("--ledger {}", shown(path));
    let file = LedgerFile::read(path, &reader).or_wrong(&about)?;
    let plan: VerifyPlan = file.header.plan().or_wrong(&about)?;
    sound(path, &plan, &file.header, file.jobs.len(), place)?;
    let ended = file.ended();
    let same_boot = file.header.boot_id == boot_id && boot_id.is_some();
    let durable_only = match requested {
        Some(requested) => requested == Survived::Durable,
        None => !ended && !same_boot,
    };
    let mut notes = file.notes.clone();
    if requested.is_none() && durable_only {
        notes.push(
            "the run did not end normally, and the machine has been rebooted since: only flushed \
             data is required (--survived acknowledged requires more)"
                .into(),
        );
    }
    let survival = if durable_only { Survival::Durable } else { Survival::Acknowledged };
    let outcomes = plan.overlaps().then(|| file.outcomes(&plan, survival));
    let own = (0..).zip(&file.jobs).filter(|_| !plan.overlaps());
    Ok(Known {
        ledgers: own.map(|(job, progress)| progress.ledger(&plan, job)).collect(),
        outcomes,
        used: LedgerUse {
            path: path.to_string_lossy().into_owned(),
            created_unix_ns: file.header.created_unix_ns,
            ended,
            durable_only,
            notes,
        },
        header: file.header,
        plan,
    })
}

fn from_witness(path: &Path, requested: Option<Survived>, place: &Place) -> Result<Known, Failure> {
    if requested == Some(Survived::Acknowledged) {
        return Err(wrong("--survived acknowledged: a witness knows only flushed data; omit it"));
    }
    let about = format!("--witness-log {}", shown(path));
    let log = WitnessLog::read(path, STREAM_VERSION).or_wrong(&about)?;
    let plan: VerifyPlan = log.header.plan().or_wrong(&about)?;
    sound(path, &plan, &log.header, log.jobs.len(), place)?;
    let ledgers = (0..).zip(&log.jobs).map(|(job, seen)| seen.ledger(&plan, job)).collect();
    Ok(Known {
        ledgers,
        outcomes: None,
        used: LedgerUse {
            path: path.to_string_lossy().into_owned(),
            created_unix_ns: log.header.created_unix_ns,
            ended: log.ended,
            durable_only: true,
            notes: log.notes.clone(),
        },
        header: log.header,
        plan,
    })
}

/// Checks that this program could have made the plan, and that the plan agrees with its header: no
/// other plan is replayed.
fn sound(
    path: &Path,
    plan: &VerifyPlan,
    header: &LedgerHeader,
    jobs: usize,
    place: &Place,
) -> Result<(), Failure> {
    let region_start = plan.plan.jobs.first().map_or(0, |job| job.region_start);
    let agrees = plan.run == header.run_id
        && u64::from(plan.block_bytes) == header.block_bytes
        && u64::from(plan.sector_bytes) == header.sector_bytes
        && plan.plan.jobs.len() == jobs
        && region_start == header.region_start;
    let wrong_with = plan.contradiction().or((!agrees).then_some("another run than its header"));
    if let Some(what) = wrong_with {
        return Err(wrong(format!("`{}`: its plan has {what}", path.display())));
    }
    if plan.blocks().saturating_mul(plan.block_bytes.into()) != header.region_bytes {
        return Err(wrong(format!(
            "`{}` contradicts itself: its plan has {} blocks of {} B, its header {} B; give \
             another copy, or write again",
            path.display(),
            plan.blocks(),
            plan.block_bytes,
            header.region_bytes
        )));
    }
    let limit_bytes = place.buffer_limit_bytes().saturating_mul(2);
    Ok(plan.fits_into(limit_bytes)?)
}

/// Warns if the target's name differs: it may be another target.
fn warn_other_name(header: &LedgerHeader, resolved: &ResolvedTarget) {
    if header.target != resolved.target.path {
        let (written, read) = (&header.target, &resolved.target.path);
        note(&format!("warning: `{written}` was written, and `{read}` is read"));
    }
}

/// Refuses a target that has become too small. Data missing at its end is corruption, not wrong
/// usage.
fn is_all_there(header: &LedgerHeader, path: &str, has_bytes: u64) -> Result<(), Failure> {
    let (then_bytes, end_bytes) = (header.target_bytes, header.region_end());
    let (then, now) = (bytes::exact(then_bytes), bytes::exact(has_bytes));
    if has_bytes < end_bytes {
        let missing_bytes = (end_bytes - has_bytes).min(header.region_bytes);
        let blocks = missing_bytes.div_ceil(header.block_bytes);
        let message = format!(
            "`{path}` has {now}, and had {then} when it was written: {} of {} blocks are missing, \
             {}, unless another target was written; nothing was read",
            thousands(blocks),
            thousands(header.region_bytes / header.block_bytes),
            bytes::exact(missing_bytes),
        );
        return Err(Failure::new(Exit::Corrupt, message));
    }
    if has_bytes != then_bytes {
        note(&format!(
            "note: `{path}` has {now}, and had {then} when it was written; all that was written \
             lies within both"
        ));
    }
    Ok(())
}

/// Plan of the run that wrote, adapted to reading this target with this engine.
fn plan_of_check(
    args: &ProveArgs,
    known: &Known,
    resolved: &ResolvedTarget,
    engine: iosonde_model::plan::Engine,
    memory_limit_bytes: u64,
) -> Result<VerifyPlan, Failure> {
    let has = resolved.held.as_ref().map_or(resolved.target.bytes, |held| held.bytes);
    let logical = if resolved.target.align_bytes > 1 { resolved.target.align_bytes } else { 512 };
    is_all_there(&known.header, &resolved.target.path, has)?;
    known.header.fits(logical).or_wrong("--ledger")?;
    let mut plan = known.plan.clone();
    plan.mode = VerifyMode::Check;
    plan.trims_make_zeros &= resolved.trims_make_zeros;
    plan.begins_as_zeros &= resolved.trims_make_zeros;
    plan.delay_ns = 0;
    plan.plan.title = "Verify: check".into();
    plan.plan.name = "verify-check".into();
    let bytes = plan.plan.target().bytes.min(resolved.target.bytes);
    plan.plan.targets = vec![Target { bytes, ..resolved.target.clone() }];
    let usual = if engine.kind.is_synchronous() { 1 } else { 16 };
    let iodepth = args.engine.iodepth.unwrap_or(usual);
    if engine.kind.is_synchronous() && iodepth != 1 {
        let engine = engine.kind.name();
        return Err(iosonde_model::plan::Refusal::Depth { engine, found: iodepth }.into());
    }
    if !(1..=MAX_IODEPTH).contains(&iodepth) {
        return Err(wrong(format!("--iodepth: found {iodepth}, expected 1 to {MAX_IODEPTH}")));
    }
    for job in &mut plan.plan.jobs {
        job.iodepth = iodepth;
        job.read_percent = 100;
        job.trims = false;
        job.sync.every_writes = 0;
    }
    plan.plan.engine = engine;
    plan.fits_into(memory_limit_bytes)?;
    Ok(plan)
}
