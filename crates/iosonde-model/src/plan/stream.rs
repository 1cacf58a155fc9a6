//! The operations of one job in order, determined by its plan and seed; endless unless the plan
//! limits their number.
//!
//! A job takes turns over its targets, one operation each by default. It has a separate walk on
//! each, so that one pass covers every target. All walks have the same number of positions.

mod law;
mod random_map;
pub(crate) mod single_pass;
mod size;
mod walk;

use super::chance::Chance;
use super::{Job, Order, Service, Stop};
use crate::spec::Listed;
pub use crate::spec::listed::IoKind;
use size::Lengths;
use walk::Walk;

/// One operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Op {
    pub way: IoKind,
    /// Index of the plan's target, from 0.
    pub target: u16,
    pub offset: u64,
    /// Length, bytes.
    pub bytes: u32,
}

/// The operations of one job.
#[derive(Clone, Debug)]
pub struct OpStream {
    region_start: u64,
    lengths: Lengths,
    mix: Mix,
    /// Kind of the operations that are not reads.
    other: IoKind,
    /// The current target.
    now: OnTarget,
    /// The other targets; the next one is at `turn`.
    others: Box<[OnTarget]>,
    turn: usize,
    service: Service,
    /// Operations until the next target's turn, or bytes with [`Service::Sequential`].
    stays: u64,
    /// Bytes of a target to cover before the next one.
    whole: u64,
    /// Operations or bytes until the end.
    remaining: u64,
    counts_bytes: bool,
    /// Amount that an operation subtracts from `remaining` if all have one size.
    cost: u64,
    chance: Chance,
    /// A trimmed block that is to be written next.
    trimmed: Option<Op>,
    /// Operations to repeat one by one; empty if they are drawn.
    listed: Box<[Op]>,
}

/// How the kind of an operation is chosen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mix {
    /// All operations are of one kind.
    One(IoKind),
    /// An operation is a read if a 32-bit draw is below this.
    ReadBelow(u32),
    /// As `ReadBelow`, with separate walks for reads and writes.
    ReadBelowApart(u32),
    /// The writes of a mix with this share of reads, percent; each becomes a read.
    Reread(u8),
    /// Each block is trimmed, then written.
    TrimWrite,
    /// The kinds are listed.
    Listed,
}

/// The walk over one target.
#[derive(Clone, Debug)]
struct OnTarget {
    target: u16,
    walk: Walk,
    /// In a sequential mix, the walk of the other direction than `goes`. Each direction keeps its
    /// own position, as in fio.
    apart: Option<Box<Walk>>,
    goes: IoKind,
}

impl OnTarget {
    /// Switches to the walk of this direction.
    #[inline(never)]
    fn turn(&mut self, way: IoKind) {
        if let Some(apart) = self.apart.as_deref_mut().filter(|_| self.goes != way) {
            std::mem::swap(&mut self.walk, apart);
            self.goes = way;
        }
    }
}

impl OpStream {
    /// The stream of a job; `stop` ends it if it counts operations or bytes.
    pub fn new(job: &Job, stop: Stop) -> OpStream {
        let lengths = Lengths::new(job);
        let least = (lengths.one == 0).then_some(lengths.least);
        let (first, more) = job.targets.split_first().unwrap_or((&0, &[]));
        let is_apart = is_sequential_mix(job);
        let on = |(nth, target): (u64, &u16)| {
            let walk = Walk::new(job, nth, least);
            let apart = is_apart.then(|| Box::new(walk.clone()));
            OnTarget { target: *target, walk, apart, goes: IoKind::Read }
        };
        let now = on((0, first));
        let (remaining, counts_bytes) = match stop {
            Stop::AfterNs(_) | Stop::EachJob => (u64::MAX, false),
            Stop::AfterOps(ops) => (ops, false),
            Stop::AfterBytes(bytes) | Stop::AfterNsOrBytes(_, bytes) => (bytes, true),
            Stop::AfterOnePass => {
                let pass = now.walk.pass(job);
                (pass.count * (1 + more.len() as u64), pass.is_bytes)
            }
        };
        let listed: Box<[Op]> = job.listed.iter().map(of_list).collect();
        let (remaining, counts_bytes) = match listed.len() as u64 {
            0 => (remaining, counts_bytes),
            count => (count, false),
        };
        let other = if job.trims { IoKind::Trim } else { IoKind::Write };
        OpStream {
            region_start: job.region_start,
            cost: if counts_bytes { u64::from(lengths.one) } else { 1 },
            lengths,
            mix: if !listed.is_empty() {
                Mix::Listed
            } else if job.rereads {
                Mix::Reread(job.read_percent)
            } else if job.rewrites {
                Mix::TrimWrite
            } else {
                Mix::of(job.read_percent, other, is_apart)
            },
            other,
            now,
            others: (1..).zip(more).map(on).collect(),
            turn: 0,
            service: job.service,
            stays: first_stay(job),
            whole: job.region_bytes,
            remaining,
            counts_bytes,
            chance: Chance::new(job.seed ^ 0x6f70_7374_7265_616d),
            trimmed: None,
            listed,
        }
    }

    /// The next operation; `None` once the stream has ended.
    #[inline(always)]
    pub fn next_op(&mut self) -> Option<Op> {
        if self.remaining == 0 {
            return None;
        }
        let way = match self.mix {
            Mix::One(way) => way,
            Mix::TrimWrite => return self.trim_write(),
            Mix::Reread(percent) => return self.reread(percent),
            Mix::Listed => return self.next_listed(),
            Mix::ReadBelow(bound) if (self.chance.bits() >> 32) < u64::from(bound) => IoKind::Read,
            Mix::ReadBelow(_) => self.other,
            Mix::ReadBelowApart(bound) => {
                let reads = (self.chance.bits() >> 32) < u64::from(bound);
                let way = if reads { IoKind::Read } else { self.other };
                self.now.turn(way);
                way
            }
        };
        let bytes = match self.lengths.one {
            0 => return Some(self.next_varied(way)),
            bytes => bytes,
        };
        self.remaining = self.remaining.saturating_sub(self.cost);
        let OnTarget { target, walk, .. } = &mut self.now;
        let offset = self.region_start + walk.next(bytes, &mut self.chance);
        let op = Op { way, target: *target, offset, bytes };
        if !self.others.is_empty() {
            self.next_target(bytes);
        }
        Some(op)
    }

    /// The next operation, forced to this kind; `None` once the stream has ended.
    pub fn next_op_of(&mut self, way: IoKind) -> Option<Op> {
        let mix = std::mem::replace(&mut self.mix, Mix::One(way));
        self.now.turn(way);
        let op = self.next_op();
        self.mix = mix;
        op
    }

    /// The next write of the equal job, as a read.
    #[cold]
    fn reread(&mut self, read_percent: u8) -> Option<Op> {
        self.mix = Mix::of(read_percent, IoKind::Write, self.now.apart.is_some());
        let op = loop {
            match self.next_op() {
                Some(op) if op.way == IoKind::Read => {}
                op => break op,
            }
        };
        self.mix = Mix::Reread(read_percent);
        op.map(|op| Op { way: IoKind::Read, ..op })
    }

    /// The next operation of the list.
    #[cold]
    fn next_listed(&mut self) -> Option<Op> {
        let op = self.listed.get(self.listed.len() - self.remaining as usize).copied();
        self.remaining -= 1;
        op
    }

    /// Writes the block that was just trimmed, or else trims the next one.
    #[inline(never)]
    fn trim_write(&mut self) -> Option<Op> {
        let Some(op) = self.trimmed.take() else {
            self.trimmed = self.next_op_of(IoKind::Trim);
            return self.trimmed;
        };
        let cost = if self.counts_bytes { u64::from(op.bytes) } else { 1 };
        self.remaining = self.remaining.saturating_sub(cost);
        Some(Op { way: IoKind::Write, ..op })
    }

    /// Selects the next target after an operation of this length.
    #[inline]
    fn next_target(&mut self, bytes: u32) {
        match self.service {
            Service::EachInTurn => self.turn_round(),
            Service::InTurn(each) => {
                self.stays = self.stays.saturating_sub(1);
                if self.stays == 0 {
                    self.stays = each;
                    self.turn_round();
                }
            }
            Service::Random(each) => {
                self.stays = self.stays.saturating_sub(1);
                if self.stays == 0 {
                    self.stays = each;
                    let turn = self.chance.below(self.others.len() as u64 + 1) as usize;
                    if let Some(other) = self.others.get_mut(turn) {
                        std::mem::swap(&mut self.now, other);
                    }
                }
            }
            Service::Sequential => {
                self.stays = self.stays.saturating_sub(u64::from(bytes));
                if self.stays == 0 {
                    self.stays = self.whole;
                    self.turn_round();
                }
            }
        }
    }

    /// The next operation if lengths differ; the walk may shorten it.
    #[inline(never)]
    fn next_varied(&mut self, way: IoKind) -> Op {
        let OpStream { lengths, chance, now, .. } = self;
        let (begins, bytes) = now.walk.next_varied(chance, |chance| lengths.draw(way, chance));
        let op = Op { way, target: now.target, offset: self.region_start + begins, bytes };
        let cost = if self.counts_bytes { u64::from(bytes) } else { 1 };
        self.remaining = self.remaining.saturating_sub(cost);
        if !self.others.is_empty() {
            self.next_target(bytes);
        }
        op
    }

    /// Swaps in the next target in turn; the current one becomes the last in turn.
    fn turn_round(&mut self) {
        std::mem::swap(&mut self.now, &mut self.others[self.turn]);
        self.turn = (self.turn + 1) % self.others.len();
    }

    /// Changes the share of reads among the operations that transfer data, percent.
    pub fn set_read_percent(&mut self, percent: u8) {
        if matches!(self.mix, Mix::TrimWrite | Mix::Reread(_) | Mix::Listed) {
            return;
        }
        self.mix = Mix::of(percent, self.other, self.now.apart.is_some());
        if let Mix::One(way) = self.mix {
            self.now.turn(way);
            self.others.iter_mut().for_each(|target| target.turn(way));
        }
    }

    /// Whether `next_op` would return `None`.
    #[inline(always)]
    pub fn has_ended(&self) -> bool {
        self.remaining == 0
    }
}

impl Mix {
    fn of(read_percent: u8, other: IoKind, is_apart: bool) -> Mix {
        let bound = (u64::from(read_percent) * (1 << 32) / 100) as u32;
        match read_percent {
            0 => Mix::One(other),
            100.. => Mix::One(IoKind::Read),
            _ if is_apart => Mix::ReadBelowApart(bound),
            _ => Mix::ReadBelow(bound),
        }
    }
}

fn of_list(listed: &Listed) -> Op {
    let Listed { way, target, offset, bytes } = *listed;
    Op { way, target, offset, bytes }
}

/// Initial number of operations (or bytes) on the first target.
fn first_stay(job: &Job) -> u64 {
    match job.service {
        Service::EachInTurn => 1,
        Service::InTurn(each) | Service::Random(each) => each.max(1),
        Service::Sequential => job.region_bytes,
    }
}

/// Whether a job reads and writes sequentially, now or in one of its phases.
fn is_sequential_mix(job: &Job) -> bool {
    let mixed = job.reads() && job.changes() || job.rereads && job.read_percent > 0;
    matches!(job.order, Order::Sequential { .. }) && mixed
}

#[cfg(test)]
mod tests;
