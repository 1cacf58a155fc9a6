//! The runs of a stage, read from its folder by as many threads as there are CPUs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cli::exit::Failure;
use iosonde_analysis::experiment::TrialFigures;
use iosonde_model::record::experiment_folder::{ExperimentFolder, FolderError};
use iosonde_model::record::{HostFacts, TargetFacts};

/// Result of reading one record.
type ReadTrial = Result<(TrialFigures, TargetFacts), FolderError>;

/// Largest number of reader threads.
const MAX_THREADS: usize = 8;

/// The figures of these runs in the order of their names, and the target at the first. Unreadable
/// records go to `damaged`, which decides whether to continue without them. Each record is dropped
/// after reading, so that a thousand runs fit in memory.
pub(crate) fn trials(
    folder: &ExperimentFolder,
    names: &[String],
    host: Option<&HostFacts>,
    damaged: &mut dyn FnMut(&str, FolderError) -> Result<(), Failure>,
) -> Result<(Vec<TrialFigures>, Option<TargetFacts>), Failure> {
    let next = AtomicUsize::new(0);
    let read: Mutex<Vec<(usize, ReadTrial)>> = Mutex::new(Vec::with_capacity(names.len()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(names.len()) {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(name) = names.get(place) else { return };
                    let figures = folder
                        .trial(name)
                        .map(|trial| (TrialFigures::of(&trial, name, host), trial.run.target));
                    if let Ok(mut read) = read.lock() {
                        read.push((place, figures));
                    }
                }
            });
        }
    });
    let mut read = read.into_inner().unwrap_or_default();
    read.sort_by_key(|(place, _)| *place);
    let mut first = None;
    let mut all = Vec::with_capacity(read.len());
    for (place, figures) in read {
        match figures {
            Ok((figures, target)) => {
                first.get_or_insert(target);
                all.push(figures);
            }
            Err(error) => damaged(&names[place], error)?,
        }
    }
    Ok((all, first))
}
