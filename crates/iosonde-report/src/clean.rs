//! Foreign strings made safe for a terminal.

/// Removes control characters, whole escape sequences and bidirectional controls from a string that
/// comes from a device, a path or a file.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => match characters.next() {
                Some('[') => skip_control_sequence(&mut characters),
                // OSC, DCS, SOS, PM, APC: strings up to their terminator.
                Some(']' | 'P' | 'X' | '^' | '_') => skip_string(&mut characters),
                _ => {}
            },
            '\u{9b}' => skip_control_sequence(&mut characters),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => skip_string(&mut characters),
            _ if is_dangerous(character) => {}
            _ => out.push(character),
        }
    }
    out
}

fn is_dangerous(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
                | '\u{feff}'
        )
}

type Characters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Parameters and intermediates up to the final byte of a control sequence. Stops before a
/// character that cannot belong to one, so that a broken sequence does not swallow the rest.
fn skip_control_sequence(characters: &mut Characters<'_>) {
    while characters.next_if(|character| (' '..='?').contains(character)).is_some() {}
    characters.next_if(|character| ('@'..='~').contains(character));
}

/// Everything up to BEL or the string terminator.
fn skip_string(characters: &mut Characters<'_>) {
    while let Some(character) = characters.next() {
        match character {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                characters.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_passes_unchanged() {
        for text in ["Samsung SSD 990 PRO", "/data/größe 日本", "", "12.3 µs [x]"] {
            assert_eq!(clean(text), text);
        }
    }

    #[test]
    fn sequences_controls_and_bidi_are_removed() {
        assert_eq!(clean("a\u{1b}[31mred\u{1b}[0m"), "ared");
        assert_eq!(clean("\u{1b}]0;title\u{7}disk"), "disk");
        assert_eq!(clean("\u{1b}]8;;http://x\u{1b}\\disk"), "disk");
        assert_eq!(clean("a\u{9b}2Jb\r\nc\td\u{0}"), "abcd");
        assert_eq!(clean("file\u{202e}gpj.exe\u{2066}"), "filegpj.exe");
        assert_eq!(clean("end\u{1b}"), "end");
        assert_eq!(clean("\u{1b}[12é"), "é");
    }
}
