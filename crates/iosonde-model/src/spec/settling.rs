//! Detection of a steady state by fio's rule (`steadystate`).

use std::fmt;

use serde::{Deserialize, Serialize};

/// A run ends as soon as a figure is steady over a rolling window.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Settling {
    pub figure: SettlingFigure,
    /// Whether to judge the slope over the window, not the largest deviation from its mean.
    pub by_slope: bool,
    /// Upper limit of the slope per interval or of the deviation.
    pub limit: f64,
    /// Whether the limit is in percent of the mean of the window.
    pub in_percent: bool,
    /// Interval of one value, ns.
    pub interval_ns: u64,
    /// Number of values of the window.
    pub intervals: u32,
    /// Time before the first value, from the start of the run, ns.
    pub ramp_ns: u64,
}

words! {
    /// A figure that can become steady.
    #[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum SettlingFigure {
        /// Operations per second.
        Iops => "iops",
        /// Bytes per second.
        Bandwidth => "bw",
        /// Mean latency, ns.
        Latency => "lat",
    }
}

impl Settling {
    /// The criterion without its limit, in fio's terms.
    pub fn criterion(&self) -> String {
        let slope = if self.by_slope { "_slope" } else { "" };
        format!("{}{slope}", self.figure.word())
    }

    /// Length of the window, ns.
    pub fn window_ns(&self) -> u64 {
        self.interval_ns * u64::from(self.intervals)
    }
}

impl fmt::Display for Settling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (limit, unit) = match (self.in_percent, self.figure) {
            (true, _) => (self.limit, "%"),
            (false, SettlingFigure::Latency) => (self.limit / 1000.0, "us"),
            (false, _) => (self.limit, ""),
        };
        write!(f, "{}:{limit}{unit}", self.criterion())
    }
}
