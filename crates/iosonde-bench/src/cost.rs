//! Cost of a load over plain random reads: the same engine and target, one property changed.

use std::fmt::Write as _;

use crate::case::CaseName;
use iosonde_stats::ratio::median;

use crate::numbers::{rate, spread};
use crate::rounds::{CaseResult, Sample};
use crate::summary::column;
use crate::tool::Kind;

/// The property that differs from plain random reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Extra {
    Mixed,
    Write,
    Sync,
    Zipf,
    Stride,
    Split,
    OpenLoop,
    Hold,
    TwoTargets,
}

impl Extra {
    /// Loads whose instructions can be counted: on the null engine, which has one target, and for a
    /// number of operations. An open loop waits and may drop operations; a latency target needs a
    /// duration.
    pub(crate) const COUNTED: [Self; 6] =
        [Self::Mixed, Self::Write, Self::Sync, Self::Zipf, Self::Stride, Self::Split];

    /// Title in the tables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Mixed => "70 % reads, 30 % writes",
            Self::Write => "writes, fresh incompressible data",
            Self::Sync => "writes, a sync after every 32",
            Self::Zipf => "zipf:1.2",
            Self::Stride => "sequential, strides of 64 KiB",
            Self::Split => "sizes 4k/70:64k/30",
            Self::OpenLoop => "open loop, half the maximum rate",
            Self::Hold => "latency target, held",
            Self::TwoTargets => "two targets",
        }
    }

    /// Key of its instruction count.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Mixed => "mixed",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Zipf => "zipf",
            Self::Stride => "stride",
            Self::Split => "bssplit",
            Self::OpenLoop => "open_loop",
            Self::Hold => "hold",
            Self::TwoTargets => "two_targets",
        }
    }

    /// Arguments of the load, including the direction. `SECOND` stands for a second target.
    pub(crate) fn words(self, operations_per_s: f64) -> String {
        let sizes = if self == Self::Split { "--bssplit 4k/70:64k/30" } else { "--bs 4k" };
        let load = match self {
            Self::Mixed => "--rw randrw --rwmixread 70".to_owned(),
            Self::Write => "--rw randwrite".to_owned(),
            Self::Sync => "--rw randwrite --sync 32".to_owned(),
            Self::Zipf => "--rw randread --random-distribution zipf:1.2".to_owned(),
            Self::Stride => "--rw read --stride 64k".to_owned(),
            Self::Split => "--rw randread".to_owned(),
            Self::OpenLoop => format!("--rw randread --rate-iops {operations_per_s:.0}"),
            // A limit that the full depth meets, so that only the control loop is measured.
            Self::Hold => {
                "--rw randread --latency-target p99<=100ms --latency-mode hold --latency-window 1"
                    .to_owned()
            }
            Self::TwoTargets => "--rw randread --path SECOND".to_owned(),
        };
        format!("{sizes} {load}")
    }
}

/// CPU time of a load minus that of plain reads in the same round, ns per operation, per round.
fn over_plain(described: &CaseResult, plain: Kind, kind: Kind) -> Vec<f64> {
    let cost = |kind: Kind| column(described, kind.title(), |sample| Some(sample.cpu_ns_per_op));
    let (plain, other) = (cost(plain), cost(kind));
    if plain.len() != other.len() {
        return Vec::new();
    }
    other.iter().zip(&plain).map(|(other, plain)| other - plain).collect()
}

/// Bytes of fresh data per second: the size of a write over its extra cost compared with a read.
pub(crate) fn filled_per_s(described: &CaseResult, plain: Kind) -> Option<f64> {
    const BLOCK_BYTES: f64 = 4096.0;
    let more_ns = median(&over_plain(described, plain, Kind::NullWith(Extra::Write)))?;
    Some(BLOCK_BYTES / more_ns * 1e9)
}

pub(crate) fn table(case: CaseName, described: &CaseResult) -> String {
    let mut text = "| load | CPU ns per I/O | over plain, ns | min to max | IOPS median |\n\
                    | --- | --- | --- | --- | --- |\n"
        .to_owned();
    let plain = case.contenders()[0];
    for &kind in case.contenders() {
        let of = |figure: fn(&Sample) -> f64| {
            median(&column(described, kind.title(), |sample| Some(figure(sample))))
        };
        let more = over_plain(described, plain, kind);
        let figures = (of(|sample| sample.cpu_ns_per_op), of(|sample| sample.iops));
        let (Some(cpu_ns), Some(iops)) = figures else { continue };
        let (Some(middle), Some((low, high))) = (median(&more), spread(&more)) else { continue };
        let title = if kind == plain { "plain random reads" } else { kind.title() };
        let iops = rate(iops);
        let _ = writeln!(
            text,
            "| {title} | {cpu_ns:.1} | {middle:+.1} | {low:+.1} to {high:+.1} | {iops} |"
        );
    }
    text
}
