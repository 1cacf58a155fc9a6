//! One verifier run as a record, with the device's counters read before and after it.

use std::sync::Arc;

use super::{RunContext, backend_facts, forget_cache, target_facts};
use iosonde_engine::backend::fault::{FaultLog, Injection};
use iosonde_engine::engine::floor::ToolOverhead;
use iosonde_engine::engine::verify::{
    RunInputs, VerifyMeasured, VerifyObserver, simulate, site, verify,
};
use iosonde_engine::engine::{Control, EngineError, Medium, Progress};
use iosonde_engine::host::device_counters;
use iosonde_engine::target::held::drop_cache;
use iosonde_model::plan::VerifyPlan;
use iosonde_model::record::VerifyRun;
use iosonde_model::record::verify::{LedgerUse, VERIFY_SCHEMA};

/// Runs a verifier plan and records the results.
///
/// # Errors
/// If a queue or a thread cannot be created.
pub fn prove(
    plan: &VerifyPlan,
    mut inputs: RunInputs,
    context: &RunContext,
    ledger: Option<LedgerUse>,
    on_progress: &mut dyn FnMut(&Progress, bool),
) -> Result<VerifyRun, EngineError> {
    let target = target_facts(&plan.plan, context);
    let device = target.device.as_ref().map(|device| device.name.clone());
    // NVMe commands bypass the block layer: its counters would show only other I/O.
    let device = device.filter(|_| !matches!(context.medium, Medium::Nvme(_)));
    let counters = || device.as_ref().and_then(|name| device_counters(&context.root, name));
    // Read before the run, after which the target may not respond.
    let unnamed = context.held.as_ref().is_some_and(|held| held.path.is_dir());
    let injected = inputs.fault.clone();
    let before = counters();
    let mut beside = Beside { medium: &context.medium, on_progress, dropped: false };
    let control = Arc::new(Control::new(Arc::clone(&context.control.signal)));
    let measured = match &context.medium {
        Medium::Sim(model) => in_virtual_time(plan, model, inputs, &control),
        medium => {
            inputs.fault = injected.clone();
            verify(plan, medium, inputs, context.clock, &control, &mut beside)?
        }
    };
    let cache_dropped = beside.dropped;
    forget_cache(&context.medium);
    let device = before.zip(counters());
    // The CPU time of the whole run, data included, is reported instead.
    let no_overhead = ToolOverhead::default();
    Ok(VerifyRun {
        schema: VERIFY_SCHEMA.into(),
        program: env!("CARGO_PKG_VERSION").into(),
        plan: plan.clone(),
        started_unix_ns: measured.started_unix_ns,
        outcome: measured.outcome,
        elapsed_ns: measured.elapsed_ns,
        backend: backend_facts(&plan.plan, context.clock, measured.queue, no_overhead),
        target,
        jobs: measured.jobs,
        process: measured.process,
        unnamed,
        device,
        cache_dropped,
        ledger,
        injected: injected.iter().map(|(what, log)| (what.to_string(), log.count())).collect(),
    })
}

/// Runs on the simulated device, with a memory of its size.
fn in_virtual_time(
    plan: &VerifyPlan,
    model: &iosonde_engine::backend::sim::Model,
    mut inputs: RunInputs,
    control: &Arc<Control>,
) -> VerifyMeasured {
    use iosonde_engine::backend::fault::{Fault, FaultQueue, When};
    use iosonde_engine::backend::sim::{Memory, SimQueue};
    let never = Injection { fault: Fault::Drop, when: When::Nth(u64::MAX) };
    let (injection, log) = inputs.fault.take().unwrap_or((never, FaultLog::default()));
    let end = plan.plan.target().bytes;
    let memory = Memory::zeroed(usize::try_from(end).unwrap_or(usize::MAX)).shared();
    let device = std::rc::Rc::new(std::cell::RefCell::new(model.build(plan.plan.seed)));
    simulate(plan, inputs, control, |job, index| {
        let queue = SimQueue::with_memory(job, device.clone(), memory.clone());
        FaultQueue::new(queue, injection, site(plan, index), log.clone())
    })
}

/// Manages the page cache, and forwards progress.
struct Beside<'a> {
    medium: &'a Medium,
    on_progress: &'a mut dyn FnMut(&Progress, bool),
    dropped: bool,
}

impl VerifyObserver for Beside<'_> {
    fn tick(&mut self, progress: &Progress, sweeping: bool) {
        (self.on_progress)(progress, sweeping);
    }

    fn before_sweep(&mut self) {
        let files = self.medium.files();
        self.dropped = !files.is_empty();
        files.into_iter().for_each(|file| drop_cache(file));
    }
}
