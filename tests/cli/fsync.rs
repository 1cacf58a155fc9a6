//! `verify fsync` of the built binary: its document, refusals and remaining files.

use iosonde_rig::skip;

use super::formats::{RESULT, assert_fits};
use super::program::{Place, listing};

const FSYNC: &str = include_str!("../../schema/iosonde-fsync-1.schema.json");

#[test]
fn a_climb_fits_its_schema_and_leaves_no_file() {
    let place = Place::new();
    let before = listing(&place.work());
    let ended = place.iosonde("verify fsync . --size 1M --output-format json --seed 7").end();
    assert_eq!(listing(&place.work()), before);
    let document = ended.json();
    if ended.code == Some(5) {
        skip("the temporary directory is no storage");
        assert_fits(RESULT, &document);
        return;
    }
    assert_fits(FSYNC, &document);
    // Without flush counters so small a file permits no statement.
    assert!(matches!(ended.code, Some(0 | 7)), "{ended}");
    assert_eq!(document["plan"]["seed"], 7);
    assert_eq!(document["complete"], true);
    assert_eq!(document["rungs"].as_array().unwrap().last().unwrap()["code"], "F4");
    assert_eq!(place.kept().len(), 1);
}

#[test]
fn a_rehearsal_writes_nothing() {
    let place = Place::new();
    let ended = place.iosonde("verify fsync . --size 4M --dry-run").end();
    if ended.code == Some(5) {
        skip("the temporary directory is no storage");
        return;
    }
    ended.exits(0).prints("flushes after 0 B, 64 KiB, 1 MiB");
    assert!(place.kept().is_empty());
}

#[test]
fn somebody_elses_file_is_not_overwritten() {
    let place = Place::new();
    let file = place.work().join("letter");
    std::fs::write(&file, vec![b'x'; 2 << 20]).unwrap();
    let ended = place.iosonde("verify fsync letter --size 1M").end();
    assert_eq!(ended.code, Some(5), "{ended}");
    assert_eq!(std::fs::read(&file).unwrap(), vec![b'x'; 2 << 20]);
}

#[test]
fn what_is_asked_wrongly_is_an_error() {
    let place = Place::new();
    for (words, reason) in [
        ("verify fsync", "PATH"),
        ("verify fsync . --samples 19", "19"),
        ("verify fsync . --size 64k", "at least 1 MiB"),
        ("verify fsync . --direct 2", "2"),
        ("verify fsync . --destroy-data=x", "no effect"),
        ("verify fsync . --overwrite-file=x", "no effect"),
        ("verify fsync . --overwrite-signature=ext4", "did you mean `ext`"),
        ("verify fsync . --output-format terse", "json"),
        ("verify fsync . --depth 3", "--depth"),
        ("verify fsync missing", "does not exist"),
    ] {
        let ended = place.iosonde(words).end();
        assert_eq!(ended.code, Some(2), "{words}: {ended}");
        assert!(ended.err.contains(reason), "{words}: {ended}");
    }
    for path in ["/proc", "/dev/null"] {
        let ended = place.iosonde(&format!("verify fsync {path}")).end();
        assert_eq!(ended.code, Some(5), "{ended}");
        assert!(ended.err.contains("not storage"), "{ended}");
    }
}
