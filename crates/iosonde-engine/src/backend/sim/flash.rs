//! Flash behind a translation layer: pages are never overwritten in place, blocks are erased as a
//! whole, and the valid pages of a block are copied first. Random overwrites therefore slow down
//! until garbage collection keeps pace with them. Pages in a fast region (SLC) are programmed again
//! in idle time.
//!
//! The state outlives a run: the runs of an experiment share it. It holds no times, because every
//! run begins at its own zero.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Device, Served, Transfer};
use iosonde_model::plan::IoKind;

/// Page of the translation layer, bytes.
pub const PAGE_BYTES: u64 = 4096;
const NOWHERE: u32 = u32::MAX;
/// Blocks that stay free, so that a collection always has a block to copy into.
const RESERVE: usize = 2;

/// Sizes and times of the flash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Geometry {
    /// Size that the host sees, bytes.
    pub bytes: u64,
    /// Spare flash, percent of `bytes`.
    pub spare_percent: u64,
    /// Pages of an erase block.
    pub block_pages: u32,
    /// Time for which programming a page occupies the whole device, ns.
    pub program_ns: u64,
    /// Size of the fast region, bytes.
    pub slc_bytes: u64,
    /// Time to program a page in the fast region, ns.
    pub slc_program_ns: u64,
}

/// Mapping between pages of the host and of the flash.
#[derive(Clone)]
struct State {
    geometry: Geometry,
    /// Flash page of each page of the host.
    place: Vec<u32>,
    /// Page of the host in each flash page.
    owner: Vec<u32>,
    /// Valid pages of each block.
    valid: Vec<u32>,
    free: Vec<u32>,
    /// The block being filled, and its next page.
    open: (u32, u32),
    slc_used_pages: u64,
    /// Pages written by the host, and pages programmed for them.
    written: u64,
    programmed: u64,
}

/// The state of a device, shared by all runs on it.
#[derive(Clone, Default)]
pub struct SharedFlash(Arc<Mutex<Option<State>>>);

impl fmt::Debug for SharedFlash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("flash")
    }
}

/// Two descriptions are equal whatever was written to their devices.
impl PartialEq for SharedFlash {
    fn eq(&self, _: &SharedFlash) -> bool {
        true
    }
}

impl SharedFlash {
    fn state(&self) -> MutexGuard<'_, Option<State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the flash new: nothing was ever written.
    pub fn forget(&self) {
        *self.state() = None;
    }

    /// Lets idle time pass: pages of the fast region are programmed again.
    pub fn rest(&self, ns: u64) {
        if let Some(state) = &mut *self.state() {
            state.fold(ns);
        }
    }
}

/// Flash around the device that models all other latencies.
pub struct Flash {
    inner: Box<dyn Device>,
    shared: SharedFlash,
    geometry: Geometry,
    busy_until_ns: u64,
}

impl Flash {
    /// Keeps what earlier runs wrote, unless the geometry differs.
    pub fn new(inner: Box<dyn Device>, geometry: Geometry, shared: SharedFlash) -> Flash {
        {
            let mut state = shared.state();
            if state.as_ref().is_none_or(|state| state.geometry != geometry) {
                *state = Some(State::new(geometry));
            }
        }
        Flash { inner, shared, geometry, busy_until_ns: 0 }
    }
}

impl Device for Flash {
    fn serve(&mut self, now_ns: u64, transfer: &Transfer) -> Served {
        let served = self.inner.serve(now_ns, transfer);
        if !matches!(transfer.way, IoKind::Write | IoKind::Trim) || served.result < 0 {
            return served;
        }
        let mut shared = self.shared.state();
        let Some(state) = shared.as_mut() else { return served };
        let first = transfer.offset / PAGE_BYTES;
        let last = (transfer.offset + u64::from(transfer.bytes.max(1)) - 1) / PAGE_BYTES;
        let pages = first..(last + 1).min(state.place.len() as u64);
        if transfer.way == IoKind::Trim {
            pages.for_each(|page| state.invalidate(page as usize));
            return served;
        }
        state.fold(now_ns.saturating_sub(self.busy_until_ns));
        let cost_ns: u64 = pages.map(|page| state.write(page as usize, self.geometry)).sum();
        self.busy_until_ns = self.busy_until_ns.max(now_ns) + cost_ns;
        Served { done_ns: served.done_ns.max(self.busy_until_ns), ..served }
    }
}

impl State {
    fn new(geometry: Geometry) -> State {
        let pages = (geometry.bytes / PAGE_BYTES) as usize;
        let per_block = geometry.block_pages as usize;
        let logical_blocks = pages.div_ceil(per_block);
        let spare = logical_blocks * geometry.spare_percent as usize / 100;
        let blocks = logical_blocks + spare.max(RESERVE + 2);
        State {
            geometry,
            place: vec![NOWHERE; pages],
            owner: vec![NOWHERE; blocks * per_block],
            valid: vec![0; blocks],
            free: (1..blocks as u32).rev().collect(),
            open: (0, 0),
            slc_used_pages: 0,
            written: 0,
            programmed: 0,
        }
    }

    /// Programs again as many pages of the fast region as fit into this time.
    fn fold(&mut self, ns: u64) {
        let pages = ns / self.geometry.program_ns.max(1);
        self.slc_used_pages = self.slc_used_pages.saturating_sub(pages);
    }

    fn invalidate(&mut self, page: usize) {
        let place = std::mem::replace(&mut self.place[page], NOWHERE);
        if place != NOWHERE {
            self.owner[place as usize] = NOWHERE;
            self.valid[(place / self.geometry.block_pages) as usize] -= 1;
        }
    }

    /// Writes a page of the host; returns how long that keeps the flash busy, ns.
    fn write(&mut self, page: usize, geometry: Geometry) -> u64 {
        self.written += 1;
        let before = self.programmed;
        self.invalidate(page);
        self.program(page);
        while self.free.len() < RESERVE && self.collect() {}
        let programmed = self.programmed - before;
        if self.slc_used_pages < geometry.slc_bytes / PAGE_BYTES {
            self.slc_used_pages += 1;
            return (programmed - 1) * geometry.program_ns + geometry.slc_program_ns;
        }
        programmed * geometry.program_ns
    }

    /// Programs the next free flash page with a page of the host.
    fn program(&mut self, page: usize) {
        let per_block = self.geometry.block_pages;
        if self.open.1 == per_block {
            // A collection frees a block before the last one is taken.
            let next = self.free.pop().unwrap_or(self.open.0);
            self.open = (next, 0);
        }
        let place = self.open.0 * per_block + self.open.1;
        self.open.1 += 1;
        self.owner[place as usize] = page as u32;
        self.place[page] = place;
        self.valid[self.open.0 as usize] += 1;
        self.programmed += 1;
    }

    /// Copies the valid pages out of the closed block with the fewest of them, and erases it;
    /// `false` if nothing would be gained.
    fn collect(&mut self) -> bool {
        let per_block = self.geometry.block_pages;
        let open = self.open.0;
        let closed = (0..self.valid.len() as u32)
            .filter(|block| *block != open && !self.free.contains(block));
        let Some(victim) = closed.min_by_key(|block| self.valid[*block as usize]) else {
            return false;
        };
        if self.valid[victim as usize] >= per_block {
            return false;
        }
        let places = victim * per_block..(victim + 1) * per_block;
        for place in places {
            let page = self.owner[place as usize];
            if page != NOWHERE {
                self.invalidate(page as usize);
                self.program(page as usize);
            }
        }
        self.free.insert(0, victim);
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::cell::RefCell;

    use super::super::Model;
    use super::*;
    use iosonde_model::plan::chance::mix;
    use iosonde_model::plan::stream::OpStream;
    use iosonde_model::plan::{Job, Order, Stop};

    const PAGES: u64 = 4096;

    impl SharedFlash {
        /// Pages programmed per page written by the host so far.
        fn write_amplification(&self) -> Option<f64> {
            let state = self.state();
            let state = state.as_ref().filter(|state| state.written > 0)?;
            Some(state.programmed as f64 / state.written as f64)
        }
    }

    fn model(more: &str) -> Model {
        let words = format!("size=16M,flash=12,flash-block=256k,program=10us,write=1us,{more}");
        Model::parse(&words).unwrap()
    }

    /// Writes this many pages one by one; returns the virtual time of each of the parts.
    fn write(model: &Model, pages: u64, parts: u64, place: impl Fn(u64) -> u64) -> Vec<u64> {
        let mut device = model.build(1);
        let (mut now_ns, mut begun_ns, mut took) = (0, 0, Vec::new());
        for number in 0..pages {
            let offset = place(number) * PAGE_BYTES;
            let bytes = PAGE_BYTES as u32;
            let way = IoKind::Write;
            let transfer = Transfer { way, target: 0, offset, skip: 0, bytes };
            now_ns = device.serve(now_ns, &transfer).done_ns;
            if (number + 1) % (pages / parts) == 0 {
                took.push(now_ns - begun_ns);
                begun_ns = now_ns;
            }
        }
        took
    }

    fn at_random(number: u64) -> u64 {
        mix(number) % PAGES
    }

    #[test]
    fn sequential_writes_copy_nothing() {
        let model = model("");
        write(&model, 4 * PAGES, 4, |number| number % PAGES);
        let amplified = model.flash().write_amplification().unwrap();
        assert!(amplified < 1.02, "{amplified}");
    }

    #[test]
    fn random_writes_slow_down_to_a_steady_rate_that_outlives_the_run() {
        let model = model("");
        let took = write(&model, 8 * PAGES, 8, at_random);
        assert_eq!(took[0], PAGES * 10_000, "fresh out of the box");
        assert!(took[7] > 2 * took[0], "{took:?}");
        assert!(took[7].abs_diff(took[6]) < took[6] / 10, "{took:?}");
        let again = write(&model, PAGES, 1, |number| at_random(number + 9 * PAGES));
        assert!(again[0].abs_diff(took[7]) < took[7] / 5, "{again:?} {took:?}");
        model.forget();
        assert_eq!(write(&model, PAGES, 1, at_random)[0], took[0]);
    }

    #[test]
    fn more_spare_flash_copies_less() {
        let amplified = |spare: u64| {
            let words = format!("size=16M,flash={spare},flash-block=256k,program=10us");
            let model = Model::parse(&words).unwrap();
            write(&model, 8 * PAGES, 1, at_random);
            model.flash().write_amplification().unwrap()
        };
        let (little, much) = (amplified(10), amplified(40));
        assert!(little > 1.5 * much && much > 1.0, "{little} {much}");
    }

    #[test]
    fn the_fast_region_fills_and_recovers_at_rest() {
        let model = model("slc=4M,slc-program=1us");
        let took = write(&model, PAGES, 4, |number| number);
        // The first quarter fits; the second does not, except for pages programmed meanwhile.
        assert!(took[1] > 5 * took[0], "{took:?}");
        model.rest(1_000_000_000);
        let again = write(&model, PAGES, 4, |number| number);
        assert_eq!(again[0], took[0]);
    }

    #[test]
    fn trimmed_pages_are_not_copied() {
        let model = model("");
        write(&model, 4 * PAGES, 1, at_random);
        let mut device = model.build(1);
        let bytes = (PAGES * PAGE_BYTES) as u32;
        device.serve(0, &Transfer { way: IoKind::Trim, target: 0, offset: 0, skip: 0, bytes });
        let took = write(&model, PAGES / 2, 1, at_random);
        assert!(took[0] < PAGES / 2 * 10_500, "{took:?}");
    }

    /// After one single pass, random writes take as long as after ten random passes. They do not
    /// after one or two random passes, nor if the assumed spare flash is wrong.
    #[test]
    fn a_single_pass_leaves_what_many_random_passes_do() {
        let pages = 16_384;
        let amplified = |spare: u64, prepare: &dyn Fn(&Model)| {
            let words = format!("size=64M,flash={spare},flash-block=256k,program=10us,write=1us");
            let model = Model::parse(&words).unwrap();
            prepare(&model);
            // A tenth of the device is written at random.
            let took = write(&model, pages / 10, 1, |number| mix(number ^ 0x51) % pages);
            took[0] as f64 / (pages / 10 * 10_000) as f64
        };
        let at_random = |passes: u64| {
            move |model: &Model| {
                write(model, passes * pages, 1, |number| mix(number) % pages);
            }
        };
        let single_pass = |spare_percent: f64| {
            move |model: &Model| {
                let order = Order::SinglePass { seed: 3, spare_percent };
                let job = Job {
                    read_percent: 0,
                    region_bytes: pages * PAGE_BYTES,
                    order,
                    ..Job::default()
                };
                let stream = RefCell::new(OpStream::new(&job, Stop::AfterOnePass));
                let writes = (pages as f64 * (1.0 + spare_percent / 100.0)).round() as u64;
                write(model, writes, 1, |_| {
                    stream.borrow_mut().next_op().map_or(0, |op| op.offset / PAGE_BYTES)
                });
                assert!(stream.borrow().has_ended());
            }
        };
        for spare in [7, 12, 28] {
            let steady = amplified(spare, &at_random(10));
            let after = |prepare: &dyn Fn(&Model)| amplified(spare, prepare) / steady;
            let single = after(&single_pass(spare as f64));
            assert!((single - 1.0).abs() < 0.05, "{spare} %: {single}");
            for (what, short) in [("one", at_random(1)), ("two", at_random(2))] {
                let found = after(&short);
                assert!(found < 0.75, "{spare} %, {what} passes: {found}");
            }
            for wrong in [0.5, 2.0] {
                let found = after(&single_pass(spare as f64 * wrong));
                assert!(found < 0.95, "{spare} %, {wrong} times of it assumed: {found}");
            }
        }
    }
}
