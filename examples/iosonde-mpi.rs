//! `iosonde` under another name, so that a build with MPI (`--features mpi`) does not replace the
//! binary that other tests run.

use std::process::ExitCode;

fn main() -> ExitCode {
    iosonde::cli::main()
}
