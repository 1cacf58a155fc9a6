//! `campaign configure`: edits a campaign file by a menu or by options, and preserves comments.

pub(super) mod document;
mod draw;
mod menu;
mod rows;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args;
use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, read};

use super::file;
use crate::cli::exit::{About, Exit, Failure, environment, shown, wrong};
use crate::cli::output::note;
use document::Document;
use iosonde_model::record::{export, given};
use iosonde_model::spec::catalogue;
use iosonde_report::clean::clean;
use menu::{Menu, Next};

/// Largest campaign file, bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The first lines of a new file.
const NEW: &str = "# A campaign of iosonde; `iosonde campaign check` checks it.\n\
                   name = \"campaign\"\noutput = \"results\"\n";

#[derive(Args, Debug)]
pub(super) struct ConfigureArgs {
    /// Campaign file (TOML); a new one is made
    #[arg(default_value = "campaign.toml")]
    file: PathBuf,
    /// Apply a preset and save, without a menu: `quick`, `none`, `all`, `provision-sequential`,
    /// `provision-random`, `provision-mixed`, `enterprise`, `client`, `families`, or NAME.toml of
    /// --presets
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Set a value by its dotted key and save, without a menu; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Folder of your own presets, each a campaign file without devices: NAME.toml
    #[arg(long, value_name = "DIR")]
    presets: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn configure(args: &ConfigureArgs) -> Result<Exit, Failure> {
    let text = match args.file.exists() {
        true => given::text(&args.file, MAX_BYTES).or_wrong(shown(&args.file))?,
        false => NEW.to_owned(),
    };
    let mut document = Document::parse(&text).or_wrong(shown(&args.file))?;
    if args.preset.is_none() && args.set.is_empty() {
        return by_menu(&args.file, document);
    }
    if let Some(folder) = args.presets.as_deref().filter(|folder| !folder.is_dir()) {
        return Err(wrong(format!("--presets: `{}` is not a folder", folder.display())));
    }
    if let Some(preset) = &args.preset {
        apply(&mut document, preset, args.presets.as_deref())?;
    }
    for change in &args.set {
        let option = format!("--set {change}");
        let (key, value) = change.split_once('=').ok_or("expected KEY=VALUE").or_wrong(&option)?;
        document.put_dotted(key.trim(), value.trim()).or_wrong(&option)?;
    }
    document.campaign().map_err(wrong)?;
    save(&args.file, &document)?;
    let missing =
        document.check().err().map_or(String::new(), |why| format!("; not complete: {why}"));
    note(&format!("saved {}{}", clean(&args.file.display().to_string()), clean(&missing)));
    Ok(Exit::Done)
}

/// Replaces the experiments by those of a preset, built in or the user's own.
fn apply(document: &mut Document, name: &str, presets: Option<&Path>) -> Result<(), Failure> {
    let own = presets.map(|folder| folder.join(format!("{name}.toml")));
    if let Some(path) = own.filter(|path| path.is_file()) {
        let text = given::text(&path, MAX_BYTES).or_wrong(shown(&path))?;
        return document.merge(&text).or_wrong(shown(&path));
    }
    let known = file::PRESETS.map(|(name, _)| name);
    if !known.contains(&name) {
        let known = known.join(", ");
        let folder = presets.map_or("no --presets DIR was given".into(), |folder| {
            format!("and `{}` holds no {name}.toml", folder.display())
        });
        return Err(wrong(format!("--preset: found `{name}`, expected {known}; {folder}")));
    }
    let mut campaign = document.campaign().map_err(wrong)?;
    file::apply(&mut campaign, Some(name));
    document.replace_experiments(&campaign.experiments);
    document.replace_profiles(&campaign);
    Ok(())
}

fn save(path: &Path, document: &Document) -> Result<(), Failure> {
    // Nothing is lost: the document contains the whole previous file.
    export::write(path, document.text()).or_environment(shown(path))
}

/// Shows the menu until the user leaves it.
fn by_menu(path: &Path, document: Document) -> Result<Exit, Failure> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(wrong(
            "the menu needs a terminal; without one, give --preset NAME or --set KEY=VALUE",
        ));
    }
    let experiments = catalogue::experiments().map_err(wrong)?;
    let mut menu = Menu::new(path.display().to_string(), document, experiments, path.exists());
    let mut terminal = ratatui::try_init().or_environment("the terminal")?;
    let ended = loop {
        if let Err(error) = terminal.draw(|frame| draw::draw(frame, &mut menu)) {
            break Err(environment(format!("the terminal: {error}")));
        }
        let key = match read() {
            Ok(Event::Key(key)) if key.kind == KeyEventKind::Press => {
                let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
                match key.code {
                    KeyCode::Char('c') if with_control => break Ok(Exit::Signal(2)),
                    code if menu::knows(code) => code,
                    _ => continue,
                }
            }
            Ok(_) => continue,
            Err(error) => break Err(environment(format!("the terminal: {error}"))),
        };
        match menu.key(key) {
            Next::Save => match save(path, &menu.document) {
                Ok(()) => menu.saved(),
                Err(failure) => menu.message = failure.message,
            },
            Next::Leave => break Ok(Exit::Done),
            Next::Stay => {}
        }
    };
    ratatui::restore();
    ended
}
