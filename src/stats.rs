//! Numbers to numbers: histograms, intervals, tests for steadiness.
//!
//! Promises: pure functions of their arguments. No clock, no chance that is not passed in.

pub mod histogram;

pub use histogram::Histogram;
