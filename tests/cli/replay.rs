//! A profile is converted to a workload file, which is run and compared with the profile.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use iosonde_model::record::ProfileRun;
use iosonde_model::record::facts::DeviceFacts;
use iosonde_model::record::profile::{
    self, Chunk, Class, Depth, Group, Method, Op, PROFILE_SCHEMA, Places, ProfiledDevice, Source,
    Subject, SyncKind, SyncRun, Traffic, TrafficSeries,
};
use iosonde_model::record::run::CounterSeries;
use iosonde_report::profile_toml::emit;
use iosonde_stats::Histogram;

use serde_json::Value;

use super::formats::assert_fits;
use super::program::{Ended, Place};

const SCHEMA: &str = include_str!("../../schema/iosonde-compare-1.schema.json");
const SECOND: u64 = 1_000_000_000;

/// Two seconds of a program with one thread: 1000 random reads and 400 appends, with an fdatasync
/// after every fourth append.
fn profile() -> ProfileRun {
    let row = |op: Op, requests: u64, sequential: u64| {
        let mut latency = Histogram::new();
        latency.record_many(500_000, requests);
        let mut gaps = Histogram::new();
        gaps.record_many(2 * SECOND / requests, requests - 1);
        Traffic {
            device: "vdz".into(),
            class: Class::Program,
            op,
            group: 1,
            requests,
            bytes: requests * 4096,
            latency,
            sizes: vec![(4096, requests)],
            sequential,
            gaps,
            active_ns: Some((0, 2 * SECOND)),
            ..Traffic::default()
        }
    };
    let series = |op: Op, ops: u64| TrafficSeries {
        op,
        counters: CounterSeries {
            width_ns: SECOND / 10,
            ops: vec![ops; 20],
            bytes: vec![ops * 4096; 20],
        },
        ..TrafficSeries::default()
    };
    let chunk = |number, reads: u32, writes: u32| Chunk {
        number,
        reads: reads.into(),
        writes: writes.into(),
        read_blocks: reads,
        written_blocks: writes,
        touched_blocks: reads + writes,
        block_writes: writes.into(),
        overwrites: 0,
    };
    let facts = DeviceFacts { name: "vdz".into(), ..DeviceFacts::default() };
    let time_ns = vec![(0, SECOND), (1, SECOND)];
    ProfileRun {
        schema: PROFILE_SCHEMA.into(),
        program: "0".into(),
        subject: Subject::Command { words: vec!["/opt/app".into(), "--load".into()], pid: 7 },
        measured_ns: 2 * SECOND,
        source: Source { method: Method::Tracepoints, ..Source::default() },
        devices: vec![ProfiledDevice {
            facts,
            program_depth: Depth { time_ns, max: 1, ..Depth::default() },
            ..ProfiledDevice::default()
        }],
        traffic: vec![
            row(Op::Read, 1000, 0),
            row(Op::Write, 400, 399),
            Traffic { class: Class::DeviceFlush, bytes: 0, ..row(Op::Flush, 100, 0) },
        ],
        groups: vec![Group::default(), Group { name: "app".into(), threads: 1 }],
        syncs: vec![SyncRun {
            kind: SyncKind::Fdatasync,
            group: 1,
            calls: 100,
            errors: 0,
            latency: Histogram::new(),
            phases: None,
        }],
        places: vec![Places {
            device: "vdz".into(),
            chunk_bytes: 16 << 20,
            block_bytes: 4096,
            chunks: vec![chunk(1, 1000, 0), chunk(2, 0, 400)],
            ..Places::default()
        }],
        series: vec![series(Op::Read, 50), series(Op::Write, 20)],
        ..ProfileRun::default()
    }
}

/// A place with the record `app.json`, the workload `app.toml` and a large enough file.
fn place() -> Place {
    let place = Place::new();
    place.file("app.json", &serde_json::to_vec(&profile()).unwrap());
    place.file("app.toml", emit(&profile()).unwrap().as_bytes());
    place.hole("disk", 16 << 20);
    place
}

/// The plan of a dry run.
fn planned(ended: &Ended) -> Value {
    serde_json::from_str::<Value>(&ended.out).unwrap()["plan"].clone()
}

#[test]
fn the_workload_of_a_profile_is_a_plan() {
    let place = place();
    let plan = |words: &str| {
        let words = format!("run app.toml --path disk --dry-run --output-format json {words}");
        planned(&place.iosonde(&words).end().exits(0))
    };
    let usual = plan("");
    assert_eq!(usual["jobs"][0]["role"], "app-read");
    assert_eq!(usual["jobs"][0]["pace"]["rate"]["rate"]["ops"], 500.0);
    assert_eq!(usual["jobs"][0]["region_bytes"], 1000 * 4096);
    assert_eq!(usual["jobs"][1]["sync"]["every_writes"], 4);
    assert_eq!(usual["jobs"][1]["region_bytes"], 400 * 4096);
    let fast = plan("--speed 10x");
    assert_eq!(fast["jobs"][0]["pace"]["rate"]["rate"]["ops"], 5000.0);
    assert_eq!(fast["notes"][0], "replayed at 10x the workload's rates");
    assert_eq!(plan("--speed 0.5")["jobs"][1]["pace"]["rate"]["rate"]["ops"], 100.0);
    let free = plan("--speed max");
    assert_eq!(free["jobs"][0]["pace"], "closed");
    assert!(free["notes"][0].as_str().unwrap().starts_with("replayed as fast as"), "{free}");
}

#[test]
fn a_file_made_for_a_workload_has_the_length_that_it_needs() {
    let place = place();
    let words = "run app.toml --path . --dry-run --output-format json";
    let plan = planned(&place.iosonde(words).end().exits(0));
    assert_eq!(plan["targets"][0]["bytes"], 1400 * 4096);
    place.hole("small", 1 << 20);
    let refusal = place.iosonde("run app.toml --path small --dry-run").end().exits(2);
    refusal.says("beyond the end of the target").says("give a target of");
}

#[test]
fn a_speed_without_effect_is_refused() {
    let place = place();
    let refuse = |words: &str, message: &str| {
        place.iosonde(words).end().exits(2).says(message);
    };
    refuse("run --rw randread --path disk --speed 2x", "give --rate-iops or --rate");
    refuse("run database --path disk --speed 2x", "no role of `database` has a rate");
    refuse("run app.toml --path disk --speed fast", "found `fast`, expected a factor");
    refuse("run app.toml --path disk --speed 0x", "expected a factor from 0.001x");
    place.file("job.fio", b"[a]\nfilename=disk\nrw=randread\n");
    refuse("run job.fio --speed 2x", "--speed is not a fio option");
}

#[test]
fn a_profile_is_like_itself() {
    let place = place();
    let ended = place.iosonde("compare app.json app.json").end().exits(0);
    ended.prints("sizes        1.00").prints("fidelity 1.00 of 1, the mean of 12 dimensions");
    let json =
        place.iosonde("compare app.json app.json --output-format json").end().exits(0).json();
    assert_fits(SCHEMA, &json);
    assert_eq!(json["fidelity"], 1.0);
}

#[test]
fn another_size_lowers_the_sizes_alone() {
    let place = place();
    let mut other = profile();
    other.traffic[0].sizes = vec![(4096, 500), (65_536, 500)];
    fs::create_dir(place.work().join("other")).unwrap();
    place.file("other/01-profile.json", &serde_json::to_vec(&other).unwrap());
    let words = "compare app.json other --output-format json";
    let json = place.iosonde(words).end().exits(0).json();
    for dimension in json["dimensions"].as_array().unwrap() {
        let score = dimension["score"].as_f64().unwrap();
        if dimension["code"] == "sizes" {
            // Half of the reads, which are 1000 of 1400 requests.
            assert!((score - (1.0 - 0.5 * 1000.0 / 1400.0)).abs() < 1e-5, "{dimension}");
        } else {
            assert_eq!(score, 1.0, "{dimension}");
        }
    }
}

#[test]
fn a_replay_that_failed_has_no_score() {
    let place = place();
    let mut other = profile();
    other.ended = profile::Ended::Exited { code: 5 };
    place.file("other.json", &serde_json::to_vec(&other).unwrap());
    let ended = place.iosonde("compare app.json other.json").end().exits(7);
    ended.prints("ended with an error: exit code 5").prints("no score: the replay");
    let words = "compare app.json other.json --output-format json";
    let json = place.iosonde(words).end().exits(7).json();
    assert_fits(SCHEMA, &json);
    assert_eq!(json["fidelity"], Value::Null);
}

#[test]
fn a_run_of_the_workload_is_like_the_profile_it_was_made_of() {
    let place = place();
    // In virtual time, so that any machine keeps the rates.
    let run = "run app.toml --ioengine sim --path servers=4,read=400us,write=400us,size=16m \
               --runtime 2 --results kept";
    place.iosonde(run).end();
    let kept = fs::read_dir(place.work().join("kept")).unwrap().next().unwrap().unwrap().path();
    let words = "compare app.json --output-format json";
    let json = place.iosonde(words).arg(&kept).end().exits(0).json();
    assert_fits(SCHEMA, &json);
    let score = |code: &str| {
        let all = json["dimensions"].as_array().unwrap();
        all.iter().find(|dimension| dimension["code"] == code).unwrap()["score"].as_f64()
    };
    for (code, least) in [
        ("sizes", 0.99),
        ("mix", 0.98),
        ("sequential", 0.9),
        ("working_set", 0.95),
        ("syncs", 0.95),
        ("rate", 0.95),
    ] {
        assert!(score(code).unwrap() >= least, "{code} in {json:#}");
    }
    assert_eq!(score("gaps"), None, "a run keeps no distances");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let place = place();
    place.file("notes.json", b"{\"schema\": \"iosonde.doctor/1\"}");
    place.file("text.json", b"hello");
    place.file("run.json", b"{\"schema\": \"iosonde.run/1\"}");
    fs::create_dir(place.work().join("empty")).unwrap();
    let refuse = |words: &str, message: &str| {
        place.iosonde(words).end().exits(2).silent().says(message);
    };
    refuse("compare app.json", "REPLAY");
    refuse("compare app.json missing", "no such file");
    refuse("compare notes.json app.json", "a document of iosonde.doctor/1, expected");
    refuse("compare text.json app.json", "not JSON");
    refuse("compare run.json app.json", "incomplete record of iosonde.run/1");
    refuse("compare app.json empty", "contains no record of a profile or a run");
    refuse("compare app.json app.json --speed 0", "--speed: found `0`");
    refuse("compare app.json app.json --output-format terse", "use --output-format=json");
}

/// The same program on a file system whose journal commits two writes for each sync.
fn journalled() -> ProfileRun {
    let mut run = profile();
    let of_system = |op: Op, requests: u64, durable: u64| Traffic {
        class: if op == Op::Flush { Class::DeviceFlush } else { Class::Journal },
        group: 0,
        op,
        requests,
        durable,
        bytes: if op == Op::Flush { 0 } else { requests * 4096 },
        ..run.traffic[1].clone()
    };
    let journal = of_system(Op::Write, 200, 100);
    let flushes = of_system(Op::Flush, 100, 0);
    run.traffic.extend([journal, flushes]);
    run
}

#[test]
fn syncs_of_a_replay_wait_for_the_journal() {
    let place = place();
    place.file("app.toml", emit(&journalled()).unwrap().as_bytes());
    place.hole("large", 128 << 20);
    for engine in ["io_uring", "psync", "sim"] {
        let target = match engine {
            "sim" => "servers=4,read=400us,write=400us,size=128m",
            _ => "large --direct 0",
        };
        let words = format!(
            "run app.toml --ioengine {engine} --path {target} --runtime 2 --results {engine}"
        );
        place.iosonde(&words).end();
        let kept = fs::read_dir(place.work().join(engine)).unwrap().next().unwrap().unwrap();
        let files = fs::read_dir(kept.path()).unwrap().map(|file| file.unwrap().path());
        let is_record = |path: &Path| path.file_name().unwrap().as_bytes().starts_with(b"01-");
        let text =
            fs::read_to_string(files.into_iter().find(|path| is_record(path)).unwrap()).unwrap();
        let run: Value = serde_json::from_str(&text).unwrap();
        let of_role = |role: &str| {
            let jobs = run["plan"]["jobs"].as_array().unwrap();
            let at = jobs.iter().position(|job| job["role"] == role).unwrap();
            let ops = |way: &str| run["jobs"][at][way]["ops"].as_u64().unwrap();
            (ops("write"), ops("sync"))
        };
        let ((writes, syncs), journal) = (of_role("app-write"), of_role("journal"));
        assert!(writes > 300 && syncs.abs_diff(writes / 4) <= 1, "{engine}: {writes}, {syncs}");
        assert!(journal.0.abs_diff(2 * syncs) <= 2, "{engine}: {journal:?} for {syncs} syncs");
        assert!(journal.1.abs_diff(syncs) <= 1, "{engine}: {journal:?} for {syncs} syncs");
    }
}

#[test]
fn a_run_that_ends_while_a_sync_waits_for_a_commit_is_valid() {
    let place = place();
    let emitted = emit(&journalled()).unwrap();
    let few = emitted.replace("commit = { writes = 2.0 }", "commit = { writes = 1000000.0 }");
    assert_ne!(emitted, few);
    place.file("app.toml", few.as_bytes());
    place.hole("large", 128 << 20);
    let ended = place.iosonde("run app.toml --path large --direct 0 --runtime 300ms").end();
    ended.prints("write IOPS").lacks("INVALID");
}
