//! Would the verifier have noticed? Every fault is put into the simulated device, over and over, and
//! the true verifier runs against it; and look-alikes without a fault must leave it silent.
//!
//! The truth comes from a second memory above the fault, which holds what was acknowledged: the
//! blocks that differ are those that must be found, and no others.

mod crash;
mod scene;
mod trial;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::backend::fault::Fault;
use crate::backend::sim::{Memory, SimQueue};
use crate::engine::Control;
use crate::engine::verify::{Luggage, simulate};
use crate::plan::chance::mix;
use crate::plan::{VerifyMode, VerifyPlan, VerifySetting};

use scene::{Scene, device};
pub use trial::{Answer, Trial};

/// What became of the simulations of one fault.
#[derive(Clone, Debug, Default, Eq, PartialEq, serde::Serialize)]
pub struct Row {
    /// The fault, as typed.
    pub fault: String,
    /// What had to come of it, in words.
    pub expected: &'static str,
    /// Simulations in which it struck.
    pub struck: u64,
    /// Of these, those in which it could be seen at the end: a later write may cover it.
    pub visible: u64,
    /// Of these, those in which every damaged block was found.
    pub detected: u64,
    /// Of these, those in which every one was given its right name.
    pub named: u64,
    /// Blocks that were found and were not damaged.
    pub false_alarms: u64,
    /// Seeds of simulations that did not come out right; the first few.
    pub wrong_seeds: Vec<u64>,
}

/// The mutation matrix.
#[derive(Clone, Debug, Default, Eq, PartialEq, serde::Serialize)]
pub struct Matrix {
    /// One row per fault.
    pub rows: Vec<Row>,
    /// Simulations without a fault.
    pub look_alikes: u64,
    /// Of these, those that raised an alarm.
    pub alarms: u64,
    /// Seeds of those; the first few.
    pub alarm_seeds: Vec<u64>,
    /// Operations of the long simulation without a fault.
    pub soak_ops: u64,
    /// Blocks that it checked.
    pub soak_checked: u64,
    /// Alarms that it raised.
    pub soak_alarms: u64,
}

impl Matrix {
    /// Simulations of a fault that could be seen.
    pub fn visible(&self) -> u64 {
        self.rows.iter().map(|row| row.visible).sum()
    }

    /// Whether every fault was found and rightly named, and nothing else was.
    pub fn is_clean(&self) -> bool {
        let found = |row: &Row| {
            row.visible > 0
                && row.detected == row.visible
                && row.named == row.visible
                && row.false_alarms == 0
        };
        !self.rows.is_empty()
            && self.rows.iter().all(found)
            && self.alarms == 0
            && self.soak_alarms == 0
    }
}

/// How much is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Simulations with a visible fault, all kinds together.
    pub faults: u64,
    /// Simulations without one.
    pub look_alikes: u64,
    /// Operations of one long simulation without one.
    pub soak_ops: u64,
    /// Seed of everything.
    pub seed: u64,
    /// Threads.
    pub threads: usize,
}

/// Seeds told of simulations that did not come out right.
const TOLD_SEEDS: usize = 5;
/// Of so many simulations of a kind, at least one should strike and be visible.
const MAX_TRIES: u64 = 50;

/// Runs the simulations. Ends early, with what it has, when a signal asks for it.
pub fn selftest(extent: &Extent, control: &Control, on_progress: &(dyn Fn(u64) + Sync)) -> Matrix {
    let kinds = Fault::ALL;
    let per_kind = extent.faults.div_ceil(kinds.len() as u64);
    let done = std::sync::atomic::AtomicU64::new(0);
    let tell = |count: u64| on_progress(done.fetch_add(count, Ordering::Relaxed) + count);
    let rows = in_parallel(kinds.len(), extent.threads, |index| {
        row(kinds[index], per_kind, extent.seed, control, &tell)
    });
    let chunks = extent.look_alikes.div_ceil(CHUNK);
    let silent = in_parallel(chunks as usize, extent.threads, |chunk| {
        let first = chunk as u64 * CHUNK;
        let seeds = (first..extent.look_alikes.min(first + CHUNK))
            .map(|index| mix(extent.seed ^ mix(index)))
            .take_while(|_| !control.is_stopping());
        let mut told = (0, Vec::new());
        for seed in seeds {
            told.0 += 1;
            tell(1);
            if Trial::of(&Scene::without_fault(seed)).is_alarmed() {
                told.1.push(seed);
            }
        }
        told
    });
    let alarm_seeds: Vec<u64> = silent.iter().flat_map(|(_, seeds)| seeds.clone()).collect();
    let (soak_ops, soak_checked, soak_alarms) = soak(extent.soak_ops, extent.seed);
    Matrix {
        rows,
        look_alikes: silent.iter().map(|(count, _)| count).sum(),
        alarms: alarm_seeds.len() as u64,
        alarm_seeds: alarm_seeds.into_iter().take(TOLD_SEEDS).collect(),
        soak_ops,
        soak_checked,
        soak_alarms,
    }
}

/// Simulations that a thread takes at once.
const CHUNK: u64 = 256;

/// Does `count` things, in any order, and gives what came of them in theirs.
fn in_parallel<T: Send>(count: usize, threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return done;
            }
            done.push((index, work(index)));
        }
    };
    let all: BTreeMap<usize, T> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(worker)).collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, _>| match worker.join() {
            Ok(done) => done,
            // A verifier that breaks down is one that cannot be trusted: this is not passed over.
            Err(panic) => std::panic::resume_unwind(panic),
        };
        workers.into_iter().flat_map(join).collect()
    });
    all.into_values().collect()
}

fn row(fault: Fault, wanted: u64, seed: u64, control: &Control, tell: &impl Fn(u64)) -> Row {
    let kind = Fault::ALL.iter().position(|one| *one == fault).unwrap_or(0) as u64;
    let expected = Answer::to(fault).words();
    let mut row = Row { fault: fault.to_string(), expected, ..Row::default() };
    let seeds = (0..wanted * MAX_TRIES).map(|index| mix(seed ^ mix(index ^ (kind << 40))));
    for seed in seeds.take_while(|_| !control.is_stopping()) {
        if row.visible >= wanted {
            break;
        }
        let trial = Trial::of(&Scene::with(fault, seed));
        row.struck += u64::from(trial.struck);
        row.false_alarms += trial.false_alarms;
        if !trial.is_visible() {
            continue;
        }
        tell(1);
        row.visible += 1;
        row.detected += u64::from(trial.is_detected());
        row.named += u64::from(trial.is_detected() && trial.is_named());
        let is_wrong = !trial.is_detected() || !trial.is_named() || trial.false_alarms > 0;
        if is_wrong && row.wrong_seeds.len() < TOLD_SEEDS {
            row.wrong_seeds.push(seed);
        }
    }
    row
}

/// One long simulation without a fault, at depth, with overlapping random ranges. Gives operations,
/// blocks checked, and alarms.
fn soak(ops: u64, seed: u64) -> (u64, u64, u64) {
    const JOBS: u32 = 4;
    if ops == 0 {
        return (0, 0, 0);
    }
    let setting = VerifySetting {
        jobs: JOBS,
        iodepth: 16,
        block_bytes: 512,
        blocks: (1, 4),
        read_percent: 45,
        trim_percent: 2,
        flush_every: 1000,
        ops: ops.div_ceil(JOBS.into()),
        seed,
        ..scene::setting(VerifyMode::Soak, 4 << 20)
    };
    let Ok(plan) = VerifyPlan::resolve(&setting) else { return (0, 0, 0) };
    let memory = Memory::zeroed(4 << 20).shared();
    let device = device("servers=24,read=exp:80us,write=exp:60us", seed);
    let control = Arc::new(Control::default());
    let measured = simulate(&plan, Luggage::default(), &control, |job, _| {
        SimQueue::with_memory(job, device.clone(), memory.clone())
    });
    let sum = |of: fn(&crate::record::VerifyJobRun) -> u64| measured.jobs.iter().map(of).sum();
    let alarms: u64 = sum(|job| job.failed_blocks.values().sum());
    (sum(|job| job.ops), sum(|job| job.checked), alarms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_found_and_named_and_nothing_else_is() {
        let extent =
            Extent { faults: 21 * 25, look_alikes: 300, soak_ops: 50_000, seed: 7, threads: 2 };
        let matrix = selftest(&extent, &Control::default(), &|_| {});
        assert!(matrix.is_clean(), "{matrix:#?}");
        assert_eq!((matrix.look_alikes, matrix.rows.len()), (300, 21));
        assert!(matrix.soak_checked > 40_000, "{}", matrix.soak_checked);
    }
}
