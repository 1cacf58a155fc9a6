//! The user's settings for all commands: `~/.config/iosonde/config.toml`.
//!
//! ```toml
//! keep-at-most = "10g"
//! [defaults]
//! check = ["--quick"]
//! "experiment run" = ["--seconds", "5"]
//! [named.nightly]
//! check = ["--seconds", "30"]
//! ```
//!
//! The options are recorded as part of the command, as if typed. Typed options take precedence over
//! those of `--use nightly`, and both over the defaults.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, Command};
use serde::Deserialize;

use super::exit::{About, Failure, shown, wrong};
use super::output::note;
use super::words::lossy;
use iosonde_model::record::given;
use iosonde_model::units::bytes;

/// Maximum size of the file, bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Default size of kept results above which removing some is advised, bytes.
const KEEP_AT_MOST: u64 = 10 << 30;

type Options = BTreeMap<String, Vec<String>>;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Config {
    keep_at_most: Option<String>,
    #[serde(default)]
    defaults: Options,
    #[serde(default)]
    named: BTreeMap<String, Options>,
}

/// The user's configuration directory.
pub(super) fn directory() -> Option<PathBuf> {
    Some(of_user("XDG_CONFIG_HOME", ".config")?.join("iosonde"))
}

/// The directory in this variable, if absolute, or else `usual` in the home directory.
pub(super) fn of_user(variable: &str, usual: &str) -> Option<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(usual)))
}

fn path() -> Option<PathBuf> {
    directory().map(|directory| directory.join("config.toml"))
}

fn config() -> Result<Config, Failure> {
    let Some(path) = path().filter(|path| path.exists()) else { return Ok(Config::default()) };
    let text = given::bytes(&path, MAX_BYTES).or_wrong(shown(&path))?;
    toml::from_str(&String::from_utf8_lossy(&text)).or_wrong(shown(&path))
}

/// Size of kept results above which removing some is advised, bytes.
///
/// # Errors
/// If the configuration file is invalid.
pub(super) fn keep_at_most() -> Result<u64, Failure> {
    match config()?.keep_at_most {
        None => Ok(KEEP_AT_MOST),
        Some(text) => bytes::parse(&text).or_wrong("keep-at-most"),
    }
}

/// The command line with the user's defaults, except those that conflict with stronger options.
///
/// # Errors
/// If the configuration file is invalid or has no section of the name after `--use`.
pub(super) fn with_defaults(
    mut words: Vec<OsString>,
    known: impl FnOnce() -> Command,
) -> Result<Vec<OsString>, Failure> {
    let name = take_use(&mut words)?;
    let config = config()?;
    let named = match &name {
        None => None,
        Some(name) => Some(config.named.get(name).ok_or_else(|| {
            let known: Vec<&str> = config.named.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let path = path().unwrap_or_default();
            wrong(format!(
                "--use: found `{name}`, expected a name of [named.NAME] in `{}`: {known}",
                path.display()
            ))
        })?),
    };
    let text = |at: usize| words.get(at).and_then(|word| word.to_str()).unwrap_or_default();
    let verb = text(1).to_owned();
    let both = format!("{verb} {}", text(2));
    let of = |options: &Options| {
        let deep = options.get(&both).map(|words| (words.clone(), 3));
        deep.or_else(|| options.get(&verb).map(|words| (words.clone(), 2)))
    };
    let typed = lossy(&words);
    let given: Vec<_> = [named.and_then(of), of(&config.defaults)].into_iter().flatten().collect();
    if given.is_empty() {
        return Ok(words);
    }
    let known = known();
    let command = deepest(&known, &typed[1..]);
    let mut added: Vec<String> = Vec::new();
    let mut at = 2;
    for (options, place) in given {
        at = place;
        for group in groups(&options) {
            let is_there =
                |all: &[String]| all.iter().any(|word| option(word) == option(&group[0]));
            let contradicts =
                |all: &[String]| all.iter().any(|word| excludes(command, option(word), &group[0]));
            if [&typed, &added].iter().all(|all| !is_there(all) && !contradicts(all)) {
                added.extend(group);
            }
        }
    }
    if !added.is_empty() {
        let path = path().unwrap_or_default();
        note(&format!("from {}: {}", path.display(), added.join(" ")));
        let at = at.min(words.len());
        words.splice(at..at, added.into_iter().map(OsString::from));
    }
    Ok(words)
}

/// The innermost subcommand that these words name.
fn deepest<'a>(known: &'a Command, words: &[String]) -> &'a Command {
    let found = words.first().and_then(|word| known.find_subcommand(word));
    found.map_or(known, |command| deepest(command, &words[1..]))
}

/// Whether two options of a command cannot be given together.
fn excludes(command: &Command, one: &str, other: &str) -> bool {
    let arg = |word: &str| {
        let long = option(word).strip_prefix("--")?;
        command.get_arguments().find(|arg| arg.get_long() == Some(long))
    };
    let (Some(one), Some(other)) = (arg(one), arg(other)) else { return false };
    let names = |a: &Arg, b: &Arg| {
        command.get_arg_conflicts_with(a).iter().any(|each| each.get_id() == b.get_id())
    };
    names(one, other) || names(other, one)
}

/// Removes `--use NAME` from the words before `--` and returns NAME.
fn take_use(words: &mut Vec<OsString>) -> Result<Option<String>, Failure> {
    let own = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let at = words[..own].iter().position(|word| {
        word.to_str().is_some_and(|word| word == "--use" || word.starts_with("--use="))
    });
    let Some(at) = at else { return Ok(None) };
    let word = words.remove(at);
    if let Some(name) = word.to_str().and_then(|word| word.strip_prefix("--use=")) {
        return Ok(Some(name.to_owned()));
    }
    if at >= words.len() {
        return Err(wrong("--use: expected a name"));
    }
    Ok(Some(words.remove(at).to_string_lossy().into_owned()))
}

/// Groups the words: each option with its values.
fn groups(words: &[String]) -> Vec<Vec<String>> {
    let mut groups: Vec<Vec<String>> = Vec::new();
    for word in words {
        match groups.last_mut().filter(|_| !word.starts_with('-')) {
            Some(group) => group.push(word.clone()),
            None => groups.push(vec![word.clone()]),
        }
    }
    groups
}

/// The name of an option, without its value.
fn option(word: &str) -> &str {
    word.split('=').next().unwrap_or_default()
}
