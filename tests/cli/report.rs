//! `report`: renders stored results of iosonde and fio again, and refuses other files.

use std::fs;
use std::path::{Path, PathBuf};

use iosonde_rig::guard::TmpfsMount;
use iosonde_rig::skip;

use crate::program::{Place, listing};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fio-results").join(name)
}

fn report(place: &Place, names: &[&str], words: &str) -> crate::program::Ended {
    let call = place.iosonde(&format!("report {words}"));
    names.iter().fold(call, |call, name| call.arg(fixture(name))).end()
}

/// A short run on the null engine, and its folder.
fn run(place: &Place) -> (String, PathBuf) {
    let words = "run --ioengine null --rw randread --bs 4k --size 1M --iodepth 4 --runtime 1 \
                 --ramp-time 0 --results r";
    let printed = place.iosonde(words).end();
    let folder = listing(&place.work().join("r")).remove(0);
    (printed.out, folder)
}

#[test]
fn results_of_both_versions_of_fio_are_reported_in_each_format() {
    let place = Place::new();
    for name in ["two-3.33.json", "two-3.42.json", "client-3.33.json", "group-3.33.json"] {
        report(&place, &[name], "").exits(0).prints("reader").prints("short_run");
        report(&place, &[name], "--output-format markdown").exits(0).prints("# Results of fio-3.");
        let page = report(&place, &[name], "--output-format html").exits(0);
        assert!(page.out.starts_with("<!doctype html>"), "{name}");
        let table = report(&place, &[name], "--output-format csv").exits(0);
        assert!(table.out.starts_with("job,host,direction,iodepth,numjobs,iops,"), "{name}");
        report(&place, &[name], "--output-format ssv").exits(0).prints("# job host direction");
        let json = report(&place, &[name], "--output-format json").exits(0);
        let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
        assert_eq!(json["schema"], "iosonde.report/2");
    }
    // Without bins only a bound is known, with them a percentile.
    report(&place, &["two-3.33.json"], "").prints("≤").prints("a bound, not a percentile");
    report(&place, &["two-3.42.json"], "").lacks("≤");
}

#[test]
fn several_files_that_differ_in_one_option_are_a_sweep_and_logs_a_course() {
    let place = Place::new();
    let names = ["qd1.json", "qd4.json", "qd16.json"];
    report(&place, &names, "--figures pictures").exits(0).prints("Over iodepth");
    assert!(place.work().join("pictures/iodepth-read.svg").exists());
    let names = ["logged.json", "logged_bw.1.log", "logged_clat_hist.1.log", "logged_lat.1.log"];
    report(&place, &names, "--figures pictures").exits(0);
    for name in ["time-bandwidth.svg", "time-clat-p99.svg", "time-lat.svg"] {
        let svg = fs::read_to_string(place.work().join("pictures").join(name)).unwrap();
        assert!(svg.starts_with("<svg"), "{name}");
    }
    // Two tables need a folder.
    report(&place, &names, "--output-format csv").exits(2).says("--output DIR").silent();
    report(&place, &names, "--output-format csv --output tables").exits(0);
    assert_eq!(listing(&place.work().join("tables")).len(), 2);
}

#[test]
fn a_run_is_reported_as_it_was_printed_and_rechecked() {
    let place = Place::new();
    let (printed, folder) = run(&place);
    let again = place.iosonde("report").arg(&folder).end().exits(0);
    assert_eq!(again.out, printed);
    let again = place.iosonde("report").arg(folder.join("01-run.json")).end().exits(0);
    assert_eq!(again.out, printed);
    let page = place.iosonde("report --output-format html --output page.html").arg(&folder);
    page.end().exits(0).silent();
    let page = fs::read_to_string(place.work().join("page.html")).unwrap();
    assert!(page.starts_with("<!doctype html>"));
    place.iosonde("report --recheck").arg(&folder).end().exits(0).prints("agrees with its records");
    // A change of one figure is found, and so is a change of the verdict.
    let record = folder.join("manifest.json");
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, text.replace("\"exit_code\":0", "\"exit_code\":3")).unwrap();
    let differs = place.iosonde("report --recheck").arg(&folder).end().exits(6);
    differs.prints("manifest.json: found SHA-256 ").prints("exit code: stored 3, computed 0");
}

#[test]
fn what_is_no_result_is_refused_with_what_was_found() {
    let place = Place::new();
    let (_, folder) = run(&place);
    let refused = |words: &str, said: &str| {
        place.iosonde(&format!("report {words}")).end().exits(2).says(said).silent();
    };
    place.file("empty.json", b"");
    place.file("other.json", b"{\"a\": 1}");
    let half = fs::read_to_string(fixture("two-3.33.json")).unwrap();
    place.file("half.json", &half.as_bytes()[..3000]);
    place.file("negative.json", half.replace("40282.858571", "-1.0").as_bytes());
    place.file("bad_iops.1.log", b"1, nan, 0, 0\n");
    fs::create_dir(place.work().join("nothing")).unwrap();
    refused("missing.json", "does not exist");
    refused("empty.json", "found nothing, expected fio's JSON");
    refused("other.json", "no field `fio version`");
    refused("half.json", "a document that was cut off");
    refused("negative.json", "jobs[0].read.iops: found -1.0, expected a number of at least 0");
    refused("bad_iops.1.log", "line 1: found `nan`");
    refused("nothing", "neither manifest.json nor fio results");
    refused("--explain iosp", "did you mean `iops`?");
    refused("--recheck", "no result is named");
    refused("--demo --recheck", "cannot be used with");
    // Manifests of a future version, of another program, and with invalid values.
    let manifest = fs::read_to_string(folder.join("manifest.json")).unwrap();
    let changed = |from: &str, to: &str, said: &str| {
        assert!(manifest.contains(from), "{manifest}");
        fs::write(folder.join("manifest.json"), manifest.replace(from, to)).unwrap();
        place.iosonde("report --accept-altered").arg(&folder).end().exits(2).says(said).silent();
    };
    changed("iosonde.manifest/1", "iosonde.manifest/2", "knows iosonde.manifest/1");
    changed("iosonde.manifest/1", "other/1", "found a document of other/1");
    changed("01-run.json", "../secret.json", "expected the name of a file in the folder");
    changed(
        "\"verb\":\"run\"",
        "\"verb\":\"dance\"",
        "expected one of run, check, verify or \
        profile",
    );
    let later = manifest.replace("\"started_unix_ns\":1", "\"started_unix_ns\":9");
    fs::write(folder.join("manifest.json"), later).unwrap();
    place.iosonde("report --accept-altered").arg(&folder).end().exits(0).says("in the future");
    let record = fs::read_to_string(folder.join("01-run.json")).unwrap();
    place.file("new.json", record.replace("iosonde.run/1", "iosonde.run/9").as_bytes());
    refused("new.json", "knows iosonde.run/1");
}

#[test]
fn nothing_of_others_is_written_over_and_a_full_disk_is_reported() {
    let place = Place::new();
    place.file("precious", b"not a report");
    let words = "--output-format html --output precious";
    report(&place, &["two-3.33.json"], words).exits(2).says("contains something else").silent();
    assert_eq!(fs::read(place.work().join("precious")).unwrap(), b"not a report");
    let small = match TmpfsMount::new(16 << 10) {
        Ok(small) => small,
        Err(reason) => return skip(format!("a full disk: {reason}")),
    };
    let page = small.path().join("page.html");
    let call = place.iosonde("report --output-format html --output").arg(&page);
    call.arg(fixture("two-3.33.json")).end().exits(1).says("No space left").silent();
    assert!(!page.exists());
}

#[test]
fn a_name_cannot_run_anything() {
    let place = Place::new();
    let text = fs::read_to_string(fixture("two-3.42.json")).unwrap();
    let name = "=cmd()<script>alert(1)</script>\\u001b[31m\\\"&amp;";
    place.file("evil.json", text.replace("\"reader\"", &format!("\"{name}\"")).as_bytes());
    place.iosonde("report evil.json").end().exits(0).lacks("\u{1b}");
    let page = place.iosonde("report --output-format html evil.json").end().exits(0);
    page.lacks("<script>alert").lacks("\u{1b}");
    let table = place.iosonde("report --output-format csv evil.json").end().exits(0);
    assert!(!table.out.contains("\n=cmd"), "{table}");
    place.iosonde("report evil.json --figures p").end().exits(0);
    for picture in listing(&place.work().join("p")) {
        let svg = fs::read_to_string(picture).unwrap();
        assert!(!svg.contains("<script>") && !svg.contains('\u{1b}'));
    }
}

#[test]
fn kept_results_are_listed_found_by_short_names_and_removed_on_request() {
    let place = Place::new();
    place.iosonde("report").end().exits(0).prints("0 results, 0 B of at most 10.0 GiB");
    let sim = "run --ioengine sim --path read=1ms --rw randread --runtime 1 --iodepth";
    for depth in ["1", "2", "4"] {
        place.iosonde(&format!("{sim} {depth}")).end().exits(0);
    }
    let list = place.iosonde("report").end().exits(0).prints("3 results, ");
    list.prints("--iodepth 2  ").prints("  medium confidence: too short").prints("last~2");
    let narrow = place.iosonde("report").env("COLUMNS", "60").end().exits(0);
    let narrow = narrow.prints("    Verdict      medium confidence: too short for an");
    assert!(narrow.out.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    for (word, depth) in [("last", 4), ("last~0", 4), ("last~1", 2), ("last~2", 1)] {
        let words = format!("report {word} --output-format json");
        let shown = place.iosonde(&words).end().exits(0).json();
        assert_eq!(shown["cells"][0]["plan"]["jobs"][0]["iodepth"], depth, "{word}");
    }
    place.iosonde("report last~3").end().exits(2).says("only 3 results in ");
    place.iosonde("report last-2").end().exits(2).says("`last~NUMBER`");
    // All names begin with the year.
    place.iosonde("report 2").end().exits(2).says("give more of the name");
    // Names do not order two results of the same second.
    let changed = |path: &PathBuf| fs::metadata(path).and_then(|data| data.modified()).unwrap();
    let newest = place.kept().into_iter().max_by_key(changed).unwrap();
    let name = newest.file_name().unwrap().to_str().unwrap().to_owned();
    place.iosonde(&format!("report {}", &name[..name.len() - 1])).end().exits(0);
    place.iosonde("compare last~1 last").end().exits(2).says("iodepth: A has `2`, B has `4`");

    place.iosonde("report --prune 1").end().exits(0).prints("would remove 2 results");
    assert_eq!(place.kept().len(), 3);
    place.iosonde("report --prune 1 --remove").end().exits(0).prints("removed 2 results");
    assert_eq!(place.kept(), [newest]);
    // Saved data of a device are never removed.
    place.file("undo.json", b"{}");
    let held = place.kept()[0].join("undo-1.json");
    fs::rename(place.work().join("undo.json"), &held).unwrap();
    place.iosonde("report --prune 0 --remove").end().exits(0).prints("left alone, holds saved");
    assert_eq!(place.kept().len(), 1);
}

#[test]
fn the_answer_comes_first_and_no_line_is_wider_than_the_screen() {
    let place = Place::new();
    let words = "check . 256M --seconds 0.5 --only cache,kv-store --threads 1";
    place.iosonde(words).end().exits(0);
    for columns in [60, 80, 120, 200] {
        let call = place.iosonde("report last").env("COLUMNS", columns.to_string());
        let text = call.end().exits(0).prints("Bandwidth").out;
        assert!(text.starts_with("Result:      "), "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= columns, "{columns}: {line}");
        }
        let heads = ["Confidence:  ", "Next:        "].map(|head| text.find(head).unwrap());
        assert!(heads[0] < heads[1] && heads[1] < text.find("iosonde: ").unwrap(), "{text}");
    }
}

#[test]
fn metrics_are_explained_and_the_demonstration_is_reported() {
    let place = Place::new();
    place.iosonde("report --explain p999").end().exits(0).prints("p99.9").prints("unit:");
    place.iosonde("report --explain list").end().exits(0).prints("hiccups");
    place.iosonde("report --explain token_bucket").end().exits(0).prints("next:     Plan with");
    let code = place.iosonde("report --explain 7 --output-format json").end().exits(0);
    code.prints(r#""kind": "exit_code""#);
    place.iosonde("report --demo").end().exits(0).prints("the knee is at iodepth 7.99");
    place.iosonde("report --demo --output-format html").end().exits(0).prints("<!doctype html>");
}
