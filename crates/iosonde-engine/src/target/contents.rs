//! Inspects the content of a device or file, completely or as far as the time allows.
//!
//! Known holes are not read. Of the rest, the most informative places are read first: both ends,
//! every place of a signature, places where partitions and copies of superblocks begin, and random
//! blocks; then everything else in order. The result says how much was inspected: only what was
//! read completely is called empty.

use std::fmt;
use std::io;
use std::ops::Range;

use iosonde_model::content::is_ours_or_zero;
use iosonde_model::plan::chance::{Chance, mix};
use iosonde_model::units::bytes;
use rustix::io::Errno;

use super::ranges::Ranges;
use super::signature::{self, Finding, ReadAt};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;
/// Unit in which content is classified, bytes.
const BLOCK_BYTES: u64 = 4 * KIB;
/// Length of the beginning, and of the end, that are read completely, bytes.
pub const EDGE_BYTES: u64 = MIB;
/// Random blocks in one round, one from each of as many equal parts.
const SAMPLES: u64 = 64;
/// Maximum number of rounds, and their share of the time (a divisor).
const ROUNDS: u64 = 64;
const ROUNDS_SHARE: u64 = 4;
/// Bytes of one sequential read.
const CHUNK_BYTES: u64 = MIB;
/// Limit on the signature places that are kept: a device full of XFS headers has many.
const MARKS: usize = 4096;
/// Interval of progress reports, ns.
const REPORT_NS: u64 = 1_000_000_000;
/// Default time for reading, ns.
pub const USUAL_TIME_NS: u64 = 10_000_000_000;

/// Time limit and progress callback of an inspection.
#[derive(Clone, Copy, Debug)]
pub struct Inspection {
    /// Time for reading, ns. The informative places are always read.
    pub time_ns: u64,
    /// Called after each read; reading stops when it returns `false`.
    pub progress: fn(&Progress) -> bool,
    /// The clock, ns.
    pub now_ns: fn() -> u64,
}

impl Default for Inspection {
    fn default() -> Inspection {
        let now_ns = iosonde_sys::clock::monotonic_ns;
        Inspection { time_ns: USUAL_TIME_NS, progress: |_| true, now_ns }
    }
}

impl Inspection {
    /// The same, but only for the informative places and one round of samples.
    #[must_use]
    pub fn brief(self) -> Inspection {
        Inspection { time_ns: 0, ..self }
    }
}

/// Progress of an inspection.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// What was inspected so far.
    pub seen: Seen,
    /// Time since the beginning, ns.
    pub elapsed_ns: u64,
    /// See [`Inspection::time_ns`].
    pub time_ns: u64,
    /// Whether it is time to report: at most once per second, and not within the first.
    pub is_due: bool,
}

/// How much of a device or file was inspected.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Seen {
    pub size_bytes: u64,
    /// Bytes that were read, or are known to be holes.
    pub inspected_bytes: u64,
    /// Bytes of the pieces that were skipped because the device failed to read them.
    pub unreadable_bytes: u64,
}

impl Seen {
    /// Bytes that were not inspected.
    pub fn unseen_bytes(&self) -> u64 {
        self.size_bytes.saturating_sub(self.inspected_bytes)
    }
}

/// `12.3 % was inspected; up to 3.20 GB may hold data`, never rounded to all or to nothing, and
/// how much could not be read, if any.
impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unseen = self.unseen_bytes();
        if unseen == 0 {
            return f.write_str("all of it was inspected");
        }
        let percent = self.inspected_bytes as f64 / self.size_bytes as f64 * 100.0;
        if percent < 0.05 {
            f.write_str("less than 0.1 % was inspected")?;
        } else {
            write!(f, "{:.1} % was inspected", percent.min(99.9))?;
        }
        write!(f, "; up to {} may hold data", bytes::rough(unseen))?;
        match self.unreadable_bytes {
            0 => Ok(()),
            unreadable => write!(f, " ({} could not be read)", bytes::rough(unreadable)),
        }
    }
}

/// A block that is neither zero nor written by this program.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Foreign {
    /// Offset of the block, bytes.
    pub offset: u64,
    /// Offset of its first byte that is not zero, bytes.
    pub data_offset: u64,
    /// The bytes of the block from there on, at most eight.
    pub head: Vec<u8>,
}

impl Foreign {
    pub(super) fn of(block: &[u8], offset: u64) -> Foreign {
        let zeros = block.iter().take_while(|byte| **byte == 0).count();
        let head = block[zeros..].iter().take(8).copied().collect();
        Foreign { offset, data_offset: offset + zeros as u64, head }
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at offset {}:", self.data_offset)?;
        self.head.iter().try_for_each(|byte| write!(f, " {byte:02x}"))
    }
}

/// Result of an inspection.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Each place of each signature; within a kind, in the order in which they were searched.
    pub marks: Vec<Finding>,
    /// The first foreign block that was read.
    pub foreign: Option<Foreign>,
    /// How much was inspected.
    pub seen: Seen,
}

impl Contents {
    /// The first place of each kind of signature, then that of other data.
    pub fn findings(&self) -> Vec<Finding> {
        let mut found: Vec<Finding> = Vec::new();
        for mark in &self.marks {
            if !found.iter().any(|known| known.kind == mark.kind) {
                found.push(mark.clone());
            }
        }
        found.extend(self.foreign.as_ref().map(|foreign| signature::unknown(foreign.offset)));
        found
    }

    /// Bytes that may hold data because they were not inspected. If foreign data was found, this
    /// is 0, since consent to that data covers the rest.
    pub fn unseen_bytes(&self) -> u64 {
        if self.foreign.is_some() { 0 } else { self.seen.unseen_bytes() }
    }
}

/// Inspects a device or file of this size, of which `zeros` are known to be holes; the seed chooses
/// the samples.
///
/// What the device fails to read counts as not inspected.
///
/// # Errors
/// If it cannot be read at all; [`io::ErrorKind::Interrupted`] if `progress` ended it.
pub fn inspect(
    size_bytes: u64,
    zeros: &[Range<u64>],
    read: &ReadAt<'_>,
    seed: u64,
    how: Inspection,
) -> io::Result<Contents> {
    let mut reader = Reader::new(size_bytes, zeros, read, how);
    let readable = |buffer: &mut [u8], offset: u64| match read(buffer, offset) {
        Err(error) if is_medium_error(&error) => Ok(0),
        other => other,
    };
    reader.contents.marks = signature::marks(size_bytes, &readable)?;
    for place in informative(size_bytes) {
        reader.piece(place)?;
    }
    for round in 0..ROUNDS {
        let samples_ns = if round == 0 { u64::MAX } else { how.time_ns / ROUNDS_SHARE };
        for place in samples(size_bytes, seed.wrapping_add(round)) {
            if reader.is_decided() || reader.elapsed_ns() >= samples_ns {
                break;
            }
            reader.piece(place)?;
        }
    }
    reader.rest()?;
    Ok(reader.contents)
}

struct Reader<'a> {
    read: &'a ReadAt<'a>,
    how: Inspection,
    began_ns: u64,
    reported_ns: u64,
    ranges: Ranges,
    contents: Contents,
    buffer: Vec<u8>,
}

impl<'a> Reader<'a> {
    fn new(
        size_bytes: u64,
        zeros: &[Range<u64>],
        read: &'a ReadAt<'a>,
        how: Inspection,
    ) -> Reader<'a> {
        let mut ranges = Ranges::default();
        for hole in zeros {
            // Only whole blocks count as holes. A block that is partly a hole is read.
            let start = hole.start.next_multiple_of(BLOCK_BYTES);
            let end = if hole.end >= size_bytes { size_bytes } else { hole.end };
            let end = if end == size_bytes { end } else { end / BLOCK_BYTES * BLOCK_BYTES };
            ranges.insert(start..end);
        }
        let seen = Seen { size_bytes, inspected_bytes: ranges.bytes(), unreadable_bytes: 0 };
        Reader {
            read,
            how,
            began_ns: (how.now_ns)(),
            reported_ns: 0,
            ranges,
            contents: Contents { seen, ..Contents::default() },
            buffer: vec![0; CHUNK_BYTES as usize],
        }
    }

    fn elapsed_ns(&self) -> u64 {
        (self.how.now_ns)().saturating_sub(self.began_ns)
    }

    /// Whether foreign data was found, so that more reading would not change the result.
    fn is_decided(&self) -> bool {
        self.contents.foreign.is_some()
    }

    /// Reads the unread parts of a piece, which is widened to whole blocks.
    fn piece(&mut self, piece: Range<u64>) -> io::Result<()> {
        let size_bytes = self.contents.seen.size_bytes;
        let start = piece.start / BLOCK_BYTES * BLOCK_BYTES;
        let end = piece.end.next_multiple_of(BLOCK_BYTES).min(size_bytes);
        for gap in self.ranges.gaps(start..end) {
            let mut at = gap.start;
            while at < gap.end {
                at = self.chunk(at, (gap.end - at).min(CHUNK_BYTES))?;
            }
        }
        Ok(())
    }

    /// Reads all gaps in order, until foreign data is found or the time is up.
    fn rest(&mut self) -> io::Result<()> {
        let mut at = 0;
        let size_bytes = self.contents.seen.size_bytes;
        while !self.is_decided() && self.elapsed_ns() < self.how.time_ns {
            let Some(gap) = self.ranges.next_gap(at, size_bytes) else { break };
            at = self.chunk(gap.start, (gap.end - gap.start).min(CHUNK_BYTES))?;
        }
        Ok(())
    }

    /// Reads and classifies unread bytes; returns their end.
    fn chunk(&mut self, start: u64, length: u64) -> io::Result<u64> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let wanted = length as usize;
        let result = (self.read)(&mut buffer[..wanted], start);
        if result.as_ref().err().is_some_and(is_medium_error) {
            // A failing device takes seconds for each error, so the whole piece is skipped.
            self.buffer = buffer;
            self.ranges.insert(start..start + length);
            self.contents.seen.unreadable_bytes += length;
            self.report()?;
            return Ok(start + length);
        }
        let read = result?.min(wanted);
        if read == 0 {
            // It shrank, so there is nothing left to lose beyond this offset.
            self.contents.seen.size_bytes = start.max(self.contents.seen.inspected_bytes);
            self.buffer = buffer;
            return Ok(u64::MAX);
        }
        let bytes = &buffer[..read];
        if !is_ours_or_zero(bytes) {
            for (at, block) in (start..).step_by(BLOCK_BYTES as usize).zip(bytes.chunks(4096)) {
                if !is_ours_or_zero(block) {
                    self.judge(block, at);
                }
            }
        }
        self.buffer = buffer;
        let end = start + read as u64;
        self.ranges.insert(start..end);
        self.contents.seen.inspected_bytes += read as u64;
        self.report()?;
        Ok(end)
    }

    /// Records a foreign block, and the copies of superblocks in it.
    fn judge(&mut self, block: &[u8], offset: u64) {
        let contents = &mut self.contents;
        if contents.foreign.is_none() {
            contents.foreign = Some(Foreign::of(block, offset));
        }
        for (at, sector) in (offset..).step_by(512).zip(block.chunks(512)) {
            for copy in signature::copies(sector, at) {
                let is_known = contents.marks.iter().any(|mark| mark.offset == copy.offset);
                if !is_known && contents.marks.len() < MARKS {
                    contents.marks.push(copy);
                }
            }
        }
    }

    fn report(&mut self) -> io::Result<()> {
        let elapsed_ns = self.elapsed_ns();
        let is_due = elapsed_ns >= self.reported_ns + REPORT_NS;
        if is_due {
            self.reported_ns = elapsed_ns;
        }
        let time_ns = self.how.time_ns;
        let progress = Progress { seen: self.contents.seen, elapsed_ns, time_ns, is_due };
        match (self.how.progress)(&progress) {
            true => Ok(()),
            false => Err(io::ErrorKind::Interrupted.into()),
        }
    }
}

/// Whether the error means that the device cannot read this part of the medium.
fn is_medium_error(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| [Errno::IO, Errno::NODATA, Errno::ILSEQ].contains(&errno))
}

/// The most informative places, in the order of reading.
fn informative(size_bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let ends = [0..EDGE_BYTES, size_bytes.saturating_sub(EDGE_BYTES)..size_bytes];
    let of = |start: u64, length: u64| start..start.saturating_add(length);
    let signatures = signature::places(size_bytes).map(move |at| of(at, 1));
    // Partitions begin at powers of two, or at any MiB after a small partition.
    let powers = (0..64).map(move |power| of(1 << power, 64 * KIB));
    let early = (1..64).map(move |nth| of(nth * MIB, BLOCK_BYTES));
    // Allocation groups of XFS: a quarter of the device, at most a TiB.
    let group = (size_bytes / BLOCK_BYTES).div_ceil(4) * BLOCK_BYTES;
    let groups = (1..16).map(move |nth| of(nth * group.min(TIB), BLOCK_BYTES));
    let places = signatures.chain(powers).chain(early).chain(groups);
    let on_it = move |place: &Range<u64>| place.start < size_bytes;
    ends.into_iter().chain(places).filter(on_it)
}

/// One random block from each of equal parts, so that no part is left out by chance.
fn samples(size_bytes: u64, seed: u64) -> impl Iterator<Item = Range<u64>> {
    let blocks = size_bytes.div_ceil(BLOCK_BYTES);
    let share =
        move |part: u64| (u128::from(blocks) * u128::from(part) / u128::from(SAMPLES)) as u64;
    let mut chance = Chance::new(mix(seed));
    (0..SAMPLES).filter_map(move |part| {
        let (from, to) = (share(part), share(part + 1));
        let block = from + chance.bits() % (to - from).max(1);
        (block < to).then_some(block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::cell::RefCell;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Inspects a device that is zero except for one byte; returns also the ranges that were read.
    fn inspected(
        size: u64,
        byte: Option<u64>,
        zeros: &[Range<u64>],
        how: Inspection,
    ) -> (Contents, Vec<Range<u64>>) {
        let reads = RefCell::new(Vec::new());
        let read = |buffer: &mut [u8], offset: u64| {
            let length = size.saturating_sub(offset).min(buffer.len() as u64);
            buffer.fill(0);
            if let Some(at) = byte.filter(|at| (offset..offset + length).contains(at)) {
                buffer[(at - offset) as usize] = 0x55;
            }
            if length >= BLOCK_BYTES {
                reads.borrow_mut().push(offset..offset + length);
            }
            Ok(length as usize)
        };
        let contents = inspect(size, zeros, &read, 3, how).unwrap();
        (contents, reads.into_inner())
    }

    #[test]
    fn one_byte_anywhere_is_found_where_all_is_read() {
        let size = 64 * MIB + 512;
        for byte in [0, 1, 4095, MIB, 5 * MIB + 17, 33 * MIB - 1, size - 1] {
            let (contents, _) = inspected(size, Some(byte), &[], Inspection::default());
            let found = contents.foreign.unwrap();
            assert_eq!(found.offset, byte / BLOCK_BYTES * BLOCK_BYTES);
            assert!(found.data_offset == byte && found.head[0] != 0, "{found:?}");
        }
        let (contents, reads) = inspected(size, None, &[], Inspection::default());
        assert_eq!(contents.findings(), []);
        assert_eq!(
            contents.seen,
            Seen { size_bytes: size, inspected_bytes: size, unreadable_bytes: 0 }
        );
        let mut ranges = Ranges::default();
        let total: u64 = reads.iter().map(|read| read.end - read.start).sum();
        reads.into_iter().for_each(|read| ranges.insert(read));
        assert!(size - ranges.bytes() <= 512 && total <= size, "each byte is read once");
    }

    #[test]
    fn what_the_device_fails_to_read_is_not_inspected_and_said() {
        let bad = 5 * MIB..5 * MIB + 512;
        let inspect_with = |byte: Option<u64>| {
            let read = |buffer: &mut [u8], offset: u64| {
                let length = (64 * MIB).saturating_sub(offset).min(buffer.len() as u64);
                if offset < bad.end && bad.start < offset + length {
                    return Err(Errno::IO.into());
                }
                buffer.fill(0);
                if let Some(at) = byte.filter(|at| (offset..offset + length).contains(at)) {
                    buffer[(at - offset) as usize] = 0x55;
                }
                Ok(length as usize)
            };
            inspect(64 * MIB, &[], &read, 3, Inspection::default()).unwrap()
        };
        let contents = inspect_with(None);
        assert_eq!(contents.foreign, None);
        assert_eq!(contents.unseen_bytes(), contents.seen.unreadable_bytes);
        assert!((BLOCK_BYTES..=CHUNK_BYTES).contains(&contents.unseen_bytes()));
        assert!(contents.seen.to_string().contains("could not be read)"), "{}", contents.seen);
        assert_eq!(inspect_with(Some(40 * MIB)).foreign.unwrap().offset, 40 * MIB);
    }

    #[test]
    fn holes_are_not_read_and_count_as_inspected() {
        let zeros = [MIB..900 * MIB, 901 * MIB + 5..1024 * MIB];
        let (contents, reads) = inspected(1024 * MIB, None, &zeros, Inspection::default());
        assert_eq!(contents.seen.unseen_bytes(), 0);
        let inside = |read: &Range<u64>| read.start >= zeros[0].start && read.end <= zeros[0].end;
        assert!(!reads.iter().any(inside), "{reads:?}");
        // The block that is half a hole is read.
        assert!(reads.iter().any(|read| read.contains(&(901 * MIB + 4))));
        let data = inspected(1024 * MIB, Some(901 * MIB + 4), &zeros, Inspection::default()).0;
        assert_eq!(data.foreign.unwrap().offset, 901 * MIB);
    }

    #[test]
    fn without_time_the_answer_says_how_little_was_seen() {
        let brief = Inspection::default().brief();
        let size = 1 << 40;
        let (contents, reads) = inspected(size, None, &[], brief);
        assert!(contents.foreign.is_none());
        let seen = contents.seen;
        assert_eq!(
            seen.inspected_bytes,
            reads.iter().map(|read| read.end - read.start).sum::<u64>()
        );
        assert_eq!(contents.unseen_bytes(), size - seen.inspected_bytes);
        assert_eq!(
            seen.to_string(),
            "less than 0.1 % was inspected; up to 1,020 GiB may hold data"
        );
        // Both ends, the places of signatures, and something of every part.
        for place in [0, MIB - 1, size - MIB, 64 * MIB + 64, 128 * MIB + 56, 256 << 30] {
            assert!(reads.iter().any(|read| read.contains(&place)), "{place}");
        }
        for part in 0..SAMPLES {
            let within = part * (size / SAMPLES)..(part + 1) * (size / SAMPLES);
            assert!(reads.iter().any(|read| within.contains(&read.start)), "part {part}");
        }
    }

    #[test]
    fn time_ends_it_and_the_user_may() {
        static NOW: AtomicU64 = AtomicU64::new(0);
        // Each reading of the clock advances it by a millisecond.
        let now_ns = || NOW.fetch_add(1_000_000, Ordering::Relaxed);
        let how = Inspection { time_ns: 400_000_000, now_ns, ..Inspection::default() };
        let (contents, _) = inspected(1 << 40, None, &[], how);
        let seen = contents.seen.inspected_bytes;
        assert!((32 * MIB..400 * MIB).contains(&seen), "{seen}");
        let ended = Inspection { progress: |_| false, ..how };
        let read = |buffer: &mut [u8], _| Ok(buffer.len());
        let error = inspect(1 << 40, &[], &read, 1, ended).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }

    #[test]
    fn shares_are_never_rounded_to_all_or_nothing() {
        let seen = |inspected_bytes, size_bytes| {
            Seen { size_bytes, inspected_bytes, unreadable_bytes: 0 }.to_string()
        };
        assert_eq!(seen(0, 0), "all of it was inspected");
        assert_eq!(seen(1 << 40, 1 << 40), "all of it was inspected");
        assert!(seen((1 << 40) - 1, 1 << 40).starts_with("99.9 % was inspected"));
        assert!(seen(4 << 20, 1 << 30).starts_with("0.4 % was inspected"));
    }
}
