//! How the due times of an open loop are spread.

use serde::{Deserialize, Serialize};

use super::Pace;

/// How the due times of an open loop are spread.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Evenly.
    #[default]
    Constant,
    /// As independent users would: exponential distances.
    Poisson,
    /// Independent distances from a table: each in ns with its percentage, which add up to 100.
    /// The table says how distances relate to each other, the rate how long they are.
    Drawn(Vec<(u64, f64)>),
    /// Several requests close together, then a longer time. The rate says how long the distances
    /// are, as for a table.
    Bursts(Bursts),
}

/// Arrivals in bursts, of which each is independent of the one before.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// Numbers of requests of a burst, each with its percentage; these add up to 100.
    pub requests: Vec<(u64, f64)>,
    /// Distances within a burst, as a table.
    pub within: Vec<(u64, f64)>,
    /// Distances from the last request of a burst to the first of the next, as a table.
    pub between: Vec<(u64, f64)>,
}

impl Pace {
    /// Mean number of requests of a burst; 1 where there are none.
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
    /// Mean distance of two requests, ns.
    pub fn mean_ns(&self) -> f64 {
        let requests = Arrivals::mean(&self.requests);
        let within =
            if requests > 1.0 { Arrivals::mean(&self.within) * (requests - 1.0) } else { 0.0 };
        (within + Arrivals::mean(&self.between)) / requests
    }

    /// Variance of the number of requests in a long time as a multiple of its mean: the number of
    /// bursts scatters with the times between them, and the requests with their lengths.
    pub fn dispersion(&self) -> f64 {
        let scatter = Arrivals::relative_variance(&self.between)
            + Arrivals::relative_variance(&self.requests);
        Arrivals::mean(&self.requests) * scatter
    }
}
