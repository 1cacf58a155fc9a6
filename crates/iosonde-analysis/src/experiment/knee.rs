//! The knee: the depth beyond which more depth costs more latency than it gains throughput.

mod beyond;
mod limit;
mod model;
mod saturation;

use super::gate::{self, Ranking};
use super::words::{self, lines, nothing, of_line, runs};
use super::{Answer, Measure, Point, StageFacts};
use crate::finding::{Severity, Strength};
use iosonde_model::plan::chance::mix;
use iosonde_model::plan::design;
use iosonde_model::spec::Direction;
use iosonde_model::spec::experiment::Parameter;
use iosonde_model::units::count;
use iosonde_stats::knee::{self, Knee, Level, Side, State};

/// Difference of mean queue depth and X R at or above which Little's law is reported as violated;
/// runs whose ends alone may make as much are not held against it.
const LITTLE_WITHIN: f64 = 0.05;
/// Share of the requested depth below which it was not reached.
const REACHED_FROM: f64 = 0.95;

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
    /// Requests in flight per unit of the axis: the number of jobs in a sweep of depths. `None` if
    /// that differs between levels, so that the axis is not a number of requests.
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
        self.consistency(answer, facts);
        answer.details[self.key("knee")] = serde_json::to_value(knee).unwrap_or_default();
    }

    /// Converts requests in flight to levels of the axis, which are what a user can set.
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
        let of = |point: &&Point| Some(self.requested(point, facts)? / point.at(self.axis)?);
        let all: Vec<f64> = self.points.iter().map(of).collect::<Option<_>>()?;
        let first = all.first().copied().filter(|per| per.is_finite() && *per > 0.0)?;
        all.iter().all(|per| (per / first - 1.0).abs() < 1e-9).then_some(first)
    }

    /// Requested queue depth of all threads together.
    fn requested(&self, point: &Point, facts: &StageFacts) -> Option<f64> {
        let cell = facts.laid_out.cells.get(point.cell)?;
        let of = |parameter| facts.parameter(cell, parameter).and_then(|value| value.number());
        let depth = of(Parameter::Iodepth).unwrap_or(1.0) * of(Parameter::Numjobs).unwrap_or(1.0);
        Some(depth.max(1.0))
    }

    fn level(&self, point: &Point) -> Option<Level> {
        let rates = point.values(Measure::Iops, Direction::Total);
        let latencies = point.values(Measure::Mean, Direction::Total);
        let seconds: Vec<f64> = latencies.iter().map(|ns| ns / 1e9).collect();
        (!rates.is_empty()).then_some(())?;
        let n = point.at(self.axis)? * self.per_level.unwrap_or(1.0);
        Some(Level { n, rates, latencies: seconds })
    }

    fn key(&self, name: &str) -> String {
        of_line(name, self.name, self.lines)
    }

    fn setting(&self, value: f64) -> String {
        let of = |point: &&&Point| point.at(self.axis) == Some(value);
        let label = self.points.iter().find(of).map(|point| self.label(point));
        format!("{} {}", self.axis, label.unwrap_or_else(|| count::setting(value)))
    }

    /// A level with a unit has it in its label.
    fn label(&self, point: &Point) -> String {
        let Some(level) = point.level(self.axis) else { return point.name() };
        level.label.parse().map_or_else(|_| level.label.clone(), count::setting)
    }

    /// Settings of the axis: `iodepth 8 to 32`.
    fn settings(&self, of: &[&Point]) -> String {
        format!("{} {}", self.axis, gate::listed(self.points, of, &|point| self.label(point)))
    }

    /// Where the knee is, as far as these runs show it: at the level whose throughput over latency
    /// is shown to be larger than that of every other.
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
                // The ranking is of means, the search of medians: they may disagree.
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
                "{}: the knee is outside the sweep, at or below {at} ({does}){}.",
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
        let best =
            self.points.iter().filter_map(|point| Some((point.mean(Measure::Iops)?, *point)));
        let Some((iops, point)) = best.max_by(|a, b| a.0.total_cmp(&b.0)) else { return };
        answer.find(&self.key("best_iops"), iops);
        let figures = |point: &Point| {
            let spread = point.spread(Measure::Iops, Direction::Total);
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
            // Of equals also the one that needs least: deeper ones only wait longer.
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

    /// Little's law in every row, and whether the requested depth was reached.
    fn consistency(&self, answer: &mut Answer, facts: &StageFacts) {
        let mut worst: f64 = 0.0;
        let mut rows = 0;
        let mut missed: Vec<String> = Vec::new();
        for point in self.points {
            for figures in &point.runs {
                let all = &figures.all;
                let Some(mean) = all.total.latency.mean_ns else { continue };
                // The requests in flight as the run begins and ends belong to it in part only.
                let in_part = 2.0 * all.depth_seen / all.total.ops as f64;
                if all.depth_seen > 0.0 && in_part < LITTLE_WITHIN {
                    rows += 1;
                    worst = worst.max((all.total.iops * mean / 1e9 / all.depth_seen - 1.0).abs());
                }
            }
            let (Some(seen), Some(requested)) =
                (point.mean(Measure::Depth), self.requested(point, facts))
            else {
                continue;
            };
            if seen < REACHED_FROM * requested && !gate::pauses(facts, point) {
                missed.push(format!("{} of {requested}", count::significant(seen)));
            }
        }
        if rows == 0 {
            return;
        }
        answer.find(&self.key("little_residual"), worst);
        if worst > LITTLE_WITHIN {
            answer.mind(
                "little",
                "mean queue depth and throughput times latency",
                Strength::Proven,
                Severity::LowConfidence,
                format!(
                    "{}: mean queue depth and throughput times latency differ by up to {}: the \
                     latencies or the depths of these runs are wrong.",
                    self.name,
                    count::percent(worst)
                ),
            );
        } else {
            let runs: usize = self.points.iter().map(|point| point.runs.len()).sum();
            let which = match rows == runs {
                true => format!("all {runs} runs"),
                false => format!("the {rows} of {runs} runs that are long enough to show it"),
            };
            answer.say(format!(
                "{}: Little's law holds in {which}, within {}.",
                self.name,
                count::percent(worst)
            ));
        }
        if !missed.is_empty() {
            answer.mind(
                "depth_not_applied",
                "a queue depth that was not reached",
                Strength::Proven,
                Severity::Warning,
                format!(
                    "{}: the requested queue depth was not reached: {}. These levels are labels, \
                     not depths.",
                    self.name,
                    missed.join(", ")
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::TrialFigures;
    use super::super::testing::{at, facts, noise, stage, stage_of};
    use super::*;
    use crate::finding::Finding;
    use iosonde_fixtures::Load;

    fn sweep(shape: fn(f64) -> f64) -> StageFacts {
        let mut noise = noise(11, 0.01);
        facts(&stage("queue-depth", "queue-depth"), |cell, _| {
            let depth = at(cell, "iodepth");
            Load { depth: depth as u32, iops: shape(depth) * noise(), ..Load::default() }
        })
    }

    fn said(facts: &StageFacts) -> String {
        facts.answers[0].1.sentences.join("\n")
    }

    #[test]
    fn the_knee_of_eight_servers_is_found_and_reported() {
        let facts = sweep(|depth| 2_000.0 * depth.min(8.0));
        let knee = facts.found("knee").unwrap();
        assert!((knee / 8.0 - 1.0).abs() < 0.1, "{knee}");
        assert!(facts.found("knee_min").unwrap() <= 8.1 && facts.found("knee_max").unwrap() >= 7.9);
        assert_eq!(facts.found("advised"), Some(8.0));
        assert!((facts.found("n_star").unwrap() / 8.0 - 1.0).abs() < 0.1);
        assert_eq!(facts.found("saturation"), Some(8.0));
        assert_eq!(facts.found("enough"), Some(8.0));
        assert!(said(&facts).contains("Set iodepth 8"), "{}", said(&facts));
        assert!(said(&facts).contains("Little's law holds"), "{}", said(&facts));
        assert_eq!(facts.answers[0].1.warnings, Vec::new());
    }

    #[test]
    fn wrong_depths_are_found_where_runs_are_long_enough_to_show_them() {
        let violated = |shape| {
            let mut facts = sweep(shape);
            let runs = facts.points.iter_mut().flat_map(|point| &mut point.runs);
            runs.for_each(|figures| figures.all.depth_seen *= 1.1);
            analyse(&facts, &[]).warnings.iter().any(|finding| finding.code == "little")
        };
        assert!(violated(|depth| 2_000.0 * depth.min(8.0)));
        // One request in flight at each end of thirty is a fifteenth of them.
        assert!(!violated(|_| 1.0));
    }

    #[test]
    fn what_more_depth_adds_is_said_with_its_numbers() {
        // A third more at twice the knee, and no more beyond.
        let more = sweep(|depth| if depth < 4.0 { 3_330.0 * depth.min(2.0) } else { 9_000.0 });
        assert_eq!(more.found("advised"), Some(2.0), "{}", said(&more));
        let words = said(&more);
        let adds = "Set iodepth 2 for the most throughput per latency: iodepth 4 adds 3";
        assert!(words.contains(adds) && words.contains(" for 1.4"), "{words}");
        assert!(!words.contains("rather than throughput"), "{words}");
        // A twentieth more, as shown beside the highest throughput.
        let little = |depth: f64| if depth < 8.0 { 5_000.0 * depth.min(4.0) } else { 20_900.0 };
        let words = said(&noisy(1, 0.002, little));
        let adds = "Set iodepth 4 for the most throughput per latency: iodepth 8 adds 4.";
        assert!(words.contains(adds), "{words}");
        assert!(!words.contains("rather than throughput"), "{words}");
        let none = said(&sweep(|depth| 2_000.0 * depth.min(8.0)));
        assert!(none.contains("Set iodepth 8: more adds latency rather than"), "{none}");
    }

    #[test]
    fn no_queueing_is_said_only_where_latencies_show_none() {
        // Beside a neighbour: at depth 4 latency is 3 % more than at depth 1.
        let early = |depth: f64| 2_000.0 * depth.min(5.3) * if depth == 4.0 { 0.97 } else { 1.0 };
        let words = said(&noisy(1, 0.002, early));
        assert!(words.contains("a rise to 10,6"), "{words}");
        let queueing = "with queueing before its end: at iodepth 4 latency is 1.03 times (95 % 1.0";
        assert!(words.contains(queueing) && !words.contains("no queueing"), "{words}");
        let none = |depth: f64| 2_000.0 * depth.min(8.0);
        let words = said(&noisy(1, 0.002, none));
        assert!(words.contains("none beyond: no queueing before saturation (l"), "{words}");
        // Runs that differ by a tenth show neither.
        let words = said(&noisy(3, 0.08, none));
        assert!(words.contains("a linear rise to 1") && !words.contains("queueing b"), "{words}");
    }

    /// Runs of 30 s whose counts scatter as those of a limiter, or of a queue.
    fn bursting(scatter: f64, peak: f64) -> StageFacts {
        let mut noise = noise(7, scatter);
        facts(&stage("queue-depth", "queue-depth"), |cell, _| {
            let depth = at(cell, "iodepth");
            let rate = [3_330.0, peak][usize::from(depth > 1.0)];
            let rate = if depth > 2.0 { 6_000.0 } else { rate };
            Load { depth: depth as u32, iops: rate * noise(), noise: 0.0, ..Load::default() }
        })
    }

    #[test]
    fn levels_of_one_exact_rate_below_a_peak_are_a_limiter_and_a_queue_is_not() {
        let limited = bursting(0.000_1, 6_660.0);
        let words = said(&limited);
        assert!(words.contains("6,000 IOPS is that of a limiter"), "{words}");
        assert!(words.contains("iodepth 2 did 6,660"), "{words}");
        for wrong in ["highest throughput", "falls by", "Set ", "lowest with"] {
            assert!(!words.contains(wrong), "{wrong}: {words}");
        }
        assert_eq!(limited.found("advised"), None);
        let queue = said(&bursting(0.005, 6_660.0));
        assert!(queue.contains("throughput falls by") && !queue.contains("limiter"), "{queue}");
    }

    #[test]
    fn levels_of_one_exact_rate_are_a_limit_unless_their_latencies_are_exact_too() {
        let mut flat = bursting(0.000_1, 6_000.0);
        let words = said(&flat);
        assert!(words.contains("stops growing at iodepth 2 (6,000 "), "{words}");
        assert!(words.contains("as of a rate limiter or a link: iodepth 2 to 256 have"), "{words}");
        assert!(!words.contains("Set ") && flat.found("advised").is_none(), "{words}");
        let queue = said(&bursting(0.005, 6_000.0));
        assert!(queue.contains("Set iodepth 2") && !queue.contains("limit"), "{queue}");
        let runs = flat.points.iter_mut().flat_map(|point| &mut point.runs);
        runs.for_each(|run| run.all.total.latency.std_dev_ns = Some(0.0));
        let constant = analyse(&flat, &[]).sentences.join("\n");
        assert!(constant.contains("Set iodepth 2") && !constant.contains("limit"), "{constant}");
    }

    #[test]
    fn what_is_reported_is_a_level_of_the_axis_whatever_the_jobs_and_the_order_of_the_file() {
        let stage = stage_of(
            "repeats = 3\nset = { numjobs = 4 }\nanalysis = [\"knee\"]\n[[stage.axis]]\nname = \
             \"rw\"\nvalues = [\"randread\"]\n[[stage.axis]]\nname = \"iodepth\"\nvalues = [32, 1, \
             8, 2, 64, 16, 4]\n",
        );
        let mut noise = noise(5, 0.01);
        let facts = facts(&stage, |cell, _| {
            let depth = 4.0 * at(cell, "iodepth");
            Load { depth: depth as u32, iops: 500.0 * depth.min(32.0) * noise(), ..Load::default() }
        });
        let near = |name: &str| (facts.found(name).unwrap() / 8.0 - 1.0).abs() < 0.1;
        assert!(near("knee"), "{}", said(&facts));
        assert_eq!(facts.found("advised"), Some(8.0));
        assert_eq!(facts.found("saturation"), Some(8.0));
        assert_eq!(facts.found("enough"), Some(8.0));
        assert!(facts.found("knee_max").unwrap() < 12.0);
        assert!(facts.found("n_star").is_none(), "R(1) was not measured");
        assert!(said(&facts).contains("Set iodepth 8"), "{}", said(&facts));
    }

    #[test]
    fn depths_that_do_not_follow_the_axis_give_a_knee_over_the_axis() {
        let facts = sweep(|depth| 2_000.0 * depth.min(8.0));
        let points: Vec<&Point> = facts.points.iter().collect();
        let line = Line { name: "", axis: "iodepth", points: &points, lines: 1, per_level: None };
        let levels: Vec<Level> = points.iter().filter_map(|point| line.level(point)).collect();
        let knee = line.in_levels(knee::knee(&levels, 1));
        assert_eq!((knee.state, knee.asymptotes_cross), (State::Found, None));
    }

    #[test]
    fn a_straight_line_and_a_flat_one_have_no_knee_within() {
        let rising = sweep(|depth| 100.0 * depth);
        assert!(said(&rising).contains("outside the sweep, at or beyond iodepth 256"));
        assert_eq!(rising.found("knee_outside"), Some(1.0));
        assert_eq!(rising.found("advised"), None);
        let flat = sweep(|_| 4_000.0);
        assert!(
            said(&flat).contains("outside the sweep, at or below iodepth 1"),
            "{}",
            said(&flat)
        );
        assert_eq!(flat.found("enough"), Some(1.0));
        let words = said(&flat);
        assert!(words.contains(" IOPS from iodepth 1 on"), "{words}");
        assert!(words.contains("iodepth 256 does ") && !words.contains("a linear rise"), "{words}");
    }

    #[test]
    fn a_maximum_that_only_the_last_level_shows_is_not_stated() {
        // 300 servers: the last level is on the rise, or a little below it.
        for (below, seed) in [(1.0, 1), (1.0, 2), (0.97, 3), (0.97, 4)] {
            let mut noise = noise(seed, 0.003);
            let facts = facts(&stage("queue-depth", "queue-depth"), |cell, _| {
                let depth = at(cell, "iodepth");
                let share = if depth == 256.0 { below } else { 1.0 };
                let iops = 100.0 * depth * share * noise();
                Load { depth: depth as u32, iops, ..Load::default() }
            });
            let words = said(&facts);
            assert!(words.contains("it is not yet saturated at iodepth 256"), "{words}");
            assert!(words.contains("a linear rise, not saturated in this sweep"), "{words}");
        }
        // 200 servers: saturated somewhere between the last two levels.
        let words = said(&sweep(|depth| 1_111.0 * depth.min(200.0)));
        assert!(words.contains("throughput still grows at iodepth 256, less than the"), "{words}");
        assert!(words.contains("that bends before iodepth 256; its maximum is not"), "{words}");
        assert!(!words.contains("saturated") && !words.contains("none beyond"), "{words}");
    }

    #[test]
    fn throughput_that_falls_is_reported_and_one_that_does_not_is_not() {
        let falling = sweep(|n| 2_000.0 * n / (1.0 + 0.05 * (n - 1.0) + 0.002 * n * (n - 1.0)));
        assert!(falling.found("fall_share").unwrap() > 0.3, "{}", said(&falling));
        assert!(sweep(|depth| 2_000.0 * depth.min(8.0)).found("fall_share").is_none());
    }

    /// Runs that differ from each other by this much, by the numbers `seed` draws.
    fn noisy(seed: u64, relative: f64, shape: fn(f64) -> f64) -> StageFacts {
        let mut noise = noise(seed, relative);
        facts(&stage("queue-depth", "queue-depth"), |cell, _| {
            let depth = at(cell, "iodepth");
            Load { depth: depth as u32, iops: shape(depth) * noise(), ..Load::default() }
        })
    }

    #[test]
    fn of_ties_the_figures_are_those_of_the_highest_and_no_fall_is_named() {
        for seed in 1..30 {
            // Falls by a tenth at the last level, which three runs hardly show.
            let falling = |depth: f64| 2_000.0 * depth.min(8.0) - 6.25 * depth;
            let facts = noisy(seed, 0.04, falling);
            let said = said(&facts);
            let ties = said.lines().find(|line| line.contains("highest throughput at")).unwrap();
            let Some((_, figures)) = ties.split_once(" (not shown to differ): ") else {
                continue;
            };
            let points: Vec<&Point> = facts.points.iter().collect();
            let Some(Ranking::Ties { points, .. }) = gate::ranking(&points, Measure::Iops) else {
                panic!("{ties}")
            };
            let (lowest, iops) = (points[0], |point: &&Point| point.mean(Measure::Iops).unwrap());
            let highest = points.iter().copied().max_by(|a, b| iops(a).total_cmp(&iops(b)));
            let highest = highest.unwrap().formatted(Measure::Iops);
            assert!(figures.starts_with(&highest), "{highest}: {ties}");
            let end = format!("at iodepth {}, the lowest of these.", lowest.name());
            assert!(figures.ends_with(&end), "{ties}");
            let is_tied_to_last = ties.contains(" to 256 (not shown");
            assert!(!is_tied_to_last || !said.contains("throughput falls by"), "{seed}: {said}");
        }
    }

    #[test]
    fn a_limit_that_most_of_the_plateau_names_is_no_knee() {
        let mut facts = sweep(|depth| 2_000.0 * depth.min(8.0));
        // Not at the knee, nor at the level above it.
        let above = |trial: &&mut TrialFigures| facts.points[trial.cell].at("iodepth") > Some(16.0);
        for trial in facts.trials.iter_mut().filter(above) {
            trial.findings.push(Finding::new(
                "token_bucket",
                "a rate limiter at 16,000 IOPS",
                Strength::Supported,
                Severity::Limit,
                String::new(),
            ));
        }
        let answer = analyse(&facts, &[]);
        let first = &answer.sentences[0];
        assert!(first.contains("stops growing at iodepth 8 ("), "{first}");
        assert!(first.contains("because of a rate limiter at 16,000 IOPS"), "{first}");
        assert_eq!(answer.found.get("advised"), None);
    }

    #[test]
    fn a_level_whose_rate_falls_within_its_runs_is_no_knee() {
        let facts = facts(&stage("queue-depth", "queue-depth"), |cell, repeat| {
            let depth = at(cell, "iodepth");
            // A bucket of 20,000/s: at depth 2 a burst of a tenth more lasts for half of the run.
            let burst: fn(f64) -> f64 = |time| if time < 0.5 { 1.1 } else { 1.0 };
            let even: fn(f64) -> f64 = |_| 1.0;
            Load {
                depth: depth as u32,
                iops: (11_000.0 * depth).min(20_000.0),
                shape: if depth == 2.0 { burst } else { even },
                seed: u64::from(repeat) + 1,
                ..Load::default()
            }
        });
        let words = said(&facts);
        assert_eq!(facts.found("advised"), None, "{words}");
        assert!(
            words.contains("no knee of the storage") || words.contains("falls within"),
            "{words}"
        );
    }

    #[test]
    fn one_run_that_shows_the_limiter_holds_for_levels_of_the_same_rate() {
        let mut facts = sweep(|depth| 2_000.0 * depth.min(8.0));
        let limiter = Finding::new(
            "token_bucket",
            "a rate limiter at 16,000 IOPS",
            Strength::Supported,
            Severity::Limit,
            String::new(),
        );
        let trial = facts.trials.iter_mut().find(|trial| trial.cell == facts.points.len() - 1);
        trial.unwrap().findings.push(limiter.with("sustained_iops", 16_000.0));
        let answer = analyse(&facts, &[]);
        let first = &answer.sentences[0];
        assert!(first.contains("because of a rate limiter at 16,000 IOPS"), "{first}");
    }
}
