//! Due operations of an open loop: sent, late, queued or dropped.

use super::pace::{Follows, Pacer};
use super::window::Window;
use iosonde_model::plan::Job;
use iosonde_model::record::run::ArrivalsRun;

/// An operation beyond this lag is late, ns.
const LATE_NS: u64 = 1_000_000;
/// Samples of the backlog kept before every second one is dropped.
const MAX_LOOKS: usize = 2048;
/// Most dropped operations counted at the close: beyond it the number says nothing more.
const MAX_DROPPED: u64 = 20_000_000;

/// Counts of one job.
#[derive(Debug)]
pub(super) struct ArrivalCounts {
    pub(super) counts: ArrivalsRun,
    last_due_ns: Option<u64>,
    /// Operations due by this time found no free slot, ns.
    starved_until_ns: Option<u64>,
    block_bytes: u64,
}

impl ArrivalCounts {
    pub(super) fn new(job: &Job) -> ArrivalCounts {
        let looks = if job.is_open_loop() { MAX_LOOKS } else { 0 };
        ArrivalCounts {
            counts: ArrivalsRun {
                backlog_ns: Vec::with_capacity(looks),
                backlog_width_ns: 100_000_000,
                ..ArrivalsRun::default()
            },
            last_due_ns: None,
            starved_until_ns: None,
            block_bytes: job.block_bytes,
        }
    }

    /// Counts an operation due at `due_ns` that is sent now.
    pub(super) fn took(&mut self, due_ns: u64, now_ns: u64, window: Window) {
        let last_due_ns = self.last_due_ns.replace(due_ns);
        if due_ns < window.open_ns || due_ns >= window.close_ns {
            return;
        }
        self.counts.due += 1;
        self.counts.late += u64::from(now_ns - due_ns > LATE_NS);
        self.counts.queued +=
            u64::from(self.starved_until_ns.is_some_and(|starved_ns| due_ns <= starved_ns));
        if let Some(last_ns) = last_due_ns.filter(|last_ns| *last_ns >= window.open_ns) {
            let gap_ns = due_ns - last_ns;
            self.counts.gaps += 1;
            self.counts.gap_sum_ns += gap_ns;
            self.counts.gap_square_sum += (gap_ns as f64).powi(2);
        }
    }

    /// Notes the time until which due operations found no free slot, if they found none.
    pub(super) fn starved_until(&mut self, now_ns: Option<u64>) {
        self.starved_until_ns = self.starved_until_ns.max(now_ns);
    }

    /// Notes the backlog once per interval.
    pub(super) fn look(&mut self, backlog_ns: u64, open_ns: u64, now_ns: u64) {
        let looks = &mut self.counts.backlog_ns;
        let width_ns = &mut self.counts.backlog_width_ns;
        if (now_ns - open_ns) / *width_ns < looks.len() as u64 {
            return;
        }
        if looks.len() == MAX_LOOKS {
            let mut index = 0;
            looks.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            *width_ns *= 2;
        }
        // Intervals without a sample get this one.
        let index = ((now_ns - open_ns) / *width_ns) as usize;
        while looks.len() <= index.min(MAX_LOOKS - 1) {
            looks.push(backlog_ns);
        }
    }

    /// Counts the operations due before the close and not sent as dropped. A stream that has ended
    /// has none.
    pub(super) fn close(&mut self, pacer: &mut Pacer, window: Window, has_ended: bool) {
        if !pacer.is_open() || has_ended {
            return;
        }
        for _ in 0..MAX_DROPPED {
            let Some(due_ns) = pacer.due(window.close_ns.saturating_sub(1)) else { break };
            if due_ns >= window.open_ns {
                self.counts.due += 1;
                self.counts.dropped += 1;
            }
            pacer.taken(self.block_bytes, Follows::Unknown);
        }
    }
}
