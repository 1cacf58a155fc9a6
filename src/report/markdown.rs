//! A story as Markdown with tables as GitHub has them.

use super::story::Story;

/// The whole story; pictures are referred to as `figures/NAME.svg`.
pub fn markdown(story: &Story) -> String {
    format!("# {}\n", story.title)
}
