//! Whether a sweep is saturated at its end, and the lowest level with nearly the best throughput.

use super::super::words::Times;
use super::super::{Answer, Measure, Point, gate};
use super::Line;
use iosonde_stats::knee;

/// Share of the best throughput that a lower level may lack.
const ENOUGH_WITHIN: f64 = 0.05;

/// Share by which throughput may grow less than the depth and still count as proportional.
const PROPORTIONAL_WITHIN: f64 = 0.05;

/// Growth of throughput from half the depth of the last level to the last level.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Growth {
    /// At least 5 %, and not shown to be less than proportional to the depth.
    Proportional,
    /// At least 5 %, but less than proportional.
    Less,
    /// Whether it is at least 5 % is undecided.
    Undecided,
    /// Less than 5 %.
    Ended,
}

impl Line<'_> {
    /// The growth to the last level, its ratio, and the level at half the depth.
    pub(super) fn growth(&self) -> Option<(Growth, Times, &Point)> {
        let last = self.points.last()?;
        let top = last.at(self.axis)?;
        let half = self.points.iter().rev().find(|p| p.at(self.axis) <= Some(top / 2.0))?;
        let gain = Times::of(last, half, Measure::Iops)?;
        let proportional = top / half.at(self.axis)? * (1.0 - PROPORTIONAL_WITHIN);
        let growth = match gate::side(&gain, 0.0, 1.0 + knee::SATURATED_BELOW) {
            Some(gate::Side::Above) => match gate::side(&gain, proportional, f64::INFINITY) {
                Some(gate::Side::Below) => Growth::Less,
                _ => Growth::Proportional,
            },
            None => Growth::Undecided,
            Some(_) => Growth::Ended,
        };
        Some((growth, gain, half))
    }

    /// Reports whether the last doubling still gained 5 %, and the lowest level with 95 % of the
    /// best throughput.
    pub(super) fn saturation(&self, answer: &mut Answer) {
        if gate::withheld(self.points).is_some() {
            return;
        }
        let (Some((growth, gain, half)), Some(last)) = (self.growth(), self.points.last()) else {
            return;
        };
        let (name, at) = (self.name, self.settings(&[last]));
        let does = format!("it does {} the IOPS of {}", gain.formatted(), self.label(half));
        match growth {
            Growth::Proportional => {
                answer.say(format!("{name}: it is not yet saturated at {at}: {does} there."));
            }
            Growth::Less => answer.say(format!(
                "{name}: throughput still grows at {at}, less than the depth: {does}. Where it \
                 ends is not measured."
            )),
            Growth::Undecided => answer.say(format!(
                "{name}: whether it is saturated at {at} is not decidable yet: {does} there."
            )),
            Growth::Ended => {}
        }
        if matches!(growth, Growth::Undecided | Growth::Ended) {
            self.enough(answer);
        }
    }

    /// Reports the lowest level shown to be within 5 % of the best, and undecided ones below it.
    fn enough(&self, answer: &mut Answer) {
        let Some((_, best)) = gate::highest(self.points, Measure::Iops) else { return };
        let share = 1.0 - ENOUGH_WITHIN;
        let sides = gate::sides(self.points, best, share, Measure::Iops);
        let reached = sides.iter().position(|side| side.is_some_and(|s| s != gate::Side::Below));
        let Some(reached) = reached else { return };
        let (lowest, at) = (self.points[reached], self.points[reached].at(self.axis));
        let Some(at) = at else { return };
        answer.find(&self.key("enough"), at);
        let open = sides[..reached].iter().rposition(|side| *side == Some(gate::Side::Below));
        let first_open = open.map_or(0, |below| below + 1);
        let does = lowest.formatted(Measure::Iops);
        let of = format!("{:.0} %", share * 100.0);
        if first_open == reached {
            answer.find(&self.key("saturation"), at);
        }
        answer.say(match first_open == reached {
            true => format!(
                "{}: {} is the lowest with {of} of the best: {does} IOPS.",
                self.name,
                self.setting(at)
            ),
            false => format!(
                "{}: {} brings {of} of the best ({does} IOPS); whether {} does is not decidable \
                 yet.",
                self.name,
                self.setting(at),
                self.settings(&self.points[first_open..reached])
            ),
        });
    }
}
