//! One run of the real engine on a simulated device, in virtual time.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use iosonde_engine::backend::sim::Model;
use iosonde_engine::engine::{self, Control, Medium, Unwatched};
use iosonde_fixtures::{Load, run_of};
use iosonde_model::plan::{Arrivals, Engine, EngineKind, Order, Pace, Plan, Rate, Stop};
use iosonde_model::record::Run;

/// Device and load of a run.
pub(crate) struct Scene {
    pub(crate) device: &'static str,
    pub(crate) writes: bool,
    /// Requests in flight of a closed loop.
    pub(crate) iodepth: u32,
    /// Arrivals per second of an open loop instead.
    pub(crate) per_s: Option<(f64, Arrivals)>,
    pub(crate) warmup_ns: u64,
    pub(crate) seconds: u64,
}

impl Scene {
    /// Record of a run.
    pub(crate) fn run(&self, seed: u64) -> Result<Run, Box<dyn Error>> {
        self.run_with(seed, |_| {})
    }

    /// Record of a run with a changed plan.
    pub(crate) fn run_with(
        &self,
        seed: u64,
        change: impl Fn(&mut Plan),
    ) -> Result<Run, Box<dyn Error>> {
        let read_percent = if self.writes { 0 } else { 100 };
        let mut run = run_of(&[Load { depth: self.iodepth, read_percent, ..Load::default() }]);
        let plan = &mut run.plan;
        plan.engine = Engine::of(EngineKind::Sim);
        plan.seed = seed;
        plan.warmup_ns = self.warmup_ns;
        plan.stop = Stop::AfterNs(self.seconds * 1_000_000_000);
        plan.interval_ns = 10_000_000;
        plan.intervals_per_histogram = 10;
        plan.jobs[0].batch = 1;
        plan.jobs[0].order = Order::Uniform;
        plan.jobs[0].seed = seed;
        if let Some((per_s, arrivals)) = self.per_s.clone() {
            plan.jobs[0].iodepth = 4_096;
            plan.jobs[0].pace = Pace::Rate { rate: Rate::Ops(per_s), arrivals };
        }
        change(plan);
        let medium = Medium::Sim(Model::parse(self.device)?);
        let control = Arc::new(Control::new(Arc::new(AtomicUsize::new(0))));
        let clock = iosonde_sys::Clock::monotonic();
        let measured = engine::run(&run.plan, &medium, clock, &control, &mut Unwatched)?;
        run.measured_ns = measured.measured_ns;
        run.measured_boottime_ns = measured.boottime_ns;
        run.process = measured.process;
        run.hiccups = measured.hiccups;
        run.jobs = measured.jobs;
        run.outcome = measured.outcome;
        run.controlled = measured.controlled;
        Ok(run)
    }
}
