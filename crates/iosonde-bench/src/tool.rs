//! The tools, and the command line with which each does the same work.

use std::path::{Path, PathBuf};

use crate::RunArgs;
use crate::cost::Extra;
use crate::measure::Ran;
use crate::parse::{self, Reported};
use crate::passes::Pass;
use crate::verify;
use crate::watched::{self, Programs, Subject, Watcher};

/// One tool in one setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    IosondeUring,
    IosondePsync,
    IosondeNull,
    FioDefault,
    FioTuned,
    FioTunedNoClock,
    FioLibaio,
    FioPsync,
    FioNewDefault,
    FioNewTuned,
    FioNewTunedNoClock,
    FioNewPsync,
    TIoUring,
    TIoUringLatency,
    TIoUringSync,
    Elbencho,
    ElbenchoSync,
    Bffio,
    Ioping,
    IosondeVhost,
    BareVhost,
    IosondeStartup,
    IosondeVerify,
    FioVerify,
    FioNewVerify,
    IosondeSoak,
    IosondeMixed,
    /// A pass over memory in this process.
    Memory(&'static Pass),
    /// The null engine under a load other than plain reads.
    NullWith(Extra),
    /// io_uring under a load other than plain reads.
    UringWith(Extra),
    /// A program under a profiler or under none.
    Watched(Watcher, Subject),
}

/// The work of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    Reads,
    Writes,
    /// Reads by two jobs, one file each.
    TwoJobs,
    /// All data written, read back and verified, synchronously through the page cache.
    VerifiedInMemory,
    /// The same work with direct I/O at depth.
    VerifiedOnDisk,
    /// Half reads, half writes.
    Mixed,
}

/// Target, depth and length of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work<'a> {
    /// The target; for two jobs also a second one, and a job file that names both.
    pub(crate) files: &'a [PathBuf],
    /// Size of a target in bytes.
    pub(crate) bytes: u64,
    /// Requests in flight per job.
    pub(crate) depth: u32,
    pub(crate) seconds: f64,
    pub(crate) load: Load,
    /// Operations per second that an open loop requests.
    pub(crate) half_rate: f64,
    /// Programs for a profiler's command line.
    pub(crate) programs: &'a Programs,
}

/// Jobs of the start-up case.
pub(crate) const STARTUP_JOBS: u32 = 64;

/// Best batch size of the peers on this target; iosonde chooses its own.
const BATCH: u32 = 32;

/// Splits a command line, and replaces the names of files by their paths, which may contain spaces.
fn words(text: &str, files: &[PathBuf]) -> Vec<String> {
    let named = |word: &str| {
        let names = ["FILE", "SECOND", "TWO_JOBS"].iter().zip(files);
        names
            .fold(word.to_owned(), |word, (name, file)| word.replace(name, &file.to_string_lossy()))
    };
    text.split_whitespace().map(named).collect()
}

pub(crate) fn found(program: &Path) -> bool {
    if program.components().count() > 1 {
        return program.is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

impl Kind {
    /// Title in the tables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::IosondeUring => "iosonde io_uring",
            Self::IosondePsync => "iosonde psync",
            Self::IosondeNull => "iosonde null",
            Self::FioDefault => "fio io_uring default",
            Self::FioTuned => "fio io_uring tuned, latency on",
            Self::FioTunedNoClock => "fio io_uring tuned, gtod_reduce",
            Self::FioLibaio => "fio libaio default",
            Self::FioPsync => "fio psync",
            Self::FioNewDefault => "newer fio io_uring default",
            Self::FioNewTuned => "newer fio io_uring tuned, latency on",
            Self::FioNewTunedNoClock => "newer fio io_uring tuned, gtod_reduce",
            Self::FioNewPsync => "newer fio psync",
            Self::TIoUring => "t/io_uring, no latency",
            Self::TIoUringLatency => "t/io_uring -t1, latency on",
            Self::TIoUringSync => "t/io_uring -S1, preadv2",
            Self::Elbencho => "elbencho libaio",
            Self::ElbenchoSync => "elbencho sync",
            Self::Bffio => "BFFIO",
            Self::Ioping => "ioping",
            Self::IosondeVhost => "iosonde vhost-user",
            Self::BareVhost => "bare loop on the crate",
            Self::IosondeStartup => "iosonde io_uring, 64 jobs",
            Self::IosondeVerify => "iosonde verify flush",
            Self::FioVerify => "fio --verify=crc32c",
            Self::FioNewVerify => "newer fio --verify=crc32c",
            Self::IosondeSoak => "iosonde verify soak",
            Self::IosondeMixed => "iosonde io_uring, not verified",
            Self::Memory(pass) => pass.title,
            Self::NullWith(extra) | Self::UringWith(extra) => extra.title(),
            Self::Watched(watcher, subject) => watched::title(watcher, subject),
        }
    }

    /// Path of the program, or the reason to skip it with the flag or variable that names it.
    pub(crate) fn program(self, args: &RunArgs) -> Result<PathBuf, String> {
        let own;
        let (path, variable) = match self {
            Self::IosondeUring
            | Self::IosondePsync
            | Self::IosondeNull
            | Self::IosondeVhost
            | Self::IosondeStartup
            | Self::IosondeVerify
            | Self::IosondeSoak
            | Self::IosondeMixed
            | Self::Memory(_)
            | Self::NullWith(_)
            | Self::UringWith(_)
            | Self::Watched(Watcher::Profile, _) => (Some(&args.iosonde), "IOSONDE"),
            Self::Watched(Watcher::Bpftrace, _) => (Some(&args.bpftrace), "BPFTRACE"),
            Self::Watched(Watcher::Nobody, _) => {
                own = std::env::current_exe().ok();
                (own.as_ref(), "this program")
            }
            Self::FioDefault
            | Self::FioTuned
            | Self::FioTunedNoClock
            | Self::FioLibaio
            | Self::FioPsync
            | Self::FioVerify => (Some(&args.fio), "FIO"),
            Self::FioNewDefault
            | Self::FioNewTuned
            | Self::FioNewTunedNoClock
            | Self::FioNewPsync
            | Self::FioNewVerify => (args.fio_new.as_ref(), "FIO_NEW"),
            Self::TIoUring | Self::TIoUringLatency | Self::TIoUringSync => {
                (args.t_io_uring.as_ref(), "T_IO_URING")
            }
            Self::Elbencho | Self::ElbenchoSync => (args.elbencho.as_ref(), "ELBENCHO"),
            Self::Bffio => (args.bffio.as_ref(), "BFFIO"),
            Self::Ioping => (Some(&args.ioping), "IOPING"),
            Self::BareVhost => (Some(&args.bare_vhost), "BARE_VHOST"),
        };
        match path {
            None => Err(format!("{variable} is not given")),
            Some(path) if !found(path) => Err(format!("{} does not exist", path.display())),
            Some(path) => Ok(path.clone()),
        }
    }

    /// Its arguments for this work, in direct operations of 4 KiB at random offsets.
    pub(crate) fn arguments(self, work: &Work<'_>) -> Vec<String> {
        let &Work { files, bytes, depth, seconds, load, half_rate, programs: _ } = work;
        let whole_seconds = seconds.ceil().max(2.0);
        let batch = depth.min(BATCH);
        // `/dev/null` has no direct I/O; iosonde detects that it is not a file.
        let (rw, direct) = if load == Load::Writes { ("randwrite", 0) } else { ("randread", 1) };
        let iosonde = |engine: &str, more: &str| {
            format!(
                "run --iodepth {depth} --runtime {seconds} --ioengine {engine} \
                 --output-format json {more}"
            )
        };
        // The null engine and `/dev/null` have no size of their own.
        let plain = format!("--rw {rw} --bs 4k --size {bytes}");
        let fio = |engine: &str, more: &str| {
            format!(
                "--name=a --filename=FILE --size={bytes} --rw={rw} --bs=4k --direct={direct} \
                 --runtime={seconds} --time_based --thread=1 --output-format=json \
                 --ioengine={engine} {more}"
            )
        };
        let tuned = format!(
            "--iodepth={depth} --fixedbufs=1 --registerfiles=1 --nonvectored=1 --norandommap=1 \
             --iodepth_batch_submit={batch} --iodepth_batch_complete_min={batch}"
        );
        let t_io_uring = |more: &str| {
            let (jobs, files) =
                if load == Load::TwoJobs { (2, "FILE SECOND") } else { (1, "FILE") };
            format!(
                "-r{whole_seconds} -d{depth} -s{batch} -c{batch} -p0 -n{jobs} -R1 -P0 {more} \
                 {files}"
            )
        };
        let elbencho = |more: &str| {
            format!(
                "-r -b 4k -t 1 {more} --direct --rand --randamount 1t \
                 --timelimit {whole_seconds} -s {bytes} --lat --nolive FILE"
            )
        };
        let text = match self {
            Self::IosondeUring if load == Load::TwoJobs => {
                "run TWO_JOBS --output-format json".to_owned()
            }
            Self::IosondeUring => iosonde("io_uring", &format!("--path FILE {plain}")),
            Self::IosondePsync => iosonde("psync", &format!("--path FILE {plain}")),
            Self::IosondeNull => iosonde("null", &plain),
            Self::IosondeStartup => {
                iosonde("io_uring", &format!("--path FILE {plain} --numjobs {STARTUP_JOBS}"))
            }
            Self::NullWith(extra) => {
                iosonde("null", &format!("--size {bytes} {}", extra.words(half_rate)))
            }
            Self::UringWith(extra) => {
                iosonde("io_uring", &format!("--path FILE {}", extra.words(half_rate)))
            }
            Self::FioDefault | Self::FioNewDefault => {
                fio("io_uring", &format!("--iodepth={depth}"))
            }
            Self::FioTuned | Self::FioNewTuned => fio("io_uring", &tuned),
            Self::FioTunedNoClock | Self::FioNewTunedNoClock => {
                fio("io_uring", &format!("{tuned} --gtod_reduce=1"))
            }
            Self::FioLibaio => fio("libaio", &format!("--iodepth={depth}")),
            Self::FioPsync | Self::FioNewPsync => fio("psync", ""),
            Self::TIoUring => t_io_uring("-B1 -F1 -X1"),
            Self::TIoUringLatency => t_io_uring("-B1 -F1 -X1 -t1"),
            Self::TIoUringSync => t_io_uring("-S1"),
            Self::Elbencho => elbencho(&format!("--iodepth {depth}")),
            Self::ElbenchoSync => elbencho(""),
            Self::Bffio => format!(
                "--name=b --rw=randread --bs=4K --size={bytes} --filename=FILE --direct=1 \
                 --runtime={whole_seconds} --time_based --iodepth={depth} --output-format=json"
            ),
            Self::IosondeVhost => iosonde("virtio-blk-vhost-user", &format!("--path FILE {plain}")),
            Self::BareVhost => format!("FILE {depth} {seconds}"),
            Self::IosondeVerify => verify::iosonde_words(bytes, depth),
            Self::FioVerify | Self::FioNewVerify => verify::fio_words(bytes, depth),
            Self::IosondeSoak => verify::soak_words(bytes, depth, seconds),
            Self::IosondeMixed => verify::plain_words(bytes, depth, seconds),
            Self::Memory(_) => String::new(),
            Self::Watched(watcher, subject) => return watched::arguments(watcher, subject, work),
            Self::Ioping => format!("-D -B -i 0 -w {seconds} -s 4k -S {bytes} FILE"),
        };
        words(&text, files)
    }

    /// Exit statuses of a run whose measurement is valid. iosonde may judge a load as too high (3)
    /// or a latency target as undecided (7): its cost is known nevertheless. Verification on a file
    /// in memory is inconclusive (7), because no device can be flushed, but does the same work.
    pub(crate) fn fine_statuses(self) -> &'static [i32] {
        match self {
            Self::NullWith(_) | Self::UringWith(_) => &[0, 3, 7],
            Self::IosondeVerify | Self::IosondeSoak => &[0, 7],
            _ => &[0],
        }
    }

    /// File of its record that is read.
    pub(crate) fn record(self) -> &'static str {
        match self {
            Self::Watched(..) => "01-profile.json",
            _ => "01-verify.json",
        }
    }

    /// Figures from its output, or from its record if that has them; `None` if unparsable.
    pub(crate) fn reported(self, ran: &Ran, record: Option<&str>) -> Option<Reported> {
        match self {
            Self::IosondeVerify => verify::flushed(record?),
            Self::IosondeSoak => verify::soaked(record?),
            Self::Watched(_, subject) => watched::reported(ran, subject),
            Self::IosondeUring
            | Self::IosondePsync
            | Self::IosondeNull
            | Self::IosondeVhost
            | Self::IosondeStartup
            | Self::IosondeMixed
            | Self::NullWith(_)
            | Self::UringWith(_) => parse::iosonde(&ran.said),
            Self::TIoUring | Self::TIoUringLatency | Self::TIoUringSync | Self::BareVhost => {
                parse::t_io_uring(&ran.said)
            }
            Self::Elbencho | Self::ElbenchoSync => parse::elbencho(&ran.said),
            Self::Ioping => parse::ioping(&ran.said),
            Self::FioVerify | Self::FioNewVerify => verify::fio(&ran.said),
            Self::Memory(_) => None,
            _ => parse::fio(&ran.said),
        }
    }
}
