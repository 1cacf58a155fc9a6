//! The tools, and the command line by which each does the same work.

use std::path::{Path, PathBuf};

use crate::RunArgs;
use crate::measure::Ran;
use crate::parse::{self, Reported};

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
}

/// Best batch of the peers on this target; iosonde chooses its own.
const BATCH: u32 = 32;

/// The words of a command line in which `FILE` stands for the file, whose path may have spaces.
fn words(text: &str, file: &str) -> Vec<String> {
    text.split_whitespace().map(|word| word.replace("FILE", file)).collect()
}

pub(crate) fn found(program: &Path) -> bool {
    if program.components().count() > 1 {
        return program.is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

impl Kind {
    /// What the tables call it.
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
        }
    }

    /// The program, and the flag or variable that names it; `Err` with the reason to skip it.
    pub(crate) fn program(self, args: &RunArgs) -> Result<PathBuf, String> {
        let (path, variable) = match self {
            Self::IosondeUring | Self::IosondePsync | Self::IosondeNull | Self::IosondeVhost => {
                (Some(&args.iosonde), "IOSONDE")
            }
            Self::FioDefault
            | Self::FioTuned
            | Self::FioTunedNoClock
            | Self::FioLibaio
            | Self::FioPsync => (Some(&args.fio), "FIO"),
            Self::FioNewDefault
            | Self::FioNewTuned
            | Self::FioNewTunedNoClock
            | Self::FioNewPsync => (args.fio_new.as_ref(), "FIO_NEW"),
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
            Some(path) if !found(path) => Err(format!("{} is not there", path.display())),
            Some(path) => Ok(path.clone()),
        }
    }

    /// Its arguments for 4 KiB random direct reads of `file`.
    pub(crate) fn arguments(
        self,
        file: &str,
        size_bytes: u64,
        depth: u32,
        seconds: f64,
    ) -> Vec<String> {
        let whole_seconds = seconds.ceil().max(2.0);
        let batch = depth.min(BATCH);
        let iosonde = |engine: &str| {
            format!(
                "run --path FILE --rw randread --bs 4k --iodepth {depth} --runtime {seconds} \
                 --ioengine {engine} --output-format json"
            )
        };
        let fio = |engine: &str, more: &str| {
            format!(
                "--name=a --filename=FILE --size={size_bytes} --rw=randread --bs=4k --direct=1 \
                 --runtime={seconds} --time_based --thread=1 --output-format=json \
                 --ioengine={engine} {more}"
            )
        };
        let tuned = format!(
            "--iodepth={depth} --fixedbufs=1 --registerfiles=1 --nonvectored=1 --norandommap=1 \
             --iodepth_batch_submit={batch} --iodepth_batch_complete_min={batch}"
        );
        let t_io_uring = |more: &str| {
            format!("-r{whole_seconds} -d{depth} -s{batch} -c{batch} -p0 -n1 -R1 -P0 {more} FILE")
        };
        let elbencho = |more: &str| {
            format!(
                "-r -b 4k -t 1 {more} --direct --rand --randamount 1t \
                 --timelimit {whole_seconds} -s {size_bytes} --lat --nolive FILE"
            )
        };
        let text = match self {
            Self::IosondeUring => iosonde("io_uring"),
            Self::IosondePsync => iosonde("psync"),
            Self::IosondeNull => iosonde("null"),
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
                "--name=b --rw=randread --bs=4K --size={size_bytes} --filename=FILE --direct=1 \
                 --runtime={whole_seconds} --time_based --iodepth={depth} --output-format=json"
            ),
            Self::IosondeVhost => iosonde("virtio-blk-vhost-user"),
            Self::BareVhost => format!("FILE {depth} {seconds}"),
            Self::Ioping => format!("-D -B -i 0 -w {seconds} -s 4k -S {size_bytes} FILE"),
        };
        words(&text, file)
    }

    /// What it said, understood; `None` where that cannot be.
    pub(crate) fn reported(self, ran: &Ran) -> Option<Reported> {
        match self {
            Self::IosondeUring | Self::IosondePsync | Self::IosondeNull | Self::IosondeVhost => {
                parse::iosonde(&ran.said)
            }
            Self::TIoUring | Self::TIoUringLatency | Self::TIoUringSync | Self::BareVhost => {
                parse::t_io_uring(&ran.said)
            }
            Self::Elbencho | Self::ElbenchoSync => parse::elbencho(&ran.said),
            Self::Ioping => parse::ioping(&ran.said),
            _ => parse::fio(&ran.said),
        }
    }
}
