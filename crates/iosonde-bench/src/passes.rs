//! The cost of creating and checking a block of the verifier: passes over memory by the library in
//! this process, compared with a copy of the same memory.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use iosonde_model::content::block::{Format, Label};
use iosonde_model::plan::RunId;
use iosonde_stats::ratio::median;
use iosonde_sys::thread;

use crate::case::CaseName;
use crate::numbers::{ratio, spread};
use crate::rounds::CaseResult;
use crate::summary::{column, ratio_in_rounds};
use crate::tool::Kind;

/// Operation of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Does {
    /// `memcpy` from one half of the buffer to the other; only the bytes copied count.
    Copy,
    /// Fills blocks with fresh data and checksums.
    Seal,
    /// Verifies checksums and the identity of blocks.
    Check,
    /// Overwrites a buffer, as is done before a read into it.
    Poison,
}

/// One kind of pass over one buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pass {
    pub(crate) title: &'static str,
    does: Does,
    block_bytes: u32,
    sector_bytes: u32,
    buffer_bytes: usize,
}

/// Size of a buffer for one operation of the verifier: it fits in the L2 cache.
const CACHED: usize = 64 << 10;
/// Larger than any cache.
const BEYOND: usize = 512 << 20;
/// Bytes per unit of the samples.
const UNIT: f64 = 4096.0;

const fn pass(
    title: &'static str,
    does: Does,
    (block_bytes, sector_bytes): (u32, u32),
    buffer_bytes: usize,
) -> Pass {
    Pass { title, does, block_bytes, sector_bytes, buffer_bytes }
}

/// All passes; each copy precedes the passes that are compared with it.
static LIST: [Pass; 15] = [
    pass("memcpy, 64 KiB", Does::Copy, (4096, 512), CACHED),
    pass("seal 4096/512, 64 KiB", Does::Seal, (4096, 512), CACHED),
    pass("check 4096/512, 64 KiB", Does::Check, (4096, 512), CACHED),
    pass("poison 4096/512, 64 KiB", Does::Poison, (4096, 512), CACHED),
    pass("seal 4096/4096, 64 KiB", Does::Seal, (4096, 4096), CACHED),
    pass("check 4096/4096, 64 KiB", Does::Check, (4096, 4096), CACHED),
    pass("seal 65536/512, 64 KiB", Does::Seal, (65_536, 512), CACHED),
    pass("check 65536/512, 64 KiB", Does::Check, (65_536, 512), CACHED),
    pass("memcpy, 512 MiB", Does::Copy, (4096, 512), BEYOND),
    pass("seal 4096/512, 512 MiB", Does::Seal, (4096, 512), BEYOND),
    pass("check 4096/512, 512 MiB", Does::Check, (4096, 512), BEYOND),
    pass("seal 4096/4096, 512 MiB", Does::Seal, (4096, 4096), BEYOND),
    pass("check 4096/4096, 512 MiB", Does::Check, (4096, 4096), BEYOND),
    pass("seal 65536/512, 512 MiB", Does::Seal, (65_536, 512), BEYOND),
    pass("check 65536/512, 512 MiB", Does::Check, (65_536, 512), BEYOND),
];

/// The passes as contenders.
pub(crate) static PASSES: [Kind; LIST.len()] = {
    let mut kinds = [Kind::Memory(&LIST[0]); LIST.len()];
    let mut i = 0;
    while i < LIST.len() {
        kinds[i] = Kind::Memory(&LIST[i]);
        i += 1;
    }
    kinds
};

/// Result of a pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Came {
    /// Units of 4 KiB per second.
    pub(crate) units_per_s: f64,
    /// CPU time per unit.
    pub(crate) cpu_ns_per_unit: f64,
}

impl Pass {
    /// Repeats the pass for that time on a thread pinned to this CPU; `None` if a sealed block
    /// fails its check.
    pub(crate) fn measure(&self, cpu: usize, seconds: f64) -> Option<Came> {
        std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    thread::pin_to(cpu as u32);
                    self.repeat(Duration::from_secs_f64(seconds))
                })
                .join()
                .ok()?
        })
    }

    fn repeat(&self, length: Duration) -> Option<Came> {
        /// Bytes between two readings of the clock.
        const AT_ONCE: usize = 4 << 20;
        let format = Format::new(RunId(0x5eed), self.block_bytes, self.sector_bytes);
        let mut buffer = vec![1; self.buffer_bytes];
        self.seal(&format, &mut buffer, 1);
        let times = (AT_ONCE / self.buffer_bytes).max(1) as u32;
        let (mut passes, mut generation) = (0, 1);
        let (before, start) = (thread::usage_of_thread(), Instant::now());
        while start.elapsed() < length {
            for _ in 0..times {
                generation += 1;
                if !self.once(&format, &mut buffer, generation) {
                    return None;
                }
            }
            passes += times;
        }
        let (wall, used) = (start.elapsed(), thread::usage_of_thread());
        let cpu_ns = used.user_ns + used.system_ns - before.user_ns - before.system_ns;
        let counted = if self.does == Does::Copy { 2 } else { 1 };
        let units = (self.buffer_bytes / counted) as f64 * f64::from(passes) / UNIT;
        Some(Came {
            units_per_s: units / wall.as_secs_f64(),
            cpu_ns_per_unit: cpu_ns as f64 / units,
        })
    }

    /// One pass; returns whether the check succeeded.
    fn once(&self, format: &Format, buffer: &mut [u8], generation: u32) -> bool {
        match self.does {
            Does::Copy => {
                let (from, to) = buffer.split_at_mut(self.buffer_bytes / 2);
                to.copy_from_slice(black_box(from));
                black_box(to);
            }
            Does::Seal => self.seal(format, buffer, generation),
            Does::Check => {
                let blocks = buffer.chunks_exact(self.block_bytes as usize);
                let offsets = (0..).step_by(self.block_bytes as usize);
                let right = |(block, at)| format.generation_at(black_box(block), at) == Some(1);
                return blocks.zip(offsets).all(right);
            }
            Does::Poison => {
                format.poison(buffer);
                black_box(buffer);
            }
        }
        true
    }

    fn seal(&self, format: &Format, buffer: &mut [u8], generation: u32) {
        let mut label = Label { generation, writer: 1, sequence: 1, time_ns: 1, offset: 0 };
        for block in buffer.chunks_exact_mut(self.block_bytes as usize) {
            format.seal(block, &label);
            label.offset += u64::from(self.block_bytes);
        }
        black_box(buffer);
    }
}

/// The table in GB per second of CPU time, which other processes on the CPU hardly affect.
pub(crate) fn table(case: CaseName, described: &CaseResult) -> String {
    let mut text = "| pass | GB/s per core | min to max | of a copy on the same buffer |\n\
                    | --- | --- | --- | --- |\n"
        .to_owned();
    let speed = |cpu_ns_per_unit: f64| UNIT / cpu_ns_per_unit;
    let mut copy = case.contenders()[0];
    for &kind in case.contenders() {
        if matches!(kind, Kind::Memory(pass) if pass.does == Does::Copy) {
            copy = kind;
        }
        let speeds = column(described, kind.title(), |sample| Some(speed(sample.cpu_ns_per_op)));
        let (Some(middle), Some((low, high))) = (median(&speeds), spread(&speeds)) else {
            continue;
        };
        let share = ratio_in_rounds(described, kind, copy, |sample| speed(sample.cpu_ns_per_op));
        let (title, share) = (kind.title(), ratio(share));
        let _ = writeln!(text, "| {title} | {middle:.1} | {low:.1} to {high:.1} | {share} |");
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn every_pass_finds_what_was_sealed() {
        for pass in &LIST {
            if pass.buffer_bytes == CACHED {
                let came = pass.repeat(Duration::from_millis(2)).unwrap();
                assert!(came.units_per_s > 0.0, "{}", pass.title);
            }
        }
    }

    #[test]
    fn a_block_that_is_not_found_again_is_no_measurement() {
        let pass = &LIST[2];
        let format = Format::new(RunId(1), pass.block_bytes, pass.sector_bytes);
        let mut buffer = vec![0; CACHED];
        pass.seal(&format, &mut buffer, 1);
        assert!(pass.once(&format, &mut buffer, 9));
        buffer[CACHED - 1] ^= 1;
        assert!(!pass.once(&format, &mut buffer, 9));
    }
}
