//! `campaign demo`: unpacks a campaign recorded on simulated devices, to try reports without a
//! device.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{DemoArgs, summary};
use crate::cli::exit::{About, Exit, Failure, wrong};
use crate::cli::output::note;
use iosonde_report::clean::clean;

/// All files of the output directory by path, as compressed JSON.
const RECORDED: &[u8] = include_bytes!("../../../assets/demo-campaign/demo.json.zst");
/// Limit of the uncompressed size, bytes.
const MOST_BYTES: usize = 16 << 20;

/// Runs the command.
pub(super) fn demo(args: &DemoArgs) -> Result<Exit, Failure> {
    args.output_format.supports("campaign demo")?;
    let shown = clean(&args.output.display().to_string());
    let is_used = fs::read_dir(&args.output).is_ok_and(|mut entries| entries.next().is_some());
    if is_used || args.output.is_file() {
        return Err(wrong(format!(
            "--output: `{shown}` holds something else; give a new directory or an empty one"
        )));
    }
    unpack(&args.output, "").or_environment(format!("--output: {shown}"))?;
    note("recorded on simulated devices: nothing is measured here");
    note(&format!("unpacked in {shown}; to report on it: iosonde campaign report {shown}"));
    summary::report(&args.output, args.output_format, None)
}

/// Writes the files below a folder of the recorded campaign; `""` means all of them.
pub(in crate::cli) fn unpack(output: &Path, below: &str) -> std::io::Result<()> {
    let text = zstd::bulk::decompress(RECORDED, MOST_BYTES)?;
    let files: BTreeMap<&Path, String> = serde_json::from_slice(&text)?;
    for (name, content) in files {
        let Ok(name) = name.strip_prefix(below) else { continue };
        let path = output.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&path, bytes_of(&path, content))?;
    }
    Ok(())
}

/// Content as bytes; each character of a `.zst` file represents one byte.
fn bytes_of(path: &Path, content: String) -> Vec<u8> {
    match path.extension().is_some_and(|extension| extension == "zst") {
        true => content.chars().map(|byte| byte as u8).collect(),
        false => content.into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_compressed_file_comes_back() {
        let all: String = (0..=255_u8).map(char::from).collect();
        assert_eq!(bytes_of(Path::new("a.json.zst"), all), (0..=255).collect::<Vec<u8>>());
        assert_eq!(bytes_of(Path::new("a.json"), "µ".into()), "µ".as_bytes());
    }
}
