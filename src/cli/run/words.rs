//! Parsers for option values: lists of sizes, splits, zones, CPUs, phases. Every refusal names the
//! option, the value found, and the values accepted.

use crate::cli::exit::{About, Failure};
pub(super) use crate::cli::words::{not_one_of, size, unfit};
use iosonde_model::spec::{Draw, Phase, Zone};
use iosonde_model::units::{duration, list};

/// Longest accepted time, ns: sums of a few stay far below 64 bits.
const LONGEST_NS: u64 = 8760 * 3_600_000_000_000;

/// Parses a time in nanoseconds; a bare number is in units of `bare_ns`.
pub(super) fn time(option: &str, text: &str, bare_ns: u64) -> Result<u64, Failure> {
    let ns = duration::parse(text, bare_ns).or_wrong(option)?;
    if ns <= LONGEST_NS { Ok(ns) } else { Err(unfit(option, text, "at most a year (8760h)")) }
}

/// Parses a decimal number of 0 or more.
pub(super) fn number(option: &str, text: &str, expected: &str) -> Result<f64, Failure> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let parsed: Option<f64> = text.parse().ok().filter(|_| plain);
    parsed.ok_or_else(|| unfit(option, text, expected))
}

/// A size, or a percentage of the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Extent {
    Bytes(u64),
    Percent(u64),
}

/// Parses `64k` or `50%`.
pub(super) fn extent(option: &str, text: &str) -> Result<Extent, Failure> {
    match text.trim().strip_suffix('%') {
        None => size(option, text).map(Extent::Bytes),
        Some(digits) => match digits.parse() {
            Ok(percent) if percent <= 100 => Ok(Extent::Percent(percent)),
            _ => Err(unfit(option, text, "a size such as 1g, or 0% to 100% of the target")),
        },
    }
}

/// Parses a size with a sign: `-8k`.
pub(super) fn signed_size(option: &str, text: &str) -> Result<i64, Failure> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let length = i64::try_from(size(option, digits)?)
        .map_err(|_error| unfit(option, text, "a distance below 2^63 bytes"))?;
    Ok(sign * length)
}

/// Splits the two values of a mixed load, `READS,WRITES`, or one for both.
pub(super) fn by_way<'a>(
    option: &str,
    text: &'a str,
    mixed: bool,
) -> Result<(&'a str, Option<&'a str>), Failure> {
    let mut parts = text.split(',');
    let first = parts.next().unwrap_or("");
    match (parts.next(), parts.next()) {
        (None, _) => Ok((first, None)),
        (Some(second), None) if mixed => Ok((first, Some(second))),
        (Some(_), None) => {
            let expected = "one value: a second one is for the other direction of rw and randrw";
            Err(unfit(option, text, expected))
        }
        _ => Err(unfit(option, text, "at most two values, READS,WRITES: no load mixes in trims")),
    }
}

/// Parses `LOW-HIGH`: any multiple of LOW up to HIGH.
pub(super) fn range(option: &str, text: &str) -> Result<Draw, Failure> {
    let expected = "LOW-HIGH, such as 4k-64k";
    let (low, high) = text.split_once('-').ok_or_else(|| unfit(option, text, expected))?;
    let (low, high) = (size(option, low)?, size(option, high)?);
    if low == 0 || high < low || !high.is_multiple_of(low) {
        let expected = "LOW-HIGH where HIGH is a multiple of LOW";
        return Err(unfit(option, text, expected));
    }
    Ok(Draw::Range { low, high, step: low })
}

/// Parses `SIZE/PERCENT:…`; a missing percentage is an equal part of the rest.
pub(super) fn split(option: &str, text: &str) -> Result<Draw, Failure> {
    let expected = "SIZE/PERCENT:SIZE/PERCENT…, such as 4k/70:64k/30";
    let mut shares = Vec::new();
    for entry in text.split(':') {
        let (length, percent) = entry.split_once('/').unwrap_or((entry, ""));
        let percent = match percent {
            "" => None,
            percent => Some(number(option, percent, expected)?),
        };
        shares.push((size(option, length)?, percent));
    }
    let given: f64 = shares.iter().filter_map(|(_, percent)| *percent).sum();
    let open = shares.iter().filter(|(_, percent)| percent.is_none()).count();
    let each = (100.0 - given) / open.max(1) as f64;
    let whole = if open == 0 { (given - 100.0).abs() < 0.01 } else { each > 0.0 };
    if !whole {
        return Err(unfit(
            option,
            text,
            &format!("{expected}, of 100 % in all; here are {given} %"),
        ));
    }
    // fio permits shares of 0 percent; they are dropped.
    let shares = shares.into_iter().map(|(length, percent)| (length, percent.unwrap_or(each)));
    Ok(Draw::Split(shares.filter(|(_, percent)| *percent > 0.0).collect()))
}

/// Parses `ACCESS/SIZE:…`, both in percent.
pub(super) fn zones(option: &str, text: &str) -> Result<Vec<Zone>, Failure> {
    let expected = "zoned:ACCESS/SIZE:ACCESS/SIZE…, both in percent, such as zoned:80/20:20/80";
    text.split(':')
        .map(|entry| {
            let (access, size) =
                entry.split_once('/').ok_or_else(|| unfit(option, text, expected))?;
            Ok(Zone {
                access_percent: number(option, access, expected)?,
                size_percent: number(option, size, expected)?,
            })
        })
        .collect()
}

/// CPU numbers are below this.
const MOST_CPUS: u32 = 1024;

/// Parses `0-3,5`.
pub(super) fn cpus(option: &str, text: &str) -> Result<Vec<u32>, Failure> {
    let refused = || unfit(option, text, "numbers and ranges below 1024, such as 0-3,5");
    list::numbers(text, MOST_CPUS).ok_or_else(refused)
}

/// Parses `for=5s,rate=50,read=70`: a length, then changes in percent.
pub(super) fn phase(option: &str, text: &str) -> Result<Phase, Failure> {
    let expected = "for=TIME[,rate=PERCENT][,read=PERCENT], such as for=5s,rate=0";
    let mut phase = Phase { ns: 0, rate_percent: 100.0, ..Phase::default() };
    for word in text.split(',') {
        let (key, value) = word.split_once('=').ok_or_else(|| unfit(option, text, expected))?;
        let percent = || number(option, value.trim_end_matches('%'), expected);
        match key.trim() {
            "for" => phase.ns = time(option, value, 1_000_000_000)?,
            "rate" => phase.rate_percent = percent()?,
            "read" => match percent()? {
                percent if percent <= 100.0 => phase.read_percent = Some(percent as u8),
                _ => return Err(unfit(option, value, "0 to 100 percent of reads")),
            },
            key => return Err(not_one_of(option, key, &["for", "rate", "read"])),
        }
    }
    if phase.ns == 0 { Err(unfit(option, text, expected)) } else { Ok(phase) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn splits_fill_what_is_left_out() {
        let requested = vec![(4096, 70.0), (65_536, 30.0)];
        assert_eq!(split("-", "4k/70:64k/30").unwrap(), Draw::Split(requested.clone()));
        assert_eq!(split("-", "4k/70:64k").unwrap(), Draw::Split(requested.clone()));
        assert_eq!(split("-", "4k/70:64k/30:1m/0").unwrap(), Draw::Split(requested));
        let even = vec![(1024, 50.0), (2048, 50.0)];
        assert_eq!(split("-", "1k/:2k/").unwrap(), Draw::Split(even));
        for text in ["4k/70:64k/20", "4k/100:64k", "4k/x", "4k/70;64k/30", "", "4k/-1:8k/101"] {
            assert!(split("-", text).is_err(), "{text}");
        }
    }

    #[test]
    fn ranges_cpus_and_signs() {
        let draw = Draw::Range { low: 4096, high: 16_384, step: 4096 };
        assert_eq!(range("-", "4k-16k").unwrap(), draw);
        for text in ["4k", "16k-4k", "4k-10k", "0-4k", "4k-", "-4k"] {
            assert!(range("-", text).is_err(), "{text}");
        }
        assert_eq!(cpus("-", "0-3,5,1").unwrap(), [0, 1, 2, 3, 5]);
        for text in ["", "3-1", "0-", "a", "0-99999999", "-1"] {
            assert!(cpus("-", text).is_err(), "{text}");
        }
        assert_eq!(signed_size("-", "-8k").unwrap(), -8192);
        assert_eq!(extent("-", "50%").unwrap(), Extent::Percent(50));
        assert!(extent("-", "101%").is_err() && extent("-", "-1%").is_err());
    }

    #[test]
    fn phases() {
        let requested = Phase { ns: 5_000_000_000, rate_percent: 0.0, ..Phase::default() };
        assert_eq!(phase("-", "for=5s,rate=0").unwrap(), requested);
        let requested = Phase {
            ns: 100_000_000,
            rate_percent: 250.0,
            read_percent: Some(30),
            ..Phase::default()
        };
        assert_eq!(phase("-", "read=30,for=100ms,rate=250%").unwrap(), requested);
        for text in ["", "for=0", "rate=50", "for=1s,reed=3", "for=1s,read=101", "for=1s,rate=-1"] {
            assert!(phase("-", text).is_err(), "{text}");
        }
        assert!(phase("-", "for=1s,reed=3").unwrap_err().message.contains("did you mean `read`"));
    }
}
