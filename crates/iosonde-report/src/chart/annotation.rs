//! Annotations inside a plot: lines across with a label, and call-out boxes.

use super::plot::Edge;

/// An upright line across the plot, a shaded range of it, or both.
#[derive(Clone, Debug, PartialEq)]
pub struct Marker {
    /// Where the line stands along the x axis; `None` is no line, only its range.
    pub at: Option<f64>,
    /// What is shaded around it.
    pub range: Option<(f64, f64)>,
    /// Words in a box on it; empty for none.
    pub label: String,
    /// Tooltip text.
    pub hover: String,
}

impl Marker {
    /// A line.
    pub fn at_x(x: f64, label: impl Into<String>) -> Marker {
        Marker { at: Some(x), range: None, label: label.into(), hover: String::new() }
    }

    /// A shaded range from left to right.
    pub fn over_x(from: f64, to: f64, label: impl Into<String>) -> Marker {
        Marker { at: None, range: Some((from, to)), label: label.into(), hover: String::new() }
    }

    /// The same with a shaded range around it.
    pub fn between(self, low: f64, high: f64) -> Marker {
        Marker { range: Some((low, high)), ..self }
    }

    /// Every value of it along the x axis.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> + use<> {
        self.at.into_iter().chain(self.range.into_iter().flat_map(|(low, high)| [low, high]))
    }
}

/// Words in a box with a line to a place.
#[derive(Clone, Debug, PartialEq)]
pub struct Callout {
    /// The place along the x axis.
    pub x: f64,
    /// The place along the y axis.
    pub y: f64,
    /// Which y axis.
    pub edge: Edge,
    /// The words.
    pub text: String,
}

/// That a setting is best at something.
#[derive(Clone, Debug, PartialEq)]
pub struct Annotation {
    /// At what: `best IOPS`.
    pub what: String,
    /// Which setting: `8 jobs`. Equal settings are combined.
    pub setting: String,
    /// Where the point is along the x axis.
    pub x: f64,
    /// Where it is along the y axis.
    pub y: f64,
    /// Which y axis.
    pub edge: Edge,
}

/// One call-out for each setting, in the order in which the settings are first named: `best IOPS
/// and best bandwidth: 8 jobs`. It points at the first of its points.
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
