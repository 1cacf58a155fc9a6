//! One plot with its axes, their labels and titles.

use super::axis::{Axis, Tick};
use super::bars::Bars;
use super::curves::{Band, Curve};
use super::heat::HeatMap;
use super::palette::{FAINT_GRID, GRID, INK, Style};
use super::plot::Plot;
use super::svg::{Anchor, Frame, Svg, Type, number};
use super::{ChartError, text};

/// A plot: two axes and what is drawn between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Above it; empty for none.
    pub title: String,
    /// Along the bottom.
    pub x: Axis,
    /// Along the left side.
    pub y: Axis,
    /// What is drawn.
    pub marks: Marks,
    /// Height of the plot itself, pixels.
    pub height: f64,
}

/// What is drawn in a panel.
#[derive(Clone, Debug, PartialEq)]
pub enum Marks {
    /// Bands, and curves over them.
    Curves(Vec<Band>, Vec<Curve>),
    /// Measured points and what is said of them.
    Plot(Plot),
    /// A heat map.
    Heat(HeatMap),
    /// Groups of bars over names.
    Bars(Bars),
}

/// How a name of the legend is shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Key {
    Line,
    Area,
    Light,
}

/// Pixels around a plot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Margins {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

impl Margins {
    /// For two plots whose sides shall be in line.
    pub(super) fn in_line(self, other: Margins) -> Margins {
        Margins { left: self.left.max(other.left), right: self.right.max(other.right), ..self }
    }
}

/// From a side of the plot to its labels.
const LABEL_GAP: f64 = 7.0;
/// From the labels to the title of the axis.
const TITLE_GAP: f64 = 8.0;

impl Panel {
    /// Every name of the legend.
    pub(super) fn keys(&self) -> Vec<(&str, Style, Key)> {
        match &self.marks {
            Marks::Curves(bands, curves) => {
                let curves = curves.iter().map(|c| (c.name.as_str(), c.style, Key::Line));
                let bands = bands.iter().map(|b| (b.name.as_str(), b.style, Key::Light));
                curves.chain(bands).collect()
            }
            Marks::Bars(bars) => {
                bars.series.iter().map(|s| (s.name.as_str(), s.style, Key::Area)).collect()
            }
            Marks::Plot(_) | Marks::Heat(_) => Vec::new(),
        }
    }

    /// What this panel needs around its plot.
    pub(super) fn margins(&self) -> Margins {
        let bar = match &self.marks {
            Marks::Heat(map) => map.bar_room(self.height),
            _ => 0.0,
        };
        let title = if self.title.is_empty() { 0.0 } else { Type::PANEL.size + 6.0 };
        let y_title = if self.y.title().is_empty() { 0.0 } else { TITLE_GAP + Type::BODY.size };
        let x_title = if self.x.title().is_empty() { 0.0 } else { TITLE_GAP + Type::BODY.size };
        let (before, after) = self.x.overhang();
        Margins {
            left: before.max(y_title + self.widest_label() + LABEL_GAP),
            right: bar.max(after + 4.0),
            top: title + Type::TICK.size / 2.0,
            bottom: LABEL_GAP + Type::TICK.size + x_title + 4.0,
        }
    }

    /// Draws everything; `plot` is the area between the axes.
    pub(super) fn draw(&self, svg: &mut Svg, plot: Frame) -> Result<(), ChartError> {
        let x_ticks = self.x.ticks(plot.width, true);
        let y_ticks = self.y.ticks(plot.height, false);
        let is_map = matches!(self.marks, Marks::Heat(_));
        svg.open_plot(plot, is_map);
        if !is_map {
            self.draw_grid(svg, plot, &x_ticks, &y_ticks);
        }
        match &self.marks {
            Marks::Curves(bands, curves) => {
                for band in bands {
                    band.draw(svg, plot, &self.x, &self.y)?;
                }
                for curve in curves {
                    curve.draw(svg, plot, &self.x, &self.y)?;
                }
            }
            Marks::Plot(_) => {}
            Marks::Heat(map) => map.draw(svg, plot, &self.x, &self.y)?,
            Marks::Bars(bars) => bars.draw(svg, plot, &self.x, &self.y)?,
        }
        svg.close();
        if let Marks::Heat(map) = &self.marks {
            map.draw_bar(svg, plot);
        }
        self.draw_axes(svg, plot, &x_ticks, &y_ticks);
        Ok(())
    }

    fn widest_label(&self) -> f64 {
        let ticks = self.y.ticks(self.height, false);
        ticks.iter().map(|(_, label)| Type::TICK.width(label)).fold(0.0, f64::max)
    }

    fn draw_grid(&self, svg: &mut Svg, plot: Frame, x_ticks: &[Tick], y_ticks: &[Tick]) {
        let upright = |place: f64| vertical(plot.x(place), plot.top, plot.bottom());
        let level = |place: f64| horizontal(plot.y(place), plot.left, plot.right());
        let mut lines = |places: Vec<String>, colour: &str| {
            if !places.is_empty() {
                svg.path("", &places.concat(), &format!("stroke=\"{colour}\" fill=\"none\""), "");
            }
        };
        let faint_x = self.x.faint_lines().into_iter().map(upright);
        let faint_y = self.y.faint_lines().into_iter().map(level);
        lines(faint_x.chain(faint_y).collect(), FAINT_GRID);
        // Between names a line would say nothing.
        let x_ticks = if self.x.name_count().is_some() { &[] } else { x_ticks };
        let x_lines = x_ticks.iter().map(|(place, _)| upright(*place));
        let y_lines = y_ticks.iter().map(|(place, _)| level(*place));
        lines(x_lines.chain(y_lines).collect(), GRID);
    }

    fn draw_axes(&self, svg: &mut Svg, plot: Frame, x_ticks: &[Tick], y_ticks: &[Tick]) {
        let mut d = vertical(plot.left, plot.top, plot.bottom());
        d += &horizontal(plot.bottom(), plot.left, plot.right());
        for (place, _) in x_ticks {
            d += &vertical(plot.x(*place), plot.bottom(), plot.bottom() + 4.0);
        }
        for (place, _) in y_ticks {
            d += &horizontal(plot.y(*place), plot.left - 4.0, plot.left);
        }
        svg.path("", &d, &format!("stroke=\"{INK}\" fill=\"none\""), "");
        let label_y = plot.bottom() + LABEL_GAP + Type::TICK.size * text::ASCENT;
        for (place, label) in x_ticks {
            svg.text((plot.x(*place), label_y), Anchor::Middle, Type::TICK, label);
        }
        for (place, label) in y_ticks {
            let at = (plot.left - LABEL_GAP, plot.y(*place) + Type::TICK.size * 0.36);
            svg.text(at, Anchor::End, Type::TICK, label);
        }
        if !self.x.title().is_empty() {
            let below = LABEL_GAP + Type::TICK.size + TITLE_GAP + Type::BODY.size * text::ASCENT;
            let title = text::shortened(self.x.title(), Type::BODY.size, plot.width);
            let at = (plot.x(0.5), plot.bottom() + below);
            svg.text(at, Anchor::Middle, Type::BODY, &title);
        }
        if !self.y.title().is_empty() {
            let x = plot.left - LABEL_GAP - self.widest_label() - TITLE_GAP;
            let title = text::shortened(self.y.title(), Type::BODY.size, plot.height);
            svg.upright((x, plot.y(0.5)), Type::BODY, &title);
        }
        if !self.title.is_empty() {
            let size = Type::PANEL.size * 1.16;
            let title = text::shortened(&self.title, size, plot.width);
            let at = (plot.left, plot.top - Type::TICK.size / 2.0 - 3.0);
            svg.text(at, Anchor::Start, Type::PANEL, &title);
        }
    }
}

fn vertical(x: f64, from: f64, to: f64) -> String {
    format!("M{} {}V{}", number(x), number(from), number(to))
}

fn horizontal(y: f64, from: f64, to: f64) -> String {
    format!("M{} {}H{}", number(from), number(y), number(to))
}
