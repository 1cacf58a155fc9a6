//! Wraps lines to the width of a screen.

use std::fmt;

use crate::report::Column;

use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// Display width of a text, columns.
pub(crate) fn width(text: &str) -> usize {
    textwrap::core::display_width(text)
}

/// Wraps words to `columns` columns, if they allow it. The first line begins with `head`; the
/// others are indented to its width.
pub(crate) fn hanging(head: &str, words: &str, columns: usize) -> String {
    let indent = " ".repeat(width(head));
    let options = at_spaces(columns).initial_indent(head).subsequent_indent(&indent);
    let words: Vec<&str> = words.split(' ').filter(|word| !word.is_empty()).collect();
    format!("{}\n", textwrap::fill(&words.join(" "), options))
}

/// A text under construction for a screen.
#[derive(Debug)]
pub(crate) struct Text {
    out: String,
    /// Width of the screen, columns.
    pub(crate) columns: usize,
}

impl Text {
    /// A text for a screen of `screen` columns, but not wider than `most`.
    pub(crate) fn new(screen: usize, most: usize) -> Text {
        Text { out: String::new(), columns: screen.min(most) }
    }

    pub(crate) fn push_str(&mut self, text: &str) {
        self.out.push_str(text);
    }

    pub(crate) fn push(&mut self, sign: char) {
        self.out.push(sign);
    }

    /// Appends a paragraph whose later lines are aligned with its first word.
    pub(crate) fn hanging(&mut self, head: &str, words: &str) {
        self.out.push_str(&hanging(head, words, self.columns));
    }

    /// The text written after the first `before` bytes.
    pub(crate) fn since(&self, before: usize) -> &str {
        &self.out[before..]
    }

    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    pub(crate) fn into_string(self) -> String {
        self.out
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.push_str(text);
        Ok(())
    }
}

/// Separator between the headings and the rows of a table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rule {
    None,
    /// Dashes; the columns are separated by bars.
    Dashes,
    /// A continuous line.
    Line,
}

/// A table, indented by two columns. If it is too wide, each row becomes a block: its first text,
/// with all others below it after their headings. With [`Rule::Line`], the first text has its
/// heading too.
pub fn table(columns: &[Column], rows: &[Vec<String>], rule: Rule, screen: usize) -> String {
    let gap = if rule == Rule::Dashes { " | " } else { "  " };
    let fit = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| width(cell));
        cells.chain([width(&columns[at].title)]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(fit).collect();
    let all = widths.iter().sum::<usize>() + width(gap) * columns.len().saturating_sub(1);
    if 2 + all > screen {
        return blocks(columns, rows, rule, screen);
    }
    let line = |cells: &[&str]| {
        let cells = cells.iter().zip(columns).zip(&widths).map(|((cell, column), room)| {
            let free = " ".repeat(room.saturating_sub(width(cell)));
            if column.is_number { format!("{free}{cell}") } else { format!("{cell}{free}") }
        });
        format!("  {}\n", cells.collect::<Vec<_>>().join(gap).trim_end())
    };
    let mut out = line(&columns.iter().map(|column| column.title.as_str()).collect::<Vec<_>>());
    match rule {
        Rule::None => {}
        Rule::Dashes => {
            let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
            out.push_str(&format!("  {}\n", rules.join("-|-")));
        }
        Rule::Line => out.push_str(&format!("  {}\n", "─".repeat(all))),
    }
    for row in rows {
        out.push_str(&line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    out
}

fn blocks(columns: &[Column], rows: &[Vec<String>], rule: Rule, screen: usize) -> String {
    let room = columns.iter().skip(1).map(|column| width(&column.title)).max().unwrap_or(0);
    let mut out = String::new();
    for row in rows {
        for (at, (Column { title: head, .. }, cell)) in columns.iter().zip(row).enumerate() {
            if at == 0 {
                let front = if rule == Rule::Line { format!("{head} ") } else { String::new() };
                out.push_str(&hanging("  ", &format!("{front}{cell}"), screen));
            } else if !cell.is_empty() {
                let free = " ".repeat(room - width(head));
                out.push_str(&hanging(&format!("    {head}{free}  "), cell, screen));
            }
        }
    }
    out
}

/// Breaks lines wider than `columns` at spaces. Continuation lines are indented by two more
/// columns; those of a list item are aligned with its text.
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
