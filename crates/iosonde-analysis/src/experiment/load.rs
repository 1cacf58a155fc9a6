//! Offered load: the maximum of each load alone, the sustained rate, and the trade-off between
//! reads and writes.

use super::offered::{Outcome, outcome};
use super::words::{self, Times, nothing};
use super::{Answer, Measure, Point, Spread, StageFacts, gate};
use crate::arrivals::RATE_WITHIN;
use iosonde_model::spec::Direction;
use iosonde_model::units::count::{self, significant_or_whole as per_s};

/// Reports the maximum rate of each load in a closed loop.
pub(super) fn capacity(facts: &StageFacts, _before: &[StageFacts]) -> Answer {
    let mut answer = Answer::default();
    for point in facts.usable() {
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
        let basis = point.figure(Measure::Iops).map_or(String::new(), |s| s.basis());
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

/// A step of the staircase: its offered rate per second, its point, and its outcome.
type Step<'a> = (f64, &'a Point, Outcome);

/// Reports latency against offered load, and the highest sustained rate.
pub(super) fn staircase(facts: &StageFacts, before: &[StageFacts]) -> Answer {
    let points = facts.usable_by("rate").into_iter();
    let steps: Vec<Step> = points.map(|(rate, p)| (rate, p, outcome(facts, p))).collect();
    if steps.is_empty() {
        return nothing("No run can be used, so nothing is known about offered load.");
    }
    let mut answer = Answer::default();
    // Steps above one that was not sustained are ignored.
    let first_missed = steps.iter().find(|(.., outcome)| outcome.carried() == Some(false));
    let below = |rate: f64| first_missed.is_none_or(|(missed, ..)| rate < *missed);
    let all_below = || steps.iter().filter(|(rate, ..)| below(*rate));
    let sustained: Vec<&Step> =
        all_below().filter(|step| is_shown_sustained(&steps, step)).collect();
    let highest = sustained.last().map_or(0.0, |(rate, ..)| *rate);
    let is_open = |(rate, _, outcome): &&Step| *rate > highest && *outcome != Outcome::Late;
    let open: Vec<&Step> = all_below().filter(is_open).collect();
    let end = end(&open, first_missed);
    match sustained.last() {
        Some((rate, point, _)) => {
            answer.find("sustained", *rate);
            answer.find("sustained_low", *rate);
            if let Some((missed, ..)) = first_missed {
                answer.find("sustained_high", *missed);
            }
            let more = exceeding(&steps, *rate).map_or(String::new(), |(offered, done)| {
                format!(", as {} were done at the step of {}/s", done_per_s(&done), per_s(offered))
            });
            let bound = first_missed.is_none().then(|| lower_bound(&steps, *rate));
            let end: Vec<String> = end.into_iter().chain(bound).collect();
            let between = first_missed.map_or(String::new(), |(missed, ..)| {
                format!(
                    "the highest such rate lies between {}/s and {}/s: ",
                    per_s(*rate),
                    per_s(*missed)
                )
            });
            answer.say(format!(
                "{}/s is sustained (p99 {}, n = {}){more}; {between}{}.",
                per_s(*rate),
                point.formatted(Measure::Quantile(0.99)),
                point.runs.len(),
                end.join("; ")
            ));
            share_of_peak(&mut answer, *rate, &steps, before);
        }
        None => answer.say(match (end, first_missed) {
            (Some(end), Some((rate, ..))) if *rate == steps[0].0 => format!(
                "Not even {}/s, the lowest rate offered, is sustained: {end}.",
                per_s(*rate)
            ),
            (Some(end), _) => format!("No step is shown to be sustained: {end}."),
            (None, _) => "No step can be evaluated: requests were submitted late although slots \
                          were free, so the generator was the limit."
                .into(),
        }),
    }
    rise(&mut answer, &sustained);
    table(&mut answer, &steps);
    answer
}

/// Whether a step was carried and a higher step did more. At a rate equal to the capacity, or a
/// percent or two above it, the backlog is too small to be detected in a short run.
fn is_shown_sustained(steps: &[Step<'_>], step: &Step<'_>) -> bool {
    step.2.carried() == Some(true) && exceeding(steps, step.0).is_some()
}

/// The step above a rate that did the most, with its operations per second. `None` unless that is
/// shown to exceed the rate by more than its tolerance: at full load there is no steady state.
fn exceeding(steps: &[Step<'_>], rate: f64) -> Option<(f64, Spread)> {
    let higher = steps.iter().filter(|step| step.0 > rate && step.2 != Outcome::Late);
    let done = higher.filter_map(|(offered, point, _)| Some((*offered, done(point)?)));
    let low = |of: &Spread| of.interval.map_or(0.0, |(low, _)| low);
    let most = done.max_by(|a, b| low(&a.1).total_cmp(&low(&b.1)))?;
    (low(&most.1) > rate * (1.0 + RATE_WITHIN)).then_some(most)
}

/// Operations per second that the runs of a step completed. The interval allows for one operation
/// cut by an edge of the window.
fn done(point: &Point) -> Option<Spread> {
    let runs = || point.runs.iter().filter_map(|figures| figures.arrivals.as_ref());
    let mut done = Spread::of(runs().map(|run| run.achieved_per_s).collect())?;
    let error = 1.0 / runs().map(|run| run.completed).min()?.max(1) as f64;
    done.interval = done.interval.map(|(low, high)| (low * (1.0 - error), high * (1.0 + error)));
    Some(done)
}

/// `8,890/s (95 % 8,850 to 8,930, n = 3)`.
fn done_per_s(done: &Spread) -> String {
    let n = done.values.len();
    let between = done.interval.map_or(format!("n = {n}, {}", words::TOO_FEW), |(low, high)| {
        format!("95 % {} to {}, n = {n}", per_s(low), per_s(high))
    });
    format!("{}/s ({between})", per_s(done.mean))
}

/// Whether the completed rate is shown to be below the requested one.
fn is_below_offered(point: &Point, done: &Spread) -> bool {
    let of = |figures: &crate::Figures| figures.arrivals.as_ref()?.asked_per_s;
    let requested = Spread::of(point.runs.iter().filter_map(of).collect());
    requested.zip(done.interval).is_some_and(|(requested, (_, high))| high < requested.mean)
}

/// The end of the staircase as text: the undecided steps, and the first that was not sustained.
fn end(open: &[&Step<'_>], first_missed: Option<&Step<'_>>) -> Option<String> {
    let is_building_up = |step: &&&Step| step.2 == Outcome::BuildingUp;
    let why = match open.iter().any(|step| is_building_up(&step)) {
        true => "a backlog was still building up",
        false => "no higher step is shown to have done more",
    };
    let open = match open {
        [] => None,
        [(rate, ..)] => {
            Some(format!("whether {}/s is sustained is not decidable yet, as {why}", per_s(*rate)))
        }
        [(low, ..), .., (high, ..)] => Some(format!(
            "whether {}/s to {}/s are sustained is not decidable yet, as {why}",
            per_s(*low),
            per_s(*high)
        )),
    };
    let missed = first_missed.map(|(rate, point, outcome)| match (outcome, done(point)) {
        (Outcome::Short(_), Some(done)) if is_below_offered(point, &done) => {
            format!("at {}/s only {} are done", per_s(*rate), done_per_s(&done))
        }
        (Outcome::Short(_), Some(done)) => {
            format!("at {}/s less was done than came due, {}", per_s(*rate), done_per_s(&done))
        }
        _ => format!("at {}/s the backlog grows", per_s(*rate)),
    });
    let parts: Vec<String> = open.into_iter().chain(missed).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The note that the highest sustained rate is a lower bound, as no higher step failed.
fn lower_bound(steps: &[Step<'_>], highest: f64) -> String {
    let is_late = |(rate, _, outcome): &Step| *rate > highest && *outcome == Outcome::Late;
    let why = match steps.iter().any(is_late) {
        true => "higher steps were not offered as planned",
        false => "no higher step failed",
    };
    format!("{why}, so this is a lower bound")
}

/// Reports the sustained rate as a share of the closed-loop rate. The rest is called out of reach
/// only if no step did more than half way from the sustained to the closed-loop rate.
fn share_of_peak(answer: &mut Answer, rate: f64, steps: &[Step<'_>], before: &[StageFacts]) {
    let peak = before.iter().rev().find(|stage| stage.found("iops").is_some());
    let Some(peak) = peak.and_then(|stage| stage.points.iter().find(|point| point.is_usable()))
    else {
        return;
    };
    let Some(iops) = peak.mean(Measure::Iops) else { return };
    answer.find("sustained-share", rate / iops);
    let of_peak = |step: &Step| {
        let done = done(step.1).filter(|_| step.2 != Outcome::Late)?;
        Times::of_values(&done.values, &peak.per_run(Measure::Iops))
    };
    let most = steps.iter().filter_map(of_peak).max_by(|a, b| a.times.total_cmp(&b.times));
    let ops = peak.runs.iter().map(|run| run.all.total.ops).min().unwrap_or(0).max(1) as f64;
    // The edge of a window cuts an operation.
    let limit = ((1.0 + rate / iops) / 2.0).min(1.0 - ops.recip());
    let is_below =
        |times: &Times| gate::side(times, limit, f64::INFINITY) == Some(gate::Side::Below);
    let rest = most.filter(is_below).map_or(String::new(), |times| {
        format!(
            ": independent users (open loop) cannot reach the rest; at most {} that rate was done",
            times.formatted()
        )
    });
    answer.say(format!(
        "That is {} of the closed-loop rate at a fixed queue depth, {} IOPS{rest}.",
        count::percent(rate / iops),
        peak.formatted(Measure::Iops)
    ));
}

fn table(answer: &mut Answer, steps: &[Step<'_>]) {
    let rows = steps.iter().map(|(rate, point, outcome)| {
        let verdict = match outcome {
            Outcome::Carried => "carried",
            Outcome::Grows => "backlog grows",
            Outcome::Short(_) => "less than offered",
            Outcome::BuildingUp => "backlog building up",
            Outcome::Late => "generator late",
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
}

/// Reports the rate at which p99 has doubled.
fn rise(answer: &mut Answer, sustained: &[&Step<'_>]) {
    let Some((lowest, first, _)) = sustained.first() else { return };
    let tail = Measure::Quantile(0.99);
    let shown = |point: &Point| {
        let times = Times::of(point, first, tail)?;
        let is_shown = times.times > 2.0 && times.differ();
        (is_shown && gate::withheld(&[point, first]).is_none()).then_some(times)
    };
    let doubled = sustained.iter().find_map(|(rate, point, _)| Some((rate, *point, shown(point)?)));
    let Some((rate, point, times)) = doubled else { return };
    answer.find("p99_doubled_at", *rate);
    answer.say(format!(
        "From {}/s on, p99 is {} that at {}/s: {} against {}. Plan for a lower rate if there is a \
         latency target.",
        per_s(*rate),
        times.formatted(),
        per_s(*lowest),
        point.formatted(tail),
        first.formatted(tail)
    ));
}

/// Reports which combinations of reads and writes are sustained: the line r / R + w / W = k.
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
            Some((r / reads + w / writes, outcome(facts, point).carried()?, point))
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
                per_s(reads),
                per_s(writes),
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

/// Range of k in which reads and writes count as sharing one budget.
const ONE_BUDGET: (f64, f64) = (0.9, 1.1);

/// The boundary between what is sustained and what is not.
struct Boundary {
    /// Mean of the best places.
    k: f64,
    /// The loads on both sides of the boundary.
    low: f64,
    high: f64,
    /// Cells on the wrong side.
    wrong: usize,
}

/// The boundary that puts the fewest cells on the wrong side; if several do, their mean.
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

/// Reports the effect of half of the maximum writes on the lightest reads.
fn price_of_writes(answer: &mut Answer, facts: &StageFacts, writes: f64) {
    let tail = Measure::Quantile(0.95);
    let is_known = |point: &&Point| point.spread(tail, Direction::Read).is_some();
    let reads = |point: &Point| point.at("read-rate").unwrap_or(0.0);
    let alone = facts.points.iter().filter(|point| point.at("write-rate") == Some(0.0));
    let alone = alone.filter(|point| reads(point) > 0.0).filter(is_known);
    let Some(alone) = alone.min_by(|a, b| reads(a).total_cmp(&reads(b))) else { return };
    let same = facts.points.iter().filter(|point| point.at("read-rate") == alone.at("read-rate"));
    let half = same
        .filter(|point| outcome(facts, point) == Outcome::Carried && is_known(point))
        .filter_map(|point| Some((point.at("write-rate")? / writes, point)))
        .min_by(|a, b| (a.0 - 0.5).abs().total_cmp(&(b.0 - 0.5).abs()));
    let Some((share, beside)) = half.filter(|(share, _)| *share > 0.0) else { return };
    let values = |point: &Point| point.values(tail, Direction::Read);
    let Some(times) = Times::of_values(&values(beside), &values(alone)) else { return };
    let formatted = |point: &Point| {
        point.spread(tail, Direction::Read).map_or("n/a".into(), |spread| spread.formatted(tail))
    };
    answer.find_between("read-p95-price", times.times, times.interval);
    answer.say(format!(
        "With {} of the writes in parallel, the p95 of light reads is {}, {} its value without \
         writes ({}).",
        count::percent(share),
        formatted(beside),
        times.formatted(),
        formatted(alone)
    ));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::StageFacts;
    use super::super::testing::{at, facts, noise, of_runs, stage};
    use crate::finding::{Finding, Severity, Strength};
    use iosonde_fixtures::{Load, open_run_of};
    use iosonde_model::plan::design::Found;
    use iosonde_model::plan::{Pace, Rate};

    fn steady(_: u64) -> u64 {
        0
    }

    fn growing(tenth: u64) -> u64 {
        tenth * 50_000_000
    }

    #[test]
    fn the_highest_rate_below_the_first_backlog_is_sustained() {
        let peak = peak();
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
        let first = &some.answers[0].1.sentences[0];
        assert!(first.contains("lies between 8,000/s and 8,500/s: at 8,500/s the"), "{first}");
        let all = run(1e9);
        assert_eq!(all.found("sustained_high"), None);
        assert!(all.answers[0].1.sentences[0].contains("a lower bound"));
    }

    fn peak() -> StageFacts {
        facts(&stage("rate-staircase", "peak"), |_, _| Load {
            iops: 10_000.0,
            depth: 64,
            ..Load::default()
        })
    }

    /// The staircase of a device of 8,200/s; `change` is applied to each run of 9,000/s or more.
    fn above_capacity(change: fn(&mut iosonde_model::record::Run)) -> StageFacts {
        let peak = peak();
        let found = Found::from([("peak.iops".to_owned(), 10_000.0)]);
        let stage = stage("rate-staircase", "rate-staircase");
        of_runs(&stage, &found, std::slice::from_ref(&peak), |cell, _| {
            let iops = at(cell, "rate");
            let mut run = open_run_of(&Load { iops, ..Load::default() }, steady);
            if iops >= 9_000.0 {
                change(&mut run);
            }
            run
        })
    }

    #[test]
    fn a_step_that_does_less_than_offered_is_not_sustained() {
        // 10 % more come due than are completed, but the samples of the backlog do not show it.
        let facts = above_capacity(|run| {
            for job in &mut run.plan.jobs {
                if let Pace::Rate { rate: Rate::Ops(per_s), .. } = &mut job.pace {
                    *per_s *= 1.1;
                }
            }
            for job in &mut run.jobs {
                job.arrivals.due += job.arrivals.due / 10;
                job.arrivals.gap_sum_ns = (job.arrivals.gap_sum_ns as f64 / 1.1) as u64;
                job.arrivals.gap_square_sum /= 1.1 * 1.1;
            }
        });
        let said = facts.answers[0].1.sentences.join(" ");
        assert_eq!(facts.found("sustained"), Some(8_500.0), "{said}");
        assert!(said.contains("at 9,000/s only 9,000/s (95 % "), "{said}");
    }

    #[test]
    fn what_was_done_is_called_less_than_offered_only_where_the_runs_show_it() {
        let said = |shares: [f64; 3]| {
            let found = Found::from([("peak.iops".to_owned(), 10_000.0)]);
            let stage = stage("rate-staircase", "rate-staircase");
            let facts = of_runs(&stage, &found, &[peak()], |cell, repeat| {
                let rate = at(cell, "rate");
                let share = if rate < 9_000.0 { 1.0 } else { shares[repeat as usize % 3] };
                let mut run = open_run_of(&Load { iops: rate * share, ..Load::default() }, steady);
                if let Pace::Rate { rate: Rate::Ops(per_s), .. } = &mut run.plan.jobs[0].pace {
                    *per_s = rate;
                }
                run.jobs[0].arrivals.due = (10.0 * rate) as u64;
                run
            });
            facts.answers[0].1.sentences.join("\n")
        };
        let alike = said([0.96, 0.961, 0.962]);
        assert!(alike.contains("at 9,000/s only 8,6"), "{alike}");
        let apart = said([0.9, 0.95, 0.999]);
        assert!(apart.contains("at 9,000/s less was done than came due, 8,5"), "{apart}");
    }

    #[test]
    fn a_step_whose_backlog_was_building_up_is_not_decided() {
        let mut facts = above_capacity(|_| {});
        let all = super::staircase(&facts, &[]);
        assert_eq!(all.found.get("sustained"), Some(&10_000.0));
        let high = |cell: usize| facts.points[cell].at("rate") >= Some(9_000.0);
        let cells: Vec<bool> = (0..facts.points.len()).map(high).collect();
        for trial in facts.trials.iter_mut().filter(|trial| cells[trial.cell]) {
            trial.findings.push(Finding::new(
                "began_empty",
                "a backlog that was still building up",
                Strength::Supported,
                Severity::Warning,
                String::new(),
            ));
        }
        let answer = super::staircase(&facts, &[]);
        // A higher step completed more, whether or not it can be sustained.
        assert_eq!(answer.found.get("sustained"), Some(&8_500.0));
        let first = &answer.sentences[0];
        assert!(
            first.contains("whether 9,000/s to 11,000/s are sustained is not decid"),
            "{first}"
        );
    }

    #[test]
    fn the_rest_of_the_closed_loop_rate_is_out_of_reach_only_where_no_step_did_as_much() {
        let said = |most: f64| {
            let peak = peak();
            let stage = stage("rate-staircase", "rate-staircase");
            let found = Found::from([("peak.iops".to_owned(), 10_000.0)]);
            let facts = of_runs(&stage, &found, std::slice::from_ref(&peak), |cell, repeat| {
                // The completed rate differs slightly between runs.
                let iops = at(cell, "rate").min(most) * (1.0 + 0.001 * f64::from(repeat));
                let backlog = if at(cell, "rate") > most { growing } else { steady };
                open_run_of(&Load { iops, ..Load::default() }, backlog)
            });
            facts.answers[0].1.sentences.join("\n")
        };
        let below = said(9_200.0);
        assert!(below.contains("cannot reach the rest; at most 0.92"), "{below}");
        // One percent less than the closed loop is nearly its whole rate.
        let nearly = said(9_900.0);
        assert!(!nearly.contains("cannot reach the rest"), "{nearly}");
        let equal = said(10_000.0);
        assert!(equal.contains("of the closed-loop rate at a fixed"), "{equal}");
        assert!(!equal.contains("cannot reach the rest"), "{equal}");
    }

    #[test]
    fn a_step_at_what_the_storage_can_do_is_not_called_sustained() {
        // Servers of constant speed: all runs have the closed-loop rate or slightly more.
        for most in [10_000.0, 10_000.001, 10_005.0] {
            let stage = stage("rate-staircase", "rate-staircase");
            let found = Found::from([("peak.iops".to_owned(), 10_000.0)]);
            let facts = of_runs(&stage, &found, &[peak()], |cell, _| {
                let rate = at(cell, "rate");
                let backlog = if rate > 10_000.0 { growing } else { steady };
                let iops = rate.min(most);
                open_run_of(&Load { iops, noise: 0.0, ..Load::default() }, backlog)
            });
            let first = &facts.answers[0].1.sentences[0];
            assert_eq!(facts.found("sustained"), Some(9_500.0), "{first}");
            assert!(first.contains("whether 10,000/s is sustained is not decidable"), "{first}");
        }
    }

    #[test]
    fn a_step_that_no_higher_one_exceeds_is_not_decided() {
        // The capacity is 8,330/s; that 8,500/s exceeds it is hardly visible.
        let wrong = |seed: u64| {
            let mut noise = noise(seed, 0.01);
            let found = Found::from([("peak.iops".to_owned(), 10_000.0)]);
            let stage = stage("rate-staircase", "rate-staircase");
            let facts = of_runs(&stage, &found, &[peak()], |cell, _| {
                let (rate, most) = (at(cell, "rate"), 8_330.0 * noise());
                let backlog = if rate > 8_500.0 { growing } else { steady };
                let mut run =
                    open_run_of(&Load { iops: rate.min(most), ..Load::default() }, backlog);
                if let Pace::Rate { rate: Rate::Ops(per_s), .. } = &mut run.plan.jobs[0].pace {
                    *per_s = rate;
                }
                let arrivals = &mut run.jobs[0].arrivals;
                let (gaps, gap_ns) = (arrivals.gaps as f64, 1e9 / rate);
                arrivals.gap_sum_ns = (gaps * gap_ns) as u64;
                arrivals.gap_square_sum = gaps * gap_ns * gap_ns;
                run
            });
            facts.found("sustained") > Some(8_330.0)
        };
        let count = (0..40).filter(|seed| wrong(*seed)).count();
        assert!(count <= 2, "{count} of 40");
        let facts = above_capacity(|_| {});
        let first = &facts.answers[0].1.sentences[0];
        assert!(first.starts_with("10,000/s is sustained"), "{first}");
        assert!(
            first.contains("whether 11,000/s is sustained is not decidable yet, as no higher step"),
            "{first}"
        );
        assert!(first.contains("a lower bound"), "{first}");
    }
}
