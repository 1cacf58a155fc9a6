//! Asks the built program and holds its answer.

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

/// A run that has not ended by then hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

static TURN: Mutex<()> = Mutex::new(());
static STARTING: Mutex<()> = Mutex::new(());

/// One test at a time: a device of known latency needs a machine without other tests.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One program is started at a time, and none while a target is made: until it runs, it has open
/// what this process has, and the target would be in use.
pub(crate) fn starting() -> MutexGuard<'static, ()> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The built program, or the build of it that `IOSONDE_PROGRAM` names.
pub(crate) fn program() -> PathBuf {
    iosonde_fixtures::program!().path().into()
}

/// Waits until that is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "no {what} after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What this machine has, or the reason why the test cannot run on it.
pub(crate) fn here<T>(thing: Result<T, Unavailable>) -> Option<T> {
    thing.map_err(skip).ok()
}

/// A FUSE device that behaves as the words say.
pub(crate) fn served(words: &[&str]) -> Option<FuseMount> {
    here(FuseMount::new(Script::from_words(words.iter().copied()).unwrap()))
}

/// Zeros, written out: the program may overwrite them.
pub(crate) fn lay_out(path: &Path, mib: usize) {
    fs::write(path, vec![0; mib << 20]).unwrap();
    fs::File::open(path).unwrap().sync_all().unwrap();
}

/// A question to the program.
pub(crate) struct Ask {
    words: Vec<String>,
    results: ScratchDir,
}

/// A command line: `{}` stands for the path.
pub(crate) fn ask(line: &str, path: impl AsRef<Path>) -> Ask {
    let path = path.as_ref().to_str().unwrap();
    let words = line.split_whitespace().map(|word| word.replace("{}", path)).collect();
    Ask { words, results: ScratchDir::new().unwrap() }
}

impl Ask {
    /// One more word, which may hold spaces.
    pub(crate) fn word(mut self, word: impl Into<String>) -> Ask {
        self.words.push(word.into());
        self
    }

    /// The answer.
    pub(crate) fn answer(self) -> Answer {
        self.answer_of(Command::new(program()))
    }

    /// The answer under a limit.
    pub(crate) fn answer_within(self, limit: &IoThrottle) -> Answer {
        let command = limit.command(program());
        self.answer_of(command)
    }

    fn answer_of(self, command: Command) -> Answer {
        self.start_with(command, "0").wait()
    }

    /// Starts it, for a test that has something to do meanwhile.
    pub(crate) fn start(self) -> Asking {
        self.start_with(Command::new(program()), "0")
    }

    /// Starts it and waits until it reports a rate, however long a busy machine takes for that.
    pub(crate) fn start_measuring(self) -> Asking {
        let asking = self.start_with(Command::new(program()), "0.1");
        asking.until_reports(1);
        asking
    }

    fn start_with(mut self, mut command: Command, eta_interval: &str) -> Asking {
        default_signals_for_children();
        // Who has the device behind a socket is the server's to know.
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

/// Whether there are processes of which not even this user sees what they have open, as in every
/// container: then each write to a device needs a consent more.
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

/// The program at work; killed where the test gives up.
pub(crate) struct Asking {
    child: Child,
    results: Option<ScratchDir>,
    started: Instant,
}

impl Asking {
    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has reported so many more rates, of which there are ten a second.
    pub(crate) fn until_reports(&self, more: usize) {
        let stderr = self.results.as_ref().unwrap().path().join("stderr");
        let reports = || fs::read_to_string(&stderr).unwrap().matches("IOPS").count();
        let wanted = reports() + more;
        until("report of a rate", || reports() >= wanted);
    }

    /// Sends it SIGINT.
    pub(crate) fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
    }

    /// Its end, at most [`PATIENCE`] away.
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

/// What the program said.
pub(crate) struct Answer {
    /// Exit code; `None` if a signal ended it.
    pub(crate) exit: Option<i32>,
    /// The document on stdout; null if it was none.
    pub(crate) json: Value,
    /// What it said besides.
    pub(crate) stderr: String,
    /// From start to end.
    pub(crate) took: Duration,
    results: ScratchDir,
}

impl Answer {
    /// Expects an exit code, and a document that names the same.
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.exit, Some(code), "{}", self.gist());
        assert_eq!(self.json["exit_code"], code);
        self
    }

    /// What a reader of a failed test needs.
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

    /// One value of the document, by JSON pointer.
    pub(crate) fn at(&self, pointer: &str) -> &Value {
        self.json.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// One number of the first cell.
    pub(crate) fn number(&self, pointer: &str) -> f64 {
        let value = self.at(&format!("/cells/0/{pointer}"));
        value.as_f64().unwrap_or_else(|| panic!("{pointer} is {value}; {}", self.stderr))
    }

    /// A latency of the first cell in ns: `read`, `p99.9`.
    pub(crate) fn latency_ns(&self, direction: &str, name: &str) -> f64 {
        self.number(&format!("summary/{direction}/latency_ns/{name}"))
    }

    /// The finding of that code in the first cell.
    pub(crate) fn finding(&self, code: &str) -> Option<&Value> {
        let findings = self.at("/cells/0/findings").as_array()?;
        findings.iter().find(|finding| finding["code"] == code)
    }

    /// Expects a finding in the first cell, of that strength.
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

    /// The kept record of the first cell.
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
