//! Rates and latencies of the roles of a run now, and over the last minute.

use std::collections::VecDeque;

use iosonde_engine::engine::RoleCounts;
use iosonde_model::units::{bytes, count, duration};
use iosonde_report::clean::clean;

/// Seconds of the sparkline.
const SECONDS: usize = 60;
const SECOND_NS: u64 = 1_000_000_000;
/// Before this there is nothing to show.
const FIRST_NS: u64 = 200_000_000;
const SHADES: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One role.
#[derive(Debug, Default)]
struct RoleView {
    /// The newest counts, and those a second before.
    now: RoleCounts,
    second: RoleCounts,
    /// The counts up to which latencies are shown.
    shown: RoleCounts,
    iops: f64,
    bytes_per_s: f64,
    quantiles: [Option<u64>; 2],
    /// Rates of the last seconds.
    rates: VecDeque<f64>,
}

impl RoleView {
    fn moved(&mut self, counts: &RoleCounts, span_ns: u64, is_second: Option<u64>) {
        let per_s = |now: u64, before: u64, ns: u64| {
            now.saturating_sub(before) as f64 * 1e9 / ns.max(1) as f64
        };
        self.iops = per_s(counts.ops, self.now.ops, span_ns);
        self.bytes_per_s = per_s(counts.bytes, self.now.bytes, span_ns);
        if counts.has_new_latencies(&self.shown) {
            self.quantiles = counts.quantiles_since(Some(&self.shown), [0.5, 0.99]);
            self.shown = counts.clone();
        }
        self.now = counts.clone();
        if let Some(ns) = is_second {
            self.rates.push_back(per_s(counts.ops, self.second.ops, ns));
            if self.rates.len() > SECONDS {
                self.rates.pop_front();
            }
            self.second = counts.clone();
        }
    }

    fn figures(&self) -> String {
        let mut words = format!(
            "{} IOPS, {}",
            count::significant_or_whole(self.iops),
            bytes::per_second(self.bytes_per_s)
        );
        for (name, ns) in ["p50", "p99"].into_iter().zip(self.quantiles) {
            if let Some(ns) = ns {
                words.push_str(&format!(", {name} {}", duration::latency(ns as f64)));
            }
        }
        words
    }
}

/// All roles of the run at hand.
#[derive(Debug, Default)]
pub(super) struct Live {
    roles: Vec<RoleView>,
    seen_ns: u64,
    second_ns: u64,
}

impl Live {
    /// New counts, this long after the start.
    pub(super) fn moved(&mut self, roles: &[RoleCounts], elapsed_ns: u64) {
        // Jobs show their counts ten times a second.
        if roles.is_empty() || elapsed_ns < FIRST_NS {
            return;
        }
        if self.roles.len() != roles.len() {
            self.roles = roles.iter().map(|_| RoleView::default()).collect();
        }
        let span_ns = elapsed_ns.saturating_sub(self.seen_ns);
        let since_ns = elapsed_ns.saturating_sub(self.second_ns);
        let is_second = (since_ns >= SECOND_NS).then_some(since_ns);
        for (view, counts) in self.roles.iter_mut().zip(roles) {
            view.moved(counts, span_ns, is_second);
        }
        self.seen_ns = elapsed_ns;
        if is_second.is_some() {
            self.second_ns = elapsed_ns;
        }
    }

    /// The figures of all roles together, and the percentiles of the last full interval.
    pub(super) fn latency_words(&self) -> String {
        let mut all = RoleView::default();
        match self.roles.as_slice() {
            [one] => all.quantiles = one.quantiles,
            several => {
                // Of several roles the largest median says nothing: only the tail is of all.
                all.quantiles[1] = several.iter().filter_map(|role| role.quantiles[1]).max();
            }
        }
        let rate: f64 = self.roles.iter().map(|role| role.bytes_per_s).sum();
        let mut words = String::new();
        if !self.roles.is_empty() {
            words.push_str(&format!(", {}", bytes::per_second(rate)));
        }
        for (name, ns) in ["p50", "p99"].into_iter().zip(all.quantiles) {
            if let Some(ns) = ns {
                words.push_str(&format!(", {name} {}", duration::latency(ns as f64)));
            }
        }
        words
    }

    /// A line for each role: figures and the sparkline of the last minute.
    pub(super) fn lines(&self) -> Vec<String> {
        let named = self.roles.len() > 1;
        let line = |role: &RoleView| {
            let name = match named {
                true => format!("{}: ", clean(&role.now.role)),
                false => String::new(),
            };
            let rates: Vec<f64> = role.rates.iter().copied().collect();
            format!("  {name}{}  {}", role.figures(), sparkline(&rates))
        };
        self.roles.iter().map(line).collect()
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

    fn role(name: &str, ops: u64, bytes: u64) -> RoleCounts {
        let mut role = RoleCounts::default();
        (role.role, role.ops, role.bytes) = (name.into(), ops, bytes);
        role
    }

    #[test]
    fn each_role_has_its_rates_and_its_last_minute() {
        let mut live = Live::default();
        for second in 1..=3 {
            let roles = [role("append", 100 * second, 1_000_000 * second), role("get", 5, 5)];
            live.moved(&roles, second * SECOND_NS);
        }
        let lines = live.lines();
        assert_eq!(lines[0], "  append: 100 IOPS, 1.00 MB/s  ███");
        assert!(lines[1].starts_with("  get: 0"), "{lines:?}");
        live.moved(&[role("one", 7, 0)], 4 * SECOND_NS);
        assert!(live.lines()[0].starts_with("  7"), "{:?}", live.lines());
    }

    #[test]
    fn a_sparkline_goes_from_nothing_to_the_largest() {
        assert_eq!(sparkline(&[0.0, 50.0, 100.0]), "▁▅█");
        assert_eq!(sparkline(&[0.0]), "▁");
    }
}
