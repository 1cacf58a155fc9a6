//! For tests: a chart of each kind needed by experiments, compared with its golden file and checked
//! for readability.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::reading::{assert_golden, faults, words};
use super::{
    Annotation, Arrangement, Axis, Band, Bar, BarSeries, Bars, Callout, Cell, ChartError, Curve,
    Edge, Figure, HeatMap, Kind, Line, Marker, Marks, Measured, Missing, Panel, Plot, Point,
    Quantity, Scale, merge_annotations, style,
};

fn scale(kind: Kind, values: impl IntoIterator<Item = f64>) -> Scale {
    Scale::fit(kind, values).unwrap()
}

fn figure(title: &str, arrangement: Arrangement, panels: Vec<Panel>) -> Figure {
    Figure {
        title: title.into(),
        subtitle: "4 KiB random reads of <nvme0n1>, 3 repeats of 30 s".into(),
        arrangement,
        panels,
        notes: vec!["Bars: 95 % interval of the mean.".into()],
    }
}

fn line(name: &str, number: usize, edge: Edge, points: Vec<Point>) -> Line {
    Line { edge, ..Line::new(name, style(number), points) }
}

/// Requests per second of a device that saturates at `top`.
fn throughput(depth: f64, top: f64) -> f64 {
    let linear = depth * 1e9 / 82e3;
    1.0 / ((1.0 / linear).powi(4) + (1.0 / top).powi(4)).powf(0.25)
}

const DEPTHS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

fn depths() -> Panel {
    let iops = |depth: f64| throughput(depth, 95e3);
    let points = |scale: f64| -> Vec<Point> {
        let point = |depth: f64| {
            let value = iops(depth) * scale;
            let point = Point::new(depth, value)
                .between(value * 0.94, value * 1.05)
                .hover(format!("depth {depth}: {value:.0}"));
            match depth as u32 {
                2 => Point { y: Measured::LowConfidence(value), ..point },
                64 => Point { y: Measured::Failed, y_range: None, ..point }
                    .hover("depth 64: the device was reset"),
                _ => point,
            }
        };
        DEPTHS.into_iter().map(point).collect()
    };
    let latency = |depth: f64| {
        let ns = depth * 1e9 / iops(depth);
        Point::new(depth, ns).between(ns * 0.9, ns * 1.2)
    };
    let best = |what: &str, x: f64, y, edge| Annotation {
        what: what.into(),
        setting: format!("depth {x}"),
        x,
        y,
        edge,
    };
    let plot = Plot {
        lines: vec![
            line("IOPS", 0, Edge::Left, points(1.0)),
            line("mean latency", 1, Edge::Right, DEPTHS.into_iter().map(latency).collect()),
        ],
        markers: vec![Marker::at_x(7.8, "knee 8").between(6.3, 9.9)],
        callouts: merge_annotations(vec![
            best("best IOPS", 256.0, iops(256.0), Edge::Left),
            best("best bandwidth", 256.0, iops(256.0), Edge::Left),
            best("best latency", 1.0, 82e3, Edge::Right),
        ]),
        ..Plot::default()
    };
    let y = scale(Kind::Linear, plot.ys(Edge::Left).into_iter().chain([0.0]));
    let right = scale(Kind::Log10, plot.ys(Edge::Right));
    let x = scale(Kind::Log2, plot.xs());
    Panel {
        title: String::new(),
        x: Axis::new("requests in flight", Quantity::Count, x),
        y: Axis::new("IOPS", Quantity::Count, y),
        marks: Marks::Plot(Plot {
            right: Some(Axis::new("latency (log)", Quantity::Latency, right)),
            ..plot
        }),
        height: 300.0,
    }
}

fn trade_off() -> Panel {
    let points = |top: f64| -> Vec<Point> {
        let point = |depth: f64| {
            let iops = throughput(depth, top);
            let ns = depth * 1e9 / iops;
            Point {
                x_range: Some((ns * 0.96, ns * 1.06)),
                label: format!("{depth}"),
                ..Point::new(ns, iops).between(iops * 0.96, iops * 1.03)
            }
        };
        DEPTHS[..7].iter().copied().map(point).collect()
    };
    let knee = points(95e3)[3].clone();
    let plot = Plot {
        lines: vec![
            line("random read", 0, Edge::Left, points(95e3)),
            line("random write", 1, Edge::Left, points(52e3)),
        ],
        markers: vec![Marker::at_x(1e6, "target 1 ms")],
        callouts: vec![Callout {
            x: knee.x,
            y: knee.y.number().unwrap(),
            edge: Edge::Left,
            text: "knee at 8 jobs [8, 10]: 78,000 IOPS at 102 µs".into(),
        }],
        ..Plot::default()
    };
    let y = scale(Kind::Linear, plot.ys(Edge::Left).into_iter().chain([0.0]));
    let x = scale(Kind::Log10, plot.xs());
    Panel {
        title: "Each point: a number of jobs".into(),
        x: Axis::new("mean latency (log)", Quantity::Latency, x),
        y: Axis::new("IOPS", Quantity::Count, y),
        marks: Marks::Plot(plot),
        height: 300.0,
    }
}

fn block_sizes() -> Panel {
    let sizes: Vec<f64> = (2..=8).map(|power| 1024.0 * 2f64.powi(power)).collect();
    let iops = |size: f64| 1e9 / (80e3 + size * 1.1);
    let points = |of: &dyn Fn(f64) -> f64| -> Vec<Point> {
        sizes
            .iter()
            .map(|size| {
                let y = of(*size);
                Point::new(*size, y).between(y * 0.93, y * 1.08)
            })
            .collect()
    };
    let plot = Plot {
        lines: vec![
            line("IOPS", 0, Edge::Left, points(&iops)),
            line("MB/s", 1, Edge::Right, points(&|size| iops(size) * size / 1e6)),
        ],
        markers: vec![Marker::at_x(72e3, "crossover 70 KiB [61, 82]").between(62e3, 84e3)],
        ..Plot::default()
    };
    let y = scale(Kind::Linear, plot.ys(Edge::Left).into_iter().chain([0.0]));
    let right = scale(Kind::Linear, plot.ys(Edge::Right).into_iter().chain([0.0]));
    let x = scale(Kind::Log2, plot.xs());
    Panel {
        title: "Report IOPS left of the crossover, MB/s right of it".into(),
        x: Axis::new("request size", Quantity::Bytes, x),
        y: Axis::new("IOPS", Quantity::Count, y),
        marks: Marks::Plot(Plot { right: Some(Axis::new("MB/s", Quantity::Count, right)), ..plot }),
        height: 240.0,
    }
}

fn mix() -> Vec<Panel> {
    let names = || ["100W", "50/50", "70/30", "100R"].map(str::to_owned).to_vec();
    let points = |values: [f64; 4]| -> Vec<Point> {
        values
            .into_iter()
            .zip(0..)
            .map(|(y, index)| Point::new(f64::from(index) + 0.5, y).between(y * 0.9, y * 1.1))
            .collect()
    };
    let panel = |title: &str, quantity, lines: Vec<Line>| {
        let plot = Plot { lines, ..Plot::default() };
        let y = scale(Kind::Linear, plot.ys(Edge::Left).into_iter().chain([0.0]));
        Panel {
            title: title.into(),
            x: Axis::names("mix of reads and writes", names()),
            y: Axis::new(title, quantity, y),
            marks: Marks::Plot(plot),
            height: 200.0,
        }
    };
    let iops = line("IOPS", 0, Edge::Left, points([48e3, 61e3, 70e3, 93e3]));
    let latency = |name: &str, number, by: f64| {
        let values = [166e3, 131e3, 114e3, 86e3].map(|ns| ns * by);
        line(name, number, Edge::Left, points(values))
    };
    vec![
        panel("IOPS", Quantity::Count, vec![iops]),
        panel(
            "latency",
            Quantity::Latency,
            vec![latency("mean", 0, 1.0), latency("p95", 1, 1.8), latency("p99", 2, 2.6)],
        ),
    ]
}

fn baseline() -> Panel {
    let names = ["4 KiB random read", "4 KiB random write", "128 KiB read", "128 KiB write"];
    let series = |name: &str, number, by: f64| BarSeries {
        name: name.into(),
        style: style(number),
        values: [81e3, 25e3, 190e3, 160e3]
            .into_iter()
            .enumerate()
            .map(|(index, ns)| {
                let ns: f64 = ns * by;
                let bar = Bar::new(ns, format!("{name}: {ns} ns"));
                let bar = Bar { range: Some((ns * 0.92, ns * 1.1)), ..bar };
                match (index, number) {
                    (3, 2) => Some(Bar { value: Measured::Failed, ..bar }),
                    (2, 2) => Some(Bar { value: Measured::LowConfidence(ns), ..bar }),
                    _ => Some(bar),
                }
            })
            .collect(),
    };
    let bars = Bars {
        series: vec![series("mean", 0, 1.0), series("p95", 1, 1.6), series("p99", 2, 2.4)],
        labelled: true,
        stacked: false,
    };
    let y = scale(Kind::Linear, bars.values().into_iter().chain([0.0]));
    Panel {
        title: String::new(),
        x: Axis::names("", names.map(str::to_owned).to_vec()),
        y: Axis::new("latency", Quantity::Latency, y),
        marks: Marks::Bars(bars),
        height: 260.0,
    }
}

/// Share of requests within a latency, for a device with a second, slow path.
fn below(ns: f64) -> f64 {
    let path = |middle: f64, slope: f64| 1.0 / (1.0 + (middle / ns).powf(slope));
    0.995 * path(85e3, 9.0) + 0.005 * path(1.9e6, 5.0)
}

fn tails() -> Vec<Panel> {
    let grid: Vec<f64> = (0..=120).map(|step| 40e3 * 10f64.powf(f64::from(step) / 40.0)).collect();
    let curve = |name: &str, number: usize, slow: f64, above: bool| {
        let share = |ns: &f64| {
            let q = below(ns / slow).min(0.99999);
            (*ns, if above { 1.0 - q } else { q })
        };
        Curve::new(name, style(number), vec![grid.iter().map(share).collect()])
    };
    let curves = |above| vec![curve("4 jobs", 0, 1.0, above), curve("8 jobs", 1, 1.4, above)];
    let panel = |title: &str, kind, y_title: &str, above: bool| {
        let mut plot = Plot { curves: curves(above), ..Plot::default() };
        if !above {
            plot.callouts.push(Callout {
                x: 1.9e6,
                y: below(1.9e6),
                edge: Edge::Left,
                text: "0.5 % of the requests wait for the second path".into(),
            });
        }
        let x = scale(Kind::Log10, plot.xs());
        let y = scale(kind, plot.ys(Edge::Left));
        Panel {
            title: title.into(),
            x: Axis::new("latency (log)", Quantity::Latency, x),
            y: Axis::new(y_title, Quantity::Share, y),
            marks: Marks::Plot(plot),
            height: 220.0,
        }
    };
    vec![
        panel("Most", Kind::Nines, "requests at or below", false),
        panel("The slow ones", Kind::Log10, "requests above", true),
    ]
}

fn surface() -> Panel {
    let names = |all: &[&str]| all.iter().map(|name| (*name).into()).collect();
    let (mut cells, mut missing) = (Vec::new(), Vec::new());
    for column in 0..7u32 {
        for row in 0..5u32 {
            let (x, y) = (f64::from(column), f64::from(row));
            let (x, y) = ((x, x + 1.0), (y, y + 1.0));
            let hover = format!("{column}, {row}");
            match (column, row) {
                (6, 4) | (5, 4) => {
                    missing.push(Missing { x, y, word: "not reached".into(), hover });
                }
                (2, 1) => missing.push(Missing { x, y, word: "failed".into(), hover }),
                _ => {
                    let size = 4096.0 * 2f64.powi(column as i32);
                    let value = throughput(4f64.powi(row as i32), 95e3 * 4096.0 / size + 4e3);
                    cells.push(Cell { x, y, value, hover });
                }
            }
        }
    }
    let scale = scale(Kind::Log10, cells.iter().map(|cell| cell.value));
    Panel {
        title: String::new(),
        x: Axis::names(
            "request size",
            names(&["4 KiB", "8 KiB", "16 KiB", "32 KiB", "64 KiB", "128 KiB", "256 KiB"]),
        ),
        y: Axis::names("requests in flight", names(&["1", "4", "16", "64", "256"])),
        marks: Marks::Heat(HeatMap {
            title: "IOPS (log)".into(),
            quantity: Quantity::Count,
            scale,
            cells,
            missing,
            numbered: true,
        }),
        height: 220.0,
    }
}

fn over_time() -> Panel {
    let seconds = || (0..240).map(f64::from);
    let level = |s: f64, by: f64| {
        let regime = if s < 80.0 {
            90e3
        } else if s < 170.0 {
            240e3
        } else {
            130e3
        };
        (s * 1e9, regime * by * (1.0 + 0.06 * (s * 1.7).sin() + 0.04 * (s * 0.61).cos()))
    };
    let percentile = |name: &str, number, by: f64| Line {
        points: seconds().map(|s| level(s, by)).map(|(x, y)| Point::new(x, y)).collect(),
        dotted: false,
        ..line(name, number, Edge::Left, Vec::new())
    };
    let band = seconds().map(|s| (s * 1e9, level(s, 0.7).1, level(s, 1.4).1)).collect();
    let plot = Plot {
        bands: vec![Band {
            name: "p25 to p75".into(),
            style: style(0),
            parts: vec![band],
            hover: "p25 to p75".into(),
        }],
        lines: vec![
            percentile("p50", 0, 1.0),
            percentile("p95", 1, 2.2),
            percentile("p99", 2, 3.9),
            percentile("max", 6, 11.0),
        ],
        markers: vec![
            Marker::over_x(0.0, 80e9, "cache: 90 µs"),
            Marker::over_x(80e9, 170e9, "cache full: 240 µs"),
            Marker::at_x(170e9, "idle ends"),
        ],
        ..Plot::default()
    };
    let x = scale(Kind::Time, plot.xs());
    let y = scale(Kind::Log10, plot.ys(Edge::Left));
    Panel {
        title: String::new(),
        x: Axis::new("time since the start", Quantity::Time, x),
        y: Axis::new("latency (log)", Quantity::Latency, y),
        marks: Marks::Plot(plot),
        height: 280.0,
    }
}

fn all() -> Vec<(&'static str, Figure)> {
    use Arrangement::{SideBySide, Stacked};
    vec![
        ("depths", figure("How throughput grows with depth", Stacked, vec![depths()])),
        ("trade-off", figure("Throughput against latency", Stacked, vec![trade_off()])),
        ("block-size", figure("Size of the requests", Stacked, vec![block_sizes()])),
        ("mix", figure("Reads and writes together", SideBySide, mix())),
        ("baseline", figure("One request at a time", Stacked, vec![baseline()])),
        ("tails", figure("The distribution of latencies", SideBySide, tails())),
        ("surface", figure("Depth and size", Stacked, vec![surface()])),
        ("over-time", figure("Latency over time", Stacked, vec![over_time()])),
    ]
}

#[test]
fn each_picture_of_an_experiment_is_as_it_was_and_can_be_read() {
    for (name, figure) in all() {
        let svg = figure.svg().unwrap();
        if let Some(folder) = std::env::var_os("IOSONDE_PICTURES") {
            let file =
                |ending: &str| std::path::Path::new(&folder).join(format!("{name}.{ending}"));
            std::fs::write(file("svg"), &svg).unwrap();
            #[cfg(feature = "png")]
            std::fs::write(file("png"), super::png(&svg, 1.5).unwrap()).unwrap();
        }
        assert_eq!(faults(&svg), Vec::<String>::new(), "{name}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}: not a number");
        assert_golden(&format!("{name}.svg"), &svg);
    }
}

#[test]
fn what_is_best_at_one_setting_is_reported_once() {
    // Known optima: most requests and bytes at 8 jobs, the shortest latency at one.
    let rows = [(1.0, 12e3, 48.0, 83e3), (4.0, 40e3, 160.0, 99e3), (8.0, 61e3, 244.0, 131e3)];
    let best = |what: &str, of: fn(&(f64, f64, f64, f64)) -> f64| {
        let row = rows.iter().max_by(|a, b| of(a).total_cmp(&of(b))).unwrap();
        let setting = if row.0 == 1.0 { "1 job".into() } else { format!("{} jobs", row.0) };
        Annotation { what: what.into(), setting, x: row.0, y: row.1, edge: Edge::Left }
    };
    let found = merge_annotations(vec![
        best("best IOPS", |row| row.1),
        best("best latency", |row| -row.3),
        best("best bandwidth", |row| row.2),
        best("best IOPS", |row| row.1),
    ]);
    let texts: Vec<&str> = found.iter().map(|callout| callout.text.as_str()).collect();
    assert_eq!(texts, ["best IOPS and best bandwidth: 8 jobs", "best latency: 1 job"]);
    assert_eq!((found[0].x, found[0].y), (8.0, 61e3));
    let three = merge_annotations(
        ["a", "b", "c"]
            .map(|what| Annotation { what: what.into(), ..best("", |row| row.1) })
            .into(),
    );
    assert_eq!(three[0].text, "a, b and c: 8 jobs");
    assert_eq!(merge_annotations(Vec::new()), []);
}

#[test]
fn a_failed_point_is_reported_and_no_line_touches_it() {
    let svg = figure("", Arrangement::Stacked, vec![depths()]).svg().unwrap();
    let formatted = words(&svg);
    assert!(formatted.contains(&"failed or invalid: not used".into()), "{formatted:?}");
    assert!(formatted.contains(&"low confidence".into()));
    let lines: Vec<&str> = svg
        .lines()
        .filter(|line| line.starts_with("<path class=\"data\"") && line.contains("data-s=\"IOPS\""))
        .collect();
    assert_eq!(lines.len(), 1);
    // Six points, the gap of the failed one, two more points.
    assert_eq!((lines[0].matches('M').count(), lines[0].matches('L').count()), (2, 6));
    // The failed point has no value for programs.
    let marks = svg.lines().filter(|line| line.contains("data point"));
    assert_eq!(marks.filter(|line| !line.contains("data-y")).count(), 1);
}

#[test]
fn points_carry_their_numbers() {
    let svg = figure("", Arrangement::Stacked, vec![trade_off()]).svg().unwrap();
    let points = svg.lines().filter(|line| line.contains("class=\"data point\"")).count();
    assert_eq!(points, 14);
    assert!(svg.contains("data-s=\"random write\""));
    assert!(svg.contains("data-x=\"log "), "the scale of the x axis");
}

#[test]
fn what_has_no_axis_is_an_error() {
    let mut panel = depths();
    let Marks::Plot(plot) = &mut panel.marks else { panic!("no plot") };
    plot.right = None;
    let error = figure("", Arrangement::Stacked, vec![panel]).svg().unwrap_err();
    assert_eq!(error, ChartError::NoRightAxis { what: "mean latency".into() });
}

#[test]
fn crowds_of_words_keep_apart_or_are_left_out() {
    let mut panel = trade_off();
    panel.height = 120.0;
    let Marks::Plot(plot) = &mut panel.marks else { panic!("no plot") };
    for point in plot.lines.iter_mut().flat_map(|line| &mut line.points) {
        point.label = format!("{} jobs at once", point.label);
    }
    let svg = figure("", Arrangement::SideBySide, vec![panel.clone(), panel]).svg().unwrap();
    assert_eq!(faults(&svg), Vec::<String>::new());
}
