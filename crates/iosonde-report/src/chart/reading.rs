//! For tests: parses a figure's SVG and finds flaws in its layout.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::text;

/// Depth of a text below its baseline, in font sizes.
const DESCENT: f64 = 0.24;

/// A text with its bounding box.
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
        // The text is rotated and runs upwards: its width is a height.
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

/// Centre of a mark.
fn middle(corners: &[(f64, f64)]) -> (f64, f64) {
    let ends = |of: fn(&(f64, f64)) -> f64| {
        let all = corners.iter().map(of);
        (all.clone().fold(f64::MAX, f64::min) + all.fold(f64::MIN, f64::max)) / 2.0
    };
    (ends(|corner| corner.0), ends(|corner| corner.1))
}

/// Every layout fault of a figure: a text outside the canvas, over another text or over a plot;
/// data outside its plot. Inside a plot: a text beyond the sides, a text or box over a mark,
/// overlapping boxes, a leader under the box of another call-out.
pub(crate) fn faults(svg: &str) -> Vec<String> {
    let head = svg.lines().next().unwrap();
    let (width, height) = (value(head, "width"), value(head, "height"));
    let mut faults = Vec::new();
    let mut texts: Vec<Written> = Vec::new();
    let mut plots: Vec<(f64, f64, f64, f64)> = Vec::new();
    let mut inner = Inner::default();
    for line in svg.lines() {
        if line.starts_with("<text") {
            texts.push(written(line));
            if line.contains("class=\"in\"") {
                inner.texts.push((texts.len() - 1, plots.len() - 1));
            }
        } else if line.contains("class=\"box\"") {
            let points = corners(line);
            inner.boxes.push((points[0].0, points[0].1, points[1].0, points[1].1));
        } else if line.contains("class=\"leader\"") {
            let points = corners(line);
            inner.leaders.push((points[0], points[1]));
        } else if line.contains("class=\"data point\"") {
            let (left, top, right, bottom) = *plots.last().unwrap();
            let (x, y) = middle(&corners(line));
            inner.marks.push((x, y));
            // The mark of a triangle is not centred on its place.
            if x < left - 1.0 || x > right + 1.0 || y < top - 1.0 || y > bottom + 1.0 {
                faults.push(format!("({x}, {y}) outside its plot: {line:.200}"));
            }
        } else if line.contains("class=\"interval\"") {
            let (left, top, right, bottom) = *plots.last().unwrap();
            for (index, (x, y)) in corners(line).into_iter().enumerate() {
                // The stem must lie within the plot; the caps may extend by their width.
                let reach = if index < 2 { 0.11 } else { 4.0 };
                if x < left - reach || x > right + reach || y < top - reach || y > bottom + reach {
                    faults.push(format!("({x}, {y}) outside its plot: {line:.200}"));
                }
            }
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
        for (number, (plot_left, plot_top, plot_right, plot_bottom)) in plots.iter().enumerate() {
            if inner.texts.contains(&(index, number)) {
                let fits = left >= plot_left
                    && right <= plot_right
                    && top >= plot_top
                    && bottom <= plot_bottom;
                if !fits {
                    faults.push(format!("`{words}` beyond its plot"));
                }
            } else if right > plot_left
                && left < plot_right
                && bottom > plot_top
                && top < plot_bottom
            {
                faults.push(format!("`{words}` over a plot"));
            }
        }
    }
    for (index, _) in &inner.texts {
        let Written { words, left, right, top, bottom } = &texts[*index];
        for (x, y) in &inner.marks {
            if (left..=right).contains(&x) && (top..=bottom).contains(&y) {
                faults.push(format!("`{words}` over a mark"));
            }
        }
    }
    faults.extend(inner.faults());
    faults
}

/// Texts, boxes, leaders and marks inside plots.
#[derive(Default)]
struct Inner {
    /// Index of a text and of its plot.
    texts: Vec<(usize, usize)>,
    boxes: Vec<(f64, f64, f64, f64)>,
    leaders: Vec<((f64, f64), (f64, f64))>,
    marks: Vec<(f64, f64)>,
}

impl Inner {
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (index, one) in self.boxes.iter().enumerate() {
            let (left, top, right, bottom) = *one;
            for other in &self.boxes[..index] {
                if left < other.2 && other.0 < right && top < other.3 && other.1 < bottom {
                    faults.push(format!("a box over another at ({left}, {top})"));
                }
            }
            for (x, y) in &self.marks {
                if (left..=right).contains(x) && (top..=bottom).contains(y) {
                    faults.push(format!("a box over the mark at ({x}, {y})"));
                }
            }
            for ((x0, y0), (x1, y1)) in &self.leaders {
                // A leader begins at the side of its own box.
                let inside = (1..20).any(|step| {
                    let share = f64::from(step) / 20.0;
                    let (x, y) = (x0 + (x1 - x0) * share, y0 + (y1 - y0) * share);
                    x > left + 0.5 && x < right - 0.5 && y > top + 0.5 && y < bottom - 0.5
                });
                if inside {
                    faults.push(format!("a leader under the box at ({left}, {top})"));
                }
            }
        }
        faults
    }
}

/// All texts of a figure, in the order of the SVG.
pub(crate) fn words(svg: &str) -> Vec<String> {
    svg.lines().filter(|line| line.starts_with("<text")).map(|line| written(line).words).collect()
}

/// Asserts that a figure equals the file of this name under `golden/chart`;
/// `IOSONDE_BLESS=1 cargo test` rewrites it.
#[track_caller]
pub(super) fn assert_golden(name: &str, svg: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/chart").join(name);
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
    let inside = |x: u32, y: u32| text(x, y).replace("<text", "<text class=\"in\"");
    let mark = |x: u32, y: u32| format!("<circle class=\"data point\" cx=\"{x}\" cy=\"{y}\"/>\n");
    let frame = |x: u32, y: u32| {
        format!("<rect class=\"box\" x=\"{x}\" y=\"{y}\" width=\"10\" height=\"9\"/>\n")
    };
    let interval = |d: &str| format!("<path class=\"interval\" d=\"{d}\"/>\n");
    let leader = "<path class=\"leader\" d=\"M52 62L80 62\"/>\n".to_owned();
    assert_eq!(found(&[inside(52, 70), mark(60, 85), frame(75, 75), frame(55, 75)]), 0);
    assert_eq!(found(&[inside(70, 70)]), 1, "a text beyond the right side of the plot");
    assert_eq!(found(&[inside(52, 70), mark(60, 66)]), 1, "a text over a mark");
    assert_eq!(found(&[frame(60, 60), frame(65, 65)]), 1, "a box over another");
    assert_eq!(found(&[frame(60, 60), mark(65, 65)]), 1, "a box over a mark");
    assert_eq!(found(&[frame(60, 60), leader]), 1, "a leader under a box");
    assert_eq!(found(&[mark(92, 60)]), 1, "a mark outside its plot");
    assert_eq!(found(&[interval("M90 60V80M87 60H93M87 80H93")]), 0, "caps may reach out");
    assert_eq!(found(&[interval("M60 45V80M57 45H63M57 80H63")]), 3, "its stem and its caps");
}
