//! fio's quantities. If fio would read a text differently from its obvious meaning (`1.5g` is one
//! byte, `10sec` ten microseconds), the text is rejected with a correct alternative.

use super::expression::{self, Dimension};
use super::shown;

/// The meaning of `k`: fio's `kb_base`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum KbBase {
    /// `k` and `kb` are 1024, `kib` is 1000.
    #[default]
    Binary,
    /// `k` and `kb` are 1000, `kib` is 1024.
    Decimal,
}

/// A size in bytes or as a share of the target.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Amount {
    Bytes(u64),
    /// Percent of the target.
    Percent(u8),
}

/// The unit of a time without one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TimeUnit {
    /// Seconds, as for `runtime`.
    Seconds,
    /// Microseconds, as for `thinktime`.
    Micros,
}

/// Parses a size, or a count with fio's suffixes.
///
/// # Errors
/// If the text is invalid; the message has an alternative.
pub fn bytes(text: &str, base: KbBase) -> Result<u64, String> {
    match amount(text, base)? {
        Amount::Bytes(bytes) => Ok(bytes),
        Amount::Percent(_) => {
            Err(format!("found `{}`: a percentage is not allowed here", shown(text)))
        }
    }
}

/// Parses a size, or a percentage of the target.
///
/// # Errors
/// If the text is invalid; the message has an alternative.
pub fn amount(text: &str, base: KbBase) -> Result<Amount, String> {
    if text.starts_with('(') {
        return sum_of_bytes(text, base).map(Amount::Bytes);
    }
    let (number, unit) = split(text, "a size such as 4096, 4k, 1g or 50%")?;
    if unit == "%" {
        return match u8::try_from(number) {
            Ok(percent) if percent <= 100 => Ok(Amount::Percent(percent)),
            _ => Err(format!("found `{}`, expected at most 100%", shown(text))),
        };
    }
    let (bare, iec) = match base {
        KbBase::Binary => (1024u64, 1000u64),
        KbBase::Decimal => (1000, 1024),
    };
    let unit = unit.to_ascii_lowercase();
    let powers = [("k", 1), ("m", 2), ("g", 3), ("t", 4), ("p", 5)];
    let power = |letter: &str| powers.iter().find(|(name, _)| *name == letter).map(|(_, n)| *n);
    let scale = if unit.is_empty() || unit == "b" {
        1
    } else if let Some(power) = power(unit.strip_suffix('b').unwrap_or(&unit)) {
        bare.pow(power)
    } else if let Some(power) = unit.strip_suffix("ib").and_then(power) {
        iec.pow(power)
    } else if let Some(power) = unit.strip_suffix('i').and_then(power) {
        // fio reads only the letter, contrary to its manual.
        bare.pow(power)
    } else {
        return Err(format!(
            "found the unit `{}` in `{}`, expected k, m, g, t or p, alone or with b or ib",
            shown(&unit),
            shown(text)
        ));
    };
    let bytes = number.checked_mul(scale).filter(|bytes| i64::try_from(*bytes).is_ok());
    bytes.map(Amount::Bytes).ok_or_else(|| format!("`{}` exceeds 63 bits", shown(text)))
}

/// Parses a time into ns.
///
/// # Errors
/// If the text is invalid; the message has an alternative.
pub fn time_ns(text: &str, unit: TimeUnit) -> Result<u64, String> {
    let micros = if text.starts_with('(') {
        sum_of_time(text, unit)?
    } else {
        let (number, given) = split(text, "a time such as 10, 10s, 500ms or 2m")?;
        let scale: u64 = match given.to_ascii_lowercase().as_str() {
            "" if unit == TimeUnit::Seconds => 1_000_000,
            "" | "us" | "usec" => 1,
            "ms" | "msec" => 1_000,
            "s" => 1_000_000,
            "m" => 60_000_000,
            "h" => 3_600_000_000,
            "d" => 86_400_000_000,
            _ => {
                return Err(format!(
                    "found the unit `{}` in `{}`, expected us, ms, s, m, h or d \
                     (fio reads any other as microseconds)",
                    shown(given),
                    shown(text)
                ));
            }
        };
        number.checked_mul(scale).ok_or_else(|| format!("`{}` exceeds 64 bits", shown(text)))?
    };
    micros.checked_mul(1000).ok_or_else(|| format!("`{}` exceeds 64 bits", shown(text)))
}

/// Parses a number with a decimal point, such as a percentile.
///
/// # Errors
/// If the text is not a finite number.
pub fn real(text: &str) -> Result<f64, String> {
    let plain = text.chars().all(|c| c.is_ascii_digit() || ".eE+-".contains(c));
    match text.parse::<f64>() {
        Ok(number) if plain && number.is_finite() => Ok(number),
        _ => Err(format!("found `{}`, expected a number", shown(text))),
    }
}

fn sum_of_bytes(text: &str, base: KbBase) -> Result<u64, String> {
    let sum = expression::evaluate(text, Some(Dimension::Bytes)).map_err(in_sum(text))?;
    if sum.has_unit && base == KbBase::Decimal {
        return Err(format!(
            "`{}`: kb_base does not reach into parentheses, where k is 1024; write plain numbers",
            shown(text)
        ));
    }
    not_cut_off(text, &sum, 1)?;
    u64::try_from(sum.whole).map_err(|_error| format!("`{}` is below zero", shown(text)))
}

fn sum_of_time(text: &str, unit: TimeUnit) -> Result<u64, String> {
    let sum = expression::evaluate(text, Some(Dimension::Time)).map_err(in_sum(text))?;
    let implied: i64 = if unit == TimeUnit::Seconds { 1_000_000 } else { 1 };
    not_cut_off(text, &sum, implied)?;
    let micros = if sum.has_unit { sum.whole } else { sum.whole * implied };
    let micros =
        u64::try_from(micros).map_err(|_error| format!("`{}` is below zero", shown(text)))?;
    // If a bare number is in seconds, fio truncates an expression to whole seconds.
    if unit == TimeUnit::Seconds && !micros.is_multiple_of(1_000_000) {
        return Err(format!(
            "`{}`: fio cuts a sum down to whole seconds here; write it without parentheses",
            shown(text)
        ));
    }
    Ok(micros)
}

fn in_sum(text: &str) -> impl Fn(String) -> String + '_ {
    move |what| format!("`{}`: {what}", shown(text))
}

/// Rejects an expression without a unit that exceeds the 32 bits that fio keeps.
fn not_cut_off(text: &str, sum: &expression::Sum, implied: i64) -> Result<(), String> {
    let scaled = sum.value * implied as f64;
    if sum.has_unit || scaled.abs() <= f64::from(i32::MAX) {
        return Ok(());
    }
    Err(format!(
        "`{}`: fio keeps 32 bits of a sum without a unit; write one into it, such as 4g or 2h",
        shown(text)
    ))
}

/// Splits `12ms` into 12 and `ms`; accepts hexadecimal after `0x`.
fn split<'a>(text: &'a str, expected: &str) -> Result<(u64, &'a str), String> {
    let text = text.trim();
    let too_large = || format!("`{}` exceeds 63 bits", shown(text));
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        let plain = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit());
        if !plain {
            return Err(format!("found `{}`, expected hexadecimal digits alone", shown(text)));
        }
        return match u64::from_str_radix(digits, 16) {
            Ok(number) if i64::try_from(number).is_ok() => Ok((number, "")),
            _ => Err(too_large()),
        };
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() {
        return Err(format!("found `{}`, expected {expected}", shown(text)));
    }
    if rest.starts_with('.') {
        return Err(format!(
            "found `{}`: fio ignores what follows the point; write a whole number, or a sum in \
             parentheses",
            shown(text)
        ));
    }
    let number: i64 = digits.parse().map_err(|_error| too_large())?;
    Ok((number.unsigned_abs(), rest))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Both columns as fio 3.33 reads them.
    #[test]
    fn the_size_table_is_fios() {
        for (text, binary, decimal) in [
            ("4096", 4096, 4096),
            ("512b", 512, 512),
            ("4k", 4096, 4000),
            ("4K", 4096, 4000),
            ("4kb", 4096, 4000),
            ("4KB", 4096, 4000),
            ("4kib", 4000, 4096),
            ("4Ki", 4096, 4000),
            ("4KiB", 4000, 4096),
            ("1m", 1 << 20, 1_000_000),
            ("1mib", 1_000_000, 1 << 20),
            ("2g", 2 << 30, 2_000_000_000),
            ("1gib", 1_000_000_000, 1 << 30),
            ("1t", 1 << 40, 1_000_000_000_000),
            ("1p", 1 << 50, 1_000_000_000_000_000),
            ("0x1000", 4096, 4096),
            ("(4*1024)", 4096, 4096),
        ] {
            assert_eq!(bytes(text, KbBase::Binary), Ok(binary), "{text}");
            assert_eq!(bytes(text, KbBase::Decimal), Ok(decimal), "{text}");
        }
        assert_eq!(amount("50%", KbBase::Binary), Ok(Amount::Percent(50)));
        assert_eq!(bytes("(3g+1m)", KbBase::Binary), Ok((3 << 30) + (1 << 20)));
    }

    #[test]
    fn the_default_unit_of_a_time_depends_on_the_option() {
        for (text, seconds, micros) in [
            ("10", 10_000_000_000, 10_000),
            ("10s", 10_000_000_000, 10_000_000_000),
            ("10ms", 10_000_000, 10_000_000),
            ("10us", 10_000, 10_000),
            ("10usec", 10_000, 10_000),
            ("2m", 120_000_000_000, 120_000_000_000),
            ("1h", 3_600_000_000_000, 3_600_000_000_000),
            ("1D", 86_400_000_000_000, 86_400_000_000_000),
            ("(2*5)", 10_000_000_000, 10_000),
            ("(1m+30s)", 90_000_000_000, 90_000_000_000),
        ] {
            assert_eq!(time_ns(text, TimeUnit::Seconds), Ok(seconds), "{text}");
            assert_eq!(time_ns(text, TimeUnit::Micros), Ok(micros), "{text}");
        }
    }

    #[test]
    fn what_fio_would_misread_is_refused() {
        for (text, hint) in [
            ("1.5g", "ignores what follows the point"),
            ("4x", "found the unit `x`"),
            ("4k-64k", "found the unit `k-64k`"),
            ("0x10k", "hexadecimal digits alone"),
            ("101%", "at most 100%"),
            ("-1", "expected a size"),
            ("", "expected a size"),
            ("99999999999999999999", "exceeds 63 bits"),
            ("9999999999p", "exceeds 63 bits"),
            ("(1-2)", "below zero"),
            ("(1024*1024*4096)", "32 bits"),
        ] {
            let error = amount(text, KbBase::Binary).unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
        for (text, hint) in [
            ("10sec", "reads any other as microseconds"),
            ("10min", "reads any other as microseconds"),
            ("(60*60)", "32 bits"),
            ("(500ms)", "whole seconds"),
            ("300000d", "exceeds 64 bits"),
        ] {
            let error = time_ns(text, TimeUnit::Seconds).unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
        assert!(amount("(2k)", KbBase::Decimal).unwrap_err().contains("kb_base"));
        assert!(real("nan").is_err() && real("inf").is_err() && real("1.2").is_ok());
    }
}
