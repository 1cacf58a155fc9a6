//! Checks the depths of a sweep: Little's law, and whether the requested depth was reached.

use super::super::{Answer, Measure, StageFacts, gate};
use super::Line;
use crate::finding::{Severity, Strength};
use iosonde_model::units::count;

/// Relative difference of mean queue depth and X R above which Little's law is violated. Runs whose
/// ends alone can cause this difference are ignored.
const LITTLE_WITHIN: f64 = 0.05;
/// Share of the requested depth below which it was not reached.
const REACHED_FROM: f64 = 0.95;

impl Line<'_> {
    /// Reports Little's law over all runs that are long enough to show it.
    pub(super) fn littles_law(&self, answer: &mut Answer) {
        let mut worst: f64 = 0.0;
        let mut shown = 0;
        for figures in self.points.iter().flat_map(|point| &point.runs) {
            let all = &figures.all;
            let Some(mean) = all.total.latency.mean_ns else { continue };
            // Requests in flight when the run begins or ends belong to it only in part.
            let in_part = 2.0 * all.depth_seen / all.total.ops as f64;
            if all.depth_seen <= 0.0 || in_part >= LITTLE_WITHIN {
                continue;
            }
            let residual = (all.total.iops * mean / 1e9 / all.depth_seen - 1.0).abs();
            // A long request counts in full if it ends within the run, else not at all.
            let longest_ns = all.total.latency.max_ns.unwrap_or(0) as f64;
            let of_ends = 2.0 * longest_ns / figures.window_ns.max(1) as f64;
            if residual <= LITTLE_WITHIN || residual > of_ends {
                shown += 1;
                worst = worst.max(residual);
            }
        }
        if shown == 0 {
            return;
        }
        answer.find(&self.key("little_residual"), worst);
        if worst > LITTLE_WITHIN {
            let words = format!(
                "{}: mean queue depth and throughput times latency differ by up to {}: the \
                 latencies or the depths of these runs are wrong.",
                self.name,
                count::percent(worst)
            );
            let subject = "mean queue depth and throughput times latency";
            answer.mind("little", subject, Strength::Proven, Severity::LowConfidence, words);
        } else {
            let runs: usize = self.points.iter().map(|point| point.runs.len()).sum();
            let which = match shown == runs {
                true => format!("all {runs} runs"),
                false => format!("the {shown} of {runs} runs that are long enough to show it"),
            };
            answer.say(format!(
                "{}: Little's law holds in {which}, within {}.",
                self.name,
                count::percent(worst)
            ));
        }
    }

    /// Warns if the requested depths were not reached.
    pub(super) fn reached(&self, answer: &mut Answer, facts: &StageFacts) {
        let missed = self.points.iter().filter_map(|point| {
            let (seen, requested) = (point.mean(Measure::Depth)?, facts.depth(point));
            let is_missed = seen < REACHED_FROM * requested && !gate::pauses(facts, point);
            is_missed.then(|| format!("{} of {requested}", count::significant(seen)))
        });
        let missed: Vec<String> = missed.collect();
        if !missed.is_empty() {
            let words = format!(
                "{}: the requested queue depth was not reached: {}. These levels are labels, \
                 not depths.",
                self.name,
                missed.join(", ")
            );
            let subject = "a queue depth that was not reached";
            answer.mind("depth_not_applied", subject, Strength::Proven, Severity::Warning, words);
        }
    }
}
