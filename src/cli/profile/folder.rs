//! Where a profile is kept: a run folder as any other verb's, and with -o the latest report under
//! a fixed name beside it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::analysis::profile::Figures;
use crate::cli::exit::{Exit, Failure};
use crate::cli::keep::{self, Keeper};
use crate::cli::output::note;
use crate::record::ProfileRun;
use crate::record::export::{self, ExportError};

const TEXT: &str = "report.txt";
const JSON: &str = "report.json";

/// A folder that is open.
pub(super) struct Folder {
    keeper: Keeper,
    /// Where the run folder is.
    parent: Option<PathBuf>,
    /// The folder that the user named.
    named: Option<PathBuf>,
}

impl Folder {
    /// Opens it before anything is run.
    ///
    /// # Errors
    /// If the folder that the user named cannot take results.
    pub(super) fn open(named: Option<&Path>, words: &[String]) -> Result<Folder, Failure> {
        let (option, verb) = ("-o DIR", "profile");
        let Some(folder) = named else {
            let keeper = Keeper::open_for(option, None, verb, words);
            return Ok(Folder { keeper, parent: keep::directory(None), named: None });
        };
        let keeper = Keeper::insist(option, folder, verb, words).map_err(|reason| {
            Failure::new(Exit::Unprofiled, format!("-o: results cannot be kept: {reason}"))
        })?;
        for (name, is_ours) in [(TEXT, is_our_text as fn(&str) -> bool), (JSON, is_our_json)] {
            let path = folder.join(name);
            export::probe(&path, &is_ours).map_err(|error| refused(&path, &error))?;
        }
        let folder = folder.to_path_buf();
        Ok(Folder { keeper, parent: Some(folder.clone()), named: Some(folder) })
    }

    /// Whether it lies in a folder of another user, where root alone may write by its rights.
    pub(super) fn is_in_anothers(&self) -> bool {
        let own = rustix::process::geteuid().as_raw();
        let owner = self.parent.as_ref().and_then(|parent| parent.metadata().ok());
        owner.is_some_and(|facts| facts.uid() != own)
    }

    /// Keeps the record and the report.
    pub(super) fn keep(&mut self, run: &ProfileRun, text: &str) {
        self.keeper.keep_cell("01-profile.json", run);
        self.keeper.keep_text(TEXT, text);
        self.export(TEXT, text);
    }

    /// Keeps the figures for programs.
    pub(super) fn keep_json(&mut self, run: &ProfileRun, figures: &Figures, exit: Exit) {
        let document = serde_json::json!({
            "schema": "iosonde.profile-report/1",
            "exit_code": exit.code(),
            "subject": run.subject,
            "ended": run.ended,
            "source": run.source,
            "figures": figures,
        });
        let text = format!("{document:#}\n");
        self.keeper.keep_text(JSON, &text);
        self.export(JSON, &text);
    }

    fn export(&self, name: &str, text: &str) {
        let Some(folder) = &self.named else { return };
        let path = folder.join(name);
        if let Err(error) = export::write(&path, text) {
            note(&format!("error: {}: {error}", path.display()));
        }
    }

    /// Closes it, and says where it is.
    pub(super) fn finish(self, complete: bool, exit_code: u8, verdict: &str) {
        if let Some(path) = self.keeper.finish(complete, exit_code, verdict) {
            note(&format!("results kept in {}", path.display()));
        }
    }
}

fn is_our_text(start: &str) -> bool {
    start.starts_with("=== IO Profile: ")
}

fn is_our_json(start: &str) -> bool {
    start.starts_with('{') && start.contains("\"iosonde.profile")
}

fn refused(path: &Path, error: &ExportError) -> Failure {
    Failure::new(Exit::Unprofiled, format!("{}: {error}", path.display()))
}
