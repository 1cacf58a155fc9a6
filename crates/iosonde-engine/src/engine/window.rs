//! The measured window, and the requests in flight within it.

use iosonde_model::plan::{Job, LatencyGoal, Plan};

/// The measured window, ns on the run's clock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Window {
    /// When it opens: at the end of the warm-up.
    pub open_ns: u64,
    /// When it closes; `u64::MAX` while that is not known.
    pub close_ns: u64,
}

impl Window {
    /// The window of a run that starts at `start_ns`, as far as that is known beforehand. With a
    /// latency target it opens when the target is met.
    pub(super) fn planned(plan: &Plan, start_ns: u64) -> Window {
        const NOT_YET: Window = Window { open_ns: u64::MAX, close_ns: u64::MAX };
        let open_ns = start_ns + plan.warmup_ns;
        if plan.latency != LatencyGoal::None {
            return NOT_YET;
        }
        let close_ns = plan.length_ns().map_or(u64::MAX, |ns| open_ns.saturating_add(ns));
        Window { open_ns, close_ns }
    }

    /// The window of a job that begins at `start_ns`.
    pub(super) fn of_job(plan: &Plan, job: &Job, start_ns: u64) -> Window {
        if plan.latency != LatencyGoal::None {
            return Window::planned(plan, start_ns);
        }
        let open_ns = start_ns + plan.warmup_of(job);
        let length_ns = plan.stop_of(job).length_ns();
        Window { open_ns, close_ns: length_ns.map_or(u64::MAX, |ns| open_ns.saturating_add(ns)) }
    }
}

/// The time integral of requests in flight within the window.
#[derive(Debug, Default)]
pub(super) struct Area {
    /// Request-nanoseconds since the run began.
    total: u64,
    /// The same when the window opened.
    at_open: u64,
    from_ns: u64,
    /// No edge of the window is crossed before this time.
    quiet_until_ns: u64,
}

impl Area {
    /// Counts from `start_ns` on.
    pub(super) fn begin(&mut self, start_ns: u64, window: Window) {
        self.from_ns = start_ns;
        self.quiet_until_ns = window.open_ns;
    }

    /// Sets a window that was not known when counting began.
    pub(super) fn set_window(&mut self, window: Window) {
        self.quiet_until_ns = window.open_ns;
    }

    /// Adds the time since the last call, with `in_flight` requests in flight.
    #[inline(always)]
    pub(super) fn add(&mut self, in_flight: usize, now_ns: u64, window: Window) {
        if now_ns >= self.quiet_until_ns {
            self.cross(in_flight, now_ns, window);
        }
        self.total += in_flight as u64 * (now_ns - self.from_ns);
        self.from_ns = now_ns;
    }

    /// Handles the edges of the window.
    #[cold]
    fn cross(&mut self, in_flight: usize, now_ns: u64, window: Window) {
        if self.from_ns <= window.open_ns && now_ns >= window.open_ns {
            self.at_open = self.total + in_flight as u64 * (window.open_ns - self.from_ns);
        }
        self.quiet_until_ns = window.close_ns;
        if now_ns >= window.close_ns {
            // Shifts the start of this time, so that what lies beyond the close is not added.
            let beyond_ns = now_ns - self.from_ns.max(window.close_ns);
            self.from_ns += beyond_ns;
            self.quiet_until_ns = 0;
        }
    }

    /// Closes the window early, at the time of the last call.
    pub(super) fn close(&mut self) {
        self.quiet_until_ns = 0;
    }

    /// Request-nanoseconds within the window.
    pub(super) fn within(&self) -> u64 {
        self.total - self.at_open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_is_clipped_to_the_window() {
        let window = Window { open_ns: 10, close_ns: 20 };
        // Two in flight all the time, sampled at different steps.
        for step in [1, 2, 3, 5, 7, 12, 30] {
            let mut area = Area::default();
            area.begin(0, window);
            let mut now = 0;
            while now < 40 {
                now += step;
                area.add(2, now, window);
            }
            assert_eq!(area.within(), 20, "step {step}");
        }
    }

    #[test]
    fn what_drains_after_an_early_close_is_not_counted() {
        let mut area = Area::default();
        let planned = Window { open_ns: 10, close_ns: 1000 };
        area.begin(0, planned);
        area.add(2, 20, planned);
        area.close();
        let closed = Window { close_ns: 20, ..planned };
        area.add(2, 25, closed);
        area.add(1, 40, closed);
        assert_eq!(area.within(), 20);
    }
}
