//! The blocks of a section: paragraphs, lists, tables and figures.

use super::escape::{identifier, straight, text};
use crate::chart::ChartError;
use crate::report::{Block, Column, Entry, Picture, Table, Trust};
use crate::wording::{legend, mark};

/// Counters that number figures and tables over the page.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    figures: u32,
    tables: u32,
}

/// One block of a section; `heading` names a table without a caption.
pub(super) fn block(
    block: &Block,
    heading: &str,
    numbers: &mut Numbers,
) -> Result<String, ChartError> {
    Ok(match block {
        Block::Words(words) => format!("<p>{}</p>\n", text(words)),
        Block::List(items) => list(items),
        Block::Text(lines) => {
            let lines = lines.lines().map(text).collect::<Vec<_>>().join("\n");
            format!(
                "<details>\n<summary>The whole report</summary>\n\
                 <pre tabindex=\"0\">{lines}</pre>\n</details>\n"
            )
        }
        Block::Table(element) => {
            numbers.tables += 1;
            table(element, heading, numbers.tables)
        }
        Block::Picture(picture) => {
            numbers.figures += 1;
            figure(picture, numbers.figures)?
        }
    })
}

/// A list of sentences as bullet points.
pub(super) fn list(items: &[String]) -> String {
    let items: String = items.iter().map(|item| format!("<li>{}</li>\n", text(item))).collect();
    format!("<ul>\n{items}</ul>\n")
}

fn figure(picture: &Picture, number: u32) -> Result<String, ChartError> {
    let svg = straight(&picture.figure.svg()?);
    let (name, caption) = (identifier(&picture.name), text(&picture.caption));
    // The caption is also the accessible name of the picture.
    let svg = svg.replacen("<svg ", &format!("<svg aria-label=\"{caption}\" "), 1);
    Ok(format!(
        "<figure id=\"figure-{name}\" data-name=\"{name}\">\n\
         <div class=\"picture\" role=\"group\" tabindex=\"0\" aria-label=\"Figure {number}\">\n\
         {svg}</div>\n\
         <figcaption><b>Figure {number}.</b> {caption}</figcaption>\n</figure>\n"
    ))
}

fn table(table: &Table, heading: &str, number: u32) -> String {
    let heads: String = table.columns.iter().map(head).collect();
    let rows: String = table
        .rows
        .iter()
        .map(|row| {
            let cells = row.iter().zip(&table.columns).enumerate();
            let cells: String = cells.map(|(at, (entry, of))| cell(entry, of, at == 0)).collect();
            format!("<tr>{cells}</tr>\n")
        })
        .collect();
    let signs: Vec<String> = legend(table);
    let signs = match signs.is_empty() {
        true => String::new(),
        false => format!("<p class=\"legend\">{}</p>\n", text(&signs.join("; "))),
    };
    let caption = if table.caption.is_empty() { heading } else { &table.caption };
    let caption = text(caption);
    format!(
        "<div class=\"table\" role=\"region\" tabindex=\"0\" aria-labelledby=\"table-{number}\">\n\
         <table>\n<caption id=\"table-{number}\"><b>Table {number}.</b> {caption}</caption>\n\
         <thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n{signs}{}",
        remarks(table)
    )
}

/// The tooltips of a table as a folded list: intervals, and limitations of figures.
fn remarks(table: &Table) -> String {
    let item = |row: &Vec<Entry>| {
        let name: Vec<String> = row
            .iter()
            .zip(&table.columns)
            .take_while(|(_, column)| !column.is_number)
            .map(|(entry, _)| text(&entry.text))
            .collect();
        let said: Vec<String> = row
            .iter()
            .zip(&table.columns)
            .filter(|(entry, _)| !entry.more.is_empty())
            .map(|(entry, column)| {
                format!("{} {}: {}", text(&column.title), text(&entry.text), text(&entry.more))
            })
            .collect();
        match said.is_empty() {
            true => String::new(),
            false => format!("<li><b>{}</b>: {}</li>\n", name.join(", "), said.join("; ")),
        }
    };
    let items: String = table.rows.iter().map(item).collect();
    match items.is_empty() {
        true => items,
        false => format!(
            "<details>\n<summary>Intervals and remarks</summary>\n<ul>\n{items}</ul>\n</details>\n"
        ),
    }
}

fn head(column: &Column) -> String {
    let class = if column.is_number { " class=\"number\"" } else { "" };
    format!("<th scope=\"col\"{class}>{}</th>", text(&column.title))
}

fn cell(entry: &Entry, column: &Column, is_first: bool) -> String {
    let mut classes = Vec::new();
    if column.is_number {
        classes.push("number");
    }
    match entry.trust {
        Trust::Good => {}
        Trust::LowConfidence => classes.push("low-confidence"),
        Trust::Failed => classes.push("failed"),
    }
    let class = match classes.is_empty() {
        true => String::new(),
        false => format!(" class=\"{}\"", classes.join(" ")),
    };
    let mut words = text(&entry.text);
    if entry.trust != Trust::Good {
        words.push_str(&format!(" <i>{}</i>", mark(entry.trust)));
    }
    let more = text(&entry.more);
    if !more.is_empty() {
        words = format!(
            "<span class=\"more\" tabindex=\"0\" title=\"{more}\">{words}\
             <span class=\"away\"> ({more})</span></span>"
        );
    }
    match is_first {
        true => format!("<th scope=\"row\"{class}>{words}</th>"),
        false => {
            let head = text(&column.title);
            format!("<td{class} data-head=\"{head}\">{words}</td>")
        }
    }
}
