//! Renders a result of several hosts again from its records.

use std::path::Path;

use super::kept::json;
use super::write::{Rendered, deliver, deliver_report, marked};
use super::{Form, ReportArgs, pictures, read_manifest};
use crate::cli::exit::{About, Exit, Failure, shown, wrong};
use crate::cli::hosts::{hosts_text, loads};
use iosonde_model::record::Run;
use iosonde_model::record::hosts::{HOSTS, HOSTS_SCHEMA, HostsRun};
use iosonde_model::record::run::SCHEMA;
use iosonde_report::hosts_report::{HostsResult, hosts_json, hosts_report};
use iosonde_report::json::json_text;

/// Whether a folder holds a result of several hosts.
pub(super) fn is_one(path: &Path) -> bool {
    path.join(HOSTS).is_file()
}

/// Renders the result.
pub(super) fn report(args: &ReportArgs, folder: &Path) -> Result<Exit, Failure> {
    if args.recheck {
        let message = "--recheck: this result is of many hosts; its records are rendered again \
                       each time, and their checksums are verified";
        return Err(wrong(message));
    }
    let record: HostsRun = read(&folder.join(HOSTS), HOSTS_SCHEMA)?;
    let mut runs: Vec<(usize, usize, Run)> = Vec::new();
    for (index, host) in record.hosts.iter().enumerate() {
        for cell in &host.cells {
            if Path::new(&cell.file).components().count() != 1 {
                let found = &cell.file;
                return Err(wrong(format!(
                    "{HOSTS} names the record `{found}`, expected a file beside it"
                )));
            }
            runs.push((index, cell.cell, read(&folder.join(&cell.file), SCHEMA)?));
        }
    }
    let runs: Vec<(usize, usize, &Run)> =
        runs.iter().map(|(host, cell, run)| (*host, *cell, run)).collect();
    let (loads, cells) = loads(&record, &runs);
    let manifest = read_manifest(folder)?;
    let exit_code = manifest.as_ref().map_or(0, |manifest| manifest.exit_code);
    let hosts = HostsResult {
        record: &record,
        loads: &loads,
        cells: &cells,
        manifest: manifest.as_ref(),
        exit_code,
    };
    let report = hosts_report(hosts);
    if args.output_format == Form::Json {
        let document = Rendered::Text(json_text(&marked(args, hosts_json(hosts))));
        return deliver(args, &document, &pictures(args, &report)?);
    }
    deliver_report(args, &report, Some(hosts_text(hosts)))
}

fn read<T: serde::de::DeserializeOwned>(path: &Path, schema: &str) -> Result<T, Failure> {
    let json = json(path, "a record", &[schema])?;
    json.read().or_wrong(format!("{}: not a record", shown(path)))
}
