//! Lines that fit a screen.

use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// Columns that a text takes on a terminal.
pub(crate) fn width(text: &str) -> usize {
    textwrap::core::display_width(text)
}

/// Words in lines of at most so many columns, where the words allow it: the first line begins with
/// `head`, and the others below its end.
pub(crate) fn hanging(head: &str, words: &str, columns: usize) -> String {
    let indent = " ".repeat(width(head));
    let options = at_spaces(columns).initial_indent(head).subsequent_indent(&indent);
    let words: Vec<&str> = words.split(' ').filter(|word| !word.is_empty()).collect();
    format!("{}\n", textwrap::fill(&words.join(" "), options))
}

/// Breaks what is wider than so many columns at spaces. A sentence goes on two columns further in,
/// an item of a list below its text.
pub fn wrapped(text: &str, columns: usize) -> String {
    let lines = text.split('\n').map(|line| {
        if width(line) <= columns {
            return line.to_owned();
        }
        let indent = " ".repeat(line.len() - line.trim_start_matches(' ').len() + 2);
        textwrap::fill(line, at_spaces(columns).subsequent_indent(&indent))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn at_spaces<'a>(columns: usize) -> Options<'a> {
    Options::new(columns)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit)
        .break_words(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_fits_is_left_alone_and_a_wide_one_goes_on_further_in() {
        let text = "  one  two\n    - a b c d\n\nunbreakable-word\n";
        assert_eq!(wrapped(text, 80), text);
        assert_eq!(wrapped(text, 9), "  one\n    two\n    - a b\n      c d\n\nunbreakable-word\n");
    }

    #[test]
    fn wide_and_combining_characters_count_as_they_are_shown() {
        assert_eq!([width("磁盘"), width("é"), width("e\u{301}"), width("µs")], [4, 1, 1, 2]);
        assert_eq!(hanging("  - ", "磁盘 磁盘", 9), "  - 磁盘\n    磁盘\n");
    }
}
