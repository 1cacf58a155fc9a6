//! Converts the texts of a picture to outlines of letters, so that rendering needs no font.

use resvg::usvg::roxmltree::{Document, Node};
use ttf_parser::{Face, OutlineBuilder};

use super::ChartError;

/// DejaVu Sans, reduced to the characters that figures use; its licence is in the same folder.
const REGULAR: &[u8] = include_bytes!("../../../../assets/fonts/DejaVuSans.subset.ttf");
const BOLD: &[u8] = include_bytes!("../../../../assets/fonts/DejaVuSans-Bold.subset.ttf");

/// The same SVG with a path in place of each text. It reads the attributes that our own pictures
/// write, and ignores styles inherited from parent elements.
///
/// # Errors
/// If it is not SVG, or a text has no position or size.
pub(super) fn as_paths(svg: &str) -> Result<String, ChartError> {
    let document = Document::parse(svg).map_err(|error| ChartError::Png(error.to_string()))?;
    let mut out = String::with_capacity(2 * svg.len());
    let mut copied = 0;
    for node in document.descendants().filter(|node| node.has_tag_name("text")) {
        let place = node.range();
        out += svg.get(copied..place.start).unwrap_or_default();
        out += &path(node)?;
        copied = place.end;
    }
    out += svg.get(copied..).unwrap_or_default();
    Ok(out)
}

/// Converts one text to a path.
fn path(text: Node) -> Result<String, ChartError> {
    let number = |name: &str| {
        text.attribute(name).and_then(|found| found.parse::<f32>().ok()).ok_or_else(|| {
            ChartError::Png(format!("found a text without {name}, expected a number"))
        })
    };
    let (x, y, size) = (number("x")?, number("y")?, number("font-size")?);
    let mut line = Line::new(text.attribute("font-weight") == Some("bold"), size)?;
    line.write(text.text().unwrap_or_default());
    let left = match text.attribute("text-anchor") {
        Some("middle") => x - line.width / 2.0,
        Some("end") => x - line.width,
        _ => x,
    };
    let around = text.attribute("transform").unwrap_or_default();
    let fill = text.attribute("fill").unwrap_or("#000000");
    let d = line.d;
    Ok(format!("<path transform=\"{around} translate({left} {y})\" fill=\"{fill}\" d=\"{d}\"/>"))
}

/// A line of letters that begins at the origin.
struct Line {
    face: Face<'static>,
    /// Picture units per font unit.
    scale: f32,
    /// Advance width of the letters so far, picture units.
    width: f32,
    /// Outlines of the letters, as path data.
    d: String,
}

impl Line {
    fn new(is_bold: bool, size: f32) -> Result<Line, ChartError> {
        let face = Face::parse(if is_bold { BOLD } else { REGULAR }, 0)
            .map_err(|error| ChartError::Png(error.to_string()))?;
        let scale = size / f32::from(face.units_per_em());
        Ok(Line { face, scale, width: 0.0, d: String::new() })
    }

    /// Appends words; a character that the font lacks is drawn as an empty box.
    fn write(&mut self, words: &str) {
        let face = self.face.clone();
        for character in words.chars() {
            let glyph = face.glyph_index(character).unwrap_or_default();
            // A space has no outline.
            let _bounds = face.outline_glyph(glyph, self);
            self.width += f32::from(face.glyph_hor_advance(glyph).unwrap_or(0)) * self.scale;
        }
    }

    /// Appends a path command with its points.
    fn push(&mut self, command: char, points: &[(f32, f32)]) {
        self.d.push(command);
        for (x, y) in points {
            self.d += &format!("{:.2} {:.2} ", self.width + x * self.scale, -y * self.scale);
        }
    }
}

impl OutlineBuilder for Line {
    fn move_to(&mut self, x: f32, y: f32) {
        self.push('M', &[(x, y)]);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.push('L', &[(x, y)]);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.push('Q', &[(x1, y1), (x, y)]);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.push('C', &[(x1, y1), (x2, y2), (x, y)]);
    }

    fn close(&mut self) {
        self.push('Z', &[]);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::text;
    use super::*;

    /// Width of a text in the font of the PNG, at 100 pixels.
    fn drawn_width(words: &str, is_bold: bool) -> f64 {
        let mut line = Line::new(is_bold, 100.0).unwrap();
        line.write(words);
        f64::from(line.width)
    }

    #[test]
    fn no_text_is_wider_than_it_was_thought_to_be() {
        for one in (' '..='~').chain("µ·–…×→≥≤±σ".chars()) {
            for is_bold in [false, true] {
                let words = format!("x{one}");
                let drawn = drawn_width(&words, is_bold);
                let thought = text::width(&words, 100.0, is_bold);
                assert!(drawn > 59.0 && drawn <= thought + 0.5, "{words}: {drawn} > {thought}");
            }
        }
    }

    #[test]
    fn each_character_of_figures_is_in_both_fonts() {
        for is_bold in [false, true] {
            let face = Line::new(is_bold, 1.0).unwrap().face;
            for one in (' '..='~').chain("µ·–…×→≥≤±σ".chars()) {
                assert!(face.glyph_index(one).is_some(), "{one}");
            }
        }
    }

    #[test]
    fn a_text_becomes_a_path_where_it_stood() {
        let text = |attributes: &str, words: &str| {
            format!("<svg><g/><text x=\"50\" y=\"8\"{attributes}>{words}</text><rect/></svg>")
        };
        let ten = " font-size=\"10\"";
        let dash = as_paths(&text(ten, "-")).unwrap();
        assert!(dash.starts_with("<svg><g/><path transform=\" translate(50 8)\""), "{dash}");
        assert!(dash.ends_with("Z\"/><rect/></svg>"), "{dash}");
        // An escaped character is one letter, and a hyphen is a rectangle.
        let letters = |svg: &str| svg.matches('Z').count();
        assert_eq!((letters(&dash), dash.matches('L').count()), (1, 4));
        assert_eq!(letters(&as_paths(&text(ten, "&lt;-")).unwrap()), 2);
        // Start of two hyphens of 3.61 units each, anchored at the middle and at the end.
        for (anchor, left) in [("middle", 46.39), ("end", 42.78)] {
            let placed = as_paths(&text(&format!("{ten} text-anchor=\"{anchor}\""), "--")).unwrap();
            let found: f64 = placed
                .split("translate(")
                .nth(1)
                .and_then(|rest| rest.split(' ').next())
                .unwrap()
                .parse()
                .unwrap();
            assert!((found - left).abs() < 0.01, "{placed}");
        }
        assert!(as_paths(&text("", "no size")).is_err());
    }
}
