//! The cases: which target, which depth, and what iosonde is expected to reach there.

use clap::ValueEnum;

use crate::tool::Kind;

/// One measurement that all tools repeat in each round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum CaseName {
    /// Preallocated file, depth 128
    Qd128,
    /// Preallocated file, depth 32
    Qd32,
    /// Preallocated file, depth 8
    Qd8,
    /// Preallocated file, depth 1, synchronous
    Qd1,
    /// Written random data on the disk, depth 32
    Disk,
    /// The null engine: iosonde's own ceiling
    Null,
    /// A vhost-user server without data, depth 32
    Vhost32,
    /// A vhost-user server without data, depth 1
    Vhost1,
}

/// Which file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetName {
    /// Preallocated and unwritten: the whole kernel path, no device.
    Unwritten,
    /// Written random data: the device.
    Written,
    /// The socket of a vhost-user server whose device has no data.
    Served,
}

/// A figure to be held against an expectation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    /// Operations per second of iosonde over the peer's, at least.
    RateAtLeast(Kind, f64),
    /// The same between one and its reciprocal: no difference.
    RateAlike(Kind),
    /// CPU per operation of iosonde over the peer's, at most.
    CpuAtMost(Kind, f64),
    /// Operations per second, at least.
    IopsAtLeast(f64),
    /// Reported median over the calibrated floor, at most.
    FloorAtMost(f64),
}

impl CaseName {
    /// All of them, in the order in which they are run.
    pub(crate) const ALL: [Self; 8] = [
        Self::Qd128,
        Self::Qd32,
        Self::Qd8,
        Self::Qd1,
        Self::Disk,
        Self::Null,
        Self::Vhost32,
        Self::Vhost1,
    ];

    /// What the table calls it.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Qd128 => "4 KiB random reads, preallocated file, depth 128",
            Self::Qd32 => "4 KiB random reads, preallocated file, depth 32",
            Self::Qd8 => "4 KiB random reads, preallocated file, depth 8",
            Self::Qd1 => "4 KiB random reads, preallocated file, depth 1",
            Self::Disk => "4 KiB random reads, written data on the disk, depth 32",
            Self::Null => "null engine, depth 128",
            Self::Vhost32 => "4 KiB random reads, vhost-user null server, depth 32",
            Self::Vhost1 => "4 KiB random reads, vhost-user null server, depth 1",
        }
    }

    /// Requests in flight asked for.
    pub(crate) fn depth(self) -> u32 {
        match self {
            Self::Qd128 | Self::Null => 128,
            Self::Qd32 | Self::Disk | Self::Vhost32 => 32,
            Self::Qd8 => 8,
            Self::Qd1 | Self::Vhost1 => 1,
        }
    }

    /// The file it reads.
    pub(crate) fn target(self) -> TargetName {
        match self {
            Self::Disk => TargetName::Written,
            Self::Vhost32 | Self::Vhost1 => TargetName::Served,
            _ => TargetName::Unwritten,
        }
    }

    /// Who takes part; the first is the one that the others are compared with.
    pub(crate) fn contenders(self) -> &'static [Kind] {
        match self {
            Self::Null => &[Kind::IosondeNull],
            Self::Vhost32 | Self::Vhost1 => &[Kind::IosondeVhost, Kind::BareVhost],
            Self::Qd1 => &[
                Kind::IosondePsync,
                Kind::FioPsync,
                Kind::FioNewPsync,
                Kind::TIoUringSync,
                Kind::Ioping,
                Kind::Bffio,
                Kind::ElbenchoSync,
            ],
            Self::Disk => &[
                Kind::IosondeUring,
                Kind::TIoUring,
                Kind::FioDefault,
                Kind::FioTuned,
                Kind::FioNewDefault,
                Kind::FioNewTuned,
                Kind::Bffio,
                Kind::Elbencho,
            ],
            Self::Qd128 | Self::Qd32 | Self::Qd8 => &[
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
        }
    }

    /// What iosonde should reach.
    pub(crate) fn goals(self) -> &'static [Goal] {
        match self {
            Self::Qd128 | Self::Qd32 => &[
                Goal::RateAtLeast(Kind::FioTuned, 1.30),
                Goal::RateAtLeast(Kind::FioNewTuned, 1.30),
                Goal::RateAtLeast(Kind::FioDefault, 3.2),
                Goal::RateAtLeast(Kind::FioNewDefault, 3.2),
                Goal::RateAtLeast(Kind::TIoUring, 0.98),
            ],
            Self::Qd8 => &[],
            Self::Qd1 => &[
                Goal::FloorAtMost(1.05),
                Goal::RateAtLeast(Kind::FioPsync, 2.0),
                Goal::RateAtLeast(Kind::FioNewPsync, 2.0),
            ],
            Self::Disk => {
                &[Goal::RateAlike(Kind::FioDefault), Goal::CpuAtMost(Kind::FioDefault, 0.5)]
            }
            Self::Null => &[Goal::IopsAtLeast(25e6)],
            Self::Vhost32 | Self::Vhost1 => &[Goal::RateAtLeast(Kind::BareVhost, 0.90)],
        }
    }
}
