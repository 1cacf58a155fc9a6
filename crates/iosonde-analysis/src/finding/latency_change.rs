//! `latency_change`: latencies of an open loop changed while its rate was served throughout.

use iosonde_model::units::{count, duration};
use iosonde_stats::dependent::Batch;
use iosonde_stats::step::{Level, levels, two_modes};
use iosonde_stats::summary::Summary;

use super::{Case, Detect, Detector, Finding, Severity};
use crate::arrivals::ArrivalVerdict;
use crate::series::{self, STEP_NS};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "latency_change",
    meaning: "The latencies of an open loop changed during the run, though its rate did not.",
    method: "change points of the mean latency per interval in which the load forgets the last one",
    action: "Look for what happened at these times, or measure longer: one mean describes none.",
    subject: "a latency that changed during the run",
    severity: Severity::Warning,
    detect,
};

/// Fewest operations in an interval: their mean is then known to a quarter.
const STEP_OPS: f64 = 16.0;
/// Shortest interval, in multiples of the time for which a backlog is remembered.
const MEMORIES: f64 = 4.0;
/// Fewest intervals of the run and of a level, and the inverse of a level's smallest share.
const FEWEST: usize = 20;
const SHORTEST: usize = 5;
const SHORTEST_SHARE: usize = 20;
/// Share of the variance of log latencies that levels must explain, and that each must add.
const EXPLAINED: f64 = 0.75;
const LEAST_EXPLAINED: f64 = 0.05;
/// Smallest factor between neighbouring levels.
const MOVES_FROM: f64 = 1.5;
/// Fewest changes between alternating levels, and standard deviations by which they must be fewer
/// than in random order: a chance of one in a thousand.
const FEWEST_CHANGES: usize = 3;
const IN_ORDER: f64 = 3.1;
/// Below this share of the time, the rarer of two levels must last for this many intervals on
/// average: a queue close to its rate limit has slow times by chance, but shorter ones.
const RARE: f64 = 0.1;
const RARE_LASTS: f64 = 3.0;
/// Factor and standard errors by which a queue at a limit completes more while it is long.
const MORE: f64 = 1.005;
const MORE_ERRORS: f64 = 2.0;
/// Most levels that are listed.
const NAMED: usize = 6;

/// Reports latency levels that no change of the rate, stall or overload explains.
///
/// Near saturation a queue wanders by itself. The intervals are long enough for it to forget its
/// state within one; a run too short for enough of them has no levels.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let open = case.figures.arrivals.as_ref()?;
    let explained = open.verdict == ArrivalVerdict::Unsustainable
        || case.figures.stalls.is_some()
        || super::level_drop::drop(case).is_some()
        || (super::level_change::DETECTOR.detect)(case).is_some()
        || !crate::series::is_even(case.run);
    if explained {
        return None;
    }
    let steps = steps(case)?;
    let means: Vec<f64> = steps.iter().map(mean_ns).collect::<Option<_>>()?;
    let logs: Vec<f64> = means.iter().map(|mean| mean.ln()).collect();
    if is_queue(&steps, &logs) {
        return None;
    }
    let width_ns = steps[0].span_ns;
    let (words, levels) = several(&steps, &logs).or_else(|| alternating(&logs, width_ns))?;
    let mean = case.figures.all.total.latency.mean_ns?;
    let effect = levels.iter().map(|level| (mean / level - 1.0).abs()).fold(0.0, f64::max);
    Some(DETECTOR.supported(words).moves_latency(effect).scatters().with("mean_off_share", effect))
}

/// Text and mean latencies of levels that last.
fn several(steps: &[Batch], logs: &[f64]) -> Option<(String, Vec<f64>)> {
    let shortest = SHORTEST.max(logs.len().div_ceil(SHORTEST_SHARE));
    let found = levels(logs, shortest, LEAST_EXPLAINED);
    let differs = |pair: &[Level]| (pair[0].mean - pair[1].mean).abs() >= MOVES_FROM.ln();
    let are_levels = found.levels.len() > 1
        && found.explained >= EXPLAINED
        && found.levels.windows(2).all(differs);
    if !are_levels {
        return None;
    }
    let each: Vec<(f64, u64)> =
        found.levels.iter().filter_map(|level| of_level(level, steps)).collect();
    let named = each
        .iter()
        .take(NAMED)
        .map(|(mean, ns)| format!("{} for {}", duration::latency(*mean), duration::span(*ns)));
    let named: Vec<String> = named.collect();
    let more = if each.len() > NAMED { ", and so on" } else { "" };
    let words = format!(
        "The mean latency changed {}: {}{more}; a single mean describes none of these levels.",
        count::of(each.len() as u64 - 1, "time"),
        named.join(", then ")
    );
    Some((words, each.into_iter().map(|(mean, _)| mean).collect()))
}

/// Two alternating levels, each too short, compared with the run, for [`several`].
fn alternating(logs: &[f64], width_ns: u64) -> Option<(String, Vec<f64>)> {
    let found = two_modes(logs)?;
    let lasts = found.changes >= FEWEST_CHANGES && found.order >= IN_ORDER;
    let differs = found.high - found.low >= MOVES_FROM.ln();
    if !lasts || !differs || found.explained < EXPLAINED {
        return None;
    }
    let levels = vec![found.low.exp(), found.high.exp()];
    let is_high = |log: &&f64| **log > (found.low + found.high) / 2.0;
    let high_share = logs.iter().filter(is_high).count() as f64 / logs.len() as f64;
    if high_share.min(1.0 - high_share) < RARE && found.stay < RARE_LASTS {
        return None;
    }
    let first = logs.iter().take_while(|log| !is_high(log)).count();
    let words = format!(
        "The mean latency changed {} times between levels of {} and {}, the higher one for {} of \
         the time, first after {}; a single mean describes neither.",
        found.changes,
        duration::latency(levels[0]),
        duration::latency(levels[1]),
        super::percent(high_share),
        duration::span(first as u64 * width_ns),
    );
    Some((words, levels))
}

/// Whether more operations complete while latencies are high than while they are low, beyond
/// chance: a queue at a rate limit fills when more is due. A slow time does not change the rate.
fn is_queue(steps: &[Batch], logs: &[f64]) -> bool {
    let Some(found) = two_modes(logs) else { return false };
    let middle = (found.low + found.high) / 2.0;
    let rates = |is_high: bool| {
        let own = steps.iter().zip(logs).filter(|(_, log)| (**log > middle) == is_high);
        let rates: Vec<f64> =
            own.map(|(step, _)| step.amount as f64 * 1e9 / step.span_ns as f64).collect();
        Summary::of(&rates).map(|of| (of.mean, of.std_dev.powi(2) / rates.len() as f64))
    };
    let (Some((low, low_error)), Some((high, high_error))) = (rates(false), rates(true)) else {
        return false;
    };
    high > low * MORE && high - low > MORE_ERRORS * (low_error + high_error).sqrt()
}

/// Batches joined to intervals that are long enough; `None` if there are too few.
fn steps(case: &Case<'_>) -> Option<Vec<Batch>> {
    let run = case.run;
    let batches = series::batches(series::directions(run), (0, run.measured_ns)).ok()?;
    let width_ns = batches.first()?.span_ns as f64;
    let ops: u64 = batches.iter().map(|batch| batch.amount).sum();
    let by_ops = STEP_OPS * batches.len() as f64 / ops.max(1) as f64;
    let by_time = (MEMORIES * super::began_empty::backlog_memory_ns(case, &batches))
        .max(STEP_NS as f64)
        / width_ns;
    let joined = by_ops.max(by_time).ceil().max(1.0) as usize;
    let sum = |part: &[Batch]| part[1..].iter().fold(part[0].clone(), Batch::joined);
    let steps: Vec<Batch> = batches.chunks_exact(joined).map(sum).collect();
    (steps.len() >= FEWEST).then_some(steps)
}

fn mean_ns(step: &Batch) -> Option<f64> {
    (step.amount > 0 && step.sum_ns > 0).then(|| step.sum_ns as f64 / step.amount as f64)
}

/// Mean latency and length of a level, ns.
fn of_level(level: &Level, steps: &[Batch]) -> Option<(f64, u64)> {
    let part = &steps[level.start..level.end];
    let whole = part[1..].iter().fold(part[0].clone(), Batch::joined);
    Some((mean_ns(&whole)?, whole.span_ns))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, open_run_of};

    /// An open loop whose latencies are scaled by this factor in each tenth of a second.
    fn finding(times: fn(usize) -> u128) -> Option<Finding> {
        let mut run = open_run_of(&Load { depth: 1, ..Load::default() }, |_| 0);
        for (at, exact) in run.jobs[0].read.responses.exact.iter_mut().enumerate() {
            exact.sum_ns *= times(at);
        }
        ask(detect, &run, None)
    }

    #[test]
    fn a_slow_time_is_reported_with_its_levels() {
        let words = finding(|at| if (40..60).contains(&at) { 5 } else { 1 }).unwrap().words;
        assert!(words.starts_with("The mean latency changed 2 times: "), "{words}");
        assert!(words.contains(" for 4.0 s, then ") && words.contains(" for 2.0 s"), "{words}");
        let words = finding(|at| if at < 30 { 3 } else { 1 }).unwrap().words;
        assert!(words.starts_with("The mean latency changed 1 time: "), "{words}");
    }

    #[test]
    fn two_levels_that_alternate_too_often_for_each_to_be_named_are_reported() {
        let logs = |period: usize| -> Vec<f64> {
            (0..600).map(|at| if at % period < period / 2 { 12.0 } else { 13.0 }).collect()
        };
        let (words, levels) = alternating(&logs(20), 100_000_000).unwrap();
        assert!(
            words.contains("the higher one for 50.0 % of the time, first after 1.0 s;"),
            "{words}"
        );
        assert!(words.starts_with("The mean latency changed 59 times between levels"), "{words}");
        assert_eq!(levels, [12f64.exp(), 13f64.exp()]);
        let wide = |at: usize| if (at as f64 / 8.75).fract() < 0.43 { 13.0 } else { 12.0 };
        let wide: Vec<f64> = (0..75).map(wide).collect();
        assert!(alternating(&wide, 1).is_some(), "four intervals of a level are enough");
        let mut chance = iosonde_model::plan::chance::Chance::new(3);
        let coin = |_| if chance.unit() < 0.4 { 13.0 } else { 12.0 };
        let coin: Vec<f64> = (0..75).map(coin).collect();
        assert_eq!(alternating(&coin, 1), None, "they do not last");
    }

    #[test]
    fn a_queue_that_fills_where_more_is_due_is_no_change() {
        let mut chance = iosonde_model::plan::chance::Chance::new(3);
        let is_high = |at: usize| at % 20 < 5;
        let mut of = |more: f64| {
            let mut step = |at: usize| {
                let usual = if is_high(at) { 1_000.0 * more } else { 1_000.0 };
                let amount = (usual + 60.0 * (chance.unit() - 0.5)) as u64;
                Batch { span_ns: 100_000_000, amount, ..Batch::default() }
            };
            let steps: Vec<Batch> = (0..100).map(&mut step).collect();
            let logs: Vec<f64> = (0..100).map(|at| if is_high(at) { 15.0 } else { 13.0 }).collect();
            is_queue(&steps, &logs)
        };
        assert!(of(1.05));
        assert!((0..40).filter(|_| of(1.0)).count() <= 4, "2.3 % by chance");
    }

    #[test]
    fn even_latencies_a_short_peak_and_a_ramp_are_not() {
        assert_eq!(finding(|_| 1), None);
        assert_eq!(finding(|at| if at == 40 { 9 } else { 1 }), None);
        assert_eq!(finding(|at| 100 + at as u128), None);
    }
}
