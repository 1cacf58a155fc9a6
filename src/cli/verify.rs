//! `iosonde verify`: does storage give back what was written?

mod witness;

use clap::{Args, Subcommand};

use super::exit::{Exit, Failure};

/// Does storage give back what was written?
#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    #[command(subcommand)]
    verb: VerifyVerb,
}

#[derive(Debug, Subcommand)]
enum VerifyVerb {
    Witness(witness::WitnessArgs),
}

/// Runs the verb.
pub(super) fn verify(args: &VerifyArgs) -> Result<Exit, Failure> {
    match &args.verb {
        VerifyVerb::Witness(args) => witness::witness(args),
    }
}
