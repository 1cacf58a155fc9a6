//! The same load by an installed fio, for `run` and for `check`.

use clap::{Args, ValueEnum};

use super::exit::{Exit, Failure};
use super::keep::Keeper;
use super::output::{OutputFormat, note};
use super::progress::Progress;
use crate::schedule::cross_check::{Crossed, Turn, Witness, cross_check, witness_paths};
use crate::schedule::{Bench, Event};
use iosonde_analysis::cross_check::{self, CrossCheck};
use iosonde_engine::host::{Fio, FioError};
use iosonde_model::plan::Plan;
use iosonde_model::record::run::Run;
use iosonde_report::fio_job::{Unsayable, fio_arguments};

#[derive(Args, Debug)]
#[command(next_help_heading = "Second witness")]
pub(crate) struct CrossCheckArgs {
    /// Let an installed fio carry out the same load in turn with us, and tell the ratio
    #[arg(long, value_name = "PROGRAM", conflicts_with = "dry_run")]
    cross_check: Option<Program>,
    /// How often both do; 6 are the fewest that carry a 95 % interval
    #[arg(long, value_name = "N", default_value = "6", requires = "cross_check",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    cross_check_rounds: u32,
}

/// Programs that can be a witness.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Program {
    /// fio.
    Fio,
}

/// A witness that is there.
pub(crate) struct Second {
    fio: Fio,
    rounds: u32,
}

impl From<FioError> for Failure {
    fn from(error: FioError) -> Failure {
        Failure::new(Exit::Environment, error.to_string())
    }
}

impl CrossCheckArgs {
    /// The witness, if one is asked for; before anything is opened.
    pub(crate) fn find(&self, format: OutputFormat) -> Result<Option<Second>, Failure> {
        if self.cross_check.is_none() {
            return Ok(None);
        }
        format.can_tell("--cross-check")?;
        Ok(Some(Second { fio: Fio::find()?, rounds: self.cross_check_rounds }))
    }
}

/// What came of a load that both carried out.
pub(crate) struct Both {
    /// Our first run, which stands for the load; `None` if nothing was measured.
    pub(crate) first: Option<Run>,
    /// The comparison.
    pub(crate) check: CrossCheck,
    /// All rounds.
    pub(crate) crossed: Crossed,
}

impl Both {
    /// The exit code that the witness asks for.
    pub(crate) fn exit(&self) -> Exit {
        match self.crossed.ended {
            None | Some(FioError::Interrupted) => Exit::Done,
            Some(_) => Exit::Environment,
        }
    }
}

impl Both {
    /// Keeps the rounds beside the first run, which is kept by itself: ours from the second one on,
    /// and all of the witness.
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
    /// The load in fio's words.
    ///
    /// # Errors
    /// What fio has no words for.
    pub(crate) fn words(&self, plan: &Plan, bench: &Bench) -> Result<Vec<String>, Unsayable> {
        fio_arguments(&[(&witness_paths(plan, &bench.medium), &[])])
    }

    /// Carries out, once, a load that the witness cannot carry out.
    pub(crate) fn alone(
        &self,
        plan: &Plan,
        reason: &Unsayable,
        bench: &Bench,
        progress: &mut Progress,
    ) -> Result<Both, Failure> {
        let first = super::run::carry_out_alone(plan, bench, progress)?;
        let missing = Some(reason.to_string());
        let check = cross_check::cross_check(&plan.title, &self.fio.version, [], missing);
        Ok(Both { first, check, crossed: Crossed::default() })
    }

    /// Carries out the load by turns.
    pub(crate) fn run(
        &self,
        plan: &Plan,
        words: Vec<String>,
        bench: &Bench,
        progress: &mut Progress,
    ) -> Result<Both, Failure> {
        let witness = Witness { fio: &self.fio, words, rounds: self.rounds };
        let rounds = self.rounds as usize;
        let mut crossed = cross_check(plan, bench, &witness, &mut |turn| match turn {
            Turn::Ours(round, Event::Started { plan, .. }) => {
                progress.begin(*round as usize, rounds, &plan.title, 0);
            }
            Turn::Ours(_, Event::Moved { progress: moved, .. }) => progress.moved(moved),
            Turn::Ours(_, Event::Finished { .. }) => progress.clear(),
            Turn::Theirs(round) => progress.tell(&format!(
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

/// What fio writes is not ours, and will be protected as anybody's the next time.
pub(crate) fn caution_about(plan: &Plan, fresh: &[u16]) {
    let named = (0u16..).zip(&plan.targets).filter(|(index, _)| !fresh.contains(index));
    for (_, target) in named.filter(|_| plan.writes()) {
        note(&format!(
            "caution: fio writes to `{}` as well; what it leaves there is not recognised as ours, \
             so that the next writing run asks for consent",
            target.path
        ));
    }
}
