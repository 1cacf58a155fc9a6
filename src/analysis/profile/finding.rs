//! Findings of a profile: what a program does to storage, in words with evidence.
//!
//! One detector per file; [`DETECTORS`] lists them. A detector speaks only where its evidence is
//! there: what was not seen is never evidence.

use crate::analysis::finding::Finding;
use crate::record::ProfileRun;

use super::Figures;

/// A detector: speaks or stays silent.
pub type Detector = fn(&ProfileRun, &Figures) -> Option<Finding>;

/// Every detector, by code. To add one: one file, one `mod` line, one line here.
pub const DETECTORS: [(&str, Detector); 0] = [];

/// All findings of a profile, gravest and strongest first.
pub fn findings(run: &ProfileRun, figures: &Figures) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        DETECTORS.iter().filter_map(|(_, detect)| detect(run, figures)).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse((finding.gravity, finding.strength)));
    findings
}
