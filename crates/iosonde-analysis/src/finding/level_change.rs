//! `level_change`: the rate changed other than by one drop: a burst at the start, a rise, or
//! several levels.

use crate::figures::Steady;
use crate::figures::stalled::{self, ALL_EXPLAINED, MOVES_FROM, SHORTEST};
use crate::series::{STEP_NS, whole};
use iosonde_model::units::duration;
use iosonde_stats::ratio::median;
use iosonde_stats::step::{Level, levels};
use iosonde_stats::summary::Summary;

use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "level_change",
    meaning: "The rate changed: a burst at the start, or a rise.",
    method: "change points of the rate per interval, with a permutation test",
    action: "Measure longer, so that the level that lasts can be reported for itself.",
    subject: "a rate that changed during the run",
    severity: Severity::Warning,
    detect,
};

/// Multiple of the usual rate that makes a beginning a burst, and a burst's longest share.
const BURST_FROM: f64 = 1.5;
const BURST_SHARE: f64 = 0.20;
/// Smallest excess of a burst, as a share of all operations.
const LIFTS_FROM: f64 = 0.03;
/// Standard deviations that a burst's excess must exceed.
const ERRORS: f64 = 6.0;
/// Fewest intervals from which the usual rate is computed.
const FEWEST_INTERVALS: usize = 16;
/// Share of the variance that two levels must explain for a rise.
const EXPLAINED: f64 = 0.6;
/// Share of the variance that each further level must add.
const LEAST_EXPLAINED: f64 = 0.05;
/// Shortest of several levels, as the inverse of its share of the run.
const SHORTEST_SHARE: usize = 20;
/// Narrower intervals, ns, in which alternating levels are searched if wider ones show none. Such
/// levels last for two tenths of a second; the slices of a throttle do not.
const NARROW_NS: u64 = 40_000_000;
/// Most levels that are listed.
const NAMED: usize = 6;

/// Reports a change that no single drop, cgroup limit or stall explains.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let explained = super::level_drop::drop(case).is_some()
        || super::cgroup_limit::detect(case).is_some()
        || !crate::series::is_even(case.run);
    if explained {
        return None;
    }
    let found =
        several(case).or_else(|| alternating(case)).or_else(|| burst(case)).or_else(|| rise(case));
    let (words, levels) = found?;
    // Largest deviation of the headline from a level that lasts.
    let mean = case.figures.all.total.iops;
    let off = levels.iter().map(|level| (mean / level.max(f64::MIN_POSITIVE) - 1.0).abs());
    let effect = off.fold(0.0, f64::max);
    Some(DETECTOR.supported(words).moves(effect).scatters().with("mean_off_share", effect))
}

/// A burst at the start that is too short for a level, and the rate without it.
fn burst(case: &Case<'_>) -> Option<(String, Vec<f64>)> {
    let rates = case.series.iops();
    let longest = (rates.len() as f64 * BURST_SHARE).ceil() as usize;
    let rest = rates.get(longest..).filter(|rest| rest.len() >= FEWEST_INTERVALS)?;
    let usual = median(rest).filter(|usual| *usual > 0.0)?;
    let head = rates.iter().take_while(|rate| **rate >= BURST_FROM * usual).count();
    // A burst outside the figures' window does not lift their mean.
    let skipped_ns = match case.figures.steady {
        Steady::Lengthened { ns } => ns,
        Steady::AsPlanned | Steady::NoSteadyPart => 0,
    };
    if head == 0 || head > longest || skipped_ns >= head as u64 * case.series.width_ns {
        return None;
    }
    let width_s = case.series.width_ns as f64 / 1e9;
    let excess = (rates[..head].iter().sum::<f64>() - usual * head as f64) * width_s;
    let scatter = Summary::of(rest)?.std_dev.max((usual / width_s).sqrt());
    let by_chance = ERRORS * scatter * width_s * (head as f64).sqrt();
    let all: f64 = rates.iter().sum::<f64>() * width_s;
    if excess < by_chance || excess < LIFTS_FROM * all {
        return None;
    }
    let words = format!(
        "A burst of {} for the first {}, then {}: the burst lifts the mean by {}; --ramp-time {}s \
         leaves it out.",
        super::iops(rates[..head].iter().sum::<f64>() / head as f64),
        duration::span((head as f64 * width_s * 1e9) as u64),
        super::iops(usual),
        super::percent(excess / (all - excess).max(1.0)),
        case.ramp_s(head),
    );
    Some((words, vec![usual]))
}

/// Whether the rate recovered after a drop: there are several levels, and one is a rise.
pub(super) fn recovers(case: &Case<'_>) -> bool {
    let levels = distinct(&whole(case.run).iops(), case).unwrap_or_default();
    let rises = |pair: &[Level]| pair[1].mean >= pair[0].mean * (1.0 + MOVES_FROM);
    levels.windows(2).any(rises)
}

/// Text and rates of three or more levels.
fn several(case: &Case<'_>) -> Option<(String, Vec<f64>)> {
    let series = whole(case.run);
    let levels = distinct(&series.iops(), case)?;
    let level = |level: &Level| {
        let ns = (level.end - level.start) as u64 * series.width_ns;
        format!("{} for {}", super::iops(level.mean), duration::span(ns))
    };
    let named: Vec<String> = levels.iter().take(NAMED).map(level).collect();
    let more = if levels.len() > NAMED { ", and so on" } else { "" };
    let words = format!(
        "The rate changed {} times: {}{more}; a single mean describes none of these levels.",
        levels.len() - 1,
        named.join(", then ")
    );
    Some((words, levels.iter().map(|level| level.mean).collect()))
}

/// Three or more levels, each different from its neighbours; `None` if there are stalls.
fn distinct(rates: &[f64], case: &Case<'_>) -> Option<Vec<Level>> {
    if case.figures.stalls.is_some() {
        return None;
    }
    let shortest = SHORTEST.max(rates.len().div_ceil(SHORTEST_SHARE));
    let found = levels(rates, shortest, LEAST_EXPLAINED);
    let differs = |pair: &[Level]| {
        let (low, high) = (pair[0].mean.min(pair[1].mean), pair[0].mean.max(pair[1].mean));
        high >= low * (1.0 + MOVES_FROM)
    };
    let are_distinct = found.levels.len() >= 3
        && found.explained >= ALL_EXPLAINED
        && found.levels.windows(2).all(differs);
    are_distinct.then_some(found.levels)
}

/// Two alternating levels, each too short, compared with the run, for [`several`].
fn alternating(case: &Case<'_>) -> Option<(String, Vec<f64>)> {
    if case.figures.stalls.is_some() {
        return None;
    }
    let mut widths = [STEP_NS, NARROW_NS].into_iter();
    let found = widths.find_map(|width_ns| stalled::alternating(case.run, width_ns))?;
    let words = format!(
        "The rate changed {} times between levels of {} and {}; a single mean describes neither.",
        found.changes,
        super::iops(found.high),
        super::iops(found.low),
    );
    Some((words, vec![found.low, found.high]))
}

/// One lasting rise: the rates before and after it.
fn rise(case: &Case<'_>) -> Option<(String, Vec<f64>)> {
    let step = case.step()?;
    if step.change() < MOVES_FROM || step.explained < EXPLAINED {
        return None;
    }
    let words = format!(
        "The rate rose by {} after {}: {}, then {}; a single mean describes neither.",
        super::percent(step.change()),
        duration::span(step.at as u64 * case.series.width_ns),
        super::iops(step.before.mean),
        super::iops(step.after.mean)
    );
    Some((words, vec![step.before.mean, step.after.mean]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};

    fn after(warmup_ns: u64, shape: fn(f64) -> f64) -> Option<String> {
        let mut run = run_of(&[Load { shape, noise: 0.03, ..Load::default() }]);
        run.plan.warmup_ns = warmup_ns;
        ask(detect, &run, None).map(|finding| finding.words)
    }

    fn said(shape: fn(f64) -> f64) -> Option<String> {
        after(0, shape)
    }

    #[test]
    fn a_burst_and_a_rise_are_reported() {
        let burst = said(|t| if t < 0.05 { 9.0 } else { 1.0 }).unwrap();
        assert!(burst.contains(" for the first 0.5 s, then 5,0"), "{burst}");
        assert!(burst.ends_with("; --ramp-time 1s leaves it out."), "{burst}");
        let left_out = after(1_000_000_000, |t| if t < 0.05 { 9.0 } else { 1.0 });
        assert_eq!(left_out, None, "the warm-up is lengthened by it");
        let two_caches = |t| match t {
            t if t < 0.025 => 20.0,
            t if t < 0.12 => 3.0,
            _ => 1.0,
        };
        let two_caches = said(two_caches).unwrap();
        assert!(two_caches.starts_with("A burst of "), "{two_caches}");
        let rise = said(|t| if t < 0.5 { 0.5 } else { 1.0 }).unwrap();
        assert!(rise.contains("rose by 99"), "{rise}");
        let dip = said(|t| if (0.3..0.6).contains(&t) { 0.6 } else { 1.0 }).unwrap();
        assert!(dip.starts_with("The rate changed 2 times: 5,"), "{dip}");
        assert!(dip.contains(" for 3.0 s, then "), "{dip}");
        let often = |t: f64| if (t * 8.0).fract() < 0.5 { 1.0 } else { 0.5 };
        let often = said(often).unwrap();
        assert!(often.starts_with("The rate changed 15 times between levels of "), "{often}");
        let twice = |t: f64| if (t * 2.0).fract() < 0.2 { 1.0 } else { 0.33 };
        let twice = said(twice).unwrap();
        assert!(twice.starts_with("The rate changed 3 times: 5,"), "a drop that recovers: {twice}");
        let stairs = said(|t| 0.4 + 0.3 * (t * 3.0).floor()).unwrap();
        assert!(stairs.contains("changed 2 times"), "{stairs}");
    }

    #[test]
    fn noise_a_drop_and_a_freeze_are_not() {
        assert_eq!(said(|_| 1.0), None);
        assert_eq!(said(|t| if t < 0.5 { 1.0 } else { 0.5 }), None);
        assert_eq!(said(|t| if (0.5..0.6).contains(&t) { 0.0 } else { 1.0 }), None);
        let slow = Load { iops: 20.0, depth: 1, noise: 0.3, ..Load::default() };
        assert_eq!(ask(detect, &run_of(&[slow]), None), None);
    }
}
