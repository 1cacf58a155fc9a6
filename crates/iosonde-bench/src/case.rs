//! The cases: target, depth and expected results of iosonde.

use clap::ValueEnum;

use crate::cost::Extra;
use crate::passes::PASSES;
use crate::tool::{Kind, Load};
use crate::watched::{Subject, Watcher};

/// One measurement that all tools repeat in each round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum CaseName {
    /// 64 jobs of depth 256: how soon the first I/O, and how much memory
    Startup,
    /// Preallocated file, depth 128
    Qd128,
    /// Preallocated file, depth 32
    Qd32,
    /// Preallocated file, depth 8
    Qd8,
    /// Preallocated file, depth 1, synchronous
    Qd1,
    /// Two jobs on two CPUs, a preallocated file each, depth 128
    TwoJobs,
    /// Writes to /dev/null, depth 128
    DevNull,
    /// Written random data on the disk, depth 32
    Disk,
    /// The null engine: iosonde's own ceiling
    Null,
    /// A vhost-user server without data, depth 32
    Vhost32,
    /// A vhost-user server without data, depth 1
    Vhost1,
    /// What each kind of load costs over plain reads, on the null engine
    CostsNull,
    /// The same on a preallocated file, for those that only read
    CostsFile,
    /// The same on a file in memory, for those that write
    CostsMemory,
    /// The cost of creating and checking a block of the verifier, beside a copy of memory
    Blocks,
    /// Verifying on a file in memory, synchronous
    VerifyMemory,
    /// Verifying on the disk, depth 16
    VerifyDisk,
    /// A soak on the disk beside the same load without verifying, depth 32
    SoakDisk,
    /// What a program on the disk loses to `iosonde profile` and to bpftrace, depth 32
    ProfileDisk,
    /// The same on a loop device over a file in memory
    ProfileFast,
    /// How much later a command starts for being profiled
    ProfileStart,
    /// Memory of a profile's collector after a long run and a short one
    ProfileMemory,
}

/// File or device of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetName {
    /// Preallocated and unwritten: the whole kernel path without a device.
    Unwritten,
    /// Two such files, and a job file with a job for each.
    Pair,
    /// Written random data: requests reach the device.
    Written,
    /// A file of zeros in memory: writes without a device.
    Memory,
    /// A larger file in memory.
    LongMemory,
    /// `/dev/null`.
    DevNull,
    /// The socket of a vhost-user server whose device has no data.
    Served,
    /// A loop device over a file in memory.
    Loop,
}

/// A figure with an expectation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    /// Operations per second of iosonde over the peer's, at least.
    RateAtLeast(Kind, f64),
    /// The ratio does not differ from 1 by more than the noise.
    RateAlike(Kind),
    /// CPU per operation of iosonde over the peer's, at most.
    CpuAtMost(Kind, f64),
    /// Bytes verified per CPU second in user mode, iosonde over the peer, at least. Time in the
    /// kernel is the cost of reading and writing, not of verifying.
    VerifiesAtLeast(Kind, f64),
    /// Operations per second, at least.
    IopsAtLeast(f64),
    /// Reported median over the calibrated floor, at most.
    FloorAtMost(f64),
    /// Bytes filled with fresh data per second, at least: the size of a write over its extra cost
    /// compared with a read.
    FillAtLeast(f64),
    /// Seconds from the start of the program to its first I/O, at most.
    FirstIoWithin(f64),
    /// Memory in addition to buffers, bytes, at most.
    MemoryWithin(u64),
    /// Share of the operations per second that a watched program loses, at most.
    LossAtMost(f64),
    /// That share over bpftrace's, at most.
    LossOverBpftraceAtMost(f64),
    /// Seconds by which profiling delays the start of a command, at most.
    ReleasedWithin(f64),
    /// Memory of the collector after the long run over that after the short one, at most.
    MemoryGrowsAtMost(f64),
}

impl CaseName {
    /// All cases, in the order in which they run. The one that measures memory comes first: the
    /// system reports the largest of all children so far.
    pub(crate) const ALL: [Self; 22] = [
        Self::Startup,
        Self::Qd128,
        Self::Qd32,
        Self::Qd8,
        Self::Qd1,
        Self::TwoJobs,
        Self::DevNull,
        Self::Disk,
        Self::Null,
        Self::Vhost32,
        Self::Vhost1,
        Self::CostsNull,
        Self::CostsFile,
        Self::CostsMemory,
        Self::Blocks,
        Self::VerifyMemory,
        Self::VerifyDisk,
        Self::SoakDisk,
        Self::ProfileDisk,
        Self::ProfileFast,
        Self::ProfileStart,
        Self::ProfileMemory,
    ];

    /// Title in the tables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Startup => "Start-up: 64 jobs of depth 256, preallocated file",
            Self::Qd128 => "4 KiB random reads, preallocated file, depth 128",
            Self::Qd32 => "4 KiB random reads, preallocated file, depth 32",
            Self::Qd8 => "4 KiB random reads, preallocated file, depth 8",
            Self::Qd1 => "4 KiB random reads, preallocated file, depth 1",
            Self::TwoJobs => {
                "4 KiB random reads, two jobs on two CPUs, a preallocated file each, depth 128"
            }
            Self::DevNull => "4 KiB random writes to /dev/null, depth 128",
            Self::Disk => "4 KiB random reads, written data on the disk, depth 32",
            Self::Null => "null engine, depth 128",
            Self::Vhost32 => "4 KiB random reads, vhost-user null server, depth 32",
            Self::Vhost1 => "4 KiB random reads, vhost-user null server, depth 1",
            Self::CostsNull => "Cost of a load over plain random reads: null engine, depth 128",
            Self::CostsFile => {
                "Cost of a load over plain random reads: preallocated file, depth 128"
            }
            Self::CostsMemory => {
                "Cost of a load over plain random reads: file in memory, depth 128"
            }
            Self::Blocks => {
                "Cost of a block of the verifier, compared with a copy of the same \
                memory"
            }
            Self::VerifyMemory => {
                "Written, read back and verified in blocks of 4 KiB: file in memory, 64 KiB each, \
                 psync"
            }
            Self::VerifyDisk => {
                "Written, read back and verified in blocks of 4 KiB: file on the disk, 64 KiB \
                 each, io_uring, direct, depth 16"
            }
            Self::SoakDisk => {
                "Verifying soak compared with the same load: 4 KiB, half reads, file on the disk, \
                 depth 32"
            }
            Self::ProfileDisk => {
                "Overhead of profiling: fio, 4 KiB random reads, written data on the disk, depth 32"
            }
            Self::ProfileFast => {
                "Overhead of profiling: fio, 4 KiB random reads, loop device over a file in \
                 memory, depth 32"
            }
            Self::ProfileStart => "Overhead of profiling: when the command starts",
            Self::ProfileMemory => {
                "Overhead of profiling: memory after ten times the length, loop device over a \
                 file in memory, depth 32"
            }
        }
    }

    /// Requests in flight per job.
    pub(crate) fn depth(self) -> u32 {
        match self {
            Self::Startup => 256,
            Self::Qd128 | Self::Null | Self::TwoJobs | Self::DevNull => 128,
            Self::CostsNull | Self::CostsFile | Self::CostsMemory => 128,
            Self::Qd32 | Self::Disk | Self::Vhost32 | Self::SoakDisk => 32,
            Self::ProfileDisk | Self::ProfileFast | Self::ProfileMemory => 32,
            Self::VerifyDisk => 16,
            Self::Qd8 => 8,
            Self::Qd1 | Self::Vhost1 | Self::VerifyMemory | Self::Blocks | Self::ProfileStart => 1,
        }
    }

    /// Target of the case.
    pub(crate) fn target(self) -> TargetName {
        match self {
            Self::TwoJobs | Self::CostsFile => TargetName::Pair,
            Self::DevNull => TargetName::DevNull,
            Self::Disk | Self::VerifyDisk | Self::SoakDisk | Self::ProfileDisk => {
                TargetName::Written
            }
            Self::ProfileFast | Self::ProfileMemory => TargetName::Loop,
            Self::VerifyMemory => TargetName::LongMemory,
            Self::Vhost32 | Self::Vhost1 => TargetName::Served,
            Self::CostsMemory => TargetName::Memory,
            // Their data are in the program's own memory.
            Self::Blocks | Self::ProfileStart => TargetName::DevNull,
            _ => TargetName::Unwritten,
        }
    }

    /// The work of the tools.
    pub(crate) fn load(self) -> Load {
        match self {
            Self::TwoJobs => Load::TwoJobs,
            Self::DevNull => Load::Writes,
            Self::VerifyMemory => Load::VerifiedInMemory,
            Self::VerifyDisk => Load::VerifiedOnDisk,
            Self::SoakDisk => Load::Mixed,
            _ => Load::Reads,
        }
    }

    /// Rounds of this case if `asked` are requested. The vhost-user cases have narrow limits and
    /// get nine for five.
    pub(crate) fn rounds(self, asked: u32) -> u32 {
        match self {
            Self::Vhost32 | Self::Vhost1 => asked * 9 / 5,
            Self::ProfileMemory => 1,
            _ => asked,
        }
    }

    /// Seconds per run if `asked` are requested. A cost table has many rows of one tool, and a
    /// start has no length.
    pub(crate) fn seconds(self, asked: f64) -> f64 {
        match self {
            Self::Startup | Self::Blocks => asked / 4.0,
            Self::CostsNull | Self::CostsFile | Self::CostsMemory => asked / 2.0,
            Self::ProfileDisk | Self::ProfileFast | Self::ProfileMemory => asked * 2.0,
            _ => asked,
        }
    }

    /// Whether its rows are printed as costs over the first one.
    pub(crate) fn is_cost_table(self) -> bool {
        matches!(self, Self::CostsNull | Self::CostsFile | Self::CostsMemory)
    }

    /// Whether it measures profiled programs.
    pub(crate) fn is_watched(self) -> bool {
        matches!(
            self,
            Self::ProfileDisk | Self::ProfileFast | Self::ProfileStart | Self::ProfileMemory
        )
    }

    /// Upper limit on the bytes used of the target, because a soak reads all of it back.
    pub(crate) fn most_bytes(self) -> u64 {
        match self {
            Self::SoakDisk => 256 << 20,
            _ => u64::MAX,
        }
    }

    /// The tools compared. The first is the reference.
    pub(crate) fn contenders(self) -> &'static [Kind] {
        match self {
            Self::Startup => &[Kind::IosondeStartup],
            Self::Null => &[Kind::IosondeNull],
            Self::Vhost32 | Self::Vhost1 => &[Kind::IosondeVhost, Kind::BareVhost],
            Self::Qd1 => &[
                Kind::IosondePsync,
                Kind::FioPsync,
                Kind::FioNewPsync,
                Kind::TIoUring,
                Kind::TIoUringSync,
                Kind::Ioping,
                Kind::Bffio,
                Kind::ElbenchoSync,
            ],
            Self::TwoJobs => &[Kind::IosondeUring, Kind::TIoUring],
            Self::DevNull => &[Kind::IosondeUring, Kind::FioTuned, Kind::FioNewTuned],
            Self::Qd32 | Self::Qd8 | Self::Disk => &[
                Kind::IosondeUring,
                Kind::TIoUring,
                Kind::FioDefault,
                Kind::FioTuned,
                Kind::FioNewDefault,
                Kind::FioNewTuned,
                Kind::Bffio,
                Kind::Elbencho,
            ],
            Self::Qd128 => &[
                Kind::IosondeUring,
                Kind::TIoUring,
                Kind::TIoUringLatency,
                Kind::FioDefault,
                Kind::FioTuned,
                Kind::FioTunedNoClock,
                Kind::FioLibaio,
                Kind::FioNewDefault,
                Kind::FioNewTuned,
                Kind::FioNewTunedNoClock,
                Kind::Bffio,
                Kind::Elbencho,
            ],
            Self::CostsNull => &[
                Kind::IosondeNull,
                Kind::NullWith(Extra::Mixed),
                Kind::NullWith(Extra::Write),
                Kind::NullWith(Extra::Sync),
                Kind::NullWith(Extra::Zipf),
                Kind::NullWith(Extra::Stride),
                Kind::NullWith(Extra::Split),
                Kind::NullWith(Extra::OpenLoop),
                Kind::NullWith(Extra::Hold),
            ],
            Self::CostsFile => &[
                Kind::IosondeUring,
                Kind::UringWith(Extra::Zipf),
                Kind::UringWith(Extra::Stride),
                Kind::UringWith(Extra::Split),
                Kind::UringWith(Extra::OpenLoop),
                Kind::UringWith(Extra::Hold),
                Kind::UringWith(Extra::TwoTargets),
            ],
            Self::CostsMemory => &[
                Kind::IosondeUring,
                Kind::UringWith(Extra::Mixed),
                Kind::UringWith(Extra::Write),
                Kind::UringWith(Extra::Sync),
            ],
            Self::Blocks => &PASSES,
            Self::VerifyMemory | Self::VerifyDisk => {
                &[Kind::IosondeVerify, Kind::FioVerify, Kind::FioNewVerify]
            }
            Self::SoakDisk => &[Kind::IosondeSoak, Kind::IosondeMixed],
            Self::ProfileDisk | Self::ProfileFast => &[
                Kind::Watched(Watcher::Profile, Subject::Reads),
                Kind::Watched(Watcher::Nobody, Subject::Reads),
                Kind::Watched(Watcher::Bpftrace, Subject::Reads),
            ],
            Self::ProfileStart => &[
                Kind::Watched(Watcher::Profile, Subject::Start),
                Kind::Watched(Watcher::Nobody, Subject::Start),
                Kind::Watched(Watcher::Bpftrace, Subject::Start),
            ],
            Self::ProfileMemory => &[
                Kind::Watched(Watcher::Profile, Subject::Reads),
                Kind::Watched(Watcher::Profile, Subject::LongReads),
            ],
        }
    }

    /// The expected results of iosonde.
    pub(crate) fn goals(self) -> &'static [Goal] {
        match self {
            Self::Startup => &[Goal::FirstIoWithin(1.0), Goal::MemoryWithin(512 << 20)],
            Self::Qd128 | Self::Qd32 => &[
                Goal::RateAtLeast(Kind::TIoUring, 0.98),
                Goal::RateAtLeast(Kind::FioTuned, 1.35),
                Goal::RateAtLeast(Kind::FioNewTuned, 1.35),
                Goal::RateAtLeast(Kind::Bffio, 1.9),
            ],
            Self::Qd8 => &[
                Goal::RateAtLeast(Kind::TIoUring, 0.95),
                Goal::RateAtLeast(Kind::FioTuned, 1.35),
                Goal::RateAtLeast(Kind::FioNewTuned, 1.35),
                Goal::RateAtLeast(Kind::Bffio, 1.9),
            ],
            Self::Qd1 => &[
                Goal::FloorAtMost(1.05),
                Goal::RateAtLeast(Kind::TIoUring, 1.35),
                Goal::RateAtLeast(Kind::FioPsync, 2.0),
                Goal::RateAtLeast(Kind::FioNewPsync, 2.0),
            ],
            Self::TwoJobs => &[Goal::RateAtLeast(Kind::TIoUring, 0.95)],
            Self::DevNull => {
                &[Goal::RateAtLeast(Kind::FioTuned, 1.8), Goal::RateAtLeast(Kind::FioNewTuned, 1.8)]
            }
            Self::Disk => {
                &[Goal::RateAlike(Kind::FioDefault), Goal::CpuAtMost(Kind::FioDefault, 0.5)]
            }
            Self::Null => &[Goal::IopsAtLeast(25e6)],
            Self::Vhost32 | Self::Vhost1 => &[Goal::RateAtLeast(Kind::BareVhost, 0.90)],
            Self::CostsNull => &[Goal::FillAtLeast(10e9)],
            Self::VerifyMemory | Self::VerifyDisk => &[
                Goal::VerifiesAtLeast(Kind::FioVerify, 2.0),
                Goal::VerifiesAtLeast(Kind::FioNewVerify, 2.0),
            ],
            Self::SoakDisk => &[Goal::RateAtLeast(Kind::IosondeMixed, 0.75)],
            Self::ProfileDisk => &[Goal::LossAtMost(0.03), Goal::LossOverBpftraceAtMost(1.0 / 3.0)],
            Self::ProfileStart => &[Goal::ReleasedWithin(0.3)],
            Self::ProfileMemory => &[Goal::MemoryGrowsAtMost(1.1)],
            Self::CostsFile | Self::CostsMemory | Self::Blocks | Self::ProfileFast => &[],
        }
    }
}
