//! `campaign demo`: a campaign that was recorded on simulated devices, brought along whole, so that
//! reports can be tried without a device.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{DemoArgs, summary, wrong};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::note;
use iosonde_report::clean::clean;

/// All files of the output directory by path, as JSON, compressed.
const RECORDED: &[u8] = include_bytes!("../../../assets/demo-campaign/demo.json.zst");
/// More than it is, uncompressed, bytes.
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
    unpack(&args.output)
        .map_err(|error| Failure::new(Exit::Environment, format!("--output: {shown}: {error}")))?;
    note("recorded on simulated devices: nothing is measured here");
    note(&format!("unpacked in {shown}; to report on it: iosonde campaign report {shown}"));
    summary::report(&args.output, args.output_format, None)
}

fn unpack(output: &Path) -> std::io::Result<()> {
    let text = zstd::bulk::decompress(RECORDED, MOST_BYTES)?;
    let files: BTreeMap<&Path, String> = serde_json::from_slice(&text)?;
    for (name, content) in files {
        let path = output.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, content)?;
    }
    Ok(())
}
