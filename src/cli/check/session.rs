//! The measuring part of a check.

use serde_json::json;

use super::{Request, length_ns};
use crate::cli::cross_check::Second;
use crate::cli::ending::{end_of, end_of_expectation};
use crate::cli::exit::{Exit, Failure};
use crate::cli::keep::Keeper;
use crate::cli::output::{Output, note};
use crate::cli::outputs::Outputs;
use crate::cli::progress::Progress;
use crate::cli::results;
use crate::cli::screen;
use crate::schedule::{Event, RunContext, execute};
use iosonde_analysis::cross_check::CrossCheck;
use iosonde_analysis::expectation::judge_all;
use iosonde_analysis::history;
use iosonde_analysis::reference::place;
use iosonde_analysis::verdict::{Assessment, Verdict, assess, verdict};
use iosonde_engine::engine::signal_in;
use iosonde_model::plan::Plan;
use iosonde_model::record::HostFacts;
use iosonde_model::record::run::{Outcome, Run};
use iosonde_model::record::summary::Summary;
use iosonde_model::spec::reference::ReferenceClass;
use iosonde_report::json::Document;
use iosonde_report::{Answer, CheckReport};

/// The measuring part of a check.
pub(super) struct Session<'a> {
    pub(super) host: &'a HostFacts,
    pub(super) output: Output,
    pub(super) outputs: Outputs,
    pub(super) keeper: Keeper,
    pub(super) progress: Progress,
    pub(super) runs: Vec<Run>,
    pub(super) rows: Vec<Assessment>,
    pub(super) cross_checks: Vec<CrossCheck>,
    /// How it compares with earlier checks of the same storage.
    pub(super) earlier: Option<String>,
    /// Classes of storage to compare with.
    pub(super) classes: Vec<ReferenceClass>,
    /// The result to compare with, and its name, if one was given.
    pub(super) reference: Option<(String, Summary)>,
    /// What a witness that failed asks for.
    pub(super) witness_exit: Exit,
}

impl Session<'_> {
    pub(super) fn measure(&mut self, cells: &[Plan], context: &RunContext) -> Result<(), Failure> {
        let total = cells.len();
        execute(cells, context, &mut |event| match event {
            Event::Started { index, plan } => {
                let to_come = cells[index + 1..].iter().map(length_ns).sum();
                self.progress.begin(*index, total, &plan.title, to_come);
                self.keeper.log(&json!({ "event": "started", "cell": plan.name }));
            }
            Event::Moved { progress, .. } => self.progress.moved(progress),
            Event::Finished { index, run } => self.finished(*index, run),
        })?;
        Ok(())
    }

    /// The same where fio carries out each workload in turn with us, if it has words for it.
    pub(super) fn measure_both(
        &mut self,
        cells: &[Plan],
        context: &RunContext,
        second: &Second,
    ) -> Result<(), Failure> {
        for (index, plan) in cells.iter().enumerate() {
            let both = match second.words(plan, context) {
                Ok(words) => second.run(plan, words, context, &mut self.progress)?,
                Err(reason) => second.alone(plan, &reason, context, &mut self.progress)?,
            };
            if let Some(run) = &both.first {
                self.finished(index, run);
            }
            both.keep(&mut self.keeper, &format!("{:02}", index + 1));
            self.witness_exit = self.witness_exit.or_graver(both.exit());
            self.cross_checks.push(both.check);
            if signal_in(&context.control.signal).is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Prints and keeps a row. A run that was stopped before its window opened has nothing to show.
    fn finished(&mut self, index: usize, run: &Run) {
        self.progress.clear();
        if run.measured_ns == 0 && matches!(run.outcome, Outcome::Interrupted { .. }) {
            return;
        }
        // Before anybody hears of it: what was finished is not lost, whatever comes.
        self.keeper.keep_cell(&format!("{:02}-{}.json", index + 1, run.plan.name), run);
        self.keeper
            .log(&json!({ "event": "finished", "cell": run.plan.name, "outcome": run.outcome }));
        let row = assess(run, Some(self.host));
        self.progress.row(&Answer::row(run, &row));
        self.runs.push(run.clone());
        self.rows.push(row);
    }

    /// Totals, verdict, expectations, and the exit code that follows.
    pub(super) fn conclude(
        mut self,
        requested: &Request,
        cells: &[Plan],
        context: &RunContext,
    ) -> Exit {
        let rows: Vec<(&Run, &Assessment)> = self.runs.iter().zip(&self.rows).collect();
        let judged = judge_all(&requested.expectations, &rows);
        let analysed = verdict(&self.rows).judged(&judged);
        if let Some(summary) = history::of_check(&rows, requested.length_ns) {
            let earlier = results::against_earlier(&mut self.keeper, "check", &summary);
            self.earlier = match &self.reference {
                Some((name, reference)) => history::against(&summary, reference, name),
                None => earlier,
            };
        }
        let mut exit = signal_in(&context.control.signal).map_or(Exit::Done, Exit::Signal);
        exit = exit.or_graver(self.witness_exit);
        for row in &rows {
            exit = exit.or_graver(end_of(row.0, row.1));
        }
        for each in &judged {
            exit = exit.or_graver(end_of_expectation(&each.judgement));
        }
        let complete = rows.len() == cells.len() && rows.iter().all(|(_, row)| row.complete);
        let exit = self.print_end(requested, complete, exit, &analysed, &judged);
        let exit = self.output.end(exit);
        let path = self.keeper.finish(complete, exit.code(), &analysed.words);
        if let Some(path) = path {
            note(&format!("results stored in {}", path.display()));
        }
        exit
    }

    fn print_end(
        &mut self,
        requested: &Request,
        complete: bool,
        exit: Exit,
        analysed: &Verdict,
        judged: &[iosonde_analysis::expectation::Judged],
    ) -> Exit {
        let rows: Vec<(&Run, &Assessment)> = self.runs.iter().zip(&self.rows).collect();
        self.progress.clear();
        let placement = place(&rows, &self.classes);
        let beside: Vec<String> =
            [self.earlier.clone(), placement.words()].into_iter().flatten().collect();
        let beside = (!beside.is_empty()).then(|| beside.join("; "));
        let report = CheckReport {
            answer: Answer::of_runs(&rows, complete, analysed, beside.as_deref()),
            placement: &placement,
            rows: &rows,
            verdict: analysed,
            judged,
            cross_checks: &self.cross_checks,
            complete,
            left_out: &requested.left_out,
        };
        self.output.text(&report.text(screen::columns()));
        let mut document = Document {
            verb: "check",
            cross_checks: &self.cross_checks,
            complete,
            exit_code: exit.code(),
            cells: &rows,
            verdict: Some(analysed),
            expectations: judged,
            host: Some(self.host),
            target: rows.first().map(|(run, _)| &run.target),
            ..Document::default()
        };
        let mut exit = exit;
        if !(self.outputs.write(&document) & self.progress.end(&document)) {
            exit = exit.or_graver(Exit::Environment);
            document.exit_code = exit.code();
        }
        self.output.document(&document);
        exit
    }
}
