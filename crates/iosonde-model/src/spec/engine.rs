//! The I/O engines, their properties and names.

use serde::{Deserialize, Serialize};

use crate::units::count;

/// The I/O engine of a job and its options.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Engine {
    pub kind: EngineKind,
    /// io_uring: a kernel thread submits (SQPOLL).
    pub sqpoll: bool,
    /// io_uring: the CPU of that kernel thread, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sqpoll_cpu: Option<u32>,
    /// io_uring: completions are polled (IOPOLL).
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
    /// The engine as requested by name, with its default options.
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

/// The I/O engines.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// Linux io_uring.
    IoUring,
    /// NVMe passthrough commands through io_uring, bypassing the block layer.
    IoUringCmd,
    /// The kernel's older asynchronous interface (io_submit).
    Libaio,
    /// Files mapped into memory and accessed by copying; depth 1.
    Mmap,
    /// Completes immediately without I/O: the maximum rate of the engine itself.
    Null,
    /// One pread or pwrite per operation; depth 1.
    Psync,
    /// One preadv2 or pwritev2 with flags per operation; depth 1.
    Pvsync2,
    /// A simulated device in virtual time.
    Sim,
    /// A block device served by another process over a vhost-user socket.
    VhostUser,
}

/// The target of an engine's operations.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WorksOn {
    /// Files and block devices.
    Files,
    /// NVMe generic character devices, which take NVMe commands.
    Namespaces,
    /// No target: operations complete immediately.
    Nothing,
    /// The device of a vhost-user server, given by its socket.
    Server,
    /// A simulated device.
    Simulation,
}

/// Properties of an engine. A new engine adds its row to [`EngineKind::ROWS`].
struct Row {
    kind: EngineKind,
    /// fio's name if fio has this engine.
    name: &'static str,
    summary: &'static str,
    works_on: WorksOn,
    /// Names in fio's job files of other engines whose load this one carries out.
    fio_names: &'static [&'static str],
    /// The system calls that carry reads and writes.
    calls: &'static [&'static str],
    /// Whether it submits through io_uring and has the options of io_uring.
    is_uring: bool,
    /// Whether a job has at most one request in flight.
    is_synchronous: bool,
    /// Whether it passes per-write flags to the kernel.
    has_write_flags: bool,
    /// Whether it passes per-request I/O priorities to the kernel.
    has_priorities: bool,
}

impl Row {
    /// An asynchronous engine without any of the other properties.
    const fn of(kind: EngineKind, name: &'static str, works_on: WorksOn) -> Row {
        Row {
            kind,
            name,
            summary: "",
            works_on,
            fio_names: &[],
            calls: &[],
            is_uring: false,
            is_synchronous: false,
            has_write_flags: false,
            has_priorities: false,
        }
    }
}

impl EngineKind {
    const ROWS: &[Row] = &[
        Row {
            summary: "Linux io_uring: many requests in flight from one thread",
            fio_names: &["posixaio"],
            calls: &["io_uring_enter"],
            is_uring: true,
            has_write_flags: true,
            has_priorities: true,
            ..Row::of(EngineKind::IoUring, "io_uring", WorksOn::Files)
        },
        Row {
            summary: "NVMe commands to /dev/ngXnY through io_uring, bypassing the block layer",
            calls: &["io_uring_enter"],
            is_uring: true,
            ..Row::of(EngineKind::IoUringCmd, "io_uring_cmd", WorksOn::Namespaces)
        },
        Row {
            summary: "io_submit: the kernel's older asynchronous interface, for comparison",
            fio_names: &["linuxaio"],
            calls: &["io_submit"],
            has_write_flags: true,
            has_priorities: true,
            ..Row::of(EngineKind::Libaio, "libaio", WorksOn::Files)
        },
        Row {
            summary: "pread and pwrite: one request in flight per job, the depth-1 reference",
            fio_names: &["sync", "vsync"],
            calls: &["pread", "pwrite"],
            is_synchronous: true,
            has_write_flags: true,
            ..Row::of(EngineKind::Psync, "psync", WorksOn::Files)
        },
        Row {
            summary: "preadv2 and pwritev2: as psync, each request a vector of one buffer",
            fio_names: &["pvsync"],
            calls: &["preadv2", "pwritev2"],
            is_synchronous: true,
            has_write_flags: true,
            ..Row::of(EngineKind::Pvsync2, "pvsync2", WorksOn::Files)
        },
        Row {
            summary: "files mapped into memory and copied: one request in flight per job",
            is_synchronous: true,
            ..Row::of(EngineKind::Mmap, "mmap", WorksOn::Files)
        },
        Row {
            summary: "completes immediately without I/O: the maximum rate of the engine itself",
            ..Row::of(EngineKind::Null, "null", WorksOn::Nothing)
        },
        Row {
            summary: "a simulated device in virtual time; --path describes it",
            ..Row::of(EngineKind::Sim, "sim", WorksOn::Simulation)
        },
        Row {
            summary: "the device of a user-space server; --path is its socket",
            ..Row::of(EngineKind::VhostUser, "virtio-blk-vhost-user", WorksOn::Server)
        },
    ];

    /// Names of the engines that work on files and block devices.
    pub const OF_FILES: &[&str] = &{
        let mut names = [""; Self::count_of_files()];
        let (mut row, mut at) = (0, 0);
        while row < Self::ROWS.len() {
            if matches!(Self::ROWS[row].works_on, WorksOn::Files) {
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
            count += matches!(Self::ROWS[row].works_on, WorksOn::Files) as usize;
            row += 1;
        }
        count
    }

    fn row(self) -> &'static Row {
        // A test proves that each kind has a row; the default is never used.
        Self::ROWS.iter().find(|row| row.kind == self).unwrap_or(&Self::ROWS[0])
    }

    /// Every engine, in the order of the help text.
    pub fn all() -> impl Iterator<Item = EngineKind> {
        Self::ROWS.iter().map(|row| row.kind)
    }

    /// The engines that work on files and block devices.
    pub fn of_files() -> impl Iterator<Item = EngineKind> {
        Self::all().filter(|kind| kind.opens_files())
    }

    /// Name as typed and printed.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Its purpose, in one line.
    pub fn summary(self) -> &'static str {
        self.row().summary
    }

    /// The system calls that carry its reads and writes; empty if there are none.
    pub fn calls(self) -> &'static [&'static str] {
        self.row().calls
    }

    /// Whether a job has at most one request in flight.
    pub fn is_synchronous(self) -> bool {
        self.row().is_synchronous
    }

    /// Whether it submits through io_uring and has the options of io_uring.
    pub fn is_uring(self) -> bool {
        self.row().is_uring
    }

    /// Whether it passes per-write flags to the kernel.
    pub fn has_write_flags(self) -> bool {
        self.row().has_write_flags
    }

    /// Whether it passes per-request I/O priorities to the kernel.
    pub fn has_priorities(self) -> bool {
        self.row().has_priorities
    }

    /// The target of its operations.
    pub fn works_on(self) -> WorksOn {
        self.row().works_on
    }

    /// Whether it works on files and block devices.
    pub fn opens_files(self) -> bool {
        self.works_on() == WorksOn::Files
    }

    /// Whether its operations take real time on real storage.
    pub fn is_real(self) -> bool {
        !matches!(self.works_on(), WorksOn::Nothing | WorksOn::Simulation)
    }

    /// The names of these engines as a phrase: `a, b or c`.
    pub fn either_of(kinds: impl Iterator<Item = EngineKind>) -> String {
        let names: Vec<&str> = kinds.map(EngineKind::name).collect();
        match names.split_last() {
            Some((last, [])) => (*last).into(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        }
    }

    /// The engine that carries out the load of the fio engine of this name.
    pub fn of_fio(name: &str) -> Option<EngineKind> {
        let is_fio = |row: &&Row| !matches!(row.works_on, WorksOn::Server | WorksOn::Simulation);
        let mut rows = Self::ROWS.iter().filter(is_fio);
        rows.find(|row| row.name == name || row.fio_names.contains(&name)).map(|row| row.kind)
    }

    /// How it carries out the load of the fio engine of this name, if that is a different engine.
    pub fn instead_of(self, name: &str) -> Option<String> {
        match self {
            _ if name == self.name() => None,
            EngineKind::IoUring => Some(
                "io_uring, which keeps as many requests in flight without a pool of threads".into(),
            ),
            _ if self.is_synchronous() => {
                Some(format!("one {} per operation", self.calls().join(" or ")))
            }
            _ => None,
        }
    }

    /// Names that [`EngineKind::of_fio`] accepts.
    pub fn fio_names() -> impl Iterator<Item = &'static str> {
        let names = |row: &Row| [row.name].into_iter().chain(row.fio_names.iter().copied());
        Self::ROWS.iter().flat_map(names).filter(|name| Self::of_fio(name).is_some())
    }

    /// The engine of this name; hyphen and underscore are equivalent.
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

/// An engine name that is unknown or not allowed here.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "--ioengine: found `{found}`, expected one of {}{}",
    .expected.join(", "),
    count::did_you_mean(.found, .expected.iter().copied())
)]
pub struct EngineNameError {
    found: String,
    expected: Vec<&'static str>,
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
        // The names in a plan are those of serde, whose message lists every variant.
        let unknown = serde_json::from_str::<EngineKind>("\"?\"").unwrap_err().to_string();
        let words: Vec<&str> =
            unknown.split('`').skip(1).step_by(2).filter(|w| *w != "?").collect();
        assert!(words.len() > 7 && words.contains(&"io_uring"), "{unknown}");
        for word in &words {
            let kind: EngineKind = serde_json::from_str(&format!("\"{word}\"")).unwrap();
            assert!(all.contains(&kind), "{word} has no row");
        }
        assert_eq!(all.len(), words.len());
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
