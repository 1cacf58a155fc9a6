//! Opens or creates the target of an experiment.

use std::path::Path;

use crate::cli::consent::ConsentArgs;
use crate::cli::exit::{About, Exit, Failure, wrong};
use crate::cli::layout;
use crate::cli::output::note;
use crate::cli::place::{self, Place};
use iosonde_engine::backend::sim::Model;
use iosonde_engine::engine::Medium;
use iosonde_engine::engine::waits::Wait;
use iosonde_engine::target::open::{self, Direct};
use iosonde_engine::target::{GateError, Held, Intent, TargetError, purge, write_cache};
use iosonde_model::plan::precondition::{active_range, pass_bytes};
use iosonde_model::plan::{Engine, EngineKind, Plan, Setting, Target};
use iosonde_model::record::experiment::RequestedTarget;
use iosonde_model::record::facts::FilesystemClass;
use iosonde_model::spec::WorksOn;
use iosonde_model::spec::experiment::{Needs, Stage};
use iosonde_model::units::bytes;

/// An opened target.
pub(super) struct ResolvedTarget {
    pub(super) medium: Medium,
    pub(super) held: Option<Held>,
    pub(super) setting: Setting,
    /// Plan that writes the whole region before reads, if writing is allowed.
    pub(super) layout: Option<Plan>,
    /// Why writing is not allowed, if so.
    pub(super) reads_only: Option<String>,
    /// Whether written data persist after the program ends.
    pub(super) keeps_state: bool,
    /// Description of the target.
    pub(super) words: String,
}

impl ResolvedTarget {
    /// The request with the resolved target, so that resuming finds it again.
    pub(super) fn found(&self, requested: &RequestedTarget, place: &Place) -> RequestedTarget {
        // Links are kept: one below /dev/disk/by-id leads to its device under any kernel name.
        let absolute = std::path::absolute(&requested.path);
        let absolute = absolute.map(|path| path.to_string_lossy().into_owned());
        let device = self.held.as_ref().and_then(|held| held.device(&place.root));
        let identity = self.held.as_ref().and_then(|held| held.device_identity(&place.root));
        RequestedTarget {
            place: match self.held {
                Some(_) => absolute.unwrap_or_else(|_| requested.path.clone()),
                None => requested.path.clone(),
            },
            used_bytes: self.setting.targets[0].bytes,
            device: device.map_or("no block device".into(), |device| {
                let size = device.bytes.map_or(String::new(), |bytes| format!(" of {bytes} B"));
                format!("{}{size}", device.name)
            }),
            device_identity: identity
                .map_or(String::new(), |found| format!("{}, {} B", found.id, found.bytes)),
            is_laid_out: self.layout.is_some(),
            used_engine: self.setting.engine.kind.name().into(),
            direct: self.setting.targets[0].direct,
            ..requested.clone()
        }
    }

    /// Whether the target is read-only at present because another process uses it.
    pub(super) fn is_in_use(&self) -> bool {
        self.reads_only.as_deref() == Some(IN_USE)
    }

    /// Bytes that preparing the region writes; 0 if the first stage replaces that.
    pub(super) fn layout_bytes(&self, stages: &[Stage]) -> u64 {
        let layout = self.layout.as_ref().filter(|_| !self.is_written_by_first(stages));
        layout.map_or(0, |layout| layout.target().bytes)
    }

    /// Bytes that preconditioning a stage writes.
    pub(super) fn precondition_bytes(&self, stage: &Stage) -> u64 {
        let Some(precondition) = stage.precondition.as_ref().filter(|_| self.reads_only.is_none())
        else {
            return 0;
        };
        let pass = pass_bytes(precondition, self.active_bytes(stage));
        pass.saturating_mul(u64::from(precondition.passes))
    }

    /// Whether the first stage prepares all that any stage uses: by a purge, or by preconditioning
    /// all of it.
    pub(super) fn is_written_by_first(&self, stages: &[Stage]) -> bool {
        let Some(first) = stages.first() else { return false };
        // A purge removes what was written before it.
        if first.purged().is_some() {
            return true;
        }
        if first.precondition.is_none() {
            return false;
        }
        let written = self.active_bytes(first);
        let runs = matches!(first.needs, Needs::Nothing | Needs::Writing);
        runs && stages.iter().all(|stage| self.active_bytes(stage) <= written)
    }

    /// Checks that the target can be purged, and its write cache switched, as the stages request.
    ///
    /// # Errors
    /// What is impossible, in words.
    pub(super) fn can_prepare(&self, stages: &[Stage], place: &Place) -> Result<(), String> {
        if self.reads_only.is_some() {
            return Ok(());
        }
        for stage in stages {
            let said = |what: &str, why: String| format!("stage `{}`: {what}: {why}", stage.name);
            if let (Some(method), Some(held)) = (stage.purged(), &self.held) {
                let range_bytes = self.active_bytes(stage);
                purge::is_possible(held, &place.root, range_bytes, method)
                    .map_err(|why| said("purge", why))?;
            }
            if let Some(wanted) = stage.write_cache {
                let possible = match &self.held {
                    Some(held) => write_cache::is_possible(held, &place.root),
                    None => Err("the target is not a block device".into()),
                };
                possible.map_err(|why| said(&format!("write-cache = {}", wanted.word()), why))?;
            }
        }
        Ok(())
    }

    fn active_bytes(&self, stage: &Stage) -> u64 {
        active_range(stage, &self.setting).targets[0].bytes
    }
}

/// Options for opening the target.
pub(super) struct TargetOptions<'a> {
    pub(super) target: &'a RequestedTarget,
    pub(super) consent: &'a ConsentArgs,
    pub(super) results: Option<&'a Path>,
    /// Size of a test file, if none was requested.
    pub(super) usual_bytes: Option<u64>,
    pub(super) seed: u64,
    pub(super) dry_run: bool,
    /// For a resumed experiment, whether the earlier runs could write; the others must match.
    pub(super) was_written: Option<bool>,
}

/// Reason for a read-only target that may be writable later.
const IN_USE: &str = "the target is in use by another process";

/// Opens or creates the target.
pub(super) fn resolve_target(
    options: &TargetOptions<'_>,
    place: &Place,
) -> Result<ResolvedTarget, Failure> {
    let _opening = Wait::begin("opening", options.target.path.as_str());
    let engine = engine(options.target.engine.as_deref())?;
    if engine.kind == EngineKind::Sim {
        return simulated(options, place, engine);
    }
    let path = Path::new(&options.target.path);
    options.consent.check_kinds()?;
    let commands = engine.kind == EngineKind::IoUringCmd;
    let (held, is_ours, reads_only) = if path.is_dir() && !commands {
        made(options, path)?
    } else {
        existing(options, path, commands)?
    };
    if let Some(reason) = &held.direct_refused {
        note(&format!("warning: {reason}; I/O goes through the page cache"));
    }
    place::warn_about(&engine);
    let facts = held.describe(&place.root);
    let wanted = if options.target.bytes == 0 { held.bytes } else { options.target.bytes };
    if wanted > held.bytes || held.bytes == u64::MAX {
        return Err(wrong(format!(
            "--size: found {}, but `{}` has {}",
            bytes::exact(wanted),
            path.display(),
            bytes::exact(held.bytes)
        )));
    }
    let target = held.target(&held.path, wanted, &facts);
    let setting = place.setting(engine, vec![target], options.seed);
    let layout = || layout::plan(&setting, &[], setting.engine.clone());
    let layout = reads_only.is_none().then(layout).transpose()?;
    let kind = if is_ours { "test file" } else { "target" };
    let words = format!("{} ({} {kind})", held.path.display(), bytes::exact(wanted));
    let medium = place::medium(std::slice::from_ref(&held));
    let keeps_state = !is_ours;
    Ok(ResolvedTarget { medium, held: Some(held), setting, layout, reads_only, keeps_state, words })
}

fn engine(name: Option<&str>) -> Result<Engine, Failure> {
    let Some(name) = name else { return Ok(place::default_engine()) };
    let possible = |kind: &EngineKind| {
        matches!(kind.works_on(), WorksOn::Files | WorksOn::Namespaces | WorksOn::Simulation)
    };
    let engines: Vec<EngineKind> = EngineKind::all().filter(possible).collect();
    let kind = EngineKind::parse(name, &engines)?;
    Ok(Engine::of(kind))
}

fn simulated(
    options: &TargetOptions<'_>,
    place: &Place,
    engine: Engine,
) -> Result<ResolvedTarget, Failure> {
    options.consent.none("a simulated device has no file system")?;
    if options.target.buffered {
        return Err(wrong("--buffered has no effect with the sim engine: it has no page cache"));
    }
    let words = &options.target.path;
    let model = Model::parse(words).or_wrong("TARGET")?;
    let has_memory = model.has_flash();
    let wanted = if options.target.bytes == 0 { model.bytes } else { options.target.bytes };
    let target = Target {
        path: format!("sim:{words}"),
        bytes: wanted.min(model.bytes),
        direct: false,
        align_bytes: 1,
    };
    let setting = place.setting(engine, vec![target], options.seed);
    Ok(ResolvedTarget {
        medium: Medium::Sim(model),
        held: None,
        setting,
        layout: None,
        reads_only: None,
        keeps_state: !has_memory,
        words: format!("simulated device {words}"),
    })
}

/// Creates an unnamed file in a directory.
fn made(
    options: &TargetOptions<'_>,
    directory: &Path,
) -> Result<(Held, bool, Option<String>), Failure> {
    options.consent.none("the test file is created again")?;
    let facts = open::describe_directory(&iosonde_engine::host::Root::system(), directory)?;
    if facts.class == FilesystemClass::Virtual {
        let message = format!("`{}` cannot contain files", directory.display());
        return Err(Failure::new(Exit::Refused, message));
    }
    let (free_bytes, total_bytes) = open::space(directory)?;
    let requested = Some(options.target.bytes).filter(|size| *size > 0).or(options.usual_bytes);
    let size_bytes = open::test_bytes(directory, requested, free_bytes, total_bytes)?;
    let make = if options.dry_run { open::rehearsed } else { open::unnamed };
    Ok((make(directory, size_bytes, direct(options))?, true, None))
}

fn direct(options: &TargetOptions<'_>) -> Direct {
    if options.target.buffered { Direct::Never } else { Direct::Preferred }
}

/// Opens a file or device for writing if allowed and not in use, otherwise read-only with a
/// message. A consent requests writing, so that a wrong one is an error.
fn existing(
    options: &TargetOptions<'_>,
    path: &Path,
    commands: bool,
) -> Result<(Held, bool, Option<String>), Failure> {
    let intent = |write| Intent {
        passthrough: commands,
        ..options.consent.intent(path, write, options.results, options.dry_run)
    };
    let facts = std::fs::metadata(path);
    let is_device = facts.as_ref().is_ok_and(|facts| !facts.is_file());
    // Root may open files without write permission.
    let is_protected = facts.is_ok_and(|facts| facts.permissions().readonly());
    let agreed = options.consent.is_given();
    if agreed && options.was_written == Some(false) {
        let why = "the experiment was begun without writing: start a new one to write";
        return Err(wrong(format!("`{}`: {why}", path.display())));
    }
    let must_write = agreed || options.was_written == Some(true);
    let may_write = !is_device && !is_protected && options.was_written != Some(false);
    let mut in_use = false;
    if is_protected && !is_device {
        options.consent.none("the target is not writable")?;
    }
    if may_write || must_write {
        match open::existing(path, &intent(true), direct(options)) {
            Ok(held) => {
                place::print_link(&held);
                options.consent.were_needed(std::slice::from_ref(&held), options.dry_run)?;
                return Ok((held, false, None));
            }
            Err(TargetError::Foreign { .. } | TargetError::Shared { .. }) if !must_write => {}
            Err(TargetError::Gate(GateError::InUse { .. })) if !must_write => in_use = true,
            Err(error) => return Err(error.into()),
        }
    }
    let held = open::existing(path, &intent(false), direct(options))?;
    let reason = match (is_device, is_protected) {
        (true, _) => "the target is only read; --destroy-data=ID permits writes",
        (false, _) if in_use => IN_USE,
        (false, true) => "the target is not writable",
        (false, false) => "the target is only read; --overwrite-file=NAME permits writes",
    };
    let reason = reason.to_owned();
    note(&format!("`{}` is only read: cells with writes are skipped", path.display()));
    Ok((held, false, Some(reason)))
}
