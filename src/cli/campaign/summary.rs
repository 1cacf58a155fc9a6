//! Status, report and sign-off, from the folders of the experiments. Verdicts are computed again
//! from the records.

use std::path::Path;

use iosonde_model::record::checksums::checksum;
use serde_json::{Value, json};

use super::OutputArgs;
use super::state::{State, Step, events, read, steps};
use crate::cli::exit::{Exit, Failure};
use crate::cli::experiment::study;
use crate::cli::intact::AcceptArgs;
use crate::cli::output::{Output, OutputFormat};
use crate::cli::page::write as write_page;
use crate::cli::screen;
use iosonde_analysis::experiment::Study;
use iosonde_model::spec::campaign::Campaign;
use iosonde_model::units::count;
use iosonde_report::CampaignAnswer;
use iosonde_report::clean::clean;
use iosonde_report::sign_off::{
    Evidence, Identity, SIGN_OFF_SCHEMA, SignOff, SignedDevice, SignedExperiment, SignedResult,
    SignedStage,
};

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
    let answer = CampaignAnswer {
        result: format!("{}: {state}, {done} of {count} done", campaign.name),
        complete: match done == count {
            true => "yes".to_owned(),
            false => format!("no: {} of {count} to go", count - done),
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
pub(super) fn report(
    output: &Path,
    format: OutputFormat,
    page: Option<&Path>,
) -> Result<Exit, Failure> {
    format.supports("campaign report")?;
    let (campaign, _) = read(output)?;
    let signoff = sign_off(&campaign, output)?;
    let mut out = Output::new(format);
    out.text(&signoff.text(output, screen::columns()));
    out.value(&json!(signoff));
    let written = |path| write_page(path, Ok(signoff.report(output)));
    let exit = Exit::of_code(signoff.exit_code);
    Ok(out.end(exit.or_graver(page.map_or(Exit::Done, written))))
}

/// Sign-off of all devices, with evidence.
///
/// # Errors
/// If a folder cannot be read.
pub(super) fn sign_off(campaign: &Campaign, output: &Path) -> Result<SignOff, Failure> {
    let mut devices = Vec::new();
    for device in &campaign.devices {
        let steps = steps(campaign, device, output);
        let experiments: Result<Vec<_>, Failure> =
            steps.iter().map(|step| experiment(step, output)).collect();
        let (name, path) = (device.name.clone(), device.path.clone());
        devices.push(SignedDevice { name, path, experiments: experiments? });
    }
    let all = || devices.iter().flat_map(|device| &device.experiments);
    let complete = all().all(|each| each.result.is_some());
    let stages = all().filter_map(|each| each.result.as_ref()).flat_map(|result| &result.stages);
    let all_steady = stages.into_iter().all(|stage| stage.is_steady);
    let (verdict, exit) = match (complete, all_steady) {
        (false, _) => ("incomplete", Exit::Inconclusive),
        (true, true) => ("complete", Exit::Done),
        (true, false) => ("complete, not steady throughout", Exit::Missed),
    };
    Ok(SignOff {
        schema: SIGN_OFF_SCHEMA.into(),
        program: env!("CARGO_PKG_VERSION").into(),
        campaign: campaign.name.clone(),
        written_unix_ns: iosonde_sys::clock::realtime_ns(),
        complete,
        verdict: verdict.into(),
        exit_code: exit.code(),
        devices,
    })
}

/// Sign-off of an experiment; `output` is the output directory.
fn experiment(step: &Step<'_>, output: &Path) -> Result<SignedExperiment, Failure> {
    let name = step.requested.name.clone();
    let incomplete = |name, because| {
        Ok(SignedExperiment { name, state: "incomplete".into(), because, result: None })
    };
    let State::Done(folder, exit_code, verdict) = step.state()? else {
        return incomplete(name, step.missing());
    };
    // Altered or missing records are not evidence.
    if let Err(failure) = AcceptArgs::NEVER.read(&folder) {
        let because: Vec<&str> = failure.message.lines().map(str::trim).collect();
        return incomplete(name, because.join(" "));
    }
    let study = study(&folder)?;
    let sums = std::fs::read(folder.join("SHA256SUMS")).unwrap_or_default();
    let place = folder.strip_prefix(output).unwrap_or(&folder).to_string_lossy();
    let result = SignedResult {
        exit_code,
        verdict,
        started_unix_ns: study.run.started_unix_ns,
        target: study.run.target.place.clone(),
        device: study.run.target.device.clone(),
        identity: identity(&study),
        stages: steadiness(&study),
        evidence: Evidence { folder: place.into_owned(), sha256: checksum(&sums) },
    };
    let (state, because) = ("complete".into(), String::new());
    Ok(SignedExperiment { name, state, because, result: Some(result) })
}

/// Vendor's names and numbers of the measured device.
fn identity(study: &Study) -> Option<Identity> {
    let device = study.target.as_ref()?.device.as_ref()?;
    let (model, serial) = (device.model.clone(), device.serial.clone());
    Some(Identity { model, serial, bytes: device.bytes })
}

/// Stages in rounds, each with its verdict.
fn steadiness(study: &Study) -> Vec<SignedStage> {
    let judged = study.stages.iter().filter(|facts| facts.why_not_run().is_none());
    let judged = judged.filter_map(|facts| Some((facts, facts.steadiness.as_ref()?)));
    judged
        .map(|(facts, steadiness)| SignedStage {
            name: facts.stage.name.clone(),
            is_steady: steadiness.is_steady,
            verdict: steadiness.verdict(),
            rounds: steadiness.rounds,
            precondition_passes: facts.laid_out.prepared.iter().map(|each| each.passes).sum(),
        })
        .collect()
}

/// Combines the sign-offs of several hosts; null for a host without one.
pub(super) fn of_hosts(hosts: &[(&str, Value)]) -> (CampaignAnswer, String) {
    let empty = Vec::new();
    let list = |value: &Value| value.as_array().unwrap_or(&empty).clone();
    let word = |value: &Value| clean(value.as_str().unwrap_or_default());
    let (mut rows, mut devices, mut done, mut total) = (String::new(), 0, 0, 0);
    for (host, signoff) in hosts {
        if signoff["devices"].is_null() {
            rows += &format!("  {host:16} no sign-off: see above why\n");
        }
        for device in list(&signoff["devices"]) {
            devices += 1;
            for experiment in list(&device["experiments"]) {
                let is_done = experiment["state"] == "complete";
                (total, done) = (total + 1, done + usize::from(is_done));
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
    let answer = CampaignAnswer {
        result: format!(
            "{name}: {done} of {} complete on {} of {}",
            count::of(total, "experiment"),
            count::of(devices, "device"),
            count::of(hosts.len() as u64, "host")
        ),
        complete: match missing.as_slice() {
            [] => "yes".to_owned(),
            missing => format!("no: not on {}", missing.join(", ")),
        },
        next: match missing.is_empty() {
            true => "Read the results on each host: iosonde campaign report".to_owned(),
            false => "Run what is missing: iosonde campaign resume, with the same hosts".to_owned(),
        },
    };
    (answer, rows)
}
