//! `io_errors`: requests ended with an error.

use crate::analysis::finding::{Finding, Gravity, Strength};
use crate::record::ProfileRun;
use crate::record::profile::Traffic;
use crate::units::count;

use super::super::Figures;
use super::plural;

/// Speaks of all of them, naming where most are.
pub(super) fn detect(run: &ProfileRun, _figures: &Figures) -> Option<Finding> {
    let all: u64 = run.traffic.iter().map(|traffic| traffic.errors).sum();
    let most: &Traffic = run.traffic.iter().max_by_key(|traffic| traffic.errors)?;
    if all == 0 {
        return None;
    }
    let words = format!(
        "{} requests ended with an error, most of them {} on {}.",
        count::thousands(all),
        plural(most.op),
        most.device
    );
    let finding = Finding::new("io_errors", "I/O errors", Strength::Proven, Gravity::Fault, words);
    Some(finding.with("errors", all as f64).with("device", most.device.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::profile::finding::tests::{ask, words};
    use crate::analysis::profile::testing::{Flow, profile_of};

    #[test]
    fn one_error_speaks_and_none_does_not() {
        let mut run = profile_of(&[Flow::default()]);
        assert_eq!(ask(detect, &run), None);
        run.traffic[0].errors = 1;
        assert!(words(detect, &run).contains("1 requests ended with an error, most of them reads"));
    }
}
