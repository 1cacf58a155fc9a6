//! Bars side by side over names.

use super::ChartError;
use super::axis::Axis;
use super::palette::Style;
use super::plot::Measured;
use super::svg::{Frame, Svg};

/// Groups of bars, one group over each name of the x axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// The bars of each group, in the same order in all groups.
    pub series: Vec<BarSeries>,
    /// Whether each bar has its value written over it, where there is room.
    pub labelled: bool,
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

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// How high it is; a failed one is a cross at the foot.
    pub value: Measured,
    /// Lower and upper end of its interval.
    pub range: Option<(f64, f64)>,
    /// Words for the pointer.
    pub hover: String,
}

impl Bar {
    /// A bar without an interval.
    pub fn new(value: f64, hover: impl Into<String>) -> Bar {
        Bar { value: Measured::Good(value), range: None, hover: hover.into() }
    }

    /// The same with an interval.
    pub fn between(self, low: f64, high: f64) -> Bar {
        Bar { range: Some((low, high)), ..self }
    }
}

/// Share of the room of a group that its bars take together.
const FILLED: f64 = 0.78;
/// Pixels that a single bar is wide at most.
const WIDEST: f64 = 46.0;

impl Bars {
    pub(super) fn draw(
        &self,
        svg: &mut Svg,
        plot: Frame,
        x: &Axis,
        y: &Axis,
    ) -> Result<(), ChartError> {
        let groups = x.name_count().unwrap_or(0).max(1) as f64;
        let count = self.series.len().max(1) as f64;
        let width = (plot.width / groups * FILLED / count).min(WIDEST);
        for (index, series) in self.series.iter().enumerate() {
            let paint = format!("{} stroke-width=\"0.6\"", svg.fill(series.style));
            for (group, value) in series.values.iter().enumerate() {
                let Some(bar) = value else { continue };
                let Some(value) = bar.value.number() else { continue };
                let middle = plot.x(x.place(group as f64 + 0.5)?);
                let left = middle + (index as f64 - count / 2.0) * width;
                let top = plot.y(y.place(value)?);
                let frame = Frame { left, top, width, height: plot.bottom() - top };
                svg.rectangle("data", frame, &paint, &bar.hover);
            }
        }
        Ok(())
    }
}
