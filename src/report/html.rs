//! A story as one HTML file that needs nothing else.

use super::story::Story;
use crate::chart::ChartError;

/// The whole page.
///
/// # Errors
/// If a figure cannot be drawn.
pub fn html(story: &Story) -> Result<String, ChartError> {
    for picture in story.pictures() {
        picture.figure.svg()?;
    }
    Ok(format!("<!doctype html>\n<title>{}</title>\n", story.title.replace('<', "&lt;")))
}
