//! Facts read at the end of a run and reused by the next if it follows at once: reading them again
//! would take time from every run of a series.

use std::sync::{Mutex, PoisonError};

use iosonde_engine::host::neighbours::Census;

use super::Health;

/// Age from which on a value is read again, ns.
const AT_ONCE_NS: u64 = 100_000_000;

/// Facts read at the end of the last run.
#[derive(Debug, Default)]
pub struct LastEnd {
    /// The accounting of all processes. Reading takes 2 ms for 75 processes.
    pub(super) census: Recent<Census>,
    /// The drive's health. Reading may take as long as `smartctl` does.
    pub(super) health: Recent<Health>,
}

/// A value with its time on a monotonic clock, ns.
#[derive(Debug)]
pub(super) struct Recent<T>(Mutex<Option<(u64, T)>>);

impl<T> Default for Recent<T> {
    fn default() -> Recent<T> {
        Recent(Mutex::new(None))
    }
}

impl<T> Recent<T> {
    /// Stores the value for the next run.
    pub(super) fn put(&self, now_ns: u64, value: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now_ns, value));
    }

    /// Takes the value, unless it is too old.
    pub(super) fn take(&self, now_ns: u64) -> Option<T> {
        let (at_ns, value) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        (now_ns - at_ns < AT_ONCE_NS).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_serves_once_and_only_at_once() {
        let recent = Recent::default();
        assert_eq!(recent.take(0), None);
        recent.put(5, 1);
        assert_eq!((recent.take(5), recent.take(5)), (Some(1), None));
        recent.put(5, 2);
        assert_eq!(recent.take(5 + AT_ONCE_NS), None);
    }
}
