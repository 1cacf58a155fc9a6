//! Distributions of times: cumulative, and their tails.

use super::Drawn;
use super::pool::{Flow, Pool, by_device, in_file_name, subject};
use crate::chart::{
    Axis, ChartError, Curve, Figure, Kind, Marks, Panel, Quantity, Scale, Style, style,
};
use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::SyncKind;
use iosonde_model::units::count::thousands;
use iosonde_model::units::duration;
use iosonde_stats::Histogram;
use iosonde_stats::histogram::upper_edge;
use iosonde_stats::quantile::{EARNED_FROM, Quantile};

/// Start of the time axis, ns; shorter times are counted there.
const SHORTEST_NS: u64 = 100;
/// Quantiles marked with a dot if there are enough requests for them.
const DOTS: [(f64, &str); 3] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99")];
const TAIL_DOTS: [(f64, &str); 4] =
    [(0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")];

/// A distribution with the name and the style of its curve.
pub(crate) struct Times<'a> {
    pub name: String,
    pub style: Style,
    pub histogram: &'a Histogram,
}

impl<'a> Times<'a> {
    /// Distributions with values; each has the style of its index among all.
    pub(crate) fn of_all(all: impl Iterator<Item = (String, &'a Histogram)>) -> Vec<Times<'a>> {
        let numbered = all.enumerate().filter(|(_, (_, histogram))| histogram.count() > 0);
        let times = numbered.map(|(number, (name, histogram))| Times {
            name,
            style: style(number),
            histogram,
        });
        times.collect()
    }
}

/// Latencies by device and operation, with their parts.
pub(super) fn latencies(run: &ProfileRun) -> Result<Vec<Drawn>, ChartError> {
    let mut drawn = Vec::new();
    for ((device, flow), pool) in &by_device(run) {
        let (parts, short) = parts(pool);
        if parts.is_empty() {
            continue;
        }
        let op = flow.word().0;
        let mut notes: Vec<String> = vec![match flow {
            Flow::Request(_) => {
                "A request starts when the block layer allocates it. Each curve is a distribution \
                 of its own: they do not add up from left to right."
            }
            Flow::DeviceFlush => {
                "As the block layer sends them: one may answer for several that programs asked for."
            }
        }
        .into()];
        let missing = |part: &str| {
            format!("Not drawn: {part}, always below {}.", duration::latency(SHORTEST_NS as f64))
        };
        notes.extend(short.into_iter().map(missing));
        let title = format!("Latency of {op} requests on {device}");
        let subtitle = format!("{} · {}", subject(run), pool.amount());
        let figure = body_and_tail(title, subtitle, &parts)?;
        notes.extend(figure.notes);
        let name = in_file_name(&format!("latency-{op}-{device}"));
        drawn.push((name, Figure { notes, ..figure }));
    }
    Ok(drawn)
}

/// Durations of sync calls by kind.
pub(super) fn syncs(run: &ProfileRun) -> Result<Option<Drawn>, ChartError> {
    let merged = |kind: SyncKind| {
        let mut sum = Histogram::new();
        let of_kind = run.syncs.iter().filter(|sync| sync.kind == kind);
        of_kind.for_each(|sync| sum.merge(&sync.latency));
        sum
    };
    let kinds = SyncKind::ALL.map(|kind| (kind.word(), merged(kind)));
    let times = Times::of_all(kinds.iter().map(|(name, histogram)| {
        let calls = match histogram.count() {
            1 => "1 call".into(),
            calls => format!("{} calls", thousands(calls)),
        };
        (format!("{name}, {calls}"), histogram)
    }));
    if times.is_empty() {
        return Ok(None);
    }
    let title = "Latency of the calls that make data durable";
    let figure = body_and_tail(title, subject(run), &times)?;
    Ok(Some(("latency-syncs".into(), figure)))
}

/// The latency and its parts, and the names of those too short to show.
fn parts(pool: &Pool) -> (Vec<Times<'_>>, Vec<&'static str>) {
    let parts = [
        ("whole: from start to end", 0, &pool.latency),
        ("queue: from start to issue", 2, &pool.queued),
        ("device: from issue to end", 1, &pool.device_time),
    ];
    let is_short = |histogram: &Histogram| histogram.max().is_some_and(|ns| ns < SHORTEST_NS);
    let short = parts.iter().filter(|(.., histogram)| is_short(histogram));
    let short = short.map(|(name, ..)| name.split(':').next().unwrap_or(name)).collect();
    let seen = parts.into_iter().filter(|(.., h)| h.count() > 0 && !is_short(h));
    let times = |(name, number, histogram): (&str, usize, _)| Times {
        name: name.into(),
        style: style(number),
        histogram,
    };
    (seen.map(times).collect(), short)
}

/// Note on the meaning of thin curves, if there are any.
fn thin_note(panels: &[Panel]) -> Option<String> {
    let thin = |panel: &Panel| match &panel.marks {
        Marks::Plot(plot) => plot.curves.iter().any(|curve| curve.rough),
        _ => false,
    };
    let few = EARNED_FROM.ceil();
    let note = || format!("Thin: fewer than {few} are beyond, so it rests on chance.");
    panels.iter().any(thin).then(note)
}

/// The distribution of latencies on a linear scale, and its tail on a logarithmic one. At least one
/// histogram must have values.
pub(crate) fn body_and_tail(
    title: impl Into<String>,
    subtitle: impl Into<String>,
    times: &[Times],
) -> Result<Figure, ChartError> {
    let scale = time_scale(times)?;
    let all = times.iter().map(|t| t.histogram.count()).max().unwrap_or(1).max(10);
    let from = scale.ends().0;
    let panel = |title: &str, y: Axis, curves: Vec<Curve>| {
        let x = Axis::new("latency (logarithmic)", Quantity::Latency, scale);
        Panel::new(title, x, y, Marks::curves(Vec::new(), curves), 290.0)
    };
    let body = Axis::whole("share within that time")?;
    let ends = [1.0 / all as f64, 1.0];
    let tail = Axis::fit("fraction slower (logarithmic)", Quantity::Share, Kind::Log10, ends)?;
    let panels = vec![
        panel("Distribution", body, times.iter().map(|t| cumulative(t, scale.ends())).collect()),
        panel("Tail: the slowest", tail, times.iter().flat_map(|t| exceeding(t, from)).collect()),
    ];
    let notes = thin_note(&panels).into_iter().collect();
    Ok(Figure { notes, ..Figure::side_by_side(title, subtitle, panels) })
}

/// One panel with the cumulative distribution.
pub(super) fn body(times: &[Times], title: String, what: &str) -> Result<Panel, ChartError> {
    let scale = time_scale(times)?;
    let x = Axis::new(format!("{what} (logarithmic)"), Quantity::Latency, scale);
    let y = Axis::whole("share within that time")?;
    let curves = times.iter().map(|t| cumulative(t, scale.ends())).collect();
    Ok(Panel::new(title, x, y, Marks::curves(Vec::new(), curves), 260.0))
}

/// A time scale that holds every value, those below its minimum raised to it.
fn time_scale(times: &[Times]) -> Result<Scale, ChartError> {
    let ends = times.iter().flat_map(|times| [times.histogram.min(), times.histogram.max()]);
    Scale::fit(Kind::Log10, ends.flatten().map(|ns| ns.max(SHORTEST_NS) as f64))
}

/// Curve of the share of values up to each time, over the whole scale.
fn cumulative(times: &Times, (from, to): (f64, f64)) -> Curve {
    let histogram = times.histogram;
    let count = histogram.count() as f64;
    let mut points = vec![(from, 0.0)];
    let mut seen = 0;
    for (upper, values) in steps(histogram) {
        seen += values;
        points.push((upper.max(from), seen as f64 / count));
    }
    points.push((to, 1.0));
    Curve {
        dots: dots(times, &DOTS, from, |q| q),
        hover: described(times),
        ..Curve::new(&times.name, times.style, vec![points])
    }
}

/// Curves of the share of values above each time: a bold one while enough values remain, then a
/// thin one.
fn exceeding(times: &Times, from: f64) -> Vec<Curve> {
    let histogram = times.histogram;
    let count = histogram.count() as f64;
    let (mut solid, mut rough) = (vec![(from, 1.0)], Vec::new());
    let mut left = histogram.count();
    for (upper, values) in steps(histogram) {
        left -= values;
        let point = (upper.max(from), left as f64 / count);
        if left as f64 >= EARNED_FROM {
            solid.push(point);
        } else if left > 0 {
            rough.push(point);
        }
    }
    let end = histogram.max().unwrap_or(0) as f64;
    let level = |points: &[(f64, f64)]| points.last().map_or(1.0, |(_, share)| *share);
    match rough.first() {
        Some((at, _)) => {
            let (at, share) = (*at, level(&solid));
            solid.push((at, share));
            rough.insert(0, (at, share));
            rough.push((end.max(from), level(&rough)));
        }
        None => solid.push((end.max(from), level(&solid))),
    }
    let curve = |name: &str, points| Curve {
        hover: described(times),
        ..Curve::new(name, times.style, vec![points])
    };
    let dots = dots(times, &TAIL_DOTS, from, |q| 1.0 - q);
    let mut curves = vec![Curve { dots, ..curve(&times.name, solid) }];
    if rough.len() > 1 {
        curves.push(Curve { rough: true, ..curve("", rough) });
    }
    curves
}

/// Upper edge of each bucket, at most the maximum, with its count; the overflow is last.
fn steps(histogram: &Histogram) -> impl Iterator<Item = (f64, u64)> + '_ {
    let max = histogram.max().unwrap_or(0);
    let buckets = histogram
        .occupied()
        .map(move |(index, count)| (upper_edge(index as usize).min(max) as f64, count));
    let over = (histogram.overflow() > 0).then_some((max as f64, histogram.overflow()));
    buckets.chain(over)
}

/// Dots for quantiles with enough values that are within the scale.
fn dots(
    times: &Times,
    quantiles: &[(f64, &str)],
    from: f64,
    height: impl Fn(f64) -> f64,
) -> Vec<(f64, f64, String)> {
    quantiles
        .iter()
        .filter_map(|(q, name)| {
            let value = Quantile::of(times.histogram, *q).value_ns()? as f64;
            let words = format!("{} {name}: {}", times.name, duration::latency(value));
            (value >= from).then_some((value, height(*q), words))
        })
        .collect()
}

fn described(times: &Times) -> String {
    format!("{}: {} values", times.name, thousands(times.histogram.count()))
}
