//! Damaged copies of texts, for the tests of parsers.

use crate::plan::chance::Chance;

/// Damaged copies of a text, the same for the same seed.
pub(super) fn mutations(text: &str, seed: u64, count: usize) -> Vec<String> {
    let mut random = Chance::new(seed);
    (0..count).map(|_| mutated(text, &mut random)).collect()
}

fn mutated(text: &str, random: &mut Chance) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len() as u64) as usize;
        let end = (at + 1 + random.below(40) as usize).min(bytes.len());
        match random.below(7) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes[at] = random.below(256) as u8,
            2 => drop(bytes.drain(at..end)),
            3 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            4 => replace_number(&mut bytes, at, b"-1"),
            5 => replace_number(&mut bytes, at, b"99999999999999999999999"),
            _ => replace_number(&mut bytes, at, b"1e308"),
        }
        if bytes.is_empty() {
            bytes.push(b'0');
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Replaces the next number after a place.
fn replace_number(bytes: &mut Vec<u8>, at: usize, with: &[u8]) {
    let Some(from) = bytes[at..].iter().position(u8::is_ascii_digit).map(|offset| at + offset)
    else {
        return;
    };
    let length = bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    bytes.splice(from..from + length, with.iter().copied());
}
