//! Draws points, scales and labels as SVG, without fonts, libraries or network access. PNG is
//! rendered from the SVG with a built-in font (feature `png`).
//!
//! This module is pure: the same data gives the same text on every machine. It never clips a value
//! to the edge of its scale, and escapes every text.
//!
//! A [`Figure`] consists of panels. A [`Panel`] has two axes and marks: a [`Plot`] of curves and
//! measured points, a heat map, bars or towers. Scales are fitted to the data, so nothing is
//! clipped.
//! Each shape has a `<title>` with its meaning, which browsers show as a tooltip.

mod annotation;
mod axis;
mod bars;
mod curves;
mod figure;
mod heat;
#[cfg(feature = "png")]
mod letters;
mod palette;
mod panel;
#[cfg(test)]
mod pictures;
mod placing;
mod plot;
#[cfg(feature = "png")]
mod png;
mod quantity;
#[cfg(test)]
pub(crate) mod reading;
mod scale;
mod svg;
mod text;
mod towers;

pub use annotation::{Annotation, Callout, Marker, merge_annotations};
pub use axis::Axis;
pub use bars::{Bar, BarSeries, Bars};
pub use curves::{Band, Curve, unbroken};
pub use figure::{Arrangement, Figure};
pub use heat::{Cell, HeatMap, Missing};
pub use palette::{Style, style};
pub use panel::{Marks, Panel};
pub use plot::{Edge, Line, Measured, Plot, Point};
pub use quantity::Quantity;
pub use scale::{Kind, Scale};
pub(crate) use svg::escaped;
pub(crate) use text::{shortened, wrapped};
pub use towers::{Tower, Towers};

#[cfg(feature = "png")]
pub use png::png;

/// Stands in for PNG rendering in a build without it.
///
/// # Errors
/// Always.
#[cfg(not(feature = "png"))]
pub fn png(_svg: &str, _scale: f32) -> Result<Vec<u8>, ChartError> {
    Err(ChartError::Png("this program was built without PNG".into()))
}

/// Why a figure cannot be drawn.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChartError {
    /// Stacks of functions from which no flame graph can be made.
    #[error("the stacks cannot be drawn: {0}")]
    Stacks(String),
    /// There is no value to fit a scale to.
    #[error("found no value to draw, expected at least one")]
    Empty,
    /// NaN or infinite.
    #[error("found {value}, expected a finite number")]
    NotFinite { value: f64 },
    /// Zero or less on a logarithmic scale.
    #[error("found {value} on a logarithmic scale, expected more than zero")]
    NotPositive { value: f64 },
    /// One or more on a scale of nines.
    #[error("found {value} on a scale of nines, expected a share from 0 to less than 1")]
    NotBelowOne { value: f64 },
    /// A value outside its scale.
    #[error("{axis}: found {value}, expected {from} to {to}; fit the scale to all values")]
    Outside {
        axis: String,
        value: f64,
        /// Lower end of the scale.
        from: f64,
        /// Upper end of the scale.
        to: f64,
    },
    /// A mark for the right axis in a plot without one.
    #[error("found {what} for the right axis, expected the plot to have one")]
    NoRightAxis { what: String },
    /// An SVG that cannot be rendered as pixels.
    #[error("found a picture that cannot be turned into PNG: {0}")]
    Png(String),
}
