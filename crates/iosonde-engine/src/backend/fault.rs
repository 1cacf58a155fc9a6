//! Storage that does wrong on purpose: one decorator around any queue.
//!
//! With it a verifier shows that it would have noticed, on a simulated device and on a real one. It
//! takes no slot of its own. What is done later, or twice, goes out on the slot of a request that
//! has just completed, and whose completion is reported when that is done too. Several faults at
//! once are several decorators. Requests that are not struck pass as they are, with a few words
//! noted about each.

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

/// What it takes to answer a request without doing it, ns: else virtual time would stand still.
const ANSWER_NS: u64 = 1_000;

/// A queue that does wrong to some of the requests that pass through it.
pub struct FaultQueue<Q: Queue> {
    inner: Q,
    injection: Injection,
    /// Which requests can be struck.
    way: IoKind,
    site: Site,
    log: FaultLog,
    chance: Chance,
    /// Requests so far that could have been struck.
    eligible: u64,
    /// Requests so far; the number of a request is this count, itself included.
    pushed: u64,
    /// By slot.
    flights: Vec<Flight>,
    /// Requests that the inner queue has.
    in_flight: usize,
    /// Those among them with a role.
    special: usize,
    /// Answered without the inner queue, and not yet handed over by `enter`.
    answered: Vec<(usize, i32)>,
    /// To be reported at the next `reap`.
    ready: Vec<(usize, i32)>,
    /// Empty between calls; its memory is used again and again.
    back: Vec<(usize, i32)>,
    held: Held,
    /// Writes that were done, and whose content a later one is given.
    kept: VecDeque<Kept>,
}

/// What the inner queue does for a slot.
struct Flight {
    is_out: bool,
    number: u64,
    transfer: Transfer,
    /// What is still to be done when it comes back; nothing for most.
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
    /// Puts this fault into a queue. What is done wrong is noted in the log.
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

    /// The fault, with the strike that the seed drew.
    pub fn injection(&self) -> Injection {
        self.injection
    }

    /// Gives a transfer to the inner queue.
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

    /// Whether nothing has to be watched: what the inner queue gives back can pass as it is.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.special == 0
            && self.answered.is_empty()
            && self.ready.is_empty()
            && self.held.is_empty()
    }

    /// Whether no request of the inner queue touches this place.
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

    /// `enter` while something has to be watched: some completions are not the caller's, and lead
    /// to further requests, which are handed over before this returns.
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

    /// Takes what the inner queue has finished; what is to follow a completion is staged.
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
