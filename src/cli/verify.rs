//! `iosonde verify`: checks that storage returns the written data and honours fsync.

mod check;
pub(in crate::cli) mod fsync;
mod options;
mod phases;
pub(in crate::cli) mod print;
mod prove;
mod resolved_target;
mod selftest;
mod witness;

use std::ffi::OsString;
use std::sync::Arc;

use clap::{Args, Subcommand};

use super::exit::{Exit, Failure};
use super::hosts::Command;
use super::place::Place;
use crate::schedule;
use iosonde_engine::engine::Control;
use iosonde_model::plan::VerifyMode;

/// Verify that storage returns the written data, and that fsync is honoured.
///
/// Every block carries its own identity: run, offset, generation, writer and time. Data that is
/// read back is compared with a ledger of acknowledged writes, so a stale, torn, misdirected, lost
/// or corrupt block is reported as such, with the operation that wrote it. Before each run the
/// verifier is tested on a simulated device.
///
/// Exit code 4 if data differs from what was written, even if it was interrupted after that was
/// found; 7 if too little was checked.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct VerifyArgs {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Debug, Subcommand)]
enum Mode {
    /// Write everything once, flush, read it back
    Flush(Box<options::ProveArgs>),
    /// A ring of jobs, each reading the data of the previous one
    Pipeline(Box<options::ProveArgs>),
    /// Overwrite, read, trim and flush at random and at depth, then read everything back
    Soak(Box<options::ProveArgs>),
    Write(Box<prove::WriteArgs>),
    Check(Box<check::CheckArgs>),
    Powercut(Box<prove::PowerCutArgs>),
    Fsync(Box<fsync::FsyncArgs>),
    Selftest(selftest::SelftestArgs),
    Witness(witness::WitnessArgs),
}

impl VerifyArgs {
    /// The command for many hosts, if supported.
    pub(super) fn on_hosts(&self) -> Option<Command<'_>> {
        match &self.mode {
            Mode::Flush(args) | Mode::Pipeline(args) | Mode::Soak(args) => Some(args.on_hosts()),
            Mode::Write(args) => Some(args.prove.on_hosts()),
            Mode::Powercut(args) => Some(args.prove.on_hosts()),
            Mode::Check(args) => Some(args.prove.on_hosts()),
            Mode::Fsync(_) | Mode::Selftest(_) | Mode::Witness(_) => None,
        }
    }

    /// Whether the command is a witness, which only listens to another host.
    pub(super) fn is_witness(&self) -> bool {
        matches!(self.mode, Mode::Witness(_))
    }
}

pub(super) fn verify(args: &VerifyArgs, words: &[String]) -> Result<Exit, Failure> {
    match &args.mode {
        Mode::Flush(args) => prove::at_once(args, VerifyMode::Flush, words),
        Mode::Pipeline(args) => prove::at_once(args, VerifyMode::Pipeline, words),
        Mode::Soak(args) => prove::at_once(args, VerifyMode::Soak, words),
        Mode::Write(args) => prove::write(args, words),
        Mode::Check(args) => check::check(args, words),
        Mode::Powercut(args) => prove::power_cut(args, words),
        Mode::Fsync(args) => fsync::fsync(args, words),
        Mode::Selftest(args) => selftest::selftest(args),
        Mode::Witness(args) => witness::witness(args),
    }
}

/// Turns `run --rw verify-flush` into `verify flush`, and `verify-pipeline` likewise, for users of
/// other programs.
pub(super) fn instead_of_run(words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_none_or(|verb| verb != "run") {
        return words;
    }
    let mode_of = |word: &str| {
        let word = word.strip_prefix("verify-")?;
        ["flush", "pipeline"].into_iter().find(|mode| *mode == word)
    };
    let spaced = words.windows(2).enumerate().find_map(|(at, pair)| {
        let mode = mode_of(pair[1].to_str().filter(|_| pair[0] == "--rw")?)?;
        Some((at..at + 2, mode))
    });
    let joined = || {
        words.iter().enumerate().find_map(|(at, word)| {
            Some((at..at + 1, mode_of(word.to_str()?.strip_prefix("--rw=")?)?))
        })
    };
    let Some((range, mode)) = spaced.or_else(joined) else { return words };
    let mut words = words;
    words.drain(range);
    words.splice(1..2, ["verify".into(), mode.into()]);
    words
}

/// Hides the options that `verify check` refuses from its help: its ledger determines them.
pub(super) fn hide_what_has_no_effect(verify: clap::Command) -> clap::Command {
    verify.mut_subcommand("check", options::of_check)
}

/// Identity of this boot, if the kernel has one.
fn boot_id(place: &Place) -> Option<String> {
    place.root.word("/proc/sys/kernel/random/boot_id")
}

/// Tests the verifier on the simulated device, before its results are trusted.
fn selftest_first(seed: u64, place: &Place) -> Result<(), Failure> {
    let control = Control::new(Arc::clone(&place.signal));
    let matrix = schedule::selftest::quick(seed, &control);
    // With so few simulations, some kinds of fault may have no visible effect.
    let would_notice = matrix.visible() > 0 && !matrix.has_failed();
    if would_notice || control.is_stopping() {
        return Ok(());
    }
    let message = format!(
        "the verifier failed its self-test with seed {seed} and cannot be trusted; nothing was \
         written. `iosonde verify selftest --seed {seed}` shows what it missed"
    );
    Err(Failure::new(Exit::Invalid, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modes_of_run_are_modes_of_verify() {
        let turned = |line: &str| -> Vec<OsString> {
            instead_of_run(line.split_whitespace().map(OsString::from).collect())
        };
        let words =
            |line: &str| -> Vec<OsString> { line.split_whitespace().map(OsString::from).collect() };
        assert_eq!(
            turned("iosonde run --driver io_uring --path t --rw verify-flush --numjobs 4"),
            words("iosonde verify flush --driver io_uring --path t --numjobs 4")
        );
        assert_eq!(
            turned("iosonde run --rw=verify-pipeline --path t"),
            words("iosonde verify pipeline --path t")
        );
        for same in ["iosonde run --rw randread --path t", "iosonde check --rw verify-flush"] {
            assert_eq!(turned(same), words(same));
        }
    }
}
