//! One run of the fsync ladder, with the host's flush counters read around every sync.

use super::RunContext;
use iosonde_engine::engine::ladder::{Bystander, LadderRunResult, run_ladder};
use iosonde_engine::engine::{EngineError, Medium, Progress};
use iosonde_engine::host::{Root, flush_layers, flushes, has_device_mapper};
use iosonde_model::plan::ladder::LadderPlan;
use iosonde_model::record::ladder::{FlushLayer, LADDER_SCHEMA, LadderRun};

/// Runs and records a ladder. The context has exactly one file or device.
///
/// # Errors
/// If nothing can be measured: no such medium, no memory.
pub fn ladder(
    plan: &LadderPlan,
    context: &RunContext,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<LadderRun, EngineError> {
    let (Some(held), Medium::Files(files)) = (&context.held, &context.medium) else {
        return Err(EngineError::Medium("psync"));
    };
    let Some(file) = files.first() else { return Err(EngineError::Medium("psync")) };
    let target = held.describe(&context.root);
    let number = target.device.as_ref().map(|device| device.major_minor);
    let layers = number.map(|(major, minor)| flush_layers(&context.root, major, minor));
    let layers = layers.unwrap_or_default();
    let started_unix_ns = iosonde_sys::clock::realtime_ns();
    let mut beside = Beside { root: &context.root, layers: &layers, on_progress };
    let LadderRunResult { outcome, samples, failed } =
        run_ladder(plan, file, context.clock, &context.control, &mut beside)?;
    Ok(LadderRun {
        schema: LADDER_SCHEMA.into(),
        program: env!("CARGO_PKG_VERSION").into(),
        plan: plan.clone(),
        started_unix_ns,
        outcome,
        target,
        device_mapper: has_device_mapper(&context.root),
        layers,
        samples,
        failed,
    })
}

struct Beside<'a> {
    root: &'a Root,
    layers: &'a [FlushLayer],
    on_progress: &'a mut dyn FnMut(&Progress),
}

impl Bystander for Beside<'_> {
    fn flushes(&mut self) -> Vec<Option<u64>> {
        let count = |layer: &FlushLayer| match layer.uncounted {
            None => flushes(self.root, &layer.name),
            Some(_) => None,
        };
        self.layers.iter().map(count).collect()
    }

    fn tick(&mut self, progress: &Progress) {
        (self.on_progress)(progress);
    }
}
