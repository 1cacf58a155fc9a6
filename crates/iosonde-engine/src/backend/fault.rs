//! Fault injection: a decorator around any queue.
//!
//! It shows that a verifier detects faults, on a simulated device and on a real one. It uses no
//! slot of its own: a delayed or duplicate write goes out on the slot of a request that has just
//! completed, and that completion is reported after the write. Several faults need several
//! decorators. Requests that are not struck pass unchanged.

mod alter;
mod held;
mod kind;
mod log;
mod settle;
mod site;
mod strike;

use std::collections::VecDeque;
use std::io;

use super::{Queue, QueueFacts, Transfer};
use iosonde_model::plan::IoKind;
use iosonde_model::plan::chance::Chance;

pub use kind::{Fault, FaultError, Injection, When};
pub use log::{FaultLog, Injected, REMEMBERED};
pub use site::Site;

use held::Held;
use settle::{Kept, Role};

/// Time to answer a request without the inner queue, ns; with 0, virtual time would stand still.
const ANSWER_NS: u64 = 1_000;

/// A queue that injects one fault into some of its requests.
pub struct FaultQueue<Q: Queue> {
    inner: Q,
    injection: Injection,
    /// Kind of requests that can be struck.
    way: IoKind,
    site: Site,
    log: FaultLog,
    chance: Chance,
    /// Eligible requests so far.
    eligible: u64,
    /// Requests pushed so far. The number of a request is this count, itself included.
    pushed: u64,
    /// Indexed by slot.
    flights: Vec<Flight>,
    /// Requests in flight in the inner queue.
    in_flight: usize,
    /// Those of them with a role.
    special: usize,
    /// Requests answered without the inner queue since the last `enter`.
    answered: Vec<(usize, i32)>,
    /// Completions to report at the next `reap`.
    ready: Vec<(usize, i32)>,
    /// Buffer of `collect`, empty between calls; kept to avoid allocations.
    back: Vec<(usize, i32)>,
    held: Held,
    /// Completed writes whose content a later write is to store.
    kept: VecDeque<Kept>,
}

/// The request of a slot in the inner queue.
struct Flight {
    is_out: bool,
    number: u64,
    transfer: Transfer,
    /// Action on completion; `None` for most requests.
    role: Option<Box<Role>>,
}

impl Flight {
    const NONE: Flight = Flight {
        is_out: false,
        number: 0,
        transfer: Transfer { way: IoKind::Sync, target: 0, offset: 0, skip: 0, bytes: 0 },
        role: None,
    };
}

impl<Q: Queue> FaultQueue<Q> {
    /// Wraps a queue. Every injected fault is noted in the log.
    pub fn new(inner: Q, injection: Injection, site: Site, log: FaultLog) -> FaultQueue<Q> {
        let mut chance = Chance::new(site.seed);
        let injection = Injection { when: injection.when.drawn(&mut chance), ..injection };
        FaultQueue {
            inner,
            injection,
            way: injection.fault.way(),
            site,
            log,
            chance,
            eligible: 0,
            pushed: 0,
            flights: Vec::new(),
            in_flight: 0,
            special: 0,
            answered: Vec::new(),
            ready: Vec::new(),
            back: Vec::new(),
            held: Held::new(injection.fault == Fault::Reorder),
            kept: VecDeque::new(),
        }
    }

    /// The fault, with the request number drawn from the seed.
    pub fn injection(&self) -> Injection {
        self.injection
    }

    /// Pushes a transfer to the inner queue.
    #[inline(always)]
    fn send(&mut self, slot: usize, number: u64, transfer: Transfer, role: Option<Box<Role>>) {
        if slot >= self.flights.len() {
            self.flights.resize_with(slot + 1, || Flight::NONE);
        }
        self.in_flight += 1;
        self.special += usize::from(role.is_some());
        self.flights[slot] = Flight { is_out: true, number, transfer, role };
        self.inner.push(slot, transfer);
    }

    /// Whether completions of the inner queue can pass unchanged.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.special == 0
            && self.answered.is_empty()
            && self.ready.is_empty()
            && self.held.is_empty()
    }

    /// Whether no request in flight overlaps this range.
    fn is_quiet(flights: &[Flight], target: u16, offset: u64, bytes: u64) -> bool {
        !flights.iter().any(|flight| {
            flight.is_out
                && flight.transfer.target == target
                && held::overlap(offset, bytes as usize, &flight.transfer).is_some()
        })
    }

    /// The bytes of a slot's buffer that a transfer moves.
    fn moved(&mut self, slot: usize, transfer: &Transfer) -> &mut [u8] {
        let from = transfer.skip as usize;
        &mut self.inner.buffer(slot)[from..from + transfer.bytes as usize]
    }

    fn note(&self, kind: Fault, offset: u64, bytes: u64, elsewhere: Option<u64>) {
        self.log.note(Injected { kind, offset, bytes, elsewhere });
    }

    /// `enter` where `is_plain` is false: some completions are not the caller's and lead to further
    /// requests, which are submitted before this returns.
    #[cold]
    fn enter_watching(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        if !self.answered.is_empty() {
            let now_ns = self.inner.now_ns();
            self.inner.pause(now_ns + ANSWER_NS * self.answered.len() as u64);
        }
        let limit_ns = self.inner.now_ns().saturating_add(patience_ns);
        loop {
            let reported = self.ready.len() + self.answered.len();
            let missing = (wait_for as usize).saturating_sub(reported).min(self.in_flight);
            let left_ns = limit_ns.saturating_sub(self.inner.now_ns());
            self.inner.enter(missing as u32, left_ns)?;
            self.ready.append(&mut self.answered);
            if missing == 0 || left_ns == 0 {
                return Ok(());
            }
            self.collect();
        }
    }

    /// Reaps the inner queue, and stages the requests that follow from its completions.
    fn collect(&mut self) {
        let mut back = std::mem::take(&mut self.back);
        self.inner.reap(|slot, result| back.push((slot, result)));
        for (slot, result) in back.drain(..) {
            self.came_back(slot, result);
        }
        self.back = back;
    }

    #[cold]
    fn reap_watching(&mut self, mut done: impl FnMut(usize, i32)) {
        self.collect();
        let mut ready = std::mem::take(&mut self.ready);
        for (slot, result) in ready.drain(..) {
            self.held.acknowledged(slot, self.pushed);
            done(slot, result);
        }
        self.ready = ready;
    }
}

impl<Q: Queue> Queue for FaultQueue<Q> {
    const WAKES_LATE_NS: u64 = Q::WAKES_LATE_NS;
    const IS_VIRTUAL: bool = Q::IS_VIRTUAL;

    forward!(field inner: now_ns buffer pause give_back syscalls);

    #[inline(always)]
    fn push(&mut self, slot: usize, transfer: Transfer) {
        self.pushed += 1;
        if transfer.way == self.way {
            self.push_or_strike(slot, transfer);
        } else {
            self.send(slot, self.pushed, transfer, None);
        }
    }

    #[inline(always)]
    fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        if self.is_plain() {
            self.inner.enter(wait_for, patience_ns)
        } else {
            self.enter_watching(wait_for, patience_ns)
        }
    }

    #[inline(always)]
    fn reap(&mut self, mut done: impl FnMut(usize, i32)) {
        if !self.is_plain() {
            return self.reap_watching(done);
        }
        let FaultQueue { inner, flights, in_flight, .. } = self;
        inner.reap(|slot, result| {
            flights[slot].is_out = false;
            *in_flight -= 1;
            done(slot, result);
        });
    }

    fn facts(&self) -> QueueFacts {
        let mut facts = self.inner.facts();
        facts.features.push(format!("fault injected: {}", self.injection));
        facts
    }
}
