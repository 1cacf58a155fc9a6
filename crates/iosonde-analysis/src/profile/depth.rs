//! Requests in flight, by time and as found by arriving requests.

use serde::Serialize;

use iosonde_model::record::profile::Depth;

use super::spread::Spread;

/// Requests in flight on one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DepthFigures {
    /// Time span of the share and the mean, ns.
    #[serde(skip)]
    pub span_ns: u64,
    /// Share of the span with at least one request in flight.
    pub busy_share: Option<f64>,
    /// Mean level over the span.
    pub mean: Option<f64>,
    /// Level by time, over the time with at least one request in flight.
    #[serde(rename = "while_busy")]
    pub by_time: Spread,
    /// Level found by arriving requests, which do not count themselves.
    pub on_arrival: Spread,
    /// Highest level.
    pub max: u32,
}

/// The figures of a queue depth over a span, or else over the time from the first request to the
/// end of tracing, with settling. Percentiles by time need as many requests as those on arrival.
pub(super) fn depth(depth: &Depth, span_ns: Option<u64>) -> DepthFigures {
    let all: u64 = depth.time_ns.iter().map(|(_, ns)| ns).sum();
    let span_ns = span_ns.unwrap_or(all);
    let known = all > 0 && span_ns > 0;
    let busy: Vec<(f64, u64)> = pairs(&depth.time_ns, |level| level > 0);
    let arrivals: u64 = depth.arrivals.iter().map(|(_, requests)| requests).sum();
    let area: f64 = busy.iter().map(|(level, ns)| level * *ns as f64).sum();
    DepthFigures {
        span_ns,
        busy_share: known.then(|| (busy_ns(depth) as f64 / span_ns as f64).min(1.0)),
        mean: known.then(|| area / span_ns as f64),
        by_time: Spread::weighted(&busy, arrivals),
        on_arrival: Spread::weighted(&pairs(&depth.arrivals, |_| true), arrivals),
        max: depth.max,
    }
}

/// Time with any request in flight, ns.
pub(super) fn busy_ns(depth: &Depth) -> u64 {
    depth.time_ns.iter().filter(|(level, _)| *level > 0).map(|(_, ns)| ns).sum()
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
        let figures = depth(&given, None);
        assert_eq!(figures.busy_share, Some(0.5));
        assert_eq!(figures.mean, Some(1.0));
        assert_eq!(figures.by_time.at(0.5), Some(1.0));
        assert_eq!(figures.by_time.at(0.75), Some(3.0));
        assert_eq!(figures.on_arrival.at(0.5), Some(0.0));
        assert_eq!(figures.on_arrival.mean, Some(0.8));
        assert_eq!(depth(&Depth::default(), Some(1_000)).busy_share, None);
        // The program ended long before tracing did.
        let ended = depth(&given, Some(625));
        assert_eq!((ended.busy_share, ended.mean), (Some(0.8), Some(1.6)));
        assert_eq!(ended.by_time, figures.by_time);
    }
}
