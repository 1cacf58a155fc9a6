//! Every number of an experiment as tables: a row for each point, for each run, and for each figure
//! of each run.

use crate::analysis::experiment::{Measure, Standing, Study, TrialFigures};
use crate::plan::design::Level;
use crate::report::story::{DataSet, Datum};
use crate::spec::Direction;

const DIRECTIONS: [(&str, Direction); 3] =
    [("total", Direction::Total), ("read", Direction::Read), ("write", Direction::Write)];

/// A row for each cell: means over its runs, their standard deviations and intervals.
pub(super) fn points(study: &Study) -> DataSet {
    let mut columns = names(&["stage_name", "cell_name", "standing_name", "runs_count"]);
    for measure in Measure::all() {
        let name = measure.column();
        let (stem, unit) = split(name);
        columns.push(name.into());
        columns.push(format!("{stem}_sd_{unit}"));
        columns.push(format!("{stem}_low_{unit}"));
        columns.push(format!("{stem}_high_{unit}"));
    }
    let mut rows = Vec::new();
    for facts in &study.stages {
        for point in &facts.points {
            let mut row = vec![
                Datum::from(facts.stage.name.as_str()),
                Datum::Text(point.name()),
                Datum::from(standing(&point.standing)),
                Datum::Integer(point.runs.len() as u64),
            ];
            for measure in Measure::all() {
                let spread = point.spread(measure, Direction::Total);
                row.push(spread.as_ref().map(|spread| spread.mean).into());
                row.push(spread.as_ref().and_then(|spread| spread.std_dev).into());
                let interval = spread.and_then(|spread| spread.interval);
                row.push(interval.map(|(low, _)| low).into());
                row.push(interval.map(|(_, high)| high).into());
            }
            rows.push(row);
        }
    }
    DataSet { name: "points".into(), columns, rows }
}

/// A row for each run, in the order in which they were carried out.
pub(super) fn trials(study: &Study) -> DataSet {
    let mut columns = names(&[
        "stage_name",
        "cell_name",
        "repeat_count",
        "position_count",
        "started_unix_ns",
        "standing_name",
        "because_name",
        "file_name",
    ]);
    columns.extend(Measure::all().map(|measure| measure.column().to_owned()));
    let mut rows = Vec::new();
    for (stage, cell, trial) in all(study) {
        let mut row = vec![
            Datum::from(stage),
            Datum::Text(cell),
            Datum::Integer(u64::from(trial.repeat)),
            Datum::Integer(u64::from(trial.position)),
            Datum::Integer(trial.started_unix_ns),
            Datum::from(standing(&trial.standing)),
            Datum::from(because(&trial.standing)),
            Datum::Text(trial.file.clone()),
        ];
        let value = |measure: Measure| measure.of(&trial.figures, Direction::Total).into();
        row.extend(Measure::all().map(value));
        rows.push(row);
    }
    DataSet { name: "trials".into(), columns, rows }
}

/// The long form: a row for each figure of each run.
pub(super) fn metrics(study: &Study) -> DataSet {
    let columns = names(&[
        "stage_name",
        "cell_name",
        "repeat_count",
        "standing_name",
        "direction_name",
        "metric_name",
        "value_number",
    ]);
    let mut rows = Vec::new();
    for (stage, cell, trial) in all(study) {
        for (word, direction) in DIRECTIONS {
            for measure in Measure::all() {
                let Some(value) = measure.of(&trial.figures, direction) else { continue };
                rows.push(vec![
                    Datum::from(stage),
                    Datum::Text(cell.clone()),
                    Datum::Integer(u64::from(trial.repeat)),
                    Datum::from(standing(&trial.standing)),
                    Datum::from(word),
                    Datum::from(measure.column()),
                    Datum::from(Some(value)),
                ]);
            }
        }
    }
    DataSet { name: "metrics".into(), columns, rows }
}

fn all(study: &Study) -> impl Iterator<Item = (&str, String, &TrialFigures)> {
    study.stages.iter().flat_map(|facts| {
        facts.trials.iter().map(|trial| {
            let cell = facts.laid_out.cells.get(trial.cell);
            let levels = cell.map_or(&[][..], |cell| &cell.levels);
            let labels: Vec<&str> =
                levels.iter().map(|level: &Level| level.label.as_str()).collect();
            (facts.stage.name.as_str(), labels.join(", "), trial)
        })
    })
}

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

/// The unit at the end of a column's name, which a word for a spread must not come behind.
fn split(column: &str) -> (&str, &str) {
    for unit in ["bytes_per_s", "per_s", "ns", "count"] {
        if let Some(stem) = column.strip_suffix(unit) {
            return (stem.trim_end_matches('_'), unit);
        }
    }
    (column, "number")
}

fn standing(standing: &Standing) -> &'static str {
    match standing {
        Standing::Good => "good",
        Standing::Doubtful(_) => "doubtful",
        Standing::Failed(_) => "failed",
    }
}

fn because(standing: &Standing) -> &str {
    match standing {
        Standing::Good => "",
        Standing::Doubtful(why) | Standing::Failed(why) => why,
    }
}
