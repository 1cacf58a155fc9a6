//! The measuring part of a check.

use serde_json::json;

use super::{Request, length_ns};
use crate::cli::cross_check::Second;
use crate::cli::ending::Ending;
use crate::cli::exit::{Exit, Failure};
use crate::cli::keep::Keeper;
use crate::cli::output::Output;
use crate::cli::outputs::Outputs;
use crate::cli::progress::Progress;
use crate::cli::results;
use crate::cli::screen;
use crate::schedule::{Event, RunContext, execute};
use iosonde_analysis::cross_check::CrossCheck;
use iosonde_analysis::history;
use iosonde_analysis::reference::place;
use iosonde_analysis::verdict::{Assessment, assess};
use iosonde_engine::engine::signal_in;
use iosonde_model::plan::Plan;
use iosonde_model::record::HostFacts;
use iosonde_model::record::run::{Outcome, Run};
use iosonde_model::record::summary::Summary;
use iosonde_model::spec::reference::ReferenceClass;
use iosonde_report::{Answer, CheckReport};

pub(super) struct Session<'a> {
    pub(super) host: &'a HostFacts,
    pub(super) output: Output,
    pub(super) outputs: Outputs,
    pub(super) keeper: Keeper,
    pub(super) progress: Progress,
    pub(super) runs: Vec<Run>,
    pub(super) rows: Vec<Assessment>,
    pub(super) cross_checks: Vec<CrossCheck>,
    /// Classes of storage to compare with.
    pub(super) classes: Vec<ReferenceClass>,
    /// Stored result to compare with, and its name, if given.
    pub(super) reference: Option<(String, Summary)>,
    /// Exit code that failures of the witness require.
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

    /// Measures each workload in turn with us and with fio, if fio can express it.
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

    /// Prints and stores a row. A run that stopped before its window opened has no figures.
    fn finished(&mut self, index: usize, run: &Run) {
        self.progress.clear();
        if run.measured_ns == 0 && matches!(run.outcome, Outcome::Interrupted { .. }) {
            return;
        }
        // Stored before it is printed, so that a finished run cannot be lost.
        self.keeper.keep_cell(&format!("{:02}-{}.json", index + 1, run.plan.name), run);
        self.keeper
            .log(&json!({ "event": "finished", "cell": run.plan.name, "outcome": run.outcome }));
        let row = assess(run, Some(self.host));
        self.progress.row(&Answer::row(run, &row));
        self.runs.push(run.clone());
        self.rows.push(row);
    }

    /// Reports totals, verdict and expectations; returns the exit code.
    pub(super) fn conclude(
        mut self,
        requested: &Request,
        cells: &[Plan],
        context: &RunContext,
    ) -> Exit {
        self.progress.clear();
        let rows: Vec<(&Run, &Assessment)> = self.runs.iter().zip(&self.rows).collect();
        let placement = place(&rows, &self.classes);
        let mut earlier = None;
        if let Some(summary) = history::of_check(&rows, requested.length_ns) {
            earlier = results::against_earlier(&mut self.keeper, "check", &summary);
            if let Some((name, reference)) = &self.reference {
                earlier = history::against(&summary, reference, name);
            }
        }
        let beside: Vec<String> = [earlier, placement.words()].into_iter().flatten().collect();
        let ending = Ending {
            verb: "check",
            host: self.host,
            rows: &self.rows,
            cells: &rows,
            cross_checks: &self.cross_checks,
            written: None,
            expectations: &requested.expectations,
            beside: (!beside.is_empty()).then(|| beside.join("; ")),
            all: rows.len() == cells.len(),
            exit: signal_in(&context.control.signal)
                .map_or(Exit::Done, Exit::Signal)
                .or_graver(self.witness_exit),
        };
        let sinks = (self.output, self.outputs, self.progress);
        ending.conclude(sinks, self.keeper, |answer, judgement, complete| {
            let report = CheckReport {
                answer,
                placement: &placement,
                rows: &rows,
                verdict: &judgement.verdict,
                judged: &judgement.judged,
                cross_checks: &self.cross_checks,
                complete,
                left_out: &requested.left_out,
            };
            report.text(screen::columns())
        })
    }
}
