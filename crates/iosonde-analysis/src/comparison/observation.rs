//! One run as input of a comparison, also stored in baselines: a value per metric, and conditions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::contrast::Better;
use super::identity::Identity;
use crate::document;
use crate::figures::DirectionFigures;
use crate::finding::{Finding, Severity};
use crate::verdict::assess;
use iosonde_model::record::HostFacts;
use iosonde_model::record::checksums::checksum;
use iosonde_model::record::run::Run;

/// Name and version of the schema of a baseline.
pub const BASELINE_SCHEMA: &str = "iosonde.baseline/1";

/// Metrics compared by default, in the order of the table.
pub const METRICS: [&str; 8] = ["iops", "bw", "mean", "p50", "p95", "p99", "p99.9", "cpu"];

/// Runs kept for later comparisons.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Baseline {
    /// [`BASELINE_SCHEMA`].
    pub schema: String,
    /// Version of the program that wrote it.
    pub program: String,
    /// Time of writing, ns since 1970.
    pub written_unix_ns: u64,
    pub runs: Vec<Observation>,
}

/// One run as input of a comparison.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Observation {
    /// SHA-256 of the record, in hexadecimal; empty in older baselines.
    #[serde(default)]
    pub record: String,
    /// The cell: the title of the workload, and its levels in an experiment.
    pub cell: String,
    /// Seed of the run's random numbers; `None` in older baselines.
    pub seed: Option<u64>,
    /// The facts that must be equal.
    pub identity: Identity,
    /// Start of the measured window, ns since 1970.
    pub started_unix_ns: u64,
    /// Directions that moved data: `read`, `write`, `trim`.
    pub directions: Vec<String>,
    /// Values by metric, for all directions together; with several directions, also with prefix
    /// (`read.`). Rates per second, latencies and CPU time per operation in ns. Values that the
    /// number of samples does not support, such as a p99.9 of a thousand operations, are absent.
    pub values: BTreeMap<String, f64>,
    /// 95 % intervals of values within this run; they do not show the variation between runs.
    #[serde(default)]
    pub within: BTreeMap<String, (f64, f64)>,
    /// Why the run cannot be compared; `None` if it can.
    pub left_out: Option<String>,
    /// Why the values have low confidence.
    #[serde(default)]
    pub doubts: Vec<String>,
    /// Whether the offered load exceeds what the storage sustains, so that there are no latencies.
    #[serde(default)]
    pub is_unsustainable: bool,
}

impl Observation {
    /// Reads a run. `levels` is the text of a trial's levels, empty for a standalone run.
    pub fn of(run: &Run, levels: &str, host: Option<&HostFacts>) -> Observation {
        let row = assess(run, host);
        let figures = &row.figures;
        let all = &figures.all;
        let moved = [("read", &all.read), ("write", &all.write), ("trim", &all.trim)];
        let moved: Vec<_> = moved.into_iter().filter(|(_, each)| each.ops > 0).collect();
        let (mut values, mut within) = (BTreeMap::new(), BTreeMap::new());
        add("", &all.total, &mut values, &mut within);
        if moved.len() > 1 {
            for (name, direction) in &moved {
                add(&format!("{name}."), direction, &mut values, &mut within);
            }
        }
        values.extend(figures.cpu_ns_per_op.map(|ns| ("cpu".to_owned(), ns)));
        let durable = figures.durable.as_ref().and_then(|durable| durable.bytes_per_s);
        values.extend(durable.map(|rate| ("durable".to_owned(), rate)));
        values.retain(|_, value| value.is_finite() && *value > 0.0);
        values.values_mut().for_each(|value| *value = rounded(*value));
        let left_out = if !row.consistency.valid() {
            Some("INVALID, its consistency checks failed".to_owned())
        } else if !row.complete {
            Some("it did not complete".to_owned())
        } else {
            None
        };
        let is_overload = |finding: &Finding| finding.code == "unsustainable";
        let is_low = |finding: &Finding| finding.severity >= Severity::LowConfidence;
        let doubts = row.findings.iter().filter(|each| is_low(each) || is_overload(each));
        Observation {
            record: checksum(&serde_json::to_vec(run).unwrap_or_default()),
            cell: named(&run.plan.title, levels),
            seed: Some(run.plan.seed),
            identity: Identity::of(run, host),
            started_unix_ns: run.started_unix_ns,
            directions: moved.iter().map(|(name, _)| (*name).to_owned()).collect(),
            values,
            within,
            left_out,
            doubts: doubts
                .map(|finding| match is_overload(finding) {
                    true => "a rate that was not sustained".to_owned(),
                    false => finding.subject.clone(),
                })
                .collect(),
            is_unsustainable: row.findings.iter().any(is_overload),
        }
    }

    /// Checksum of the record, which identifies it; `None` if unknown.
    pub fn identical(&self) -> Option<&str> {
        (!self.record.is_empty()).then_some(&self.record)
    }

    /// Whether both are simulations with the same seed: runs of a real device never agree in every
    /// figure. CPU time is excluded, as it is real in simulations too.
    pub fn is_copy_of(&self, other: &Observation) -> bool {
        let figures = |of: &Observation| {
            let values = of.values.iter().filter(|(metric, _)| *metric != "cpu");
            values.map(|(metric, value)| (metric.clone(), *value)).collect::<Vec<_>>()
        };
        self.seed.is_some()
            && self.seed == other.seed
            && self.cell == other.cell
            && figures(self) == figures(other)
    }

    /// The value of a metric. If only one direction moved data, its value is the total.
    pub fn value(&self, metric: &str) -> Option<f64> {
        let alone = || {
            let [only] = self.directions.as_slice() else { return None };
            self.values.get(metric.strip_prefix(only.as_str())?.strip_prefix('.')?)
        };
        self.values.get(metric).or_else(alone).copied()
    }

    /// Metrics compared by default.
    pub fn metrics(&self) -> Vec<String> {
        let rates_and_latencies = || METRICS.iter().filter(|metric| **metric != "cpu");
        let mut all: Vec<String> = match self.directions.as_slice() {
            [] | [_] => rates_and_latencies().map(|metric| (*metric).to_owned()).collect(),
            several => several
                .iter()
                .flat_map(|way| rates_and_latencies().map(move |metric| format!("{way}.{metric}")))
                .collect(),
        };
        all.push("cpu".into());
        all
    }
}

/// Rounded to twelve digits, which survive a round trip through a file.
fn rounded(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

fn named(title: &str, levels: &str) -> String {
    if levels.is_empty() { title.to_owned() } else { format!("{title} ({levels})") }
}

fn add(
    front: &str,
    of: &DirectionFigures,
    values: &mut BTreeMap<String, f64>,
    within: &mut BTreeMap<String, (f64, f64)>,
) {
    values.insert(format!("{front}iops"), of.iops);
    values.insert(format!("{front}bw"), of.bytes_per_s);
    values.extend(of.latency.mean_ns.map(|ns| (format!("{front}mean"), ns)));
    within.extend(of.iops_interval.and_then(Result::ok).map(|ends| (format!("{front}iops"), ends)));
    within.extend(of.latency.mean_interval_ns.ok().map(|ends| (format!("{front}mean"), ends)));
    for quantile in of.latency.quantiles.iter().filter(|quantile| quantile.q >= 0.5) {
        let name = format!("{front}{}", document::name(quantile.q));
        if let Some(Ok((low, high))) = quantile.interval() {
            within.insert(name.clone(), (low as f64, high as f64));
        }
        values.extend(quantile.value_ns().map(|ns| (name, ns as f64)));
    }
}

/// Which direction of a metric is better.
pub fn better(metric: &str) -> Better {
    match metric.rsplit_once('.').map_or(metric, |(_, last)| last) {
        "iops" | "bw" | "durable" => Better::Higher,
        _ => Better::Lower,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_fixtures::{Load, open_run_of, run_of};

    #[test]
    fn a_run_of_one_direction_has_values_under_both_names() {
        let run = run_of(&[Load::default()]);
        let seen = Observation::of(&run, "", None);
        assert_eq!(seen.directions, ["read"]);
        assert_eq!(seen.left_out, None);
        assert!((seen.value("iops").unwrap_or(0.0) / 5_000.0 - 1.0).abs() < 0.02);
        assert_eq!(seen.value("read.iops"), seen.value("iops"));
        assert_eq!(seen.value("write.iops"), None);
        assert!(seen.value("p99.9").is_some() && seen.value("cpu").is_some());
        assert_eq!(seen.metrics(), METRICS);
        let text = serde_json::to_string(&seen).unwrap_or_default();
        let back: Result<Observation, _> = serde_json::from_str(&text);
        assert_eq!(back.map(|back| back.values).ok().as_ref(), Some(&seen.values));
        let (low, high) = seen.within["iops"];
        let own = seen.value("iops").unwrap_or(0.0);
        assert!(low < own && own < high && high - low < 200.0, "{low} {own} {high}");
    }

    #[test]
    fn directions_are_distinguished_and_what_is_not_earned_is_missing() {
        let reads = Load { depth: 1, iops: 1_000.0, role: "read", ..Load::default() };
        let writes =
            Load { depth: 1, iops: 10.0, role: "write", read_percent: 0, ..Load::default() };
        let seen = Observation::of(&run_of(&[reads, writes]), "bs=4k", None);
        assert!(seen.cell.ends_with("(bs=4k)"));
        assert_eq!(seen.metrics().len(), 15);
        assert!(seen.value("read.p99.9").is_some());
        assert_eq!(seen.value("write.p99.9"), None, "a hundred writes have none");
    }

    #[test]
    fn a_run_whose_backlog_grows_is_in_doubt() {
        let seen = Observation::of(&open_run_of(&Load::default(), |at| at * 9_000_000), "", None);
        assert!(seen.is_unsustainable && seen.value("mean").is_none());
        assert_eq!(seen.doubts, ["a rate that was not sustained"]);
        assert_eq!(seen.identity.offered().as_deref(), Some("1 job at 5000 ops/s"));
        let seen = Observation::of(&open_run_of(&Load::default(), |_| 0), "", None);
        assert!(!seen.is_unsustainable && seen.value("mean").is_some());
    }

    #[test]
    fn an_invalid_run_is_reported() {
        let mut run = run_of(&[Load::default()]);
        run.jobs[0].read.bytes += 1;
        let seen = Observation::of(&run, "", None);
        assert!(seen.left_out.is_some_and(|why| why.contains("consistency checks")));
    }

    #[test]
    fn rates_are_better_high_and_times_low() {
        for metric in ["iops", "read.bw", "durable"] {
            assert_eq!(better(metric), Better::Higher);
        }
        for metric in ["mean", "write.p99.9", "p50", "cpu"] {
            assert_eq!(better(metric), Better::Lower);
        }
    }
}
