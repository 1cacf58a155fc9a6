//! A token bucket in front of the device: a burst at full speed, then a fixed rate.

use super::{Device, Served, Transfer};

/// Lets `rate` requests per second pass, `burst` at once after a rest.
pub struct Bucket {
    inner: Box<dyn Device>,
    ns_per_token: u64,
    /// How far the schedule may run ahead of the clock, ns: the burst.
    slack_ns: u64,
    /// When the next token is due on a steady schedule, ns.
    due_ns: u64,
}

impl Bucket {
    /// A bucket that starts full.
    pub fn new(inner: Box<dyn Device>, rate_per_s: u64, burst: u64) -> Bucket {
        let ns_per_token = 1_000_000_000 / rate_per_s.max(1);
        let slack_ns = ns_per_token.saturating_mul(burst.saturating_sub(1));
        Bucket { inner, ns_per_token, slack_ns, due_ns: 0 }
    }
}

impl Device for Bucket {
    fn serve(&mut self, now_ns: u64, transfer: &Transfer) -> Served {
        // The generic cell rate algorithm: a request passes when the schedule is at most the slack
        // ahead.
        let schedule_ns = self.due_ns.max(now_ns);
        let passes_ns = now_ns.max(schedule_ns.saturating_sub(self.slack_ns));
        self.due_ns = schedule_ns + self.ns_per_token;
        let served = self.inner.serve(passes_ns, transfer);
        Served { done_ns: served.done_ns.max(passes_ns), ..served }
    }
}
