//! Facts that must be equal for the figures of two runs to be compared.

use std::collections::BTreeMap;

use iosonde_model::record::checksums::checksum;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use iosonde_model::record::HostFacts;
use iosonde_model::record::run::Run;

/// Parts of a plan that do not affect the load on the storage.
const IMMATERIAL: [&str; 11] = [
    "seed",
    "notes",
    "name",
    "title",
    "pattern",
    "nominal_block_bytes",
    "nominal_read_percent",
    "engine",
    "interval_ns",
    "intervals_per_histogram",
    "path",
];
/// Maximum length of the text of one value.
const VALUE_LENGTH: usize = 200;

/// Facts that belong to one kind.
pub type Facts = BTreeMap<String, String>;

iosonde_model::words! {
    /// The kinds of facts, in the order of reports.
    #[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Kind {
        /// I/O engine and its settings.
        Engine => "engine",
        /// Version of the measuring program.
        Version => "version",
        /// Storage under test.
        Target => "target",
        /// Parameters of the load.
        Plan => "plan",
        /// Kernel, CPUs and memory of the machine.
        Host => "host",
    }
}

/// The conditions of a run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Identity {
    /// The facts of each kind; unknown facts are absent.
    pub facts: BTreeMap<Kind, Facts>,
}

/// One fact in which two sides differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    pub kind: Kind,
    /// The field: `jobs.iodepth`.
    pub field: String,
    /// Its value on side A.
    pub a: String,
    /// Its value on side B.
    pub b: String,
}

impl Identity {
    /// The conditions of a run, with those of its host if known.
    pub fn of(run: &Run, host: Option<&HostFacts>) -> Identity {
        let plan = serde_json::to_value(&run.plan).unwrap_or_default();
        let mut engine = Facts::new();
        flatten("", &plan["engine"], &["chosen_because"], &mut engine);
        let mut of_plan = Facts::new();
        flatten("", &plan, &IMMATERIAL, &mut of_plan);
        let version = Facts::from([("program".into(), run.program.clone())]);
        let facts = [
            (Kind::Engine, engine),
            (Kind::Version, version),
            (Kind::Target, target(run)),
            (Kind::Plan, of_plan),
            (Kind::Host, host.map(of_host).unwrap_or_default()),
        ];
        Identity { facts: facts.into_iter().filter(|(_, facts)| !facts.is_empty()).collect() }
    }

    /// SHA-256 over the facts of the load and its engine, in hexadecimal.
    pub fn load(&self) -> String {
        let facts = [Kind::Plan, Kind::Engine].map(|kind| self.facts.get(&kind));
        let text = serde_json::to_vec(&facts).unwrap_or_default();
        checksum(&text)
    }

    /// Number and rate of jobs of an open loop: `1 job at 3500 ops/s`; `None` for a closed loop.
    pub(super) fn offered(&self) -> Option<String> {
        let plan = self.facts.get(&Kind::Plan)?;
        let rate = |(field, value): (&String, &String)| {
            let unit = field.strip_prefix("jobs.pace.")?.rsplit('.').next()?;
            let number = value.trim_end_matches(".0");
            ["ops", "bytes"].contains(&unit).then(|| format!("{number} {unit}/s"))
        };
        let rates: Vec<String> = plan.iter().filter_map(rate).collect();
        let jobs = match plan.get("jobs.count").map_or("1", String::as_str) {
            "1" => "1 job".to_owned(),
            several => format!("{several} jobs"),
        };
        (!rates.is_empty()).then(|| format!("{jobs} at {}", rates.join(" and ")))
    }

    /// The facts that differ, of the kinds known on both sides.
    pub fn differences(&self, other: &Identity) -> Vec<Difference> {
        let mut all = Vec::new();
        for kind in Kind::ALL {
            let (Some(a), Some(b)) = (self.facts.get(&kind), other.facts.get(&kind)) else {
                continue;
            };
            let fields: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            let formatted = |facts: &Facts, field: &String| {
                facts.get(field).cloned().unwrap_or_else(|| "none".into())
            };
            all.extend(fields.into_iter().filter(|field| a.get(*field) != b.get(*field)).map(
                |field| Difference {
                    kind,
                    field: field.clone(),
                    a: formatted(a, field),
                    b: formatted(b, field),
                },
            ));
        }
        all
    }
}

fn target(run: &Run) -> Facts {
    let target = &run.target;
    let device = target.device.as_ref();
    let text = |value: Option<&String>| value.map(|value| value.trim().to_owned());
    let known = [
        ("kind", Some(target.kind.clone())),
        ("bytes", target.bytes.map(|bytes| bytes.to_string())),
        ("direct", Some(target.direct.to_string())),
        ("filesystem", target.filesystem.clone()),
        ("model", text(device.and_then(|device| device.model.as_ref()))),
        ("serial", text(device.and_then(|device| device.serial.as_ref()))),
        ("device.bytes", device.and_then(|device| device.bytes).map(|bytes| bytes.to_string())),
        // The path of a simulated device is replaced by its model.
        ("simulation", (target.kind == "simulated").then(|| target.path.clone())),
    ];
    let known = known.into_iter().filter_map(|(field, value)| Some((field.into(), short(value?))));
    known.collect()
}

fn of_host(host: &HostFacts) -> Facts {
    let known = [
        ("kernel", host.kernel.clone()),
        ("processor", host.cpu_model.clone()),
        ("processors", host.cpus_online.map(|count| count.to_string())),
        ("memory", host.memory_bytes.map(|bytes| bytes.to_string())),
    ];
    let known = known.into_iter().filter_map(|(field, value)| Some((field.into(), short(value?))));
    known.collect()
}

/// Adds fields with their values. The elements of a list share a field, which lists the distinct
/// values: 64 equal jobs are as short as one.
fn flatten(front: &str, value: &Value, without: &[&str], into: &mut Facts) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(name, _)| !without.contains(&name.as_str()))
            {
                let field = if front.is_empty() { name.clone() } else { format!("{front}.{name}") };
                flatten(&field, value, without, into);
            }
        }
        Value::Array(items) => {
            if front == "jobs" {
                into.insert("jobs.count".into(), items.len().to_string());
            }
            items.iter().for_each(|item| flatten(front, item, without, into));
        }
        value => {
            let formatted = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let known = into.entry(front.to_owned()).or_default();
            if known.is_empty() {
                *known = short(formatted);
            } else if !known.split(", ").any(|each| each == formatted) && known.len() < VALUE_LENGTH
            {
                *known = short(format!("{known}, {formatted}"));
            }
        }
    }
}

fn short(text: String) -> String {
    text.chars().take(VALUE_LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn another_seed_is_the_same_and_another_depth_is_reported() {
        let one = run_of(&[Load { jobs: 3, ..Load::default() }]);
        let mut other = one.clone();
        other.plan.seed ^= 1;
        other.plan.jobs[1].seed ^= 7;
        other.plan.title = "elsewhere".into();
        other.plan.notes.push("depth lowered".into());
        other.plan.targets[0].path = "/elsewhere".into();
        let of = |run: &Run| Identity::of(run, None);
        assert_eq!(of(&one).differences(&of(&other)), []);
        assert_eq!(of(&other).load(), of(&one).load());
        other.plan.jobs.iter_mut().for_each(|job| job.iodepth = 7);
        assert_ne!(of(&other).load(), of(&one).load());
        other.target.direct = !other.target.direct;
        other.program = "9.9.9".into();
        let formatted: Vec<(Kind, String, String)> =
            of(&one).differences(&of(&other)).into_iter().map(|d| (d.kind, d.field, d.b)).collect();
        let direct = other.target.direct.to_string();
        assert_eq!(
            formatted,
            [
                (Kind::Version, "program".into(), "9.9.9".into()),
                (Kind::Target, "direct".into(), direct),
                (Kind::Plan, "jobs.iodepth".into(), "7".into()),
            ]
        );
    }

    #[test]
    fn a_host_that_is_not_known_is_no_difference() {
        let run = run_of(&[Load::default()]);
        let host = |kernel: &str| HostFacts { kernel: Some(kernel.into()), ..HostFacts::default() };
        let of = |host: Option<&HostFacts>| Identity::of(&run, host);
        assert_eq!(of(None).differences(&of(Some(&host("6.1")))), []);
        let differences = of(Some(&host("6.1"))).differences(&of(Some(&host("6.6"))));
        assert_eq!((differences.len(), differences[0].kind), (1, Kind::Host));
    }
}
