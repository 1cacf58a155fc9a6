//! Bars side by side, or stacked, over names.

use super::axis::Axis;
use super::curves::Drawn;
use super::palette::{INK, PAPER, Style};
use super::plot::{self, Measured};
use super::svg::{Anchor, Frame, Svg, Type, datum};

/// Groups of bars, one group over each name of the x axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// One entry per bar of a group, in the same order in all groups.
    pub series: Vec<BarSeries>,
    /// Whether each bar has its value written above it, where there is space.
    pub labelled: bool,
    /// Whether the bars of a group are stacked: each begins where the one below it ends.
    pub stacked: bool,
}

/// The bars with one name in the legend, one in each group.
#[derive(Clone, Debug, PartialEq)]
pub struct BarSeries {
    pub name: String,
    pub style: Style,
    /// One bar for each name of the x axis; `None` for a missing one, which differs from zero.
    pub values: Vec<Option<Bar>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Height of the bar; a failed one is a cross at the foot.
    pub value: Measured,
    /// Lower and upper end of the interval of the value.
    pub range: Option<(f64, f64)>,
    /// Lower end of a bar that shows a range and has no label; `None`: the foot of the plot.
    pub begins: Option<f64>,
    /// Tooltip text.
    pub hover: String,
}

impl Bar {
    /// A bar without an interval.
    pub fn new(value: f64, hover: impl Into<String>) -> Bar {
        Bar { value: Measured::Good(value), range: None, begins: None, hover: hover.into() }
    }

    /// A bar that shows a range, without a value of its own.
    pub fn spanning(low: f64, high: f64, hover: impl Into<String>) -> Bar {
        Bar { begins: Some(low), ..Bar::new(high, hover) }
    }
}

/// Share of a group's width that its bars fill together.
const FILLED: f64 = 0.78;
/// Largest width of a bar, pixels.
const WIDEST: f64 = 46.0;
/// Height of the label above a bar, pixels.
const LABEL: f64 = 15.0;
/// Pixels between a bar, or its interval, and its label.
const GAP: f64 = 3.0;
/// Pixels from the foot of the plot to the cross of a failed bar.
const FOOT: f64 = 8.0;

impl Bars {
    /// The area between the ends of the axes: labels need space above it.
    pub(super) fn field(&self, plot: Frame) -> Frame {
        plot.within(0.0, 0.0, if self.labelled { LABEL } else { 0.0 }, 0.0)
    }

    pub(super) fn draw(&self, svg: &mut Svg, plot: Frame, x: &Axis, y: &Axis) -> Drawn {
        let groups = x.name_count().unwrap_or(0).max(1) as f64;
        let count = if self.stacked { 1.0 } else { self.series.len().max(1) as f64 };
        let width = (plot.width / groups * FILLED / count).min(WIDEST);
        let labelled = self.labelled && self.widest_label(y) <= width;
        for (index, series) in self.series.iter().enumerate() {
            let column = if self.stacked { 0.0 } else { index as f64 };
            for (group, bar) in series.values.iter().enumerate() {
                let Some(bar) = bar else { continue };
                let group = group as f64 + 0.5;
                let left = plot.x(x.place(group)?) + (column - count / 2.0) * width;
                let middle = left + width / 2.0;
                let datum = datum(&x.formatted(group), bar.value.number(), &series.name);
                let Some(value) = bar.value.number() else {
                    let foot = (middle, plot.bottom() - FOOT);
                    let look = (series.style, bar.value);
                    plot::mark(svg, "data point", foot, look, &datum, &bar.hover);
                    continue;
                };
                let mut top = plot.y(y.place(value)?);
                let foot = match bar.begins {
                    Some(low) => plot.y(y.place(low)?),
                    None => plot.bottom(),
                };
                let frame = Frame { left, top, width, height: foot - top };
                let paint = match bar.value {
                    Measured::LowConfidence(_) => format!(
                        "fill=\"{PAPER}\" stroke=\"{}\" stroke-width=\"1.6\"{datum}",
                        series.style.colour
                    ),
                    _ => format!("{} stroke-width=\"0.6\"{datum}", svg.fill(series.style)),
                };
                svg.rectangle("data", frame, &paint, &bar.hover);
                if let Some((low, high)) = bar.range {
                    let (low, high) = (plot.y(y.place(low)?), plot.y(y.place(high)?));
                    let d = plot::upright_interval(middle, low, high);
                    // A light line under the dark one makes it visible on a dark bar too.
                    let under = format!("fill=\"none\" stroke=\"{PAPER}\" stroke-width=\"3\"");
                    svg.path("interval", &d, &under, "");
                    let paint = format!("fill=\"none\" stroke=\"{INK}\" stroke-width=\"1.2\"");
                    svg.path("interval", &d, &paint, "");
                    top = top.min(high);
                }
                if labelled && bar.begins.is_none() {
                    svg.inside((middle, top - GAP), Anchor::Middle, Type::LABEL, &y.written(value));
                }
            }
        }
        Ok(())
    }

    fn widest_label(&self, y: &Axis) -> f64 {
        let all = self.series.iter().flat_map(|series| series.values.iter().flatten());
        let labels = all.filter_map(|bar| bar.value.number()).map(|value| y.written(value));
        labels.map(|label| Type::LABEL.width(&label)).fold(0.0, f64::max)
    }

    /// Every drawn value, for fitting a scale.
    pub fn values(&self) -> Vec<f64> {
        let all = self.series.iter().flat_map(|series| series.values.iter().flatten());
        let ends = |bar: &Bar| bar.range.into_iter().flat_map(|(low, high)| [low, high]);
        all.flat_map(|bar| ends(bar).chain(bar.value.number()).chain(bar.begins)).collect()
    }
}
