//! Draws the texts of a plot: labels of markers and points, call-outs.

use super::super::ChartError;
use super::super::annotation::Marker;
use super::super::axis::Axis;
use super::super::curves::{Drawn, segments, thinned};
use super::super::palette::{ACROSS, PAPER};
use super::super::placing::{Placing, nearest};
use super::super::svg::{Anchor, Frame, Svg, Type};
use super::super::text::{self, wrapped};
use super::{Measured, Placed, RADIUS};

/// Height of a line of words, pixels.
const LINE: f64 = 14.0;
/// Pixels between words and the sides of their box.
const PADDING: f64 = 4.0;
/// Largest width of a line in a box, pixels.
const WIDEST: f64 = 260.0;
/// Pixels between a point and its label.
const GAP: f64 = 2.5;
/// Least pixels between the sides of the plot and any words in it.
const BORDER: f64 = 2.0;

pub(super) fn draw(svg: &mut Svg, this: Placed) -> Drawn {
    let said = this.plot.markers.iter().any(|marker| !marker.label.is_empty())
        || this.plot.lines.iter().any(|l| l.points.iter().any(|p| !p.label.is_empty()));
    if !said && this.plot.callouts.is_empty() {
        return Ok(());
    }
    let mut placing = Placing::new(this.frame.within(BORDER, BORDER, BORDER, BORDER));
    keep_ink(&mut placing, this)?;
    for marker in this.plot.markers.iter().filter(|marker| !marker.label.is_empty()) {
        draw_marker_label(svg, &mut placing, this, marker)?;
    }
    // Call-outs have priority; labels of points may be omitted.
    draw_callouts(svg, &mut placing, this)?;
    draw_point_labels(svg, &mut placing, this)
}

/// Registers everything drawn with the placing pass.
fn keep_ink(placing: &mut Placing, this: Placed) -> Drawn {
    for line in &this.plot.lines {
        let mut joined = Vec::new();
        for point in &line.points {
            let place = this.pixel_of(line, point)?;
            if line.dotted {
                placing.keep_mark(place, RADIUS);
            }
            if let Some((low, high)) = point.y_range.filter(|_| line.dotted) {
                let low = this.pixel(point.x, low, line.edge, &line.name)?;
                let high = this.pixel(point.x, high, line.edge, &line.name)?;
                placing.keep_line(&[low, high]);
            }
            if let Some((low, high)) = point.x_range.filter(|_| line.dotted) {
                let (low, high) = (this.x.place(low)?, this.x.place(high)?);
                let at = |x: f64| (this.field.x(x), place.1);
                placing.keep_line(&[at(low), at(high)]);
            }
            if point.y.number().is_some() {
                joined.push(place);
            } else {
                placing.keep_line(&joined);
                joined.clear();
            }
        }
        placing.keep_line(&if line.dotted { joined } else { thinned(&joined) });
    }
    for curve in &this.plot.curves {
        for part in &curve.parts {
            let pixels: Result<Vec<_>, ChartError> =
                part.iter().map(|(x, y)| this.pixel(*x, *y, super::Edge::Left, "")).collect();
            let mut steps: Vec<(f64, f64)> = Vec::new();
            for (x, y) in thinned(&pixels?) {
                if let Some((_, last)) = steps.last().copied() {
                    steps.push((x, last));
                }
                steps.push((x, y));
            }
            placing.keep_line(&steps);
        }
        for (x, y, _) in &curve.dots {
            placing.keep_mark(this.pixel(*x, *y, super::Edge::Left, "")?, RADIUS);
        }
    }
    for marker in &this.plot.markers {
        if let Some(at) = marker.at {
            let x = this.field.x(this.x.place(at)?);
            placing.keep_line(&[(x, this.frame.top), (x, this.frame.bottom())]);
        }
    }
    Ok(())
}

/// Where the label of a marker points: at its line, or at the middle of its range.
fn middle(axis: &Axis, at: Option<f64>, range: Option<(f64, f64)>) -> Result<f64, ChartError> {
    match (at, range) {
        (Some(at), _) => axis.place(at),
        (None, Some((low, high))) => Ok((axis.place(low)? + axis.place(high)?) / 2.0),
        (None, None) => Ok(0.5),
    }
}

/// Draws the label of a marker in a box at the top of its line, or further down along it.
fn draw_marker_label(svg: &mut Svg, placing: &mut Placing, this: Placed, marker: &Marker) -> Drawn {
    let Placed { frame, field, .. } = this;
    let (lines, (width, height)) = boxed(&marker.label, frame.width);
    let mut places = Vec::new();
    let x = field.x(middle(this.x, marker.at, marker.range)?);
    let (first, last) = (frame.left + BORDER, frame.right() - BORDER - width);
    let rows = ((frame.height - height) / 4.0).max(0.0) as u32;
    for row in 0..=rows {
        let top = frame.top + BORDER + f64::from(row) * 4.0;
        for (share, cost) in [(0.5, 0.0), (0.0, 3.0), (1.0, 3.0)] {
            let left = (x - width * share).clamp(first, last.max(first));
            let place = Frame { left, top, width, height };
            places.push((place, cost + f64::from(row)));
        }
    }
    if let Some(place) = placing.take(places, false) {
        draw_box(svg, place, &lines);
    }
    Ok(())
}

/// Draws labels beside their points. A label that would hide something is omitted; its text is in
/// the tooltip.
fn draw_point_labels(svg: &mut Svg, placing: &mut Placing, this: Placed) -> Drawn {
    for line in &this.plot.lines {
        for point in line.points.iter().filter(|point| !point.label.is_empty()) {
            let (x, y) = this.pixel_of(line, point)?;
            let (width, height) = (Type::LABEL.width(&point.label), Type::LABEL.size * 1.02);
            let (right, left) = (x + RADIUS + GAP, x - RADIUS - GAP - width);
            let (above, below) = (y - RADIUS - GAP - height, y + RADIUS + GAP);
            let (middle, level) = (x - width / 2.0, y - height / 2.0);
            let failed = point.y == Measured::Failed;
            let places = [
                (middle, above),
                (right, above),
                (left, above),
                (right, level),
                (left, level),
                (right, below),
                (left, below),
                (middle, below),
            ];
            let places = places
                .into_iter()
                .enumerate()
                .map(|(rank, (left, top))| (Frame { left, top, width, height }, rank as f64 * 0.5));
            if let Some(place) = placing.take(places, true) {
                let kind =
                    Type { colour: if failed { ACROSS } else { line.style.ink }, ..Type::LABEL };
                let at = (place.left, place.top + Type::LABEL.size * text::ASCENT);
                svg.inside(at, Anchor::Start, kind, &point.label);
            }
        }
    }
    Ok(())
}

fn draw_callouts(svg: &mut Svg, placing: &mut Placing, this: Placed) -> Drawn {
    for callout in &this.plot.callouts {
        let target = this.pixel(callout.x, callout.y, callout.edge, &callout.text)?;
        let (lines, size) = boxed(&callout.text, this.frame.width);
        let Some(place) = placing.take_near(size, target) else { continue };
        let start = nearest(&place, target);
        let distance = (start.0 - target.0).hypot(start.1 - target.1);
        // The leader ends at the edge of the mark.
        let share = (RADIUS + 1.5) / distance;
        let end =
            (target.0 + (start.0 - target.0) * share, target.1 + (start.1 - target.1) * share);
        let paint = format!("fill=\"none\" stroke=\"{ACROSS}\" stroke-width=\"1\"");
        svg.path("leader", &segments(&[start, end]), &paint, "");
        draw_box(svg, place, &lines);
    }
    Ok(())
}

/// Wraps words into lines; also returns the size of their box.
fn boxed(words: &str, room: f64) -> (Vec<String>, (f64, f64)) {
    let widest = WIDEST.min(room * 0.45);
    let lines = wrapped(words, Type::LABEL.size, false, widest);
    let width = lines.iter().map(|line| Type::LABEL.width(line)).fold(0.0, f64::max);
    let height = lines.len() as f64 * LINE;
    (lines, (width + 2.0 * PADDING, height + PADDING))
}

fn draw_box(svg: &mut Svg, place: Frame, lines: &[String]) {
    let paint = format!("rx=\"2\" fill=\"{PAPER}\" stroke=\"{ACROSS}\" stroke-width=\"0.8\"");
    svg.rectangle("box", place, &paint, "");
    for (index, line) in lines.iter().enumerate() {
        let x = place.centre().0;
        let y = place.top + PADDING / 2.0 + (index as f64 + 0.5) * LINE + Type::LABEL.size * 0.36;
        svg.inside((x, y), Anchor::Middle, Type::LABEL, line);
    }
}
