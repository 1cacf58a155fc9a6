//! Current rates and latencies of the roles of a run, and rates over the last minute.

use std::collections::VecDeque;

use iosonde_engine::engine::RoleCounts;
use iosonde_model::units::{bytes, count, duration};
use iosonde_report::clean::clean;

/// Seconds of the sparkline.
const SECONDS: usize = 60;
const SECOND_NS: u64 = 1_000_000_000;
/// Time from the start before which nothing is shown, ns.
const FIRST_NS: u64 = 200_000_000;
const SHADES: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[derive(Debug, Default)]
struct RoleView {
    /// The newest counts, and those of the last update of the figures.
    newest: RoleCounts,
    updated: RoleCounts,
    /// The counts up to which latencies are shown, and those of the newest bar.
    shown: RoleCounts,
    second: RoleCounts,
    iops: f64,
    bytes_per_s: f64,
    quantiles: [Option<u64>; 2],
    /// Rates of the last minute, one per second.
    rates: VecDeque<f64>,
}

/// Increase of a count from `before` to `now`, per second.
fn rate(before: &RoleCounts, now: &RoleCounts, count: impl Fn(&RoleCounts) -> u64) -> f64 {
    let span_ns = now.counted_ns.saturating_sub(before.counted_ns).max(1);
    count(now).saturating_sub(count(before)) as f64 * 1e9 / span_ns as f64
}

impl RoleView {
    fn moved(&mut self, counts: &RoleCounts) {
        if counts.counted_ns >= self.second.counted_ns + SECOND_NS {
            self.rates.push_back(rate(&self.second, counts, |counts| counts.ops));
            if self.rates.len() > SECONDS {
                self.rates.pop_front();
            }
            self.second = counts.clone();
        }
        self.newest = counts.clone();
    }

    fn update(&mut self) {
        if self.newest.counted_ns <= self.updated.counted_ns {
            return;
        }
        self.iops = rate(&self.updated, &self.newest, |counts| counts.ops);
        self.bytes_per_s = rate(&self.updated, &self.newest, |counts| counts.bytes);
        if self.newest.has_new_latencies(&self.shown) {
            self.quantiles = self.newest.quantiles_since(Some(&self.shown), [0.5, 0.99]);
            self.shown = self.newest.clone();
        }
        self.updated = self.newest.clone();
    }

    /// IOPS, bandwidth, and the percentiles that are known.
    fn figures(&self) -> Vec<String> {
        let iops = format!("{} IOPS", count::significant_or_whole(self.iops));
        let named = ["p50", "p99"].into_iter().zip(self.quantiles);
        let quantile = |(name, ns): (&str, Option<u64>)| {
            Some(format!("{name} {}", duration::latency(ns? as f64)))
        };
        [iops, bytes::per_second(self.bytes_per_s)]
            .into_iter()
            .chain(named.filter_map(quantile))
            .collect()
    }
}

/// All roles of the current run.
#[derive(Debug, Default)]
pub(super) struct Live {
    roles: Vec<RoleView>,
}

impl Live {
    /// Takes new counts, this long after the start.
    pub(super) fn moved(&mut self, roles: &[RoleCounts], elapsed_ns: u64) {
        // Jobs publish their counts ten times a second.
        if roles.is_empty() || elapsed_ns < FIRST_NS {
            return;
        }
        if self.roles.len() != roles.len() {
            self.roles = roles.iter().map(|_| RoleView::default()).collect();
        }
        for (view, counts) in self.roles.iter_mut().zip(roles) {
            view.moved(counts);
        }
    }

    /// Computes the figures since the last update.
    pub(super) fn update(&mut self) {
        self.roles.iter_mut().for_each(RoleView::update);
    }

    /// The figures of all roles together, with the percentiles of the last full interval; `None`
    /// before the first counts.
    pub(super) fn figures(&self) -> Option<Vec<String>> {
        let quantiles = match self.roles.as_slice() {
            [] => return None,
            [one] => one.quantiles,
            // Of several roles only the largest p99 is shown: the largest median would say nothing.
            several => [None, several.iter().filter_map(|role| role.quantiles[1]).max()],
        };
        let all = RoleView {
            iops: self.roles.iter().map(|role| role.iops).sum(),
            bytes_per_s: self.roles.iter().map(|role| role.bytes_per_s).sum(),
            quantiles,
            ..RoleView::default()
        };
        Some(all.figures())
    }

    /// The last minute of each role as a sparkline; with several roles, each with its figures.
    pub(super) fn lines(&self) -> Vec<String> {
        let minute = |role: &RoleView| sparkline(&role.rates.iter().copied().collect::<Vec<_>>());
        let line = |role: &RoleView| {
            format!(
                "  {}: {}  {}",
                clean(&role.newest.role),
                role.figures().join(", "),
                minute(role)
            )
        };
        match self.roles.as_slice() {
            [one] if one.rates.is_empty() => Vec::new(),
            [one] => vec![format!("  {}", minute(one))],
            several => several.iter().map(line).collect(),
        }
    }
}

/// Values as bars of eight heights, from 0 to the largest.
pub(super) fn sparkline(values: &[f64]) -> String {
    let most = values.iter().copied().fold(0.0, f64::max);
    let bar = |value: &f64| match most > 0.0 {
        true => SHADES[((value / most * 7.0).round() as usize).min(7)],
        false => SHADES[0],
    };
    values.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str, ops: u64, bytes: u64, counted_ns: u64) -> RoleCounts {
        let mut role = RoleCounts::default();
        (role.role, role.ops, role.bytes, role.counted_ns) = (name.into(), ops, bytes, counted_ns);
        role
    }

    #[test]
    fn each_role_has_its_rates_and_its_last_minute() {
        let mut live = Live::default();
        for second in 1..=3 {
            let ns = second * SECOND_NS;
            let append = role("append", 100 * second, 1_000_000 * second, ns);
            live.moved(&[append, role("get", 5, 5, ns)], ns);
            live.update();
        }
        let lines = live.lines();
        assert_eq!(lines[0], "  append: 100 IOPS, 1.00 MB/s  ███");
        assert!(lines[1].starts_with("  get: 0"), "{lines:?}");
        assert_eq!(
            live.figures().map(|words| words.join(", ")).as_deref(),
            Some("100 IOPS, 1.00 MB/s")
        );
        live.moved(&[role("one", 28, 0, 4 * SECOND_NS)], 4 * SECOND_NS);
        live.update();
        assert_eq!(
            live.figures().map(|words| words.join(", ")).as_deref(),
            Some("7.00 IOPS, 0 MB/s")
        );
        assert_eq!(live.lines(), ["  █"], "one role has its figures in the line above");
    }

    #[test]
    fn a_rate_is_over_the_time_between_the_counts() {
        let mut live = Live::default();
        // Read every 250 ms, counted every 100 ms.
        for (read_ms, counted_ms) in [(250, 200), (500, 500), (750, 700), (1000, 1000)] {
            live.moved(&[role("one", counted_ms, 0, counted_ms * 1_000_000)], read_ms * 1_000_000);
            live.update();
            assert_eq!(
                live.figures().map(|words| words.join(", ")).as_deref(),
                Some("1,000 IOPS, 0 MB/s"),
                "{read_ms}"
            );
        }
    }

    #[test]
    fn a_sparkline_goes_from_nothing_to_the_largest() {
        assert_eq!(sparkline(&[0.0, 50.0, 100.0]), "▁▅█");
        assert_eq!(sparkline(&[0.0]), "▁");
    }
}
