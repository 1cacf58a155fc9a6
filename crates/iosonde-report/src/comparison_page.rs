//! A comparison of two sets of runs as the sections of a page.

use super::chart::{
    Axis, ChartError, Figure, Kind, Line, Marker, Marks, Measured, Panel, Plot, Point, Quantity,
    style,
};
use super::comparison_text::{gate_line, notes, percent, rows, runs, within};
use super::report::{Block, Column, Picture, Section, Table};
use iosonde_analysis::comparison::{Cell, Comparison, Row};

/// The subject, a table and a figure for each cell, and the results of the gates.
///
/// # Errors
/// If a figure cannot be drawn.
pub fn comparison_sections(compared: &Comparison) -> Result<Vec<Section>, ChartError> {
    let mut sections = vec![subject(compared)];
    for (number, cell) in compared.cells.iter().enumerate() {
        let name = format!("cell-{}", number + 1);
        let mut blocks = vec![Block::Table(table(cell))];
        let figure = ratios(cell, compared.tolerance)?;
        blocks.extend(figure.map(|figure| {
            let caption = "B over A: the line is the 95 % interval, the shaded range the tolerance";
            let (name, caption) = (format!("{name}-ratios"), caption.into());
            Block::Picture(Box::new(Picture { name, caption, figure }))
        }));
        let missing =
            cell.missing.iter().map(|each| format!("{}: n/a: {}", each.metric, each.reason));
        let beside: Vec<String> = missing.chain(within(cell)).collect();
        if !beside.is_empty() {
            blocks.push(Block::List(beside));
        }
        sections.push(Section::new(name, &cell.cell, blocks));
    }
    let gates: Vec<String> = compared.gates.iter().map(gate_line).collect();
    if !gates.is_empty() {
        sections.push(Section::new("gates", "Gates", vec![Block::List(gates)]));
    }
    Ok(sections)
}

fn subject(compared: &Comparison) -> Section {
    let side = |(letter, side): (&str, &iosonde_analysis::comparison::SideFacts)| {
        format!("{letter}: {} ({})", side.name, runs(side.runs))
    };
    let sides = ["A", "B"].into_iter().zip(&compared.sides).map(side);
    let differences = compared.differences.iter().map(|each| {
        format!("Differs: {} {}: A `{}`, B `{}`", each.kind.word(), each.field, each.a, each.b)
    });
    let warnings = compared.warnings.iter().map(|warning| format!("Warning: {warning}"));
    let items = sides.chain(differences).chain(warnings).chain(notes(compared)).collect();
    Section::new("compared", "What is compared", vec![Block::List(items)])
}

fn table(cell: &Cell) -> Table {
    let mut columns = Column::all(&["Metric"], &["A", "B", "B/A [95 %]", "p"]);
    columns.push(Column::words("Verdict"));
    Table::of_texts("One value per run, medians over runs.", columns, rows(cell))
}

/// Draws the ratio of each metric with its interval; `None` if no metric has one.
fn ratios(cell: &Cell, tolerance: f64) -> Result<Option<Figure>, ChartError> {
    let known: Vec<(&Row, (f64, f64))> =
        cell.rows.iter().filter_map(|row| Some((row, row.contrast.interval?))).collect();
    if known.is_empty() {
        return Ok(None);
    }
    let band = (-tolerance, tolerance);
    let ends = known.iter().flat_map(|(_, (low, high))| [low - 1.0, high - 1.0]);
    let ends = ends.chain([band.0, band.1]);
    let x = Axis::fit("change", Quantity::Share, Kind::Linear, ends)?;
    // The first metric is drawn lowest.
    let line = |(at, (row, (low, high))): (usize, &(&Row, (f64, f64)))| {
        let change = row.contrast.ratio - 1.0;
        let hover = format!("{}: {}", row.metric, percent(change));
        let point = Point {
            y: Measured::Good(at as f64 + 0.5),
            x_range: Some((low - 1.0, high - 1.0)),
            ..Point::new(change, 0.0).hover(hover.clone())
        };
        Line { hover, ..Line::new("B over A", style(0), vec![point]) }
    };
    let plot = Plot {
        lines: known.iter().rev().enumerate().map(line).collect(),
        markers: vec![Marker::at_x(0.0, "").between(band.0, band.1)],
        ..Plot::default()
    };
    let names = known.iter().rev().map(|(row, _)| row.metric.clone()).collect();
    let height = 40.0 + 26.0 * known.len() as f64;
    let panel = Panel::new("", x, Axis::names("", names), Marks::Plot(plot), height);
    Ok(Some(Figure::stacked("Change from A to B", &cell.cell, vec![panel])))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::comparison_json::tests::compared;

    fn figures(sections: &[Section]) -> usize {
        let blocks = sections.iter().flat_map(|section| &section.blocks);
        blocks.filter(|block| matches!(block, Block::Picture(_))).count()
    }

    #[test]
    fn a_metric_has_a_row_and_where_there_are_intervals_a_point() {
        let sections = comparison_sections(&compared(800.0, 10)).unwrap();
        let names: Vec<&str> = sections.iter().map(|section| &*section.name).collect();
        assert_eq!(names, ["compared", "cell-1", "gates"]);
        let Block::Table(table) = &sections[1].blocks[0] else { panic!("{sections:?}") };
        let metrics: Vec<&str> = table.rows.iter().map(|row| &*row[0].text).collect();
        assert_eq!(metrics, ["iops", "p50"]);
        assert_eq!(figures(&sections), 1);
        let Block::Picture(picture) = &sections[1].blocks[1] else { panic!("{sections:?}") };
        let svg = picture.figure.svg().unwrap();
        assert!(svg.contains("iops: -19.9 %") && svg.contains("p50: +25.0 %"), "{svg}");
    }

    #[test]
    fn one_run_against_one_has_no_figure() {
        let sections = comparison_sections(&compared(900.0, 1)).unwrap();
        assert_eq!(figures(&sections), 0);
        let Block::List(beside) = sections[1].blocks.last().unwrap() else {
            panic!("{sections:?}")
        };
        assert!(
            beside.iter().any(|line| line == "within the one run of A: iops [999, 1,001]"),
            "{beside:?}"
        );
    }
}
