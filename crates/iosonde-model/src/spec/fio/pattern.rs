//! Data patterns in fio's syntax: `"text"`, `0xdeadbeef`, `255`, concatenated.

use super::shown;

/// Longest pattern, bytes, as in fio.
const MAX_BYTES: usize = 512;

/// Parses a pattern.
///
/// # Errors
/// If the text is invalid; the message says what was expected.
pub(super) fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let mut all = Vec::new();
    let mut rest = text.trim();
    let wrong = |part: &str| {
        let what = "expected \"text\", 0x and hexadecimal digits, or a number";
        format!("found `{}`, {what}", shown(part))
    };
    while !rest.is_empty() {
        let taken = if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').ok_or_else(|| wrong(rest))?;
            all.extend_from_slice(&quoted.as_bytes()[..end]);
            end + 2
        } else if rest.starts_with('%') {
            let what = "%o, the offset of a block, is not supported; a pattern is the same in all";
            return Err(what.into());
        } else if rest.starts_with('\'') {
            return Err("patterns from a file are not supported; write the bytes".into());
        } else if let Some(digits) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
            let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
            let word = &digits[..end];
            let odd = if word.len() % 2 == 1 { "0" } else { "" };
            let even = format!("{odd}{word}");
            for at in (0..even.len()).step_by(2) {
                all.push(u8::from_str_radix(&even[at..at + 2], 16).map_err(|_| wrong(rest))?);
            }
            if word.is_empty() {
                return Err(wrong(rest));
            }
            end + 2
        } else {
            let end = rest
                .char_indices()
                .find(|(at, c)| !(c.is_ascii_digit() || (*at == 0 && *c == '-')))
                .map_or(rest.len(), |(at, _)| at);
            let number: i64 = rest[..end].parse().map_err(|_| wrong(rest))?;
            // fio uses the little-endian bytes of a number up to the highest that is not 0.
            let whole = (number as u32).to_le_bytes();
            let used = whole.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
            all.extend_from_slice(&whole[..used]);
            end
        };
        rest = rest[taken..].trim_start_matches([' ', '+']);
        if all.len() > MAX_BYTES {
            return Err(format!("found more than {MAX_BYTES} bytes"));
        }
    }
    if all.is_empty() { Err("found no byte".into()) } else { Ok(all) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn texts_numbers_and_hexadecimal_digits_follow_one_another() {
        assert_eq!(bytes("\"abcd\"").unwrap(), b"abcd");
        assert_eq!(bytes("0xdeadface").unwrap(), [0xde, 0xad, 0xfa, 0xce]);
        assert_eq!(bytes("0xfff").unwrap(), [0x0f, 0xff]);
        assert_eq!(bytes("0xaa\"x\"-1").unwrap(), [0xaa, b'x', 255, 255, 255, 255]);
        assert_eq!(bytes("255").unwrap(), [255]);
        for text in ["", "0x", "%o", "'file'", "\"open", "abc", "0x\u{e9}"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
