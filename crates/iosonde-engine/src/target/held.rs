//! The methods of an open target.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, major, minor};

use super::{Held, TargetError, gate, truth};
use crate::host::{self, Identity, Root};
use iosonde_model::plan::Target;
use iosonde_model::record::TargetFacts;
use iosonde_model::record::facts::DeviceFacts;
use iosonde_model::spec::fio::AccessHint;

impl Held {
    /// The first of several targets, which represents all of them in the record.
    pub fn first_for_all(all: &[Held]) -> Option<Held> {
        let audits = all.iter().flat_map(|held| held.audits.clone()).collect();
        let undo = all.iter().flat_map(|held| held.undo.clone()).collect();
        Some(Held { audits, undo, ..all.first()?.clone() })
    }

    /// Identity of a block device that was opened for writing.
    pub fn identity(&self) -> Option<&str> {
        let audit = self.audits.iter().find(|audit| audit.is_of_device())?;
        Some(&audit.identity)
    }

    /// Current facts about the target.
    pub fn describe(&self, root: &Root) -> TargetFacts {
        let mut facts = truth::describe(root, &self.path, self.file.as_fd(), self.bytes);
        facts.direct_refused.clone_from(&self.direct_refused);
        facts.write_audits.clone_from(&self.audits);
        if self.namespace.is_some() {
            // Commands bypass the page cache, and are not refused when they would block.
            facts.kind = "NVMe generic device".into();
            (facts.cached_samples, facts.punted) = (None, None);
        }
        facts
    }

    /// The target of a plan: the first `bytes` of this one, under this path.
    pub fn target(&self, path: &Path, bytes: u64, facts: &TargetFacts) -> Target {
        Target {
            path: path.to_string_lossy().into_owned(),
            bytes,
            direct: self.direct,
            align_bytes: self.align_bytes(facts),
        }
    }

    /// Switches direct I/O on or off, to measure with and without the page cache. No request may be
    /// in flight. If the file system refuses, `direct` stays unchanged.
    pub fn set_direct(&mut self, direct: bool) {
        use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
        let Ok(mut flags) = fcntl_getfl(&self.file) else { return };
        flags.set(OFlags::DIRECT, direct);
        if fcntl_setfl(&self.file, flags).is_ok() {
            self.direct = direct;
        }
    }

    /// Takes the advisory lock, so that a second run of this program on the same target is refused.
    ///
    /// # Errors
    /// If another program holds it.
    pub fn lock(&self) -> Result<(), TargetError> {
        gate::lock(&self.path, &self.file)
    }

    /// The block device underneath, where there is one.
    pub fn device(&self, root: &Root) -> Option<DeviceFacts> {
        truth::describe(root, &self.path, self.file.as_fd(), 0).device
    }

    /// Identity of the block device underneath, where there is one.
    pub fn device_identity(&self, root: &Root) -> Option<Identity> {
        let facts = rustix::fs::fstat(&self.file).ok()?;
        let is_device = FileType::from_raw_mode(facts.st_mode) == FileType::BlockDevice;
        let number = if is_device { facts.st_rdev } else { facts.st_dev };
        host::identity(root, major(number), minor(number))
    }

    /// Alignment of offsets and lengths, bytes: that of direct I/O, or 1 without it.
    pub fn align_bytes(&self, facts: &TargetFacts) -> u64 {
        if let Some(namespace) = &self.namespace {
            return 1 << namespace.shape().block_shift;
        }
        if !self.direct {
            return 1;
        }
        let block = facts.device.as_ref().and_then(|device| device.logical_block_bytes);
        u64::from(facts.dio_offset_align.filter(|align| *align > 0).or(block).unwrap_or(512).max(1))
    }
}

/// Tells the kernel how this file will be read.
pub fn advise(file: &OwnedFd, hint: AccessHint) {
    use rustix::fs::{Advice, fadvise};
    let advice = match hint {
        AccessHint::None => Advice::Normal,
        AccessHint::Random => Advice::Random,
        AccessHint::Sequential => Advice::Sequential,
        AccessHint::Once => Advice::NoReuse,
    };
    // A file system that ignores the advice can still run the load.
    let _ = fadvise(file, 0, None, advice);
}

/// Writes back what is dirty and drops the pages of this file from the page cache.
pub fn drop_cache(file: &OwnedFd) {
    use rustix::fs::{Advice, fadvise, fdatasync};
    // Errors do not matter: a file open for reading has nothing to write back, and the record's
    // samples show which pages stay in the cache.
    let _ = fdatasync(file);
    let _ = fadvise(file, 0, None, Advice::DontNeed);
}
