//! Report on rounds: verdict, each tracked figure against its limits, and convergence table.

use super::super::{Answer, Measure, StageFacts};
use super::{Steadiness, Tracked};
use crate::finding::{Severity, Strength};
use iosonde_model::spec::experiment::Rounds;
use iosonde_model::units::count::percent;
use iosonde_stats::steady_state::Window;

/// Maximum number of tracked figures for which the convergence table has range and slope.
const MOST_WITH_WINDOWS: usize = 4;
/// Drift per round, as a share, that the limits allow over a window of five rounds.
const ALLOWED_DRIFT: f64 = 0.025;

impl Steadiness {
    /// The answer of a stage in rounds.
    pub(in super::super) fn answer(&self, facts: &StageFacts) -> Answer {
        let Some(limits) = &facts.stage.rounds else { return Answer::default() };
        let mut answer = Answer::default();
        answer.find("steady", f64::from(u8::from(self.is_steady)));
        answer.find("rounds", f64::from(self.rounds));
        if let Some(start) = self.window_start {
            answer.find("window-first-round", f64::from(start + 1));
        }
        let verdict = self.verdict();
        answer.say(match (self.is_steady, self.window_rounds) {
            (true, _) => format!("Steady state: {verdict}. Only these rounds give the figures."),
            (false, 0) => format!("Steady state: {verdict}."),
            (false, rounds) => format!(
                "Steady state: {verdict}. The figures are of the last {rounds} rounds and do not \
                 describe a steady state."
            ),
        });
        self.say_all_tracked(&mut answer, limits);
        self.warn(&mut answer, &verdict);
        self.convergence(&mut answer, limits);
        answer.details = serde_json::json!({ "steadiness": self, "limits": limits });
        answer
    }

    /// Reports each tracked figure against its limits.
    pub(crate) fn say_all_tracked(&self, answer: &mut Answer, limits: &Rounds) {
        self.tracked.iter().for_each(|each| self.say_tracked(answer, each, limits));
    }

    fn say_tracked(&self, answer: &mut Answer, each: &Tracked, limits: &Rounds) {
        let (name, title) = (&each.name, each.measure.title());
        let Some(window) = each.window else {
            answer.say(format!("{name}, {title}: no window of {} rounds.", limits.window));
            return;
        };
        let state = if each.is_steady { "steady" } else { "not steady" };
        let mean = each.measure.formatted(window.mean);
        let share = |value: f64| percent(value / window.mean);
        answer.say(format!(
            "{name}, {title}: {state}: mean {mean}; range {} (at most {} % allowed); slope \
             excursion {} (at most {} % allowed); fit {}.",
            share(window.range),
            limits.range_percent,
            share(window.slope_excursion),
            limits.slope_percent,
            self.fit(each.measure, &window),
        ));
        if let Some((low, high)) = window.drift() {
            let reach = low.abs().max(high.abs());
            let signed = |share: f64| format!("{:+.1} %", share * 100.0);
            let words = || format!("; it cannot exclude a drift of {} per round", percent(reach));
            let exclude = (reach > ALLOWED_DRIFT).then(words).unwrap_or_default();
            answer.say(format!(
                "{name}, {title}: drift per round {} (90 % interval {} to {}){exclude}.",
                signed(window.slope / window.mean),
                signed(low),
                signed(high),
            ));
        }
    }

    /// The fitted line over the round number, in the form of the specification.
    fn fit(&self, measure: Measure, window: &Window) -> String {
        let first = f64::from(self.window_start.unwrap_or(0) + 1);
        let at_zero = window.start - window.slope * first;
        let sign = if window.slope < 0.0 { "-" } else { "+" };
        format!(
            "{} {sign} {} x round",
            measure.formatted(at_zero),
            measure.formatted(window.slope.abs())
        )
    }

    fn warn(&self, answer: &mut Answer, verdict: &str) {
        if let Some(left) = self.left_in {
            let words = format!(
                "The steady state was lost during the measurement: the window that ends with round \
                 {} is outside the limits, and the latest rounds differ significantly from those \
                 before. The figures do not describe one state.",
                left + 1
            );
            let (strength, severity) = (Strength::Proven, Severity::LowConfidence);
            answer.mind("steady_state_left", "steady state left", strength, severity, words);
        } else if !self.is_steady {
            let words = format!(
                "The target is {verdict} of at most {}: the figures of this stage do not describe \
                 a steady state.",
                self.max_rounds
            );
            let (strength, severity) = (Strength::Proven, Severity::LowConfidence);
            answer.mind("not_steady", "no steady state reached", strength, severity, words);
        }
        if self.first_round > 0 {
            let words = format!(
                "The target lost its state in an interruption and was prepared again: rounds \
                 before round {} are of another state and not used for the verdict.",
                self.first_round + 1
            );
            let (strength, severity) = (Strength::Proven, Severity::Warning);
            answer.mind("state_lost", "prepared again", strength, severity, words);
        }
    }

    /// Adds a table with one row per round: the figures, and range and slope of the window that
    /// ends with it.
    fn convergence(&self, answer: &mut Answer, limits: &Rounds) {
        let with_windows = self.tracked.len() <= MOST_WITH_WINDOWS;
        let mut columns = vec!["round".to_owned()];
        for each in &self.tracked {
            columns.push(format!("{} {}", each.name, each.measure.title()));
            if with_windows {
                columns.extend(["range".to_owned(), "slope excursion".to_owned()]);
            }
        }
        let row = |round: u32| {
            let own = self.holds(round);
            let mut row = vec![format!("{}{}", round + 1, if own { " *" } else { "" })];
            for each in &self.tracked {
                let value = each.values.get(round as usize).copied().flatten();
                row.push(value.map_or("n/a".into(), |value| each.measure.formatted(value)));
                if with_windows {
                    let start = (round + 1).checked_sub(limits.window);
                    let start = start.filter(|start| *start >= self.first_round);
                    let window = start.and_then(|start| each.window_at(start, limits.window));
                    let share = |part: fn(&Window) -> f64| {
                        window.map_or("".into(), |w| percent(part(&w) / w.mean))
                    };
                    row.extend([share(|w| w.range), share(|w| w.slope_excursion)]);
                }
            }
            row
        };
        let caption = format!(
            "Convergence: the tracked figures of each round, and range and slope excursion of the \
             {} rounds that end with it, in percent of their mean; * the measurement window",
            limits.window
        );
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        answer.table(&caption, &columns, (0..self.rounds).map(row).collect());
    }
}
