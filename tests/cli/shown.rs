//! File names that control a terminal, or hide or reverse text, are escaped.

use std::fs;

use super::program::Place;

/// Characters that must not reach a terminal or a page.
const HOSTILE: [char; 6] = ['\u{1b}', '\u{9b}', '\u{202e}', '\u{2066}', '\u{2028}', '\u{200b}'];

#[test]
fn names_are_escaped_wherever_they_are_shown() {
    let place = Place::new();
    let name = "a\nb\u{1b}[2J\u{9b}31m\u{202e}\u{2066}\u{2028}\u{200b}c";
    let path = place.hole(name, 1 << 20);
    let run = |more: &str| {
        let words = format!("run --rw randread --runtime 0.2 {more} --path");
        place.iosonde(&words).arg(&path).end()
    };
    let mut shown = vec![
        ("dry run", run("--dry-run")),
        ("dry run, json", run("--dry-run --output-format json")),
        ("run", run("")),
        ("json", run("--output-format json")),
        ("verify dry run", place.iosonde("verify flush --dry-run").arg(&path).end()),
        ("verify", place.iosonde("verify flush").arg(&path).end()),
        (
            "refused",
            place.iosonde("run --rw randwrite --path").arg(place.work().join("x").join(name)).end(),
        ),
        ("report of it", place.iosonde("report").arg(&path).end()),
    ];
    let folder = place.kept().remove(0);
    for form in ["normal", "json", "html", "markdown"] {
        let words = format!("report --figures {form} --output-format {form}");
        shown.push((form, place.iosonde(&words).arg(&folder).end().exits(0)));
    }
    for (what, ended) in &shown {
        for text in [&ended.out, &ended.err] {
            assert!(!text.contains(HOSTILE), "{what}: {ended}");
            let is_broken =
                text.lines().any(|line| line.ends_with("/a") || line.starts_with("b\\x1b"));
            assert!(!is_broken, "{what}: {ended}");
        }
    }
    assert!(shown[0].1.out.contains("a\\nb\\x1b[2J"), "{}", shown[0].1);
    place.iosonde("report --output-format csv --output csv").arg(&folder).end().exits(0);
    for written in ["html", "csv"] {
        for file in fs::read_dir(place.work().join(written)).unwrap() {
            let text = fs::read_to_string(file.unwrap().path()).unwrap();
            assert!(!text.contains(HOSTILE), "{written}");
        }
    }
}
