//! The engines: which there are, what each is for, and how many requests it keeps in flight.

use serde::{Deserialize, Serialize};

use crate::units::count;

/// How I/O leaves the process.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Engine {
    /// Which backend.
    pub kind: EngineKind,
    /// io_uring: a kernel thread submits (SQPOLL).
    pub sqpoll: bool,
    /// io_uring: the CPU of that kernel thread, where it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sqpoll_cpu: Option<u32>,
    /// io_uring: completions are polled for (IOPOLL).
    pub iopoll: bool,
    /// io_uring: the target's descriptor is registered with the ring.
    #[serde(default = "yes")]
    pub registered_files: bool,
    /// io_uring: the buffers are registered with the ring.
    #[serde(default = "yes")]
    pub fixed_buffers: bool,
    /// io_uring: requests carry vectors of one buffer (READV, WRITEV).
    #[serde(default)]
    pub vectored: bool,
    /// Why this backend was chosen; empty if it was requested by name.
    pub chosen_because: String,
}

fn yes() -> bool {
    true
}

impl Engine {
    /// This backend as requested by name, with its default options.
    pub fn of(kind: EngineKind) -> Engine {
        Engine {
            kind,
            sqpoll: false,
            sqpoll_cpu: None,
            iopoll: false,
            registered_files: true,
            fixed_buffers: true,
            vectored: false,
            chosen_because: String::new(),
        }
    }
}

/// The backends.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// Linux io_uring.
    IoUring,
    /// NVMe commands through io_uring, past the block layer.
    IoUringCmd,
    /// The kernel's older asynchronous interface (io_submit).
    Libaio,
    /// Files mapped into memory and copied; depth 1.
    Mmap,
    /// Completes at once, does nothing: the maximum rate of the engine itself.
    Null,
    /// One blocking system call per operation; depth 1.
    Psync,
    /// A simulated device in virtual time.
    Sim,
    /// A block device served by another process over a vhost-user socket.
    VhostUser,
}

/// What is known of an engine. A new one adds its row to [`EngineKind::ROWS`].
struct Row {
    kind: EngineKind,
    /// fio's name where fio has one.
    name: &'static str,
    /// Further names in fio's job files, of engines whose load this one carries out.
    fio_names: &'static [&'static str],
    summary: &'static str,
    /// Whether a job has at most one request in flight.
    is_synchronous: bool,
    /// Whether it works on files and block devices.
    opens_files: bool,
}

impl EngineKind {
    const ROWS: [Row; 8] = [
        Row {
            kind: EngineKind::IoUring,
            name: "io_uring",
            fio_names: &["posixaio"],
            summary: "Linux io_uring: many requests in flight from one thread",
            is_synchronous: false,
            opens_files: true,
        },
        Row {
            kind: EngineKind::IoUringCmd,
            name: "io_uring_cmd",
            fio_names: &[],
            summary: "NVMe commands to /dev/ngXnY through io_uring, bypassing the block layer",
            is_synchronous: false,
            opens_files: false,
        },
        Row {
            kind: EngineKind::Libaio,
            name: "libaio",
            fio_names: &["linuxaio"],
            summary: "io_submit: the kernel's older asynchronous interface, for comparison",
            is_synchronous: false,
            opens_files: true,
        },
        Row {
            kind: EngineKind::Psync,
            name: "psync",
            fio_names: &["sync", "vsync", "pvsync", "pvsync2"],
            summary: "pread and pwrite: one request in flight per job, the depth-1 reference",
            is_synchronous: true,
            opens_files: true,
        },
        Row {
            kind: EngineKind::Mmap,
            name: "mmap",
            fio_names: &[],
            summary: "files mapped into memory and copied: one request in flight per job",
            is_synchronous: true,
            opens_files: true,
        },
        Row {
            kind: EngineKind::Null,
            name: "null",
            fio_names: &[],
            summary: "completes immediately without I/O: the maximum rate of the engine itself",
            is_synchronous: false,
            opens_files: false,
        },
        Row {
            kind: EngineKind::Sim,
            name: "sim",
            fio_names: &[],
            summary: "a simulated device in virtual time; --path describes it",
            is_synchronous: false,
            opens_files: false,
        },
        Row {
            kind: EngineKind::VhostUser,
            name: "virtio-blk-vhost-user",
            fio_names: &[],
            summary: "the device of a user-space server; --path is its socket",
            is_synchronous: false,
            opens_files: false,
        },
    ];

    /// Names of the engines that work on files and block devices.
    pub const OF_FILES: &[&str] = &{
        let mut names = [""; Self::count_of_files()];
        let (mut row, mut at) = (0, 0);
        while row < Self::ROWS.len() {
            if Self::ROWS[row].opens_files {
                names[at] = Self::ROWS[row].name;
                at += 1;
            }
            row += 1;
        }
        names
    };

    const fn count_of_files() -> usize {
        let (mut row, mut count) = (0, 0);
        while row < Self::ROWS.len() {
            count += Self::ROWS[row].opens_files as usize;
            row += 1;
        }
        count
    }

    fn row(self) -> &'static Row {
        const ROWS: &[Row] = &EngineKind::ROWS;
        // Each kind has a row, which a test proves; the first one is never needed.
        ROWS.iter().find(|row| row.kind == self).unwrap_or(&ROWS[0])
    }

    /// Every engine, in the order in which help lists them.
    pub fn all() -> impl Iterator<Item = EngineKind> {
        Self::ROWS.into_iter().map(|row| row.kind)
    }

    /// Name as typed and printed.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// What it is for, in one line.
    pub fn summary(self) -> &'static str {
        self.row().summary
    }

    /// Whether a job has at most one request in flight.
    pub fn is_synchronous(self) -> bool {
        self.row().is_synchronous
    }

    /// Whether its requests are io_uring's, with the options that these have.
    pub fn is_uring(self) -> bool {
        matches!(self, EngineKind::IoUring | EngineKind::IoUringCmd)
    }

    /// Whether it works on files and block devices.
    pub fn opens_files(self) -> bool {
        self.row().opens_files
    }

    /// The engine that carries out the load of fio's engine of this name.
    pub fn of_fio(name: &str) -> Option<EngineKind> {
        let is_fio = |row: &&Row| {
            row.opens_files || matches!(row.kind, EngineKind::IoUringCmd | EngineKind::Null)
        };
        let mut rows = Self::ROWS.iter().filter(is_fio);
        rows.find(|row| row.name == name || row.fio_names.contains(&name)).map(|row| row.kind)
    }

    /// Names that [`EngineKind::of_fio`] knows.
    pub fn fio_names() -> impl Iterator<Item = &'static str> {
        let names = |row: Row| [row.name].into_iter().chain(row.fio_names.iter().copied());
        Self::ROWS.into_iter().flat_map(names).filter(|name| Self::of_fio(name).is_some())
    }

    /// The engine of this name; hyphen and underscore are the same.
    ///
    /// # Errors
    /// If no engine has this name, or it is not among `allowed`.
    pub fn parse(name: &str, allowed: &[EngineKind]) -> Result<EngineKind, EngineNameError> {
        let plain = |name: &str| name.replace('-', "_");
        let found = allowed.iter().find(|kind| plain(kind.name()) == plain(name));
        found.copied().ok_or_else(|| EngineNameError {
            found: name.into(),
            expected: allowed.iter().map(|kind| kind.name()).collect(),
        })
    }
}

/// A word that names none of the engines that are possible here.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EngineNameError {
    found: String,
    expected: Vec<&'static str>,
}

impl std::error::Error for EngineNameError {}

impl std::fmt::Display for EngineNameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "--ioengine: found `{}`, expected one of {}",
            self.found,
            self.expected.join(", ")
        )?;
        f.write_str(&count::did_you_mean(&self.found, self.expected.iter().copied()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn every_engine_has_a_row_of_its_own_and_is_found_by_its_name() {
        let all: Vec<EngineKind> = EngineKind::all().collect();
        for kind in &all {
            assert_eq!(kind.row().kind, *kind);
            assert_eq!(EngineKind::parse(kind.name(), &all), Ok(*kind));
        }
        // The names in a plan are those of serde; a new variant without a row fails here.
        let words =
            ["io_uring", "io_uring_cmd", "libaio", "mmap", "null", "psync", "sim", "vhost_user"];
        for word in words {
            let kind: EngineKind = serde_json::from_str(&format!("\"{word}\"")).unwrap();
            assert!(all.contains(&kind));
        }
        assert_eq!(EngineKind::parse("io-uring", &all), Ok(EngineKind::IoUring));
    }

    #[test]
    fn an_unknown_name_lists_what_is_possible_here() {
        let allowed = [EngineKind::Psync, EngineKind::Libaio];
        let error = EngineKind::parse("pysnc", &allowed).unwrap_err().to_string();
        assert_eq!(
            error,
            "--ioengine: found `pysnc`, expected one of psync, libaio; did you mean `psync`?"
        );
        assert!(EngineKind::parse("null", &allowed).is_err());
    }
}
