//! Contents worth protecting, and every verb that writes, each without consent, with a wrong one
//! and with the right one. Checksums before and after show what was written. The table is in
//! `docs/safety.md`, which this test compares with its results (`IOSONDE_WRITE_DOCS=1` writes it).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use iosonde_model::content::Filler;
use iosonde_model::plan::Job;
use iosonde_rig::guard::{LoopDevice, LoopOptions};
use iosonde_rig::{ScratchDir, Unavailable, skip_part};

use crate::request::{Answer, ask, here, program, starting, turn};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Size of an image not made by a program, bytes.
const SIZE: u64 = 8 * MIB;

/// Content of a target.
struct Content {
    name: String,
    bytes: u64,
    made: Made,
}

enum Made {
    Pieces(Vec<(u64, Vec<u8>)>),
    /// Made by this command line; `{}` is the image.
    By(&'static str),
}

/// Signatures as published for their formats: name, offset, bytes.
const SIGNATURES: [(&str, u64, &[u8]); 36] = [
    ("GPT header", 512, b"EFI PART"),
    ("GPT backup", SIZE - 512, b"EFI PART"),
    ("MBR", 510, b"\x55\xaa"),
    ("Apple partition map", 512, b"PM\0\0"),
    ("BSD disk label", 512, b"\x57\x45\x56\x82"),
    ("ext superblock", 1080, b"\x53\xef"),
    ("XFS superblock", 0, b"XFSB"),
    ("XFS allocation group", 2 * MIB + 512, b"XAGF\0\0\0\x01"),
    ("Btrfs superblock", 64 * KIB + 64, b"_BHRfS_M"),
    ("F2FS superblock", 1024, b"\x10\x20\xf5\xf2"),
    ("NTFS boot sector", 3, b"NTFS    "),
    ("NTFS backup", SIZE - 509, b"NTFS    "),
    ("exFAT boot sector", 3, b"EXFAT   "),
    ("FAT32 backup", 3154, b"FAT32   "),
    ("HFS+ header", 1024, b"H+\0\x04"),
    ("APFS container", 32, b"NXSB"),
    ("JFS superblock", 32 * KIB, b"JFS1"),
    ("SquashFS", 0, b"hsqs"),
    ("ISO 9660", 32 * KIB + 1, b"CD001"),
    ("UDF", 32 * KIB + 1, b"BEA01"),
    ("VMFS volume", MIB, b"\x0d\xd0\x01\xc0"),
    ("LUKS1 header", 0, b"LUKS\xba\xbe\0\x01"),
    ("LUKS2 second header", 16 * KIB, b"SKUL\xba\xbe\0\x02"),
    ("BitLocker", 3, b"-FVE-FS-"),
    ("LVM label", 512, b"LABELONE"),
    ("md 0.90", SIZE - 64 * KIB, b"\xfc\x4e\x2b\xa9"),
    ("md 1.0", SIZE - 8 * KIB, b"\xfc\x4e\x2b\xa9"),
    ("md 1.1", 0, b"\xfc\x4e\x2b\xa9"),
    ("md 1.2", 4 * KIB, b"\xfc\x4e\x2b\xa9"),
    ("ZFS last label", SIZE - 128 * KIB, b"\x0c\xb1\xba\0\0\0\0\0"),
    ("Intel RAID", SIZE - 1024, b"Intel Raid ISM Cfg Sig. 1.1"),
    ("swap", 4 * KIB - 10, b"SWAPSPACE2"),
    ("suspended system", 4 * KIB - 10, b"S1SUSPEND\0"),
    ("bcache", 4120, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
    ("BlueStore", 0, b"bluestore block device"),
    ("qcow2 image", 0, b"QFI\xfb"),
];

/// Data without a signature at a known offset.
const DATA: [(&str, u64, &[u8]); 20] = [
    ("one byte, first", 0, b"x"),
    ("one byte, in the first MiB", 777_777, b"x"),
    ("one byte, behind the first MiB", MIB, b"x"),
    ("one byte, anywhere", 5 * MIB + 4711, b"x"),
    ("one byte, before the last MiB", SIZE - MIB - 1, b"x"),
    ("one byte, last", SIZE - 1, b"x"),
    ("photo", 3 * MIB, b"\xff\xd8\xff\xe0\0\x10JFIF"),
    ("text", 4 * MIB + 512, b"Dear diary"),
    ("archive", 2 * MIB, b"PK\x03\x04"),
    ("database", 0, b"SQLite format 3\0"),
    ("program", 6 * MIB, b"\x7fELF\x02\x01\x01"),
    ("PDF", MIB + 3, b"%PDF-1.7"),
    ("mail", 7 * MIB - 1, b"From: mother"),
    ("video", 2 * MIB + 4, b"ftypisom"),
    ("picture", 5 * MIB, b"\x89PNG\r\n\x1a\n"),
    ("log of a database", 1536 * KIB, b"\x00\x00\x01\x9a\x01"),
    ("key", 4 * MIB, b"-----BEGIN PRIVATE KEY-----"),
    ("all bits set", 6 * MIB, &[0xff; 512]),
    ("our marker alone, then text", 2 * MIB, b"iosonde\x02and a letter home"),
    ("the marker of the verifier alone", 2 * MIB, b"IOsv and a letter home"),
];

/// Contents made by programs of the distribution.
const MADE: [(&str, u64, &str); 5] = [
    ("ext4, by mkfs", 16 * MIB, "mkfs.ext4 -qF {}"),
    ("ext4, first block gone", 16 * MIB, "mkfs.ext4 -qF -b 1024 {}"),
    ("FAT32, by mkfs", 40 * MIB, "mkfs.vfat -F 32 {}"),
    ("swap, by mkswap", 16 * MIB, "mkswap -q {}"),
    ("NTFS, by mkfs", 16 * MIB, "mkfs.ntfs -qQF {}"),
];

fn contents() -> Vec<Content> {
    let piece = |(name, at, bytes): &(&str, u64, &[u8])| Content {
        name: (*name).into(),
        bytes: SIZE,
        made: Made::Pieces(vec![(*at, bytes.to_vec())]),
    };
    let mut all: Vec<Content> = SIGNATURES.iter().chain(&DATA).map(piece).collect();
    let altered = |name: &str, alter: fn(&mut Vec<u8>)| {
        let mut bytes = ours(64 << 10);
        alter(&mut bytes);
        Content { name: name.into(), bytes: SIZE, made: Made::Pieces(vec![(2 * MIB, bytes)]) }
    };
    all.extend([
        altered("our blocks, one bit changed", |bytes| bytes[33_333] ^= 4),
        altered("our blocks, one sector of text", |bytes| bytes[5120..5632].fill(b'a')),
        altered("our first 512 B, then text", |bytes| bytes[512..].fill(b'a')),
        altered("our stamps, then text", |bytes| {
            bytes.chunks_mut(4096).for_each(|block| block[32..].fill(b'a'));
        }),
        altered("our stamps, one altered", |bytes| bytes[4096 + 20] ^= 1),
    ]);
    let by = |(name, bytes, line): &(&str, u64, &'static str)| Content {
        name: (*name).into(),
        bytes: *bytes,
        made: Made::By(line),
    };
    all.extend(MADE.iter().map(by));
    all
}

/// Blocks as written by a job.
fn ours(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Filler::new(3, &Job::default()).refresh(&mut bytes, 0);
    bytes
}

impl Content {
    fn make(&self, path: &Path) -> Result<(), Unavailable> {
        let file = File::create(path).unwrap();
        file.set_len(self.bytes).unwrap();
        match &self.made {
            Made::Pieces(pieces) => {
                pieces.iter().for_each(|(at, bytes)| file.write_all_at(bytes, *at).unwrap());
            }
            Made::By(line) => {
                let line = line.replace("{}", path.to_str().unwrap());
                let mut words = line.split_whitespace();
                let program = words.next().unwrap();
                let output = Command::new(program)
                    .args(words)
                    .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
                    .stdin(Stdio::null())
                    .output();
                let made = output.as_ref().is_ok_and(|output| output.status.success());
                if !made {
                    return Err(Unavailable(format!("{line}: {output:?}")));
                }
                if self.name.contains("first block gone") {
                    file.write_all_at(&[0; 4096], 0).unwrap();
                }
            }
        }
        file.sync_all().unwrap();
        Ok(())
    }
}

fn checksum(path: &Path) -> String {
    let starting = starting();
    let child = Command::new("sha256sum").arg(path).stdout(Stdio::piped()).spawn().unwrap();
    drop(starting);
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap()[..64].to_owned()
}

/// Verbs that write to existing targets.
const VERBS: [&str; 5] = ["run", "job file", "experiment", "verify", "verify fsync"];
/// Modes of `verify`, one per content in turn.
const MODES: [&str; 5] = ["write", "flush", "soak", "pipeline", "powercut"];

const EXPERIMENT: &str = r#"
name = "writes"
question = "Is anything written?"
[[stage]]
name = "writes"
seconds = 0.1
repeats = 1
set = { iodepth = 1 }
[[stage.axis]]
name = "direction"
cases = [{ name = "write", rw = "randwrite" }, { name = "overwrite", rw = "write" }]
"#;

/// Files that the verbs need.
struct Desk {
    dir: ScratchDir,
    ledgers: std::cell::Cell<u32>,
}

impl Desk {
    fn new() -> Desk {
        let dir = ScratchDir::new().unwrap();
        fs::write(dir.path().join("writes.toml"), EXPERIMENT).unwrap();
        Desk { dir, ledgers: std::cell::Cell::new(0) }
    }

    /// Runs a verb, and `verify` in this mode.
    fn run(&self, verb: &str, mode: &str, target: &Path, consent: &[String]) -> Answer {
        let at = |name: &str| self.dir.path().join(name).to_str().unwrap().to_owned();
        let line = match verb {
            "verify" => match mode {
                "write" => {
                    self.ledgers.set(self.ledgers.get() + 1);
                    let ledger = at(&format!("ledger-{}", self.ledgers.get()));
                    format!("verify write {{}} --ledger {ledger} --ops 50")
                }
                "flush" => "verify flush {} --size 1m".to_owned(),
                "soak" => "verify soak {} --ops 50".to_owned(),
                "pipeline" => "verify pipeline {} --size 1m --io-size 1m".to_owned(),
                _ => "verify powercut {} --size 1m --runtime 0.2".to_owned(),
            },
            "run" => "run --path {} --rw randwrite --number-ios 20".to_owned(),
            "job file" => {
                let text = format!(
                    "[w]\nfilename={}\nrw=randwrite\nbs=4k\nnumber_ios=20\nioengine=psync\n\
                     direct=1\n",
                    target.display()
                );
                fs::write(at("job.fio"), text).unwrap();
                format!("run {}", at("job.fio"))
            }
            "experiment" => format!("experiment run {} {{}}", at("writes.toml")),
            _ => "verify fsync {} --samples 20".to_owned(),
        };
        let mut question = ask(&line, target);
        if line.starts_with("verify powercut") {
            let (program, log) = (program(), at("witness"));
            let _ = fs::remove_file(&log);
            let witness = format!("'{}' verify witness --log '{log}'", program.display());
            question = question.word("--witness").word(witness);
        }
        for word in consent {
            question = question.word(word);
        }
        question.answer()
    }
}

/// The options that a refusal offers.
fn offered(answer: &Answer) -> Vec<String> {
    let said = answer.at("/error/message").as_str().unwrap_or_default();
    let options = said.rsplit("repeat with ").next().unwrap_or_default();
    let options = options.split(';').next().unwrap_or_default();
    // `ask` itself adds the consent to processes that cannot be examined.
    let is_own = |word: &&str| !word.starts_with("--accept-unseen-processes");
    let words = options.split_whitespace().filter(|word| word.starts_with("--")).filter(is_own);
    words.map(|word| word.trim_end_matches([';', ',']).to_owned()).collect()
}

/// A target with a content, and its checksum.
struct Placed {
    target: PathBuf,
    before: String,
    _device: Option<LoopDevice>,
}

impl Placed {
    fn new(content: &Content, image: &Path, as_file: bool) -> Result<Placed, Unavailable> {
        let starting = starting();
        content.make(image)?;
        let over = |image: &Path| LoopDevice::over(image, LoopOptions::default());
        let device = if as_file { None } else { Some(over(image)?) };
        let target = device.as_ref().map_or(image, LoopDevice::path).to_path_buf();
        drop(starting);
        Ok(Placed { before: checksum(&target), target, _device: device })
    }

    fn is_written(&self) -> bool {
        checksum(&self.target) != self.before
    }
}

/// Consents that name something else, and each part of the right one alone.
fn wrong_consents(target: &Path, right: &[String]) -> Vec<Vec<String>> {
    let mut wrong = vec![
        vec!["--destroy-data=another".into(), "--overwrite-signature=unknown-data".into()],
        vec![format!("--overwrite-file={}x", target.display())],
    ];
    if right.len() > 1 {
        wrong.extend([right[..1].to_vec(), right[1..].to_vec()]);
    }
    wrong
}

/// Trials with one kind of consent, and those with a wrong outcome.
#[derive(Default)]
struct Tally {
    trials: usize,
    wrongly: Vec<String>,
}

impl Tally {
    fn count(&mut self, is_right: bool, what: impl FnOnce() -> String) {
        self.trials += 1;
        if !is_right {
            self.wrongly.push(what());
        }
    }

    fn add(&mut self, other: Tally) {
        self.trials += other.trials;
        self.wrongly.extend(other.wrongly);
    }
}

/// Results of the trials.
#[derive(Default)]
struct Seen {
    none: Tally,
    wrong: Tally,
    right: Tally,
    /// Rows of the table, by the number of the content.
    rows: BTreeMap<usize, String>,
}

impl Seen {
    fn add(&mut self, other: Seen) {
        self.none.add(other.none);
        self.wrong.add(other.wrong);
        self.right.add(other.right);
        self.rows.extend(other.rows);
    }

    /// Tries every verb on one content with each kind of consent.
    fn judge(&mut self, nth: usize, content: &Content, desk: &Desk) {
        let image = desk.dir.path().join("image");
        // Every third content is in a regular file.
        let as_file = nth % 3 == 2;
        let mut row = vec![content.name.clone(), if as_file { "file" } else { "device" }.into()];
        let mode = MODES[nth % MODES.len()];
        let mut options = Vec::new();
        for (column, verb) in VERBS.iter().enumerate() {
            let Some(placed) = here(Placed::new(content, &image, as_file)) else { return };
            let try_with = |consent: &[String]| {
                let answer = desk.run(verb, mode, &placed.target, consent);
                let exit = answer.exit.map_or("killed".into(), |code| code.to_string());
                let gist = answer.gist();
                let what = format!("{}: {verb} ({mode}) {consent:?}: {gist}", content.name);
                (answer, exit, placed.is_written(), what)
            };
            let sign = |is_written| if is_written { "written" } else { "=" };
            let (answer, exit, is_written, what) = try_with(&[]);
            // An experiment that may only read skips its stage; every other verb is refused.
            let is_refused = answer.exit == Some(5) || *verb == "experiment";
            self.none.count(is_refused && !is_written, || what);
            let mut cell = format!("{exit} {}", sign(is_written));
            if options.is_empty() {
                options = offered(&answer);
            }
            let consents = wrong_consents(&placed.target, &options);
            let consent = &consents[(nth + column) % consents.len()];
            let (answer, exit, is_written, what) = try_with(consent);
            // An option for a device is a usage error for a file, and the reverse.
            self.wrong.count(!is_written && matches!(answer.exit, Some(2 | 5)), || what);
            cell += &format!(", {exit} {}", sign(is_written));
            let (answer, _, is_written, what) = try_with(&options);
            // The rate may leave a verdict open, which is not a refusal.
            self.right.count(is_written && matches!(answer.exit, Some(0 | 3 | 7)), || what);
            let mode = if *verb == "verify" { format!("{mode}: ") } else { String::new() };
            row.push(format!("{mode}{cell}, {}", sign(is_written)));
        }
        self.rows.insert(nth, format!("| {} |", row.join(" | ")));
    }
}

#[test]
fn nothing_that_somebody_might_miss_is_written_without_the_right_consent() {
    const THREADS: usize = 4;
    let _turn = turn();
    let all = contents();
    let share = |thread: usize| {
        let (mut seen, desk) = (Seen::default(), Desk::new());
        for (nth, content) in all.iter().enumerate().skip(thread).step_by(THREADS) {
            seen.judge(nth, content, &desk);
        }
        seen
    };
    let mut seen = Seen::default();
    std::thread::scope(|scope| {
        let share = &share;
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || share(thread))).collect();
        threads.into_iter().for_each(|thread| seen.add(thread.join().unwrap()));
    });
    let Seen { none, wrong, right, rows } = seen;
    let totals = format!(
        "{} contents, {} verbs, {} trials: {} without consent, of which {} wrote or went on; {} \
         with a wrong consent, of which {} did; {} with the right one, of which {} did not write.",
        rows.len(),
        VERBS.len(),
        none.trials + wrong.trials + right.trials,
        none.trials,
        none.wrongly.len(),
        wrong.trials,
        wrong.wrongly.len(),
        right.trials,
        right.wrongly.len(),
    );
    eprintln!("{totals}");
    let wrongly = [none.wrongly, wrong.wrongly, right.wrongly].concat();
    assert!(wrongly.is_empty(), "{}", wrongly.join("\n"));
    assert!(all.len() >= 60, "{} contents", all.len());
    if rows.len() == all.len() {
        documented(&totals, &rows.into_values().collect::<Vec<_>>());
    } else {
        let missing = all.len() - rows.len();
        skip_part(&format!("{missing} of {} contents", all.len()), "they cannot be made here");
    }
}

/// The table in the documentation equals the results of this test.
fn documented(totals: &str, rows: &[String]) {
    const BEGIN: &str = "<!-- contents: begin -->\n";
    const END: &str = "<!-- contents: end -->";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/safety.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let head = format!("| content | on | {} |\n", VERBS.join(" | "));
    let line = format!("|{}\n", " --- |".repeat(2 + VERBS.len()));
    let table = format!("{totals}\n\n{head}{line}{}\n", rows.join("\n"));
    if std::env::var_os("IOSONDE_WRITE_DOCS").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    for (found, seen) in found.lines().zip(table.lines()) {
        assert_eq!(found, seen, "IOSONDE_WRITE_DOCS=1 writes it again");
    }
    assert_eq!(found, table, "IOSONDE_WRITE_DOCS=1 writes it again");
}

#[test]
fn what_is_blank_or_ours_needs_no_consent_in_a_file() {
    let _turn = turn();
    let desk = Desk::new();
    let image = desk.dir.path().join("image");
    File::create(&image).unwrap().set_len(SIZE).unwrap();
    let written = |verb: &str| {
        let before = checksum(&image);
        let answer = desk.run(verb, "write", &image, &[]);
        // The rate may leave a verdict open, which is not a refusal.
        assert!(matches!(answer.exit, Some(0 | 3 | 7)), "{verb}: {}", answer.gist());
        assert_ne!(checksum(&image), before, "{verb}");
    };
    VERBS.into_iter().for_each(written);
    let file = File::options().write(true).open(&image).unwrap();
    file.write_all_at(&vec![0; 65_536], MIB).unwrap();
    file.write_all_at(&ours(65_536), 2 * MIB).unwrap();
    drop(file);
    VERBS.into_iter().for_each(written);
}

#[test]
fn what_was_not_inspected_needs_a_consent_of_its_own() {
    let _turn = turn();
    let desk = Desk::new();
    let image = desk.dir.path().join("image");
    let file = File::create(&image).unwrap();
    // Zeros that are allocated: no hole shows that they are zeros.
    for mib in 0..96 {
        file.write_all_at(&[0; MIB as usize], mib * MIB).unwrap();
    }
    file.sync_all().unwrap();
    drop(file);
    let before = checksum(&image);
    let line = |more: &str| format!("run --path {{}} --rw randwrite --number-ios 20 {more}");
    let without_time = "--inspect-time 0";
    let said = ask(&line(without_time), &image).answer().exits(5);
    let message = said.at("/error/message").as_str().unwrap();
    assert!(message.contains("% was inspected; up to "), "{message}");
    let consent = format!("--accept-unseen={}", image.display());
    assert!(message.contains(&consent), "{message}");
    ask(&line("--inspect-time 0 --accept-unseen=another"), &image).answer().exits(5);
    assert_eq!(checksum(&image), before);
    // With enough time all of it is inspected.
    ask(&line(""), &image).answer().exits(0);
    ask(&line(&format!("{without_time} {consent}")), &image).answer().exits(0);
    // The same on a device, which also needs consent by name.
    let Some(device) = here(LoopDevice::over(&image, LoopOptions::default())) else { return };
    let said = ask(&line(without_time), device.path()).answer().exits(5);
    let options = offered(&said);
    let all = [format!("--destroy-data={}", image.display()), consent];
    assert_eq!(options, all, "{}", said.gist());
    for part in &all {
        ask(&line(&format!("{without_time} {part}")), device.path()).answer().exits(5);
    }
    ask(&line(&format!("{without_time} {}", all.join(" "))), device.path()).answer().exits(0);
    ask(&line(&all[0]), device.path()).answer().exits(0);
    // Options of an inspection that does not take place are refused.
    let reads = "run --path {} --rw randread --number-ios 5";
    ask(&format!("{reads} --inspect-time 5"), &image).answer().exits(2);
    ask(&format!("{reads} --accept-unseen=x"), &image).answer().exits(2);
}
