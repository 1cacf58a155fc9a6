//! Foreign strings made safe for each place of a page.

use serde_json::Value;

pub(super) use crate::chart::escaped as text;
use crate::clean::is_invisible;
use crate::json::escaped;

/// A string as part of an identifier and of what refers to it.
pub(super) fn identifier(words: &str) -> String {
    let harmless = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    words.chars().map(harmless).collect()
}

/// Markup that is ours, with words in it that turned the direction of the text around.
pub(super) fn straight(markup: &str) -> String {
    markup.chars().filter(|character| *character == '\n' || !is_hidden(*character)).collect()
}

/// A value as JSON in a `<script>` of data: nothing in it can end the element, begin another or
/// turn the direction of the text around.
pub(super) fn json(value: &Value) -> String {
    let risky = |character| matches!(character, '<' | '>' | '&') || is_hidden(character);
    escaped(&value.to_string(), risky)
}

/// What changes a text and cannot be seen in it.
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
