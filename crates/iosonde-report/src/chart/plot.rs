//! Measured points with intervals, joined by straight lines; some have low confidence or failed.

mod lines;
mod words;

pub(super) use lines::{mark, upright_interval};

use super::ChartError;
use super::annotation::{Callout, Marker};
use super::axis::Axis;
use super::curves::{Band, Curve, Drawn};
use super::palette::Style;
use super::svg::{Frame, Svg};

/// Lines through measured points, over curves and bands, with annotations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plot {
    /// A second y axis, at the right.
    pub right: Option<Axis>,
    /// Areas between two step curves, on the left axis.
    pub bands: Vec<Band>,
    /// Step curves, on the left axis.
    pub curves: Vec<Curve>,
    pub lines: Vec<Line>,
    /// Vertical lines and shaded ranges.
    pub markers: Vec<Marker>,
    pub callouts: Vec<Callout>,
}

/// The axis of a value.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Edge {
    /// The y axis of the panel.
    #[default]
    Left,
    /// The second y axis.
    Right,
}

/// Straight lines from point to point.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Name in the legend. Lines with the same name share one entry.
    pub name: String,
    pub style: Style,
    pub edge: Edge,
    /// Points in the order in which they are joined.
    pub points: Vec<Point>,
    /// Whether each point has a mark; otherwise only the line is drawn.
    pub dotted: bool,
    /// Tooltip text of the line.
    pub hover: String,
}

impl Line {
    /// A line on the left axis with marks at its points, and its name as the tooltip.
    pub fn new(name: impl Into<String>, style: Style, points: Vec<Point>) -> Line {
        let name = name.into();
        Line { hover: name.clone(), name, style, edge: Edge::Left, points, dotted: true }
    }
}

/// Result of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measured {
    /// A value.
    Good(f64),
    /// A value of low confidence, drawn hollow.
    LowConfidence(f64),
    /// No usable value: a cross at the foot of the plot, not joined by lines.
    Failed,
}

impl Measured {
    /// The value; `None` if the measurement failed.
    pub fn number(self) -> Option<f64> {
        match self {
            Measured::Good(value) | Measured::LowConfidence(value) => Some(value),
            Measured::Failed => None,
        }
    }
}

/// A measured point.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Place on the x axis.
    pub x: f64,
    pub y: Measured,
    /// Lower and upper end of the interval of `x`.
    pub x_range: Option<(f64, f64)>,
    /// Lower and upper end of the interval of `y`.
    pub y_range: Option<(f64, f64)>,
    /// Label beside the point, if there is space; empty for none.
    pub label: String,
    /// Tooltip text.
    pub hover: String,
}

impl Point {
    /// A good point without intervals, label or tooltip.
    pub fn new(x: f64, y: f64) -> Point {
        Point {
            x,
            y: Measured::Good(y),
            x_range: None,
            y_range: None,
            label: String::new(),
            hover: String::new(),
        }
    }

    /// Adds an interval of `y`.
    pub fn between(self, low: f64, high: f64) -> Point {
        Point { y_range: Some((low, high)), ..self }
    }

    /// Adds a tooltip.
    pub fn hover(self, hover: impl Into<String>) -> Point {
        Point { hover: hover.into(), ..self }
    }
}

/// A plot with its axes and its area in the picture.
#[derive(Clone, Copy)]
struct Placed<'a> {
    plot: &'a Plot,
    x: &'a Axis,
    y: &'a Axis,
    /// The area within the sides of the plot.
    frame: Frame,
    /// The area between the ends of the axes, slightly smaller, so that no mark touches an axis.
    field: Frame,
}

impl Placed<'_> {
    fn axis(&self, edge: Edge, what: &str) -> Result<&Axis, ChartError> {
        match edge {
            Edge::Left => Ok(self.y),
            Edge::Right => {
                let missing = || ChartError::NoRightAxis { what: what.into() };
                self.plot.right.as_ref().ok_or_else(missing)
            }
        }
    }

    /// Converts a place to pixels.
    fn pixel(&self, x: f64, y: f64, edge: Edge, what: &str) -> Result<(f64, f64), ChartError> {
        let y = self.axis(edge, what)?.place(y)?;
        Ok((self.field.x(self.x.place(x)?), self.field.y(y)))
    }

    /// Where a point is drawn; a failed one is drawn at the foot.
    fn pixel_of(&self, line: &Line, point: &Point) -> Result<(f64, f64), ChartError> {
        match point.y.number() {
            Some(y) => self.pixel(point.x, y, line.edge, &line.name),
            None => Ok((self.field.x(self.x.place(point.x)?), self.frame.bottom() - FOOT)),
        }
    }
}

/// Pixels from the foot of a plot to the cross of a failed point.
const FOOT: f64 = 8.0;
/// Radius of the mark of a point, pixels.
const RADIUS: f64 = 4.0;
/// Pixels between the ends of the axes and the sides of a plot with marks.
const INSET: f64 = 12.0;

impl Plot {
    /// The area between the ends of the axes.
    pub(super) fn field(&self, frame: Frame) -> Frame {
        if self.lines.iter().any(|line| line.dotted) {
            frame.within(INSET, INSET, INSET / 2.0, 0.0)
        } else {
            frame
        }
    }

    pub(super) fn draw(&self, svg: &mut Svg, frame: Frame, x: &Axis, y: &Axis) -> Drawn {
        let placed = Placed { plot: self, x, y, frame, field: self.field(frame) };
        lines::draw(svg, placed)?;
        words::draw(svg, placed)
    }

    /// The common style of the lines on an axis, if there is a second axis; `None` if they differ.
    pub(super) fn look(&self, edge: Edge) -> Option<Style> {
        let mut looks = self.lines.iter().filter(|line| line.edge == edge).map(|line| line.style);
        let first = looks.next()?;
        let steps = edge == Edge::Left && !self.curves.is_empty();
        (self.right.is_some() && !steps && looks.all(|look| look == first)).then_some(first)
    }

    /// Every drawn x, for fitting a scale.
    pub fn xs(&self) -> Vec<f64> {
        let points = self.lines.iter().flat_map(|line| &line.points);
        let of_points = points.flat_map(|point| pair(point.x_range).chain([point.x]));
        let steps = self.curves.iter().flat_map(|c| c.parts.iter().flatten().map(|(x, _)| *x));
        let areas = self.bands.iter().flat_map(|b| b.parts.iter().flatten().map(|(x, ..)| *x));
        let markers = self.markers.iter().flat_map(Marker::values);
        of_points.chain(steps).chain(areas).chain(markers).collect()
    }

    /// Every y drawn on an axis, for fitting its scale.
    pub fn ys(&self, edge: Edge) -> Vec<f64> {
        let points = self.lines.iter().filter(|l| l.edge == edge).flat_map(|line| &line.points);
        let of_points = points.flat_map(|point| pair(point.y_range).chain(point.y.number()));
        let mut all: Vec<f64> = of_points.collect();
        if edge == Edge::Left {
            all.extend(self.curves.iter().flat_map(|c| c.parts.iter().flatten().map(|(_, y)| *y)));
            for (_, low, high) in self.bands.iter().flat_map(|band| band.parts.iter().flatten()) {
                all.extend([low, high]);
            }
        }
        all
    }
}

fn pair(range: Option<(f64, f64)>) -> impl Iterator<Item = f64> {
    range.into_iter().flat_map(|(low, high)| [low, high])
}
