//! Annotations inside a plot: labelled lines and ranges, and call-out boxes.

use super::plot::Edge;

/// A vertical line across the plot, a shaded range, or both.
#[derive(Clone, Debug, PartialEq)]
pub struct Marker {
    /// Place of the line on the x axis; `None` draws only the range.
    pub at: Option<f64>,
    /// The shaded range on the x axis.
    pub range: Option<(f64, f64)>,
    /// Words in a box at the line; empty for none.
    pub label: String,
    /// Tooltip text.
    pub hover: String,
}

impl Marker {
    /// A line without a range.
    pub fn at_x(x: f64, label: impl Into<String>) -> Marker {
        Marker { at: Some(x), range: None, label: label.into(), hover: String::new() }
    }

    /// A shaded range without a line.
    pub fn over_x(from: f64, to: f64, label: impl Into<String>) -> Marker {
        Marker { at: None, range: Some((from, to)), label: label.into(), hover: String::new() }
    }

    /// Adds a shaded range.
    pub fn between(self, low: f64, high: f64) -> Marker {
        Marker { range: Some((low, high)), ..self }
    }

    /// Every value that is drawn along the x axis.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> + use<> {
        self.at.into_iter().chain(self.range.into_iter().flat_map(|(low, high)| [low, high]))
    }
}

/// Words in a box, with a leader to a place.
#[derive(Clone, Debug, PartialEq)]
pub struct Callout {
    pub x: f64,
    pub y: f64,
    /// The y axis of `y`.
    pub edge: Edge,
    pub text: String,
}

/// States that a setting is best in some respect.
#[derive(Clone, Debug, PartialEq)]
pub struct Annotation {
    /// The respect, such as `best IOPS`.
    pub what: String,
    /// The setting, such as `8 jobs`. Annotations of equal settings are combined.
    pub setting: String,
    /// Place of the point on the x axis.
    pub x: f64,
    /// Place of the point on the y axis.
    pub y: f64,
    /// The y axis of `y`.
    pub edge: Edge,
}

/// One call-out for each setting, in the order of first mention: `best IOPS and best bandwidth: 8
/// jobs`. It points at the setting's first point.
pub fn merge_annotations(annotations: Vec<Annotation>) -> Vec<Callout> {
    let mut merged: Vec<(Annotation, Vec<String>)> = Vec::new();
    for annotation in annotations {
        let same =
            |(first, _): &&mut (Annotation, Vec<String>)| first.setting == annotation.setting;
        match merged.iter_mut().find(same) {
            Some((_, said)) if said.contains(&annotation.what) => {}
            Some((_, said)) => said.push(annotation.what),
            None => {
                let said = vec![annotation.what.clone()];
                merged.push((annotation, said));
            }
        }
    }
    let callout = |(first, said): (Annotation, Vec<String>)| Callout {
        x: first.x,
        y: first.y,
        edge: first.edge,
        text: format!("{}: {}", listed(&said), first.setting),
    };
    merged.into_iter().map(callout).collect()
}

/// `a`, `a and b`, `a, b and c`.
fn listed(words: &[String]) -> String {
    match words {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        _ => words.concat(),
    }
}
