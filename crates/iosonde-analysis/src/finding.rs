//! Findings explain a number or say why it cannot be trusted, with the evidence and its strength.
//!
//! One detector per file; [`DETECTORS`] lists them. A detector reports only if its evidence exists:
//! a fact that could not be read is never evidence.

mod began_empty;
mod buffered;
mod cgroup_limit;
mod client_cpu;
mod client_lag;
mod client_sched;
mod clock_suspect;
mod compressed;
mod data_differs;
mod depth_not_applied;
mod engine_fallback;
mod errors;
mod fsync_suspicious;
mod host_cache;
mod latency_change;
mod latency_target;
mod level_change;
mod level_drop;
mod limit_missed;
mod link_down;
mod misaligned;
mod mix_off;
mod no_space;
mod no_steady_part;
mod noisy_neighbour;
mod not_local;
mod not_supported;
mod odirect_ignored;
mod off_schedule;
mod page_cache;
mod physics;
mod punted;
mod ram_backed;
mod shared_extents;
mod smart_failing;
mod split_requests;
mod stall;
mod suspended;
mod thermal;
mod token_bucket;
mod unsustainable;
mod unwritten_reads;
mod write_cache_volatile;

pub(crate) use ram_backed::is_memory;

use std::collections::BTreeMap;

use serde::Serialize;

use iosonde_model::record::facts::Neighbour;
use iosonde_model::record::run::Run;
use iosonde_model::record::{HostFacts, TargetFacts};
use iosonde_model::units::count::percent;
use iosonde_stats::step::{self, Step};

use super::consistency::Consistency;
use super::figures::{Figures, stalled};
use super::series::{self, Series};

/// A conclusion drawn from the figures and facts of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Code, as listed in [`DETECTORS`].
    pub code: &'static str,
    /// The subject, as a noun phrase that can follow "limited by".
    pub subject: String,
    /// The strength of the evidence.
    pub strength: Strength,
    /// Its effect on the verdict.
    pub severity: Severity,
    /// The finding as a sentence, with its numbers.
    pub words: String,
    /// The numbers and facts that triggered it.
    pub evidence: BTreeMap<&'static str, Evidence>,
    /// Share by which it may have moved a headline figure, if known.
    #[serde(skip)]
    pub effect: Option<f64>,
    /// The figure that it may have moved.
    #[serde(skip)]
    moved: Headline,
    /// Largest half-width of an interval, as a share, that can excuse its effect.
    #[serde(skip)]
    excuse: f64,
}

/// A headline figure that a finding may have moved. Each is compared with its own interval: an open
/// loop, for example, runs at the requested rate, and only its latencies are off.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Headline {
    /// Operations per second.
    Rate,
    /// The mean latency.
    Latency,
}

iosonde_model::words! {
    /// Strength of the evidence for a finding, weakest first.
    #[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Strength {
        /// The evidence also fits other causes.
        ConsistentWith => "consistent with",
        /// Evidence and a discriminating test agree.
        Supported => "supported",
        /// A counter or the kernel reports it.
        Proven => "proven",
    }
}

/// Effect of a finding on the verdict, mildest first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Information.
    Fact,
    /// A warning that does not change the verdict.
    Warning,
    /// It names the limit of the result.
    Limit,
    /// The number has low confidence: it does not measure what it claims to.
    LowConfidence,
    /// The storage, or the path to it, is failing.
    Fault,
}

/// One term of the evidence.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Evidence {
    /// A number; the key names its unit.
    Number(f64),
    /// A fact as text.
    Text(String),
}

impl From<f64> for Evidence {
    fn from(number: f64) -> Self {
        Evidence::Number(number)
    }
}

impl From<u64> for Evidence {
    fn from(count: u64) -> Self {
        Evidence::Number(count as f64)
    }
}

impl From<&str> for Evidence {
    fn from(text: &str) -> Self {
        Evidence::Text(text.to_owned())
    }
}

impl Finding {
    /// A finding without evidence, whose effect is not known.
    pub fn new(
        code: &'static str,
        subject: impl Into<String>,
        strength: Strength,
        severity: Severity,
        words: String,
    ) -> Finding {
        let subject = subject.into();
        let (evidence, effect, moved) = (BTreeMap::new(), None, Headline::Rate);
        Finding {
            code,
            subject,
            strength,
            severity,
            words,
            evidence,
            effect,
            moved,
            excuse: f64::INFINITY,
        }
    }

    /// Replaces the subject that the detector names.
    pub(crate) fn about(self, subject: impl Into<String>) -> Finding {
        Finding { subject: subject.into(), ..self }
    }

    /// Sets the share by which it may have moved the rate. This share, and not the presence of the
    /// finding, decides how far the run can be trusted.
    pub(crate) fn moves(self, share: f64) -> Finding {
        Finding { effect: Some(share), ..self }
    }

    /// Sets the share by which it may have moved the mean latency.
    pub(crate) fn moves_latency(self, share: f64) -> Finding {
        Finding { moved: Headline::Latency, ..self.moves(share) }
    }

    /// Marks a finding that scatters the run's rates: a wide interval does not excuse it.
    pub(crate) fn scatters(self) -> Finding {
        Finding { excuse: WITHOUT_INTERVAL, ..self }
    }

    /// Marks a bias that the run cannot see: no interval of its figures includes it.
    pub(crate) fn unseen(self) -> Finding {
        Finding { excuse: 0.0, ..self }
    }

    /// Sets the severity by comparing the effect with the interval of the figure that it moves: a
    /// smaller effect is a note, unless the finding itself widens the interval. A suspicion alone
    /// never gives low confidence.
    fn weighed(self, figures: &Figures) -> Finding {
        let Some(effect) = self.effect else { return self };
        let known = known(figures, self.moved);
        let widens = self.excuse < known && known >= LOW_FROM;
        let excused = if widens { 0.0 } else { known.min(self.excuse) };
        let severity = if effect <= excused {
            Severity::Fact
        } else if effect < LOW_FROM || self.strength == Strength::ConsistentWith {
            Severity::Warning
        } else {
            Severity::LowConfidence
        };
        Finding { severity, ..self }
    }

    /// Whether it is more severe, or else stronger, or else has the greater effect.
    pub(crate) fn outranks(&self, other: &Finding) -> bool {
        let rank = |finding: &Finding| (finding.severity, finding.strength);
        let effect = |finding: &Finding| finding.effect.unwrap_or(0.0);
        rank(self).cmp(&rank(other)).then(effect(self).total_cmp(&effect(other))).is_gt()
    }

    pub(crate) fn with(mut self, key: &'static str, value: impl Into<Evidence>) -> Finding {
        self.evidence.insert(key, value.into());
        self
    }

    /// Adds a term of evidence if it is known.
    fn with_known(self, key: &'static str, value: Option<impl Into<Evidence>>) -> Finding {
        let known = value.map(Into::<Evidence>::into);
        known.into_iter().fold(self, |finding, value| finding.with(key, value))
    }
}

/// The input of a detector.
pub struct Case<'a> {
    /// The run.
    pub run: &'a Run,
    /// The machine, if known.
    pub host: Option<&'a HostFacts>,
    /// Figures of the run.
    pub figures: &'a Figures,
    /// Consistency checks of the run.
    pub consistency: &'a Consistency,
    /// Series over all jobs and directions, searched for changes of level.
    series: Series,
}

/// A detector and the texts for its findings.
#[derive(Clone, Copy, Debug)]
pub struct Detector<F> {
    /// Code of its findings.
    pub code: &'static str,
    /// What a finding means, one sentence.
    pub meaning: &'static str,
    /// How the finding is detected.
    pub method: &'static str,
    /// What to do, one sentence.
    pub action: &'static str,
    /// Subject of its findings, as a noun phrase, unless one is about something else.
    pub subject: &'static str,
    /// Severity of its findings, unless one has another.
    pub severity: Severity,
    /// Returns a finding or nothing.
    pub detect: F,
}

impl<F> Detector<F> {
    /// A finding of this detector, without evidence and with unknown effect.
    pub(crate) fn found(&self, strength: Strength, words: String) -> Finding {
        self.found_at(self.severity, strength, words)
    }

    /// A finding that a counter or the kernel reports.
    pub(crate) fn proven(&self, words: String) -> Finding {
        self.found(Strength::Proven, words)
    }

    /// A finding for which evidence and a discriminating test agree.
    pub(crate) fn supported(&self, words: String) -> Finding {
        self.found(Strength::Supported, words)
    }

    /// A finding whose evidence would also fit something else.
    pub(crate) fn suspected(&self, words: String) -> Finding {
        self.found(Strength::ConsistentWith, words)
    }

    /// A finding with another severity.
    pub(crate) fn found_at(
        &self,
        severity: Severity,
        strength: Strength,
        words: String,
    ) -> Finding {
        Finding::new(self.code, self.subject, strength, severity, words)
    }
}

/// Function that examines a run.
pub type Detect = fn(&Case<'_>) -> Option<Finding>;

/// Every detector, by code. To add one: one file, one `mod` line, one line here.
pub const DETECTORS: &[Detector<Detect>] = &[
    began_empty::DETECTOR,
    buffered::DETECTOR,
    cgroup_limit::DETECTOR,
    client_cpu::DETECTOR,
    client_lag::DETECTOR,
    client_sched::DETECTOR,
    clock_suspect::DETECTOR,
    compressed::DETECTOR,
    data_differs::DETECTOR,
    depth_not_applied::DETECTOR,
    engine_fallback::DETECTOR,
    errors::DETECTOR,
    fsync_suspicious::DETECTOR,
    host_cache::DETECTOR,
    latency_change::DETECTOR,
    latency_target::DETECTOR,
    level_change::DETECTOR,
    level_drop::DETECTOR,
    limit_missed::DETECTOR,
    link_down::DETECTOR,
    misaligned::DETECTOR,
    mix_off::DETECTOR,
    no_space::DETECTOR,
    no_steady_part::DETECTOR,
    noisy_neighbour::DETECTOR,
    not_local::DETECTOR,
    not_supported::DETECTOR,
    odirect_ignored::DETECTOR,
    off_schedule::DETECTOR,
    page_cache::DETECTOR,
    physics::DETECTOR,
    punted::DETECTOR,
    ram_backed::DETECTOR,
    shared_extents::DETECTOR,
    smart_failing::DETECTOR,
    split_requests::DETECTOR,
    stall::DETECTOR,
    suspended::DETECTOR,
    thermal::DETECTOR,
    token_bucket::DETECTOR,
    unsustainable::DETECTOR,
    unwritten_reads::DETECTOR,
    write_cache_volatile::DETECTOR,
];

/// Detectors that need no figures: they report even if the consistency checks failed.
const WITHOUT_FIGURES: [&str; 5] =
    ["data_differs", "errors", "limit_missed", "no_space", "not_supported"];

/// All findings of a run, most severe and strongest first. If the consistency checks failed, only
/// errors are reported: inconsistent numbers allow no diagnosis.
pub fn findings(
    run: &Run,
    host: Option<&HostFacts>,
    figures: &Figures,
    consistency: &Consistency,
) -> Vec<Finding> {
    let case = Case::new(run, host, figures, consistency);
    let mut findings: Vec<Finding> = DETECTORS
        .iter()
        .filter(|detector| consistency.valid() || WITHOUT_FIGURES.contains(&detector.code))
        .filter_map(|detector| (detector.detect)(&case))
        .map(|finding| finding.weighed(figures))
        .collect();
    findings.sort_by_key(|finding| std::cmp::Reverse((finding.severity, finding.strength)));
    findings
}

/// Half-width assumed for a figure without an interval, mostly of a run too short for one: smaller
/// steps are not reported either (method 2.4).
const WITHOUT_INTERVAL: f64 = 0.05;

/// Half-width of a figure's interval, as a share of the figure.
fn known(figures: &Figures, of: Headline) -> f64 {
    let total = &figures.all.total;
    let known = match of {
        Headline::Rate => total.iops_half_width(),
        Headline::Latency => total.latency.mean_half_width(),
    };
    known.unwrap_or(WITHOUT_INTERVAL)
}

/// Effect on the headline at or above which confidence is low; below it is medium.
pub(crate) const LOW_FROM: f64 = 0.10;

/// Shortest level, in intervals, and the inverse of its smallest share of the run.
const SHORTEST_LEVEL: usize = 5;
const SHORTEST_SHARE: usize = 10;

impl<'a> Case<'a> {
    /// Collects the input of the detectors.
    pub fn new(
        run: &'a Run,
        host: Option<&'a HostFacts>,
        figures: &'a Figures,
        consistency: &'a Consistency,
    ) -> Case<'a> {
        Case { run, host, figures, consistency, series: series::searched(run) }
    }

    /// Whether a real target was driven.
    fn is_real(&self) -> bool {
        self.run.plan.engine.kind.is_real()
    }

    /// Operations per second outside stalls as two levels, each at least 10 % of the run. The
    /// second lasts at least half a second: a shorter one does not count as lasting.
    fn step(&self) -> Option<Step> {
        let is_even = series::is_even(self.run);
        let stalls = self.figures.stalls.as_ref();
        let rates = is_even.then(|| stalled::rates_without(self.run, &self.series, stalls));
        let rates = rates.unwrap_or_default();
        let shortest = SHORTEST_LEVEL.max(rates.len().div_ceil(SHORTEST_SHARE));
        let remains_ns = |step: &Step| (rates.len() - step.at) as u64 * self.series.width_ns;
        step::two_levels(&rates, shortest)
            .filter(|step| remains_ns(step) >= SHORTEST_LEVEL as u64 * series::STEP_NS)
    }

    /// Warm-up, in whole seconds, that excludes this many intervals of the series.
    fn ramp_s(&self, intervals: usize) -> u64 {
        let left_out_ns = (intervals as u64 + 1) * self.series.width_ns;
        (self.run.plan.warmup_ns + left_out_ns).div_ceil(1_000_000_000)
    }

    /// Bytes read by the device over bytes read by us; `None` if unknown or too few bytes to
    /// decide.
    fn device_read_share(&self) -> Option<f64> {
        let work = super::consistency::device_work(self.run)?;
        let (read, _, crossing) = super::consistency::our_bytes(self.run);
        // Requests that cross the edges make the share uncertain by their bytes.
        let enough = read > 0 && self.is_real() && !self.pooled() && crossing * 50 < read;
        let (device_read, _) = super::consistency::moved_bytes(&work);
        enough.then(|| device_read as f64 / read as f64)
    }

    /// Whether the file system spans several devices or stores transformed data (compression): the
    /// counters of one device then cannot be compared with ours.
    fn pooled(&self) -> bool {
        let name = self.run.target.filesystem.as_deref();
        matches!(name, Some("btrfs" | "bcachefs" | "zfs"))
    }

    /// Share of sampled blocks found in the page cache before the run.
    fn cached_share(&self) -> Option<f64> {
        let (cached, sampled) = self.run.target.cached_samples?;
        (sampled > 0).then(|| f64::from(cached) / f64::from(sampled))
    }

    /// Holes and unwritten extents, as a share of the tested ranges.
    fn empty_share(&self) -> f64 {
        let target = &self.run.target;
        let empty = target.hole_bytes.unwrap_or(0) + target.unwritten_bytes.unwrap_or(0);
        let all: u64 = self.run.plan.targets.iter().map(|target| target.bytes).sum();
        empty as f64 / all.max(1) as f64
    }
}

/// Whether the target is `null` or a character device such as `/dev/zero`, which holds no data.
fn is_endless(target: &TargetFacts) -> bool {
    matches!(target.kind.as_str(), "character device" | "null")
}

/// A process by name, for a sentence.
fn process(of: &Neighbour) -> String {
    let cgroup = of.cgroup.as_ref().map_or(String::new(), |path| format!(", cgroup {path}"));
    format!("{} (process {}{cgroup})", of.program, of.pid)
}

/// Operations per second for a sentence.
fn iops(rate: f64) -> String {
    format!("{} IOPS", iosonde_model::units::count::significant_or_whole(rate))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{consistency, figures};
    use iosonde_fixtures::{Load, run_of};
    use iosonde_stats::dependent::NoInterval;

    /// The finding of a detector for a run, if any.
    pub(super) fn ask(detect: Detect, run: &Run, host: Option<&HostFacts>) -> Option<Finding> {
        let figures = figures(run);
        let consistency = consistency(run, &figures);
        detect(&Case::new(run, host, &figures, &consistency))
    }

    #[test]
    fn a_healthy_run_has_nothing_to_report() {
        for read_percent in [100, 70, 0] {
            let run = run_of(&[Load { jobs: 2, read_percent, ..Load::default() }]);
            let figures = figures(&run);
            let consistency = consistency(&run, &figures);
            assert_eq!(findings(&run, None, &figures, &consistency), Vec::new());
        }
    }

    #[test]
    fn an_effect_is_compared_with_the_interval_of_the_figure_that_it_moves() {
        let slow = |time: f64| 1.0 + 0.3 * (time * 9.0).sin();
        let run = iosonde_fixtures::open_run_of(&Load { shape: slow, ..Load::default() }, |_| 0);
        let mut figures = figures(&run);
        figures.all.total.iops_interval = Some(Ok((999.0, 1_001.0)));
        figures.all.total.iops = 1_000.0;
        figures.all.total.latency.mean_ns = Some(1e6);
        figures.all.total.latency.mean_interval_ns = Ok((0.8e6, 1.2e6));
        let of = |finding: Finding| finding.weighed(&figures).severity;
        let words = || "A sentence.".to_owned();
        let new = || Finding::new("stall", "it", Strength::Proven, Severity::Warning, words());
        assert_eq!(of(new().moves(0.15)), Severity::LowConfidence);
        assert_eq!(of(new().moves_latency(0.15)), Severity::Fact);
        assert_eq!(of(new().moves_latency(0.25)), Severity::LowConfidence);
        // The finding itself widens the interval.
        assert_eq!(of(new().moves_latency(0.03).scatters()), Severity::Warning);
        assert_eq!(of(new().moves(0.0005).scatters()), Severity::Fact);
        figures.all.total.iops_interval = Some(Err(NoInterval::RunLonger));
        let of = |share: f64| new().moves(share).weighed(&figures).severity;
        assert_eq!((of(0.04), of(0.06)), (Severity::Fact, Severity::Warning));
        assert_eq!(of(0.15), Severity::LowConfidence);
    }

    #[test]
    fn an_invalid_run_is_not_diagnosed() {
        let mut run = run_of(&[Load::default()]);
        run.target.direct = false;
        run.jobs[0].read.bytes -= 1;
        let figures = figures(&run);
        let consistency = consistency(&run, &figures);
        assert_eq!(findings(&run, None, &figures, &consistency), Vec::new());
    }

    #[test]
    fn detectors_are_listed_in_order_and_once() {
        assert!(DETECTORS.windows(2).all(|pair| pair[0].code < pair[1].code));
    }
}
