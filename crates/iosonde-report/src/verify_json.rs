//! A judged run of the verifier as JSON.

use serde_json::{Value, json};

use super::json::envelope;
use iosonde_analysis::verify::VerifyJudgement;
use iosonde_model::record::VerifyRun;
use iosonde_model::record::run::Outcome;

/// Name and version of the document.
pub const VERIFY_RESULT_SCHEMA: &str = "iosonde.verify-result/2";

/// The document: all judgements, and all failures recorded in detail.
pub fn verify_json(run: &VerifyRun, judged: &VerifyJudgement, exit_code: u8) -> Value {
    let verb = format!("verify {}", run.plan.mode.word());
    let fields = json!({
        "complete": run.outcome == Outcome::Complete,
        "outcome": run.outcome,
        "run_id": run.plan.run,
        "seed": run.plan.plan.seed,
        "started_unix_ns": run.started_unix_ns,
        "elapsed_ns": run.elapsed_ns,
        "plan": run.plan,
        "backend": run.backend,
        "target": run.target,
        "verdict": {
            "word": judged.verdict.word(),
            "words": judged.words,
            "inconclusive_because": judged.doubts,
            "notes": judged.notes,
        },
        "figures": judged.figures,
        "caches": judged.caches,
        "flushes": judged.flushes,
        "failures": judged.failures,
        "cache_dropped": run.cache_dropped,
        "ledger": run.ledger,
        "injected": run
            .injected
            .iter()
            .map(|(fault, struck)| json!({ "fault": fault, "struck": struck }))
            .collect::<Vec<_>>(),
    });
    envelope(VERIFY_RESULT_SCHEMA, &verb, exit_code, fields)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::Value;

    use super::*;
    use crate::golden::{assert_golden, closed};
    use iosonde_analysis::verify::judge;
    use iosonde_fixtures::verify::{check_of, damaged, device, fail_with, soak, stale};
    use iosonde_model::record::facts::DeviceCounters;

    const SCHEMA: &str = include_str!("../../../schema/iosonde-verify-result-2.schema.json");

    #[track_caller]
    fn assert_fits(run: &VerifyRun) -> Value {
        let document = verify_json(run, &judge(run, &[]), 0);
        let validator = jsonschema::validator_for(&closed(SCHEMA)).unwrap();
        let faults: Vec<String> = validator
            .iter_errors(&document)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(faults.is_empty(), "{faults:#?}");
        document
    }

    #[test]
    fn every_kind_of_run_fits_the_schema() {
        assert_eq!(assert_fits(&soak())["verdict"]["word"], "pass");
        let mut run = soak();
        fail_with(&mut run, stale());
        damaged().into_iter().for_each(|failure| fail_with(&mut run, failure));
        run.target.device = Some(device("write back"));
        run.device = Some((DeviceCounters::default(), DeviceCounters::default()));
        run.injected = vec![("flip=1".into(), 3)];
        run.jobs[0].errors.insert("read EIO".into(), 1);
        run.jobs[0].first_error = Some((0, 4096, "EIO".into()));
        let document = assert_fits(&run);
        assert_eq!(document["failures"].as_array().unwrap().len(), 1 + damaged().len());
        assert_eq!(document["figures"]["failed_blocks"]["stale"], 1);
        let mut run = check_of(&[stale()]);
        run.outcome = Outcome::Interrupted { signal: 2 };
        assert_eq!(assert_fits(&run)["complete"], false);
    }

    #[test]
    fn the_document_does_not_change_unnoticed() {
        let mut run = soak();
        damaged().into_iter().for_each(|failure| fail_with(&mut run, failure));
        let mut document = verify_json(&run, &judge(&run, &[]), 4);
        // The plan and the program version have their own tests.
        document["plan"] = Value::Null;
        document["program"] = Value::Null;
        let text = serde_json::to_string_pretty(&document).unwrap() + "\n";
        assert_golden("verify.json", &text);
    }
}
