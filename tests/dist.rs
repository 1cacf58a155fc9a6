//! Files generated from the command line for packages: a manual page for each verb and mode, and
//! completions for each shell, with every option.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::process::{Command, Stdio};

use iosonde_rig::skip;

#[path = "../examples/dist.rs"]
#[allow(dead_code, reason = "the example's own door is not opened here")]
mod dist;

/// Each verb and mode, preceded by its path of words; the whole command line comes first.
fn verbs() -> Vec<(Vec<String>, clap::Command)> {
    fn below(words: Vec<String>, command: &clap::Command) -> Vec<(Vec<String>, clap::Command)> {
        let inner = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let inner = inner.flat_map(|verb| {
            below([words.as_slice(), &[verb.get_name().to_string()]].concat(), verb)
        });
        let inner: Vec<_> = inner.collect();
        [vec![(words, command.clone())], inner].concat()
    }
    below(vec!["iosonde".into()], &iosonde::cli::command())
}

fn options(command: &clap::Command) -> Vec<String> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.filter_map(|arg| arg.get_long()).map(str::to_owned).collect()
}

#[test]
fn each_verb_has_a_page_and_each_option_stands_in_it() {
    let folder = tempfile::tempdir().unwrap();
    dist::generate(folder.path()).unwrap();
    let verbs = verbs();
    assert!(verbs.len() > 10, "{}", verbs.len());
    for (words, command) in &verbs {
        let name = format!("{}.1", words.join("-"));
        let page = fs::read_to_string(folder.path().join("man").join(&name))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(page.contains(".SH DESCRIPTION"), "{name} says nothing of its purpose");
        // roff: an escaped hyphen is not rendered as a dash.
        for option in options(command) {
            let word = format!("\\-\\-{}", option.replace('-', "\\-"));
            assert!(page.contains(&word), "{name} lacks --{option}");
        }
    }
    let pages = fs::read_dir(folder.path().join("man")).unwrap().count();
    assert_eq!(pages, verbs.len());
}

#[test]
fn each_shell_completes_each_verb_and_option() {
    let folder = tempfile::tempdir().unwrap();
    dist::generate(folder.path()).unwrap();
    for (shell, file) in [("bash", "iosonde.bash"), ("zsh", "_iosonde"), ("fish", "iosonde.fish")] {
        let text = fs::read_to_string(folder.path().join("completions").join(file)).unwrap();
        for (words, command) in verbs() {
            let verb = words.last().unwrap();
            assert!(text.contains(verb.as_str()), "{file} lacks {verb}");
            for option in options(&command) {
                // fish marks long options with `-l`.
                let word =
                    if shell == "fish" { format!("-l {option}") } else { format!("--{option}") };
                assert!(text.contains(&word), "{file} lacks {word}");
            }
        }
    }
}

/// Only bash can show whether it can load its completions.
#[test]
fn bash_reads_its_completions() {
    let folder = tempfile::tempdir().unwrap();
    dist::generate(folder.path()).unwrap();
    let script = folder.path().join("completions/iosonde.bash");
    let line = "source \"$1\"; COMP_WORDS=(iosonde run --iode); COMP_CWORD=2; \
                _iosonde iosonde --iode run; echo \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    bash.args(["-c", line, "bash"]).arg(&script).stdin(Stdio::null());
    let Ok(output) = bash.output() else {
        return skip("there is no bash");
    };
    let words = String::from_utf8_lossy(&output.stdout);
    let words: Vec<&str> = words.split_whitespace().collect();
    assert!(words.contains(&"--iodepth"), "{words:?}");
    assert!(words.iter().all(|word| word.starts_with("--iodepth")), "{words:?}");
}
