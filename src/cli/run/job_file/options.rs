//! Prints how this program treats fio's options and engines (`--cmdhelp`, `--enghelp`).

use super::super::fio_line::Instead;
use crate::cli::exit::{Exit, Failure, wrong};
use crate::cli::output::{Output, OutputFormat};
use iosonde_model::spec::EngineKind;
use iosonde_model::spec::fio::command::canonical;
use iosonde_model::spec::fio::table;

/// Text to print instead of a run, if any.
pub(super) fn text(instead: &Instead) -> Result<Option<String>, Failure> {
    match instead {
        Instead::Options(name) if name == "all" => {
            let lines = table::entries().map(table::Entry::line);
            Ok(Some(format!("{}{}", lines.collect::<String>(), table::summary())))
        }
        Instead::Options(name) => match table::find(&canonical(name)) {
            Ok(entry) => Ok(Some(entry.line())),
            Err(unknown) => Err(wrong(format!("--cmdhelp: {unknown}"))),
        },
        Instead::Engines(_) => {
            let lines =
                EngineKind::all().map(|kind| format!("{:<22} {}\n", kind.name(), kind.summary()));
            let names: Vec<&str> = EngineKind::fio_names().collect();
            let names = names.join(", ");
            Ok(Some(format!("{}engines of fio: {names}\n", lines.collect::<String>())))
        }
        Instead::Nothing | Instead::Parse | Instead::Lint | Instead::ShowCommand => Ok(None),
    }
}

/// Prints the text.
pub(super) fn print(text: &str) -> Exit {
    let mut output = Output::new(OutputFormat::Normal);
    output.text(text);
    output.end(Exit::Done)
}
