//! The jobs of a run by role, and their figures by direction.

use super::{DirectionFigures, Figures, GroupFigures};
use iosonde_model::spec::Direction;

impl Figures {
    /// All jobs together, and each role where there are several.
    pub fn groups(&self) -> impl Iterator<Item = &GroupFigures> {
        let roles = self.roles.iter().filter(|_| self.roles.len() > 1);
        std::iter::once(&self.all).chain(roles)
    }
}

impl GroupFigures {
    /// Name of the role, or `all`.
    pub fn name(&self) -> &str {
        if self.role.is_empty() { "all" } else { &self.role }
    }

    /// Every direction with operations, with its name.
    pub fn directions(&self) -> impl Iterator<Item = (&'static str, &DirectionFigures)> {
        let all = [
            ("read", &self.read),
            ("write", &self.write),
            ("trim", &self.trim),
            ("sync", &self.sync),
        ];
        all.into_iter().filter(|(_, each)| each.ops > 0)
    }

    /// One direction, or all data operations together.
    pub fn of(&self, direction: Direction) -> &DirectionFigures {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
            Direction::Total => &self.total,
        }
    }

    /// Mean number of requests of one direction in flight: its part of the depth by Little's law.
    pub fn depth_of(&self, direction: &DirectionFigures) -> f64 {
        let time = |of: &DirectionFigures| of.ops as f64 * of.latency.mean_ns.unwrap_or(0.0);
        let all: f64 = self.directions().map(|(_, each)| time(each)).sum();
        if all > 0.0 { self.depth_seen * time(direction) / all } else { self.depth_seen }
    }

    /// Whether the depth is more than a label: requests do not complete within submission, or the
    /// requested depth is one per job.
    pub fn has_depth(&self, inline: bool) -> bool {
        !inline || self.depth_asked == u64::from(self.jobs)
    }
}
