//! `errors`: requests failed, or did not complete.

use iosonde_model::record::run::{Outcome, Run};
use iosonde_model::units::count;

use super::{
    Case, Detect, Detector, Finding, Severity, Strength, data_differs, limit_missed, no_space,
    not_supported,
};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "errors",
    meaning: "Requests failed, or did not complete.",
    method: "result of each request",
    action: "Read the kernel log (dmesg) and the drive's health (smartctl -a).",
    subject: "I/O errors",
    severity: Severity::Fault,
    detect,
};

/// Errors that identify a cause, by the kernel's names.
pub(super) struct Cause(pub(super) &'static [&'static str]);

/// Causes with their own detector.
const NAMED: [Cause; 3] = [data_differs::CAUSE, no_space::CAUSE, not_supported::CAUSE];

impl Cause {
    /// Whether an error, or a text that names it, belongs to this cause.
    pub(super) fn is(&self, text: &str) -> bool {
        self.0.iter().any(|errno| text.contains(errno))
    }

    /// Number of requests of a run that failed with this cause, and the names of its errors.
    pub(super) fn failed(&self, run: &Run) -> (u64, Vec<&'static str>) {
        let errors = || run.jobs.iter().flat_map(|job| &job.errors);
        let number = errors().filter(|(name, _)| self.is(name)).map(|(_, number)| number).sum();
        let has = |errno: &&str| errors().any(|(name, _)| name.contains(*errno));
        (number, self.0.iter().copied().filter(has).collect())
    }

    /// Failures with this cause, as text: requests and the final fsync.
    pub(super) fn parts(&self, run: &Run) -> Vec<String> {
        let (failed, names) = self.failed(run);
        let requests = (failed > 0).then(|| {
            format!("{} failed with {}", count::of(failed, "request"), names.join(" and "))
        });
        requests.into_iter().chain(failed_sync(run, |errno| self.is(errno))).collect()
    }

    /// The finding of this cause; `words` builds its text from the failures.
    pub(super) fn finding(
        &self,
        run: &Run,
        detector: &Detector<Detect>,
        words: fn(&str) -> String,
    ) -> Option<Finding> {
        let parts = self.parts(run);
        let finding = detector.found(Strength::Proven, words(&parts.join("; ")));
        (!parts.is_empty()).then(|| finding.with("errors", self.failed(run).0 as f64))
    }
}

/// The failure of the final fsync with such an error, as text.
fn failed_sync(run: &Run, is_such: impl Fn(&str) -> bool) -> Option<String> {
    let errno = run.final_sync.as_ref()?.error.as_deref().filter(|errno| is_such(errno))?;
    Some(format!("the final fsync failed with {errno}: what was written may be lost"))
}

/// Whether an error has its own detector.
fn is_named(text: &str) -> bool {
    NAMED.iter().any(|cause| cause.is(text))
}

/// Reports when any request failed or did not complete, the run ended with an error, or the final
/// fsync failed. Errors with their own detector are excluded.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let run = case.run;
    let abandoned: u64 = run.jobs.iter().map(|job| u64::from(job.abandoned)).sum();
    let named = NAMED.iter().map(|cause| cause.failed(run).0).sum();
    let failed = case.figures.errors.saturating_sub(named);
    let requests = (failed > 0).then(|| {
        let mut firsts = run.jobs.iter().filter_map(|job| job.first_error.as_ref());
        let first = firsts.find(|(_, _, errno)| !is_named(errno));
        let place = first.map_or(String::new(), |(offset, _, errno)| {
            format!(", the first {errno} at offset {}", count::thousands(*offset))
        });
        format!("failed requests: {}{place}", count::thousands(failed))
    });
    let lost = || format!("requests that did not complete: {}", count::thousands(abandoned));
    let lost = (abandoned > 0).then(lost);
    let sync = failed_sync(run, |errno| !is_named(errno));
    let mut parts: Vec<String> = [requests, lost, sync].into_iter().flatten().collect();
    if let (Outcome::Failed { error }, true) = (&run.outcome, parts.is_empty())
        && !NAMED.iter().any(|cause| cause.is(error) && !cause.parts(run).is_empty())
        && limit_missed::missed(run).is_none()
    {
        parts.push(format!("the run ended early: {error}"));
    }
    if parts.is_empty() {
        return None;
    }
    let is_lost = abandoned > 0 && parts.len() == 1;
    let subject = if is_lost { "requests that did not complete" } else { DETECTOR.subject };
    let words = format!("I/O errors: {}.", parts.join("; "));
    let finding = DETECTOR.proven(words).about(subject);
    Some(finding.with("errors", failed).with("never_returned", abandoned))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn any_error_is_a_fault_and_a_retry_is_none() {
        let mut run = run_of(&[Load::default()]);
        run.jobs[0].retries = 100;
        run.jobs[0].short_transfers = 3;
        assert_eq!(ask(detect, &run, None), None);
        run.jobs[0].errors.insert("read EIO".into(), 2);
        run.jobs[0].first_error = Some((8192, 4096, "EIO".into()));
        let finding = ask(detect, &run, None).unwrap();
        assert_eq!(finding.severity, Severity::Fault);
        assert!(finding.words.contains("failed requests: 2, the first EIO at offset 8,192"));
    }

    #[test]
    fn a_failed_fsync_and_a_lost_request_are_errors() {
        let mut run = run_of(&[Load::default()]);
        run.jobs[0].abandoned = 1;
        let lost = ask(detect, &run, None).unwrap();
        assert!(lost.words.contains("did not complete: 1"));
        assert_eq!(lost.subject, "requests that did not complete");
        run.jobs[0].abandoned = 0;
        run.final_sync = Some(iosonde_model::record::run::SyncResult {
            since_window_ns: 0,
            sync_ns: 0,
            bytes_since_start: 0,
            since_start_ns: 0,
            error: Some("EIO".into()),
        });
        assert!(ask(detect, &run, None).unwrap().words.contains("fsync failed with EIO"));
    }
}
