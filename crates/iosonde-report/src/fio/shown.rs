//! The percentiles of a job that fio's formats show.

use std::collections::BTreeMap;

use crate::json::WrittenOptions;
use iosonde_stats::{Histogram, Quantile};

/// fio's default list of percentiles, in percent.
const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

/// The percentiles, and the latencies for which they are shown.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    percents: Vec<f64>,
    pub(super) lat: bool,
    pub(super) clat: bool,
    pub(super) slat: bool,
}

impl Shown {
    /// As set by `percentile_list`, `lat_percentiles` and related options.
    pub(super) fn of(
        all: Option<&WrittenOptions>,
        own: Option<&BTreeMap<String, String>>,
    ) -> Shown {
        let text = |name: &str| {
            own.and_then(|own| own.get(name)).or_else(|| all.and_then(|all| all.global.get(name)))
        };
        let flag = |name: &str, usual: bool| text(name).map_or(usual, |text| text != "0");
        let list = text("percentile_list").map(String::as_str).unwrap_or_default();
        let mut percents: Vec<f64> =
            list.split(':').filter_map(|percent| percent.trim().parse().ok()).collect();
        if percents.is_empty() {
            percents = PERCENTILES.to_vec();
        }
        percents.sort_by(f64::total_cmp);
        Shown {
            percents,
            lat: flag("lat_percentiles", false),
            clat: flag("clat_percentiles", true),
            slat: flag("slat_percentiles", false),
        }
    }

    /// Percentiles for which there are enough samples: percent, ns.
    pub(super) fn earned(&self, latency: &Histogram) -> Vec<(f64, u64)> {
        let earned =
            |percent: &f64| Some((*percent, Quantile::of(latency, percent / 100.0).value_ns()?));
        self.percents.iter().filter_map(earned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_the_job_goes_before_that_of_all_jobs() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
        };
        let global = map(&[("percentile_list", "50:99.9"), ("lat_percentiles", "1")]);
        let all = WrittenOptions { global, ..WrittenOptions::default() };
        let shown = Shown::of(Some(&all), None);
        assert_eq!((shown.percents, shown.lat, shown.clat), (vec![50.0, 99.9], true, true));
        let own = map(&[("percentile_list", "99:10"), ("clat_percentiles", "0")]);
        let shown = Shown::of(Some(&all), Some(&own));
        assert_eq!((shown.percents, shown.lat, shown.clat), (vec![10.0, 99.0], true, false));
        let usual = Shown::of(None, None);
        assert_eq!((usual.percents.len(), usual.lat, usual.slat), (17, false, false));
    }
}
