//! Finds the outliers among many devices of one kind under one load.

use std::collections::BTreeMap;

use serde::Serialize;

use super::contrast::Better;
use super::identity::{Facts, Kind};
use super::observation::{Observation, better};
use iosonde_stats::false_discovery::benjamini_hochberg;
use iosonde_stats::outliers::{Outlier, extremes};
use iosonde_stats::ratio::median;

/// Minimum number of devices in a group: with fewer, the outlier test is unreliable.
pub const FEWEST_PEERS: usize = 10;
/// Maximum share of a group that can be outliers.
const MOST_UNLIKE: f64 = 0.25;
/// False discovery rate of the groups in which a device is reported.
pub const FALSE_DISCOVERIES: f64 = 0.05;
/// Facts of a target that may differ between peers.
const OWN_FACTS: [&str; 2] = ["serial", "simulation"];

/// One run of one device.
#[derive(Clone, Debug)]
pub struct Member {
    /// The device and its host.
    pub name: String,
    pub observation: Observation,
}

/// Result of the comparison of peers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Peers {
    /// Devices with at least one run that could be used.
    pub devices: usize,
    /// Runs that could be used.
    pub runs: usize,
    /// Differences below this share do not matter.
    pub tolerance: f64,
    /// One group per load, kind of device and metric; groups with outliers first.
    pub groups: Vec<Group>,
    /// Groups with too few devices to be tested, with their number of devices.
    pub too_few: Vec<(String, usize)>,
    /// Runs that could not be used, and why.
    pub left_out: Vec<(String, String)>,
}

/// One metric of one load on devices of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    pub load: String,
    /// The kind of device.
    pub kind: String,
    pub metric: String,
    pub devices: usize,
    /// Median over devices.
    pub median: f64,
    /// p value of the hypothesis that no device is an outlier, corrected for the number of groups
    /// (Benjamini and Hochberg).
    pub corrected_p: f64,
    /// Outliers that differ from the median by more than the tolerance, the worst first.
    pub unlike: Vec<Unlike>,
}

/// An outlier among its peers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unlike {
    /// The device and its host.
    pub device: String,
    /// Geometric mean over the runs of the device.
    pub value: f64,
    /// The value over the median of the group.
    pub ratio: f64,
    /// Whether the device is worse than its peers.
    pub is_worse: bool,
    pub runs: usize,
    /// p value: the probability of such a value among this number of equal devices.
    pub p: f64,
}

/// Values of one group by device, one per run.
type Devices = BTreeMap<String, Vec<f64>>;

/// Finds the outliers in each group of one load, one kind of device and one metric.
///
/// The logarithms of the devices' means are tested by the generalized extreme Studentized deviate.
/// Groups are reported at a false discovery rate of [`FALSE_DISCOVERIES`], and devices within them
/// at the level of the reported groups (Benjamini and Bogomolov 2014).
pub fn compare_with_peers(members: &[Member], metrics: &[String], tolerance: f64) -> Peers {
    let usable: Vec<&Member> =
        members.iter().filter(|member| member.observation.left_out.is_none()).collect();
    let mut values: BTreeMap<(String, Facts, String), Devices> = BTreeMap::new();
    for member in &usable {
        let observation = &member.observation;
        let facts = shared_facts(observation);
        let named = if metrics.is_empty() { observation.metrics() } else { metrics.to_vec() };
        for metric in named {
            if let Some(value) = observation.value(&metric) {
                let group = (observation.cell.clone(), facts.clone(), metric);
                let devices = values.entry(group).or_default();
                devices.entry(member.name.clone()).or_default().push(value);
            }
        }
    }
    let (tested, few): (Vec<_>, Vec<_>) =
        values.into_iter().partition(|(_, devices)| devices.len() >= FEWEST_PEERS);
    let tests: Vec<Vec<Outlier>> = tested.iter().map(|(_, devices)| test(devices)).collect();
    let p: Vec<f64> =
        tests.iter().map(|steps| steps.iter().map(|step| step.p).fold(1.0, f64::min)).collect();
    let corrected = benjamini_hochberg(&p);
    let found = corrected.iter().filter(|p| **p <= FALSE_DISCOVERIES).count();
    let level = FALSE_DISCOVERIES * found as f64 / corrected.len().max(1) as f64;
    let mut groups: Vec<Group> = tested
        .iter()
        .zip(tests)
        .zip(corrected)
        .map(|((((load, facts, metric), devices), steps), corrected_p)| {
            let unlike: Vec<Outlier> = steps.into_iter().filter(|each| each.p <= level).collect();
            let group = Group {
                load: load.clone(),
                kind: kind(facts),
                metric: metric.clone(),
                devices: devices.len(),
                median: median(&log_means(devices)).map_or(f64::NAN, f64::exp),
                corrected_p,
                unlike: Vec::new(),
            };
            with_unlike(group, devices, &unlike, tolerance)
        })
        .collect();
    groups.sort_by_key(|group| group.unlike.is_empty());
    let mut too_few: Vec<(String, usize)> = few
        .iter()
        .map(|((load, facts, _), devices)| (format!("{load} on {}", kind(facts)), devices.len()))
        .collect();
    too_few.dedup();
    let left_out = members
        .iter()
        .filter_map(|member| Some((member.name.clone(), member.observation.left_out.clone()?)));
    let mut devices: Vec<&str> = usable.iter().map(|member| member.name.as_str()).collect();
    devices.sort_unstable();
    devices.dedup();
    Peers {
        devices: devices.len(),
        runs: usable.len(),
        tolerance,
        groups,
        too_few,
        left_out: left_out.collect(),
    }
}

/// Facts that must be equal for two devices to be peers.
fn shared_facts(observation: &Observation) -> Facts {
    let mut shared = Facts::new();
    for (kind, facts) in &observation.identity.facts {
        let shares = |field: &str| match kind {
            Kind::Host => false,
            Kind::Target => !OWN_FACTS.contains(&field),
            Kind::Engine | Kind::Version | Kind::Plan => true,
        };
        let facts = facts.iter().filter(|(field, _)| shares(field));
        shared.extend(
            facts.map(|(field, value)| (format!("{}.{field}", kind.word()), value.clone())),
        );
    }
    shared
}

/// The model of a device, else its file system, else the kind of the target.
fn kind(facts: &Facts) -> String {
    let fact = |field: &str| facts.get(&format!("target.{field}")).cloned();
    fact("model").or(fact("filesystem")).or(fact("kind")).unwrap_or_default()
}

fn log_means(devices: &Devices) -> Vec<f64> {
    let mean =
        |runs: &Vec<f64>| runs.iter().map(|value| value.ln()).sum::<f64>() / runs.len() as f64;
    devices.values().map(mean).collect()
}

fn test(devices: &Devices) -> Vec<Outlier> {
    let most = (devices.len() as f64 * MOST_UNLIKE) as usize;
    extremes(&log_means(devices), most)
}

fn with_unlike(mut group: Group, devices: &Devices, outliers: &[Outlier], tolerance: f64) -> Group {
    let logs = log_means(devices);
    let names: Vec<(&String, usize)> =
        devices.iter().map(|(name, runs)| (name, runs.len())).collect();
    let is_rate = better(&group.metric) == Better::Higher;
    let unlike = outliers.iter().map(|outlier| {
        let (name, runs) = names[outlier.index];
        let value = logs[outlier.index].exp();
        let ratio = value / group.median;
        let is_worse = (ratio < 1.0) == is_rate;
        Unlike { device: name.clone(), value, ratio, is_worse, runs, p: outlier.p }
    });
    let matters = |each: &Unlike| each.ratio.max(1.0 / each.ratio) > 1.0 + tolerance;
    group.unlike = unlike.filter(matters).collect();
    let cost = |each: &Unlike| if is_rate { each.ratio } else { 1.0 / each.ratio };
    group.unlike.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    group
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_stats::chance::Chance;

    fn member(name: usize, iops: f64, model: &str) -> Member {
        let mut observation = Observation { cell: "Database".into(), ..Observation::default() };
        observation.directions = vec!["read".into()];
        observation.values.insert("iops".into(), iops);
        let facts = Facts::from([
            ("model".into(), model.to_owned()),
            ("serial".into(), format!("S{name}")),
        ]);
        observation.identity.facts.insert(Kind::Target, facts);
        Member { name: format!("node{name:03}"), observation }
    }

    fn fleet(chance: &mut Chance, devices: usize, slow: f64) -> Vec<Member> {
        let value = |at: usize, chance: &mut Chance| {
            let factor = if at == 4 { slow } else { 1.0 };
            factor * 10_000.0 * (0.03 * chance.normal()).exp()
        };
        (0..devices).map(|at| member(at, value(at, chance), "Model X")).collect()
    }

    #[test]
    fn a_slow_device_is_named_and_equal_ones_are_not() {
        let (mut hits, mut false_alarms, mut alarms_of_equals) = (0, 0, 0);
        for seed in 0..200 {
            let mut chance = Chance::new(seed);
            let peers = compare_with_peers(&fleet(&mut chance, 30, 0.8), &[], 0.05);
            let [group] = peers.groups.as_slice() else { panic!("{peers:?}") };
            hits += usize::from(group.unlike.iter().any(|each| each.device == "node004"));
            false_alarms += group.unlike.iter().filter(|each| each.device != "node004").count();
            let peers = compare_with_peers(&fleet(&mut chance, 30, 1.0), &[], 0.05);
            alarms_of_equals += usize::from(!peers.groups[0].unlike.is_empty());
        }
        assert!(hits >= 195, "{hits} of 200");
        assert!(false_alarms <= 20, "{false_alarms}");
        assert!(alarms_of_equals <= 20, "{alarms_of_equals} of 200");
    }

    #[test]
    fn among_many_groups_few_reports_are_false() {
        // 40 models of 20 devices each; in every fourth one device has 60 % of the rate.
        let (mut reported, mut wrong) = (0, 0);
        for seed in 0..30 {
            let mut chance = Chance::new(seed);
            let mut members = Vec::new();
            for model in 0..40 {
                for device in 0..20 {
                    let is_slow = model % 4 == 0 && device == 0;
                    let factor = if is_slow { 0.6 } else { 1.0 };
                    let iops = factor * 5_000.0 * (0.05 * chance.normal()).exp();
                    members.push(member(model * 100 + device, iops, &format!("M{model}")));
                }
            }
            let peers = compare_with_peers(&members, &[], 0.05);
            for group in peers.groups.iter().filter(|group| !group.unlike.is_empty()) {
                let model: usize = group.kind[1..].parse().unwrap_or(1);
                reported += 1;
                wrong += usize::from(!model.is_multiple_of(4));
            }
        }
        assert!(reported >= 30 * 9, "{reported}");
        assert!(f64::from(wrong as u32) <= 0.08 * f64::from(reported as u32), "{wrong}/{reported}");
    }

    #[test]
    fn few_devices_other_models_and_failed_runs_are_no_peers() {
        let mut chance = Chance::new(1);
        let mut members = fleet(&mut chance, 12, 1.0);
        members.extend((20..25).map(|at| member(at, 10.0, "Model Y")));
        members[0].observation.left_out = Some("it did not complete".into());
        let peers = compare_with_peers(&members, &[], 0.05);
        assert_eq!(peers.groups.len(), 1);
        assert_eq!((peers.groups[0].devices, peers.groups[0].unlike.len()), (11, 0));
        assert_eq!(peers.too_few, [("Database on Model Y".to_owned(), 5)]);
        assert_eq!(peers.left_out, [("node000".to_owned(), "it did not complete".to_owned())]);
    }
}
