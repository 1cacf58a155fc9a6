//! A command line in a new home and working directory, and its result.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use iosonde_rig::{ScratchDir, default_signals_for_children, skip};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

/// Time limit of a command, even on a slow and busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A home and a working directory, removed on drop.
pub(crate) struct Place {
    dir: ScratchDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place::on(ScratchDir::new().unwrap())
    }

    /// In memory if possible: a file system may wait for the discard of each removed file.
    pub(crate) fn for_many_files() -> Place {
        let in_memory = ScratchDir::below(Path::new("/dev/shm")).or_else(|_| ScratchDir::new());
        Place::on(in_memory.unwrap())
    }

    fn on(dir: ScratchDir) -> Place {
        default_signals_for_children();
        for name in ["home", "work"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        Place { dir }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Writes a file in the working directory.
    pub(crate) fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.work().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// Creates a file in the working directory that consists of a hole.
    pub(crate) fn hole(&self, name: &str, bytes: u64) -> PathBuf {
        let path = self.work().join(name);
        fs::File::create(&path).unwrap().set_len(bytes).unwrap();
        path
    }

    /// `iosonde` with these words, split at spaces.
    pub(crate) fn iosonde(&self, words: &str) -> Call {
        self.program("", Path::new(iosonde_fixtures::program!().path()), words)
    }

    /// As [`Self::iosonde`], with another program.
    pub(crate) fn other_iosonde(&self, program: &Path, words: &str) -> Call {
        self.program("", program, words)
    }

    /// `iosonde` as an unprivileged user who may write in the home and the working directory.
    /// `None`, with the reason, if that is impossible.
    pub(crate) fn as_nobody(&self, words: &str) -> Option<Call> {
        if !rustix::process::geteuid().is_root() {
            return Some(self.iosonde(words));
        }
        let chown = |path: &Path| std::os::unix::fs::chown(path, Some(65534), Some(65534));
        chown(&self.home()).and_then(|()| chown(&self.work())).unwrap();
        // An unprivileged user may have no access to the build directory.
        let program = self.dir.path().join("iosonde");
        fs::copy(iosonde_fixtures::program!().path(), &program).unwrap();
        let setpriv = "setpriv --reuid=65534 --regid=65534 --clear-groups";
        let probe = Command::new("setpriv").args(setpriv.split(' ').skip(1)).arg("true").status();
        if !probe.is_ok_and(|status| status.success()) {
            skip("setpriv cannot give up root here");
            return None;
        }
        Some(self.program(setpriv, &program, words))
    }

    fn program(&self, wrapper: &str, program: &Path, words: &str) -> Call {
        let mut all: Vec<&OsStr> = wrapper.split_whitespace().map(OsStr::new).collect();
        all.push(program.as_os_str());
        all.extend(words.split_whitespace().map(OsStr::new));
        let mut command = Command::new(all[0]);
        command.args(&all[1..]).current_dir(self.work()).stdin(Stdio::null());
        command.env("HOME", self.home()).env_remove("XDG_STATE_HOME").env_remove("RUST_BACKTRACE");
        Call { command }
    }

    /// Default folder of results.
    pub(crate) fn runs(&self) -> PathBuf {
        self.home().join(".local/state/iosonde/runs")
    }

    /// The stored folders, in order.
    pub(crate) fn kept(&self) -> Vec<PathBuf> {
        listing(&self.runs())
    }
}

/// Entries of a directory, sorted; empty if it does not exist.
pub(crate) fn listing(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// A record in a result folder, compressed or not.
pub(crate) fn json_of(path: &Path) -> Value {
    let bytes = fs::read(path).unwrap();
    if path.extension().is_some_and(|extension| extension == "zst") {
        return serde_json::from_reader(zstd::Decoder::new(&*bytes).unwrap()).unwrap();
    }
    serde_json::from_slice(&bytes).unwrap()
}

/// A command that is not started yet.
pub(crate) struct Call {
    command: Command,
}

impl Call {
    pub(crate) fn arg(mut self, word: impl AsRef<OsStr>) -> Call {
        self.command.arg(word);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Call {
        self.command.env(name, value);
        self
    }

    pub(crate) fn without_env(mut self, name: &str) -> Call {
        self.command.env_remove(name);
        self
    }

    pub(crate) fn stdout_to(mut self, stdout: Stdio) -> Call {
        self.command.stdout(stdout);
        self
    }

    /// The underlying command.
    pub(crate) fn into_command(self) -> Command {
        self.command
    }

    /// Starts the command; its streams are read as they are written.
    pub(crate) fn start(mut self) -> Running {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::of(&mut self.command).unwrap()
    }

    /// Runs it to its end.
    pub(crate) fn end(self) -> Ended {
        self.start().end()
    }
}

/// A child and its process group, killed on drop, so that a failed test leaves no process behind.
pub(crate) struct Held(Child);

impl Held {
    /// Starts the command in a new process group.
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Held> {
        command.process_group(0).spawn().map(Held)
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Its exit status; `None` if it still runs after [`PATIENCE`].
    pub(crate) fn wait(&mut self) -> Option<ExitStatus> {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if let Some(status) = self.0.try_wait().unwrap() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    fn kill(&mut self) {
        // After a wait its number may belong to another process.
        if self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
            let _ = self.0.wait();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A running command.
pub(crate) struct Running {
    child: Held,
    out: (Receiver<String>, JoinHandle<String>),
    err: (Receiver<String>, JoinHandle<String>),
}

impl Running {
    /// Starts a command whose output streams are both piped.
    pub(crate) fn of(command: &mut Command) -> io::Result<Running> {
        let mut child = Held::spawn(command)?;
        let out: ChildStdout = child.0.stdout.take().unwrap();
        let err: ChildStderr = child.0.stderr.take().unwrap();
        Ok(Running { child, out: lines(out), err: lines(err) })
    }

    /// Waits for a line of stderr that contains `words`.
    pub(crate) fn until_stderr(self, words: &str) -> Running {
        wait_line(&self.err.0, words);
        self
    }

    /// Waits for a line of stdout that contains `words`.
    pub(crate) fn until_stdout(self, words: &str) -> Running {
        wait_line(&self.out.0, words);
        self
    }

    pub(crate) fn signal(self, signal: Signal) -> Running {
        kill_process(Pid::from_child(&self.child.0), signal).unwrap();
        self
    }

    /// Signals the worker process of a supervisor.
    pub(crate) fn signal_worker(self, signal: Signal) -> Running {
        let own = self.child.0.id();
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap();
        let worker = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
        kill_process(Pid::from_raw(worker.unwrap()).unwrap(), signal).unwrap();
        self
    }

    /// Waits until a condition holds.
    pub(crate) fn until(self, what: &str, mut is_so: impl FnMut() -> bool) -> Running {
        let started = Instant::now();
        while !is_so() {
            assert!(started.elapsed() < PATIENCE, "no {what}: {}", self.end());
            std::thread::sleep(Duration::from_millis(10));
        }
        self
    }

    pub(crate) fn pause(self, pause: Duration) -> Running {
        std::thread::sleep(pause);
        self
    }

    /// Waits for the end; kills a command that hangs and fails the test.
    pub(crate) fn end(mut self) -> Ended {
        let Some(status) = self.child.wait() else {
            self.child.kill();
            panic!("still running after {PATIENCE:?}: {}", self.err.1.join().unwrap());
        };
        let (out, err) = (self.out.1.join().unwrap(), self.err.1.join().unwrap());
        let ended = Ended { code: status.code(), signal: status.signal(), out, err };
        assert!(!ended.err.contains("panicked"), "{ended}");
        ended
    }
}

/// Reads a stream to its end in a thread, and sends each line as it arrives.
fn lines(stream: impl Read + Send + 'static) -> (Receiver<String>, JoinHandle<String>) {
    let (to, from) = channel();
    let reader = std::thread::spawn(move || {
        let mut all = String::new();
        for line in BufReader::new(stream).lines() {
            let line = line.unwrap();
            all.push_str(&line);
            all.push('\n');
            // The receiver may be gone.
            let _ = to.send(line);
        }
        all
    });
    (from, reader)
}

fn wait_line(lines: &Receiver<String>, words: &str) {
    let mut seen = String::new();
    while let Ok(line) = lines.recv_timeout(PATIENCE) {
        if line.contains(words) {
            return;
        }
        seen.push_str(&line);
        seen.push('\n');
    }
    panic!("no line with `{words}` among:\n{seen}");
}

pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ended { code, signal, out, err } = self;
        write!(f, "code {code:?}, signal {signal:?}\n--- stdout\n{out}\n--- stderr\n{err}")
    }
}

impl Ended {
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Ended {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// Expects text in stderr.
    #[track_caller]
    pub(crate) fn says(self, words: &str) -> Ended {
        assert!(self.err.contains(words), "stderr lacks `{words}`: {self}");
        self
    }

    /// Expects text in stdout, regardless of line breaks.
    #[track_caller]
    pub(crate) fn prints(self, words: &str) -> Ended {
        let in_a_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let holds = self.out.contains(words) || in_a_line(&self.out).contains(&in_a_line(words));
        assert!(holds, "stdout lacks `{words}`: {self}");
        self
    }

    /// Expects that stdout lacks the text.
    #[track_caller]
    pub(crate) fn lacks(self, words: &str) -> Ended {
        assert!(!self.out.contains(words), "stdout has `{words}`: {self}");
        self
    }

    /// Expects empty stdout.
    #[track_caller]
    pub(crate) fn silent(self) -> Ended {
        assert_eq!(self.out, "", "{self}");
        self
    }

    /// Expects that stdout is one JSON document with the exit code of the process.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let document: Value = match serde_json::from_str(&self.out) {
            Ok(document) => document,
            Err(error) => panic!("{error}: {self}"),
        };
        assert!(document.is_object(), "{self}");
        assert_eq!(document["exit_code"].as_i64(), self.code.map(i64::from), "{self}");
        document
    }
}
