//! Usage errors: exit code 2, a message with the found and the expected value, no file left.

use iosonde_rig::skip;

use super::program::{Place, listing};

/// Runs each command, whose message must contain the text.
fn refuse(place: &Place, cases: &[(&str, &str)]) {
    let before = listing(&place.work());
    for (words, message) in cases {
        place.iosonde(words).end().exits(2).silent().says("iosonde: error: ").says(message);
        let ended = place.iosonde(words).arg("--output-format=json").end().exits(2);
        let document = ended.says(message).json();
        assert_eq!(document["error"]["kind"], "usage", "{words}");
        assert!(!document["error"]["message"].as_str().unwrap().is_empty());
    }
    assert_eq!(listing(&place.work()), before);
    assert!(place.kept().is_empty(), "{:?}", place.kept());
}

#[test]
fn of_check() {
    let place = Place::new();
    place.file("file", b"content");
    refuse(
        &place,
        &[
            ("check missing", "`missing` does not exist"),
            ("check file", "`file` is not a directory"),
            ("check . 0", "expected at least 256 MiB"),
            ("check . -5", "-5"),
            ("check . 1Q", "found the unit `Q`"),
            ("check . nan", "found `nan`"),
            ("check . 255M", "255 MiB requested, expected at least 256 MiB"),
            ("check . 4000T", "give a smaller size"),
            ("check --sceonds 3", "'--seconds'"),
            ("check --seconds 0", "expected 0.1 s to 24 h"),
            ("check --seconds nan", "--seconds: found `nan`"),
            ("check --seconds 3 --quick", "--quick"),
            ("check --only databse", "did you mean `database`?"),
            ("check --skip nothing", "no workload `nothing`"),
            ("check --only cache --skip cache", "leave no workload"),
            ("check --threads 0", "--threads"),
            ("check --expect p99", "expected METRIC OP VALUE"),
            ("check --expect Databse.p99<=2ms", "Databse"),
            ("check --expect p98.7x<=2ms", "--expect"),
        ],
    );
}

#[test]
fn of_run() {
    let place = Place::new();
    place.hole("hole", 64 << 20);
    refuse(
        &place,
        &[
            ("run --path hole --rw raed", "did you mean `read`?"),
            ("run --path hole", "--rw"),
            ("run --rw read", "--path is missing"),
            ("run --path missing --rw read", "`missing` does not exist"),
            ("run --path . --rw read", "give --size"),
            ("run --path . --rw read --size 4000T", "give a smaller size"),
            ("run --path hole --rw read --iodpeth 4", "'--iodepth'"),
            ("run --path hole --rw read --iodepth 4 --ioengine psync", "exactly one request"),
            ("run --path hole --rw read --iodepth 0", "iodepth 0"),
            (
                "run --path hole --rw read --latency-target p99<=2ms",
                "is the largest depth tried, and it is 1",
            ),
            ("run --path hole --rw read --iodepth 8 --latency-target p99>2ms", "upper limit"),
            ("run --path hole --rw read --iodepth 8 --latency-target iops<=2", "a percentile"),
            ("run --path hole --rw read --iodepth 8 --latency-target p100<2", "p50 to p99.999"),
            (
                "run --path hole --rw read --iodepth 8 --number-ios 9 --latency-target p99<2",
                "is measured for a length of time",
            ),
            (
                "run --path hole --rw read --iodepth 8 --latency-target p99<2 --latency-window 0",
                "expected at least one second",
            ),
            ("run --path hole --rw read --latency-mode hold", "--latency-target"),
            ("run --path hole --rw read --until p99", "METRIC+-WIDTH%"),
            ("run --path hole --rw read --until p98+-3%", "did you mean"),
            ("run --path hole --rw read --until max+-3%", "a single value"),
            ("run --path hole --rw read --until p99+-0.1%", "at least 1 %"),
            ("run --path hole --rw read --until write.p99+-3%", "no operation of this kind"),
            ("run --path hole --rw read --until p99+-3% --runtime 2", "larger --runtime"),
            ("run --path hole --rw read --until p99+-3% --number-ios 9", "--number-ios"),
            (
                "run --path hole --rw read --iodepth 8 --until p99+-3% --latency-target p99<2",
                "--latency-target",
            ),
            ("run --path hole --rw read --runtime 2 --io-size 1m", "two lengths"),
            ("run --path hole --rw read --iodepth 5000", "iodepth 5000"),
            ("run --path hole --rw read --ioengine posix", "found `posix`"),
            ("run --path hole --rw read --ioengine psync --sqpoll", "--sqpoll has no effect"),
            ("run --path hole --rw read --ioengine psync --hipri", "--hipri has no effect"),
            ("run --ioengine sim --path read=1ms --rw read --direct 0", "--direct has no effect"),
            ("run --ioengine sim --path read=1ms --rw read --profile", "--profile has no effect"),
            ("experiment run jobs --ioengine sim read=1ms --buffered", "--buffered has no effect"),
            (
                "run --ioengine sim --path read=1ms --rw read --hugepages",
                "--hugepages has no effect",
            ),
            ("run --path hole --rw randrw --rwmixread 101", "101"),
            ("run --path hole --rw randrw --rwmixread nan", "nan"),
            ("run --path hole --rw write --rwmixread 30", "--rwmixread has no effect"),
            ("run --path hole --rw read --norandommap", "--norandommap has no effect"),
            ("run --path hole --rw read --overwrite-file hole", "--overwrite-file has no effect"),
            ("run --path hole --rw read --bs 1000 --direct 1", "multiples of"),
            ("run --path hole --rw read --bs 0", "block size 0"),
            ("run --path hole --rw read --bs 2g", "block size"),
            ("run --path hole --rw read --bs 128m", "region"),
            ("run --path hole --rw read --numjobs 0", "0 is not in 1..=4096"),
            ("run --path hole --rw read --numjobs 100000", "100000 is not in 1..=4096"),
            ("run --path hole --rw read --runtime 0", "a length above 0"),
            ("run --path hole --rw read --runtime -1", "-1"),
            ("run --path hole --rw read --runtime 5124095h", "at most a year"),
            ("run --path hole --rw read --number-ios 0", "a length above 0"),
            ("run --path hole --rw read --size 0", "--size: found `0`"),
            ("run --path hole --rw read --size 1g", "`hole` has 64 MiB"),
            ("run --path hole --rw read --offset 64m", "--offset: found 64 MiB"),
            ("run --path hole --rw read --offset 60m --size 5m", "reach to 65 MiB"),
            ("run --path hole --rw read --offset 100 --direct 1", "offset 100 B"),
            ("run --path hole --rw read --direct 2", "--direct"),
            ("run --path /dev/zero --rw read", "give --size"),
            ("run --ioengine null --rw read --offset 18446744073709551615", "0 B"),
            ("run --ioengine sim --path raed=1ms --rw read", "did you mean `read`?"),
            ("run --ioengine sim --path read --rw read", "expected key=value"),
            ("run --ioengine sim --path read=1parsec --rw read", "parsec"),
        ],
    );
}

#[test]
fn of_nobody_in_particular() {
    let place = Place::new();
    refuse(&place, &[("chekc", "'check'"), ("--bogus", "--bogus")]);
}

#[test]
fn the_json_word_is_found_however_it_is_spelled() {
    let place = Place::new();
    for form in ["--output-format json", "--output_format json", "--output_format=json"] {
        let ended = place.iosonde(&format!("check --bogus {form}")).end().exits(2);
        assert_eq!(ended.json()["error"]["kind"], "usage");
    }
}

#[test]
fn a_path_need_not_be_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    place.iosonde("check").arg(name).end().exits(2).silent().says("does not exist");
    place.iosonde("run --rw read --path").arg(name).end().exits(2).silent();
    place.iosonde("").arg(name).end().exits(2).silent();
}

#[test]
fn control_characters_of_a_path_do_not_reach_the_terminal() {
    let place = Place::new();
    let ended = place.iosonde("check").arg("no\x1b[31msuch").end().exits(2).silent();
    assert!(!ended.err.contains('\x1b'), "{:?}", ended.err);
    let ended = place.iosonde("run --rw read").arg("--\x1b]0;title\x07").end().exits(2);
    assert!(!ended.err.contains('\x1b') && !ended.err.contains('\x07'), "{:?}", ended.err);
}

#[test]
fn a_block_that_the_sectors_cannot_take() {
    let place = Place::new();
    place.hole("image", 16 << 20);
    let image = place.work().join("image");
    for (sector_bytes, bs, code) in [(4096, "512", 2), (4096, "4k", 0), (512, "512", 0)] {
        let options = iosonde_rig::guard::LoopOptions { sector_bytes, ..Default::default() };
        let device = match iosonde_rig::guard::LoopDevice::over(&image, options) {
            Ok(device) => device,
            Err(reason) => return skip(reason),
        };
        let words = format!("run --rw randread --runtime 0.1 --bs {bs} --path");
        let ended = place.iosonde(&words).arg(device.path()).end().exits(code);
        assert!(code == 0 || ended.err.contains("multiples of 4096 B"), "{ended}");
    }
}

#[test]
fn a_built_in_workload_is_the_load_of_its_row_of_check() {
    let place = Place::new();
    let jobs = |words: &str| {
        let out = place.iosonde(words).end().exits(0).out;
        let document: serde_json::Value = serde_json::from_str(&out).unwrap();
        let plan = document.get("plan").unwrap_or(&document["cells"][0]);
        plan["jobs"].as_array().unwrap_or_else(|| panic!("{document}")).clone()
    };
    let plan = "--randseed 7 --dry-run --output-format json";
    let row = jobs(&format!("check . 256M --only kv-store {plan}"));
    let run = jobs(&format!("run kv-store --path . --size 256M {plan}"));
    assert_eq!(run, row);
    assert!(row.iter().all(|job| job["iodepth"] == 32), "{row:?}");
    let own = jobs(&format!("run kv-store --path . --size 256M --iodepth 4 {plan}"));
    assert!(own.iter().all(|job| job["iodepth"] == 4), "{own:?}");
}
