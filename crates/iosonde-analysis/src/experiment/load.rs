//! Offered load: the maximum of each load alone, the sustained rate, and the trade-off between
//! reads and writes.

use super::gate;
use super::words::{self, Times, nothing};
use super::{Answer, Measure, Point, StageFacts};
use crate::arrivals::ArrivalVerdict;
use iosonde_model::spec::Direction;
use iosonde_model::units::count;

/// The maximum of each load in a closed loop.
pub(super) fn capacity(facts: &StageFacts, _before: &[StageFacts]) -> Answer {
    let mut answer = Answer::default();
    for point in facts.points.iter().filter(|point| point.is_usable()) {
        let (Some(iops), Some(rate)) = (point.mean(Measure::Iops), point.mean(Measure::Bandwidth))
        else {
            continue;
        };
        let reads = point.spread(Measure::Iops, Direction::Read).is_some();
        let writes = point.spread(Measure::Iops, Direction::Write).is_some();
        let which = match (reads, writes) {
            (true, false) => "read-",
            (false, true) => "write-",
            _ => "",
        };
        answer.find(&format!("{which}iops"), iops);
        answer.find(&format!("{which}bytes-per-s"), rate);
        if facts.points.len() == 1 {
            answer.find("iops", iops);
        }
        let name = words::setting(facts, point);
        let basis =
            point.spread(Measure::Iops, Direction::Total).map_or(String::new(), |s| s.basis());
        answer.say(format!(
            "{name}: {} IOPS, {} at {} on average ({basis}); the following stages offer shares of \
             it.",
            point.formatted(Measure::Iops),
            point.formatted(Measure::Bandwidth),
            point.formatted(Measure::Mean)
        ));
    }
    if answer.sentences.is_empty() {
        return nothing("No run can be used, so the maximum is not known.");
    }
    answer
}

/// Whether the storage kept up with every open loop of a point; `None` if the generator was the
/// limit.
fn carried(point: &Point) -> Option<bool> {
    let mut all = true;
    for figures in &point.runs {
        match figures.arrivals.as_ref()?.verdict {
            ArrivalVerdict::Sustained => {}
            ArrivalVerdict::Unsustainable => all = false,
            ArrivalVerdict::ClientBound | ArrivalVerdict::OffSchedule => return None,
        }
    }
    (!point.runs.is_empty()).then_some(all)
}

/// Latency against offered load, and the highest rate that is sustained.
pub(super) fn staircase(facts: &StageFacts, before: &[StageFacts]) -> Answer {
    let points = facts.usable_by("rate");
    if points.is_empty() {
        return nothing("No run can be used, so nothing is known about offered load.");
    }
    let mut answer = Answer::default();
    // A step above one that was not sustained shows nothing.
    let first_missed = points.iter().find(|(_, point)| carried(point) == Some(false));
    let below = |rate: f64| first_missed.is_none_or(|(missed, _)| rate < *missed);
    let sustained: Vec<&(f64, &Point)> = points
        .iter()
        .filter(|(rate, point)| below(*rate) && carried(point) == Some(true))
        .collect();
    let per_s = count::significant_or_whole;
    match (sustained.last(), first_missed) {
        (Some((rate, point)), missed) => {
            answer.find("sustained", *rate);
            let unrefused = "; no higher step failed, so this is a lower bound";
            let next = missed.map_or(unrefused.into(), |missed| {
                answer.find("sustained_high", missed.0);
                format!("; at {}/s the backlog grows", per_s(missed.0))
            });
            answer.find("sustained_low", *rate);
            answer.say(format!(
                "{}/s is sustained (p99 {}, n = {}){next}.",
                per_s(*rate),
                point.formatted(Measure::Quantile(0.99)),
                point.runs.len()
            ));
            let peak = before.iter().rev().find_map(|stage| stage.found("iops"));
            if let Some(peak) = peak {
                answer.find("sustained-share", rate / peak);
                let rest = match missed {
                    Some(_) => ": independent users (open loop) cannot reach the rest",
                    None => "",
                };
                answer.say(format!(
                    "That is {} of the closed-loop rate at a fixed queue depth{rest}.",
                    words::percent(rate / peak)
                ));
            }
        }
        (None, Some((rate, _))) => answer.say(format!(
            "Not even {}/s, the lowest rate offered, is sustained: the backlog grows.",
            per_s(*rate)
        )),
        (None, None) => answer.say(
            "No step can be evaluated: requests were submitted late although slots were free, so \
             the generator was the limit.",
        ),
    }
    rise(&mut answer, &sustained);
    let rows = points.iter().map(|(rate, point)| {
        let verdict = match carried(point) {
            Some(true) => "carried",
            Some(false) => "backlog grows",
            None => "generator late",
        };
        vec![
            format!("{}/s", per_s(*rate)),
            point.formatted(Measure::Iops),
            point.formatted(Measure::Mean),
            point.formatted(Measure::Quantile(0.99)),
            verdict.into(),
        ]
    });
    let columns = ["offered", "carried", "mean", "p99", "verdict"];
    answer.table("Steps of the staircase", &columns, rows.collect());
    answer
}

/// The rate at which latency has doubled.
fn rise(answer: &mut Answer, sustained: &[&(f64, &Point)]) {
    let Some((lowest, first)) = sustained.first() else { return };
    let tail = Measure::Quantile(0.99);
    let shown = |point: &Point| {
        let times = Times::of(point, first, tail)?;
        let is_shown = times.times > 2.0 && times.differ();
        (is_shown && gate::withheld(&[point, first]).is_none()).then_some(times)
    };
    let doubled = sustained.iter().find_map(|(rate, point)| Some((rate, *point, shown(point)?)));
    let Some((rate, point, times)) = doubled else { return };
    answer.find("p99_doubled_at", *rate);
    answer.say(format!(
        "From {}/s on, p99 is {} that at {}/s: {} against {}. Plan for a lower rate if there is a \
         latency target.",
        count::significant_or_whole(*rate),
        times.formatted(),
        count::significant_or_whole(*lowest),
        point.formatted(tail),
        first.formatted(tail)
    ));
}

/// Which combinations of reads and writes are sustained: the line r / R + w / W = k.
pub(super) fn matrix(facts: &StageFacts, before: &[StageFacts]) -> Answer {
    let most = |name: &str| before.iter().rev().find_map(|stage| stage.found(name));
    let (Some(reads), Some(writes)) = (most("read-iops"), most("write-iops")) else {
        return nothing(
            "The maximum of reads alone and of writes alone is not known, so no line \
            can be fitted.",
        );
    };
    let cells: Vec<(f64, bool, &Point)> = facts
        .points
        .iter()
        .filter_map(|point| {
            let (r, w) = (point.at("read-rate")?, point.at("write-rate")?);
            Some((r / reads + w / writes, carried(point)?, point))
        })
        .collect();
    if cells.is_empty() {
        return nothing("No combination can be evaluated.");
    }
    let mut answer = Answer::default();
    let carried = cells.iter().filter(|(_, carried, _)| *carried).count();
    answer.find("carried-share", carried as f64 / cells.len() as f64);
    match boundary(&cells) {
        Some(Boundary { k, low, high, wrong }) => {
            answer.find("k", k);
            answer.find("k_misplaced", wrong as f64);
            let trade = if high < ONE_BUDGET.0 {
                ": reads and writes interfere beyond sharing one budget"
            } else if low > ONE_BUDGET.1 {
                ": reads and writes share little: together they do more than alternately"
            } else if low >= ONE_BUDGET.0 && high <= ONE_BUDGET.1 {
                ": reads and writes share one budget"
            } else {
                "; whether they share one budget needs loads between these"
            };
            answer.say(format!(
                "Combinations are sustained up to r / {} + w / {} = {} ({} to {} by the loads \
                 offered; {} of {} lie on the wrong side of that line){trade}.",
                count::significant_or_whole(reads),
                count::significant_or_whole(writes),
                count::significant(k),
                count::significant(low),
                count::significant(high),
                wrong,
                cells.len()
            ));
        }
        None if carried == 0 => answer.say("No combination is sustained, not even the lightest."),
        None => answer.say(
            "Every combination is sustained: the boundary lies above the offered load; offer more.",
        ),
    }
    price_of_writes(&mut answer, facts, writes);
    answer
}

/// Between which loads reads and writes count as sharing one budget.
const ONE_BUDGET: (f64, f64) = (0.9, 1.1);

/// The boundary between what is sustained and what is not.
struct Boundary {
    /// In the middle of its range.
    k: f64,
    /// The loads on both sides of it.
    low: f64,
    high: f64,
    /// Cells on the wrong side.
    wrong: usize,
}

/// The k that puts the fewest cells on the wrong side, in the middle of its range.
fn boundary(cells: &[(f64, bool, &Point)]) -> Option<Boundary> {
    if cells.iter().all(|(_, carried, _)| *carried) || cells.iter().all(|(_, carried, _)| !carried)
    {
        return None;
    }
    let mut loads: Vec<f64> = cells.iter().map(|(load, ..)| *load).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup_by(|a, b| (*a - *b).abs() < 1e-9);
    let wrong = |k: f64| cells.iter().filter(|(load, carried, _)| (*load <= k) != *carried).count();
    let gaps = loads.windows(2).map(|pair| (pair[0], pair[1], wrong((pair[0] + pair[1]) / 2.0)));
    let gaps: Vec<(f64, f64, usize)> = gaps.collect();
    let least = gaps.iter().map(|(.., wrong)| *wrong).min()?;
    let best = || gaps.iter().filter(|(.., wrong)| *wrong == least);
    let (low, high) = (best().next()?.0, best().next_back()?.1);
    let middles: Vec<f64> = best().map(|(low, high, _)| (low + high) / 2.0).collect();
    let k = middles.iter().sum::<f64>() / middles.len() as f64;
    Some(Boundary { k, low, high, wrong: least })
}

/// The effect of half of the writes on the light reads.
fn price_of_writes(answer: &mut Answer, facts: &StageFacts, writes: f64) {
    let tail = Measure::Quantile(0.95);
    let of = |point: &Point| point.spread(tail, Direction::Read).map(|spread| spread.mean);
    let light = |point: &&Point| point.at("read-rate") > Some(0.0);
    let lightest = facts
        .points
        .iter()
        .filter(light)
        .filter(|point| point.at("write-rate") == Some(0.0))
        .filter(|point| of(point).is_some())
        .min_by(|a, b| {
            a.at("read-rate").partial_cmp(&b.at("read-rate")).unwrap_or(std::cmp::Ordering::Equal)
        });
    let Some(alone) = lightest else { return };
    let same = facts.points.iter().filter(|point| point.at("read-rate") == alone.at("read-rate"));
    let half = same
        .filter(|point| carried(point) == Some(true) && of(point).is_some())
        .filter_map(|point| Some((point.at("write-rate")? / writes, point)))
        .min_by(|a, b| (a.0 - 0.5).abs().total_cmp(&(b.0 - 0.5).abs()));
    let (Some((share, beside)), Some(base)) = (half, of(alone)) else { return };
    let Some(value) = of(beside).filter(|_| share > 0.0) else { return };
    answer.find("read-p95-price", value / base);
    answer.say(format!(
        "With {} of the writes in parallel, the p95 of light reads is {}, {} times its value \
         without writes ({}).",
        words::percent(share),
        tail.formatted(value),
        count::significant(value / base),
        tail.formatted(base)
    ));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::testing::{at, facts, of_runs, stage};
    use iosonde_fixtures::{Load, open_run_of};
    use iosonde_model::plan::design::Found;

    fn steady(_: u64) -> u64 {
        0
    }

    fn growing(tenth: u64) -> u64 {
        tenth * 50_000_000
    }

    #[test]
    fn the_highest_rate_below_the_first_backlog_is_sustained() {
        let peak = facts(&stage("rate-staircase", "peak"), |_, _| Load {
            iops: 10_000.0,
            depth: 64,
            ..Load::default()
        });
        assert!((peak.found("iops").unwrap() / 10_000.0 - 1.0).abs() < 0.01);
        let found = Found::from([("peak.iops".to_owned(), 10_000.0)]);
        let stage = stage("rate-staircase", "rate-staircase");
        let run = |limit: f64| {
            of_runs(&stage, &found, std::slice::from_ref(&peak), move |cell, _| {
                let iops = at(cell, "rate");
                let backlog = if iops > limit { growing } else { steady };
                open_run_of(&Load { iops, ..Load::default() }, backlog)
            })
        };
        let some = run(8_200.0);
        assert_eq!(some.found("sustained"), Some(8_000.0), "{:?}", some.answers);
        assert_eq!(some.found("sustained_high"), Some(8_500.0));
        let all = run(1e9);
        assert_eq!(all.found("sustained_high"), None);
        assert!(all.answers[0].1.sentences[0].contains("a lower bound"));
    }
}
