//! The iosonde command.

use std::process::ExitCode;

fn main() -> ExitCode {
    iosonde::cli::main()
}
