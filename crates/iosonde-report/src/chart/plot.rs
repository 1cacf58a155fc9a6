//! Measured points: joined by straight lines, with intervals, and some of low confidence or failed.

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
    /// A second scale, at the right side.
    pub right: Option<Axis>,
    /// Areas between two curves of steps; on the left axis.
    pub bands: Vec<Band>,
    /// Curves of steps; on the left axis.
    pub curves: Vec<Curve>,
    /// Lines through measured points.
    pub lines: Vec<Line>,
    /// Lines and ranges across the plot.
    pub markers: Vec<Marker>,
    /// Words in a box that point at a place.
    pub callouts: Vec<Callout>,
}

/// Which axis a value belongs to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Edge {
    /// The one of the panel.
    #[default]
    Left,
    /// The second one.
    Right,
}

/// A straight line from point to point.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its name in the legend. Lines of one name share a line there.
    pub name: String,
    /// How it looks.
    pub style: Style,
    /// The axis of its values.
    pub edge: Edge,
    /// Its points in the order in which they are joined.
    pub points: Vec<Point>,
    /// Whether each point has a mark of its own; without, only the line is seen.
    pub dotted: bool,
    /// Tooltip text of the line.
    pub hover: String,
}

impl Line {
    /// One of the left axis whose points have marks, and whose tooltip is its name.
    pub fn new(name: impl Into<String>, style: Style, points: Vec<Point>) -> Line {
        let name = name.into();
        Line { hover: name.clone(), name, style, edge: Edge::Left, points, dotted: true }
    }
}

/// What a measurement gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measured {
    /// A value.
    Good(f64),
    /// A value with low confidence: drawn hollow.
    LowConfidence(f64),
    /// None that may be used: a cross at the foot of the plot, which no line touches.
    Failed,
}

impl Measured {
    /// The value, unless it failed.
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
    /// Where along the x axis.
    pub x: f64,
    /// What was measured.
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
    /// A good point without intervals or words.
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

    /// The same with an interval of `y`.
    pub fn between(self, low: f64, high: f64) -> Point {
        Point { y_range: Some((low, high)), ..self }
    }

    /// The same with words for the pointer.
    pub fn hover(self, hover: impl Into<String>) -> Point {
        Point { hover: hover.into(), ..self }
    }
}

/// A plot with the axes that its values are placed along.
#[derive(Clone, Copy)]
struct Placed<'a> {
    plot: &'a Plot,
    x: &'a Axis,
    y: &'a Axis,
    /// The plot between its axes.
    frame: Frame,
    /// Where the ends of the axes lie, a little inside, so that no mark stands on an axis.
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

    /// A place in pixels.
    fn pixel(&self, x: f64, y: f64, edge: Edge, what: &str) -> Result<(f64, f64), ChartError> {
        let y = self.axis(edge, what)?.place(y)?;
        Ok((self.field.x(self.x.place(x)?), self.field.y(y)))
    }

    /// Where a point is drawn, if it is.
    fn pixel_of(&self, line: &Line, point: &Point) -> Result<(f64, f64), ChartError> {
        match point.y.number() {
            Some(y) => self.pixel(point.x, y, line.edge, &line.name),
            None => Ok((self.field.x(self.x.place(point.x)?), self.frame.bottom() - FOOT)),
        }
    }
}

/// Pixels from the foot of a plot to a point that has no value.
const FOOT: f64 = 8.0;
/// Radius of the mark of a point, pixels.
const RADIUS: f64 = 4.0;
/// Pixels between the ends of the axes and the sides of a plot with marks.
const INSET: f64 = 12.0;

impl Plot {
    /// Where the ends of the axes lie in the frame of the plot.
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

    /// The style of an axis: that of its lines, if there are lines and a second axis.
    pub(super) fn look(&self, edge: Edge) -> Option<Style> {
        let mut looks = self.lines.iter().filter(|line| line.edge == edge).map(|line| line.style);
        let first = looks.next()?;
        let steps = edge == Edge::Left && !self.curves.is_empty();
        (self.right.is_some() && !steps && looks.all(|look| look == first)).then_some(first)
    }

    /// Every x that is drawn, to fit a scale to.
    pub fn xs(&self) -> Vec<f64> {
        let points = self.lines.iter().flat_map(|line| &line.points);
        let of_points = points.flat_map(|point| pair(point.x_range).chain([point.x]));
        let steps = self.curves.iter().flat_map(|c| c.parts.iter().flatten().map(|(x, _)| *x));
        let areas = self.bands.iter().flat_map(|b| b.parts.iter().flatten().map(|(x, ..)| *x));
        let markers = self.markers.iter().flat_map(Marker::values);
        of_points.chain(steps).chain(areas).chain(markers).collect()
    }

    /// Every y that is drawn on an axis, to fit its scale to.
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
