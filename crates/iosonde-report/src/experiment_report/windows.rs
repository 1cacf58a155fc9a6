//! A table of all windows of rounds, the basis of the verdict on the steady state.

use crate::report::{DataSet, Datum};
use iosonde_analysis::experiment::rounds::Tracked;
use iosonde_analysis::experiment::{StageFacts, Steadiness, Study};
use iosonde_model::spec::experiment::Rounds;

/// One row per window of each tracked figure, in the unit of the figure (ns, bytes per second, per
/// second); `None` without rounds.
pub(super) fn windows(study: &Study) -> Option<DataSet> {
    DataSet::named("windows", study.stages.iter().flat_map(of_stage).collect())
}

/// Column names with their values.
type Row = Vec<(&'static str, Datum)>;

fn of_stage(facts: &StageFacts) -> Vec<Row> {
    let (Some(steadiness), Some(limits)) = (&facts.steadiness, &facts.stage.rounds) else {
        return Vec::new();
    };
    let rows = steadiness.tracked.iter().flat_map(|tracked| {
        let starts = steadiness.first_round..(steadiness.rounds + 1).saturating_sub(limits.window);
        starts.filter_map(|start| row(facts, (steadiness, limits), tracked, start))
    });
    rows.collect()
}

fn row(
    facts: &StageFacts,
    (steadiness, limits): (&Steadiness, &Rounds),
    tracked: &Tracked,
    start: u32,
) -> Option<Row> {
    let window = tracked.window_at(start, limits.window)?;
    let is_steady = window.is_steady(limits.range_percent / 100.0, limits.slope_percent / 100.0);
    let is_first = steadiness.is_steady || steadiness.left_in.is_some();
    let standing = match (is_steady, is_first && steadiness.window_start == Some(start)) {
        (_, true) => "measurement",
        (true, false) => "steady",
        (false, false) => "not_steady",
    };
    let drift = window.drift();
    Some(vec![
        ("stage_name", Datum::from(facts.stage.name.as_str())),
        ("cell_name", Datum::Text(tracked.name.clone())),
        ("cell_number", Datum::Integer(tracked.cell as u64)),
        ("metric_name", Datum::from(tracked.measure.word())),
        ("first_round_number", Datum::Integer(u64::from(start + 1))),
        ("rounds_count", Datum::Integer(u64::from(limits.window))),
        ("mean_number", Datum::Number(window.mean)),
        ("range_number", Datum::Number(window.range)),
        ("slope_number", Datum::Number(window.slope)),
        ("slope_excursion_number", Datum::Number(window.slope_excursion)),
        ("drift_low_percent", drift.map(|(low, _)| low * 100.0).into()),
        ("drift_high_percent", drift.map(|(_, high)| high * 100.0).into()),
        ("standing_name", Datum::from(standing)),
    ])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::datasets::columns_without_unit;
    use iosonde_analysis::experiment::testing;
    use iosonde_fixtures::Load;

    #[test]
    fn each_window_has_a_row_and_the_first_steady_one_is_measured() {
        let text = "order = \"given\"\nrepeats = 1\nrounds = { max = 9, track = [{}] }\n";
        let stage = testing::stage_of(text);
        let facts = testing::facts(&stage, |_, round| {
            let iops = if round < 3 { 60e3 } else { 20e3 };
            Load { iops, ..Load::default() }
        });
        let data = windows(&testing::study(vec![facts], None)).unwrap();
        assert_eq!(columns_without_unit(&data), Vec::<String>::new());
        let standings: Vec<&Datum> = data.rows.iter().map(|row| row.last().unwrap()).collect();
        let expected = ["not_steady", "not_steady", "not_steady", "measurement", "steady"];
        assert_eq!(standings, expected.map(Datum::from).iter().collect::<Vec<_>>());
        assert_eq!(data.rows[3][4], Datum::Integer(4));
        let stage = testing::stage_of("repeats = 2\n");
        let facts = testing::facts(&stage, |_, _| Load::default());
        assert_eq!(windows(&testing::study(vec![facts], None)), None);
    }
}
