//! A complete figure: title, legend, aligned panels, notes.

use super::ChartError;
use super::palette::Style;
use super::panel::{Key, Margins, Panel};
use super::plot::{self, Measured};
use super::svg::{Anchor, Frame, Svg, Type, number};
use super::text::{self, wrapped};

/// A self-contained picture with title, legend and notes.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    pub title: String,
    /// What was measured, how often and how long; empty for none.
    pub subtitle: String,
    pub arrangement: Arrangement,
    /// The plots; they share one legend.
    pub panels: Vec<Panel>,
    /// Sentences below the panels.
    pub notes: Vec<String>,
}

/// Arrangement of panels.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Arrangement {
    /// One below the other.
    Stacked,
    /// Next to each other.
    SideBySide,
}

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 18.0;
/// Pixels between panels.
const GAP: f64 = 22.0;
/// Length of a line sample in the legend, pixels.
const SAMPLE: f64 = 28.0;

impl Figure {
    /// Panels one below the other, without notes.
    pub fn stacked(
        title: impl Into<String>,
        subtitle: impl Into<String>,
        panels: Vec<Panel>,
    ) -> Figure {
        let (title, subtitle, arrangement) = (title.into(), subtitle.into(), Arrangement::Stacked);
        Figure { title, subtitle, arrangement, panels, notes: Vec::new() }
    }

    /// Panels next to each other, without notes.
    pub fn side_by_side(
        title: impl Into<String>,
        subtitle: impl Into<String>,
        panels: Vec<Panel>,
    ) -> Figure {
        let arrangement = Arrangement::SideBySide;
        Figure { arrangement, ..Figure::stacked(title, subtitle, panels) }
    }

    /// The figure as SVG. Background and colours are fixed: a dark page shows it on a white card.
    ///
    /// For programs, each bar and point has `data-x`, `data-y` (unless it failed) and `data-s`, its
    /// series. A rectangle of a numbered heat map has `data-v` in place of `data-y`, a curve only
    /// `data-s`. The `rect` of class `plot` gives the area between the ends of its axes in pixels
    /// as `data-field` (left, top, right, bottom), and the axes as `data-x`, `data-y` and
    /// `data-right`: `linear`, `log` or `nines` with both ends, or `names` with their number.
    /// Pixels can so be converted to values.
    ///
    /// # Errors
    /// If a value lies outside its scale, or there is no panel.
    pub fn svg(&self) -> Result<String, ChartError> {
        if self.panels.is_empty() {
            return Err(ChartError::Empty);
        }
        let mut svg = Svg::default();
        let mut y = MARGIN;
        y = lines(&mut svg, y, Type::TITLE, &self.title);
        y = lines(&mut svg, y + 3.0, Type::BODY, &self.subtitle);
        y = self.draw_legend(&mut svg, y + 6.0);
        y = self.draw_panels(&mut svg, y + 8.0)?;
        for note in &self.notes {
            y = lines(&mut svg, y + 3.0, Type::NOTE, note);
        }
        Ok(svg.finish(&self.title, WIDTH, y + MARGIN * 0.6))
    }

    fn draw_panels(&self, svg: &mut Svg, top: f64) -> Result<f64, ChartError> {
        let room = WIDTH - 2.0 * MARGIN;
        let all = self.panels.iter().map(Panel::margins).fold(Margins::default(), Margins::in_line);
        let is_stacked = self.arrangement == Arrangement::Stacked;
        let columns = if is_stacked { 1.0 } else { self.panels.len() as f64 };
        let column = (room - GAP * (columns - 1.0)) / columns;
        let tallest = self.panels.iter().map(|p| p.margins().top).fold(0.0, f64::max);
        let (mut left, mut y) = (MARGIN, top);
        for panel in &self.panels {
            let own = panel.margins();
            let plot = Frame {
                left: left + all.left,
                top: if is_stacked { y + own.top } else { top + tallest },
                width: column - all.left - all.right,
                height: panel.height,
            };
            panel.draw(svg, plot)?;
            y = y.max(plot.bottom() + own.bottom + GAP * 0.5);
            left += if is_stacked { 0.0 } else { column + GAP };
        }
        Ok(y)
    }

    /// Draws the legend: the names of all panels, each once, wrapped into lines.
    fn draw_legend(&self, svg: &mut Svg, top: f64) -> f64 {
        let mut keys: Vec<(&str, Style, Key)> = Vec::new();
        for key in self.panels.iter().flat_map(Panel::keys).filter(|(name, ..)| !name.is_empty()) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        if keys.is_empty() {
            return top;
        }
        let height = Type::BODY.size * 1.5;
        let (mut x, mut y) = (MARGIN, top);
        for (name, style, key) in keys {
            let name = text::shortened(name, Type::BODY.size, WIDTH / 2.0 - SAMPLE);
            let width = SAMPLE + 6.0 + Type::BODY.width(&name);
            if x > MARGIN && x + width > WIDTH - MARGIN {
                (x, y) = (MARGIN, y + height);
            }
            draw_key(svg, (x, y), style, key);
            let at = (x + SAMPLE + 6.0, y + Type::BODY.size);
            svg.text(at, Anchor::Start, Type::BODY, &name);
            x += width + 20.0;
        }
        y + height
    }
}

fn draw_key(svg: &mut Svg, (x, y): (f64, f64), style: Style, key: Key) {
    let colour = style.colour;
    let area = Frame { left: x, top: y + 2.0, width: SAMPLE, height: 11.0 };
    let middle = (x + SAMPLE / 2.0, y + 7.5);
    match key {
        Key::Line | Key::Dotted => {
            let d = format!("M{} {}H{}", number(x), number(y + 7.5), number(x + SAMPLE));
            svg.path("", &d, &style.stroke(2.0), "");
            if key == Key::Dotted {
                plot::mark(svg, "", middle, (style, Measured::Good(0.0)), "", "");
            }
        }
        Key::Hollow => plot::mark(svg, "", middle, (style, Measured::LowConfidence(0.0)), "", ""),
        Key::HollowArea => {
            let paint = format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"");
            svg.rectangle("", area, &paint, "");
        }
        Key::Cross => plot::mark(svg, "", middle, (style, Measured::Failed), "", ""),
        Key::Area => {
            let paint = format!("{} stroke-width=\"0.6\"", svg.fill(style));
            svg.rectangle("", area, &paint, "");
        }
        Key::Light => {
            svg.rectangle("", area, &format!("fill=\"{colour}\" fill-opacity=\"0.25\""), "");
        }
    }
}

/// Draws a text over the full width from `top` down; returns the y below it.
fn lines(svg: &mut Svg, top: f64, kind: Type, words: &str) -> f64 {
    let mut y = top;
    for line in wrapped(words, kind.size, kind.bold, WIDTH - 2.0 * MARGIN) {
        svg.text((MARGIN, y + kind.size * 0.92), Anchor::Start, kind, &line);
        y += kind.size * 1.3;
    }
    y
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::reading::{assert_golden, faults, words};
    use super::super::{
        Axis, Band, Bar, BarSeries, Bars, Cell, Curve, HeatMap, Kind, Marks, Quantity, Scale, style,
    };
    use super::*;

    fn scale(kind: Kind, values: &[f64]) -> Scale {
        Scale::fit(kind, values.iter().copied()).unwrap()
    }

    fn figure(arrangement: Arrangement, panels: Vec<Panel>) -> Figure {
        Figure {
            title: "A figure".into(),
            subtitle: "of a device <named> & \"so\"".into(),
            arrangement,
            panels,
            notes: vec!["A note.".into()],
        }
    }

    fn curve(name: &str, number: usize, points: &[(f64, f64)]) -> Curve {
        let hover = format!("{name}: as it was");
        Curve { hover, ..Curve::new(name, style(number), vec![points.to_vec()]) }
    }

    fn curves() -> Panel {
        let tail = [(50e3, 1.0), (80e3, 0.5), (200e3, 0.01), (3e6, 1e-4), (40e6, 1e-5)];
        let mut read = curve("read", 0, &tail);
        read.dots.push((200e3, 0.01, "p99: 200 µs".into()));
        let band = Band {
            name: "between runs".into(),
            style: style(0),
            parts: vec![vec![(60e3, 0.4, 0.9), (100e3, 0.02, 0.3), (1e6, 0.02, 0.3)]],
            hover: "three runs".into(),
        };
        Panel {
            title: "Tail".into(),
            x: Axis::new("latency", Quantity::Latency, scale(Kind::Log10, &[50e3, 40e6])),
            y: Axis::new("share above", Quantity::Share, scale(Kind::Log10, &[1e-5, 1.0])),
            marks: Marks::curves(
                vec![band],
                vec![read, curve("write", 1, &[(70e3, 1.0), (900e3, 0.2), (30e6, 1e-3)])],
            ),
            height: 220.0,
        }
    }

    fn heat() -> Panel {
        let cell = |x: f64, y: f64, value: f64| Cell {
            x: (x, x + 10e9),
            y: (y, y + 1.0),
            value,
            hover: format!("{value} requests"),
        };
        Panel {
            title: "Where".into(),
            x: Axis::new("time", Quantity::Time, scale(Kind::Time, &[0.0, 120e9])),
            y: Axis::names("", vec!["writes".into(), "reads".into()]),
            marks: Marks::Heat(HeatMap {
                title: "requests".into(),
                quantity: Quantity::Count,
                scale: scale(Kind::Log10, &[1.0, 5_000.0]),
                cells: vec![cell(0.0, 0.0, 1.0), cell(10e9, 1.0, 5_000.0), cell(110e9, 0.0, 70.0)],
                missing: Vec::new(),
                numbered: false,
            }),
            height: 120.0,
        }
    }

    fn bars() -> Panel {
        let values = |all: &[f64]| {
            all.iter().map(|v| (*v > 0.0).then(|| Bar::new(*v, format!("{v} µs")))).collect()
        };
        let names = ["mean", "p95", "p99"].map(str::to_owned).to_vec();
        let series = |name: &str, number, all: &[f64]| BarSeries {
            name: name.into(),
            style: style(number),
            values: values(all),
        };
        Panel {
            title: "Latency".into(),
            x: Axis::names("figure", names),
            y: Axis::new("µs", Quantity::Count, scale(Kind::Linear, &[0.0, 830.0])),
            marks: Marks::Bars(Bars {
                series: vec![
                    series("recorded", 0, &[90.0, 210.0, 800.0]),
                    series("regenerated", 1, &[95.0, 0.0, 830.0]),
                ],
                labelled: false,
                stacked: false,
            }),
            height: 180.0,
        }
    }

    #[test]
    fn each_kind_of_figure_is_as_it_was_and_can_be_read() {
        for (name, figure) in [
            ("curves.svg", figure(Arrangement::Stacked, vec![curves()])),
            ("heat.svg", figure(Arrangement::Stacked, vec![heat(), curves()])),
            ("bars.svg", figure(Arrangement::SideBySide, vec![bars(), bars()])),
        ] {
            let svg = figure.svg().unwrap();
            assert_eq!(faults(&svg), Vec::<String>::new(), "{name}");
            assert_eq!(svg, figure.svg().unwrap());
            assert_golden(name, &svg);
        }
    }

    #[test]
    fn a_legend_names_each_series_once() {
        let svg = figure(Arrangement::SideBySide, vec![bars(), bars()]).svg().unwrap();
        let count = |name: &str| words(&svg).iter().filter(|word| *word == name).count();
        assert_eq!((count("recorded"), count("regenerated")), (1, 1));
    }

    #[test]
    fn ticks_stand_where_their_values_are() {
        let svg = figure(Arrangement::Stacked, vec![curves()]).svg().unwrap();
        let all = words(&svg);
        for tick in ["100 µs", "1 ms", "10 ms", "100 %", "1 %", "0.001 %"] {
            assert!(all.iter().any(|word| word == tick), "{tick} of {all:?}");
        }
    }

    #[test]
    fn a_value_beyond_its_scale_is_an_error_and_not_a_picture() {
        let mut panel = curves();
        panel.marks = Marks::curves(Vec::new(), vec![curve("read", 0, &[(50e3, 1.0), (1e9, 0.5)])]);
        let error = figure(Arrangement::Stacked, vec![panel]).svg().unwrap_err();
        let expected = "latency: found 1000000000, expected 50000 to 50000000";
        assert!(error.to_string().starts_with(expected), "{error}");
        assert_eq!(figure(Arrangement::Stacked, Vec::new()).svg(), Err(ChartError::Empty));
    }

    #[test]
    fn long_and_many_names_still_leave_room_for_each_other() {
        let long = "a name that no device should have but one has all the same ".repeat(3);
        let mut panel = curves();
        panel.title = long.clone();
        let all = (0..9).map(|n| curve(&format!("{n} {long}"), n, &[(60e3, 0.5), (1e6, 0.1)]));
        panel.marks = Marks::curves(Vec::new(), all.collect());
        let names: Vec<String> = (0..40).map(|n| format!("{n} {long}")).collect();
        let mut crowd = bars();
        crowd.x = Axis::names(long.clone(), names);
        let mut figure = figure(Arrangement::SideBySide, vec![panel, crowd]);
        (figure.title, figure.subtitle, figure.notes) = (long.clone(), long.clone(), vec![long]);
        assert_eq!(faults(&figure.svg().unwrap()), Vec::<String>::new());
    }
}
