//! The knee: the depth beyond which more depth costs more latency than it gains throughput.

mod beyond;
mod depths;
mod limit;
mod model;
mod saturation;

use super::gate::{self, Ranking};
use super::words::{self, lines, nothing, of_line, runs};
use super::{Answer, Measure, Point, StageFacts};
use iosonde_model::plan::chance::mix;
use iosonde_model::plan::design;
use iosonde_model::spec::experiment::Parameter;
use iosonde_model::units::count;
use iosonde_stats::knee::{self, Knee, Level, Side, State};

/// Finds the knee of each line of the sweep.
pub(super) fn analyse(facts: &StageFacts, _before: &[StageFacts]) -> Answer {
    let Some(axis) = axis_of(facts) else {
        return nothing("No axis has numeric levels, so there is no knee.");
    };
    let lines = lines(facts, axis);
    if lines.is_empty() {
        return nothing("No run can be used, so there is no knee.");
    }
    let mut answer = Answer::default();
    for (name, points) in &lines {
        let line = Line { name, axis, points, lines: lines.len(), per_level: None };
        let line = Line { per_level: line.per_level(facts), ..line };
        line.report(&mut answer, facts);
    }
    answer
}

/// The axis of the sweep: the first that sets the queue depth, else the first numeric one.
fn axis_of(facts: &StageFacts) -> Option<&str> {
    let levels = |axis: &str| -> Vec<&design::Level> {
        facts.points.iter().filter_map(|point| point.level(axis)).collect()
    };
    let names = || facts.stage.axes.iter().map(|axis| axis.name.as_str());
    let is_depth = |what: &Parameter| [Parameter::Iodepth, Parameter::Numjobs].contains(what);
    let numbers = |axis: &&str| {
        let levels = levels(axis);
        !levels.is_empty() && levels.iter().all(|level| level.value.is_some())
    };
    let depths = |axis: &&str| {
        levels(axis).iter().all(|level| level.set.iter().any(|(what, _)| is_depth(what)))
    };
    names().filter(numbers).find(depths).or_else(|| names().find(numbers))
}

/// A sweep along one axis.
struct Line<'a> {
    name: &'a str,
    axis: &'a str,
    points: &'a [&'a Point],
    lines: usize,
    /// Requests in flight per unit of the axis: in a sweep of depths, the number of jobs. `None` if
    /// it differs between levels, so that the axis does not count requests.
    per_level: Option<f64>,
}

impl Line<'_> {
    fn report(&self, answer: &mut Answer, facts: &StageFacts) {
        let seed = mix(facts.laid_out.order_seed);
        let levels: Vec<Level> = self.points.iter().filter_map(|point| self.level(point)).collect();
        let knee = self.in_levels(knee::knee(&levels, seed));
        if !self.is_burst(answer) {
            self.place(answer, facts, &knee);
            self.companions(answer, &knee, &levels);
            self.saturation(answer);
            let is_held_back = gate::withheld(self.points).is_some();
            if let Some(per_level) = self.per_level.filter(|_| !is_held_back) {
                self.queue(answer, &levels, per_level, seed);
            }
        }
        self.littles_law(answer);
        self.reached(answer, facts);
        answer.details[self.key("knee")] = serde_json::to_value(knee).unwrap_or_default();
    }

    /// Converts requests in flight to levels of the axis, which a user can set.
    fn in_levels(&self, knee: Knee) -> Knee {
        if let Some(per_level) = self.per_level {
            return knee.per(per_level);
        }
        // Without a number of requests in flight there is no N* to compare with the knee.
        let is_blunt = knee.state == State::NoSharpKnee;
        let state = if is_blunt { State::Found } else { knee.state };
        Knee { state, asymptotes_cross: None, asymptotes_interval: None, ..knee }
    }

    fn per_level(&self, facts: &StageFacts) -> Option<f64> {
        let of = |point: &&Point| Some(facts.depth(point) / point.at(self.axis)?);
        let all: Vec<f64> = self.points.iter().map(of).collect::<Option<_>>()?;
        let first = all.first().copied().filter(|per| per.is_finite() && *per > 0.0)?;
        all.iter().all(|per| (per / first - 1.0).abs() < 1e-9).then_some(first)
    }

    fn level(&self, point: &Point) -> Option<Level> {
        words::level(point, point.at(self.axis)? * self.per_level.unwrap_or(1.0))
    }

    fn key(&self, name: &str) -> String {
        of_line(name, self.name, self.lines)
    }

    fn setting(&self, value: f64) -> String {
        let of = |point: &&&Point| point.at(self.axis) == Some(value);
        let label = self.points.iter().find(of).map(|point| self.label(point));
        format!("{} {}", self.axis, label.unwrap_or_else(|| count::setting(value)))
    }

    /// The label of a level, which includes its unit; a plain number is formatted.
    fn label(&self, point: &Point) -> String {
        let Some(level) = point.level(self.axis) else { return point.name() };
        level.label.parse().map_or_else(|_| level.label.clone(), count::setting)
    }

    /// Settings of the axis: `iodepth 8 to 32`.
    fn settings(&self, of: &[&Point]) -> String {
        format!("{} {}", self.axis, gate::listed(self.points, of, &|point| self.label(point)))
    }

    /// Reports the place of the knee, as far as the runs show it: the level whose throughput over
    /// latency is shown to be larger than that of every other level.
    fn place(&self, answer: &mut Answer, facts: &StageFacts, knee: &Knee) {
        let levels: Vec<f64> = self.points.iter().filter_map(|point| point.at(self.axis)).collect();
        let (first, last) = match levels.as_slice() {
            [first, .., last] => (*first, *last),
            _ => {
                answer.say(format!("{}: a single level is not a sweep.", self.name));
                return;
            }
        };
        // Without a knee, later stages use the end of the sweep.
        let end = match knee.state {
            State::TooFewLevels => {
                answer.say(format!(
                    "{}: {} levels are too few for a knee; {} are needed.",
                    self.name,
                    levels.len(),
                    knee::FEWEST_LEVELS
                ));
                return;
            }
            State::OutsideSweep(Side::First) => Some(first),
            State::OutsideSweep(Side::Last) => Some(last),
            State::Found | State::NoSharpKnee => None,
        };
        if let Some(end) = end {
            answer.find(&self.key("knee"), end);
            answer.find(&self.key("knee_outside"), 1.0);
        }
        if let Some(at) = knee.knee {
            answer.find_between(&self.key("knee"), at, knee.interval);
        }
        if self.is_limited(answer, facts) {
            return;
        }
        let ranking = gate::rank(self.points.iter().map(|p| (*p, p.power())).collect());
        let undecided = |answer: &mut Answer, words: String| {
            answer.find(&self.key("knee_undecided"), 1.0);
            answer.say(format!("{}: {words}", self.name));
        };
        match ranking {
            Some(Ranking::Best(point)) => {
                let at = point.at(self.axis).unwrap_or(first);
                // The ranking uses means, the search medians: they may disagree.
                let agrees = match end {
                    Some(end) => end == at,
                    None => at != first && at != last,
                };
                match agrees {
                    true => self.decided(answer, facts, knee, point),
                    false => undecided(
                        answer,
                        "the place of the knee is not decidable yet: mean and median of the runs \
                         disagree; more repeats needed."
                            .into(),
                    ),
                }
            }
            Some(Ranking::Ties { points, more, .. }) => undecided(
                answer,
                format!(
                    "the knee is one of {}: their throughput over latency is not shown to \
                     differ{}.",
                    self.settings(&points),
                    gate::advice(more)
                ),
            ),
            Some(Ranking::Undecided(why)) => {
                undecided(answer, format!("the place of the knee is {why}."));
            }
            None => {}
        }
    }

    fn decided(&self, answer: &mut Answer, facts: &StageFacts, knee: &Knee, point: &Point) {
        let does = format!(
            "{} IOPS at {}",
            point.formatted(Measure::Iops),
            point.formatted(Measure::Mean)
        );
        let at = self.setting(point.at(self.axis).unwrap_or_default());
        if let Some(limit) = self.limit_near(facts, point) {
            self.say_limit(answer, point, &limit);
            return;
        }
        if let Some(fall) = self.falls_within(facts, point) {
            answer.find(&self.key("knee_undecided"), 1.0);
            answer.say(format!("{}: {fall}.", self.name));
            return;
        }
        let runs = words::interval(knee.interval, runs(self.points), count::significant);
        match knee.state {
            State::OutsideSweep(Side::First) => answer.say(format!(
                "{}: the knee is outside the sweep, at or below {at} ({does}). Set {at}{}.",
                self.name,
                self.beyond(point)
            )),
            State::OutsideSweep(Side::Last) => answer.say(format!(
                "{}: the knee is outside the sweep, at or beyond {at} ({does}): throughput still \
                 grows faster than latency there; extend the sweep.",
                self.name
            )),
            State::NoSharpKnee => {
                answer.find(&self.key("no_sharp_knee"), 1.0);
                let cross = knee.asymptotes_cross.map_or("n/a".into(), |at| self.setting(at));
                answer.say(format!(
                    "{}: there is no sharp knee: throughput over latency is largest at \
                     {at}{runs}, but the asymptotes cross at {cross}. Throughput flattens \
                     gradually; read the curve.",
                    self.name,
                ));
            }
            State::Found | State::TooFewLevels => {
                let advice = point.at(self.axis).unwrap_or_default();
                answer.find(&self.key("advised"), advice);
                let place = knee.knee.map_or(at.clone(), |at| self.setting(at));
                answer.say(format!(
                    "{}: the knee is at {place}{runs}; at {at} it does {does}. Set {at}{}.",
                    self.name,
                    self.beyond(point)
                ));
            }
        }
    }

    fn companions(&self, answer: &mut Answer, knee: &Knee, levels: &[Level]) {
        if let Some(cross) = knee.asymptotes_cross {
            answer.find_between(&self.key("n_star"), cross, knee.asymptotes_interval);
        }
        let Some((iops, point)) = gate::highest(self.points, Measure::Iops) else { return };
        answer.find(&self.key("best_iops"), iops);
        let figures = |point: &Point| {
            let spread = point.figure(Measure::Iops);
            format!(
                "{} IOPS, {}, at {} on average ({})",
                point.formatted(Measure::Iops),
                point.formatted(Measure::Bandwidth),
                point.formatted(Measure::Mean),
                spread.map_or(String::new(), |spread| spread.basis()),
            )
        };
        let name = self.name;
        match gate::ranking(self.points, Measure::Iops) {
            Some(Ranking::Best(best)) => {
                let at = best.at(self.axis).unwrap_or_default();
                answer.find(&self.key("best_at"), at);
                let figures = figures(best);
                let setting = self.setting(at);
                answer.say(format!("{name}: highest throughput at {setting}: {figures}."));
            }
            // Of tied levels, the lowest is reported too: deeper ones only have more latency.
            Some(Ranking::Ties { points, .. }) => {
                let lowest = points.first().copied().unwrap_or(point);
                let beside = if lowest.cell == point.cell {
                    String::new()
                } else {
                    format!(
                        " at {}; {} IOPS at {}",
                        self.settings(&[point]),
                        lowest.formatted(Measure::Iops),
                        lowest.formatted(Measure::Mean)
                    )
                };
                answer.say(format!(
                    "{name}: highest throughput at {} (not shown to differ): {}{beside} at {}, \
                     the lowest of these.",
                    self.settings(&points),
                    figures(point),
                    self.settings(&[lowest])
                ));
            }
            Some(Ranking::Undecided(why)) => answer.say(format!(
                "{name}: which level has the highest throughput is {why}; the highest mean so far \
                 is {} at {}.",
                figures(point),
                self.settings(&[point])
            )),
            None => {
                answer.say(format!("{name}: {} at {}.", figures(point), self.settings(&[point])));
            }
        }
        if self.per_level.is_some()
            && let Some(first) = levels.first().filter(|level| level.n == 1.0)
            && let Some(latency) = iosonde_stats::ratio::median(&first.latencies)
        {
            answer.find(&self.key("latency_at_1_ns"), latency * 1e9);
        }
    }
}

#[cfg(test)]
mod tests;
