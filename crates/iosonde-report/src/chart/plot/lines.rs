//! Draws the marks of a plot: ranges, bands, lines, intervals, points.

use super::super::curves::{Drawn, placed, segments, thinned};
use super::super::palette::{ACROSS, INK, PAPER, Style};
use super::super::svg::{Frame, Svg, datum, escaped, number};
use super::{Line, Measured, Placed, Point, RADIUS};

/// Half the width of an interval's cap, pixels.
const CAP: f64 = 3.5;

pub(super) fn draw(svg: &mut Svg, this: Placed) -> Drawn {
    draw_markers(svg, this)?;
    for band in &this.plot.bands {
        band.draw(svg, this.field, this.x, this.y)?;
    }
    for curve in &this.plot.curves {
        curve.draw(svg, this.field, this.x, this.y)?;
    }
    for line in &this.plot.lines {
        draw_line(svg, this, line)?;
    }
    // Marks are drawn on top of all lines.
    for line in this.plot.lines.iter().filter(|line| line.dotted) {
        for point in &line.points {
            draw_intervals(svg, this, line, point)?;
        }
        for point in &line.points {
            draw_mark(svg, this, line, point)?;
        }
    }
    Ok(())
}

fn draw_markers(svg: &mut Svg, this: Placed) -> Drawn {
    let Placed { frame, field, .. } = this;
    for marker in &this.plot.markers {
        if let Some((low, high)) = marker.range {
            let (left, right) = (field.x(this.x.place(low)?), field.x(this.x.place(high)?));
            let area = Frame { left, width: right - left, ..frame };
            let paint = format!(
                "fill=\"{INK}\" fill-opacity=\"0.07\" stroke=\"{ACROSS}\" stroke-width=\"0.4\""
            );
            svg.rectangle("data", area, &paint, &marker.hover);
        }
        if let Some(at) = marker.at {
            let x = field.x(this.x.place(at)?);
            let d = format!("M{} {}V{}", number(x), number(frame.top), number(frame.bottom()));
            let paint = format!(
                "fill=\"none\" stroke=\"{ACROSS}\" stroke-width=\"1.2\" stroke-dasharray=\"5 3\""
            );
            svg.path("data", &d, &paint, &marker.hover);
        }
    }
    Ok(())
}

/// Draws the line; a failed point interrupts it.
fn draw_line(svg: &mut Svg, this: Placed, line: &Line) -> Drawn {
    let axis = this.axis(line.edge, &line.name)?;
    let mut d = String::new();
    for part in line.points.split(|point| point.y.number().is_none()) {
        let points: Vec<(f64, f64)> =
            part.iter().filter_map(|point| Some((point.x, point.y.number()?))).collect();
        let points = placed(&points, this.field, this.x, axis)?;
        let points = if line.dotted { points } else { thinned(&points) };
        if points.len() > 1 {
            d += &segments(&points);
        }
    }
    if !d.is_empty() {
        let paint = format!("{} data-s=\"{}\"", line.style.stroke(1.8), escaped(&line.name));
        svg.path("data", &d, &paint, &line.hover);
    }
    Ok(())
}

/// Draws intervals as bars with caps. The stem comes first in the path.
fn draw_intervals(svg: &mut Svg, this: Placed, line: &Line, point: &Point) -> Drawn {
    let Some(value) = point.y.number() else { return Ok(()) };
    let paint = format!("fill=\"none\" stroke=\"{}\" stroke-width=\"1.2\"", line.style.colour);
    if let Some((low, high)) = point.y_range {
        let (x, low) = this.pixel(point.x, low, line.edge, &line.name)?;
        let (_, high) = this.pixel(point.x, high, line.edge, &line.name)?;
        svg.path("interval", &upright_interval(x, low, high), &paint, "");
    }
    if let Some((low, high)) = point.x_range {
        let (low, y) = this.pixel(low, value, line.edge, &line.name)?;
        let (high, _) = this.pixel(high, value, line.edge, &line.name)?;
        let (low, high) = (number(low), number(high));
        let (up, y, down) = (number(y - CAP), number(y), number(y + CAP));
        let d = format!("M{low} {y}H{high}M{low} {up}V{down}M{high} {up}V{down}");
        svg.path("interval", &d, &paint, "");
    }
    Ok(())
}

/// Path of a vertical interval.
pub(in super::super) fn upright_interval(x: f64, low: f64, high: f64) -> String {
    let (low, high) = (number(low), number(high));
    let (left, x, right) = (number(x - CAP), number(x), number(x + CAP));
    format!("M{x} {low}V{high}M{left} {low}H{right}M{left} {high}H{right}")
}

fn draw_mark(svg: &mut Svg, this: Placed, line: &Line, point: &Point) -> Drawn {
    let place = this.pixel_of(line, point)?;
    let words = if point.hover.is_empty() { &line.hover } else { &point.hover };
    let datum = datum(&this.x.formatted(point.x), point.y.number(), &line.name);
    mark(svg, "data point", place, (line.style, point.y), &datum, words);
    Ok(())
}

/// Draws the mark of a point by its state: filled, hollow or a cross.
pub(in super::super) fn mark(
    svg: &mut Svg,
    class: &str,
    (x, y): (f64, f64),
    (style, state): (Style, Measured),
    datum: &str,
    hover: &str,
) {
    let colour = style.colour;
    match state {
        Measured::Good(_) => {
            let paint = format!("fill=\"{colour}\" stroke=\"{PAPER}\" stroke-width=\"0.8\"{datum}");
            svg.mark(class, (x, y), (style, RADIUS), &paint, hover);
        }
        Measured::LowConfidence(_) => {
            let paint = format!("fill=\"{PAPER}\" stroke=\"{colour}\" stroke-width=\"1.8\"{datum}");
            svg.mark(class, (x, y), (style, RADIUS), &paint, hover);
        }
        Measured::Failed => {
            let (left, right) = (number(x - RADIUS), number(x + RADIUS));
            let (top, bottom) = (number(y - RADIUS), number(y + RADIUS));
            let d = format!("M{left} {top}L{right} {bottom}M{left} {bottom}L{right} {top}");
            let paint =
                format!("fill=\"none\" stroke=\"{}\" stroke-width=\"2.4\"{datum}", style.ink);
            svg.path(class, &d, &paint, hover);
        }
    }
}
