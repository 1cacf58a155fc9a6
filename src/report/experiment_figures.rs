//! Pictures of a stage.

use crate::analysis::experiment::StageFacts;
use crate::chart::ChartError;
use crate::report::story::Picture;
use crate::spec::Experiment;

/// The kinds of figures there are.
pub fn names() -> Vec<&'static str> {
    Vec::new()
}

/// The kinds in a file that there are not.
pub fn unknown(_experiment: &Experiment) -> Vec<String> {
    Vec::new()
}

/// Every picture that a stage names.
///
/// # Errors
/// If one cannot be drawn.
pub fn pictures(_facts: &StageFacts) -> Result<Vec<Picture>, ChartError> {
    Ok(Vec::new())
}
