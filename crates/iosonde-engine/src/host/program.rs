//! Outside programs: found in PATH, started without a shell, limited in time and in output, and
//! killed when this process ends.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Directories of administrators' programs, which an ordinary user's PATH may lack.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// Interval between checks whether the program has ended.
const SAMPLE_EVERY: Duration = Duration::from_millis(5);

/// Limits on a program.
pub struct Limits<'a> {
    /// Time limit.
    pub time: Duration,
    /// Limit on each of its output streams, bytes.
    pub output_bytes: u64,
    /// Whether to end it early.
    pub cancelled: &'a dyn Fn() -> bool,
}

/// Exit code and output of a program.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    /// Standard output.
    pub output: Vec<u8>,
    /// Standard error.
    pub errors: Vec<u8>,
}

/// The first file of this name in an absolute directory of PATH, then in the system directories.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM_DIRECTORIES.iter().map(PathBuf::from))
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}

/// A command that starts the program in `/`, not in a directory of the user's.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/");
    command
}

/// Runs a program and returns its output, or an error. It never outlives this call or process.
pub fn run(mut command: Command, limits: &Limits<'_>) -> Result<Said, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    iosonde_sys::thread::end_with_us(&mut command);
    let mut child =
        command.spawn().map_err(|error| format!("cannot start the program: {error}"))?;
    let finished = collect(&mut child, limits);
    if finished.is_err() {
        // An error means that it has ended meanwhile.
        let _ = child.kill();
        let _ = child.wait();
    }
    finished
}

fn collect(child: &mut Child, limits: &Limits<'_>) -> Result<Said, String> {
    let deadline = Instant::now() + limits.time;
    let late = || format!("no answer within {} s", limits.time.as_secs_f64());
    let output = reader(child.stdout.take(), limits.output_bytes)?;
    let errors = reader(child.stderr.take(), limits.output_bytes)?;
    let status = loop {
        match child.try_wait().map_err(|error| format!("cannot wait for it: {error}"))? {
            Some(status) => break status,
            None if (limits.cancelled)() => return Err("interrupted".into()),
            None if Instant::now() >= deadline => return Err(late()),
            None => std::thread::sleep(SAMPLE_EVERY),
        }
    };
    // Its descendants may still hold the pipes open.
    let left = || deadline.saturating_duration_since(Instant::now()).max(SAMPLE_EVERY * 20);
    let text = |pipe: mpsc::Receiver<std::io::Result<Vec<u8>>>| {
        let read = pipe.recv_timeout(left()).map_err(|_| late())?;
        let text = read.map_err(|error| format!("cannot read the output: {error}"))?;
        match text.len() as u64 > limits.output_bytes {
            true => Err(format!("its output is longer than {} bytes", limits.output_bytes)),
            false => Ok(text),
        }
    };
    let (output, errors) = (text(output)?, text(errors)?);
    let code = status.code().ok_or("the program was killed")?;
    Ok(Said { code, output, errors })
}

/// Reads a pipe in a separate thread, since a channel allows a time limit and a pipe does not. The
/// thread ends when the output exceeds the limit, or when the program is killed.
fn reader(
    pipe: Option<impl Read + Send + 'static>,
    limit_bytes: u64,
) -> Result<mpsc::Receiver<std::io::Result<Vec<u8>>>, String> {
    let pipe = pipe.ok_or("the program has no output")?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let read = pipe.take(limit_bytes + 1).read_to_end(&mut text);
        // After a timeout, there is no receiver.
        let _ = sender.send(read.map(|_| text));
    });
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = command(Path::new("/bin/sh"));
        command.args(["-c", script]);
        command
    }

    fn limits(time: Duration) -> Limits<'static> {
        Limits { time, output_bytes: 1 << 20, cancelled: &|| false }
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let reason = run(shell("exec sleep 600"), &limits(Duration::from_millis(50))).unwrap_err();
        assert!(reason.contains("no answer within"), "{reason}");
        let cancelled = Limits { cancelled: &|| true, ..limits(Duration::from_secs(60)) };
        assert_eq!(run(shell("exec sleep 600"), &cancelled).unwrap_err(), "interrupted");
    }

    #[test]
    fn output_is_bounded() {
        let endless = "exec head -c 9000000 /dev/zero";
        let reason = run(shell(endless), &limits(Duration::from_secs(5))).unwrap_err();
        assert!(reason.contains("longer than 1048576"), "{reason}");
    }

    #[test]
    fn exit_code_and_streams_arrive() {
        let said = run(shell("printf x; printf y >&2; exit 4"), &limits(Duration::from_secs(5)));
        let said = said.unwrap();
        assert_eq!((said.code, said.output, said.errors), (4, b"x".to_vec(), b"y".to_vec()));
    }
}
