//! Draws lines, step curves and bands.

use std::fmt::Write;

use super::ChartError;
use super::axis::Axis;
use super::palette::Style;
use super::svg::{Frame, Svg, datum, escaped, number, rounded};

/// A curve of steps: at each point it jumps to the point's value and stays there until the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Name in the legend. Curves with the same name share one entry.
    pub name: String,
    pub style: Style,
    /// Points in ascending order of x, one list for each part without a gap.
    pub parts: Vec<Vec<(f64, f64)>>,
    /// Whether the curve is drawn thin, such as a single run beside the merged curve.
    pub rough: bool,
    /// Highlighted points: x, y and tooltip.
    pub dots: Vec<(f64, f64, String)>,
    /// Tooltip text.
    pub hover: String,
}

/// The area between two step curves.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    pub name: String,
    /// Style; the area is drawn in a light shade.
    pub style: Style,
    /// `(x, low, high)` in ascending order of x, one list for each part without a gap.
    pub parts: Vec<Vec<(f64, f64, f64)>>,
    /// Tooltip text.
    pub hover: String,
}

pub(super) type Pixel = (f64, f64);

impl Curve {
    /// A bold curve without dots, with its name as the tooltip.
    pub fn new(name: impl Into<String>, style: Style, parts: Vec<Vec<(f64, f64)>>) -> Curve {
        let name = name.into();
        Curve { hover: name.clone(), name, style, parts, rough: false, dots: Vec::new() }
    }

    pub(super) fn draw(&self, svg: &mut Svg, plot: Frame, x: &Axis, y: &Axis) -> Drawn {
        let mut d = String::new();
        for part in &self.parts {
            let points = placed(part, plot, x, y)?;
            steps(&mut d, &thinned(&points));
        }
        let width = if self.rough { 0.8 } else { 2.0 };
        let paint = self.style.stroke(width);
        if !d.is_empty() {
            let paint = format!("{paint} data-s=\"{}\"", escaped(&self.name));
            svg.path("data", &d, &paint, &self.hover);
        }
        for (at, value, words) in &self.dots {
            let place = (plot.x(x.place(*at)?), plot.y(y.place(*value)?));
            let datum = datum(&x.formatted(*at), Some(*value), &self.name);
            svg.dot(place, self.style.colour, &datum, words);
        }
        Ok(())
    }
}

impl Band {
    /// Draws the area between its edges, which are steps.
    pub(super) fn draw(&self, svg: &mut Svg, plot: Frame, x: &Axis, y: &Axis) -> Drawn {
        let mut d = String::new();
        for part in &self.parts {
            let high: Vec<Pixel> = part.iter().map(|(x, _, high)| (*x, *high)).collect();
            let low: Vec<Pixel> = part.iter().map(|(x, low, _)| (*x, *low)).collect();
            let (high, low) = (placed(&high, plot, x, y)?, placed(&low, plot, x, y)?);
            steps(&mut d, &high);
            // Back along the lower edge: the corners of its steps in reverse order.
            let mut corners = Vec::new();
            for pair in low.windows(2) {
                corners.extend([pair[0], (pair[1].0, pair[0].1)]);
            }
            for (x, y) in corners.iter().rev() {
                let _infallible = write!(d, "L{} {}", number(*x), number(*y));
            }
            d.push('Z');
        }
        if !d.is_empty() {
            let paint =
                format!("fill=\"{}\" fill-opacity=\"0.25\" stroke=\"none\"", self.style.colour);
            svg.path("data", &d, &paint, &self.hover);
        }
        Ok(())
    }
}

/// Step curves over intervals, each given as start, end and value. An interval without a value
/// begins a new part.
pub fn unbroken<T: Copy>(
    intervals: impl Iterator<Item = (f64, f64, Option<T>)>,
) -> Vec<Vec<(f64, T)>> {
    let mut parts = vec![Vec::new()];
    for (start, end, value) in intervals {
        let (Some(value), Some(part)) = (value, parts.last_mut()) else {
            parts.push(Vec::new());
            continue;
        };
        // The step before ends where this one begins.
        part.pop_if(|(x, _)| *x == start);
        part.extend([(start, value), (end, value)]);
    }
    parts.retain(|part| !part.is_empty());
    parts
}

pub(super) type Drawn = Result<(), ChartError>;

/// Converts points to pixels.
pub(super) fn placed(
    points: &[Pixel],
    plot: Frame,
    x: &Axis,
    y: &Axis,
) -> Result<Vec<Pixel>, ChartError> {
    points
        .iter()
        .map(|(at, value)| Ok((rounded(plot.x(x.place(*at)?)), rounded(plot.y(y.place(*value)?)))))
        .collect()
}

/// Reduces points to those that can be seen: the first, the extremes and the last of each half
/// pixel.
pub(super) fn thinned(points: &[Pixel]) -> Vec<Pixel> {
    let column = |point: &Pixel| (point.0 * 2.0).floor() as i64;
    let mut kept: Vec<Pixel> = Vec::new();
    for group in points.chunk_by(|a, b| column(a) == column(b)) {
        if group.len() <= 4 {
            kept.extend(group);
            continue;
        }
        let (first, last) = (group[0], group[group.len() - 1]);
        let low = group.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
        let high = group.iter().map(|point| point.1).fold(f64::NEG_INFINITY, f64::max);
        kept.extend([first, (first.0, low), (first.0, high), last]);
    }
    kept
}

/// A path of straight lines through points in pixels.
pub(super) fn segments(points: &[Pixel]) -> String {
    let pairs = points.iter().map(|(x, y)| format!("{} {}", number(*x), number(*y)));
    format!("M{}", pairs.collect::<Vec<_>>().join("L"))
}

/// Appends a path of steps through points in pixels.
fn steps(d: &mut String, points: &[Pixel]) {
    let Some(((x, y), rest)) = points.split_first() else { return };
    let _infallible = write!(d, "M{} {}", number(*x), number(*y));
    let mut last = (*x, *y);
    for (x, y) in rest {
        if *x != last.0 {
            let _infallible = write!(d, "H{}", number(*x));
        }
        if *y != last.1 {
            let _infallible = write!(d, "V{}", number(*y));
        }
        last = (*x, *y);
    }
}
