//! Sizes of requests.

use std::collections::{BTreeMap, BTreeSet};

use super::Drawn;
use super::pool::{by_flow, subject};
use crate::chart::{Axis, Bar, BarSeries, Bars, ChartError, Figure, Marks, Panel, Quantity, style};
use iosonde_model::record::ProfileRun;
use iosonde_model::units::bytes;
use iosonde_model::units::count::{percent, thousands};

/// Most distinct sizes for which each has its own bar.
const EXACT: usize = 12;

/// Share of requests and of bytes by size.
pub(super) fn sizes(run: &ProfileRun) -> Result<Option<Drawn>, ChartError> {
    let mut pools = by_flow(run);
    pools.retain(|_, pool| pool.sizes.keys().any(|size| *size > 0));
    if pools.is_empty() {
        return Ok(None);
    }
    let classes = Classes::of(pools.values().map(|pool| &pool.sizes));
    let panel = |title: &str, weight: fn(u64) -> u64| {
        let series = pools
            .iter()
            .map(|(flow, pool)| {
                let (name, number) = flow.word();
                BarSeries {
                    name: name.into(),
                    style: style(number),
                    values: classes.shares(&pool.sizes, weight, name),
                }
            })
            .collect();
        classes.panel(title.into(), series)
    };
    let panels = vec![
        panel("Share of the requests of an operation", |_| 1)?,
        panel("Share of its bytes", |size| size)?,
    ];
    let note = "As the block layer sends them: it merges and splits what the program asks for.";
    let figure = Figure::stacked("Sizes of requests", subject(run), panels);
    Ok(Some(("sizes".into(), Figure { notes: vec![note.into()], ..figure })))
}

/// Classes of sizes: single sizes, or powers of two if there are too many.
pub(super) struct Classes {
    /// Smallest size of each class, ascending.
    edges: Vec<u64>,
    exact: bool,
}

impl Classes {
    pub(super) fn of<'a>(sizes: impl Iterator<Item = &'a BTreeMap<u64, u64>>) -> Classes {
        let all: BTreeSet<u64> =
            sizes.flat_map(|sizes| sizes.keys()).copied().filter(|size| *size > 0).collect();
        if all.len() <= EXACT {
            return Classes { edges: all.into_iter().collect(), exact: true };
        }
        let (first, last) =
            (all.first().map_or(0, |s| s.ilog2()), all.last().map_or(0, |s| s.ilog2()));
        Classes { edges: (first..=last).map(|power| 1 << power).collect(), exact: false }
    }

    /// Share of each class, with requests weighted by `weight` of their size.
    pub(super) fn shares(
        &self,
        sizes: &BTreeMap<u64, u64>,
        weight: fn(u64) -> u64,
        name: &str,
    ) -> Vec<Option<Bar>> {
        let weigh = |(size, requests): (&u64, &u64)| weight(*size) as f64 * *requests as f64;
        let all: f64 = sizes.iter().map(weigh).sum();
        let labels = self.labels();
        let class = |(index, edge): (usize, &u64)| {
            let next = self.edges.get(index + 1).copied().unwrap_or(u64::MAX);
            let within = || sizes.range(*edge..next);
            let requests: u64 = within().map(|(_, requests)| requests).sum();
            let share = within().map(weigh).sum::<f64>() / all;
            let hover = format!(
                "{name}, {}: {}, {} requests",
                labels[index],
                percent(share),
                thousands(requests)
            );
            (requests > 0).then(|| Bar::new(share, hover))
        };
        self.edges.iter().enumerate().map(class).collect()
    }

    pub(super) fn panel(&self, title: String, series: Vec<BarSeries>) -> Result<Panel, ChartError> {
        let title_of_axis = if self.exact { "size" } else { "size: from here to the next" };
        let x = Axis::names(title_of_axis, self.labels());
        let bars = Bars { series, labelled: false, stacked: false };
        let y = Axis::from_zero("share", Quantity::Share, bars.values())?;
        Ok(Panel::new(title, x, y, Marks::Bars(bars), 170.0))
    }

    fn labels(&self) -> Vec<String> {
        let label = |size: &u64| {
            let exact = bytes::exact(*size);
            if exact.len() <= 8 { exact } else { bytes::rough(*size) }
        };
        self.edges.iter().map(label).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn few_sizes_stand_alone_and_many_by_powers_of_two() {
        let few = BTreeMap::from([(512, 1), (4096, 3)]);
        let classes = Classes::of([&few].into_iter());
        assert_eq!(classes.labels(), ["512 B", "4 KiB"]);
        let shares = classes.shares(&few, |_| 1, "read");
        assert_eq!(shares[1], Some(Bar::new(0.75, "read, 4 KiB: 75.0 %, 3 requests")));
        let by_bytes = classes.shares(&few, |size| size, "read");
        let height = |bar: &Option<Bar>| bar.as_ref().unwrap().value.number().unwrap();
        assert_eq!(height(&by_bytes[0]), 512.0 / (512.0 + 3.0 * 4096.0));
        let many: BTreeMap<u64, u64> = (1..=20).map(|n| (n * 4096, 1)).collect();
        let classes = Classes::of([&many].into_iter());
        assert_eq!(classes.labels(), ["4 KiB", "8 KiB", "16 KiB", "32 KiB", "64 KiB"]);
        let shares: f64 = classes.shares(&many, |_| 1, "").iter().map(height).sum();
        assert!((shares - 1.0).abs() < 1e-12);
    }
}
