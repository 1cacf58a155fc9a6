//! Previews a campaign: rehearses each experiment by `experiment run --dry-run`, so that a refusal
//! shows before the first run.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::execution::child;
use super::{FileArgs, state};
use crate::cli::exit::{About, Exit, Failure, wrong};
use crate::cli::output::{Output, note};
use iosonde_engine::host::{self, Root};
use iosonde_model::record::hosts::TargetIdentity;
use iosonde_model::spec::campaign::{Campaign, Device};
use iosonde_model::units::{bytes, count, duration};
use iosonde_report::clean::clean;

/// A rehearsed experiment on one device.
struct Rehearsed {
    device: String,
    experiment: String,
    /// Estimate of the experiment, or the reason of its refusal.
    estimate: Result<Value, String>,
}

/// `campaign check`.
pub(super) fn check(args: &FileArgs) -> Result<Exit, Failure> {
    let campaign = args.load()?;
    devices(&campaign)?;
    let all = rehearse(&campaign)?;
    let mut output = Output::new(args.output_format);
    let faults: Vec<&Rehearsed> = all.iter().filter(|each| each.estimate.is_err()).collect();
    for each in &faults {
        if let Err(why) = &each.estimate {
            note(&format!("error: {} on {}: {}", each.experiment, each.device, clean(why)));
        }
    }
    let (devices, steps) = (campaign.devices.len(), all.len());
    output.text(&format!(
        "{}: {devices} devices, {steps} experiments, {} of them would be refused\n",
        clean(&campaign.name),
        faults.len()
    ));
    output.value(&json!({
        "campaign": campaign.name,
        "devices": devices,
        "experiments": steps,
        "refused": faults.iter().map(|each| json!({
            "device": each.device, "experiment": each.experiment,
            "because": each.estimate.as_ref().err(),
        })).collect::<Vec<_>>(),
    }));
    Ok(output.end(if faults.is_empty() { Exit::Done } else { Exit::Usage }))
}

/// `campaign plan`.
pub(super) fn plan(args: &FileArgs) -> Result<Exit, Failure> {
    let campaign = args.load()?;
    devices(&campaign)?;
    let all = rehearse(&campaign)?;
    let mut output = Output::new(args.output_format);
    let number = |value: &Value, key: &str| value[key].as_u64().unwrap_or(0);
    let mut exit = Exit::Done;
    let mut by_runs = 0u64;
    let mut totals: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    output.text(&format!("{}\n{}", clean(&campaign.name), profiles(&campaign)));
    for each in &all {
        let words = match &each.estimate {
            Ok(estimate) => {
                let stages = estimate["stages"].as_array().map_or(&[][..], Vec::as_slice);
                let cells =
                    stages.iter().map(|stage| stage["cells"].as_array().map_or(0, Vec::len));
                let before: u64 = stages.iter().map(|s| number(s, "precondition_bytes")).sum();
                let before = before + number(estimate, "layout_bytes");
                let length_ns = number(estimate, "length_ns");
                let total = totals.entry(&each.device).or_default();
                *total = (total.0 + length_ns, total.1.saturating_add(before));
                by_runs = by_runs.saturating_add(number(estimate, "assumed_written_bytes"));
                let wear = estimate["wear_percent"].as_f64().map_or(String::new(), |percent| {
                    format!(", about {} % of the rated endurance", count::significant(percent))
                });
                format!(
                    "{} cells, at most {} of runs, {} to prepare, up to {} by runs{wear}",
                    cells.sum::<usize>(),
                    duration::span(length_ns),
                    bytes::rough(before),
                    bytes::rough(number(estimate, "assumed_written_bytes")),
                )
            }
            Err(why) => {
                exit = exit.or_graver(Exit::Usage);
                format!("would be refused: {}", clean(why))
            }
        };
        output.text(&format!("  {:12} {:22} {words}\n", each.device, clean(&each.experiment)));
    }
    let longest = totals.values().map(|(ns, _)| *ns).max().unwrap_or(0);
    let sum: u64 = totals.values().map(|(ns, _)| *ns).sum();
    let written = totals.values().fold(0u64, |all, (_, bytes)| all.saturating_add(*bytes));
    let at_once = campaign.parallel.unwrap_or(campaign.devices.len()).min(campaign.devices.len());
    let length_ns = longest.max(sum / at_once.max(1) as u64);
    output.text(&format!(
        "\n  time     at most {} of runs, {at_once} devices at once, plus preparing\n  written  \
         {} to prepare, before the runs; up to {} by the runs\n",
        duration::span(length_ns),
        bytes::rough(written),
        bytes::rough(by_runs),
    ));
    output.value(&json!({
        "campaign": campaign,
        "profiles": campaign.devices.iter().filter_map(|device| {
            Some((device.name.clone(), campaign.profile_of(device)?.into()))
        }).collect::<serde_json::Map<String, Value>>(),
        "length_ns": length_ns,
        "prepare_bytes": written,
        "assumed_written_bytes": by_runs,
        "experiments": all.iter().map(|each| json!({
            "device": each.device, "experiment": each.experiment,
            "estimate": each.estimate.as_ref().ok(), "refused": each.estimate.as_ref().err(),
        })).collect::<Vec<_>>(),
    }));
    Ok(output.end(exit))
}

/// Line with the profile of each device; empty if none has one.
fn profiles(campaign: &Campaign) -> String {
    let named =
        |device: &Device| Some(format!("{} {}", device.name, clean(campaign.profile_of(device)?)));
    let all: Vec<String> = campaign.devices.iter().filter_map(named).collect();
    if all.is_empty() { String::new() } else { format!("  profiles: {}\n", all.join(", ")) }
}

/// Rehearses every experiment of every device, in the order of the file.
fn rehearse(campaign: &Campaign) -> Result<Vec<Rehearsed>, Failure> {
    let mut all = Vec::new();
    for device in &campaign.devices {
        for (_, requested) in campaign.steps(device) {
            let mut words = requested.words(device);
            words.extend(["--dry-run".into(), "--output-format=json".into()]);
            let ended = child(&words).output().or_environment("a rehearsal")?;
            let value: Value = serde_json::from_slice(&ended.stdout).unwrap_or(Value::Null);
            let first = &value["stages"][0];
            let estimate = match ended.status.success() {
                true if requested.skip_if_prepared && first["prepares"] == false => {
                    Err("skip-if-prepared has no effect: the first stage neither purges nor \
                     preconditions"
                        .into())
                }
                true => Ok(value),
                false => Err(reason(&ended.stderr)),
            };
            let (device, experiment) = (device.name.clone(), requested.name.clone());
            all.push(Rehearsed { device, experiment, estimate });
        }
    }
    Ok(all)
}

/// Stderr of a process on one line.
pub(super) fn reason(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let said: Vec<&str> = lines.collect();
    let said = said.join("; ");
    said.strip_prefix("error: ").unwrap_or(&said).to_owned()
}

/// Checks that each device exists, is the expected one and is listed once.
///
/// # Errors
/// For the first device that fails.
pub(super) fn devices(campaign: &Campaign) -> Result<(), Failure> {
    let mut known: Vec<(PathBuf, [u64; 3], &Device)> = Vec::new();
    for device in campaign.devices.iter().filter(|device| !device.is_simulated()) {
        let (path, number) = identity(device)?;
        // Two device nodes may lead to one device, and two names to one file.
        let facts = std::fs::metadata(&path).or_wrong(format!("device `{}`", device.name))?;
        let numbers = [number, facts.dev(), facts.ino()];
        let is_same = |(other, others, _): &&(PathBuf, [u64; 3], &Device)| {
            *other == path || number != 0 && others[0] == number || others[1..] == numbers[1..]
        };
        if let Some((_, _, other)) = known.iter().find(is_same) {
            return Err(wrong(format!(
                "devices `{}` and `{}` are the same one, {}: give it once",
                other.name,
                device.name,
                path.display()
            )));
        }
        known.push((path, numbers, device));
    }
    Ok(())
}

/// Path without links, and the number of a block device (0 for anything else).
///
/// # Errors
/// If the device does not exist or lacks the serial number in the file.
pub(super) fn identity(device: &Device) -> Result<(PathBuf, u64), Failure> {
    let (name, path) = (&device.name, &device.path);
    let about = format!("device `{name}`: `{path}`");
    let canonical = std::fs::canonicalize(path).or_wrong(&about)?;
    let facts = std::fs::metadata(&canonical).or_wrong(&about)?;
    let number = if facts.file_type().is_block_device() { facts.rdev() } else { 0 };
    let Some(expected) = &device.serial else { return Ok((canonical, number)) };
    if number == 0 {
        return Err(wrong(format!(
            "device `{name}`: `{path}` is not a block device and has no serial number: leave \
             `serial` out, or give a block device"
        )));
    }
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let found = host::device(&Root::system(), major, minor).and_then(|facts| facts.serial);
    if found.as_deref().map(str::trim) == Some(expected.trim()) {
        return Ok((canonical, number));
    }
    let found = found.map_or("no serial number".into(), |serial| format!("serial `{serial}`"));
    Err(Failure::new(
        Exit::Refused,
        format!(
            "device `{name}`: `{path}` has {found}, expected `{expected}`: it is another one; give \
             the path of the right one, best a link below /dev/disk/by-id"
        ),
    ))
}

/// Block devices, with identities that other hosts sharing them would recognise.
pub(super) fn targets(campaign: &Campaign) -> Vec<TargetIdentity> {
    let real = campaign.devices.iter().filter(|device| !device.is_simulated());
    let known = real.filter_map(|device| {
        let (_, number) = identity(device).ok()?;
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let facts = host::device(&Root::system(), major, minor).filter(|_| number != 0)?;
        let identity = facts.wwid.or(facts.serial).filter(|name| !name.trim().is_empty())?;
        Some(TargetIdentity { path: device.path.clone(), identity, writes: true })
    });
    known.collect()
}

/// Checks that an output directory can be used for a new campaign.
///
/// # Errors
/// If it already holds a campaign.
pub(super) fn unused(output: &std::path::Path) -> Result<(), Failure> {
    if state::is_one(output) {
        let shown = output.display();
        return Err(wrong(format!(
            "`{shown}` holds a campaign: go on with it (iosonde campaign resume {shown}), or give \
             another --output"
        )));
    }
    Ok(())
}
