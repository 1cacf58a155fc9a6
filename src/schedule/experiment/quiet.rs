//! Waits for a quiet machine before a run, and selects disturbed cells for further runs.
//!
//! A check takes a tenth of a second. It precedes the first run of a stage, and each run after a
//! disturbed one: an undisturbed run was itself a longer check. The wait is bounded per run and per
//! stage, so that a machine that is always busy costs at most a quarter more time.

use std::time::Duration;

use super::StageJob;
use crate::schedule::RunContext;
use iosonde_analysis::experiment::{Standing, TrialFigures};
use iosonde_analysis::finding::{Finding, Severity};
use iosonde_engine::host::Root;
use iosonde_engine::host::telemetry::Sampler;
use iosonde_model::record::facts::{DeviceFacts, TelemetrySample};

/// Maximum number of further runs of a disturbed cell.
pub(super) const MOST_FURTHER: u32 = 2;
/// A stage has at most one further run for this many planned ones.
const FURTHER_PER: usize = 4;
/// Findings with a transient cause, which a further run may not have.
const PASSING: [&str; 4] = ["client_sched", "no_steady_part", "noisy_neighbour", "stall"];

/// Length of a check.
const LOOK: Duration = Duration::from_millis(100);
/// Longest wait before one run.
const MOST_PER_RUN: Duration = Duration::from_secs(10);
/// Longest wait in a stage, as a share of its planned time.
const SHARE_OF_STAGE: f64 = 0.25;
/// Share of all CPU time above which the machine is busy: half of one of two CPUs.
const BUSY_FROM: f64 = 0.25;
/// Share of CPU steal above which the machine is busy.
const STEAL_FROM: f64 = 0.05;
/// Bytes of I/O per check above which the device is busy.
const BYTES_FROM: u64 = 1 << 20;

/// Whether too few runs of a cell have high confidence, for a transient reason.
pub(super) fn is_disturbed(job: &StageJob<'_>, cell: usize, finished: &[TrialFigures]) -> bool {
    let planned = job.laid_out.cells.len() * job.stage.repeats as usize;
    let further = finished.iter().filter(|trial| trial.repeat >= job.stage.most_repeats());
    if further.count() >= planned.div_ceil(FURTHER_PER) {
        return false;
    }
    let own = || finished.iter().filter(|trial| trial.cell == cell);
    let good = own().filter(|trial| trial.standing == Standing::Good).count();
    let passes = |trial: &TrialFigures| {
        let mut low = trial.findings.iter().filter(is_low).peekable();
        low.peek().is_some() && low.all(|finding| PASSING.contains(&finding.code))
    };
    good < job.stage.repeats as usize && own().any(passes)
}

fn is_low(finding: &&Finding) -> bool {
    finding.severity >= Severity::LowConfidence
}

/// The wait of one stage.
pub(super) struct Quiet {
    sampler: Sampler,
    /// Whether the counters of the device are sampled too.
    has_device: bool,
    /// Whether there is no run yet, or the last one was disturbed.
    must_look: bool,
    left: Duration,
    /// Number of runs that were preceded by a wait.
    pub(super) waits: u32,
    /// Total time of the waits.
    pub(super) waited: Duration,
}

impl Quiet {
    /// The wait of a stage. `None` on simulated devices, in rounds, whose procedure has its own
    /// times, and where runs may not be repeated.
    pub(super) fn of(job: &StageJob<'_>, context: &RunContext) -> Option<Quiet> {
        context.held.as_ref().filter(|_| job.may_repeat && job.stage.rounds.is_none())?;
        let runs = f64::from(job.stage.repeats) * job.laid_out.cells.len() as f64;
        Some(Quiet::new(&context.root, runs * job.stage.seconds))
    }

    fn new(root: &Root, planned_s: f64) -> Quiet {
        let left = Duration::from_secs_f64((planned_s * SHARE_OF_STAGE).clamp(0.0, 86_400.0));
        let sampler = Sampler::new(root, None);
        let waited = Duration::ZERO;
        Quiet { sampler, has_device: false, must_look: true, left, waits: 0, waited }
    }

    /// Adds the device, which is known from the first run.
    pub(super) fn watch(&mut self, root: &Root, device: &DeviceFacts) {
        if !self.has_device {
            self.sampler = Sampler::new(root, Some(device));
            self.has_device = true;
        }
    }

    /// Takes the findings of the run that has just ended.
    pub(super) fn seen(&mut self, findings: &[Finding]) {
        let mut low = findings.iter().filter(is_low);
        self.must_look = low.any(|finding| PASSING.contains(&finding.code));
    }

    /// Waits until the machine is quiet, a bound is reached, or `is_over`.
    pub(super) fn wait(
        &mut self,
        mut on_wait: impl FnMut(&'static str),
        is_over: impl Fn() -> bool,
    ) {
        let mut spent = Duration::ZERO;
        let mut last: Option<&'static str> = None;
        while self.must_look && spent < MOST_PER_RUN.min(self.left) && !is_over() {
            let before = self.sampler.sample();
            std::thread::sleep(LOOK);
            let Some(why) = busy(&before, &self.sampler.sample()) else { break };
            spent += LOOK;
            if last != Some(why) {
                on_wait(why);
                last = Some(why);
            }
        }
        self.waits += u32::from(last.is_some());
        self.waited += spent;
        self.left = self.left.saturating_sub(spent);
    }
}

/// Why the machine was busy between two samples, if it was.
fn busy(before: &TelemetrySample, after: &TelemetrySample) -> Option<&'static str> {
    if let (Some(before), Some(after)) = (before.cpu_ticks, after.cpu_ticks) {
        let spent = |at: usize| after[at].saturating_sub(before[at]) as f64;
        let all: f64 = (0..after.len()).map(spent).sum();
        let [user, system, steal] = [spent(0), spent(1), spent(4)];
        if all > 0.0 && steal / all > STEAL_FROM {
            return Some("waiting for a quiet machine: CPU steal");
        }
        if all > 0.0 && (user + system) / all > BUSY_FROM {
            return Some("waiting for a quiet machine: other programs use its CPUs");
        }
    }
    let (before, after) = (before.device?, after.device?);
    let sectors = |of: iosonde_model::record::facts::DeviceCounters| {
        of.read_sectors.saturating_add(of.write_sectors)
    };
    let bytes = sectors(after).saturating_sub(sectors(before)).saturating_mul(512);
    (bytes > BYTES_FROM).then_some("waiting for a quiet machine: other I/O on the device")
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_analysis::finding::Strength;

    fn look(cpu_ticks: [u64; 5]) -> TelemetrySample {
        TelemetrySample { cpu_ticks: Some(cpu_ticks), ..TelemetrySample::default() }
    }

    #[test]
    fn steal_and_load_are_busy_and_an_idle_machine_is_not() {
        let idle = look([100, 100, 1_000, 0, 0]);
        assert_eq!(busy(&idle, &look([101, 101, 1_018, 0, 0])), None);
        assert!(busy(&idle, &look([106, 101, 1_013, 0, 0])).is_some_and(|w| w.ends_with("CPUs")));
        assert!(busy(&idle, &look([100, 100, 1_018, 0, 2])).is_some_and(|w| w.ends_with("steal")));
        assert_eq!(busy(&TelemetrySample::default(), &TelemetrySample::default()), None);
    }

    #[test]
    fn there_is_a_look_before_the_first_run_and_after_a_disturbed_one() {
        let mut quiet = Quiet::new(&Root::system(), 1e6);
        let looks = |quiet: &mut Quiet| {
            let looked = std::cell::Cell::new(false);
            quiet.wait(|_| {}, || !looked.replace(true) || looked.get());
            looked.get()
        };
        assert!(looks(&mut quiet));
        quiet.seen(&[]);
        assert!(!looks(&mut quiet));
        let finding =
            |code, severity| Finding::new(code, "", Strength::Proven, severity, String::new());
        quiet.seen(&[finding("noisy_neighbour", Severity::Warning)]);
        assert!(!looks(&mut quiet));
        quiet.seen(&[finding("noisy_neighbour", Severity::LowConfidence)]);
        assert!(looks(&mut quiet));
    }

    #[test]
    fn a_stage_waits_no_longer_than_its_share() {
        let mut quiet = Quiet::new(&Root::system(), 0.0);
        quiet.wait(|_| {}, || false);
        assert_eq!((quiet.waits, quiet.waited), (0, Duration::ZERO));
    }
}
