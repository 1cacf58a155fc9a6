//! Which depth does each block size need, and how much client CPU time does an operation cost?

use super::sweep::{bandwidth, best};
use super::words::{self, lines, nothing, slug};
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
    let Some(best) = best(&all) else {
        return nothing("No run can be used, so there is no surface.");
    };
    let mut answer = Answer::default();
    let at = |point: &Point, axis: &str| point.at(axis).unwrap_or(0.0);
    answer.find("best-iodepth", at(best, "iodepth"));
    answer.find("best-block-size", at(best, "block-size"));
    answer.find("best-bytes-per-s", best.mean(Measure::Bandwidth).unwrap_or(0.0));
    answer.say(format!(
        "Most bandwidth: {} (depth, block size): {}.",
        best.name(),
        bandwidth(best)
    ));
    let seed = mix(facts.laid_out.order_seed);
    // The cheapest setting has the fewest bytes in flight.
    let cost = |point: &Point| at(point, "iodepth") * at(point, "block-size");
    let mut settings: Vec<Setting> = all
        .iter()
        .map(|p| Setting { cost: cost(p), values: p.values(Measure::Bandwidth, Direction::Total) })
        .filter(|setting| !setting.values.is_empty())
        .collect();
    settings.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    if let Some(enough) = cheapest(&settings, ENOUGH_WITHIN, seed) {
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
        let Some(at) = knee(&levels, seed).knee else {
            answer.say(format!("{name}: its knee lies outside the depths of this surface."));
            continue;
        };
        answer.find(&format!("knee-{}", slug(name)), at);
        answer.say(format!("{name}: the knee is at depth {}.", count::significant(at)));
    }
    answer
}

/// CPU time by direction and size, and the resulting ceiling.
pub(super) fn cpu_cost(facts: &StageFacts, _before: &[StageFacts]) -> Answer {
    let lines = lines(facts, "block-size");
    let mut answer = Answer::default();
    let mut smallest: Vec<(String, f64)> = Vec::new();
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
        smallest.push((name.clone(), first.1));
    }
    let least = smallest.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let most = smallest.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    if let (Some(least), Some(most)) = (least, most)
        && most.1 > least.1
    {
        answer.say(format!(
            "{} needs the least CPU time, {} times less than {}.",
            least.0,
            count::significant(most.1 / least.1),
            most.0
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
