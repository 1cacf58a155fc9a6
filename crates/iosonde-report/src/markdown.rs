//! A report as Markdown with GitHub tables.

use super::answer::Answer;
use super::clean::clean;
use super::report::{Block, Entry, Report, Table, Warning};
use super::wording;

/// The whole report; it refers to pictures as `figures/NAME.svg`.
pub fn markdown(report: &Report) -> String {
    let mut out = format!("# {}\n\n", inline(&report.title));
    paragraph(&mut out, &inline(&report.question));
    paragraph(&mut out, &inline(&wording::source(&report.source)));
    warnings(&mut out, report, true);
    out.push_str("## Answer\n\n");
    for (at, words) in Answer::lines(report).iter().enumerate() {
        let words = inline(words);
        paragraph(&mut out, &if at == 0 { format!("**{words}**") } else { words });
    }
    warnings(&mut out, report, false);
    for section in &report.sections {
        out.push_str(&format!("## {}\n\n", inline(&section.heading)));
        for element in &section.blocks {
            block(&mut out, element);
        }
    }
    let command = wording::command(&report.source);
    if !report.method.is_empty() || !command.is_empty() {
        out.push_str("## Method\n\n");
        list(&mut out, report.method.iter().map(|words| inline(words)));
        if !command.is_empty() {
            fenced(&mut out, &command);
        }
    }
    environment(&mut out, &report.environment);
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn paragraph(out: &mut String, words: &str) {
    if !words.is_empty() {
        out.push_str(&format!("{words}\n\n"));
    }
}

fn list(out: &mut String, items: impl Iterator<Item = String>) {
    let before = out.len();
    for item in items {
        out.push_str(&format!("- {item}\n"));
    }
    if out.len() > before {
        out.push('\n');
    }
}

/// The severe warnings in an alert box, or the others.
fn warnings(out: &mut String, report: &Report, severe: bool) {
    let item = |warning: &Warning| {
        let grounds = wording::grounds(&warning.code, &warning.strength);
        format!("{}{}", inline(&warning.words), inline(&grounds))
    };
    let partial = (severe && !report.source.complete).then(|| wording::PARTIAL.to_owned());
    let element = report.warnings.iter().filter(|warning| warning.severe == severe).map(item);
    let kind = if severe { "CAUTION" } else { "WARNING" };
    let items: Vec<String> = partial.into_iter().chain(element).collect();
    if items.is_empty() {
        return;
    }
    out.push_str(&format!("> [!{kind}]\n"));
    for item in items {
        out.push_str(&format!("> - {item}\n"));
    }
    out.push('\n');
}

fn block(out: &mut String, block: &Block) {
    match block {
        Block::Words(words) => paragraph(out, &inline(words)),
        Block::List(items) => list(out, items.iter().map(|item| inline(item))),
        Block::Text(text) => {
            let lines = text.lines().map(|line| format!("    {}\n", clean(line)));
            out.extend(lines);
            out.push('\n');
        }
        Block::Table(element) => table(out, element),
        Block::Picture(picture) => {
            let caption = inline(&picture.caption);
            let name = file_name(&picture.name);
            paragraph(out, &format!("![{caption}](figures/{name}.svg)\n\n*{caption}*"));
        }
    }
}

fn table(out: &mut String, table: &Table) {
    if !table.caption.is_empty() {
        paragraph(out, &format!("**{}**", inline(&table.caption)));
    }
    if table.columns.is_empty() {
        return;
    }
    let footnotes = wording::footnotes(table);
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    out.push_str(&line(table.columns.iter().map(|column| inline(&column.title)).collect()));
    let rule = |is_number: bool| if is_number { "---:" } else { "---" }.to_owned();
    out.push_str(&line(table.columns.iter().map(|column| rule(column.is_number)).collect()));
    for row in &table.rows {
        let cell = |entry: &Entry| inline(&entry.text) + &wording::marks(entry, &footnotes);
        out.push_str(&line(row.iter().map(cell).collect()));
    }
    out.push('\n');
    let notes = footnotes.iter().enumerate();
    let notes: Vec<String> =
        notes.map(|(at, note)| format!("({}) {}", at + 1, inline(note))).collect();
    let signs = wording::legend(table).into_iter();
    paragraph(out, &signs.chain(notes).collect::<Vec<_>>().join("; "));
}

fn environment(out: &mut String, facts: &[(String, String)]) {
    if facts.is_empty() {
        return;
    }
    out.push_str("## Environment\n\n| | |\n| --- | --- |\n");
    for (name, value) in facts {
        out.push_str(&format!("| {} | {} |\n", inline(name), inline(value)));
    }
    out.push('\n');
}

/// A text as a code block, with a fence longer than any in the text.
fn fenced(out: &mut String, text: &str) {
    let text = clean(text);
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    out.push_str(&format!("{fence}\n{text}\n{fence}\n\n"));
}

/// A string as a plain file name, which is also safe in a link.
fn file_name(name: &str) -> String {
    let harmless = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    name.chars().map(harmless).collect()
}

/// Escapes a string for a line, a table cell, a link, or the start of a line.
fn inline(text: &str) -> String {
    let cleaned = clean(text);
    let mut out = String::with_capacity(cleaned.len());
    let characters: Vec<char> = cleaned.chars().collect();
    for (at, character) in characters.iter().enumerate() {
        let begins = out.trim_start().is_empty();
        let after = characters.get(at + 1).copied();
        match character {
            '\\' | '`' | '|' | '*' | '[' | ']' | '<' | '>' | '~' | '$' => out.push('\\'),
            // `a_b` is a name; `_a_` would be emphasised.
            '_' if !is_within_word(&characters, at) => out.push('\\'),
            '&' if after.is_some_and(|c| c.is_alphanumeric() || c == '#') => out.push('\\'),
            '!' if after == Some('[') => out.push('\\'),
            '#' | '+' | '-' | '=' if begins => out.push('\\'),
            // `1.` would start a list.
            '.' | ')' if !begins && is_count(&out) && after.is_none_or(|c| c == ' ') => {
                out.push('\\');
            }
            '@' => {
                // A name of a device must not notify a user.
                out.push_str("@\u{2060}");
                continue;
            }
            _ => {}
        }
        out.push(*character);
    }
    out
}

fn is_within_word(all: &[char], at: usize) -> bool {
    let is_word = |at: usize| all.get(at).is_some_and(|c| c.is_alphanumeric());
    at > 0 && is_word(at - 1) && is_word(at + 1)
}

fn is_count(text: &str) -> bool {
    text.trim_start().chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_golden;
    use crate::report::{Column, Trust};
    use crate::sample;

    #[test]
    fn the_sample_is_rendered_as_kept() {
        let mut report = sample::report();
        report.source.program = "iosonde".into();
        assert_golden("report.md", &markdown(&report));
    }

    #[test]
    fn a_hostile_name_stays_text() {
        for (hostile, harmless) in [
            ("a|b", r"a\|b"),
            ("`rm`", r"\`rm\`"),
            ("<script>", r"\<script\>"),
            ("![x](y)", r"\!\[x\](y)"),
            ("# head", r"\# head"),
            ("- item", r"\- item"),
            ("1. item", r"1\. item"),
            ("&lt;", r"\&lt;"),
            ("a & b", "a & b"),
            ("p99_ns 1.5", "p99_ns 1.5"),
            ("1.71 ms", "1.71 ms"),
            ("two\nlines\u{1b}[31m", r"two\\nlines\\x1b\[31m"),
            ("@all", "@\u{2060}all"),
        ] {
            assert_eq!(inline(hostile), harmless);
        }
        assert_eq!(file_name("a/../b c)"), "a_.._b_c_");
    }

    #[test]
    fn every_row_of_a_table_has_as_many_bars() {
        let entry = Entry { text: "1|2".into(), more: "x|y".into(), trust: Trust::Failed };
        let element = Table {
            caption: "c".into(),
            columns: vec![Column::words("a|b"), Column::numbers("n")],
            rows: vec![vec![entry.clone(), entry]],
        };
        let mut out = String::new();
        table(&mut out, &element);
        let rows: Vec<&str> = out.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(rows.len(), 3, "{out}");
        for row in rows {
            assert_eq!(row.replace("\\|", "").matches('|').count(), 3, "{row}");
        }
        assert!(out.contains("(1) x\\|y"), "{out}");
    }

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        let mut out = String::new();
        fenced(&mut out, "a ```` b");
        assert!(out.starts_with("`````\n"), "{out}");
    }
}
