//! Every row of blkbench's tables of options, and the commands of its description with
//! `iosonde run` in place of `blkbench`, behave as documented there.

use std::fs;

use iosonde_rig::skip;
use serde_json::Value;

use super::program::{Ended, Place, listing};

/// A place with a smaller version of blkbench's disk.
fn place() -> Place {
    let place = Place::new();
    place.hole("test-disk.raw", 64 << 20);
    place
}

fn run(place: &Place, words: &str) -> Ended {
    place.iosonde(&format!("run --path test-disk.raw {words}")).end()
}

/// The plan of a command, from its dry run.
fn plan(place: &Place, words: &str) -> Value {
    let ended = run(place, &format!("{words} --dry-run --output-format json")).exits(0);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    document["plan"].clone()
}

#[test]
fn each_option_says_what_it_says_there() {
    let place = place();
    let read = "--rw randread";
    // An option, the plan value that it sets, and its default.
    let rows: [(&str, &str, &str, Value); 17] = [
        ("--rw read", "", "/jobs/0/read_percent", 100.into()),
        ("--rw write", "", "/jobs/0/read_percent", 0.into()),
        ("--rw randwrite", "", "/jobs/0/read_percent", 0.into()),
        ("--rw readwrite", "", "/jobs/0/read_percent", 50.into()),
        ("--rw randrw", "--rwmixread 70", "/jobs/0/read_percent", 70.into()),
        (read, "", "/jobs/0/block_bytes", 4096.into()),
        (read, "--bs 64k", "/jobs/0/block_bytes", 65_536.into()),
        (read, "", "/jobs/0/iodepth", 1.into()),
        (read, "--iodepth 32", "/jobs/0/iodepth", 32.into()),
        (read, "", "/stop/after_ns", 10_000_000_000u64.into()),
        (read, "--runtime 3", "/stop/after_ns", 3_000_000_000u64.into()),
        (read, "", "/jobs/0/region_bytes", (64 << 20).into()),
        (read, "--size 1m --numjobs 2", "/jobs/1/region_bytes", (1 << 20).into()),
        (read, "--offset 1m", "/jobs/0/region_start", (1 << 20).into()),
        (read, "--ramp_time 2", "/warmup_ns", 2_000_000_000u64.into()),
        ("--rw write", "--sync 16", "/jobs/0/sync/every_writes", 16.into()),
        ("--rw write", "--sync 0", "/jobs/0/sync/every_writes", 0.into()),
    ];
    for (rw, more, pointer, value) in rows {
        let words = format!("{rw} {more}");
        let plan = plan(&place, &words);
        assert_eq!(plan.pointer(pointer), Some(&value), "{words}: {plan}");
    }
    assert_eq!(plan(&place, "--rw read --numjobs 4")["jobs"].as_array().unwrap().len(), 4);
}

#[test]
fn drivers_and_direct_io() {
    let place = place();
    for (words, engine) in [("--driver io_uring", "io_uring"), ("--driver psync", "psync")] {
        let plan = plan(&place, &format!("--rw read {words}"));
        assert_eq!(plan["engine"]["kind"], engine);
    }
    // Direct I/O is the default where the file system supports it.
    assert_eq!(plan(&place, "--rw read --direct 0")["targets"][0]["direct"], false);
    if run(&place, "--rw read --direct 1 --dry-run").err.contains("takes no direct I/O") {
        return skip("no direct I/O on the file system of the test");
    }
    for words in ["", "--direct 1"] {
        let plan = plan(&place, &format!("--rw read {words}"));
        assert_eq!(plan["targets"][0]["direct"], true, "{words}");
    }
}

#[test]
fn output_options() {
    let place = place();
    let short = "--rw randread --number-ios 2000";
    run(&place, &format!("{short} --output-format normal")).exits(0).prints("read: IOPS=");
    let document = run(&place, &format!("{short} --output-format json")).exits(0).json();
    assert!(document["summary"]["read"]["iops"].as_f64().unwrap() > 0.0);
    run(&place, &format!("{short} --eta-interval 0")).exits(0);
    place.iosonde("run --help").end().exits(0).prints("--eta-interval");
    place.iosonde("run --version").end().exits(0).prints(env!("CARGO_PKG_VERSION"));
}

#[test]
fn a_flush_is_sent_after_every_so_many_writes() {
    let place = place();
    for (every, flushes) in [(0, 0), (1, 65), (16, 4)] {
        let words = format!("--rw write --number-ios 65 --sync {every} --results kept{every}");
        run(&place, &words).exits(0);
        let kept = listing(&place.work().join(format!("kept{every}")));
        let record = fs::read_to_string(kept[0].join("01-run.json")).unwrap();
        let record: Value = serde_json::from_str(&record).unwrap();
        let job = &record["jobs"][0];
        assert_eq!(job["write"]["ops"], 65, "every {every}");
        assert_eq!(job["sync"]["ops"], flushes, "every {every}");
    }
}

#[test]
fn what_verifies_is_for_the_modes_that_verify() {
    let place = place();
    for (words, message) in [
        ("--rw write --verify-sectors 1:16", "--verify-sectors is not an option here"),
        ("--rw write --verify-inject-fault", "--verify-inject-fault is not an option here"),
    ] {
        run(&place, words).exits(2).silent().says(message);
    }
}

#[test]
fn its_example_commands_run() {
    let place = place();
    // Its quick start with a file in the working directory and short runs.
    for words in [
        "--driver io_uring --path test-disk.raw --rw randread --bs 4k --iodepth 32",
        "--driver io_uring --path test-disk.raw --rw randread --output-format json",
    ] {
        let ended = place.iosonde(&format!("run {words} --number-ios 2000")).end();
        if ended.err.contains("io_uring cannot be") {
            return skip(ended.err.trim());
        }
        let ended = ended.exits(0);
        if words.contains("json") {
            ended.json();
        } else {
            let printed = ended.prints("rw=randread, bs=4k, iodepth=32, numjobs=1");
            // Every part of its example output.
            for part in ["read: IOPS=", "BW=", "lat (usec): min=", "99.99th=[", "cpu: usr=", "ios:"]
            {
                assert!(printed.out.contains(part), "{part}: {printed}");
            }
        }
    }
}
