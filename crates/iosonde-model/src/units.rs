//! Parsing and formatting of quantities.
//!
//! One rule for the whole program: a bare suffix and an IEC suffix are binary (`4k` = `4KiB` =
//! 4096), `kB`, `MB`, `GB` are decimal. Bandwidth is shown in MB/s of 10^6 bytes. Internally, all
//! values are integer bytes and nanoseconds, with the unit in the name.

pub mod bytes;
pub mod clean;
pub mod count;
pub mod duration;
pub mod list;
pub mod shell;
#[macro_use]
mod words;

use serde::{Deserialize, de};

/// Why a quantity was not understood.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum UnitError {
    /// The text is empty.
    #[error("found nothing, expected {expected}")]
    Empty { expected: &'static str },
    /// The text is not a number.
    #[error("found `{found}`, expected {expected}")]
    Malformed { found: String, expected: &'static str },
    /// The unit is unknown.
    #[error("found the unit `{unit}` in `{found}`, expected {expected}")]
    Unit {
        found: String,
        /// The text after the number.
        unit: String,
        expected: &'static str,
    },
    /// The value exceeds 64 bits.
    #[error("`{found}` is too large")]
    Overflow { found: String },
}

/// A quantity in a file: a number, or a string with a unit.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a whole number, or a text with a unit")]
enum Quantity {
    Number(u64),
    Text(String),
}

impl Quantity {
    fn read<E: de::Error>(self, parse: fn(&str) -> Result<u64, UnitError>) -> Result<u64, E> {
        match self {
            Quantity::Number(number) => Ok(number),
            Quantity::Text(text) => parse(&text).map_err(E::custom),
        }
    }
}

/// Splits `12.5ms` into number and unit. The number has at most one point, no sign, no exponent.
fn split<'a>(text: &'a str, expected: &'static str) -> Result<(&'a str, &'a str), UnitError> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err(UnitError::Empty { expected });
    }
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let points = number.matches('.').count();
    if number.is_empty() || points > 1 || number == "." {
        return Err(UnitError::Malformed { found: trimmed.into(), expected });
    }
    Ok((number, unit.trim_start()))
}

/// `number * scale`, exactly, rounding a fraction of a unit down.
fn scaled(number: &str, scale: u64, found: &str) -> Result<u64, UnitError> {
    let overflow = || UnitError::Overflow { found: found.into() };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 =
        if whole.is_empty() { 0 } else { whole.parse().map_err(|_error| overflow())? };
    let mut total = u128::from(whole) * u128::from(scale);
    // The eighteenth digit is the last that matters: scale is below 10^19.
    let digits = &fraction[..fraction.len().min(18)];
    if !digits.is_empty() {
        let part: u64 = digits.parse().map_err(|_error| overflow())?;
        let power = 10u128.pow(u32::try_from(digits.len()).unwrap_or(18));
        total += u128::from(part) * u128::from(scale) / power;
    }
    u64::try_from(total).map_err(|_error| overflow())
}
