//! The table of signatures and their places.
//!
//! Offsets are those of the formats' own documentation, of the kernel's headers, and for the rarer
//! ones of the probing functions of util-linux (`libblkid/src/superblocks`).

/// The place of a signature.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// This many bytes after the beginning.
    Start(u64),
    /// This many bytes before the end.
    End(u64),
    /// `(n, unit in bytes, bytes)`: this many bytes after the beginning of the n-th whole unit,
    /// counted from the last one (1).
    LastUnit(u64, u64, u64),
}

use Place::{End, LastUnit, Start};

impl Place {
    /// Offset on a device of this size; `None` if it is not within the device.
    pub(super) fn offset(self, size_bytes: u64) -> Option<u64> {
        let offset = match self {
            Start(at) => at,
            End(distance) => size_bytes.checked_sub(distance)?,
            LastUnit(back, unit, at) => (size_bytes / unit).checked_sub(back)? * unit + at,
        };
        (offset < size_bytes).then_some(offset)
    }
}

/// A kind of content with its signatures.
pub(super) struct Kind {
    pub(super) kind: &'static str,
    pub(super) title: &'static str,
    pub(super) magics: &'static [&'static [u8]],
    pub(super) places: &'static [Place],
}

const fn kind(
    kind: &'static str,
    title: &'static str,
    magics: &'static [&'static [u8]],
    places: &'static [Place],
) -> Kind {
    Kind { kind, title, magics, places }
}

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;

/// The superblock and its copies in groups 1, 3, 5, 7, 9, 25, 27 and 49 (`sparse_super`), for
/// blocks of 1, 2 and 4 KiB. A group has eight blocks per byte of a block.
const EXT_PLACES: &[Place] = &{
    const GROUPS: [u64; 8] = [1, 3, 5, 7, 9, 25, 27, 49];
    let mut places = [Start(1080); 25];
    let mut at = 0;
    while at < GROUPS.len() {
        // With blocks of 1 KiB, the first block is the boot block.
        places[3 * at + 1] = Start(GROUPS[at] * 8 * MIB + 1080);
        places[3 * at + 2] = Start(GROUPS[at] * 32 * MIB + 56);
        places[3 * at + 3] = Start(GROUPS[at] * 128 * MIB + 56);
        at += 1;
    }
    places
};
const CRAMFS_PLACES: &[Place] = &[Start(0), Start(512)];
const VXFS_PLACES: &[Place] = &[Start(KIB), Start(8 * KIB)];
const STRATIS_PLACES: &[Place] = &[Start(516), Start(520), Start(4612)];
const HPT37X_PLACES: &[Place] = &[Start(4640)];
const HPT45X_PLACES: &[Place] = &[LastUnit(11, 512, 0)];
/// Sectors before the end, by the age of the adapter.
const PROMISE_PLACES: &[Place] = &[
    LastUnit(63, 512, 0),
    LastUnit(255, 512, 0),
    LastUnit(256, 512, 0),
    LastUnit(16, 512, 0),
    LastUnit(399, 512, 0),
    LastUnit(591, 512, 0),
    LastUnit(675, 512, 0),
    LastUnit(735, 512, 0),
    LastUnit(911, 512, 0),
    LastUnit(974, 512, 0),
    LastUnit(991, 512, 0),
    LastUnit(951, 512, 0),
    LastUnit(3087, 512, 0),
];

/// All known signatures.
pub(super) const KINDS: &[Kind] = &[
    // Partition tables. The boot sectors of FAT and NTFS end in the same two bytes.
    kind("mbr", "MBR partition table or boot sector", &[b"\x55\xaa"], &[Start(510)]),
    // The backup is in the last sector, whose size is 512 bytes or 4 KiB.
    kind(
        "gpt",
        "GPT partition table",
        &[b"EFI PART"],
        &[Start(512), Start(4096), LastUnit(1, 512, 0), LastUnit(1, 4096, 0)],
    ),
    kind("apm", "Apple partition map", &[b"PM\x00\x00"], &[Start(512), Start(2048), Start(4096)]),
    kind("apm", "Apple driver map", &[b"ER\x02\x00", b"ER\x08\x00", b"ER\x10\x00"], &[Start(0)]),
    kind("aix", "AIX volume", &[b"\xc9\xc2\xd4\xc1"], &[Start(0)]),
    kind("ultrix", "Ultrix disk label", &[b"\x57\x29\x03\x00"], &[Start(16 * KIB - 72)]),
    kind("bsd", "BSD disk label", &[b"\x57\x45\x56\x82"], &[Start(0), Start(64), Start(512)]),
    kind("sgi", "SGI disk label", &[b"\x0b\xe5\xa9\x41"], &[Start(0)]),
    kind("sun", "Sun disk label", &[b"\xda\xbe"], &[Start(508)]),
    // File systems.
    kind("ext", "ext2, ext3 or ext4 file system", &[b"\x53\xef"], EXT_PLACES),
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
    // Its backup is in the last sector.
    kind("ntfs", "NTFS file system", &[b"NTFS    "], &[Start(3), LastUnit(1, 512, 3)]),
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
    kind("nilfs2", "NILFS2 file system", &[b"\x34\x34"], &[Start(1030), LastUnit(1, 4096, 6)]),
    kind(
        "minix",
        "Minix file system",
        &[
            b"\x7f\x13",
            b"\x8f\x13",
            b"\x68\x24",
            b"\x78\x24",
            b"\x13\x7f",
            b"\x13\x8f",
            b"\x24\x68",
            b"\x24\x78",
        ],
        &[Start(1040)],
    ),
    kind("minix", "Minix file system, version 3", &[b"\x5a\x4d", b"\x4d\x5a"], &[Start(1048)]),
    kind("befs", "BeOS file system", &[b"BFS1", b"1SFB"], &[Start(32), Start(544)]),
    kind("bfs", "SCO boot file system", &[b"\xce\xfa\xad\x1b"], &[Start(0)]),
    kind(
        "cramfs",
        "cramfs file system",
        &[b"\x45\x3d\xcd\x28", b"\x28\xcd\x3d\x45"],
        CRAMFS_PLACES,
    ),
    kind("romfs", "romfs file system", &[b"-rom1fs-"], &[Start(0)]),
    kind("hpfs", "HPFS file system", &[b"\x49\xe8\x95\xf9"], &[Start(8 * KIB)]),
    kind("netware", "NetWare file system", &[b"SPB5"], &[Start(4 * KIB)]),
    kind("ocfs", "Oracle cluster file system", &[b"OracleCFS"], &[Start(8)]),
    kind("exfs", "EXFS file system", &[b"EXFS"], &[Start(0)]),
    kind("vxfs", "Veritas file system", &[b"\xf5\xfc\x01\xa5", b"\xa5\x01\xfc\xf5"], VXFS_PLACES),
    kind("zonefs", "zonefs file system", &[b"SFOZ"], &[Start(0)]),
    kind("ubi", "UBI volume", &[b"UBI#"], &[Start(0)]),
    kind("ubifs", "UBIFS file system", &[b"\x31\x18\x10\x06"], &[Start(0)]),
    kind(
        "sysv",
        "System V file system",
        &[b"\x20\x7e\x18\xfd", b"\xfd\x18\x7e\x20"],
        &[Start(1016), Start(9 * KIB + 1016), Start(15 * KIB + 1016), Start(18 * KIB + 1016)],
    ),
    kind("sysv", "Xenix file system", &[b"\x44\x55\x2b\x00", b"\x00\x2b\x55\x44"], &[Start(2040)]),
    kind(
        "ufs",
        "UFS file system",
        &[
            b"\x54\x19\x01\x00",
            b"\x00\x01\x19\x54",
            b"\x19\x01\x54\x19",
            b"\x19\x54\x01\x19",
            b"\x14\x50\x09\x00",
            b"\x00\x09\x50\x14",
            b"\x12\x56\x19\x00",
            b"\x00\x19\x56\x12",
            b"\x95\x21\x61\x00",
            b"\x00\x61\x21\x95",
            b"\x94\x19\x23\x05",
            b"\x05\x23\x19\x94",
        ],
        &[Start(1372), Start(8 * KIB + 1372), Start(64 * KIB + 1372), Start(256 * KIB + 1372)],
    ),
    kind("gfs2", "GFS2 file system", &[b"\x01\x16\x19\x70"], &[Start(64 * KIB)]),
    kind(
        "ocfs2",
        "OCFS2 file system",
        &[b"OCFSV2"],
        &[Start(1024), Start(2048), Start(4096), Start(8192)],
    ),
    kind("erofs", "EROFS file system", &[b"\xe2\xe1\xf5\xe0"], &[Start(1024)]),
    kind("squashfs", "SquashFS file system", &[b"hsqs", b"sqsh", b"qshs"], &[Start(0)]),
    kind("iso9660", "ISO 9660 file system", &[b"CD001"], &[Start(32 * KIB + 1)]),
    kind("iso9660", "High Sierra file system", &[b"CDROM"], &[Start(32 * KIB + 9)]),
    kind(
        "udf",
        "UDF file system",
        &[b"BEA01", b"NSR02", b"NSR03", b"BOOT2", b"CDW02", b"TEA01"],
        &[Start(32 * KIB + 1), Start(34 * KIB + 1), Start(36 * KIB + 1), Start(38 * KIB + 1)],
    ),
    kind("vmfs", "VMFS volume", &[b"\x0d\xd0\x01\xc0"], &[Start(MIB)]),
    kind("vmfs", "VMFS file system", &[b"\x5e\xf1\xab\x2f"], &[Start(2 * MIB)]),
    // Volumes, whose content may be data.
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
    kind("lvm", "LVM1 physical volume", &[b"HM\x01\x00", b"HM\x02\x00"], &[Start(0)]),
    kind("snapshot", "dm-snapshot store", &[b"SnAp"], &[Start(0)]),
    // Versions 1.1, 1.2 and 1.0, then 0.90, which is in the machine's byte order.
    kind(
        "md",
        "md RAID member",
        &[b"\xfc\x4e\x2b\xa9", b"\xa9\x2b\x4e\xfc"],
        &[Start(0), Start(4096), LastUnit(2, 4096, 0), LastUnit(1, 64 * KIB, 0)],
    ),
    kind("imsm", "Intel RAID member", &[b"Intel Raid ISM Cfg Sig. "], &[End(1024), End(8192)]),
    kind("ddf", "DDF RAID member", &[b"\xde\x11\xde\x11", b"\x11\xde\x11\xde"], &[End(512)]),
    // RAID adapters: metadata at the end of the disk, which the adapter hides from the system.
    kind("raid", "Adaptec RAID member", &[b"\x37\xfc\x4d\x1e"], &[LastUnit(1, 512, 0)]),
    kind(
        "raid",
        "HighPoint RAID member",
        &[b"\xf0\x16\x7a\x5a", b"\xfd\x16\x7a\x5a"],
        HPT37X_PLACES,
    ),
    kind(
        "raid",
        "HighPoint RAID member",
        &[b"\xf3\x16\x78\x5a", b"\xfd\x16\x78\x5a"],
        HPT45X_PLACES,
    ),
    kind("raid", "JMicron RAID member", &[b"JM"], &[LastUnit(1, 512, 0)]),
    kind("raid", "LSI RAID member", &[b"$XIDE$"], &[LastUnit(1, 512, 0)]),
    kind("raid", "NVIDIA RAID member", &[b"NVIDIA"], &[LastUnit(2, 512, 0)]),
    kind("raid", "Promise RAID member", &[b"Promise Technology, Inc."], PROMISE_PLACES),
    kind("raid", "Silicon Image RAID member", &[b"\x00\x00\x00\x2f"], &[LastUnit(1, 512, 96)]),
    kind("raid", "VIA RAID member", &[b"\x55\xaa"], &[LastUnit(1, 512, 0)]),
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
    kind("stratis", "Stratis pool member", &[b"!Stra0tis\x86\xff\x02^\x41rh"], STRATIS_PLACES),
    kind("vdo", "VDO volume", &[b"dmvdo001"], &[Start(0)]),
    kind("integrity", "dm-integrity volume", &[b"integrt\0"], &[Start(0)]),
    kind("verity", "dm-verity hashes", &[b"verity\0\0"], &[Start(0)]),
    kind("asm", "Oracle ASM disk", &[b"ORCLDISK"], &[Start(32)]),
    // The last ten bytes of the first page; a suspended system writes its own there.
    kind(
        "swap",
        "swap space or a suspended system",
        &[
            b"SWAPSPACE2",
            b"SWAP-SPACE",
            b"S1SUSPEND",
            b"S2SUSPEND",
            b"ULSUSPEND",
            b"LINHIB0001",
            b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c",
        ],
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
