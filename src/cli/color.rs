//! Colors for result and confidence of an answer, on a terminal that has them. `NO_COLOR`,
//! `CLICOLOR`, `CLICOLOR_FORCE` and `TERM` work as in other programs.

use std::borrow::Cow;

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

/// Beginnings of an answer's lines, each with the words that are colored after it.
const WORDS: [(&str, &[(&str, AnsiColor)]); 3] = [
    (
        "Result:      ",
        &[
            ("FAIL", AnsiColor::Red),
            ("INVALID", AnsiColor::Red),
            ("PARTIAL", AnsiColor::Red),
            ("PASS", AnsiColor::Green),
            ("no fault seen", AnsiColor::Green),
        ],
    ),
    (
        "Confidence:  ",
        &[("high", AnsiColor::Green), ("medium", AnsiColor::Yellow), ("low", AnsiColor::Red)],
    ),
    // For campaigns.
    ("Complete:    ", &[("yes", AnsiColor::Green), ("no", AnsiColor::Red)]),
];

/// Disables colors on a dumb terminal, even in a CI job, whose environment would otherwise enable
/// them. Disables them in a rank of an MPI job too: its launcher gives it a terminal but may write
/// its output to a file. Call once, before any output.
pub(crate) fn none_without_a_true_terminal() {
    let forced = std::env::var_os("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    if (is_dumb || super::hosts::is_rank()) && !forced {
        ColorChoice::Never.write_global();
    }
}

/// The text, colored if this stream shows colors.
pub(crate) fn colored<'a>(text: &'a str, stream: &impl RawStream) -> Cow<'a, str> {
    match AutoStream::choice(stream) {
        ColorChoice::Never => Cow::from(text),
        _ => Cow::from(text.split_inclusive('\n').map(line).collect::<String>()),
    }
}

fn line(line: &str) -> Cow<'_, str> {
    let found = WORDS.iter().find_map(|(head, words)| {
        let rest = line.strip_prefix(head)?;
        let (word, color) = words.iter().find(|(word, _)| rest.starts_with(word))?;
        Some((head, *word, *color, &rest[word.len()..]))
    });
    found.map_or(Cow::from(line), |(head, word, color, rest)| {
        let style = Style::new().bold().fg_color(Some(color.into()));
        format!("{head}{style}{word}{style:#}{rest}").into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_answer_have_colors_and_nothing_else() {
        assert_eq!(line("Confidence:  high\n"), "Confidence:  \u{1b}[1m\u{1b}[32mhigh\u{1b}[0m\n");
        let failed = line("Result:      FAIL: 1 block");
        assert_eq!(failed, "Result:      \u{1b}[1m\u{1b}[31mFAIL\u{1b}[0m: 1 block");
        assert_eq!(line("Complete:    no: x"), "Complete:    \u{1b}[1m\u{1b}[31mno\u{1b}[0m: x");
        for plain in ["Result:      22 IOPS\n", "Next:        low\n", "  Confidence:  low", ""] {
            assert_eq!(line(plain), plain);
        }
    }
}
