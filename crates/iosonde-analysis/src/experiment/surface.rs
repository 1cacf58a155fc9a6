//! Which depth does each block size need, and how much client CPU time does an operation cost?

use super::gate::{self, Ranking};
use super::sweep::highest;
use super::words::{self, Times, lines, nothing, slug};
use super::{Answer, Measure, Point, StageFacts};
use iosonde_model::plan::chance::mix;
use iosonde_model::spec::Direction;
use iosonde_model::units::{bytes, count, duration};
use iosonde_stats::cheapest::{Setting, cheapest};
use iosonde_stats::knee::{Level, knee};

/// Share of the best that a lower depth may lack.
const ENOUGH_WITHIN: f64 = 0.05;

/// The best combination, and for each size the sufficient depth and the knee.
pub(super) fn analyse(facts: &StageFacts, _before: &[StageFacts]) -> Answer {
    let lines = lines(facts, "iodepth");
    let all: Vec<&Point> = facts.points.iter().filter(|point| point.is_usable()).collect();
    let Some(highest) = highest(&all) else {
        return nothing("No run can be used, so there is no surface.");
    };
    let mut answer = Answer::default();
    let at = |point: &Point, axis: &str| point.at(axis).unwrap_or(0.0);
    answer.find("best-bytes-per-s", highest.mean(Measure::Bandwidth).unwrap_or(0.0));
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
    let mut settings: Vec<Setting> = all
        .iter()
        .map(|p| Setting { cost: cost(p), values: p.values(Measure::Bandwidth, Direction::Total) })
        .filter(|setting| !setting.values.is_empty())
        .collect();
    settings.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let enough = cheapest(&settings, ENOUGH_WITHIN, seed);
    if let Some(enough) = enough.filter(|_| gate::withheld(&all).is_none()) {
        answer.find("enough-bytes-in-flight", enough.cost);
        answer.say(format!(
            "A queue depth of {} is enough for {} of that: further requests only wait.",
            words::size(enough.cost),
            words::percent(1.0 - ENOUGH_WITHIN)
        ));
    }
    for (name, points) in &lines {
        let level = |point: &&Point| {
            let rates = point.values(Measure::Iops, Direction::Total);
            let means = point.values(Measure::Mean, Direction::Total);
            let latencies = means.iter().map(|ns| ns / 1e9).collect();
            (!rates.is_empty()).then_some(Level { n: point.at("iodepth")?, rates, latencies })
        };
        let levels: Vec<Level> = points.iter().filter_map(level).collect();
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

/// CPU time by direction and size, and the resulting ceiling.
pub(super) fn cpu_cost(facts: &StageFacts, _before: &[StageFacts]) -> Answer {
    let lines = lines(facts, "block-size");
    let mut answer = Answer::default();
    let mut smallest: Vec<(String, &Point)> = Vec::new();
    for (name, points) in &lines {
        let costs: Vec<(f64, f64)> = points
            .iter()
            .filter_map(|point| Some((point.at("block-size")?, point.mean(Measure::CpuPerOp)?)))
            .collect();
        let (Some(first), Some(last)) = (costs.first(), costs.last()) else { continue };
        let ceiling = 1e9 / first.1;
        answer.find(&format!("cpu_ns-{}", slug(name)), first.1);
        answer.find(&format!("ceiling_iops-{}", slug(name)), ceiling);
        let growth = if last.0 > first.0 {
            let each = (last.1 - first.1) / (last.0 - first.0) * 1024.0;
            format!(
                "; {} at {}, plus {} per additional KiB",
                duration::latency(last.1),
                bytes::exact(last.0 as u64),
                duration::latency(each.max(0.0))
            )
        } else {
            String::new()
        };
        answer.say(format!(
            "{name}: {} of CPU time per operation of {}, so one CPU can issue at most {} per \
             second{growth}.",
            duration::latency(first.1),
            bytes::exact(first.0 as u64),
            count::significant_or_whole(ceiling)
        ));
        if let Some(point) = points.iter().find(|point| point.at("block-size") == Some(first.0)) {
            smallest.push((name.clone(), point));
        }
    }
    let firsts: Vec<&Point> = smallest.iter().map(|(_, point)| *point).collect();
    let cost = |point: &Point| point.mean(Measure::CpuPerOp).unwrap_or(0.0);
    let least = gate::best(&firsts, Measure::CpuPerOp);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::testing::{at, facts, noise, stage};
    use iosonde_fixtures::Load;

    #[test]
    fn small_blocks_need_more_depth_than_large_ones() {
        let mut noise = noise(4, 0.01);
        // Sixteen units and 2 GB/s for all of them together.
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
}
