//! Reads the two sides of a comparison from records and baselines; stores a baseline.

use std::path::{Path, PathBuf};

use super::{CompareArgs, no_replay, note, of_runs};
use crate::cli::exit::{About, Exit, Failure, no_effect, shown, wrong};
use crate::cli::intact::AcceptArgs;
use crate::cli::output::OutputFormat;
use crate::cli::recorded::runs::observations;
use iosonde_analysis::comparison::{BASELINE_SCHEMA, Baseline, Side};
use iosonde_model::record::export;

/// Reads one side from its paths; also returns accepted alterations, in words.
pub(super) fn read(
    what: &str,
    paths: &[PathBuf],
    accept: AcceptArgs,
) -> Result<(Side, Vec<String>), Failure> {
    let (mut runs, mut altered) = (Vec::new(), Vec::new());
    for path in paths {
        let (found, words) = observations(what, path, accept)?;
        runs.extend(found);
        altered.extend(words);
    }
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    Ok((Side { name: names.join(", "), runs }, altered))
}

/// Path that both sides include under any name: the same file or folder, or one below the other.
pub(super) fn shared(a: &[PathBuf], b: &[PathBuf]) -> Option<PathBuf> {
    let resolved = |paths: &[PathBuf]| -> Vec<PathBuf> {
        // Its reader reports a path that cannot be opened.
        paths.iter().filter_map(|path| path.canonicalize().ok()).collect()
    };
    let b = resolved(b);
    let is_in_b =
        |path: &PathBuf| b.iter().any(|other| path.starts_with(other) || other.starts_with(path));
    resolved(a).into_iter().find(is_in_b)
}

/// Stores runs as a baseline.
pub(super) fn save_baseline(args: &CompareArgs, file: &Path) -> Result<Exit, Failure> {
    no_replay(args)?;
    let why = "--save-baseline, which does not compare";
    no_effect(&of_runs(args), why)?;
    let given = [
        ("--rounds", args.rounds.is_some()),
        ("--results", args.results.is_some()),
        ("--page", args.page.is_some()),
        ("--output-format json", args.output_format != OutputFormat::Normal),
    ];
    no_effect(&given, why)?;
    if args.paths.is_empty() {
        return Err(wrong("--save-baseline: no runs given; name their folders"));
    }
    // A baseline cannot mark altered runs, so none are accepted.
    let mut runs = read("RUNS", &args.paths, AcceptArgs::NEVER)?.0.runs;
    let all = runs.len();
    runs.retain(|run| run.left_out.is_none());
    if runs.len() < all {
        note(&format!(
            "warning: {} of {all} runs cannot be used and are left out",
            all - runs.len()
        ));
    }
    if runs.is_empty() {
        return Err(Failure::new(Exit::Inconclusive, "--save-baseline: no usable run is left"));
    }
    let count = runs.len();
    let baseline = Baseline {
        schema: BASELINE_SCHEMA.into(),
        program: env!("CARGO_PKG_VERSION").into(),
        written_unix_ns: iosonde_sys::clock::realtime_ns(),
        runs,
    };
    let about = format!("--save-baseline: {}", shown(file));
    let mut text = serde_json::to_string(&baseline).or_environment(&about)?;
    text.push('\n');
    export::probe(file, &|start| start.contains("\"iosonde.baseline/"))
        .and_then(|()| export::write(file, &text))
        .or_environment(&about)?;
    note(&format!("{count} runs stored as a baseline in {}", file.display()));
    Ok(Exit::Done)
}
