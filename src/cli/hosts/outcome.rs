//! Results from one of several hosts.

use iosonde_model::record::Run;
use iosonde_model::record::hosts::{HostEnd, HostRun};
use iosonde_model::record::run::Outcome as Ended;
use serde::{Deserialize, Serialize};

use super::connection::Stage;

/// Lines of standard error that are kept per host.
const MAX_SAID: usize = 100;
/// Prefix of an error message of a command.
const ERROR: &str = "error: ";

/// A host, its runs, and the output of its command.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Outcome {
    pub(super) known: HostRun,
    /// Records of its runs: index of the run in the command, and the run.
    pub(super) runs: Vec<(usize, Run)>,
    /// Times on the host's clock when the windows of runs opened, ns.
    pub(super) opened: Vec<(usize, u64)>,
    /// Standard output of its command.
    pub(super) output: String,
}

impl Outcome {
    /// Outcome of a host before its first message.
    pub(super) fn of(name: &str) -> Outcome {
        let known = HostRun { name: name.into(), ..HostRun::default() };
        Outcome { known, ..Outcome::default() }
    }

    /// Stores a standard error line of the command; returns it if the user should see it now.
    /// Errors before the runs are reported for all hosts together.
    pub(super) fn says(&mut self, line: String, stage: Stage) -> Option<String> {
        let is_worth_it = line.contains("warning:") || line.contains(ERROR) && stage.is_under_way();
        keep_last(&mut self.known.said, line.clone());
        is_worth_it.then_some(line)
    }

    /// Stores the record of a run, and the error that ended it early.
    pub(super) fn measured(&mut self, cell: usize, run: Run) {
        if let Ended::Failed { error } = &run.outcome {
            keep_last(&mut self.known.said, format!("{ERROR}{error}"));
        }
        self.runs.push((cell, run));
    }

    /// Why the host is missing.
    pub(super) fn why(&self) -> Option<String> {
        match &self.known.end {
            HostEnd::Lost { why } => Some(why.clone()),
            HostEnd::Exited { code } => {
                let said = &self.known.said;
                let Some(at) = said.iter().rposition(|line| line.contains(ERROR)) else {
                    return Some(format!("exit code {code}"));
                };
                let error = said[at].split_once(ERROR).map_or("", |(_, error)| error.trim());
                let hints = said[at + 1..].iter().filter_map(|line| line.split_once("hint: "));
                let hints: String = hints.map(|(_, hint)| format!("; {hint}")).collect();
                Some(format!("{error}{hints}"))
            }
            HostEnd::Unknown => None,
        }
    }

    /// Converts a time of the coordinator's clock to the host's.
    pub(super) fn there_ns(&self, here_ns: u64) -> u64 {
        here_ns.saturating_add_signed(self.offset_ns())
    }

    /// Converts a time of the host's clock to the coordinator's.
    pub(super) fn here_ns(&self, there_ns: u64) -> u64 {
        there_ns.saturating_add_signed(-self.offset_ns())
    }

    fn offset_ns(&self) -> i64 {
        self.known.clock.map_or(0, |clock| clock.offset_ns)
    }
}

/// Appends a line and keeps only the last lines.
pub(super) fn keep_last(lines: &mut Vec<String>, line: String) {
    if lines.len() == MAX_SAID {
        lines.remove(0);
    }
    lines.push(line.chars().take(1000).collect());
}
