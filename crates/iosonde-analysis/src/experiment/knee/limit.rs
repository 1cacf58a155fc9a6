//! Limits that are not the storage's own, such as a rate limiter: where they hold there is no knee.

use super::super::{Answer, Measure, Point, StageFacts, gate};
use super::Line;
use crate::finding::Evidence;

/// Share of the highest mean rate from which a level belongs to the plateau.
const PLATEAU_FROM: f64 = 0.9;
/// Relative difference of two rates that one limiter sets.
const SAME_WITHIN: f64 = 0.02;

impl Line<'_> {
    /// Names a limit in place of a knee; whether there is one.
    pub(super) fn is_limited(&self, answer: &mut Answer, facts: &StageFacts) -> bool {
        let plateau = self.plateau();
        let (Some(limit), Some(first)) = (limit_of_most(facts, &plateau), plateau.first()) else {
            return false;
        };
        self.say_limit(answer, first, &limit);
        true
    }

    pub(super) fn say_limit(&self, answer: &mut Answer, from: &Point, limit: &str) {
        answer.find(&self.key("knee_undecided"), 1.0);
        answer.say(format!(
            "{}: throughput stops growing at {} ({} IOPS at {}) because of {limit}: this is no \
             knee of the storage.",
            self.name,
            self.settings(&[from]),
            from.formatted(Measure::Iops),
            from.formatted(Measure::Mean)
        ));
    }

    /// A limit that holds at a level, or at the next one.
    pub(super) fn limit_near(&self, facts: &StageFacts, point: &Point) -> Option<String> {
        let from = self.points.iter().position(|each| each.cell == point.cell)?;
        let near = self.points.iter().skip(from).take(2);
        near.filter_map(|point| gate::known_limit(facts, point)).next()
    }

    /// The levels with nearly the highest rate.
    fn plateau(&self) -> Vec<&Point> {
        let iops = |point: &Point| point.mean(Measure::Iops).unwrap_or(0.0);
        let most = self.points.iter().map(|point| iops(point)).fold(0.0, f64::max);
        let high = self.points.iter().filter(|point| iops(point) >= PLATEAU_FROM * most);
        high.copied().collect()
    }
}

/// The limit that holds most levels of a plateau of several: they name it, or do the rate at which
/// another level of the plateau was limited after its burst.
fn limit_of_most(facts: &StageFacts, plateau: &[&Point]) -> Option<String> {
    let limited = plateau.iter().find_map(|point| rate_limit(facts, point));
    let is_held = |point: &&&Point| {
        let rate = limited.as_ref().map(|(_, rate)| rate);
        let does = |rate: &f64| {
            point.mean(Measure::Iops).is_some_and(|iops| (iops / rate - 1.0).abs() <= SAME_WITHIN)
        };
        gate::known_limit(facts, point).is_some() || rate.is_some_and(does)
    };
    let held = plateau.iter().filter(is_held).count();
    let named = plateau.iter().find_map(|point| gate::known_limit(facts, point));
    let is_most = plateau.len() > 1 && 2 * held > plateau.len();
    named.or(limited.map(|(name, _)| name)).filter(|_| is_most)
}

/// A rate limiter that a run of a level shows, with the operations per second after its burst.
fn rate_limit(facts: &StageFacts, point: &Point) -> Option<(String, f64)> {
    facts.of_cell(point.cell).iter().flat_map(|trial| &trial.findings).find_map(|finding| {
        match finding.evidence.get("sustained_iops")? {
            Evidence::Number(rate) if finding.code == "token_bucket" => {
                Some((finding.subject.clone(), *rate))
            }
            _ => None,
        }
    })
}
