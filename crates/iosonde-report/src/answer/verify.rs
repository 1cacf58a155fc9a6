//! Answers of the verifier, of its self-test, and of the fsync ladder.

use super::Answer;
use iosonde_analysis::finding::Strength;
use iosonde_analysis::ladder::Ladder;
use iosonde_analysis::verify::{Could, VerifyJudgement, VerifyVerdict};
use iosonde_model::plan::EngineKind;
use iosonde_model::record::{LadderRun, Matrix, VerifyRun};
use iosonde_model::units::count;

impl Answer {
    /// The answer of `verify flush`, `soak`, `write`, `check` and similar commands.
    pub fn of_verify(run: &VerifyRun, judged: &VerifyJudgement) -> Answer {
        let path = &run.plan.plan.target().path;
        let ledger = run.ledger.as_ref().map(|_| "the same ledger");
        // A generic device (`/dev/ng*`) accepts no other engine.
        let commands = run.plan.plan.engine.kind == EngineKind::IoUringCmd;
        let engine = if commands { " --ioengine io_uring_cmd" } else { "" };
        let next = match &judged.verdict {
            VerifyVerdict::Fail => judged.failures.first().map_or_else(
                || "Stop writing to it, and read the kernel log (dmesg).".to_owned(),
                |failure| {
                    format!(
                        "Stop writing to it, and read the first failure again by its command \
                         (iosonde report --explain {})",
                        failure.class.word()
                    )
                },
            ),
            VerifyVerdict::Pass if run.plan.plan.engine.kind == EngineKind::Sim => {
                "Repeat it on a file or a device: a simulated one tests only the verifier".into()
            }
            VerifyVerdict::Pass => {
                let device = run.target.device.as_ref().filter(|_| commands);
                let path = device.map_or(path.clone(), |device| format!("/dev/{}", device.name));
                format!("Test fsync: iosonde verify fsync {path}")
            }
            VerifyVerdict::Written => {
                let ledger = judged.ledger.as_deref().unwrap_or("FILE");
                format!("Read it back: iosonde verify check {path}{engine} --ledger {ledger}")
            }
            VerifyVerdict::Inconclusive { .. } => format!(
                "Repeat it to its end{}: iosonde verify {} {path}{engine}",
                ledger.map(|words| format!(" with {words}")).unwrap_or_default(),
                run.plan.mode.word()
            ),
        };
        Answer {
            result: format!("{}: {}", judged.verdict.word().to_uppercase(), judged.words),
            confidence: confidence(judged),
            next,
        }
    }

    /// The answer of `verify fsync`.
    pub fn of_ladder(run: &LadderRun, evaluated: &Ladder) -> Answer {
        let path = &run.plan.path;
        let strongest =
            evaluated.ladder_tests.iter().filter_map(|test| Some((test.strength?, test))).next();
        let result = match (&evaluated.failure, strongest) {
            (Some(failure), _) => format!("ERROR: {failure}"),
            (None, Some((_, test))) => test.words.clone(),
            (None, None) => "not tested: none of the tests could be run".to_owned(),
        };
        let confidence = match strongest {
            _ if evaluated.failure.is_some() => "none: the test did not end as planned".to_owned(),
            Some((Strength::Proven, _)) => "high: proven by counters of the kernel".to_owned(),
            Some((Strength::Supported, _)) => {
                "medium: supported by latencies, not proven by counters".to_owned()
            }
            Some((Strength::ConsistentWith, _)) => {
                "low: the latencies allow other explanations".to_owned()
            }
            None => "none: nothing was tested".to_owned(),
        };
        let next = format!(
            "Only a power cut tests what survives: iosonde verify powercut {path} --witness 'ssh \
             HOST iosonde verify witness'"
        );
        Answer { result, confidence, next }
    }

    /// The answer of `verify selftest`.
    pub fn of_selftest(matrix: &Matrix, seed: u64, complete: bool) -> Answer {
        let faults = count::thousands(matrix.visible());
        let wrong = matrix.rows.iter().find(|row| row.has_failed());
        let result = match (complete, matrix.is_clean()) {
            (_, false) => format!(
                "FAIL: the verifier missed or misnamed what was injected{}",
                wrong.map(|row| format!(": {}", row.fault)).unwrap_or_default()
            ),
            (false, true) => format!("PARTIAL: {faults} visible faults detected until it ended"),
            (true, true) => format!(
                "PASS: each of {faults} visible faults was detected and named correctly, \
                 without a false alarm"
            ),
        };
        let confidence = match (complete, matrix.visible() < MANY) {
            (false, _) => "low: ended before all simulations were done".to_owned(),
            (true, true) => format!("medium: only {faults} visible faults"),
            (true, false) => "high".to_owned(),
        };
        let next = match matrix.is_clean() {
            true => "Verify storage: iosonde verify soak PATH".to_owned(),
            false => format!("Repeat it and report it: iosonde verify selftest --seed {seed}"),
        };
        Answer { result, confidence, next }
    }
}

/// With fewer visible faults, the self-test says little about rare misses.
const MANY: u64 = 1_000;

fn confidence(judged: &VerifyJudgement) -> String {
    let cached = judged.caches.iter().find(|cache| cache.could == Could::Answer);
    match &judged.verdict {
        VerifyVerdict::Fail => {
            "high: each block names its writer and its place, and was read again".to_owned()
        }
        VerifyVerdict::Written => "none yet: nothing was read back".to_owned(),
        VerifyVerdict::Inconclusive { .. } => "none: too little was checked".to_owned(),
        VerifyVerdict::Pass => cached.map_or_else(
            || "high".to_owned(),
            |cache| format!("medium: the {} may have answered reads", cache.cache),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_analysis::ladder::ladder;
    use iosonde_analysis::verify::judge;
    use iosonde_fixtures::ladder::Model;
    use iosonde_fixtures::verify::{check_of, fail_with, soak, stale};

    fn answer(run: &VerifyRun) -> Answer {
        Answer::of_verify(run, &judge(run, &[]))
    }

    #[test]
    fn a_pass_a_failure_and_too_little_differ_in_every_line() {
        let mut run = soak();
        let pass = answer(&run);
        assert!(pass.result.starts_with("PASS: all 800 checks"), "{pass:?}");
        fail_with(&mut run, stale());
        let fail = answer(&run);
        assert!(fail.result.starts_with("FAIL: 1 block does not contain"), "{fail:?}");
        assert!(fail.next.ends_with("--explain stale)"), "{fail:?}");
        let mut run = check_of(&[]);
        run.jobs[0].swept_blocks = 1;
        let little = answer(&run);
        assert!(little.confidence.starts_with("none"), "{little:?}");
        assert!(little.next.contains("verify check"), "{little:?}");
    }

    #[test]
    fn a_ladder_is_as_sure_as_its_strongest_test() {
        let run = Model::honest().run();
        let found = Answer::of_ladder(&run, &ladder(&run));
        assert!(found.confidence.starts_with("high: proven"), "{found:?}");
        assert!(found.next.contains("verify powercut"), "{found:?}");
    }
}
