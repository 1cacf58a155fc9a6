//! The witness of a power-cut run: a program of the user's, which usually forwards lines to
//! another machine.
//!
//! It must answer each line within a time limit; the run never waits longer. It runs in a separate
//! process group, so that an interrupt from the terminal ends the run first. If it does not exit
//! after the run, its process group is killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use iosonde_model::record::witness_log::Line;

/// Default time limit for an answer.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Longest answer that is read, bytes.
const ANSWER_BYTES: u64 = 1024;
/// Time that a witness has to exit once its input is closed.
const END_WITHIN: Duration = Duration::from_secs(2);
/// Interval between checks whether it has exited.
const SAMPLE_EVERY: Duration = Duration::from_millis(5);

/// Why the witness was lost. The run must end, since nothing after this is witnessed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum WitnessError {
    #[error("the witness cannot be started: {0}")]
    Start(String),
    #[error(
        "the witness did not answer `{line}` within {} s; if its command prompts for something (a \
         password, a host key), make it non-interactive", within.as_secs_f64()
    )]
    Silent {
        /// The line, shortened.
        line: String,
        /// Time limit of the answer.
        within: Duration,
    },
    #[error("the witness ended ({how}) before it answered `{line}`; see its output above")]
    Ended {
        /// The line, shortened.
        line: String,
        /// Its exit status in words.
        how: String,
    },
    /// It answered `error …`.
    #[error("the witness answered `{line}` with `{said}`")]
    Refused {
        /// The line, shortened.
        line: String,
        said: String,
    },
    /// Its answer does not fit the line, or came before the line.
    #[error(
        "the witness answered `{found}`, expected `{expected}`; its output must contain only its \
         answers"
    )]
    Wrong { found: String, expected: String },
    /// It exited with an error, or not in time.
    #[error("the witness did not end normally after `bye`: {0}")]
    BadEnd(String),
    /// An earlier line or another job has lost it.
    #[error("the witness was lost before")]
    Lost,
}

/// A running witness, shared by all jobs of a run.
#[derive(Debug)]
pub struct Witness {
    conversation: Mutex<Conversation>,
    within: Duration,
}

#[derive(Debug)]
struct Conversation {
    child: Child,
    /// To the writer thread: a full pipe blocks forever. `None` once the input is closed.
    lines: Option<Sender<String>>,
    /// From the reader thread.
    answers: Receiver<String>,
    said: u64,
    lost: bool,
}

impl Witness {
    /// Starts this shell command as the witness. It must answer each line `within` this time.
    ///
    /// # Errors
    /// If the shell cannot be started. A command that cannot be started fails at the first line.
    pub fn start(command: &str, within: Duration) -> Result<Witness, WitnessError> {
        let start = |words: &dyn std::fmt::Display| WitnessError::Start(words.to_string());
        let mut child = Command::new("/bin/sh")
            .args(["-c", command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| start(&error))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(start(&"it has no pipes"));
        };
        let (lines, answers) = (writer(input), reader(output));
        let conversation =
            Conversation { child, lines: Some(lines), answers, said: 0, lost: false };
        Ok(Witness { conversation: Mutex::new(conversation), within })
    }

    /// Sends a line and waits for the answer, which confirms that the witness has it on storage.
    ///
    /// # Errors
    /// If the answer is late or wrong. The witness is then lost for all jobs.
    pub fn say(&self, line: &Line) -> Result<(), WitnessError> {
        // A thread that panicked here has not received its answer.
        let locked = self.conversation.lock();
        let mut conversation = locked.map_err(|_| WitnessError::Lost)?;
        if conversation.lost {
            return Err(WitnessError::Lost);
        }
        let answered = conversation.say(&line.to_string(), self.within);
        conversation.lost = answered.is_err();
        answered
    }

    /// Sends `bye` and waits for the witness to exit.
    ///
    /// # Errors
    /// As [`say`](Witness::say), and if it does not exit with code 0 in time.
    pub fn end(&self) -> Result<(), WitnessError> {
        self.say(&Line::Bye)?;
        let mut conversation = self.conversation.lock().unwrap_or_else(PoisonError::into_inner);
        conversation.lines = None;
        match conversation.ended_within(self.within) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(WitnessError::BadEnd(status.to_string())),
            None => Err(WitnessError::BadEnd("it still runs".into())),
        }
    }
}

impl Conversation {
    fn say(&mut self, text: &str, within: Duration) -> Result<(), WitnessError> {
        let line = || text.chars().take(60).collect::<String>();
        let expected = format!("ok {}", self.said + 1);
        // An answer that precedes its line confirms nothing.
        if let Ok(found) = self.answers.try_recv() {
            return Err(WitnessError::Wrong { found, expected: "nothing yet".into() });
        }
        let sent = self.lines.as_ref().is_some_and(|lines| lines.send(format!("{text}\n")).is_ok());
        let answer = match self.answers.recv_timeout(within) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) if sent => {
                return Err(WitnessError::Silent { line: line(), within });
            }
            Err(_) => {
                let status = self.ended_within(END_WITHIN);
                let how = status.map_or("its output is closed".into(), |status| status.to_string());
                return Err(WitnessError::Ended { line: line(), how });
            }
        };
        if answer == expected {
            self.said += 1;
            Ok(())
        } else if answer.starts_with("error ") {
            Err(WitnessError::Refused { line: line(), said: answer })
        } else {
            Err(WitnessError::Wrong { found: answer, expected })
        }
    }

    /// Its exit status, if it exits in time.
    fn ended_within(&mut self, limit: Duration) -> Option<ExitStatus> {
        let looks = limit.as_millis() / SAMPLE_EVERY.as_millis();
        for look in 0..=looks {
            // A wait that fails yields no status.
            match self.child.try_wait().ok()? {
                None if look < looks => std::thread::sleep(SAMPLE_EVERY),
                status => return status,
            }
        }
        None
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.lines = None;
        let patience = if self.lost { Duration::ZERO } else { END_WITHIN };
        if self.ended_within(patience).is_some() {
            return;
        }
        // It has not been reaped, so its process id cannot belong to another process.
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // An error means that it has exited meanwhile.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.ended_within(END_WITHIN);
    }
}

/// Starts a thread that writes lines to the pipe until the channel or the pipe is closed.
fn writer(mut input: ChildStdin) -> Sender<String> {
    let (sender, receiver) = channel::<String>();
    std::thread::spawn(move || {
        for line in receiver {
            if input.write_all(line.as_bytes()).and_then(|()| input.flush()).is_err() {
                break;
            }
        }
    });
    sender
}

/// Starts a thread that reads lines from the pipe until the channel or the pipe is closed.
fn reader(output: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut output).take(ANSWER_BYTES).read_until(b'\n', &mut line);
            let text = String::from_utf8_lossy(&line);
            if !read.is_ok_and(|bytes| bytes > 0) || sender.send(text.trim_end().into()).is_err() {
                break;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fs;
    use std::time::Instant;

    use super::*;

    /// Long enough for a shell on a busy machine.
    const PATIENT: Duration = Duration::from_secs(60);
    const BRIEF: Duration = Duration::from_millis(100);
    const PRE: Line = Line::Pre { job: 0, flush: 1, ops: 5 };

    fn start(script: &str, within: Duration) -> Witness {
        Witness::start(script, within).unwrap()
    }

    /// Sends two lines and `bye` to a witness that runs this script.
    fn converse(script: &str) -> Result<(), WitnessError> {
        let witness = start(script, PATIENT);
        witness.say(&PRE)?;
        witness.say(&Line::Post { job: 0, flush: 1, ops: 5 })?;
        witness.end()
    }

    #[test]
    fn an_honest_witness_hears_everything() {
        let dir = tempfile::tempdir().unwrap();
        let heard = dir.path().join("heard");
        let script = format!(
            "n=0; while read -r line; do n=$((n+1)); echo \"$line\" >> {}; echo ok $n; done",
            heard.display()
        );
        converse(&script).unwrap();
        assert_eq!(fs::read_to_string(&heard).unwrap(), "pre 0 1 5\npost 0 1 5\nbye\n");
    }

    #[test]
    fn a_witness_that_lies_is_found() {
        let wrong = |script: &str| match converse(script) {
            Err(WitnessError::Wrong { found, expected }) => (found, expected),
            other => panic!("{other:?}"),
        };
        let said = |found: &str, expected: &str| (found.to_string(), expected.to_string());
        assert_eq!(wrong("while read -r line; do echo ok 1; done"), said("ok 1", "ok 2"));
        assert_eq!(wrong("read -r line; echo fine; cat"), said("fine", "ok 1"));
        assert_eq!(wrong("read -r line; echo 'ok 01'; cat"), said("ok 01", "ok 1"));
        assert_eq!(wrong("exec cat"), said("pre 0 1 5", "ok 1"));
        // One write of two answers, so that the second precedes its line. On a busy machine it may
        // come later, and the next line fails instead; hence the repeats.
        let early = || wrong("read -r a; printf 'ok 1\\nok 2\\n'; sleep 0.2; cat").0;
        assert!((0..20).any(|_| early() == "ok 2"));
        assert!(wrong("exec head -c 5000 /dev/zero").0.len() <= ANSWER_BYTES as usize);
    }

    #[test]
    fn a_witness_that_finds_fault_is_heard() {
        let error = converse("read -r line; echo error the disk is full; exit 1").unwrap_err();
        let words = "the witness answered `pre 0 1 5` with `error the disk is full`";
        assert_eq!(error.to_string(), words);
    }

    #[test]
    fn a_witness_that_dies_is_missed() {
        for script in ["exit 3", "read -r line; exit 3", "read -r a; echo ok 1; read -r b; exit 3"]
        {
            let error = converse(script).unwrap_err();
            let WitnessError::Ended { how, .. } = &error else { panic!("{script}: {error:?}") };
            assert_eq!(how, "exit status: 3");
        }
        let error = converse("kill -9 $$").unwrap_err().to_string();
        assert!(error.contains("ended (signal: 9 (SIGKILL)) before it answered `pre"), "{error}");
        let missing = converse("iosonde-no-such-program 2>/dev/null").unwrap_err();
        assert!(missing.to_string().contains("exit status: 127"), "{missing}");
        let bad =
            converse("read -r a; echo ok 1; read -r b; echo ok 2; read -r c; echo ok 3; exit 4");
        assert_eq!(bad, Err(WitnessError::BadEnd("exit status: 4".into())));
    }

    #[test]
    fn a_witness_that_hangs_holds_nobody_up() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let begun = Instant::now();
        // A descendant that would outlive its shell.
        let script = format!("sleep 600 & echo $! > {}.new; mv {0}.new {0}; wait", pid.display());
        let witness = start(&script, BRIEF);
        while !pid.exists() && begun.elapsed() < PATIENT {
            std::thread::sleep(SAMPLE_EVERY);
        }
        let error = witness.say(&PRE).unwrap_err();
        assert!(error.to_string().contains("did not answer `pre 0 1 5` within 0.1 s"), "{error}");
        assert_eq!(witness.say(&PRE), Err(WitnessError::Lost));
        drop(witness);
        let pid: i32 = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
        let process = Pid::from_raw(pid).unwrap();
        // Until its new parent reaps it, it is a zombie, which no longer runs.
        let runs = || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            rustix::process::test_kill_process(process).is_ok() && !stat.contains(") Z ")
        };
        while runs() && begun.elapsed() < PATIENT {
            std::thread::sleep(SAMPLE_EVERY);
        }
        assert!(!runs(), "the sleeping descendant lives on");
    }

    #[test]
    fn a_pipe_that_nobody_empties_holds_nobody_up() {
        let witness = start("exec sleep 600", BRIEF);
        let mut header = iosonde_model::record::ledger_file::LedgerHeader {
            schema: iosonde_model::record::ledger_file::LEDGER_SCHEMA.into(),
            program: "x".repeat(500_000),
            run_id: iosonde_model::content::block::RunId(1),
            stream_version: 1,
            jobs: 1,
            block_bytes: 512,
            sector_bytes: 512,
            target: "t".into(),
            identity: None,
            target_bytes: 512,
            region_start: 0,
            region_bytes: 512,
            boot_id: None,
            created_unix_ns: 0,
            synced: false,
            plan: serde_json::Value::Null,
        };
        let error = witness.say(&Line::hello(header.clone()).unwrap()).unwrap_err();
        assert!(matches!(error, WitnessError::Silent { ref line, .. } if line.len() == 60));
        header.jobs = 0;
        assert!(Line::hello(header).is_err());
    }

    #[test]
    fn jobs_take_turns() {
        let script = "n=0; while read -r line; do n=$((n+1)); echo ok $n; done";
        let witness = start(script, PATIENT);
        std::thread::scope(|scope| {
            for job in 0..4 {
                let witness = &witness;
                scope.spawn(move || {
                    for flush in 1..=25 {
                        witness.say(&Line::Pre { job, flush, ops: flush }).unwrap();
                        witness.say(&Line::Post { job, flush, ops: flush }).unwrap();
                    }
                });
            }
        });
        witness.end().unwrap();
    }
}
