//! `campaign`: files and refusals, devices in parallel, kill -9 at any point, the log, the
//! sign-off, export for fio.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use iosonde_rig::skip;
use rustix::process::Signal;
use serde_json::Value;

use super::program::{Place, json_of, listing};

const SIGNOFF: &str = include_str!("../../schema/iosonde-signoff-1.schema.json");

const MINI: &str = r#"
name = "mini"
question = "Does it work?"
[[stage]]
name = "depth"
order = "given"
repeats = 1
seconds = 0.2
warm-up-percent = 0
set = { rw = "randread", block-size = "4k" }
rounds = { max = 6, range-percent = 1000, slope-percent = 1000, track = [{}] }
[[stage.axis]]
name = "iodepth"
values = [1, 4]
"#;

const FLEET: &str = r#"
name = "fleet"
[[device]]
name = "s"
path = "servers=8,read=exp:1ms,write=exp:2ms,size=64M"
ioengine = "sim"
[[device]]
name = "f"
path = "data"
buffered = true
[[experiment]]
name = "mini.toml"
randseed = 7
[[experiment]]
name = "second.toml"
randseed = 8
"#;

fn place() -> Place {
    let place = Place::new();
    place.file("mini.toml", MINI.as_bytes());
    place.file("second.toml", MINI.as_bytes());
    place.file("fleet.toml", FLEET.as_bytes());
    place.hole("data", 16 << 20);
    place
}

/// The folders of all experiments of a campaign, by device and number.
fn results(output: &Path) -> Vec<PathBuf> {
    let devices = listing(&output.join("devices"));
    let steps: Vec<PathBuf> = devices.iter().flat_map(|device| listing(device)).collect();
    steps.iter().flat_map(|step| listing(step)).collect()
}

fn trials(folder: &Path) -> BTreeSet<String> {
    let names = listing(&folder.join("trials")).into_iter();
    names.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

fn campaign_folder(output: &Path) -> PathBuf {
    let all = listing(output).into_iter();
    let mut all = all.filter(|path| path.to_string_lossy().contains("-campaign-"));
    all.next().unwrap()
}

#[test]
fn a_campaign_is_checked_planned_run_and_signed_off() {
    let place = place();
    place.iosonde("campaign check fleet.toml").end().exits(0).prints("0 of them would be refused");
    place.iosonde("campaign plan fleet.toml").end().exits(0).prints("2 devices at once");
    assert!(!place.work().join("out").exists(), "neither has made anything");
    let ended = place.iosonde("campaign run fleet.toml --output out").end().exits(0);
    ended.prints("fleet: complete").prints("depth: steady in rounds 1 to 5");
    let output = place.work().join("out");
    assert_eq!(results(&output).len(), 4);
    let folder = campaign_folder(&output);
    let log = fs::read_to_string(folder.join("events.log")).unwrap();
    for line in log.lines() {
        let parts: Vec<&str> = line.split('|').collect();
        assert_eq!(parts.len(), 4, "{line}");
        assert!(parts[2].parse::<u64>().unwrap() > 1_600_000_000, "{line}");
    }
    assert_eq!(log.lines().filter(|line| line.starts_with("finish|")).count(), 4, "{log}");
    for name in ["s", "f"] {
        let own = fs::read_to_string(folder.join(format!("device-{name}.log"))).unwrap();
        let all: Vec<&str> = log.lines().filter(|l| l.split('|').nth(1) == Some(name)).collect();
        assert_eq!(own.lines().collect::<Vec<_>>(), all, "its lines in {log}");
        assert!(all[0].starts_with(&format!("begin|{name}|")), "{own}");
        assert!(all[all.len() - 1].starts_with(&format!("end|{name}|")), "{own}");
    }
    let json = fs::read_to_string(folder.join("log.jsonl")).unwrap();
    assert_eq!(json.lines().count(), log.lines().count() + 1, "and how the command ended");
    for (line, json) in log.lines().zip(json.lines()) {
        let value: Value = serde_json::from_str(json).unwrap();
        assert_eq!(line.split('|').next().unwrap(), value["action"]);
    }
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("Sign-off: ") && page.contains("Signature:"));
    let report = place.iosonde("campaign report out --output-format json").end().exits(0).json();
    assert_eq!((&report["complete"], &report["verdict"]), (&true.into(), &"complete".into()));
    let schema: Value = serde_json::from_str(SIGNOFF).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let faults: Vec<String> = validator.iter_errors(&report).map(|e| e.to_string()).collect();
    assert!(faults.is_empty(), "{faults:?}");
    let first = &report["devices"][0]["experiments"][0];
    assert_eq!(first["stages"][0]["is_steady"], true);
    let evidence = output.join(first["evidence"]["folder"].as_str().unwrap());
    let sums = Command::new("sha256sum").arg(evidence.join("SHA256SUMS")).output().unwrap();
    let digest = first["evidence"]["sha256_of_SHA256SUMS"].as_str().unwrap();
    assert!(String::from_utf8(sums.stdout).unwrap().starts_with(digest));
    let status = place.iosonde("campaign status out").end().exits(0);
    status.prints("not running, 4 of 4 done");
    // A complete campaign is not changed.
    place.iosonde("campaign run fleet.toml --output out").end().exits(2).says("holds a campaign");
}

#[test]
fn what_contradicts_itself_or_is_not_there_is_refused_before_anything_is_made() {
    let place = place();
    let check = |old: &str, new: &str| {
        place.file("bad.toml", FLEET.replacen(old, new, 1).as_bytes());
        place.iosonde("campaign run bad.toml --output out").end().exits(2)
    };
    check("name = \"f\"", "name = \"s\"").says("two devices are named `s`");
    check("[[device]]", "[[device]]\nsize = 1g").says("line");
    check("path = \"data\"", "path = \"nowhere\"").says("nowhere");
    check("buffered = true", "buffring = true").says("buffring");
    let twice = "path = \"./data\"\n[[device]]\nname = \"g\"\npath = \"data\"";
    check("path = \"data\"", twice).says("are the same one");
    fs::hard_link(place.work().join("data"), place.work().join("hard")).unwrap();
    check("path = \"data\"", &twice.replace("./data", "hard")).says("are the same one");
    check("[[experiment]]", "[[experiment]]\ndevices = [\"sa\"]").says("no device `sa`");
    check("buffered = true", "serial = \"S1\"").says("is not a block device");
    assert!(!place.work().join("out").exists());
    place.file("bad.toml", FLEET.replacen("second.toml", "queue-deth", 1).as_bytes());
    let ended = place.iosonde("campaign check bad.toml").end().exits(2);
    ended.says("did you mean `queue-depth`").prints("2 of them would be refused");
    place.iosonde("campaign run fleet.toml").end().exits(2).says("--output");
    place.iosonde("campaign status .").end().exits(2).says("holds no campaign");
    let set = "campaign check fleet.toml --set device.x.size=1g";
    place.iosonde(set).end().exits(2).says("no entry `x`");
    let preset = "campaign run fleet.toml --output out --preset none";
    place.iosonde(preset).end().exits(2).says("no experiment");
}

/// Whether the campaign in `out` has stored a run on the device `f`.
fn has_run_on_f(place: &Place) -> bool {
    let parent = place.work().join("out/devices/f/01-mini");
    parent.is_dir() && listing(&parent).iter().any(|folder| !trials(folder).is_empty())
}

#[test]
fn a_device_that_is_gone_stops_alone() {
    let place = place();
    let running = place.iosonde("campaign run fleet.toml --output out").start();
    let has_run = || has_run_on_f(&place);
    let running = running.until("run on f", has_run);
    fs::remove_file(place.work().join("data")).unwrap();
    let ended = running.end().exits(1);
    ended.says("stop: f: second.toml not begun").prints("second.toml: incomplete");
    assert_eq!(listing(&place.work().join("out/devices/s")).len(), 2, "the other one is complete");
    let resume = place.iosonde("campaign resume out").end().exits(1);
    resume.says("No such file").says("stop: f: second.toml not begun");
}

#[test]
fn what_can_never_be_run_is_no_more_to_do() {
    let place = place();
    let refused = MINI.replace("block-size = ", "engine = \"libaio\", block-size = ");
    let single = refused.lines().filter(|line| !line.starts_with("rounds")).collect::<Vec<_>>();
    place.file("mini.toml", refused.as_bytes());
    place.file("second.toml", single.join("\n").as_bytes());
    let one = FLEET.split("[[device]]\nname = \"f\"").next().unwrap();
    let experiments = &FLEET[FLEET.find("[[experiment]]").unwrap()..];
    place.file("fleet.toml", format!("{one}{experiments}").as_bytes());
    let ended = place.iosonde("campaign run fleet.toml --output out").end().exits(7);
    let why = "stage depth: a simulated device supports no other engine";
    let ended = ended.says(&format!("mini.toml: exit code 7: nothing can be run: {why}"));
    let ended = ended.says(&format!("second.toml: exit code 7: nothing can be run: {why}"));
    ended.lacks("campaign resume");
    place.iosonde("campaign status out").end().exits(0).lacks("campaign resume");
    let run = format!("experiment run mini.toml {} --ioengine sim", "servers=8,read=1ms");
    let ended = place.iosonde(&run).end().exits(7).prints("Open report.html");
    ended.prints("No run can be used: stage depth: a simulated").lacks("partial: ");
}

/// Points with widely spread latencies, on a simulated device and on a file: the storage per point,
/// including tables, pictures and pages, is below 50 kB.
#[test]
fn a_point_takes_less_than_50_kb() {
    let place = place();
    let wide = MINI.replace("seconds = 0.2", "seconds = 1").replace("[1, 4]", "[1, 2, 4, 8]");
    let wide = wide.replace(
        "rounds = { max = 6, range-percent = 1000, slope-percent = 1000, \
                             track = [{}] }\n",
        "",
    );
    let wide = wide + "[[stage.axis]]\nname = \"numjobs\"\nvalues = [1, 2, 4, 8]\n";
    place.file("mini.toml", wide.as_bytes());
    place.iosonde("campaign run fleet.toml --output out --set experiment.1.name=mini.toml").end();
    let output = place.work().join("out");
    let points: usize = results(&output).iter().map(|folder| trials(folder).len()).sum();
    assert!(points >= 64, "{points}");
    let bytes = bytes_below(&output);
    assert!(bytes / points as u64 <= 50_000, "{bytes} B for {points} points");
    // Compressed records are checked like others.
    for folder in results(&output) {
        place.iosonde("report --recheck").arg(folder).end().exits(0);
    }
}

/// Bytes of all files below a directory.
fn bytes_below(directory: &Path) -> u64 {
    let all = listing(directory).into_iter();
    all.map(
        |path| if path.is_dir() { bytes_below(&path) } else { fs::metadata(path).unwrap().len() },
    )
    .sum()
}

/// A power cut may leave an empty folder. If the clock is then set back, later names are older.
#[test]
fn a_folder_in_which_nothing_was_begun_is_passed_over() {
    let place = place();
    let output = place.work().join("out");
    let empty = [
        "fleet-campaign-1.partial",
        "devices/s/01-mini/99991231T000000Z-experiment-00000001.partial",
    ];
    for name in empty {
        fs::create_dir_all(output.join(name)).unwrap();
        fs::write(output.join(name).join("log.jsonl"), "").unwrap();
    }
    place.iosonde("campaign status out").end().exits(2).says("holds no campaign");
    place.iosonde("campaign run fleet.toml --output out").end().exits(0);
    place.iosonde("campaign status out").end().exits(0).prints("4 of 4 done");
}

/// Rounds on a device whose requests fail after a while give no verdict. Every form of the result
/// names the error, and failed runs are repeated.
#[test]
fn an_io_error_is_no_verdict_and_the_run_is_repeated() {
    let place = place();
    let set = "--set device.s.path=servers=8,read=exp:1ms,size=64M,error-every=1,error-after=100";
    place.iosonde(&format!("campaign run fleet.toml --output out {set}")).end().exits(1);
    let output = place.work().join("out");
    let log = fs::read_to_string(campaign_folder(&output).join("events.log")).unwrap();
    let failed = "mini.toml: exit code 1: stage depth: an I/O error ended run 1: read of 4096 B";
    assert!(log.contains(failed) && log.contains("EIO"), "{log}");
    assert!(!log.contains("not steady"), "{log}");
    let page = fs::read_to_string(campaign_folder(&output).join("report.html")).unwrap();
    assert!(page.contains("an I/O error ended run 1: read of 4096 B"));
    let report = place.iosonde("campaign report out --output-format json").end().exits(7).json();
    let first = &report["devices"][0]["experiments"][0];
    assert_eq!(first["state"], "incomplete");
    assert!(first["because"].as_str().unwrap().contains("EIO"), "{first}");
    let schema: Value = serde_json::from_str(SIGNOFF).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&report));
    let folder = listing(&output.join("devices/s/01-mini")).remove(0);
    let text = fs::read_to_string(folder.join("report.txt")).unwrap();
    assert!(text.contains("no verdict after 0 rounds"), "{text}");
    let resumed = place.iosonde("campaign resume out").end().exits(1);
    resumed.says("fail: s: mini.toml").says("EIO");
    let kept: Vec<String> = trials(&folder).into_iter().collect();
    assert_eq!(kept.len(), 2, "what failed is set aside, and was run again: {kept:?}");
}

/// An experiment file that was changed since the start is not run in place of the planned one.
#[test]
fn an_experiment_file_that_was_changed_is_refused_by_name() {
    let place = place();
    place.file("inner.toml", MINI.as_bytes());
    let outer = "name = \"outer\"\nquestion = \"?\"\ninclude = [\"inner.toml\"]\n";
    place.file("second.toml", outer.as_bytes());
    let set = "--set stop.after=50ms";
    place.iosonde(&format!("campaign run fleet.toml --output out {set}")).end().exits(7);
    place.file("inner.toml", MINI.replace("[1, 4]", "[1, 2, 4]").as_bytes());
    let path = campaign_folder(&place.work().join("out")).join("campaign.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"50ms\"", "null")).unwrap();
    let refused = place.iosonde("campaign resume out").end().exits(2);
    refused.says("`second.toml`, or a file that it includes, was changed");
    place.file("inner.toml", MINI.as_bytes());
    place.iosonde("campaign resume out").end().exits(0).prints("fleet: complete");
}

/// Altered or missing records are not evidence.
#[test]
fn a_report_names_records_that_were_altered_or_are_gone() {
    let place = place();
    place.iosonde("campaign run fleet.toml --output out").end().exits(0);
    let folders = results(&place.work().join("out"));
    let first = |folder: &Path| listing(&folder.join("trials")).remove(0);
    fs::remove_file(first(&folders[0])).unwrap();
    let report = folders[2].join("report.json");
    fs::write(&report, fs::read_to_string(&report).unwrap().replace('1', "2")).unwrap();
    let ended = place.iosonde("campaign report out").end().exits(7);
    ended
        .prints("found no such file")
        .prints("report.json: found SHA-256")
        .prints("fleet: incomplete");
}

/// Two commands at once: one is refused, the other completes its campaign.
#[test]
fn an_output_directory_has_one_campaign() {
    let place = place();
    let start = || place.iosonde("campaign run fleet.toml --output out").start();
    let both = [start(), start()].map(super::program::Running::end);
    let codes: BTreeSet<Option<i32>> = both.iter().map(|ended| ended.code).collect();
    assert_eq!(codes, BTreeSet::from([Some(0), Some(2)]));
    let refused = both.into_iter().find(|ended| ended.code == Some(2)).unwrap();
    refused.says("holds a campaign");
    place.iosonde("campaign status out").end().exits(0).prints("4 of 4 done");
}

/// A check refuses what a run would refuse. Written bytes are limited and count as wear.
#[test]
fn a_check_refuses_what_cannot_be_prepared_and_a_plan_has_the_wear() {
    let place = place();
    let refused = |set: &str, why: &str| {
        let words = format!("campaign check fleet.toml --set experiment.0.{set}");
        place.iosonde(&words).end().exits(2).says(why);
    };
    refused("purge=nvme-format", "it is a method for block devices");
    refused("write-cache=off", "the target is not a block device");
    refused("skip-if-prepared=true", "skip-if-prepared has no effect");
    let writes = MINI.replace("randread", "randwrite");
    place.file("mini.toml", writes.as_bytes());
    let words = "campaign plan fleet.toml --set experiment.0.max-written=20m \
                 --set experiment.0.rated-endurance=1g --set experiment.0.devices=[\"f\"] \
                 --set experiment.1.devices=[\"f\"]";
    let plan = place.iosonde(words).end().exits(0);
    plan.prints("4.00 MiB by runs, about 1.95 % of").prints("up to 4.00 MiB by the runs");
}

#[test]
fn a_campaign_of_another_version_is_refused() {
    let place = place();
    place.iosonde("campaign run fleet.toml --output out").end().exits(0);
    let path = campaign_folder(&place.work().join("out")).join("campaign.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen('{', "{\"weather\":\"fair\",", 1)).unwrap();
    for verb in ["status", "resume", "report"] {
        let ended = place.iosonde(&format!("campaign {verb} out")).end().exits(2);
        ended.says("campaign.json").says("not a campaign of this version");
    }
}

/// Total number of kills in the test below.
const KILLS: u32 = 50;

/// The next number of a pseudo-random sequence (SplitMix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Results of the runs on the simulated device, without those that depend on this machine.
fn simulated(output: &Path) -> Vec<Value> {
    let all = results(output).into_iter();
    let all = all.filter(|folder| folder.to_string_lossy().contains("devices/s/"));
    let files = all.flat_map(|folder| listing(&folder.join("trials")));
    let jobs = files.map(|path| {
        let mut trial = json_of(&path);
        let mut jobs = trial["run"]["jobs"].take();
        for job in jobs.as_array_mut().unwrap() {
            for key in ["cpus", "cpu_user_ns", "cpu_system_ns"] {
                job.as_object_mut().unwrap().remove(key);
            }
        }
        jobs
    });
    jobs.collect()
}

/// Campaigns on a simulated device and a file, killed 50 times at random moments, end with every
/// point once, and with the same points as a campaign that was never killed.
#[test]
fn what_is_killed_at_any_point_is_completed_with_every_point_once() {
    let place = place();
    let points = |output: &Path| -> Vec<BTreeSet<String>> {
        results(output).iter().map(|folder| trials(folder)).collect()
    };
    let whole = place.work().join("whole");
    place.iosonde("campaign run fleet.toml --output whole").end().exits(0);
    assert_eq!((points(&whole).len(), simulated(&whole).len()), (4, 20));
    let mut chance = 13;
    let (mut kills, mut campaigns) = (0, 0);
    while kills < KILLS {
        campaigns += 1;
        let name = format!("out{campaigns}");
        let output = place.work().join(&name);
        let is_begun =
            || listing(&output).iter().any(|folder| folder.join("campaign.json").is_file());
        let words = || match is_begun() {
            true => format!("campaign resume {name}"),
            false => {
                let _ = fs::remove_dir_all(&output);
                format!("campaign run fleet.toml --output {name}")
            }
        };
        while kills < KILLS {
            let running = place.iosonde(&words()).start();
            let running = running.pause(Duration::from_millis(next(&mut chance) % 500));
            if running.signal(Signal::KILL).end().code.is_some() {
                break;
            }
            kills += 1;
        }
        let last = place.iosonde(&words()).end().exits(0);
        last.prints("fleet: complete");
        assert_eq!(points(&output), points(&whole), "after {kills} kills");
        assert!(simulated(&output) == simulated(&whole), "after {kills} kills");
    }
}

#[test]
fn an_interrupt_ends_it_in_order() {
    let place = place();
    let running = place.iosonde("campaign run fleet.toml --output out").start();
    let has_run = || has_run_on_f(&place);
    let ended = running.until("run on f", has_run).signal(Signal::INT).end().exits(130);
    ended.says("to run what is missing: iosonde campaign resume");
    place.iosonde("campaign resume out").end().exits(0).prints("fleet: complete");
}

#[test]
fn a_file_of_another_size_ends_the_work_on_it() {
    let place = place();
    let running = place.iosonde("campaign run fleet.toml --output out").start();
    let has_run = || has_run_on_f(&place);
    running.until("run on f", has_run).signal(Signal::KILL).end();
    place.hole("data", 32 << 20);
    let ended = place.iosonde("campaign resume out").end().exits(5);
    let said = format!("{}{}", ended.out, ended.err);
    assert!(said.contains("`data` has 32 MiB, and had 16 MiB when the campaign began"), "{said}");
    place.hole("data", 16 << 20);
    place.iosonde("campaign resume out").end().exits(0).prints("fleet: complete");
}

#[test]
fn the_points_are_exported_as_job_files_that_fio_reads() {
    let place = place();
    let words = "campaign export fio fleet.toml --output jobs --set device.s.path=data \
                 --set device.s.ioengine=libaio --set device.1.path=.";
    place.iosonde(words).end().exits(0).prints("8 job files");
    let jobs = listing(&place.work().join("jobs"));
    assert_eq!(jobs.len(), 8);
    if Command::new("fio").arg("--version").output().is_err() {
        return skip("fio is not installed");
    }
    for job in jobs {
        let ended = Command::new("fio").arg("--parse-only").arg(&job).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success() && said.is_empty(), "{}: {said}", job.display());
    }
}

/// A quick run is a part of a full one, and fio's times are in microseconds.
#[test]
fn the_points_of_a_quick_campaign_are_exported_too() {
    let place = place();
    let device = "[[device]]\nname = \"s\"\npath = \"data\"\nioengine = \"libaio\"\n";
    let experiment = "[[experiment]]\nname = \"block-size\"\n";
    place.file("quick.toml", format!("name = \"q\"\n{device}{experiment}").as_bytes());
    let words = "campaign export fio quick.toml --output jobs --preset quick";
    place.iosonde(words).end().exits(0).prints("14 job files in jobs, 0 left out");
    let jobs = listing(&place.work().join("jobs"));
    let is_timed = |job: &PathBuf| {
        let text = fs::read_to_string(job).unwrap();
        text.contains("\nruntime=1200ms\n") && text.contains("\nramp_time=133333us\n")
    };
    assert!(!jobs.is_empty() && jobs.iter().all(is_timed));
}

/// The built-in recorded campaign is complete: its verdicts follow from its records.
#[test]
fn the_recorded_campaign_is_unpacked_and_reported_on() {
    let place = place();
    let demo = "campaign demo --output demo --output-format json";
    let said = place.iosonde(demo).end().exits(0).says("nothing is measured here").json();
    let output = place.work().join("demo");
    let stored = fs::read(campaign_folder(&output).join("signoff.json")).unwrap();
    let stored: Value = serde_json::from_slice(&stored).unwrap();
    assert_eq!((&said["devices"], &said["verdict"]), (&stored["devices"], &stored["verdict"]));
    assert_eq!(said["devices"].as_array().unwrap().len(), 2);
    place.iosonde("campaign status demo").end().exits(0).prints("2 of 2 done");
    place.iosonde("campaign report demo --page page.html").end().exits(0).prints("Result: ");
    let page = fs::read_to_string(place.work().join("page.html")).unwrap();
    let evidence = &stored["devices"][0]["experiments"][0]["evidence"]["sha256_of_SHA256SUMS"];
    assert!(page.contains(evidence.as_str().unwrap()) && page.contains("Signature:"));
    // A foreign file is not replaced.
    place.file("mine.html", b"mine");
    let ended = place.iosonde("campaign report demo --page mine.html").end().exits(1);
    ended.says("--page: `mine.html`");
    assert_eq!(fs::read(place.work().join("mine.html")).unwrap(), b"mine");
    for folder in results(&output) {
        let words = format!("report {} --recheck", folder.display());
        place.iosonde(&words).end().exits(0);
    }
    place.iosonde(demo).end().exits(2).says("holds something else");
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo-campaign/demo.json.zst");
    assert!(fs::metadata(packed).unwrap().len() < 450_000);
}

#[test]
fn a_simulated_disk_has_the_seeks_zones_and_turns_that_were_asked_for() {
    let place = Place::new();
    let disk = "rpm=7200,seek=12ms,track=1M,inner-track=500k,size=1t,read=1us,write=1us";
    // Level and value of every measured point.
    let points = |name: &str, level: &str, value: &str| -> Vec<(f64, f64)> {
        let words = format!(
            "experiment run {name} {disk} --ioengine sim --repeats 1 --seconds 3 \
                             --randseed 7"
        );
        let ended = place.iosonde(&format!("{words} --output-format json")).end().exits(0);
        let all: Value = serde_json::from_str(&ended.out).unwrap();
        let data = &all["data"][0];
        let columns = data["columns"].as_array().unwrap();
        let at = |name: &str| columns.iter().position(|column| column == name).unwrap();
        let (level, value) = (at(level), at(value));
        let rows = data["rows"].as_array().unwrap().iter();
        rows.filter_map(|row| Some((row[level].as_f64()?, row[value].as_f64()?))).collect()
    };
    let near = |found: f64, truth: f64| (found / truth - 1.0).abs() < 0.06;
    let (turn, size) = (60.0 / 7200.0, (1u64 << 40) as f64);
    // Half a turn plus the mean seek: the mean root of a random distance is 8/15 of the whole's.
    let seeks = points("seek-curve", "level_span_bytes", "iops_per_s");
    assert_eq!(seeks.len(), 10);
    for (span, rate) in seeks {
        let truth = turn / 2.0 + 0.012 * 8.0 / 15.0 * (span / size).sqrt();
        assert!(near(1.0 / rate, truth), "{span}: {rate}");
    }
    let zones = points("zones", "level_offset_bytes", "bandwidth_bytes_per_s");
    assert_eq!(zones.len(), 7);
    for (offset, rate) in zones {
        let outer = (1u64 << 20) as f64;
        let track = outer + (500.0 * 1024.0 - outer) * offset / size;
        assert!(near(rate, track / turn), "{offset}: {rate}");
    }
    let words = format!(
        "experiment run rotation {disk} --ioengine sim --repeats 3 --seconds 3 \
                         --randseed 7"
    );
    place.iosonde(&words).end().exits(0).prints("about 7,200 rpm");
}
