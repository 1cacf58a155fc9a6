//! Resource use of the process at the edges of the window.

use iosonde_sys::{Clock, clock, thread};

use iosonde_model::record::run::ProcessUse;

/// Readings of the whole process at one moment.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    pub(super) at_ns: u64,
    pub(super) boottime_ns: u64,
    usage: thread::Usage,
}

impl Reading {
    pub(super) fn now(clock: Clock) -> Reading {
        Reading {
            at_ns: clock.now_ns(),
            boottime_ns: clock::boottime_ns(),
            usage: thread::usage_of_process(),
        }
    }

    /// Use from this reading to a later one.
    pub(super) fn until(&self, later: &Reading) -> ProcessUse {
        let (from, to) = (&self.usage, &later.usage);
        ProcessUse {
            span_ns: later.at_ns - self.at_ns,
            cpu_user_ns: to.user_ns - from.user_ns,
            cpu_system_ns: to.system_ns - from.system_ns,
            voluntary_switches: to.voluntary_switches - from.voluntary_switches,
            involuntary_switches: to.involuntary_switches - from.involuntary_switches,
            max_rss_bytes: thread::peak_rss_bytes(),
        }
    }
}
