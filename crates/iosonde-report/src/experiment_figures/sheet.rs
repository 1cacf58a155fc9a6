//! A picture under construction: panels with scales fitted to their values, and notes on what was
//! drawn.

use super::notes::{self, Looks};
use super::view::{View, unit};
use crate::chart::{
    Axis, ChartError, Edge, Figure, Kind, Line, Marks, Measured, Panel, Plot, Quantity,
};
use iosonde_analysis::experiment::Measure;
use iosonde_analysis::experiment::measure::Quantity as Kinds;

/// Rates and latencies that span more than these factors get a logarithmic scale. Latencies get it
/// earlier: beyond a knee they grow without limit.
const WIDE: f64 = 40.0;
const WIDE_LATENCY: f64 = 10.0;

/// Panels and notes of a picture.
pub(super) struct Sheet<'a> {
    view: &'a View<'a>,
    panels: Vec<Panel>,
    notes: Vec<String>,
    /// Whether an interval was cut at the lower end of a logarithmic scale.
    is_cut: bool,
    /// Appearance of settings that failed or have low confidence.
    looks: Looks,
    /// Whether it shows means over runs, and so needs a note on error bars.
    has_bars: bool,
}

impl<'a> Sheet<'a> {
    pub(super) fn new(view: &'a View<'a>) -> Sheet<'a> {
        Sheet {
            view,
            panels: Vec::new(),
            notes: Vec::new(),
            is_cut: false,
            looks: Looks::Marked,
            has_bars: true,
        }
    }

    /// For pictures that do not draw failed settings.
    pub(super) fn without_failed(self) -> Sheet<'a> {
        Sheet { looks: Looks::Hollow, ..self }
    }

    /// For pictures without means over runs.
    pub(super) fn of_runs(self) -> Sheet<'a> {
        Sheet { looks: Looks::Alike, has_bars: false, ..self }
    }

    /// Adds a note; repeated notes are ignored.
    pub(super) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Notes how many settings between those shown are left out, if any.
    pub(super) fn note_left_out(&mut self, shown: usize, all: usize) {
        if shown < all {
            let left_out = all - shown;
            self.note(format!("{left_out} of {all} settings between those shown are left out."));
        }
    }

    /// Adds a panel over the x axis of the view; a panel without values is left out.
    pub(super) fn plot(&mut self, title: &str, y: Titled, mut plot: Plot) -> Drawn {
        if !has_value(&plot.lines, Edge::Left) {
            return Ok(());
        }
        let axis = self.y_axis(y, &mut plot, Edge::Left)?;
        let x = self.view.x_axis()?;
        self.push(title, x, axis, Marks::Plot(plot), 230.0);
        Ok(())
    }

    /// The scale of a side of a plot: from zero, or logarithmic if the values are far apart.
    pub(super) fn y_axis(
        &mut self,
        (title, quantity): Titled,
        plot: &mut Plot,
        edge: Edge,
    ) -> Result<Axis, ChartError> {
        let means = plot.lines.iter().filter(|line| line.edge == edge);
        let means = means.flat_map(|line| &line.points).filter_map(|point| point.y.number());
        let (low, high) = ends(means);
        let wide = if quantity == Quantity::Latency { WIDE_LATENCY } else { WIDE };
        if low <= 0.0 || high / low < wide {
            return Axis::from_zero(title, quantity, plot.ys(edge));
        }
        let own = plot.lines.iter_mut().filter(|line| line.edge == edge);
        for point in own.flat_map(|line| &mut line.points) {
            let Some((from, _)) = &mut point.y_range else { continue };
            // Half the lowest mean is well below every point, and above zero.
            if *from < low / 2.0 {
                *from = low / 2.0;
                self.is_cut = true;
            }
        }
        Axis::fit(format!("{title} (logarithmic)"), quantity, Kind::Log10, plot.ys(edge))
    }

    /// Adds a panel.
    pub(super) fn push(&mut self, title: &str, x: Axis, y: Axis, marks: Marks, height: f64) {
        self.panels.push(Panel::new(title, x, y, marks, height));
    }

    /// Adds a note if some settings lack a measure.
    pub(super) fn note_unknown(&mut self, measure: Measure) {
        let points = || self.view.points().filter(|point| point.is_usable());
        let unknown = points().filter(|point| point.mean(measure).is_none()).count();
        if unknown > 0 {
            let (all, name) = (points().count(), measure.title());
            self.note(format!(
                "The {name} of {unknown} of {all} settings is not known in each of their runs (too \
                 few operations, or none that can be trusted) and not drawn."
            ));
        }
        if matches!(measure, Measure::Quantile(_)) && self.view.points().any(|p| p.runs.len() > 1) {
            self.note("A percentile is that of each run; its point is the mean over the runs.");
        }
    }

    /// Completes the picture, if it has a panel; `what` is shown, for the title.
    pub(super) fn finish(self, what: &str) -> Option<Figure> {
        let view = self.view;
        let mut notes: Vec<String> = Vec::new();
        notes.extend(self.has_bars.then(|| notes::of_bars(view)));
        if self.is_cut {
            notes.push("An error bar that reaches towards zero is cut at the foot.".into());
        }
        notes.extend(self.notes);
        notes.extend(notes::of_standing(view, self.looks));
        let (title, subtitle) = (notes::title(view, what), notes::subtitle(view));
        let figure = Figure { notes, ..Figure::stacked(title, subtitle, self.panels) };
        Some(figure).filter(|figure| !figure.panels.is_empty())
    }
}

pub(super) type Drawn = Result<(), ChartError>;

/// Title of an axis, and the quantity of its values.
pub(super) type Titled = (String, Quantity);

/// The axis of a measure.
pub(super) fn titled(measure: Measure) -> Titled {
    let (_, quantity, title) = unit(measure);
    (title, quantity)
}

/// Common name of measures with the same quantity.
pub(super) fn common(measure: Measure) -> &'static str {
    match measure.quantity() {
        Kinds::Time => "latency",
        Kinds::BytesPerSecond => "MB/s",
        Kinds::PerSecond => "per second",
        Kinds::Plain => "",
    }
}

fn has_value(lines: &[Line], edge: Edge) -> bool {
    let points = lines.iter().filter(|line| line.edge == edge).flat_map(|line| &line.points);
    points.into_iter().any(|point| point.y != Measured::Failed)
}

/// The lowest and the highest value; infinite and in reverse order if there is none.
pub(super) fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}
