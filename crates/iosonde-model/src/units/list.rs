//! Lists of numbers and ranges in the kernel's format (cpuset(7), "List format").

use std::collections::BTreeSet;

/// Parses `0-3,8` into ascending numbers; `None` if malformed, or a number is not below `below`.
pub fn numbers(text: &str, below: u32) -> Option<Vec<u32>> {
    let number = |text: &str| text.trim().parse().ok().filter(|number: &u32| *number < below);
    let mut numbers = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers.into_iter().collect())
}
