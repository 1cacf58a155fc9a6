//! A report as text for a terminal.

use super::clean::clean;
use super::report::{Block, Column, Entry, Report, Table, Warning};
use super::wording;
use super::wrap::{self, Rule, hanging, width, wrapped};

/// Least width at which lines are broken.
const NARROWEST: usize = 40;

/// The whole report in lines of at most `columns` columns, as far as words allow. A table that is
/// too wide is written row by row.
pub fn plain(report: &Report, columns: usize) -> String {
    let mut page = Page { out: String::new(), columns: columns.max(NARROWEST) };
    page.words("", &report.title);
    page.out.push_str(&"═".repeat(width(&clean(&report.title)).min(page.columns)));
    page.out.push('\n');
    page.words("", &report.question);
    page.words("", &wording::source(&report.source));
    page.warnings(report, true);
    if !report.answer.is_empty() {
        page.heading("Answer");
        report.answer.iter().for_each(|words| page.words("  ", words));
    }
    page.warnings(report, false);
    for section in &report.sections {
        page.heading(&section.heading);
        for (at, block) in section.blocks.iter().enumerate() {
            if at > 0 {
                page.out.push('\n');
            }
            page.block(block);
        }
    }
    let command = wording::command(&report.source);
    if !report.method.is_empty() || !command.is_empty() {
        page.heading("Method");
        report.method.iter().for_each(|words| page.words("  - ", words));
        if !command.is_empty() {
            page.words("  - Command: ", &command);
        }
    }
    if !report.environment.is_empty() {
        page.heading("Environment");
        let widest = report.environment.iter().map(|(name, _)| width(&clean(name))).max();
        for (name, value) in &report.environment {
            let name = padded(&clean(name), widest.unwrap_or(0));
            page.words(&format!("  {name}  "), value);
        }
    }
    page.out
}

/// The output and its width.
struct Page {
    out: String,
    columns: usize,
}

impl Page {
    fn heading(&mut self, words: &str) {
        let words = clean(words);
        let rule = "─".repeat(width(&words).min(self.columns));
        self.out.push_str(&format!("\n{words}\n{rule}\n"));
    }

    /// Writes wrapped words behind `head`, with further lines indented to its width. Empty words
    /// write nothing.
    fn words(&mut self, head: &str, words: &str) {
        let words = clean(words);
        if words.is_empty() {
            return;
        }
        self.out.push_str(&hanging(head, &words, self.columns));
    }

    /// The severe warnings, or the others.
    fn warnings(&mut self, report: &Report, severe: bool) {
        let element: Vec<&Warning> =
            report.warnings.iter().filter(|warning| warning.severe == severe).collect();
        let is_partial = severe && !report.source.complete;
        if element.is_empty() && !is_partial {
            return;
        }
        self.heading(if severe {
            "DO NOT USE THESE NUMBERS WITHOUT READING THIS"
        } else {
            "Warnings"
        });
        let sign = if severe { "  !! " } else { "  !  " };
        if is_partial {
            self.words(sign, wording::PARTIAL);
        }
        for warning in element {
            let grounds = wording::grounds(&warning.code, &warning.strength);
            self.words(sign, &format!("{}{grounds}", warning.words));
        }
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Words(words) => self.words("  ", words),
            Block::List(items) => items.iter().for_each(|item| self.words("  - ", item)),
            Block::Text(text) => {
                let lines = text.lines().map(clean).collect::<Vec<_>>().join("\n");
                self.out.push_str(&wrapped(&lines, self.columns));
                self.out.push('\n');
            }
            Block::Table(table) => self.table(table),
            Block::Picture(picture) => {
                self.words("  [figure] ", &format!("{} ({})", picture.caption, picture.name));
            }
        }
    }

    fn table(&mut self, table: &Table) {
        self.words("  ", &table.caption);
        let footnotes = wording::footnotes(table);
        let cleaned = |column: &Column| Column { title: clean(&column.title), ..*column };
        let columns: Vec<Column> = table.columns.iter().map(cleaned).collect();
        let rows = cells(table, &footnotes);
        self.out.push_str(&wrap::table(&columns, &rows, Rule::Line, self.columns));
        let signs = wording::legend(table).into_iter();
        let notes = footnotes.iter().enumerate();
        let notes = notes.map(|(at, note)| format!("({}) {note}", at + 1));
        signs.chain(notes).for_each(|words| self.words("  ", &words));
    }
}

/// The cells of all rows. Signs and footnote numbers follow in a space of equal width, so that
/// numbers are aligned.
fn cells(table: &Table, footnotes: &[&str]) -> Vec<Vec<String>> {
    let marks = |entry: &Entry| wording::marks(entry, footnotes);
    let room = |at: usize| {
        let entries = table.rows.iter().filter_map(|row| row.get(at));
        entries.map(|entry| width(&marks(entry))).max().unwrap_or(0)
    };
    let rooms: Vec<usize> = (0..table.columns.len()).map(room).collect();
    let cell = |(entry, room): (&Entry, &usize)| {
        format!("{}{}", clean(&entry.text), padded(&marks(entry), *room))
    };
    table.rows.iter().map(|row| row.iter().zip(&rooms).map(cell).collect()).collect()
}

fn padded(text: &str, to: usize) -> String {
    format!("{text}{}", " ".repeat(to.saturating_sub(width(text))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_golden;
    use crate::report::Column;
    use crate::sample;

    #[test]
    fn the_sample_is_rendered_as_kept() {
        let mut report = sample::report();
        report.source.program = "iosonde".into();
        let text = plain(&report, 100);
        assert!(text.lines().all(|line| width(line) <= 100), "{text}");
        assert_golden("report.txt", &text);
        let narrow = plain(&report, 50);
        assert!(narrow.lines().all(|line| width(line) <= 50), "{narrow}");
        assert!(narrow.contains("disturbed"), "{narrow}");
    }

    #[test]
    fn columns_stand_below_each_other_whatever_the_script() {
        let row = |name: &str, value: &str| vec![Entry::of(name), Entry::of(value)];
        let table = Table {
            caption: "Hosts".into(),
            columns: vec![Column::words("host"), Column::numbers("µs")],
            rows: vec![row("größe", "9"), row("日本", "1,200"), row("a\u{1b}[31mb", "30")],
        };
        let mut page = Page { out: String::new(), columns: 80 };
        page.table(&table);
        let rows: Vec<&str> = page.out.lines().skip(3).collect();
        assert_eq!(rows, ["  größe           9", "  日本        1,200", r"  a\x1b[31mb     30"]);
    }

    #[test]
    fn severe_warnings_come_before_the_answer() {
        let mut report = sample::report();
        report.source.complete = false;
        let text = plain(&report, 80);
        let at = |words: &str| text.find(words);
        assert!(at("Partial:").is_some() && at("Partial:") < at("\nAnswer\n"), "{text}");
        assert!(at("\nAnswer\n") < at("\nWarnings\n"), "{text}");
    }
}
