//! Faults of a device: exit code, errors and stored results of the program.

use std::process::Command;
use std::time::Duration;

use iosonde_rig::FuseMount;
use serde_json::Value;

use crate::request::{Answer, PATIENCE, ask, lay_out, names, served, turn, until};

const READS: &str = "run --path {} --rw randread --iodepth 4 --runtime 2";

/// A run on a file that was laid out before the faults start to count.
fn read(mount: &FuseMount, line: &str) -> Answer {
    let file = mount.path().join("file");
    lay_out(&file, 16);
    mount.restart();
    ask(line, file).answer()
}

/// Errors of the first cell under one name.
fn errors(answer: &Answer, name: &str) -> u64 {
    answer.at("/cells/0/errors")[name].as_u64().unwrap_or(0)
}

#[test]
fn each_error_is_counted_where_it_may_go_on() {
    let _turn = turn();
    let words = ["read=const:1ms", "fault=read:eio:every=100"];
    let Some(mount) = served(&words) else { return };
    let answer = read(&mount, &format!("{READS} --continue-on-error")).exits(1);
    let (found, truth) = (errors(&answer, "read EIO"), mount.truth());
    // Probes before the run may fail too.
    assert!(found >= 10 && truth.read.errors.abs_diff(found) <= 1, "{found} {truth:?}");
    answer.finds("errors", "proven");
    assert_eq!(answer.at("/verdict/words"), "failed: I/O errors");
    let ops = answer.number("summary/read/ops") as u64;
    assert!(ops <= truth.read.count - truth.read.errors, "a failed read is no operation");
    assert!(ops > 1_000);
}

#[test]
fn the_first_error_ends_the_run_and_what_was_measured_is_kept() {
    let _turn = turn();
    let words = ["read=const:1ms", "fault=any:eio:after=2000"];
    let Some(mount) = served(&words) else { return };
    let answer = read(&mount, READS).exits(1);
    assert_eq!(answer.at("/cells/0/status"), "failed");
    assert_eq!(answer.at("/complete"), false);
    assert!((1..=4).contains(&errors(&answer, "read EIO")));
    let ops = answer.number("summary/read/ops");
    assert!((1_900.0..=2_000.0).contains(&ops), "{ops}");
    assert_eq!(answer.record()["outcome"]["ended"], "failed");
    assert!(answer.took < PATIENCE / 2, "{:?}", answer.took);
}

#[test]
fn a_device_without_faults_has_none() {
    let _turn = turn();
    let Some(mount) = served(&["read=const:1ms"]) else { return };
    let answer = read(&mount, READS).exits(0);
    answer.finds_no("errors");
    assert_eq!(answer.at("/cells/0/errors"), &serde_json::json!({}));
}

#[test]
fn a_disk_that_fills_up_during_layout_is_named() {
    let _turn = turn();
    for (errno, fault) in [("ENOSPC", "enospc"), ("EDQUOT", "edquot")] {
        let words = [format!("fault=write:{fault}:bytes=16M")];
        let Some(mount) = served(&words.each_ref().map(String::as_str)) else { return };
        for line in [
            "run --path {} --size 64M --rw randread --runtime 1",
            "check {} 256M --only cache --seconds 1",
        ] {
            let answer = ask(line, mount.path()).answer().exits(1);
            let message = answer.at("/error/message").as_str().unwrap();
            assert!(message.starts_with("the test file could not be prepared: "), "{message}");
            assert!(message.contains(errno), "{message}");
            assert_eq!(names(mount.path()), Vec::<String>::new());
        }
    }
}

#[test]
fn short_reads_are_continued() {
    let _turn = turn();
    let words = ["read=const:1ms", "fault=read:short:every=10", "direct_io=on"];
    let Some(mount) = served(&words) else { return };
    let answer = read(&mount, READS);
    let answer = answer.exits(0);
    let ops = answer.number("summary/read/ops");
    assert_eq!(answer.number("summary/read/bytes"), ops * 4096.0);
    let continued = answer.record()["jobs"][0]["short_transfers"].as_u64().unwrap();
    assert!(continued > 50, "{continued}");
}

#[test]
fn a_stall_is_in_the_maximum_and_the_run_ends_in_time() {
    let _turn = turn();
    let words = ["read=const:1ms", "fault=any:stall=3s:time=1s"];
    let Some(mount) = served(&words) else { return };
    let line = "run --path {} --rw randread --iodepth 4 --runtime 5";
    let answer = read(&mount, line).exits(0);
    let max_ns = answer.latency_ns("read", "max");
    // The server records the true length; on a busy machine the answer arrives later.
    let true_ns = mount.truth().read.response.max_ns as f64;
    assert!((2.9e9..true_ns + 1e9).contains(&max_ns), "{max_ns}, in the server {true_ns}");
    assert!(answer.latency_ns("read", "p50") < 1e9, "one stall is not the median");
    assert!(answer.took < PATIENCE / 2, "{:?}", answer.took);
}

#[test]
fn a_stall_over_the_end_is_waited_for() {
    let _turn = turn();
    let words = ["read=const:1ms", "fault=any:stall=3s:time=1s"];
    let Some(mount) = served(&words) else { return };
    let answer = read(&mount, READS).exits(0);
    // The window does not depend on the device: later completions are outside of it.
    assert_eq!(answer.number("figures/window_ns"), 2e9);
    assert!(answer.latency_ns("read", "max") < 2e9);
    assert!(answer.took < PATIENCE / 2, "{:?}", answer.took);
}

#[test]
fn a_server_that_vanishes_is_an_error_and_no_hang() {
    let _turn = turn();
    let Some(mount) = served(&["read=const:1ms"]) else { return };
    let file = mount.path().join("file");
    lay_out(&file, 16);
    let line = "run --path {} --rw randread --iodepth 4 --runtime 600";
    let asking = ask(line, &file).start_measuring();
    until("read", || mount.truth().read.count > 500);
    // Forces the unmount: to the kernel it looks like a killed server.
    drop(mount);
    let answer = asking.wait().exits(1);
    assert_eq!(answer.at("/cells/0/status"), "failed");
    assert!(answer.number("summary/read/ops") > 100.0);
    assert_eq!(answer.record()["outcome"]["ended"], "failed");
}

#[test]
fn a_killed_check_leaves_no_file() {
    let _turn = turn();
    let Some(mount) = served(&["read=const:1ms", "write=const:1ms"]) else { return };
    let line = "check {} 256M --only cache --seconds 20";
    let mut before = 0;
    for wait in [30, 200, 2_500] {
        let asking = ask(line, mount.path()).start();
        std::thread::sleep(Duration::from_millis(wait));
        assert_eq!(names(mount.path()), Vec::<String>::new(), "unlinked at once");
        let kill = Command::new("kill").args(["-9", &asking.id().to_string()]).status();
        assert!(kill.unwrap().success());
        assert_eq!(asking.wait().exit, None);
        assert_eq!(names(mount.path()), Vec::<String>::new());
        let truth = mount.truth();
        before = truth.write.count + truth.read.count;
    }
    assert!(before > 0, "it was killed at work");
}

#[test]
fn errors_of_a_check_are_in_its_exit_code() {
    let _turn = turn();
    let words = ["read=const:1ms", "fault=read:eio:after=3000"];
    let Some(mount) = served(&words) else { return };
    let line = "check {} 256M --only cache,training --seconds 2";
    let answer = ask(line, mount.path()).answer().exits(1);
    assert_eq!(answer.at("/complete"), false);
    assert!(answer.at("/verdict/words").as_str().unwrap().starts_with("failed: "));
    assert_ne!(answer.at("/cells/0/status"), &Value::Null);
}
