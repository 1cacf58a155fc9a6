//! Facts about an open target: the file system by its magic number, the device underneath, whether
//! direct I/O is in effect, unwritten blocks, and blocks in the page cache.
//!
//! This module never writes, and waits for a few reads at most. What is not known is `None`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use iosonde_sys::inspect;
use rustix::fs::{
    Advice, AtFlags, FileType, Mode, OFlags, SeekFrom, Stat, Statx, StatxFlags, fadvise,
    fcntl_getfl, fstat, fstatfs, major, minor, open, seek, statx,
};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::host::{self, Root};
use iosonde_model::record::TargetFacts;
use iosonde_model::record::facts::FilesystemClass;

/// Extents beyond this number are not counted.
const EXTENT_LIMIT: u64 = 100_000;

/// Number of blocks that are looked up in the page cache (method 4.6, `page_cache`).
const CACHE_SAMPLES: u64 = 64;

/// Reads that find out whether requests are refused rather than blocked. Each may cost one device
/// access, so they are few.
const PUNT_PROBES: u64 = 8;

/// Size of a block of the cache samples, bytes.
const SAMPLE_BYTES: u64 = 4096;

/// The facts of the open target `fd`, of which the first `range_bytes` will be used.
///
/// `path` is the one the user gave: the file or device, or the directory of an unnamed file.
/// `direct_refused` and `smart` are left to the caller.
#[must_use]
pub fn describe(root: &Root, path: &Path, fd: BorrowedFd<'_>, range_bytes: u64) -> TargetFacts {
    let mut facts =
        TargetFacts { path: path.to_string_lossy().into_owned(), ..TargetFacts::default() };
    if let Ok(flags) = fcntl_getfl(fd) {
        facts.direct = flags.contains(OFlags::DIRECT);
        facts.noatime = flags.contains(OFlags::NOATIME);
    }
    let Ok(stat) = fstat(fd) else { return facts };
    let kind = FileType::from_raw_mode(stat.st_mode);
    facts.kind = kind_name(kind, &stat).to_owned();
    describe_alignment(fd, &mut facts);
    let number = match kind {
        FileType::RegularFile | FileType::Directory => {
            describe_filesystem(root, path, fd, &mut facts, &stat)
        }
        FileType::BlockDevice => Some((major(stat.st_rdev), minor(stat.st_rdev))),
        _ => None,
    };
    if let Some((major, minor)) = number {
        facts.device = host::device(root, major, minor);
        facts.io_limits = host::io_limits(root, major, minor);
    }
    facts.bytes = match kind {
        FileType::RegularFile => u64::try_from(stat.st_size).ok(),
        FileType::BlockDevice => inspect::block_device_bytes(fd).ok(),
        _ => None,
    };
    let range_bytes = range_bytes.min(facts.bytes.unwrap_or(0));
    if range_bytes > 0 {
        let buffered = reopen(fd);
        if kind == FileType::RegularFile {
            describe_extents(fd, buffered.as_ref(), range_bytes, &mut facts);
        }
        facts.cached_samples =
            buffered.as_ref().and_then(|file| cached_samples(file.as_fd(), range_bytes));
        facts.punted = punted(fd, range_bytes, &facts);
    }
    facts
}

fn kind_name(kind: FileType, stat: &Stat) -> &'static str {
    match kind {
        FileType::RegularFile => "file",
        FileType::BlockDevice => "block device",
        // Memory device 3 is /dev/null (the kernel's `devices.txt`).
        FileType::CharacterDevice if (major(stat.st_rdev), minor(stat.st_rdev)) == (1, 3) => "null",
        FileType::CharacterDevice => "character device",
        FileType::Directory => "directory",
        FileType::Fifo => "pipe",
        FileType::Socket => "socket",
        FileType::Symlink => "symbolic link",
        FileType::Unknown => "unknown",
    }
}

/// statx fields of a descriptor, if the kernel filled all the requested ones.
fn statx_of(fd: BorrowedFd<'_>, wanted: StatxFlags) -> Option<Statx> {
    let seen = statx(fd, c"", AtFlags::EMPTY_PATH, wanted).ok()?;
    StatxFlags::from_bits_retain(seen.stx_mask).contains(wanted).then_some(seen)
}

fn describe_alignment(fd: BorrowedFd<'_>, facts: &mut TargetFacts) {
    if let Some(seen) = statx_of(fd, StatxFlags::DIOALIGN) {
        facts.dio_mem_align = Some(seen.stx_dio_mem_align);
        facts.dio_offset_align = Some(seen.stx_dio_offset_align);
    }
}

/// Fills in file system, mount and free space. Returns the number of the device underneath.
fn describe_filesystem(
    root: &Root,
    path: &Path,
    fd: BorrowedFd<'_>,
    facts: &mut TargetFacts,
    stat: &Stat,
) -> Option<(u32, u32)> {
    // The descriptor's own mount id is exact even for an unnamed file or a path mounted over since.
    let mount = statx_of(fd, StatxFlags::MNT_ID)
        .filter(|_| root.is_system())
        .and_then(|seen| host::mount_with_id(root, seen.stx_mnt_id))
        .or_else(|| host::mount_of(root, path));
    let type_name = mount.as_ref().map_or("", |mount| mount.filesystem.as_str());
    if let Ok(found) = fstatfs(fd) {
        let magic = u64::try_from(found.f_type).unwrap_or(found.f_type as u32 as u64);
        let (name, class) = host::filesystem_class(type_name, magic);
        facts.filesystem = Some(name);
        facts.class = class;
        let unit = if found.f_frsize > 0 { found.f_frsize } else { found.f_bsize };
        facts.free_bytes = u64::try_from(unit).ok().and_then(|u| u.checked_mul(found.f_bavail));
    }
    if let Some(mount) = &mount {
        facts.mount_point = Some(mount.point.to_string_lossy().into_owned());
        facts.mount_source = Some(mount.source.clone());
        facts.mount_options.clone_from(&mount.options);
    }
    if matches!(facts.class, FilesystemClass::Memory | FilesystemClass::Virtual) {
        return None;
    }
    let own = (major(stat.st_dev), minor(stat.st_dev));
    if own.0 != 0 {
        return Some(own);
    }
    mount.and_then(|mount| host::device_of_mount(root, &mount))
}

/// Reopens the file of `fd`, buffered and read-only. Works for unnamed files too. Access times are
/// not updated where that is allowed.
fn reopen(fd: BorrowedFd<'_>) -> Option<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    open(&path, flags | OFlags::NOATIME, Mode::empty())
        .or_else(|_| open(&path, flags, Mode::empty()))
        .ok()
}

fn describe_extents(
    fd: BorrowedFd<'_>,
    buffered: Option<&OwnedFd>,
    range_bytes: u64,
    facts: &mut TargetFacts,
) {
    match ExtentSums::of(fd, range_bytes) {
        Ok(sums) => {
            facts.hole_bytes = Some(sums.seen_bytes.saturating_sub(sums.mapped_bytes));
            facts.unwritten_bytes = Some(sums.unwritten_bytes);
            facts.shared_bytes = Some(sums.shared_bytes);
            facts.encoded_bytes = Some(sums.encoded_bytes);
            facts.extents = Some(sums.extents);
        }
        Err(_) => {
            // A file system without holes reports all as data, so a zero proves nothing.
            let holes = buffered.and_then(|file| holes_by_seeking(file.as_fd(), range_bytes));
            facts.hole_bytes = holes.filter(|&bytes| bytes > 0);
        }
    }
}

/// Sums over the extents within a range.
#[derive(Debug, Default, PartialEq)]
struct ExtentSums {
    extents: u64,
    /// The part of the range that was examined.
    seen_bytes: u64,
    mapped_bytes: u64,
    unwritten_bytes: u64,
    shared_bytes: u64,
    encoded_bytes: u64,
}

impl ExtentSums {
    fn of(fd: BorrowedFd<'_>, range_bytes: u64) -> io::Result<Self> {
        let mut sums = Self::default();
        let mut at = 0;
        while at < range_bytes && sums.extents < EXTENT_LIMIT {
            let batch = inspect::extents(fd, at, range_bytes - at)?;
            let (before, ended) = (at, batch.last().is_none_or(inspect::Extent::is_last));
            for extent in &batch {
                at = sums.add(extent, at, range_bytes);
            }
            if ended || at <= before {
                at = range_bytes;
            }
        }
        sums.seen_bytes = at.min(range_bytes);
        Ok(sums)
    }

    /// Counts the part of an extent between `from` and `end`; returns the end of the extent.
    fn add(&mut self, extent: &inspect::Extent, from: u64, end: u64) -> u64 {
        let extent_end = extent.start_bytes.saturating_add(extent.length_bytes);
        let bytes = extent_end.min(end).saturating_sub(extent.start_bytes.max(from));
        self.extents += 1;
        self.mapped_bytes += bytes;
        // The kernel marks a delayed extent of preallocated space as either; it holds data.
        if extent.is_unwritten() && !extent.is_delayed() {
            self.unwritten_bytes += bytes;
        }
        if extent.is_shared() {
            self.shared_bytes += bytes;
        }
        if extent.is_encoded() {
            self.encoded_bytes += bytes;
        }
        extent_end.max(from)
    }
}

/// Bytes of holes, by SEEK_HOLE. Moves the offset of `file`, which must not be shared.
fn holes_by_seeking(file: BorrowedFd<'_>, range_bytes: u64) -> Option<u64> {
    let (mut holes, mut at) = (0, 0);
    for _ in 0..EXTENT_LIMIT {
        if at >= range_bytes {
            break;
        }
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data.min(range_bytes),
            // No data from here to the end of the file.
            Err(Errno::NXIO) => range_bytes,
            Err(_) => return None,
        };
        holes += data.saturating_sub(at);
        if data >= range_bytes {
            break;
        }
        at = seek(file, SeekFrom::Hole(data)).ok().filter(|&hole| hole > data)?;
    }
    Some(holes)
}

/// How many of the sampled blocks are in the page cache, and how many were sampled.
///
/// cachestat has no side effects. Where it is missing, a buffered read with RWF_NOWAIT succeeds
/// only for a cached block. That is the second choice: the kernel may start to read the other
/// blocks, and a read of an unwritten block succeeds too.
fn cached_samples(file: BorrowedFd<'_>, range_bytes: u64) -> Option<(u32, u32)> {
    count_samples(range_bytes, |offset| {
        inspect::cached_pages(file, offset, SAMPLE_BYTES).ok().map(|pages| pages > 0)
    })
    .or_else(|| cached_by_reading(file, range_bytes))
}

fn cached_by_reading(file: BorrowedFd<'_>, range_bytes: u64) -> Option<(u32, u32)> {
    // Without read-ahead, a probe loads no more than its own block.
    let _ = fadvise(file, 0, None, Advice::Random);
    count_samples(range_bytes, |offset| {
        let mut block = [0; SAMPLE_BYTES as usize];
        match read_nowait(file, &mut block, offset) {
            Ok(_) => Some(true),
            Err(Errno::AGAIN) => Some(false),
            Err(_) => None,
        }
    })
}

/// `None` as soon as one sample has no answer.
fn count_samples(range_bytes: u64, is_cached: impl Fn(u64) -> Option<bool>) -> Option<(u32, u32)> {
    let (mut cached, mut sampled) = (0, 0);
    for offset in spread(range_bytes, SAMPLE_BYTES, CACHE_SAMPLES) {
        cached += u32::from(is_cached(offset)?);
        sampled += 1;
    }
    (sampled > 0).then_some((cached, sampled))
}

/// Up to `count` offsets of different blocks, spread evenly and without a period: multiples of the
/// golden ratio modulo one. Not random, so that the same target always gets the same samples.
fn spread(range_bytes: u64, block_bytes: u64, count: u64) -> impl Iterator<Item = u64> {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let blocks = range_bytes / block_bytes;
    (0..count.min(blocks)).map(move |at| {
        // Few blocks: each one, once.
        let block = if blocks <= count {
            at
        } else {
            let share = u128::from(at.wrapping_mul(GOLDEN)) * u128::from(blocks);
            (share >> 64) as u64
        };
        block * block_bytes
    })
}

/// Whether every request that must not block was refused. `None` if that is unknown: the
/// descriptor is not open for reading, another error occurred, or only uncached blocks were met.
fn punted(fd: BorrowedFd<'_>, range_bytes: u64, facts: &TargetFacts) -> Option<bool> {
    let align = |reported: Option<u32>| u64::from(reported.unwrap_or(0).clamp(4096, 1 << 20));
    let block_bytes = align(facts.dio_offset_align);
    let memory = usize::try_from(align(facts.dio_mem_align)).ok()?;
    let length = usize::try_from(block_bytes).ok()?;
    let mut buffer = vec![0; length.checked_add(memory)?];
    let first = buffer.as_ptr().align_offset(memory);
    let block = buffer.get_mut(first..first.checked_add(length)?)?;
    let mut refused = false;
    for offset in spread(range_bytes, block_bytes, PUNT_PROBES) {
        match read_nowait(fd, block, offset) {
            Ok(_) => return Some(false),
            Err(Errno::OPNOTSUPP) => refused = true,
            // A buffered read of an uncached block has to wait on any target: no evidence.
            Err(Errno::AGAIN) => refused |= facts.direct,
            Err(_) => return None,
        }
    }
    refused.then_some(true)
}

fn read_nowait(fd: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut parts = [io::IoSliceMut::new(buffer)];
    preadv2(fd, &mut parts, offset, ReadWriteFlags::NOWAIT)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::collections::BTreeSet;
    use std::os::unix::fs::FileExt;

    use super::*;

    /// An unnamed file in memory, which needs no cleanup.
    fn file_in_memory() -> std::fs::File {
        let name = c"iosonde-truth";
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        std::fs::File::from(rustix::fs::memfd_create(name, flags).unwrap())
    }

    #[test]
    fn samples_are_distinct_aligned_inside_and_even() {
        for blocks in [1, 2, 63, 64, 65, 100, 1000, 262_144, 1 << 40] {
            let offsets: BTreeSet<u64> = spread(blocks * 4096, 4096, 64).collect();
            assert!(offsets.iter().all(|offset| offset % 4096 == 0 && *offset < blocks * 4096));
            if blocks <= 64 || blocks >= 1000 {
                assert_eq!(offsets.len() as u64, blocks.min(64), "{blocks} blocks");
            }
            let below_half = offsets.iter().filter(|offset| **offset < blocks * 2048).count();
            assert!(below_half.abs_diff(offsets.len() / 2) <= 2, "{blocks} blocks: {below_half}");
        }
        assert_eq!(spread(4095, 4096, 64).count(), 0);
    }

    #[test]
    fn extents_are_clipped_to_the_range() {
        let extent =
            |start_bytes, length_bytes, flags| inspect::Extent { start_bytes, length_bytes, flags };
        let mut sums = ExtentSums::default();
        // One extent begins before `from`; the next ends beyond `end`.
        assert_eq!(sums.add(&extent(0, 100, 0x0800), 40, 1000), 100);
        assert_eq!(sums.add(&extent(900, u64::MAX, 0x2008), 100, 1000), u64::MAX);
        assert_eq!(sums.add(&extent(5000, 10, 0x0800), 1000, 1000), 5010);
        // Preallocated, written, not yet on the device.
        assert_eq!(sums.add(&extent(200, 50, 0x0804), 200, 1000), 250);
        let expected = ExtentSums {
            extents: 4,
            seen_bytes: 0,
            mapped_bytes: 60 + 100 + 50,
            unwritten_bytes: 60,
            shared_bytes: 100,
            encoded_bytes: 100,
        };
        assert_eq!(sums, expected);
    }

    #[test]
    fn holes_are_found_by_seeking() {
        let file = file_in_memory();
        file.set_len(1 << 20).unwrap();
        assert_eq!(holes_by_seeking(file.as_fd(), 1 << 20), Some(1 << 20));
        file.write_all_at(&[1; 65_536], 131_072).unwrap();
        assert_eq!(holes_by_seeking(file.as_fd(), 1 << 20), Some((1 << 20) - 65_536));
        assert_eq!(holes_by_seeking(file.as_fd(), 131_072), Some(131_072));
        file.write_all_at(&[1; 1 << 20], 0).unwrap();
        assert_eq!(holes_by_seeking(file.as_fd(), 1 << 20), Some(0));
    }

    #[test]
    fn a_reopened_file_is_buffered_and_for_reading() {
        let file = file_in_memory();
        file.write_all_at(b"x", 0).unwrap();
        let again = reopen(file.as_fd()).unwrap();
        let flags = fcntl_getfl(&again).unwrap();
        assert_eq!(flags & OFlags::RWMODE, OFlags::RDONLY);
        assert!(!flags.contains(OFlags::DIRECT));
        assert_eq!(fstat(&again).unwrap().st_ino, fstat(&file).unwrap().st_ino);
    }

    #[test]
    fn reading_without_waiting_sees_a_file_in_the_cache() {
        // This source file is usually on a disk, and cached since the compiler read it.
        let Ok(file) =
            std::fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/src/target/truth.rs"))
        else {
            return;
        };
        let bytes = file.metadata().unwrap().len();
        let mut block = [0; 65_536];
        let _ = file.read_at(&mut block, 0).unwrap();
        let blocks = u32::try_from(bytes / SAMPLE_BYTES).unwrap();
        // A file system without RWF_NOWAIT gives no answer; a wrong one would be a defect.
        let seen = cached_by_reading(file.as_fd(), bytes);
        assert!(seen.is_none() || seen == Some((blocks, blocks)), "{seen:?}");
    }
}
