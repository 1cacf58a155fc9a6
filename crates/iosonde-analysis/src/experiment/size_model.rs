//! The size at which bandwidth rather than the number of requests becomes the limit.

use super::words::{self, Times, UNDECIDED, lines, nothing, of_line, runs};
use super::{Answer, Measure, Point, StageFacts, gate};
use crate::finding::{Severity, Strength};
use iosonde_model::plan::chance::mix;
use iosonde_model::units::{bytes, count, duration};
use iosonde_stats::size_model::{NoLine, Size, SizeModel};

/// The axis of sizes.
const AXIS: &str = "block-size";
/// Relative difference at or below which two lines count as equal.
const CONVERGED_WITHIN: f64 = 0.05;
/// Relative difference within which the rates of the smallest and the largest size are equal.
const SAME_WITHIN: f64 = 0.10;

/// A crossover more than this factor outside the measured sizes is an extrapolation, not reported.
const FAR: f64 = 2.0;

/// Fits a fixed cost plus transfer time over the block size to each line.
pub(super) fn analyse(facts: &StageFacts, _before: &[StageFacts]) -> Answer {
    let lines = lines(facts, AXIS);
    if lines.is_empty() {
        return nothing("No run can be used, so there is no curve over the block size.");
    }
    let mut answer = Answer::default();
    for (name, points) in &lines {
        let sizes: Vec<Size> = points.iter().filter_map(|point| of_point(point)).collect();
        match SizeModel::of_rates(&sizes, mix(facts.laid_out.order_seed)) {
            Ok(model) => fitted(&mut answer, name, points, &model, lines.len()),
            Err(reason) => answer.say(format!("{name}: {}", reason_of(reason, points))),
        }
    }
    if let [(one, first), (two, second)] = lines.as_slice() {
        converge(&mut answer, (one, first), (two, second));
    }
    answer
}

fn of_point(point: &Point) -> Option<Size> {
    let values = point.per_run(Measure::Iops);
    (!values.is_empty()).then_some(Size { bytes: point.at(AXIS)? as u64, values })
}

/// Why there is no line, and what the smallest and the largest size show about the reason.
fn reason_of(reason: NoLine, points: &[&Point]) -> String {
    if reason == NoLine::TooFewSizes {
        return "fewer than three sizes were measured, so nothing is fitted.".into();
    }
    let (Some(small), Some(large)) = (points.first(), points.last()) else {
        return "no size was measured.".into();
    };
    if let Some(why) = gate::withheld(points) {
        return format!("where IOPS give way to bandwidth is {why}.");
    }
    let [smallest, largest] = [small, large].map(|p| p.level(AXIS).map_or("n/a", |l| &l.label));
    let ratio = |measure| Times::of(large, small, measure);
    let is_same = |times: &Times| {
        gate::side(times, 1.0 - SAME_WITHIN, 1.0 + SAME_WITHIN) == Some(gate::Side::Within)
    };
    let share = format!("{:.0} %", SAME_WITHIN * 100.0);
    let advice = |times: Option<&Times>, what: &str, unit: &str| match times.is_some_and(is_same) {
        true => format!(", the same within {share}: only {what} counts, so report {unit}"),
        false => format!("; whether only {what} counts is {UNDECIDED}"),
    };
    let formatted = |times: Option<&Times>| times.map_or("n/a".into(), Times::formatted);
    if reason == NoLine::NoGrowth {
        let iops = ratio(Measure::Iops);
        return format!(
            "requests are not shown to take longer with their size (at {largest} {} the IOPS of \
             {smallest}){}.",
            formatted(iops.as_ref()),
            advice(iops.as_ref(), "the number of requests", "IOPS")
        );
    }
    let rate = ratio(Measure::Bandwidth);
    format!(
        "no fixed cost of a request is shown (at {largest} {} the bandwidth of {smallest}){}.",
        formatted(rate.as_ref()),
        advice(rate.as_ref(), "bandwidth", "MB/s")
    )
}

fn fitted(answer: &mut Answer, line: &str, points: &[&Point], model: &SizeModel, of_lines: usize) {
    let key = |name: &str| of_line(name, line, of_lines);
    let crossover = model.crossover_bytes;
    let sizes: Vec<u64> =
        points.iter().filter_map(|point| point.at(AXIS)).map(|v| v as u64).collect();
    let side = Side::of(&sizes, model);
    if side == Side::Within {
        answer.find_between(&key("crossover"), crossover, model.crossover_interval);
    }
    if side != Side::Below {
        answer.find(&key("iops-max"), model.fixed_s.recip());
    }
    if side != Side::Beyond {
        answer.find(&key("bytes-per-s-max"), model.bandwidth);
    }
    answer.find(&key("largest-residual"), model.largest_residual);
    let last_small = sizes.iter().copied().filter(|size| *size as f64 <= crossover).max();
    let first_large = sizes.iter().copied().filter(|size| *size as f64 > crossover).min();
    for (word, size) in [("last-iops-size", last_small), ("first-bandwidth-size", first_large)] {
        if let Some(size) = size {
            answer.find(&key(word), size as f64);
        }
    }
    // The crossover is reported only if the line, or the line with a step, fits.
    let fits = !model.is_bent || model.step.is_some();
    match gate::withheld(points) {
        Some(why) => {
            answer.say(format!("{line}: where IOPS give way to bandwidth is {why}."));
            return;
        }
        // In some resamples, the time of a request does not grow with its size.
        None if model.crossover_interval.is_none() => {
            answer.say(format!("{line}: {}", reason_of(NoLine::NoGrowth, points)));
            return;
        }
        None if fits => answer.say(format!(
            "{line}: the crossover from IOPS to bandwidth {}.",
            place(&sizes, side, model, runs(points))
        )),
        None => {}
    }
    // The time between completions is the latency only if one request is in flight.
    let is_one = points.iter().flat_map(|point| &point.runs).all(|run| run.all.depth_asked == 1);
    let takes = if is_one { "a request takes" } else { "one request completes every" };
    answer.say(format!(
        "{line}: {} (largest residual {}).",
        parts(&sizes, side, model, takes, runs(points)),
        count::percent(model.largest_residual),
    ));
    if model.is_bent {
        bent(answer, line, is_one, side, model);
    } else if !model.is_one_line {
        answer.say(format!(
            "{line}: whether a fixed cost plus a transfer fits is not decidable yet: the scatter \
             of the runs explains residuals of {}; more repeats needed.",
            count::percent(model.largest_residual)
        ));
    }
}

/// Position of the crossover relative to the measured sizes.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Side {
    /// Far below the smallest size.
    Below,
    Within,
    /// Far beyond the largest size.
    Beyond,
}

impl Side {
    fn of(sizes: &[u64], model: &SizeModel) -> Side {
        let at = model.crossover_bytes;
        let (low, high) = model.crossover_interval.map_or((at, at), |of| (of.low, of.high));
        let is_below = |size: f64| at * FAR < size && high < size;
        let is_beyond = |size: f64| at > FAR * size && low > size;
        match (sizes.iter().min(), sizes.iter().max()) {
            (Some(smallest), _) if is_below(*smallest as f64) => Side::Below,
            (_, Some(largest)) if is_beyond(*largest as f64) => Side::Beyond,
            _ => Side::Within,
        }
    }
}

/// The place of the crossover, and the unit to report below and above it, as text.
fn place(sizes: &[u64], side: Side, model: &SizeModel, runs: usize) -> String {
    let (smallest, largest) = (sizes.iter().min(), sizes.iter().max());
    let between = words::interval(model.crossover_interval, runs, words::size);
    match (side, smallest, largest) {
        (Side::Below, Some(size), _) => {
            format!(
                "lies far below the smallest size, {}{between}: report MB/s",
                bytes::exact(*size)
            )
        }
        (Side::Beyond, _, Some(size)) => {
            format!(
                "lies far beyond the largest size, {}{between}: report IOPS",
                bytes::exact(*size)
            )
        }
        _ => format!(
            "is at {}{}: {}",
            words::size(model.crossover_bytes),
            between,
            shift(sizes, model.crossover_bytes, model)
        ),
    }
}

/// The two parts of the time of a request, and the resulting limits, as text.
fn parts(sizes: &[u64], side: Side, model: &SizeModel, takes: &str, runs: usize) -> String {
    let time = |seconds: f64| duration::latency(seconds * 1e9);
    let fixed =
        format!("{}{}", time(model.fixed_s), words::interval(model.fixed_interval, runs, time));
    let most_iops = count::significant_or_whole(model.fixed_s.recip());
    let bandwidth = format!(
        "{}{}",
        bytes::per_second(model.bandwidth),
        words::interval(model.bandwidth_interval, runs, bytes::per_second)
    );
    let (smallest, largest) = (sizes.iter().min(), sizes.iter().max());
    match (side, smallest, largest) {
        (Side::Below, Some(size), _) => format!(
            "requests take little more than their transfer at {bandwidth}: a fixed cost adds {} \
             at {}",
            count::percent(model.crossover_bytes / *size as f64),
            bytes::exact(*size),
        ),
        (Side::Beyond, _, Some(size)) => format!(
            "{takes} {fixed}, to which the transfer adds {} at {}, so at most {most_iops} \
             IOPS",
            count::percent(*size as f64 / model.crossover_bytes),
            bytes::exact(*size),
        ),
        _ => format!(
            "{takes} {fixed} plus its transfer at {bandwidth}, so at most {most_iops} IOPS for \
             small requests"
        ),
    }
}

/// The unit to report below and above the crossover, as far as its interval decides it.
fn shift(sizes: &[u64], crossover: f64, model: &SizeModel) -> String {
    let (low, high) = match model.crossover_interval {
        Some(interval) => (interval.low, interval.high),
        None => (crossover, crossover),
    };
    let last_small = sizes.iter().copied().filter(|size| *size as f64 <= low).max();
    let first_large = sizes.iter().copied().filter(|size| *size as f64 > high).min();
    let between = |size: &&u64| (**size as f64) > low && **size as f64 <= high;
    let open: Vec<String> = sizes.iter().filter(between).map(|size| bytes::exact(*size)).collect();
    let open = match open.as_slice() {
        [] => String::new(),
        sizes => format!("; at {} either", sizes.join(", ")),
    };
    match (last_small, first_large) {
        (Some(small), Some(large)) => format!(
            "report IOPS up to {}, MB/s from {}{open}",
            bytes::exact(small),
            bytes::exact(large)
        ),
        (None, Some(large)) if open.is_empty() => {
            format!("it lies below the smallest size, {}: report MB/s", bytes::exact(large))
        }
        (Some(small), None) if open.is_empty() => {
            format!("it lies beyond the largest size, {}: report IOPS", bytes::exact(small))
        }
        (None, Some(large)) => format!("report MB/s from {}{open}", bytes::exact(large)),
        (Some(small), None) => format!("report IOPS up to {}{open}", bytes::exact(small)),
        (None, None) => "these runs do not decide what to report".into(),
    }
}

/// Reports residuals that noise does not explain.
fn bent(answer: &mut Answer, line: &str, is_one: bool, side: Side, model: &SizeModel) {
    let words = match &model.step {
        Some(step) => format!(
            "{line}: a single line does not fit: between {} and {} {} {} (95 % {} to {}) {} than \
             the line predicts, as when requests are split (max_sectors_kb, the drive's own limit) \
             or a stripe ends; with that step the residuals are within {}.",
            bytes::exact(step.after_bytes),
            bytes::exact(step.from_bytes),
            if is_one { "a request takes" } else { "one request completes" },
            duration::latency(step.rise_s.abs() * 1e9),
            duration::latency((step.rise_s.abs() - step.rise_reach_s).max(0.0) * 1e9),
            duration::latency((step.rise_s.abs() + step.rise_reach_s) * 1e9),
            match (is_one, step.rise_s > 0.0) {
                (true, true) => "longer",
                (true, false) => "less",
                (false, true) => "later",
                (false, false) => "sooner",
            },
            count::percent(step.largest_residual),
        ),
        None => {
            let worst = model.residuals.iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
            let at = worst.map_or(String::new(), |(size, residual)| {
                let side = if *residual > 0.0 { "slower" } else { "faster" };
                format!(
                    ", most at {} ({} {side})",
                    bytes::exact(*size),
                    count::percent(residual.abs())
                )
            });
            let crossover = match side {
                Side::Within => format!(
                    "the crossover of {} is approximate: ",
                    words::size(model.crossover_bytes)
                ),
                Side::Below | Side::Beyond => String::new(),
            };
            format!(
                "{line}: a fixed cost plus a transfer does not fit{at}; {crossover}read the curve."
            )
        }
    };
    answer.say(words.clone());
    let subject = "a step in the time over the size";
    answer.mind("size_step", subject, Strength::ConsistentWith, Severity::Fact, words);
}

/// Reports where two patterns differ most, and from which size on they converge.
fn converge(answer: &mut Answer, one: (&str, &[&Point]), two: (&str, &[&Point])) {
    let ratios: Vec<(f64, Times)> = one
        .1
        .iter()
        .filter_map(|point| {
            let size = point.at(AXIS)?;
            let other = two.1.iter().find(|other| other.at(AXIS) == Some(size))?;
            Some((size, Times::of(point, other, Measure::Iops)?))
        })
        .collect();
    let rates = |points: &[&Point], size: f64| -> Vec<f64> {
        let point = points.iter().find(|point| point.at(AXIS) == Some(size));
        point.map_or(Vec::new(), |point| point.per_run(Measure::Iops))
    };
    let all: Vec<&Point> = one.1.iter().chain(two.1).copied().collect();
    let (first, second) = (one.0, two.0);
    if let Some(why) = gate::withheld(&all) {
        answer.say(format!("Whether {first} and {second} differ is {why}."));
        return;
    }
    // The reported size is selected, so its interval is corrected for all sizes.
    let sizes = ratios.len();
    let among = |(size, times): &(f64, Times)| {
        (*size, times.among(&rates(one.1, *size), &rates(two.1, *size), sizes))
    };
    let chosen: Vec<(f64, Times)> = ratios.iter().map(among).collect();
    let far = |times: &Times| (times.times.max(times.times.recip()) - 1.0).abs();
    let farthest = |of: &[&(f64, Times)]| {
        of.iter().max_by(|a, b| far(&a.1).total_cmp(&far(&b.1))).map(|of| **of)
    };
    let shown: Vec<&(f64, Times)> = chosen.iter().filter(|(_, times)| times.differ()).collect();
    let of_all = format!("95 % over all {sizes} sizes together");
    let differ = match farthest(&shown) {
        Some((size, most)) => format!(
            "{first} and {second} differ most at {}, where {first} has {} the IOPS",
            words::size(size),
            most.formatted_as(&of_all)
        ),
        None => {
            let Some((size, most)) = farthest(&chosen.iter().collect::<Vec<_>>()) else { return };
            format!(
                "{first} and {second} are not shown to differ at any size (at {} {first} has {} \
                 the IOPS)",
                words::size(size),
                most.formatted_as(&of_all)
            )
        }
    };
    let together = together(answer, &ratios);
    answer.say(format!("{differ}; {together}."));
}

/// The size from which on two patterns are shown to be alike, as text.
fn together(answer: &mut Answer, ratios: &[(f64, Times)]) -> String {
    let (low, high) = (1.0 - CONVERGED_WITHIN, 1.0 + CONVERGED_WITHIN);
    let within =
        |(_, times): &(f64, Times)| gate::side(times, low, high) == Some(gate::Side::Within);
    let share = format!("{:.0} %", CONVERGED_WITHIN * 100.0);
    let alike = ratios.iter().rev().take_while(|ratio| within(ratio)).count();
    if alike == ratios.len() {
        return format!("at every size they are within {share} of each other");
    }
    if alike > 0
        && let Some((size, _)) = ratios.get(ratios.len() - alike)
    {
        answer.find("converged-from", *size);
        return format!("from {} on they are within {share}", words::size(*size));
    }
    let last = ratios.last().and_then(|(_, times)| gate::side(times, low, high));
    match last {
        Some(_) => "they do not converge within these sizes".into(),
        None => format!("whether they are within {share} at the largest is not decidable yet"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::testing::{at, facts, noise, stage};
    use super::*;
    use iosonde_fixtures::Load;

    fn sweep(time_s: fn(f64) -> f64) -> StageFacts {
        let mut noise = noise(3, 0.003);
        facts(&stage("block-size", "block-size"), |cell, _| {
            let size = at(cell, AXIS);
            let iops = noise() / time_s(size);
            Load { depth: 8, block_bytes: size as u64, iops, ..Load::default() }
        })
    }

    #[test]
    fn the_crossover_of_a_known_line_is_found_with_its_shift() {
        // 100 µs and 1 GB/s: they cross at 100,000 B.
        let facts = sweep(|size| 100e-6 + size / 1e9);
        for line in ["sequential-read", "random-read"] {
            let of = |name: &str| facts.found(&name.replace("LINE", line)).unwrap();
            assert!((of("crossover-LINE") / 100_000.0 - 1.0).abs() < 0.1);
            assert!(of("crossover-LINE_min") < 100_000.0 && of("crossover-LINE_max") > 100_000.0);
            assert_eq!(of("last-iops-size-LINE"), 65_536.0);
            assert_eq!(of("first-bandwidth-size-LINE"), 131_072.0);
        }
        let said = facts.answers[0].1.sentences.join("\n");
        assert!(said.contains("report IOPS up to 64 KiB, MB/s from 128 KiB"), "{said}");
        assert!(said.contains("within 5 %") && !said.contains("do not converge"), "{said}");
        assert!(said.contains("one request completes every"), "eight are in flight: {said}");
    }

    #[test]
    fn a_crossover_far_outside_the_sizes_is_not_named() {
        let said = |facts: &StageFacts| facts.answers[0].1.sentences.join("\n");
        let slow = sweep(|size| 1e-3 + size / 1e9);
        assert_eq!(slow.found("crossover-random-read"), None);
        assert_eq!(slow.found("bytes-per-s-max-random-read"), None);
        let words = said(&slow);
        assert!(
            words.contains("lies far beyond the largest size, 256 KiB (")
                && words.contains("too few for an interval): report IOPS"),
            "{words}"
        );
        assert!(words.contains("to which the transfer adds 2"), "{words}");
        let wide = sweep(|size| 0.2e-6 + size / 1e9);
        assert!(said(&wide).contains("far below the smallest size"), "{}", said(&wide));
        assert!(said(&wide).contains("little more than their transfer at"), "{}", said(&wide));
    }

    #[test]
    fn only_a_crossover_that_is_named_is_called_approximate() {
        let said = |facts: &StageFacts| facts.answers[0].1.sentences.join("\n");
        fn bends(size: f64) -> f64 {
            1.0 + 0.15 * (std::f64::consts::PI * size.log2()).cos()
        }
        let within = said(&sweep(|size| (100e-6 + size / 1e9) * bends(size)));
        assert!(within.contains("; the crossover of "), "{within}");
        assert!(within.contains(" is approximate: read the curve."), "{within}");
        let beyond = said(&sweep(|size| (1e-3 + size / 1e9) * bends(size)));
        assert!(beyond.contains("; read the curve."), "{beyond}");
        assert!(!beyond.contains("approximate"), "{beyond}");
    }

    /// The sentences about a device whose request time does not grow, with this noise between runs.
    fn flat(seed: u64, scatter: f64) -> String {
        let mut noise = noise(seed, scatter);
        let facts = facts(&stage("block-size", "block-size"), |cell, _| {
            let block_bytes = at(cell, AXIS) as u64;
            Load { depth: 8, block_bytes, iops: 10_000.0 * noise(), ..Load::default() }
        });
        facts.answers[0].1.sentences.join("\n")
    }

    #[test]
    fn no_growth_is_claimed_only_where_the_interval_is_narrow() {
        let (claim, open) = ("so report IOPS", "whether only the number of requests counts is");
        let narrow: Vec<String> = (0..20).map(|seed| flat(seed, 0.005)).collect();
        assert!(narrow.iter().any(|said| said.contains("the same within 10 %: only")));
        let wide: Vec<String> = (0..20).map(|seed| flat(seed, 0.15)).collect();
        assert!(wide.iter().any(|said| said.contains(open)));
        let claims = wide.iter().filter(|said| said.contains(&format!("counts, {claim}")));
        assert!(claims.count() <= 1);
    }

    #[test]
    fn of_equal_lines_the_interval_of_all_sizes_holds_1_where_nothing_is_shown() {
        let mut wrong = 0;
        for seed in 0..60 {
            let said = flat(seed, 0.03);
            let line = said.lines().find(|line| line.contains("over all ")).unwrap();
            let (_, ends) = line.split_once(" together ").unwrap();
            let (low, high) = ends.split_once(')').unwrap().0.split_once(" to ").unwrap();
            let (low, high): (f64, f64) = (low.parse().unwrap(), high.parse().unwrap());
            let is_shown = line.contains("differ most");
            assert!(is_shown || low <= 1.0 && high >= 1.0, "{line}");
            wrong += u32::from(is_shown);
        }
        assert!(wrong <= 6, "{wrong} of 60");
    }

    #[test]
    fn noise_is_no_step_and_no_bend() {
        let said = |seed: u64| {
            let mut noise = noise(seed, 0.15);
            let facts = facts(&stage("block-size", "block-size"), |cell, _| {
                let size = at(cell, AXIS);
                let iops = noise() / (100e-6 + size / 1e9);
                Load { depth: 8, block_bytes: size as u64, iops, ..Load::default() }
            });
            facts.answers[0].1.sentences.join("\n")
        };
        let wrong = (0..40).filter(|seed| said(*seed).contains("does not fit")).count();
        assert!(wrong <= 4, "{wrong} of 40, two lines each");
        let open = (0..40).any(|seed| said(seed).contains("fits is not decidable yet"));
        assert!(open, "a noisy line is neither");
    }

    #[test]
    fn without_growth_there_is_no_crossover_and_a_step_is_reported() {
        let flat = sweep(|_| 100e-6);
        let said = |facts: &StageFacts| facts.answers[0].1.sentences.join("\n");
        assert_eq!(flat.found("crossover-random-read"), None);
        let words = said(&flat);
        assert!(
            words.contains("not shown to take longer with their size (at 256 KiB ")
                || words.contains("far beyond the largest size"),
            "{words}"
        );
        let step = sweep(|size| 100e-6 + size / 1e9 + if size > 70e3 { 200e-6 } else { 0.0 });
        assert!(said(&step).contains("between 64 KiB and 128 KiB"), "{}", said(&step));
    }
}
