//! What the levels above a knee add, and what they cost.

use super::super::words::Times;
use super::super::{Measure, Point};
use super::Line;
use iosonde_model::spec::Direction;
use iosonde_model::units::count;
use iosonde_stats::bootstrap::log_t_p;
use iosonde_stats::holm::holm;

/// Share of throughput above which more depth is said to add some.
const ADDS_FROM: f64 = 0.05;
/// Largest p, over all levels above the knee together, at which a gain is shown.
const SHOWN: f64 = 0.05;
/// Share of the most that the named level has at least.
const NEARLY_MOST: f64 = 0.95;

impl Line<'_> {
    /// Ends a sentence that places the knee: the throughput that a higher level is shown to add,
    /// with its cost, or that none does.
    pub(super) fn beyond(&self, knee: &Point) -> String {
        let Some((point, iops)) = self.gain(knee) else {
            return ": more adds latency rather than throughput".into();
        };
        let share = count::percent(iops.times - 1.0);
        let between = iops.interval.map_or(String::new(), |of| {
            format!(" (95 % {} to {})", count::percent(of.low - 1.0), count::percent(of.high - 1.0))
        });
        let latency = Times::of(point, knee, Measure::Mean).map(|times| times.times);
        let cost = latency.map_or("n/a".into(), count::significant);
        format!(
            " for the most throughput per latency: {} adds {share} throughput{between} for {cost} \
             times the latency",
            self.settings(&[point])
        )
    }

    /// The lowest level with nearly the most throughput of those above the knee that are shown to
    /// add some.
    fn gain(&self, knee: &Point) -> Option<(&Point, Times)> {
        let values = |point: &Point| point.values(Measure::Iops, Direction::Total);
        let line: Vec<f64> = values(knee).iter().map(|rate| rate * (1.0 + ADDS_FROM)).collect();
        let above: Vec<&Point> =
            self.points.iter().copied().filter(|p| p.at(self.axis) > knee.at(self.axis)).collect();
        let p = holm(&above.iter().map(|point| log_t_p(&values(point), &line)).collect::<Vec<_>>());
        let shown = above.iter().zip(p).filter(|(_, p)| *p <= SHOWN).map(|(point, _)| *point);
        let gains = shown.filter_map(|point| Some((point, Times::of(point, knee, Measure::Iops)?)));
        let gains: Vec<(&Point, Times)> =
            gains.filter(|(_, times)| times.times > 1.0 + ADDS_FROM).collect();
        let most = gains.iter().map(|(_, times)| times.times).fold(0.0, f64::max);
        gains.into_iter().find(|(_, times)| times.times >= NEARLY_MOST * most)
    }
}
