//! Parts of the time of sync calls.

use super::Drawn;
use super::pool::subject;
use crate::chart::{Axis, Bar, BarSeries, Bars, ChartError, Figure, Marks, Panel, Quantity, style};
use iosonde_analysis::profile::syncs::{KindFigures, syncs};
use iosonde_analysis::profile::{PartFigures, SyncPart};
use iosonde_model::record::ProfileRun;
use iosonde_model::units::count::{percent, thousands};
use iosonde_model::units::duration;

/// A stacked bar for each kind of call: time per call by part, and shares of the parts.
pub(super) fn sync_parts(run: &ProfileRun) -> Result<Option<Drawn>, ChartError> {
    let figures = syncs(run);
    let kinds: Vec<&KindFigures> = figures
        .kinds
        .iter()
        .filter(|kind| kind.parts.iter().any(|part| part.total_ns > 0))
        .collect();
    if kinds.is_empty() {
        return Ok(None);
    }
    let names: Vec<String> = kinds.iter().map(|kind| kind.word.into()).collect();
    let calls = kinds.iter().map(|kind| format!("{} {}", thousands(kind.calls), kind.word));
    let times = stacked(&kinds, |part| part.mean_ns);
    let shares = stacked(&kinds, |part| part.share.unwrap_or(0.0));
    let panel = |title: &str, y: Axis, bars: Bars| {
        Panel::new(title, Axis::names("call", names.clone()), y, Marks::Bars(bars), 240.0)
    };
    let of_times = Axis::from_zero("mean time", Quantity::Latency, times.values())?;
    let subtitle = format!("{} · {}", subject(run), calls.collect::<Vec<_>>().join(", "));
    let panels = vec![
        panel("Per call", of_times, times),
        panel("Shares", Axis::whole("share of the time")?, shares),
    ];
    let note = "By what was in flight: a flush, else journal or metadata, else data of the \
                program. None of these: waiting for a CPU, for locks, or for I/O of others.";
    let figure = Figure::side_by_side("Where the time of sync calls goes", subtitle, panels);
    Ok(Some(("sync-parts".into(), Figure { notes: vec![note.into()], ..figure })))
}

/// A stacked bar for each kind, the first part at the bottom.
fn stacked(kinds: &[&KindFigures], height: fn(&PartFigures) -> f64) -> Bars {
    let looks = SyncPart::ALL.into_iter().zip([1, 4, 5, 6]).enumerate();
    let series = looks.map(|(at, (part, look))| BarSeries {
        name: part.word().into(),
        style: style(look),
        values: kinds.iter().map(|kind| bar(kind, at, height)).collect(),
    });
    Bars { series: series.collect(), labelled: false, stacked: true }
}

/// One part of a bar; `None` if it has no height.
fn bar(kind: &KindFigures, at: usize, height: fn(&PartFigures) -> f64) -> Option<Bar> {
    let part = kind.parts.get(at).filter(|part| part.total_ns > 0)?;
    let low: f64 = kind.parts.iter().take(at).map(height).sum();
    let hover = format!(
        "{}, {}: {} per call, {} of the time",
        kind.word,
        part.part.word(),
        duration::latency(part.mean_ns),
        percent(part.share.unwrap_or(0.0))
    );
    Some(Bar::spanning(low, low + height(part), hover))
}
