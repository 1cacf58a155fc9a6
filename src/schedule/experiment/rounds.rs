//! Decides when the rounds of a stage end.

use super::{StageEnd, StageJob};
use iosonde_analysis::experiment::{Steadiness, TrialFigures};
use iosonde_model::plan::precondition::active_range;

/// `Some` if the rounds end: no further one changes the verdict, or they have written all they may.
/// The text is the reason for an end before a verdict, and empty otherwise.
pub(super) fn ended(
    job: &StageJob<'_>,
    end: &StageEnd,
    finished: &[TrialFigures],
) -> Option<String> {
    let rounds = job.stage.rounds.as_ref()?;
    let steadiness = Steadiness::of(job.stage, &end.run, finished)?;
    let out = |cell: usize| end.run.left_out.iter().find(|(left_out, _)| *left_out == cell);
    if let Some((tracked, (_, why))) =
        steadiness.tracked.iter().find_map(|each| Some((each, out(each.cell)?)))
    {
        return Some(format!("the tracked cell {} is left out: {why}", tracked.name));
    }
    let written: u64 = finished.iter().map(|trial| trial.written_bytes).sum();
    let range = active_range(job.stage, job.setting).targets[0].bytes;
    let most = rounds.max_passes.map(|passes| passes * range as f64);
    let is_full = most.is_some_and(|most| written as f64 >= most);
    (steadiness.is_over || is_full).then(String::new)
}
