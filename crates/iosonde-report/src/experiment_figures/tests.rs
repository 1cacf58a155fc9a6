//! Tests of the pictures of stages.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::testing::{
    cliff, depths, experiment, mixture, qd1_baseline, settling, sizes, spoilt, stage, surface,
};
use super::*;
use crate::chart::reading::{faults, words};
use crate::chart::{Edge, Marks, Measured, Panel, Plot};
use crate::golden::assert_golden;
use iosonde_analysis::experiment::Standing;
use iosonde_fixtures::Load;
use iosonde_model::spec::Direction;
use iosonde_stats::{Histogram, Quantile};

/// A figure as requested in an experiment file.
fn requested(kind: &str, more: &str) -> String {
    format!("[[stage.figure]]\nkind = \"{kind}\"\n{more}\n")
}

/// A picture of each kind.
fn all() -> Vec<Picture> {
    let sweep = [
        requested("line", ""),
        requested("line", "metrics = [\"mean\", \"p95\", \"p99\"]"),
        requested("trade-off", ""),
        requested("cdf", ""),
        requested("ccdf", ""),
        requested("histogram", ""),
    ];
    let facts = [
        qd1_baseline(&requested("bars", "")),
        depths(&sweep.concat()),
        sizes(&[requested("dual-axis", ""), requested("line", "metrics = [\"bw\"]")].concat()),
        mixture(&requested("mix", "")),
        surface(&requested("heat", "series = \"block-size\"\nmetrics = [\"bw\", \"mean\"]")),
        surface(&requested("bars-3d", "metrics = [\"iops\", \"mean\"]")),
        cliff(&requested("time-series", "metrics = [\"bw\"]")),
        settling(""),
        settling(&requested("rounds", "metrics = [\"iops\", \"max\"]")),
        settling(&requested("saturation", "cell = { read-percent = 0 }")),
    ];
    facts.iter().flat_map(|facts| pictures_of(facts, "invented · /data/file").unwrap()).collect()
}

/// Writes a picture into the folder `IOSONDE_PICTURES`, if set, for inspection.
fn looked_at(name: &str, svg: &str) {
    if let Some(folder) = std::env::var_os("IOSONDE_PICTURES") {
        std::fs::write(std::path::Path::new(&folder).join(format!("{name}.svg")), svg).unwrap();
    }
}

#[test]
fn every_kind_is_as_it_was_and_can_be_read() {
    let pictures = all();
    let kinds = FIGURES.iter().map(|(kind, _)| *kind);
    for kind in kinds {
        assert!(pictures.iter().any(|picture| picture.name.ends_with(kind)), "{kind}");
    }
    for picture in &pictures {
        let svg = picture.figure.svg().unwrap();
        looked_at(&picture.name, &svg);
        assert_golden(&format!("figures/{}.svg", picture.name), &svg);
    }
    for picture in &pictures {
        let svg = picture.figure.svg().unwrap();
        assert_eq!(faults(&svg), Vec::<String>::new(), "{}", picture.name);
    }
}

/// The plots of the only picture of a stage.
fn plots(facts: &StageFacts) -> Vec<Plot> {
    let mut pictures = pictures_of(facts, "").unwrap();
    assert_eq!(pictures.len(), 1);
    let panels = pictures.remove(0).figure.panels;
    let plot = |panel: Panel| match panel.marks {
        Marks::Plot(plot) => Some(plot),
        _ => None,
    };
    panels.into_iter().filter_map(plot).collect()
}

fn said(plot: &Plot) -> Vec<&str> {
    plot.callouts.iter().map(|callout| callout.text.as_str()).collect()
}

/// Four job counts: the second has the most IOPS, the third the highest bandwidth and the first the
/// lowest latency.
fn contest(figures: &str) -> StageFacts {
    let text = format!(
        "name = \"contest\"\nrepeats = 3\n[[stage.axis]]\nname = \"numjobs\"\n\
         values = [1, 2, 4, 8]\n{figures}"
    );
    stage(&text, |cell, _| {
        let place = cell.index;
        let (iops, block_bytes) = [(9e3, 4096), (30e3, 4096), (6e3, 65_536), (20e3, 4096)][place];
        let depth = [1, 8, 4, 32][place];
        Some(Load { depth, block_bytes, iops, ..Load::default() })
    })
}

#[test]
fn each_best_is_of_its_own_measure() {
    let all = ["best IOPS: jobs 2", "best bandwidth: jobs 4", "lowest mean latency: jobs 1"];
    assert_eq!(said(&plots(&contest(&requested("trade-off", "")))[0]), all);
    let line = requested("line", "metrics = [\"iops\", \"bw\", \"mean\"]");
    let panels = plots(&contest(&line));
    let said: Vec<Vec<&str>> = panels.iter().map(said).collect();
    assert_eq!(said, [[all[0]], [all[1]], [all[2]]]);
    // Each call-out points at the value in its own panel.
    for plot in panels {
        let callout = &plot.callouts[0];
        let own = plot.lines[0].points.iter().find(|point| point.x == callout.x).unwrap();
        assert_eq!(own.y.number(), Some(callout.y));
    }
}

#[test]
fn ties_have_no_best() {
    let facts = depths(&requested("trade-off", ""));
    let plot = &plots(&facts)[0];
    assert_eq!(said(plot)[0], "knee: iodepth 8");
    let line = plots(&depths(&requested("line", "metrics = [\"iops\"]")));
    assert!(line[0].callouts.is_empty(), "the depths beyond the knee are ties");
}

#[test]
fn a_failed_point_is_marked_and_never_best() {
    let best = contest(&requested("line", "metrics = [\"iops\"]"));
    let failed = spoilt(best.clone(), 1, &Standing::Failed("it failed: EIO".into()));
    let plot = &plots(&failed)[0];
    let points = &plot.lines[0].points;
    assert_eq!(points[1].y, Measured::Failed);
    assert!(points[1].hover.contains("EIO"), "{}", points[1].hover);
    let expected = ["best IOPS: jobs 8", "best bandwidth: jobs 4", "lowest mean latency: jobs 1"];
    assert_eq!(said(plot), expected);
    let notes = &pictures_of(&failed, "").unwrap()[0].figure.notes;
    assert!(notes.iter().any(|note| note.contains("jobs 2 (it failed: EIO)")), "{notes:?}");
    let unsure = spoilt(best, 1, &Standing::LowConfidence("hot".into()));
    let plot = &plots(&unsure)[0];
    assert!(matches!(plot.lines[0].points[1].y, Measured::LowConfidence(_)));
    assert_eq!(
        said(plot),
        ["best bandwidth: jobs 4", "lowest mean latency: jobs 1"],
        "the low one may be the best"
    );
}

#[test]
fn what_was_not_carried_out_is_no_failure() {
    let facts = depths(&requested("line", ""));
    let plot = &plots(&facts)[0];
    assert!(plot.lines[0].points.iter().all(|point| point.x < 256.0));
    let notes = &pictures_of(&facts, "").unwrap()[0].figure.notes;
    let words = "Not carried out and not drawn: iodepth 256 (two levels in a row were worse).";
    assert!(notes.iter().any(|note| note == words), "{notes:?}");
}

#[test]
fn error_bars_are_what_the_note_says() {
    let of = |repeats: u32| {
        let text = format!(
            "name = \"s\"\nrepeats = {repeats}\n[[stage.axis]]\nname = \"numjobs\"\n\
             values = [1, 2]\n{}",
            requested("line", "metrics = [\"iops\"]")
        );
        stage(&text, |_, _| Some(Load::default()))
    };
    for (repeats, words) in
        [(1, "no error bars"), (3, "smallest to the largest"), (5, "95 % interval")]
    {
        let facts = of(repeats);
        let spread = facts.points[0].spread(Measure::Iops, Direction::Total).unwrap();
        let expected = match repeats {
            1 => None,
            3 => {
                let mut values = spread.values.clone();
                values.sort_by(f64::total_cmp);
                Some((values[0], values[2]))
            }
            _ => spread.interval,
        };
        assert_eq!(plots(&facts)[0].lines[0].points[0].y_range, expected);
        let note = &pictures_of(&facts, "").unwrap()[0].figure.notes[0];
        assert!(note.contains(words), "{note}");
    }
}

#[test]
fn a_distribution_is_that_of_merged_histograms() {
    let facts = depths(&requested("cdf", ""));
    let mut merged = Histogram::new();
    facts.of_cell(0).iter().for_each(|trial| merged.merge(&trial.latency));
    let figure = pictures_of(&facts, "").unwrap().remove(0).figure;
    let Marks::Plot(Plot { curves, .. }) = &figure.panels[0].marks else { panic!("no curves") };
    let own = curves.iter().find(|curve| curve.name == "iodepth 1").unwrap();
    for (place, q) in [(0, 0.5), (2, 0.99)] {
        let value = Quantile::of(&merged, q).value_ns().unwrap() as f64;
        assert_eq!((own.dots[place].0, own.dots[place].1), (value, q));
    }
    let counted = |share: f64| (share * merged.count() as f64).round();
    for (x, share) in &own.parts[0][1..own.parts[0].len() - 1] {
        let above = merged.count() - merged.count_above(*x as u64);
        assert_eq!(counted(*share), above as f64);
    }
    // Seven settings, each with a thin curve per run; the failed one has none.
    assert_eq!(curves.iter().filter(|curve| curve.rough).count(), 7 * 3);
}

#[test]
fn a_crossover_stands_at_its_size_with_its_interval() {
    let plots = plots(&sizes(&requested("dual-axis", "")));
    let [sequential, random, latency] = plots.as_slice() else { panic!("{}", plots.len()) };
    assert_eq!(sequential.markers[0].at, Some(20_000.0));
    assert_eq!(sequential.markers[0].range, Some((17_000.0, 24_000.0)));
    assert_eq!(random.markers[0].at, Some(50_000.0));
    let edges = |plot: &Plot| plot.lines.iter().map(|line| line.edge).collect::<Vec<Edge>>();
    assert_eq!(edges(sequential), [Edge::Left, Edge::Right]);
    assert_eq!(latency.lines.len(), 2);
    // IOPS of 4 KiB convert to MB/s.
    let (iops, mb) = (&sequential.lines[0].points[0], &sequential.lines[1].points[0]);
    let ratio = mb.y.number().unwrap() * 1e6 / iops.y.number().unwrap();
    assert!((ratio - 4096.0).abs() < 1e-6, "{ratio}");
}

#[test]
fn a_mixture_goes_from_writes_alone_to_reads_alone() {
    let facts = mixture(&requested("mix", ""));
    let svg = pictures_of(&facts, "").unwrap()[0].figure.svg().unwrap();
    let names = ["100W", "75W/25R", "50W/50R", "30W/70R", "100R"];
    let words = words(&svg);
    let shown = words.iter().filter(|word| names.contains(&word.as_str()));
    assert_eq!(shown.take(5).collect::<Vec<_>>(), names);
    let plot = &plots(&facts)[0];
    assert_eq!(said(plot), ["best IOPS and best bandwidth: 100R"]);
    let lines: Vec<(&str, usize)> =
        plot.lines.iter().map(|line| (line.name.as_str(), line.points.len())).collect();
    assert_eq!(lines, [("all", 5), ("reads", 4), ("writes", 4)]);
}

#[test]
fn a_stage_of_little_still_gives_pictures_that_can_be_read() {
    let figures: String = FIGURES.iter().map(|(kind, _)| requested(kind, "")).collect();
    let one = format!("name = \"one\"\nrepeats = 1\n{figures}");
    let two = format!(
        "name = \"two\"\nrepeats = 2\n[[stage.axis]]\nname = \"rw\"\n\
         values = [\"read\", \"write\"]\n{figures}"
    );
    for text in [&one, &two] {
        let facts = stage(text, |_, _| Some(Load::default()));
        for picture in pictures_of(&facts, "").unwrap() {
            let svg = picture.figure.svg().unwrap();
            assert_eq!(faults(&svg), Vec::<String>::new(), "{}", picture.name);
        }
        let failed = spoilt(facts, 0, &Standing::Failed("it failed: EIO".into()));
        for picture in pictures_of(&failed, "").unwrap() {
            let svg = picture.figure.svg().unwrap();
            assert_eq!(faults(&svg), Vec::<String>::new(), "{}", picture.name);
        }
        assert_eq!(pictures_of(&stage(text, |_, _| None), "").unwrap(), []);
    }
}

#[test]
fn many_settings_and_runs_can_still_be_read() {
    let figures: String = FIGURES.iter().map(|(kind, _)| requested(kind, "")).collect();
    let text = format!(
        "name = \"many\"\nrepeats = 3\n[[stage.axis]]\nname = \"gap\"\nvalues = [0, \"4k\", \
         \"64k\", \"1m\", \"64m\"]\n[[stage.axis]]\nname = \"block-size\"\n\
         values = [\"128k\", \"256k\", \"1m\"]\n[[stage.axis]]\nname = \"direction\"\n\
         cases = [{{ name = \"read <&> a name that goes on for quite a while, and then some\", \
         rw = \"read\" }}, {{ name = \"write\", rw = \"write\" }}, {{ name = \"both\", \
         rw = \"rw\" }}]\n{figures}"
    );
    let facts = stage(&text, |cell, _| {
        Some(Load { iops: 1e3 * (cell.index + 1) as f64, ..Load::default() })
    });
    for picture in pictures_of(&facts, "<invented> & \"so\"").unwrap() {
        let svg = picture.figure.svg().unwrap();
        looked_at(&picture.name, &svg);
        assert_eq!(faults(&svg), Vec::<String>::new(), "{}", picture.name);
    }
}

#[test]
fn what_cannot_be_shown_is_listed_with_what_can() {
    let wrong = "name = \"s\"\n[[stage.axis]]\nname = \"iodepth\"\nvalues = [1, 2]\n\
                 [[stage.figure]]\nkind = \"tradeoff\"\n\
                 [[stage.figure]]\nkind = \"line\"\nx = \"depth\"\nmetrics = [\"p98\"]\n";
    let experiment = experiment(wrong);
    let formatted = invalid_figures(&experiment);
    assert_eq!(formatted.len(), 3, "{formatted:?}");
    assert!(formatted[0].contains("did you mean `trade-off`?"), "{formatted:?}");
    assert!(
        formatted[1].contains("x is `depth`") && formatted[2].contains("`p98`"),
        "{formatted:?}"
    );
}

#[test]
fn pictures_of_one_kind_have_names_of_their_own() {
    let names: Vec<String> = all().into_iter().map(|picture| picture.name).collect();
    assert!(names.contains(&"queue-depth-line".into()), "{names:?}");
    assert!(names.contains(&"queue-depth-line-2".into()), "{names:?}");
}
