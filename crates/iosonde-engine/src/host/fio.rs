//! fio as a cross-check of our measurement, where it is installed.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::program::{self, Limits, Said};
use iosonde_model::record::WitnessRun;

/// Limit on the output that is read, bytes.
const OUTPUT_LIMIT_BYTES: u64 = 64 << 20;

/// Time limit of `fio --version`.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// Options added to every job, so that fio uses files as they are. Without `create_on_open`, fio
/// removes a file that is too short and lays out a new one. Without `allow_file_create`, opening
/// creates no file. Latency percentiles include submission.
const EACH_JOB: [&str; 7] = [
    "--allow_file_create=0",
    "--create_on_open=1",
    "--unlink=0",
    "--fallocate=none",
    "--file_append=0",
    "--lat_percentiles=1",
    "--clat_percentiles=0",
];

/// An installed fio.
#[derive(Clone, Debug)]
pub struct Fio {
    program: PathBuf,
    /// As fio reports it: `fio-3.33`.
    pub version: String,
}

/// Why fio gave no result.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FioError {
    /// Not in PATH.
    #[error("fio is not installed; install the package fio, or leave --cross-check out")]
    Missing,
    /// The caller cancelled it.
    #[error("interrupted")]
    Interrupted,
    /// It could not be started, did not end in time, or printed too much.
    #[error("fio: {0}")]
    Ran(String),
    /// It ended with an error.
    #[error("fio ended with exit code {code}: {said}")]
    Failed {
        code: i32,
        /// The last line of its error output.
        said: String,
    },
    /// It succeeded, but its output is not a result.
    #[error("fio's result cannot be read: {0}")]
    Unreadable(String),
}

impl Fio {
    /// The fio of this machine.
    ///
    /// # Errors
    /// If there is none in PATH, or it does not report its version.
    pub fn find() -> Result<Fio, FioError> {
        let program = program::find("fio").ok_or(FioError::Missing)?;
        let mut command = program::command(&program);
        command.arg("--version");
        let limits = Limits { time: VERSION_LIMIT, output_bytes: 1 << 16, cancelled: &|| false };
        let said = program::run(command, &limits).map_err(FioError::Ran)?;
        let text = String::from_utf8_lossy(&said.output);
        let version = text.lines().next().unwrap_or_default().trim();
        if said.code != 0 || !version.starts_with("fio-") {
            let found =
                format!("`fio --version` says `{version}`, expected `fio-3.33` or the like");
            return Err(FioError::Unreadable(found));
        }
        Ok(Fio { program, version: version.chars().take(64).collect() })
    }

    /// Runs jobs, given as `--name=…` and options, and returns what fio measured. fio creates,
    /// extends and removes no file: each named file must exist in full length.
    ///
    /// # Errors
    /// If it fails, takes longer than `limit`, is `cancelled`, or its result cannot be read.
    pub fn run(
        &self,
        jobs: &[String],
        writes: bool,
        limit: Duration,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<WitnessRun, FioError> {
        let mut command = program::command(&self.program);
        command.args(["--output-format=json+", "--eta=never"]);
        if !writes {
            command.arg("--readonly");
        }
        for word in jobs {
            command.arg(word);
            if word.starts_with("--name=") {
                command.args(EACH_JOB);
            }
        }
        let limits = Limits { time: limit, output_bytes: OUTPUT_LIMIT_BYTES, cancelled };
        let ran = program::run(command, &limits);
        // A signal from the terminal reaches fio as well.
        if cancelled() {
            return Err(FioError::Interrupted);
        }
        result(&ran.map_err(FioError::Ran)?)
    }
}

/// The measurement in fio's output.
fn result(said: &Said) -> Result<WitnessRun, FioError> {
    let text = String::from_utf8_lossy(&said.output);
    if said.code != 0 {
        let errors = String::from_utf8_lossy(&said.errors);
        let words = |text: &str| {
            let line = text.lines().rev().find(|line| line.starts_with("fio:"));
            line.or(text.lines().next_back()).unwrap_or_default().chars().take(300).collect()
        };
        let words: String = if errors.trim().is_empty() { words(&text) } else { words(&errors) };
        return Err(FioError::Failed { code: said.code, said: words });
    }
    // Warnings may come before the document.
    let start = if text.starts_with('{') { Some(0) } else { text.find("\n{").map(|at| at + 1) };
    let start = start.ok_or_else(|| FioError::Unreadable("it contains no JSON".into()))?;
    let document: Value = serde_json::from_str(&text[start..])
        .map_err(|error| FioError::Unreadable(error.to_string()))?;
    witness(&document).ok_or_else(|| {
        FioError::Unreadable("it has no rate and no latency that belong to each other".into())
    })
}

/// The sum over all jobs and directions of fio's document.
fn witness(document: &Value) -> Option<WitnessRun> {
    let program = document.get("fio version")?.as_str()?.chars().take(64).collect();
    let mut seen = WitnessRun { program, ..WitnessRun::default() };
    for job in document.get("jobs")?.as_array()? {
        if job.get("error")?.as_i64()? != 0 {
            return None;
        }
        for way in ["read", "write", "trim"] {
            let way = job.get(way)?;
            let (ops, iops) = (way.get("total_ios")?.as_u64()?, way.get("iops")?.as_f64()?);
            if !(0.0..1e12).contains(&iops) {
                return None;
            }
            seen.ops = seen.ops.checked_add(ops)?;
            seen.iops += iops;
            let Some(bins) = way.pointer("/lat_ns/bins") else { continue };
            for (ns, count) in bins.as_object()? {
                let bin = seen.latency.entry(ns.parse().ok()?).or_insert(0);
                *bin = bin.checked_add(count.as_u64()?)?;
            }
        }
    }
    Some(seen)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn said(code: i32, output: &str, errors: &str) -> Said {
        Said { code, output: output.into(), errors: errors.into() }
    }

    #[test]
    fn a_recorded_result_is_read() {
        // fio 3.33: 70/30 of 4 KiB on a file, two threads, 200 operations each.
        let text = include_str!("../../../../tests/fixtures/fio/randrw-3.33.json");
        let run = result(&said(0, text, "")).unwrap();
        let document: Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
        let job = &document["jobs"][0];
        let of = |way: &str, key: &str| job[way][key].as_f64().unwrap();
        assert_eq!(run.program, "fio-3.33");
        assert_eq!(run.ops, 400);
        assert_eq!(run.latency.values().sum::<u64>(), 400);
        assert!((run.iops - of("read", "iops") - of("write", "iops")).abs() < 1e-6);
        // Between the medians of both directions.
        let median = |way: &str| job[way]["lat_ns"]["percentile"]["50.000000"].as_u64().unwrap();
        let (read, write) = (median("read"), median("write"));
        let all = run.quantile_ns(0.5).unwrap();
        assert!((read.min(write)..=read.max(write)).contains(&all), "{read} {all} {write}");
    }

    #[test]
    fn a_warning_before_the_document_is_passed_over() {
        let text = "note: {odd}\n{\"fio version\": \"fio-9\", \"jobs\": []}";
        assert_eq!(result(&said(0, text, "")).unwrap().program, "fio-9");
    }

    #[test]
    fn what_is_no_result_is_said() {
        let failed = result(&said(1, "{}", "fio: pid=1, err=5\nbye")).unwrap_err().to_string();
        assert_eq!(failed, "fio ended with exit code 1: fio: pid=1, err=5");
        let job = |read: &str| {
            let rest = r#""write":{"total_ios":0,"iops":0},"trim":{"total_ios":0,"iops":0}"#;
            format!(r#"{{"fio version":"f","jobs":[{{"error":0,"read":{read},{rest}}}]}}"#)
        };
        for broken in [
            String::new(),
            "{\"fio version\": \"fio-3.33\", \"jobs\" : [".into(),
            "{}".into(),
            job(r#"{"total_ios":1,"iops":-1}"#),
            job(r#"{"total_ios":1,"iops":1e300}"#),
            job(r#"{"total_ios":"x","iops":1}"#),
            job(r#"{"total_ios":1,"iops":1,"lat_ns":{"bins":{"x":1}}}"#),
        ] {
            let reason = result(&said(0, &broken, "")).unwrap_err();
            assert!(matches!(reason, FioError::Unreadable(_)), "{broken}: {reason}");
        }
        assert!(result(&said(0, &job(r#"{"total_ios":1,"iops":1}"#), "")).is_ok());
    }
}
