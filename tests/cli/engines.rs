//! System calls of each engine, as traced by strace, compared with fio's.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use iosonde_model::spec::EngineKind;
use iosonde_rig::{skip, skip_part};

use super::program::Place;

/// Reads or writes per run.
const OPS: usize = 200;
/// Calls that can carry a read, and a write. A writing run also reads much before its writes, to
/// inspect the target.
const READS: &str = "pread64,preadv,preadv2,readv,io_submit,io_uring_enter";
const WRITES: &str = "pwrite64,pwritev,pwritev2,writev,io_submit,io_uring_enter";

/// Whether a program can be started.
fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok()
}

/// The most frequent of these calls by a program, and its count.
fn main_call(
    place: &Place,
    calls: &str,
    program: &Path,
    words: &str,
) -> Result<(String, usize), String> {
    let trace = place.work().join("trace");
    let ended = Command::new("strace")
        .args(["-f", "-e", &format!("trace={calls}"), "-o"])
        .arg(&trace)
        .arg(program)
        .args(words.split_whitespace())
        .current_dir(place.work())
        .env("HOME", place.home())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    if !ended.status.success() {
        return Err(format!("{}: {said}", program.display()));
    }
    let mut calls: BTreeMap<String, usize> = BTreeMap::new();
    for line in fs::read_to_string(&trace).unwrap().lines() {
        let Some((_, call)) = line.split_once(' ') else { continue };
        let Some((name, _)) = call.trim_start().split_once('(') else { continue };
        *calls.entry(name.trim_end_matches("64").into()).or_default() += 1;
    }
    calls.into_iter().max_by_key(|(_, count)| *count).ok_or(said)
}

#[test]
fn an_engine_makes_the_calls_that_it_names_and_fio_the_same() {
    if !is_there("strace") {
        return skip("strace is not installed");
    }
    let place = Place::new();
    if let Err(reason) = main_call(&place, "read", Path::new("cat"), "/proc/self/stat") {
        return skip(format!("strace may not trace here: {reason}"));
    }
    let has_fio = is_there("fio");
    if !has_fio {
        skip_part("the calls of fio", "it is not installed");
    }
    let mut engines = 0;
    for kind in EngineKind::of_files() {
        let calls = kind.calls();
        let Some(last) = calls.last() else { continue };
        let name = kind.name();
        for (way, carriers, expected) in [("read", READS, calls[0]), ("write", WRITES, *last)] {
            for direct in [0, 1] {
                let words = format!(
                    "--name=a --filename=data --rw=rand{way} --bs=4k --size={} --ioengine={name} \
                     --direct={direct}",
                    OPS * 4096
                );
                place.file("data", &vec![0; OPS * 4096]);
                let program = iosonde_fixtures::program!();
                let (program, line) = (Path::new(program.path()), format!("run {words}"));
                let ours = main_call(&place, carriers, program, &line);
                let (call, count) = match ours {
                    Err(reason) if kind.is_uring() => {
                        skip_part(name, reason);
                        continue;
                    }
                    ours => ours.unwrap(),
                };
                assert_eq!(call, expected, "{words}");
                assert!(count >= OPS, "{words}: {count}");
                engines += 1;
                if has_fio {
                    place.file("data", &vec![0; OPS * 4096]);
                    match main_call(&place, carriers, Path::new("fio"), &words) {
                        Ok((call, _)) => assert_eq!(call, expected, "fio {words}"),
                        Err(reason) => skip_part(name, reason),
                    }
                }
            }
        }
    }
    assert!(engines >= 8, "psync and libaio are everywhere: {engines}");
}

#[test]
fn each_engine_reads_a_file_that_is_written_before_the_run() {
    // Other tests cover io_uring.
    for kind in EngineKind::of_files().filter(|kind| !kind.is_uring()) {
        let place = Place::new();
        let name = kind.name();
        let words =
            format!("run --path . --size 1m --rw randread --runtime 200ms --ioengine {name}");
        place.iosonde(&words).end().exits(0);
    }
}
