//! Waits for a quiet machine before a run, and repeats what others disturbed nevertheless.
//!
//! A look lasts a tenth of a second. There is one before the first run of a stage, and before each
//! run that follows a disturbed one: a run that nothing disturbed was a longer look. The wait ends
//! after a bound per run and per stage, so that a machine that is always busy costs at most a
//! quarter more time.

use std::time::Duration;

use super::StageJob;
use crate::schedule::RunContext;
use iosonde_analysis::experiment::{Standing, TrialFigures};
use iosonde_analysis::finding::{Finding, Severity};
use iosonde_engine::host::Root;
use iosonde_engine::host::telemetry::Sampler;
use iosonde_model::record::facts::{DeviceFacts, TelemetrySample};

/// Further runs of a cell whose runs others disturbed.
pub(super) const MOST_FURTHER: u32 = 2;
/// Planned runs for each further one of a stage.
const FURTHER_PER: usize = 4;
/// Findings that a further run may not have.
const PASSING: [&str; 4] = ["client_sched", "no_steady_part", "noisy_neighbour", "stall"];

/// Length of a look.
const LOOK: Duration = Duration::from_millis(100);
/// Longest wait before one run.
const MOST_PER_RUN: Duration = Duration::from_secs(10);
/// Longest wait in a stage, as a share of its planned time.
const SHARE_OF_STAGE: f64 = 0.25;
/// Share of all CPU time above which the machine is busy: half of one of two CPUs.
const BUSY_FROM: f64 = 0.25;
/// Share of CPU steal above which it is.
const STEAL_FROM: f64 = 0.05;
/// Bytes that others move per look above which the device is.
const BYTES_FROM: u64 = 1 << 20;

/// Whether too few runs of a cell have high confidence, for a reason that passes.
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
    /// Whether the counters of the device are among what is sampled.
    has_device: bool,
    /// Whether there is no run yet, or the last one was disturbed.
    must_look: bool,
    left: Duration,
    /// Runs before which it waited.
    pub(super) waits: u32,
    /// Time that it waited.
    pub(super) waited: Duration,
}

impl Quiet {
    /// For a stage. Nothing waits on simulated devices, nor in rounds, whose procedure has its own
    /// times.
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

    /// Adds the device, which the first run names.
    pub(super) fn watch(&mut self, root: &Root, device: &DeviceFacts) {
        if !self.has_device {
            self.sampler = Sampler::new(root, Some(device));
            self.has_device = true;
        }
    }

    /// Notes what the run that has just ended says about the machine.
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

/// What keeps the machine busy between two looks.
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
