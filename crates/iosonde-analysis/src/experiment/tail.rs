//! How long the slowest requests take, and which percentiles the number of requests supports.

use super::words::{self, Times, lines, nothing, of_line};
use super::{Answer, Measure, Point, Spread, StageFacts, gate};
use crate::figures::reason;
use iosonde_model::units::count;

/// The figures reported for each level.
const TAIL: [f64; 5] = [0.5, 0.95, 0.99, 0.999, 0.9999];
/// Ratios of the growth of a percentile to that of the mean within which they grow alike.
const ALIKE: (f64, f64) = (0.8, 1.25);

/// A level: one value per run, because the run is the replicate. Requests of a run are not
/// replicates: an interval over all of them is far too narrow (method 2.1, 2.6).
struct Level<'a> {
    point: &'a Point,
    label: String,
    at: f64,
}

/// Reports mean and percentiles by level, and their growth.
pub(super) fn analyse(facts: &StageFacts, before: &[StageFacts]) -> Answer {
    let is_numeric = |name: &str| facts.points.iter().any(|point| point.at(name).is_some());
    let Some(axis) = facts.stage.axes.iter().find(|axis| is_numeric(&axis.name)) else {
        return nothing(
            "No axis has numeric levels, so the growth of the tail cannot be computed.",
        );
    };
    let lines = lines(facts, &axis.name);
    if lines.is_empty() {
        return nothing("No run can be used, so there is no tail.");
    }
    let mut answer = Answer::default();
    let mut rows = Vec::new();
    for (name, points) in &lines {
        let ahead = if lines.len() == 1 { String::new() } else { format!("{name}, ") };
        let level = |point: &&Point| -> Option<Level> {
            let (at, label) = (point.at(&axis.name)?, &point.level(&axis.name)?.label);
            let point = facts.points.iter().find(|each| each.cell == point.cell)?;
            Some(Level { point, label: format!("{ahead}{} {label}", axis.name), at })
        };
        let levels: Vec<Level> = points.iter().filter_map(level).collect();
        for level in &levels {
            one(&mut answer, level);
            rows.push(row(level));
        }
        if let [first, .., last] = levels.as_slice() {
            growth(&mut answer, first, last, &|key| of_line(key, name, lines.len()));
        }
    }
    outside(&mut answer, &axis.from, before);
    let columns = ["level", "runs", "I/Os", "mean", "p50", "p95", "p99", "p99.9", "p99.99"];
    let caption = "Latencies: mean ± sd over the runs, and the 95 % interval on logarithms";
    answer.table(caption, &columns, rows);
    answer
}

fn one(answer: &mut Answer, level: &Level<'_>) {
    let tail = [Measure::Quantile(0.95), Measure::Quantile(0.99), Measure::Quantile(0.999)];
    let tail =
        tail.map(|measure| format!("{} {}", measure.title(), level.point.formatted(measure)));
    let mean = level.point.figure(Measure::Mean);
    let basis = mean.as_ref().map_or("n/a".into(), |spread| spread.basis());
    answer.say(format!(
        "{}: {} on average, {} ({basis}).",
        level.label,
        level.point.formatted(Measure::Mean),
        tail.join(", ")
    ));
    let key = words::slug(&level.label);
    if let Some(mean) = mean {
        answer.find_spread(&format!("{key}_mean_ns"), &mean);
    }
    for q in TAIL {
        let word = Measure::Quantile(q).word();
        if let Some(spread) = level.point.figure(Measure::Quantile(q)) {
            answer.find_spread(&format!("{key}_{word}_ns"), &spread);
            continue;
        }
        // The run with the fewest requests lacks it.
        let runs = level.point.runs.iter();
        let fewest = runs.min_by_key(|run| run.all.total.ops);
        let quantile = fewest.and_then(|run| run.all.total.latency.quantile(q));
        if let Some(reason) = quantile.and_then(reason) {
            answer.say(format!("{}: {word} cannot be reported: a run {reason}.", level.label));
        }
    }
}

/// Reports the growth from the lowest to the highest level, and whether the tail grows faster than
/// the mean.
fn growth(answer: &mut Answer, first: &Level<'_>, last: &Level<'_>, key: &dyn Fn(&str) -> String) {
    let grows = |measure: Measure| Times::of(last.point, first.point, measure);
    let Some(means) = grows(Measure::Mean) else { return };
    answer.find_between(&key("mean_growth"), means.times, means.interval);
    let mut parts = vec![format!("the mean {}", means.formatted())];
    let mut far: Option<f64> = None;
    for q in TAIL {
        let Some(times) = grows(Measure::Quantile(q)) else { continue };
        let word = Measure::Quantile(q).word();
        answer.find_between(&key(&format!("{word}_growth")), times.times, times.interval);
        parts.push(format!("{word} {}", times.formatted()));
        far = Some(q);
    }
    let depth = count::setting(last.at / first.at);
    answer.say(format!(
        "From {} to {} ({depth} times the depth) the latencies grow: {}.",
        first.label,
        last.label,
        parts.join(", ")
    ));
    let Some(q) = far else { return };
    let word = Measure::Quantile(q).word();
    if let Some(why) = gate::withheld(&[first.point, last.point]) {
        answer.say(format!("Whether {word} grows faster than the mean is {why}."));
        return;
    }
    // The ratio of the percentile to the mean in each run.
    let over_mean = |level: &Level<'_>| -> Vec<f64> {
        let of = |measure| level.point.per_run(measure);
        of(Measure::Quantile(q)).iter().zip(of(Measure::Mean)).map(|(q, mean)| q / mean).collect()
    };
    let Some(times) = Times::of_values(&over_mean(last), &over_mean(first)) else { return };
    let figures = format!("{word} over the mean grows {}", times.formatted());
    let (low, high) = ALIKE;
    answer.say(if times.times > high && times.differ() {
        format!(
            "The tail grows faster than the mean ({figures}): to keep a target for {word}, use a \
             lower depth than the mean suggests."
        )
    } else if times.times < low && times.differ() {
        format!(
            "{word} grows less than the mean ({figures}): the slowest requests were already slow \
             at low depth, for reasons other than queueing."
        )
    } else if gate::side(&times, low, high) == Some(gate::Side::Within) {
        format!(
            "The tail grows with the mean ({figures}): queueing, not rare stalls, determines \
             {word}."
        )
    } else {
        format!("Whether {word} grows faster than the mean is not decidable yet ({figures}).")
    });
}

/// Notes that the depths refer to no knee, or to one that is undecided or not sharp.
fn outside(answer: &mut Answer, from: &str, before: &[StageFacts]) {
    let Some((stage, figure)) = from.split_once('.') else { return };
    let Some(source) = before.iter().find(|facts| facts.stage.name == stage) else { return };
    // With several lines, the name of the figure ends in the name of the line.
    let (word, line) = figure.split_once('-').map_or((figure, None), |(w, line)| (w, Some(line)));
    let of_line = |word: &str| line.map_or(word.to_owned(), |line| format!("{word}-{line}"));
    if source.found(&of_line(&format!("{word}_outside"))).is_some() {
        answer.say(format!(
            "The depths refer to the end of the sweep of {stage}, because its knee lies outside it."
        ));
    }
    let is_open = word == "knee" && source.found(&of_line("knee_undecided")).is_some();
    if is_open {
        answer.say(format!(
            "The depths refer to the likeliest knee of {stage}, which its runs do not decide: read \
             them as points on its curve."
        ));
    }
    if word == "knee" && !is_open && source.found(&of_line("no_sharp_knee")).is_some() {
        answer.say(format!(
            "The depths refer to a knee of {stage} that is not sharp: read them as points on its \
             curve."
        ));
    }
}

fn row(level: &Level<'_>) -> Vec<String> {
    let formatted = |measure: Measure| {
        let spread = level.point.figure(measure);
        spread.map_or("n/a".into(), |spread: Spread| match spread.interval {
            Some((low, high)) => {
                format!(
                    "{} ({} to {})",
                    spread.formatted(measure),
                    measure.formatted(low),
                    measure.formatted(high)
                )
            }
            None => spread.formatted(measure),
        })
    };
    let ops = level.point.runs.iter().map(|run| run.all.total.ops).sum();
    let ahead = [level.label.clone(), level.point.runs.len().to_string(), count::thousands(ops)];
    let tail = TAIL.map(|q| formatted(Measure::Quantile(q)));
    ahead.into_iter().chain([formatted(Measure::Mean)]).chain(tail).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::testing::{at, of_runs, stage};
    use super::*;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::plan::design::Found;

    fn levels(iops: f64) -> StageFacts {
        let found = Found::from([("queue-depth.knee".to_owned(), 8.0)]);
        of_runs(&stage("tail-latency", "tail-latency"), &found, &[], |cell, repeat| {
            let depth = at(cell, "iodepth") as u32;
            run_of(&[Load { depth, iops, seed: u64::from(repeat) + 1, ..Load::default() }])
        })
    }

    #[test]
    fn latencies_of_a_saturated_device_grow_with_the_depth() {
        let facts = levels(20_000.0);
        assert!((facts.found("mean_growth").unwrap() - 4.0).abs() < 0.2);
        assert!(facts.found("iodepth-16_p99.99_ns").is_some(), "600,000 I/Os have a p99.99");
        let said = facts.answers[0].1.sentences.join("\n");
        assert!(said.contains("From iodepth 4 to iodepth 16"), "{said}");
    }

    #[test]
    fn the_interval_of_a_percentile_is_that_over_runs_and_not_over_requests() {
        let found = Found::from([("queue-depth.knee".to_owned(), 8.0)]);
        let facts = of_runs(&stage("tail-latency", "tail-latency"), &found, &[], |cell, repeat| {
            let depth = at(cell, "iodepth") as u32;
            let iops = 20_000.0 * (1.0 + 0.1 * f64::from(repeat));
            run_of(&[Load { depth, iops, noise: 0.0, ..Load::default() }])
        });
        let of = |name: &str| facts.found(&format!("iodepth-16_p99_ns{name}")).unwrap();
        assert!(of("_low") < of("") && of("") < of("_high"));
        assert!(of("_high") / of("_low") > 1.3, "runs differ by 20 %, 400,000 I/Os do not count");
    }

    #[test]
    fn depths_on_the_end_of_one_line_of_several_are_reported() {
        let mut source = levels(40.0);
        source.stage.name = "sweep".into();
        source.answers[0].1.find("knee_outside-random-read", 1.0);
        let mut answer = Answer::default();
        outside(&mut answer, "sweep.knee-random-read", std::slice::from_ref(&source));
        assert!(answer.sentences[0].contains("end of the sweep"), "{:?}", answer.sentences);
        let mut other = Answer::default();
        outside(&mut other, "sweep.knee-random-write", &[source]);
        assert!(other.sentences.is_empty());
    }

    #[test]
    fn a_percentile_without_enough_requests_is_not_reported() {
        let facts = levels(40.0);
        assert_eq!(facts.found("iodepth-4_p99.99_ns"), None);
        let said = facts.answers[0].1.sentences.join("\n");
        assert!(said.contains("p99.99 cannot be reported"), "{said}");
    }
}
