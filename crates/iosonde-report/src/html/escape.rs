//! Escapes foreign strings for each context of a page.

use serde_json::Value;

pub(super) use crate::chart::escaped as text;
use crate::clean::is_invisible;
use crate::json::escaped;

/// A string as part of an identifier, or of a reference to it.
pub(super) fn identifier(words: &str) -> String {
    let harmless = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    words.chars().map(harmless).collect()
}

/// Our own markup without the hidden characters in its words, such as bidirectional controls.
pub(super) fn straight(markup: &str) -> String {
    markup.chars().filter(|character| *character == '\n' || !is_hidden(*character)).collect()
}

/// A value as JSON in a `<script>` data block. It cannot end the element, begin another, or change
/// the text direction.
pub(super) fn json(value: &Value) -> String {
    let risky = |character| matches!(character, '<' | '>' | '&') || is_hidden(character);
    escaped(&value.to_string(), risky)
}

/// Whether a character is invisible but may change the text.
fn is_hidden(character: char) -> bool {
    character.is_control() || is_invisible(character)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_string_leaves_its_place() {
        let hostile = "\"'><script>&\u{1b}[31m\u{202e}</script><!--";
        let shown = r"&quot;&#39;&gt;&lt;script&gt;&amp;\x1b[31m\u{202e}&lt;/script&gt;&lt;!--";
        assert_eq!(text(hostile), shown);
        assert_eq!(straight("<svg>\u{202e}é</svg>"), "<svg>é</svg>");
        assert_eq!(identifier("a b\"<é"), "a_b___");
        let value = json!({ "k\u{2028}": "</script><!--<script>\u{2029}&" });
        let element = super::json(&value);
        assert!(!element.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{element}");
        assert_eq!(serde_json::from_str::<Value>(&element).ok(), Some(value));
    }
}
