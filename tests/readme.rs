//! The commands of the README and of its first page do what they say: each runs in an empty
//! directory as they stand, or says with `--dry-run` that it would.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::Command;

use iosonde_rig::ScratchDir;

/// Lines of fenced blocks without a language that begin with `iosonde`.
fn commands(markdown: &str) -> Vec<String> {
    let mut is_code = false;
    let mut found = Vec::new();
    for line in markdown.lines() {
        if line.starts_with("```") {
            is_code = !is_code && line.trim() == "```";
            continue;
        }
        let words = line.split(" #").next().unwrap_or_default().trim();
        if is_code && words.starts_with("iosonde ") && !words.contains(": ") {
            found.push(words.to_owned());
        }
    }
    found
}

#[test]
fn each_command_of_the_readme_runs() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    assert!(text.lines().count() <= 150, "the README is a page");
    let commands = commands(&text);
    assert!(!commands.is_empty());
    let dir = ScratchDir::new().unwrap();
    for command in commands {
        let words = command.trim_start_matches("iosonde ").split_whitespace();
        let mut all: Vec<&str> = words.collect();
        // What takes minutes is planned instead: a word that is not understood fails all the same.
        if all[0] == "check" || all[0] == "experiment" || all[0] == "run" {
            all.push("--dry-run");
        }
        let ended = Command::new(env!("CARGO_BIN_EXE_iosonde"))
            .args(&all)
            .current_dir(dir.path())
            .env("HOME", dir.path())
            .output()
            .unwrap();
        let code = ended.status.code();
        let error = String::from_utf8_lossy(&ended.stderr);
        // 5: the directory of tests may be in memory.
        assert!(matches!(code, Some(0 | 5)), "{command}: {code:?}\n{error}");
    }
}

#[test]
fn each_link_of_the_readme_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("README.md")).unwrap();
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let local = links.filter(|link| !link.contains("://") && !link.starts_with('#'));
    for link in local {
        let path = link.split('#').next().unwrap_or(link);
        assert!(root.join(path).exists(), "{link}");
    }
}
