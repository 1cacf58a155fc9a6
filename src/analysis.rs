//! What does it mean? Figures, books, findings, verdicts.
//!
//! Promises: pure. Everything here is recomputed from a record, so an old record can be judged anew.

pub mod books;
pub mod figures;
pub mod series;
#[cfg(test)]
pub(crate) mod testing;

pub use books::{Books, books};
pub use figures::{Figures, figures};
