//! What this program waits for. Every call that storage may never answer is listed here before it
//! is made, so that `iosonde`'s watchdog can name it. One list for the process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iosonde_sys::clock::{monotonic_ns, realtime_ns};

/// An operation that is being waited for.
#[derive(Debug)]
struct Entry {
    /// The operation (`opening`).
    operation: String,
    /// A path, or a description of a target that has none.
    target: String,
    /// Time of the last progress, ns by CLOCK_MONOTONIC.
    heard_ns: AtomicU64,
}

static ENTRIES: Mutex<Vec<Arc<Entry>>> = Mutex::new(Vec::new());

fn entries() -> MutexGuard<'static, Vec<Arc<Entry>>> {
    // Entries are complete before they are pushed, so a panic leaves the list valid.
    ENTRIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lists an operation on a target until it is dropped.
#[derive(Debug)]
pub struct Wait(Arc<Entry>);

impl Wait {
    /// Lists this operation: a phrase such as `opening` or `reads and writes of job 2`.
    pub fn begin(operation: impl Into<String>, target: impl Into<String>) -> Wait {
        let entry = Arc::new(Entry {
            operation: operation.into(),
            target: target.into(),
            heard_ns: AtomicU64::new(monotonic_ns()),
        });
        entries().push(Arc::clone(&entry));
        Wait(entry)
    }

    /// Sets its last progress to this long ago, ns.
    pub fn since(self, ago_ns: u64) -> Wait {
        self.0.heard_ns.fetch_sub(ago_ns.min(monotonic_ns()), Ordering::Relaxed);
        self
    }

    /// Notes progress: something was answered, or nothing is being waited for.
    pub fn heard(&self) {
        self.0.heard_ns.store(monotonic_ns(), Ordering::Relaxed);
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        entries().retain(|entry| !Arc::ptr_eq(entry, &self.0));
    }
}

/// An operation without progress for some time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Silence {
    pub operation: String,
    /// Target of the operation.
    pub target: String,
    /// Time without progress, ns.
    pub for_ns: u64,
    /// Time of the last progress, ns since 1970.
    pub since_unix_ns: u64,
}

/// Operations without progress for this long, ns; the longest first.
pub fn silent_for(at_least_ns: u64) -> Vec<Silence> {
    let (now_ns, now_unix_ns) = (monotonic_ns(), realtime_ns());
    let silence = |entry: &Arc<Entry>| {
        let for_ns = now_ns.saturating_sub(entry.heard_ns.load(Ordering::Relaxed));
        Silence {
            operation: entry.operation.clone(),
            target: entry.target.clone(),
            for_ns,
            since_unix_ns: now_unix_ns.saturating_sub(for_ns),
        }
    };
    let mut all: Vec<Silence> = entries().iter().map(silence).collect();
    all.retain(|silence| silence.for_ns >= at_least_ns);
    all.sort_by_key(|silence| std::cmp::Reverse(silence.for_ns));
    all
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Only this target: other tests of this process wait, too.
    fn silent(at_least_ns: u64, target: &str) -> Vec<String> {
        let silent = silent_for(at_least_ns).into_iter().filter(|each| each.target == target);
        silent.map(|each| each.operation).collect()
    }

    #[test]
    fn what_is_not_heard_of_is_named_until_it_is() {
        let first = Wait::begin("opening", "waits-test");
        let second = Wait::begin("reading", "waits-test");
        std::thread::sleep(Duration::from_millis(30));
        second.heard();
        assert_eq!(silent(20_000_000, "waits-test"), ["opening"]);
        assert_eq!(silent(0, "waits-test"), ["opening", "reading"]);
        drop(first);
        assert_eq!(silent(0, "waits-test"), ["reading"]);
        drop(second);
        assert!(silent(0, "waits-test").is_empty());
    }
}
