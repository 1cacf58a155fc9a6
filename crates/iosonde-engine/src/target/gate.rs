//! The checks that a block device must pass before it is written.
//!
//! In this order: neither the device nor anything that shares its bytes is in use; it is writable
//! and not the system's disk; consent names each signature and other data on it; consent names the
//! device; the kernel grants exclusive access. Then the checks are repeated, since meanwhile the
//! device may have been unplugged and its name given to another. The resulting descriptor is held
//! for the whole run and carries all I/O: no name is looked up again.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use iosonde_sys::inspect;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, fstat, major, minor, openat};
use rustix::io::Errno;

use super::contents::{Contents, Inspection, Seen};
use super::in_use::{self, ACCEPT_UNSEEN};
use super::inspection;
use super::open::{Direct, Held, TargetError, hold, system};
use super::signature::{self, Finding};
use super::undo::Saved;
use crate::host::{self, Identity, InUse, Root};
use iosonde_model::record::WriteAudit;
use iosonde_model::units::shell::quoted;

/// Places whose disk is never written.
const SYSTEM_PLACES: [&str; 6] = ["/", "/boot", "/boot/efi", "/efi", "/usr", "/var"];
/// Attempts to lock, and the pause after each: udev briefly holds a lock after each change of a
/// device.
const LOCK_TRIES: u32 = 40;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// The consents of the user, by name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Consent<'a> {
    /// Identities given by `--destroy-data`.
    pub destroy_data: &'a [String],
    /// Words given by `--overwrite-signature`.
    pub overwrite_signature: &'a [String],
    /// Identities given by `--accept-unseen`.
    pub accept_unseen: &'a [String],
    /// Identities given by `--accept-unseen-processes`.
    pub accept_unseen_processes: &'a [String],
}

/// Why a device or file is not written, though it could be opened.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// sysfs does not list it, so no use can be ruled out.
    #[error(
        "`{0}` is a block device without an entry in /sys/dev/block, so who uses it is unknown: it \
         is not written; mount sysfs at /sys, or give another device"
    )]
    Unidentified(PathBuf),
    #[error("`{path}` is in use and is not written: {uses}")]
    InUse { path: PathBuf, uses: String },
    /// The kernel refuses writes.
    #[error("`{0}` is read-only; clear that (blockdev --setrw) or choose another device")]
    ReadOnly(PathBuf),
    /// The disk of `/` or of the results.
    #[error(
        "`{path}` is on the disk that holds `{place}`, which is not written; \
         choose a device on another disk"
    )]
    SystemDisk {
        path: PathBuf,
        /// What else is on that disk.
        place: PathBuf,
    },
    /// The device holds data.
    #[error(
        "`{path}` ({device}) holds {found}; writing would destroy it. \
         If that is meant, repeat with {options}"
    )]
    Data {
        path: PathBuf,
        /// Model and size.
        device: String,
        /// What was found, and where.
        found: String,
        /// The options that agree to it.
        options: String,
    },
    /// Not all of it could be inspected in time.
    #[error(
        "`{path}` ({device}) may hold data: {seen}; nothing was found in the inspected part. If \
         the rest may be lost, repeat with {options}; --inspect-time gives more time to read"
    )]
    Uninspected {
        path: PathBuf,
        /// Model and size.
        device: String,
        seen: Seen,
        /// The options that agree to it.
        options: String,
    },
    /// No consent, or one that names another device.
    #[error(
        "`{path}` ({device}) would be written, and {given}. \
         If this device is meant, repeat with {options}"
    )]
    Consent {
        path: PathBuf,
        /// Model and size.
        device: String,
        /// The consents that were given instead.
        given: String,
        /// The options that agree to it.
        options: String,
    },
    /// Processes that could not be examined may have it open.
    #[error(
        "`{path}` may be in use by others that could not be examined: {unseen}. Root with all \
         capabilities can examine them; if none of them uses it, repeat with {options}"
    )]
    Unseen {
        path: PathBuf,
        /// What could not be examined.
        unseen: String,
        /// The options that agree to it.
        options: String,
    },
    /// The kernel does not grant exclusive access.
    #[error(
        "`{0}` is claimed by the kernel or another program (EBUSY): mounted elsewhere, part of an \
         array or pool, or being measured; it is not written"
    )]
    Claimed(PathBuf),
    /// Another program holds the advisory lock.
    #[error("`{0}` is locked by another program (flock), which may be writing to it")]
    Locked(PathBuf),
    /// Not the device that was examined.
    #[error("`{path}` changed while it was examined ({what}); it is not written")]
    Changed {
        path: PathBuf,
        /// What has changed.
        what: &'static str,
    },
}

/// The gate's findings about a device, obtained without writing.
#[derive(Clone, Debug)]
pub struct Report {
    /// The path as given.
    pub path: PathBuf,
    /// The device node it leads to.
    pub node: PathBuf,
    pub identity: Identity,
    /// Uses of the device and of everything that shares its bytes.
    pub in_use: InUse,
    /// A system path, or the folder of the results, on the same disk.
    pub shares_disk_with: Option<PathBuf>,
    /// Signatures and data on it.
    pub findings: Vec<Finding>,
    /// Everything that was found, and how much was inspected.
    pub contents: Contents,
}

impl Report {
    /// Examines the device behind a path, without permission to write.
    ///
    /// # Errors
    /// If it cannot be opened or read, or sysfs does not list it.
    pub fn of(
        root: &Root,
        path: &Path,
        results: Option<&Path>,
        how: Inspection,
    ) -> Result<Report, TargetError> {
        let (file, node) = examined(path)?;
        Report::of_open(root, path, &node, &file, results, Some(how))
    }

    fn of_open(
        root: &Root,
        path: &Path,
        node: &Path,
        file: &OwnedFd,
        results: Option<&Path>,
        how: Option<Inspection>,
    ) -> Result<Report, TargetError> {
        let number = fstat(file).map_err(|error| system("examine", path, error))?.st_rdev;
        let (major, minor) = (major(number), minor(number));
        let identity = host::identity(root, major, minor)
            .ok_or_else(|| GateError::Unidentified(path.into()))?;
        let mut places: Vec<PathBuf> = SYSTEM_PLACES.iter().map(PathBuf::from).collect();
        places.extend(results.map(Path::to_path_buf));
        let in_use = in_use::settled(
            || {
                let mut found = host::uses(root, major, minor);
                found.uses.extend(host::locks(root, file.as_fd(), &found.uses));
                found
            },
            in_use::only_reads,
        );
        let contents = how.map(|how| inspection::of_device(path, file, how)).transpose()?;
        let mut findings = contents.as_ref().map(Contents::findings).unwrap_or_default();
        // The kernel may know partitions of a table that was not found here.
        let partition = host::partition_starts(root, major, minor).into_iter().next();
        let partition = partition.filter(|_| how.is_some());
        findings.extend(partition.and_then(|offset| signature::partition(offset, &findings)));
        Ok(Report {
            path: path.into(),
            node: node.into(),
            identity,
            in_use,
            shares_disk_with: host::same_disk(root, major, minor, &places),
            findings,
            contents: contents.unwrap_or_default(),
        })
    }

    /// Model, name and size, in words.
    pub fn device(&self) -> String {
        let who = &self.identity;
        let model = who.model.as_deref().map(|model| format!("{model}, ")).unwrap_or_default();
        format!("{}{}, {}", model, who.name, iosonde_model::units::bytes::rough(who.bytes))
    }

    /// The options that agree to everything that was found.
    pub fn options(&self) -> String {
        let mut options = vec![format!("--destroy-data={}", quoted(&self.identity.id))];
        let kinds = self.findings.iter().map(|finding| finding.kind);
        options.extend(kinds.map(|kind| format!("--overwrite-signature={kind}")));
        if self.contents.unseen_bytes() > 0 {
            options.push(format!("--accept-unseen={}", quoted(&self.identity.id)));
        }
        if !self.in_use.unseen.is_empty() {
            options.push(format!("{ACCEPT_UNSEEN}={}", quoted(&self.identity.id)));
        }
        options.join(" ")
    }

    /// The first reason not to write, in the order of the gate.
    pub fn objection(&self, consent: Consent<'_>) -> Option<GateError> {
        let path = self.path.clone();
        if !self.in_use.uses.is_empty() {
            return Some(GateError::InUse { path, uses: in_use::words(&self.in_use) });
        }
        if self.identity.read_only {
            return Some(GateError::ReadOnly(path));
        }
        if let Some(place) = self.shares_disk_with.clone() {
            return Some(GateError::SystemDisk { path, place });
        }
        let agreed =
            |finding: &&Finding| consent.overwrite_signature.iter().any(|k| k == finding.kind);
        if !self.findings.iter().all(|finding| agreed(&finding)) {
            let found: Vec<String> = self.findings.iter().map(ToString::to_string).collect();
            return Some(GateError::Data {
                path,
                device: self.device(),
                found: found.join(", "),
                options: self.options(),
            });
        }
        let agrees_to_unseen = consent.accept_unseen.contains(&self.identity.id);
        if self.contents.unseen_bytes() > 0 && !agrees_to_unseen {
            let (device, options) = (self.device(), self.options());
            let seen = self.contents.seen;
            return Some(GateError::Uninspected { path, device, seen, options });
        }
        if consent.destroy_data.contains(&self.identity.id) {
            return self.unseen(consent);
        }
        let given = match consent.destroy_data {
            [] => "nothing names it".to_owned(),
            names => format!("--destroy-data names {}, which it is not", names.join(" and ")),
        };
        let (device, options) = (self.device(), self.options());
        Some(GateError::Consent { path, device, given, options })
    }

    /// An error if some processes could not be examined and no consent covers them.
    fn unseen(&self, consent: Consent<'_>) -> Option<GateError> {
        let unseen = &self.in_use.unseen;
        if unseen.is_empty() || consent.accept_unseen_processes.contains(&self.identity.id) {
            return None;
        }
        let (path, unseen, options) = (self.path.clone(), unseen.to_string(), self.options());
        Some(GateError::Unseen { path, unseen, options })
    }

    /// The audit of a device that passed all checks.
    fn audit(&self, serial: Option<String>) -> WriteAudit {
        let mut audit = WriteAudit {
            path: self.path.to_string_lossy().into_owned(),
            identity: self.identity.id.clone(),
            serial,
            disk_sequence: self.identity.sequence,
            ..WriteAudit::default()
        };
        let shares = "not in use, and neither is what shares its bytes";
        audit.note("mounts, swap, holders and loop devices", shares);
        in_use::note_processes(&mut audit, &self.in_use, "before and after opening");
        audit.note("system disk", "another one");
        let found: Vec<String> = self.findings.iter().map(ToString::to_string).collect();
        let found = if found.is_empty() { "nothing found".into() } else { found.join(", ") };
        audit.note("content", format!("{found}; {}", self.contents.seen));
        audit.note("exclusive claim (O_EXCL)", "granted");
        audit.note("advisory lock (flock)", "taken");
        audit.note("identity, size and disk sequence after opening", "as before");
        in_use::note_unseen(&mut audit, &self.in_use.unseen);
        audit.consents = vec![format!("--destroy-data={}", self.identity.id)];
        let kinds = self.findings.iter().map(|finding| finding.kind);
        audit.consents.extend(kinds.map(|kind| format!("--overwrite-signature={kind}")));
        if self.contents.unseen_bytes() > 0 {
            audit.consents.push(format!("--accept-unseen={}", self.identity.id));
        }
        if !self.in_use.unseen.is_empty() {
            audit.consents.push(format!("{ACCEPT_UNSEEN}={}", self.identity.id));
        }
        audit
    }

    /// What has changed, if the device may have been exchanged for another.
    fn change_since(&self, before: &Report) -> Option<&'static str> {
        let (now, then) = (&self.identity, &before.identity);
        if now.bytes != then.bytes {
            Some("another size")
        } else if now.sequence != then.sequence {
            Some("it was unplugged, or its medium changed")
        } else if now != then {
            Some("another identity")
        } else {
            None
        }
    }
}

/// Opens a device node for examination. A symbolic link is resolved once, here; the node returned
/// is not a link.
fn examined(path: &Path) -> Result<(OwnedFd, PathBuf), TargetError> {
    let node = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = openat(CWD, &node, flags, Mode::empty()).map_err(|e| system("open", path, e))?;
    Ok((file, node))
}

/// Checks whether a device would be refused, by a brief inspection without taking it. Whether all
/// of its content can be inspected in time shows only when it is taken.
///
/// # Errors
/// The first objection.
pub(super) fn rehearse(
    root: &Root,
    path: &Path,
    consent: Consent<'_>,
    results: Option<&Path>,
    how: Inspection,
) -> Result<(), TargetError> {
    let (looked, node) = examined(path)?;
    let report = Report::of_open(root, path, &node, &looked, results, Some(how.brief()))?;
    let own = std::slice::from_ref(&report.identity.id);
    refuse(&report, Consent { accept_unseen: own, ..consent })?;
    refuse_read_only(path, &looked)
}

/// Takes a device for writing until the descriptor is closed. Without an inspection (`how`), the
/// caller judges the content.
///
/// # Errors
/// Any objection; if the kernel or another program claims it; if it changed since it was examined.
pub(super) fn pass(
    root: &Root,
    path: &Path,
    consent: Consent<'_>,
    results: Option<&Path>,
    direct: Direct,
    how: Option<Inspection>,
) -> Result<Held, TargetError> {
    let (looked, node) = examined(path)?;
    // Brief at first. The full inspection follows once the device is taken, or here if the device
    // will be refused, so that the refusal names everything.
    let brief = how.map(Inspection::brief);
    let before = Report::of_open(root, path, &node, &looked, results, brief)?;
    match before
        .objection(Consent { accept_unseen: std::slice::from_ref(&before.identity.id), ..consent })
    {
        Some(GateError::Data { .. } | GateError::Consent { .. } | GateError::Unseen { .. }) => {
            refuse(&Report::of_open(root, path, &node, &looked, results, how)?, consent)?;
        }
        Some(objection) => return Err(objection.into()),
        None => {}
    }
    refuse_read_only(path, &looked)?;
    // Reopen the descriptor that was examined: the node may have been exchanged since.
    let itself = format!("/proc/self/fd/{}", looked.as_raw_fd());
    let flags = OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(CWD, itself.as_str(), flags, Mode::empty()).map_err(|error| match error {
        Errno::BUSY => GateError::Claimed(path.into()).into(),
        Errno::ROFS | Errno::ACCESS if before.identity.read_only => {
            GateError::ReadOnly(path.into()).into()
        }
        error => system("open for writing", path, error),
    })?;
    lock(path, &file)?;
    let changed = |what| TargetError::from(GateError::Changed { path: path.into(), what });
    if let (Ok(held), Some(reported)) =
        (inspect::disk_sequence(file.as_fd()), before.identity.sequence)
        && held != reported
    {
        return Err(changed("it was unplugged, or its medium changed"));
    }
    let after = Report::of_open(root, path, &node, &file, results, how)?;
    if let Some(what) = after.change_since(&before) {
        return Err(changed(what));
    }
    refuse(&after, consent)?;
    let size_bytes = inspect::block_device_bytes(file.as_fd())
        .map_err(|error| TargetError::System { what: "size", path: path.into(), error })?;
    if size_bytes != after.identity.bytes {
        return Err(changed("another size"));
    }
    let undo = Saved::of(&file, &after).map_err(|error| TargetError::System {
        what: "save",
        path: path.into(),
        error,
    })?;
    let number = fstat(&file).map_err(|error| system("examine", path, error))?.st_rdev;
    let mut held = hold(file, path, size_bytes, direct)?;
    held.undo = undo.map(Arc::new).into_iter().collect();
    let serial = host::device(root, major(number), minor(number)).and_then(|facts| facts.serial);
    held.audits = vec![after.audit(serial)];
    Ok(held)
}

fn refuse(report: &Report, consent: Consent<'_>) -> Result<(), TargetError> {
    report.objection(consent).map_or(Ok(()), |objection| Err(objection.into()))
}

fn refuse_read_only(path: &Path, looked: &OwnedFd) -> Result<(), TargetError> {
    match inspect::block_device_is_read_only(looked.as_fd()) {
        Ok(true) => Err(GateError::ReadOnly(path.into()).into()),
        _ => Ok(()),
    }
}

/// Takes the advisory lock of a device node or file, which ends with the descriptor.
///
/// # Errors
/// If another program holds it for all attempts.
pub(super) fn lock(path: &Path, file: &OwnedFd) -> Result<(), TargetError> {
    for _ in 0..LOCK_TRIES {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            // On a file system without locks, no program can hold one.
            Ok(()) | Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK | Errno::INVAL) => {
                return Ok(());
            }
            Err(Errno::WOULDBLOCK) => std::thread::sleep(LOCK_PAUSE),
            Err(error) => return Err(system("lock", path, error)),
        }
    }
    Err(GateError::Locked(path.into()).into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::host::{Usage, Use};

    fn blank() -> Report {
        let identity = Identity {
            id: "S123".into(),
            name: "sdz".into(),
            model: Some("SAMPLE 4000".into()),
            bytes: 1 << 30,
            read_only: false,
            sequence: Some(7),
        };
        Report {
            path: "/dev/sdz".into(),
            node: "/dev/sdz".into(),
            identity,
            in_use: InUse::default(),
            shares_disk_with: None,
            findings: Vec::new(),
            contents: Contents::default(),
        }
    }

    fn objection(report: &Report, ids: &[&str], kinds: &[&str]) -> Option<String> {
        let owned = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (destroy_data, overwrite_signature) = (owned(ids), owned(kinds));
        let consent = Consent {
            destroy_data: &destroy_data,
            overwrite_signature: &overwrite_signature,
            ..Consent::default()
        };
        report.objection(consent).map(|error| error.to_string())
    }

    #[test]
    fn only_the_very_identity_is_a_consent() {
        let report = blank();
        for wrong in [&[][..], &[""], &["*"], &["s123"], &["S12"], &["S1234"], &["/dev/sdz"]] {
            let said = objection(&report, wrong, &[]).unwrap();
            assert!(said.ends_with("--destroy-data=S123"), "{said}");
        }
        assert_eq!(objection(&report, &["S123"], &[]), None);
        assert_eq!(objection(&report, &["another", "S123"], &[]), None);
    }

    #[test]
    fn findings_are_agreed_to_one_by_one_and_by_their_words() {
        let mut report = blank();
        for kind in ["gpt", "ext"] {
            report.findings.push(Finding { kind, title: "something", offset: 512 });
        }
        let all = "--destroy-data=S123 --overwrite-signature=gpt --overwrite-signature=ext";
        for kinds in [&[][..], &["gpt"], &["ext"], &["all"], &["*"], &["xfs", "gpt"]] {
            let said = objection(&report, &["S123"], kinds).unwrap();
            assert!(said.ends_with(all), "{said}");
        }
        assert_eq!(objection(&report, &["S123"], &["ext", "gpt"]), None);
        assert!(objection(&report, &[], &["ext", "gpt"]).is_some());
    }

    #[test]
    fn a_use_is_beyond_any_consent() {
        let mut report = blank();
        report.findings.push(Finding { kind: "ext", title: "a file system", offset: 1080 });
        report.in_use.uses.push(Usage { device: "sdz1".into(), by: Use::Swap });
        let said = objection(&report, &["S123"], &["ext"]).unwrap();
        assert!(said.contains("sdz1 is used as swap"), "{said}");
        assert!(!said.contains("--destroy-data"), "no option is offered: {said}");
        let read_only =
            Report { identity: Identity { read_only: true, ..blank().identity }, ..blank() };
        assert!(objection(&read_only, &["S123"], &[]).unwrap().contains("read-only"));
        let system = Report { shares_disk_with: Some("/boot".into()), ..blank() };
        assert!(objection(&system, &["S123"], &[]).unwrap().contains("`/boot`"));
    }

    #[test]
    fn who_cannot_be_examined_needs_a_consent_of_its_own() {
        let mut report = blank();
        report.in_use.unseen.processes.push((1, "systemd".into()));
        let said = objection(&report, &["S123"], &[]).unwrap();
        assert!(said.contains("1 process that this user may not examine: 1 (systemd)"), "{said}");
        let all = "--destroy-data=S123 --accept-unseen-processes=S123";
        assert!(said.ends_with(all), "{said}");
        assert!(objection(&report, &[], &[]).unwrap().ends_with(all), "both at once");
        let id = ["S123".to_owned()];
        let consent = Consent {
            destroy_data: &id,
            overwrite_signature: &[],
            accept_unseen: &[],
            accept_unseen_processes: &id,
        };
        assert!(report.objection(consent).is_none());
        let audit = report.audit(Some("S123".into()));
        assert!(audit.is_of_device());
        assert_eq!(audit.consents.join(" "), all);
        assert_eq!((audit.serial.as_deref(), audit.disk_sequence), (Some("S123"), Some(7)));
        assert_eq!(audit.unseen.len(), 1);
    }

    #[test]
    fn an_exchanged_device_is_reported() {
        let change = |change: fn(&mut Identity)| {
            let mut after = blank();
            change(&mut after.identity);
            after.change_since(&blank())
        };
        assert_eq!(change(|_| ()), None);
        assert_eq!(change(|who| who.bytes += 512), Some("another size"));
        assert!(change(|who| who.sequence = Some(8)).unwrap().contains("unplugged"));
        assert_eq!(change(|who| who.id = "S124".into()), Some("another identity"));
    }
}
