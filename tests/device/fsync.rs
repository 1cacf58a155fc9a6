//! The fsync ladder on devices that execute a flush, are slow at it, ignore it or fail it.

use std::path::Path;

use iosonde_rig::guard::{FsKind, ImageMount, LoopDevice, TmpfsMount};
use iosonde_rig::{Op, ScratchDir};
use serde_json::Value;

use crate::request::{Answer, ask, here, served, turn, until};

const MIB: u64 = 1 << 20;
/// Size of a file system on which a test file does not use the reserve.
const ROOMY: u64 = 2048 * MIB;

fn run_ladder(path: &Path, more: &str) -> Answer {
    ask(&format!("verify fsync {{}} {more}"), path).answer()
}

/// Strength and text of a rung.
fn ladder_test(answer: &Answer, code: &str) -> (String, String) {
    let ladder_tests =
        answer.at("/rungs").as_array().unwrap_or_else(|| panic!("{}", answer.gist()));
    let found = ladder_tests.iter().find(|ladder_test| ladder_test["code"] == code).unwrap();
    let word = |key: &str| found[key].as_str().unwrap().to_owned();
    (word("strength"), word("words"))
}

#[track_caller]
fn states(answer: &Answer, code: &str, strength: &str, start: &str) {
    let (found, words) = ladder_test(answer, code);
    assert_eq!(found, strength, "{words}");
    assert!(words.starts_with(start), "{words}");
}

fn layer<'a>(answer: &'a Answer, device: &LoopDevice) -> &'a Value {
    let name = device.path().file_name().unwrap().to_str().unwrap();
    let layers = answer.at("/layers").as_array().unwrap();
    layers.iter().find(|layer| layer["name"] == name).unwrap_or_else(|| panic!("{layers:?}"))
}

#[test]
fn every_fsync_on_a_loop_device_is_counted_down_to_its_disk() {
    let _turn = turn();
    let Some(mount) = here(ImageMount::new(FsKind::Ext4, ROOMY, "")) else { return };
    let answer = run_ladder(mount.path(), "--size 64M").exits(0);
    let start = "flushes reach the block device: each of 20 fsync calls";
    states(&answer, "F1", "proven", start);
    // No other process uses the loop device.
    let own = layer(&answer, mount.device());
    assert_eq!((&own["with_flush"], &own["calls"]), (&20.into(), &20.into()));
    assert!(own["flushes"].as_u64().unwrap() >= 20);
    // The image's page cache acts as the device's cache: written data must be written back.
    if answer.at("/plan/direct") == true {
        states(&answer, "F2", "supported", "flush time is proportional to the amount of data");
    }
    let record = answer.record();
    assert_eq!(record["schema"], "iosonde.ladder/1");
    assert_eq!(record["samples"].as_array().unwrap().len(), 20 * 6);
}

#[test]
fn a_file_system_without_barriers_is_found() {
    let _turn = turn();
    // In memory, because other processes flush the machine's disk.
    let mount = ImageMount::below(Path::new("/dev/shm"), FsKind::Ext4, ROOMY, "barrier=0");
    let Some(mount) = here(mount) else { return };
    let answer = run_ladder(mount.path(), "--size 1M").exits(0);
    states(&answer, "F1", "proven", "fsync sends no flush: none of 20 calls");
    assert!(ladder_test(&answer, "F1").1.contains("mounted with nobarrier"));
    if answer.at("/plan/direct") == true {
        states(&answer, "F2", "not available", "not available: no flush is sent");
    }
    assert_eq!(layer(&answer, mount.device())["flushes"], 0);
    assert_eq!(layer(&answer, mount.device())["counted"]["is"], "missing");
}

#[test]
fn a_layer_below_that_drops_flushes_is_found() {
    let _turn = turn();
    let Some(outer) = here(ImageMount::new(FsKind::Ext4, ROOMY, "barrier=0")) else { return };
    let inner = ImageMount::below(outer.path(), FsKind::Ext4, 1200 * MIB, "");
    let Some(inner) = here(inner) else { return };
    let answer = run_ladder(inner.path(), "--size 1M").exits(0);
    let (strength, words) = ladder_test(&answer, "F1");
    assert_eq!(strength, "proven", "{words}");
    assert!(words.contains("a layer between them drops flushes"), "{words}");
    assert_eq!(layer(&answer, inner.device())["counted"]["is"], "reached");
    assert_eq!(layer(&answer, outer.device())["counted"]["is"], "missing");
}

#[test]
fn a_block_device_is_flushed_by_its_own_fsync() {
    let _turn = turn();
    let dir = ScratchDir::new().unwrap();
    let image = dir.path().join("image");
    let Some(device) = here(LoopDevice::new(&image, 32 * MIB)) else { return };
    let refused = run_ladder(device.path(), "").exits(5);
    let consent = format!("--destroy-data={}", image.display());
    let message = refused.at("/error/message").as_str().unwrap();
    assert!(message.contains(&format!("repeat with {consent}")), "{message}");
    let answer = run_ladder(device.path(), &consent).exits(0);
    states(&answer, "F1", "proven", "flushes reach the block device");
    assert_eq!(answer.at("/plan/left_out"), &serde_json::json!([64 * MIB]));
    assert!(answer.at("/notes/0").as_str().unwrap().contains("left out"));
    // The data left are our own: consent need only name the device.
    run_ladder(device.path(), &format!("{consent} --size 1M")).exits(0);
    run_ladder(device.path(), &format!("{consent} --overwrite-signature=ext")).exits(2);
}

#[test]
fn a_served_directory_has_no_counters_and_a_flat_flush() {
    let _turn = turn();
    let Some(mount) = served(&["sync=const:5ms"]) else { return };
    let answer = run_ladder(mount.path(), "--size 64M").exits(0);
    states(&answer, "F1", "not available", "not available: ");
    assert!(ladder_test(&answer, "F1").1.contains("served by a program"));
    // The server makes data durable by copying in memory: no medium, so no slope of one.
    let slope = answer.at("/slope_ns_per_byte/median").as_f64().unwrap();
    assert!(slope < 0.25, "{slope}: {:?}", ladder_test(&answer, "F2"));
    let levels = answer.at("/levels").as_array().unwrap();
    assert!(levels.iter().all(|level| level["min_ns"].as_f64().unwrap() >= 5e6), "{levels:?}");
    // Every reported call was made: one for the layout, and six in each round.
    assert_eq!(mount.truth().sync.count, 1 + 20 * 6);
}

#[test]
fn a_failed_fsync_is_fatal_and_not_repeated() {
    let _turn = turn();
    let Some(mount) = served(&["sync=const:1ms", "fault=sync:eio:after=10"]) else { return };
    let answer = run_ladder(mount.path(), "--size 1M").exits(1);
    assert_eq!(answer.at("/complete"), false);
    let failure = answer.at("/failure").as_str().unwrap();
    assert!(failure.contains("EIO") && failure.contains("was not retried"), "{failure}");
    assert_eq!(mount.truth().sync.errors, 1);
    assert_eq!(answer.record()["samples"].as_array().unwrap().len(), 9);
}

#[test]
fn an_interrupt_keeps_what_was_seen() {
    let _turn = turn();
    let Some(mount) = served(&["sync=const:20ms"]) else { return };
    let asking = ask("verify fsync {} --size 1M --samples 20000", mount.path()).start();
    until("fsync", || mount.truth().sync.count > 50);
    asking.interrupt();
    let answer = asking.wait().exits(130);
    assert_eq!(answer.at("/complete"), false);
    assert!(answer.record()["samples"].as_array().unwrap().len() > 5);
    assert_eq!(answer.record()["outcome"]["ended"], "interrupted");
}

#[test]
fn an_interrupt_before_the_final_sync_has_ended_is_no_error() {
    let _turn = turn();
    let Some(mount) = served(&["write=const:1ms", "sync=const:3s"]) else { return };
    let data = mount.path().join("data");
    std::fs::File::create(&data).unwrap().set_len(64 * MIB).unwrap();
    let words = "run --path {} --rw write --bs 1M --runtime 30 --ramp-time 0";
    let asking = ask(words, &data).start();
    until("writes", || mount.truth().of(Op::Write).count > 100);
    asking.interrupt();
    let answer = asking.wait().exits(130);
    let record = answer.record();
    assert_eq!(record["outcome"]["ended"], "interrupted");
    assert_eq!(record["final_sync"], Value::Null);
    let findings = answer.at("/verdict/findings").to_string();
    assert!(!findings.contains("\"errors\""), "{findings}");
}

#[test]
fn memory_is_no_storage() {
    let _turn = turn();
    let Some(mount) = here(TmpfsMount::new(64 * MIB)) else { return };
    let answer = run_ladder(mount.path(), "").exits(5);
    assert!(answer.at("/error/message").as_str().unwrap().contains("not storage"));
}
