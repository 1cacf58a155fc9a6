//! Tests the verifier itself: every fault is injected into the simulated device many times, and the
//! real verifier runs against it; look-alikes without a fault must not cause an alarm. Faults are
//! injected into requests, or into stored data at every block length.
//!
//! The truth comes from a second memory above the fault, which contains the acknowledged data:
//! exactly the blocks that differ must be found.

mod crash;
mod dying;
mod scene;
mod soak;
mod stored;
mod trial;

use std::sync::atomic::{AtomicU64, Ordering};

use iosonde_engine::backend::fault::Fault;
use iosonde_engine::engine::Control;
use iosonde_model::content::block::{All, Comparisons};
use iosonde_model::plan::chance::mix;
use iosonde_model::record::{Matrix, MatrixRow, Repetition};

use super::in_parallel;
use scene::Scenario;
pub use stored::StoredFault;
pub use trial::{Answer, Trial};

/// Size of the self-test.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Simulations with a visible fault, all kinds together.
    pub faults: u64,
    /// Simulations without a fault.
    pub look_alikes: u64,
    /// Operations of one long simulation without a fault.
    pub soak_ops: u64,
    /// Seed.
    pub seed: u64,
    /// Threads.
    pub threads: usize,
    /// Whether stored blocks have 8 KiB at most, which takes less time.
    pub small: bool,
}

/// A part of the self-test.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Part {
    /// Faults, counted by simulations in which one is visible.
    Faults,
    /// Simulations without a fault.
    LookAlikes,
    /// The long simulation, counted by requests.
    Soak,
}

/// Largest number of reported seeds of failed simulations.
const REPORTED_SEEDS: usize = 5;
/// Maximum number of simulations of a kind per required visible fault.
const MAX_TRIES: u64 = 50;
/// Simulations that a thread takes at once.
const CHUNK: u64 = 64;

/// Runs the simulations and reports the progress of each part. Ends early on a signal, with the
/// results so far.
pub fn selftest(
    extent: &Extent,
    control: &Control,
    on_progress: &(dyn Fn(Part, u64) + Sync),
) -> Matrix {
    let rows = rows(extent, control, &counting(Part::Faults, on_progress));
    let silent = look_alikes(extent, control, &counting(Part::LookAlikes, on_progress));
    let tell = counting(Part::Soak, on_progress);
    let soaked = soak::soak(extent.soak_ops, extent.seed, control, &tell);
    let alarm_seeds: Vec<u64> = silent.iter().flat_map(|(_, seeds)| seeds.clone()).collect();
    Matrix {
        rows,
        look_alikes: silent.iter().map(|(count, _)| count).sum(),
        alarms: alarm_seeds.len() as u64,
        alarm_seeds: alarm_seeds.into_iter().take(REPORTED_SEEDS).collect(),
        soak_ops: soaked.ops,
        soak_checked: soaked.checked,
        soak_alarms: soaked.alarms,
    }
}

/// A very short test: every kind of fault a few times, some look-alikes, and a short soak. It runs
/// before every verification.
pub fn quick(seed: u64, control: &Control) -> Matrix {
    let extent = Extent {
        faults: 2 * Kind::all().count() as u64,
        look_alikes: 24,
        soak_ops: 2000,
        seed,
        threads: 2,
        small: true,
    };
    selftest(&extent, control, &|_, _| {})
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A fault in requests.
    Request(Fault),
    /// A fault in stored data.
    Stored(StoredFault),
}

impl Kind {
    /// All kinds.
    pub fn all() -> impl Iterator<Item = Kind> {
        let requests = Fault::ALL.into_iter().map(Kind::Request);
        requests.chain(StoredFault::ALL.into_iter().map(Kind::Stored))
    }

    /// The name of the kind.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Request(fault) => fault.word(),
            Kind::Stored(fault) => fault.word(),
        }
    }

    fn expected(self) -> &'static str {
        match self {
            Kind::Request(fault) => Answer::to(fault).words(),
            Kind::Stored(fault) => fault.expected(),
        }
    }

    /// The seed of a simulation of this kind.
    fn seed(self, seed: u64, index: u64, small: bool) -> u64 {
        let number = Kind::all().position(|one| one == self).unwrap_or(0) as u64;
        match self {
            Kind::Request(_) => mix(seed ^ mix(index ^ (number << 40))),
            Kind::Stored(_) => stored::seed_of(seed ^ mix(number), index, small),
        }
    }

    /// Runs a simulation of this kind.
    fn trial<C: Comparisons>(self, seed: u64) -> Trial {
        match self {
            Kind::Request(fault) => Trial::of::<C>(&Scenario::with(fault, seed)),
            Kind::Stored(fault) => stored::trial::<C>(fault, seed),
        }
    }
}

/// Repeats one simulation, by its reported seed; without a kind, a look-alike.
pub fn repeat(kind: Option<Kind>, seed: u64) -> Repetition {
    let scene = match kind {
        Some(Kind::Stored(fault)) => {
            let trial = stored::trial::<All>(fault, seed);
            return trial.reported(fault.word().into(), seed, stored::words(fault, seed));
        }
        Some(Kind::Request(fault)) => Scenario::with(fault, seed),
        None => Scenario::without_fault(seed),
    };
    let fault = scene.fault.map(|(injection, job)| format!("{injection} in job {job}"));
    let fault = fault.unwrap_or_else(|| "none".into());
    Trial::of::<All>(&scene).reported(fault, seed, scene.words())
}

/// Sums the progress of a part.
fn counting<'a>(
    part: Part,
    on_progress: &'a (dyn Fn(Part, u64) + Sync),
) -> impl Fn(u64) + Sync + 'a {
    let done = AtomicU64::new(0);
    move |count| on_progress(part, done.fetch_add(count, Ordering::Relaxed) + count)
}

fn rows(extent: &Extent, control: &Control, tell: &(impl Fn(u64) + Sync)) -> Vec<MatrixRow> {
    let kinds: Vec<Kind> = Kind::all().collect();
    in_parallel(kinds.len(), extent.threads, |index| {
        row::<All>(kinds[index], kinds.len() as u64, extent, control, tell)
    })
}

fn row<C: Comparisons>(
    kind: Kind,
    kinds: u64,
    extent: &Extent,
    control: &Control,
    tell: &impl Fn(u64),
) -> MatrixRow {
    let wanted = extent.faults.div_ceil(kinds);
    let (fault, expected) = (kind.word(), kind.expected());
    let mut row = MatrixRow { fault, expected, ..MatrixRow::default() };
    let seeds = (0..wanted * MAX_TRIES).map(|index| kind.seed(extent.seed, index, extent.small));
    for seed in seeds.take_while(|_| !control.is_stopping()) {
        if row.visible >= wanted {
            break;
        }
        let trial = kind.trial::<C>(seed);
        row.struck += u64::from(trial.struck);
        row.false_alarms += trial.false_alarms;
        if trial.is_visible() {
            tell(1);
            row.visible += 1;
            row.detected += u64::from(trial.is_detected());
            row.named += u64::from(trial.is_detected() && trial.is_named());
        }
        if !trial.is_right() && row.wrong_seeds.len() < REPORTED_SEEDS {
            row.wrong_seeds.push(seed);
        }
    }
    row
}

/// Simulations without a fault, by chunks: how many, and the seeds of those that raised an alarm.
fn look_alikes(
    extent: &Extent,
    control: &Control,
    tell: &(impl Fn(u64) + Sync),
) -> Vec<(u64, Vec<u64>)> {
    let chunks = extent.look_alikes.div_ceil(CHUNK);
    in_parallel(chunks as usize, extent.threads, |chunk| {
        let first = chunk as u64 * CHUNK;
        let seeds = (first..extent.look_alikes.min(first + CHUNK))
            .map(|index| mix(extent.seed ^ mix(index)))
            .take_while(|_| !control.is_stopping());
        let mut reported = (0, Vec::new());
        for seed in seeds {
            reported.0 += 1;
            tell(1);
            if !Trial::of::<All>(&Scenario::without_fault(seed)).is_right() {
                reported.1.push(seed);
            }
        }
        reported
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_model::content::block::{Comparison, Without};

    #[test]
    fn every_fault_is_found_and_named_and_nothing_else_is() {
        let extent = Extent {
            faults: 42 * 21,
            look_alikes: 600,
            soak_ops: 50_000,
            seed: 7,
            threads: 2,
            small: true,
        };
        let matrix = selftest(&extent, &Control::default(), &|_, _| {});
        assert!(matrix.is_clean(), "{matrix:#?}");
        assert_eq!((matrix.look_alikes, matrix.rows.len(), matrix.visible()), (600, 42, 882));
        assert!(matrix.soak_checked > 40_000, "{}", matrix.soak_checked);
    }

    #[test]
    fn a_test_of_nothing_is_not_clean() {
        assert!(!Matrix::default().is_clean());
        let control = Control::default();
        control.signal.store(2, Ordering::Relaxed);
        assert!(!quick(1, &control).is_clean(), "a signal left every row empty");
    }

    /// Whether a verifier that does not make one comparison fails its own test.
    fn is_noticed<const NUMBER: usize>() -> bool {
        let extent =
            Extent { faults: 0, look_alikes: 0, soak_ops: 0, seed: 11, threads: 1, small: true };
        let extent = Extent { faults: 8 * Kind::all().count() as u64, ..extent };
        let (kinds, control) = (Kind::all().count() as u64, Control::default());
        Kind::all().any(|kind| {
            row::<Without<NUMBER>>(kind, kinds, &extent, &control, &|_| {}).has_failed()
        })
    }

    /// The mutation test of the verifier: every comparison is necessary and tested.
    #[test]
    fn without_any_one_comparison_the_test_fails() {
        let tests: [fn() -> bool; 11] = [
            is_noticed::<0>,
            is_noticed::<1>,
            is_noticed::<2>,
            is_noticed::<3>,
            is_noticed::<4>,
            is_noticed::<5>,
            is_noticed::<6>,
            is_noticed::<7>,
            is_noticed::<8>,
            is_noticed::<9>,
            is_noticed::<10>,
        ];
        let noticed = std::thread::scope(|scope| {
            let running = tests.map(|test| scope.spawn(test));
            running.map(|test| test.join().is_ok_and(|is_noticed| is_noticed))
        });
        let skipped = Comparison::ALL.into_iter().zip(noticed);
        let unnoticed: Vec<Comparison> =
            skipped.filter(|(_, noticed)| !noticed).map(|(skipped, _)| skipped).collect();
        assert_eq!(unnoticed, []);
    }
}
