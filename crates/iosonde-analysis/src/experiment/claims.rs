//! Does the storage meet its data sheet, and if not, what limits it?
//!
//! Each claim gets a verdict and the list of ceilings that apply to it, smallest first: the device
//! is never called slow while a smaller ceiling explains the measurement (method 4.5).

use super::words::nothing;
use super::{Answer, Measure, Point, Spread, StageFacts, Standing, Study, gate};
use crate::expectation::{Comparison, Expectation, Metric};
use iosonde_model::record::facts::IoLimitKind;
use iosonde_model::spec::experiment::Claim;
use iosonde_model::units::{bytes, count};

/// Share of a ceiling at or above which a rate counts as limited by it.
const AT_CEILING_FROM: f64 = 0.90;
/// Share of the link's raw rate that is available for data.
const PAYLOAD: f64 = 0.90;

/// A limit of operations per second that is independent of the device's own speed.
struct Ceiling {
    name: String,
    iops: f64,
    /// Whether the requested queue depth sets the ceiling, not the machine.
    is_of_depth: bool,
}

/// Gives each claim a verdict and its ceilings.
pub(super) fn conclude(study: &Study) -> Answer {
    let Some(claims) = &study.run.claims else {
        return Answer::default();
    };
    let stages = study.stages.iter().filter(|facts| !facts.points.is_empty());
    let of_claims = |facts: &'_ StageFacts| facts.stage.axes.iter().position(|axis| axis.claims);
    let Some((facts, axis)) = stages.into_iter().find_map(|f| Some((f, of_claims(f)?))) else {
        return nothing("The claims of the data sheet were not measured.");
    };
    let mut answer = Answer::default();
    let mut rows = Vec::new();
    let mut counts = [0.0; 4];
    for point in &facts.points {
        let Some(level) = point.levels.get(axis) else { continue };
        let Some(claim) = claims.claims.iter().find(|claim| claim.name == level.label) else {
            continue;
        };
        // With a second axis, a claim has several points.
        let claimed = ClaimPoint { name: point.name(), claim, point };
        let verdict = claimed.verdict(&mut answer, study, facts);
        counts[verdict as usize] += 1.0;
        rows.push(vec![claimed.name, claim.promise.clone(), VERDICTS[verdict as usize].into()]);
    }
    for (word, count) in VERDICTS.iter().zip(counts) {
        answer.find(&word.replace(' ', "-"), count);
    }
    answer.sentences.insert(
        0,
        format!(
            "{}: of {} claims {} met, {} missed, {} inconclusive, {} not comparable.",
            claims.device,
            rows.len(),
            counts[0],
            counts[1],
            counts[2],
            counts[3]
        ),
    );
    answer.table("Claims of the data sheet", &["claim", "promised", "verdict"], rows);
    answer
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Verdict {
    Met = 0,
    Missed = 1,
    Inconclusive = 2,
    NotComparable = 3,
}

/// Words of the verdicts.
const VERDICTS: [&str; 4] = ["met", "missed", "inconclusive", "not comparable"];

/// A claim at one measured point.
struct ClaimPoint<'a> {
    name: String,
    claim: &'a Claim,
    point: &'a Point,
}

impl ClaimPoint<'_> {
    fn verdict(&self, answer: &mut Answer, study: &Study, facts: &StageFacts) -> Verdict {
        let (name, claim, point) = (&self.name, self.claim, self.point);
        let ceilings = ceilings(study, facts, point);
        let list = formatted(&ceilings);
        let mut without = |why: String| {
            answer.say(format!("{name}: not comparable: {why}.{list}"));
            Verdict::NotComparable
        };
        let expectation = match Expectation::parse(&claim.promise, &[]) {
            Ok(expectation) => expectation,
            Err(error) => return without(error.to_string()),
        };
        let Some(measured) = measure(expectation.metric)
            .and_then(|measure| point.spread(measure, expectation.direction))
        else {
            return without("the figure could not be measured".into());
        };
        let formatted = format!(
            "measured {}, specified {} ({})",
            expectation.formatted(measured.mean),
            claim.promise,
            interval(&expectation, &measured)
        );
        if let Standing::LowConfidence(doubt) = &point.standing {
            return without(format!("{formatted}, but its runs have low confidence: {doubt}"));
        }
        let side = side(&expectation, &measured);
        if side == Some(true) {
            let conditions = conditions(claim, ", although the data sheet states it for ");
            answer.say(format!("{name}: met, {formatted}{conditions}.{list}"));
            return Verdict::Met;
        }
        let block = point.runs.first().and_then(|run| run.all.block_bytes).unwrap_or(1) as f64;
        let wanted = match expectation.metric {
            Metric::Iops => Some(expectation.limit),
            Metric::Bandwidth => Some(expectation.limit / block),
            _ => None,
        };
        // A ceiling below the claim explains a miss better than the device.
        let in_the_way = wanted.and_then(|wanted| ceilings.iter().find(|each| each.iops < wanted));
        if let Some(ceiling) = in_the_way {
            return without(format!(
                "{formatted}, but {} limits this machine to {} IOPS, whatever the device can do",
                ceiling.name,
                count::significant_or_whole(ceiling.iops)
            ));
        }
        if !claim.conditions.is_empty() {
            return without(format!("{formatted}; {}", conditions(claim, "it is specified for ")));
        }
        if side.is_none() {
            let why = match measured.interval {
                Some(_) => "the interval contains the limit",
                None => "one run has no interval",
            };
            answer.say(format!("{name}: inconclusive: {formatted}: {why}, so repeat it.{list}"));
            return Verdict::Inconclusive;
        }
        let gap = (measured.mean / expectation.limit - 1.0).abs();
        answer.say(format!(
            "{name}: missed by {}: {formatted}, and no known lower ceiling explains it.{list}",
            count::percent(gap)
        ));
        Verdict::Missed
    }
}

/// Whether the whole interval meets the claim (`true`) or misses it (`false`); `None` if neither,
/// or for a single run.
fn side(expectation: &Expectation, measured: &Spread) -> Option<bool> {
    let keeps = |value: f64| match expectation.comparison {
        Comparison::AtLeast | Comparison::Above => value >= expectation.limit,
        _ => value <= expectation.limit,
    };
    let (low, high) = measured.interval?;
    (keeps(low) == keeps(high)).then(|| keeps(low))
}

/// `95 % 4,900 to 5,100, n = 3`.
fn interval(expectation: &Expectation, measured: &Spread) -> String {
    let ends = measured.interval.map_or(String::new(), |(low, high)| {
        format!("95 % {} to {}, ", expectation.formatted(low.max(0.0)), expectation.formatted(high))
    });
    format!("{ends}n = {}", measured.values.len())
}

/// Formats the list of ceilings: ` Ceilings: …`.
fn formatted(ceilings: &[Ceiling]) -> String {
    let each = |ceiling: &Ceiling| {
        format!("{} {} IOPS", ceiling.name, count::significant_or_whole(ceiling.iops))
    };
    let list: Vec<String> = ceilings.iter().map(each).collect();
    if list.is_empty() { String::new() } else { format!(" Ceilings: {}.", list.join("; ")) }
}

fn conditions(claim: &Claim, before: &str) -> String {
    if claim.conditions.is_empty() {
        return String::new();
    }
    format!("{before}{}", claim.conditions.join(", "))
}

fn measure(metric: Metric) -> Option<Measure> {
    Some(match metric {
        Metric::Iops => Measure::Iops,
        Metric::Bandwidth => Measure::Bandwidth,
        Metric::Durable => Measure::Durable,
        Metric::Mean => Measure::Mean,
        Metric::Max => Measure::Max,
        Metric::Quantile(q) => Measure::all().find(|each| *each == Measure::Quantile(q))?,
    })
}

/// Ceilings that no device could exceed here, smallest first.
fn ceilings(study: &Study, facts: &StageFacts, point: &Point) -> Vec<Ceiling> {
    let mut all = Vec::new();
    let Some(figures) = point.runs.first() else { return all };
    let block = figures.all.block_bytes.unwrap_or(1).max(1) as f64;
    let reads = figures.all.read.ops > 0;
    let mut add = |name: String, iops: f64, is_of_depth: bool| {
        if iops.is_finite() && iops > 0.0 {
            all.push(Ceiling { name, iops, is_of_depth });
        }
    };
    if let Some(base) = base_latency(study, block, reads) {
        let depth = facts.depth(point);
        add(format!("queue depth {depth} at the QD1 latency"), depth / (base / 1e9), true);
    }
    if let Some(cpu) = point.mean(Measure::CpuPerOp)
        && let Some(cpus) = study.host.as_ref().and_then(|host| host.cpus_allowed)
    {
        add(format!("{cpus} CPUs of this machine"), f64::from(cpus) * 1e9 / cpu, false);
    }
    let target = study.target.as_ref();
    let link = target.and_then(|target| target.device.as_ref()).and_then(|d| d.link_bytes_per_s);
    if let Some(link) = link {
        let name = format!("the link, {}", bytes::per_second(link as f64));
        add(name, link as f64 * PAYLOAD / block, false);
    }
    for limit in target.map_or(&[][..], |target| &target.io_limits) {
        let per_second = limit.per_second as f64;
        let (of_reads, iops) = match limit.kind {
            IoLimitKind::ReadIops => (true, per_second),
            IoLimitKind::WriteIops => (false, per_second),
            IoLimitKind::ReadBytes => (true, per_second / block),
            IoLimitKind::WriteBytes => (false, per_second / block),
        };
        if of_reads == reads {
            add(format!("the limit of the cgroup ({})", limit.source), iops, false);
        }
    }
    all.sort_by(|a, b| a.iops.total_cmp(&b.iops));
    all
}

/// Mean QD1 latency for this size and direction, if some stage measured it, ns.
fn base_latency(study: &Study, block: f64, reads: bool) -> Option<f64> {
    let points = study.stages.iter().flat_map(|facts| &facts.points);
    let fits = |point: &&Point| {
        point.runs.first().is_some_and(|run| {
            run.all.depth_asked == 1
                && run.all.block_bytes == Some(block as u64)
                && (run.all.read.ops > 0) == reads
                && (run.all.write.ops > 0) != reads
        })
    };
    points.filter(fits).find_map(|point| point.mean(Measure::Mean))
}

/// The machine's lowest ceiling and the rate's share of it, if the rate is limited by it.
pub(super) fn at_ceiling(
    study: &Study,
    facts: &StageFacts,
    point: &Point,
) -> Option<(String, f64)> {
    let iops = point.figure(Measure::Iops)?.mean;
    if gate::withheld(&[point]).is_some() {
        return None;
    }
    let found = ceilings(study, facts, point).into_iter().find(|each| !each.is_of_depth)?;
    let share = iops / found.iops;
    (share >= AT_CEILING_FROM).then_some((found.name, share))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::testing::{facts, stage_of, study};
    use super::*;
    use iosonde_fixtures::Load;
    use iosonde_model::record::TargetFacts;
    use iosonde_model::record::facts::IoLimit;
    use iosonde_model::spec::experiment::Claims;

    fn concluded(promise: &str, conditions: &[&str], limit: Option<u64>) -> Answer {
        of_runs(promise, conditions, limit, "", 0.0, &Standing::Good)
    }

    /// Runs of 5,000 IOPS; each later run has `step` more.
    fn of_runs(
        promise: &str,
        conditions: &[&str],
        limit: Option<u64>,
        more_axes: &str,
        step: f64,
        standing: &Standing,
    ) -> Answer {
        let axis = "[[stage.axis]]\nname = \"claim\"\ncases = [{ name = \"random read\" }]\n";
        let mut measured = facts(&stage_of(&format!("{axis}{more_axes}")), |_, repeat| Load {
            iops: 5_000.0 + step * f64::from(repeat),
            ..Load::default()
        });
        measured.stage.axes[0].claims = true;
        measured.points.iter_mut().for_each(|point| point.standing = standing.clone());
        let claim = Claim {
            name: "random read".into(),
            promise: promise.into(),
            set: toml::value::Table::new(),
            conditions: conditions.iter().map(|each| (*each).into()).collect(),
        };
        let sheet = Claims { device: "disk".into(), source: String::new(), claims: vec![claim] };
        let mut study = study(vec![measured], Some(sheet));
        let limits = limit.map(|per_second| IoLimit {
            source: "io.max".into(),
            kind: IoLimitKind::ReadIops,
            per_second,
        });
        let io_limits = limits.into_iter().collect();
        study.target = Some(TargetFacts { io_limits, ..TargetFacts::default() });
        conclude(&study)
    }

    #[test]
    fn a_claim_is_met_missed_or_not_comparable() {
        assert_eq!(concluded("iops>=4900", &[], None).found["met"], 1.0);
        assert_eq!(concluded("iops>=9000", &[], None).found["missed"], 1.0);
        let conditions = concluded("iops>=9000", &["after preconditioning"], None);
        assert_eq!(conditions.found["not-comparable"], 1.0);
    }

    #[test]
    fn what_is_low_confidence_or_across_the_limit_is_neither_met_nor_missed() {
        let of = |promise: &str, step: f64, standing: &Standing| {
            of_runs(promise, &[], None, "", step, standing)
        };
        let across = of("iops>=5090", 50.0, &Standing::Good);
        assert_eq!(across.found["inconclusive"], 1.0, "{:?}", across.sentences);
        assert_eq!(of("iops>=4000", 50.0, &Standing::Good).found["met"], 1.0);
        assert_eq!(of("iops>=9000", 50.0, &Standing::Good).found["missed"], 1.0);
        let uncertain = of("iops>=4000", 0.0, &Standing::LowConfidence("page cache".into()));
        assert_eq!(uncertain.found["not-comparable"], 1.0);
        assert!(uncertain.sentences[1].contains("page cache"), "{:?}", uncertain.sentences);
    }

    #[test]
    fn with_a_second_axis_each_point_is_held_against_its_own_claim() {
        let axis = "[[stage.axis]]\nname = \"iodepth\"\nvalues = [1, 2]\n";
        let answer = of_runs("iops>=4900", &[], Some(100_000), axis, 0.0, &Standing::Good);
        assert_eq!(answer.found["met"], 2.0);
        assert!(answer.sentences[1].starts_with("random read, 1: met"), "{:?}", answer.sentences);
        assert!(answer.sentences[1].contains("Ceilings: "), "{:?}", answer.sentences);
    }

    #[test]
    fn a_smaller_ceiling_is_named_before_the_device() {
        let limited = concluded("iops>=9000", &[], Some(5_000));
        assert_eq!(limited.found["not-comparable"], 1.0);
        assert!(limited.sentences[1].contains("io.max"), "{:?}", limited.sentences);
        let wide = concluded("iops>=9000", &[], Some(100_000));
        assert_eq!(wide.found["missed"], 1.0);
    }
}
