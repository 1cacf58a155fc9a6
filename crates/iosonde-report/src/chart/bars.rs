//! Bars side by side, or stacked, over names.

use super::axis::Axis;
use super::curves::Drawn;
use super::palette::{INK, PAPER, Style};
use super::plot::{self, Measured};
use super::svg::{Anchor, Frame, Svg, Type, datum};

/// Groups of bars, one group over each name of the x axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// The bars of each group, in the same order in all groups.
    pub series: Vec<BarSeries>,
    /// Whether each bar has its value written over it, where there is room.
    pub labelled: bool,
    /// Whether the bars of a group have one place: each begins where the one below it ends.
    pub stacked: bool,
}

/// The bars of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct BarSeries {
    /// Its name in the legend.
    pub name: String,
    /// How it looks.
    pub style: Style,
    /// A bar for each name of the x axis; `None` where there is none, which is not zero.
    pub values: Vec<Option<Bar>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// How high it is; a failed one is a cross at the foot.
    pub value: Measured,
    /// Lower and upper end of its interval.
    pub range: Option<(f64, f64)>,
    /// Where it begins, if not at the foot of the plot: it is a range then, and has no label.
    pub begins: Option<f64>,
    /// Tooltip text.
    pub hover: String,
}

impl Bar {
    /// A bar without an interval.
    pub fn new(value: f64, hover: impl Into<String>) -> Bar {
        Bar { value: Measured::Good(value), range: None, begins: None, hover: hover.into() }
    }

    /// A range without a value of its own.
    pub fn spanning(low: f64, high: f64, hover: impl Into<String>) -> Bar {
        Bar { begins: Some(low), ..Bar::new(high, hover) }
    }
}

/// Share of the room of a group that its bars take together.
const FILLED: f64 = 0.78;
/// Pixels that a single bar is wide at most.
const WIDEST: f64 = 46.0;
/// Pixels for the label over a bar.
const LABEL: f64 = 15.0;
/// Between a bar, or its interval, and its label.
const GAP: f64 = 3.0;
/// Pixels from the foot of the plot to the cross of a failed bar.
const FOOT: f64 = 8.0;

impl Bars {
    /// Where the ends of the axes lie in the frame of the plot: labels want room above them.
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
                    // A pale line under the dark one: it is seen on a dark bar too.
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

    /// Every value that is drawn, to fit a scale to.
    pub fn values(&self) -> Vec<f64> {
        let all = self.series.iter().flat_map(|series| series.values.iter().flatten());
        let ends = |bar: &Bar| bar.range.into_iter().flat_map(|(low, high)| [low, high]);
        all.flat_map(|bar| ends(bar).chain(bar.value.number()).chain(bar.begins)).collect()
    }
}
