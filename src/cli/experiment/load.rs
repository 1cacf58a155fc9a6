//! Loads an experiment by name or from a file, with all its includes.

use std::path::{Path, PathBuf};

use crate::cli::exit::{About, Failure, wrong};
use crate::cli::words::listed;
use iosonde_analysis::experiment;
use iosonde_model::plan::design;
use iosonde_model::record::given;
use iosonde_model::spec::experiment::Claims;
use iosonde_model::spec::{Experiment, catalogue};
use iosonde_report::experiment_figures;

/// Largest experiment or data sheet file, bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Deepest chain of inclusions.
const MAX_DEPTH: usize = 8;

/// Loads an experiment by name or path, and the text of its file.
pub(super) fn load_text(name: &str) -> Result<(Experiment, String), Failure> {
    if is_path(name) {
        let path = Path::new(name);
        let text = bounded(path)?;
        let experiment =
            toml::from_str(&text).or_wrong(format!("`{name}` is not an experiment"))?;
        return Ok((experiment, text));
    }
    let known = catalogue::experiments().map_err(wrong)?;
    let Some(place) = known.iter().position(|each| each.name == name) else {
        let names: Vec<&str> = known.iter().map(|each| each.name.as_str()).collect();
        return Err(wrong(format!(
            "no experiment `{name}`; available: {} (a file of your own has a name that ends in \
             .toml)",
            listed(&names, name)
        )));
    };
    let text = catalogue::EXPERIMENTS[place].to_owned();
    known.into_iter().nth(place).map(|each| (each, text)).ok_or_else(|| wrong("no experiment"))
}

/// Text of an experiment's file, and the experiment with all its includes.
pub(super) fn load_whole(name: &str) -> Result<(String, Experiment), Failure> {
    let (experiment, text) = load_text(name)?;
    let mut chain = vec![name.to_owned()];
    let whole = whole(&experiment, Path::new(name).parent(), &mut chain)?;
    Ok((text, whole))
}

/// Texts of a user's file and of the user's files that it includes; `None` for a built-in
/// experiment.
pub(crate) fn own_texts(name: &str) -> Result<Option<Vec<String>>, Failure> {
    if !is_path(name) {
        return Ok(None);
    }
    // This fails if a file includes itself.
    load_whole(name)?;
    let mut all = Vec::new();
    let mut places = vec![PathBuf::from(name)];
    while let Some(place) = places.pop() {
        let path = place.to_string_lossy().into_owned();
        let (experiment, text) = load_text(&path)?;
        if is_path(&path) {
            all.push(text);
        }
        places.extend(experiment.include.iter().map(|name| included(name, place.parent())));
    }
    Ok(Some(all))
}

/// Loads a complete experiment, ready for design.
pub(super) fn load(name: &str) -> Result<Experiment, Failure> {
    let (_, whole) = load_whole(name)?;
    if let Some(name) = experiment::unknown(&whole).first() {
        let available = listed(&experiment::names(), name);
        return Err(wrong(format!("no analysis `{name}`; available: {available}")));
    }
    let mut faults = experiment_figures::invalid_figures(&whole);
    faults.extend(experiment::rounds::invalid_tracks(&whole));
    faults.extend(experiment::search::invalid_searches(&whole));
    if let Some(fault) = faults.first() {
        return Err(wrong(fault));
    }
    if whole.stages.is_empty() {
        return Err(wrong(format!("`{name}` has no stage: add [[stage]] or include")));
    }
    Ok(whole)
}

/// Inserts the includes of a loaded experiment.
pub(super) fn flattened(experiment: &Experiment) -> Result<Experiment, Failure> {
    whole(experiment, None, &mut vec![experiment.name.clone()])
}

/// Number of cells in all stages, as far as known before measuring.
pub(super) fn cells_known(experiment: &Experiment) -> usize {
    let known = |stage| design::cells(stage, &design::Found::new(), None).map_or(0, |c| c.len());
    experiment.stages.iter().map(known).sum()
}

/// Reads a data sheet.
pub(super) fn claims(path: &Path) -> Result<Claims, Failure> {
    let text = bounded(path)?;
    let claims: Claims = toml::from_str(&text).or_wrong(format!("--spec: `{}`", path.display()))?;
    if claims.claims.is_empty() {
        return Err(wrong(format!("--spec: `{}` contains no [[claim]]", path.display())));
    }
    for claim in &claims.claims {
        iosonde_analysis::Expectation::parse(&claim.promise, &[]).or_wrong(format!(
            "--spec: `{}`, claim `{}`",
            path.display(),
            claim.name
        ))?;
    }
    Ok(claims)
}

/// Inserts the stages of included experiments before the experiment's own, each once.
fn whole(
    experiment: &Experiment,
    folder: Option<&Path>,
    chain: &mut Vec<String>,
) -> Result<Experiment, Failure> {
    if chain.len() > MAX_DEPTH {
        return Err(wrong(format!("experiments are included more than {MAX_DEPTH} levels deep")));
    }
    let mut stages = Vec::new();
    let mut size = experiment.size;
    let mut conclude = experiment.conclude.clone();
    for name in &experiment.include {
        let place = included(name, folder);
        let path = place.to_string_lossy().into_owned();
        chain.push(path.clone());
        if chain[..chain.len() - 1].contains(&path) {
            let chain = chain.join(" -> ");
            return Err(wrong(format!("experiments include each other: {chain}")));
        }
        let (inner, _) = load_text(&path)?;
        let inner = whole(&inner, place.parent(), chain)?;
        chain.pop();
        size = size.max(inner.size);
        for name in inner.conclude {
            if !conclude.contains(&name) {
                conclude.push(name);
            }
        }
        for stage in inner.stages {
            if !stages.contains(&stage) {
                stages.push(stage);
            }
        }
    }
    stages.extend(experiment.stages.clone());
    Ok(Experiment { include: Vec::new(), stages, size, conclude, ..experiment.clone() })
}

/// Path of an included file, relative to the folder of the file that includes it.
fn included(name: &str, folder: Option<&Path>) -> PathBuf {
    match folder {
        Some(folder) if is_path(name) => folder.join(name),
        _ => name.into(),
    }
}

fn is_path(name: &str) -> bool {
    name.ends_with(".toml") || name.contains('/')
}

fn bounded(path: &Path) -> Result<String, Failure> {
    given::text(path, MAX_BYTES).map_err(|error| {
        let list = match error {
            given::GivenError::Missing => "; `iosonde experiment list` names those built in",
            _ => "",
        };
        wrong(format!("`{}`: {error}{list}", path.display()))
    })
}
