//! Requests in flight, by time and as found by arriving requests.

use serde::Serialize;

use iosonde_model::record::profile::Depth;

use super::spread::Spread;

/// Requests in flight on one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DepthFigures {
    /// Share of the time with at least one request in flight.
    pub busy_share: Option<f64>,
    /// Mean over all time.
    pub mean: Option<f64>,
    /// By time, over the time with at least one request in flight.
    #[serde(rename = "while_busy")]
    pub by_time: Spread,
    /// As found by arriving requests, themselves not counted.
    pub on_arrival: Spread,
    /// Highest level.
    pub max: u32,
}

/// The figures of a queue depth; percentiles by time need as many requests as those on arrival.
pub(super) fn depth(depth: &Depth) -> DepthFigures {
    let all: u64 = depth.time_ns.iter().map(|(_, ns)| ns).sum();
    let busy: Vec<(f64, u64)> = pairs(&depth.time_ns, |level| level > 0);
    let busy_ns: u64 = busy.iter().map(|(_, ns)| ns).sum();
    let arrivals: u64 = depth.arrivals.iter().map(|(_, requests)| requests).sum();
    let area: f64 = busy.iter().map(|(level, ns)| level * *ns as f64).sum();
    DepthFigures {
        busy_share: (all > 0).then(|| busy_ns as f64 / all as f64),
        mean: (all > 0).then(|| area / all as f64),
        by_time: Spread::weighted(&busy, arrivals),
        on_arrival: Spread::weighted(&pairs(&depth.arrivals, |_| true), arrivals),
        max: depth.max,
    }
}

fn pairs(levels: &[(u32, u64)], keep: fn(u32) -> bool) -> Vec<(f64, u64)> {
    let kept = levels.iter().filter(|(level, _)| keep(*level));
    kept.map(|(level, weight)| (f64::from(*level), *weight)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_busy_half_the_time() {
        // Half the time idle, a quarter at one, a quarter at three.
        let given = Depth {
            time_ns: vec![(0, 500), (1, 250), (3, 250)],
            arrivals: vec![(0, 600), (2, 400)],
            max: 3,
            area_ns: 1_000,
        };
        let figures = depth(&given);
        assert_eq!(figures.busy_share, Some(0.5));
        assert_eq!(figures.mean, Some(1.0));
        assert_eq!(figures.by_time.at(0.5), Some(1.0));
        assert_eq!(figures.by_time.at(0.75), Some(3.0));
        assert_eq!(figures.on_arrival.at(0.5), Some(0.0));
        assert_eq!(figures.on_arrival.mean, Some(0.8));
        assert_eq!(depth(&Depth::default()).busy_share, None);
    }
}
