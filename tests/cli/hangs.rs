//! Storage that never answers: it is named, and the first interrupt ends every verb with its
//! results so far. An answer takes an hour here, so a verb that waits for it fails the test.

use std::fs;
use std::time::{Duration, Instant};

use iosonde_rig::{FuseMount, Script, skip};
use rustix::process::Signal;
use serde_json::Value;

use super::program::{Place, Running};

/// Far below the hour of an answer, and above the delays of a busy machine.
const SOON: Duration = Duration::from_secs(20);

fn serve(words: &[&str]) -> Option<FuseMount> {
    let script = Script::from_words(words.iter().copied()).unwrap();
    FuseMount::new(script).map_err(skip).ok()
}

/// Interrupts a command and reports how long its end took.
fn interrupt(what: &str, running: Running) -> super::program::Ended {
    let started = Instant::now();
    let ended = running.signal(Signal::INT).end();
    let took = started.elapsed();
    eprintln!("{what}: ended {took:.2?} after the interrupt");
    assert!(took < SOON, "{what}: {took:?}");
    ended.exits(130)
}

#[test]
fn the_first_interrupt_ends_every_verb_before_anything_was_answered() {
    let Some(mount) = serve(&["fault=any:stall=3600s"]) else { return };
    let folder = mount.path().to_str().unwrap();
    for (nth, words) in [
        "run --rw randread --runtime 60 --ioengine psync --path DATA",
        "run --rw randread --runtime 60 --ioengine libaio --iodepth 4 --path DATA",
        "run --rw randwrite --runtime 60 --size 8M --path FOLDER --output-format json",
        "check FOLDER 256M",
        "experiment run queue-depth FOLDER --size 256M",
        "verify soak DATA",
        "verify write DATA --ledger ledger",
        "verify flush FOLDER --size 8M",
        "verify fsync FOLDER",
        "doctor DATA",
        "compare --run 'iosonde run --path DATA --rw read' \
         --run 'iosonde run --path DATA --rw randread'",
    ]
    .into_iter()
    .enumerate()
    {
        // Separate files: the kernel keeps a process's file open until the server answers.
        let data = mount.path().join(format!("data{nth}"));
        fs::File::create(&data).unwrap().set_len(8 << 20).unwrap();
        let words = words.replace("DATA", data.to_str().unwrap()).replace("FOLDER", folder);
        let place = Place::new();
        // The value of --run is one word.
        let mut call = place.iosonde("");
        for (nth, part) in words.split('\'').enumerate() {
            call = match nth.is_multiple_of(2) {
                true => part.split_whitespace().fold(call, |call, word| call.arg(word)),
                false => call.arg(part),
            };
        }
        let running = call.start().pause(Duration::from_millis(1500));
        let ended = interrupt(&words, running);
        if words.contains("json") {
            assert_eq!(ended.json()["error"]["kind"], "interrupted");
        }
        assert!(place.kept().is_empty(), "{words}: {:?}", place.kept());
    }
}

#[test]
fn what_was_measured_before_it_stopped_answering_is_kept() {
    for engine in ["io_uring", "libaio"] {
        let words = ["read=const:100us", "fault=read:stall=3600s:after=3000"];
        let Some(mount) = serve(&words) else { return };
        let place = Place::new();
        let data = mount.path().join("data");
        fs::File::create(&data).unwrap().set_len(8 << 20).unwrap();
        let words = "run --rw randread --runtime 60 --iodepth 4 --eta-interval 0.1 --path";
        let call = place.iosonde(words).arg(&data).arg(format!("--ioengine={engine}"));
        let running = call.start().until_stderr("IOPS").until_stderr(": 0 IOPS");
        interrupt(engine, running).prints("IOPS");
        let kept = place.kept().remove(0);
        let text = fs::read(kept.join("01-run.json")).unwrap();
        let run: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(run["outcome"]["ended"], "interrupted");
        assert!(run["jobs"][0]["read"]["ops"].as_u64().unwrap() > 100);
        let manifest = fs::read_to_string(kept.join("manifest.json")).unwrap();
        assert!(manifest.contains("\"complete\":false"));
    }
}

#[test]
fn what_does_not_answer_is_named() {
    let words = ["read=const:100us", "fault=read:stall=3600s:after=3000"];
    let Some(mount) = serve(&words) else { return };
    let place = Place::new();
    let data = mount.path().join("data");
    fs::File::create(&data).unwrap().set_len(8 << 20).unwrap();
    let words = "run --rw randread --runtime 60 --ioengine psync --path";
    let running = place.iosonde(words).arg(&data).start().until_stderr("no answer for ");
    let ended = interrupt("psync", running);
    let point = mount.path().to_str().unwrap();
    ended.says("reads and writes of job 0").says(data.to_str().unwrap()).says(point).says("UTC");
}

#[test]
fn a_command_ends_by_itself_where_nothing_is_answered() {
    let Some(mount) = serve(&["read=const:100us", "fault=read:stall=3600s:after=500"]) else {
        return;
    };
    let place = Place::new();
    let data = mount.path().join("data");
    fs::File::create(&data).unwrap().set_len(8 << 20).unwrap();
    let words = "run --rw randread --runtime 1 --ioengine io_uring --path";
    let ended = place.iosonde(words).arg(&data).end().exits(1);
    ended.prints("did not complete within 10 s");
}
