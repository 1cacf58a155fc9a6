//! Words shared by all renderers of a report.

use super::report::{Entry, Source, Table, Trust};
use iosonde_model::record::store::timestamp;

/// First words of an incomplete report.
pub(super) const PARTIAL: &str =
    "Partial: not everything that was planned was done. What follows is of what was.";

/// The measuring program and the start time.
pub(super) fn source(source: &Source) -> String {
    let program = if source.program.is_empty() { "an unknown program" } else { &source.program };
    match source.started_unix_ns {
        Some(ns) => format!("Measured by {program}, started {}.", moment(ns)),
        None => format!("Measured by {program}."),
    }
}

/// The command line, quoted for a shell where necessary.
pub(super) fn command(source: &Source) -> String {
    let quoted = |word: &String| {
        let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
        match !word.is_empty() && word.chars().all(plain) {
            true => word.clone(),
            false => format!("'{}'", word.replace('\'', "'\\''")),
        }
    };
    source.command.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// A time as `2026-11-20 10:45:00 UTC`.
pub(super) fn moment(unix_ns: u64) -> String {
    let to_the_second = &timestamp(unix_ns)[.."2026-11-20T10:45:00".len()];
    format!("{} UTC", to_the_second.replace('T', " "))
}

/// Capitalises the first letter.
pub(super) fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// The sign after an entry, by its trust.
pub(super) fn mark(trust: Trust) -> &'static str {
    match trust {
        Trust::Good => "",
        Trust::LowConfidence => "!",
        Trust::Failed => "✗",
    }
}

/// The sign of an entry and the number of its footnote.
pub(super) fn marks(entry: &Entry, footnotes: &[&str]) -> String {
    let mut marks = match entry.trust {
        Trust::Good => String::new(),
        trust => format!(" {}", mark(trust)),
    };
    if let Some(at) = footnotes.iter().position(|note| *note == entry.more) {
        marks.push_str(&format!(" ({})", at + 1));
    }
    marks
}

/// Meanings of the signs used in a table.
pub(super) fn legend(table: &Table) -> Vec<String> {
    let used = |trust| table.rows.iter().flatten().any(|entry| entry.trust == trust);
    let all = [
        (Trust::LowConfidence, "low confidence: see warning"),
        (Trust::Failed, "not to be used: it failed, or a consistency check failed"),
    ];
    let formatted = all.into_iter().filter(|(trust, _)| used(*trust));
    formatted.map(|(trust, words)| format!("{} {words}", mark(trust))).collect()
}

/// Footnotes of a table: the details of entries of limited trust, each once.
pub(super) fn footnotes(table: &Table) -> Vec<&str> {
    let mut notes: Vec<&str> = Vec::new();
    for entry in table.rows.iter().flatten() {
        let has_note = entry.trust != Trust::Good && !entry.more.is_empty();
        if has_note && !notes.contains(&entry.more.as_str()) {
            notes.push(&entry.more);
        }
    }
    notes
}

/// Code and strength of a warning in parentheses; empty if both are.
pub(super) fn grounds(code: &str, strength: &str) -> String {
    match (code, strength) {
        ("", "") => String::new(),
        (one, "") | ("", one) => format!(" ({one})"),
        (code, strength) => format!(" ({code}, {strength})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_says_when_and_by_whom() {
        let mut of = Source { program: "fio-3.33".into(), ..Source::default() };
        assert_eq!(source(&of), "Measured by fio-3.33.");
        of.started_unix_ns = Some(1_790_000_000_123_456_789);
        assert_eq!(source(&of), "Measured by fio-3.33, started 2026-09-21 14:13:20 UTC.");
        of.command = ["fio", "--name", "it's a", ""].map(str::to_owned).to_vec();
        assert_eq!(command(&of), r"fio --name 'it'\''s a' ''");
    }
}
