//! Distribution of the due times of an open loop.

use serde::{Deserialize, Serialize};

use super::Pace;

/// Distribution of the due times of an open loop.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Equal intervals.
    #[default]
    Constant,
    /// Exponential intervals (a Poisson process), as from independent users.
    Poisson,
    /// Independent intervals from a table of ns and percent; the percentages add up to 100. The
    /// rate scales them, so that the table sets only their ratios.
    Drawn(Vec<(u64, f64)>),
    /// Several requests close together, then a longer interval. The rate scales all intervals, as
    /// for a table.
    Bursts(Bursts),
}

/// Arrivals in bursts; the bursts are independent of each other.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// Table of requests per burst and percent; the percentages add up to 100.
    pub requests: Vec<(u64, f64)>,
    /// Table of intervals within a burst.
    pub within: Vec<(u64, f64)>,
    /// Table of intervals from the last request of a burst to the first of the next.
    pub between: Vec<(u64, f64)>,
}

impl Pace {
    /// Mean number of requests per burst; 1 without bursts.
    pub fn burst_length(&self) -> f64 {
        match self {
            Pace::Rate { arrivals: Arrivals::Bursts(bursts), .. } => {
                Arrivals::mean(&bursts.requests)
            }
            _ => 1.0,
        }
    }
}

impl Arrivals {
    /// The mean of a table.
    pub fn mean(table: &[(u64, f64)]) -> f64 {
        let whole: f64 = table.iter().map(|(_, percent)| percent).sum();
        table.iter().map(|(value, percent)| *value as f64 * percent).sum::<f64>() / whole
    }

    /// The variance of a table as a multiple of the square of its mean.
    pub fn relative_variance(table: &[(u64, f64)]) -> f64 {
        let whole: f64 = table.iter().map(|(_, percent)| percent).sum();
        let squares = table.iter().map(|(value, percent)| (*value as f64).powi(2) * percent);
        (squares.sum::<f64>() / whole / Arrivals::mean(table).powi(2) - 1.0).max(0.0)
    }
}

impl Bursts {
    /// Mean interval between two requests, ns.
    pub fn mean_ns(&self) -> f64 {
        let requests = Arrivals::mean(&self.requests);
        let within =
            if requests > 1.0 { Arrivals::mean(&self.within) * (requests - 1.0) } else { 0.0 };
        (within + Arrivals::mean(&self.between)) / requests
    }

    /// Index of dispersion of the number of requests over a long time: its variance divided by its
    /// mean. The intervals between bursts and the lengths of the bursts both contribute.
    pub fn dispersion(&self) -> f64 {
        let scatter = Arrivals::relative_variance(&self.between)
            + Arrivals::relative_variance(&self.requests);
        Arrivals::mean(&self.requests) * scatter
    }
}
