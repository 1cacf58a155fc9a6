//! Findings, checks, failures and exit codes: meaning, method, action.

use serde::{Deserialize, Serialize};

use iosonde_analysis::finding::{self, Detector};
use iosonde_analysis::profile;

iosonde_model::words! {
    /// Kind of a term.
    #[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Kind {
        /// A finding about a run.
        Finding => "finding",
        /// A finding about a profiled program.
        ProfileFinding => "finding of a profile",
        /// A warning about an experiment.
        ExperimentFinding => "warning of an experiment",
        /// A warning about a load on many hosts.
        HostsFinding => "warning about many hosts",
        FsyncTest => "test of fsync",
        /// A consistency check.
        Check => "consistency check",
        /// A kind of corruption of a block.
        Corruption => "kind of corruption",
        ExitCode => "exit code",
        /// A word for a verdict, a state or a class.
        Word => "word of a report",
    }
}

/// A term of the reports.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// The word as printed in reports.
    pub word: &'static str,
    pub kind: Kind,
    pub meaning: &'static str,
    /// How it is detected.
    #[serde(default)]
    pub method: &'static str,
    /// What to do, in one sentence.
    #[serde(default = "nothing")]
    pub action: &'static str,
}

fn nothing() -> &'static str {
    "Nothing."
}

fn of_detector<F>(kind: Kind, detector: &Detector<F>) -> Term {
    let Detector { code: word, meaning, method, action, .. } = *detector;
    Term { word, kind, meaning, method, action }
}

/// Every term. Those of findings are taken from their detectors.
pub fn all() -> impl Iterator<Item = Term> {
    let of_run = finding::DETECTORS.iter().map(|each| of_detector(Kind::Finding, each));
    let of_profile =
        profile::finding::DETECTORS.iter().map(|each| of_detector(Kind::ProfileFinding, each));
    of_run.chain(of_profile).chain(super::words().term.iter().copied())
}

/// The action for a finding of one of these kinds.
pub fn action(kinds: &[Kind], code: &str) -> Option<&'static str> {
    let is_meant = |term: &Term| kinds.contains(&term.kind) && term.word == code;
    all().find(is_meant).map(|term| term.action)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(kind: Kind) -> Vec<&'static str> {
        let mut words: Vec<&str> =
            all().filter(|term| term.kind == kind).map(|term| term.word).collect();
        words.sort_unstable();
        words
    }

    #[test]
    fn every_kind_of_corruption_is_explained() {
        let mut classes: Vec<&str> =
            iosonde_model::content::classify::Class::ALL.iter().map(|class| class.word()).collect();
        classes.sort_unstable();
        assert_eq!(words(Kind::Corruption), classes);
    }

    #[test]
    fn an_action_is_one_sentence() {
        for term in all() {
            assert!(term.action.ends_with('.') && !term.meaning.is_empty(), "{}", term.word);
        }
        assert_eq!(action(&[Kind::Finding], "nothing"), None);
        let of = |kind: Kind| action(&[kind], "page_cache").unwrap_or_default();
        assert!(of(Kind::Finding).starts_with("Use direct I/O"));
        assert!(of(Kind::ProfileFinding).starts_with("Read the rates"));
    }
}
