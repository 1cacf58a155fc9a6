//! Renders a picture as pixels with a built-in font: the same bytes on every machine.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

use super::ChartError;
use super::letters::as_paths;

/// Largest width and height, pixels.
const LARGEST: f32 = 16_384.0;

/// The PNG of a figure's SVG. `scale` is pixels per SVG unit: 2 for print and dense screens.
///
/// # Errors
/// If the text is not SVG, or a side of the picture would have no or too many pixels.
pub fn png(svg: &str, scale: f32) -> Result<Vec<u8>, ChartError> {
    let tree = Tree::from_str(&as_paths(svg)?, &Options::default())
        .map_err(|error| ChartError::Png(error.to_string()))?;
    let (width, height) = (tree.size().width() * scale, tree.size().height() * scale);
    let fits = |side: f32| (1.0..=LARGEST).contains(&side);
    if !fits(width) || !fits(height) {
        let words = format!("found {width} x {height} pixels, expected 1 to {LARGEST} each");
        return Err(ChartError::Png(words));
    }
    let mut pixels = Pixmap::new(width.ceil() as u32, height.ceil() as u32)
        .ok_or_else(|| ChartError::Png("no memory for its pixels".into()))?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| ChartError::Png(error.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn written(words: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"4000\" height=\"200\"><text x=\"9\" \
             y=\"100\" font-size=\"100\">{}</text></svg>",
            super::super::svg::escaped(words)
        )
    }

    #[test]
    fn the_same_picture_has_the_same_bytes_and_ink_on_it() {
        let svg = written("12.5 µs");
        let one = png(&svg, 0.5).unwrap();
        assert!(one.starts_with(b"\x89PNG\r\n\x1a\n"));
        assert_eq!(one, png(&svg, 0.5).unwrap());
        assert_ne!(one, png(&written("12.6 µs"), 0.5).unwrap());
        let size = |at: usize| u32::from_be_bytes(one[at..at + 4].try_into().unwrap());
        assert_eq!((size(16), size(20)), (2000, 100));
    }

    #[test]
    fn what_is_no_picture_is_an_error() {
        assert!(matches!(png("words", 1.0), Err(ChartError::Png(_))));
        for scale in [0.0, -1.0, 1e9, f32::NAN] {
            assert!(matches!(png(&written("x"), scale), Err(ChartError::Png(_))), "{scale}");
        }
    }
}
