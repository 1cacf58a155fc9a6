//! Output of each verb at several widths, on a terminal and piped: the answer is in the first three
//! lines, no line is wider than the screen, and on `sim` with a fixed seed the text equals the one
//! in `tests/fixtures/screens` (`IOSONDE_BLESS=1` writes it).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use iosonde_rig::skip;

use super::program::Place;

const WIDTHS: [usize; 4] = [60, 80, 120, 200];
const SIM: &str = "--ioengine sim --path servers=8,read=exp:90us,write=exp:120us";
const EXPERIMENT: &str = r#"
name = "small"
question = "Does it work?"
[[stage]]
name = "depth"
seconds = 0.5
repeats = 2
set = { rw = "randread", block-size = "4k" }
[[stage.axis]]
name = "iodepth"
values = [1, 4, 16, 64]
"#;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/screens").join(name)
}

/// Text without the parts that depend on the machine or the day.
fn settled(text: &str) -> String {
    let line = |line: &str| {
        let own = [
            "  Took ",
            "Started",
            "  cpu:",
            "  run ",
            "  tool overhead",
            "      evidence:",
            "  last event:",
        ];
        match own.iter().find(|head| line.starts_with(**head)) {
            Some(head) => format!("{head} …\n"),
            None => format!("{line}\n"),
        }
    };
    text.lines().map(|text| line(&without_dates(text))).collect()
}

/// Replaces dates such as 2026-11-23T07:00:00Z and 20261123T070000Z.
fn without_dates(line: &str) -> String {
    let is_date = |word: &str| {
        let word = word.rsplit('/').next().unwrap_or_default();
        word.len() >= 16 && word.starts_with("20") && word[4..].contains('T') && word.contains('Z')
    };
    let word = |word: &str| if is_date(word) { "DATE".to_owned() } else { word.to_owned() };
    line.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// The command on a terminal of this width, without stderr and colors.
fn on_terminal(place: &Place, words: &str, columns: usize) -> String {
    without_colors(&colored(place, words, columns, &[]))
}

/// The command on a terminal, with the colors that these variables allow.
fn colored(place: &Place, words: &str, columns: usize, variables: &[(&str, &str)]) -> String {
    let program = iosonde_fixtures::program!().path();
    let words: Vec<String> = words.split(' ').map(|word| format!("'{word}'")).collect();
    let line =
        format!("stty cols {columns} rows 50; exec '{program}' {} 2>/dev/null", words.join(" "));
    let ended = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .current_dir(place.work())
        .env("HOME", place.home())
        .env_remove("XDG_STATE_HOME")
        .env_remove("NO_COLOR")
        .env("TERM", "xterm-256color")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    String::from_utf8_lossy(&ended.stdout).replace('\r', "")
}

/// Select Graphic Rendition (ECMA-48): `ESC [ numbers m`.
fn without_colors(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    let after =
        |part: &str| match part.trim_start_matches(|at: char| at.is_ascii_digit() || at == ';') {
            rest if rest.starts_with('m') => rest[1..].to_owned(),
            _ => format!("\u{1b}[{part}"),
        };
    parts.fold(first, |text, part| text + &after(part))
}

fn available(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|ended| ended.status.success())
}

#[track_caller]
fn assert_fits(text: &str, columns: usize, what: &str) {
    let answer: Vec<&str> = text.lines().take(3).collect();
    let second = if what.starts_with("campaign") { "Complete: " } else { "Confidence: " };
    for (at, head) in ["Result: ", second, "Next: "].into_iter().enumerate() {
        let is_there = answer.get(at).is_some_and(|line| line.starts_with(head));
        assert!(is_there, "{what} at {columns}: {head}\n{text}");
    }
    // No finding is printed twice: a whole sentence on a wide screen.
    let sentences = text.lines().map(|line| line.trim_start_matches([' ', '-']));
    let sentences = sentences.filter(|line| line.len() >= 40 && line.ends_with(['.', ']']));
    let mut seen = std::collections::BTreeSet::new();
    let twice: Vec<&str> = sentences.filter(|line| !seen.insert(*line)).collect();
    assert!(columns < 200 || twice.is_empty(), "{what}: twice: {twice:?}\n{text}");
    for line in text.lines() {
        let is_copied = line.trim_start().starts_with("repeat ") || !line.trim().contains(' ');
        let wide = line.chars().count();
        assert!(wide <= columns || is_copied, "{what} at {columns}: {wide}: {line}\n{text}");
    }
}

/// At every width the output fits, is the same on a terminal, and equals the stored text.
fn check(place: &Place, name: &str, words: &str, is_kept: bool) {
    for columns in WIDTHS {
        let ended = place.iosonde(words).env("COLUMNS", columns.to_string()).end();
        let piped = settled(&ended.out);
        assert_fits(&piped, columns, words);
        if available("script") && available("stty") {
            let shown = settled(&on_terminal(place, words, columns));
            assert_fits(&shown, columns, words);
            if is_kept {
                assert_eq!(shown, piped, "{words} at {columns}: on a terminal, and piped");
            }
        } else {
            skip("no script or no stty: nothing is shown on a terminal");
        }
        if !is_kept {
            continue;
        }
        let path = golden(&format!("{name}-{columns}.txt"));
        if std::env::var_os("IOSONDE_BLESS").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &piped).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(piped, kept, "{} differs", path.display());
    }
}

#[test]
fn a_run_fits_every_screen_and_stands_as_kept() {
    let place = Place::new();
    let words =
        format!("run {SIM} --rw randrw --iodepth 16 --runtime 2 --randseed 7 --eta-interval 0");
    check(&place, "run", &words, true);
}

#[test]
fn an_experiment_fits_every_screen_and_stands_as_kept() {
    let place = Place::new();
    place.file("small.toml", EXPERIMENT.as_bytes());
    let target = SIM.split(' ').nth(3).unwrap();
    let words = format!(
        "experiment run small.toml {target} --ioengine sim --seed 7 --eta-interval 0 --results out"
    );
    check(&place, "experiment", &words, true);
}

#[test]
fn a_comparison_fits_every_screen_and_stands_as_kept() {
    let place = Place::new();
    for (side, service) in [("a", 90), ("b", 110)] {
        for seed in 1..=5 {
            let words = format!(
                "run --ioengine sim --path servers=8,read=exp:{service}us --rw randread --iodepth \
                 16 --runtime 1 --randseed {seed} --eta-interval 0 --results {side}"
            );
            place.iosonde(&words).end().exits(0);
        }
    }
    check(&place, "compare", "compare a b --allow target", true);
}

#[test]
fn the_verifier_fits_every_screen() {
    let place = Place::new();
    let words = "verify selftest --runs 20 --look-alikes 20 --soak-ops 2k --seed 7";
    check(&place, "selftest", words, true);
    let soak = "verify soak --path servers=4,read=20us,write=30us --ioengine sim --size 1m --ops \
                2000 --seed 7 --eta-interval 0";
    check(&place, "verify-soak", soak, true);
    for mode in ["flush", "pipeline --numjobs 2"] {
        let words = soak.replace("soak", mode);
        check(&place, &format!("verify-{}", mode.split(' ').next().unwrap()), &words, true);
    }
}

#[test]
fn the_other_half_of_the_verifier_fits_every_screen() {
    let place = Place::new();
    place.hole("data", 4 << 20);
    let words = "verify write data --ledger ledger --ops 300 --randseed 1 --eta-interval 0";
    place.iosonde(words).end().exits(0);
    check(&place, "verify-check", "verify check data --ledger ledger --eta-interval 0", false);
    check(&place, "verify-fsync", "verify fsync .", false);
}

#[test]
fn confidence_has_a_color_on_a_terminal_that_shows_it() {
    if !available("script") || !available("stty") {
        skip("no script or no stty: nothing is shown on a terminal");
        return;
    }
    let place = Place::new();
    let words = "run --ioengine sim --path servers=4,read=exp:1ms --rw randread --iodepth 4 \
                 --number-ios 5000 --eta-interval 0 --results none";
    let shown = colored(&place, words, 100, &[]);
    assert!(shown.contains("\nConfidence:  \u{1b}[1m\u{1b}[3"), "{shown}");
    assert!(shown.starts_with("Result:      "), "{shown}");
    let dumb = ("TERM", "dumb");
    for variables in [&[("NO_COLOR", "1")][..], &[dumb], &[dumb, ("CI", "true")]] {
        let shown = colored(&place, words, 100, variables);
        assert!(shown.contains("\nConfidence:  ") && !shown.contains('\u{1b}'), "{shown}");
    }
}

#[test]
fn a_campaign_fits_every_screen() {
    let place = Place::new();
    let rounds = "rounds = { max = 6, range-percent = 1000, slope-percent = 1000, track = [{}] }";
    let small =
        EXPERIMENT.replace("repeats = 2", &format!("repeats = 1\norder = \"given\"\n{rounds}"));
    place.file("small.toml", small.as_bytes());
    let file = "name = \"fleet\"\n[[device]]\nname = \"s\"\nioengine = \"sim\"\npath = \
                \"servers=8,read=exp:1ms,write=exp:2ms,size=64M\"\n[[experiment]]\nname = \
                \"small.toml\"\nrandseed = 7\n";
    place.file("fleet.toml", file.as_bytes());
    place.iosonde("campaign run fleet.toml --output out").end().exits(0).prints("Result: ");
    check(&place, "campaign-report", "campaign report out", true);
    check(&place, "campaign-status", "campaign status out", true);
    place.iosonde("report out").end().exits(2).says("its own report: iosonde campaign report");
}

#[test]
fn a_check_fits_every_screen() {
    let place = Place::new();
    let words = "check . 256M --seconds 0.3 --only database,cache --threads 1 --eta-interval 0";
    let ended = place.iosonde(words).env("COLUMNS", "80").end();
    assert_fits(&settled(&ended.out), 80, words);
    check(&place, "check", "report last", false);
}

#[test]
fn many_hosts_fit_every_screen() {
    let place = Place::new();
    let agent = iosonde_fixtures::program!().path();
    let words = format!(
        "run --hosts a,b --launch local --agent {agent} {SIM} --rw randread --number-ios 2000 \
         --eta-interval 0"
    );
    check(&place, "hosts", &words, false);
}

#[test]
fn the_first_screen_of_help_has_ten_lines() {
    let place = Place::new();
    let verbs = [
        "",
        "check ",
        "run ",
        "verify ",
        "verify soak ",
        "verify fsync ",
        "profile ",
        "experiment ",
        "experiment run ",
        "campaign ",
        "campaign run ",
        "compare ",
        "report ",
        "doctor ",
    ];
    for verb in verbs {
        for columns in WIDTHS {
            let short = place.iosonde(&format!("{verb}-h")).env("COLUMNS", columns.to_string());
            let short = short.end().exits(0);
            assert!(short.out.lines().count() <= 10, "{verb}\n{}", short.out);
            assert!(short.out.starts_with("Usage: iosonde "), "{verb}\n{}", short.out);
            let whole = place.iosonde(&format!("{verb}--help")).env("COLUMNS", columns.to_string());
            for text in [&short.out, &whole.end().exits(0).out] {
                let wide = text.lines().find(|line| line.chars().count() > columns);
                assert_eq!(wide, None, "{verb} at {columns}");
            }
        }
    }
}

#[test]
fn what_can_be_measured_here_fits_every_screen() {
    let place = Place::new();
    check(&place, "doctor", "doctor .", false);
}

#[test]
fn a_profile_fits_every_screen() {
    let place = Place::new();
    let profiled = place.iosonde("profile -- true").end();
    if profiled.code != Some(0) {
        return skip(format!("nothing can be profiled here: {}", profiled.err));
    }
    check(&place, "profile", "report last", false);
    place.hole("data", 1 << 20);
    for _ in 0..2 {
        place.iosonde("profile -- dd if=data of=/dev/null bs=4k iflag=direct").end().exits(0);
    }
    check(&place, "fidelity", "compare last~1 last", false);
}

#[test]
fn a_kept_result_fits_every_screen() {
    let place = Place::new();
    let words =
        format!("run {SIM} --rw randread --iodepth 4 --runtime 1 --randseed 7 --eta-interval 0");
    place.iosonde(&words).end().exits(0);
    check(&place, "report", "report last", true);
}

/// Results of the first version of each record are rendered as before.
#[test]
fn results_of_an_earlier_version_stand_as_kept() {
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/records");
    for verb in ["check", "run", "verify", "profile", "hosts"] {
        let place = Place::new();
        let page = place.work().join("page.html");
        let folder = records.join(verb);
        let words = format!("report {}", folder.display());
        check(&place, &format!("kept-{verb}"), &words, true);
        let html = format!("{words} --output-format html --output {}", page.display());
        place.iosonde(&html).end().exits(0).silent();
        assert!(fs::read_to_string(&page).unwrap().contains("</html>"), "{verb}");
        if verb != "hosts" {
            place.iosonde(&format!("{words} --recheck")).end().exits(0);
        }
    }
}

#[test]
fn a_stdout_that_is_closed_from_the_start_is_an_error_of_the_environment() {
    let place = Place::new();
    let program = iosonde_fixtures::program!().path();
    let run = format!("run {SIM} --rw randread --runtime 1 --eta-interval 0");
    let is_an_error = |words: &str| {
        let ended = Command::new("sh")
            .args(["-c", &format!("'{program}' {words} >&-")])
            .current_dir(place.work())
            .env("HOME", place.home())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{words}: {said}");
        assert!(said.contains("stdout cannot be written: it was closed"), "{words}: {said}");
    };
    [run.as_str(), "report --explain p99", "-h"].into_iter().for_each(is_an_error);
    assert_eq!(place.kept().len(), 1, "the run is kept");
    ["report last", "report last --output-format ndjson", "report --demo"]
        .into_iter()
        .for_each(is_an_error);
    place.iosonde(&run).end().exits(0).prints("Result: ");
}

#[test]
fn a_pipe_that_is_closed_early_is_no_error() {
    let place = Place::new();
    let program = iosonde_fixtures::program!().path();
    let line = format!(
        "'{program}' run {SIM} --rw randread --runtime 1 --eta-interval 0 2>/dev/null | head -n 1; \
         echo ${{PIPESTATUS[0]}}"
    );
    let ended = Command::new("bash")
        .args(["-c", &line])
        .current_dir(place.work())
        .env("HOME", place.home())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ended.stdout);
    assert!(text.starts_with("Result: ") && text.trim_end().ends_with('0'), "{text}");
}
