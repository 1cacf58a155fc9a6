//! `verify selftest` of the built binary: a shortened run finds and names every fault.

use rustix::process::Signal;

use super::formats::assert_fits;
use super::program::Place;

const SELFTEST: &str = include_str!("../../schema/iosonde-selftest-1.schema.json");

#[test]
fn every_fault_is_found_and_named_and_nothing_else_is() {
    let place = Place::new();
    let words = "verify selftest --runs 420 --look-alikes 420 --soak-ops 20k --seed 11 \
                 --output-format json";
    let ended = place.iosonde(words).end();
    let document = ended.json();
    assert_fits(SELFTEST, &document);
    ended.exits(0);
    let matrix = &document["matrix"];
    let rows = matrix["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 42);
    for row in rows {
        assert_eq!(row["visible"], 10, "{row}");
        assert_eq!((&row["detected"], &row["named"]), (&row["visible"], &row["visible"]), "{row}");
    }
    assert_eq!((&matrix["look_alikes"], &matrix["alarms"]), (&420.into(), &0.into()));
    assert!(matrix["soak_checked"].as_u64().unwrap() > 10_000);
}

#[test]
fn one_simulation_is_repeated_by_its_seed() {
    let place = Place::new();
    let words = "verify selftest --only read-flip --seed 5";
    let first = place.iosonde(words).end();
    assert!(first.out.contains("found: bit-flip"), "{first}");
    assert_eq!(first.out, place.iosonde(words).end().out);
    first.exits(0).prints("PASS: the fault was injected");
    let stored = place.iosonde("verify selftest --only swap-in-block --seed 5").end();
    stored.exits(0).prints("found: swapped").prints("PASS: the fault was injected");
    let ended = place.iosonde("verify selftest --only none --seed 5 --output-format json").end();
    let document = ended.json();
    assert_fits(SELFTEST, &document);
    assert_eq!(
        (&document["clean"], &document["repetition"]["fault"]),
        (&true.into(), &"none".into())
    );
    ended.exits(0);
}

#[test]
fn what_is_asked_wrongly_is_an_error() {
    let place = Place::new();
    for (words, reason) in [
        ("verify selftest --runs 0", "expected at least 1"),
        ("verify selftest --runs 1e6", "10k"),
        ("verify selftest --soak-ops 5t", "100m"),
        ("verify selftest --only drop", "--seed"),
        ("verify selftest --only dorp --seed 1", "did you mean `drop`"),
        ("verify selftest --only drop --seed 1 --runs 5", "--runs"),
        ("verify selftest --output-format terse", "json"),
        ("verify selftest --depth 3", "--depth"),
    ] {
        let ended = place.iosonde(words).end();
        assert_eq!(ended.code, Some(2), "{words}: {ended}");
        assert!(ended.err.contains(reason), "{words}: {ended}");
    }
}

#[test]
fn an_interrupted_test_reports_what_it_has() {
    let place = Place::new();
    let words = "verify selftest --runs 100g --look-alikes 5 --soak-ops 100g --eta-interval 0.1 \
                 --output-format json";
    let running = place.iosonde(words).start().until_stderr("selftest, faults");
    let ended = running.signal(Signal::INT).end().exits(130);
    let document = ended.json();
    assert_fits(SELFTEST, &document);
    assert_eq!((&document["complete"], &document["clean"]), (&false.into(), &false.into()));
    assert_eq!(document["exit_code"], 130);
}
