//! Escaping of untrusted strings: names of files, devices, programs and jobs may contain anything.

use std::fmt::Write as _;

/// Escapes (`\n`, `\x1b`, `\u{202e}`) every character that controls a terminal, is invisible, or
/// changes the direction of the surrounding text.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if character.is_control() => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\x{:02x}", u32::from(character));
            }
            _ if is_invisible(character) => out.extend(character.escape_unicode()),
            _ => out.push(character),
        }
    }
    out
}

/// Whether a character is invisible or changes how others are displayed (Unicode 16, general
/// categories Cf, Zl and Zp, except those that a script needs).
pub fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// Whether [`clean`] leaves the string unchanged.
pub fn is_clean(text: &str) -> bool {
    !text.chars().any(|character| character.is_control() || is_invisible(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_passes_unchanged() {
        for text in ["Samsung SSD 990 PRO", "/data/größe 日本", "", "12.3 µs [x]", "a\\b", "🙂"]
        {
            assert_eq!(clean(text), text);
            assert!(is_clean(text));
        }
    }

    #[test]
    fn what_acts_or_hides_is_escaped() {
        assert_eq!(clean("a\u{1b}[31mred\u{1b}[0m"), "a\\x1b[31mred\\x1b[0m");
        assert_eq!(clean("a\u{9b}2Jb\r\nc\td\u{0}\u{7f}"), "a\\x9b2Jb\\r\\nc\\td\\x00\\x7f");
        assert_eq!(clean("file\u{202e}gpj.exe\u{2066}"), "file\\u{202e}gpj.exe\\u{2066}");
        assert_eq!(clean("two\u{2028}lines\u{feff}"), "two\\u{2028}lines\\u{feff}");
        for text in ["\u{1b}", "a\nb", "\u{200d}"] {
            assert!(!is_clean(text) && is_clean(&clean(text)));
        }
    }
}
