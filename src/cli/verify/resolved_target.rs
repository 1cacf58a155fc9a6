//! Opens, creates or connects to the target of a verification.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use super::options::ProveArgs;
use crate::cli::exit::{About, Failure, shown, wrong};
use crate::cli::output::note;
use crate::cli::place::{self, Place};
use crate::cli::run::vhost;
use iosonde_engine::backend::sim::Model;
use iosonde_engine::backend::vhost::Server;
use iosonde_engine::engine::Medium;
use iosonde_engine::target::create::{Fresh, created};
use iosonde_engine::target::{Direct, Held, Intent, open};
use iosonde_model::plan::{Engine, EngineKind, Target, VerifyMode, VerifyPlan};
use iosonde_model::record::TargetFacts;
use iosonde_model::record::export::directory_of;
use iosonde_sys::inspect::is_block_device;
use iosonde_sys::ring;
use iosonde_sys::syscall::probe_trim;

/// An opened target.
pub(super) struct ResolvedTarget {
    pub(super) medium: Medium,
    pub(super) held: Option<Held>,
    pub(super) target: Target,
    /// Length of a sector, bytes.
    pub(super) sector_bytes: u32,
    /// Whether a trimmed block reads as zeros.
    pub(super) trims_make_zeros: bool,
    /// Whether the target is created for this run.
    pub(super) begins_as_zeros: bool,
    /// Whether the target can trim through this engine.
    pub(super) trims: Trims,
    pub(super) offset_bytes: u64,
    /// Identity of the target, wherever it is attached.
    pub(super) identity: Option<String>,
    /// A created file, which is removed if the run does not begin.
    pub(super) fresh: Option<Fresh>,
}

/// Whether a target trims.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Trims {
    Yes,
    /// The device can, but the io_uring of this kernel cannot request it.
    NotByRing,
    No,
}

impl Trims {
    fn of(kind: EngineKind, file: BorrowedFd<'_>) -> Trims {
        if kind == EngineKind::Libaio || probe_trim(file).is_err() {
            return Trims::No;
        }
        let is_by_ring = kind == EngineKind::IoUring && is_block_device(file);
        match is_by_ring && ring::probe_discard(file).is_err() {
            true => Trims::NotByRing,
            false => Trims::Yes,
        }
    }
}

impl ProveArgs {
    /// Requested engine, or the default for the target.
    pub(super) fn engine_for(&self, path: &Path) -> Result<Engine, Failure> {
        let Some(word) = self.engine.ioengine.as_deref() else {
            return Ok(place::engine_for(&[path]));
        };
        if word == EngineKind::Null.name() {
            return Err(wrong("--ioengine null stores nothing: there is nothing to verify"));
        }
        let keeps = |kind: &EngineKind| *kind != EngineKind::Null;
        let engines: Vec<EngineKind> = EngineKind::all().filter(keeps).collect();
        let kind = EngineKind::parse(word, &engines)?;
        Ok(Engine::of(kind))
    }

    /// Opens or creates the target.
    pub(super) fn resolve_target(
        &self,
        mode: VerifyMode,
        engine: &Engine,
        path: &Path,
        place: &Place,
    ) -> Result<ResolvedTarget, Failure> {
        self.consent.check_kinds()?;
        let commands = engine.kind == EngineKind::IoUringCmd;
        if commands && self.engine.direct.is_some() {
            return Err(wrong(
                "--direct has no effect with the io_uring_cmd engine: NVMe commands bypass the \
                 page cache",
            ));
        }
        match engine.kind {
            EngineKind::Sim => self.simulated(path),
            EngineKind::VhostUser => self.served(path),
            kind => self.real(mode, path, kind, place),
        }
    }

    fn real(
        &self,
        mode: VerifyMode,
        path: &Path,
        kind: EngineKind,
        place: &Place,
    ) -> Result<ResolvedTarget, Failure> {
        let commands = kind == EngineKind::IoUringCmd;
        let (held, fresh, begins_as_zeros) = if path.is_dir() && !commands {
            (self.made(mode, path)?, None, true)
        } else if is_to_be_made(mode, path) && !commands {
            let (held, made) = self.named(path)?;
            (held, made, true)
        } else {
            (self.found(mode, path, commands)?, None, false)
        };
        if let Some(reason) = &held.direct_refused {
            note(&format!("warning: {reason}; I/O goes through the page cache"));
        }
        let facts = held.describe(&place.root);
        let what = format!("`{}`", path.display());
        let (offset_bytes, end_bytes) = match (mode, held.bytes) {
            // All written data is missing, which the ledger shows.
            (VerifyMode::Check, 0) => (0, 0),
            _ => self.within(held.bytes, &what)?,
        };
        let target = held.target(path, end_bytes, &facts);
        let is_device = facts.kind == "block device" || held.namespace.is_some();
        Ok(ResolvedTarget {
            medium: place::medium(std::slice::from_ref(&held)),
            sector_bytes: sector_of(&facts, target.align_bytes),
            target,
            // A hole in a file reads as zeros; a discarded block may read as anything.
            trims_make_zeros: !is_device,
            begins_as_zeros,
            trims: Trims::of(kind, held.file.as_fd()),
            offset_bytes,
            identity: held.identity().map(str::to_owned),
            held: Some(held),
            fresh,
        })
    }

    /// Creates an unnamed file in a directory.
    fn made(&self, mode: VerifyMode, directory: &Path) -> Result<Held, Failure> {
        if matches!(mode, VerifyMode::Write | VerifyMode::Check | VerifyMode::PowerCut) {
            return Err(wrong(format!(
                "`{}` is a directory: `{}` needs a persistent target; give a file (created with \
                 --size if it does not exist) or a device",
                directory.display(),
                mode.word()
            )));
        }
        self.consent.none("an unnamed file contains no data of others")?;
        let size_bytes = self.size_to_make(directory)?;
        let (free_bytes, total_bytes) = open::space(directory)?;
        open::fits(directory, size_bytes, free_bytes, total_bytes)?;
        let make = if self.result.dry_run { open::rehearsed } else { open::unnamed };
        Ok(make(directory, size_bytes, self.direct())?)
    }

    fn direct(&self) -> Direct {
        place::direct(self.engine.direct.as_deref())
    }

    /// Creates a file that is kept.
    fn named(&self, path: &Path) -> Result<(Held, Option<Fresh>), Failure> {
        self.consent.none("the file does not exist yet")?;
        let size_bytes = self.size_to_make(path)?;
        let parent = directory_of(path);
        let (free_bytes, total_bytes) = open::space(parent)?;
        open::fits(parent, size_bytes, free_bytes, total_bytes)?;
        if self.result.dry_run {
            return Ok((open::rehearsed(parent, size_bytes, self.direct())?, None));
        }
        let (held, fresh) = created(path, size_bytes, self.direct())?;
        Ok((held, Some(fresh)))
    }

    fn size_to_make(&self, path: &Path) -> Result<u64, Failure> {
        match self.region()? {
            (offset, Some(length)) => Ok(offset.saturating_add(length)),
            (_, None) => {
                let (place, what) = match path.is_dir() {
                    true => ("is a directory", "make a file there"),
                    false => ("does not exist", "create it"),
                };
                Err(wrong(format!("`{}` {place}: give --size to {what}", path.display())))
            }
        }
    }

    /// Opens an existing file or device.
    fn found(&self, mode: VerifyMode, path: &Path, commands: bool) -> Result<Held, Failure> {
        let writes = mode != VerifyMode::Check;
        if !writes {
            self.consent.none("a check only reads")?;
        }
        let results = self.result.results.as_deref();
        let intent = self.consent.intent(path, writes, results, self.result.dry_run);
        let intent = Intent { passthrough: commands, ..intent };
        let held = open::existing(path, &intent, self.direct())?;
        if held.bytes == u64::MAX {
            return Err(wrong(format!(
                "`{}` stores nothing: there is nothing to verify",
                path.display()
            )));
        }
        if !writes {
            held.lock()?;
        }
        place::print_link(&held);
        if writes {
            self.consent.were_needed(std::slice::from_ref(&held), self.result.dry_run)?;
        }
        Ok(held)
    }

    fn simulated(&self, path: &Path) -> Result<ResolvedTarget, Failure> {
        self.consent.none("a simulated device contains no data of others")?;
        if self.engine.direct.is_some() {
            return Err(wrong("--direct has no effect with the sim engine"));
        }
        let words = path.to_string_lossy();
        let model = Model::parse(&words).or_wrong("PATH")?;
        let (offset_bytes, end_bytes) = self.within(model.bytes, "the simulated device")?;
        Ok(ResolvedTarget {
            medium: Medium::Sim(model),
            held: None,
            target: Target {
                path: format!("sim:{words}"),
                bytes: end_bytes,
                direct: false,
                align_bytes: 512,
            },
            sector_bytes: 512,
            trims_make_zeros: true,
            begins_as_zeros: false,
            trims: Trims::Yes,
            offset_bytes,
            identity: None,
            fresh: None,
        })
    }

    fn served(&self, path: &Path) -> Result<ResolvedTarget, Failure> {
        self.consent.of_server()?;
        if self.engine.direct.is_some() {
            return Err(wrong("--direct has no effect on the device of a vhost-user server"));
        }
        let server = Server::connect(path)?;
        let facts = server.facts();
        let what = format!("the device behind {}", shown(path));
        let (offset_bytes, end_bytes) = self.within(facts.bytes, &what)?;
        Ok(ResolvedTarget {
            target: vhost::target(&server, end_bytes),
            held: None,
            sector_bytes: if facts.block_bytes >= 4096 { 4096 } else { 512 },
            trims_make_zeros: false,
            begins_as_zeros: false,
            trims: Trims::No,
            offset_bytes,
            identity: None,
            fresh: None,
            medium: Medium::Vhost(Arc::new(server)),
        })
    }

    /// Checks the plan against a server's device, and requires consent if it writes.
    pub(super) fn admit(&self, medium: &Medium, plan: &VerifyPlan) -> Result<(), Failure> {
        let Medium::Vhost(server) = medium else { return Ok(()) };
        server.admit(&plan.plan)?;
        if plan.changes() { vhost::admit_to_write(&self.consent, server) } else { Ok(()) }
    }

    /// First byte and end of the region or its share; it must lie within the target.
    fn within(&self, available: u64, what: &str) -> Result<(u64, u64), Failure> {
        let (offset, length) = self.region()?;
        let end = length.map_or(available, |length| offset.saturating_add(length));
        place::contains(available, offset, end, what)?;
        self.share_of((offset, end))
    }
}

/// Whether a missing file is created: only in modes whose data is checked later.
fn is_to_be_made(mode: VerifyMode, path: &Path) -> bool {
    let stays = matches!(mode, VerifyMode::Write | VerifyMode::PowerCut);
    stays && path.symlink_metadata().is_err()
}

/// Length that the target writes whole, bytes, as far as it reports it.
fn sector_of(facts: &TargetFacts, align_bytes: u64) -> u32 {
    let logical = facts.device.as_ref().and_then(|device| device.logical_block_bytes);
    if align_bytes >= 4096 || logical.is_some_and(|bytes| bytes >= 4096) { 4096 } else { 512 }
}
