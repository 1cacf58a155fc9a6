//! The command blocks of the README and of the book in `docs/` work as shown.
//!
//! A block fenced as `console` is a session: lines that begin with `$ ` are commands, run in an
//! empty directory. The lines below them must appear in their output in this order; `…` in a line
//! matches anything. Words after `console` modify this: `exit=CODE` expects that exit code instead
//! of 0, `plan` adds `--dry-run` to each command, and `needs=WHAT` (disk, root, hosts, files,
//! program, minutes) is the reason for not running a block here.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use iosonde_rig::ScratchDir;

/// A fenced block of a page.
struct Block {
    /// Page and line number, for messages.
    place: String,
    /// The words after the fence: `console`, `exit=3`.
    words: Vec<String>,
    lines: Vec<String>,
}

/// A command of a session, and the lines that its output must contain.
struct Step {
    command: String,
    expected: Vec<String>,
}

impl Block {
    fn is_session(&self) -> bool {
        self.words.first().is_some_and(|word| word == "console")
    }

    /// The value of a word of the fence: `3` for `exit=3`.
    fn value(&self, name: &str) -> Option<&str> {
        self.words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    fn is_plan(&self) -> bool {
        self.words.iter().any(|word| word == "plan")
    }

    /// The commands, with lines that end in a backslash joined.
    fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        let mut is_open = false;
        for line in &self.lines {
            let part = line.strip_suffix('\\');
            let words = part.unwrap_or(line);
            match (words.strip_prefix("$ "), steps.last_mut()) {
                (Some(words), _) => {
                    steps.push(Step { command: words.into(), expected: Vec::new() });
                    is_open = part.is_some();
                }
                (None, Some(step)) if is_open => {
                    step.command.push_str(words.trim_start());
                    is_open = part.is_some();
                }
                (None, Some(step)) => step.expected.push(line.clone()),
                (None, None) => panic!("{}: a session begins with `$ `", self.place),
            }
        }
        steps
    }
}

/// The fenced blocks of a page.
fn blocks(page: &str, markdown: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for (line, number) in markdown.lines().zip(1..) {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(words), None) => {
                let words = words.split_whitespace().map(str::to_owned).collect();
                let place = format!("{page}:{number}");
                open = Some(Block { place, words, lines: Vec::new() });
            }
            (None, Some(block)) => block.lines.push(line.to_owned()),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: a block is not closed");
    found
}

/// Whether `line` matches `pattern`, in which `…` matches anything; trailing spaces are ignored.
fn matches(pattern: &str, line: &str) -> bool {
    let mut rest = line.trim_end();
    let mut parts = pattern.trim_end().split('…');
    let Some(after) = parts.next().and_then(|head| rest.strip_prefix(head)) else { return false };
    rest = after;
    let mut tail = None;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        let is_end = rest.ends_with(part);
        rest = &rest[at + part.len()..];
        tail = Some(is_end);
    }
    tail.unwrap_or(rest.is_empty())
}

/// The first expected line that is missing in the output after the previous ones.
fn missing<'a>(expected: &'a [String], output: &str) -> Option<&'a String> {
    let mut lines = output.lines();
    expected
        .iter()
        .find(|pattern| !pattern.trim().is_empty() && !lines.any(|line| matches(pattern, line)))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The README and the pages of the book, each with its path and text.
fn pages() -> Vec<(String, String)> {
    let mut paths: Vec<PathBuf> = fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "md"))
        .collect();
    paths.sort();
    paths.insert(0, root().join("README.md"));
    let named = paths.iter().map(|path| {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        (name, fs::read_to_string(path).unwrap())
    });
    named.collect()
}

/// Runs a session in a new directory. Returns the differences from the page.
fn differences(block: &Block) -> Vec<String> {
    differences_in(ScratchDir::new().unwrap().path(), block)
}

/// Runs a session in this directory.
fn differences_in(dir: &Path, block: &Block) -> Vec<String> {
    let program = Path::new(iosonde_fixtures::program!().path()).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut found = Vec::new();
    for step in block.steps() {
        let more =
            if block.is_plan() && step.command.starts_with("iosonde ") { " --dry-run" } else { "" };
        let command = step.command.split(" # ").next().unwrap_or_default().trim();
        let ended = Command::new("sh")
            .args(["-c", &format!("{command}{more}")])
            .current_dir(dir)
            .env("HOME", dir)
            .env("PATH", &path)
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_CONFIG_HOME")
            .output()
            .unwrap();
        let mut output = String::from_utf8_lossy(&ended.stdout).into_owned();
        output.push_str(&String::from_utf8_lossy(&ended.stderr));
        let code = ended.status.code();
        let expected = block.value("exit").map_or(0, |code| code.parse().unwrap());
        // A plan is refused with 5 if the directory of the tests is in memory.
        if code != Some(expected) && !(block.is_plan() && code == Some(5)) {
            found.push(format!("{}: `{command}` ended with {code:?}:\n{output}", block.place));
        } else if let Some(line) = missing(&step.expected, &output) {
            found.push(format!(
                "{}: `{command}` does not print\n{line}\nbut\n{output}",
                block.place
            ));
        }
    }
    found
}

#[test]
fn each_session_of_the_pages_runs_as_shown() {
    let mut wrong = Vec::new();
    let (mut run, mut not_run) = (0, 0);
    for (page, text) in pages() {
        for block in blocks(&page, &text) {
            if !block.is_session() {
                let command = block.lines.iter().find(|line| line.starts_with("iosonde "));
                if let Some(line) = command.filter(|line| !line.contains(" error: ")) {
                    wrong.push(format!("{}: not marked `console`: {line}", block.place));
                }
            } else if block.value("needs").is_some() {
                not_run += 1;
            } else {
                run += 1;
                wrong.extend(differences(&block));
            }
        }
    }
    let part = format!("{not_run} of {} sessions", run + not_run);
    iosonde_rig::skip_part(&part, "they need a disk, root, hosts, files or minutes");
    assert!(run > 0, "no page has a session");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs `words` in a directory; `Err` if they fail.
fn succeeds(dir: &Path, words: &[&str]) -> Result<String, String> {
    let ended = Command::new(words[0]).args(&words[1..]).current_dir(dir).output();
    let ended = ended.map_err(|error| format!("{}: {error}", words[0]))?;
    match ended.status.success() {
        true => Ok(String::from_utf8_lossy(&ended.stdout).into_owned()),
        false => Err(format!("{words:?}: {}", String::from_utf8_lossy(&ended.stderr))),
    }
}

#[test]
fn the_commands_of_the_readme_run_in_a_fresh_clone() {
    let from = root().display().to_string();
    if let Err(reason) = succeeds(root(), &["git", "rev-parse", "--verify", "HEAD"]) {
        return iosonde_rig::skip(format!("no repository that can be cloned: {reason}"));
    }
    let dir = ScratchDir::new().unwrap();
    succeeds(
        dir.path(),
        &["git", "clone", "--quiet", "--depth", "1", &format!("file://{from}"), "clone"],
    )
    .unwrap();
    let clone = dir.path().join("clone");
    // First step of `cargo install --path .`: all manifests and the lock file must be present.
    let cargo = env!("CARGO");
    let words = [cargo, "metadata", "--no-deps", "--format-version", "1", "--locked", "--offline"];
    let found = succeeds(&clone, &words).unwrap();
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert!(found["packages"].as_array().unwrap().iter().any(|one| one["name"] == "iosonde"));
    let text = fs::read_to_string(clone.join("README.md")).unwrap();
    let (mut ran, mut wrong) = (0, Vec::new());
    for block in blocks("README.md", &text) {
        if block.is_session() && block.value("needs").is_none() {
            ran += 1;
            wrong.extend(differences_in(&clone, &block));
        }
    }
    iosonde_rig::skip_part("cargo install", "it builds the program for minutes");
    assert!(ran > 0 && wrong.is_empty(), "{ran} sessions: {}", wrong.join("\n"));
    let untracked = succeeds(&clone, &["git", "status", "--porcelain"]).unwrap();
    let left: Vec<&str> = untracked.lines().filter(|line| !line.contains(".local")).collect();
    assert_eq!(left, Vec::<&str>::new(), "the commands leave no files");
}

#[test]
fn a_line_of_a_page_is_found_only_where_it_is() {
    assert!(matches("a … c", "a b c  "));
    assert!(matches("…", ""));
    assert!(matches("a …", "a b"));
    assert!(!matches("a … c", "a b c d"));
    assert!(!matches("a", "a b"));
    let lines = ["one".to_owned(), String::new(), "two".to_owned()];
    assert_eq!(missing(&lines, "zero\none\ntwo\n"), None);
    assert_eq!(missing(&lines, "two\none\n"), Some(&lines[2]));
}

#[test]
fn the_readme_is_a_page() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(text.lines().count() <= 150);
}

#[test]
fn the_summary_lists_each_page() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    for (page, _) in pages() {
        let Some(name) = page.strip_prefix("docs/") else { continue };
        assert!(name == "SUMMARY.md" || summary.contains(&format!("]({name})")), "{page}");
    }
}

#[test]
fn each_link_leads_somewhere() {
    for (page, text) in pages() {
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://")) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let folder = root().join(Path::new(&page).parent().unwrap());
            let target = if path.is_empty() { root().join(&page) } else { folder.join(path) };
            assert!(target.exists(), "{page}: {link}");
            if !anchor.is_empty() && target.extension().is_some_and(|name| name == "md") {
                let text = fs::read_to_string(target).unwrap();
                let headings = text.lines().filter(|line| line.starts_with('#')).map(anchor_of);
                assert!(headings.into_iter().any(|name| name == anchor), "{page}: {link}");
            }
        }
    }
}

/// The anchor of a heading in a link.
fn anchor_of(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    text.chars().filter(|char| char.is_alphanumeric() || "-_".contains(*char)).collect()
}
