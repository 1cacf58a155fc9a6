//! Kills at random moments: no finished result is lost, no file is left behind, and the remaining
//! results are readable or marked as incomplete.

use std::fs;
use std::path::Path;
use std::time::Duration;

use iosonde_model::record::checksums::alterations;
use rustix::process::Signal;
use serde_json::Value;

use super::altered::until_ended;
use super::program::{Place, json_of, listing};

/// Default number of kills; an environment variable sets more.
const KILLS: u64 = 16;

const EXPERIMENT: &str = r#"
name = "small"
question = "Does it work?"
[[stage]]
name = "depth"
seconds = 0.1
repeats = 20
set = { rw = "randread", block-size = "4k" }
[[stage.axis]]
name = "iodepth"
values = [1, 4, 16]
"#;

/// Commands of about two seconds. All but the last two finish several results.
const COMMANDS: [&str; 4] = [
    "check . 256M --seconds 0.1 --threads 1",
    "experiment run small.toml . --size 256M",
    "run --path . --size 16M --rw randrw --runtime 0.5",
    "verify soak data --runtime 0.5",
];

/// Number of finished results according to a log.
fn finished(folder: &Path) -> usize {
    let log = fs::read_to_string(folder.join("log.jsonl")).unwrap_or_default();
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.filter(|event| event["event"] == "finished").count()
}

/// Number of records in a folder, each of which must be readable.
fn records(folder: &Path) -> usize {
    let inside = listing(folder).into_iter().chain(listing(&folder.join("trials")));
    let is_record = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy();
        let is_trial = path.parent().is_some_and(|parent| parent.ends_with("trials"));
        let is_run = if is_trial { name.ends_with(".json.zst") } else { name.starts_with('0') };
        is_run && name.contains(".json") && !name.starts_with('.')
    };
    let records = inside.filter(|path| is_record(path));
    records.map(|path| json_of(&path)).filter(|record| record["schema"].is_string()).count()
}

#[test]
fn killed_at_random_nothing_is_lost_and_nothing_left_behind() {
    let kills = std::env::var("IOSONDE_TEST_KILLS").ok().and_then(|text| text.parse().ok());
    let kills: u64 = kills.unwrap_or(KILLS);
    let mut state = 3_u64;
    let (mut partial, mut results) = (0, 0);
    for kill in 0..kills {
        let place = Place::new();
        place.file("small.toml", EXPERIMENT.as_bytes());
        place.hole("data", 4 << 20);
        let words = COMMANDS[(kill % 4) as usize];
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let pause = Duration::from_millis((state >> 33) % 2500);
        place.iosonde(words).start().pause(pause).signal(Signal::KILL).end();
        // The test files had no names.
        let left: Vec<_> = listing(&place.work())
            .into_iter()
            .map(|path| path.file_name().unwrap().to_owned())
            .collect();
        assert_eq!(left, ["data", "small.toml"], "{words} after {pause:?}");
        for folder in place.kept() {
            let what = format!("{words} after {pause:?}: {}", folder.display());
            until_ended(&folder);
            assert_eq!(alterations(&folder).unwrap(), [], "{what}");
            let kept = records(&folder);
            assert!(kept >= finished(&folder), "{what}: {kept} of {}", finished(&folder));
            let is_partial = folder.to_string_lossy().ends_with(".partial");
            let printed = place.iosonde("report").arg(&folder).end();
            match (is_partial, kept) {
                (true, 0) => assert!(printed.err.contains("was killed"), "{what}: {printed}"),
                (true, _) => {
                    assert!(
                        printed.err.contains("was killed") && !printed.out.is_empty(),
                        "{what}: {printed}"
                    )
                }
                (false, _) => assert!(!printed.out.is_empty(), "{what}: {printed}"),
            }
            partial += usize::from(is_partial);
            results += kept;
        }
    }
    assert!(partial > 0, "no command was killed in its course");
    eprintln!("{kills} kills: {partial} unfinished folders, {results} results in them and others");
}
