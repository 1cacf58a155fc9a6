//! Scope of a profile: the changing set of processes, and the disks.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::devices::{self, Disk};
use super::request::{Attached, Request, WatchError};
use super::{cgroup, processes};
use iosonde_engine::host::Root;
use iosonde_model::record::profile::Subject;

/// The request, resolved on this machine.
#[derive(Debug)]
pub(super) struct Scope {
    pub(super) who: Who,
    /// The selected disks and the disks below them; empty for every disk.
    pub(super) disks: Vec<Disk>,
    /// The disk of the command's working directory.
    pub(super) home: Option<Disk>,
    /// Descriptor that becomes readable when the process ends, if the kernel supports it.
    handle: Option<OwnedFd>,
}

/// Processes whose requests count.
#[derive(Debug)]
pub(super) enum Who {
    /// The command and its children; its PID is known once it is held.
    Command(u32),
    /// A running process and its children. The start time distinguishes it from others with the
    /// same PID.
    Process {
        pid: u32,
        started: u64,
        words: Vec<String>,
    },
    Cgroup(PathBuf),
    Machine,
}

impl Scope {
    pub(super) fn find(root: &Root, requested: &Request) -> Result<Scope, WatchError> {
        let who = match &requested.attached {
            None => Who::Command(0),
            Some(Attached::Process(pid)) => {
                let process = processes::process(root, *pid).filter(|process| !process.is_zombie);
                let process = process.ok_or(WatchError::NoProcess { pid: *pid })?;
                let words = processes::words(root, *pid);
                Who::Process { pid: *pid, started: process.started, words }
            }
            Some(Attached::Machine) => Who::Machine,
            Some(Attached::Cgroup(path)) => {
                let folder = cgroup::folder(root, path);
                Who::Cgroup(folder.ok_or_else(|| WatchError::NoCgroup { path: path.clone() })?)
            }
        };
        let mut disks: Vec<Disk> = Vec::new();
        for name in &requested.devices {
            let Some(disk) = devices::requested(root, name) else {
                let (requested, known) = (name.clone(), devices::known(root));
                return Err(WatchError::UnknownDevice { requested, known });
            };
            devices::with_those_beneath(root, disk, &mut disks);
        }
        let handle = if let Who::Process { pid, .. } = who { handle_of(pid) } else { None };
        Ok(Scope { who, disks, home: devices::of_folder(root, &requested.folder), handle })
    }

    /// Whether every process is profiled. They are then not sampled one by one.
    pub(super) fn is_machine(&self) -> bool {
        matches!(self.who, Who::Machine)
    }

    pub(super) fn is_command(&self) -> bool {
        matches!(self.who, Who::Command(_))
    }

    /// Sets the PID of the command.
    pub(super) fn is_held(&mut self, pid: u32) {
        if let Who::Command(of) = &mut self.who {
            *of = pid;
            self.handle = handle_of(pid);
        }
    }

    /// The profiled processes: those of `before` that are still running, and new ones.
    pub(super) fn members(&self, root: &Root, before: &BTreeSet<u32>) -> BTreeSet<u32> {
        let mut members = match &self.who {
            Who::Command(pid) | Who::Process { pid, .. } => {
                processes::tree(root, before.iter().copied().chain([*pid]))
            }
            Who::Cgroup(folder) => cgroup::processes(root, folder),
            Who::Machine => processes::all(root),
        };
        // This process may be a child of the profiled shell.
        members.remove(&std::process::id());
        members
    }

    /// Whether the attached process or cgroup has ended. `false` for a command, whose end is
    /// detected by reaping.
    pub(super) fn is_gone(&self, root: &Root) -> bool {
        match &self.who {
            Who::Command(_) | Who::Machine => false,
            Who::Process { pid, started, .. } => processes::process(root, *pid)
                .is_none_or(|now| now.is_zombie || now.started != *started),
            Who::Cgroup(folder) => !cgroup::is_cgroup(root, folder),
        }
    }

    /// Descriptor that is readable once the profiled process has ended.
    pub(super) fn end(&self) -> Option<BorrowedFd<'_>> {
        self.handle.as_ref().map(AsFd::as_fd)
    }

    /// The profiled target, for the record.
    pub(super) fn subject(&self, requested: &Request) -> Subject {
        match &self.who {
            Who::Command(pid) => {
                let words =
                    requested.command.iter().map(|word| word.to_string_lossy().into_owned());
                Subject::Command { words: words.collect(), pid: *pid }
            }
            Who::Process { pid, words, .. } => Subject::Process { pid: *pid, words: words.clone() },
            Who::Cgroup(folder) => Subject::Cgroup { path: folder.display().to_string() },
            Who::Machine => Subject::Machine,
        }
    }
}

fn handle_of(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid.cast_signed())?, PidfdFlags::empty()).ok()
}
