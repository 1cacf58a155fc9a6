//! Checks a folder against its records: checksums, verdict, exit code, and the recomputed report
//! and tables of an experiment.

use std::path::Path;

use super::kept::{Kept, Records};
use super::rerender::judgement;
use crate::cli::exit::{About, Exit, Failure, wrong};
use crate::cli::output::{Output, OutputFormat};
use crate::cli::recorded::bounded;
use crate::cli::{profile, verify};
use iosonde_analysis::verdict::Kind;
use iosonde_analysis::{judge, ladder};
use iosonde_model::record::Manifest;
use iosonde_model::record::checksums::{alterations, is_unfinished, names_in};
use iosonde_report::clean::clean;

/// Largest relative difference of two numbers after a round trip through a record.
const ROUNDING: f64 = 1e-12;
/// Exit codes from this on mean a signal, which records do not contain.
const SIGNALS_FROM: u8 = 128;

/// A line of the output.
struct Line {
    agrees: bool,
    words: String,
}

/// Checks a result folder against its own records.
pub(super) fn recheck(kept: &Kept) -> Result<Exit, Failure> {
    let Some(manifest) = &kept.manifest else {
        return Err(wrong(format!(
            "--recheck: `{}` has no manifest, expected a finished result folder: there are no \
             stored results to compare with",
            kept.path.display()
        )));
    };
    let (words, exit) = anew(kept);
    compared(&kept.path, manifest, &words, exit, &[])
}

/// Checks a folder against recomputed results; `documents` are the expected files by name.
pub(super) fn compared(
    folder: &Path,
    manifest: &Manifest,
    words: &str,
    exit: Exit,
    documents: &[(String, String)],
) -> Result<Exit, Failure> {
    if is_unfinished(folder) {
        return Err(wrong(format!(
            "--recheck: `{}` is unfinished, expected a finished result folder: there is no stored \
             report to compare with",
            folder.display()
        )));
    }
    let mut lines = sums(folder)?;
    lines.extend(formatted_alike(folder, documents)?);
    let same = words == manifest.verdict;
    lines.push(Line {
        agrees: same,
        words: match same {
            true => format!("verdict: {words}"),
            false => format!("verdict: stored `{}`, computed `{words}`", manifest.verdict),
        },
    });
    let code = exit.code();
    let by_signal = manifest.exit_code >= SIGNALS_FROM && !manifest.complete;
    lines.push(match (code == manifest.exit_code, by_signal) {
        (true, _) => Line { agrees: true, words: format!("exit code: {code}") },
        (false, true) => {
            Line { agrees: true, words: format!("exit code: {}, by a signal", manifest.exit_code) }
        }
        (false, false) => Line {
            agrees: false,
            words: format!(
                "exit code: stored {}, computed {code} (only the measurement is recorded, not \
                 other actions of the command)",
                manifest.exit_code
            ),
        },
    });
    let mut output = Output::new(OutputFormat::Normal);
    for line in &lines {
        let word = if line.agrees { "agrees" } else { "DIFFERS" };
        output.text(&format!("  {word:<8} {}\n", clean(&line.words)));
    }
    let ours = env!("CARGO_PKG_VERSION");
    if manifest.program != ours {
        let theirs = clean(&manifest.program);
        output.text(&format!(
            "  the result is from version {theirs}, this is {ours}: verdicts may differ\n"
        ));
    }
    let differing = lines.iter().filter(|line| !line.agrees).count();
    let exit = if differing == 0 { Exit::Done } else { Exit::Invalid };
    output.text(&match differing {
        0 => "  Recheck: the folder agrees with its records\n".to_owned(),
        1 => "  Recheck: 1 difference\n".to_owned(),
        several => format!("  Recheck: {several} differences\n"),
    });
    Ok(output.end(exit))
}

/// Verdict and exit code from the records alone.
fn anew(kept: &Kept) -> (String, Exit) {
    match &kept.records {
        Records::Runs(runs) => {
            let (_, judgement) = judgement(kept, runs);
            let verdict = &judgement.verdict;
            // Earlier versions used these words for every verdict of this kind.
            let is_plain =
                |stored: &&str| verdict.kind == Kind::NoFaultSeen && *stored == "no fault seen";
            let stored = kept.manifest.as_ref().map(|manifest| manifest.verdict.as_str());
            (stored.filter(is_plain).unwrap_or(&verdict.words).to_owned(), judgement.exit)
        }
        Records::Verify(run) => {
            let analysed = judge(run, kept.command().get(1..).unwrap_or_default());
            (analysed.words.clone(), verify::print::end_of(run, &analysed))
        }
        Records::Ladder(run) => {
            let analysed = ladder(run);
            (analysed.words(), verify::fsync::end_of(run, &analysed))
        }
        Records::Profile(run) => (profile::ended_text(&run.ended), profile::end_of(&run.ended)),
    }
}

/// Compares every file with its checksum.
fn sums(folder: &Path) -> Result<Vec<Line>, Failure> {
    let altered = alterations(folder).or_wrong("--recheck")?;
    if altered.is_empty() {
        let files = names_in(folder).or_wrong("--recheck")?.len();
        return Ok(vec![Line { agrees: true, words: format!("checksums of {files} files") }]);
    }
    Ok(altered.iter().map(|each| Line { agrees: false, words: each.to_string() }).collect())
}

/// Compares documents with the expected ones, and finds tables that are not expected.
fn formatted_alike(folder: &Path, documents: &[(String, String)]) -> Result<Vec<Line>, Failure> {
    let differs = |words: String| Line { agrees: false, words };
    if documents.is_empty() {
        return Ok(Vec::new());
    }
    let mut lines = Vec::new();
    for (name, expected) in documents {
        // The stored numbers may be slightly longer.
        let most = expected.len() as u64 * 2 + 1024;
        let read = bounded(&folder.join(name), most).map(|found| alike(&found, expected));
        match read {
            Ok(true) => {}
            Ok(false) => lines.push(differs(format!("{name}: does not match the records"))),
            Err(why) => lines.push(differs(format!("{name}: {why}"))),
        }
    }
    let inside = names_in(folder).or_wrong("--recheck")?;
    let tables = inside.into_iter().filter(|name| name.starts_with("tables/"));
    let more = tables.filter(|name| !documents.iter().any(|(known, _)| known == name));
    lines.extend(more.map(|name| differs(format!("{name}: not a table of these records"))));
    if lines.is_empty() {
        let words = format!("report and tables: {} files recomputed", documents.len());
        lines.push(Line { agrees: true, words });
    }
    Ok(lines)
}

/// Whether two texts are equal except for the last digit of numbers, which a round trip may change.
fn alike(found: &[u8], expected: &str) -> bool {
    if found == expected.as_bytes() {
        return true;
    }
    let Ok(found) = str::from_utf8(found) else { return false };
    let apart = |c: char| !(c.is_alphanumeric() || matches!(c, '.' | '+' | '-' | '_'));
    let (mut one, mut other) = (found.split(apart), expected.split(apart));
    let between = |text: &str| text.chars().filter(|c| apart(*c)).collect::<String>();
    let near = |a: &str, b: &str| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= ROUNDING * a.abs().max(b.abs()),
        _ => a == b,
    };
    let words_alike = loop {
        match (one.next(), other.next()) {
            (None, None) => break true,
            (Some(a), Some(b)) if a == b || near(a, b) => {}
            _ => break false,
        }
    };
    words_alike && between(found) == between(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_alike_but_for_the_last_digit_of_a_number() {
        let expected = "a,1.5,x\n{\"p\":0.30000000000000004}";
        assert!(alike(expected.as_bytes(), expected));
        assert!(alike(b"a,1.5,x\n{\"p\":0.3}", expected));
        for other in [
            "a,1.6,x\n{\"p\":0.3}",
            "a,1.5,y\n{\"p\":0.3}",
            "a,1.5 x\n{\"p\":0.3}",
            "a,1.5,x\n{\"p\":0.3},",
            "a,1.5,x\n{\"p\":0.3001}",
            "a,,x\n{\"p\":0.3}",
        ] {
            assert!(!alike(other.as_bytes(), expected), "{other}");
        }
    }
}
