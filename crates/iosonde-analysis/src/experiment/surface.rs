//! Which depth does each block size need, and how much client CPU time does an operation cost?

use super::gate::{self, Ranking};
use super::words::{self, Times, lines, nothing, slug};
use super::{Answer, Measure, Point, Spread, StageFacts};
use iosonde_model::plan::chance::mix;
use iosonde_model::spec::Direction;
use iosonde_model::units::{bytes, count, duration};
use iosonde_stats::bootstrap::sum_of_means;
use iosonde_stats::cheapest::{Setting, cheapest};
use iosonde_stats::knee::{Level, knee};

/// Share of the best bandwidth that a cheaper setting may lack.
const ENOUGH_WITHIN: f64 = 0.05;

/// Reports the best combination, the cheapest sufficient one, and the knee of each block size.
pub(super) fn analyse(facts: &StageFacts, _before: &[StageFacts]) -> Answer {
    let lines = lines(facts, "iodepth");
    let all = facts.usable();
    let Some((rate, highest)) = gate::highest(&all, Measure::Bandwidth) else {
        return nothing("No run can be used, so there is no surface.");
    };
    let mut answer = Answer::default();
    let at = |point: &Point, axis: &str| point.at(axis).unwrap_or(0.0);
    answer.find("best-bytes-per-s", rate);
    let rate = highest.with_interval(Measure::Bandwidth);
    let name = |point: &Point| format!("({})", point.name());
    let words = match gate::ranking(&all, Measure::Bandwidth) {
        Some(Ranking::Best(best)) => {
            answer.find("best-iodepth", at(best, "iodepth"));
            answer.find("best-block-size", at(best, "block-size"));
            format!("Most bandwidth: {} (depth, block size): {rate}.", best.name())
        }
        Some(Ranking::Ties { points, more, .. }) => format!(
            "Most bandwidth: {} of {} combinations (depth, block size) are not shown to differ: \
             {}; {rate} at {}{}.",
            points.len(),
            all.len(),
            gate::listed(&all, &points, &name),
            name(highest),
            gate::advice(more)
        ),
        Some(Ranking::Undecided(why)) => {
            format!("Most bandwidth: {why}; so far {rate} at {}.", name(highest))
        }
        None => format!("Bandwidth: {rate} at {}.", name(highest)),
    };
    answer.say(words);
    let seed = mix(facts.laid_out.order_seed);
    // The cheapest setting has the fewest bytes in flight.
    let cost = |point: &Point| at(point, "iodepth") * at(point, "block-size");
    let mut by_cost: Vec<(&Point, Setting)> = all
        .iter()
        .map(|p| (*p, cost(p), p.per_run(Measure::Bandwidth)))
        .filter(|(_, _, values)| !values.is_empty())
        .map(|(point, cost, values)| (point, Setting { cost, values }))
        .collect();
    by_cost.sort_by(|(_, a), (_, b)| a.cost.total_cmp(&b.cost));
    let (points, settings): (Vec<&Point>, Vec<Setting>) = by_cost.into_iter().unzip();
    let compared = cheapest(&settings, ENOUGH_WITHIN, seed).map(|found| found.settings);
    let first = compared.and_then(|all| all.iter().position(|setting| setting.is_enough));
    if let Some(first) = first.filter(|_| gate::withheld(&all).is_none()) {
        let (enough, in_flight) = (points[first], settings[first].cost);
        answer.find("enough-bytes-in-flight", in_flight);
        answer.find("enough-iodepth", at(enough, "iodepth"));
        answer.find("enough-block-size", at(enough, "block-size"));
        answer.say(format!(
            "{} reaches {} of that with the fewest bytes in flight, {}.",
            name(enough),
            count::percent(1.0 - ENOUGH_WITHIN),
            words::size(in_flight)
        ));
    }
    for (name, points) in &lines {
        let levels = points.iter().filter_map(|point| words::level(point, point.at("iodepth")?));
        let levels: Vec<Level> = levels.collect();
        let knee = knee(&levels, seed);
        let label = |point: &Point| count::setting(point.at("iodepth").unwrap_or_default());
        let words = match gate::rank(points.iter().map(|p| (*p, p.power())).collect()) {
            Some(Ranking::Best(point)) => match knee.knee {
                Some(at) => {
                    answer.find(&format!("knee-{}", slug(name)), at);
                    format!("{name}: the knee is at depth {}.", label(point))
                }
                None => format!("{name}: its knee lies outside the depths of this surface."),
            },
            Some(Ranking::Ties { points: ties, .. }) => {
                format!(
                    "{name}: the knee is at one of depth {}.",
                    gate::listed(points, &ties, &label)
                )
            }
            Some(Ranking::Undecided(why)) => format!("{name}: the place of its knee is {why}."),
            None => continue,
        };
        answer.say(words);
    }
    answer
}

/// Reports CPU time per operation by direction and size, and the resulting ceiling of one CPU.
pub(super) fn cpu_cost(facts: &StageFacts, _before: &[StageFacts]) -> Answer {
    let lines = lines(facts, "block-size");
    let mut answer = Answer::default();
    let mut smallest: Vec<(String, &Point)> = Vec::new();
    for (name, points) in &lines {
        let costs: Vec<(f64, Spread, &Point)> = points
            .iter()
            .filter_map(|point| {
                let cost = point.figure(Measure::CpuPerOp)?;
                Some((point.at("block-size")?, cost, *point))
            })
            .collect();
        let (Some((least, first, point)), Some((most, last, _))) = (costs.first(), costs.last())
        else {
            continue;
        };
        answer.find(&format!("cpu_ns-{}", slug(name)), first.mean);
        let ceiling = Spread::of(first.values.iter().map(|cost| 1e9 / cost).collect());
        let ceiling = ceiling.map_or(String::new(), |ceiling| {
            answer.find(&format!("ceiling_iops-{}", slug(name)), ceiling.mean);
            format!(", so one CPU can issue {} per second", ceiling.with_interval(Measure::Iops))
        });
        let growth = match most > least {
            true => format!(
                "; {} at {}{}",
                last.with_interval(Measure::CpuPerOp),
                bytes::exact(*most as u64),
                per_kib((most - least) / 1024.0, first, last)
            ),
            false => String::new(),
        };
        answer.say(format!(
            "{name}: {} of CPU time per operation of {}{ceiling}{growth}.",
            first.with_interval(Measure::CpuPerOp),
            bytes::exact(*least as u64)
        ));
        smallest.push((name.clone(), point));
    }
    let firsts: Vec<&Point> = smallest.iter().map(|(_, point)| *point).collect();
    let cost = |point: &Point| point.mean(Measure::CpuPerOp).unwrap_or(0.0);
    let least = gate::best_of(&firsts, Measure::CpuPerOp, Direction::Total);
    let most = smallest.iter().max_by(|a, b| cost(a.1).total_cmp(&cost(b.1)));
    if let (Some(least), Some((name, most))) = (least, most)
        && let Some((of, _)) = smallest.iter().find(|(_, point)| point.cell == least.cell)
        && let Some(times) = Times::of(most, least, Measure::CpuPerOp)
    {
        answer.say(format!(
            "{of} needs the least CPU time; {name} needs {} as much.",
            times.formatted()
        ));
    }
    super::sweep::left_out(&mut answer, facts);
    if answer.sentences.is_empty() {
        return nothing("No run has a CPU time.");
    }
    answer
}

/// The cost of each additional KiB, if it is shown to have one.
fn per_kib(kib: f64, first: &Spread, last: &Spread) -> String {
    let each = 1.0 / kib;
    match sum_of_means(&[(each, &last.values), (-each, &first.values)]) {
        Some((low, high)) if low > 0.0 => {
            let [low, high] = [low, high].map(duration::latency);
            format!(", {low} to {high} for each additional KiB")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::testing::{at, facts, noise, stage};
    use iosonde_fixtures::Load;

    #[test]
    fn small_blocks_need_more_depth_than_large_ones() {
        let mut noise = noise(4, 0.01);
        // Sixteen parallel units, with 2 GB/s in total.
        let facts = facts(&stage("surface", "surface"), |cell, _| {
            let (depth, size) = (at(cell, "iodepth"), at(cell, "block-size"));
            let iops = (depth.min(16.0) / 100e-6).min(2e9 / size) * noise();
            Load { depth: depth as u32, block_bytes: size as u64, iops, ..Load::default() }
        });
        assert!((facts.found("knee-4-kib").unwrap() / 16.0 - 1.0).abs() < 0.1);
        assert_eq!(facts.found("knee-1-mib"), None, "one at a time fills it");
        let rate = facts.found("best-bytes-per-s").unwrap();
        assert!((rate / 2e9 - 1.0).abs() < 0.05);
        assert!(facts.found("enough-bytes-in-flight").unwrap() <= 1048576.0);
    }

    #[test]
    fn what_is_enough_is_a_combination_where_operations_are_the_limit() {
        let mut noise = noise(4, 0.01);
        let facts = facts(&stage("surface", "surface"), |cell, _| {
            let (depth, size) = (at(cell, "iodepth"), at(cell, "block-size"));
            let iops = (depth.min(8.0) / 90e-6) * noise();
            Load { depth: depth as u32, block_bytes: size as u64, iops, ..Load::default() }
        });
        assert_eq!(facts.found("enough-block-size"), Some(1048576.0));
        assert_eq!(facts.found("enough-iodepth"), Some(8.0), "as many bytes in smaller requests");
    }
}
