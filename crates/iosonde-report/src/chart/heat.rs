//! A heat map: rectangles whose darkness shows a value, and their colour bar.

use super::axis::Axis;
use super::curves::Drawn;
use super::palette::{NOTHING, PAPER, on_ramp, ramp};
use super::quantity::Quantity;
use super::scale::Scale;
use super::svg::{Anchor, Frame, Svg, Type, datum, short};
use super::{ChartError, text};

/// Rectangles in the units of both axes, each with a value.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    /// Title of the colour bar: what the values are.
    pub title: String,
    pub quantity: Quantity,
    /// Scale of the values. Panels to be compared need the same scale.
    pub scale: Scale,
    /// The rectangles with a value; elsewhere the background shows.
    pub cells: Vec<Cell>,
    /// Rectangles that should have a value but have none.
    pub missing: Vec<Missing>,
    /// Whether each value is written into its rectangle, if it has space.
    pub numbered: bool,
}

/// A rectangle without a value, drawn hatched.
#[derive(Clone, Debug, PartialEq)]
pub struct Missing {
    /// Left and right edge.
    pub x: (f64, f64),
    /// Lower and upper edge.
    pub y: (f64, f64),
    /// The reason in a word, written into the rectangle: `failed`, `not reached`.
    pub word: String,
    /// Tooltip text.
    pub hover: String,
}

/// One rectangle of a heat map.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Left and right edge.
    pub x: (f64, f64),
    /// Lower and upper edge.
    pub y: (f64, f64),
    pub value: f64,
    /// Tooltip text.
    pub hover: String,
}

const BAR_GAP: f64 = 14.0;
const BAR_WIDTH: f64 = 14.0;
const BAR_STEPS: u32 = 32;
/// Pixels between the bar and its labels.
const LABEL_GAP: f64 = 5.0;

impl HeatMap {
    /// Pixels that the colour bar needs to the right of a plot of this height.
    pub(super) fn bar_room(&self, height: f64) -> f64 {
        let labels = self.bar_axis().ticks(height, false);
        let widest = labels.iter().map(|(_, l)| Type::TICK.width(l)).fold(0.0, f64::max);
        BAR_GAP + BAR_WIDTH + LABEL_GAP + widest + 6.0 + Type::TICK.size
    }

    pub(super) fn draw(&self, svg: &mut Svg, plot: Frame, x: &Axis, y: &Axis) -> Drawn {
        let area = |(left, right), (bottom, top)| -> Result<Frame, ChartError> {
            let (left, right) = (plot.x(x.place(left)?), plot.x(x.place(right)?));
            let (bottom, top) = (plot.y(y.place(bottom)?), plot.y(y.place(top)?));
            Ok(Frame { left, top, width: right - left, height: bottom - top })
        };
        let bar = self.bar_axis();
        for cell in &self.cells {
            let frame = area(cell.x, cell.y)?;
            let share = bar.place(cell.value)?;
            let mut paint = format!("fill=\"{}\"", ramp(share));
            if self.numbered {
                // A map without numbers may have thousands of rectangles; nobody reads them one by
                // one.
                let (at, row) = (x.formatted(cell.x.0), y.formatted(cell.y.0));
                paint += &datum(&at, None, &row);
                paint += &format!(" data-v=\"{}\"", short(cell.value));
            }
            svg.rectangle("data", frame, &paint, &cell.hover);
            if self.numbered {
                let kind = Type { colour: on_ramp(share), ..Type::LABEL };
                write_into(svg, frame, kind, &bar.written(cell.value));
            }
        }
        for hole in &self.missing {
            let frame = area(hole.x, hole.y)?;
            let datum = datum(&x.formatted(hole.x.0), None, &y.formatted(hole.y.0));
            let paint = format!("{} stroke-width=\"0.6\"{datum}", svg.fill(NOTHING));
            svg.rectangle("data", frame, &paint, &hole.hover);
            let width = Type::LABEL.width(&hole.word) + 4.0;
            let (centre, middle) = frame.centre();
            let (left, top) = (centre - width / 2.0, middle - 7.5);
            let ground = Frame { left, top, width, height: 15.0 };
            if width <= frame.width && ground.height <= frame.height {
                svg.rectangle("", ground, &format!("fill=\"{PAPER}\""), "");
                write_into(svg, frame, Type::LABEL, &hole.word);
            }
        }
        Ok(())
    }

    /// Draws the colour bar beside a plot.
    pub(super) fn draw_bar(&self, svg: &mut Svg, plot: Frame) {
        let left = plot.right() + BAR_GAP;
        let step = plot.height / f64::from(BAR_STEPS);
        for index in 0..BAR_STEPS {
            let top = plot.bottom() - step * f64::from(index + 1);
            let share = (f64::from(index) + 0.5) / f64::from(BAR_STEPS);
            let frame = Frame { left, top, width: BAR_WIDTH, height: step };
            let paint = format!("fill=\"{}\" shape-rendering=\"crispEdges\"", ramp(share));
            svg.rectangle("", frame, &paint, "");
        }
        let ticks = self.bar_axis().ticks(plot.height, false);
        let mut widest: f64 = 0.0;
        for (place, label) in &ticks {
            let at = (left + BAR_WIDTH + LABEL_GAP, plot.y(*place) + Type::TICK.size * 0.36);
            svg.text(at, Anchor::Start, Type::TICK, label);
            widest = widest.max(Type::TICK.width(label));
        }
        let x = left + BAR_WIDTH + LABEL_GAP + widest + 6.0 + Type::TICK.size * text::ASCENT;
        let title = text::shortened(&self.title, Type::TICK.size, plot.height);
        svg.upright((x, plot.top + plot.height / 2.0), Type::TICK, &title);
    }

    fn bar_axis(&self) -> Axis {
        Axis::new(self.title.clone(), self.quantity, self.scale)
    }
}

/// Writes words into the middle of a rectangle, if they fit.
fn write_into(svg: &mut Svg, frame: Frame, kind: Type, words: &str) {
    if kind.width(words) + 4.0 <= frame.width && kind.size * 1.2 <= frame.height {
        let (x, y) = frame.centre();
        svg.inside((x, y + kind.size * 0.36), Anchor::Middle, kind, words);
    }
}
