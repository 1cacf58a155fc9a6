//! All numbers of an experiment as tables: one row per point, per run, and per figure of a run.

use crate::report::{DataSet, Datum};
use iosonde_analysis::experiment::{Measure, Standing, Study, TrialFigures};
use iosonde_model::plan::design::Level;
use iosonde_model::spec::Direction;
use iosonde_model::spec::experiment::Parameter;
use iosonde_model::spec::experiment::parameter::Quantity;

const DIRECTIONS: [(&str, Direction); 3] =
    [("total", Direction::Total), ("read", Direction::Read), ("write", Direction::Write)];

/// One row per cell: means over its runs, with standard deviations and intervals.
pub(super) fn points(study: &Study) -> DataSet {
    let axes = Axes::of(study);
    let mut columns = names(&["stage_name", "cell_name", "standing_name", "runs_count"]);
    columns.extend(axes.columns());
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
            row.extend(axes.row(&point.levels));
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
    DataSet::new("points", columns, rows)
}

/// One row per run, in the order of execution.
pub(super) fn trials(study: &Study) -> DataSet {
    let axes = Axes::of(study);
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
    columns.extend(axes.columns());
    columns.extend(Measure::all().map(|measure| measure.column().to_owned()));
    let mut rows = Vec::new();
    for (stage, levels, trial) in all(study) {
        let mut row = vec![
            Datum::from(stage),
            Datum::Text(cell(levels)),
            Datum::Integer(u64::from(trial.repeat)),
            Datum::Integer(u64::from(trial.position)),
            Datum::Integer(trial.started_unix_ns),
            Datum::from(standing(&trial.standing)),
            Datum::from(because(&trial.standing)),
            Datum::Text(trial.file.clone()),
        ];
        row.extend(axes.row(levels));
        let value = |measure: Measure| measure.of(&trial.figures, Direction::Total).into();
        row.extend(Measure::all().map(value));
        rows.push(row);
    }
    DataSet::new("trials", columns, rows)
}

/// The long form: one row per figure of each run. Figures of the whole run are listed only with the
/// total.
pub(super) fn metrics(study: &Study) -> DataSet {
    let axes = Axes::of(study);
    let mut columns = names(&["stage_name", "cell_name", "repeat_count", "standing_name"]);
    columns.extend(axes.columns());
    columns.extend(names(&["direction_name", "metric_name", "value_number"]));
    let mut rows = Vec::new();
    for (stage, levels, trial) in all(study) {
        let mut front = vec![
            Datum::from(stage),
            Datum::Text(cell(levels)),
            Datum::Integer(u64::from(trial.repeat)),
            Datum::from(standing(&trial.standing)),
        ];
        front.extend(axes.row(levels));
        for (word, direction) in DIRECTIONS {
            let has =
                |measure: &Measure| direction == Direction::Total || !measure.is_of_the_whole();
            for measure in Measure::all().filter(has) {
                let Some(value) = measure.of(&trial.figures, direction) else { continue };
                let mut row = front.clone();
                row.push(Datum::from(word));
                row.push(Datum::from(measure.column()));
                row.push(Datum::from(Some(value)));
                rows.push(row);
            }
        }
    }
    DataSet::new("metrics", columns, rows)
}

/// Columns for the levels of all axes of all stages: a numeric column with its unit for levels with
/// values, and a text column for levels without.
struct Axes {
    columns: Vec<AxisColumn>,
}

#[derive(Eq, PartialEq)]
struct AxisColumn {
    name: String,
    axis: String,
    is_number: bool,
}

impl Axes {
    fn of(study: &Study) -> Axes {
        let mut columns: Vec<AxisColumn> = Vec::new();
        let cells = study.stages.iter().flat_map(|facts| &facts.laid_out.cells);
        for level in cells.flat_map(|cell| &cell.levels) {
            let (axis, is_number) = (level.axis.clone(), level.value.is_some());
            let unit = if is_number { unit(&axis) } else { "name" };
            let name =
                format!("level_{}_{unit}", axis.replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
            let column = AxisColumn { name, axis, is_number };
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        Axes { columns }
    }

    fn columns(&self) -> impl Iterator<Item = String> {
        self.columns.iter().map(|column| column.name.clone())
    }

    /// The levels of a cell; missing if its stage lacks the axis.
    fn row(&self, levels: &[Level]) -> Vec<Datum> {
        let datum = |column: &AxisColumn| {
            let level = levels.iter().find(|level| level.axis == column.axis);
            match (level, column.is_number) {
                (Some(level), true) => level.value.into(),
                (Some(level), false) if level.value.is_none() => Datum::from(level.label.as_str()),
                _ => Datum::Missing,
            }
        };
        self.columns.iter().map(datum).collect()
    }
}

/// Unit of the levels of an axis.
fn unit(axis: &str) -> &'static str {
    match Parameter::parse(axis).map(Parameter::quantity) {
        Ok(Quantity::Bytes) => "bytes",
        Ok(Quantity::Percent) => "percent",
        Ok(Quantity::PerSecond) => "per_s",
        Ok(Quantity::Time) => "ns",
        _ => "number",
    }
}

fn all(study: &Study) -> impl Iterator<Item = (&str, &[Level], &TrialFigures)> {
    study.stages.iter().flat_map(|facts| {
        facts.trials.iter().map(|trial| {
            let cell = facts.laid_out.cells.get(trial.cell);
            let levels = cell.map_or(&[][..], |cell| &cell.levels);
            (facts.stage.name.as_str(), levels, trial)
        })
    })
}

fn cell(levels: &[Level]) -> String {
    let labels: Vec<&str> = levels.iter().map(|level| level.label.as_str()).collect();
    labels.join(", ")
}

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

/// Splits a column name before its unit, since `_low`, `_sd` and the like precede the unit.
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
        Standing::LowConfidence(_) => "low_confidence",
        Standing::Failed(_) => "failed",
    }
}

fn because(standing: &Standing) -> &str {
    match standing {
        Standing::Good => "",
        Standing::LowConfidence(why) | Standing::Failed(why) => why,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::datasets::columns_without_unit;
    use iosonde_analysis::experiment::testing;
    use iosonde_fixtures::Load;
    use iosonde_model::plan::design::Cell;
    use iosonde_stats::bootstrap::log_normal_mean;
    use iosonde_stats::summary::Summary;

    const DEPTHS: &str = "repeats = 5\n[[stage.axis]]\nname = \"iodepth\"\nvalues = [1, 4]\n\
                          [[stage.axis]]\nname = \"pattern\"\n\
                          cases = [{name = \"random\", rw = \"randread\"}]\n";
    const SIZES: &str = "[[stage.axis]]\nname = \"block-size\"\nvalues = [\"4k\", \"1m\"]\n";

    fn invented() -> Study {
        let stage = |name: &str, text: &str| {
            let mut stage = testing::stage_of(text);
            stage.name = name.into();
            let mut noise = testing::noise(7, 0.05);
            testing::facts(&stage, |cell: &Cell, _| Load {
                iops: 1e4 * (1.0 + cell.index as f64) * noise(),
                ..Load::default()
            })
        };
        testing::study(vec![stage("depths", DEPTHS), stage("sizes", SIZES)], None)
    }

    fn at(data: &DataSet, name: &str) -> usize {
        data.columns.iter().position(|column| column == name).unwrap()
    }

    fn numbers(data: &DataSet, row: &[Datum], name: &str) -> Option<f64> {
        match row[at(data, name)] {
            Datum::Number(value) => Some(value),
            Datum::Integer(value) => Some(value as f64),
            _ => None,
        }
    }

    #[test]
    fn every_number_has_its_unit_and_every_row_all_columns() {
        let study = invented();
        for data in [points(&study), trials(&study), metrics(&study)] {
            assert_eq!(columns_without_unit(&data), Vec::<String>::new());
            assert!(!data.rows.is_empty());
            assert!(data.rows.iter().all(|row| row.len() == data.columns.len()), "{}", data.name);
        }
    }

    #[test]
    fn levels_are_columns_and_missing_where_a_stage_lacks_the_axis() {
        let study = invented();
        for data in [points(&study), trials(&study), metrics(&study)] {
            let (first, last) = (&data.rows[0], data.rows.last().unwrap());
            assert_eq!(numbers(&data, first, "level_iodepth_number"), Some(1.0));
            assert_eq!(first[at(&data, "level_pattern_name")], Datum::from("random"));
            assert_eq!(first[at(&data, "level_block_size_bytes")], Datum::Missing);
            assert_eq!(last[at(&data, "level_iodepth_number")], Datum::Missing);
            assert_eq!(last[at(&data, "level_pattern_name")], Datum::Missing);
            assert_eq!(numbers(&data, last, "level_block_size_bytes"), Some(1_048_576.0));
        }
    }

    #[test]
    fn figures_of_the_whole_stand_with_the_total_alone() {
        let data = metrics(&invented());
        let (direction, metric) = (at(&data, "direction_name"), at(&data, "metric_name"));
        let of = |name: &str| -> Vec<&Datum> {
            let own = data.rows.iter().filter(|row| row[metric] == Datum::from(name));
            own.map(|row| &row[direction]).collect()
        };
        assert!(of("iops_per_s").contains(&&Datum::from("read")));
        let depths = of("depth_seen_count");
        assert!(depths.len() == 16 && depths.iter().all(|word| **word == Datum::from("total")));
    }

    #[test]
    fn points_are_what_their_trials_come_to() {
        let study = invented();
        let (points, trials) = (points(&study), trials(&study));
        let name = |data: &DataSet, row: &[Datum]| {
            (row[at(data, "stage_name")].clone(), row[at(data, "cell_name")].clone())
        };
        let mut compared = 0;
        for point in &points.rows {
            let of = name(&points, point);
            let own: Vec<_> = trials.rows.iter().filter(|row| name(&trials, row) == of).collect();
            for measure in Measure::all() {
                let column = measure.column();
                let values: Vec<f64> =
                    own.iter().filter_map(|row| numbers(&trials, row, column)).collect();
                let Some(summary) = Summary::of(&values) else { continue };
                let (stem, unit) = split(column);
                let of =
                    |part: &str| numbers(&points, point, &format!("{stem}_{part}_{unit}")).unwrap();
                let is_at =
                    |found: f64, expected: f64| (found - expected).abs() <= 1e-9 * expected.abs();
                let mean = numbers(&points, point, column).unwrap();
                assert!((mean - summary.mean).abs() <= 1e-9 * mean.abs(), "{column}");
                let interval = log_normal_mean(&values);
                assert!(is_at(of("sd"), summary.std_dev), "{column} sd");
                if let Some(interval) = interval.filter(|_| !column.starts_with("latency_p")) {
                    // More than a thousand operations, and each end is widened by one of them.
                    let wider = of("high") / interval.high - 1.0;
                    assert!((-1e-9..1e-3).contains(&wider), "{column}: {wider}");
                    assert!(is_at(of("low"), interval.low * (1.0 - wider)), "{column} low");
                }
                compared += 1;
            }
        }
        assert!(compared >= 4 * 6, "{compared}");
    }
}
