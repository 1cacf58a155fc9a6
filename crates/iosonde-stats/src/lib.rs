//! Statistics: histograms, intervals, tests for steadiness.
//!
//! All functions are pure: no clock, and no random numbers but from a seed that is passed in.
#![forbid(unsafe_code)]

pub mod bootstrap;
pub mod chance;
pub mod cheapest;
pub mod dependent;
pub mod distance;
pub mod effect;
pub mod factors;
pub mod false_discovery;
pub mod histogram;
pub mod holm;
pub mod knee;
pub mod least_squares;
pub mod normal;
pub mod outliers;
pub mod permutation;
pub mod precision;
pub mod quantile;
pub mod queue;
pub mod ratio;
pub mod reciprocal;
pub mod regimes;
pub mod resample;
pub mod scatter;
pub mod search;
pub mod sequential;
pub mod settled;
pub mod size_model;
pub mod slope;
pub mod stall;
pub mod steady;
pub mod steady_state;
pub mod step;
pub mod summary;
pub mod trend;
pub mod usl;

pub use histogram::Histogram;
pub use quantile::{Estimate, Quantile, Standing};
pub use ratio::Ratio;
pub use slope::Slope;
