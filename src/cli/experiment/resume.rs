//! Resumes an experiment if nothing has changed that its cells depend on.

use serde_json::json;

use super::ResumeArgs;
use super::execution::{session, size};
use super::folder;
use super::resolved_target::{TargetOptions, resolve_target};
use crate::cli::consent::ConsentArgs;
use crate::cli::exit::{About, Exit, Failure, environment, wrong};
use crate::cli::keep::Keeper;
use crate::cli::output::note;
use crate::cli::place::Place;
use crate::cli::report::read_manifest;
use iosonde_model::record::RunFolder;
use iosonde_model::record::checksums::{Altered, Change, alterations};
use iosonde_model::record::experiment::{ExperimentRun, RequestedTarget};
use iosonde_model::record::experiment_folder::ExperimentFolder;
use iosonde_model::units::bytes;

/// `experiment resume`.
pub(super) fn resume(args: &ResumeArgs, words: &[String]) -> Result<Exit, Failure> {
    args.common.output_format.supports("experiment resume")?;
    let altered = args.accept.read_to_resume(&args.folder)?;
    if RunFolder::is_in_use(&args.folder) {
        return Err(environment(format!(
            "{}: another command is writing to it",
            args.folder.display()
        )));
    }
    let place = Place::find()?;
    let old = ExperimentFolder::open(&args.folder).map_err(wrong)?;
    let limit_bytes = size("--max-written", &args.max_written)?;
    let max_written_bytes = limit_bytes.or(old.run.max_written_bytes);
    let run = ExperimentRun { max_written_bytes, ..old.run.clone() };
    let lost = lost_runs(&old, &altered)?;
    if lost.is_empty() && nothing_missing(&old)? {
        return Err(wrong(format!(
            "`{}` is complete: nothing to resume; `iosonde report` shows the report",
            args.folder.display()
        )));
    }
    // Same path and size, regardless of current directory and free space.
    let known = !run.target.place.is_empty();
    let target = RequestedTarget {
        path: if known { run.target.place.clone() } else { run.target.path.clone() },
        bytes: run.target.used_bytes,
        ..run.target.clone()
    };
    let options = TargetOptions {
        target: &target,
        consent: &args.consent,
        results: args.folder.parent(),
        usual_bytes: run.experiment.size,
        seed: run.seed,
        dry_run: false,
        was_written: Some(run.target.is_laid_out),
    };
    let resolved = resolve_target(&options, &place).map_err(|failure| as_before(failure, args))?;
    let found = resolved.found(&target, &place);
    same_way(&run.target, &found)?;
    if !is_same_device(&run.target, &found) || found.used_bytes != run.target.used_bytes {
        return Err(wrong(format!(
            "the experiment was started on {}, {}, but `{}` is now on {}, {}: one cell would mix \
             runs of both; start a new experiment",
            named(&run.target),
            bytes::exact(run.target.used_bytes),
            target.path,
            named(&found),
            bytes::exact(found.used_bytes),
        )));
    }
    let mut keeper = Keeper::reopen(&args.folder, "experiment", words).map_err(environment)?;
    // Reopening may have renamed the folder.
    let old = ExperimentFolder::open(keeper.path().unwrap_or(&args.folder)).unwrap_or(old);
    keeper.keep_undo(resolved.held.as_ref().map_or(&[], |held| &held.undo))?;
    // The manifest of a complete experiment no longer says so.
    keeper.announce();
    for Altered { name, change } in lost {
        let how = if change == Change::Missing { "gone" } else { "set aside" };
        note(&format!("warning: {name} is {how}, and carried out again"));
        keeper.set_aside(&name).or_environment(&name)?;
    }
    keeper.log(&json!({ "event": "resumed", "command": words }));
    let study = folder::begun(run, old.host.clone().or_else(|| Some(place.host.clone())));
    session(&place, resolved, keeper, (study, altered), &args.common)?.execute(Some(&old))
}

/// Runs that are missing or altered, if that was accepted: they are repeated, not evaluated.
fn lost_runs(old: &ExperimentFolder, accepted: &[String]) -> Result<Vec<Altered>, Failure> {
    if accepted.is_empty() {
        return Ok(Vec::new());
    }
    let altered = alterations(old.path()).map_err(wrong)?.into_iter();
    let is_lost = |change: &Change| matches!(change, Change::Content { .. } | Change::Missing);
    let is_run = |each: &Altered| each.name.starts_with("trials/") && is_lost(&each.change);
    Ok(altered.filter(is_run).collect())
}

/// Whether the first command had a consent to write and this one lacks it.
fn lacks_consent(args: &ResumeArgs) -> bool {
    let first = read_manifest(&args.folder).ok().flatten();
    !args.consent.is_given() && first.is_some_and(|first| ConsentArgs::is_in(&first.command))
}

/// Adds a hint to a refusal: without the first command's consent, cells would stay missing.
fn as_before(failure: Failure, args: &ResumeArgs) -> Failure {
    if failure.exit != Exit::Refused || !lacks_consent(args) {
        return failure;
    }
    let folder = args.folder.display();
    let hint = failure.hint.as_ref().map_or(String::new(), |hint| format!("{hint}; "));
    failure.hinting(format!(
        "{hint}the experiment was begun with consent to write: give the same option to `iosonde \
         experiment resume {folder}`; nothing was changed"
    ))
}

/// Whether the device is the same, under any name.
fn is_same_device(before: &RequestedTarget, now: &RequestedTarget) -> bool {
    match before.device_identity.is_empty() || now.device_identity.is_empty() {
        true => before.device == now.device,
        false => before.device_identity == now.device_identity,
    }
}

/// Name of the device for a message.
fn named(target: &RequestedTarget) -> String {
    match target.device_identity.is_empty() {
        true => target.device.clone(),
        false => format!("{} ({})", target.device, target.device_identity),
    }
}

/// Refuses another engine or cache mode, since a cell must not mix runs of both.
fn same_way(before: &RequestedTarget, now: &RequestedTarget) -> Result<(), Failure> {
    // Older programs did not store it.
    if before.used_engine.is_empty() {
        return Ok(());
    }
    let way = |target: &RequestedTarget| {
        let cache =
            if target.direct { "bypassing the page cache" } else { "through the page cache" };
        format!("{} {cache}", target.used_engine)
    };
    if way(before) == way(now) {
        return Ok(());
    }
    Err(wrong(format!(
        "the experiment was begun with {}, and here it would go on with {}: one cell would mix \
         runs of both; `iosonde doctor` says what is missing here. Nothing was changed",
        way(before),
        way(now)
    )))
}

/// Whether a folder is complete, so that nothing is left to run.
fn nothing_missing(old: &ExperimentFolder) -> Result<bool, Failure> {
    let manifest = read_manifest(old.path())?;
    Ok(manifest.is_some_and(|manifest| manifest.complete))
}
