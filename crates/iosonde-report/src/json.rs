//! One JSON document per command, for `run` and `check`.
//!
//! Integers are bytes and nanoseconds, with the unit in the name. A percentile without enough
//! samples is `null`, with the reason beside it.

use std::collections::BTreeMap;

use iosonde_model::units::clean::is_invisible;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use iosonde_analysis::cross_check::CrossCheck;
use iosonde_analysis::expectation::Judged;
use iosonde_analysis::figures::{DirectionFigures, GroupFigures};
use iosonde_analysis::finding::Severity;
use iosonde_analysis::verdict::{Assessment, Verdict};
use iosonde_model::plan::Plan;
use iosonde_model::record::run::{BackendFacts, Outcome, Run};
use iosonde_model::record::{ControlledRun, HostFacts, LayersRun, PrecisionRun, TargetFacts};

/// Name and version of the document; the version grows with every incompatible change.
pub const SCHEMA: &str = "iosonde.result/2";

/// Contents of a document. Header fields and data for fio's formats only are skipped.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Document<'a> {
    /// The verb: `check`, `run`.
    #[serde(skip)]
    pub verb: &'a str,
    /// Whether all that was requested was done.
    pub complete: bool,
    /// Exit code of the process.
    #[serde(skip)]
    pub exit_code: u8,
    /// The runs with their assessments.
    #[serde(serialize_with = "cells")]
    pub cells: &'a [(&'a Run, &'a Assessment)],
    /// The verdict, if already known.
    pub verdict: Option<&'a Verdict>,
    /// Declared expectations.
    pub expectations: &'a [Judged],
    /// Measurements of the same loads by another program.
    #[serde(serialize_with = "cross_checks", skip_serializing_if = "<[_]>::is_empty")]
    pub cross_checks: &'a [CrossCheck],
    pub host: Option<&'a HostFacts>,
    pub target: Option<&'a TargetFacts>,
    /// The error that ended the command without a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure<'a>>,
    /// Options of fio's job files and command lines.
    #[serde(skip)]
    pub written: Option<&'a WrittenOptions>,
}

/// fio options with their values, as written.
#[derive(Clone, Debug, Default)]
pub struct WrittenOptions {
    /// Options of all jobs: from `[global]`, or before the first job of a command line.
    pub global: BTreeMap<String, String>,
    /// Options of each job, by the names of its run and its role.
    pub jobs: BTreeMap<(String, String), WrittenJob>,
}

/// A job as written in a job file or on a command line.
#[derive(Clone, Debug, Default)]
pub struct WrittenJob {
    /// Name of the job, shared by its copies.
    pub name: String,
    /// Whether it is reported together with the job before it in its group (`group_reporting`).
    pub grouped: bool,
    pub options: BTreeMap<String, String>,
}

/// The error that ended a command without a result.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Failure<'a> {
    /// A stable word for programs: `usage`, `refused`, `environment`.
    pub kind: &'a str,
    /// What was found and what was expected.
    pub message: &'a str,
    /// How to fix it.
    pub hint: Option<&'a str>,
}

/// The document as a JSON value. For a single `run` it has the headline at the top level too.
pub fn json(document: &Document<'_>) -> Value {
    #[derive(Serialize)]
    struct Fields<'a> {
        #[serde(flatten)]
        document: &'a Document<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        summary: Option<Option<Summary<'a>>>,
    }
    let summary = match (document.verb, document.cells) {
        ("run", [(_, facts)]) => Some(summary(facts)),
        _ => None,
    };
    envelope(SCHEMA, document.verb, document.exit_code, Fields { document, summary })
}

/// A document of a command: the fields common to all documents, and its own.
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

/// A document as text that is safe on a terminal: control and bidirectional characters that JSON
/// leaves unescaped are escaped too. The schema comes first, so that the beginning identifies the
/// document. Ends with a newline.
pub fn json_text(value: &Value) -> String {
    let text = value.as_object().map(|fields| serde_json::to_string_pretty(&SchemaFirst(fields)));
    harmless(&text.and_then(Result::ok).unwrap_or_else(|| format!("{value:#}")))
}

/// The fields of a document with the schema first.
struct SchemaFirst<'a>(&'a Map<String, Value>);

impl Serialize for SchemaFirst<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (schema, others): (Vec<_>, Vec<_>) =
            self.0.iter().partition(|(name, _)| *name == "schema");
        to.collect_map(schema.into_iter().chain(others))
    }
}

/// A record of a line format; the schema comes first, so that each line identifies itself.
pub fn json_line(schema: &str, fields: &Value) -> String {
    let text = fields.to_string();
    let rest = text.strip_prefix('{').unwrap_or_default();
    harmless(&format!("{{\"schema\":\"{schema}\",{rest}"))
}

/// JSON that is safe on a terminal, and a newline.
fn harmless(json: &str) -> String {
    // The line feeds between fields are ours; those in strings are already escaped.
    let risky =
        |character: char| is_invisible(character) || (character.is_control() && character != '\n');
    escaped(json, risky) + "\n"
}

/// Replaces risky characters in JSON by `\u` escapes.
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

/// A run with its assessment.
#[derive(Serialize)]
struct Cell<'a> {
    name: &'a str,
    status: &'static str,
    outcome: &'a Outcome,
    plan: &'a Plan,
    backend: &'a BackendFacts,
    #[serde(flatten)]
    facts: &'a Assessment,
    summary: Option<Summary<'a>>,
    warnings: Vec<&'a str>,
    errors: BTreeMap<&'a str, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_target_log: Option<&'a ControlledRun>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until_log: Option<&'a PrecisionRun>,
    #[serde(skip_serializing_if = "Option::is_none")]
    layers: Option<&'a LayersRun>,
}

fn cells<S: Serializer>(cells: &[(&Run, &Assessment)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(cells.iter().map(|(run, facts)| {
        let found = facts.findings.iter().filter(|finding| finding.severity > Severity::Fact);
        let notes = run.plan.notes.iter().map(String::as_str);
        Cell {
            name: &run.plan.name,
            status: status(run, facts),
            outcome: &run.outcome,
            plan: &run.plan,
            backend: &run.backend,
            facts,
            summary: summary(facts),
            warnings: notes.chain(found.map(|finding| finding.words.as_str())).collect(),
            errors: errors(run),
            latency_target_log: facts.pursuit.as_ref().and(run.controlled.as_ref()),
            until_log: facts.precision.as_ref().and(run.precision.as_ref()),
            layers: run.layers.as_ref(),
        }
    }))
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

/// Number of errors of all jobs, by errno name.
fn errors(run: &Run) -> BTreeMap<&str, u64> {
    let mut sum = BTreeMap::new();
    for (name, times) in run.jobs.iter().flat_map(|job| &job.errors) {
        *sum.entry(name.as_str()).or_default() += times;
    }
    sum
}

/// Headline figures of a run over all jobs.
#[derive(Serialize)]
struct Summary<'a> {
    read: &'a DirectionFigures,
    write: &'a DirectionFigures,
    trim: &'a DirectionFigures,
    sync: &'a DirectionFigures,
    total: &'a DirectionFigures,
}

/// `None` if a consistency check failed.
fn summary(facts: &Assessment) -> Option<Summary<'_>> {
    let GroupFigures { read, write, trim, sync, total, .. } = &facts.figures.all;
    facts.consistency.valid().then_some(Summary { read, write, trim, sync, total })
}

fn cross_checks<S: Serializer>(checks: &[CrossCheck], to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct InWords<'a> {
        #[serde(flatten)]
        check: &'a CrossCheck,
        words: String,
    }
    to.collect_seq(checks.iter().map(|check| InWords { check, words: check.words() }))
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
        // Plans grow with the program; the golden file covers the rest.
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
        // A failed run has no summary either.
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
