//! One long simulation without a fault, at depth, with overlapping random ranges.

use std::io;
use std::sync::Arc;

use super::scene::{device, setting};
use iosonde_engine::backend::sim::{Memory, SimQueue};
use iosonde_engine::backend::{Queue, QueueFacts, Transfer};
use iosonde_engine::engine::Control;
use iosonde_engine::engine::verify::{Luggage, simulate};
use iosonde_model::plan::{VerifyMode, VerifyPlan, VerifySetting};
use iosonde_model::record::VerifyJobRun;

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Soaked {
    pub(super) ops: u64,
    /// Blocks that were read and judged.
    pub(super) checked: u64,
    pub(super) alarms: u64,
}

const JOBS: u32 = 4;
const BYTES: u64 = 4 << 20;

/// Simulates so many operations; tells of those that have begun.
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
    let plan =
        VerifyPlan::resolve(&setting).unwrap_or_else(|error| unreachable!("our own: {error}"));
    let memory = Memory::zeroed(BYTES as usize).shared();
    let device = device("servers=24,read=exp:80us,write=exp:60us", seed);
    let control = Arc::new(Control::new(Arc::clone(&control.signal)));
    let measured = simulate(&plan, Luggage::default(), &control, |job, _| {
        let inner = SimQueue::with_memory(job, device.clone(), memory.clone());
        ToldQueue { inner, tell, untold: 0 }
    });
    let sum = |of: fn(&VerifyJobRun) -> u64| measured.jobs.iter().map(of).sum();
    Soaked {
        ops: sum(|job| job.ops),
        checked: sum(|job| job.checked),
        alarms: sum(|job| job.failed_blocks.values().sum()),
    }
}

/// Requests that are told of at once.
const TOLD_AT_ONCE: u64 = 1 << 16;

/// A queue that tells how many requests passed through it.
struct ToldQueue<'a> {
    inner: SimQueue,
    tell: &'a dyn Fn(u64),
    untold: u64,
}

impl Queue for ToldQueue<'_> {
    const WAKES_LATE_NS: u64 = SimQueue::WAKES_LATE_NS;

    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.inner.buffer(slot)
    }

    fn push(&mut self, slot: usize, transfer: Transfer) {
        self.untold += 1;
        if self.untold == TOLD_AT_ONCE {
            (self.tell)(std::mem::take(&mut self.untold));
        }
        self.inner.push(slot, transfer);
    }

    fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        self.inner.enter(wait_for, patience_ns)
    }

    fn pause(&mut self, until_ns: u64) {
        self.inner.pause(until_ns);
    }

    fn reap(&mut self, done: impl FnMut(usize, i32)) {
        self.inner.reap(done);
    }

    fn syscalls(&self) -> u64 {
        self.inner.syscalls()
    }

    fn facts(&self) -> QueueFacts {
        self.inner.facts()
    }
}
