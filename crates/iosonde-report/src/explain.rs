//! What a word of the reports means: a number and how it is computed, or a term and what to do.

pub mod terms;

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use terms::Term;

use iosonde_model::units::count;

/// A metric in words.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Meaning {
    /// Its name in reports.
    #[serde(rename(deserialize = "word"))]
    pub metric: &'static str,
    /// Other words for it.
    #[serde(default)]
    pub also: Vec<&'static str>,
    /// What it means.
    pub meaning: &'static str,
    /// What it is counted in.
    pub unit: &'static str,
    /// How it is computed.
    pub formula: &'static str,
    /// From which records.
    pub source: &'static str,
    /// What to mind.
    pub caveats: &'static str,
}

/// All that a word means.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Explanation {
    /// As a number.
    pub metrics: Vec<Meaning>,
    /// As a finding, a check, a kind of corruption, an exit code.
    pub terms: Vec<Term>,
}

/// Why a word is not explained.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("found `{word}`, which has no explanation{meant}; `list` prints every word")]
pub struct UnknownWord {
    word: String,
    /// The nearest, as a question; empty if none is near.
    meant: String,
}

/// The entries of `words.toml`, as they stand there.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
struct Words {
    metric: Vec<Meaning>,
    term: Vec<Term>,
}

/// A word that a schema lists and that is missing in the file fails a test, and so does a file that
/// cannot be read.
fn words() -> &'static Words {
    static WORDS: OnceLock<Words> = OnceLock::new();
    WORDS.get_or_init(|| toml::from_str(TEXT).unwrap_or_default())
}

const TEXT: &str = include_str!("explain/words.toml");

/// What a word means; everything for `list`.
///
/// # Errors
/// If the word is unknown, with the nearest that is not.
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

/// The entries as text.
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
        // As the analysis of a sweep names them.
        assert_eq!(explain("saturation_depth").unwrap().metrics[0].metric, "saturation");
        assert_eq!(explain("saturation").unwrap().metrics[0].unit, "requests");
        assert_eq!(explain("N*").unwrap().metrics[0].metric, "n_star");
        let error = explain("iosp").unwrap_err().to_string();
        assert!(error.starts_with("found `iosp`"), "{error}");
        assert!(error.contains("did you mean `iops`?"), "{error}");
        assert_eq!(explain("NO-STEADY-PART").unwrap().terms[0].word, "no_steady_part");
    }
}
