//! What did the kernel see meanwhile? Watches a program from outside and fills in a
//! [`crate::record::ProfileRun`].
//!
//! Promises: nothing is judged here. The command that is watched keeps its user, its standard
//! streams and its exit code; what could not be seen is named with the reason, and is never zero.

pub mod tracer;
