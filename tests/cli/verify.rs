//! The verifier as a process: damage fails, missing evidence is inconclusive, and bad input is an
//! error and never a pass.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use iosonde_rig::guard::TmpfsMount;
use iosonde_rig::{FuseMount, Script, skip};
use rustix::process::Signal;
use serde_json::Value;

use super::program::{Call, Place};

/// A place with a file `data` of 4 MiB without content.
fn place() -> Place {
    let place = Place::new();
    place.hole("data", 4 << 20);
    place
}

fn verify(place: &Place, words: &str) -> Call {
    place.iosonde(&format!("verify {words} --eta-interval 0.1"))
}

/// Record of the newest run, by modification time: names have a resolution of a second.
pub(crate) fn record(place: &Place) -> Value {
    let written = |folder: &PathBuf| folder.metadata().and_then(|facts| facts.modified()).unwrap();
    let folder = place.kept().into_iter().max_by_key(written).unwrap();
    serde_json::from_slice(&fs::read(folder.join("01-verify.json")).unwrap()).unwrap()
}

/// Failed blocks of the newest run, by class.
pub(crate) fn classes(place: &Place) -> Vec<(String, u64)> {
    let record = record(place);
    let jobs = record["jobs"].as_array().unwrap();
    let failed = jobs.iter().flat_map(|job| job["failed_blocks"].as_object().unwrap());
    failed.map(|(class, count)| (class.clone(), count.as_u64().unwrap())).collect()
}

/// A directory on a FUSE device with this script.
fn served(words: &[&str]) -> Option<FuseMount> {
    let script = Script::from_words(words.iter().copied()).unwrap();
    FuseMount::new(script).map_err(skip).ok()
}

/// A place with `data` written by a run, and its ledger in `ledger`.
fn written(words: &str) -> Place {
    let place = place();
    verify(&place, &format!("write data --ledger ledger --ops 300 --randseed 1 {words}"))
        .end()
        .exits(0);
    place
}

#[test]
fn data_of_an_earlier_run_do_not_pass_for_new() {
    let place = place();
    verify(&place, "flush data").end().exits(0);
    // With the same seed: the same operations and generations, and no write is stored.
    for _ in 0..2 {
        verify(&place, "flush data --verify-inject-fault=drop:all").end().exits(4);
        assert_eq!(classes(&place), [("old-run".to_owned(), 1024)]);
    }
    for mode in ["soak", "pipeline --numjobs 2"] {
        let words = format!("{mode} data --randseed 1 --io-size 8m");
        verify(&place, &words).end().exits(0);
        verify(&place, &format!("{words} --verify-inject-fault=drop:all")).end().exits(4);
        let found = classes(&place);
        assert!(found.iter().any(|(class, _)| class == "old-run"), "{mode}: {found:?}");
    }
}

#[test]
fn the_commands_of_blkbench_work() {
    let place = Place::new();
    place.hole("test-disk.raw", 16 << 20);
    let run = |words: &str| {
        let words = format!("run --driver io_uring --path test-disk.raw {words}");
        place.iosonde(&words).end()
    };
    run("--rw verify-flush --numjobs 4").exits(0);
    let flush = record(&place);
    assert_eq!(flush["plan"]["mode"], "flush");
    assert_eq!(flush["jobs"].as_array().unwrap().len(), 4);
    run("--rw verify-pipeline --numjobs 4 --runtime 1").exits(0);
    assert_eq!(record(&place)["plan"]["mode"], "pipeline");
    run("--rw verify-flush --verify-sectors 1:8").exits(0);
    // Last, because a block with a damaged header is not ours, and so not overwritten.
    run("--rw verify-flush --verify-inject-fault").exits(4);
}

#[test]
fn each_injected_fault_is_found() {
    let place = place();
    for (fault, mode, expected) in [
        ("drop:nth=9", "flush", &["lost", "stale", "old-run"][..]),
        ("byte", "flush", &["bit-flip", "corrupt"]),
        ("zero:nth=9", "flush", &["torn", "lost", "corrupt"]),
        // A write in flight at the wrong offset may leave sectors of both.
        ("misdirect:nth=9", "flush", &["misdirected", "stale", "lost", "old-run", "torn"]),
        ("read-flip:nth=9", "flush", &["bit-flip"]),
    ] {
        // A block damaged by an earlier fault may not be recognised as ours.
        let words = format!("{mode} data --verify-inject-fault={fault} --overwrite-file data");
        let ended = verify(&place, &words).end();
        let found = classes(&place);
        assert!(!found.is_empty(), "{fault}: {ended}");
        assert!(found.iter().all(|(class, _)| expected.contains(&&**class)), "{fault}: {found:?}");
        ended.exits(4);
    }
}

#[test]
fn what_can_prove_nothing_is_not_begun() {
    let place = place();
    for (words, expected) in [
        ("soak data --runtime 0", "--runtime: found 0, expected a time above 0"),
        ("soak data --ops 0", "--ops 0: expected a value above 0"),
        ("soak data --io-size 0", "--ops 0: expected a value above 0"),
        ("flush data --size 0", "--size: found 0, expected at least one block"),
        ("flush data --loops 0", "--loops"),
        ("flush data --size 4097", "give a larger --size or a smaller --bs"),
        ("flush data --size 8m", "`data` has 4 MiB"),
        ("flush data --offset 4m", "`data` has 4 MiB"),
        ("flush data --bs 3000", "a power of two"),
        ("flush data --bs 256", "a power of two"),
        ("flush data --numjobs 0", "--numjobs 0"),
        ("flush data --iodepth 0", "--iodepth 0"),
        ("flush data --verify-sectors 4:2", "MIN <= MAX"),
        ("flush data --verify-sectors 0:2", "MIN <= MAX"),
        ("flush data --verify-sectors many", "--verify-sectors: found `many`"),
        ("flush data --only-job 1", "--only-job 1"),
        ("soak data --overlap", "--overlap: --numjobs 1"),
        ("soak data --overlap --numjobs 2 --trim-percent 5", "any content would be valid"),
        ("flush data --ioengine null", "stores nothing"),
        ("flush data --ioengine iouring", "did you mean `io_uring`?"),
        ("flush data --ioengine psync --iodepth 2", "--iodepth 1"),
        ("flush data --verify-inject-fault=dorp", "`drop`"),
        ("flush /dev/null", "`/dev/null` stores nothing"),
        ("flush /dev/zero", "`/dev/zero` stores nothing"),
        ("flush /dev/full --size 1m", "character device"),
        ("flush nothing-here", "`nothing-here` does not exist"),
        ("flush", "PATH is missing"),
        ("write . --size 4m --ledger l", "is a directory"),
        ("powercut . --size 4m --witness cat", "is a directory"),
        ("write nothing-here --ledger l", "give --size"),
        ("write nowhere/data --size 4m --ledger l", "`nowhere` does not exist"),
        ("write data", "--ledger"),
        ("powercut data", "--witness"),
        ("check data", "--ledger"),
    ] {
        let ended = verify(&place, words).end();
        assert!(ended.err.contains(expected), "{words}: expected `{expected}`: {ended}");
        ended.exits(2).silent();
    }
    assert!(place.kept().is_empty());
    assert_eq!(fs::read(place.work().join("data")).unwrap(), vec![0; 4 << 20]);
}

#[test]
fn what_has_no_effect_is_refused() {
    let place = written("");
    for (words, option) in [
        ("flush data --read-percent 20", "--read-percent"),
        ("flush data --trim-percent 20", "--trim-percent"),
        ("pipeline data --numjobs 2 --flush-every 20", "--flush-every"),
        ("soak data --loops 2", "--loops"),
        ("flush data --overlap --numjobs 2", "--overlap"),
        ("pipeline data --overlap --numjobs 2", "--overlap"),
        ("check data --ledger ledger --overlap", "--overlap"),
        ("write data --ledger l --verify-delay 1", "--verify-delay"),
        ("write data --ledger l --loops 2 --trim-percent 5", "--trim-percent"),
        ("check data --ledger ledger --bs 8k", "--bs"),
        ("check data --ledger ledger --numjobs 2", "--numjobs"),
        ("check data --ledger ledger --size 1m", "--size"),
        ("check data --ledger ledger --runtime 3", "--runtime"),
        ("check data --ledger ledger --randseed 3", "--randseed"),
        ("check data --ledger ledger --verify-inject-fault", "--verify-inject-fault"),
        ("check data --ledger ledger --overwrite-file data", "--overwrite-file"),
        ("flush data --destroy-data=sda", "--destroy-data"),
        ("flush . --size 4m --overwrite-file x", "--overwrite-file"),
        ("flush data --overwrite-signature ext9", "--overwrite-signature"),
    ] {
        let ended = verify(&place, words).end();
        assert!(ended.err.contains(option), "{words}: {ended}");
        ended.exits(2);
    }
    verify(&place, "check data --ledger ledger").end().exits(0);
}

#[test]
fn foreign_data_are_left_alone() {
    let place = place();
    let path = place.work().join("data");
    File::options().write(true).open(&path).unwrap().write_all_at(b"precious", 5000).unwrap();
    let before = fs::read(&path).unwrap();
    for words in [
        "flush data",
        "soak data",
        "pipeline data",
        "write data --ledger l",
        "powercut data --witness cat",
        "flush data --overwrite-file ./data",
    ] {
        verify(&place, words).end().exits(5);
        assert_eq!(fs::read(&path).unwrap(), before, "{words}");
        assert!(!place.work().join("l").exists());
    }
    verify(&place, "flush data --overwrite-file data").end().exits(0);
}

#[test]
fn a_missing_ledger_is_a_usage_error() {
    let place = place();
    for option in ["--ledger", "--witness-log"] {
        let ended = verify(&place, &format!("check data {option} gone")).end().exits(2);
        ended.says("`gone`: no such file");
    }
}

#[test]
fn a_ledger_that_is_no_more_what_it_was_is_an_error() {
    let place = written("--numjobs 2");
    let ledger = fs::read(place.work().join("ledger")).unwrap();
    let check = |content: &[u8]| {
        place.file("other", content);
        verify(&place, "check data --ledger other").end()
    };
    check(&ledger).exits(0);
    for length in [0, 1, 16, 63, 64, 300, 511, 512, ledger.len() / 2, ledger.len() - 1] {
        let ended = check(&ledger[..length]);
        assert!(ended.code == Some(2), "the first {length} bytes: {ended}");
    }
    check(&[&ledger[..], b"x"].concat()).exits(2);
    check(b"hello, this is no ledger").exits(2);
    // All damage is detected. A damaged note may have been torn when the run died: fewer blocks
    // are judged, and this is reported.
    for place_of_bit in (0..4096).step_by(67).chain((4096..ledger.len()).step_by(9973)) {
        let mut damaged = ledger.clone();
        damaged[place_of_bit] ^= 0x04;
        let ended = check(&damaged);
        assert!(matches!(ended.code, Some(2 | 7)), "bit flipped at {place_of_bit}: {ended}");
    }
    let versioned = |word: &str| {
        let first = String::from_utf8_lossy(&ledger[..16]).replace("ledger/2", word);
        check(&[first.as_bytes(), &ledger[16..]].concat()).exits(2)
    };
    versioned("ledger/3").says("is of version 3, this program reads version 2");
    // Blocks of version 1 do not state the position of their sectors.
    versioned("ledger/1").says("is of version 1").says("write and check again");
    // A directory, a device.
    verify(&place, "check data --ledger .").end().exits(2);
    verify(&place, "check data --ledger /dev/zero").end().exits(2);
}

#[test]
fn a_ledger_of_another_target_or_run_is_reported() {
    let place = written("");
    // A later run wrote the target again.
    fs::copy(place.work().join("data"), place.work().join("copy")).unwrap();
    verify(&place, "write data --ledger ledger.2 --ops 3000").end().exits(0);
    let ended = verify(&place, "check data --ledger ledger").end().exits(7);
    assert!(format!("{}{}", ended.out, ended.err).contains("later run"), "{ended}");
    verify(&place, "check data --ledger ledger.2").end().exits(0);
    // A copy is judged like its original.
    verify(&place, "check copy --ledger ledger").end().exits(0);
    // The copy has no data of the later run.
    verify(&place, "check copy --ledger ledger.2").end().exits(4);
}

#[test]
fn noise_where_nothing_was_written_in_a_new_file_is_damage() {
    let place = Place::new();
    let write = "write new --size 4m --ops 20 --direct 0 --ledger ledger";
    verify(&place, write).end().exits(0);
    let check = || verify(&place, "check new --ledger ledger --direct 0").end();
    check().exits(0);
    let path = place.work().join("new");
    let mut bytes = fs::read(&path).unwrap();
    let is_empty = |block: &[u8]| block.iter().all(|byte| *byte == 0);
    let empty = bytes.chunks(4096).position(is_empty).unwrap();
    bytes[empty * 4096..][..4096].fill(0x5a);
    fs::write(&path, &bytes).unwrap();
    check().exits(4).prints("the block was never written");
}

#[test]
fn a_target_that_lost_its_end_is_missing_data() {
    let place = written("--bs 4k");
    let copy = place.work().join("copy");
    fs::copy(place.work().join("data"), &copy).unwrap();
    let resize = |bytes| File::options().write(true).open(&copy).unwrap().set_len(bytes).unwrap();
    resize(2 << 20);
    let ended = verify(&place, "check copy --ledger ledger").end().exits(4);
    ended.says("`copy` has 2 MiB, and had 4 MiB when it was written: 512 of 1,024 blocks are");
    resize((2 << 20) - 1);
    verify(&place, "check copy --ledger ledger").end().exits(4).says("513 of 1,024 blocks");
    resize(0);
    verify(&place, "check copy --ledger ledger").end().exits(4).says("1,024 of 1,024 blocks");
    verify(&place, "flush copy").end().exits(2).says("`copy` has 0 B: there is nothing");
    // A larger file is not damage.
    fs::copy(place.work().join("data"), &copy).unwrap();
    resize(5 << 20);
    let ended = verify(&place, "check copy --ledger ledger").end().exits(0);
    ended.says("`copy` has 5 MiB, and had 4 MiB when it was written").lacks("no whole block");
}

#[test]
fn what_is_no_whole_block_at_the_end_is_said_not_to_be_verified() {
    let place = Place::new();
    place.hole("data", (1 << 20) + 1536);
    let said = "the last 1,536 B of the target are no whole block of 4 KiB, and are not verified";
    verify(&place, "flush data --bs 4k --direct 0").end().exits(0).prints(said);
    let write = "write data --bs 4k --direct 0 --ops 30 --ledger ledger";
    verify(&place, write).end().exits(0).prints(said);
    verify(&place, "check data --ledger ledger --direct 0").end().exits(0).prints(said);
    verify(&place, "flush data --size 1m --direct 0").end().exits(0).lacks("no whole block");
}

#[test]
fn a_target_in_other_sectors_is_refused() {
    use iosonde_rig::guard::{LoopDevice, LoopOptions};
    let place = place();
    let options = LoopOptions { sector_bytes: 4096, ..LoopOptions::default() };
    let data = place.work().join("data");
    verify(&place, "write data --ledger ledger --bs 512 --ops 300").end().exits(0);
    let device = match LoopDevice::over(&data, options) {
        Ok(device) => device,
        Err(reason) => return skip(reason),
    };
    let call = verify(&place, "check --ledger ledger").arg(device.path());
    let ended = call.end().exits(2);
    assert!(ended.err.contains("512") && ended.err.contains("4096"), "{ended}");
}

#[test]
fn a_ledger_without_a_judgement_is_inconclusive() {
    let place = place();
    let words = "write data --ledger ledger --ops 20 --verify-inject-fault=write-eio:all";
    let code = verify(&place, words).end().code;
    assert!(matches!(code, Some(1 | 7)), "{code:?}");
    // It is unknown whether any of the writes took place.
    verify(&place, "check data --ledger ledger").end().exits(7);
}

#[test]
fn a_ledger_is_never_written_over_nor_kept_on_its_target() {
    let place = written("");
    let before = fs::read(place.work().join("ledger")).unwrap();
    for name in ["ledger", "data", "."] {
        let ended = verify(&place, &format!("write data --ops 9 --ledger {name}")).end().exits(2);
        ended.says(name);
    }
    assert_eq!(fs::read(place.work().join("ledger")).unwrap(), before);
    verify(&place, "write data --ops 9 --ledger nowhere/l").end().exits(1).says("nowhere/l");
    verify(&place, "check data --ledger ledger").end().exits(0);
}

/// On a region inside a file, each mode writes only there.
#[test]
fn a_region_is_where_it_was_asked_for() {
    let place = place();
    let path = place.work().join("data");
    let before = fs::read(&path).unwrap();
    for mode in ["soak", "flush", "pipeline", "write --ledger ledger", "soak --overlap --numjobs 2"]
    {
        for region in ["--offset 1m --size 1m", "--offset 1m --size 2m --share 1/2"] {
            let _ = fs::remove_file(place.work().join("ledger"));
            let words = format!("{mode} data {region} --ops 300 --overwrite-file data");
            verify(&place, &words).end().exits(0);
            let after = fs::read(&path).unwrap();
            assert_eq!(before[..1 << 20], after[..1 << 20], "{words}");
            assert_eq!(before[2 << 20..], after[2 << 20..], "{words}");
            assert_ne!(before[1 << 20..2 << 20], after[1 << 20..2 << 20], "{words}");
            if mode.contains("ledger") {
                verify(&place, "check data --ledger ledger").end().exits(0);
            }
        }
    }
}

#[test]
fn no_more_is_written_than_was_allowed() {
    let place = place();
    for mode in ["soak", "flush", "write --ledger ledger", "soak --numjobs 2"] {
        let _ = fs::remove_file(place.work().join("ledger"));
        let words =
            format!("{mode} data --io-size 256k --overwrite-file data --output-format json");
        let document = verify(&place, &words).end().exits(0).json();
        let written = document["figures"]["written_bytes"].as_u64().unwrap();
        assert!((128 << 10..=256 << 10).contains(&written), "{mode}: {written}");
        if mode.contains("ledger") {
            verify(&place, "check data --ledger ledger").end().exits(0);
        }
    }
}

#[test]
fn one_target_has_one_run_at_a_time() {
    let place = place();
    let first = verify(&place, "soak data --runtime 60").start().until_stderr("IOPS");
    for words in
        ["soak data --runtime 1", "flush data --offset 2m", "write data --ledger l --ops 5"]
    {
        let ended = verify(&place, words).end();
        assert!(matches!(ended.code, Some(1 | 5)), "{words}: {ended}");
        assert!(ended.err.contains("lock") || ended.err.contains("in use"), "{words}: {ended}");
    }
    first.signal(Signal::INT).end().exits(130);
    verify(&place, "flush data").end().exits(0);
}

#[test]
fn an_interrupt_while_writing() {
    for mode in ["soak", "pipeline --numjobs 2", "write --ledger ledger"] {
        let place = place();
        let call = verify(&place, &format!("{mode} data --runtime 60 --output-format json"));
        let running = call.start().until_stderr("IOPS").pause(Duration::from_millis(200));
        let ended = running.signal(Signal::INT).end().exits(130);
        let document = ended.json();
        assert_eq!(document["verdict"]["word"], "inconclusive", "{mode}: {ended}");
        let record = record(&place);
        assert_eq!(record["outcome"]["ended"], "interrupted", "{mode}");
        assert!(record["jobs"][0]["ops"].as_u64().unwrap() > 0, "{mode}");
        if mode.contains("ledger") {
            verify(&place, "check data --ledger ledger").end().exits(0);
        }
    }
}

#[test]
fn an_interrupt_before_reading_back() {
    let place = place();
    let call = verify(&place, "flush data --verify-delay 60 --output-format json");
    let data = place.work().join("data");
    let written = || fs::metadata(&data).is_ok_and(|file| file.blocks() * 512 >= 4 << 20);
    let running = call.start().until("end of the writes", written);
    let running = running.pause(Duration::from_secs(1));
    let ended = running.signal(Signal::INT).end().exits(130);
    assert_eq!(ended.json()["verdict"]["word"], "inconclusive", "{ended}");
    let record = record(&place);
    assert_eq!(record["jobs"][0]["written_bytes"], 4 << 20);
    assert_eq!(record["jobs"][0]["checked"], 0);
}

#[test]
fn an_interrupt_while_reading_back() {
    let Some(mount) = served(&["read=const:5ms", "servers=1"]) else { return };
    let place = Place::new();
    let data = mount.path().join("data");
    File::create(&data).unwrap().set_len(8 << 20).unwrap();
    let call = verify(&place, "flush --verify-sectors 1:1 --output-format json").arg(&data);
    // The file is inspected before the run; afterwards its 2048 blocks are read back.
    let written = || mount.truth().write.count >= 2048;
    let running = call.start().until("end of the writes", written);
    let inspected = mount.truth().read.count;
    let reading = || mount.truth().read.count >= inspected + 20;
    let running = running.until("reading back", reading);
    let ended = running.signal(Signal::INT).end().exits(130);
    assert_eq!(ended.json()["verdict"]["word"], "inconclusive", "{ended}");
    let record = record(&place);
    let (swept, all) = (&record["jobs"][0]["swept_blocks"], &record["jobs"][0]["sweep_blocks"]);
    assert!(swept.as_u64().unwrap() < all.as_u64().unwrap(), "{swept} of {all}");
    assert_eq!(classes(&place), []);
}

#[test]
fn corruption_that_was_found_outlasts_an_interrupt() {
    let place = place();
    let words = "soak data --runtime 60 --verify-inject-fault=corrupt:every=20";
    let running = verify(&place, words).start().until_stderr("IOPS").pause(Duration::from_secs(1));
    let ended = running.signal(Signal::INT).end().exits(4);
    ended.prints("Result: FAIL");
    assert_eq!(record(&place)["outcome"]["ended"], "interrupted");
}

#[test]
fn a_second_interrupt_leaves_at_once() {
    let Some(mount) = served(&["write=const:60s"]) else { return };
    let place = Place::new();
    let data = mount.path().join("data");
    File::create(&data).unwrap().set_len(4 << 20).unwrap();
    let call = verify(&place, "soak --runtime 60").arg(&data);
    let running = call.start().until_stderr("soak").signal(Signal::INT);
    let started = Instant::now();
    running.pause(Duration::from_millis(300)).signal(Signal::INT).end().exits(130);
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

#[test]
fn there_is_one_document_whatever_happens() {
    let place = written("");
    place.file("damaged", &[1; 5000]);
    for (words, code) in [
        ("flush data", 0),
        ("soak data --ops 100", 0),
        ("write data --ops 100 --ledger l", 0),
        ("check data --ledger l", 0),
        ("flush data --verify-inject-fault=drop:all", 4),
        ("check data --ledger gone", 2),
        ("check data --ledger damaged", 2),
        ("flush damaged", 5),
        ("flush nothing-here", 2),
        ("flush data --bs 3000", 2),
        ("flush data --no-such-option", 2),
        ("flush /dev/null", 2),
        ("powercut data --runtime 1 --witness false", 1),
    ] {
        let ended = verify(&place, &format!("{words} --output-format json")).end().exits(code);
        ended.json();
    }
}

#[test]
fn a_disk_that_fills_up_is_an_error() {
    let mount = match TmpfsMount::new(8 << 20) {
        Ok(mount) => mount,
        Err(reason) => return skip(reason),
    };
    let place = Place::new();
    let data = mount.path().join("data");
    File::create(&data).unwrap().set_len(32 << 20).unwrap();
    for mode in ["flush", "soak --io-size 64m", "write --ledger l"] {
        let call = verify(&place, &format!("{mode} --output-format json")).arg(&data);
        let ended = call.end().exits(1);
        ended.json();
        let words = format!("{}{}", ended.out, ended.err);
        assert!(words.contains("ENOSPC"), "{mode}: {ended}");
        assert_eq!(classes(&place), [], "{mode}: what was not written is not missing");
    }
    // The space is too small from the start.
    let call = verify(&place, "flush --size 64m").arg(mount.path());
    call.end().exits(2).says("64 MiB requested");
}

#[test]
fn memory_passes_and_is_called_that() {
    let mount = match TmpfsMount::new(16 << 20) {
        Ok(mount) => mount,
        Err(reason) => return skip(reason),
    };
    let place = Place::new();
    let data = mount.path().join("data");
    File::create(&data).unwrap().set_len(4 << 20).unwrap();
    let ended = verify(&place, "flush").arg(&data).end().exits(0);
    assert!(format!("{}{}", ended.out, ended.err).contains("memory"), "{ended}");
}

#[test]
fn a_dry_run_leaves_everything_as_it_is() {
    let place = place();
    let before = fs::read(place.work().join("data")).unwrap();
    for words in [
        "flush data",
        "write data --ledger l",
        "write new --size 4m --ledger l",
        "powercut data --witness false",
    ] {
        let ended = verify(&place, &format!("{words} --dry-run --output-format json")).end();
        let document: Value = serde_json::from_str(&ended.exits(0).out).unwrap();
        assert!(document["plan"].is_object(), "{words}");
    }
    assert_eq!(fs::read(place.work().join("data")).unwrap(), before);
    assert!(place.kept().is_empty());
    assert!(!Path::new(&place.work().join("l")).exists());
    assert!(!Path::new(&place.work().join("new")).exists());
}

#[test]
fn jobs_that_overlap_raise_no_alarm_and_hide_no_damage() {
    let place = place();
    for words in [
        "--numjobs 2 --iodepth 1",
        "--numjobs 4 --iodepth 16",
        "--numjobs 3 --bs 16k --verify-sectors 1:4",
        "--numjobs 2 --ioengine psync --size 256k",
    ] {
        verify(&place, &format!("soak data --overlap --ops 400 {words}")).end().exits(0);
        let plan = &record(&place)["plan"];
        assert!(plan["epoch_ops"].as_u64() > Some(0), "{words}: {plan}");
    }
    for (fault, expected) in [
        ("drop:every=50", &["stale", "lost", "old-run"][..]),
        ("swap-sectors:every=50", &["swapped", "misdirected"]),
        ("tear:every=50", &["torn", "stale", "lost", "old-run"]),
        ("byte:every=50", &["bit-flip"]),
        ("duplicate:every=50", &["misdirected", "torn"]),
    ] {
        let words = "soak data --overlap --numjobs 3 --iodepth 4 --ops 2000 --randseed 5";
        let words = format!("{words} --verify-inject-fault={fault} --overwrite-file data");
        verify(&place, &words).end().exits(4);
        let found = classes(&place);
        assert!(found.iter().all(|(class, _)| expected.contains(&&**class)), "{fault}: {found:?}");
    }
}

#[test]
fn what_overlapped_is_checked_by_its_ledger() {
    let words = "--overlap --numjobs 3 --iodepth 8";
    let earlier = fs::read(written(words).work().join("data")).unwrap();
    let place = written(words);
    let data = place.work().join("data");
    let right = fs::read(&data).unwrap();
    verify(&place, "check data --ledger ledger").end().exits(0);
    // Blocks of zeros, of another run, of another offset, with sectors exchanged.
    let block = |bytes: &[u8]| bytes[40_960..45_056].to_vec();
    let mut swapped = block(&right);
    swapped.rotate_left(512);
    for (damage, class) in [
        (vec![0; 4096], "lost"),
        (block(&earlier), "old-run"),
        (right[8192..12_288].to_vec(), "misdirected"),
        (swapped, "shifted"),
    ] {
        let mut bytes = right.clone();
        bytes[40_960..45_056].copy_from_slice(&damage);
        fs::write(&data, bytes).unwrap();
        verify(&place, "check data --ledger ledger").end().exits(4);
        assert_eq!(
            classes(&place).into_iter().filter(|one| one.1 > 0).collect::<Vec<_>>(),
            [(class.to_owned(), 1)]
        );
    }
}
