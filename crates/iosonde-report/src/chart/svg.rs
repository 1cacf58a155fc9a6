//! Writes SVG: one element per line, coordinates with one decimal, every text escaped.

use iosonde_model::units::clean::clean;
use std::fmt::Write;

use super::palette::{INK, PAPER, Style};
use super::text;

/// A rectangle in the picture, in pixels from the top left corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Frame {
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
}

impl Frame {
    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// The frame without a border of these widths.
    pub(super) fn within(&self, left: f64, right: f64, top: f64, bottom: f64) -> Frame {
        Frame {
            left: self.left + left,
            top: self.top + top,
            width: self.width - left - right,
            height: self.height - top - bottom,
        }
    }

    /// Whether the two frames overlap.
    pub(super) fn meets(&self, other: &Frame) -> bool {
        self.left < other.right()
            && other.left < self.right()
            && self.top < other.bottom()
            && other.top < self.bottom()
    }

    pub(super) fn centre(&self) -> (f64, f64) {
        (self.left + self.width / 2.0, self.top + self.height / 2.0)
    }

    /// The x at a share of the width.
    pub(super) fn x(&self, share: f64) -> f64 {
        self.left + share * self.width
    }

    /// The y at a share of the height, counted from the bottom.
    pub(super) fn y(&self, share: f64) -> f64 {
        self.bottom() - share * self.height
    }
}

/// The part of a text that is at its position.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Style of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Type {
    pub size: f64,
    pub bold: bool,
    pub colour: &'static str,
}

/// A picture under construction.
#[derive(Default)]
pub(super) struct Svg {
    body: String,
    patterns: Vec<Style>,
}

impl Svg {
    /// Appends one line.
    fn line(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    /// A text whose baseline starts, ends or is centred here.
    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, kind: Type, words: &str) {
        let attributes = type_attributes(anchor, kind);
        let (x, y, words) = (number(x), number(y), escaped(words));
        self.line(&format!("<text x=\"{x}\" y=\"{y}\"{attributes}>{words}</text>"));
    }

    /// A vertical text that runs upwards, centred here.
    pub(super) fn upright(&mut self, (x, y): (f64, f64), kind: Type, words: &str) {
        let attributes = type_attributes(Anchor::Middle, kind);
        let (x, y, words) = (number(x), number(y), escaped(words));
        self.line(&format!(
            "<text x=\"{x}\" y=\"{y}\" transform=\"rotate(-90 {x} {y})\"{attributes}>{words}</text>"
        ));
    }

    /// The same inside a plot.
    pub(super) fn inside(&mut self, (x, y): (f64, f64), anchor: Anchor, kind: Type, words: &str) {
        let attributes = type_attributes(anchor, kind);
        let (x, y, words) = (number(x), number(y), escaped(words));
        self.line(&format!("<text class=\"in\" x=\"{x}\" y=\"{y}\"{attributes}>{words}</text>"));
    }

    /// Opens the area of a plot, to which everything until [`Svg::close`] belongs. `sharp` puts
    /// edges on whole pixels; otherwise the background would show between neighbouring rectangles.
    /// `scales` are attributes that describe the axes.
    pub(super) fn open_plot(&mut self, frame: Frame, sharp: bool, scales: &str) {
        self.line(if sharp { "<g shape-rendering=\"crispEdges\">" } else { "<g>" });
        self.rectangle("plot", frame, &format!("fill=\"none\" stroke=\"none\"{scales}"), "");
    }

    /// Closes the area of a plot.
    pub(super) fn close(&mut self) {
        self.line("</g>");
    }

    /// A rectangle with further attributes and a tooltip.
    pub(super) fn rectangle(&mut self, class: &str, frame: Frame, paint: &str, hover: &str) {
        // Edges are rounded, not widths, so that neighbours touch.
        let (left, top) = (rounded(frame.left), rounded(frame.top));
        let (width, height) = (rounded(frame.right()) - left, rounded(frame.bottom()) - top);
        let place = format!(
            "x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"",
            number(left),
            number(top),
            number(width),
            number(height)
        );
        self.element("rect", class, &format!("{place} {paint}"), hover);
    }

    /// A path in absolute coordinates.
    pub(super) fn path(&mut self, class: &str, d: &str, paint: &str, hover: &str) {
        self.element("path", class, &format!("d=\"{d}\" {paint}"), hover);
    }

    /// A dot on a curve; `datum` are the attributes from [`datum`].
    pub(super) fn dot(&mut self, (x, y): (f64, f64), colour: &str, datum: &str, hover: &str) {
        let place = format!("cx=\"{}\" cy=\"{}\" r=\"2.6\"", number(x), number(y));
        let paint = format!("fill=\"{colour}\" stroke=\"{PAPER}\" stroke-width=\"0.8\"{datum}");
        self.element("circle", "data", &format!("{place} {paint}"), hover);
    }

    /// A mark in the shape of a style, centred here.
    pub(super) fn mark(
        &mut self,
        class: &str,
        (x, y): (f64, f64),
        (style, radius): (Style, f64),
        paint: &str,
        hover: &str,
    ) {
        let (x, y) = (rounded(x), rounded(y));
        let corners = style.shape.corners();
        if corners.is_empty() {
            let place = format!("cx=\"{}\" cy=\"{}\" r=\"{radius}\"", number(x), number(y));
            return self.element("circle", class, &format!("{place} {paint}"), hover);
        }
        let mut d = String::new();
        for (index, (dx, dy)) in corners.iter().enumerate() {
            d.push(if index == 0 { 'M' } else { 'L' });
            d += &format!("{} {}", number(x + dx * radius), number(y + dy * radius));
        }
        d.push('Z');
        self.path(class, &d, paint, hover);
    }

    fn element(&mut self, name: &str, class: &str, attributes: &str, hover: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let attributes = attributes.trim_end();
        if hover.is_empty() {
            self.line(&format!("<{name}{class} {attributes}/>"));
        } else {
            let hover = escaped(hover);
            self.line(&format!("<{name}{class} {attributes}><title>{hover}</title></{name}>"));
        }
    }

    /// Attributes that fill an area in a style: its colour, with the hatch if the style has one.
    pub(super) fn fill(&mut self, style: Style) -> String {
        if style.hatch.is_empty() {
            return format!("fill=\"{0}\" stroke=\"{0}\"", style.colour);
        }
        if !self.patterns.contains(&style) {
            self.patterns.push(style);
        }
        format!("fill=\"url(#{})\" stroke=\"{}\"", pattern_name(style), style.colour)
    }

    /// Completes the SVG with its header and its hatches.
    pub(super) fn finish(self, title: &str, width: f64, height: f64) -> String {
        let (width, height) = (number(width.ceil()), number(height.ceil()));
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"'Liberation Sans', \
             Arial, Helvetica, 'DejaVu Sans', sans-serif\">\n<title>{}</title>\n",
            escaped(title)
        );
        if !self.patterns.is_empty() {
            out.push_str("<defs>\n");
            for style in self.patterns {
                let (name, colour, hatch) = (pattern_name(style), style.colour, style.hatch);
                let _infallible = writeln!(
                    out,
                    "<pattern id=\"{name}\" width=\"6\" height=\"6\" \
                     patternUnits=\"userSpaceOnUse\"><rect width=\"6\" height=\"6\" \
                     fill=\"{colour}\" fill-opacity=\"0.25\"/><path d=\"{hatch}\" \
                     stroke=\"{colour}\" stroke-width=\"1.6\"/></pattern>"
                );
            }
            out.push_str("</defs>\n");
        }
        let _infallible =
            writeln!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"{PAPER}\"/>");
        out.push_str(&self.body);
        out.push_str("</svg>\n");
        out
    }
}

impl Type {
    pub(super) const TITLE: Type = Type { size: 17.0, bold: true, colour: INK };
    pub(super) const PANEL: Type = Type { size: 13.0, bold: true, colour: INK };
    pub(super) const BODY: Type = Type { size: 12.0, bold: false, colour: INK };
    pub(super) const TICK: Type = Type { size: 11.0, bold: false, colour: "#333333" };
    pub(super) const LABEL: Type = Type { size: 11.0, bold: false, colour: INK };
    pub(super) const NOTE: Type = Type { size: 11.0, bold: false, colour: "#555555" };

    pub(super) fn width(self, words: &str) -> f64 {
        text::width(words, self.size, self.bold)
    }
}

fn type_attributes(anchor: Anchor, kind: Type) -> String {
    let anchor = match anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    let weight = if kind.bold { " font-weight=\"bold\"" } else { "" };
    let (size, colour) = (kind.size, kind.colour);
    format!(" text-anchor=\"{anchor}\" font-size=\"{size}\" fill=\"{colour}\"{weight}")
}

/// Attributes from which a program reads a datum: its x, its value and its series. Each begins with
/// a space.
pub(super) fn datum(x: &str, value: Option<f64>, series: &str) -> String {
    let value = value.map_or(String::new(), |value| format!(" data-y=\"{}\"", short(value)));
    format!(" data-x=\"{}\"{value} data-s=\"{}\"", escaped(x), escaped(series))
}

/// A number with six significant digits, without an exponent.
pub(super) fn short(value: f64) -> String {
    format!("{value:.5e}").parse::<f64>().unwrap_or(value).to_string()
}

/// Name of a hatch pattern. Equal patterns have equal names, so that pictures may share a page.
fn pattern_name(style: Style) -> String {
    let hatch: String = style.hatch.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("hatch-{}-{hatch}", style.colour.trim_start_matches('#'))
}

/// Rounds to a tenth of a pixel.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// A coordinate with one decimal, omitted if it is zero; never `-0`.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".into(),
        Some(whole) => whole.into(),
        None => text,
    }
}

/// Escapes a text for XML and HTML, between tags or as a quoted attribute value. Two characters
/// that XML cannot hold are left out.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in clean(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => {}
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_the_same_everywhere() {
        for (value, text) in [(1.0, "1"), (0.25, "0.2"), (-0.01, "0"), (12.96, "13"), (2.72, "2.7")]
        {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn foreign_names_stay_text() {
        let hostile = "<script>\u{1b}[0m&\"'\u{0}\u{ffff}</script>";
        assert_eq!(escaped(hostile), r"&lt;script&gt;\x1b[0m&amp;&quot;&#39;\x00&lt;/script&gt;");
        let mut svg = Svg::default();
        svg.text((1.0, 2.0), Anchor::Start, Type::BODY, hostile);
        let svg = svg.finish(hostile, 10.0, 10.0);
        assert!(!svg.contains("<script") && svg.contains("&lt;script"));
    }
}
