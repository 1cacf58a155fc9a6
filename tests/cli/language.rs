//! The workload language as options of `run`: the effect of each on the plan, a run with it, and
//! its refusals.

use std::fs;

use iosonde_rig::skip;
use serde_json::Value;

use super::program::Place;

fn place() -> Place {
    let place = Place::new();
    for name in ["a", "b"] {
        place.hole(name, 64 << 20);
    }
    place.file("times", b"# three\n0\n1ms\n\n2ms\n");
    place
}

/// Checks values in the plan of a command line.
#[track_caller]
fn planned(place: &Place, words: &str, values: &[(&str, Value)]) {
    let ended = place.iosonde(&format!("run --dry-run --output-format json {words}")).end();
    let document: Value = serde_json::from_str(&ended.exits(0).out).unwrap();
    let plan = &document["plan"];
    for (pointer, value) in values {
        assert_eq!(plan.pointer(pointer), Some(value), "{words}: {pointer} in {plan:#}");
    }
}

#[test]
fn each_option_makes_its_part_of_the_plan() {
    let place = place();
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let job = |field: &str| format!("/jobs/0/{field}");
    for (words, field, value) in [
        ("--rw randrw --bs 4k,64k", "sizes/write", r#"{"fixed":65536}"#),
        ("--rw randrw --bs ,64k", "sizes/read", r#"{"fixed":4096}"#),
        ("--rw randrw --bs 4k,64k", "unit_bytes", "4096"),
        ("--rw read --bsrange 4k-64k", "sizes/read/range/high", "65536"),
        ("--rw randread --bssplit 4k/70:64k", "sizes/read/split", "[[4096,70.0],[65536,30.0]]"),
        ("--rw randread --bs 8k --blockalign 512", "unit_bytes", "512"),
        ("--rw randread --bs 8k --ba 512", "unit_bytes", "512"),
        ("--rw read:8k", "stride_bytes", "12288"),
        ("--rw read --stride -4k", "stride_bytes", "-4096"),
        ("--rw randrw --rwmixwrite 30", "read_percent", "70"),
        ("--rw trim", "trims", "true"),
        ("--rw read --offset 25% --size 50%", "region_start", "16777216"),
        ("--rw read --offset 25% --size 50%", "region_bytes", "33554432"),
        ("--rw randread --norandommap", "order", "\"uniform\""),
        ("--rw randread --random-distribution uniform", "order", "\"uniform\""),
        ("--rw randread --random-distribution zipf:1.2", "order/zipf/theta", "1.2"),
        ("--rw randread --random_distribution=pareto:0.2", "order/pareto/h", "0.2"),
        ("--rw randread --random-distribution normal:10", "order/normal/deviation_percent", "10.0"),
        (
            "--rw randread --random-distribution zoned:80/20:20/80",
            "order/zoned/zones/1/size_percent",
            "80.0",
        ),
        ("--rw read --rate 10m", "pace/rate/rate/bytes", "10485760.0"),
        ("--rw read --rate-iops 500", "pace/rate/arrivals", "\"constant\""),
        ("--rw read --rate_iops 500 --rate_process poisson", "pace/rate/arrivals", "\"poisson\""),
        ("--rw read --arrivals times", "pace/recorded", "[0,1000000,2000000]"),
        ("--rw read --thinktime 100", "think/ns", "100000"),
        ("--rw read --thinktime 100", "think/every_ops", "1"),
        ("--rw read --thinktime 1ms --thinktime-blocks 8", "think/every_ops", "8"),
        ("--rw read --phase for=1s,rate=0 --phase for=2s", "phases/0/rate_percent", "0.0"),
        ("--rw write --fsync 8", "sync/call", "\"fsync\""),
        ("--rw write --fdatasync 8", "sync/every_writes", "8"),
        ("--rw write --fdatasync 8 --group-commit", "sync/barrier", "true"),
        ("--rw write --sync dsync", "sync/each_write", "\"dsync\""),
        ("--rw write --sync sync", "sync/each_write", "\"sync\""),
        ("--rw write --buffer_compress_percentage=30", "data/compress_percent", "30"),
        ("--rw write --dedupe-percentage 40", "data/dedupe_percent", "40"),
        ("--rw write --zero-buffers", "data/zeros", "true"),
        ("--rw write --refill_buffers=0", "data/constant", "true"),
        ("--rw write --refill_buffers", "data/constant", "false"),
        ("--rw read --iodepth 32 --iodepth-batch 4", "batch", "4"),
        ("--rw read --iodepth 32 --iodepth-batch-complete-min 8", "reap/complete_min", "8"),
        ("--rw read --iodepth 32 --iodepth_batch_complete_max=8", "reap/complete_max", "8"),
        ("--rw read --iodepth 32 --iodepth-low 8", "reap/refill_at", "8"),
        ("--rw read --wait poll", "reap/wait", "\"poll\""),
        ("--rw read --slat", "reap/slat", "true"),
        ("--rw read --hugepages", "place/huge_pages", "true"),
        ("--rw read --mem mmaphuge", "place/huge_pages", "true"),
    ] {
        planned(&place, &format!("--path a {words}"), &[(&job(field), json(value))]);
    }
    let two = "--path a --rw read --numjobs 2";
    planned(
        &place,
        &format!("{two} --size 8m --offset-increment 16m"),
        &[("/jobs/1/region_start", (16 << 20).into()), ("/jobs/1/region_bytes", (8 << 20).into())],
    );
    planned(
        &place,
        &format!("{two} --region partitioned"),
        &[("/jobs/1/region_start", (32 << 20).into())],
    );
    planned(
        &place,
        &format!("{two} --region staggered"),
        &[("/jobs/1/order/sequential/start_block", 8192.into())],
    );
    for words in ["--path a --path b", "--filename a:b"] {
        let targets = [("/targets/1/path", "b".into()), ("/jobs/0/targets", vec![0, 1].into())];
        planned(&place, &format!("{words} --rw read"), &targets);
    }
    planned(&place, "--path a --rw read --io-size 1m", &[("/stop/after_bytes", (1 << 20).into())]);
    planned(&place, "--path a --rw read --seed 7", &[("/seed", 7.into())]);
}

#[test]
fn what_cannot_be_is_refused_with_option_value_and_what_is_accepted() {
    let place = place();
    let all_cpus = iosonde_sys::thread::allowed_cpus();
    let beyond = format!("--rw read --cpus-allowed {}", all_cpus.last().unwrap() + 1);
    for (words, message) in [
        ("--rw read --bs 4k,8k", "--bs: found `4k,8k`, expected one value"),
        ("--rw rw --bs 4k,8k,16k", "READS,WRITES"),
        ("--rw read --bs 4x", "--bs: found the unit `x` in `4x`"),
        ("--rw read --bs 4k --bssplit 4k/100", "cannot be used with"),
        ("--rw read --bssplit 4k/50:8k/20", "here are 70 %"),
        ("--rw read --bsrange 8k-4k", "--bsrange: found `8k-4k`, expected LOW-HIGH"),
        ("--rw randread:8", "no value after a random word"),
        ("--rw read:8k --stride 16k", "give one of them"),
        ("--rw read --stride 0", "--stride: found `0`"),
        ("--rw read:-4k", "leads to another block"),
        ("--rw randread --stride 8k", "a stride has no effect on random offsets"),
        ("--rw randrw --rwmixwrite 101", "--rwmixwrite: found `101`"),
        ("--rw randrw --rwmixwrite 40 --rwmixread 60", "cannot be used with"),
        ("--rw read --size 101%", "--size: found `101%`"),
        ("--rw read --numjobs 1 --region partitioned", "--region has no effect with --numjobs 1"),
        ("--rw read --random-distribution zipf:1", "--random-distribution has no effect"),
        ("--rw randread --random-distribution zifp:1", "did you mean `zipf`?"),
        ("--rw randread --random-distribution zipf:1.2:0.5", "zipf:THETA"),
        ("--rw randread --random-distribution zipf:0", "expected a skew above 0"),
        ("--rw randread --random-distribution pareto:1", "above 0 and below 1"),
        ("--rw randread --random-distribution zoned:50/50", "50 % of accesses"),
        ("--rw randread --random-distribution zipf:1 --norandommap", "--norandommap has no effect"),
        ("--rw randread --random-generator lfsr", "--randseed is its seed"),
        ("--rw read --rate 0", "found a rate of 0"),
        ("--rw read --rate 1m,2m", "one rate per job"),
        ("--rw read --rate-iops 1e3", "--rate-iops: found `1e3`"),
        ("--rw read --rate-process poisson", "--rate-process has no effect"),
        ("--rw read --thinktime 0", "--thinktime: found `0`"),
        ("--rw read --thinktime-blocks 4", "--thinktime"),
        ("--rw read --arrivals a", "--arrivals"),
        ("--rw read --arrivals missing", "no such file"),
        ("--rw read --phase rate=0", "--phase: found `rate=0`, expected for=TIME"),
        ("--rw read --phase for=1s,rate=0", "every phase is idle"),
        ("--rw read --phase for=1s,rate=50", "no rate"),
        ("--rw read --phase for=1s,read=50", "a share of reads in a phase"),
        ("--rw read --fsync 4", "nothing is written"),
        ("--rw write --fsync 4 --sync 4", "give one of them"),
        ("--rw write --sync dsycn", "did you mean `dsync`?"),
        ("--rw write --group-commit", "group commit needs a number of writes"),
        ("--rw read --zero-buffers", "nothing is written"),
        ("--rw write --zero-buffers --dedupe-percentage 50", "give one of them"),
        ("--rw write --buffer-compress-percentage 101", "101"),
        ("--rw read --iodepth 4 --iodepth-batch 5", "batches of 5 requests at depth 4"),
        ("--rw read --iodepth 4 --iodepth-batch-complete-min 5", "complete-min"),
        ("--rw read --iodepth 4 --iodepth-low 4", "--iodepth-low 4 at depth 4 has no effect"),
        ("--rw read --hugepages 0 --mem mmaphuge", "contradict"),
        ("--rw read --mem malloc", "mmaphuge"),
        (&beyond, "may not be used here, expected some of"),
        ("--rw read --numa-node 4000", "no NUMA node 4000, expected one of"),
        ("--rw read --ioengine psync --fixedbufs 1", "--fixedbufs has no effect"),
        ("--rw read --fixedbufs 1 --nonvectored 0", "contradict"),
        ("--rw read --number-ios 5 --io-size 1m", "cannot be used with"),
        ("--rw read --steady=0", "--steady: found `0`, expected a length above 0"),
        ("--rw read --io-size 0", "--io-size: found `0`, expected a length above 0"),
        ("--rw read --size 8m --offset-increment 60m --numjobs 2", "reach to 68 MiB"),
    ] {
        place.iosonde(&format!("run --path a {words}")).end().exits(2).silent().says(message);
    }
    assert!(place.kept().is_empty(), "{:?}", place.kept());
}

#[test]
fn loads_of_every_kind_run() {
    let place = place();
    for words in [
        "--path a --path b --rw randrw --bssplit 4k/70:64k/30 --iodepth 8",
        "--path a --rw rw --bs 4k,16k --iodepth 4",
        "--path a --rw read:8k --bs 4k",
        "--path a --rw read --stride -8k",
        "--path a --rw randread --random-distribution zipf:1.1 --wait poll",
        "--path a --rw randread --direct 0 --bs 1000 --blockalign 1 --offset 3",
        "--path a --rw randwrite --buffer-compress-percentage 50 --dedupe-percentage 20",
        "--path a --rw write --sync 4 --group-commit --iodepth 4",
        "--path a --rw write --sync dsync",
        "--path a --rw randread --numjobs 2 --offset-increment 8m --size 8m",
        "--path a --rw randread --iodepth 8 --slat --iodepth-batch-complete-min 4",
        "--path . --path a --size 4m --rw randread",
        "kv-store --path . --size 16m --iodepth 4",
    ] {
        let call = format!("run {words} --number-ios 500 --output-format json");
        let document = place.iosonde(&call).end().exits(0).json();
        assert_eq!(document["complete"], true, "{words}");
    }
}

const FILE: &str = r#"
name = "mail"
title = "Mail"
pattern = "append+read"
block-size = "4k"
read-percent = 50

[[role]]
name = "deliver"
rw = "write"
threads = { count = 1 }
size = "16m"
sizes = { write = { range = { low = "4k", high = "64k", step = "4k" } } }
sync = { every-writes = 8, call = "fsync", barrier = true }
data = { compress-percent = 50 }

[[role]]
name = "fetch"
rw = "randread"
threads = { count = 2 }
iodepth = 4
offset = "16m"
access = { zipf = 1.1 }
pace = { rate = { rate = { ops = 20000.0 }, arrivals = "poisson" } }

[[role.phase]]
for = "100ms"
rate-percent = 150

[[role.phase]]
for = "50ms"
rate-percent = 0
"#;

#[test]
fn a_workload_file_has_the_same_powers() {
    let place = place();
    fs::write(place.work().join("mail.toml"), FILE).unwrap();
    planned(
        &place,
        "mail.toml --path a",
        &[
            ("/jobs/0/sync/every_writes", 8.into()),
            ("/jobs/0/block_bytes", 65_536.into()),
            ("/jobs/0/region_bytes", (16 << 20).into()),
            ("/jobs/1/region_start", (16 << 20).into()),
            ("/jobs/2/order/zipf/theta", 1.1.into()),
            ("/jobs/2/phases/1/ns", 50_000_000.into()),
        ],
    );
    let refuse = |words: &str, message: &str| {
        place.iosonde(&format!("run {words}")).end().exits(2).silent().says(message);
    };
    refuse("mail.toml --path a --bs 4k", "--bs cannot be combined with a workload file");
    refuse("mail.toml --path a --rate-iops=5", "--rate-iops cannot be combined with");
    refuse("missing.toml --path a", "no such file");
    refuse("mail.yaml --path a", "whose name ends with .toml");
    refuse("kvstore --path a", "no workload `kvstore`");
    fs::write(place.work().join("odd.toml"), FILE.replace("offset", "ofset")).unwrap();
    refuse("odd.toml --path a", "unknown field `ofset`");
    fs::write(place.work().join("far.toml"), FILE.replace("16m", "160m")).unwrap();
    refuse("far.toml --path a", "beyond the end of the target");
}

#[test]
fn a_target_of_fifteen_tebibytes_costs_no_more_than_a_small_one() {
    let place = place();
    let bytes: u64 = 15 << 40;
    let made = fs::File::create(place.work().join("huge")).and_then(|file| file.set_len(bytes));
    if let Err(error) = made {
        return skip(format!("no sparse file of 15 TiB here: {error}"));
    }
    let peak = |words: &str| -> u64 {
        let mut command = place.iosonde(&format!("run --number-ios 2000 {words}")).into_command();
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        let status = format!("/proc/{}/status", child.id());
        let mut peak_kib = 0;
        while child.try_wait().unwrap().is_none() {
            let text = fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let now = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse().ok());
            peak_kib = peak_kib.max(now.unwrap_or(0));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(child.wait().unwrap().success(), "{words}");
        peak_kib
    };
    for load in ["--rw randread", "--rw randwrite", "--rw randread --random-distribution zipf:1.1"]
    {
        let small = peak(&format!("--path a {load}"));
        let huge = peak(&format!("--path huge {load}"));
        assert!(huge < small + 4096, "{load}: {huge} KiB against {small} KiB");
    }
    place.iosonde("run --ioengine null --size 15t --rw randread --number-ios 2000").end().exits(0);
}
