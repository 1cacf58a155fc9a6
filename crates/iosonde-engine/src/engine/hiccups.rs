//! Stalls of the host: a thread sleeps over and over, and records how late it wakes.
//!
//! A wake-up interrupts a load on the same CPU, for some 100 µs in a virtual machine. Wake-ups
//! every millisecond cost a tenth of the rate; forty a second cost less than half a per cent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use iosonde_sys::clock::monotonic_ns;
use iosonde_sys::thread;

use iosonde_stats::Histogram;

const NAP_NS: u64 = 25_000_000;

/// The sleeping thread.
pub(super) struct HiccupRecorder {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Histogram>>,
}

impl HiccupRecorder {
    /// Starts the thread; if it cannot be started, nothing is recorded.
    pub(super) fn start() -> HiccupRecorder {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("hiccups".into()).spawn(move || {
            thread::wake_on_time();
            let mut overslept = Histogram::new();
            let mut due_ns = monotonic_ns() + NAP_NS;
            while !seen.load(Ordering::Relaxed) {
                // The end of the run unparks the thread, and does not wait for the end of a nap.
                let now_ns = monotonic_ns();
                if now_ns < due_ns {
                    std::thread::park_timeout(Duration::from_nanos(due_ns - now_ns));
                    continue;
                }
                overslept.record(now_ns - due_ns);
                due_ns = monotonic_ns() + NAP_NS;
            }
            overslept
        });
        HiccupRecorder { stop, thread: thread.ok() }
    }

    /// Ends the thread and returns its histogram.
    pub(super) fn stop(mut self) -> Histogram {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.iter().for_each(|thread| thread.thread().unpark());
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_wakes_no_more_than_forty_times_a_second() {
        let began_ns = monotonic_ns();
        let recorder = HiccupRecorder::start();
        std::thread::sleep(Duration::from_millis(300));
        let woken = recorder.stop().count();
        // No sleep is shorter than requested, so that this holds however busy the machine is.
        let most = (monotonic_ns() - began_ns) / 25_000_000;
        assert!((1..=most).contains(&woken), "{woken} of at most {most}");
    }
}
