//! Share of a device's capability that a program uses: a profile compared with a run on the same
//! device.

use serde::Serialize;

use crate::figures::{self as run_figures, DirectionFigures};
use iosonde_model::plan::Order;
use iosonde_model::record::facts::DeviceFacts;
use iosonde_model::record::profile::{Op, ProfiledDevice};
use iosonde_model::record::{ProfileRun, Run};
use iosonde_model::units::bytes;

use super::finding::percent;
use super::{Figures, Side};

/// A profile compared with a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Against {
    /// Kernel name of the device in the profile.
    pub device: String,
    /// How the two devices were identified as the same.
    pub known_by: KnownBy,
    /// The load of the run, in short.
    pub load: String,
    /// Operations that both have.
    pub ops: Vec<OpAgainst>,
    /// All shares, as a sentence.
    pub words: String,
}

/// How two devices are identified as the same.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KnownBy {
    /// World-wide name or serial number.
    Identity,
    /// Model, size and kernel name: the device provides nothing more specific.
    Name,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpAgainst {
    /// Reads or writes.
    pub op: Op,
    /// Requests per second of the device in the run.
    pub run_iops: f64,
    /// Bytes per second of the device in the run.
    pub run_bytes_per_s: f64,
    /// The program's requests per second over those of the run.
    pub iops_share: f64,
    /// The program's bytes per second over those of the run.
    pub bandwidth_share: f64,
    /// Share of requests per second in the program's busiest interval, if intervals were recorded.
    pub peak_iops_share: Option<f64>,
    /// Share of bytes per second, likewise.
    pub peak_bandwidth_share: Option<f64>,
}

/// The device of a run, if a comparison is possible. This is checked before profiling starts.
///
/// # Errors
/// As text: the run has no known device, or did no reads or writes.
pub fn device_of(run: &Run) -> Result<&DeviceFacts, String> {
    let device = run.target.device.as_ref().ok_or_else(|| {
        format!("the target of the run, {}, is on no known block device", run.target.path)
    })?;
    if run.jobs.iter().all(|job| job.read.ops == 0 && job.write.ops == 0) {
        return Err(format!("the run on {} did no reads or writes", run.target.path));
    }
    Ok(device)
}

/// Compares a profile with a run.
///
/// # Errors
/// As text, if the two cannot be compared: different devices, a run without a device or without
/// operations, a profile without requests on it.
pub fn against(profile: &ProfileRun, figures: &Figures, run: &Run) -> Result<Against, String> {
    let theirs = device_of(run)?;
    let (index, known_by) = same(profile, theirs)?;
    let device = &figures.devices[index];
    let side =
        device.program.as_ref().filter(|side| side.requests() > 0).ok_or_else(|| {
            format!("the profile has no requests of the program on {}", device.name)
        })?;
    let measured = run_figures::figures(run).all;
    // Intervals cover all devices: they describe this device if it is the only one.
    let sides = figures.devices.iter().filter_map(|device| device.program.as_ref());
    let alone = sides.filter(|side| side.requests() > 0).count() == 1;
    let ways = [(Op::Read, &measured.read), (Op::Write, &measured.write)];
    let ops = ways.map(|(op, measured)| of_op(side, figures, op, measured, alone));
    let ops: Vec<OpAgainst> = ops.into_iter().flatten().collect();
    if ops.is_empty() {
        let words = "the program and the run have no operation type in common: the run must read \
            if the program reads, or write if it writes";
        return Err(words.into());
    }
    let load = load(run);
    let words = words(&device.name, &load, &ops);
    Ok(Against { device: device.name.clone(), known_by, load, ops, words })
}

/// Index of the profile's device that is the run's device, and how it was identified.
fn same(profile: &ProfileRun, theirs: &DeviceFacts) -> Result<(usize, KnownBy), String> {
    let find = |is: &dyn Fn(&ProfiledDevice) -> bool| profile.devices.iter().position(is);
    let both = |ours: &Option<String>, theirs: &Option<String>| {
        ours.as_ref().is_some_and(|ours| !ours.is_empty() && Some(ours) == theirs.as_ref())
    };
    let identical = find(&|device| {
        both(&device.facts.wwid, &theirs.wwid) || both(&device.facts.serial, &theirs.serial)
    });
    if let Some(index) = identical {
        return Ok((index, KnownBy::Identity));
    }
    // If one of the two has an identifier that the other lacks or contradicts, a name is not
    // enough.
    let named = find(&|device| {
        let facts = &device.facts;
        facts.name == theirs.name
            && (facts.model == theirs.model && facts.bytes == theirs.bytes)
            && (facts.wwid == theirs.wwid && facts.serial == theirs.serial)
    });
    named.map(|index| (index, KnownBy::Name)).ok_or_else(|| {
        let names: Vec<&str> =
            profile.devices.iter().map(|device| device.facts.name.as_str()).collect();
        format!(
            "the run used {}, but the profile has {}: not the same device",
            message(theirs),
            if names.is_empty() { "no device".to_owned() } else { names.join(", ") }
        )
    })
}

fn message(device: &DeviceFacts) -> String {
    match device.serial.as_deref().or(device.wwid.as_deref()) {
        Some(identity) => format!("{} ({identity})", device.name),
        None => device.name.clone(),
    }
}

fn of_op(
    side: &Side,
    figures: &Figures,
    op: Op,
    measured: &DirectionFigures,
    alone: bool,
) -> Option<OpAgainst> {
    let own = side.op(op);
    if own.requests == 0 || measured.ops == 0 || measured.iops <= 0.0 {
        return None;
    }
    let course = figures.course.as_ref().filter(|_| alone);
    let peak = course.map(|course| match op {
        Op::Read => (course.reads_per_s.max, course.read_bytes_per_s.max),
        _ => (course.writes_per_s.max, course.write_bytes_per_s.max),
    });
    let over = |of: f64, whole: f64| of / whole.max(f64::MIN_POSITIVE);
    Some(OpAgainst {
        op,
        run_iops: measured.iops,
        run_bytes_per_s: measured.bytes_per_s,
        iops_share: over(own.requests_per_s, measured.iops),
        bandwidth_share: over(own.bytes_per_s, measured.bytes_per_s),
        peak_iops_share: peak.and_then(|(iops, _)| iops).map(|max| over(max, measured.iops)),
        peak_bandwidth_share: peak
            .and_then(|(_, bytes)| bytes)
            .map(|max| over(max, measured.bytes_per_s)),
    })
}

/// `random reads of 4 KiB, 32 in flight`.
fn load(run: &Run) -> String {
    let jobs = &run.plan.jobs;
    let Some(first) = jobs.first() else { return "no jobs".into() };
    let random = !matches!(first.order, Order::Sequential { .. });
    let what = match first.read_percent {
        100 => "reads".to_owned(),
        0 => "writes".to_owned(),
        share => format!("reads and writes ({share} % reads)"),
    };
    format!(
        "{} {what} of {}, {} in flight",
        if random { "random" } else { "sequential" },
        bytes::exact(first.block_bytes),
        jobs.iter().map(|job| u64::from(job.iodepth)).sum::<u64>(),
    )
}

fn words(device: &str, load: &str, ops: &[OpAgainst]) -> String {
    let each = ops.iter().map(|op| {
        let peak = op.peak_iops_share.zip(op.peak_bandwidth_share);
        let peak = peak.map_or(String::new(), |(iops, bandwidth)| {
            format!("; {} and {} in its busiest interval", percent(iops), percent(bandwidth))
        });
        format!(
            "{} {} of its IOPS and {} of its bandwidth{peak}",
            if op.op == Op::Read { "reading" } else { "writing" },
            percent(op.iops_share),
            percent(op.bandwidth_share),
        )
    });
    format!(
        "Share of what {device} achieved with {load} that the program uses: {}.",
        each.collect::<Vec<_>>().join("; ")
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::profile::figures;
    use iosonde_fixtures::profile::{Flow, profile_of};
    use iosonde_fixtures::{Load, run_of};

    fn on(name: &str, serial: Option<&str>) -> Option<DeviceFacts> {
        let serial = serial.map(str::to_owned);
        Some(DeviceFacts { name: name.into(), serial, ..DeviceFacts::default() })
    }

    fn ask(profile: &ProfileRun, run: &Run) -> Result<Against, String> {
        against(profile, &figures(profile), run)
    }

    #[test]
    fn shares_of_a_known_device() {
        // The program: 5,000 reads/s of 4 KiB; the run: 20,000.
        let profile = profile_of(&[Flow::default()]);
        let mut run = run_of(&[Load { iops: 20_000.0, noise: 0.0, ..Load::default() }]);
        run.target.device = on("vda", None);
        let message = ask(&profile, &run).unwrap();
        assert_eq!(message.known_by, KnownBy::Name);
        let op = &message.ops[0];
        assert!((op.iops_share - 0.25).abs() < 1e-3 && (op.bandwidth_share - 0.25).abs() < 1e-3);
        assert!((op.peak_iops_share.unwrap() - 0.25).abs() < 1e-3);
        assert_eq!(message.ops.len(), 1);
        assert!(
            message.words.starts_with(
                "Share of what vda achieved with random reads of 4 KiB, 32 in flight that"
            ) && message.words.contains("reading 25 % of its IOPS and 25 % of its bandwidth"),
            "{}",
            message.words
        );
    }

    #[test]
    fn a_run_without_a_device_or_without_requests_is_known_beforehand() {
        let mut run = run_of(&[Load::default()]);
        assert!(device_of(&run).unwrap_err().contains("no known block device"));
        run.target.device = on("vda", None);
        assert_eq!(device_of(&run).map(|device| device.name.as_str()), Ok("vda"));
        run.jobs.clear();
        assert!(device_of(&run).unwrap_err().contains("did no reads or writes"));
    }

    #[test]
    fn larger_requests_use_more_of_the_bandwidth_than_of_the_iops() {
        let profile = profile_of(&[Flow { size_bytes: 16 << 10, ..Flow::default() }]);
        let mut run = run_of(&[Load { iops: 20_000.0, noise: 0.0, ..Load::default() }]);
        run.target.device = on("vda", None);
        let op = ask(&profile, &run).unwrap().ops.remove(0);
        assert!((op.iops_share - 0.25).abs() < 1e-3 && (op.bandwidth_share - 1.0).abs() < 1e-3);
    }

    #[test]
    fn another_device_or_operation_is_refused_and_a_moved_one_is_known() {
        let mut profile = profile_of(&[Flow::default()]);
        let mut run = run_of(&[Load::default()]);
        assert!(ask(&profile, &run).unwrap_err().contains("no known block device"));
        run.target.device = on("sdb", None);
        let error = ask(&profile, &run).unwrap_err();
        assert!(error.contains("used sdb, but the profile has vda"), "{error}");
        // The same name with another serial number is another device; another name with the same
        // serial number is the same device.
        profile.devices[0].facts.serial = Some("A".into());
        run.target.device = on("vda", Some("B"));
        assert!(ask(&profile, &run).is_err());
        run.target.device = on("sdb", Some("A"));
        assert_eq!(ask(&profile, &run).unwrap().known_by, KnownBy::Identity);
        let mut writes = run_of(&[Load { read_percent: 0, ..Load::default() }]);
        writes.target.device = on("sdb", Some("A"));
        assert!(ask(&profile, &writes).unwrap_err().contains("no operation type in common"));
    }
}
