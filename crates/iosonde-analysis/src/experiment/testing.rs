//! Synthetic stages for tests: the design of a file, with runs that are consistent by construction.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::{StageFacts, Study, TrialFigures};
use iosonde_fixtures::{Load, run_of};
use iosonde_model::plan::design::{Cell, Found, cells};
use iosonde_model::record::Run;
use iosonde_model::record::experiment::{
    EXPERIMENT_SCHEMA, ExperimentRun, RequestedTarget, STAGE_SCHEMA, StageRun, TRIAL_SCHEMA,
    TrialRun,
};
use iosonde_model::spec::Experiment;
use iosonde_model::spec::experiment::{Claims, Stage};
use iosonde_stats::chance::Chance;

/// A stage of a built-in experiment.
pub fn stage(experiment: &str, name: &str) -> Stage {
    let found = iosonde_model::spec::catalogue::experiment(experiment).unwrap();
    found.stage(name).unwrap().clone()
}

/// A stage described by TOML text.
pub fn stage_of(text: &str) -> Stage {
    let text = format!("name = \"x\"\nquestion = \"?\"\n[[stage]]\nname = \"s\"\n{text}");
    toml::from_str::<Experiment>(&text).unwrap().stages.remove(0)
}

/// A completed stage: one load for each cell and repeat.
pub fn facts(stage: &Stage, load: impl FnMut(&Cell, u32) -> Load) -> StageFacts {
    let mut load = load;
    of_runs(stage, &Found::new(), &[], |cell, repeat| run_of(&[load(cell, repeat)]))
}

/// A completed stage: one run for each cell and repeat.
pub fn of_runs(
    stage: &Stage,
    found: &Found,
    before: &[StageFacts],
    mut run: impl FnMut(&Cell, u32) -> Run,
) -> StageFacts {
    let cells = cells(stage, found, None).unwrap();
    let mut trials = Vec::new();
    for repeat in 0..stage.most_repeats() {
        for cell in &cells {
            let position = trials.len() as u32;
            let record = TrialRun {
                schema: TRIAL_SCHEMA.into(),
                experiment: "x".into(),
                stage: stage.name.clone(),
                cell: cell.index,
                levels: cell.levels.clone(),
                repeat,
                position,
                cache: String::new(),
                run: run(cell, repeat),
            };
            trials.push(TrialFigures::of(&record, "file", None));
        }
    }
    let laid_out = StageRun {
        schema: STAGE_SCHEMA.into(),
        stage: stage.name.clone(),
        cells,
        order_seed: 7,
        found: found.clone(),
        left_out: Vec::new(),
        skipped: String::new(),
        ended_early: String::new(),
        prepared: Vec::new(),
        purges: Vec::new(),
        write_cache: None,
        waits: 0,
        waited_ms: 0,
    };
    StageFacts::of(stage, laid_out, trials, before)
}

/// The number of a cell's level on an axis.
pub fn at(cell: &Cell, axis: &str) -> f64 {
    cell.levels.iter().find(|level| level.axis == axis).and_then(|level| level.value).unwrap()
}

/// Factors near 1 with this relative noise.
pub fn noise(seed: u64, relative: f64) -> impl FnMut() -> f64 {
    let mut chance = Chance::new(seed);
    move || 1.0 + relative * chance.normal()
}

/// A study of these stages.
pub fn study(stages: Vec<StageFacts>, claims: Option<Claims>) -> Study {
    Study {
        run: ExperimentRun {
            schema: EXPERIMENT_SCHEMA.into(),
            program: "test".into(),
            experiment: iosonde_model::spec::catalogue::experiment("study").unwrap(),
            claims,
            seed: 1,
            target: RequestedTarget::default(),
            max_written_bytes: None,
            drive_written_before: None,
            max_temperature_c: None,
            started_unix_ns: 0,
        },
        host: None,
        target: None,
        stages,
        conclusions: Vec::new(),
    }
}
