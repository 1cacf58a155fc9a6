//! Explains the words of reports: figures with their formulas, terms with what to do about them.

pub mod terms;

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use terms::Term;

use iosonde_model::units::count;

/// Explanation of a metric.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Meaning {
    /// Its name in reports.
    #[serde(rename(deserialize = "word"))]
    pub metric: &'static str,
    /// Synonyms.
    #[serde(default)]
    pub also: Vec<&'static str>,
    pub meaning: &'static str,
    pub unit: &'static str,
    /// The computation.
    pub formula: &'static str,
    /// The records it is computed from.
    pub source: &'static str,
    pub caveats: &'static str,
}

/// All meanings of a word.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Explanation {
    /// Its meanings as a metric.
    pub metrics: Vec<Meaning>,
    /// Its meanings as a finding, check, kind of corruption, exit code or other term.
    pub terms: Vec<Term>,
}

/// A word without an explanation.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("found `{word}`, which has no explanation{meant}; `list` prints every word")]
pub struct UnknownWord {
    word: String,
    /// The most similar word, as a question; empty if none is similar.
    meant: String,
}

/// The content of `words.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
struct Words {
    metric: Vec<Meaning>,
    term: Vec<Term>,
}

/// Empty if the file is invalid; a test fails then, or if the file lacks a word of a schema.
fn words() -> &'static Words {
    static WORDS: OnceLock<Words> = OnceLock::new();
    WORDS.get_or_init(|| toml::from_str(TEXT).unwrap_or_default())
}

const TEXT: &str = include_str!("explain/words.toml");

/// The meanings of a word, or of all words for `list`.
///
/// # Errors
/// If the word is unknown; suggests the most similar one.
pub fn explain(word: &str) -> Result<Explanation, UnknownWord> {
    let plain = |word: &str| word.trim().to_ascii_lowercase().replace(['-', ' '], "_");
    let requested = plain(word);
    let is_list = requested == "list" || requested == "all";
    let is_meant = |name: &str| is_list || plain(name) == requested;
    let metrics = words().metric.iter().filter(|each| names(each).any(is_meant)).cloned();
    let terms = terms::all().filter(|term| is_meant(term.word));
    let found = Explanation { metrics: metrics.collect(), terms: terms.collect() };
    if found != Explanation::default() {
        return Ok(found);
    }
    let known = words().metric.iter().flat_map(names).chain(terms::all().map(|term| term.word));
    let meant = count::did_you_mean(&requested, known);
    Err(UnknownWord { word: super::clean::clean(word), meant })
}

fn names(metric: &Meaning) -> impl Iterator<Item = &'static str> {
    std::iter::once(metric.metric).chain(metric.also.iter().copied())
}

/// Explanations as text.
pub fn explain_text(all: &Explanation) -> String {
    let metrics = all.metrics.iter().map(|each| {
        let also = match each.also.as_slice() {
            [] => String::new(),
            others => format!("  (also {})", others.join(", ")),
        };
        format!(
            "{}{also}\n  {}\n  unit:    {}\n  formula: {}\n  source:  {}\n  note:    {}\n",
            each.metric, each.meaning, each.unit, each.formula, each.source, each.caveats
        )
    });
    let terms = all.terms.iter().map(|term| {
        let method = match term.method {
            "" => String::new(),
            method => format!("  found by: {method}\n"),
        };
        let (word, kind) = (term.word, term.kind.word());
        format!("{word}  ({kind})\n  {}\n{method}  next:     {}\n", term.meaning, term.action)
    });
    metrics.chain(terms).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn each_word_is_explained_once() {
        assert_eq!(toml::from_str::<Words>(TEXT).map(|_| ()), Ok(()));
        let metrics = &words().metric;
        let mut names: Vec<&str> = metrics.iter().flat_map(names).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for each in metrics {
            let found = explain(each.metric).unwrap();
            assert_eq!(found.metrics, std::slice::from_ref(each));
            assert!(explain_text(&found).contains(each.formula));
        }
        for term in terms::all() {
            let found = explain(term.word).unwrap();
            assert!(found.terms.contains(&term));
            assert!(explain_text(&found).contains(term.action));
        }
        let list = explain("list").unwrap();
        assert_eq!((list.metrics.len(), list.terms.len()), (metrics.len(), terms::all().count()));
    }

    #[test]
    fn other_spellings_are_known_and_a_slip_gets_a_suggestion() {
        assert_eq!(explain("QD").unwrap().metrics[0].metric, "depth");
        assert_eq!(explain("queue-depth").unwrap().metrics[0].metric, "depth");
        assert_eq!(explain("p999").unwrap().metrics[0].metric, "p99.9");
        // The name used by the analysis of a sweep.
        assert_eq!(explain("saturation_depth").unwrap().metrics[0].metric, "saturation");
        assert_eq!(explain("saturation").unwrap().metrics[0].unit, "requests");
        assert_eq!(explain("N*").unwrap().metrics[0].metric, "n_star");
        let error = explain("iosp").unwrap_err().to_string();
        assert!(error.starts_with("found `iosp`"), "{error}");
        assert!(error.contains("did you mean `iops`?"), "{error}");
        assert_eq!(explain("NO-STEADY-PART").unwrap().terms[0].word, "no_steady_part");
    }
}
