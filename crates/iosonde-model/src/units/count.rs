//! Formatting of numbers.

/// `1234567` as `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count with its noun: `1 job`, `1,200 jobs`.
pub fn of(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", thousands(number))
}

/// Three significant digits, without an exponent: `0.0123`, `1.23`, `12.3`, `123`, `1,230`.
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return "n/a".into();
    }
    if value == 0.0 {
        return "0".into();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let step = 10f64.powi(2 - magnitude);
    let rounded = (value * step).round() / step;
    // Rounding may carry into the next decade: 9.996 -> 10.0.
    let magnitude = rounded.abs().log10().floor() as i32;
    if magnitude >= 2 {
        let whole = thousands(rounded.abs().round() as u64);
        return if rounded < 0.0 { format!("-{whole}") } else { whole };
    }
    format!("{rounded:.*}", usize::try_from(2 - magnitude).unwrap_or(0).min(12))
}

/// A whole number with separators from 100 on, three significant digits below.
pub fn significant_or_whole(value: f64) -> String {
    if value >= 99.95 && value.is_finite() {
        thousands(value.round() as u64)
    } else {
        significant(value)
    }
}

/// A share with three significant digits: `12.3 %`.
pub fn percent(share: f64) -> String {
    format!("{} %", significant(share * 100.0))
}

/// A setting: a whole number unchanged, any other with three significant digits.
pub fn setting(value: f64) -> String {
    let is_whole = value.fract() == 0.0 && value.abs() < 1e15;
    if is_whole && value >= 0.0 { thousands(value as u64) } else { significant(value) }
}

/// The candidate nearest to `word` by edit distance, if it is close enough to be a typing error.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(2);
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The end of a message that suggests the [`nearest`] candidate; empty if none is near.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map_or(String::new(), |near| format!("; did you mean `{near}`?"))
}

/// Levenshtein distance, case ignored.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().chars().collect();
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(x != y)).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_whole_where_they_are() {
        assert_eq!(setting(8.0), "8");
        assert_eq!(setting(1024.0), "1,024");
        assert_eq!(setting(4.756), "4.76");
        assert_eq!(setting(0.5), "0.500");
    }

    #[test]
    fn separators_and_digits() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_000), "1,000");
        assert_eq!(thousands(12_847_210), "12,847,210");
        assert_eq!(significant(0.012_34), "0.0123");
        assert_eq!(significant(9.996), "10.0");
        assert_eq!(significant(123.4), "123");
        assert_eq!(significant(1_234.0), "1,230");
        assert_eq!(significant(f64::NAN), "n/a");
        assert_eq!(significant_or_whole(1_234.4), "1,234");
        assert_eq!(percent(0.123_4), "12.3 %");
    }

    #[test]
    fn a_near_word_is_suggested_and_a_far_one_is_not() {
        assert_eq!(nearest("ranread", ["read", "randread"]), Some("randread"));
        assert_eq!(nearest("zzzz", ["read", "randread"]), None);
    }
}
