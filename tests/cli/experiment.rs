//! `experiment`: files and names, refusals before any change, interruption and resumption, and the
//! files of a folder.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use iosonde_rig::skip;
use rustix::process::Signal;
use serde_json::Value;

use super::program::{Place, json_of, listing};

/// Eight servers of 1 ms: the knee is at depth 8.
const SIM: &str = "servers=8,read=1ms,write=2ms";

const SMALL: &str = r#"
name = "small"
question = "Does it work?"
[[stage]]
name = "depth"
seconds = 0.5
repeats = 2
fixed-repeats = true
set = { rw = "randread", block-size = "4k" }
[[stage.axis]]
name = "iodepth"
values = [1, 4, 16]
"#;

fn only(place: &Place) -> PathBuf {
    let kept = place.kept();
    assert_eq!(kept.len(), 1, "{kept:?}");
    kept[0].clone()
}

/// The stored runs. A run whose storing was interrupted by a kill has a temporary name.
fn trials(folder: &Path) -> Vec<String> {
    let names = listing(&folder.join("trials")).into_iter();
    let names = names.map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with('.')).collect()
}

/// Number of stored runs of the only experiment.
fn trials_so_far(place: &Place) -> usize {
    place.kept().first().map_or(0, |folder| trials(folder).len())
}

#[test]
fn what_is_built_in_is_listed_and_shown() {
    let place = Place::new();
    let listed = place.iosonde("experiment list").end().exits(0);
    let all = [
        "qd1-baseline",
        "block-size",
        "read-write-mix",
        "queue-depth",
        "jobs",
        "tail-latency",
        "vendor",
        "study",
        "io-size",
        "stride",
        "random",
        "micro",
        "latency-matrix",
        "rate-staircase",
        "cache-size",
        "token-bucket",
        "durability",
        "surface",
        "cpu-cost",
    ];
    for name in all {
        assert!(listed.out.lines().any(|line| line.starts_with(&format!("{name} "))), "{name}");
    }
    let shown = place.iosonde("experiment show queue-depth").end().exits(0);
    // `show` prints a file that `run` accepts.
    place.file("mine.toml", shown.out.as_bytes());
    place.iosonde("experiment run mine.toml --dry-run").end().exits(0).prints("queue-depth");
    let json = place.iosonde("experiment list --output-format json").end().exits(0);
    let value: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(value["experiments"].as_array().unwrap().len(), listed.out.lines().count());
}

#[test]
fn every_built_in_experiment_can_be_rehearsed() {
    let place = Place::new();
    let listed = place.iosonde("experiment list").end().exits(0);
    for name in listed.out.lines().filter_map(|line| line.split_whitespace().next()) {
        let words = match name {
            "vendor" => {
                place.file("sheet.toml", SHEET.as_bytes());
                "experiment run vendor . --dry-run --spec sheet.toml".to_owned()
            }
            name => format!("experiment run {name} . --dry-run"),
        };
        place.iosonde(&words).end().exits(0).prints("time").prints("written").prints("wear");
    }
    assert!(place.kept().is_empty());
}

const SHEET: &str = r#"
device = "An invented disk"
[[claim]]
name = "random reads"
promise = "iops>=1000"
set = { rw = "randread", block-size = "4k", iodepth = 8 }
[[claim]]
name = "latency"
promise = "mean<=10us"
set = { rw = "randread", block-size = "4k", iodepth = 1 }
"#;

#[test]
fn a_file_of_ones_own_has_all_that_a_built_in_one_has() {
    let place = Place::new();
    place.file("small.toml", SMALL.as_bytes());
    let words = format!("experiment run small.toml {SIM} --ioengine sim --seed 7");
    let ended = place.iosonde(&words).end().exits(0).says("results stored in");
    // 8 servers of 1 ms: depth 4 gives 4,000, depth 16 the maximum of the servers.
    ended.prints("Does it work?").prints("4,00").prints("8,01");
    let folder = only(&place);
    for name in [
        "experiment.json",
        "stage-depth.json",
        "host.json",
        "manifest.json",
        "SHA256SUMS",
        "report.html",
        "report.md",
        "report.txt",
        "report.json",
        "tables/points.csv",
        "tables/trials.csv",
        "tables/metrics.csv",
        "tables/points.ssv",
    ] {
        assert!(folder.join(name).is_file(), "{name}");
    }
    assert_eq!(trials(&folder).len(), 6);
    let sums = fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    assert!(sums.contains("trials/depth-00000-") && sums.contains("tables/points.csv"));
    let manifest = json_of(&folder.join("manifest.json"));
    assert_eq!(manifest["cells"].as_array().unwrap().len(), 6);
    assert_eq!(manifest["complete"], true);
}

/// T8: the engine's load matches the parameters of the cell.
#[test]
fn no_parameter_is_frozen() {
    let place = Place::new();
    let text = r#"
name = "sizes"
question = "Do sizes reach the engine?"
[[stage]]
name = "sizes"
seconds = 0.2
repeats = 1
[[stage.axis]]
name = "block-size"
powers-of-two = { from = "4k", to = "64k" }
[[stage.axis]]
name = "gap"
values = [0, "64k"]
[[stage.axis]]
name = "rw"
values = ["read", "write"]
"#;
    place.file("sizes.toml", text.as_bytes());
    let words = format!("experiment run sizes.toml {SIM} --ioengine sim");
    place.iosonde(&words).end().exits(0);
    let folder = only(&place);
    let mut seen = 0;
    for name in trials(&folder) {
        let trial = json_of(&folder.join("trials").join(name));
        let level = |axis: &str| {
            let levels = trial["levels"].as_array().unwrap();
            levels.iter().find(|level| level["axis"] == axis).unwrap().clone()
        };
        let size = level("block-size")["value"].as_f64().unwrap();
        let way = level("rw")["label"].as_str().unwrap().to_owned();
        let job = &trial["run"]["jobs"][0];
        let moved = &job[way.as_str()];
        assert_eq!(moved["bytes"].as_f64().unwrap() / moved["ops"].as_f64().unwrap(), size);
        let other = if way == "read" { "write" } else { "read" };
        assert_eq!(job[other]["ops"], 0);
        // The distance between operations is the size plus the gap.
        let stride = size + level("gap")["value"].as_f64().unwrap();
        let touched = job["touched"][1].as_f64().unwrap() - job["touched"][0].as_f64().unwrap();
        assert_eq!((touched - size) % stride, 0.0, "{size} {stride} {touched}");
        assert!(touched > 10.0 * stride);
        seen += 1;
    }
    assert_eq!(seen, 20);
}

#[test]
fn blocks_are_mixed_and_the_same_seed_gives_the_same_order() {
    let order = |seed: u32| {
        let place = Place::new();
        place.file("small.toml", SMALL.replace("[1, 4, 16]", "[1, 2, 3, 4, 5, 6]").as_bytes());
        let words =
            format!("experiment run small.toml {SIM} --ioengine sim --seconds 100ms --seed {seed}");
        place.iosonde(&words).end().exits(0);
        trials(&only(&place))
    };
    let first = order(1);
    assert_eq!(first, order(1));
    assert_ne!(first, order(2));
    let cell = |name: &String| name.split("-c").nth(1).unwrap()[..4].parse::<usize>().unwrap();
    for block in first.chunks(6) {
        let mut cells: Vec<usize> = block.iter().map(cell).collect();
        cells.sort_unstable();
        assert_eq!(cells, [0, 1, 2, 3, 4, 5]);
    }
}

#[test]
fn a_file_that_makes_no_sense_is_refused_before_anything_is_touched() {
    let cases = [
        (SMALL.replace("\nrepeats", "\nrepeat"), "unknown field `repeat`"),
        (SMALL.replace("[1, 4, 16]", "[]"), "it has no levels"),
        (SMALL.replace("iodepth\"", "iodept\""), "did you mean `iodepth`"),
        (SMALL.replace("\"4k\"", "\"4q\""), "expected a size"),
        (
            SMALL
                .replace("\"iodepth\"", "\"gap\"")
                .replace("values = [1, 4, 16]", "range = { from = 1, to = 1000000, step = 1 }"),
            "cells and 2 repeats",
        ),
        (
            SMALL.replace("[1, 4, 16]", "[0, 4]"),
            "found `0`, expected a whole number from 1 to 4096",
        ),
        (SMALL.replace("seconds = 0.5", "seconds = 0.5\nanalysis = [\"knees\"]"), "no analysis"),
        (format!("{SMALL}[[stage.figure]]\nkind = \"pie\"\n"), "kind is `pie`"),
        (format!("include = [\"small.toml\"]\n{SMALL}"), "include each other"),
        (SMALL.replace("values = [1, 4, 16]", "from = \"depth.knee\"\ntimes = [1]"), "circular"),
        (SMALL.replace("values = [1, 4, 16]", "from = \"no.knee\"\ntimes = [1]"), "no stage `no`"),
        (String::new(), "missing field"),
    ];
    let place = Place::new();
    for (text, says) in cases {
        place.file("small.toml", text.as_bytes());
        let words = format!("experiment run small.toml {SIM} --ioengine sim");
        let ended = place.iosonde(&words).end().exits(2).says(says);
        assert!(ended.out.is_empty());
    }
    assert!(place.kept().is_empty());
    place.iosonde("experiment run queue-dept").end().exits(2).says("did you mean `queue-depth`");
    place.iosonde("experiment run nowhere.toml").end().exits(2).says("nowhere.toml");
    place.iosonde("experiment run /dev/zero").end().exits(2).says("expected a regular file");
    place.iosonde("experiment run vendor").end().exits(2).says("--spec");
    place.iosonde("experiment run jobs --spec x").end().exits(2);
    place.iosonde("experiment run jobs --stages knee").end().exits(2).says("available: jobs");
    place.iosonde("experiment run jobs --set numjobs=3").end().exits(2).says("has no effect");
    place.iosonde("experiment run jobs --set colour=3").end().exits(2).says("no parameter");
    place.iosonde("experiment run jobs --destroy-data x").end().exits(2).says("no effect");
}

#[test]
fn what_was_interrupted_goes_on_with_what_is_missing() {
    let place = Place::new();
    let text = SMALL.replace("seconds = 0.5", "seconds = 0.4").replace("4, 16", "2, 3, 4");
    place.file("small.toml", text.as_bytes());
    let words = "experiment run small.toml . --size 256M --eta-interval 100ms";
    let running = place.iosonde(words).start().until_stderr("depth:");
    let running = running.until("second run", || trials_so_far(&place) >= 2);
    let ended = running.signal(Signal::INT).end().exits(130);
    ended.says("to run what is missing").prints("partial");
    let folder = only(&place);
    let before = trials(&folder);
    assert!((1..8).contains(&before.len()), "{before:?}");
    assert_eq!(json_of(&folder.join("manifest.json"))["complete"], false);
    let kept: Vec<Vec<u8>> =
        before.iter().map(|name| fs::read(folder.join("trials").join(name)).unwrap()).collect();

    let resume = format!("experiment resume {} --eta-interval 0", folder.display());
    place.iosonde(&resume).end().exits(0).lacks("partial");
    let folder = only(&place);
    let after = trials(&folder);
    assert_eq!(after.len(), 8);
    for (name, bytes) in before.iter().zip(kept) {
        assert_eq!(fs::read(folder.join("trials").join(name)).unwrap(), bytes, "{name}");
    }
    let manifest = json_of(&folder.join("manifest.json"));
    assert_eq!(
        (&manifest["complete"], manifest["cells"].as_array().unwrap().len()),
        (&true.into(), 8)
    );
    assert!(listing(&place.work()).iter().all(|path| path.ends_with("small.toml")));
}

#[test]
fn runs_that_complete_nothing_are_inconclusive() {
    let place = Place::new();
    let slow = "experiment run queue-depth servers=512,read=400ms --ioengine sim --seconds 100ms";
    place.iosonde(slow).end().exits(7).says("nothing was completed in its window");
}

#[test]
fn what_reaches_its_write_limit_is_not_done() {
    let place = Place::new();
    let words =
        format!("experiment run read-write-mix --ioengine sim {SIM} --seconds 1 --max-written 1m");
    let ended = place.iosonde(&words).end().exits(7).prints("low: not everything was run");
    ended.says("the write limit of 1.00 MiB (--max-written) was reached");
    let resume = format!("experiment resume {}", only(&place).display());
    place.iosonde(&resume).end().exits(7);
    place.iosonde(&format!("{resume} --max-written 1g")).end().exits(0).lacks("partial");
}

#[test]
fn what_was_killed_goes_on_too() {
    let place = Place::new();
    let text = SMALL.replace("seconds = 0.5", "seconds = 0.3").replace("4, 16", "2, 3, 4");
    place.file("small.toml", text.as_bytes());
    let words = "experiment run small.toml . --size 256M --eta-interval 100ms";
    let running = place.iosonde(words).start().until_stderr("depth:");
    let running = running.until("third run", || trials_so_far(&place) >= 3);
    running.signal(Signal::KILL).end();
    let folder = only(&place);
    assert!(folder.to_string_lossy().ends_with(".partial"));
    let before = trials(&folder).len();
    // A run that a power cut left incomplete is repeated, and nothing else is lost. The newest run
    // may not be in the list of checksums yet.
    let made = |name: &String| fs::metadata(folder.join("trials").join(name)).unwrap().modified();
    let damaged = trials(&folder).into_iter().min_by_key(|name| made(name).unwrap());
    if let Some(name) = &damaged {
        fs::write(folder.join("trials").join(name), "{").unwrap();
    }
    let resume = format!("experiment resume {} --eta-interval 0", folder.display());
    let Some(name) = &damaged else { return skip("killed before the first run") };
    let listed = listing(&folder.join("trials"));
    // Also while the folder is locked, as may be the case for a moment after the kill.
    let log = fs::File::open(folder.join("log.jsonl")).unwrap();
    log.lock().unwrap();
    place.iosonde(&resume).end().exits(6).says(name);
    drop(log);
    place.iosonde(&resume).end().exits(6).says(name).says("expected").says("--accept-altered");
    assert_eq!(listing(&folder.join("trials")), listed, "nothing was changed");
    let ended = place.iosonde(&format!("{resume} --accept-altered")).end().exits(0);
    ended.says("is set aside, and carried out again").prints("altered since");
    place.iosonde("report").arg(only(&place)).end().exits(0).lacks("altered");
    let folder = only(&place);
    assert!(!folder.to_string_lossy().ends_with(".partial"));
    let whole = trials(&folder).iter().filter(|name| name.ends_with(".json.zst")).count();
    assert!(before < 8 && whole == 8, "{before} {whole}");
    // A complete experiment cannot be resumed.
    let resume = format!("experiment resume {}", folder.display());
    place.iosonde(&resume).end().exits(2).says("nothing to resume");
    assert!(folder.is_dir());
}

#[test]
fn lost_and_damaged_runs_of_a_complete_experiment_are_carried_out_again() {
    let place = Place::new();
    place.file("small.toml", SMALL.as_bytes());
    let words = format!("experiment run small.toml {SIM} --ioengine sim --seconds 100ms");
    place.iosonde(&words).end().exits(0);
    let folder = only(&place);
    let names = trials(&folder);
    let run = |name: &String| folder.join("trials").join(name);
    fs::remove_file(run(&names[0])).unwrap();
    fs::write(run(&names[1]), "{").unwrap();
    let resume = format!("experiment resume {}", folder.display());
    place.iosonde(&resume).end().exits(6).says(&names[0]).says(&names[1]);
    let ended = place.iosonde(&format!("{resume} --accept-altered")).end().exits(0);
    ended.says(&format!("{} is gone", names[0])).says(&format!("{} is set aside", names[1]));
    place.iosonde("report").arg(only(&place)).end().exits(0).lacks("altered");
    let whole = trials(&only(&place)).iter().filter(|name| name.ends_with(".json.zst")).count();
    assert_eq!(whole, names.len());
    place.iosonde(&resume).end().exits(2).says("nothing to resume");
}

#[test]
fn records_that_are_removed_while_it_runs_are_missed() {
    let place = Place::new();
    place.file("small.toml", SMALL.as_bytes());
    place.hole("data", 8 << 20);
    let words = "experiment run small.toml data --eta-interval 100ms";
    let running = place.iosonde(words).start().until_stderr("depth:");
    let running = running.until("second run", || trials_so_far(&place) >= 2);
    let folder = only(&place);
    trials(&folder)
        .iter()
        .for_each(|name| fs::remove_file(folder.join("trials").join(name)).unwrap());
    let ended = running.end().exits(1).says("removed by others during the experiment");
    ended.prints("low: not everything was run");
    let resume = format!("experiment resume {}", only(&place).display());
    place.iosonde(&resume).end().exits(0);
    assert_eq!(trials(&only(&place)).len(), 6);
}

#[test]
fn what_is_gone_on_with_stays_whatever_goes_wrong() {
    let place = Place::new();
    fs::create_dir(place.work().join("disk")).unwrap();
    let text = SMALL.replace("seconds = 0.5", "seconds = 0.3").replace("4, 16", "2, 3, 4");
    place.file("small.toml", text.as_bytes());
    let words = "experiment run small.toml disk --size 256M --eta-interval 100ms";
    let running = place.iosonde(words).start().until_stderr("depth:");
    let running = running.until("second run", || trials_so_far(&place) >= 2);
    running.signal(Signal::INT).end().exits(130);
    let folder = only(&place);
    let before = trials(&folder);
    assert!(!before.is_empty());
    fs::rename(place.work().join("disk"), place.work().join("other")).unwrap();
    let resume = format!("experiment resume {} --eta-interval 0", folder.display());
    place.iosonde(&resume).end().exits(2).says("does not exist");
    assert_eq!(trials(&only(&place)), before);
    fs::rename(place.work().join("other"), place.work().join("disk")).unwrap();
    // Two resumptions at once: the second one is refused.
    let first = place.iosonde(&resume.replace("--eta-interval 0", "--eta-interval 100ms")).start();
    let first = first.until_stderr("depth:");
    let partial = listing(&place.runs())[0].clone();
    let second = format!("experiment resume {}", partial.display());
    place.iosonde(&second).end().exits(1).says("another command is writing to it");
    first.end().exits(0);
    assert_eq!(trials(&only(&place)).len(), 8);
}

#[test]
fn what_is_no_experiment_is_not_gone_on_with() {
    let place = Place::new();
    place.iosonde("experiment resume .").end().exits(2).says("experiment.json");
    place.file("small.toml", SMALL.as_bytes());
    let words = format!("experiment run small.toml {SIM} --ioengine sim --seconds 100ms");
    place.iosonde(&words).end().exits(0);
    let folder = only(&place);
    let path = folder.join("experiment.json");
    let text = fs::read_to_string(&path).unwrap();
    let resume = format!("experiment resume {} --accept-altered", folder.display());
    fs::write(&path, text.replace("iosonde.experiment/1", "iosonde.experiment/9")).unwrap();
    place.iosonde(&resume).end().exits(2).says("knows iosonde.experiment/1: use that version");
    fs::write(&path, &text[..text.len() / 2]).unwrap();
    place.iosonde(&resume).end().exits(2).says("not a record");
    assert!(folder.is_dir(), "what is refused stays as it is");
}

#[test]
fn a_file_with_foreign_content_is_only_read() {
    let place = Place::new();
    let mut content = vec![7_u8; 8 << 20];
    content[5] = 1;
    let path = place.file("photos.img", &content);
    let text = SMALL.replace("rw = \"randread\", ", "").replace(
        "name = \"iodepth\"\nvalues = [1, 4, 16]",
        "name = \"rw\"\nvalues = [\"randread\", \"randwrite\"]",
    );
    place.file("small.toml", text.as_bytes());
    let words = "experiment run small.toml photos.img --seconds 200ms --eta-interval 0";
    let ended = place.iosonde(words).end().exits(0).says("is only read");
    ended.prints("randread");
    assert_eq!(fs::read(&path).unwrap(), content);
    let folder = only(&place);
    let stage = json_of(&folder.join("stage-depth.json"));
    assert!(stage["left_out"][0][1].as_str().unwrap().contains("it writes"), "{stage}");
    let words = format!("{words} --overwrite-file photos.img");
    place.iosonde(&words).end().exits(0);
    assert_ne!(fs::read(&path).unwrap(), content);
}

#[test]
fn a_file_that_another_process_has_open_is_only_read() {
    let place = Place::new();
    let path = place.hole("data", 8 << 20);
    place.file("small.toml", SMALL.as_bytes());
    let mut holder = Command::new("sleep");
    let mut holder = holder.arg("600").stdin(fs::File::open(&path).unwrap()).spawn().unwrap();
    let words = "experiment run small.toml data --seconds 200ms --eta-interval 100ms";
    let running = place.iosonde(words).start().until_stderr("depth:");
    let running = running.until("second run", || trials_so_far(&place) >= 2);
    running.signal(Signal::INT).end().exits(130).says("is only read");
    let resume = format!("experiment resume {}", only(&place).display());
    // The device is free again, and later runs are like earlier ones.
    holder.kill().and_then(|()| holder.wait()).unwrap();
    place.iosonde(&resume).end().exits(0).says("is only read");
    assert_eq!(path.metadata().unwrap().blocks(), 0, "nothing was written");
}

#[test]
fn a_consent_is_asked_for_only_where_the_first_command_had_one() {
    for (consent, hint) in [("", false), ("--overwrite-file data", true)] {
        let place = Place::new();
        let path = match hint {
            false => place.hole("data", 8 << 20),
            true => place.file("data", &vec![7; 8 << 20]),
        };
        place.file("small.toml", SMALL.as_bytes());
        let words = format!("experiment run small.toml data --eta-interval 100ms {consent}");
        let running = place.iosonde(&words).start().until_stderr("depth:");
        let running = running.until("first run", || trials_so_far(&place) >= 1);
        // The folder is checked before the target, which the first command has open.
        let resume = |folder: &Path| format!("experiment resume {}", folder.display());
        let second = place.iosonde(&resume(&only(&place))).end().exits(1);
        let second = second.says("another command is writing to it");
        assert!(!second.err.contains("is in use"), "{second}");
        running.signal(Signal::INT).end().exits(130);
        let mut holder = Command::new("sleep");
        let mut holder = holder.arg("600").stdin(fs::File::open(&path).unwrap()).spawn().unwrap();
        let ended = place.iosonde(&resume(&only(&place))).end().exits(5).says("is in use");
        holder.kill().and_then(|()| holder.wait()).unwrap();
        assert_eq!(ended.err.contains("begun with consent"), hint, "{ended}");
    }
}

#[test]
fn a_stage_that_stands_on_another_takes_its_levels_from_it() {
    let place = Place::new();
    let words = format!(
        "experiment run tail-latency {SIM} --ioengine sim --seconds 1 --repeats 2 --eta-interval 0"
    );
    place.iosonde(&words).end().exits(0);
    let folder = only(&place);
    let tail = json_of(&folder.join("stage-tail-latency.json"));
    let knee = tail["found"]["queue-depth.knee"].as_f64().unwrap();
    assert!((7.0..9.5).contains(&knee), "{knee}");
    let levels: Vec<f64> = tail["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| cell["levels"][0]["value"].as_f64().unwrap())
        .collect();
    assert_eq!(levels.len(), 3);
    assert_eq!(levels[1], knee.round());
}

#[test]
fn a_data_sheet_is_held_against_what_was_measured() {
    let place = Place::new();
    place.file("sheet.toml", SHEET.as_bytes());
    let words = format!(
        "experiment run vendor {SIM} --ioengine sim --spec sheet.toml --seconds 1 --repeats 2 \
         --eta-interval 0"
    );
    let ended = place.iosonde(&words).end();
    // 8,000 IOPS where 1,000 are claimed, and 1 ms where 10 us are claimed.
    assert!(ended.out.contains("random reads") && ended.out.contains("latency"), "{}", ended.out);
    let report = fs::read_to_string(only(&place).join("report.txt")).unwrap();
    assert!(report.contains("met") && report.contains("missed"), "{report}");
    for text in ["device = \"x\"\n", "claim = 3\n", &SHEET.replace("iops>=1000", "speed>=3")] {
        place.file("sheet.toml", text.as_bytes());
        place.iosonde(&words).end().exits(2).says("--spec");
    }
}

#[test]
fn json_is_one_document() {
    let place = Place::new();
    place.file("small.toml", SMALL.as_bytes());
    let words = format!(
        "experiment run small.toml {SIM} --ioengine sim --seconds 100ms --output-format json"
    );
    let ended = place.iosonde(&words).end().exits(0);
    let value: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(value["question"], "Does it work?");
    let ended = place.iosonde("experiment run nothing --output-format json").end().exits(2);
    serde_json::from_str::<Value>(&ended.out).unwrap();
}

/// All schema versions stay readable: this folder has the first schema version.
#[test]
fn a_folder_of_an_older_version_is_rendered_again() {
    let place = Place::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/experiment-1");
    let printed = place.iosonde("report").arg(folder).end().exits(0);
    printed.prints("Is a record of today read tomorrow?").prints("1 more run of each needed");
    for form in ["html", "markdown", "json"] {
        let words = format!("report --output-format {form}");
        place
            .iosonde(&words)
            .arg(folder)
            .end()
            .exits(0)
            .prints("Is a record of today read tomorrow?");
    }
}
