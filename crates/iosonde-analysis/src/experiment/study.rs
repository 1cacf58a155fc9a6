//! The conclusions of a whole study: each answer on one line, the findings, and the limits of the
//! study.

use super::claims::at_ceiling;
use super::gate::{self, Ranking};
use super::words::{self, Times, nothing};
use super::{Answer, Measure, Point, Spread, StageFacts, Standing, Study};
use crate::finding::{Finding, Severity, Strength};
use crate::grouped::{distinct, grouped};
use iosonde_model::units::{count, duration};

/// Relative difference within which two stages of the same load agree.
const SAME_WITHIN: f64 = 0.15;
/// Runs of a level below which small differences cannot be shown: the t interval of three is 2.5
/// standard deviations to each side, that of ten 0.7.
const FEW_RUNS: usize = 10;
/// Rate that no link of a single device reaches: above it, memory served the requests.
const BEYOND_LINKS_BYTES_PER_S: f64 = 64e9;

/// Reports the conclusions about a device.
pub(super) fn study(study: &Study) -> Answer {
    if study.stages.iter().all(|facts| facts.points.is_empty()) {
        return nothing("Nothing was measured, so there is nothing to conclude.");
    }
    let mut answer = Answer::default();
    if let Some(words) = summary(study) {
        answer.say(words);
    }
    for facts in study.stages.iter().filter(|facts| !facts.points.is_empty()) {
        let first = facts.answers.iter().find_map(|(_, answer)| answer.sentences.first());
        if let Some(first) = first {
            let heading = format!("{}: ", facts.stage.heading());
            let named = first.starts_with(&heading);
            answer.say(if named { first.clone() } else { format!("{heading}{first}") });
        }
    }
    stages_agree(&mut answer, study);
    ceiling(&mut answer, study);
    anomalies(&mut answer, study);
    limits(&mut answer, study);
    answer
}

/// Levels of several stages, to be ranked together.
struct Levels<'a> {
    /// The stage of each point.
    stages: Vec<&'a StageFacts>,
    /// The points; `cell` is the index in this list.
    points: Vec<Point>,
}

impl<'a> Levels<'a> {
    fn of(all: impl Iterator<Item = (&'a StageFacts, &'a Point)>) -> Levels<'a> {
        let (stages, points): (Vec<&StageFacts>, Vec<&Point>) = all.unzip();
        let placed = points.into_iter().enumerate();
        let points = placed.map(|(cell, point)| Point { cell, ..point.clone() }).collect();
        Levels { stages, points }
    }

    fn heading(&self, point: &Point) -> String {
        let stage = self.stages.get(point.cell).map_or("", |facts| facts.stage.heading());
        format!("{stage} ({})", point.name())
    }

    /// The highest level with its figure, or why it is undecided. `None` if no level has the
    /// measure.
    fn highest(&self, measure: Measure) -> Option<Result<Highest, String>> {
        let all: Vec<&Point> = self.points.iter().collect();
        let (_, top) = gate::highest(&all, measure)?;
        let ties = match gate::ranking(&all, measure) {
            Some(Ranking::Ties { points, .. }) => points.len() - 1,
            Some(Ranking::Undecided(why)) => return Some(Err(why)),
            Some(Ranking::Best(_)) | None => 0,
        };
        let figure = gate::figure_of_highest(&all, measure)?;
        Some(Ok(Highest { figure, place: self.heading(top), ties, of: all.len() }))
    }
}

/// The highest of several levels.
struct Highest {
    figure: Spread,
    /// The level with the highest mean.
    place: String,
    /// Number of other levels that are not shown to differ from it.
    ties: usize,
    /// Number of all levels.
    of: usize,
}

impl Highest {
    fn formatted(&self, measure: Measure) -> String {
        let ties = match self.ties {
            0 => String::new(),
            1 => ", not shown to differ from another level".into(),
            ties => format!(", not shown to differ from {ties} other levels"),
        };
        let unit = if measure == Measure::Iops { " IOPS" } else { "" };
        format!("{}{unit} at {}{ties}", self.figure.with_interval(measure), self.place)
    }
}

/// The highest rates of all levels with full confidence, and the latency of the baseline, as text.
fn summary(study: &Study) -> Option<String> {
    let points = study.stages.iter().flat_map(|facts| facts.points.iter().map(move |p| (facts, p)));
    let levels = Levels::of(points.filter(|(_, point)| point.standing == Standing::Good));
    let (iops, rate) = (Measure::Iops, Measure::Bandwidth);
    let most = match (levels.highest(iops)?, levels.highest(rate)?) {
        (Ok(ops), Ok(bytes)) => {
            format!("It does up to {}, and {}", ops.formatted(iops), bytes.formatted(rate))
        }
        (Err(why), _) | (_, Err(why)) => format!("How much it does at most is {why}"),
    };
    let base = study.stage("qd1-baseline").and_then(|facts| facts.points.first());
    let base = base.filter(|point| point.is_usable()).map_or(String::new(), |point| {
        let mean = point.with_interval(Measure::Mean);
        format!("; one request at a time takes {mean} on average ({})", point.name())
    });
    Some(format!("{most}{base}."))
}

/// Reports the best measured pattern for reading and for writing.
pub(super) fn micro(study: &Study) -> Answer {
    let mut answer = Answer::default();
    let mut tops: Vec<Spread> = Vec::new();
    for (what, reads) in [("reading", true), ("writing", false)] {
        let own = |point: &&Point| {
            point.runs.first().is_some_and(|run| {
                (run.all.read.ops > 0) == reads && (run.all.write.ops > 0) != reads
            })
        };
        // Requests served by the page cache say nothing about the storage.
        let direct = |facts: &&StageFacts| {
            facts.trials.iter().all(|trial| !matches!(trial.cache.as_str(), "cold" | "warm"))
        };
        let usable = study.stages.iter().filter(direct).flat_map(|facts| {
            let points = facts.points.iter().filter(|point| point.is_usable()).filter(own);
            points.map(move |point| (facts, point))
        });
        let top = match Levels::of(usable).highest(Measure::Bandwidth) {
            None => continue,
            Some(Err(why)) => {
                answer.say(format!("The best pattern for {what} is {why}."));
                continue;
            }
            Some(Ok(top)) => top,
        };
        answer.find(&format!("best-{what}-bytes-per-s"), top.figure.mean);
        let rate = format!("{}: {}", top.place, top.figure.with_interval(Measure::Bandwidth));
        answer.say(match top.ties {
            0 => format!("The best pattern for {what}: {rate}."),
            ties => format!(
                "No single pattern is best for {what}: {} of {} are not shown to differ from \
                 {rate}.",
                ties + 1,
                top.of
            ),
        });
        tops.push(top.figure);
    }
    if answer.sentences.is_empty() {
        return nothing("Nothing was measured, so there is no best pattern.");
    }
    if let [reading, writing] = tops.as_slice()
        && let Some(times) = Times::of_values(&reading.values, &writing.values)
        && times.differ()
    {
        answer.find("reading-over-writing", times.times);
        answer.say(format!(
            "At their highest levels, reads do {} the throughput of writes.",
            times.formatted()
        ));
    }
    beyond_physics(&mut answer, study);
    anomalies(&mut answer, study);
    limits(&mut answer, study);
    answer
}

/// Warns of rates above the rate of the device's link or, if it is unknown, of any link.
fn beyond_physics(answer: &mut Answer, study: &Study) {
    let device = study.target.as_ref().and_then(|target| target.device.as_ref());
    let link = device.and_then(|device| device.link_bytes_per_s).map(|link| link as f64);
    let ceiling = link.unwrap_or(BEYOND_LINKS_BYTES_PER_S);
    let mut beyond: Vec<String> = Vec::new();
    for facts in &study.stages {
        for point in facts.usable() {
            if point.mean(Measure::Bandwidth).is_some_and(|rate| rate > ceiling) {
                let rate = point.formatted(Measure::Bandwidth);
                beyond.push(format!("{} ({}): {rate}", facts.stage.heading(), point.name()));
            }
        }
    }
    let Some(first) = beyond.first() else { return };
    let words = format!(
        "{} levels are faster than {}: {first}{}. Memory served these, not storage.",
        beyond.len(),
        Measure::Bandwidth.formatted(ceiling),
        if beyond.len() > 1 { ", and others" } else { "" }
    );
    let subject = "rates beyond the link";
    answer.mind("beyond_physics", subject, Strength::Supported, Severity::LowConfidence, words);
}

/// Compares the same load in two stages: the baseline and the first level of a sweep.
fn stages_agree(answer: &mut Answer, study: &Study) {
    let Some(base) = study.stage("qd1-baseline").and_then(|facts| {
        facts.points.iter().find(|point| words::slug(&point.name()) == "4-kib-random-read")
    }) else {
        return;
    };
    for facts in study.stages.iter().filter(|facts| facts.stage.name != "qd1-baseline") {
        let Some(at) = facts.found("latency_at_1_ns") else { continue };
        let near = |point: &&Point| {
            point.mean(Measure::Mean).map_or(f64::INFINITY, |mean| (mean / at).ln().abs())
        };
        let first = facts.points.iter().min_by(|a, b| near(a).total_cmp(&near(b)));
        let Some(first) = first else { continue };
        let Some(times) = Times::of(first, base, Measure::Mean) else { continue };
        let figures = format!(
            "the first level of {} ({}) takes {} the latency of the baseline ({})",
            facts.stage.heading(),
            first.formatted(Measure::Mean),
            times.formatted(),
            base.formatted(Measure::Mean)
        );
        let (low, high) = (1.0 - SAME_WITHIN, 1.0 + SAME_WITHIN);
        match gate::side(&times, low, high) {
            Some(gate::Side::Within) => {
                answer.say(format!("Baseline and sweep agree: {figures}."));
            }
            Some(_) => answer.say(format!(
                "Baseline and sweep differ although their load is the same: {figures}; something \
                 changed between the stages, such as temperature, cache, or other users of the \
                 machine."
            )),
            // Neither agreement nor a difference is shown.
            None => {}
        }
    }
}

/// Reports the ceiling of the machine that a rate has come closest to, if it limits the rate.
fn ceiling(answer: &mut Answer, study: &Study) {
    let all = study.stages.iter().flat_map(|facts| facts.points.iter().map(move |p| (facts, p)));
    let found = all.filter_map(|(facts, point)| Some((facts, at_ceiling(study, facts, point)?)));
    if let Some((facts, (name, share))) = found.max_by(|a, b| a.1.1.total_cmp(&b.1.1)) {
        answer.say(format!(
            "In {} throughput reaches {} of {name}: this is the limit there, not the device.",
            facts.stage.heading(),
            count::percent(share)
        ));
    }
}

/// Reports each finding of the runs once, with its strength, number and stages.
fn anomalies(answer: &mut Answer, study: &Study) {
    let all = study.stages.iter().flat_map(|facts| {
        let all =
            facts.trials.iter().flat_map(|trial| trial.findings.iter().map(move |f| (trial, f)));
        let own = all.filter(|(trial, finding)| facts.limits_trust(trial, finding));
        own.map(|(_, finding)| (finding.code, (finding, facts.stage.heading())))
    });
    let runs: usize = study.stages.iter().map(|facts| facts.trials.len()).sum();
    let clearest = grouped(all).into_iter().filter_map(|(_, found)| {
        // `rev` makes `max_by_key` return the first of the strongest.
        let (finding, _) = found.iter().rev().max_by_key(|(finding, _)| finding.strength)?;
        let words = format!(
            "{} ({}; figures of the clearest of {} among {runs} runs, in {})",
            finding.words.trim_end_matches('.'),
            finding.strength.word(),
            found.len(),
            distinct(found.iter().map(|(_, stage)| *stage)).join(", ")
        );
        let mut finding = (*finding).clone();
        finding.words = words;
        Some(finding)
    });
    let mut seen: Vec<Finding> = clearest.collect();
    seen.sort_by_key(|finding| std::cmp::Reverse((finding.severity, finding.strength)));
    answer.warnings.extend(seen.iter().cloned());
    if seen.is_empty() {
        answer.say(format!("None of the {runs} runs has a finding."));
    }
}

/// Reports waits for a quiet machine, and repeats of disturbed runs.
fn disturbed(answer: &mut Answer, study: &Study) {
    let waits: u32 = study.stages.iter().map(|facts| facts.laid_out.waits).sum();
    let waited_ms: u64 = study.stages.iter().map(|facts| facts.laid_out.waited_ms).sum();
    if waits > 0 {
        answer.say(format!(
            "{waits} runs waited for a quiet machine, for {} in all.",
            duration::latency(waited_ms as f64 * 1e6)
        ));
    }
    let further = |facts: &StageFacts| {
        let planned = facts.stage.most_repeats();
        facts.trials.iter().filter(|trial| trial.repeat >= planned).count()
    };
    let further: usize = study.stages.iter().map(further).sum();
    if further > 0 {
        answer.say(format!(
            "{further} runs were repeated, because others disturbed them: low confidence."
        ));
    }
}

/// Reports the limits of these runs.
fn limits(answer: &mut Answer, study: &Study) {
    let failed = |standing: &Standing| matches!(standing, Standing::Failed(_));
    let trials = || study.stages.iter().flat_map(|facts| &facts.trials);
    let lost = trials().filter(|trial| failed(&trial.standing)).count();
    if lost > 0 {
        answer.say(format!("{lost} runs failed and are not included in any figure."));
    }
    disturbed(answer, study);
    let short = trials().map(|trial| trial.figures.window_ns).min();
    // Cells that were left out have no runs.
    let points = study.stages.iter().flat_map(|facts| &facts.points);
    let few = points.map(|point| point.runs.len()).filter(|runs| *runs > 0).min();
    if let (Some(short), Some(few)) = (short, few) {
        let small =
            if few < FEW_RUNS { ", and this few runs cannot show a small difference" } else { "" };
        let runs = if few == 1 { "run" } else { "runs" };
        answer.say(format!(
            "Limits: runs of {} and at least {few} {runs} per level; effects that need more time, \
             such as a full write cache, heat or garbage collection, were not observed{small}.",
            duration::latency(short as f64)
        ));
    }
    let skipped = study.stages.iter().filter(|facts| !facts.laid_out.skipped.is_empty());
    for facts in skipped {
        answer.say(format!("{} was left out: {}.", facts.stage.heading(), facts.laid_out.skipped));
    }
    let virtualised = study.host.as_ref().is_some_and(|host| !host.virtualization.is_empty());
    // A simulated device is shared with nobody.
    let is_real = study.target.as_ref().is_none_or(|target| target.kind != "simulated");
    if virtualised && is_real {
        answer.say(
            "The machine is virtual: it may share its storage with others that are not visible \
             from inside it.",
        );
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::testing::{at, facts, stage, study as study_of};
    use super::*;
    use iosonde_fixtures::Load;
    use iosonde_model::record::TargetFacts;
    use iosonde_model::record::facts::{DeviceFacts, IoLimit, IoLimitKind};

    fn stages(first_level: f64) -> Vec<StageFacts> {
        let base = facts(&stage("qd1-baseline", "qd1-baseline"), |cell, _| Load {
            depth: 1,
            block_bytes: if cell.index < 2 { 4096 } else { 131_072 },
            read_percent: if cell.index % 2 == 0 { 100 } else { 0 },
            iops: 5_000.0,
            ..Load::default()
        });
        let sweep = facts(&stage("queue-depth", "queue-depth"), |cell, _| {
            let depth = at(cell, "iodepth");
            Load { depth: depth as u32, iops: first_level * depth.min(8.0), ..Load::default() }
        });
        vec![base, sweep]
    }

    #[test]
    fn stages_of_the_same_load_are_held_against_each_other() {
        let same = study(&study_of(stages(5_000.0), None)).sentences.join("\n");
        assert!(same.contains("Baseline and sweep agree: "), "{same}");
        let other = study(&study_of(stages(3_000.0), None)).sentences.join("\n");
        assert!(other.contains("something changed between the stages"), "{other}");
    }

    #[test]
    fn the_highest_rate_has_its_interval_and_its_ties_and_few_runs_have_none() {
        let said = |all: &Study| study(all).sentences[0].clone();
        let mut all = study_of(stages(5_000.0), None);
        // Depths of 8 to 256 have the same rate.
        let first = said(&all);
        assert!(first.starts_with("It does up to 40,"), "{first}");
        assert!(first.contains("(95 % ") && first.contains(", n = 3) IOPS at "), "{first}");
        assert!(first.contains("not shown to differ from 5 other levels, and "), "{first}");
        assert!(first.contains("takes 200 µs (95 % "), "{first}");
        for point in all.stages.iter_mut().flat_map(|facts| &mut facts.points) {
            point.runs.truncate(1);
        }
        let first = said(&all);
        assert!(
            first.starts_with("How much it does at most is not decidable yet: 1 run"),
            "{first}"
        );
    }

    #[test]
    fn a_limit_of_the_machine_is_named_and_the_depth_is_none() {
        let said_of = |per_second, standing: &Standing| {
            let mut all = study_of(stages(5_000.0), None);
            let limit = IoLimit { kind: IoLimitKind::ReadIops, per_second, source: "/a".into() };
            all.target = Some(TargetFacts { io_limits: vec![limit], ..TargetFacts::default() });
            all.stages[1].points.iter_mut().for_each(|point| point.standing = standing.clone());
            study(&all).sentences.join("\n")
        };
        let said = said_of(40_000, &Standing::Good);
        assert!(said.contains("100 % of the limit of the cgroup (/a)"), "{said}");
        // Every level has the rate of its depth at the latency of the baseline.
        let low = Standing::LowConfidence("host stalls".into());
        for said in [said_of(80_000, &Standing::Good), said_of(40_000, &low)] {
            assert!(!said.contains("this is the limit there"), "{said}");
        }
    }

    #[test]
    fn a_cell_that_was_left_out_is_no_level_of_no_runs() {
        let mut all = stages(5_000.0);
        all[1].points[3].runs.clear();
        let said = study(&study_of(all, None)).sentences.join("\n");
        assert!(said.contains("at least 3 runs per level"), "{said}");
        assert!(said.contains("this few runs cannot show"), "{said}");
    }

    #[test]
    fn the_best_pattern_is_named_and_memory_is_not_taken_for_storage() {
        let sizes = |rate: f64| {
            facts(&stage("random", "random"), move |cell, _| {
                let size = at(cell, "block-size");
                let iops = (50e-6 + size / rate).recip();
                let read_percent = if cell.levels[1].label == "read" { 100 } else { 0 };
                Load { depth: 1, block_bytes: size as u64, iops, read_percent, ..Load::default() }
            })
        };
        let answer = micro(&study_of(vec![sizes(2e9)], None));
        assert!(answer.sentences[0].contains("4 MiB"), "{:?}", answer.sentences);
        assert_eq!(answer.warnings, Vec::new());
        let mut linked = study_of(vec![sizes(2e9)], None);
        let device = DeviceFacts { link_bytes_per_s: Some(985_000_000), ..DeviceFacts::default() };
        linked.target = Some(TargetFacts { device: Some(device), ..TargetFacts::default() });
        let codes = micro(&linked).warnings.iter().map(|finding| finding.code).collect::<Vec<_>>();
        assert!(codes.contains(&"beyond_physics"), "{codes:?}");
    }
}
