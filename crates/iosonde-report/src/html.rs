//! A report as one self-contained HTML file: no network access, fonts or libraries.
//!
//! The page allows only its own style sheet and script, each by the hash of its text. A hostile
//! device name can therefore do nothing, even if its escaping failed. The page is complete without
//! the script, which adds tooltips, enlarged figures, sorting of tables, and saving of data.

mod blocks;
mod escape;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use self::blocks::{Numbers, block, list};
use self::escape::{identifier, text};
use super::answer::Answer;
use super::report::{Block, DataSet, Report, Warning};
use super::report_json::report_json;
use super::wording;
use crate::chart::ChartError;
use iosonde_model::units::count::thousands;

/// If there are more warnings than this, those that are not severe are folded.
const FOLDED: usize = 4;

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

/// A report as an HTML page.
///
/// # Errors
/// If a figure cannot be drawn.
pub fn html(report: &Report) -> Result<String, ChartError> {
    let body = body(report)?;
    let (policy, title) = (policy(), text(&report.title));
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"generator\" content=\"iosonde {version}\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\
         <script type=\"application/json\" id=\"story\">{data}</script>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n",
        version = env!("CARGO_PKG_VERSION"),
        data = escape::json(&report_json(report)),
    ))
}

/// The content security policy: nothing may be loaded; our style and script are allowed by hash.
fn policy() -> String {
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    format!(
        "default-src 'none'; img-src data:; style-src {}; script-src {}; base-uri 'none'; \
         form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
}

/// A part of the page: identifier, heading, content.
type Part = (String, String, String);

fn body(report: &Report) -> Result<String, ChartError> {
    let mut numbers = Numbers::default();
    let mut parts: Vec<Part> = Vec::new();
    let is_overview =
        |element: &&Block| matches!(element, Block::Picture(picture) if picture.name == "overview");
    let first = report.sections.iter().flat_map(|section| &section.blocks).find(is_overview);
    let overview = first.map_or(Ok(String::new()), |element| block(element, "", &mut numbers))?;
    for section in &report.sections {
        let blocks: Result<String, ChartError> = section
            .blocks
            .iter()
            .filter(|element| !is_overview(element))
            .map(|element| block(element, &section.heading, &mut numbers))
            .collect();
        let (name, heading) = (identifier(&section.name), text(&section.heading));
        // If there are many runs, each is folded: the overview and the table come first.
        let blocks = match !overview.is_empty() && section.name.starts_with("run-") {
            true => {
                format!("<details>\n<summary>Show {heading}</summary>\n{}</details>\n", blocks?)
            }
            false => blocks?,
        };
        parts.push((format!("part-{name}"), heading, blocks));
    }
    let method = if report.method.is_empty() { String::new() } else { list(&report.method) };
    parts.push(("method".into(), "Method".into(), method + &command(report)));
    parts.push(("environment".into(), "Environment".into(), environment(&report.environment)));
    parts.push(("data".into(), "Raw data".into(), data(&report.data)));
    parts.retain(|(.., content)| !content.is_empty());
    let severe = warnings(report, true);
    let light = warnings(report, false);
    let answer = format!("{}{overview}", answer(report));
    let contents = contents(&answer, &parts);
    let parts: String = parts.into_iter().map(section).collect();
    Ok(format!("{}{severe}<main>\n{answer}{light}{contents}{parts}</main>\n", header(report)))
}

fn section((name, heading, content): Part) -> String {
    format!("<section id=\"{name}\">\n<h2>{heading}</h2>\n{content}</section>\n")
}

fn header(report: &Report) -> String {
    let question = match report.question.as_str() {
        "" => String::new(),
        words => format!("<p class=\"question\">{}</p>\n", text(words)),
    };
    let (title, source) = (text(&report.title), text(&wording::source(&report.source)));
    format!("<header>\n<h1>{title}</h1>\n{question}<p class=\"source\">{source}</p>\n</header>\n")
}

fn answer(report: &Report) -> String {
    let lines = Answer::lines(report);
    let Some((first, rest)) = lines.split_first() else { return String::new() };
    let rest: String = rest.iter().map(|words| format!("<p>{}</p>\n", text(words))).collect();
    let content = format!("<p class=\"first\">{}</p>\n{rest}", text(first));
    section(("answer".into(), "Answer".into(), content))
}

/// The severe warnings in a prominent box, or the others.
fn warnings(report: &Report, severe: bool) -> String {
    let item = |warning: &Warning| {
        let grounds = text(&wording::grounds(&warning.code, &warning.strength));
        format!("<li>{}<small>{grounds}</small></li>\n", text(&warning.words))
    };
    let mut items: String =
        report.warnings.iter().filter(|warning| warning.severe == severe).map(item).collect();
    if severe && !report.source.complete {
        items.insert_str(0, &format!("<li>{}</li>\n", text(wording::PARTIAL)));
    }
    let (class, heading) = match severe {
        true => ("severe", "Do not use these numbers without reading this"),
        false => ("warnings", "Warnings"),
    };
    match items.is_empty() {
        true => String::new(),
        false => {
            let list = match report.warnings.len() > FOLDED && !severe {
                true => format!(
                    "<details>\n<summary>Show them</summary>\n<ul>\n{items}</ul>\n</details>\n"
                ),
                false => format!("<ul>\n{items}</ul>\n"),
            };
            format!(
                "<section id=\"{class}\" class=\"{class}\">\n<h2>{heading}</h2>\n{list}</section>\n"
            )
        }
    }
}

fn contents(answer: &str, parts: &[Part]) -> String {
    let answer = (!answer.is_empty()).then_some(("answer", "Answer"));
    let parts = parts.iter().map(|(name, heading, _)| (name.as_str(), heading.as_str()));
    let items: String = answer
        .into_iter()
        .chain(parts)
        .map(|(name, heading)| format!("<li><a href=\"#{name}\">{heading}</a></li>\n"))
        .collect();
    format!(
        "<nav aria-labelledby=\"contents\">\n<h2 id=\"contents\">Contents</h2>\n\
         <ol>\n{items}</ol>\n</nav>\n"
    )
}

fn command(report: &Report) -> String {
    match wording::command(&report.source) {
        words if words.is_empty() => String::new(),
        words => format!("<p>Command:</p>\n<pre class=\"command\">{}</pre>\n", text(&words)),
    }
}

fn environment(facts: &[(String, String)]) -> String {
    let row = |(name, value): &(String, String)| {
        format!("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", text(name), text(value))
    };
    let rows: String = facts.iter().map(row).collect();
    match rows.is_empty() {
        true => rows,
        false => format!(
            "<table class=\"facts\">\n<caption class=\"away\">The machine and the target</caption>\
             \n<tbody>\n{rows}</tbody>\n</table>\n"
        ),
    }
}

/// The list of data sets in the page; the script adds buttons.
fn data(sets: &[DataSet]) -> String {
    let item = |set: &DataSet| {
        let columns: Vec<String> =
            set.columns.iter().map(|name| format!("<code>{}</code>", text(name))).collect();
        let rows = thousands(set.rows.len() as u64);
        format!("<li><b>{}</b>, {rows} rows: {}</li>\n", text(&set.name), columns.join(", "))
    };
    let items: String = sets.iter().map(item).collect();
    match items.is_empty() {
        true => items,
        false => format!(
            "<p>This page holds its numbers, as JSON of the form {} in its element \
             <code>script#story</code>.</p>\n<ul id=\"sets\">\n{items}</ul>\n",
            super::report_json::SCHEMA
        ),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::report::{Entry, Table};
    use crate::sample;

    const HOSTILE: &str =
        "\"'><script>alert(1)</script><img src=x onerror=alert(1)>\u{202e}</title></style>&{}";

    /// The sample report with a hostile name in every possible place.
    fn hostile() -> Report {
        let mut report = sample::report();
        let name = HOSTILE.to_owned();
        report.title = name.clone();
        report.question = name.clone();
        report.source.program = name.clone();
        report.source.command = vec![name.clone()];
        report.answer = vec![name.clone(), name.clone()];
        report.method = vec![name.clone()];
        report.environment.fill((name.clone(), name.clone()));
        for warning in &mut report.warnings {
            warning.code = name.clone();
            warning.strength = name.clone();
            warning.words = name.clone();
        }
        for section in &mut report.sections {
            section.name = format!("{}{name}", section.name);
            section.heading = name.clone();
            for block in &mut section.blocks {
                match block {
                    Block::Words(words) => *words = name.clone(),
                    Block::List(items) => items.push(name.clone()),
                    Block::Text(text) => *text = name.clone(),
                    Block::Table(table) => {
                        table.caption = name.clone();
                        table.columns[0].title = name.clone();
                        let entry = &mut table.rows[0][0];
                        *entry = Entry { text: name.clone(), more: name.clone(), ..entry.clone() };
                    }
                    Block::Picture(picture) => {
                        picture.name.push_str(&name);
                        picture.caption = name.clone();
                        picture.figure.title = name.clone();
                        picture.figure.subtitle = name.clone();
                    }
                }
            }
        }
        for set in &mut report.data {
            set.name.push_str(&name);
            set.columns[0] = name.clone();
            set.rows[0][0] = name.as_str().into();
        }
        report
    }

    /// Number of occurrences of each tag, and of each attribute that can run a script.
    fn tags(page: &str) -> std::collections::BTreeMap<String, usize> {
        let mut found = std::collections::BTreeMap::new();
        let mut script = false;
        for piece in page.split('<').skip(1) {
            let name: String = piece.chars().take_while(|c| c.is_alphanumeric()).collect();
            if script {
                script = !piece.starts_with("/script");
            } else if !name.is_empty() {
                script = name == "script";
                *found.entry(name).or_default() += 1;
            }
        }
        found
    }

    #[test]
    fn hostile_names_stay_text_everywhere() {
        let (plain, page) = (html(&sample::report()).unwrap(), html(&hostile()).unwrap());
        assert!(!page.contains("<script>alert"), "a script came in");
        assert!(!page.contains("<img"), "an element came in");
        assert!(!page.contains('\u{202e}'), "a turn of direction came in");
        assert_eq!(page.matches("<script>").count(), 1);
        assert_eq!(page.matches("</script>").count(), 2);
        let (mut before, mut after) = (tags(&plain), tags(&page));
        // These may differ: the first cells with remarks, and the lines of long titles.
        for name in ["span", "text", "p", "li", "b", "rect", "path"] {
            before.remove(name);
            after.remove(name);
        }
        assert_eq!(before, after);
    }

    #[test]
    fn one_script_and_one_style_are_allowed_by_their_hashes() {
        let page = html(&sample::report()).unwrap();
        let between = |open: &str, close: &str| {
            let from = page.find(open).unwrap() + open.len();
            &page[from..from + page[from..].find(close).unwrap()]
        };
        for (kind, content) in [
            ("style-src", between("<style>", "</style>")),
            ("script-src", between("<script>", "</script>")),
        ] {
            let hash = STANDARD.encode(Sha256::digest(content));
            assert!(page.contains(&format!("{kind} 'sha256-{hash}'")), "{kind}");
        }
        assert!(page.contains("default-src 'none'"));
        assert!(!page.contains(" style="), "an attribute that the policy refuses");
        for outside in ["http:", "https:", "@import", "url(h", "src=\"", "unsafe-"] {
            let found = page.replace("http://www.w3.org/2000/svg", "");
            assert!(!found.contains(outside), "{outside}");
        }
    }

    #[test]
    fn the_skeleton_is_small_and_the_page_too() {
        assert!(STYLE.len() + SCRIPT.len() < 30_000);
        assert!(html(&sample::report()).unwrap().len() < 500_000);
    }

    #[test]
    fn what_forbids_the_use_of_numbers_stands_before_them() {
        let mut report = sample::report();
        let page = html(&report).unwrap();
        let at = |words: &str| page.find(words).unwrap();
        assert!(at("id=\"severe\"") < at("id=\"answer\""));
        assert!(at("id=\"answer\"") < at("id=\"warnings\""));
        report.warnings.clear();
        assert!(!html(&report).unwrap().contains("id=\"severe\""));
        report.source.complete = false;
        assert!(html(&report).unwrap().contains(wording::PARTIAL));
    }

    #[test]
    fn headings_tables_and_figures_can_be_found_by_who_cannot_see() {
        let page = html(&sample::report()).unwrap();
        assert_eq!(page.matches("<h1").count(), 1);
        assert!(!page.contains("<h3"));
        assert_eq!(page.matches("<table").count(), page.matches("<caption").count());
        assert!(!page.contains(".</b> </"), "a table or a figure has no name");
        assert_eq!(page.matches("<svg aria-label=\"").count(), page.matches("<svg ").count());
        assert!(page.contains("lang=\"en\"") && page.contains("name=\"viewport\""));
        let empty = Table { caption: "none".into(), columns: Vec::new(), rows: Vec::new() };
        let mut report = sample::report();
        report.sections[0].blocks = vec![Block::Table(empty)];
        assert!(html(&report).is_ok());
    }
}
