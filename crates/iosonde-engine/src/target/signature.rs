//! Finds the formats on a device or in a file, by signatures at their places and by copies of
//! superblocks anywhere.
//!
//! Reads only through a function that the caller passes. It looks for every copy of a superblock,
//! since the first may be gone. [`super::contents`] decides how much else is read.

mod kinds;

use std::fmt;
use std::io;

use iosonde_model::content::is_ours_or_zero;

use self::kinds::{KIB, KINDS, Kind, Place};

/// Reads at an offset in bytes, as much as there is. Returns the number of bytes read.
pub type ReadAt<'a> = dyn Fn(&mut [u8], u64) -> io::Result<usize> + 'a;

/// The word for data without a known signature.
pub const UNKNOWN: &str = "unknown-data";

/// Size of the block around a short signature that is read to see whether it is ours, bytes.
const BLOCK_BYTES: u64 = 4096;

/// Data on a device that a write would destroy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// The word that `--overwrite-signature` takes.
    pub kind: &'static str,
    /// Its description.
    pub title: &'static str,
    /// Where it was found, bytes.
    pub offset: u64,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} at offset {})", self.kind, self.title, self.offset)
    }
}

/// Kinds that are not in the table of signatures.
const SEARCHED: [(&str, &str); 3] = [
    ("zfs", "ZFS pool member"),
    (UNKNOWN, "neither zero nor written by this program"),
    ("partitions", "partition that the kernel knows"),
];

/// Size of a ZFS label, bytes. Its uberblocks begin at its middle, at multiples of 1 KiB.
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

/// Every signature at its place, and the labels of ZFS.
///
/// # Errors
/// If the device cannot be read.
pub fn marks(size_bytes: u64, read: &ReadAt<'_>) -> io::Result<Vec<Finding>> {
    let mut found: Vec<Finding> = Vec::new();
    for kind in KINDS {
        for place in kind.places {
            let Some(offset) = place.offset(size_bytes) else { continue };
            let known = |finding: &Finding| (finding.kind, finding.offset) == (kind.kind, offset);
            if !found.iter().any(known) && stands_at(kind, offset, read)? {
                found.push(Finding { kind: kind.kind, title: kind.title, offset });
            }
        }
    }
    let [(zfs, title), ..] = SEARCHED;
    found.extend(zfs_labels(size_bytes, read)?.map(|offset| Finding { kind: zfs, title, offset }));
    Ok(found)
}

/// The places of all signatures on a device of this size.
pub fn places(size_bytes: u64) -> impl Iterator<Item = u64> {
    let places = KINDS.iter().flat_map(|kind| kind.places);
    places.filter_map(move |place| place.offset(size_bytes))
}

/// The finding for a block at this offset that is neither zero nor written by this program.
pub fn unknown(offset: u64) -> Finding {
    let [_, (kind, title), _] = SEARCHED;
    Finding { kind, title, offset }
}

/// Headers and copies of superblocks that begin in this sector of 512 bytes at this offset. Their
/// places depend on the geometry of the volume, which is unknown once the first copy is gone.
pub fn copies(sector: &[u8], offset: u64) -> impl Iterator<Item = Finding> {
    /// Kind, title, bytes, and where in the sector.
    const COPIES: [(&str, &str, &[u8], usize); 11] = [
        ("xfs", "XFS superblock", b"XFSB", 0),
        ("xfs", "XFS allocation group", b"XAGF\0\0\0\x01", 0),
        ("xfs", "XFS allocation group", b"XAGI\0\0\0\x01", 0),
        ("btrfs", "Btrfs superblock", b"_BHRfS_M", 64),
        ("gpt", "GPT header", b"EFI PART\0\0\x01\0", 0),
        ("ntfs", "NTFS boot sector", b"NTFS    ", 3),
        ("exfat", "exFAT boot sector", b"EXFAT   ", 3),
        ("vfat", "FAT32 boot sector", b"FAT32   ", 82),
        ("luks", "LUKS header", b"LUKS\xba\xbe", 0),
        ("luks", "LUKS header", b"SKUL\xba\xbe", 0),
        ("lvm", "LVM label", b"LABELONE", 0),
    ];
    let there = move |(_, _, magic, at): &(_, _, &[u8], usize)| {
        sector.get(*at..).is_some_and(|bytes| bytes.starts_with(magic))
    };
    let found = COPIES.into_iter().filter(there);
    found.map(move |(kind, title, _, at)| Finding { kind, title, offset: offset + at as u64 })
}

/// The finding for a partition at this offset, unless a partition table was found.
pub fn partition(offset: u64, findings: &[Finding]) -> Option<Finding> {
    const TABLES: [&str; 6] = ["mbr", "gpt", "apm", "bsd", "sgi", "sun"];
    let reported = findings.iter().any(|finding| TABLES.contains(&finding.kind));
    let [.., (kind, title)] = SEARCHED;
    (!reported).then_some(Finding { kind, title, offset })
}

fn stands_at(kind: &Kind, offset: u64, read: &ReadAt<'_>) -> io::Result<bool> {
    let mut bytes = [0; 32];
    let length = read(&mut bytes, offset)?.min(bytes.len());
    let stands = |magic: &&&[u8]| bytes[..length].starts_with(magic);
    let Some(magic) = kind.magics.iter().find(stands) else { return Ok(false) };
    // Two bytes can match by chance, and this program writes random data.
    Ok(magic.len() >= 4 || !is_our_block(offset, read)?)
}

/// Whether the whole block around an offset was written by this program, or is zero.
fn is_our_block(offset: u64, read: &ReadAt<'_>) -> io::Result<bool> {
    let mut block = [0; BLOCK_BYTES as usize];
    let length = read(&mut block, offset / BLOCK_BYTES * BLOCK_BYTES)?.min(block.len());
    Ok(is_ours_or_zero(&block[..length]))
}

/// Offset of the first uberblock in each ZFS label: two labels at the beginning, two at the end.
fn zfs_labels(size_bytes: u64, read: &ReadAt<'_>) -> io::Result<impl Iterator<Item = u64> + use<>> {
    let end = Place::LastUnit(2, ZFS_LABEL_BYTES, 0).offset(size_bytes);
    let mut found = Vec::new();
    for label in [Some(0), Some(ZFS_LABEL_BYTES), end, end.map(|at| at + ZFS_LABEL_BYTES)] {
        let Some(label) = label.filter(|label| label + ZFS_LABEL_BYTES <= size_bytes) else {
            continue;
        };
        for at in (ZFS_LABEL_BYTES / 2..ZFS_LABEL_BYTES).step_by(KIB as usize) {
            let mut bytes = [0; 8];
            if read(&mut bytes, label + at)? == 8
                && [u64::from_le_bytes(bytes), u64::from_be_bytes(bytes)].contains(&ZFS_MAGIC)
            {
                found.push(label + at);
                break;
            }
        }
    }
    Ok(found.into_iter())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use iosonde_model::content::Filler;
    use iosonde_model::plan::Job;

    use super::*;
    use crate::target::contents::{Contents, Inspection, inspect};

    const MIB: u64 = 1 << 20;

    const SIZE: u64 = 64 * MIB;

    /// A device that is zero except for a few pieces.
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

        fn contents(&self) -> Contents {
            let read = |buffer: &mut [u8], offset| Ok(self.read(buffer, offset));
            inspect(self.bytes, &[], &read, 7, Inspection::default().brief()).unwrap()
        }

        fn findings(&self) -> Vec<Finding> {
            self.contents().findings()
        }

        fn kinds(&self) -> Vec<&'static str> {
            self.findings().iter().map(|finding| finding.kind).collect()
        }
    }

    #[test]
    fn every_signature_is_found_at_every_place() {
        // Offsets from the formats' documentation, written independently of the table.
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
            // Version 0.90: the last whole 64 KiB, in the machine's byte order.
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
            let offset = if *kind == "zfs" { offset / 1024 * 1024 } else { *offset };
            let named = |finding: &&Finding| (finding.kind, finding.offset) == (*kind, offset);
            assert!(found.iter().any(|finding| named(&finding)), "{kind} at {offset}: {found:?}");
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
        // A block that happens to contain the two bytes of a short signature.
        let with_mark = (0..1_000_000).map(ours).find(|block| block[510..512] == *b"\x55\xaa");
        let mut block = with_mark.unwrap();
        assert_eq!(Sparse::of(SIZE).with(0, &block).kinds(), [""; 0]);
        block[4000] ^= 1;
        assert_eq!(Sparse::of(SIZE).with(0, &block).kinds(), ["mbr", UNKNOWN], "not all of it");
    }

    /// A block that a job writes.
    fn ours(run: u64) -> Vec<u8> {
        let mut block = vec![0; 4096];
        Filler::new(run, &Job::default()).refresh(&mut block, 0);
        block
    }

    #[test]
    fn a_partition_table_under_our_first_bytes_is_one() {
        // A partitioner keeps the first 440 bytes.
        let mut sector = ours(1);
        sector[440..510].fill(0);
        sector[510..512].copy_from_slice(&[0x55, 0xaa]);
        sector[446 + 16 + 4] = 0x83;
        assert_eq!(Sparse::of(SIZE).with(0, &sector).kinds(), ["mbr", UNKNOWN]);
    }

    #[test]
    fn copies_of_superblocks_are_named_wherever_they_are() {
        let ag = Sparse::of(SIZE).with(7 * MIB + 8192 + 512, b"XAGF\0\0\0\x01");
        assert_eq!(ag.kinds(), [""; 0], "not where a brief inspection reads");
        let read = |buffer: &mut [u8], offset| Ok(ag.read(buffer, offset));
        let all = inspect(SIZE, &[], &read, 7, Inspection::default()).unwrap();
        let kinds: Vec<&str> = all.findings().iter().map(|finding| finding.kind).collect();
        assert_eq!(kinds, ["xfs", UNKNOWN]);
        assert_eq!(all.marks[0].offset, 7 * MIB + 8192 + 512);
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
    fn errors_of_the_device_are_errors() {
        let broken = |_: &mut [u8], _| Err(io::Error::from_raw_os_error(5));
        assert!(marks(SIZE, &broken).is_err());
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
