//! The units of quantities in a script: `300us`, `4k`.

/// Nanoseconds from `0`, `100ns`, `300us`, `5ms` or `1.5s`.
pub(crate) fn duration_ns(text: &str) -> Result<u64, String> {
    let text = text.trim();
    if text == "0" {
        return Ok(0);
    }
    let scales = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let (number, scale) = scales
        .iter()
        .find_map(|(unit, scale)| text.strip_suffix(unit).map(|number| (number, *scale)))
        .ok_or_else(|| format!("duration `{text}` has no unit; write ns, us, ms or s"))?;
    let value: f64 = number.trim().parse().map_err(|_| format!("`{text}` is not a duration"))?;
    if value.is_finite() && value >= 0.0 {
        Ok((value * scale).round() as u64)
    } else {
        Err(format!("duration `{text}` is not a finite number of at least 0"))
    }
}

/// Bytes from `512`, `4k`, `1M`, `2G` or `1T`; the suffixes are binary.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let shift = match suffix {
        "" => 0,
        "k" | "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(format!("`{text}` has an unknown suffix; write k, M, G or T")),
    };
    let value: u64 = number.parse().map_err(|_| format!("`{text}` is not a number of bytes"))?;
    value.checked_mul(1 << shift).ok_or_else(|| format!("`{text}` is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_bytes_read_as_written() {
        assert_eq!(duration_ns("300us"), Ok(300_000));
        assert_eq!(duration_ns("1.5s"), Ok(1_500_000_000));
        assert_eq!(duration_ns("0"), Ok(0));
        assert_eq!(bytes("4k"), Ok(4096));
        assert_eq!(bytes("512"), Ok(512));
        for bad in ["300", "us", "-1ms", "NaNs"] {
            assert!(duration_ns(bad).is_err(), "{bad}");
        }
        for bad in ["", "1Q", "99999999999T", "-4k"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }
}
