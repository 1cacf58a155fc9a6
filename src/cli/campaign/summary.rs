//! Status, report and sign-off: read from the folders of the experiments, verdicts computed again
//! from their records.

use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::OutputArgs;
use super::state::{State, events, read, steps};
use crate::cli::exit::{Exit, Failure};
use crate::cli::experiment::study;
use crate::cli::output::Output;
use crate::cli::screen;
use iosonde_analysis::experiment::Study;
use iosonde_model::record::store::utc;
use iosonde_model::spec::campaign::Campaign;
use iosonde_report::Answer;
use iosonde_report::clean::clean;

/// Name and version of the document.
const SCHEMA: &str = "iosonde.signoff/1";

/// `campaign status`.
pub(super) fn status(args: &OutputArgs) -> Result<Exit, Failure> {
    args.output_format.supports("campaign status")?;
    let (campaign, folder) = read(&args.output)?;
    let mut output = Output::new(args.output_format);
    let is_running = iosonde_model::record::RunFolder::is_in_use(&folder);
    let mut all = Vec::new();
    let (mut done, mut count) = (0, 0);
    let mut text = String::new();
    for device in &campaign.devices {
        for step in steps(&campaign, device, &args.output) {
            count += 1;
            let (word, more) = match step.state()? {
                State::Waiting => ("waiting", String::new()),
                State::Partial(_, runs) if is_running => ("begun", format!("{runs} runs")),
                State::Partial(_, runs) => ("interrupted", format!("{runs} runs")),
                State::Done(_, code, verdict) => {
                    done += 1;
                    ("done", format!("exit code {code}: {verdict}"))
                }
            };
            let (device, experiment) = (&device.name, &step.requested.name);
            text +=
                &format!("  {:12} {:22} {word:12} {}\n", device, clean(experiment), clean(&more));
            all.push(json!({
                "device": device, "experiment": experiment, "state": word, "details": more,
            }));
        }
    }
    let state = if is_running { "running" } else { "not running" };
    let shown = clean(&args.output.display().to_string());
    let answer = Answer {
        result: format!("{}: {state}, {done} of {count} done", campaign.name),
        confidence: match done == count {
            true => "high: every experiment is complete".to_owned(),
            false => format!("low until all is done: {} of {count} to go", count - done),
        },
        next: match (done == count, is_running) {
            (true, _) => format!("Read the results: iosonde campaign report {shown}"),
            (false, true) => "Wait; an interrupt keeps what is done.".to_owned(),
            (false, false) => {
                format!("Run what is missing: iosonde campaign resume {shown}")
            }
        },
    };
    output.text(&format!("{}{text}", answer.text(screen::columns())));
    let lines = events(&folder);
    if let Some(last) = lines.lines().last() {
        output.text(&format!("  last event: {}\n", clean(last)));
    }
    output.value(&json!({
        "campaign": campaign.name,
        "is_running": is_running,
        "done": done,
        "experiments": all,
        "last_event": lines.lines().last(),
    }));
    Ok(output.end(Exit::Done))
}

/// `campaign report`.
pub(super) fn report(args: &OutputArgs) -> Result<Exit, Failure> {
    args.output_format.supports("campaign report")?;
    let (campaign, _) = read(&args.output)?;
    let signoff = sign_off(&campaign, &args.output)?;
    let mut output = Output::new(args.output_format);
    output.text(&text(&signoff, &args.output));
    output.value(&signoff);
    let code = signoff["exit_code"].as_u64().unwrap_or(0);
    let missed = code == u64::from(Exit::Missed.code());
    Ok(output.end(match signoff["complete"] == true {
        _ if missed => Exit::Missed,
        true => Exit::Done,
        false => Exit::Inconclusive,
    }))
}

/// What each device was found to be, with the evidence.
///
/// # Errors
/// If a folder cannot be read.
pub(super) fn sign_off(campaign: &Campaign, output: &Path) -> Result<Value, Failure> {
    let mut devices = Vec::new();
    let (mut complete, mut all_steady) = (true, true);
    for device in &campaign.devices {
        let mut experiments = Vec::new();
        for step in steps(campaign, device, output) {
            let name = &step.requested.name;
            let State::Done(folder, code, verdict) = step.state()? else {
                complete = false;
                experiments.push(json!({ "name": name, "state": "incomplete" }));
                continue;
            };
            let study = study(&folder)?;
            let stages = steadiness(&study);
            all_steady &= stages.iter().all(|stage| stage["is_steady"] == true);
            let sums = std::fs::read(folder.join("SHA256SUMS")).unwrap_or_default();
            let digest: String =
                Sha256::digest(&sums).iter().map(|byte| format!("{byte:02x}")).collect();
            let place = folder.strip_prefix(output).unwrap_or(&folder).to_string_lossy();
            experiments.push(json!({
                "name": name,
                "state": "complete",
                "exit_code": code,
                "verdict": verdict,
                "started_unix_ns": study.run.started_unix_ns,
                "target": study.run.target.place,
                "device": study.run.target.device,
                "identity": identity(&study),
                "stages": stages,
                "evidence": { "folder": place, "sha256_of_SHA256SUMS": digest },
            }));
        }
        devices.push(json!({
            "name": device.name, "path": device.path, "experiments": experiments,
        }));
    }
    let verdict = match (complete, all_steady) {
        (false, _) => "incomplete",
        (true, true) => "complete",
        (true, false) => "complete, not steady throughout",
    };
    let exit = if complete && !all_steady { Exit::Missed } else { Exit::Done };
    Ok(json!({
        "schema": SCHEMA,
        "program": env!("CARGO_PKG_VERSION"),
        "campaign": campaign.name,
        "written_unix_ns": iosonde_sys::clock::realtime_ns(),
        "complete": complete,
        "verdict": verdict,
        "exit_code": exit.code(),
        "devices": devices,
    }))
}

/// Maker's names and numbers of the device that was measured.
fn identity(study: &Study) -> Value {
    let device = study.target.as_ref().and_then(|target| target.device.as_ref());
    device.map_or(
        Value::Null,
        |device| json!({ "model": device.model, "serial": device.serial, "bytes": device.bytes }),
    )
}

/// The stages in rounds, each with its verdict.
fn steadiness(study: &Study) -> Vec<Value> {
    let judged = study.stages.iter().filter(|facts| facts.laid_out.skipped.is_empty());
    let judged = judged.filter_map(|facts| Some((facts, facts.steadiness.as_ref()?)));
    judged
        .map(|(facts, steadiness)| {
            let passes: u32 = facts.laid_out.prepared.iter().map(|each| each.passes).sum();
            json!({
                "name": facts.stage.name,
                "is_steady": steadiness.is_steady,
                "verdict": steadiness.verdict(),
                "rounds": steadiness.rounds,
                "precondition_passes": passes,
            })
        })
        .collect()
}

/// What the devices were found to be, and what is left to do; `output` is where the results are.
fn answer(signoff: &Value, output: &Path) -> Answer {
    let empty = Vec::new();
    let list = |value: &Value| value.as_array().unwrap_or(&empty).clone();
    let devices = list(&signoff["devices"]);
    let experiments: Vec<Value> =
        devices.iter().flat_map(|device| list(&device["experiments"])).collect();
    let incomplete = experiments.iter().filter(|each| each["state"] != "complete").count();
    let unsteady: Vec<String> = experiments
        .iter()
        .flat_map(|each| list(&each["stages"]))
        .filter(|stage| stage["is_steady"] != true)
        .map(|stage| stage["name"].as_str().unwrap_or_default().to_owned())
        .collect();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let shown = output.display();
    Answer {
        result: format!(
            "{}: {}, {} experiment(s) on {} device(s)",
            word(&signoff["campaign"]),
            word(&signoff["verdict"]),
            experiments.len(),
            devices.len()
        ),
        confidence: match (incomplete, unsteady.as_slice()) {
            (0, []) => "high".to_owned(),
            (0, names) => format!("low: no steady state in {}", names.join(", ")),
            (some, _) => format!("low: {some} experiment(s) are not complete"),
        },
        next: match incomplete {
            0 => format!("Open report.html of each experiment, below {shown}/devices"),
            _ => format!("Run what is missing: iosonde campaign resume {shown}"),
        },
    }
}

/// The sign-offs of many hosts as one; null for a host that has none.
pub(super) fn of_hosts(hosts: &[(&str, Value)]) -> (Answer, String) {
    let empty = Vec::new();
    let list = |value: &Value| value.as_array().unwrap_or(&empty).clone();
    let word = |value: &Value| clean(value.as_str().unwrap_or_default());
    let (mut rows, mut devices, mut done, mut count) = (String::new(), 0, 0, 0);
    for (host, signoff) in hosts {
        if signoff["devices"].is_null() {
            rows += &format!("  {host:16} no sign-off: see above why\n");
        }
        for device in list(&signoff["devices"]) {
            devices += 1;
            for experiment in list(&device["experiments"]) {
                let is_done = experiment["state"] == "complete";
                (count, done) = (count + 1, done + usize::from(is_done));
                let end = match word(&experiment["verdict"]) {
                    _ if !is_done => "incomplete".into(),
                    verdict if verdict.is_empty() => "complete".into(),
                    verdict => verdict,
                };
                let (device, name) = (word(&device["name"]), word(&experiment["name"]));
                rows += &format!("  {host:16} {device:12} {name:22} {end}\n");
            }
        }
    }
    let missing = hosts.iter().filter(|(_, signoff)| signoff["complete"] != true);
    let missing: Vec<&str> = missing.map(|(host, _)| *host).collect();
    let mut names = hosts.iter().map(|(_, signoff)| word(&signoff["campaign"]));
    let name = names.find(|name| !name.is_empty()).unwrap_or_else(|| "campaign".into());
    let answer = Answer {
        result: format!(
            "{name}: {done} of {count} experiment(s) complete on {devices} device(s) of {} host(s)",
            hosts.len()
        ),
        confidence: match missing.as_slice() {
            [] => "high: every host is complete".to_owned(),
            missing => format!("low: not complete on {}", missing.join(", ")),
        },
        next: match missing.is_empty() {
            true => "Read the results on each host: iosonde campaign report".to_owned(),
            false => "Run what is missing: iosonde campaign resume, with the same hosts".to_owned(),
        },
    };
    (answer, rows)
}

/// The sign-off as text.
pub(super) fn text(signoff: &Value, output: &Path) -> String {
    let word = |value: &Value| clean(value.as_str().unwrap_or_default());
    let empty = Vec::new();
    let list = |value: &Value| value.as_array().unwrap_or(&empty).clone();
    let mut text = answer(signoff, output).text(screen::columns());
    for device in list(&signoff["devices"]) {
        text += &format!("  {} ({})\n", word(&device["name"]), word(&device["path"]));
        for experiment in list(&device["experiments"]) {
            let name = word(&experiment["name"]);
            if experiment["state"] != "complete" {
                text += &format!("    {name}: incomplete\n");
                continue;
            }
            let date = utc(experiment["started_unix_ns"].as_u64().unwrap_or(0));
            text += &format!("    {name}, {date}: {}\n", word(&experiment["verdict"]));
            for stage in list(&experiment["stages"]) {
                text += &format!("      {}: {}\n", word(&stage["name"]), word(&stage["verdict"]));
            }
            text += &format!("      evidence: {}\n", word(&experiment["evidence"]["folder"]));
        }
    }
    text
}
