//! Sizes and bandwidths.

use serde::{Deserialize, Deserializer};

use super::{Quantity, UnitError, count, scaled, split};

const EXPECTED: &str = "a size such as 4096, 4k, 4KiB (both 4096) or 4kB (4000)";

/// Units in ascending order: bare and IEC are binary, SI is decimal.
const UNITS: [(&str, u64); 21] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1_000),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("tb", 1_000_000_000_000),
    ("p", 1 << 50),
    ("pib", 1 << 50),
    ("pb", 1_000_000_000_000_000),
    ("e", 1 << 60),
    ("eib", 1 << 60),
    ("eb", 1_000_000_000_000_000_000),
    ("bytes", 1),
];

/// Reads a size in bytes: `4k`, `1.5GiB`, `512`, `4kB`. Case does not matter.
///
/// # Errors
/// If the text is empty, signed, not a number of whole bytes, of unknown unit, or beyond 64 bits.
pub fn parse(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split(text, EXPECTED)?;
    let wanted = unit.to_ascii_lowercase();
    let is_whole = number.split_once('.').is_none_or(|(_, part)| part.bytes().all(|c| c == b'0'));
    match UNITS.iter().find(|(name, _)| *name == wanted) {
        Some((_, 1)) if !is_whole => {
            Err(UnitError::Malformed { found: text.into(), expected: "whole bytes" })
        }
        Some((_, scale)) => scaled(number, *scale, text),
        None => Err(UnitError::Unit { found: text.into(), unit: unit.into(), expected: EXPECTED }),
    }
}

const BINARY: [(u64, &str); 4] =
    [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];

/// An exact size in the largest binary unit that divides it: `4 KiB`, `1 GiB`, `1,000 B`.
pub fn exact(bytes: u64) -> String {
    for (scale, name) in BINARY {
        if bytes >= scale && bytes.is_multiple_of(scale) {
            return format!("{} {name}", count::thousands(bytes / scale));
        }
    }
    format!("{} B", count::thousands(bytes))
}

/// A size to three significant digits in a binary unit: `79.6 GiB`.
pub fn rough(bytes: u64) -> String {
    for (scale, name) in BINARY {
        if bytes >= scale {
            return format!("{} {name}", count::significant(bytes as f64 / scale as f64));
        }
    }
    format!("{bytes} B")
}

/// A bandwidth in MB/s of 10^6 bytes: whole numbers with separators from 100 on, else three digits.
pub fn per_second(bytes_per_s: f64) -> String {
    format!("{} MB/s", count::significant_or_whole(bytes_per_s / 1e6))
}

/// For `#[serde(deserialize_with)]`: a size as a string with a unit, or as a plain integer.
///
/// # Errors
/// If the value is neither, or [`parse`] rejects it.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Quantity::deserialize(from)?.read(parse)
}

/// Like [`deserialize`], for a field that may be absent or null.
///
/// # Errors
/// As [`deserialize`].
pub fn deserialize_option<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Option::<Quantity>::deserialize(from)?.map(|given| given.read(parse)).transpose()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn bare_and_iec_are_binary_and_si_is_decimal() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("4k", 4096),
            ("4K", 4096),
            ("4KiB", 4096),
            ("4kB", 4000),
            ("1.5g", 3 << 29),
            ("1 GiB", 1 << 30),
            ("1GB", 1_000_000_000),
            ("15t", 15 << 40),
            ("0.1k", 102),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in
            ["", " ", "-1", "+1", "1Q", "nan", "inf", "1e3", "0x10", "1..2", ".", "k", "1kk"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(matches!(parse("99999999t"), Err(UnitError::Overflow { .. })));
        assert!(matches!(parse("99999999999999999999999"), Err(UnitError::Overflow { .. })));
    }

    #[test]
    fn exact_sizes_read_back() {
        for bytes in [1u64, 512, 1000, 4096, 4097, 1 << 20, 3 << 30, (1 << 40) + 1] {
            let text = exact(bytes).replace(',', "");
            assert_eq!(parse(&text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn bandwidth_is_decimal() {
        assert_eq!(per_second(1_847.4e6), "1,847 MB/s");
        assert_eq!(per_second(12.34e6), "12.3 MB/s");
        assert_eq!(per_second(0.0), "0 MB/s");
    }
}
