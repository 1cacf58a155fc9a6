//! Values of options: sizes, times, command lines.

use std::ffi::OsString;

use super::exit::{About, Failure, wrong};
use iosonde_model::units::{bytes, count, duration};

/// A size in bytes.
pub(crate) fn size(option: &str, text: &str) -> Result<u64, Failure> {
    bytes::parse(text).or_wrong(option)
}

/// A time in nanoseconds; a bare number is in seconds.
pub(crate) fn time(option: &str, text: &str) -> Result<u64, Failure> {
    duration::parse(text, 1_000_000_000).or_wrong(option)
}

/// A usage error: an invalid value.
pub(crate) fn unfit(option: &str, found: &str, expected: &str) -> Failure {
    wrong(format!("{option}: found `{found}`, expected {expected}"))
}

/// A usage error: an unknown word, with the valid ones and the nearest of them.
pub(crate) fn not_one_of(option: &str, word: &str, names: &[&str]) -> Failure {
    unfit(option, word, &format!("one of {}", listed(names, word)))
}

/// The valid words, and the one that `word` may have meant.
pub(crate) fn listed(names: &[&str], word: &str) -> String {
    format!("{}{}", names.join(", "), count::did_you_mean(word, names.iter().copied()))
}

/// The values of an option in a command line: first those in their own word, then those after `=`.
pub(crate) fn values<'a>(words: &'a [String], option: &'a str) -> impl Iterator<Item = &'a str> {
    let spaced = words.windows(2).filter(move |pair| pair[0] == option).map(|pair| &pair[1][..]);
    let joined = words.iter().filter_map(move |word| word.strip_prefix(option)?.strip_prefix('='));
    spaced.chain(joined)
}

/// The words of a command line for messages and records.
pub(crate) fn lossy(words: &[OsString]) -> Vec<String> {
    words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Splits words like a shell: at blanks outside quotes. No variables, no patterns.
pub(crate) fn split(text: &str) -> Result<Vec<String>, &'static str> {
    let (mut words, mut word): (Vec<String>, Option<String>) = (Vec::new(), None);
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(end), found) if found == end => quote = None,
            (Some('"') | None, '\\') => {
                let next = characters.next().ok_or("it ends in a backslash")?;
                word.get_or_insert_default().push(next);
            }
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, blank) if blank.is_whitespace() => words.extend(word.take()),
            (_, other) => word.get_or_insert_default().push(other),
        }
    }
    if quote.is_some() {
        return Err("unclosed quote");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn words_are_split_as_by_a_shell() {
        assert_eq!(split(" run  --path 'a b' ").unwrap(), ["run", "--path", "a b"]);
        assert_eq!(split(r#"a\ b "c'd" e'f g'h ''"#).unwrap(), ["a b", "c'd", "ef gh", ""]);
        assert_eq!(split("'open"), Err("unclosed quote"));
        assert_eq!(split("x\\"), Err("it ends in a backslash"));
    }
}
