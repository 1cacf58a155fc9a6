//! `--cross-check fio`, with fio if it is installed, and with scripts in its place.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use iosonde_rig::skip;
use rustix::process::Signal;
use serde_json::Value;

use super::formats::{RESULT, assert_fits};
use super::program::{Call, Place, listing};

const READ: &str = "run --path f --rw randread --bs 4k --runtime 0.3 --eta-interval 0 \
                    --output-format json --cross-check fio --cross-check-rounds";

fn has_fio() -> bool {
    let there = Command::new("fio").arg("--version").output().is_ok_and(|out| out.status.success());
    if !there {
        skip("fio is not installed");
    }
    there
}

/// A directory for PATH with a script `fio` of these lines, which also reports a version.
fn fake(place: &Place, lines: &str) -> PathBuf {
    let directory = place.work().join("bin");
    fs::create_dir(&directory).unwrap();
    let script = format!("#!/bin/sh\n[ \"$1\" = --version ] && echo fio-9.9 && exit\n{lines}\n");
    let program = directory.join("fio");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

fn call(place: &Place, words: &str) -> Call {
    place.file("f", &[0; 1 << 20]);
    place.iosonde(words)
}

/// A run with this script as fio. Its document must have the run's own result in any case.
fn with_fake(lines: &str) -> (i32, Value, String) {
    let place = Place::new();
    let bin = fake(&place, lines);
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let ended = call(&place, &format!("{READ} 2")).env("PATH", path).end();
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    assert_fits(RESULT, &document);
    assert!(document["summary"]["read"]["iops"].as_f64().unwrap() > 0.0, "{document:#}");
    (ended.code.unwrap(), document["cross_checks"][0].clone(), ended.err)
}

#[test]
fn rounds_of_both_and_the_ratio() {
    if !has_fio() {
        return;
    }
    let place = Place::new();
    let ended = call(&place, &format!("{READ} 6")).end();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    assert_fits(RESULT, &document);
    let check = &document["cross_checks"][0];
    assert_eq!(check["rounds"].as_array().unwrap().len(), 6, "{check:#}");
    for round in check["rounds"].as_array().unwrap() {
        for who in ["ours", "theirs"] {
            assert!(round[who]["iops"].as_f64().unwrap() > 0.0, "{round}");
            assert!(round[who]["p50_ns"].as_u64().unwrap() > 0, "{round}");
        }
    }
    let number = |pointer: &str| check.pointer(pointer).and_then(Value::as_f64).unwrap();
    let ratio = number("/iops/median");
    assert!(number("/iops/interval/0") <= ratio && ratio <= number("/iops/interval/1"));
    assert!(check["missing"].is_null(), "{check:#}");
    // All rounds of both programs are stored.
    let names: Vec<String> = listing(&place.kept()[0])
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert!(names.contains(&"01-round-06.json".to_owned()), "{names:?}");
    assert!(names.contains(&"01-round-01-fio.json".to_owned()), "{names:?}");
}

#[test]
fn fio_writes_to_our_unnamed_file_and_leaves_nothing() {
    if !has_fio() {
        return;
    }
    let place = Place::new();
    let words = "run --path . --size 8m --rw randrw --rwmixread 50 --bs 4k --iodepth 4 \
                 --runtime 0.3 --eta-interval 0 --cross-check fio --cross-check-rounds 2 \
                 --randseed 18446744073709551615";
    let ended = place.iosonde(words).end();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.contains(" has no verdict: ratio "), "{}", ended.out);
    assert!(!ended.err.contains("recognised as written by iosonde"), "{}", ended.err);
    assert!(listing(&place.work()).is_empty(), "{:?}", listing(&place.work()));
}

#[test]
fn a_named_file_keeps_its_name_and_its_length() {
    if !has_fio() {
        return;
    }
    let place = Place::new();
    let file = place.hole("f", 8 << 20);
    let before = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&file).unwrap());
    let words = "run --path f --rw write --bs 64k --runtime 0.3 --eta-interval 0 \
                 --cross-check fio --cross-check-rounds 1";
    let ended = place.iosonde(words).end();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.err.contains("recognised as written by iosonde"), "{}", ended.err);
    let after = fs::metadata(&file).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::ino(&after), before);
    assert_eq!(after.len(), 8 << 20);
}

#[test]
fn a_workload_of_check_in_turns() {
    if !has_fio() {
        return;
    }
    let place = Place::new();
    let words = "check . 256M --only database --seconds 0.5 --eta-interval 0 --allow-fs tmpfs \
                 --cross-check fio --cross-check-rounds 1";
    let ended = place.iosonde(words).end();
    let printed = ended.out.contains("Cross-check of Database\n");
    let full = ended.err.contains("are free") || ended.err.contains("no local storage");
    if full {
        skip(ended.err.trim());
        return;
    }
    assert!(printed, "{}\n{}", ended.out, ended.err);
}

#[test]
fn a_fio_that_fails_is_reported_and_our_run_is_printed() {
    let (code, check, stderr) = with_fake("echo 'fio: no such engine' >&2; exit 1");
    assert_eq!(code, 1, "{stderr}");
    let words = check["words"].as_str().unwrap();
    assert_eq!(words, "fio 9.9: n/a (fio ended with exit code 1: fio: no such engine)");
    let (code, check, _) = with_fake("echo '{\"fio version\": \"fio-9.9\", \"jobs\": ['");
    assert_eq!(code, 1);
    assert!(check["missing"].as_str().unwrap().contains("cannot be read"), "{check}");
    assert_eq!(check["agreement"], Value::Null);
}

#[test]
fn a_fio_that_hangs_ends_with_us() {
    let place = Place::new();
    let mark = place.work().join("pid");
    let bin = fake(&place, &format!("echo $$ > {}; exec sleep 300", mark.display()));
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let words = format!("{READ} 2 --results r");
    let running = call(&place, &words).env("PATH", path).start();
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    let hung = || fs::read_to_string(&mark).ok()?.trim().parse::<u32>().ok();
    while hung().is_none() && std::time::Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = hung().expect("fio was started");
    let ended = running.signal(Signal::TERM).end();
    assert_eq!(ended.code, Some(143), "{}", ended.err);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_done() {
    let place = Place::new();
    let bin = fake(&place, "exit 9");
    for (words, code, said) in [
        ("--ioengine sim --path servers=1,read=1ms --rw randread", 2, "the sim engine"),
        ("--path f --rw randread --wait poll", 2, "waiting without sleeping"),
        ("--path f --rw randread --latency-target p99<=2ms", 2, "latency target differs"),
        ("--path f --rw randread --output-format terse", 2, "--output-format=json"),
        ("--path f --rw randread --dry-run", 2, "--dry-run"),
    ] {
        let words = format!("run {words} --runtime 1 --cross-check fio");
        let ended = call(&place, &words).env("PATH", &bin).end();
        assert_eq!(ended.code, Some(code), "{words}: {}", ended.err);
        assert!(ended.err.contains(said), "{words}: {}", ended.err);
        assert!(place.kept().is_empty(), "{words}");
    }
    let ended = call(&place, "run --path f --rw randread --cross-check-rounds 3").end();
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    let empty = place.work().join("empty");
    fs::create_dir(&empty).unwrap();
    // System directories are searched too.
    if ["/usr/sbin/fio", "/sbin/fio", "/usr/local/sbin/fio"].iter().any(|p| fs::exists(p).unwrap())
    {
        skip("fio is in a system directory, and cannot be missing");
        return;
    }
    let ended = call(&place, &format!("{READ} 2")).env("PATH", &empty).end();
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert!(ended.err.contains("fio is not installed"), "{}", ended.err);
}
