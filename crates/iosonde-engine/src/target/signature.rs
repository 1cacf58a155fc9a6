//! What is on a device? Signatures at their offsets, then samples of everything else.
//!
//! Pure over a function that reads at an offset. Each place is that of the format's own
//! documentation or of its kernel source; several copies of one superblock are all looked for,
//! since the first may be gone.

use std::fmt;
use std::io;

use iosonde_model::content::block::begins_a_block;
use iosonde_model::content::{begins_ours, is_ours_or_zero};
use iosonde_model::plan::chance::{Chance, mix};

/// Reads at an offset, bytes, as much as there is; the number of bytes that were read.
pub type ReadAt<'a> = dyn Fn(&mut [u8], u64) -> io::Result<usize> + 'a;

/// The word for data that no signature names.
pub const UNKNOWN: &str = "unknown-data";

/// Beginning and end of a device that are looked at whole, bytes.
const EDGE_BYTES: u64 = 1 << 20;
/// Blocks looked at between them.
const SAMPLES: u64 = 64;
/// Size of such a block, bytes.
const BLOCK_BYTES: u64 = 4096;

/// Something on a device that somebody might miss.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// The word that `--overwrite-signature` takes.
    pub kind: &'static str,
    /// What it is.
    pub title: &'static str,
    /// Where it was found, bytes.
    pub offset: u64,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} at offset {})", self.kind, self.title, self.offset)
    }
}

/// Where a signature stands.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// This many bytes behind the beginning.
    Start(u64),
    /// This many bytes before the end.
    End(u64),
    /// This many bytes behind the beginning of the last whole unit but this one that ends within
    /// the device: `(units before the end, unit in bytes, bytes)`.
    LastUnit(u64, u64, u64),
}

use Place::{End, LastUnit, Start};

impl Place {
    /// Offset on a device of this size, if it lies on it.
    fn offset(self, size_bytes: u64) -> Option<u64> {
        let offset = match self {
            Start(at) => at,
            End(distance) => size_bytes.checked_sub(distance)?,
            LastUnit(back, unit, at) => (size_bytes / unit).checked_sub(back)? * unit + at,
        };
        (offset < size_bytes).then_some(offset)
    }
}

/// A kind of content with its signatures.
struct Kind {
    kind: &'static str,
    title: &'static str,
    magics: &'static [&'static [u8]],
    places: &'static [Place],
}

const fn kind(
    kind: &'static str,
    title: &'static str,
    magics: &'static [&'static [u8]],
    places: &'static [Place],
) -> Kind {
    Kind { kind, title, magics, places }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Every signature that is looked for.
const KINDS: &[Kind] = &[
    // Partition tables. The boot sectors of FAT and NTFS end in the same two bytes.
    kind("mbr", "MBR partition table or boot sector", &[b"\x55\xaa"], &[Start(510)]),
    // The backup stands in the last sector, whose size is 512 bytes or 4 KiB.
    kind(
        "gpt",
        "GPT partition table",
        &[b"EFI PART"],
        &[Start(512), Start(4096), LastUnit(1, 512, 0), LastUnit(1, 4096, 0)],
    ),
    kind("apm", "Apple partition map", &[b"PM\x00\x00"], &[Start(512), Start(2048), Start(4096)]),
    kind("bsd", "BSD disk label", &[b"\x57\x45\x56\x82"], &[Start(0), Start(64), Start(512)]),
    kind("sgi", "SGI disk label", &[b"\x0b\xe5\xa9\x41"], &[Start(0)]),
    kind("sun", "Sun disk label", &[b"\xda\xbe"], &[Start(508)]),
    // File systems.
    kind("ext", "ext2, ext3 or ext4 file system", &[b"\x53\xef"], &[Start(1080)]),
    kind("xfs", "XFS file system", &[b"XFSB"], &[Start(0)]),
    kind(
        "btrfs",
        "Btrfs file system",
        &[b"_BHRfS_M"],
        &[Start(64 * KIB + 64), Start(64 * MIB + 64), Start((256 << 30) + 64)],
    ),
    kind(
        "bcachefs",
        "bcachefs file system",
        &[b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"],
        &[Start(4120), Start(2 * MIB + 24)],
    ),
    kind("f2fs", "F2FS file system", &[b"\x10\x20\xf5\xf2"], &[Start(1024), Start(5120)]),
    kind("ntfs", "NTFS file system", &[b"NTFS    "], &[Start(3)]),
    kind("refs", "ReFS file system", &[b"ReFS\0\0\0\0"], &[Start(3)]),
    kind("exfat", "exFAT file system", &[b"EXFAT   "], &[Start(3), Start(6147)]),
    kind("vfat", "FAT32 file system", &[b"FAT32   "], &[Start(82), Start(3154)]),
    kind("vfat", "FAT file system", &[b"FAT12   ", b"FAT16   ", b"FAT     "], &[Start(54)]),
    kind("hfs", "HFS or HFS+ file system", &[b"H+\0\x04", b"HX\0\x05", b"BD"], &[Start(1024)]),
    kind("apfs", "APFS container", &[b"NXSB"], &[Start(32)]),
    kind("jfs", "JFS file system", &[b"JFS1"], &[Start(32 * KIB)]),
    kind(
        "reiserfs",
        "ReiserFS file system",
        &[b"ReIsErFs", b"ReIsEr2Fs", b"ReIsEr3Fs", b"ReIsEr4"],
        &[Start(8 * KIB + 52), Start(64 * KIB + 52), Start(64 * KIB)],
    ),
    kind("nilfs2", "NILFS2 file system", &[b"\x34\x34"], &[Start(1030)]),
    kind("gfs2", "GFS2 file system", &[b"\x01\x16\x19\x70"], &[Start(64 * KIB)]),
    kind(
        "ocfs2",
        "OCFS2 file system",
        &[b"OCFSV2"],
        &[Start(1024), Start(2048), Start(4096), Start(8192)],
    ),
    kind("erofs", "EROFS file system", &[b"\xe2\xe1\xf5\xe0"], &[Start(1024)]),
    kind("squashfs", "SquashFS file system", &[b"hsqs", b"sqsh"], &[Start(0)]),
    kind("iso9660", "ISO 9660 file system", &[b"CD001"], &[Start(32 * KIB + 1)]),
    kind("udf", "UDF file system", &[b"BEA01", b"NSR02", b"NSR03"], &[Start(32 * KIB + 1)]),
    kind("vmfs", "VMFS volume", &[b"\x0d\xd0\x01\xc0"], &[Start(MIB)]),
    // Volumes: what lies over them is somebody's, too.
    kind(
        "luks",
        "LUKS encrypted volume",
        &[b"LUKS\xba\xbe", b"SKUL\xba\xbe"],
        &[
            Start(0),
            Start(16 * KIB),
            Start(32 * KIB),
            Start(64 * KIB),
            Start(128 * KIB),
            Start(256 * KIB),
            Start(512 * KIB),
            Start(MIB),
            Start(2 * MIB),
            Start(4 * MIB),
        ],
    ),
    kind("bitlocker", "BitLocker volume", &[b"-FVE-FS-"], &[Start(3)]),
    kind(
        "lvm",
        "LVM physical volume",
        &[b"LABELONE"],
        &[Start(0), Start(512), Start(1024), Start(1536)],
    ),
    // Versions 1.1, 1.2 and 1.0, then 0.90, which is written in the order of the machine.
    kind(
        "md",
        "md RAID member",
        &[b"\xfc\x4e\x2b\xa9", b"\xa9\x2b\x4e\xfc"],
        &[Start(0), Start(4096), LastUnit(2, 4096, 0), LastUnit(1, 64 * KIB, 0)],
    ),
    kind("imsm", "Intel RAID member", &[b"Intel Raid ISM Cfg Sig. "], &[End(1024), End(8192)]),
    kind("ddf", "DDF RAID member", &[b"\xde\x11\xde\x11", b"\x11\xde\x11\xde"], &[End(512)]),
    kind(
        "bcache",
        "bcache device",
        &[b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"],
        &[Start(4120)],
    ),
    // Internal metadata ends at the last 4 KiB boundary.
    kind(
        "drbd",
        "DRBD device",
        &[b"\x83\x74\x02\x6b", b"\x83\x74\x02\x6c", b"\x83\x74\x02\x6d"],
        &[LastUnit(1, 4096, 60)],
    ),
    kind("ceph", "Ceph BlueStore device", &[b"bluestore block device"], &[Start(0)]),
    kind("stratis", "Stratis pool member", &[b"!Stra0tis\x86\xff\x02^\x41rh"], &[Start(520)]),
    kind("vdo", "VDO volume", &[b"dmvdo001"], &[Start(0)]),
    kind("integrity", "dm-integrity volume", &[b"integrt\0"], &[Start(0)]),
    kind("verity", "dm-verity hashes", &[b"verity\0\0"], &[Start(0)]),
    kind("asm", "Oracle ASM disk", &[b"ORCLDISK"], &[Start(32)]),
    // The last ten bytes of the first page; a suspended system writes its own there.
    kind(
        "swap",
        "swap space or a suspended system",
        &[b"SWAPSPACE2", b"SWAP-SPACE", b"S1SUSPEND", b"S2SUSPEND", b"ULSUSPEND", b"LINHIB0001"],
        &[
            Start(4 * KIB - 10),
            Start(8 * KIB - 10),
            Start(16 * KIB - 10),
            Start(32 * KIB - 10),
            Start(64 * KIB - 10),
        ],
    ),
    // Images of disks, written to a disk.
    kind("qcow2", "qcow2 image", &[b"QFI\xfb"], &[Start(0)]),
    kind("vmdk", "VMDK image", &[b"KDMV"], &[Start(0)]),
    kind("vhdx", "VHDX image", &[b"vhdxfile"], &[Start(0)]),
];

/// Kinds that have a search of their own.
const SEARCHED: [(&str, &str); 3] = [
    ("zfs", "ZFS pool member"),
    (UNKNOWN, "neither zero nor written by this program"),
    ("partitions", "partition that the kernel knows"),
];

/// Uberblocks of a ZFS label: from 128 KiB on, one at least every KiB.
const ZFS_LABEL_BYTES: u64 = 256 * KIB;
const ZFS_MAGIC: u64 = 0x00ba_b10c;

/// Every word that `--overwrite-signature` takes.
pub fn words() -> Vec<&'static str> {
    let mut words: Vec<_> = KINDS.iter().map(|kind| kind.kind).collect();
    words.extend(SEARCHED.iter().map(|(kind, _)| *kind));
    words.sort_unstable();
    words.dedup();
    words
}

/// Everything on a device of this size that somebody might miss: each signature with its first
/// place, then the first place of data of unknown kind. The seed chooses the samples.
///
/// # Errors
/// If the device cannot be read.
pub fn findings(size_bytes: u64, read: &ReadAt<'_>, seed: u64) -> io::Result<Vec<Finding>> {
    let mut found: Vec<Finding> = Vec::new();
    for kind in KINDS {
        if found.iter().any(|known| known.kind == kind.kind) {
            continue;
        }
        if let Some(offset) = place_of(kind, size_bytes, read)? {
            found.push(Finding { kind: kind.kind, title: kind.title, offset });
        }
    }
    let [(zfs, zfs_title), (unknown, unknown_title), _] = SEARCHED;
    if let Some(offset) = zfs_label(size_bytes, read)? {
        found.push(Finding { kind: zfs, title: zfs_title, offset });
    }
    if let Some(offset) = unknown_data(size_bytes, read, seed)? {
        found.push(Finding { kind: unknown, title: unknown_title, offset });
    }
    Ok(found)
}

/// A partition that begins here, where none of the findings is the table that would tell of it.
pub fn partition(offset: u64, findings: &[Finding]) -> Option<Finding> {
    const TABLES: [&str; 6] = ["mbr", "gpt", "apm", "bsd", "sgi", "sun"];
    let told = findings.iter().any(|finding| TABLES.contains(&finding.kind));
    let [.., (kind, title)] = SEARCHED;
    (!told).then_some(Finding { kind, title, offset })
}

fn place_of(kind: &Kind, size_bytes: u64, read: &ReadAt<'_>) -> io::Result<Option<u64>> {
    for place in kind.places {
        let Some(offset) = place.offset(size_bytes) else { continue };
        let mut bytes = [0; 32];
        let length = read(&mut bytes, offset)?.min(bytes.len());
        let stands = |magic: &&&[u8]| bytes[..length].starts_with(magic);
        let Some(magic) = kind.magics.iter().find(stands) else { continue };
        // Two bytes stand anywhere by chance, and what we write is random.
        if magic.len() >= 4 || !is_our_block(offset, read)? || is_table(kind, read)? {
            return Ok(Some(offset));
        }
    }
    Ok(None)
}

/// Whether our own marker is the first thing in the block around an offset, and before it.
fn is_our_block(offset: u64, read: &ReadAt<'_>) -> io::Result<bool> {
    let mut block = [0; BLOCK_BYTES as usize];
    let before = (offset % BLOCK_BYTES) as usize;
    let length = read(&mut block, offset - before as u64)?.min(block.len());
    // What the verifier writes has a checksum, which covers the place in question too.
    Ok(begins_ours(&block[..before.min(length)]) || begins_a_block(&block[..length]))
}

/// Whether the first sector is a partition table all the same: a partitioner keeps the first 440
/// bytes, and with them what we wrote there.
fn is_table(kind: &Kind, read: &ReadAt<'_>) -> io::Result<bool> {
    const ENTRIES: usize = 446;
    const ENTRY_BYTES: usize = 16;
    let mut table = [0; 4 * ENTRY_BYTES];
    if kind.kind != "mbr" || read(&mut table, ENTRIES as u64)? < table.len() {
        return Ok(false);
    }
    let mut entries = table.chunks_exact(ENTRY_BYTES);
    let flagged = entries.clone().all(|entry| matches!(entry[0], 0x00 | 0x80));
    // The type of an entry that is used is not zero.
    Ok(flagged && entries.any(|entry| entry[4] != 0))
}

/// Two labels stand at the beginning and two at the end.
fn zfs_label(size_bytes: u64, read: &ReadAt<'_>) -> io::Result<Option<u64>> {
    let end = LastUnit(2, ZFS_LABEL_BYTES, 0).offset(size_bytes);
    for label in [Some(0), Some(ZFS_LABEL_BYTES), end, end.map(|at| at + ZFS_LABEL_BYTES)] {
        let Some(label) = label.filter(|label| label + ZFS_LABEL_BYTES <= size_bytes) else {
            continue;
        };
        for at in (ZFS_LABEL_BYTES / 2..ZFS_LABEL_BYTES).step_by(KIB as usize) {
            let mut bytes = [0; 8];
            if read(&mut bytes, label + at)? == 8
                && [u64::from_le_bytes(bytes), u64::from_be_bytes(bytes)].contains(&ZFS_MAGIC)
            {
                return Ok(Some(label + at));
            }
        }
    }
    Ok(None)
}

/// First block, of those looked at, that is neither zero nor ours.
fn unknown_data(size_bytes: u64, read: &ReadAt<'_>, seed: u64) -> io::Result<Option<u64>> {
    let mut block = [0; BLOCK_BYTES as usize];
    for offset in places(size_bytes, seed) {
        let length = (size_bytes - offset).min(BLOCK_BYTES) as usize;
        let length = read(&mut block[..length], offset)?.min(length);
        if !is_ours_or_zero(&block[..length]) {
            return Ok(Some(offset));
        }
    }
    Ok(None)
}

/// Offsets of the blocks that are looked at: the first and last MiB, and blocks drawn between.
fn places(size_bytes: u64, seed: u64) -> Vec<u64> {
    let blocks = size_bytes.div_ceil(BLOCK_BYTES);
    let edge = EDGE_BYTES / BLOCK_BYTES;
    let (head, tail) = (edge.min(blocks), blocks.saturating_sub(edge));
    let mut chosen: Vec<u64> = (0..head).chain(tail.max(head)..blocks).collect();
    let between = tail.saturating_sub(head);
    if between <= SAMPLES {
        chosen.extend(head..head + between);
    } else {
        // One from each of equal parts: no part of the device is left out by chance.
        let mut chance = Chance::new(mix(seed));
        for part in 0..SAMPLES {
            let share = |part: u64| (u128::from(between) * u128::from(part) / 64) as u64;
            let (from, to) = (share(part), share(part + 1));
            chosen.push(head + from + chance.bits() % (to - from));
        }
    }
    chosen.sort_unstable();
    chosen.into_iter().map(|block| block * BLOCK_BYTES).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_model::content::Filler;
    use iosonde_model::plan::Job;

    const SIZE: u64 = 64 * MIB;

    /// A device that is zero but for a few pieces.
    struct Sparse {
        bytes: u64,
        pieces: Vec<(u64, Vec<u8>)>,
    }

    impl Sparse {
        fn of(bytes: u64) -> Sparse {
            Sparse { bytes, pieces: Vec::new() }
        }

        fn with(mut self, offset: u64, bytes: &[u8]) -> Sparse {
            self.pieces.push((offset, bytes.to_vec()));
            self
        }

        fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
            let length = self.bytes.saturating_sub(offset).min(buffer.len() as u64) as usize;
            buffer[..length].fill(0);
            for (start, bytes) in &self.pieces {
                let from = offset.max(*start);
                let to = (offset + length as u64).min(start + bytes.len() as u64);
                if from < to {
                    buffer[(from - offset) as usize..(to - offset) as usize]
                        .copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize]);
                }
            }
            length
        }

        fn findings(&self) -> Vec<Finding> {
            findings(self.bytes, &|buffer, offset| Ok(self.read(buffer, offset)), 7).unwrap()
        }

        fn kinds(&self) -> Vec<&'static str> {
            self.findings().iter().map(|finding| finding.kind).collect()
        }
    }

    #[test]
    fn every_signature_is_found_at_every_place() {
        // Offsets as the formats publish them, written down a second time: byte by byte and not by
        // the table above.
        let g = 1 << 30;
        let cases: &[(&str, u64, &[u8], u64)] = &[
            ("mbr", 510, &[0x55, 0xaa], SIZE),
            ("gpt", 512, b"EFI PART", SIZE),
            ("gpt", 4096, b"EFI PART", SIZE),
            ("gpt", SIZE - 512, b"EFI PART", SIZE),
            ("gpt", SIZE - 4096, b"EFI PART", SIZE),
            ("ext", 1080, &[0x53, 0xef], SIZE),
            ("xfs", 0, b"XFSB", SIZE),
            ("btrfs", 65_600, b"_BHRfS_M", SIZE),
            ("btrfs", 67_108_928, b"_BHRfS_M", g),
            ("f2fs", 1024, &0xf2f5_2010_u32.to_le_bytes(), SIZE),
            ("ntfs", 3, b"NTFS    ", SIZE),
            ("exfat", 3, b"EXFAT   ", SIZE),
            ("vfat", 82, b"FAT32   ", SIZE),
            ("vfat", 54, b"FAT16   ", SIZE),
            ("luks", 0, &[0x4c, 0x55, 0x4b, 0x53, 0xba, 0xbe, 0, 2], SIZE),
            ("luks", 0x4000, &[0x53, 0x4b, 0x55, 0x4c, 0xba, 0xbe, 0, 2], SIZE),
            ("bitlocker", 3, b"-FVE-FS-", SIZE),
            ("lvm", 0, b"LABELONE", SIZE),
            ("lvm", 512, b"LABELONE\x01\0\0\0\0\0\0\0", SIZE),
            ("lvm", 1536, b"LABELONE", SIZE),
            ("md", 0, &0xa92b_4efc_u32.to_le_bytes(), SIZE),
            ("md", 4096, &0xa92b_4efc_u32.to_le_bytes(), SIZE),
            // Version 1.0: 8 KiB before the end, rounded down to 4 KiB.
            ("md", SIZE - 8192, &0xa92b_4efc_u32.to_le_bytes(), SIZE),
            ("md", SIZE - 8192, &0xa92b_4efc_u32.to_le_bytes(), SIZE + 3584),
            // Version 0.90: the last whole 64 KiB, in the order of the machine.
            ("md", SIZE - 65_536, &0xa92b_4efc_u32.to_be_bytes(), SIZE),
            ("md", SIZE - 65_536, &0xa92b_4efc_u32.to_le_bytes(), SIZE + 40_960),
            ("imsm", SIZE - 1024, b"Intel Raid ISM Cfg Sig. 1.1.00", SIZE),
            ("ddf", SIZE - 512, &0xde11_de11_u32.to_be_bytes(), SIZE),
            ("swap", 4086, b"SWAPSPACE2", SIZE),
            ("swap", 65_526, b"SWAPSPACE2", SIZE),
            ("swap", 4086, b"S1SUSPEND\0", SIZE),
            ("zfs", 128 * 1024, &0x00ba_b10c_u64.to_le_bytes(), SIZE),
            ("zfs", 256 * 1024 + 255 * 1024, &0x00ba_b10c_u64.to_be_bytes(), SIZE),
            ("zfs", SIZE - 512 * 1024 + 131 * 1024, &0x00ba_b10c_u64.to_le_bytes(), SIZE),
            ("zfs", SIZE - 128 * 1024, &0x00ba_b10c_u64.to_le_bytes(), SIZE + 4096),
            (
                "bcache",
                4120,
                &[
                    0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48,
                    0xba, 0x6d, 0x81,
                ],
                SIZE,
            ),
            ("drbd", SIZE - 4096 + 60, &0x8374_026b_u32.to_be_bytes(), SIZE),
            ("drbd", SIZE - 4096 + 60, &0x8374_026d_u32.to_be_bytes(), SIZE + 512),
            ("ceph", 0, b"bluestore block device\n", SIZE),
            ("iso9660", 32_769, b"CD001\x01", SIZE),
            ("stratis", 520, b"!Stra0tis\x86\xff\x02^\x41rh", SIZE),
        ];
        for (kind, offset, magic, bytes) in cases {
            let found = Sparse::of(*bytes).with(*offset, magic).findings();
            let named = found.iter().find(|finding| finding.kind == *kind);
            let offset = if *kind == "zfs" { offset / 1024 * 1024 } else { *offset };
            assert_eq!(named.map(|f| f.offset), Some(offset), "{kind} at {offset}: {found:?}");
        }
    }

    #[test]
    fn a_blank_device_of_any_size_holds_nothing() {
        for bytes in [0, 512, 4096, 4608, 100_000, MIB, 2 * MIB, SIZE + 512, 15 << 40] {
            assert_eq!(Sparse::of(bytes).kinds(), [""; 0], "{bytes}");
        }
    }

    #[test]
    fn what_this_program_wrote_is_nobody_s() {
        // Random data that happens to carry the two bytes of a short signature.
        let mut block = vec![0; 4096];
        let mut filler = Filler::new(1, &Job::default());
        filler.fill(&mut block);
        filler.refresh(&mut block, 0);
        block[510..512].copy_from_slice(&[0x55, 0xaa]);
        block[1080..1082].copy_from_slice(&[0x53, 0xef]);
        assert_eq!(Sparse::of(SIZE).with(0, &block).kinds(), [""; 0]);
        // A long one does not happen.
        block[512..520].copy_from_slice(b"EFI PART");
        assert_eq!(Sparse::of(SIZE).with(0, &block).kinds(), ["gpt"]);
    }

    #[test]
    fn a_partition_table_under_our_first_bytes_is_one() {
        let mut sector = vec![0xc3; 512];
        sector[..8].copy_from_slice(&iosonde_model::content::MAGIC);
        sector[446..510].fill(0);
        sector[510..].copy_from_slice(&[0x55, 0xaa]);
        assert_eq!(Sparse::of(SIZE).with(0, &sector).kinds(), [""; 0], "no entry is used");
        sector[446 + 16 + 4] = 0x83;
        assert_eq!(Sparse::of(SIZE).with(0, &sector).kinds(), ["mbr"]);
        sector[446 + 32] = 0x17;
        assert_eq!(Sparse::of(SIZE).with(0, &sector).kinds(), [""; 0], "no such flag");
    }

    #[test]
    fn partitions_are_found_where_no_table_is() {
        let found = partition(MIB, &[]).unwrap();
        assert_eq!((found.kind, found.offset), ("partitions", MIB));
        assert!(words().contains(&found.kind));
        let table = Finding { kind: "gpt", title: "", offset: 512 };
        assert_eq!(partition(MIB, &[table]), None);
    }

    #[test]
    fn a_byte_at_either_end_is_data() {
        for offset in [0, 4095, MIB - 1, SIZE - MIB, SIZE - 1] {
            let found = Sparse::of(SIZE).with(offset, b"x").findings();
            let unknown = Finding {
                kind: UNKNOWN,
                title: "neither zero nor written by this program",
                offset: offset / 4096 * 4096,
            };
            assert_eq!(found, [unknown]);
        }
        // The last block of an odd size.
        assert_eq!(Sparse::of(SIZE + 512).with(SIZE + 511, b"x").kinds(), [UNKNOWN]);
    }

    #[test]
    fn samples_are_spread_over_the_whole_device_and_differ_by_seed() {
        let bytes = 1 << 40;
        let chosen = places(bytes, 1);
        assert_eq!(chosen.len(), 256 + 64 + 256);
        assert!(chosen.windows(2).all(|pair| pair[0] < pair[1]), "each once");
        assert!(chosen.iter().all(|at| at % 4096 == 0 && *at < bytes));
        let between =
            |from: u64, to: u64| chosen.iter().filter(|at| (from..to).contains(at)).count() as u64;
        assert_eq!(between(MIB, bytes / 2).abs_diff(32), 0);
        assert_ne!(chosen, places(bytes, 2));
        // A device that is half full of photos does not pass for blank.
        let photos = vec![7; 64 * MIB as usize];
        assert_eq!(Sparse::of(128 * MIB).with(32 * MIB, &photos).kinds(), [UNKNOWN]);
        // A small one is looked at whole.
        assert_eq!(places(2 * MIB + 10 * 4096, 1).len(), 512 + 10);
    }

    #[test]
    fn errors_of_the_device_are_errors() {
        let broken = |_: &mut [u8], _| Err(io::Error::from_raw_os_error(5));
        assert!(findings(SIZE, &broken, 1).is_err());
    }

    #[test]
    fn words_are_those_of_the_table() {
        let words = words();
        for word in ["ext", "gpt", "zfs", UNKNOWN] {
            assert!(words.contains(&word));
        }
        assert!(words.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
