//! Typed values of options.

use super::number::{self, Amount, KbBase, TimeUnit};
use super::shown;
use crate::units::{count, list};

/// The type of an option's value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// `0` or `1`.
    Bool,
    /// Empty, `0` or `1`; empty means 1.
    Switch,
    /// An integer with fio's suffixes.
    Count,
    /// One to three numbers: reads, writes, trims.
    Counts,
    /// A size in bytes or percent.
    Size,
    Time(TimeUnit),
    /// One of these words; text after a colon is kept.
    Word(&'static [&'static str]),
    /// One to three ranges of sizes.
    Ranges,
    /// One to three splits of sizes.
    Splits,
    /// Decimal numbers, separated by colons.
    Reals,
    /// CPUs: `0,2-5`.
    Cpus,
    /// Any text that is not empty.
    Text,
    /// Any text; empty without an equals sign.
    Name,
}

/// One value each for reads, writes, trims; an absent one keeps its default.
pub type Ways<T> = [Option<T>; 3];

/// A parsed value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of [`Kind::Bool`] and [`Kind::Switch`].
    Bool(bool),
    /// Of [`Kind::Count`].
    Count(u64),
    /// Of [`Kind::Counts`].
    Counts(Ways<u64>),
    /// Of [`Kind::Size`].
    Size(Amount),
    /// Of [`Kind::Time`], ns.
    Time(u64),
    /// Of [`Kind::Word`], with the text after a colon.
    Word(&'static str, Option<String>),
    /// Of [`Kind::Ranges`], bytes.
    Ranges(Ways<(u64, u64)>),
    /// Of [`Kind::Splits`]: bytes and percent.
    Splits(Ways<Vec<(u64, f64)>>),
    /// Of [`Kind::Reals`].
    Reals(Vec<f64>),
    /// Of [`Kind::Cpus`], ascending.
    Cpus(Vec<u32>),
    /// Of [`Kind::Text`] and [`Kind::Name`].
    Text(String),
}

/// Most numbers of a list.
const MAX_LIST: usize = 1024;
/// Most sizes of a split, as in fio.
const MAX_SPLIT: usize = 64;
/// Largest CPU number.
const MAX_CPU: u32 = 8191;

/// Parses a value. `text` is `None` without an equals sign.
///
/// # Errors
/// If the text is invalid; the message says what was expected.
pub fn read(kind: Kind, text: Option<&str>, base: KbBase) -> Result<Value, String> {
    let Some(text) = text else {
        return match kind {
            Kind::Switch => Ok(Value::Bool(true)),
            Kind::Name => Ok(Value::Text(String::new())),
            _ => Err("found no value; write it after an equals sign".into()),
        };
    };
    if text.is_empty() {
        return Err("found nothing after the equals sign".into());
    }
    match kind {
        Kind::Bool | Kind::Switch => boolean(text),
        Kind::Count => number::bytes(text, base).map(Value::Count),
        Kind::Counts => ways(text, |text| number::bytes(text, base)).map(Value::Counts),
        Kind::Size => number::amount(text, base).map(Value::Size),
        Kind::Time(unit) => number::time_ns(text, unit).map(Value::Time),
        Kind::Word(words) => word(text, words),
        Kind::Ranges => ways(text, |text| range(text, base)).map(Value::Ranges),
        Kind::Splits => ways(text, |text| split(text, base)).map(Value::Splits),
        Kind::Reals => reals(text).map(Value::Reals),
        Kind::Cpus => cpus(text).map(Value::Cpus),
        Kind::Text | Kind::Name => Ok(Value::Text(text.into())),
    }
}

fn boolean(text: &str) -> Result<Value, String> {
    match text {
        "0" => Ok(Value::Bool(false)),
        "1" => Ok(Value::Bool(true)),
        _ => Err(format!("found `{}`, expected 0 or 1", shown(text))),
    }
}

/// Parses up to three comma-separated values. As in fio, an omitted value equals the previous one;
/// an empty value keeps its default, and so do omitted ones after it.
fn ways<T: Clone>(text: &str, one: impl Fn(&str) -> Result<T, String>) -> Result<Ways<T>, String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if parts.len() > 3 {
        return Err(format!(
            "found `{}`, expected at most three values: reads, writes, trims",
            shown(text)
        ));
    }
    if parts.iter().all(|part| part.is_empty()) {
        return Err(format!("found `{}`, expected a value for one way at least", shown(text)));
    }
    let mut values: Ways<T> = [None, None, None];
    let mut last = None;
    for (index, value) in values.iter_mut().enumerate() {
        last = match parts.get(index) {
            Some(&"") => None,
            Some(part) => Some(one(part)?),
            None => last,
        };
        value.clone_from(&last);
    }
    Ok(values)
}

fn word(text: &str, words: &'static [&'static str]) -> Result<Value, String> {
    let (name, rest) = match text.split_once(':') {
        Some((name, rest)) => (name.trim(), Some(rest.trim().to_string())),
        None => (text, None),
    };
    if let Some(known) = words.iter().find(|known| **known == name) {
        return Ok(Value::Word(known, rest));
    }
    let meant = count::did_you_mean(&shown(name), words.iter().copied());
    Err(format!("found `{}`, expected one of {}{meant}", shown(text), words.join(", ")))
}

fn range(text: &str, base: KbBase) -> Result<(u64, u64), String> {
    let Some((low, high)) = text.split_once(['-', ':']) else {
        return Err(format!("found `{}`, expected a range such as 4k-64k", shown(text)));
    };
    let (low, high) = (number::bytes(low.trim(), base)?, number::bytes(high.trim(), base)?);
    if low == 0 || high < low {
        return Err(format!("found `{}`, expected a range that ascends from above 0", shown(text)));
    }
    Ok((low, high))
}

/// Parses `4k/60:64k/30:1m`. Sizes without a share divide the remainder of 100 %.
fn split(text: &str, base: KbBase) -> Result<Vec<(u64, f64)>, String> {
    let entries: Vec<&str> = text.split(':').filter(|entry| !entry.is_empty()).collect();
    if entries.len() > MAX_SPLIT || entries.is_empty() {
        return Err(format!("found {} sizes, expected 1 to {MAX_SPLIT}", entries.len()));
    }
    let mut sizes: Vec<(u64, Option<u8>)> = Vec::new();
    for entry in entries {
        let (size, share) = entry.split_once('/').unwrap_or((entry, ""));
        let share = match share.trim() {
            // fio treats a share of 0 as absent.
            "" | "0" => None,
            share => match share.parse::<u8>() {
                Ok(percent) if percent <= 100 => Some(percent),
                _ => {
                    return Err(format!(
                        "found the share `{}`, expected a whole percentage up to 100",
                        shown(share)
                    ));
                }
            },
        };
        let bytes = number::bytes(size.trim(), base)?;
        if bytes == 0 {
            return Err(format!("found the size 0 in `{}`", shown(text)));
        }
        sizes.push((bytes, share));
    }
    let given: u32 = sizes.iter().filter_map(|(_, share)| *share).map(u32::from).sum();
    let open = sizes.iter().filter(|(_, share)| share.is_none()).count();
    if given > 100 || given < 100 && open == 0 || given == 100 && open > 0 {
        return Err(format!(
            "the shares of `{}` add up to {given} %{}, expected 100 %",
            shown(text),
            if open > 0 { " before the rest is divided" } else { "" }
        ));
    }
    // As in fio, each size gets a whole percentage, and the largest share (the last of equal ones)
    // gets the rounding remainder.
    let each = f64::from((100 - given).checked_div(open as u32).unwrap_or(0));
    let mut sizes: Vec<(u64, f64)> =
        sizes.into_iter().map(|(bytes, share)| (bytes, share.map_or(each, f64::from))).collect();
    let lost = 100.0 - sizes.iter().map(|(_, share)| share).sum::<f64>();
    if let Some((_, share)) = sizes.iter_mut().max_by(|a, b| a.1.total_cmp(&b.1)) {
        *share += lost;
    }
    Ok(sizes)
}

fn reals(text: &str) -> Result<Vec<f64>, String> {
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > MAX_LIST {
        return Err(format!("found {} numbers, expected at most {MAX_LIST}", parts.len()));
    }
    parts.into_iter().map(|part| number::real(part.trim())).collect()
}

/// Parses CPUs such as `0,2-5`, ascending.
pub(super) fn cpus(text: &str) -> Result<Vec<u32>, String> {
    let wrong = || format!("found `{}`, expected CPUs such as 0,2-5", shown(text));
    list::numbers(text, MAX_CPU + 1).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn value(kind: Kind, text: &str) -> Result<Value, String> {
        read(kind, Some(text), KbBase::Binary)
    }

    #[test]
    fn ways_follow_fios_commas() {
        let k = |number: u64| Some(number << 10);
        for (text, expected) in [
            ("4k", [k(4), k(4), k(4)]),
            ("4k,8k", [k(4), k(8), k(8)]),
            ("4k,8k,16k", [k(4), k(8), k(16)]),
            ("4k,8k,", [k(4), k(8), None]),
            (",8k", [None, k(8), k(8)]),
            (",8k,", [None, k(8), None]),
        ] {
            assert_eq!(value(Kind::Counts, text), Ok(Value::Counts(expected)), "{text}");
        }
        assert!(value(Kind::Counts, ",").is_err());
        assert!(value(Kind::Counts, "1,2,3,4").is_err());
        let ranges = [Some((1024, 4096)), Some((8192, 16_384)), Some((8192, 16_384))];
        assert_eq!(value(Kind::Ranges, "1k-4k,8k-16k"), Ok(Value::Ranges(ranges)));
        assert!(value(Kind::Ranges, "8k-4k").is_err());
    }

    #[test]
    fn a_split_divides_the_rest() {
        let Ok(Value::Splits([Some(read), Some(write), _])) =
            value(Kind::Splits, "4k/50:8k:16k,64k")
        else {
            panic!("a split is not read");
        };
        assert_eq!(read, [(4096, 50.0), (8192, 25.0), (16_384, 25.0)]);
        assert_eq!(write, [(65_536, 100.0)]);
        for (text, shares) in [
            ("4k:8k:16k", [33.0, 33.0, 34.0]),
            ("4k/50:8k:16k/15", [50.0, 35.0, 15.0]),
            ("4k:8k/33:16k", [33.0, 33.0, 34.0]),
            ("4k:8k/45:16k", [27.0, 46.0, 27.0]),
        ] {
            let Ok(Value::Splits([Some(read), ..])) = value(Kind::Splits, text) else {
                panic!("{text}")
            };
            let found: Vec<f64> = read.iter().map(|(_, share)| *share).collect();
            assert_eq!(found, shares, "{text}");
        }
        for (text, hint) in [
            ("4k/60:8k/60", "add up to 120 %"),
            ("4k/60:8k/30", "add up to 90 %"),
            ("4k/100:8k", "add up to 100 % before"),
            ("4k/x", "whole percentage"),
            ("0/50:4k", "the size 0"),
        ] {
            let error = value(Kind::Splits, text).unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn words_bools_lists_and_cpus() {
        const WORDS: Kind = Kind::Word(&["read", "randread"]);
        let with_rest = Value::Word("randread", Some("8".into()));
        assert_eq!(value(WORDS, "randread:8"), Ok(with_rest));
        assert!(value(WORDS, "ranread").unwrap_err().contains("did you mean `randread`?"));
        assert_eq!(read(Kind::Switch, None, KbBase::Binary), Ok(Value::Bool(true)));
        assert!(read(Kind::Bool, None, KbBase::Binary).is_err());
        assert!(value(Kind::Bool, "yes").is_err() && value(Kind::Text, "").is_err());
        assert_eq!(value(Kind::Reals, "50:99.9"), Ok(Value::Reals(vec![50.0, 99.9])));
        assert_eq!(value(Kind::Cpus, "0,3-5,4"), Ok(Value::Cpus(vec![0, 3, 4, 5])));
        assert!(value(Kind::Cpus, "0-4000000000").is_err() && value(Kind::Cpus, "3-1").is_err());
    }
}
