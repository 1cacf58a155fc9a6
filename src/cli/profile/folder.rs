//! Stores a profile in a result folder as every command does and, with -o, the latest report under
//! a fixed name.

use std::path::{Path, PathBuf};

use crate::cli::exit::{About, Exit, Failure};
use crate::cli::keep::{self, Keeper};
use crate::cli::output::note;
use iosonde_analysis::profile::{Against, Figures};
use iosonde_model::record::ProfileRun;
use iosonde_model::record::export;
use iosonde_report::json::json_text;
use iosonde_report::profile_figures;
use iosonde_report::profile_json::profile_json;

const TEXT: &str = "report.txt";
const JSON: &str = "report.json";

pub(super) struct Folder {
    keeper: Keeper,
    /// Directory that contains the result folder.
    pub(super) parent: Option<PathBuf>,
    /// Folder given by the user.
    named: Option<PathBuf>,
    /// An earlier run left a JSON report there: it must not remain next to a newer text report.
    has_document: bool,
}

impl Folder {
    /// Opens the folder before profiling begins.
    ///
    /// # Errors
    /// If results cannot be stored in the user's folder.
    pub(super) fn open(named: Option<&Path>, words: &[String]) -> Result<Folder, Failure> {
        let (option, verb) = ("-o DIR", "profile");
        let Some(folder) = named else {
            let keeper = Keeper::open_for(option, None, verb, words);
            let parent = keep::directory(None);
            return Ok(Folder { keeper, parent, named: None, has_document: false });
        };
        let keeper = Keeper::insist(option, folder, verb, words);
        let keeper = keeper.or_environment("-o: results cannot be stored")?;
        for (name, is_ours) in [(TEXT, is_our_text as fn(&str) -> bool), (JSON, is_our_json)] {
            let path = folder.join(name);
            export::probe(&path, &is_ours).or_wrong(path.display())?;
        }
        let has_document = folder.join(JSON).exists();
        let folder = folder.to_path_buf();
        Ok(Folder { keeper, parent: Some(folder.clone()), named: Some(folder), has_document })
    }

    /// Stores record, report and charts; `false` if the user's folder lacks the report.
    pub(super) fn keep(&mut self, run: &ProfileRun, text: &str) -> bool {
        self.keeper.keep_cell("01-profile.json", run);
        self.keeper.keep_bytes(TEXT, text);
        match profile_figures::figures(run) {
            Ok(pictures) => {
                for (name, picture) in pictures {
                    self.keeper.keep_bytes(&name, &picture);
                }
            }
            Err(error) => note(&format!("warning: the charts cannot be rendered: {error}")),
        }
        self.export(TEXT, text)
    }

    /// Stores the JSON report likewise, if requested or if an earlier one exists.
    pub(super) fn keep_document(
        &mut self,
        is_wanted: bool,
        (run, figures, against): (&ProfileRun, &Figures, &[Against]),
        exit: Exit,
    ) -> bool {
        if !is_wanted && !self.has_document {
            return true;
        }
        let text = json_text(&profile_json(run, figures, against, exit.code()));
        self.keeper.keep_bytes(JSON, &text);
        self.export(JSON, &text)
    }

    fn export(&self, name: &str, text: &str) -> bool {
        let Some(folder) = &self.named else { return true };
        let path = folder.join(name);
        let written = export::write(&path, text);
        if let Err(error) = &written {
            note(&format!("error: {}: {error}", path.display()));
        }
        written.is_ok()
    }

    /// Closes the folder and prints its path.
    pub(super) fn finish(self, complete: bool, exit_code: u8, verdict: &str) {
        self.keeper.finish(complete, exit_code, verdict);
    }
}

fn is_our_text(start: &str) -> bool {
    const HEADING: &str = "=== IO Profile: ";
    let has_heading = start.lines().any(|line| line.starts_with(HEADING));
    start.starts_with(HEADING) || start.starts_with("Result: ") && has_heading
}

fn is_our_json(start: &str) -> bool {
    // The schema comes later: names are in alphabetical order.
    start.starts_with('{') && start.contains("\"all_requests\"")
}
