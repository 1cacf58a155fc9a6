//! Options that a user sets for all commands, and named sets of options.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::program::{Ended, Place};

const RUN: &str = "run --path servers=8,read=1ms --ioengine sim --number-ios 50 --eta-interval 0";

fn place(config: &str) -> Place {
    let place = Place::new();
    let folder = config_folder(&place);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.toml"), config).unwrap();
    place
}

fn config_folder(place: &Place) -> PathBuf {
    place.home().join(".config/iosonde")
}

fn run(place: &Place, words: &str) -> Ended {
    place.iosonde(&format!("{RUN} {words}")).without_env("XDG_CONFIG_HOME").end()
}

/// The command of the newest stored result.
fn recorded(place: &Place) -> Vec<String> {
    let newest = place.kept().pop().unwrap();
    let manifest = fs::read_to_string(newest.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    let words = manifest["command"].as_array().unwrap();
    words.iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

const SETTINGS: &str = r#"
[defaults]
run = ["--iodepth", "4", "--rw=randread"]
[named.deep]
run = ["--iodepth", "16"]
"#;

#[test]
fn defaults_are_added_said_and_recorded() {
    let place = place(SETTINGS);
    let ended = run(&place, "").exits(0);
    ended.prints("iodepth=4").says("config.toml: --iodepth 4 --rw=randread");
    let words = recorded(&place);
    assert!(words.windows(2).any(|pair| pair == ["--iodepth", "4"]), "{words:?}");
    // The options do not apply to other commands.
    let listed = place.iosonde("report").without_env("XDG_CONFIG_HOME").end().exits(0);
    assert_eq!(listed.err, "");
}

#[test]
fn what_is_typed_counts_more_than_a_name_and_a_name_more_than_a_default() {
    let place = place(SETTINGS);
    run(&place, "--use deep").exits(0).prints("iodepth=16").prints("rw=randread");
    run(&place, "--use=deep --iodepth 2").exits(0).prints("iodepth=2").prints("rw=randread");
    run(&place, "--iodepth=3 --rw randwrite").exits(0).prints("iodepth=3").prints("rw=randwrite");
}

#[test]
fn what_is_wrong_with_the_settings_is_said_before_anything_runs() {
    let unknown = place(SETTINGS);
    run(&unknown, "--use nightly").exits(2).says("found `nightly`").says(": deep").silent();
    run(&unknown, "--use").exits(2).says("--use: expected a name").silent();
    run(&place("[defaults]\nrun = [\"--iodept\", \"4\"]\n"), "").exits(2).says("--iodept").silent();
    for wrong in
        ["[defaults\n", "[default]\nrun = []\n", "[defaults]\nrun = 4\n", "keep-at-most = 1"]
    {
        run(&place(wrong), "").exits(2).says("config.toml").silent();
    }
    assert!(unknown.kept().is_empty());
}

/// Of options that exclude each other, the same order of precedence decides.
#[test]
fn a_default_that_contradicts_what_counts_more_is_left_out() {
    let place =
        place("[defaults]\ncheck = [\"--quick\"]\n[named.long]\ncheck = [\"--seconds\", \"7\"]\n");
    let planned = |words: &str| {
        place.iosonde(&format!("check . {words} --dry-run")).without_env("XDG_CONFIG_HOME").end()
    };
    planned("").exits(0).says("config.toml: --quick");
    planned("--use long").exits(0).says("config.toml: --seconds 7");
    planned("--seconds 5").exits(0).lacks("--quick");
}
