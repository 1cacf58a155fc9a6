//! The data of a picture of a stage: its x axis, its series, and each point with its interval.

use crate::chart::{self, Axis, ChartError, Kind, Measured, Quantity, Scale};
use iosonde_analysis::experiment::measure::Quantity as Kinds;
use iosonde_analysis::experiment::{Measure, Point, Spread, StageFacts, Standing};
use iosonde_model::plan::design::Level;
use iosonde_model::spec::Direction;
use iosonde_model::spec::experiment::parameter::Quantity as Takes;
use iosonde_model::spec::experiment::{Axis as SpecAxis, Design, Figure, Parameter};

/// Most series in one panel; more cannot be distinguished.
pub(super) const MOST_SERIES: usize = 7;
/// Levels that span at least this factor get a logarithmic scale.
const WIDE: f64 = 16.0;
/// Least number of runs of a cell for an interval; with fewer, the range is shown.
const RUNS_FOR_INTERVAL: usize = 5;

/// The data of one picture of a stage.
pub(super) struct View<'a> {
    pub(super) facts: &'a StageFacts,
    pub(super) requested: &'a Figure,
    /// The x axis; `None` for a stage of one cell.
    pub(super) x: Option<&'a SpecAxis>,
    /// One for each panel of the same measure.
    pub(super) facets: Vec<Facet<'a>>,
    pub(super) bars: ErrorBars,
    places: Places,
}

/// The series of a panel.
pub(super) struct Facet<'a> {
    /// The levels that its series have in common; empty if there is only one facet.
    pub(super) heading: String,
    pub(super) series: Vec<Series<'a>>,
}

impl Facet<'_> {
    /// Full name of a series: the heading of the panel and its own name.
    pub(super) fn named(&self, series: &Series) -> String {
        let parts = [self.heading.as_str(), &series.name].into_iter();
        parts.filter(|part| !part.is_empty()).collect::<Vec<&str>>().join(", ")
    }
}

/// The points of a line, in the order of the x axis.
pub(super) struct Series<'a> {
    /// Name in the legend; empty if there is only one series.
    pub(super) name: String,
    /// Name used by analyses: all levels except that of the x axis.
    pub(super) line: String,
    pub(super) points: Vec<&'a Point>,
}

/// Meaning of the error bars.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ErrorBars {
    /// The 95 % interval, by Student's t on logarithms.
    Interval,
    /// From the smallest to the largest run.
    Range,
    /// No bars: there is only one run.
    None,
}

enum Places {
    /// Labels of levels, each with the text written for it.
    Names(Vec<(String, String)>),
    Numbers(Kind, Vec<f64>),
}

/// Layout of levels along the x axis.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Layout {
    /// On a scale, if they are numbers that can be distinguished on one.
    Scaled,
    /// In a row of names.
    Named,
    /// In a row of names, from writes only to reads only.
    Mixed,
}

/// Value of a measure at a point, with its interval and tooltip.
pub(super) struct Datum {
    pub(super) value: Measured,
    pub(super) range: Option<(f64, f64)>,
    pub(super) hover: String,
}

impl<'a> View<'a> {
    pub(super) fn of(facts: &'a StageFacts, requested: &'a Figure, layout: Layout) -> View<'a> {
        let axis = |name: &str| facts.stage.axes.iter().find(|axis| axis.name == name);
        let x = axis(&requested.x).or(facts.stage.axes.first());
        let points: Vec<&Point> = facts.points.iter().filter(|p| at_base(facts, p, x)).collect();
        let places = Places::of(&points, x, layout);
        let mut view = View { facts, requested, x, facets: Vec::new(), bars: bars(facts), places };
        view.facets = view.grouped(points, axis(&requested.series));
        view
    }

    /// Groups the points by the axes other than the x axis.
    fn grouped(&self, points: Vec<&'a Point>, series: Option<&SpecAxis>) -> Vec<Facet<'a>> {
        let x = self.x.map_or("", |axis| axis.name.as_str());
        let others: Vec<&str> =
            self.facts.stage.axes.iter().map(|axis| axis.name.as_str()).collect();
        let others: Vec<&str> = others.into_iter().filter(|name| *name != x).collect();
        let all = |point: &&Point| named(point, &others);
        let count = distinct(points.iter().map(all));
        // One axis forms the series if the file names it, or if combinations of all axes would be
        // too many. It is then the one with the most levels that can be distinguished.
        let own = series.map(|axis| axis.name.as_str()).filter(|name| *name != x);
        let levels = |axis: &str| distinct(points.iter().map(|point| named(point, &[axis])));
        let most = || {
            let fitting = others.iter().copied().filter(|axis| levels(axis) <= MOST_SERIES);
            fitting.max_by_key(|axis| levels(axis)).or(others.last().copied())
        };
        let own = own.or_else(|| if count > MOST_SERIES { most() } else { None });
        let in_line: Vec<&str> = own.map_or(others.clone(), |own| vec![own]);
        let apart: Vec<&str> =
            others.iter().copied().filter(|name| !in_line.contains(name)).collect();
        let mut facets: Vec<Facet<'a>> = Vec::new();
        for point in points {
            let (heading, name) = (named(point, &apart), named(point, &in_line));
            let line = named(point, &others);
            let place = facets.iter().position(|facet| facet.heading == heading);
            let place = place.unwrap_or_else(|| {
                facets.push(Facet { heading, series: Vec::new() });
                facets.len() - 1
            });
            let lines = &mut facets[place].series;
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push(point),
                None => lines.push(Series { name, line, points: vec![point] }),
            }
        }
        for line in facets.iter_mut().flat_map(|facet| &mut facet.series) {
            let at = |point: &Point| self.place(point).unwrap_or(0.0);
            line.points.sort_by(|a, b| at(a).total_cmp(&at(b)));
        }
        facets
    }

    /// Position of a point along the x axis.
    pub(super) fn place(&self, point: &Point) -> Option<f64> {
        match &self.places {
            Places::Numbers(..) => point.at(&self.x?.name),
            Places::Names(names) => {
                let name = self.level(point).map_or("", |level| level.label.as_str());
                names.iter().position(|(known, _)| known == name).map(|place| place as f64 + 0.5)
            }
        }
    }

    /// The level of a point on the x axis.
    pub(super) fn level<'p>(&self, point: &'p Point) -> Option<&'p Level> {
        point.level(&self.x?.name)
    }

    /// Lowest and highest value of a numeric x axis.
    pub(super) fn span(&self) -> Option<(f64, f64)> {
        let Places::Numbers(_, values) = &self.places else { return None };
        let low = values.iter().copied().reduce(f64::min)?;
        Some((low, values.iter().copied().reduce(f64::max)?))
    }

    /// Quantity of the levels of the x axis.
    pub(super) fn quantity(&self) -> Quantity {
        self.x.map_or(Quantity::Count, |axis| written(axis).0)
    }

    pub(super) fn x_axis(&self) -> Result<Axis, ChartError> {
        let title = self.x.map_or("", |axis| axis.heading());
        match &self.places {
            Places::Names(names) => {
                Ok(Axis::names(title, names.iter().map(|(_, shown)| shown.clone()).collect()))
            }
            Places::Numbers(kind, values) => {
                let (quantity, unit) = self.x.map_or((Quantity::Count, ""), written);
                let kind = match (kind, quantity) {
                    (Kind::Linear, Quantity::Bytes) => Kind::Binary,
                    (kind, _) => *kind,
                };
                let log = if kind == Kind::Linear { "" } else { " (logarithmic)" };
                let log = if kind == Kind::Binary { "" } else { log };
                let scale = Scale::fit(kind, values.iter().copied())?;
                Ok(Axis::new(format!("{title}{unit}{log}"), quantity, scale))
            }
        }
    }

    /// The setting of a point, with axis names as in the file: `iodepth 8, 64 KiB`.
    pub(super) fn setting(&self, point: &Point) -> String {
        let words = point.levels.iter().map(|level| self.formatted(level));
        words.collect::<Vec<String>>().join(", ")
    }

    /// A level in words; a bare number is preceded by the name of its axis.
    pub(super) fn formatted(&self, level: &Level) -> String {
        if let (Places::Names(names), Some(x)) = (&self.places, self.x)
            && x.name == level.axis
            && let Some((_, shown)) = names.iter().find(|(l, s)| *l == level.label && l != s)
        {
            return shown.clone();
        }
        let is_bare = level.label.parse::<f64>().is_ok();
        let axis = self.facts.stage.axes.iter().find(|axis| axis.name == level.axis);
        match axis {
            Some(axis) if is_bare => format!("{} {}", axis.heading(), level.label),
            _ => level.label.clone(),
        }
    }

    /// The value of a measure at a point; `None` if the point was not run or lacks the measure.
    pub(super) fn datum(
        &self,
        point: &Point,
        measure: Measure,
        direction: Direction,
    ) -> Option<Datum> {
        let setting = self.setting(point);
        if !point.is_usable() {
            let Standing::Failed(why) = &point.standing else { return None };
            let hover = format!("{setting}: not used: {why}");
            let failed = Datum { value: Measured::Failed, range: None, hover };
            return is_executed(point).then_some(failed);
        }
        let spread = point.spread(measure, direction)?;
        let one = unit(measure).0;
        let value = spread.mean * one;
        let range = self.bars.range(&spread).map(|(low, high)| (low.max(0.0) * one, high * one));
        let (value, doubt) = match &point.standing {
            Standing::LowConfidence(why) => {
                (Measured::LowConfidence(value), format!("; low confidence: {why}"))
            }
            _ => (Measured::Good(value), String::new()),
        };
        let formatted = self.bars.formatted(measure, &spread);
        let hover = format!("{setting}: {} {formatted}{doubt}", heading(measure, direction));
        let is_finite = spread.mean.is_finite()
            && range.is_none_or(|(low, high)| low.is_finite() && high.is_finite());
        is_finite.then_some(Datum { value, range, hover })
    }

    /// The value of a measure as a point of a plot.
    pub(super) fn point(
        &self,
        point: &Point,
        measure: Measure,
        direction: Direction,
    ) -> Option<chart::Point> {
        let datum = self.datum(point, measure, direction)?;
        let x = self.place(point)?;
        let (y, y_range) = (datum.value, datum.range);
        Some(chart::Point { y, y_range, ..chart::Point::new(x, 0.0).hover(datum.hover) })
    }

    /// Every point of the picture.
    pub(super) fn points(&self) -> impl Iterator<Item = &'a Point> + '_ {
        let series = self.facets.iter().flat_map(|facet| &facet.series);
        series.flat_map(|series| series.points.iter().copied())
    }

    /// The direction whose figures are shown.
    pub(super) fn direction(&self) -> Direction {
        self.requested.direction.unwrap_or(Direction::Total)
    }

    /// The requested measures, or `usual` if there are none.
    pub(super) fn measures(&self, usual: &[Measure]) -> Vec<Measure> {
        let requested = self.requested.metrics.iter().filter_map(|word| Measure::parse(word));
        let requested: Vec<Measure> = requested.collect();
        if requested.is_empty() { usual.to_vec() } else { requested }
    }
}

impl<'a> Series<'a> {
    /// A facet with only this series.
    pub(super) fn alone(&self, heading: String) -> Facet<'a> {
        let (line, points) = (self.line.clone(), self.points.clone());
        Facet { heading, series: vec![Series { name: String::new(), line, points }] }
    }
}

impl Places {
    fn of(points: &[&Point], x: Option<&SpecAxis>, layout: Layout) -> Places {
        let Some(axis) = x else { return Places::Names(vec![Default::default()]) };
        let levels = || points.iter().filter_map(|point| point.level(&axis.name));
        if layout == Layout::Scaled {
            let values: Option<Vec<f64>> = levels().map(|level| level.value).collect();
            let mut values = values.unwrap_or_default();
            values.sort_by(f64::total_cmp);
            values.dedup();
            if let Some(kind) = scale_for(&values) {
                return Places::Numbers(kind, values);
            }
        }
        let mut names: Vec<&Level> = Vec::new();
        for level in levels() {
            if !names.iter().any(|known| known.label == level.label) {
                names.push(level);
            }
        }
        if layout == Layout::Mixed {
            let reads = |level: &Level| level.value.unwrap_or(0.0);
            names.sort_by(|a, b| reads(a).total_cmp(&reads(b)));
        }
        let shown = |level: &Level| match (layout, level.value) {
            (Layout::Mixed, Some(reads)) => mixture(reads),
            _ => level.label.clone(),
        };
        Places::Names(names.into_iter().map(|l| (l.label.clone(), shown(l))).collect())
    }
}

/// A scale on which these levels, in ascending order, can be distinguished; `None` if there is
/// none.
fn scale_for(values: &[f64]) -> Option<Kind> {
    let [first, second, .., last] = *values else {
        let [_first, last] = *values else { return None };
        let are_powers = values.iter().all(|value| *value > 0.0 && value.log2().fract() == 0.0);
        return Some(if are_powers && last > 0.0 { Kind::Log2 } else { Kind::Linear });
    };
    let step = second - first;
    let is_even = values.windows(2).all(|pair| (pair[1] - pair[0] - step).abs() < 1e-6 * step);
    let is_power = |value: &f64| *value > 0.0 && value.log2().fract() == 0.0;
    if values.iter().all(is_power) || first > 0.0 && last / first >= WIDE && !is_even {
        return Some(Kind::Log2);
    }
    // A zero level has no place on a logarithmic scale, and powers crowd together on a linear one.
    let least = if first > 0.0 { first } else { second };
    (is_even || last / least < WIDE).then_some(Kind::Linear)
}

/// Percentages of writes and reads: `100W`, `30W/70R`, `100R`.
fn mixture(reads: f64) -> String {
    match (reads, 100.0 - reads) {
        (0.0, _) => "100W".into(),
        (_, 0.0) => "100R".into(),
        (reads, writes) => format!("{writes}W/{reads}R"),
    }
}

impl ErrorBars {
    /// Both ends of the error bar.
    pub(super) fn range(self, spread: &Spread) -> Option<(f64, f64)> {
        match self {
            ErrorBars::Interval => spread.interval,
            ErrorBars::Range => {
                let ends = spread.values.iter().copied();
                let (low, high) = (ends.clone().reduce(f64::min), ends.reduce(f64::max));
                low.zip(high).filter(|_| spread.values.len() > 1)
            }
            ErrorBars::None => None,
        }
    }

    /// A spread in words, for a tooltip.
    fn formatted(self, measure: Measure, spread: &Spread) -> String {
        let n = spread.values.len();
        let mean = measure.formatted(spread.mean);
        let what = if self == ErrorBars::Interval { "95 % interval " } else { "" };
        match self.range(spread) {
            Some((low, high)) => {
                let (low, high) = (measure.formatted(low), measure.formatted(high));
                format!("{mean} ({what}{low} to {high}, {n} runs)")
            }
            None if n == 1 => format!("{mean} (1 run)"),
            None => format!("{mean} ({n} runs)"),
        }
    }
}

/// The kind of error bars for which a stage has enough runs.
fn bars(facts: &StageFacts) -> ErrorBars {
    match facts.points.iter().map(|point| point.runs.len()).max().unwrap_or(0) {
        0 | 1 => ErrorBars::None,
        runs if runs >= RUNS_FOR_INTERVAL => ErrorBars::Interval,
        _ => ErrorBars::Range,
    }
}

/// Whether the point was run, successfully or not.
pub(super) fn is_executed(point: &Point) -> bool {
    point.is_usable() || point.failed > 0
}

/// Selects the points for an x axis. If axes are varied one at a time, the other axes must be at
/// their first level.
fn at_base(facts: &StageFacts, point: &Point, x: Option<&SpecAxis>) -> bool {
    let (Design::OneFactor, Some(x), Some(base)) = (facts.stage.design, x, facts.points.first())
    else {
        return true;
    };
    let others = point.levels.iter().filter(|level| level.axis != x.name);
    others.into_iter().all(|level| base.level(&level.axis).is_some_and(|b| b.label == level.label))
}

fn named(point: &Point, axes: &[&str]) -> String {
    let levels = axes.iter().filter_map(|axis| point.level(axis));
    levels.map(|level| level.label.as_str()).collect::<Vec<&str>>().join(", ")
}

fn distinct(names: impl Iterator<Item = String>) -> usize {
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    names.len()
}

/// Quantity of an axis's levels, and the unit appended to its title.
fn written(axis: &SpecAxis) -> (Quantity, &'static str) {
    let takes = Parameter::parse(&axis.name).map(Parameter::quantity);
    match takes {
        Ok(Takes::Bytes) => (Quantity::Bytes, ""),
        Ok(Takes::Time) => (Quantity::Latency, ""),
        Ok(Takes::Percent) => (Quantity::Count, ", %"),
        Ok(Takes::PerSecond) => (Quantity::Count, ", per second"),
        _ => (Quantity::Count, ""),
    }
}

/// Factor, quantity and axis title of a measure.
pub(super) fn unit(measure: Measure) -> (f64, Quantity, String) {
    match measure.quantity() {
        Kinds::BytesPerSecond if measure == Measure::Bandwidth => {
            (1e-6, Quantity::Count, "MB/s".into())
        }
        Kinds::BytesPerSecond => (1e-6, Quantity::Count, format!("{}, MB/s", measure.title())),
        Kinds::PerSecond if measure == Measure::Iops => (1.0, Quantity::Count, "IOPS".into()),
        Kinds::PerSecond => (1.0, Quantity::Count, format!("{} per second", measure.title())),
        Kinds::Time => (1.0, Quantity::Latency, measure.title().into()),
        Kinds::Plain => (1.0, Quantity::Count, measure.title().into()),
    }
}

/// Names of measures for a title.
pub(super) fn titles(measures: &[Measure]) -> String {
    measures.iter().map(|measure| measure.title()).collect::<Vec<&str>>().join(", ")
}

/// Name of a measure and direction for a legend.
pub(super) fn heading(measure: Measure, direction: Direction) -> String {
    match direction {
        Direction::Read => format!("{} of reads", measure.title()),
        Direction::Write => format!("{} of writes", measure.title()),
        Direction::Total => measure.title().into(),
    }
}
