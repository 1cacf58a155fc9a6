//! Exit codes, and the one type that carries a failure to the user.

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;

use iosonde_engine::backend::OpenError;
use iosonde_engine::engine::EngineError;
use iosonde_engine::target::undo::RestoreError;
use iosonde_engine::target::{PassthroughError, TargetError};
use iosonde_model::plan::Refusal;
use iosonde_model::spec::engine::EngineNameError;

/// How the program ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exit {
    Done,
    /// I/O error, no space while running, no permission, backend died.
    Environment,
    /// Usage error.
    Usage,
    /// Measured, and a declared expectation failed.
    Missed,
    /// Data read differs from data written.
    Corrupt,
    /// Refused: data is at risk, or the target is not storage.
    Refused,
    /// Consistency checks failed.
    Invalid,
    /// Too little was measured for a verdict.
    Inconclusive,
    /// Ended by this signal.
    Signal(i32),
    /// The exit code of the profiled command, or the shell's if it cannot be run.
    AsCommand(u8),
    /// A command could not be profiled: distinct from the codes that commands use.
    Unprofiled,
}

impl Exit {
    /// The exit code, the severity, and a stable name for programs.
    fn facts(self) -> (u8, u8, &'static str) {
        match self {
            Exit::Done => (0, 0, "done"),
            Exit::Environment => (1, 4, "environment"),
            Exit::Usage => (2, 6, "usage"),
            Exit::Missed => (3, 2, "missed"),
            // Corruption that was found is proved, whatever ended the run.
            Exit::Corrupt => (4, 8, "corrupt"),
            Exit::Refused => (5, 3, "refused"),
            Exit::Invalid => (6, 5, "invalid"),
            Exit::Inconclusive => (7, 1, "inconclusive"),
            Exit::Signal(signal) => {
                (128u8.saturating_add(u8::try_from(signal).unwrap_or(127)), 7, "interrupted")
            }
            // Never combined with another end.
            Exit::AsCommand(code) => (code, 9, "command"),
            Exit::Unprofiled => (125, 9, "unprofiled"),
        }
    }

    /// The exit code.
    pub(crate) fn code(self) -> u8 {
        self.facts().0
    }

    /// The end that this exit code of another iosonde process means.
    pub(crate) fn of_code(code: u8) -> Exit {
        let all = [
            Exit::Done,
            Exit::Environment,
            Exit::Usage,
            Exit::Missed,
            Exit::Corrupt,
            Exit::Refused,
            Exit::Invalid,
            Exit::Inconclusive,
        ];
        match all.into_iter().find(|exit| exit.code() == code) {
            Some(exit) => exit,
            None if code > 128 => Exit::Signal(i32::from(code - 128)),
            None => Exit::Environment,
        }
    }

    /// The more severe of two ends.
    pub(crate) fn or_graver(self, other: Exit) -> Exit {
        if other.severity() > self.severity() { other } else { self }
    }

    fn severity(self) -> u8 {
        self.facts().1
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// Why the command ended without a result.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// What was found, what was expected, and how to fix it.
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// A usage error.
pub(crate) fn wrong(message: impl Display) -> Failure {
    Failure::new(Exit::Usage, message)
}

/// An error of the system: I/O, permissions, space.
pub(crate) fn environment(message: impl Display) -> Failure {
    Failure::new(Exit::Environment, message)
}

/// Turns an error into a failure that begins with its subject: an option or a path.
pub(crate) trait About<T> {
    /// As a usage error.
    fn or_wrong(self, about: impl Display) -> Result<T, Failure>;

    /// As an error of the system.
    fn or_environment(self, about: impl Display) -> Result<T, Failure>;
}

impl<T, E: Display> About<T> for Result<T, E> {
    fn or_wrong(self, about: impl Display) -> Result<T, Failure> {
        self.map_err(|error| wrong(format!("{about}: {error}")))
    }

    fn or_environment(self, about: impl Display) -> Result<T, Failure> {
        self.map_err(|error| environment(format!("{about}: {error}")))
    }
}

/// Refuses the first option that is given but has no effect on `on`.
pub(crate) fn no_effect(given: &[(&str, bool)], on: &str) -> Result<(), Failure> {
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(wrong(format!("{option} has no effect on {on}"))),
        None => Ok(()),
    }
}

/// A path as messages show it.
pub(crate) fn shown(path: impl AsRef<Path>) -> String {
    format!("`{}`", path.as_ref().display())
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Display) -> Failure {
        Failure { exit, message: message.to_string(), hint: None }
    }

    /// Adds a hint: what to do about it.
    pub(crate) fn hinting(self, hint: impl Into<String>) -> Failure {
        Failure { hint: Some(hint.into()), ..self }
    }

    /// A stable name for programs.
    pub(crate) fn kind(&self) -> &'static str {
        self.exit.facts().2
    }

    /// clap's message with its suggestion but not its prefix: ours is added on printing.
    pub(crate) fn usage(error: &clap::Error) -> Failure {
        let text = error.render().to_string();
        if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            return wrong(format!("missing command\n\n{}", text.trim()));
        }
        wrong(text.trim().trim_start_matches("error: "))
    }
}

impl From<EngineNameError> for Failure {
    fn from(error: EngineNameError) -> Failure {
        wrong(error)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        wrong(refusal)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Failure {
        let exit = match &error {
            EngineError::Open(OpenError::Vhost(error)) if error.is_usage_error() => Exit::Usage,
            _ => Exit::Environment,
        };
        Failure::new(exit, error.to_string())
    }
}

impl From<TargetError> for Failure {
    fn from(error: TargetError) -> Failure {
        let exit = match &error {
            TargetError::Missing(_)
            | TargetError::NotADirectory(_)
            | TargetError::WrongKind { .. }
            | TargetError::Space { .. }
            | TargetError::TooSmall { .. }
            | TargetError::TooFull { .. }
            | TargetError::NoDirect { .. } => Exit::Usage,
            TargetError::System { .. } => Exit::Environment,
            TargetError::Passthrough(error) => match error {
                PassthroughError::NotGeneric { .. }
                | PassthroughError::OnlyCommands { .. }
                | PassthroughError::Metadata { .. } => Exit::Usage,
                PassthroughError::Unidentified { .. } => Exit::Environment,
                PassthroughError::NoBlockDevice(_)
                | PassthroughError::NoBlockNode { .. }
                | PassthroughError::Differs { .. } => Exit::Refused,
            },
            TargetError::Interrupted(_) => {
                Exit::Signal(super::watchdog::pending().unwrap_or(signal_hook::consts::SIGINT))
            }
            TargetError::Foreign { .. }
            | TargetError::Shared { .. }
            | TargetError::Uninspected { .. }
            | TargetError::Gate(_) => Exit::Refused,
        };
        Failure::new(exit, error.to_string())
    }
}

impl From<RestoreError> for Failure {
    fn from(error: RestoreError) -> Failure {
        let exit = match error {
            RestoreError::Target(error) => return Failure::from(error),
            RestoreError::Damaged { .. } => Exit::Environment,
            RestoreError::Absent { .. } => Exit::Usage,
            RestoreError::Reconnected { .. } | RestoreError::Newer { .. } => Exit::Refused,
        };
        Failure::new(exit, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_severe_end_wins() {
        // 4 before 130 before 6 before 1 before 5 before 3 before 7.
        let order = [
            Exit::Corrupt,
            Exit::Signal(2),
            Exit::Invalid,
            Exit::Environment,
            Exit::Refused,
            Exit::Missed,
            Exit::Inconclusive,
            Exit::Done,
        ];
        for (place, graver) in order.iter().enumerate() {
            for lighter in &order[place..] {
                assert_eq!(graver.or_graver(*lighter), *graver);
                assert_eq!(lighter.or_graver(*graver), *graver);
            }
        }
        assert_eq!(Exit::Signal(15).code(), 143);
    }
}
