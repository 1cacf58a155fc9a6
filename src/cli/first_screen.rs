//! What `-h` prints: ten lines of at most 60 columns. `--help` prints every option.
//!
//! Commands with many options have a handwritten screen of the important ones. For the others, the
//! first options are listed.

use clap::Command;

/// The handwritten screens, each below its command names in brackets, which replace `NAME`.
const SCREENS: &str = include_str!("first_screens.txt");

/// Each screen with the names of its commands.
fn screens() -> impl Iterator<Item = (Vec<&'static str>, &'static str)> {
    SCREENS.split("\n[").filter_map(|screen| {
        let (names, text) = screen.split_once("]\n")?;
        Some((names.trim_start_matches('[').split(", ").collect(), text))
    })
}

/// Replaces the help of the command `name`, and of all its subcommands, by first screens.
pub(super) fn instead_of_help(command: Command, name: &str) -> Command {
    let screen = screens().find(|(names, _)| names.contains(&name));
    let text = match screen {
        Some((_, text)) => text.replace("iosonde NAME", &format!("iosonde {name}")),
        None => first_options(&command, name),
    };
    let command = command.override_help(text);
    command.mut_subcommands(|inner| {
        let whole = format!("{name} {}", inner.get_name());
        instead_of_help(inner, whole.trim_start())
    })
}

/// Columns of a screen, and of the names at its left side.
const WIDTH: usize = 60;
const NAMES: usize = 16;
/// Maximum number of subcommands and options listed.
const MOST: usize = 7;

/// The usage and purpose of a command, and its first subcommands and options.
fn first_options(command: &Command, name: &str) -> String {
    let below = command.get_subcommands().filter(|below| below.get_name() != "help");
    let below = below.map(|below| (below.get_name().to_owned(), words(below.get_about())));
    let takes = |arg: &&clap::Arg| !arg.is_hide_set() && arg.get_id() != "version";
    let options = command.get_arguments().filter(takes).map(|arg| {
        let value = arg.get_value_names().and_then(|names| names.first()).map(|name| name.as_str());
        let value = value.filter(|_| arg.get_action().takes_values()).unwrap_or_default();
        let name = match arg.get_long() {
            Some(long) => format!("--{long} {value}").trim_end().to_owned(),
            None => value.to_owned(),
        };
        (name, words(arg.get_help()))
    });
    let lines: Vec<String> = below
        .chain(options)
        .take(MOST)
        .map(|(name, help)| {
            let name = format!("  {name:NAMES$} ");
            let room = WIDTH - name.chars().count().min(WIDTH / 2);
            format!("{name}{}", clause(&help, room))
        })
        .filter(|line| line.chars().count() <= WIDTH)
        .collect();
    let about = words(command.get_about());
    let about = clause(&about, WIDTH);
    let needed = needed(command);
    let usage = [" [OPTIONS]", ""].map(|more| format!("Usage: iosonde {name}{more}{needed}"));
    let usage = usage.into_iter().find(|usage| usage.len() <= WIDTH).unwrap_or_default();
    let whole = [usage, about.to_owned()].into_iter().chain(lines);
    let whole = whole.chain([format!("  {:NAMES$} every option\n", "--help")]);
    whole.collect::<Vec<String>>().join("\n")
}

/// Subcommand, positional arguments and required options, for the usage line.
fn needed(command: &Command) -> String {
    if command.has_subcommands() {
        return " COMMAND".into();
    }
    let names = command.get_arguments().filter_map(|arg| {
        let value = arg.get_value_names()?.first()?;
        match (arg.get_long(), arg.is_required_set()) {
            (None, true) => Some(format!(" {value}")),
            (None, false) => Some(format!(" [{value}]")),
            (Some(long), true) => Some(format!(" --{long} {value}")),
            (Some(_), false) => None,
        }
    });
    names.collect()
}

fn words(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

/// The beginning of a text that fits: all of it, its first clause, or its first words.
fn clause(text: &str, room: usize) -> &str {
    let fits = |text: &&str| text.chars().count() <= room;
    let clause = |ends: &[char]| text.split(ends).next().unwrap_or_default().trim_end();
    let whole = [text, clause(&[';', ':', '(']), clause(&[';', ':', '(', ',', '.'])];
    if let Some(found) = whole.into_iter().find(fits) {
        return found;
    }
    let ends = text.char_indices().filter(|(_, letter)| *letter == ' ').map(|(at, _)| at);
    let cut = ends.take_while(|at| text[..*at].chars().count() <= room).last();
    &text[..cut.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// The command of this name.
    fn find(name: &str) -> Command {
        let mut command = super::super::command();
        for word in name.split(' ').filter(|word| !word.is_empty()) {
            command = command.find_subcommand(word).unwrap().clone();
        }
        command
    }

    #[test]
    fn a_first_screen_has_ten_lines_and_only_options_that_exist() {
        let headers = SCREENS.lines().filter(|line| line.starts_with('['));
        assert_eq!(screens().count(), headers.count());
        for (names, text) in screens() {
            assert!(text.lines().count() <= 10, "{text}");
            let wide = text.lines().find(|line| line.chars().count() > 60);
            assert_eq!(wide, None);
            for name in names {
                let command = find(name);
                let words = text.lines().skip(1).filter_map(|line| line.split_whitespace().next());
                for word in words.filter(|word| word.starts_with("--") && word.len() > 2) {
                    let is_there = word == "--help"
                        || command.get_arguments().any(|arg| arg.get_long() == Some(&word[2..]));
                    assert!(is_there, "{name}: {word}");
                }
            }
        }
    }

    /// Every command below this one, by its whole name.
    fn below(command: &Command, name: &str, found: &mut Vec<(String, String)>) {
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            let whole = format!("{name} {}", inner.get_name()).trim_start().to_owned();
            below(inner, &whole, found);
            found.push((inner.clone().render_help().to_string(), whole));
        }
    }

    #[test]
    fn every_command_has_a_first_screen() {
        let mut all = Vec::new();
        below(&instead_of_help(super::super::command(), ""), "", &mut all);
        assert!(all.len() > 30, "{}", all.len());
        for (text, name) in all {
            assert!(text.starts_with(&format!("Usage: iosonde {name}")), "{name}: {text}");
            assert!(text.lines().count() <= 10, "{name}: {text}");
            assert!(text.contains("--help"), "{name}: {text}");
            let wide = text.lines().find(|line| line.chars().count() > WIDTH);
            assert_eq!(wide, None, "{name}");
        }
    }

    #[test]
    fn a_clause_is_cut_at_a_word() {
        assert_eq!(clause("Most bytes written", 20), "Most bytes written");
        assert_eq!(clause("Its folder, whose name ends in .partial", 20), "Its folder");
        assert_eq!(clause("A very long description of one thing", 20), "A very long");
    }

    #[test]
    fn a_first_screen_lists_every_command_below() {
        for name in ["", "verify", "experiment", "campaign"] {
            let (_, text) = screens().find(|(names, _)| names.contains(&name)).unwrap();
            let command = find(name);
            for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
                assert!(text.contains(below.get_name()), "{name}: {}", below.get_name());
            }
        }
    }
}
