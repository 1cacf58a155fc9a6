//! Does a folder still say what its records say? Checksums, verdict and exit code, computed anew.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::asked;
use super::kept::{Kept, Records, is_plain};
use super::retell::judgement;
use crate::analysis::{judge, ladder};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Output, OutputFormat};
use crate::cli::{profile, verify};
use crate::record::Manifest;
use crate::record::store::names_in;
use crate::report::clean::clean;

const SUMS: &str = "SHA256SUMS";
/// Exit codes from here on are those of signals, which no record of a check holds.
const SIGNALS_FROM: u8 = 128;

/// One line of the answer.
struct Line {
    agrees: bool,
    words: String,
}

/// Checks a folder against itself.
pub(super) fn recheck(kept: &Kept) -> Result<Exit, Failure> {
    let Some(manifest) = &kept.manifest else {
        return Err(asked(format!(
            "--recheck: `{}` has no manifest, expected a finished result folder: there is nothing \
             to compare with",
            kept.path.display()
        )));
    };
    let (words, exit) = anew(kept);
    compared(&kept.path, manifest, &words, exit)
}

/// Checks a folder against what its records come to.
pub(super) fn compared(
    folder: &Path,
    manifest: &Manifest,
    words: &str,
    exit: Exit,
) -> Result<Exit, Failure> {
    let mut lines = sums(folder)?;
    let same = words == manifest.verdict;
    lines.push(Line {
        agrees: same,
        words: match same {
            true => format!("verdict: {words}"),
            false => format!("verdict: kept `{}`, computed `{words}`", manifest.verdict),
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
                "exit code: kept {}, computed {code} (what the command did beside measuring is in \
                 no record)",
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
            "  the result is of version {theirs}, this is {ours}: it may judge otherwise\n"
        ));
    }
    let differing = lines.iter().filter(|line| !line.agrees).count();
    let exit = if differing == 0 { Exit::Done } else { Exit::Invalid };
    output.text(&match differing {
        0 => "  Recheck: the folder says what its records say\n".to_owned(),
        1 => "  Recheck: 1 thing differs\n".to_owned(),
        several => format!("  Recheck: {several} things differ\n"),
    });
    Ok(output.end(exit))
}

/// Verdict and exit code from the records alone.
fn anew(kept: &Kept) -> (String, Exit) {
    match &kept.records {
        Records::Runs(runs) => {
            let judgement = judgement(kept, runs);
            (judgement.verdict.words.clone(), judgement.exit)
        }
        Records::Verify(run) => {
            let told = judge(run, kept.command().get(1..).unwrap_or_default());
            (told.words.clone(), verify::tell::end_of(run, &told))
        }
        Records::Ladder(run) => {
            let told = ladder(run);
            (told.words(), verify::fsync::end_of(run, &told))
        }
        Records::Profile(run) => (profile::ended_words(&run.ended), profile::end_of(&run.ended)),
    }
}

/// Every file against its checksum, and every checksum against its file.
fn sums(folder: &Path) -> Result<Vec<Line>, Failure> {
    let path = folder.join(SUMS);
    let differs = |words: String| Line { agrees: false, words };
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => return Ok(vec![differs(format!("{SUMS}: {error}"))]),
    };
    let mut lines = Vec::new();
    let mut listed = BTreeSet::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some((sum, name)) = line.split_once("  ").filter(|(_, name)| is_inside(name)) else {
            lines.push(differs(format!("{SUMS}: line {number} is no checksum of a file here")));
            continue;
        };
        listed.insert(name.to_owned());
        match digest(&folder.join(name)) {
            Ok(found) if found == sum => {}
            Ok(_) => lines.push(differs(format!("{name}: not as it was kept"))),
            Err(error) => lines.push(differs(format!("{name}: {error}"))),
        }
    }
    let inside = names_in(folder).map_err(|error| asked(format!("--recheck: {error}")))?;
    let more = inside.into_iter().filter(|name| !listed.contains(name));
    lines.extend(more.map(|name| differs(format!("{name}: not among the checksums"))));
    if lines.is_empty() {
        lines.push(Line { agrees: true, words: format!("checksums of {} files", listed.len()) });
    }
    Ok(lines)
}

/// A file of the folder, or of a folder in it.
fn is_inside(name: &str) -> bool {
    name.split('/').count() <= 2 && name.split('/').all(is_plain)
}

fn digest(path: &Path) -> io::Result<String> {
    // A pipe would have no end.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("found no regular file"));
    }
    let mut hasher = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hasher)?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
