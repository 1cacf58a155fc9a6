//! `iosonde verify`: does storage give back what was written, and was fsync honoured?

mod fsync;
mod witness;

use clap::{Args, Subcommand};

use super::exit::{Exit, Failure};

/// Does storage give back what was written, and was fsync honoured?
#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Debug, Subcommand)]
enum Mode {
    Fsync(Box<fsync::FsyncArgs>),
    Witness(witness::WitnessArgs),
}

/// Runs the verb.
pub(super) fn verify(args: &VerifyArgs, words: &[String]) -> Result<Exit, Failure> {
    match &args.mode {
        Mode::Fsync(args) => fsync::fsync(args, words),
        Mode::Witness(args) => witness::witness(args),
    }
}
