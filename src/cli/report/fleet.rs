//! Exports any number of results as rows for a query engine.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::write::{make_folder, unwritable};
use super::{Form, ReportArgs, read_manifest};
use crate::cli::exit::{About, Exit, Failure, environment, no_effect, wrong};
use crate::cli::intact::AcceptArgs;
use crate::cli::keep;
use crate::cli::output::{note, stdout_is_open};
use crate::cli::recorded::fleet::Fleet;
use crate::cli::recorded::runs::{Read, visit};
use iosonde_analysis::verdict::{Assessment, assess, verdict};
use iosonde_model::record::HostFacts;
use iosonde_model::record::export::Pending;
use iosonde_model::units::count;
use iosonde_report::fleet::{self, FleetResult, FleetRun, Rows, TABLES, TableFile};

/// Writes the tables of all results under the paths; by default, of the stored results.
pub(super) fn report(args: &ReportArgs) -> Result<Exit, Failure> {
    refuse_options(args)?;
    let fleet = Fleet::under(&paths(args)?)?;
    let mut tables = Tables::begin(args)?;
    let left_out = fleet.read(rows_of, |rows| {
        for rows in rows {
            if !tables.append(rows)? {
                return Ok(false);
            }
        }
        Ok(true)
    })?;
    tables.finish(args, fleet.len() - left_out.len())?;
    Ok(fleet.end(&left_out))
}

/// Refuses options that have no effect on rows.
fn refuse_options(args: &ReportArgs) -> Result<(), Failure> {
    let given = [
        ("--figures", args.figures.is_some()),
        ("--card", args.card.is_some()),
        ("--recheck", args.recheck),
        ("--demo", args.demo),
        ("--prune", args.prune.is_some()),
        ("--restore-signatures", args.restore_signatures),
        ("--accept-altered", args.accept.is_given()),
    ];
    no_effect(&given, "rows: repeat without it, or without --output-format ndjson or parquet")?;
    match (args.output_format, &args.output) {
        (Form::Parquet, None) => {
            Err(wrong("--output-format parquet writes four files, expected a folder: --output DIR"))
        }
        _ => Ok(()),
    }
}

fn paths(args: &ReportArgs) -> Result<Vec<PathBuf>, Failure> {
    if !args.path.is_empty() {
        return Ok(args.path.clone());
    }
    let kept = keep::directory(None);
    let kept = kept.ok_or_else(|| wrong("no home directory, so no results are kept"))?;
    Ok(vec![kept])
}

/// Reads and evaluates a result; returns its rows.
fn rows_of(folder: &Path) -> Result<Vec<Rows>, Failure> {
    let mut runs: BTreeMap<Option<String>, Vec<FleetRun>> = BTreeMap::new();
    let mut machine: Option<HostFacts> = None;
    visit("report", folder, AcceptArgs::NEVER, &mut |read| {
        let Read::Run { machine: name, run, cell, host } = read else { return };
        let assessment = assess(&run, host);
        machine = machine.take().or(host.cloned());
        let of_host = runs.entry(name).or_default();
        of_host.push(FleetRun { run: *run, cell, assessment });
    })?;
    let manifest = read_manifest(folder)?;
    let complete = manifest.as_ref().is_none_or(|manifest| manifest.complete);
    let rows = runs.iter().map(|(host, runs)| {
        let assessed: Vec<Assessment> = runs.iter().map(|run| run.assessment.clone()).collect();
        let each_is = assessed.iter().all(|row| row.complete);
        fleet::rows(FleetResult {
            folder: &folder.to_string_lossy(),
            host: host.as_deref(),
            manifest: manifest.as_ref(),
            machine: machine.as_ref().filter(|machine| machine.hostname == *host),
            runs,
            verdict: &verdict(&assessed).if_complete(complete && each_is),
        })
    });
    Ok(rows.collect())
}

/// Destination of the rows.
enum Tables {
    /// JSON lines of all tables, on stdout.
    Stdout(io::BufWriter<io::Stdout>),
    /// A file for each table.
    Files(Vec<(Pending, TableFile)>),
}

impl Tables {
    fn begin(args: &ReportArgs) -> Result<Tables, Failure> {
        let Some(folder) = &args.output else {
            stdout_is_open().or_environment("stdout cannot be written")?;
            return Ok(Tables::Stdout(io::BufWriter::new(io::stdout())));
        };
        make_folder("--output", folder)?;
        let mut files = Vec::new();
        for form in TABLES {
            let name = match args.output_format {
                Form::Parquet => format!("{}.parquet", form.name),
                _ => format!("{}.ndjson", form.name),
            };
            let path = folder.join(name);
            let (pending, file) = Pending::begin(&path, &fleet::is_table)
                .map_err(|error| unwritable(&path, &error))?;
            let table = match args.output_format {
                Form::Parquet => parquet(form, file)?,
                _ => TableFile::ndjson(form, file),
            };
            files.push((pending, table));
        }
        Ok(Tables::Files(files))
    }

    /// Writes rows; returns false if the reader has closed the pipe.
    fn append(&mut self, rows: Rows) -> Result<bool, Failure> {
        let written = match self {
            Tables::Stdout(out) => TABLES.iter().zip(rows).try_for_each(|(form, rows)| {
                rows.iter().try_for_each(|row| out.write_all(fleet::line(*form, row).as_bytes()))
            }),
            Tables::Files(files) => {
                files.iter_mut().zip(rows).try_for_each(|((_, table), rows)| table.append(rows))
            }
        };
        is_read(written)
    }

    /// Writes the remainder and gives the files their names.
    fn finish(self, args: &ReportArgs, results: usize) -> Result<(), Failure> {
        let files = match self {
            Tables::Stdout(mut out) => return is_read(out.flush()).map(|_| ()),
            Tables::Files(files) => files,
        };
        for (pending, table) in files {
            table.finish().and_then(|()| pending.keep()).map_err(unwritten)?;
        }
        let folder = args.output.as_deref().unwrap_or(Path::new("."));
        let names = TABLES.map(|form| form.name).join(", ");
        note(&format!(
            "{} results in {}: {names}",
            count::thousands(results as u64),
            folder.display()
        ));
        Ok(())
    }
}

#[cfg(feature = "parquet")]
fn parquet(form: fleet::Form, file: File) -> Result<TableFile, Failure> {
    TableFile::parquet(form, file).map_err(unwritten)
}

#[cfg(not(feature = "parquet"))]
fn parquet(_: fleet::Form, _: File) -> Result<TableFile, Failure> {
    Err(wrong("--output-format: this program was built without Parquet; ndjson has the same rows"))
}

/// False if the reader has closed the pipe, which is not an error.
fn is_read(written: io::Result<()>) -> Result<bool, Failure> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).map_err(unwritten),
    }
}

fn unwritten(error: io::Error) -> Failure {
    environment(format!("the rows cannot be written: {error}"))
}
