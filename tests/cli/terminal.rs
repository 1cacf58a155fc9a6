//! Terminals that change, vanish or do not exist: no garbage, no hang, the usual exit codes.

use std::fs::File;
use std::io::Read;
use std::process::Command;
use std::time::{Duration, Instant};

use iosonde_rig::skip;

use super::program::{Held, Place};
use super::robot::{Robot, on_terminal, terminal};

/// A run in real time on a file without content.
fn run(place: &Place, seconds: u32) -> String {
    place.hole("data", 16 << 20);
    format!(
        "run --rw randread --ioengine psync --path data --direct 0 --runtime {seconds} \
         --eta-interval 0.2"
    )
}

fn has(program: &str, words: &[&str]) -> bool {
    let is_there = Command::new(program).args(words).output().is_ok();
    if !is_there {
        skip(format!("{program} is not installed"));
    }
    is_there
}

#[test]
fn a_window_that_shrinks_to_20_columns_and_back_keeps_no_remains() {
    if !has("setsid", &["--version"]) {
        return;
    }
    let place = Place::new();
    let mut robot = Robot::start(&place, &run(&place, 4));
    robot.sees("(q stops)");
    robot.resizes(20);
    robot.watches(Duration::from_millis(1_200));
    let narrow = robot.contents();
    let lines = narrow.matches("randread: ").count();
    assert_eq!(lines, 1, "a narrow line is replaced, not added: {narrow}");
    robot.resizes(100);
    robot.watches(Duration::from_millis(500));
    assert_eq!(robot.ends(), Some(0), "{}", robot.contents());
    let last = robot.contents();
    assert!(last.contains("Result: "), "{last}");
    assert!(!last.contains("(q stops)") && !last.contains(" left"), "the live view stays: {last}");
}

#[test]
fn the_key_q_ends_a_run_as_an_interrupt_does() {
    if !has("setsid", &["--version"]) {
        return;
    }
    let place = Place::new();
    let mut robot = Robot::start(&place, &run(&place, 60));
    robot.sees("(q stops)");
    robot.sees("p99");
    robot.types("q");
    assert_eq!(robot.ends(), Some(130), "{}", robot.contents());
    assert!(robot.contents().contains("Result: "), "{}", robot.contents());
    assert_eq!(place.kept().len(), 1, "the partial result is kept");
}

#[test]
fn a_terminal_that_goes_away_ends_the_run_and_leaves_a_result() {
    if !has("setsid", &["--version"]) {
        return;
    }
    let place = Place::new();
    let (side, name) = terminal();
    let mut child = Held::spawn(&mut on_terminal(&place, &name, &run(&place, 3))).unwrap();
    let mut side = File::from(side);
    let mut bytes = [0; 4096];
    let mut seen = String::new();
    while !seen.contains("IOPS") {
        let count = side.read(&mut bytes).unwrap();
        seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    drop(side);
    let started = Instant::now();
    child.wait().expect("it ends");
    assert!(started.elapsed() < Duration::from_secs(60), "it goes on without a terminal");
    // The process that replaces the hung-up one may still be storing.
    let until = Instant::now() + Duration::from_secs(60);
    while place.kept().is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(place.kept().len(), 1);
}

#[test]
fn without_a_terminal_there_are_plain_lines_with_latencies() {
    let place = Place::new();
    let words = run(&place, 2);
    for name in ["xterm", "dumb", ""] {
        let ended = place.iosonde(&words).env("TERM", name).end().exits(0);
        for text in [&ended.out, &ended.err] {
            assert!(!text.contains(['\u{1b}', '\r', '\u{8}']), "{ended}");
        }
        let mut lines = ended.err.lines().filter(|line| line.contains("IOPS"));
        assert!(lines.clone().count() >= 2, "one line per interval: {ended}");
        assert!(lines.next_back().unwrap().contains("p99 "), "{ended}");
    }
}

#[test]
fn a_reader_of_progress_that_leaves_early_does_not_end_the_run() {
    let place = Place::new();
    let line = format!(
        "'{}' {} 2>&1 >out.txt | head -n 1; echo ${{PIPESTATUS[0]}}",
        iosonde_fixtures::program!(),
        run(&place, 2)
    );
    let mut command = Command::new("bash");
    command.args(["-c", &line]).current_dir(place.work()).env("HOME", place.home());
    let ended = command.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(said.trim_end().ends_with('0'), "{said}");
    let result = std::fs::read_to_string(place.work().join("out.txt")).unwrap();
    assert!(result.starts_with("Result: "), "{result}");
}

/// Screens of a command in tmux, ten per second until it has ended. Meanwhile the window changes to
/// 20 columns and back.
fn in_tmux(place: &Place, words: &str) -> Vec<String> {
    let socket = place.home().join("tmux");
    let tmux = |words: &[&str]| {
        let ended = Command::new("tmux")
            .args(["-f", "/dev/null", "-S"])
            .arg(&socket)
            .args(words)
            .current_dir(place.work())
            .env("HOME", place.home())
            .env("LC_ALL", "C.UTF-8")
            .env_remove("TMUX")
            .output()
            .unwrap();
        String::from_utf8_lossy(&ended.stdout).into_owned()
    };
    let line = format!("'{}' {words}; echo code=$?; exec sleep 1000", iosonde_fixtures::program!());
    tmux(&["new-session", "-d", "-x", "80", "-y", "100", "-s", "one", &line]);
    let until = Instant::now() + Duration::from_secs(180);
    let mut screens: Vec<String> = Vec::new();
    // Counts screens from the first with the live view; before it, nothing is redrawn.
    let mut since = 0;
    loop {
        let shown = tmux(&["capture-pane", "-p", "-t", "one"]);
        let has_ended = shown.contains("code=") || Instant::now() > until;
        since += usize::from(since > 0 || shown.contains("(q stops)"));
        screens.push(shown);
        if has_ended {
            break;
        }
        match since {
            3 => tmux(&["resize-window", "-t", "one", "-x", "20", "-y", "100"]),
            12 => tmux(&["resize-window", "-t", "one", "-x", "80", "-y", "100"]),
            _ => String::new(),
        };
        std::thread::sleep(Duration::from_millis(100));
    }
    tmux(&["kill-server"]);
    screens
}

/// Asserts that the live view appeared and was replaced by the result.
#[track_caller]
fn gives_way(screens: &[String], parts: &[&str]) {
    let last = screens.last().unwrap();
    for line in ["code=0", "Result: ", "Confidence: ", "Next: "] {
        assert!(last.contains(line), "{line}: {last}");
    }
    assert!(!last.contains("(q stops)"), "{last}");
    for part in parts {
        assert!(screens.iter().any(|shown| shown.contains(part)), "never on the screen: {part}");
    }
}

#[test]
fn in_tmux_the_live_view_of_a_run_gives_way_to_the_result() {
    if has("tmux", &["-V"]) {
        let place = Place::new();
        gives_way(&in_tmux(&place, &run(&place, 4)), &["IOPS", "p99", " left"]);
    }
}

#[test]
fn in_tmux_the_live_view_of_a_check_gives_way_to_the_result() {
    if has("tmux", &["-V"]) {
        let place = Place::new();
        let words = "check . 256M --seconds 2 --threads 1 --only cache,kv-store";
        gives_way(&in_tmux(&place, words), &["[1/2] ", "[2/2] ", " left"]);
    }
}

#[test]
fn in_tmux_the_curve_of_an_experiment_grows_and_gives_way_to_the_result() {
    if has("tmux", &["-V"]) {
        let place = Place::new();
        let small = "name = \"small\"\nquestion = \"Where is the knee?\"\n[[stage]]\nname = \
                     \"depth\"\nseconds = 1.0\nrepeats = 2\nset = { rw = \"randread\" }\n\
                     [[stage.axis]]\nname = \"iodepth\"\nvalues = [1, 4, 16]\n";
        place.file("small.toml", small.as_bytes());
        let words = "experiment run small.toml . --size 256M --results out";
        gives_way(&in_tmux(&place, words), &["[1/6] ", "[6/6] ", "█"]);
    }
}
