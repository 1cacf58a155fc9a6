//! Gain in throughput of the levels above a knee, and their cost in latency.

use super::super::gate::{self, Ranking, Side};
use super::super::words::Times;
use super::super::{Measure, Point};
use super::Line;
use iosonde_model::units::count;

/// Maximum gain of any higher level if the report says that none adds throughput.
const NONE_WITHIN: f64 = 0.05;
/// Minimum share of the largest gain that the named level has.
const MOST_OF_GAIN: f64 = 0.75;

impl Line<'_> {
    /// The end of the sentence about the knee: the gain of a higher level and its cost in latency,
    /// or that no level adds throughput.
    pub(super) fn beyond(&self, knee: &Point) -> String {
        let above = self.points.iter().filter(|point| point.at(self.axis) > knee.at(self.axis));
        let gains =
            above.filter_map(|point| Some((*point, Times::of(point, knee, Measure::Iops)?)));
        let gains: Vec<(&Point, Times)> = gains.collect();
        let is_little = |(_, times): &(&Point, Times)| {
            gate::side(times, 0.0, 1.0 + NONE_WITHIN).is_some_and(|side| side != Side::Above)
        };
        match self.gain(knee, &gains) {
            Some((point, iops)) => {
                let share = count::percent(iops.times - 1.0);
                let [low, high] = iops.interval.map_or([f64::NAN; 2], |of| [of.low, of.high]);
                let [low, high] = [low, high].map(|times| count::percent(times - 1.0));
                let latency = Times::of(point, knee, Measure::Mean).map(|times| times.times);
                format!(
                    " for the most throughput per latency: {} adds {share} throughput (95 % {low} \
                     to {high}) for {} times the latency",
                    self.settings(&[point]),
                    latency.map_or("n/a".into(), count::significant)
                )
            }
            None if gains.iter().all(is_little) => {
                ": more adds latency rather than throughput".into()
            }
            None => " for the most throughput per latency; whether more adds throughput is not \
                     decidable yet"
                .into(),
        }
    }

    /// The lowest level above the knee with most of the largest gain; `None` if the knee is among
    /// the levels of the highest throughput.
    fn gain<'a>(&self, knee: &Point, gains: &[(&'a Point, Times)]) -> Option<(&'a Point, Times)> {
        let is_highest = match gate::ranking(self.points, Measure::Iops)? {
            Ranking::Best(best) => best.cell == knee.cell,
            Ranking::Ties { points, .. } => points.iter().any(|point| point.cell == knee.cell),
            Ranking::Undecided(_) => true,
        };
        let shown = gains.iter().filter(|(_, times)| times.differ() && times.times > 1.0);
        let shown: Vec<&(&Point, Times)> = shown.filter(|_| !is_highest).collect();
        let most = shown.iter().map(|(_, times)| times.times).fold(1.0, f64::max);
        let enough = 1.0 + MOST_OF_GAIN * (most - 1.0);
        shown.into_iter().find(|(_, times)| times.times >= enough).copied()
    }
}
