//! Cross-check: the same load run by an installed fio, for `run` and `check`.

use clap::{Args, ValueEnum};

use super::exit::{Exit, Failure, environment, wrong};
use super::keep::Keeper;
use super::output::{OutputFormat, note};
use super::progress::Progress;
use crate::schedule::RunContext;
use crate::schedule::cross_check::{Crossed, Turn, Witness, cross_check, witness_paths};
use iosonde_analysis::cross_check::{self, CrossCheck};
use iosonde_engine::host::{Fio, FioError};
use iosonde_model::plan::Plan;
use iosonde_model::record::run::Run;
use iosonde_report::fio_job::{Unsayable, fio_arguments};

#[derive(Args, Debug)]
#[command(next_help_heading = "Cross-check")]
pub(crate) struct CrossCheckArgs {
    /// Run the same load alternately with an installed fio, and report the ratio
    #[arg(long, value_name = "PROGRAM", conflicts_with = "dry_run")]
    cross_check: Option<Program>,
    /// Number of rounds; a 95 % interval needs at least 6 [default: 6]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    cross_check_rounds: Option<u32>,
}

/// Programs for a cross-check.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Program {
    /// fio.
    Fio,
}

/// The program found, and the number of rounds.
pub(crate) struct Second {
    fio: Fio,
    rounds: u32,
}

impl From<FioError> for Failure {
    fn from(error: FioError) -> Failure {
        environment(error)
    }
}

/// Default number of rounds.
const ROUNDS: u32 = 6;

impl CrossCheckArgs {
    /// Finds the program, if requested. Call before a target is opened.
    pub(crate) fn find(&self, format: OutputFormat) -> Result<Option<Second>, Failure> {
        if self.cross_check.is_none() {
            return match self.cross_check_rounds {
                // Checked here: the parser drops a requirement that conflicts with another.
                Some(_) => Err(wrong("--cross-check-rounds has no effect without --cross-check")),
                None => Ok(None),
            };
        }
        format.supports("--cross-check")?;
        Ok(Some(Second { fio: Fio::find()?, rounds: self.cross_check_rounds.unwrap_or(ROUNDS) }))
    }
}

/// Result of a load that both programs ran.
pub(crate) struct Both {
    /// Our first run, which represents the load; `None` if nothing was measured.
    pub(crate) first: Option<Run>,
    pub(crate) check: CrossCheck,
    /// All rounds.
    pub(crate) crossed: Crossed,
}

impl Both {
    /// The exit code of the cross-check.
    pub(crate) fn exit(&self) -> Exit {
        match self.crossed.ended {
            None | Some(FioError::Interrupted) => Exit::Done,
            Some(_) => Exit::Environment,
        }
    }

    /// Stores our rounds from the second one on, and all rounds of fio. Our first is stored
    /// separately.
    pub(crate) fn keep(&self, keeper: &mut Keeper, cell: &str) {
        for (number, round) in (1..).zip(&self.crossed.rounds) {
            if number > 1 {
                keeper.keep(&format!("{cell}-round-{number:02}.json"), &round.ours);
            }
            keeper.keep(&format!("{cell}-round-{number:02}-fio.json"), &round.theirs);
        }
    }
}

impl Second {
    /// The load as fio options.
    ///
    /// # Errors
    /// Loads that fio cannot express.
    pub(crate) fn words(
        &self,
        plan: &Plan,
        context: &RunContext,
    ) -> Result<Vec<String>, Unsayable> {
        fio_arguments(&[(&witness_paths(plan, &context.medium), &[])])
    }

    /// Runs a load that fio cannot express: once, by iosonde alone.
    pub(crate) fn alone(
        &self,
        plan: &Plan,
        reason: &Unsayable,
        context: &RunContext,
        progress: &mut Progress,
    ) -> Result<Both, Failure> {
        let first = Some(super::run::execute_alone(plan, context, progress)?);
        let missing = Some(reason.to_string());
        let check = cross_check::cross_check(&plan.title, &self.fio.version, [], missing);
        Ok(Both { first, check, crossed: Crossed::default() })
    }

    /// Runs the load alternately by iosonde and fio.
    pub(crate) fn run(
        &self,
        plan: &Plan,
        words: Vec<String>,
        context: &RunContext,
        progress: &mut Progress,
    ) -> Result<Both, Failure> {
        let witness = Witness { fio: &self.fio, words, rounds: self.rounds };
        let rounds = self.rounds as usize;
        let mut crossed = cross_check(plan, context, &witness, &mut |turn| match turn {
            Turn::Ours(round) => progress.begin(*round as usize, rounds, &plan.title, 0),
            Turn::Moved(moved) => progress.moved(moved),
            Turn::Ended => progress.clear(),
            Turn::Theirs(round) => progress.print(&format!(
                "[{}/{rounds}] {}: {}",
                round + 1,
                plan.title,
                self.fio.version
            )),
        })?;
        progress.clear();
        let first = crossed.first.take();
        let missing = match (&crossed.ended, crossed.rounds.len() < rounds) {
            (Some(error), _) => Some(error.to_string()),
            (None, true) => Some("our own run ended early".into()),
            (None, false) => None,
        };
        let pairs = crossed.rounds.iter().map(|round| (&round.ours, &round.theirs));
        let check = cross_check::cross_check(&plan.title, &self.fio.version, pairs, missing);
        Ok(Both { first, check, crossed })
    }
}

/// Warns that the next run will not recognise fio's data as ours and will require consent.
pub(crate) fn warn_about(plan: &Plan, fresh: &[u16]) {
    let named = (0u16..).zip(&plan.targets).filter(|(index, _)| !fresh.contains(index));
    for (_, target) in named.filter(|_| plan.writes()) {
        note(&format!(
            "warning: fio writes to `{}` as well; its data is not recognised as written by \
             iosonde, so the next run with writes requires consent",
            target.path
        ));
    }
}
