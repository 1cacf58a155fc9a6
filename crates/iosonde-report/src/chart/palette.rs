//! Colours that remain distinguishable with colour blindness, and their equivalents in print:
//! dashes of lines, hatches of areas, lightness of a heat map.

/// Colour of texts and axes.
pub(super) const INK: &str = "#111111";
/// Background. It is always light: on a dark one, the colour ramp would be reversed.
pub(super) const PAPER: &str = "#ffffff";
/// Colour of the lines at ticks.
pub(super) const GRID: &str = "#dddddd";
/// Colour of the lines between ticks.
pub(super) const FAINT_GRID: &str = "#f0f0f0";

/// Style of one series, the same wherever it is drawn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Style {
    /// Colour, `#rrggbb`.
    pub(super) colour: &'static str,
    /// Dash pattern of its lines in SVG syntax; empty for a solid line.
    pub(super) dash: &'static str,
    /// Path of its hatch in a square of six pixels; empty for a solid fill.
    pub(super) hatch: &'static str,
    pub(super) shape: Shape,
    /// Colour of its texts: the same, darker.
    pub(super) ink: &'static str,
}

impl Style {
    /// SVG attributes of its lines.
    pub(super) fn stroke(self, width: f64) -> String {
        let dash = match self.dash {
            "" => String::new(),
            dash => format!(" stroke-dasharray=\"{dash}\""),
        };
        format!("fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"{dash}", self.colour)
    }
}

/// The mark of a point.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
    Inverted,
    Pentagon,
    Bar,
}

impl Shape {
    /// Corners around the centre, clockwise, for a radius of one. A circle has none.
    pub(super) fn corners(self) -> &'static [(f64, f64)] {
        match self {
            Shape::Circle => &[],
            Shape::Square => &[(-0.95, -0.95), (0.95, -0.95), (0.95, 0.95), (-0.95, 0.95)],
            Shape::Triangle => &[(0.0, -1.25), (1.2, 0.95), (-1.2, 0.95)],
            Shape::Diamond => &[(0.0, -1.35), (1.35, 0.0), (0.0, 1.35), (-1.35, 0.0)],
            Shape::Inverted => &[(0.0, 1.25), (-1.2, -0.95), (1.2, -0.95)],
            Shape::Pentagon => {
                &[(0.0, -1.2), (1.15, -0.35), (0.7, 1.0), (-0.7, 1.0), (-1.15, -0.35)]
            }
            Shape::Bar => &[(-1.4, -0.5), (1.4, -0.5), (1.4, 0.5), (-1.4, 0.5)],
        }
    }
}

const fn look(
    colour: &'static str,
    ink: &'static str,
    shape: Shape,
    dash: &'static str,
    hatch: &'static str,
) -> Style {
    Style { colour, dash, hatch, shape, ink }
}

/// Okabe and Ito, "Color Universal Design" (2008). Yellow is omitted, since it is hard to see on
/// white, and grey replaces black, which is the ink.
const STYLES: [Style; 7] = [
    look("#0072b2", "#00588a", Shape::Circle, "", ""),
    look("#d55e00", "#a84a00", Shape::Square, "7 3", "M0 6L6 0"),
    look("#009e73", "#00714f", Shape::Triangle, "2 2.5", "M0 3H6"),
    look("#cc79a7", "#9b4674", Shape::Diamond, "8 3 2 3", "M0 0L6 6"),
    look("#e69f00", "#855b00", Shape::Inverted, "12 4", "M3 0V6"),
    look("#56b4e9", "#1c6a96", Shape::Pentagon, "5 2 1.5 2 1.5 2", "M0 3H6M3 0V6"),
    look("#555555", "#444444", Shape::Bar, "3 3", "M0 0L6 6M0 6L6 0"),
];

/// Style of settings without a value: failed or not reached.
pub(super) const NOTHING: Style = look("#8a8a8a", "#444444", Shape::Circle, "", "M0 6L6 0");
/// Colour of lines across a plot.
pub(super) const ACROSS: &str = "#444444";

/// The style of a series by its number; the eighth is the same as the first.
pub fn style(number: usize) -> Style {
    STYLES[number % STYLES.len()]
}

/// `colour` mixed with a share of white (`with` = 255) or black (0).
pub(super) fn shaded(colour: &str, with: f64, share: f64) -> String {
    let part = |at: usize| {
        let own = colour.get(at..at + 2).and_then(|part| u8::from_str_radix(part, 16).ok());
        let own = f64::from(own.unwrap_or(0));
        (own + (with - own) * share).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", part(1), part(3), part(5))
}

/// Viridis (van der Walt and Smith, CC0) from its light end to its dark end, at equal distances.
/// Lightness falls monotonically, so that more is darker in print too.
const RAMP: [(f64, f64, f64); 9] = [
    (253.0, 231.0, 37.0),
    (173.0, 220.0, 48.0),
    (94.0, 201.0, 98.0),
    (40.0, 174.0, 128.0),
    (33.0, 145.0, 140.0),
    (44.0, 114.0, 142.0),
    (59.0, 82.0, 139.0),
    (71.0, 44.0, 122.0),
    (68.0, 1.0, 84.0),
];

/// Text colour on the ramp colour of this share.
pub(super) fn on_ramp(share: f64) -> &'static str {
    if share < 0.55 { INK } else { PAPER }
}

/// Ramp colour of a share of the scale, `0..=1`.
pub(super) fn ramp(share: f64) -> String {
    let along = share.clamp(0.0, 1.0) * (RAMP.len() - 1) as f64;
    let index = (along.floor() as usize).min(RAMP.len() - 2);
    let (from, to, part) = (RAMP[index], RAMP[index + 1], along - index as f64);
    let between = |from: f64, to: f64| (from + (to - from) * part).round() as u8;
    format!(
        "#{:02x}{:02x}{:02x}",
        between(from.0, to.0),
        between(from.1, to.1),
        between(from.2, to.2)
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Relative luminance as defined in WCAG 2.
    fn luminance(colour: &str) -> f64 {
        let part = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    #[test]
    fn more_is_darker_all_the_way() {
        let ramp: Vec<f64> = (0..=64).map(|i| luminance(&ramp(f64::from(i) / 64.0))).collect();
        assert!(ramp.windows(2).all(|pair| pair[1] < pair[0]), "{ramp:?}");
    }

    #[test]
    fn a_shade_lies_between_the_colour_and_white_or_black() {
        assert_eq!(shaded("#0072b2", 255.0, 0.0), "#0072b2");
        assert_eq!(shaded("#0072b2", 255.0, 1.0), "#ffffff");
        assert_eq!(shaded("#0064c8", 0.0, 0.5), "#003264");
    }

    #[test]
    fn words_can_be_read_on_every_colour_of_the_ramp() {
        for share in (0..=64).map(|i| f64::from(i) / 64.0) {
            let (one, other) = (luminance(&ramp(share)), luminance(on_ramp(share)));
            let contrast = (one.max(other) + 0.05) / (one.min(other) + 0.05);
            assert!(contrast > 4.0, "{share}: {contrast}");
        }
    }

    #[test]
    fn series_differ_without_their_colour_and_stand_out_from_the_ground() {
        for (index, one) in STYLES.iter().enumerate() {
            let contrast = 1.05 / (luminance(one.colour) + 0.05);
            assert!(contrast > 2.0, "{}: {contrast}", one.colour);
            for other in &STYLES[..index] {
                assert!(one.dash != other.dash && one.hatch != other.hatch);
                assert!(one.shape != other.shape);
            }
            let contrast = 1.05 / (luminance(one.ink) + 0.05);
            assert!(contrast > 4.5, "{}: {contrast}", one.ink);
        }
    }
}
