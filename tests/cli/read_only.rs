//! `check --read-only` and `check --durable`.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;

use super::program::Place;

const MIB: usize = 1 << 20;

/// Creates a file with this many MiB of data.
fn data(place: &Place, name: &str, mib: usize) {
    let mut file = File::create(place.work().join(name)).unwrap();
    for block in 0..mib {
        file.write_all(&vec![block as u8 | 1; MIB]).unwrap();
    }
    file.sync_all().unwrap();
}

#[test]
fn a_check_that_only_reads_leaves_the_file_as_it_is_and_says_what_is_missing() {
    let place = Place::new();
    data(&place, "small", 1);
    data(&place, "data", 256);
    let before = place.work().join("data").metadata().unwrap();
    let words = "check --read-only --seconds 0.5 --threads 1 --eta-interval 0 .";
    let ended = place.iosonde(words).end().exits(0);
    let ended = ended.prints("Left out: Backup, Database, Logging, KV-Store, Lakehouse");
    let ended = ended.prints("256 MiB read only").lacks("MiB test file");
    for row in ["Recovery", "Cache", "Training"] {
        assert!(ended.out.contains(row), "{ended}");
    }
    let after = place.work().join("data").metadata().unwrap();
    assert_eq!((before.mtime_nsec(), before.len()), (after.mtime_nsec(), after.len()));
    let document = place.iosonde(words).arg("--output-format=json").end().exits(0).json();
    let cells = document["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 3);
    // A single file is selected by its path.
    let one = words.replace(" .", " data --only cache");
    place.iosonde(&one).end().exits(0).prints("100/0");
}

#[test]
fn nothing_to_read_and_nothing_that_reads_are_usage_errors() {
    let place = Place::new();
    place.hole("hole", 1 << 30);
    let check = |words: &str| place.iosonde(&format!("check --read-only {words}")).end().exits(2);
    // A hole holds no data, and a link may point elsewhere.
    check(".").says("expected a file with at least 256 MiB of stored data");
    check("hole").says("found 0");
    check("missing").says("missing");
    check("/dev/null").says("neither a file nor a block device");
    check("--only backup,cache --skip cache .").says("Backup write");
    check(". 256M").says("--read-only");
    check("--durable .").says("--durable");
}

#[test]
fn each_row_that_writes_has_a_durable_variant() {
    let place = Place::new();
    let words = "check . 256M --durable --only backup,cache --dry-run --output-format json";
    let ended = place.iosonde(words).end().exits(0);
    let document: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let cells = document["cells"].as_array().unwrap();
    let titles: Vec<&str> = cells.iter().map(|cell| cell["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["Backup", "Backup +D", "Cache"]);
    let sync = |at: usize| cells[at]["jobs"][0]["sync"]["each_write"].clone();
    assert_eq!((sync(0), sync(1)), ("accepted".into(), "dsync".into()));
    let words = "check . 256M --durable --only backup --seconds 0.5 --eta-interval 0 \
                 --expect Backup.bw>=1MB/s";
    place.iosonde(words).end().exits(0).prints("+D each write is durable before it completes");
}
