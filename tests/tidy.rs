//! Code about code: the arrows between rooms, the words that may not be said, the lists that must
//! be complete. All of it is a check of text: no dependency, and no second compiler.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

/// Each room with the rooms it may use; a room may use only rooms above its own line. `sys` is the
/// crate iosonde-sys, `sys::clock` its clock alone. `cli` may use everything.
const ROOMS: [(&str, &[&str]); 17] = [
    ("units", &[]),
    ("stats", &["units"]),
    ("spec", &["units"]),
    ("plan", &["units", "spec"]),
    ("content", &["units", "plan"]),
    ("record", &["units", "stats", "spec", "plan", "content"]),
    ("analysis", &["units", "stats", "spec", "plan", "content", "record"]),
    ("chart", &["units"]),
    ("report", &["units", "stats", "spec", "plan", "record", "analysis", "chart"]),
    ("host", &["units", "record", "sys"]),
    ("target", &["units", "plan", "content", "record", "host", "sys"]),
    ("backend", &["units", "plan", "content", "sys"]),
    ("engine", &["units", "stats", "plan", "content", "record", "backend", "sys"]),
    ("profile", &["units", "stats", "plan", "record", "host", "sys", "bpf"]),
    (
        "schedule",
        &[
            "units",
            "stats",
            "spec",
            "plan",
            "content",
            "record",
            "analysis",
            "host",
            "target",
            "backend",
            "engine",
            "profile",
            "sys::clock",
        ],
    ),
    ("cli", &["*"]),
    ("main", &["*"]),
];

/// Words that may not be said, what to say instead, and where they may be said after all.
const WORDS: [(&str, &str, &[&str]); 6] = [
    // `program` gives an outside program a deadline; it measures nothing.
    ("Instant::now", "a clock that is passed in", &["engine", "backend", "cli", "host/program"]),
    ("SystemTime::now", "a time that is passed in", &["engine", "backend", "cli"]),
    ("HashMap", "BTreeMap, whose order is the same in every run", &[]),
    ("process::exit", "a value that `cli` turns into an exit code", &["cli", "main"]),
    ("println!", "a String that is returned to `cli`", &["cli", "main"]),
    ("print!", "a String that is returned to `cli`", &["cli", "main"]),
];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 6] = ["utils", "util", "helpers", "misc", "common", "mod"];
/// Columns, as in rustfmt.toml, which does not wrap comments and strings.
const COLUMNS: usize = 100;
/// Lines of a file outside its tests.
const LINES: usize = 500;
/// Files that may be larger than a mebibyte.
const LARGE: [&str; 0] = [];

/// A text of the repository; the path is relative to its root.
struct Text {
    path: String,
    text: String,
}

impl Text {
    /// The path below `src` without extension: `engine/job`.
    fn place(&self) -> &str {
        self.path.strip_prefix("src/").and_then(|path| path.strip_suffix(".rs")).unwrap_or("")
    }

    fn room(&self) -> &str {
        self.place().split('/').next().unwrap_or("")
    }

    fn is_source(&self) -> bool {
        self.path.ends_with(".rs")
            && (self.path.starts_with("src/")
                || self.path.starts_with("crates/") && self.path.contains("/src/"))
    }

    fn fault(&self, line: usize, words: &str) -> String {
        format!("{}:{line}: {words}", self.path)
    }
}

/// The code of a text without comments and `#[cfg(test)]` items, in the same number of lines.
/// rustfmt puts the brace that closes an item into the column where the item begins.
fn code(text: &str) -> String {
    let mut out = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let bare = line.trim_start();
        let indent = &line[..line.len() - bare.len()];
        if bare == "#[cfg(test)]" {
            out.push('\n');
            for line in lines.by_ref() {
                out.push('\n');
                let inner = line.strip_prefix(indent).is_some_and(|rest| rest.starts_with(' '));
                if !inner && line.ends_with([';', '}']) {
                    break;
                }
            }
            continue;
        }
        if !bare.starts_with("//") {
            out.push_str(line.split(" // ").next().unwrap_or(line));
        }
        out.push('\n');
    }
    out
}

/// Line number and remainder after each occurrence of `word` that is not the tail of a longer name.
fn after<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word)
        .filter(move |(at, _)| !code[..*at].ends_with(is_name))
        .map(move |(at, _)| (1 + code[..at].matches('\n').count(), &code[at + word.len()..]))
}

/// The first names of a path or of a braced list: `a::b` gives a, `{a::b, c}` gives a and c.
fn heads(path: &str) -> Vec<String> {
    let first = |path: &str| {
        let name = path.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next();
        name.unwrap_or("").to_string()
    };
    let Some(list) = path.strip_prefix('{') else { return vec![first(path)] };
    let (mut depth, mut start, mut names) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                names.push(first(&list[start..at]));
                start = at + 1;
            }
            '}' => depth -= 1,
            _ => {}
        }
        if c == '}' && start == at + 1 {
            break;
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// Imports that go up or sideways.
fn arrows(source: &Text) -> Vec<String> {
    let room = source.room();
    if !source.path.starts_with("src/") || room == "lib" {
        return Vec::new();
    }
    let Some((_, may_use)) = ROOMS.iter().find(|(name, _)| *name == room) else {
        return vec![source.fault(1, "this room is not in the table of tests/tidy.rs")];
    };
    let may = |name: &str| may_use.contains(&name) || may_use.contains(&"*");
    let code = code(&source.text);
    let mut faults = Vec::new();
    for (line, path) in after(&code, "crate::") {
        for name in heads(path).iter().filter(|name| *name != room && !may(name)) {
            faults.push(source.fault(line, &format!("`{room}` may not use `{name}`")));
        }
    }
    for (line, path) in after(&code, "iosonde_sys::") {
        let clock_only = heads(path).iter().all(|name| name.eq_ignore_ascii_case("clock"));
        if !(may("sys") || clock_only && may("sys::clock")) {
            faults.push(source.fault(line, &format!("`{room}` may not use iosonde-sys so")));
        }
    }
    for (line, _) in after(&code, "iosonde_vhost::") {
        if room != "backend" {
            faults.push(source.fault(line, "iosonde-vhost is for `backend` alone"));
        }
    }
    for (line, _) in after(&code, "iosonde_bpf::") {
        if !may("bpf") {
            faults.push(source.fault(line, "iosonde-bpf is for `profile` alone"));
        }
    }
    let outside = "super::".repeat(source.place().split('/').count());
    for (line, _) in after(&code, &outside) {
        faults.push(source.fault(line, "leaves its room by `super`; say `crate::room`"));
    }
    faults
}

/// Banned words, with what to say instead.
fn words(source: &Text) -> Vec<String> {
    if !source.path.starts_with("src/") && !source.path.starts_with("crates/iosonde-sys/src/") {
        return Vec::new();
    }
    let code = code(&source.text);
    let mut faults = Vec::new();
    for (word, instead, places) in WORDS {
        let place = source.place();
        if !places.iter().any(|at| place == *at || place.starts_with(&format!("{at}/"))) {
            for (at, _) in code.match_indices(word) {
                let line = 1 + code[..at].matches('\n').count();
                faults.push(source.fault(line, &format!("`{word}`: use {instead}")));
            }
        }
    }
    faults
}

/// Crates that may say `unsafe`.
const UNSAFE: [&str; 3] = ["crates/iosonde-sys/", "crates/iosonde-vhost/", "crates/iosonde-bpf/"];

/// `unsafe` in another place than its crates.
fn dangers(source: &Text) -> Vec<String> {
    let may = UNSAFE.iter().any(|place| source.path.starts_with(place));
    if may || source.path == "tests/tidy.rs" {
        return Vec::new();
    }
    let code = code(&source.text);
    after(&code, "unsafe")
        .filter(|(_, rest)| rest.starts_with([' ', '{', '(']))
        .map(|(line, _)| {
            source.fault(line, "`unsafe` lives in iosonde-sys, iosonde-vhost and iosonde-bpf")
        })
        .collect()
}

/// A missing head, a long line, a long file, an empty name.
fn shape(source: &Text) -> Vec<String> {
    let mut faults = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        let columns = line.chars().count();
        if columns > COLUMNS {
            faults.push(source.fault(index + 1, &format!("{columns} columns, {COLUMNS} at most")));
        }
    }
    for part in source.path.trim_end_matches(".rs").split('/') {
        if EMPTY_NAMES.contains(&part) {
            faults.push(source.fault(1, &format!("`{part}` names nothing; say what is inside")));
        }
    }
    if source.is_source() {
        if !source.text.starts_with("//!") {
            faults.push(source.fault(1, "a file opens with `//!` and what it is for"));
        }
        let lines = source.text.find("#[cfg(test)]\nmod tests").unwrap_or(source.text.len());
        let lines = source.text[..lines].lines().count();
        if lines > LINES {
            faults.push(source.fault(1, &format!("{lines} lines outside tests, {LINES} at most")));
        }
    }
    faults
}

/// A path that exists on one developer's machine only. `me` is nobody in particular.
fn homes(text: &Text) -> Vec<String> {
    let markers = [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/")];
    let mut faults = Vec::new();
    for marker in markers {
        for (at, _) in text.text.match_indices(marker) {
            let (before, rest) = (&text.text[..at], &text.text[at + marker.len()..]);
            let starts = !before.ends_with(|c: char| c.is_alphanumeric() || "._-}*".contains(c));
            if starts && heads(rest) != ["me"] {
                let line = 1 + before.matches('\n').count();
                faults.push(text.fault(line, "a path of one machine"));
            }
        }
    }
    faults
}

/// Files of `folder` whose name does not stand in `list`, as `name.ext`, `"name"` or `name::`.
fn unlisted(texts: &[Text], folder: &str, list: &Text) -> Vec<String> {
    let mut faults = Vec::new();
    for text in texts {
        let Some(file) = text.path.strip_prefix(folder).filter(|file| !file.contains('/')) else {
            continue;
        };
        let name = file.split('.').next().unwrap_or(file);
        let as_module = after(&list.text, &format!("{name}::")).next().is_some();
        let as_file = !file.ends_with(".rs") && list.text.contains(file);
        if !as_module && !as_file && !list.text.contains(&format!("\"{name}\"")) {
            faults.push(text.fault(1, &format!("is not listed in {}", list.path)));
        }
    }
    faults
}

/// Source files that no `mod` line reaches: they are not compiled, and so not checked.
fn orphans(texts: &[Text]) -> Vec<String> {
    let mut faults = Vec::new();
    for text in texts.iter().filter(|text| text.is_source()) {
        let (folder, file) = text.path.rsplit_once('/').unwrap_or(("", &text.path));
        let name = file.trim_end_matches(".rs");
        if ["lib", "main"].contains(&name) && folder.ends_with("src") || folder.ends_with("/bin") {
            continue;
        }
        let parents =
            [format!("{folder}.rs"), format!("{folder}/lib.rs"), format!("{folder}/main.rs")];
        let declared = texts.iter().filter(|text| parents.contains(&text.path)).any(|parent| {
            let line = format!("mod {name};");
            parent.text.lines().any(|found| found.ends_with(&line))
        });
        if !declared {
            faults.push(text.fault(1, "no `mod` line reaches this file"));
        }
    }
    faults
}

/// Every text of the repository, and the faults that the walk itself finds.
fn walk(root: &Path, folder: &str, texts: &mut Vec<Text>, faults: &mut Vec<String>) {
    let mut entries: Vec<_> =
        fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap()).collect();
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let name = entry.file_name().into_string().unwrap();
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let kind = entry.file_type().unwrap();
        if path == "target" || path == ".git" || path.ends_with(".partial") {
            continue;
        }
        if kind.is_dir() {
            walk(root, &path, texts, faults);
        } else if kind.is_file() {
            if entry.metadata().unwrap().len() > 1 << 20 && !LARGE.contains(&path.as_str()) {
                faults.push(format!("{path}: larger than 1 MiB"));
            } else if let Ok(text) = fs::read_to_string(entry.path()) {
                texts.push(Text { path, text });
            }
        }
    }
}

fn find<'a>(texts: &'a [Text], path: &str) -> Option<&'a Text> {
    texts.iter().find(|text| text.path == path)
}

#[test]
fn the_house_is_tidy() {
    let (mut texts, mut faults) = (Vec::new(), Vec::new());
    walk(Path::new(env!("CARGO_MANIFEST_DIR")), "", &mut texts, &mut faults);
    for text in &texts {
        faults.extend(homes(text));
        if text.path.ends_with(".rs") {
            faults.extend(dangers(text));
            faults.extend(shape(text));
        }
    }
    // A file declared under `#[cfg(test)]` is a test as a whole.
    let is_test = |source: &Text| {
        let parent = source.path.rsplit_once('/').map(|(folder, _)| format!("{folder}.rs"));
        let name = source.place().rsplit('/').next().unwrap_or("");
        parent.and_then(|parent| find(&texts, &parent)).is_some_and(|parent| {
            let declaration = format!("mod {name};");
            parent.text.contains(&declaration) && !code(&parent.text).contains(&declaration)
        })
    };
    for source in texts.iter().filter(|text| text.is_source() && !is_test(text)) {
        faults.extend(arrows(source));
        faults.extend(words(source));
    }
    faults.extend(orphans(&texts));
    for (folder, list) in [
        ("workloads/", "src/spec/catalogue.rs"),
        ("experiments/", "src/spec/catalogue.rs"),
        ("src/analysis/finding/", "src/analysis/finding.rs"),
        ("src/analysis/profile/finding/", "src/analysis/profile/finding.rs"),
    ] {
        if let Some(list) = find(&texts, list) {
            faults.extend(unlisted(&texts, folder, list));
        }
    }
    let changes = find(&texts, "CHANGELOG.md").unwrap();
    if !changes.text.contains("\n## Unreleased\n") {
        faults.push("CHANGELOG.md: has no section `## Unreleased`".into());
    }
    let drawing = find(&texts, "ARCHITECTURE.md").unwrap();
    for (room, _) in ROOMS.iter().filter(|(room, _)| *room != "main") {
        let stands = find(&texts, &format!("src/{room}.rs")).is_some();
        if stands && !drawing.text.contains(&format!("`{room}`")) {
            faults.push(format!("ARCHITECTURE.md: does not name the room `{room}`"));
        }
    }
    assert!(faults.is_empty(), "{} fault(s)\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn the_table_has_no_circle() {
    for (index, (room, may_use)) in ROOMS.iter().enumerate() {
        let is_room = |used: &&&str| !used.starts_with("sys") && !["*", "bpf"].contains(*used);
        for used in may_use.iter().filter(is_room) {
            let above = ROOMS[..index].iter().any(|(name, _)| name == used);
            assert!(above, "`{room}` may use `{used}`, which does not stand above it");
        }
    }
}

/// The checks themselves, each with a planted fault and a look-alike.
#[cfg(test)]
mod planted {
    use super::*;

    fn text(path: &str, text: &str) -> Text {
        Text { path: path.into(), text: text.into() }
    }

    #[test]
    fn arrows_are_found_in_every_spelling() {
        for wrong in [
            "use crate::engine::run;",
            "use crate::{units, engine::run};",
            "use crate::{\n    units,\n    engine,\n};",
            "fn f() { let a = crate::engine::run(); }",
            "use super::super::engine;",
            "use iosonde_sys::Clock;",
        ] {
            assert_eq!(arrows(&text("src/plan/a.rs", wrong)).len(), 1, "{wrong}");
        }
        for right in [
            "use crate::spec::Workload;",
            "use crate::plan::Job;",
            "/// See [`crate::engine::run`].",
            "use super::Job;",
            "#[cfg(test)]\nmod tests {\n    use crate::engine::run;\n\n    fn f() {}\n}",
            "#[cfg(test)]\nuse crate::engine::run;\nfn f() {}",
        ] {
            assert!(arrows(&text("src/plan/a.rs", right)).is_empty(), "{right}");
        }
        let after_test = "#[cfg(test)]\nmod t {\n    x();\n}\nuse crate::cli::a;";
        assert_eq!(
            arrows(&text("src/plan.rs", after_test)),
            ["src/plan.rs:5: `plan` may not use `cli`"]
        );
        assert_eq!(arrows(&text("src/attic.rs", "")).len(), 1, "a room that is not in the table");
        let clock = "use iosonde_sys::{Clock, clock};";
        assert!(arrows(&text("src/schedule.rs", clock)).is_empty());
        assert_eq!(arrows(&text("src/schedule.rs", "use iosonde_sys::{Clock, Ring};")).len(), 1);
    }

    #[test]
    fn words_are_found_where_they_are_banned() {
        let time = "fn f() {\n    let t = std::time::Instant::now();\n}";
        let fault = "src/stats/a.rs:2: `Instant::now`: use a clock that is passed in";
        assert_eq!(words(&text("src/stats/a.rs", time)), [fault]);
        assert!(words(&text("src/engine/a.rs", time)).is_empty());
        assert!(words(&text("src/stats/a.rs", "// not Instant::now")).is_empty());
        assert_eq!(words(&text("src/plan.rs", "eprintln!(\"x\");")).len(), 1);
        assert_eq!(words(&text("src/engine.rs", "std::process::exit(1);")).len(), 1);
        assert!(words(&text("src/cli/a.rs", "println!();")).is_empty());
    }

    #[test]
    fn dangers_shapes_and_homes_are_found() {
        let danger = "fn f() { unsafe { g() } }";
        assert_eq!(dangers(&text("src/plan.rs", danger)).len(), 1);
        assert!(dangers(&text("crates/iosonde-sys/src/a.rs", danger)).is_empty());
        assert!(dangers(&text("src/lib.rs", "#![forbid(unsafe_code)]")).is_empty());
        let head = "//! A.\n";
        assert!(shape(&text("src/plan/a.rs", head)).is_empty());
        assert_eq!(shape(&text("src/plan/a.rs", "fn f() {}\n")).len(), 1);
        assert_eq!(shape(&text("src/plan/mod.rs", head)).len(), 1);
        assert_eq!(shape(&text("src/helpers/a.rs", head)).len(), 1);
        assert_eq!(shape(&text("src/a.rs", &format!("//! {}", "é".repeat(97)))).len(), 1);
        assert!(shape(&text("src/a.rs", &format!("//! {}", "é".repeat(96)))).is_empty());
        assert_eq!(shape(&text("src/a.rs", &head.repeat(LINES + 1))).len(), 1);
        let tests = format!("{}#[cfg(test)]\nmod tests {{\n{}}}", head, "    x\n".repeat(LINES));
        assert!(shape(&text("src/a.rs", &tests)).is_empty());
        let home = format!("see {}ann/notes", concat!("/ho", "me/"));
        assert_eq!(homes(&text("README.md", &home)).len(), 1);
        let elsewhere = format!("see docs{0}ann, {0}me/notes", concat!("/ho", "me/"));
        assert!(homes(&text("README.md", &elsewhere)).is_empty());
    }

    #[test]
    fn what_is_not_listed_is_found() {
        let files = [text("workloads/a.toml", ""), text("workloads/b.toml", "")];
        let list = text("src/spec/catalogue.rs", "include_str!(\"../../workloads/a.toml\")");
        assert_eq!(unlisted(&files, "workloads/", &list).len(), 1);
        let files = [text("src/analysis/finding/a.rs", ""), text("src/analysis/finding/b.rs", "")];
        let list =
            text("src/analysis/finding.rs", "mod a;\nmod b;\nconst X: [F; 1] = [b::detect];");
        let fault = "src/analysis/finding/a.rs:1: is not listed in src/analysis/finding.rs";
        assert_eq!(unlisted(&files, "src/analysis/finding/", &list), [fault]);
        let tree = [text("src/lib.rs", "pub mod a;"), text("src/a.rs", ""), text("src/b.rs", "")];
        assert_eq!(orphans(&tree), ["src/b.rs:1: no `mod` line reaches this file"]);
    }
}
