//! Tables of many results, and comparison of devices with their peers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::formats::assert_fits;
use crate::program::{Place, listing};

/// Results of the fleet.
const HOSTS: usize = 10_000;
/// Seeds per speed; every result is a copy of one of these runs.
const SEEDS: usize = 12;
/// Mean service time of a simulated device, us: normal, slow, and with the newer firmware.
const USUAL: [u32; 3] = [100, 300, 110];

/// Placeholder for the host name in the files of a result.
const NAME: &str = "@HOST@";

/// Measures simulated devices. Returns the folders by speed.
fn measured(place: &Place) -> Vec<Vec<PathBuf>> {
    let of_speed = |us: &u32| {
        let kept = place.work().join(format!("measured-{us}"));
        for seed in 0..SEEDS {
            let words = format!(
                "run --ioengine sim --path servers=4,read=exp:{us}us --rw randread --iodepth 4 \
                 --number-ios 2000 --randseed {seed} --results {}",
                kept.display()
            );
            place.iosonde(&words).end().exits(0);
        }
        listing(&kept)
    };
    USUAL.iter().map(of_speed).collect()
}

/// The files of a result as measured by a host named [`NAME`] on its own device.
fn files_of(result: &Path, firmware: &str) -> Vec<(&'static str, String)> {
    let read = |name: &str| fs::read_to_string(result.join(name)).unwrap();
    let json = |name: &str| serde_json::from_str::<Value>(&read(name)).unwrap();
    let mut machine = json("host.json");
    machine["hostname"] = NAME.into();
    let mut run = json("01-run.json");
    run["target"]["device"] = serde_json::json!({
        "name": "nvme0n1", "model": "Model X", "firmware": firmware, "serial": format!("S-{NAME}"),
    });
    vec![
        ("01-run.json", run.to_string()),
        ("host.json", machine.to_string()),
        ("log.jsonl", read("log.jsonl")),
        ("manifest.json", read("manifest.json")),
    ]
}

/// Writes the result of a host.
fn write(files: &[(&str, String)], to: &Path, host: &str) {
    fs::create_dir_all(to).unwrap();
    let mut sums = String::new();
    for (name, text) in files {
        let text = text.replace(NAME, host);
        let digest: String =
            Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
        sums.push_str(&format!("{digest}  {name}\n"));
        fs::write(to.join(name), text).unwrap();
    }
    fs::write(to.join("SHA256SUMS"), sums).unwrap();
}

/// A fleet: host 17 of each thousand is slow, and one host in `newer` has the newer firmware.
fn fleet(place: &Place, hosts: usize, newer: usize) -> PathBuf {
    let measured = measured(place);
    let kinds = [(0, "1.0"), (1, "1.0"), (2, "1.1")].map(|(speed, firmware)| {
        let all = measured[speed].iter().map(|result| files_of(result, firmware));
        all.collect::<Vec<_>>()
    });
    let root = place.work().join("fleet-results");
    for number in 0..hosts {
        let kind = match number {
            number if number % 1_000 == 17 => &kinds[1],
            number if number % newer == newer - 1 => &kinds[2],
            _ => &kinds[0],
        };
        let host = format!("node{number:05}");
        // One in four has the newer firmware; each kind has hosts of every seed.
        write(&kind[number / 4 % SEEDS], &root.join(&host).join("run"), &host);
    }
    root
}

/// The queries of the page, in order.
fn queries() -> Vec<String> {
    let page = include_str!("../../docs/fleets.md");
    let blocks = page.split("```sql\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

/// Result rows of each query, by DuckDB in a directory.
fn asked(directory: &Path, queries: &[String]) -> Option<Vec<Vec<Value>>> {
    let script = "import sys, json, duckdb\n\
        for query in json.load(sys.stdin):\n    \
            print(json.dumps([list(row) for row in duckdb.sql(query).fetchall()], default=str))";
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python");
    let has_duckdb = Command::new("python3")
        .args(["-c", "import duckdb"])
        .env("PYTHONPATH", &python)
        .output()
        .is_ok_and(|ended| ended.status.success());
    if !has_duckdb {
        return None;
    }
    let input = directory.join("queries.json");
    fs::write(&input, serde_json::to_string(queries).unwrap()).unwrap();
    let ended = Command::new("python3")
        .args(["-c", script])
        .env("PYTHONPATH", &python)
        .current_dir(directory)
        .stdin(fs::File::open(&input).unwrap())
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let lines = String::from_utf8(ended.stdout).unwrap();
    Some(lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn ten_thousand_results_answer_the_questions_of_the_page() {
    let place = Place::for_many_files();
    let root = fleet(&place, HOSTS, 4);
    let words = format!("report {} --output-format parquet --output fleet", root.display());
    place.iosonde(&words).end().exits(0).says("10,000 results in fleet");
    let queries = queries();
    assert_eq!(queries.len(), 5);
    let Some(answers) = asked(&place.work(), &queries) else {
        return iosonde_rig::skip(
            "DuckDB is not installed: the queries of docs/fleets.md are not run",
        );
    };
    let slow: Vec<String> =
        (0..HOSTS / 1_000).map(|at| format!("node{:05}", at * 1_000 + 17)).collect();
    let [slowest, firmware, apart, findings, idle] = answers.as_slice() else { panic!() };
    assert_eq!(slowest.len(), HOSTS / 10);
    let first: Vec<&str> =
        slowest[..slow.len()].iter().map(|row| row[1].as_str().unwrap()).collect();
    assert!(slow.iter().all(|host| first.contains(&host.as_str())), "{first:?}");
    let versions: Vec<&str> = firmware.iter().map(|row| row[1].as_str().unwrap()).collect();
    assert_eq!(versions, ["1.0", "1.1"]);
    // A ten per cent longer service time.
    let ratio = firmware[1][4].as_f64().unwrap();
    assert!((ratio - 1.0 / 1.1).abs() < 0.03, "{ratio}");
    let apart: Vec<&str> = apart.iter().map(|row| row[0].as_str().unwrap()).collect();
    assert!(slow.iter().all(|host| apart.contains(&host.as_str())), "{apart:?}");
    assert!(findings.iter().all(|row| row[1] != "fact"));
    assert!(idle.is_empty(), "{idle:?}");
}

#[test]
fn both_formats_have_the_same_rows_and_a_bad_result_harms_no_other() {
    let place = Place::new();
    let root = fleet(&place, 40, 4);
    fs::write(root.join("node00003/run/01-run.json"), "{}").unwrap();
    let report = |form: &str| {
        let words = format!("report {} --output-format {form} --output {form}", root.display());
        place.iosonde(&words).end().exits(1).says("1 of 40 results are left out").says("node00003");
    };
    report("ndjson");
    report("parquet");
    let lines = |table: &str| {
        fs::read_to_string(place.work().join("ndjson").join(format!("{table}.ndjson"))).unwrap()
    };
    assert_eq!(lines("results").lines().count(), 39);
    let row: Value = serde_json::from_str(lines("metrics").lines().next().unwrap()).unwrap();
    assert_eq!(row["schema"], "iosonde.fleet/1");
    assert_eq!(row["host"], "node00000");
    assert_eq!(row["load"], "randread: rw=randread, bs=4k, iodepth=4, numjobs=1");
    // The same on stdout, where each line names its table.
    let words = format!("report {} --output-format ndjson", root.display());
    let out = place.iosonde(&words).end().exits(1).out;
    let tables = ["results", "metrics", "intervals", "findings"];
    let all: usize = tables.iter().map(|table| lines(table).lines().count()).sum();
    assert_eq!(out.lines().count(), all);
    let count = |table: &&str| format!("SELECT count(*) FROM 'parquet/{table}.parquet'");
    let queries: Vec<String> = tables.iter().map(count).collect();
    if let Some(counts) = asked(&place.work(), &queries) {
        for (table, count) in tables.iter().zip(counts) {
            assert_eq!(count[0][0], lines(table).lines().count(), "{table}");
        }
    }
}

#[test]
fn runs_of_experiments_and_campaigns_have_rows_and_are_compared() {
    let place = Place::new();
    place.iosonde("campaign demo --output demo").end().exits(0);
    place.iosonde("report demo --output-format ndjson --output rows").end().exits(0);
    let results = fs::read_to_string(place.work().join("rows/results.ndjson")).unwrap();
    assert_eq!(results.lines().count(), 2, "{results}");
    let metrics = fs::read_to_string(place.work().join("rows/metrics.ndjson")).unwrap();
    assert!(metrics.lines().count() > 20, "{metrics}");
    place.iosonde("campaign demo --output again").end().exits(0);
    let words = "compare demo/devices/array again/devices/array";
    place.iosonde(words).end().prints("queue-depth, iodepth=8");
    let experiment = listing(&place.work().join("demo/devices/array/02-queue-depth"));
    let trial = listing(&experiment[0].join("trials"));
    place.iosonde("report").arg(&trial[0]).end().exits(0).prints("IOPS");
}

#[test]
fn a_killed_run_has_low_confidence_in_every_form() {
    let place = Place::new();
    let words = "run --ioengine sim --path servers=4,read=exp:100us --rw randread --iodepth 4 \
                 --runtime 600 --results kept";
    let running = place.iosonde(words).start().pause(Duration::from_secs(1));
    running.signal(Signal::INT).end().exits(130).prints("low: not everything");
    place
        .iosonde("report kept --output-format ndjson")
        .end()
        .exits(0)
        .prints(r#""confidence":"low""#);
}

#[test]
fn a_table_replaces_only_a_table() {
    let place = Place::new();
    let root = fleet(&place, 2, 4);
    let words = format!("report {} --output-format ndjson --output out", root.display());
    place.iosonde(&words).end().exits(0);
    place.iosonde(&words).end().exits(0);
    fs::write(place.work().join("out/metrics.ndjson"), "my notes").unwrap();
    place.iosonde(&words).end().exits(2).says("metrics.ndjson");
    assert_eq!(fs::read_to_string(place.work().join("out/metrics.ndjson")).unwrap(), "my notes");
    let parquet = format!("report {} --output-format parquet", root.display());
    place.iosonde(&parquet).end().exits(2).says("--output DIR");
    place.iosonde("report . --output-format ndjson --recheck").end().exits(2);
    place
        .iosonde("report /proc/self/fd --output-format ndjson")
        .end()
        .exits(2)
        .says("no iosonde result");
}

#[test]
fn the_slow_device_of_a_fleet_is_named() {
    let place = Place::new();
    let root = fleet(&place, 40, usize::MAX);
    let peers = format!("compare --peers {}", root.display());
    let text = place.iosonde(&peers).end().exits(0).out;
    assert!(text.lines().next().unwrap().contains("node00017 S-node00017 is worse"), "{text}");
    let json = place.iosonde(&format!("{peers} --output-format json")).end().exits(0).json();
    assert_fits(include_str!("../../schema/iosonde-peers-1.schema.json"), &json);
    assert_eq!(json["devices"], 40);
    let few = format!("compare --peers {}", root.join("node00001").display());
    place.iosonde(&few).end().exits(7).prints("no group of 10 devices or more");
    place.iosonde(&format!("{peers} --gate iops>-5%")).end().exits(2).says("--gate");
}
