//! Checks whether a target is in use, before and after it is opened for writing.
//!
//! For a regular file, a write lease decides: the kernel grants it only if nothing else has the
//! file open. Where a lease is not conclusive, and for devices, every process is examined. If some
//! cannot be examined, a consent is needed.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use iosonde_sys::sharing;
use rustix::fs::{fstat, fstatfs};

use super::gate::GateError;
use super::{Intent, TargetError};
use crate::host::{self, Access, InUse, Root, Unseen, Use};
use iosonde_model::record::WriteAudit;
use iosonde_model::record::facts::FilesystemClass;
use iosonde_model::units::shell::quoted;

/// Retries, and the pause before each, for a use that may end by itself: udev and indexers read a
/// changed file or device for a moment.
const READER_TRIES: u32 = 20;
const READER_PAUSE: Duration = Duration::from_millis(100);

/// Outcome of a request for a write lease.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Lease {
    /// No other descriptor of the file is open.
    Granted,
    /// Another descriptor of the file is open.
    Refused,
    /// Not conclusive, and why.
    Unknown(String),
}

/// The known uses of a regular file.
#[derive(Clone, Debug)]
pub(super) struct FileUse {
    lease: Lease,
    in_use: InUse,
}

/// Examines again while a use may end by itself and retries are left.
pub(super) fn settled<T>(examine: impl Fn() -> T, may_end: impl Fn(&T) -> bool) -> T {
    let mut found = examine();
    for _ in 0..READER_TRIES {
        if !may_end(&found) {
            break;
        }
        std::thread::sleep(READER_PAUSE);
        found = examine();
    }
    found
}

/// Whether there are uses, and all of them only read.
pub(super) fn only_reads(in_use: &InUse) -> bool {
    let reads = |by: &Use| matches!(by, Use::Open { access: Access::Read, .. });
    !in_use.uses.is_empty() && in_use.uses.iter().all(|usage| reads(&usage.by))
}

impl FileUse {
    /// Examines an open file. This process must hold no other descriptor of it.
    pub(super) fn of(root: &Root, file: &OwnedFd) -> FileUse {
        let may_end = |found: &FileUse| {
            found.lease == Lease::Refused
                && (found.in_use.uses.is_empty() || only_reads(&found.in_use))
                && !found.in_use.is_open_here
        };
        settled(|| FileUse::now(root, file), may_end)
    }

    fn now(root: &Root, file: &OwnedFd) -> FileUse {
        let elsewhere = elsewhere(root, file);
        let lease = match sharing::is_open_elsewhere(file.as_fd()) {
            _ if elsewhere.is_some() => Lease::Unknown("a lease says nothing there".into()),
            Ok(false) if is_without_name(file) => {
                Lease::Unknown("a lease does not count who has memory that has no name".into())
            }
            Ok(false) => return FileUse { lease: Lease::Granted, in_use: InUse::default() },
            Ok(true) if leases_are_exact() => Lease::Refused,
            Ok(true) => Lease::Unknown("a refusal of this kernel may be a false alarm".into()),
            Err(error) => Lease::Unknown(error.to_string()),
        };
        let mut in_use = host::file_uses(root, file.as_fd());
        in_use.unseen.others.extend(elsewhere);
        FileUse { lease, in_use }
    }

    /// An error if the file is or may be in use.
    pub(super) fn refuse(&self, path: &Path, intent: &Intent) -> Result<(), TargetError> {
        let in_use = |uses| Err(GateError::InUse { path: path.into(), uses }.into());
        if !self.in_use.uses.is_empty() {
            return in_use(words(&self.in_use));
        }
        let is_decided = self.lease == Lease::Refused && !self.in_use.is_open_here;
        if is_decided {
            let mut by = self.in_use.unseen.to_string();
            if by.is_empty() {
                by = "something in the kernel, such as a file server, an io_uring or a descriptor \
                      on its way between processes"
                    .into();
            }
            return in_use(format!("the kernel says that it is open elsewhere, maybe by {by}"));
        }
        let name = path.to_string_lossy();
        let is_accepted = intent.accept_unseen_processes.iter().any(|given| **given == *name);
        if self.in_use.unseen.is_empty() || is_accepted {
            return Ok(());
        }
        let (path, unseen) = (path.into(), self.in_use.unseen.to_string());
        let options = format!("{ACCEPT_UNSEEN}={}", quoted(&name));
        Err(GateError::Unseen { path, unseen, options }.into())
    }

    /// Adds the result to the audit.
    pub(super) fn note(&self, audit: &mut WriteAudit, when: &str) {
        let lease = match &self.lease {
            Lease::Granted => "granted: nobody else has the file open".into(),
            Lease::Refused => "refused: this process has it open twice".into(),
            Lease::Unknown(reason) => format!("no answer ({reason})"),
        };
        audit.note(&format!("write lease {when}"), lease);
        if self.lease != Lease::Granted {
            note_processes(audit, &self.in_use, when);
        }
    }

    /// What could not be examined.
    pub(super) fn unseen(&self) -> &Unseen {
        &self.in_use.unseen
    }
}

/// The option to consent to a write although some processes could not be examined.
pub(super) const ACCEPT_UNSEEN: &str = "--accept-unseen-processes";

/// All uses in one line.
pub(super) fn words(in_use: &InUse) -> String {
    let mut uses: Vec<String> = in_use.uses.iter().map(ToString::to_string).collect();
    uses.dedup();
    uses.join("; ")
}

/// Adds the numbers of examined and unexamined processes to the audit.
pub(super) fn note_processes(audit: &mut WriteAudit, in_use: &InUse, when: &str) {
    let result = format!(
        "{} examined, {} not; no other has it open, mapped or locked",
        in_use.processes,
        in_use.unseen.processes.len()
    );
    audit.note(&format!("processes {when}"), result);
}

/// Adds what could not be examined to the audit.
pub(super) fn note_unseen(audit: &mut WriteAudit, unseen: &Unseen) {
    if !unseen.is_empty() {
        audit.unseen = vec![unseen.to_string()];
    }
}

/// Whether the file has no name in any directory, such as shared memory (memfd, anonymous
/// mappings). A lease on such a file does not take its other openers into account.
fn is_without_name(file: &OwnedFd) -> bool {
    fstat(file).is_ok_and(|seen| seen.st_nlink == 0)
}

/// Users of a file that the kernel of this machine may not know, if any, in words.
fn elsewhere(root: &Root, file: &OwnedFd) -> Option<String> {
    let magic = u64::try_from(fstatfs(file).ok()?.f_type).ok()?;
    let mount = host::mount_of_file(root, file.as_fd());
    let kind = mount.map(|mount| mount.filesystem).unwrap_or_default();
    match host::filesystem_class(&kind, magic) {
        (name, FilesystemClass::Network) => Some(format!("other machines that use this {name}")),
        (name, FilesystemClass::HostShare) => Some(format!("the system that shares this {name}")),
        // A file has another inode in the layer that holds its data.
        (name, FilesystemClass::Stacked) => {
            Some(format!("whoever uses a file of the layers below this {name} directly"))
        }
        _ => None,
    }
}

/// Whether the times of a file come from a server in user space (FUSE). Some report the present.
pub(super) fn is_served_in_user_space(file: &OwnedFd) -> bool {
    let magic = fstatfs(file).ok().and_then(|facts| u64::try_from(facts.f_type).ok());
    magic.is_some_and(|magic| host::filesystem_class("", magic).1 == FilesystemClass::UserSpace)
}

/// Whether a refused lease is conclusive. Before Linux 5.4, a mere watch on the file refused it.
fn leases_are_exact() -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let version = (numbers.next().and_then(Result::ok), numbers.next().and_then(Result::ok));
    version >= (Some(5), Some(4))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::host::Usage;

    const NAME: &str = "/srv/disk.img";

    fn refusal(lease: Lease, in_use: InUse, accepted: &[&str]) -> Option<String> {
        let accept_unseen_processes = accepted.iter().map(ToString::to_string).collect();
        let intent = Intent { accept_unseen_processes, ..Intent::default() };
        let found = FileUse { lease, in_use };
        found.refuse(Path::new(NAME), &intent).err().map(|error| error.to_string())
    }

    fn unseen() -> InUse {
        let processes = vec![(1, "systemd".into())];
        InUse { unseen: Unseen { processes, others: Vec::new() }, ..InUse::default() }
    }

    #[test]
    fn a_use_is_beyond_consent() {
        let by = Use::Open { pid: 7, program: "qemu".into(), access: Access::Write };
        let in_use = InUse { uses: vec![Usage { device: "it".into(), by }], ..unseen() };
        let said = refusal(Lease::Refused, in_use, &[NAME]).unwrap();
        assert!(said.contains("it is open for writing in process 7 (qemu)"), "{said}");
        assert!(!said.contains("--"), "{said}");
    }

    #[test]
    fn a_refused_lease_decides_even_where_nobody_is_found() {
        let said = refusal(Lease::Refused, InUse::default(), &[NAME]).unwrap();
        assert!(said.contains("something in the kernel"), "{said}");
        let said = refusal(Lease::Refused, unseen(), &[NAME]).unwrap();
        assert!(said.contains("1 (systemd)"), "{said}");
        // Two descriptors of this process prevent each other's lease.
        let twice = InUse { is_open_here: true, ..InUse::default() };
        assert_eq!(refusal(Lease::Refused, twice, &[]), None);
    }

    #[test]
    fn who_cannot_be_examined_needs_a_consent_that_names_the_file() {
        let unknown = || Lease::Unknown("EACCES".into());
        assert_eq!(refusal(unknown(), InUse::default(), &[]), None);
        for wrong in [&[][..], &["disk.img"], &["*"]] {
            let said = refusal(unknown(), unseen(), wrong).unwrap();
            assert!(
                said.ends_with("repeat with --accept-unseen-processes=/srv/disk.img"),
                "{said}"
            );
        }
        assert_eq!(refusal(unknown(), unseen(), &["other", NAME]), None);
        assert_eq!(refusal(Lease::Granted, InUse::default(), &[]), None);
    }

    #[test]
    fn memory_that_another_process_has_is_in_use() {
        let memory = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&memory, 4096).unwrap();
        let child = std::process::Command::new("sleep").arg("60").stdin(memory).spawn();
        let mut child = child.unwrap();
        let path = format!("/proc/{}/fd/0", child.id());
        let file: OwnedFd = std::fs::File::open(&path).unwrap().into();
        let found = FileUse::now(&Root::system(), &file);
        let said = found.refuse(path.as_ref(), &Intent::default());
        child.kill().unwrap();
        child.wait().unwrap();
        let said = said.unwrap_err().to_string();
        assert!(said.contains(&format!("in process {} (sleep)", child.id())), "{said}");
    }

    #[test]
    fn a_second_opening_is_found_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, [0; 4096]).unwrap();
        let file: OwnedFd = std::fs::File::open(&path).unwrap().into();
        let root = Root::system();
        assert!(FileUse::of(&root, &file).refuse(&path, &Intent::default()).is_ok());
        let child = std::process::Command::new("sleep")
            .arg("60")
            .stdin(std::fs::File::open(&path).unwrap())
            .spawn();
        let mut child = child.unwrap();
        let said = FileUse::now(&root, &file).refuse(&path, &Intent::default()).unwrap_err();
        child.kill().unwrap();
        child.wait().unwrap();
        let said = said.to_string();
        assert!(said.contains(&format!("open for reading in process {}", child.id())), "{said}");
        assert!(FileUse::of(&root, &file).refuse(&path, &Intent::default()).is_ok());
    }
}
