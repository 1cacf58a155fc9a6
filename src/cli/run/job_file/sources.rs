//! Reads jobs from the command line, job files with their includes, and standard input.

use std::io::Read;
use std::path::Path;

use super::super::fio_line::FioLine;
use crate::cli::exit::{About, Failure, wrong};
use crate::cli::place::Place;
use iosonde_model::record::given;
use iosonde_model::spec::fio::lex::Section;
use iosonde_model::spec::fio::{JobFile, Outside, lex};

/// Sections of the command line, and of each file.
pub(super) fn read(
    line: &FioLine,
    place: &Place,
) -> Result<(Vec<Section>, Vec<Vec<Section>>), Failure> {
    let files = line.files.iter().map(|path| sections(path, place));
    Ok((line.sections(), files.collect::<Result<_, Failure>>()?))
}

/// Reads the logs that jobs replay.
pub(super) fn iologs(file: &mut JobFile) -> Result<(), Failure> {
    for job in file.groups.iter_mut().flat_map(|group| &mut group.jobs) {
        let Some(path) = job.iolog_path().map(str::to_string) else { continue };
        let text = if path == "-" { standard_input() } else { text_of(Path::new(&path)) };
        let place = job.place("read_iolog");
        let text = text.or_wrong(format!("{place} read_iolog: `{path}` cannot be read"))?;
        job.iolog = Some(text.into());
    }
    Ok(())
}

/// Sections of a job file, with its includes and the environment.
fn sections(shown: &str, place: &Place) -> Result<Vec<Section>, Failure> {
    let path = Path::new(shown);
    let text = if shown == "-" { standard_input() } else { text_of(path) };
    let text = text.or_wrong(format!("`{shown}`: cannot be read"))?;
    let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
    let mut load = |name: &str| within(&folder, name);
    let variable = |name: &str| std::env::var(name).ok();
    let mut outside = Outside {
        load: &mut load,
        env: Some(&variable),
        page_bytes: rustix::param::page_size() as u64,
        memory_mib: place.host.memory_bytes.unwrap_or(0) >> 20,
        cpus: u64::from(place.host.cpus_online.unwrap_or(1)),
    };
    lex::sections(&text, shown, &mut outside).map_err(wrong)
}

/// Text of a file, up to the size limit.
fn text_of(path: &Path) -> Result<String, String> {
    given::text(path, lex::MAX_BYTES as u64).map_err(|error| error.to_string())
}

fn standard_input() -> Result<String, String> {
    let mut text = String::new();
    let limit = lex::MAX_BYTES as u64 + 1;
    let read = std::io::stdin().lock().take(limit).read_to_string(&mut text);
    read.map(|_| text).map_err(|error| error.to_string())
}

/// Text of an included file, which must lie in the job file's directory even behind symbolic links.
fn within(folder: &Path, name: &str) -> Result<String, String> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let home = folder.canonicalize().map_err(|error| error.to_string())?;
    let path = home.join(name).canonicalize().map_err(|error| error.to_string())?;
    if !path.starts_with(&home) {
        return Err("it lies outside of the job file's directory".into());
    }
    text_of(&path)
}
