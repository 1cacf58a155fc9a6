//! Runs the built program and holds its answer.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use iosonde_rig::guard::IoThrottle;
use iosonde_rig::{FuseMount, ScratchDir, Script, Unavailable, default_signals_for_children, skip};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A run that takes longer hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

static TURN: Mutex<()> = Mutex::new(());
static STARTING: Mutex<()> = Mutex::new(());

/// Serialises tests: a device of known latency needs a machine without other tests.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts one program at a time, and none while a target is made: until it has executed, a new
/// process has this process's files open, and the target would be in use.
pub(crate) fn starting() -> MutexGuard<'static, ()> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program under test: the build that `IOSONDE_PROGRAM` names, or else that of the tests.
pub(crate) fn program() -> PathBuf {
    iosonde_fixtures::program!().path().into()
}

/// Waits until a condition holds.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "no {what} after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The rig, or `None` after reporting why the test cannot run on this machine.
pub(crate) fn here<T>(thing: Result<T, Unavailable>) -> Option<T> {
    thing.map_err(skip).ok()
}

/// A FUSE device with this script.
pub(crate) fn served(words: &[&str]) -> Option<FuseMount> {
    here(FuseMount::new(Script::from_words(words.iter().copied()).unwrap()))
}

/// Writes zeros, which the program may overwrite, and syncs them.
pub(crate) fn lay_out(path: &Path, mib: usize) {
    fs::write(path, vec![0; mib << 20]).unwrap();
    fs::File::open(path).unwrap().sync_all().unwrap();
}

/// A command line of the program.
pub(crate) struct Ask {
    words: Vec<String>,
    results: ScratchDir,
}

/// Builds a command line, in which `{}` is replaced by the path.
pub(crate) fn ask(line: &str, path: impl AsRef<Path>) -> Ask {
    let path = path.as_ref().to_str().unwrap();
    let words = line.split_whitespace().map(|word| word.replace("{}", path)).collect();
    Ask { words, results: ScratchDir::new().unwrap() }
}

impl Ask {
    /// Adds a word, which may contain spaces.
    pub(crate) fn word(mut self, word: impl Into<String>) -> Ask {
        self.words.push(word.into());
        self
    }

    /// Runs the program.
    pub(crate) fn answer(self) -> Answer {
        self.answer_of(Command::new(program()))
    }

    /// Runs the program under a limit.
    pub(crate) fn answer_within(self, limit: &IoThrottle) -> Answer {
        let command = limit.command(program());
        self.answer_of(command)
    }

    fn answer_of(self, command: Command) -> Answer {
        self.start_with(command, "0").wait()
    }

    /// Starts the program, for a test that acts meanwhile.
    pub(crate) fn start(self) -> Asking {
        self.start_with(Command::new(program()), "0")
    }

    /// Starts the program and waits until it reports a rate, however busy the machine.
    pub(crate) fn start_measuring(self) -> Asking {
        let asking = self.start_with(Command::new(program()), "0.1");
        asking.until_reports(1);
        asking
    }

    fn start_with(mut self, mut command: Command, eta_interval: &str) -> Asking {
        default_signals_for_children();
        // Only the server of a socket knows which processes use the device.
        if hides_processes() && !self.words.iter().any(|word| is_socket(word)) {
            let agreed = self.words.iter().filter_map(|word| word.strip_prefix("--destroy-data="));
            let accept = |id| format!("--accept-unseen-processes={id}");
            let accepted: Vec<String> = agreed.map(accept).collect();
            self.words.extend(accepted);
        }
        let file = |name: &str| fs::File::create(self.results.path().join(name)).unwrap();
        command
            .args(&self.words)
            .args(["--output-format", "json", "--eta-interval", eta_interval, "--results"])
            .arg(self.results.path().join("kept"))
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"));
        let starting = starting();
        let child = command.spawn().unwrap();
        drop(starting);
        Asking { child, results: Some(self.results), started: Instant::now() }
    }
}

fn is_socket(path: &str) -> bool {
    fs::metadata(path).is_ok_and(|facts| facts.file_type().is_socket())
}

/// Whether some processes hide their open files even from this user, as in every container. Each
/// write to a device then needs an additional consent.
pub(crate) fn hides_processes() -> bool {
    /// `PROC_PID_INIT_INO` of `linux/proc_ns.h`: the namespace that shows all processes.
    const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";
    static HIDES: OnceLock<bool> = OnceLock::new();
    *HIDES.get_or_init(|| {
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap();
        let hides = |process: std::io::Result<fs::DirEntry>| {
            let descriptors = process.ok().and_then(|at| fs::read_dir(at.path().join("fd")).ok());
            let refuses = |link: std::io::Result<fs::DirEntry>| {
                let refusal = link.and_then(|link| fs::read_link(link.path())).err();
                refusal.is_some_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
            };
            descriptors.into_iter().flatten().any(refuses)
        };
        namespace != Path::new(FIRST_PID_NAMESPACE) || fs::read_dir("/proc").unwrap().any(hides)
    })
}

/// The running program; killed if the test fails.
pub(crate) struct Asking {
    child: Child,
    results: Option<ScratchDir>,
    started: Instant,
}

impl Asking {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for this many more reported rates, of which there are ten per second.
    pub(crate) fn until_reports(&self, more: usize) {
        let stderr = self.results.as_ref().unwrap().path().join("stderr");
        let reports = || fs::read_to_string(&stderr).unwrap().matches("IOPS").count();
        let wanted = reports() + more;
        until("report of a rate", || reports() >= wanted);
    }

    pub(crate) fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
    }

    /// Waits for its end, at most [`PATIENCE`].
    pub(crate) fn wait(mut self) -> Answer {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(self.started.elapsed() < PATIENCE, "the program hangs");
            std::thread::sleep(Duration::from_millis(5));
        };
        let results = self.results.take().unwrap();
        let read = |name| fs::read_to_string(results.path().join(name)).unwrap();
        let (stdout, stderr) = (read("stdout"), read("stderr"));
        let json = serde_json::from_str(&stdout).unwrap_or(Value::Null);
        let took = self.started.elapsed();
        Answer { exit: status.code(), json, stderr, took, results }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Result of the program.
pub(crate) struct Answer {
    /// Exit code; `None` if a signal ended it.
    pub(crate) exit: Option<i32>,
    /// The document on stdout; null if it is not JSON.
    pub(crate) json: Value,
    /// Its standard error.
    pub(crate) stderr: String,
    pub(crate) took: Duration,
    results: ScratchDir,
}

impl Answer {
    /// Expects an exit code, and the same code in the document.
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.exit, Some(code), "{}", self.gist());
        assert_eq!(self.json["exit_code"], code);
        self
    }

    /// Details for the message of a failed test.
    pub(crate) fn gist(&self) -> String {
        let cells = self.json["cells"].as_array().into_iter().flatten();
        let broken = cells.map(|cell| {
            let consistency = cell["consistency"].as_array().into_iter().flatten();
            let broken: Vec<_> = consistency.filter(|entry| entry["ok"] == false).collect();
            format!("{} {} {} {broken:?}\n", cell["name"], cell["outcome"], cell["errors"])
        });
        let broken: String = broken.collect();
        format!("{}{} {}\n{broken}", self.stderr, self.json["verdict"], self.json["error"])
    }

    /// A value of the document, by JSON pointer.
    pub(crate) fn at(&self, pointer: &str) -> &Value {
        self.json.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// A number of the first cell.
    pub(crate) fn number(&self, pointer: &str) -> f64 {
        let value = self.at(&format!("/cells/0/{pointer}"));
        value.as_f64().unwrap_or_else(|| panic!("{pointer} is {value}; {}", self.stderr))
    }

    /// A latency of the first cell in ns: `read`, `p99.9`.
    pub(crate) fn latency_ns(&self, direction: &str, name: &str) -> f64 {
        self.number(&format!("summary/{direction}/latency_ns/{name}"))
    }

    /// The finding with that code in the first cell.
    pub(crate) fn finding(&self, code: &str) -> Option<&Value> {
        let findings = self.at("/cells/0/findings").as_array()?;
        findings.iter().find(|finding| finding["code"] == code)
    }

    /// Expects a finding of that strength in the first cell.
    pub(crate) fn finds(&self, code: &str, strength: &str) {
        let found = self.finding(code);
        let words = &self.json["cells"][0]["findings"];
        assert_eq!(found.map(|f| &f["strength"]), Some(&strength.into()), "{code}: {words:#}");
    }

    /// Expects no such finding.
    pub(crate) fn finds_no(&self, code: &str) {
        assert_eq!(self.finding(code), None);
    }

    /// A fact about the target.
    pub(crate) fn target(&self, pointer: &str) -> &Value {
        self.at(&format!("/target/{pointer}"))
    }

    /// The stored record of the first cell.
    pub(crate) fn record(&self) -> Value {
        let kept = self.results.path().join("kept");
        let folder = fs::read_dir(kept).unwrap().next().unwrap().unwrap().path();
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        let is_cell = |path: &Path| path.file_name().unwrap().to_string_lossy().starts_with("01-");
        let cell = names.iter().find(|path| is_cell(path)).unwrap();
        serde_json::from_slice(&fs::read(cell).unwrap()).unwrap()
    }
}

/// Names in a directory.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    entries.map(|entry| name(entry).into_string().unwrap()).collect()
}
