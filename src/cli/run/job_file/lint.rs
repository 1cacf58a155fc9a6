//! `--lint`: lists what would make the result of these jobs misleading, and what makes a result of
//! fio misleading, without running anything.

use std::path::Path;

use serde_json::{Value, json};

use super::super::fio_line::{FioLine, Instead};
use crate::cli::exit::{About, Exit, Failure, shown};
use crate::cli::output::{Output, OutputFormat};
use crate::cli::place::Place;
use iosonde_model::record::given;
use iosonde_model::spec::fio::JobFile;
use iosonde_model::spec::fio::lint::{Around, lint as of_jobs};
use iosonde_model::units::count;

/// Operations that a 99.9th percentile requires.
const P999_OPS: u64 = 3_700;
/// Largest result that is read, bytes.
const MAX_RESULT_BYTES: u64 = 64 << 20;

/// Separates the fio results on a command line from its job files.
pub(super) fn apart(line: &FioLine) -> (FioLine, Vec<String>) {
    let mut line = line.clone();
    let is_result = |name: &String| Path::new(name).extension().is_some_and(|end| end == "json");
    let lints = line.instead == Instead::Lint;
    let (results, files) = line.files.drain(..).partition(|name| lints && is_result(name));
    line.files = files;
    (line, results)
}

/// Lists the findings; exit code 3 if there are any.
pub(super) fn lint(
    file: &JobFile,
    results: &[String],
    place: &Place,
    format: OutputFormat,
) -> Result<Exit, Failure> {
    let around = Around { memory_bytes: place.host.memory_bytes.unwrap_or(0) };
    let mut found: Vec<String> = of_jobs(file, around).iter().map(ToString::to_string).collect();
    for name in results {
        found.extend(of_result(name)?);
    }
    let mut output = Output::new(format);
    for line in &found {
        output.text(&format!("{line}\n"));
    }
    let total = found.len();
    let jobs: usize = file.groups.iter().map(|group| group.jobs.len()).sum();
    let of_jobs = count::of(jobs as u64, "job");
    let reasons = count::of(total as u64, "reason");
    output.text(&match total {
        0 => format!("{of_jobs}: nothing found that would make a result misleading\n"),
        _ => format!("{of_jobs}: {reasons} why a result would be misleading\n"),
    });
    output.value(&json!({ "jobs": jobs, "findings": found }));
    Ok(output.end(if total == 0 { Exit::Done } else { Exit::Missed }))
}

/// Findings in a JSON result of fio.
fn of_result(name: &str) -> Result<Vec<String>, Failure> {
    let text = given::text(Path::new(name), MAX_RESULT_BYTES).or_wrong(shown(name))?;
    // fio may print notes before its document.
    let begins = text.find('{').unwrap_or(0);
    let document: Value =
        serde_json::from_str(&text[begins..]).or_wrong(format!("`{name}`: no JSON"))?;
    let jobs = document["jobs"].as_array().ok_or("found no `jobs` of fio").or_wrong(shown(name))?;
    let mut found = Vec::new();
    for job in jobs {
        let job_name = job["jobname"].as_str().unwrap_or("?");
        let mut say = |what: String| found.push(format!("{name}: [{job_name}] {what}"));
        if let Some(code) = job["error"].as_i64().filter(|code| *code != 0) {
            say(format!("the job ended with error {code}"));
        }
        // Little's law: mean queue depth is arrival rate times mean latency.
        let mut seen = 0.0;
        for way in ["read", "write", "trim"] {
            let of = &job[way];
            let ops = of["total_ios"].as_u64().unwrap_or(0);
            if ops == 0 {
                continue;
            }
            if ops < P999_OPS {
                say(format!("{way}: {ops} operations; p99.9 needs at least {P999_OPS}"));
            }
            let (iops, seconds) =
                (of["iops"].as_f64().unwrap_or(0.0), of["runtime"].as_f64().unwrap_or(0.0) / 1e3);
            if seconds > 0.0 && seconds < 10.0 {
                say(format!("{way}: {seconds} s measured, expected 10 s at least"));
            }
            seen += iops * of["lat_ns"]["mean"].as_f64().unwrap_or(0.0) / 1e9;
        }
        let number = |name: &str| -> f64 {
            let written = [&job["job options"][name], &document["global options"][name]];
            let text = written.into_iter().find_map(Value::as_str);
            text.and_then(|text| text.parse().ok()).unwrap_or(1.0)
        };
        // With group_reporting one entry represents all copies of a job.
        let entries = jobs.iter().filter(|other| other["jobname"] == job["jobname"]).count();
        let asked = number("iodepth") * (number("numjobs") / entries as f64).max(1.0);
        if asked >= 2.0 && seen > 0.0 && seen < asked / 2.0 {
            say(format!(
                "requested depth {asked}, mean queue depth {seen:.1}: the depth was not reached"
            ));
        }
    }
    Ok(found)
}
