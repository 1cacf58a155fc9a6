//! The program once more under a name of its own: a build with MPI (`--features mpi`) does not take
//! the place of the program that other tests use meanwhile.

use std::process::ExitCode;

fn main() -> ExitCode {
    iosonde::cli::main()
}
