//! Checks of the source text: imports between modules of a crate, forbidden names, full lists.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

/// The crates of the product. Their Cargo.toml files define which may use which, as the compiler
/// enforces; the table below does so for the modules of a crate.
const PRODUCT: [&str; 7] = [
    "src/",
    "crates/iosonde-analysis/src/",
    "crates/iosonde-engine/src/",
    "crates/iosonde-model/src/",
    "crates/iosonde-report/src/",
    "crates/iosonde-stats/src/",
    "crates/iosonde-watch/src/",
];

/// A module, and the modules of its crate that it may use.
type Module = (&'static str, &'static [&'static str]);

/// The modules of each crate with several, each with the earlier modules that it may use.
const MODULES: [(&str, &[Module]); 2] = [
    (
        "crates/iosonde-model/src/",
        &[
            ("units", &[]),
            ("spec", &["units"]),
            ("plan", &["units", "spec"]),
            ("content", &["units", "plan"]),
            ("record", &["units", "spec", "plan", "content"]),
        ],
    ),
    (
        "crates/iosonde-engine/src/",
        &[("host", &[]), ("target", &["host"]), ("backend", &[]), ("engine", &["host", "backend"])],
    ),
];

/// Names forbidden in the product, what to use instead, and the places that may use them.
const NAMES: [(&str, &str, &[&str]); 6] = [
    // `program` gives an external program a deadline; it measures nothing.
    ("Instant::now", "a clock that is passed in", &[ENGINE, BACKEND, PROGRAM, CLI]),
    ("SystemTime::now", "a time that is passed in", &[ENGINE, BACKEND, CLI]),
    ("HashMap", "BTreeMap, whose order is the same in every run", &[]),
    ("process::exit", "a value that `cli` turns into an exit code", &[CLI, "src/main.rs"]),
    ("println!", "a String that is returned to `cli`", &[CLI, "src/main.rs"]),
    ("print!", "a String that is returned to `cli`", &[CLI, "src/main.rs"]),
];
const CLI: &str = "src/cli";
const ENGINE: &str = "crates/iosonde-engine/src/engine";
const BACKEND: &str = "crates/iosonde-engine/src/backend";
const PROGRAM: &str = "crates/iosonde-engine/src/host/program";

/// Module names that do not describe their content.
const EMPTY_NAMES: [&str; 6] = ["utils", "util", "helpers", "misc", "common", "mod"];
/// Words that a storage engineer does not use; each has a plain equivalent.
const DIALECT: [&str; 10] = [
    "told",
    "mend",
    "mends",
    "mended",
    "luggage",
    "giver",
    "books",
    "aim",
    "asked wrongly",
    "stands in the way",
];
/// Maximum columns, as in rustfmt.toml; rustfmt does not wrap comments and strings.
const COLUMNS: usize = 100;
/// Maximum lines of a file outside its tests.
const LINES: usize = 500;
/// Files that may exceed one mebibyte.
const LARGE: [&str; 0] = [];

/// A text of the repository; the path is relative to its root.
struct Text {
    path: String,
    text: String,
}

impl Text {
    /// The source folder of a product crate, and the path below it without extension: `engine/job`.
    fn place(&self) -> Option<(&'static str, &str)> {
        let folder = *PRODUCT.iter().find(|folder| self.path.starts_with(**folder))?;
        Some((folder, self.path[folder.len()..].strip_suffix(".rs")?))
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

/// The code of a text without comments and `#[cfg(test)]` items, with the same number of lines.
/// rustfmt puts an item's closing brace into the column where the item begins.
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

/// Line number and remainder after each occurrence of `word`, except as the tail of a longer name.
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

/// Imports within a crate that `MODULES` does not allow.
fn arrows(source: &Text) -> Vec<String> {
    let Some((folder, place)) = source.place() else { return Vec::new() };
    let Some((_, modules)) = MODULES.iter().find(|(at, _)| *at == folder) else {
        return Vec::new();
    };
    let module = place.split('/').next().unwrap_or("");
    if module == "lib" {
        return Vec::new();
    }
    let Some((_, may_use)) = modules.iter().find(|(name, _)| *name == module) else {
        return vec![source.fault(1, "this module is not in the table of tests/tidy.rs")];
    };
    let code = code(&source.text);
    let mut faults = Vec::new();
    for (line, path) in after(&code, "crate::") {
        for name in heads(path).iter().filter(|name| *name != module) {
            if !may_use.contains(&name.as_str()) {
                faults.push(source.fault(line, &format!("`{module}` may not use `{name}`")));
            }
        }
    }
    let outside = "super::".repeat(place.split('/').count());
    for (line, _) in after(&code, &outside) {
        faults.push(source.fault(line, "leaves its module by `super`; say `crate::module`"));
    }
    faults
}

/// Uses of forbidden names, with what to use instead.
fn names(source: &Text) -> Vec<String> {
    if source.place().is_none() && !source.path.starts_with("crates/iosonde-sys/src/") {
        return Vec::new();
    }
    let code = code(&source.text);
    let mut faults = Vec::new();
    for (name, instead, places) in NAMES {
        let may = |at: &&str| {
            let rest = source.path.strip_prefix(*at);
            rest.is_some_and(|rest| ["", ".rs"].contains(&rest) || rest.starts_with('/'))
        };
        if !places.iter().any(may) {
            for (at, _) in code.match_indices(name) {
                let line = 1 + code[..at].matches('\n').count();
                faults.push(source.fault(line, &format!("`{name}`: use {instead}")));
            }
        }
    }
    faults
}

/// Crates that may use `unsafe`.
const UNSAFE: [&str; 3] = ["crates/iosonde-sys/", "crates/iosonde-vhost/", "crates/iosonde-bpf/"];

/// `unsafe` outside of these crates.
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

/// A skipped test that does not report what is untested.
fn skips(source: &Text) -> Vec<String> {
    let half = |line: &str| {
        line.contains(concat!("println!(\"", "skipped")) && !line.contains("; untested: ")
    };
    let lines = source.text.lines().enumerate().filter(|(_, line)| half(line));
    lines.map(|(index, _)| source.fault(index + 1, "use `iosonde_rig::skip`")).collect()
}

/// Long lines, empty names, missing heads, long files.
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

/// Words of the dialect in any case. Two of them were fields of schema version 1.
fn dialect(text: &Text) -> Vec<String> {
    let lower = text.text.to_lowercase().replace("\"mend\"", "").replace("`books`", "");
    let is_word = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let mut faults = Vec::new();
    for word in DIALECT {
        for (line, _) in after(&lower, word).filter(|(_, rest)| is_word(rest)) {
            faults.push(text.fault(line, &format!("`{word}` is dialect; use a plain word")));
        }
    }
    faults
}

/// Paths that exist only on one developer's machine. `me` is a placeholder.
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

/// Files of `folder` that `list` does not name, as `name.ext`, `"name"` or `name::`.
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

/// Source files that no `mod` line reaches: they are neither compiled nor checked.
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

/// Collects every text of the repository, and the faults found on the way.
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
fn the_repository_is_tidy() {
    let (mut texts, mut faults) = (Vec::new(), Vec::new());
    walk(Path::new(env!("CARGO_MANIFEST_DIR")), "", &mut texts, &mut faults);
    for text in &texts {
        faults.extend(homes(text));
        if text.path != "tests/tidy.rs" {
            faults.extend(dialect(text));
        }
        if text.path.ends_with(".rs") {
            faults.extend(dangers(text));
            faults.extend(shape(text));
            faults.extend(skips(text));
        }
    }
    // A file declared under `#[cfg(test)]` is entirely test code.
    let is_test = |source: &Text| {
        let parent = source.path.rsplit_once('/').map(|(folder, _)| format!("{folder}.rs"));
        let name = source.place().and_then(|(_, place)| place.rsplit('/').next()).unwrap_or("");
        parent.and_then(|parent| find(&texts, &parent)).is_some_and(|parent| {
            let declaration = format!("mod {name};");
            parent.text.contains(&declaration) && !code(&parent.text).contains(&declaration)
        })
    };
    for source in texts.iter().filter(|text| text.is_source() && !is_test(text)) {
        faults.extend(arrows(source));
        faults.extend(names(source));
    }
    faults.extend(orphans(&texts));
    for (folder, list) in [
        ("workloads/", "crates/iosonde-model/src/spec/catalogue.rs"),
        ("experiments/", "crates/iosonde-model/src/spec/catalogue.rs"),
        ("crates/iosonde-analysis/src/finding/", "crates/iosonde-analysis/src/finding.rs"),
        (
            "crates/iosonde-analysis/src/profile/finding/",
            "crates/iosonde-analysis/src/profile/finding.rs",
        ),
    ] {
        faults.extend(unlisted(&texts, folder, find(&texts, list).unwrap()));
    }
    let changes = find(&texts, "CHANGELOG.md").unwrap();
    if !changes.text.contains("\n## Unreleased\n") {
        faults.push("CHANGELOG.md: has no section `## Unreleased`".into());
    }
    let drawing = find(&texts, "ARCHITECTURE.md").unwrap();
    for text in texts.iter().filter(|text| text.path.starts_with("crates/")) {
        if let Some(name) = text.path.strip_suffix("/Cargo.toml")
            && !drawing.text.contains(&format!("`{}`", name.trim_start_matches("crates/")))
        {
            faults.push(format!("ARCHITECTURE.md: does not name `{name}`"));
        }
    }
    assert!(faults.is_empty(), "{} fault(s)\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn the_table_of_modules_has_no_cycle() {
    for (_, modules) in MODULES {
        for (index, (module, may_use)) in modules.iter().enumerate() {
            for used in *may_use {
                let above = modules[..index].iter().any(|(name, _)| name == used);
                assert!(above, "`{module}` may use `{used}`, which does not stand above it");
            }
        }
    }
}

/// Tests of the checks, each with a planted fault and a look-alike.
#[cfg(test)]
mod planted {
    use super::*;

    fn text(path: &str, text: &str) -> Text {
        Text { path: path.into(), text: text.into() }
    }

    #[test]
    fn arrows_are_found_in_every_spelling() {
        let of = |path: &str, code: &str| {
            arrows(&text(&format!("crates/iosonde-model/src/{path}"), code))
        };
        for wrong in [
            "use crate::record::Run;",
            "use crate::{units, record::Run};",
            "use crate::{\n    units,\n    record,\n};",
            "fn f() { let a = crate::record::of(); }",
            "use super::super::record;",
        ] {
            assert_eq!(of("plan/a.rs", wrong).len(), 1, "{wrong}");
        }
        for right in [
            "use crate::spec::Workload;",
            "use crate::plan::Job;",
            "/// See [`crate::record::Run`].",
            "use super::Job;",
            "#[cfg(test)]\nmod tests {\n    use crate::record::Run;\n\n    fn f() {}\n}",
            "#[cfg(test)]\nuse crate::record::Run;\nfn f() {}",
        ] {
            assert!(of("plan/a.rs", right).is_empty(), "{right}");
        }
        let after_test = "#[cfg(test)]\nmod t {\n    x();\n}\nuse crate::content::a;";
        assert_eq!(
            of("plan.rs", after_test),
            ["crates/iosonde-model/src/plan.rs:5: `plan` may not use `content`"]
        );
        assert_eq!(of("attic.rs", "").len(), 1, "a module that is not in the table");
    }

    #[test]
    fn names_are_found_where_they_are_not_used() {
        let time = "fn f() {\n    let t = std::time::Instant::now();\n}";
        let stats = "crates/iosonde-stats/src/a.rs";
        let fault = format!("{stats}:2: `Instant::now`: use a clock that is passed in");
        assert_eq!(names(&text(stats, time)), [fault]);
        assert!(names(&text("crates/iosonde-engine/src/engine/a.rs", time)).is_empty());
        assert!(names(&text("crates/iosonde-rig/src/a.rs", time)).is_empty());
        assert!(names(&text(stats, "// not Instant::now")).is_empty());
        assert_eq!(names(&text("src/schedule.rs", "eprintln!(\"x\");")).len(), 1);
        let exit = "std::process::exit(1);";
        assert_eq!(names(&text("crates/iosonde-engine/src/engine.rs", exit)).len(), 1);
        assert!(names(&text("src/cli/a.rs", "println!();")).is_empty());
    }

    #[test]
    fn dangers_shapes_and_homes_are_found() {
        let danger = "fn f() { unsafe { g() } }";
        assert_eq!(dangers(&text("src/plan.rs", danger)).len(), 1);
        assert!(dangers(&text("crates/iosonde-sys/src/a.rs", danger)).is_empty());
        assert!(dangers(&text("src/lib.rs", "#![forbid(unsafe_code)]")).is_empty());
        let half = concat!("eprintln!(\"", "skipped: {reason}\")");
        assert_eq!(skips(&text("tests/a.rs", half)).len(), 1);
        assert!(skips(&text("tests/a.rs", "skip(reason)")).is_empty());
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
    fn dialect_is_found_as_whole_words() {
        let of = |words: &str| dialect(&text("README.md", words));
        assert_eq!(of("a\nAs we Told you"), ["README.md:2: `told` is dialect; use a plain word"]);
        assert_eq!(of("it stands in the way").len(), 1);
        assert!(of("claims, amend, untold, #[serde(rename = \"mend\")]").is_empty());
    }

    #[test]
    fn what_is_not_listed_is_found() {
        let files = [text("workloads/a.toml", ""), text("workloads/b.toml", "")];
        let list = text("src/spec/catalogue.rs", "include_str!(\"../../workloads/a.toml\")");
        assert_eq!(unlisted(&files, "workloads/", &list).len(), 1);
        let files = [text("src/finding/a.rs", ""), text("src/finding/b.rs", "")];
        let list = text("src/finding.rs", "mod a;\nmod b;\nconst X: [F; 1] = [b::detect];");
        let fault = "src/finding/a.rs:1: is not listed in src/finding.rs";
        assert_eq!(unlisted(&files, "src/finding/", &list), [fault]);
        let tree = [text("src/lib.rs", "pub mod a;"), text("src/a.rs", ""), text("src/b.rs", "")];
        assert_eq!(orphans(&tree), ["src/b.rs:1: no `mod` line reaches this file"]);
    }
}
