//! Watchdog for all verbs. It reports operations that hang, and ends the command within two seconds
//! of an interrupt even if storage hangs. Finished results are stored by then.

use std::io::{PipeWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use iosonde_engine::engine::signal_in;
use iosonde_engine::engine::waits::{Silence, silent_for};
use iosonde_engine::host::{Mount, Root, mount_by_name};
use iosonde_model::units::duration;
use signal_hook::consts::{SIGINT, SIGXFSZ};
use signal_hook::flag;

use super::exit::{Exit, Failure};
use super::keys;
use super::output::{Output, OutputFormat, note};
use super::supervisor::{Link, SAME};

/// Time without progress after which an operation is reported, ns.
const NAMED_AFTER_NS: u64 = 10_000_000_000;
/// Time after an interrupt from which on silent operations are not waited for.
const LEAVE_AFTER: Duration = Duration::from_millis(1500);
/// Time without progress after which an operation is silent then, ns.
const SILENT_NS: u64 = 500_000_000;
/// Time after an interrupt at which the command ends even without a known silent operation.
const LEAVE_ANYWAY: Duration = Duration::from_secs(10);
/// Poll interval.
const LOOK: Duration = Duration::from_millis(25);
/// Maximum time to remove a folder without a result: storage may hang there too.
const CLEAN_WITHIN: Duration = Duration::from_millis(350);

/// Facts about the command.
#[derive(Debug, Default)]
struct Known {
    verb: String,
    format: OutputFormat,
    /// The result folder, and whether it has a result.
    results: Option<(PathBuf, bool)>,
    /// Pipe for the exit code, read by the supervisor.
    code_to: Option<PipeWriter>,
}

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
/// Whether the verb polls the signal and ends by itself, unless storage hangs.
static IS_HEEDED: AtomicBool = AtomicBool::new(false);
static SIGNAL: Mutex<Option<Arc<AtomicUsize>>> = Mutex::new(None);

fn known() -> MutexGuard<'static, Option<Known>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn signal() -> Arc<AtomicUsize> {
    let mut signal = SIGNAL.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(signal.get_or_insert_default())
}

/// The cell with the number of the first signal, or 0. The caller must end by itself when it is
/// set, unless storage hangs.
pub(super) fn heed() -> Arc<AtomicUsize> {
    IS_HEEDED.store(true, Ordering::Relaxed);
    signal()
}

/// The number of the signal that requested the end, if any.
pub(super) fn pending() -> Option<i32> {
    signal_in(&signal())
}

/// Requests the end, as an interrupt does.
pub(super) fn interrupt() {
    let interrupted = usize::try_from(SIGINT).unwrap_or_default();
    let _ = signal().compare_exchange(0, interrupted, Ordering::Relaxed, Ordering::Relaxed);
}

/// Starts the watchdog.
pub(super) fn start(mut link: Link, verb: &str, format: OutputFormat) {
    let code_to = link.take_code();
    *known() = Some(Known { verb: verb.into(), format, results: None, code_to });
    // With a handler, exceeding the file size limit (ulimit -f) gives EFBIG; by default it kills.
    let _ = flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    let signal = signal();
    let watch = move || watch(&mut link, &signal);
    if std::thread::Builder::new().name("watchdog".into()).spawn(watch).is_err() {
        note(
            "warning: cannot start the watchdog thread: storage that hangs is not reported, and an \
             interrupt may have to wait for it",
        );
    }
}

/// Sets the folder where results are stored from now on.
pub(super) fn results_in(folder: &Path) {
    if let Some(known) = known().as_mut() {
        known.results = Some((folder.to_path_buf(), false));
    }
}

/// Marks the folder as having a result worth keeping.
pub(super) fn has_result() {
    if let Some((_, has_result)) = known().as_mut().and_then(|known| known.results.as_mut()) {
        *has_result = true;
    }
}

/// Forgets the result folder, which was closed.
pub(super) fn results_closed() {
    if let Some(known) = known().as_mut() {
        known.results = None;
    }
}

/// Reports the exit code to the supervisor: the command ends without waiting for hung threads.
pub(super) fn end(exit: Exit) -> Exit {
    if let Some(code_to) = known().as_mut().and_then(|known| known.code_to.as_mut()) {
        close_output();
        // Fails if the supervisor is gone.
        let _ = code_to.write_all(&[exit.code()]);
    }
    exit
}

/// Closes stdout and stderr, so that their readers see the end: the kernel keeps a process with a
/// pending request, and its open files, until the storage responds.
fn close_output() {
    let _ = std::io::stdout().flush();
    if let Ok(null) = std::fs::File::create("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// The loop of the watchdog.
fn watch(link: &mut Link, cell: &AtomicUsize) {
    let mut first: Option<(i32, Instant)> = None;
    let mut named: Vec<Silence> = Vec::new();
    loop {
        for number in link.signals(LOOK) {
            match first {
                None => {
                    first = Some((number, Instant::now()));
                    cell.store(usize::try_from(number).unwrap_or_default(), Ordering::Relaxed);
                }
                Some((_, at)) if at.elapsed() >= SAME => leave(Exit::Signal(number), None),
                Some(_) => {}
            }
        }
        if first.is_none()
            && let Some(number) = pending()
        {
            first = Some((number, Instant::now()));
        }
        let mut silent = silent_for(NAMED_AFTER_NS);
        let is_same = |one: &Silence, other: &Silence| {
            (&one.operation, &one.target) == (&other.operation, &other.target)
        };
        named.retain(|old| silent.iter().any(|each| is_same(each, old)));
        silent.retain(|each| !named.iter().any(|old| is_same(each, old)));
        for each in silent {
            note(&format!(
                "warning: {}. An interrupt (Ctrl-C) ends the command and keeps what was measured",
                words(&each)
            ));
            named.push(each);
        }
        let Some((number, at)) = first else { continue };
        let is_heeded = IS_HEEDED.load(Ordering::Relaxed);
        let silent = silent_for(SILENT_NS);
        let is_stuck = at.elapsed() >= LEAVE_AFTER && !silent.is_empty();
        if !is_heeded || is_stuck || at.elapsed() >= LEAVE_ANYWAY {
            leave(Exit::Signal(number), silent.first());
        }
    }
}

/// Describes a silent operation: what, on which mount, since when.
fn words(silence: &Silence) -> String {
    let for_time = duration::span(silence.for_ns);
    let since = since(silence.since_unix_ns);
    let target = &silence.target;
    // A target that is not a path, such as a simulated device, has no mount.
    let mount = mount_by_name(&Root::system(), Path::new(target)).map(on).unwrap_or_default();
    format!("no answer for {for_time}: {} `{target}`{mount}, since {since}", silence.operation)
}

/// ` on /mnt (fuse.sshfs of host:/data)`.
fn on(mount: Mount) -> String {
    let Mount { point, filesystem, source, device: (major, minor), .. } = mount;
    format!(" on {} ({filesystem} of {source}, device {major}:{minor})", point.display())
}

/// `13:45:10 UTC`.
fn since(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000 % 86_400;
    format!("{:02}:{:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Ends the process without waiting for any thread.
fn leave(exit: Exit, silent: Option<&Silence>) -> ! {
    keys::restore();
    let (verb, format, results) = match known().as_mut() {
        Some(known) => (known.verb.clone(), known.format, known.results.take()),
        None => Default::default(),
    };
    let mut message = match silent {
        Some(silent) => format!("interrupted without waiting any longer: {}", words(silent)),
        None => "interrupted".to_owned(),
    };
    match results {
        Some((folder, true)) => {
            let path = folder.display();
            message.push_str(&format!(
                "; what was finished is kept in {path}, and `iosonde report {path}` shows it"
            ));
        }
        // A folder without a result is removed.
        Some((folder, false)) => {
            let (done_to, done) = std::sync::mpsc::channel();
            let clean = move || {
                let _ = std::fs::remove_dir_all(&folder);
                let _ = done_to.send(());
            };
            if std::thread::Builder::new().spawn(clean).is_ok() {
                let _ = done.recv_timeout(CLEAN_WITHIN);
            }
        }
        None => {}
    }
    Output::new(format).last_words(&verb, &Failure::new(exit, message));
    iosonde_sys::process::leave(end(exit).code())
}
