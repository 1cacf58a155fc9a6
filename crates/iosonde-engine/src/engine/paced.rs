//! Jobs that may not send whenever a slot is free: due times, pauses, phases, syncs.

use super::commit;
use super::flow;
use super::job::{JobLoop, PATIENCE_NS, Wait};
use super::pace::Follows;
use super::requests::Times;
use super::sync::Turn;
use crate::backend::Queue;
use iosonde_model::plan::{IoKind, Op, Wait as WaitMode};

impl<Q: Queue> JobLoop<'_, Q> {
    /// Stages what is due; returns what to wait for.
    #[inline(never)]
    pub(super) fn fill_paced(&mut self) -> Wait {
        if let Some(wait) = self.await_commit() {
            return wait;
        }
        let now_ns = self.queue.now_ns();
        if self.stopping_since_ns.is_some() {
            self.requests.send_nothing_again();
            return self.wait();
        }
        while let Some(slot) = self.requests.again.pop() {
            self.push(slot);
        }
        if self.requests.in_flight + self.staged.len() == 0 {
            self.pacer.drained(now_ns);
        }
        if self.drains() {
            return self.wait_paced(now_ns);
        }
        let batch = if self.expect_inline { self.batch } else { self.async_batch };
        let mut starved = false;
        let mut held = false;
        while self.staged.len() < batch {
            let outstanding = self.requests.in_flight + self.staged.len();
            let op = match self.syncing.turn(outstanding, || self.requests.ended_syncs()) {
                Turn::Wait => {
                    starved = true;
                    break;
                }
                // Its offset is the start of the region, so that nothing outside counts as used.
                Turn::Sync { target } => {
                    Op { way: IoKind::Sync, target, offset: self.region_start, bytes: 0 }
                }
                Turn::Go => {
                    let holds_back = |flow: &mut flow::Part| flow.holds_back(now_ns, outstanding);
                    let holds_commit = |commit: &mut commit::Part| commit.holds_back(outstanding);
                    if self.flow.as_mut().is_some_and(holds_back)
                        || self.commit.as_mut().is_some_and(holds_commit)
                    {
                        held = true;
                        break;
                    }
                    let Some(due_ns) = self.pacer.due(now_ns) else { break };
                    let Some(slot) = self.requests.free.pop() else {
                        starved = true;
                        break;
                    };
                    let Some(op) = self.next_paced() else {
                        self.requests.free.push(slot);
                        break;
                    };
                    if self.pacer.is_open() {
                        let window = self.requests.tally.window();
                        self.requests.arrivals.took(due_ns, now_ns, window);
                    }
                    if let Some(flow) = &mut self.flow {
                        flow.sent();
                    }
                    if let Some(commit) = &mut self.commit {
                        commit.sent();
                    }
                    self.requests.times[slot as usize].due_ns = due_ns;
                    self.stage(slot, op);
                    if let Some(priorities) = &mut self.priorities {
                        self.requests.times[slot as usize].priority = priorities.of(&op);
                        self.prioritise(slot);
                    }
                    continue;
                }
            };
            let Some(slot) = self.requests.free.pop() else {
                starved = true;
                break;
            };
            self.syncing.sent();
            if self.commit.as_mut().is_some_and(commit::Part::takes_sync) {
                return self.ask_for_commit(slot, op, now_ns);
            }
            self.requests.times[slot as usize] = Times { due_ns: now_ns, ..Times::default() };
            self.stage(slot, op);
        }
        self.requests.arrivals.starved_until(starved.then_some(now_ns));
        if held && self.staged.is_empty() {
            return self.wait_held(now_ns);
        }
        self.wait_paced(now_ns)
    }

    /// Sets the priority of the request that was just staged, if it has one.
    pub(super) fn prioritise(&mut self, slot: u32) {
        let priority = self.requests.times[slot as usize].priority;
        if priority != 0 {
            self.queue.set_priority(slot as usize, priority);
        }
    }

    /// Whether its pace, or the jobs that wait for its commits, leave it nothing more to do.
    pub(super) fn is_out_of_work(&self) -> bool {
        self.pacer.is_over() || self.commit.as_ref().is_some_and(commit::Part::is_over)
    }

    /// Waits while the flow or the commits hold the job back.
    fn wait_held(&mut self, now_ns: u64) -> Wait {
        if self.requests.is_holding() {
            return Wait::NOT;
        }
        if self.commit.as_ref().is_some_and(commit::Part::makes) {
            return self.wait_for_demand(now_ns);
        }
        let next_ns = self.flow.as_ref().map_or(now_ns, |flow| flow.next_ns(now_ns));
        if self.requests.in_flight > 0 {
            let patience_ns = next_ns.saturating_sub(now_ns).min(PATIENCE_NS);
            return Wait { count: 1, patience_ns };
        }
        // Not beyond the next look at the clock, at which the window may open or close.
        self.queue.pause(next_ns.min(self.next_sample_ns.max(now_ns + 1)));
        Wait::NOT
    }

    /// Whether the queue was full and is not refilled until fewer requests are in flight.
    fn drains(&mut self) -> bool {
        let refill_at = self.job.reap.refill_at as usize;
        let in_flight = self.requests.in_flight;
        self.draining =
            refill_at > 0 && (in_flight >= self.depth || (self.draining && in_flight > refill_at));
        self.draining
    }

    /// The next operation of the stream, in the mix of the current phase.
    fn next_paced(&mut self) -> Option<Op> {
        if let Some(mix) = self.pacer.new_mix() {
            self.stream.set_read_percent(mix.unwrap_or(self.read_percent));
        }
        let op = match self.pacer.way() {
            None => self.stream.next_op()?,
            Some(way) => self.stream.next_op_of(way)?,
        };
        self.syncing.note(&op, self.pacer.sync_share(), self.pacer.ends_burst());
        if let Some(commit) = &mut self.commit {
            commit.in_phase(self.pacer.commit_share());
        }
        self.pacer.taken(u64::from(op.bytes), self.follows());
        Some(op)
    }

    /// What follows the operation that was just taken.
    fn follows(&self) -> Follows {
        match (self.syncing.owed(), &self.commit) {
            (0, _) => Follows::Nothing,
            (syncs, Some(commit)) if commit.will_take(syncs) => Follows::Commit,
            _ => Follows::Sync,
        }
    }

    /// Waits for a completion or for the next due time, whichever comes first.
    fn wait_paced(&mut self, now_ns: u64) -> Wait {
        if !self.staged.is_empty() || self.requests.is_holding() {
            return Wait::NOT;
        }
        // An operation that is due but has no slot waits only for a completion.
        let next_ns = match self.pacer.next_ns(now_ns) {
            next_ns if next_ns > now_ns => next_ns,
            _ => u64::MAX,
        };
        if self.requests.in_flight == 0 {
            let spins_until_ns = self.pacer.spins_until_ns();
            while self.queue.now_ns() < spins_until_ns && !self.requests.control.is_stopping() {
                std::hint::spin_loop();
            }
            // Not beyond the next look at the clock, at which the window may open or close.
            self.queue.pause(next_ns.min(self.next_sample_ns.max(now_ns + 1)));
            return Wait::NOT;
        }
        if self.reaping.wait == WaitMode::Poll {
            return Wait::LOOK;
        }
        // Without a slot, nothing can be sent before a completion, whatever becomes due.
        let next_ns = if self.requests.free.is_empty() { u64::MAX } else { next_ns };
        // A full queue waits for its batch, whatever becomes due.
        if self.reaping.complete_min > 1 && (self.draining || self.requests.free.is_empty()) {
            let count = self.reaping.complete_min.min(self.requests.in_flight as u32);
            return Wait { count, patience_ns: PATIENCE_NS };
        }
        match next_ns.saturating_sub(now_ns) {
            // A sleep ends late, so the last stretch is polled.
            left_ns if left_ns <= Q::WAKES_LATE_NS => Wait::LOOK,
            left_ns => {
                Wait { count: 1, patience_ns: (left_ns - Q::WAKES_LATE_NS).min(PATIENCE_NS) }
            }
        }
    }
}
