//! One JSON document per command, for `run` and for `check`.
//!
//! Integers are bytes and nanoseconds, with the unit in the name. A percentile that has not earned
//! its place is `null`, with the reason beside it.

use std::collections::BTreeMap;

use iosonde_model::units::clean::is_invisible;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use iosonde_analysis::cross_check::CrossCheck;
use iosonde_analysis::expectation::Judged;
use iosonde_analysis::figures::{self, DirectionFigures, Figures, LatencyFigures};
use iosonde_analysis::finding::Severity;
use iosonde_analysis::verdict::{Assessment, Verdict};
use iosonde_model::record::run::{Outcome, Run};
use iosonde_model::record::{HostFacts, TargetFacts};

/// Name and version of the document; the version grows with every incompatible change.
pub const SCHEMA: &str = "iosonde.result/2";

/// Everything a document may hold.
#[derive(Clone, Copy, Debug, Default)]
pub struct Document<'a> {
    /// The verb: `check`, `run`.
    pub verb: &'a str,
    /// Whether everything that was asked for was done.
    pub complete: bool,
    /// Exit code of the process.
    pub exit_code: u8,
    /// The runs with what was derived from them.
    pub cells: &'a [(&'a Run, &'a Assessment)],
    /// The verdict, once there is one.
    pub verdict: Option<&'a Verdict>,
    /// Declared expectations.
    pub expectations: &'a [Judged],
    /// Whether fio's formats report the jobs of a run as one (`group_reporting`).
    pub grouped: bool,
    /// What another program measured of the same loads.
    pub cross_checks: &'a [CrossCheck],
    /// The machine.
    pub host: Option<&'a HostFacts>,
    pub target: Option<&'a TargetFacts>,
    /// Why the command ended without an answer.
    pub error: Option<Failure<'a>>,
    /// What the options of fio's job files and command lines were.
    pub written: Option<&'a WrittenOptions>,
}

/// Options of fio's language with their values, as they were written.
#[derive(Clone, Debug, Default)]
pub struct WrittenOptions {
    /// Those of all jobs: in `[global]`, or before the first job of a command line.
    pub global: BTreeMap<String, String>,
    /// Those of each job itself, by the names of its run and of its role.
    pub jobs: BTreeMap<(String, String), BTreeMap<String, String>>,
}

/// Why a command ended without an answer.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Failure<'a> {
    /// A stable word for programs (`usage`, `refused`, `environment`).
    pub kind: &'a str,
    /// What was found and what was expected.
    pub message: &'a str,
    /// How to fix it.
    pub hint: Option<&'a str>,
}

/// The document as a value.
pub fn json(document: &Document<'_>) -> Value {
    let cells: Vec<Value> = document.cells.iter().map(|(run, facts)| cell(run, facts)).collect();
    let mut out = json!({
        "schema": SCHEMA,
        "program": concat!("iosonde ", env!("CARGO_PKG_VERSION")),
        "verb": document.verb,
        "complete": document.complete,
        "exit_code": document.exit_code,
        "cells": cells,
        "verdict": document.verdict,
        "expectations": document.expectations,
        "host": document.host,
        "target": document.target,
    });
    if let (Value::Object(fields), Some(failure)) = (&mut out, &document.error) {
        fields.insert("error".into(), json!(failure));
    }
    if let (Value::Object(fields), false) = (&mut out, document.cross_checks.is_empty()) {
        let formatted = document.cross_checks.iter().map(|check| {
            let mut value = json!(check);
            value["words"] = json!(check.words());
            value
        });
        fields.insert("cross_checks".into(), formatted.collect());
    }
    if let (Value::Object(fields), "run", [(_, facts)]) = (&mut out, document.verb, document.cells)
    {
        fields.insert("summary".into(), summary_of(facts));
    }
    out
}

/// A document of a command: what each of them begins with, and its own fields.
pub(crate) fn envelope(schema: &str, verb: &str, exit_code: u8, fields: impl Serialize) -> Value {
    #[derive(Serialize)]
    struct Envelope<'a, Fields> {
        schema: &'a str,
        program: &'static str,
        verb: &'a str,
        exit_code: u8,
        #[serde(flatten)]
        fields: Fields,
    }
    let program = concat!("iosonde ", env!("CARGO_PKG_VERSION"));
    json!(Envelope { schema, program, verb, exit_code, fields })
}

/// A document as text that is safe on a terminal: what JSON leaves unescaped of control and
/// bidirectional characters is escaped too. Its schema stands first, so that the beginning tells
/// what it is. Ends with a newline.
pub fn json_text(value: &Value) -> String {
    let text = value.as_object().map(|fields| serde_json::to_string_pretty(&SchemaFirst(fields)));
    harmless(&text.and_then(Result::ok).unwrap_or_else(|| format!("{value:#}")))
}

/// The fields of a document, its schema before the others.
struct SchemaFirst<'a>(&'a Map<String, Value>);

impl Serialize for SchemaFirst<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (schema, others): (Vec<_>, Vec<_>) =
            self.0.iter().partition(|(name, _)| *name == "schema");
        to.collect_map(schema.into_iter().chain(others))
    }
}

/// A record of a line format: its schema first, so that a line tells what it is.
pub fn json_line(schema: &str, fields: &Value) -> String {
    let text = fields.to_string();
    let rest = text.strip_prefix('{').unwrap_or_default();
    harmless(&format!("{{\"schema\":\"{schema}\",{rest}"))
}

/// JSON that is safe on a terminal, and a newline.
fn harmless(json: &str) -> String {
    // The line feeds between the fields are ours; those in strings are escaped by now.
    let risky =
        |character: char| is_invisible(character) || (character.is_control() && character != '\n');
    escaped(json, risky) + "\n"
}

/// JSON whose risky characters are written as their numbers.
pub(crate) fn escaped(json: &str, is_risky: impl Fn(char) -> bool) -> String {
    let mut out = String::new();
    for character in json.chars() {
        if is_risky(character) {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(character);
        }
    }
    out
}

fn cell(run: &Run, facts: &Assessment) -> Value {
    let found = facts.findings.iter().filter(|finding| finding.severity > Severity::Fact);
    let warnings: Vec<&str> = run
        .plan
        .notes
        .iter()
        .map(String::as_str)
        .chain(found.map(|finding| finding.words.as_str()))
        .collect();
    let mut out = json!({
        "name": run.plan.name,
        "title": run.plan.title,
        "status": status(run, facts),
        "outcome": run.outcome,
        "plan": run.plan,
        "backend": run.backend,
        "figures": rest(&facts.figures),
        "summary": summary_of(facts),
        "consistency": facts.consistency.entries,
        "findings": facts.findings,
        "warnings": warnings,
        "errors": errors(run),
    });
    if let (Value::Object(fields), Some(pursuit)) = (&mut out, &facts.pursuit) {
        fields.insert("latency_target".into(), json!(pursuit));
        fields.insert("latency_target_log".into(), json!(run.controlled));
    }
    if let (Value::Object(fields), Some(precision)) = (&mut out, &facts.precision) {
        fields.insert("until".into(), json!(precision));
        fields.insert("until_log".into(), json!(run.precision));
    }
    if let (Value::Object(fields), Some(steady)) = (&mut out, &facts.steady) {
        fields.insert("steady".into(), json!(steady));
    }
    if let (Value::Object(fields), Some(layers)) = (&mut out, &run.layers) {
        fields.insert("layers".into(), json!(layers));
    }
    out
}

/// `complete`, `invalid`, `failed` or `partial`.
fn status(run: &Run, facts: &Assessment) -> &'static str {
    match run.outcome {
        Outcome::Failed { .. } => "failed",
        _ if !facts.consistency.valid() => "invalid",
        Outcome::Interrupted { .. } => "partial",
        Outcome::Complete => "complete",
    }
}

/// Errors of all jobs by name.
fn errors(run: &Run) -> Value {
    let mut sum: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
    for (name, times) in run.jobs.iter().flat_map(|job| &job.errors) {
        *sum.entry(name).or_default() += times;
    }
    json!(sum)
}

/// What is not in the summary: depth, cost, durability, roles.
fn rest(figures: &Figures) -> Value {
    let roles: Vec<Value> = figures
        .roles
        .iter()
        .map(|role| {
            json!({
                "role": role.role,
                "jobs": role.jobs,
                "block_bytes": role.block_bytes,
                "read_share": role.read_share,
                "depth_asked": role.depth_asked,
                "depth_seen": role.depth_seen,
                "read": direction(&role.read),
                "write": direction(&role.write),
                "trim": direction(&role.trim),
                "sync": direction(&role.sync),
                "total": direction(&role.total),
            })
        })
        .collect();
    json!({
        "window_ns": figures.window_ns,
        "steady": figures.steady,
        "inline": figures.inline,
        "depth_asked": figures.all.depth_asked,
        "depth_seen": figures.all.depth_seen,
        "read_share": figures.all.read_share,
        "cpu_ns_per_op": figures.cpu_ns_per_op,
        "cpu_user_share": figures.cpu_user_share,
        "cpu_system_share": figures.cpu_system_share,
        "context_switches_per_op": figures.switches_per_op,
        "syscalls_per_op": figures.syscalls_per_op,
        "errors": figures.errors,
        "durable": figures.durable.as_ref().map(|durable| json!({
            "bytes_per_s": durable.bytes_per_s.map(whole),
            "sync_ns": durable.sync_ns,
            "error": durable.error,
        })),
        "roles": roles,
        "phases": figures.phases.iter().map(|of| json!({
            "role": of.role,
            "number": of.number,
            "phase": of.phase,
            "window_ns": of.window_ns,
            "total": direction(&of.total),
        })).collect::<Vec<_>>(),
        "arrivals": figures.arrivals,
        "targets": figures.targets.iter().map(|target| json!({
            "path": target.path,
            "iops": target.iops,
            "bytes_per_s": whole(target.bytes_per_s),
            "latency_ns": latency(&target.latency),
        })).collect::<Vec<_>>(),
        "priorities": figures.priorities.iter().map(|of| json!({
            "direction": of.direction,
            "class": of.class,
            "level": of.level,
            "hint": of.hint,
            "percent": of.percent,
            "latency_ns": latency(&of.latency),
        })).collect::<Vec<_>>(),
    })
}

/// The headline; `null` where a consistency check failed.
fn summary_of(facts: &Assessment) -> Value {
    if !facts.consistency.valid() {
        return Value::Null;
    }
    let all = &facts.figures.all;
    json!({
        "read": direction(&all.read),
        "write": direction(&all.write),
        "trim": direction(&all.trim),
        "sync": direction(&all.sync),
        "total": direction(&all.total),
    })
}

fn direction(figures: &DirectionFigures) -> Value {
    let reason = figures.iops_interval.and_then(Result::err);
    json!({
        "ops": figures.ops,
        "bytes": figures.bytes,
        "iops": figures.iops,
        "iops_interval": figures.iops_interval.and_then(Result::ok),
        "iops_interval_na": reason.map(|reason| reason.to_string()),
        "bytes_per_s": whole(figures.bytes_per_s),
        "latency_ns": latency(&figures.latency),
        "latency_interval_ns": intervals(&figures.latency),
        "latency_interval_na": no_intervals(&figures.latency),
        "latency_na": reasons(&figures.latency),
        "service_ns": figures.service.as_ref().map(latency),
        "lag_ns": figures.lag.as_ref().map(latency),
        "slat_ns": figures.slat.as_ref().map(latency),
        "clat_ns": figures.clat.as_ref().map(latency),
    })
}

fn latency(latency: &LatencyFigures) -> Value {
    let mut fields = Map::new();
    fields.insert("count".into(), json!(latency.count));
    fields.insert("overflow".into(), json!(latency.overflow));
    fields.insert("mean".into(), json!(latency.mean_ns.map(whole)));
    fields.insert("min".into(), json!(latency.min_ns));
    fields.insert("max".into(), json!(latency.max_ns));
    fields.insert("stdev".into(), json!(latency.std_dev_ns.map(whole)));
    for quantile in &latency.quantiles {
        fields.insert(name(quantile.q), json!(quantile.value_ns()));
    }
    Value::Object(fields)
}

/// The 95 % intervals of the mean and every percentile that has a value; null where there is none.
fn intervals(latency: &LatencyFigures) -> Value {
    let mean = latency.mean_ns.map(|_| latency.mean_interval_ns.ok());
    let mean = mean.map(|ends| ends.map(|(low, high)| [whole(low), whole(high)]));
    let known = latency.quantiles.iter().filter_map(|quantile| {
        quantile.interval().map(|ends| (name(quantile.q), json!(ends.ok())))
    });
    Value::Object(mean.map(|ends| ("mean".into(), json!(ends))).into_iter().chain(known).collect())
}

/// Why each of the others has none.
fn no_intervals(latency: &LatencyFigures) -> Value {
    let mean = latency.mean_ns.and(latency.mean_interval_ns.err());
    let missing = latency
        .quantiles
        .iter()
        .filter_map(|quantile| Some((name(quantile.q), quantile.interval()?.err()?)));
    let all = mean.map(|reason| ("mean".into(), reason)).into_iter().chain(missing);
    Value::Object(all.map(|(name, reason)| (name, json!(reason.to_string()))).collect())
}

/// Why each missing percentile is missing.
fn reasons(latency: &LatencyFigures) -> Value {
    let missing = latency.quantiles.iter().filter_map(|quantile| {
        figures::reason(quantile).map(|reason| (name(quantile.q), json!(reason)))
    });
    Value::Object(missing.collect())
}

/// `p99`, `p99.9`.
fn name(q: f64) -> String {
    let percent = (q * 1e6).round() / 1e4;
    format!("p{percent}")
}

fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_golden;
    use iosonde_analysis::{assess, verdict};
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn a_run_document_stands_as_kept() {
        let mut run = run_of(&[Load { noise: 0.0, iops: 100.0, ..Load::default() }]);
        // Plans grow with the program; the golden file is about the rest.
        run.plan.jobs.truncate(1);
        let facts = assess(&run, None);
        let judged = verdict(std::slice::from_ref(&facts));
        let mut value = json(&Document {
            verb: "run",
            complete: true,
            cells: &[(&run, &facts)],
            verdict: Some(&judged),
            ..Document::default()
        });
        for part in ["plan", "backend"] {
            value["cells"][0][part] = json!("…");
        }
        value["program"] = json!("…");
        assert_golden("run.json", &json_text(&value));
        assert_eq!(value["summary"]["write"]["latency_ns"]["p99"], Value::Null);
    }

    #[test]
    fn an_invalid_run_has_no_summary() {
        let mut run = run_of(&[Load::default()]);
        run.jobs[0].read.bytes += 1;
        let facts = assess(&run, None);
        let value = json(&Document { verb: "run", cells: &[(&run, &facts)], ..Default::default() });
        assert_eq!(value["summary"], Value::Null);
        assert_eq!(value["cells"][0]["status"], "invalid");
        // A run that failed as well has none either.
        run.outcome = Outcome::Failed { error: "read EIO".into() };
        let facts = assess(&run, None);
        let value = json(&Document { verb: "run", cells: &[(&run, &facts)], ..Default::default() });
        assert_eq!(value["cells"][0]["status"], "failed");
        assert!(value["cells"][0]["summary"].is_null());
    }

    #[test]
    fn an_error_alone_is_a_document_and_its_text_is_harmless() {
        let failure = Failure {
            kind: "refused",
            message: "found tmpfs \u{9b}31m\u{202e}",
            hint: Some("use another directory"),
        };
        let document =
            Document { verb: "check", exit_code: 5, error: Some(failure), ..Default::default() };
        let text = json_text(&json(&document));
        assert!(text.contains("\\u009b31m\\u202e"), "{text}");
        let back: Value = serde_json::from_str(&text).unwrap_or_default();
        assert_eq!(back["error"]["message"], "found tmpfs \u{9b}31m\u{202e}");
        assert_eq!(back["exit_code"], 5);
        assert_eq!(back["cells"], json!([]));
    }
}
