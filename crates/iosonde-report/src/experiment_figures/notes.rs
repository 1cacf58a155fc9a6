//! Texts of a picture: title, measurements, error bars, omissions.

use super::view::{ErrorBars, View, is_executed};
use crate::wording;
use iosonde_analysis::experiment::{Point, Standing};
use iosonde_model::units::count;

/// Most settings that a note lists; beyond that it gives their number.
const LISTED: usize = 3;

/// Title of the picture.
pub(super) fn title(view: &View, what: &str) -> String {
    match view.requested.title.as_str() {
        "" => format!("{}: {what}", capital(view.facts.stage.heading())),
        title => title.into(),
    }
}

/// Number of runs per point and their length.
pub(super) fn subtitle(view: &View) -> String {
    let runs = view.points().map(|point| point.runs.len()).filter(|runs| *runs > 0);
    let (least, most) = runs.fold((usize::MAX, 0), |(a, b), n| (a.min(n), b.max(n)));
    let runs = match (least, most) {
        (_, 0) => "no run".into(),
        (1, 1) => "n = 1 run".into(),
        (least, most) if least == most => format!("n = {most} runs"),
        (least, most) => format!("n = {least} to {most} runs"),
    };
    let seconds = count::setting(view.facts.stage.seconds);
    format!("{runs} of {seconds} s for each setting")
}

/// Meaning of the error bars.
pub(super) fn of_bars(view: &View) -> String {
    match view.bars {
        ErrorBars::Interval => "Points are means over the runs; error bars: 95 % interval, by \
                                Student's t on logarithms."
            .into(),
        ErrorBars::Range => "Points are means over the runs; error bars: from the smallest to \
                             the largest run (too few for an interval)."
            .into(),
        ErrorBars::None => "One run for each setting: how much it varies is not known, so there \
                            are no error bars."
            .into(),
    }
}

/// Appearance of settings that failed or have low confidence.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Looks {
    /// Hollow for low confidence, a cross if failed.
    Marked,
    /// Hollow for low confidence; failed settings are not drawn.
    Hollow,
    /// Like all others, if they are drawn.
    Alike,
}

/// Notes on settings with low confidence, failed settings and settings that were not run.
pub(super) fn of_standing(view: &View, looks: Looks) -> Vec<String> {
    let mut notes = Vec::new();
    let hollow_points = view.points().filter(|p| p.is_usable()).filter_map(|p| match &p.standing {
        Standing::LowConfidence(why) => Some((p, why.as_str())),
        _ => None,
    });
    let hollow = if looks == Looks::Alike { "Low confidence" } else { "Hollow: low confidence" };
    notes.extend(listed(view, hollow, hollow_points.collect()));
    let failed = view.points().filter(|p| !p.is_usable() && is_executed(p));
    let failed = failed.filter_map(|p| match &p.standing {
        Standing::Failed(why) => Some((p, why.as_str())),
        _ => None,
    });
    let crossed = match looks {
        Looks::Marked => "Crossed: not used and joined by no line",
        Looks::Hollow | Looks::Alike => "Failed or invalid and not drawn",
    };
    notes.extend(listed(view, crossed, failed.collect()));
    let why = |point: &Point| {
        let left_out = &view.facts.laid_out.left_out;
        let why = left_out.iter().find(|(cell, _)| *cell == point.cell);
        why.map_or(view.facts.laid_out.ended_early.as_str(), |(_, why)| why.as_str())
    };
    let missing = view.points().filter(|point| !is_executed(point));
    let missing = missing.map(|point| (point, why(point)));
    notes.extend(listed(view, "Not carried out and not drawn", missing.collect()));
    notes
}

fn listed(view: &View, what: &str, points: Vec<(&Point, &str)>) -> Option<String> {
    let (first, rest) = points.split_at(points.len().min(LISTED));
    let formatted = |(point, why): &(&Point, &str)| {
        let setting = view.setting(point);
        if why.is_empty() { setting } else { format!("{setting} ({why})") }
    };
    let formatted: Vec<String> = first.iter().map(formatted).collect();
    let more = if rest.is_empty() { String::new() } else { format!("; and {} more", rest.len()) };
    (!formatted.is_empty()).then(|| format!("{what}: {}{more}.", formatted.join("; ")))
}

/// Capitalises the first letter.
pub(super) fn capital(text: &str) -> String {
    // `p99` is a name, not a word.
    let is_name = text.chars().nth(1).is_some_and(|c| c.is_ascii_digit());
    if is_name { text.into() } else { wording::capital(text) }
}
