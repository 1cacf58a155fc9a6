//! One plot with its axes, their labels and titles.

use super::axis::{Axis, Tick};
use super::bars::Bars;
use super::curves::{Band, Curve};
use super::heat::HeatMap;
use super::palette::{FAINT_GRID, GRID, INK, NOTHING, Style};
use super::plot::{Edge, Measured, Plot};
use super::quantity::Quantity;
use super::scale::Kind;
use super::svg::{Anchor, Frame, Svg, Type, number};
use super::towers::Towers;
use super::{ChartError, text};

/// A plot: two axes and the marks between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Title above the plot; empty for none.
    pub title: String,
    /// Horizontal axis, at the bottom.
    pub x: Axis,
    /// Vertical axis, at the left.
    pub y: Axis,
    pub marks: Marks,
    /// Height of the plot without its labels, pixels.
    pub height: f64,
}

/// Marks of a panel.
#[derive(Clone, Debug, PartialEq)]
pub enum Marks {
    /// Curves and measured points with their annotations.
    Plot(Plot),
    Heat(HeatMap),
    /// Groups of bars over names.
    Bars(Bars),
    /// Bars over two axes of names.
    Towers(Towers),
}

/// Symbol of a name in the legend.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Key {
    Line,
    /// A line with a mark on it.
    Dotted,
    Area,
    Light,
    /// The mark of a low-confidence point, of a low-confidence bar, of a failed point.
    Hollow,
    HollowArea,
    Cross,
}

/// Space around a plot, pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Margins {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

impl Margins {
    /// The margins that align this plot with `other` at the left and the right.
    pub(super) fn in_line(self, other: Margins) -> Margins {
        Margins { left: self.left.max(other.left), right: self.right.max(other.right), ..self }
    }
}

/// Pixels between a side of the plot and its labels.
const LABEL_GAP: f64 = 7.0;
/// Pixels between the labels and the title of the axis.
const TITLE_GAP: f64 = 8.0;
/// Length of the line sample beside the title of an axis, and its distance, pixels.
const SAMPLE: f64 = 24.0;
const SAMPLE_GAP: f64 = 6.0;
/// Legend entry of a cross.
const FAILED: &str = "failed or invalid: not used";

impl Marks {
    /// Bands with curves on top of them.
    pub fn curves(bands: Vec<Band>, curves: Vec<Curve>) -> Marks {
        Marks::Plot(Plot { bands, curves, ..Plot::default() })
    }
}

impl Panel {
    pub fn new(title: impl Into<String>, x: Axis, y: Axis, marks: Marks, height: f64) -> Panel {
        Panel { title: title.into(), x, y, marks, height }
    }

    /// Rates over the time `since` an event, on an axis from zero.
    ///
    /// # Errors
    /// If there is no rate.
    pub fn over_time(
        title: &str,
        since: &str,
        unit: &str,
        curves: Vec<Curve>,
        height: f64,
    ) -> Result<Panel, ChartError> {
        let plot = Plot { curves, ..Plot::default() };
        let from_zero = |values: Vec<f64>| values.into_iter().flat_map(|value| [0.0, value]);
        let x = Axis::fit(since, Quantity::Time, Kind::Time, from_zero(plot.xs()))?;
        let ys = from_zero(plot.ys(Edge::Left));
        let y = Axis::fit(unit, Quantity::Count, Kind::Linear, ys)?;
        Ok(Panel::new(title, x, y, Marks::Plot(plot), height))
    }

    /// Every entry of the legend.
    pub(super) fn keys(&self) -> Vec<(&str, Style, Key)> {
        match &self.marks {
            Marks::Plot(plot) => {
                let line = |dotted| if dotted { Key::Dotted } else { Key::Line };
                let lines = plot.lines.iter();
                let points = lines.clone().filter(|l| l.dotted).flat_map(|line| &line.points);
                lines
                    .map(|l| (l.name.as_str(), l.style, line(l.dotted)))
                    .chain(keys_of_curves(&plot.bands, &plot.curves))
                    .chain(keys_of_states(points.map(|point| point.y), Key::Hollow))
                    .collect()
            }
            Marks::Bars(bars) => {
                let all = bars.series.iter().flat_map(|s| s.values.iter().flatten());
                let series = bars.series.iter().map(|s| (s.name.as_str(), s.style, Key::Area));
                let states = keys_of_states(all.map(|bar| bar.value), Key::HollowArea);
                series.chain(states).collect()
            }
            Marks::Towers(towers) => {
                let values = towers.towers.iter().map(|tower| tower.value);
                keys_of_states(values, Key::HollowArea).collect()
            }
            Marks::Heat(map) => {
                map.missing.iter().map(|m| (m.word.as_str(), NOTHING, Key::Area)).collect()
            }
        }
    }

    /// Space that this panel needs around its plot.
    pub(super) fn margins(&self) -> Margins {
        let bar = match &self.marks {
            Marks::Heat(map) => map.bar_room(self.height),
            Marks::Plot(Plot { right: Some(axis), .. }) => {
                let title = if axis.title().is_empty() { 0.0 } else { TITLE_GAP + Type::BODY.size };
                title + widest_label(axis, self.height) + LABEL_GAP
            }
            _ => 0.0,
        };
        let title = if self.title.is_empty() { 0.0 } else { Type::PANEL.size + 6.0 };
        let y_title = if self.y.title().is_empty() { 0.0 } else { TITLE_GAP + Type::BODY.size };
        let x_title = if self.x.title().is_empty() { 0.0 } else { TITLE_GAP + Type::BODY.size };
        let (before, after) = self.x.overhang();
        Margins {
            left: before.max(y_title + widest_label(&self.y, self.height) + LABEL_GAP),
            right: bar.max(after + 4.0),
            top: title + Type::TICK.size / 2.0,
            bottom: LABEL_GAP + Type::TICK.size + x_title + 4.0,
        }
    }

    /// Draws everything; `plot` is the area between the axes.
    pub(super) fn draw(&self, svg: &mut Svg, plot: Frame) -> Result<(), ChartError> {
        let field = self.field(plot);
        let x_ticks = self.x.ticks(field.width, true);
        let y_ticks = self.y.ticks(field.height, false);
        let is_map = matches!(self.marks, Marks::Heat(_));
        svg.open_plot(plot, is_map, &self.scales(field));
        let is_flat = !matches!(self.marks, Marks::Towers(_));
        if is_flat && !is_map {
            self.draw_grid(svg, (plot, field), &x_ticks, &y_ticks);
        }
        match &self.marks {
            Marks::Plot(marks) => marks.draw(svg, plot, &self.x, &self.y)?,
            Marks::Heat(map) => map.draw(svg, plot, &self.x, &self.y)?,
            Marks::Bars(bars) => bars.draw(svg, field, &self.x, &self.y)?,
            Marks::Towers(towers) => towers.draw(svg, field, (&self.x, &self.y), &y_ticks)?,
        }
        svg.close();
        if let Marks::Heat(map) = &self.marks {
            map.draw_bar(svg, plot);
        }
        let sides = if is_flat { plot } else { field };
        self.draw_axes(svg, (sides, field), &x_ticks, &y_ticks);
        self.draw_title(svg, plot);
        if let Marks::Plot(Plot { right: Some(axis), .. }) = &self.marks {
            self.draw_right_axis(svg, (plot, field), axis);
        }
        Ok(())
    }

    /// The area between the ends of the axes.
    fn field(&self, plot: Frame) -> Frame {
        match &self.marks {
            Marks::Plot(marks) => marks.field(plot),
            Marks::Bars(bars) => bars.field(plot),
            Marks::Towers(towers) => towers.field(plot),
            Marks::Heat(_) => plot,
        }
    }

    /// Attributes for programs: the ends of the axes in pixels, and their scales.
    fn scales(&self, field: Frame) -> String {
        let (left, top) = (number(field.left), number(field.top));
        let (right, bottom) = (number(field.right()), number(field.bottom()));
        let mut scales = format!(
            " data-field=\"{left} {top} {right} {bottom}\" data-x=\"{}\" data-y=\"{}\"",
            self.x.described(),
            self.y.described()
        );
        if let Marks::Plot(Plot { right: Some(axis), .. }) = &self.marks {
            scales += &format!(" data-right=\"{}\"", axis.described());
        }
        scales
    }

    fn look(&self, edge: Edge) -> Option<Style> {
        match &self.marks {
            Marks::Plot(plot) => plot.look(edge),
            _ => None,
        }
    }

    fn draw_grid(
        &self,
        svg: &mut Svg,
        (plot, field): (Frame, Frame),
        x_ticks: &[Tick],
        y_ticks: &[Tick],
    ) {
        let upright = |place: f64| vertical(field.x(place), plot.top, plot.bottom());
        let level = |place: f64| horizontal(field.y(place), plot.left, plot.right());
        let mut lines = |places: Vec<String>, colour: &str| {
            if !places.is_empty() {
                svg.path("", &places.concat(), &format!("stroke=\"{colour}\" fill=\"none\""), "");
            }
        };
        let faint_x = self.x.faint_lines().into_iter().map(upright);
        let faint_y = self.y.faint_lines().into_iter().map(level);
        lines(faint_x.chain(faint_y).collect(), FAINT_GRID);
        // Lines between names would have no meaning.
        let x_ticks = if self.x.name_count().is_some() { &[] } else { x_ticks };
        let x_lines = x_ticks.iter().map(|(place, _)| upright(*place));
        let y_lines = y_ticks.iter().map(|(place, _)| level(*place));
        lines(x_lines.chain(y_lines).collect(), GRID);
    }

    fn draw_axes(
        &self,
        svg: &mut Svg,
        (plot, field): (Frame, Frame),
        x_ticks: &[Tick],
        y_ticks: &[Tick],
    ) {
        let mut d = vertical(plot.left, plot.top, plot.bottom());
        d += &horizontal(plot.bottom(), plot.left, plot.right());
        for (place, _) in x_ticks {
            d += &vertical(field.x(*place), plot.bottom(), plot.bottom() + 4.0);
        }
        for (place, _) in y_ticks {
            d += &horizontal(field.y(*place), plot.left - 4.0, plot.left);
        }
        svg.path("", &d, &format!("stroke=\"{INK}\" fill=\"none\""), "");
        let label_y = plot.bottom() + LABEL_GAP + Type::TICK.size * text::ASCENT;
        for (place, label) in x_ticks {
            svg.text((field.x(*place), label_y), Anchor::Middle, Type::TICK, label);
        }
        let look = self.look(Edge::Left);
        for (place, label) in y_ticks {
            let at = (plot.left - LABEL_GAP, field.y(*place) + Type::TICK.size * 0.36);
            svg.text(at, Anchor::End, inked(Type::TICK, look), label);
        }
        if !self.x.title().is_empty() {
            let below = LABEL_GAP + Type::TICK.size + TITLE_GAP + Type::BODY.size * text::ASCENT;
            let title = text::shortened(self.x.title(), Type::BODY.size, plot.width);
            let at = (plot.x(0.5), plot.bottom() + below);
            svg.text(at, Anchor::Middle, Type::BODY, &title);
        }
        if !self.y.title().is_empty() {
            let x = plot.left - LABEL_GAP - widest_label(&self.y, self.height) - TITLE_GAP;
            draw_upright_title(svg, x, plot, self.y.title(), look);
        }
    }

    fn draw_title(&self, svg: &mut Svg, plot: Frame) {
        if !self.title.is_empty() {
            let title = text::shortened_in(&self.title, Type::PANEL.size, true, plot.width);
            let at = (plot.left, plot.top - Type::TICK.size / 2.0 - 3.0);
            svg.text(at, Anchor::Start, Type::PANEL, &title);
        }
    }

    fn draw_right_axis(&self, svg: &mut Svg, (plot, field): (Frame, Frame), axis: &Axis) {
        let ticks = axis.ticks(field.height, false);
        let look = self.look(Edge::Right);
        let mut d = vertical(plot.right(), plot.top, plot.bottom());
        for (place, label) in &ticks {
            d += &horizontal(field.y(*place), plot.right(), plot.right() + 4.0);
            let at = (plot.right() + LABEL_GAP, field.y(*place) + Type::TICK.size * 0.36);
            svg.text(at, Anchor::Start, inked(Type::TICK, look), label);
        }
        svg.path("", &d, &format!("stroke=\"{INK}\" fill=\"none\""), "");
        if !axis.title().is_empty() {
            let labels = LABEL_GAP + widest_label(axis, field.height);
            let x = plot.right() + labels + TITLE_GAP + Type::BODY.size * text::ASCENT;
            draw_upright_title(svg, x, plot, axis.title(), look);
        }
    }
}

/// Draws the vertical title of an axis with a sample of its line.
fn draw_upright_title(svg: &mut Svg, x: f64, plot: Frame, title: &str, look: Option<Style>) {
    let sample = if look.is_some() { SAMPLE + SAMPLE_GAP } else { 0.0 };
    let title = text::shortened(title, Type::BODY.size, plot.height - sample);
    let middle = plot.y(0.5) + sample / 2.0;
    svg.upright((x, middle), inked(Type::BODY, look), &title);
    let Some(style) = look else { return };
    let from = middle - Type::BODY.width(&title) / 2.0 - SAMPLE_GAP;
    let x = x - Type::BODY.size * 0.3;
    svg.path("", &vertical(x, from, from - SAMPLE), &style.stroke(1.8), "");
    let paint = format!("fill=\"{0}\" stroke=\"{0}\"", style.colour);
    svg.mark("", (x, from - SAMPLE / 2.0), (style, 3.2), &paint, "");
}

/// The text style with the colour of a series.
fn inked(kind: Type, look: Option<Style>) -> Type {
    Type { colour: look.map_or(kind.colour, |style| style.ink), ..kind }
}

fn widest_label(axis: &Axis, height: f64) -> f64 {
    let ticks = axis.ticks(height, false);
    ticks.iter().map(|(_, label)| Type::TICK.width(label)).fold(0.0, f64::max)
}

fn keys_of_curves<'a>(
    bands: &'a [Band],
    curves: &'a [Curve],
) -> impl Iterator<Item = (&'a str, Style, Key)> {
    let curves = curves.iter().map(|c| (c.name.as_str(), c.style, Key::Line));
    curves.chain(bands.iter().map(|b| (b.name.as_str(), b.style, Key::Light)))
}

/// Legend entries for points of low confidence and for failed ones.
fn keys_of_states<'a>(
    all: impl Iterator<Item = Measured> + Clone,
    hollow: Key,
) -> impl Iterator<Item = (&'a str, Style, Key)> {
    let has_hollow = all.clone().any(|point| matches!(point, Measured::LowConfidence(_)));
    let failed = all.clone().any(|point| point == Measured::Failed);
    let hollow = has_hollow.then_some(("low confidence", NOTHING, hollow));
    hollow.into_iter().chain(failed.then_some((FAILED, NOTHING, Key::Cross)))
}

fn vertical(x: f64, from: f64, to: f64) -> String {
    format!("M{} {}V{}", number(x), number(from), number(to))
}

fn horizontal(y: f64, from: f64, to: f64) -> String {
    format!("M{} {}H{}", number(from), number(y), number(to))
}
