//! What is this program waiting for? Whatever storage may never answer is noted here before it is
//! asked, so that who watches can name it: see `iosonde`'s watchdog. One list for the process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iosonde_sys::clock::{monotonic_ns, realtime_ns};

/// Something that is being waited for.
#[derive(Debug)]
struct Entry {
    /// The operation (`opening`).
    operation: String,
    /// A path, or the words for something that has none.
    target: String,
    /// When it was last heard of, ns by CLOCK_MONOTONIC.
    heard_ns: AtomicU64,
}

static ENTRIES: Mutex<Vec<Arc<Entry>>> = Mutex::new(Vec::new());

fn entries() -> MutexGuard<'static, Vec<Arc<Entry>>> {
    // A list of values that were made before is whole whatever panics.
    ENTRIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes an operation on a target until it is dropped.
#[derive(Debug)]
pub struct Wait(Arc<Entry>);

impl Wait {
    /// This operation begins: a phrase such as `opening` or `reads and writes of job 2`.
    pub fn begin(operation: impl Into<String>, target: impl Into<String>) -> Wait {
        let entry = Arc::new(Entry {
            operation: operation.into(),
            target: target.into(),
            heard_ns: AtomicU64::new(monotonic_ns()),
        });
        entries().push(Arc::clone(&entry));
        Wait(entry)
    }

    /// It began so long ago, ns.
    pub fn since(self, ago_ns: u64) -> Wait {
        self.0.heard_ns.fetch_sub(ago_ns.min(monotonic_ns()), Ordering::Relaxed);
        self
    }

    /// It goes on: something was answered, or nothing is being waited for.
    pub fn heard(&self) {
        self.0.heard_ns.store(monotonic_ns(), Ordering::Relaxed);
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        entries().retain(|entry| !Arc::ptr_eq(entry, &self.0));
    }
}

/// Something that has not been heard of for some time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Silence {
    pub operation: String,
    /// What it is done to.
    pub target: String,
    /// For how long, ns.
    pub for_ns: u64,
    /// Since when, ns since 1970.
    pub since_unix_ns: u64,
}

/// Everything that has not been heard of for this long, ns; the longest first.
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

    /// Other tests of this process wait for other things.
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
