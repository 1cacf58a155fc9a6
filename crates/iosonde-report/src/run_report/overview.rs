//! All rows of a check in one picture.

use crate::chart::{
    Axis, Bar, BarSeries, Bars, ChartError, Figure, Kind, Marks, Panel, Quantity, style,
};
use iosonde_analysis::Assessment;
use iosonde_analysis::reference::{PlacedRow, Placement, place};
use iosonde_model::record::run::Run;
use iosonde_model::spec::reference::built_in;
use iosonde_model::units::bytes;

/// Bandwidth of each row, acknowledged and durable, beside the usual range of its class.
pub(super) fn overview(rows: &[(&Run, &Assessment)], subject: &str) -> Result<Figure, ChartError> {
    let placement = place(rows, &built_in().unwrap_or_default());
    let valid = |row: &Assessment| row.consistency.valid() && row.figures.all.total.ops > 0;
    let acknowledged = rows.iter().map(|(_, row)| {
        let rate = row.figures.all.total.bytes_per_s;
        valid(row).then(|| bar(&row.title, "acknowledged", rate))
    });
    let durable = rows.iter().map(|(_, row)| {
        let rate = row.figures.durable.as_ref()?.bytes_per_s?;
        // Durable bandwidth counts only writes; in a mix it is lower than the total.
        valid(row).then(|| bar(&row.title, "durable writes", rate))
    });
    let usual = rows.iter().map(|(run, row)| usual(&placement, run, &row.title));
    let class = placement.class.as_ref().map(|(name, ..)| format!("usual for {name}"));
    let mut series = vec![
        BarSeries { name: "acknowledged".into(), style: style(0), values: acknowledged.collect() },
        BarSeries { name: "durable writes".into(), style: style(1), values: durable.collect() },
    ];
    if let Some(name) = class {
        series.push(BarSeries { name, style: style(6), values: usual.collect() });
    }
    series.retain(|series| series.values.iter().any(Option::is_some));
    let values = series
        .iter()
        .flat_map(|series| series.values.iter().flatten())
        .flat_map(|bar| [bar.value.number().unwrap_or_default(), bar.begins.unwrap_or_default()]);
    let positive: Vec<f64> = values.filter(|value| *value > 0.0).collect();
    let least = positive.iter().copied().fold(f64::INFINITY, f64::min);
    let values = positive.into_iter().chain([least / 2.0]);
    let x = Axis::names("", rows.iter().map(|(_, row)| row.title.clone()).collect());
    let y = Axis::fit("MB/s (log)", Quantity::Count, Kind::Log10, values)?;
    let bars = Marks::Bars(Bars { series, labelled: true, stacked: false });
    let panel = Panel::new("", x, y, bars, 300.0);
    Ok(Figure::stacked("Bandwidth of each workload", subject, vec![panel]))
}

fn bar(title: &str, what: &str, bytes_per_s: f64) -> Bar {
    Bar::new(bytes_per_s / 1e6, format!("{title}: {}, {what}", bytes::per_second(bytes_per_s)))
}

/// The usual range of a row as bandwidth.
fn usual(placement: &Placement, run: &Run, title: &str) -> Option<Bar> {
    let (name, _, rows) = placement.class.as_ref()?;
    let row: &PlacedRow = rows.iter().find(|row| row.title == title)?;
    let scale = match row.is_rate_of_bytes {
        true => 1.0 / 1e6,
        false => run.plan.nominal_block_bytes as f64 / 1e6,
    };
    let [low, high] = row.range.map(|value| value * scale);
    let hover = format!(
        "{title}: {} to {} is usual for {name}",
        row.figure(row.range[0]),
        row.figure(row.range[1])
    );
    Some(Bar::spanning(low, high, hover))
}
