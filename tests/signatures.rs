//! Every signature that `wipefs` detects is detected. Images are made by the real programs, intact
//! and with their first superblock zeroed; formats whose program is not packaged are made from
//! published bytes. `docs/safety.md` lists further detections. This test compares the list with its
//! findings; `IOSONDE_WRITE_DOCS=1` writes it.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stderr, reason = "a test that cannot run here says why")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use iosonde_engine::target::Inspection;
use iosonde_engine::target::contents::{Contents, inspect};
use serde_json::Value;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// How an image is made.
enum Made {
    /// By this command line: `{}` is the image, `{d}` a directory with a file, `{k}` a key file.
    By(&'static str),
    /// From these bytes at these offsets, given the size of the image.
    From(fn(u64) -> Vec<(u64, Vec<u8>)>),
}

use Made::{By, From};
use iosonde_rig::skip;

/// An image, the ranges zeroed afterwards, and the kind that must be detected.
struct Image {
    name: &'static str,
    mib: u64,
    made: Made,
    zeroed: &'static [(u64, u64)],
    kind: &'static str,
}

const fn image(name: &'static str, mib: u64, made: Made, kind: &'static str) -> Image {
    Image { name, mib, made, zeroed: &[], kind }
}

const fn damaged(
    name: &'static str,
    mib: u64,
    made: Made,
    zeroed: &'static [(u64, u64)],
    kind: &'static str,
) -> Image {
    Image { name, mib, made, zeroed, kind }
}

const FIRST_MIB: &[(u64, u64)] = &[(0, MIB)];

const IMAGES: &[Image] = &[
    image("ext2, 1 KiB blocks", 64, By("mkfs.ext2 -qF -b 1024 {}"), "ext"),
    image("ext3", 64, By("mkfs.ext3 -qF {}"), "ext"),
    image("ext4", 256, By("mkfs.ext4 -qF {}"), "ext"),
    damaged("ext2, backups only", 64, By("mkfs.ext2 -qF -b 1024 {}"), FIRST_MIB, "ext"),
    damaged(
        "ext4, 2 KiB blocks, backups only",
        64,
        By("mkfs.ext4 -qF -b 2048 {}"),
        FIRST_MIB,
        "ext",
    ),
    damaged("ext4, backups only", 256, By("mkfs.ext4 -qF -b 4096 {}"), FIRST_MIB, "ext"),
    image("XFS", 320, By("mkfs.xfs -qf {}"), "xfs"),
    damaged("XFS, allocation groups only", 320, By("mkfs.xfs -qf {}"), FIRST_MIB, "xfs"),
    image("Btrfs", 256, By("mkfs.btrfs -qf {}"), "btrfs"),
    damaged("Btrfs, mirror only", 256, By("mkfs.btrfs -qf {}"), FIRST_MIB, "btrfs"),
    image("F2FS", 64, By("mkfs.f2fs -qf {}"), "f2fs"),
    damaged("F2FS, second superblock", 64, By("mkfs.f2fs -qf {}"), &[(0, 4 * KIB)], "f2fs"),
    image("exFAT", 16, By("mkfs.exfat {}"), "exfat"),
    damaged("exFAT, backup boot sector", 16, By("mkfs.exfat {}"), &[(0, 6 * KIB)], "exfat"),
    image("NTFS", 16, By("mkfs.ntfs -qQF {}"), "ntfs"),
    damaged("NTFS, backup boot sector", 16, By("mkfs.ntfs -qQF {}"), &[(0, 4 * KIB)], "ntfs"),
    image("FAT12", 2, By("mkfs.vfat -F 12 {}"), "vfat"),
    image("FAT16", 16, By("mkfs.vfat -F 16 {}"), "vfat"),
    image("FAT32", 64, By("mkfs.vfat -F 32 {}"), "vfat"),
    damaged("FAT32, backup boot sector", 64, By("mkfs.vfat -F 32 {}"), &[(0, KIB)], "vfat"),
    image("JFS", 32, By("mkfs.jfs -q {}"), "jfs"),
    image("NILFS2", 160, By("mkfs.nilfs2 -q {}"), "nilfs2"),
    damaged("NILFS2, second superblock", 160, By("mkfs.nilfs2 -q {}"), FIRST_MIB, "nilfs2"),
    image("ReiserFS", 64, By("mkfs.reiserfs -qff {}"), "reiserfs"),
    image("Reiser4", 64, By("mkfs.reiser4 -fffy {}"), "reiserfs"),
    image("Minix", 8, By("mkfs.minix {}"), "minix"),
    image("Minix 3", 8, By("mkfs.minix -3 {}"), "minix"),
    image("SCO bfs", 1, By("mkfs.bfs {}"), "bfs"),
    image("UDF", 16, By("mkfs.udf {}"), "udf"),
    image("GFS2", 160, By("mkfs.gfs2 -q -O -p lock_nolock {}"), "gfs2"),
    image("OCFS2", 300, By("mkfs.ocfs2 -q -x -M local -F {}"), "ocfs2"),
    image("SquashFS", 0, By("mksquashfs {d} {} -quiet -no-progress -noappend"), "squashfs"),
    image("ISO 9660", 0, By("genisoimage -quiet -o {} {d}"), "iso9660"),
    image("cramfs", 0, By("mkfs.cramfs {d} {}"), "cramfs"),
    image("EROFS", 0, By("mkfs.erofs {} {d}"), "erofs"),
    image("swap", 16, By("mkswap -q {}"), "swap"),
    image("bcache, backing device", 64, By("make-bcache -B {}"), "bcache"),
    image("bcache, cache", 64, By("make-bcache -C {}"), "bcache"),
    image(
        "LUKS1",
        32,
        By("cryptsetup luksFormat --type luks1 -q --pbkdf-force-iterations 1000 {} {k}"),
        "luks",
    ),
    image(
        "LUKS2",
        32,
        By("cryptsetup luksFormat --type luks2 -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 \
            {} {k}"),
        "luks",
    ),
    damaged(
        "LUKS2, second header",
        32,
        By("cryptsetup luksFormat --type luks2 -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 \
            {} {k}"),
        &[(0, 16 * KIB)],
        "luks",
    ),
    image("GPT", 16, By("sgdisk --clear {}"), "gpt"),
    damaged("GPT, backup only", 16, By("sgdisk --clear {}"), &[(0, 17 * KIB)], "gpt"),
    image("MBR", 16, From(|_| vec![(446, mbr_entry()), (510, b"\x55\xaa".to_vec())]), "mbr"),
    image("LVM2 physical volume", 16, From(lvm2), "lvm"),
    image("md 0.90", 16, From(md_0_90), "md"),
    image("md 1.0", 16, From(|size| md_1((size / 512 - 16) / 8 * 8)), "md"),
    image("md 1.1", 16, From(|_| md_1(0)), "md"),
    image("md 1.2", 16, From(|_| md_1(8)), "md"),
    image(
        "ZFS, all labels",
        64,
        From(|size| zfs(&[0, 256 * KIB, size - 512 * KIB, size - 256 * KIB])),
        "zfs",
    ),
    image("ZFS, last label", 64, From(|size| zfs(&[size - 256 * KIB])), "zfs"),
    image("VMFS volume member", 16, From(|_| vec![(MIB, b"\x0d\xd0\x01\xc0".to_vec())]), "vmfs"),
    image("VMFS", 16, From(|_| vec![(2 * MIB, b"\x5e\xf1\xab\x2f".to_vec())]), "vmfs"),
    image("HFS+", 16, From(|_| vec![(1024, hfs_plus())]), "hfs"),
    image(
        "Intel RAID",
        16,
        From(|size| vec![(size - 1024, b"Intel Raid ISM Cfg Sig. 1.1.00".to_vec())]),
        "imsm",
    ),
    image("DDF", 16, From(|size| vec![(size - 512, b"\xde\x11\xde\x11".to_vec())]), "ddf"),
    image("BlueStore", 16, From(|_| vec![(0, b"bluestore block device".to_vec())]), "ceph"),
    image("romfs", 1, From(|_| vec![(0, b"-rom1fs-\0\0\x02\0".to_vec())]), "romfs"),
    image("UBI", 1, From(|_| vec![(0, b"UBI#\x01".to_vec())]), "ubi"),
    image("BeOS", 1, From(|_| vec![(544, b"BFS1".to_vec())]), "befs"),
    image(
        "HPFS",
        1,
        From(|_| vec![(8 * KIB, b"\x49\xe8\x95\xf9\xc5\xe9\x53\xfa".to_vec())]),
        "hpfs",
    ),
    image("UFS2", 1, From(|_| vec![(64 * KIB + 1372, b"\x19\x01\x54\x19".to_vec())]), "ufs"),
    image("Veritas", 1, From(|_| vec![(KIB, b"\xf5\xfc\x01\xa5".to_vec())]), "vxfs"),
    image("suspended system", 1, From(|_| vec![(4 * KIB - 10, b"S1SUSPEND\0".to_vec())]), "swap"),
    image("dm-snapshot store", 1, From(|_| vec![(0, b"SnAp\x01\0\0\0".to_vec())]), "snapshot"),
    image("dm-verity", 1, From(|_| vec![(0, b"verity\0\0\x01\0\0\0".to_vec())]), "verity"),
    image("dm-integrity", 1, From(|_| vec![(0, b"integrt\0\x01".to_vec())]), "integrity"),
];

/// A Linux partition that starts at sector 2048.
fn mbr_entry() -> Vec<u8> {
    let mut entry = vec![0; 16];
    entry[4] = 0x83;
    entry[8..12].copy_from_slice(&2048_u32.to_le_bytes());
    entry[12..16].copy_from_slice(&16_384_u32.to_le_bytes());
    entry
}

/// `lvm2`, `lib/format_text/layout.h`: label, sector, checksum, offset, type, and the identity of
/// the volume. The checksum is CRC-32 with the initial value 0xf597a6cf, not inverted.
fn lvm2(size: u64) -> Vec<(u64, Vec<u8>)> {
    let mut label = vec![0; 512];
    label[..8].copy_from_slice(b"LABELONE");
    label[8..16].copy_from_slice(&1_u64.to_le_bytes());
    label[20..24].copy_from_slice(&32_u32.to_le_bytes());
    label[24..32].copy_from_slice(b"LVM2 001");
    label[32..64].copy_from_slice(b"Zq4v0nXfm2sYkQeT7uWb1cRj9aLhPdgE");
    label[64..72].copy_from_slice(&size.to_le_bytes());
    let mut crc = 0xf597_a6cf_u32;
    for byte in &label[20..] {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    label[16..20].copy_from_slice(&crc.to_le_bytes());
    vec![(512, label)]
}

/// `linux/raid/md_p.h`, `mdp_super_t`.
fn md_0_90(size: u64) -> Vec<(u64, Vec<u8>)> {
    let mut block = vec![0; 4096];
    for (word, value) in [(0, 0xa92b_4efc_u32), (2, 90), (5, 0x1234_5678), (9, 2), (10, 2)] {
        block[word * 4..word * 4 + 4].copy_from_slice(&value.to_le_bytes());
    }
    let words = block.as_chunks::<4>().0.iter().map(|word| u64::from(u32::from_le_bytes(*word)));
    let sum: u64 = words.sum();
    let folded = (sum as u32).wrapping_add((sum >> 32) as u32);
    block[38 * 4..39 * 4].copy_from_slice(&folded.to_le_bytes());
    vec![(size / (64 * KIB) * (64 * KIB) - 64 * KIB, block)]
}

/// `linux/raid/md_p.h`, `struct mdp_superblock_1`, at this sector.
fn md_1(sector: u64) -> Vec<(u64, Vec<u8>)> {
    let mut block = vec![0; 256];
    block[..4].copy_from_slice(&0xa92b_4efc_u32.to_le_bytes());
    block[4..8].copy_from_slice(&1_u32.to_le_bytes());
    block[16..32].fill(0xab);
    block[144..152].copy_from_slice(&sector.to_le_bytes());
    let words = block.as_chunks::<4>().0.iter().map(|word| u64::from(u32::from_le_bytes(*word)));
    let sum: u64 = words.sum();
    let folded = (sum as u32).wrapping_add((sum >> 32) as u32);
    block[216..220].copy_from_slice(&folded.to_le_bytes());
    vec![(sector * 512, block)]
}

/// The ZFS on-disk specification, chapter 1: the second half of a label is an array of uberblocks.
fn zfs(labels: &[u64]) -> Vec<(u64, Vec<u8>)> {
    let mut uberblock = vec![0; 40];
    uberblock[..8].copy_from_slice(&0x00ba_b10c_u64.to_le_bytes());
    uberblock[8..16].copy_from_slice(&5000_u64.to_le_bytes());
    let uberblocks = |label: &u64| -> Vec<(u64, Vec<u8>)> {
        (0..128).map(|nth| (label + 128 * KIB + nth * KIB, uberblock.clone())).collect()
    };
    labels.iter().flat_map(uberblocks).collect()
}

/// Apple's technical note 1150: volume header of version 4 with blocks of 4 KiB.
fn hfs_plus() -> Vec<u8> {
    let mut header = vec![0; 512];
    header[..4].copy_from_slice(b"H+\0\x04");
    header[40..44].copy_from_slice(&4096_u32.to_be_bytes());
    header[44..48].copy_from_slice(&4096_u32.to_be_bytes());
    header
}

/// Our name for a type of `wipefs`.
fn our_word(theirs: &str) -> &str {
    match theirs {
        "ext2" | "ext3" | "ext4" | "ext4dev" | "jbd" => "ext",
        "dos" | "PMBR" => "mbr",
        "mac" => "apm",
        "crypto_LUKS" => "luks",
        "LVM2_member" | "LVM1_member" => "lvm",
        "linux_raid_member" => "md",
        "isw_raid_member" => "imsm",
        "ddf_raid_member" => "ddf",
        "zfs_member" => "zfs",
        "VMFS_volume_member" | "VMFS" => "vmfs",
        "hfsplus" => "hfs",
        "reiser4" => "reiserfs",
        "swsuspend" => "swap",
        "ceph_bluestore" => "ceph",
        "DM_snapshot_cow" => "snapshot",
        "DM_verity_hash" => "verity",
        "DM_integrity" => "integrity",
        "squashfs3" => "squashfs",
        other => other,
    }
}

/// Makes an image; `Err` with the reason if that is impossible.
fn make(image: &Image, path: &Path, dir: &Path) -> Result<(), String> {
    let size = image.mib * MIB;
    if size > 0 {
        File::create(path).unwrap().set_len(size).unwrap();
    }
    match &image.made {
        From(pieces) => {
            let file = File::options().write(true).open(path).unwrap();
            pieces(size).iter().for_each(|(at, bytes)| file.write_all_at(bytes, *at).unwrap());
        }
        By(line) => {
            let word = |word: &str| match word {
                "{}" => path.into(),
                "{d}" => dir.join("files"),
                "{k}" => dir.join("files/key"),
                word => word.into(),
            };
            let mut words = line.split_whitespace();
            let program = words.next().unwrap();
            let output = Command::new(program)
                .args(words.map(word))
                .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
                .stdin(Stdio::null())
                .output()
                .map_err(|error| format!("{program}: {error}"))?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(format!("{program}: {said}"));
            }
        }
    }
    let file = File::options().write(true).open(path).unwrap();
    for (at, length) in image.zeroed {
        file.write_all_at(&vec![0; *length as usize], *at).unwrap();
    }
    Ok(())
}

/// Type and offset of each signature that `wipefs` reports.
fn theirs(path: &Path) -> Result<Vec<(String, u64)>, String> {
    let output = Command::new("wipefs")
        .args(["--no-act", "--json"])
        .arg(path)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .map_err(|error| format!("wipefs: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let json: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let rows = json["signatures"].as_array().cloned().unwrap_or_default();
    let row = |row: &Value| {
        let offset = row["offset"].as_str().unwrap().trim_start_matches("0x");
        (row["type"].as_str().unwrap().to_owned(), u64::from_str_radix(offset, 16).unwrap())
    };
    Ok(rows.iter().map(row).collect())
}

/// Type of the content and of the partition table, as reported by `blkid -p`.
fn probed(path: &Path) -> Vec<String> {
    let output = Command::new("blkid")
        .args(["-p", "-o", "value", "-s", "TYPE", "-s", "PTTYPE"])
        .arg(path)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).split_whitespace().map(str::to_owned).collect()
}

fn ours(path: &Path) -> Contents {
    let file = File::open(path).unwrap();
    let size = file.metadata().unwrap().len();
    let read = |buffer: &mut [u8], offset| file.read_at(buffer, offset);
    inspect(size, &[], &read, 1, Inspection::default()).unwrap()
}

/// One line of the list in the documentation.
fn row(image: &Image, theirs: &[(String, u64)], contents: &Contents) -> String {
    let theirs = list(theirs.iter().map(|(kind, at)| (&**kind, *at)));
    let ours = list(contents.marks.iter().map(|mark| (mark.kind, mark.offset)));
    format!("| {} | {theirs} | {ours} |", image.name)
}

/// The first items with their offsets, and the number of further ones.
fn list<'a>(all: impl ExactSizeIterator<Item = (&'a str, u64)>) -> String {
    const SHOWN: usize = 6;
    let more = all.len().saturating_sub(SHOWN);
    let mut words: Vec<String> = all.take(SHOWN).map(|(kind, at)| format!("{kind} {at}")).collect();
    match (words.is_empty(), more) {
        (true, _) => return "nothing".into(),
        (false, 0) => {}
        (false, more) => words.push(format!("and {more} more")),
    }
    words.join(", ")
}

/// The part of a line that is the same in every run: the image, and the kinds that `wipefs`
/// reports. Random identifiers sometimes look like a mark of two bytes, and program versions place
/// copies differently.
fn lasting(row: &str) -> (&str, BTreeSet<&str>) {
    let mut columns = row.trim_matches(['|', ' ']).split(" | ");
    let name = columns.next().unwrap_or_default();
    let theirs = columns.next().unwrap_or_default().split(", ");
    (name, theirs.filter_map(|each| each.split(' ').next()).collect())
}

#[test]
fn whatever_wipefs_and_blkid_see_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("files")).unwrap();
    fs::write(dir.path().join("files/key"), [0x5a; 64]).unwrap();
    if let Err(reason) = theirs(dir.path().join("files/key").as_path()) {
        return skip(reason);
    }
    let mut rows = BTreeMap::new();
    let (mut faults, mut same, mut beyond) = (Vec::new(), 0, 0);
    for (nth, image) in IMAGES.iter().enumerate() {
        let path = dir.path().join(format!("{nth}.img"));
        if let Err(reason) = make(image, &path, dir.path()) {
            skip(format!("{}: {reason}", image.name));
            continue;
        }
        let theirs = theirs(&path).unwrap();
        let contents = ours(&path);
        let marks = &contents.marks;
        let is_seen = |word: &str| marks.iter().any(|mark| mark.kind == word);
        if !is_seen(image.kind) {
            faults.push(format!("{}: {} is not found: {marks:?}", image.name, image.kind));
        }
        for (kind, offset) in &theirs {
            // The jump at the start of a FAT boot sector is not a mark of its own. An array of
            // uberblocks is represented by its first one. For an LVM label wipefs reports the
            // offset of its type, 24 bytes into the label.
            let label = offset - if kind == "LVM2_member" { 24 } else { 0 };
            let at_place = marks.iter().any(|mark| mark.offset == label)
                || (kind == "vfat" && *offset == 0)
                || kind == "zfs_member";
            if !is_seen(our_word(kind)) || !at_place {
                faults.push(format!("{}: wipefs sees {kind} at {offset}", image.name));
            }
            same += 1;
        }
        for kind in probed(&path).iter().filter(|kind| !is_seen(our_word(kind))) {
            faults.push(format!("{}: blkid sees {kind}", image.name));
        }
        if contents.foreign.is_none() {
            faults.push(format!("{}: no data is found", image.name));
        }
        beyond += usize::from(theirs.is_empty());
        rows.insert(nth, row(image, &theirs, &contents));
        fs::remove_file(path).unwrap();
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(same > 0, "wipefs sees nothing at all");
    let totals = format!(
        "{} images. Each of the {same} signatures that `wipefs` sees is seen; in {beyond} images \
         it sees none.",
        rows.len(),
    );
    eprintln!("{totals}");
    documented(&totals, rows.into_values().collect());
}

/// The list in the documentation equals the findings of this test.
fn documented(totals: &str, rows: Vec<String>) {
    const BEGIN: &str = "<!-- signatures: begin -->\n";
    const END: &str = "<!-- signatures: end -->";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/safety.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("docs/safety.md has the list");
    let (list, after) = rest.split_once(END).expect("docs/safety.md has the list");
    if std::env::var_os("IOSONDE_WRITE_DOCS").is_some() {
        let head = "| image | `wipefs` | iosonde |\n| --- | --- | --- |\n";
        let list = format!("{totals}\n\n{head}{}\n", rows.join("\n"));
        fs::write(&path, format!("{before}{BEGIN}{list}{END}{after}")).unwrap();
        return;
    }
    for row in rows {
        let is_there = list.lines().any(|line| lasting(line) == lasting(&row));
        assert!(is_there, "docs/safety.md lacks {row}: IOSONDE_WRITE_DOCS=1 writes it again");
    }
}
