//! An axis of a plot: a scale with ticks, or names in a row.

use super::quantity::Quantity;
use super::scale::{Kind, Scale};
use super::svg::{Type, short};
use super::{ChartError, text};

/// One side of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    title: String,
    side: Side,
    /// Requested tick values; empty for those of the scale.
    ticks: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq)]
enum Side {
    Scaled(Quantity, Scale),
    Named(Vec<String>),
}

/// Position of a tick, `0..=1`, and its label.
pub(super) type Tick = (f64, String);

/// Least pixels between the labels of neighbouring ticks, along and across the lines of text.
const GAP_ALONG: f64 = 22.0;
const GAP_ACROSS: f64 = 14.0;
/// Least pixels between names, which need not be readable at a glance.
const GAP_OF_NAMES: f64 = 7.0;
/// Most pixels for a name at the left.
const NAME_ROOM: f64 = 150.0;

impl Axis {
    /// An axis with a scale. The title names the unit unless every tick does.
    pub fn new(title: impl Into<String>, quantity: Quantity, scale: Scale) -> Axis {
        Axis { title: title.into(), side: Side::Scaled(quantity, scale), ticks: Vec::new() }
    }

    /// An axis with the smallest scale that has round ends and holds every value.
    ///
    /// # Errors
    /// Those of [`Scale::fit`].
    pub fn fit(
        title: impl Into<String>,
        quantity: Quantity,
        kind: Kind,
        values: impl IntoIterator<Item = f64>,
    ) -> Result<Axis, ChartError> {
        Ok(Axis::new(title, quantity, Scale::fit(kind, values)?))
    }

    /// An axis with a linear scale that holds zero and every value.
    ///
    /// # Errors
    /// If a value is not finite.
    pub fn from_zero(
        title: impl Into<String>,
        quantity: Quantity,
        values: impl IntoIterator<Item = f64>,
    ) -> Result<Axis, ChartError> {
        Axis::fit(title, quantity, Kind::Linear, values.into_iter().chain([0.0]))
    }

    /// An axis of shares from 0 to 1.
    ///
    /// # Errors
    /// Never.
    pub fn whole(title: impl Into<String>) -> Result<Axis, ChartError> {
        Ok(Axis::new(title, Quantity::Share, Scale::exactly(Kind::Linear, 0.0, 1.0)?))
    }

    /// The same axis with ticks at `values`, the measured ones, in ascending order. If they are too
    /// close together, only every second or third is kept.
    pub fn ticks_at(self, values: Vec<f64>) -> Axis {
        Axis { ticks: values, ..self }
    }

    /// Names in a row, the first at the left or at the bottom. Name n spans the values n to n + 1.
    pub fn names(title: impl Into<String>, names: Vec<String>) -> Axis {
        Axis { title: title.into(), side: Side::Named(names), ticks: Vec::new() }
    }

    pub(super) fn title(&self) -> &str {
        &self.title
    }

    /// Number of names; `None` for a scale.
    pub(super) fn name_count(&self) -> Option<usize> {
        match &self.side {
            Side::Named(names) => Some(names.len()),
            Side::Scaled(..) => None,
        }
    }

    /// Position of a value along the axis, `0..=1`.
    pub(super) fn place(&self, value: f64) -> Result<f64, ChartError> {
        let (from, to, place) = match &self.side {
            Side::Scaled(_, scale) => {
                let (from, to) = scale.ends();
                (from, to, scale.place(value))
            }
            Side::Named(names) => {
                let to = names.len().max(1) as f64;
                (0.0, to, (0.0..=to).contains(&value).then_some(value / to))
            }
        };
        let axis = self.title.clone();
        place.ok_or(ChartError::Outside { axis, value, from, to })
    }

    /// A value for programs: a number, or the name whose span contains it.
    pub(super) fn formatted(&self, value: f64) -> String {
        match &self.side {
            Side::Scaled(..) => short(value),
            Side::Named(names) => {
                names.get(value.max(0.0).floor() as usize).cloned().unwrap_or_default()
            }
        }
    }

    /// The scale for programs: `log 1 32`, `names 4`.
    pub(super) fn described(&self) -> String {
        match &self.side {
            Side::Scaled(_, scale) => {
                let (from, to) = scale.ends();
                format!("{} {from} {to}", scale.word())
            }
            Side::Named(names) => format!("names {}", names.len()),
        }
    }

    /// A value for readers, with three digits and its unit.
    pub(super) fn written(&self, value: f64) -> String {
        match &self.side {
            Side::Scaled(quantity, _) => quantity.rough(value),
            Side::Named(_) => self.formatted(value),
        }
    }

    /// The densest ticks whose labels have enough space on a side of `length` pixels.
    pub(super) fn ticks(&self, length: f64, horizontal: bool) -> Vec<Tick> {
        let sets = self.tick_sets();
        let gap = match (horizontal, &self.side) {
            (true, Side::Scaled(..)) => GAP_ALONG,
            (false, Side::Scaled(..)) => GAP_ACROSS,
            (_, Side::Named(_)) => GAP_OF_NAMES,
        };
        let extent = |label: &str| {
            if horizontal { Type::TICK.width(label) } else { Type::TICK.size }
        };
        // The plot leaves space for the last label of a scale; a name must not extend beyond the
        // side.
        let named = horizontal && self.name_count().is_some();
        let reaches_out =
            |(place, label): &Tick| named && place * length + extent(label) / 2.0 > length;
        let roomy = |ticks: &&Vec<Tick>| {
            !ticks.iter().any(reaches_out)
                && ticks.windows(2).all(|pair| {
                    let ((one, label), (next, next_label)) = (&pair[0], &pair[1]);
                    (next - one) * length >= (extent(label) + extent(next_label)) / 2.0 + gap
                })
        };
        sets.iter().find(roomy).or(sets.last()).cloned().unwrap_or_default()
    }

    /// Most pixels by which a label may extend beyond the start and the end of a horizontal side.
    pub(super) fn overhang(&self) -> (f64, f64) {
        let Side::Scaled(..) = self.side else { return (0.0, 0.0) };
        let (mut before, mut after) = (0.0_f64, 0.0_f64);
        for (place, label) in self.tick_sets().into_iter().flatten() {
            let half = Type::TICK.width(&label) / 2.0;
            if place < 0.1 {
                before = before.max(half);
            } else if place > 0.9 {
                after = after.max(half);
            }
        }
        (before, after)
    }

    /// Positions of the faint lines between ticks.
    pub(super) fn faint_lines(&self) -> Vec<f64> {
        match &self.side {
            Side::Scaled(_, scale) => {
                scale.minor_ticks().into_iter().filter_map(|tick| scale.place(tick)).collect()
            }
            Side::Named(_) => Vec::new(),
        }
    }

    fn tick_sets(&self) -> Vec<Vec<Tick>> {
        match &self.side {
            Side::Scaled(quantity, scale) => {
                let (from, to) = scale.ends();
                let every = |n| self.ticks.iter().copied().step_by(n).collect();
                let mut sets: Vec<Vec<f64>> = match self.ticks.len() {
                    0 => scale.tick_sets(),
                    count => (1..=count).map(every).collect(),
                };
                if sets.is_empty() {
                    sets.push(vec![from, to]);
                }
                let labelled = |set: Vec<f64>| {
                    let labels = quantity.labels(&set, to);
                    let places = set.into_iter().filter_map(|value| scale.place(value));
                    places.zip(labels).collect()
                };
                sets.into_iter().map(labelled).collect()
            }
            Side::Named(names) => {
                let middle = |index: usize| (index as f64 + 0.5) / names.len() as f64;
                let name = |(index, name): (usize, &String)| {
                    (middle(index), text::shortened(name, Type::TICK.size, NAME_ROOM))
                };
                let every = |n: usize| names.iter().enumerate().step_by(n).map(name).collect();
                (1..=names.len().max(1)).map(every).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::scale::Kind;
    use super::*;

    #[test]
    fn labels_thin_out_until_they_fit_and_keep_their_places() {
        let scale = Scale::fit(Kind::Log2, [1.0, 1024.0]).unwrap();
        let axis = Axis::new("depth", Quantity::Count, scale);
        let labels = |length| -> Vec<String> {
            axis.ticks(length, true).into_iter().map(|(_, label)| label).collect()
        };
        let all = ["1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1,024"];
        assert_eq!(labels(800.0), all);
        assert_eq!(labels(300.0), ["1", "4", "16", "64", "256", "1,024"]);
        assert!((axis.ticks(300.0, true)[1].0 - 0.2).abs() < 1e-12);
    }

    #[test]
    fn ticks_stand_at_the_values_that_were_measured() {
        let scale = Scale::fit(Kind::Log10, [1.0, 100.0]).unwrap();
        let axis = Axis::new("jobs", Quantity::Count, scale).ticks_at(vec![1.0, 3.0, 10.0, 48.0]);
        let labels = |length| -> Vec<String> {
            axis.ticks(length, true).into_iter().map(|(_, label)| label).collect()
        };
        assert_eq!(labels(800.0), ["1", "3", "10", "48"]);
        assert_eq!(labels(100.0), ["1", "10"]);
    }

    #[test]
    fn a_value_beyond_the_end_names_the_axis() {
        let axis =
            Axis::new("IOPS", Quantity::Count, Scale::exactly(Kind::Linear, 0.0, 1.0).unwrap());
        let error = axis.place(1.5).unwrap_err();
        assert_eq!(
            error.to_string(),
            "IOPS: found 1.5, expected 0 to 1; fit the scale to all values"
        );
        let names = Axis::names("", vec!["reads".into(), "writes".into()]);
        assert_eq!(names.place(1.0), Ok(0.5));
        assert!(names.place(2.1).is_err());
    }
}
