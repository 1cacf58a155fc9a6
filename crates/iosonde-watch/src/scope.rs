//! Whom the watching is about: the processes, as they come and go, and the disks.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::ask::{Asked, Attached, WatchError};
use super::devices::{self, Disk};
use super::{cgroup, processes};
use iosonde_engine::host::Root;
use iosonde_model::record::profile::Subject;

/// What was asked, found on this machine.
#[derive(Debug)]
pub(super) struct Scope {
    pub(super) who: Who,
    /// The chosen disks, with those beneath them; none for every disk.
    pub(super) disks: Vec<Disk>,
    /// The disk of the folder where the command runs.
    pub(super) home: Option<Disk>,
    /// A descriptor that becomes readable when the process has ended, where the kernel has such.
    handle: Option<OwnedFd>,
}

/// Whose requests count.
#[derive(Debug)]
pub(super) enum Who {
    /// The command and its children; its number is known once it is held.
    Command(u32),
    /// A process that runs already, told from others of its number by its start, and its children.
    Process { pid: u32, started: u64, words: Vec<String> },
    /// Everybody in a cgroup.
    Cgroup(PathBuf),
}

impl Scope {
    /// Finds all that was asked for.
    pub(super) fn find(root: &Root, asked: &Asked) -> Result<Scope, WatchError> {
        let who = match &asked.attached {
            None => Who::Command(0),
            Some(Attached::Process(pid)) => {
                let process = processes::process(root, *pid).filter(|process| !process.is_zombie);
                let process = process.ok_or(WatchError::NoProcess { pid: *pid })?;
                let words = processes::words(root, *pid);
                Who::Process { pid: *pid, started: process.started, words }
            }
            Some(Attached::Cgroup(path)) => {
                let folder = cgroup::folder(root, path);
                Who::Cgroup(folder.ok_or_else(|| WatchError::NoCgroup { path: path.clone() })?)
            }
        };
        let mut disks: Vec<Disk> = Vec::new();
        for name in &asked.devices {
            let unknown =
                || WatchError::UnknownDevice { asked: name.clone(), known: devices::known(root) };
            devices::with_those_beneath(
                root,
                devices::asked(root, name).ok_or_else(unknown)?,
                &mut disks,
            );
        }
        let handle = match who {
            Who::Process { pid, .. } => handle_of(pid),
            Who::Command(_) | Who::Cgroup(_) => None,
        };
        Ok(Scope { who, disks, home: devices::of_folder(root, &asked.folder), handle })
    }

    /// The number of the command, from now on.
    pub(super) fn is_held(&mut self, pid: u32) {
        if let Who::Command(of) = &mut self.who {
            *of = pid;
            self.handle = handle_of(pid);
        }
    }

    /// The processes that are watched: those of before that live, and who joined them.
    pub(super) fn members(&self, root: &Root, before: &BTreeSet<u32>) -> BTreeSet<u32> {
        let mut members = match &self.who {
            Who::Command(pid) | Who::Process { pid, .. } => {
                processes::tree(root, before.iter().copied().chain([*pid]))
            }
            Who::Cgroup(folder) => cgroup::processes(root, folder),
        };
        // A shell that is watched by its own child.
        members.remove(&std::process::id());
        members
    }

    /// Whether what runs already has ended. A command is asked for its end in another way.
    pub(super) fn is_gone(&self, root: &Root) -> bool {
        match &self.who {
            Who::Command(_) => false,
            Who::Process { pid, started, .. } => processes::process(root, *pid)
                .is_none_or(|now| now.is_zombie || now.started != *started),
            Who::Cgroup(folder) => !cgroup::is_cgroup(root, folder),
        }
    }

    /// Readable when the watched process has ended.
    pub(super) fn end(&self) -> Option<BorrowedFd<'_>> {
        self.handle.as_ref().map(AsFd::as_fd)
    }

    /// For the record.
    pub(super) fn subject(&self, asked: &Asked) -> Subject {
        match &self.who {
            Who::Command(pid) => {
                let words = asked.command.iter().map(|word| word.to_string_lossy().into_owned());
                Subject::Command { words: words.collect(), pid: *pid }
            }
            Who::Process { pid, words, .. } => Subject::Process { pid: *pid, words: words.clone() },
            Who::Cgroup(folder) => Subject::Cgroup { path: folder.display().to_string() },
        }
    }
}

fn handle_of(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid.cast_signed())?, PidfdFlags::empty()).ok()
}
