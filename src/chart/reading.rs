//! For tests: reads a figure back from its text and finds what a reader would stumble over.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::text;

/// Depth of a text below its baseline, in font sizes.
const DESCENT: f64 = 0.24;

/// A text with the box it fills.
#[derive(Clone, Debug)]
struct Written {
    words: String,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// The value of an attribute.
fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let start = line.find(&format!(" {name}=\""))? + name.len() + 3;
    line[start..].split('"').next()
}

fn value(line: &str, name: &str) -> f64 {
    attribute(line, name).unwrap_or_else(|| panic!("no {name} in {line}")).parse().unwrap()
}

fn written(line: &str) -> Written {
    let words = line.split('>').nth(1).unwrap().split('<').next().unwrap();
    let words = words.replace("&lt;", "<").replace("&gt;", ">").replace("&#39;", "'");
    let words = words.replace("&quot;", "\"").replace("&amp;", "&");
    let (x, y, size) = (value(line, "x"), value(line, "y"), value(line, "font-size"));
    let width = text::width(&words, size, line.contains("font-weight"));
    let left = match attribute(line, "text-anchor").unwrap() {
        "start" => x,
        "middle" => x - width / 2.0,
        _ => x - width,
    };
    let (ascent, descent) = (size * text::ASCENT, size * DESCENT);
    if line.contains("rotate(-90") {
        // It runs upwards: its width is a height.
        let (top, bottom) = (y - width / 2.0, y + width / 2.0);
        return Written { words, left: x - ascent, right: x + descent, top, bottom };
    }
    Written { words, left, right: left + width, top: y - ascent, bottom: y + descent }
}

/// Every corner of a data element, in pixels.
fn corners(line: &str) -> Vec<(f64, f64)> {
    if line.starts_with("<rect") {
        let (x, y) = (value(line, "x"), value(line, "y"));
        let (width, height) = (value(line, "width"), value(line, "height"));
        assert!(width >= 0.0 && height >= 0.0, "{line}");
        return vec![(x, y), (x + width, y + height)];
    }
    if line.starts_with("<circle") {
        return vec![(value(line, "cx"), value(line, "cy"))];
    }
    let (mut points, mut x, mut y) = (Vec::new(), 0.0, 0.0);
    let d = attribute(line, "d").unwrap();
    let mut rest = d;
    while let Some(command) = rest.chars().next() {
        let end = rest[1..].find(|c: char| c.is_alphabetic()).map_or(rest.len(), |at| at + 1);
        let numbers: Vec<f64> = rest[1..end].split(' ').filter_map(|n| n.parse().ok()).collect();
        match command {
            'M' | 'L' => (x, y) = (numbers[0], numbers[1]),
            'H' => x = numbers[0],
            'V' => y = numbers[0],
            'Z' => {}
            _ => panic!("{command} in {d}"),
        }
        points.push((x, y));
        rest = &rest[end..];
    }
    points
}

/// Every fault of a figure: a text outside the canvas, two texts over each other, a text over a
/// plot, data outside its plot.
pub(crate) fn faults(svg: &str) -> Vec<String> {
    let head = svg.lines().next().unwrap();
    let (width, height) = (value(head, "width"), value(head, "height"));
    let mut faults = Vec::new();
    let mut texts: Vec<Written> = Vec::new();
    let mut plots: Vec<(f64, f64, f64, f64)> = Vec::new();
    for line in svg.lines() {
        if line.starts_with("<text") {
            texts.push(written(line));
        } else if line.contains("class=\"plot\"") {
            let points = corners(line);
            plots.push((points[0].0, points[0].1, points[1].0, points[1].1));
        } else if line.contains("class=\"data\"") {
            let (left, top, right, bottom) = *plots.last().unwrap();
            for (x, y) in corners(line) {
                let inside = (left - 0.11..=right + 0.11).contains(&x)
                    && (top - 0.11..=bottom + 0.11).contains(&y);
                if !inside {
                    faults.push(format!("({x}, {y}) outside its plot: {line:.200}"));
                }
            }
        }
    }
    for (index, one) in texts.iter().enumerate() {
        let Written { words, left, right, top, bottom } = one;
        if *left < 0.0 || *right > width || *top < 0.0 || *bottom > height {
            faults.push(format!("`{words}` outside the canvas"));
        }
        for other in &texts[..index] {
            let apart = right < &other.left
                || left > &other.right
                || bottom < &other.top
                || top > &other.bottom;
            if !apart {
                faults.push(format!("`{words}` over `{}`", other.words));
            }
        }
        for (plot_left, plot_top, plot_right, plot_bottom) in &plots {
            if right > plot_left && left < plot_right && bottom > plot_top && top < plot_bottom {
                faults.push(format!("`{words}` over a plot"));
            }
        }
    }
    faults
}

/// All texts of a figure in the order of its text.
pub(crate) fn words(svg: &str) -> Vec<String> {
    svg.lines().filter(|line| line.starts_with("<text")).map(|line| written(line).words).collect()
}

/// Asserts that a figure equals the file of this name under `tests/golden/chart`;
/// `IOSONDE_BLESS=1 cargo test` writes it anew.
#[track_caller]
pub(super) fn assert_golden(name: &str, svg: &str) {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/chart").join(name);
    if std::env::var_os("IOSONDE_BLESS").is_some() {
        std::fs::write(&path, svg).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(svg == expected, "{name} differs; now it is:\n{svg}");
}

#[test]
fn planted_faults_are_found_and_nothing_else() {
    let head = "<svg width=\"100\" height=\"100\">\n";
    let text = |x: u32, y: u32| {
        format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"start\" font-size=\"10\">word</text>\n")
    };
    let plot = "<rect class=\"plot\" x=\"50\" y=\"50\" width=\"40\" height=\"40\"/>\n";
    let path = |d: &str| format!("<path class=\"data\" d=\"{d}\"/>\n");
    let found = |body: &[String]| faults(&format!("{head}{plot}{}</svg>", body.concat())).len();
    assert_eq!(found(&[text(5, 20), text(5, 32), path("M50 50H90V90")]), 0);
    assert_eq!(found(&[text(5, 20), text(20, 24)]), 1, "two texts over each other");
    assert_eq!(found(&[text(90, 20)]), 1, "beyond the right side");
    assert_eq!(found(&[text(5, 3)]), 1, "beyond the top");
    assert_eq!(found(&[text(40, 70)]), 1, "over the plot");
    assert_eq!(found(&[path("M50 50H91V60")]), 2, "both points on the far side");
}
