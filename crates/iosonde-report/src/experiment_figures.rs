//! Pictures of a stage. Each kind draws points, distributions or series from the analysis, and
//! computes no figure itself.
//!
//! A picture without data is left out. A new kind needs a file and a line in [`FIGURES`].

mod bars;
mod best;
mod by_round;
mod distribution;
mod dual_axis;
mod found;
mod heat;
mod histogram;
mod lines;
mod mix;
mod notes;
mod over_time;
mod rounds;
mod sheet;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod towers;
mod trade_off;
mod view;

use crate::chart::{self, ChartError};
use crate::report::Picture;
use iosonde_analysis::experiment::{Measure, StageFacts, Study};
use iosonde_model::plan::design;
use iosonde_model::spec::Experiment;
use iosonde_model::spec::experiment::{Figure, Stage, Track};
use iosonde_model::units::count;

/// A picture; `None` if there is nothing to draw.
pub type Drawing = Result<Option<chart::Figure>, ChartError>;

/// Draws a stage as requested in the experiment file.
pub type Draw = fn(&StageFacts, &Figure) -> Drawing;

/// All kinds of pictures, by their names in experiment files.
pub const FIGURES: [(&str, Draw); 15] = [
    ("bars", bars::draw),
    ("line", lines::draw),
    ("dual-axis", dual_axis::draw),
    ("mix", mix::draw),
    ("trade-off", trade_off::draw),
    ("cdf", |facts, requested| distribution::draw(facts, requested, distribution::Side::Within)),
    ("ccdf", |facts, requested| distribution::draw(facts, requested, distribution::Side::Above)),
    ("histogram", histogram::draw),
    ("time-series", over_time::draw),
    ("heat", heat::draw),
    ("bars-3d", towers::draw),
    ("convergence", rounds::convergence),
    ("window", rounds::window),
    ("rounds", by_round::draw),
    ("saturation", by_round::saturation),
];
/// Kinds drawn for every stage in rounds, even if its file does not name them.
const OF_ROUNDS: [&str; 2] = ["convergence", "window"];

/// Description of each kind for captions, also for readers who cannot see the picture.
fn described(kind: &str) -> &'static str {
    match kind {
        "bars" => "grouped bars",
        "line" => "lines through the measured points",
        "dual-axis" => "IOPS at the left axis, MB/s at the right one, and the latency below",
        "mix" => "lines from writes alone to reads alone",
        "trade-off" => "throughput upwards, latency to the right, each point a level",
        "cdf" => "share of requests within each latency",
        "ccdf" => "share of requests above each latency",
        "histogram" => "share of requests by response time, with levels of confidence",
        "time-series" => "one curve for each run over its time",
        "heat" => "a heat map of two axes",
        "rounds" => "a line for each cell over its rounds",
        "saturation" => "lines over the bytes that were written by then",
        "bars-3d" => "bars on a floor of two axes",
        "convergence" => "each tracked figure over all rounds, the measurement window shaded",
        "window" => "each tracked figure over the measurement window, with limits and fitted line",
        _ => "a picture",
    }
}

/// Requests in the experiment file that its pictures cannot show, as sentences: unknown kinds, axes
/// and measures.
pub fn invalid_figures(experiment: &Experiment) -> Vec<String> {
    experiment.stages.iter().flat_map(faults_of).collect()
}

fn faults_of(stage: &Stage) -> Vec<String> {
    let axes: Vec<&str> = stage.axes.iter().map(|axis| axis.name.as_str()).collect();
    let kinds: Vec<&str> = FIGURES.iter().map(|(kind, _)| *kind).collect();
    let measures: Vec<&str> = Measure::all().map(Measure::word).collect();
    let refuse = |key: &str, word: &str, known: &[&str]| {
        if known.contains(&word) {
            return None;
        }
        let meant = count::did_you_mean(word, known.iter().copied());
        let known = if known.is_empty() { "nothing".into() } else { known.join(", ") };
        let stage = &stage.name;
        Some(format!("stage `{stage}`, figure: {key} is `{word}`, expected one of {known}{meant}"))
    };
    let of_figure = |figure: &Figure| {
        let mut faults = vec![refuse("kind", &figure.kind, &kinds)];
        for (key, axis) in [("x", &figure.x), ("series", &figure.series)] {
            faults.push((!axis.is_empty()).then(|| refuse(key, axis, &axes)).flatten());
        }
        faults.extend(figure.metrics.iter().map(|word| refuse("a metric", word, &measures)));
        let name = &stage.name;
        let is_of_lines = figure.direction.is_none() || figure.kind == "line";
        faults.push((!is_of_lines).then(|| {
            format!("stage `{name}`, figure: direction has an effect in `line` alone; leave it out")
        }));
        faults.push(cell_fault(stage, figure));
        faults.into_iter().flatten().collect::<Vec<String>>()
    };
    stage.figures.iter().flat_map(of_figure).collect()
}

/// The fault in the `cell` of a figure: no cell has these levels, or the kind ignores them.
fn cell_fault(stage: &Stage, figure: &Figure) -> Option<String> {
    let (name, kind) = (&stage.name, &figure.kind);
    if figure.cell.is_empty() {
        return None;
    }
    if !["rounds", "saturation"].contains(&kind.as_str()) {
        return Some(format!(
            "stage `{name}`, figure: cell has an effect in `rounds` and `saturation` alone; leave \
             it out"
        ));
    }
    // Levels to be found by an earlier stage are not known yet.
    let cells = design::cells(stage, &design::Found::new(), None).ok()?;
    let track = Track { metric: String::new(), cell: figure.cell.clone() };
    let error = design::tracked(stage, &cells, &track).err()?;
    Some(error.to_string().replace("rounds.track", "figure, cell"))
}

/// Every picture of the stage, in its order. Each subtitle contains `subject`, as given by
/// [`subject`].
///
/// # Errors
/// If the stage contains numbers that no scale can hold.
pub fn pictures_of(facts: &StageFacts, subject: &str) -> Result<Vec<Picture>, ChartError> {
    let mut pictures: Vec<Picture> = Vec::new();
    let mut figures = facts.stage.figures.clone();
    if facts.stage.rounds.is_some() {
        let missing = OF_ROUNDS.iter().filter(|kind| !figures.iter().any(|f| f.kind == **kind));
        let missing: Vec<Figure> =
            missing.map(|kind| Figure { kind: (*kind).into(), ..Figure::default() }).collect();
        figures.splice(0..0, missing);
    }
    for (place, requested) in figures.iter().enumerate() {
        let draw = FIGURES.iter().find(|(kind, _)| *kind == requested.kind);
        let Some((_, draw)) = draw else { continue };
        let Some(mut figure) = draw(facts, requested)? else { continue };
        if !subject.is_empty() {
            figure.subtitle = format!("{subject} · {}", figure.subtitle);
        }
        let earlier = &figures[..place];
        let number = earlier.iter().filter(|other| other.kind == requested.kind).count() + 1;
        let mut name = format!("{}-{}", facts.stage.name, requested.kind);
        if number > 1 {
            name = format!("{name}-{number}");
        }
        let caption = caption(&figure, &requested.kind);
        pictures.push(Picture { name, caption, figure });
    }
    Ok(pictures)
}

/// The subject of a study: device, target and engine, as far as known.
pub fn subject(study: &Study) -> String {
    let device = study.target.as_ref().and_then(|target| target.device.as_ref());
    let model = device.and_then(|device| device.model.as_deref()).map(str::trim);
    let requested = &study.run.target;
    // A dot means nothing to someone who sees the picture elsewhere.
    let path = Some(requested.path.as_str()).filter(|path| !["", "."].contains(path));
    let parts = [model.filter(|model| !model.is_empty()), path, requested.engine.as_deref()];
    parts.into_iter().flatten().collect::<Vec<&str>>().join(" · ")
}

fn caption(figure: &chart::Figure, kind: &str) -> String {
    let panels: Vec<&str> = figure.panels.iter().map(|panel| panel.title.as_str()).collect();
    let panels: Vec<&str> = panels.into_iter().filter(|title| !title.is_empty()).collect();
    let mut said = format!("{}: {}", figure.title, described(kind));
    if !panels.is_empty() {
        said = format!("{said}; panels: {}", panels.join("; "));
    }
    let best = figure.panels.iter().flat_map(best::formatted);
    let best: Vec<String> = best.collect();
    if best.is_empty() { format!("{said}.") } else { format!("{said}. {}.", best.join("; ")) }
}
