//! The figures of a run used in points, tables and charts, each with its unit.

use serde::Serialize;

use crate::figures::{FIVE_NINES, Figures};
use crate::finding::{Finding, Severity, Strength};
use crate::verdict::FEWEST_OPS;
use iosonde_model::spec::Direction;
use iosonde_model::units::{bytes, count, duration};
use iosonde_stats::Quantile;

/// Share of values on the rarer side at or above which a percentile is not a rare one.
const CENTRAL: f64 = 0.25;

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Operations per second.
    Iops,
    /// Bytes per second.
    Bandwidth,
    /// Bytes per second, the final sync included.
    Durable,
    Mean,
    /// A quantile of the latency, `0..1`.
    Quantile(f64),
    /// Largest latency.
    Max,
    SyncMean,
    Syncs,
    /// Mean queue depth.
    Depth,
    /// CPU time of the process per operation.
    CpuPerOp,
}

/// The kind of a number.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Operations per second.
    PerSecond,
    BytesPerSecond,
    /// Time, ns.
    Time,
    /// A plain number.
    Plain,
}

/// Name, heading, and column name in tables for programs, which ends in the unit.
const MEASURES: [(Measure, &str, &str, &str); 15] = [
    (Measure::Iops, "iops", "IOPS", "iops_per_s"),
    (Measure::Bandwidth, "bw", "bandwidth", "bandwidth_bytes_per_s"),
    (Measure::Durable, "durable", "durable rate", "durable_bytes_per_s"),
    (Measure::Mean, "mean", "mean latency", "latency_mean_ns"),
    (Measure::Quantile(0.5), "p50", "p50", "latency_p50_ns"),
    (Measure::Quantile(0.95), "p95", "p95", "latency_p95_ns"),
    (Measure::Quantile(0.99), "p99", "p99", "latency_p99_ns"),
    (Measure::Quantile(0.999), "p99.9", "p99.9", "latency_p999_ns"),
    (Measure::Quantile(0.9999), "p99.99", "p99.99", "latency_p9999_ns"),
    (Measure::Quantile(FIVE_NINES), "p99.999", "p99.999", "latency_p99999_ns"),
    (Measure::Max, "max", "maximum", "latency_max_ns"),
    (Measure::SyncMean, "sync", "mean sync", "sync_mean_ns"),
    (Measure::Syncs, "syncs", "syncs", "syncs_per_s"),
    (Measure::Depth, "depth", "mean queue depth", "depth_seen_count"),
    (Measure::CpuPerOp, "cpu", "CPU per operation", "cpu_per_op_ns"),
];

impl Measure {
    /// Every measure, in the order of tables.
    pub fn all() -> impl Iterator<Item = Measure> {
        MEASURES.iter().map(|(measure, ..)| *measure)
    }

    /// The measure of this name.
    pub fn parse(word: &str) -> Option<Measure> {
        MEASURES.iter().find(|(_, name, ..)| *name == word).map(|(measure, ..)| *measure)
    }

    fn row(self) -> &'static (Measure, &'static str, &'static str, &'static str) {
        MEASURES.iter().find(|(measure, ..)| *measure == self).unwrap_or(&MEASURES[0])
    }

    /// Name as typed in files and options.
    pub fn word(self) -> &'static str {
        self.row().1
    }

    /// Name as printed in headings and on axes.
    pub fn title(self) -> &'static str {
        self.row().2
    }

    /// Name of the column in tables for programs.
    pub fn column(self) -> &'static str {
        self.row().3
    }

    /// Kind of the number.
    pub fn quantity(self) -> Quantity {
        match self {
            Measure::Iops | Measure::Syncs => Quantity::PerSecond,
            Measure::Bandwidth | Measure::Durable => Quantity::BytesPerSecond,
            Measure::Depth => Quantity::Plain,
            _ => Quantity::Time,
        }
    }

    /// Whether higher is better; `None` if neither is.
    pub fn more_is_better(self) -> Option<bool> {
        match self.quantity() {
            Quantity::PerSecond | Quantity::BytesPerSecond => Some(true),
            Quantity::Time => Some(false),
            Quantity::Plain => None,
        }
    }

    /// Whether the measure applies to the whole run only: reads and writes have no separate value.
    pub fn is_of_the_whole(self) -> bool {
        use Measure::{CpuPerOp, Depth, Durable, SyncMean, Syncs};
        matches!(self, CpuPerOp | Depth | Durable | SyncMean | Syncs)
    }

    /// The value in a run; `None` if it is unknown or the number of samples does not support it.
    pub fn of(self, figures: &Figures, direction: Direction) -> Option<f64> {
        let all = &figures.all;
        let of = figures.all.of(direction);
        match self {
            Measure::Iops => (of.ops > 0).then_some(of.iops),
            Measure::Bandwidth => (of.ops > 0).then_some(of.bytes_per_s),
            Measure::Durable => figures.durable.as_ref().and_then(|durable| durable.bytes_per_s),
            Measure::Mean => of.latency.mean_ns,
            Measure::Quantile(q) => of.latency.at(q).map(|ns| ns as f64),
            Measure::Max => of.latency.max_ns.map(|ns| ns as f64),
            Measure::SyncMean => all.sync.latency.mean_ns,
            Measure::Syncs => (all.sync.ops > 0).then_some(all.sync.iops),
            Measure::Depth => Some(all.depth_seen),
            Measure::CpuPerOp => figures.cpu_ns_per_op,
        }
    }

    /// Whether a run supports the measure. A rare percentile needs the equivalent of 100
    /// independent values beyond it, as its error otherwise exceeds the variation between runs;
    /// and it must not lie between two modes, where the mean over runs is neither of them. All
    /// other measures need enough operations.
    pub(super) fn is_solid(self, figures: &Figures, direction: Direction) -> bool {
        match self {
            Measure::Quantile(q) if q.min(1.0 - q) < CENTRAL => {
                let quantile = figures.all.of(direction).latency.quantile(q);
                quantile.is_some_and(Quantile::is_solid)
            }
            _ => figures.all.total.ops >= FEWEST_OPS,
        }
    }

    /// Relative error of the value of a run, independent of the variation between runs: the range
    /// of a percentile, or the operation that an edge of the window cuts.
    pub(super) fn resolution(self, figures: &Figures, direction: Direction) -> f64 {
        match self {
            Measure::Quantile(q) => {
                let quantile = figures.all.of(direction).latency.quantile(q);
                quantile.map_or(0.0, Quantile::resolution)
            }
            Measure::Iops | Measure::Bandwidth | Measure::Mean => {
                1.0 / figures.all.of(direction).ops.max(1) as f64
            }
            _ => 0.0,
        }
    }

    /// A value as printed, with its unit.
    pub fn formatted(self, value: f64) -> String {
        match self.quantity() {
            Quantity::PerSecond => count::significant_or_whole(value),
            Quantity::BytesPerSecond => bytes::per_second(value),
            Quantity::Time => duration::latency(value),
            Quantity::Plain => count::significant(value),
        }
    }
}

/// Warns of too few operations: they are no representative sample, and the ends of the run cut off
/// slow ones.
pub(super) fn few_operations(ops: u64) -> Option<Finding> {
    let words = format!(
        "{} in a run: fewer than {FEWEST_OPS} say little of the rest; give longer runs \
         (--seconds).",
        count::of(ops, "operation")
    );
    let (strength, severity) = (Strength::Proven, Severity::LowConfidence);
    let finding = Finding::new("few_operations", "too few operations", strength, severity, words);
    (1..FEWEST_OPS).contains(&ops).then_some(finding)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn each_measure_has_a_row_of_its_own_and_its_unit_in_its_name() {
        for measure in Measure::all() {
            assert_eq!(Measure::parse(measure.word()), Some(measure));
            let ends = match measure.quantity() {
                Quantity::PerSecond => "_per_s",
                Quantity::BytesPerSecond => "_bytes_per_s",
                Quantity::Time => "_ns",
                Quantity::Plain => "_count",
            };
            assert!(measure.column().ends_with(ends), "{}", measure.column());
        }
    }
}
