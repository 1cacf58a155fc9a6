//! A stage that searches for its best cell, on a simulated device whose best is known: it needs few
//! runs and can be resumed.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use super::program::{Place, listing};

/// Eight servers of exactly 1 ms: requests beyond eight in flight queue. The p99 of 16 in flight is
/// 2 ms, of 32 is 4 ms; the rate is 8,000 IOPS from 8 in flight on, for any number of jobs.
const SIM: &str = "servers=8,read=1ms,size=64M";

const SEARCH: &str = r#"
name = "best"
question = "Which is best?"
[[stage]]
name = "grid"
repeats = 3
seconds = 0.2
set = { rw = "randread" }
search = { best = "bw", limit = "p99<=2500us" }
[[stage.axis]]
name = "iodepth"
powers-of-two = { from = 1, to = 64 }
[[stage.axis]]
name = "numjobs"
powers-of-two = { from = 1, to = 8 }
[[stage.axis]]
name = "block-size"
values = ["4k", "8k", "16k"]
"#;

/// Number of stored runs.
fn trials(folder: &Path) -> usize {
    listing(&folder.join("trials")).len()
}

/// The number after this text.
fn after(text: &str, words: &str) -> u64 {
    let rest = text.split_once(words).unwrap_or_else(|| panic!("no `{words}` in {text}")).1;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// The best of 84 combinations have 8 or 16 in flight and 16 KiB: 8,000 IOPS within the limit.
#[test]
fn the_best_is_found_in_far_fewer_runs_than_the_grid_has() {
    let place = Place::new();
    place.file("best.toml", SEARCH.as_bytes());
    for seed in 1..=5 {
        let words = format!("experiment run best.toml {SIM} --ioengine sim --seed {seed}");
        let ended = place.iosonde(&words).end().exits(0);
        let text = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
        let best = text.split_once("with p99<=2500us: (").unwrap().1;
        let best = best.split_once(')').unwrap().0;
        let requests = after(best, "iodepth ") * after(best, "jobs ");
        assert!((8..=16).contains(&requests), "seed {seed}: {best}");
        assert_eq!(after(best, "block size "), 16, "seed {seed}: {best}");
        let runs = after(&text, "combinations were measured in ");
        assert!(runs < 100, "seed {seed}: {runs} of 252 runs");
    }
    let folder = place.kept().pop().unwrap();
    let report = fs::read_to_string(folder.join("report.txt")).unwrap();
    assert!(report.contains("of 84 combinations were measured"), "{report}");
    place.iosonde("report --recheck").arg(&folder).end().exits(0);
}

#[test]
fn a_limit_that_nothing_keeps_is_said() {
    let place = Place::new();
    let file = SEARCH.replace("2500us", "500us");
    place.file("best.toml", file.as_bytes());
    let words = format!("experiment run best.toml {SIM} --ioengine sim --seed 1");
    place.iosonde(&words).end().prints("with p99<=500us: none of the");
}

/// Results determine the order of the runs: a resumed search makes the same runs as an
/// uninterrupted one.
#[test]
fn a_search_is_resumed_where_it_ended() {
    let place = Place::new();
    place.file("best.toml", SEARCH.replace("0.2", "0.05").as_bytes());
    place.hole("data", 16 << 20);
    let words = "experiment run best.toml data --buffered --seed 2 --eta-interval 100ms";
    let so_far = || place.kept().first().map_or(0, |folder| trials(folder));
    let running = place.iosonde(words).start().until("five runs", || so_far() >= 5);
    running.signal(Signal::KILL).end();
    let before: Vec<_> = listing(&place.kept()[0].join("trials"));
    let resume = format!("experiment resume {} --eta-interval 0", place.kept()[0].display());
    place.iosonde(&resume).end().prints("combinations were measured");
    let folder = &place.kept()[0];
    let names = |paths: &[std::path::PathBuf]| -> Vec<String> {
        paths.iter().map(|path| path.file_name().unwrap().to_string_lossy().into()).collect()
    };
    let after = names(&listing(&folder.join("trials")));
    // A run whose storing was interrupted has a temporary name.
    let stored = |name: &&String| name.ends_with(".json.zst");
    let missing = names(&before).iter().filter(stored).find(|name| !after.contains(name)).cloned();
    assert_eq!(missing, None, "a run was repeated");
    let cells = |name: &String| name.rsplit_once("-c").unwrap().1.to_owned();
    let mut each: Vec<String> = after.iter().map(cells).collect();
    each.sort();
    each.dedup();
    assert_eq!(each.len(), after.len(), "each run of a cell once");
}

#[test]
fn a_search_that_makes_no_sense_is_refused() {
    let place = Place::new();
    for (old, new, says) in [
        ("best = \"bw\"", "best = \"bandwith\"", "search.best"),
        ("p99<=2500us", "p99>=2500us", "search.limit"),
        ("repeats = 3", "repeats = 3\norder = \"given\"", "the order follows"),
        ("repeats = 3", "repeats = 3\nuntil = { worse-percent = 5.0 }", "no effect in a search"),
        ("limit =", "limits =", "unknown field `limits`"),
    ] {
        place.file("best.toml", SEARCH.replace(old, new).as_bytes());
        let words = format!("experiment run best.toml {SIM} --ioengine sim");
        place.iosonde(&words).end().exits(2).says(says);
    }
    assert!(place.kept().is_empty());
}
