//! `iosonde report --restore-signatures`: restores saved content of a device.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::ReportArgs;
use crate::cli::exit::{Exit, Failure, environment, wrong};
use crate::cli::keep::undo_hint;
use crate::cli::output::{Output, note};
use crate::cli::words::unfit;
use iosonde_engine::host::Root;
use iosonde_engine::target::gate::Consent;
use iosonde_engine::target::signature::UNKNOWN;
use iosonde_engine::target::undo::Saved;
use iosonde_model::record::undo::Undo;
use iosonde_model::units::bytes;

/// Notes that a result folder holds saved content that can be restored.
pub(super) fn hint(paths: &[PathBuf]) {
    let [path] = paths else { return };
    let undos: Vec<Undo> = (1..).map_while(|number| read(path, number).ok().flatten()).collect();
    if !undos.is_empty() {
        note(&undo_hint(undos.iter(), path));
    }
}

/// Runs the option.
pub(super) fn restore(args: &ReportArgs) -> Result<Exit, Failure> {
    let [path] = args.path.as_slice() else {
        let found = args.path.len();
        return Err(wrong(format!(
            "--restore-signatures: found {found} paths, expected one folder"
        )));
    };
    let format = args.output_format.text_or_json("--restore-signatures reports")?;
    if let Some(word) = args.overwrite_signature.iter().find(|word| *word != UNKNOWN) {
        return Err(unfit("--overwrite-signature", word, UNKNOWN));
    }
    let folder = path;
    let mut saved = Vec::new();
    for number in 1.. {
        let Some(undo) = read(folder, number)? else { break };
        let file = folder.join(Undo::bytes_name(number));
        let bytes = std::fs::read(&file).map_err(|error| unreadable(&file, &error.to_string()))?;
        saved.push(Saved { undo, bytes });
    }
    if saved.is_empty() {
        return Err(wrong(format!(
            "`{}` holds nothing to put back: no device with data was written by this run",
            path.display()
        )));
    }
    let known = |id: &&String| saved.iter().any(|saved| saved.undo.id == **id);
    if let Some(id) = args.destroy_data.iter().find(|id| !known(id)) {
        let ids: Vec<&str> = saved.iter().map(|saved| saved.undo.id.as_str()).collect();
        let message = format!("--destroy-data: found `{id}`, expected {}", ids.join(" or "));
        return Err(Failure::new(Exit::Refused, message));
    }
    let consent = Consent {
        destroy_data: &args.destroy_data,
        overwrite_signature: &args.overwrite_signature,
        accept_unseen_processes: &args.accept_unseen_processes,
        ..Consent::default()
    };
    let mut output = Output::new(format);
    let mut restored = Vec::new();
    for each in saved.iter().filter(|saved| args.destroy_data.contains(&saved.undo.id)) {
        let done = each.restore(&Root::system(), consent, Some(folder))?;
        let (undo, kinds) = (&each.undo, kinds(&each.undo));
        output.text(&format!(
            "put back on `{}` ({}): {} in {} pieces, with {}; `blkid` finds it again, and data \
             that was overwritten stays lost\n",
            done.path.display(),
            undo.id,
            bytes::exact(done.bytes),
            undo.pieces.len(),
            if kinds.is_empty() { "no signature".into() } else { kinds.join(", ") },
        ));
        restored.push(json!({
            "path": done.path, "id": undo.id, "bytes": done.bytes, "signatures": undo.signatures,
        }));
    }
    output.value(&json!({ "schema": "iosonde.restored/1", "restored": restored }));
    Ok(output.end(Exit::Done))
}

fn kinds(undo: &Undo) -> Vec<&str> {
    let mut kinds: Vec<&str> = undo.signatures.iter().map(|each| each.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Saved content of the device with this number, if any.
fn read(folder: &Path, number: usize) -> Result<Option<Undo>, Failure> {
    let file = folder.join(Undo::name(number));
    let text = match std::fs::read(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return Ok(None),
        Err(error) => return Err(unreadable(&file, &error.to_string())),
    };
    let undo = serde_json::from_slice(&text);
    undo.map(Some).map_err(|error| unreadable(&file, &error.to_string()))
}

fn unreadable(file: &Path, why: &str) -> Failure {
    environment(format!("`{}`: {why}; nothing was written", file.display()))
}
