//! What can be asked of an open target.

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
    /// The first of several targets, which stands for all of them in the record.
    pub fn first_for_all(all: &[Held]) -> Option<Held> {
        let audits = all.iter().flat_map(|held| held.audits.clone()).collect();
        let undo = all.iter().flat_map(|held| held.undo.clone()).collect();
        Some(Held { audits, undo, ..all.first()?.clone() })
    }

    /// What identifies the block device, of one that was opened for writing.
    pub fn identity(&self) -> Option<&str> {
        let audit = self.audits.iter().find(|audit| audit.is_of_device())?;
        Some(&audit.identity)
    }

    /// What the target truly is, now.
    pub fn describe(&self, root: &Root) -> TargetFacts {
        let mut facts = truth::describe(root, &self.path, self.file.as_fd(), self.bytes);
        facts.direct_refused.clone_from(&self.direct_refused);
        facts.write_audits.clone_from(&self.audits);
        if self.namespace.is_some() {
            // Commands meet no page cache, and are not refused because they would block.
            facts.kind = "NVMe generic device".into();
            (facts.cached_samples, facts.punted) = (None, None);
        }
        facts
    }

    /// It as a plan names it: its first bytes, under this path.
    pub fn target(&self, path: &Path, bytes: u64, facts: &TargetFacts) -> Target {
        Target {
            path: path.to_string_lossy().into_owned(),
            bytes,
            direct: self.direct,
            align_bytes: self.align_bytes(facts),
        }
    }

    /// Switches direct I/O on or off, for who measures with and without the page cache; nothing may
    /// be in flight. What the file system refuses stays as it was, and `direct` says so.
    pub fn set_direct(&mut self, direct: bool) {
        use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
        let Ok(mut flags) = fcntl_getfl(&self.file) else { return };
        flags.set(OFlags::DIRECT, direct);
        if fcntl_setfl(&self.file, flags).is_ok() {
            self.direct = direct;
        }
    }

    /// Keeps others away who ask too: a second run of this program on the same target is refused.
    ///
    /// # Errors
    /// If somebody else holds it.
    pub fn lock(&self) -> Result<(), TargetError> {
        gate::lock(&self.path, &self.file)
    }

    /// The block device underneath, where there is one.
    pub fn device(&self, root: &Root) -> Option<DeviceFacts> {
        truth::describe(root, &self.path, self.file.as_fd(), 0).device
    }

    /// Who the block device underneath is, where the file system names one.
    pub fn device_identity(&self, root: &Root) -> Option<Identity> {
        let facts = rustix::fs::fstat(&self.file).ok()?;
        let is_device = FileType::from_raw_mode(facts.st_mode) == FileType::BlockDevice;
        let number = if is_device { facts.st_rdev } else { facts.st_dev };
        host::identity(root, major(number), minor(number))
    }

    /// Smallest unit of an offset and a length, bytes: what direct I/O takes here, 1 without it.
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
    // A file system that takes no advice serves the load all the same.
    let _ = fadvise(file, 0, None, advice);
}

/// Writes back what is dirty and drops the pages of this file from the page cache.
pub fn drop_cache(file: &OwnedFd) {
    use rustix::fs::{Advice, fadvise, fdatasync};
    // A file open for reading has nothing of ours to write back; the advice is only advice, and
    // what stays in the cache is found by the samples that go into the record.
    let _ = fdatasync(file);
    let _ = fadvise(file, 0, None, Advice::DontNeed);
}
