//! The crates as a library: a built-in workload on a simulated device, measured, assessed and
//! reported in three lines. `cargo run --example library`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use std::sync::Arc;

use iosonde::schedule::{Event, RunContext, execute};
use iosonde_analysis::verdict::{Assessment, assess, verdict};
use iosonde_engine::backend::sim::Model;
use iosonde_engine::engine::{Control, Medium};
use iosonde_engine::host::Root;
use iosonde_model::plan::{Engine, EngineKind, OnError, Setting, Stop, Target, resolve};
use iosonde_model::record::Run;
use iosonde_model::spec::catalogue;
use iosonde_report::Answer;
use iosonde_sys::Clock;

fn main() -> Result<(), Box<dyn Error>> {
    // What is requested: a workload of the catalogue, or one of your own with `parse_workload`.
    let workload = catalogue::workload("database")?;
    // Where, how long and by which engine. A plan is total: nothing is left open.
    let target = Target { path: "sim".into(), bytes: 64 << 20, direct: false, align_bytes: 1 };
    let setting = Setting {
        engine: Engine::of(EngineKind::Sim),
        targets: vec![target],
        offset_bytes: 0,
        cpus: 2,
        iodepth: 8,
        seed: 1,
        warmup_ns: 1_000_000_000,
        stop: Stop::AfterNs(5_000_000_000),
        on_error: OnError::Stop,
        final_sync: false,
        buffer_limit_bytes: 1 << 30,
    };
    let plan = resolve(&workload, &setting)?;
    let context = RunContext {
        root: Root::system(),
        clock: Clock::monotonic(),
        held: None,
        medium: Medium::Sim(Model::parse("servers=8,read=exp:90us,write=exp:120us")?),
        control: Arc::new(Control::default()),
        keeps_cache: false,
        last_end: Arc::default(),
        peers: None,
    };
    let mut runs: Vec<Run> = Vec::new();
    execute(&[plan], &context, &mut |event| {
        if let Event::Finished { run, .. } = event {
            runs.push((*run).clone());
        }
    })?;
    // What it means: figures, consistency checks, findings, a verdict.
    let assessed: Vec<Assessment> = runs.iter().map(|run| assess(run, None)).collect();
    let rows: Vec<(&Run, &Assessment)> = runs.iter().zip(&assessed).collect();
    print!("{}", Answer::of_runs(&rows, true, &verdict(&assessed), None).text(80));
    Ok(())
}
