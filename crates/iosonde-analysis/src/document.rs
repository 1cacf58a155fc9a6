//! Figures in JSON documents: rounded where a fraction means nothing, percentiles by name.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::figures::{self, GroupFigures, LatencyFigures};
use iosonde_stats::dependent::NoInterval;

/// `p99`, `p99.9`: the name of a quantile, `0..1`.
pub(crate) fn name(q: f64) -> String {
    format!("p{}", (q * 1e6).round() / 1e4)
}

/// A time in ns or a rate in bytes per second without its fraction; null for `None`.
pub(crate) fn whole<S: Serializer>(
    value: &(impl Copy + Into<Option<f64>>),
    to: S,
) -> Result<S::Ok, S::Error> {
    (*value).into().map(|value| value.round() as u64).serialize(to)
}

/// The figures of all jobs without their directions, which the summary contains.
pub(crate) fn beside_summary<S: Serializer>(all: &GroupFigures, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Fields {
        depth_asked: u64,
        depth_seen: f64,
        read_share: Option<f64>,
    }
    let GroupFigures { depth_asked, depth_seen, read_share, .. } = *all;
    Fields { depth_asked, depth_seen, read_share }.serialize(to)
}

/// The interval of a rate, and the reason if there is none.
pub(crate) fn rate_interval<S: Serializer>(
    interval: &Option<Result<(f64, f64), NoInterval>>,
    to: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Fields {
        iops_interval: Option<(f64, f64)>,
        iops_interval_na: Option<String>,
    }
    Fields {
        iops_interval: interval.and_then(Result::ok),
        iops_interval_na: interval.and_then(Result::err).map(|reason| reason.to_string()),
    }
    .serialize(to)
}

/// A latency as a map; null for `None`.
pub(crate) fn percentiles<'a, S: Serializer, L>(latency: &'a L, to: S) -> Result<S::Ok, S::Error>
where
    &'a L: Into<Option<&'a LatencyFigures>>,
{
    latency.into().map(Percentiles).serialize(to)
}

/// A latency as a map, the 95 % intervals of its mean and of every known percentile (null if there
/// is none), and the reason for each missing value.
pub(crate) fn latency_in_full<S: Serializer>(
    latency: &LatencyFigures,
    to: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Fields<'a> {
        latency_ns: Percentiles<'a>,
        latency_interval_ns: BTreeMap<&'a str, Option<(u64, u64)>>,
        latency_interval_na: BTreeMap<&'a str, String>,
        latency_na: BTreeMap<String, String>,
    }
    let whole = |(low, high): (f64, f64)| (low.round() as u64, high.round() as u64);
    let mean = latency.mean_ns.map(|_| ("mean".to_owned(), latency.mean_interval_ns.map(whole)));
    let quantiles = latency.quantiles.iter();
    let known = quantiles.clone().filter_map(|each| Some((name(each.q), each.interval()?)));
    let intervals: BTreeMap<String, _> = mean.into_iter().chain(known).collect();
    let ends = intervals.iter().map(|(name, interval)| (name.as_str(), interval.ok()));
    let missing = intervals.iter().filter_map(|(name, interval)| Some((name, interval.err()?)));
    Fields {
        latency_ns: Percentiles(latency),
        latency_interval_ns: ends.collect(),
        latency_interval_na: missing.map(|(name, why)| (name.as_str(), why.to_string())).collect(),
        latency_na: quantiles.filter_map(|of| Some((name(of.q), figures::reason(of)?))).collect(),
    }
    .serialize(to)
}

/// The figures of a latency by name, ns; null where there is no value.
struct Percentiles<'a>(&'a LatencyFigures);

impl Serialize for Percentiles<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let latency = self.0;
        let whole = |ns: Option<f64>| ns.map(|ns| ns.round() as u64);
        let figures = [
            ("count", Some(latency.count)),
            ("overflow", Some(latency.overflow)),
            ("mean", whole(latency.mean_ns)),
            ("min", latency.min_ns),
            ("max", latency.max_ns),
            ("stdev", whole(latency.std_dev_ns)),
        ];
        let quantiles = latency.quantiles.iter().map(|each| (name(each.q), each.value_ns()));
        to.collect_map(figures.map(|(name, ns)| (name.to_owned(), ns)).into_iter().chain(quantiles))
    }
}
