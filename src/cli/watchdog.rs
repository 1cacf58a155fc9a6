//! One watchdog for all verbs. It names what does not answer, and ends the command within two
//! seconds of an interrupt, whatever the storage does: what was finished is kept by then.

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

/// What has not answered for so long is named.
const NAMED_AFTER_NS: u64 = 10_000_000_000;
/// After an interrupt this long is waited for what answers.
const LEAVE_AFTER: Duration = Duration::from_millis(1500);
/// What has not answered for so long then is not waited for.
const SILENT_NS: u64 = 500_000_000;
/// After an interrupt the command ends by then even if nothing is known to be silent.
const LEAVE_ANYWAY: Duration = Duration::from_secs(10);
/// Distance of two looks.
const LOOK: Duration = Duration::from_millis(25);
/// Removing what holds nothing may wait for storage, too.
const CLEAN_WITHIN: Duration = Duration::from_millis(350);

/// What the watchdog knows of the command.
#[derive(Debug, Default)]
struct Known {
    verb: String,
    format: OutputFormat,
    /// The folder of results, and whether it holds one.
    results: Option<(PathBuf, bool)>,
    /// Where the supervisor reads the exit code.
    code_to: Option<PipeWriter>,
}

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
/// Whether the verb looks at the signal itself, and ends by itself where it can.
static IS_HEEDED: AtomicBool = AtomicBool::new(false);
static SIGNAL: Mutex<Option<Arc<AtomicUsize>>> = Mutex::new(None);

fn known() -> MutexGuard<'static, Option<Known>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn signal() -> Arc<AtomicUsize> {
    let mut signal = SIGNAL.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(signal.get_or_insert_default())
}

/// The cell with the number of the signal that came first; 0 while there is none. Who takes it ends
/// by itself when it is set, as far as storage answers.
pub(super) fn heed() -> Arc<AtomicUsize> {
    IS_HEEDED.store(true, Ordering::Relaxed);
    signal()
}

/// The number of the signal that asked for an end, if one did.
pub(super) fn pending() -> Option<i32> {
    signal_in(&signal())
}

/// Asks for an end as an interrupt does.
pub(super) fn interrupt() {
    let interrupted = usize::try_from(SIGINT).unwrap_or_default();
    let _ = signal().compare_exchange(0, interrupted, Ordering::Relaxed, Ordering::Relaxed);
}

/// Begins to watch.
pub(super) fn start(mut link: Link, verb: &str, format: OutputFormat) {
    let code_to = link.take_code();
    *known() = Some(Known { verb: verb.into(), format, results: None, code_to });
    // A limit on file sizes (ulimit -f) is then seen as EFBIG, where the default is to be killed.
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

/// Results are kept in this folder from now on.
pub(super) fn results_in(folder: &Path) {
    if let Some(known) = known().as_mut() {
        known.results = Some((folder.to_path_buf(), false));
    }
}

/// The folder holds a result that is worth keeping.
pub(super) fn has_result() {
    if let Some((_, has_result)) = known().as_mut().and_then(|known| known.results.as_mut()) {
        *has_result = true;
    }
}

/// The folder of results has been closed.
pub(super) fn results_closed() {
    if let Some(known) = known().as_mut() {
        known.results = None;
    }
}

/// The command ends with this code now: threads that wait for storage are not waited for.
pub(super) fn end(exit: Exit) -> Exit {
    if let Some(code_to) = known().as_mut().and_then(|known| known.code_to.as_mut()) {
        close_output();
        // Nobody supervises this process any more.
        let _ = code_to.write_all(&[exit.code()]);
    }
    exit
}

/// Whoever reads our output reads its end now: the kernel keeps a process with an unanswered
/// request, and what it has open, until the storage answers.
fn close_output() {
    let _ = std::io::stdout().flush();
    if let Ok(null) = std::fs::File::create("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// The life of the watchdog.
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

/// What does not answer, where that is, and since when.
fn words(silence: &Silence) -> String {
    let for_time = duration::span(silence.for_ns);
    let since = since(silence.since_unix_ns);
    let target = &silence.target;
    // A simulated device and a list of words have none.
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

/// Ends the process, without waiting for anybody.
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
        // Without a result it is only in the way.
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
