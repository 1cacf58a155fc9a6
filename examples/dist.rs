//! Manual pages and shell completions, from the command line as the program itself knows it:
//! `cargo run --example dist -- FOLDER`. No part of the program, which needs neither.

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io};

use clap_complete::Shell;

/// Writes `man/*.1`, one page for each verb and mode, and `completions/*`, one for each shell.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn generate(folder: &Path) -> io::Result<()> {
    let pages = folder.join("man");
    fs::create_dir_all(&pages)?;
    clap_mangen::generate_to(iosonde::cli::command(), &pages)?;
    let completions = folder.join("completions");
    fs::create_dir_all(&completions)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut iosonde::cli::command(), "iosonde", &completions)?;
    }
    Ok(())
}

/// The door of the example.
pub(crate) fn main() -> ExitCode {
    let words: Vec<_> = env::args_os().skip(1).collect();
    let ended = match words.as_slice() {
        [folder] => generate(Path::new(folder)),
        _ => Err(io::Error::other(format!("found {} words, expected one folder", words.len()))),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The one line that it prints.
            #[allow(clippy::print_stderr, reason = "a command")]
            {
                eprintln!("error: {error}");
            }
            ExitCode::FAILURE
        }
    }
}
