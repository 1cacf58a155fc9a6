//! One long simulation without a fault, at depth, with overlapping random ranges.

use std::sync::Arc;

use super::scene::{device, resolved, setting};
use iosonde_engine::backend::sim::watched::{Watched, Watcher};
use iosonde_engine::backend::sim::{Memory, SimQueue};
use iosonde_engine::backend::{Queue, Transfer};
use iosonde_engine::engine::Control;
use iosonde_engine::engine::verify::{RunInputs, simulate};
use iosonde_model::plan::{VerifyMode, VerifySetting};
use iosonde_model::record::VerifyJobRun;

/// Result of the long simulation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Soaked {
    pub(super) ops: u64,
    /// Blocks read and checked.
    pub(super) checked: u64,
    pub(super) alarms: u64,
}

const JOBS: u32 = 4;
const BYTES: u64 = 4 << 20;

/// Simulates this many operations; reports those that have started.
pub(super) fn soak(ops: u64, seed: u64, control: &Control, tell: &dyn Fn(u64)) -> Soaked {
    if ops == 0 {
        return Soaked::default();
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
        ..setting(VerifyMode::Soak, BYTES)
    };
    let plan = resolved(&setting);
    let memory = Memory::zeroed(BYTES as usize).shared();
    let device = device("servers=24,read=exp:80us,write=exp:60us", seed);
    let control = Arc::new(Control::new(Arc::clone(&control.signal)));
    let measured = simulate(&plan, RunInputs::default(), &control, |job, _| {
        let inner = SimQueue::with_memory(job, device.clone(), memory.clone());
        Watched::new(inner, Counting { tell, unreported: 0 })
    });
    let sum = |of: fn(&VerifyJobRun) -> u64| measured.jobs.iter().map(of).sum();
    Soaked {
        ops: sum(|job| job.ops),
        checked: sum(|job| job.checked),
        alarms: sum(|job| job.failed_blocks.values().sum()),
    }
}

/// Requests per progress report.
const REPORTED_AT_ONCE: u64 = 1 << 16;

/// Reports how many requests were pushed.
struct Counting<'a> {
    tell: &'a dyn Fn(u64),
    unreported: u64,
}

impl Watcher for Counting<'_> {
    fn pushed(&mut self, _queue: &mut impl Queue, _slot: usize, _transfer: Transfer) {
        self.unreported += 1;
        if self.unreported == REPORTED_AT_ONCE {
            (self.tell)(std::mem::take(&mut self.unreported));
        }
    }
}
