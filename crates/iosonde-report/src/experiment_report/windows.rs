//! Every window of rounds as a table: what the verdict on a steady state follows from.

use crate::report::{DataSet, Datum};
use iosonde_analysis::experiment::rounds::Tracked;
use iosonde_analysis::experiment::{StageFacts, Steadiness, Study};
use iosonde_model::spec::experiment::Rounds;

const COLUMNS: [&str; 13] = [
    "stage_name",
    "cell_name",
    "cell_number",
    "metric_name",
    "first_round_number",
    "rounds_count",
    "mean_number",
    "range_number",
    "slope_number",
    "slope_excursion_number",
    "drift_low_percent",
    "drift_high_percent",
    "standing_name",
];

/// A row for each window of each tracked figure, in the unit of the figure (ns, bytes per second,
/// per second); `None` without rounds.
pub(super) fn windows(study: &Study) -> Option<DataSet> {
    let rows: Vec<Vec<Datum>> = study.stages.iter().flat_map(of_stage).collect();
    (!rows.is_empty()).then(|| DataSet::new("windows", COLUMNS, rows))
}

fn of_stage(facts: &StageFacts) -> Vec<Vec<Datum>> {
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
) -> Option<Vec<Datum>> {
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
        Datum::from(facts.stage.name.as_str()),
        Datum::Text(tracked.name.clone()),
        Datum::Integer(tracked.cell as u64),
        Datum::from(tracked.measure.word()),
        Datum::Integer(u64::from(start + 1)),
        Datum::Integer(u64::from(limits.window)),
        Datum::Number(window.mean),
        Datum::Number(window.range),
        Datum::Number(window.slope),
        Datum::Number(window.slope_excursion),
        drift.map(|(low, _)| low * 100.0).into(),
        drift.map(|(_, high)| high * 100.0).into(),
        Datum::from(standing),
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
