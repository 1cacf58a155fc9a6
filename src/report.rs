//! Sentences: findings and figures as text and as JSON.
//!
//! Promises: pure functions to `String` or to a JSON value. Nothing here computes a figure or judges
//! one; nothing here prints. Strings from devices and file names pass [`clean`](clean::clean) first.

pub mod clean;
#[cfg(test)]
pub(crate) mod golden;
pub mod run_text;

pub use run_text::run_text;
