//! Whether a sweep is saturated at its end, and the lowest level that brings nearly all.

use super::super::words::Times;
use super::super::{Answer, Measure, gate};
use super::Line;
use iosonde_stats::knee;

/// Share of the best that a lower level may lack.
const ENOUGH_WITHIN: f64 = 0.05;

impl Line<'_> {
    /// Whether the last doubling still gained 5 %, and the lowest level with 95 % of the best.
    pub(super) fn saturation(&self, answer: &mut Answer) {
        if gate::withheld(self.points).is_some() {
            return;
        }
        let Some(last) = self.points.last() else { return };
        let Some(top) = last.at(self.axis) else { return };
        let half = self.points.iter().rev().find(|p| p.at(self.axis) <= Some(top / 2.0));
        let gain = half.and_then(|half| Times::of(last, half, Measure::Iops));
        let (half, Some(gain)) = (half, gain) else { return };
        let from = half.map_or(String::new(), |half| self.label(half));
        let limit = 1.0 + knee::SATURATED_BELOW;
        let (name, at, times) = (self.name, self.setting(top), gain.formatted());
        let side = gate::side(&gain, 0.0, limit);
        match side {
            Some(gate::Side::Above) => answer.say(format!(
                "{name}: it is not yet saturated at {at}: it does {times} the IOPS of {from} there."
            )),
            None => answer.say(format!(
                "{name}: whether it is saturated at {at} is not decidable yet: it does {times} \
                 the IOPS of {from} there."
            )),
            Some(_) => {}
        }
        if side != Some(gate::Side::Above) {
            self.enough(answer);
        }
    }

    /// The lowest level within 5 % of the best, if it is shown that it is and the one below it is
    /// not.
    fn enough(&self, answer: &mut Answer) {
        let all = self.points.iter().filter_map(|point| Some((point.mean(Measure::Iops)?, *point)));
        let Some((_, best)) = all.max_by(|a, b| a.0.total_cmp(&b.0)) else { return };
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
