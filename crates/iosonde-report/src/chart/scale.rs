//! Maps values to positions along an axis, and chooses the values for ticks.

use super::ChartError;

/// Layout of values along an axis.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Linear; ticks at 1, 2 or 5 times a power of ten.
    Linear,
    /// Linear; ticks at powers of two times a power of 1024, for bytes.
    Binary,
    /// Linear; ticks at round times. Values are nanoseconds.
    Time,
    /// Binary logarithm; ticks at powers of two.
    Log2,
    /// Decimal logarithm; ticks at powers of ten, or at 1, 2 and 5 times them.
    Log10,
    /// Decimal logarithm of 1 minus a share below one: 90 % to 99 % is as long as 99 % to 99.9 %.
    /// Ticks at 0, 50, 90 % and at the nines.
    Nines,
}

/// A range of values and its layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    kind: Kind,
    from: f64,
    to: f64,
}

/// Least number of steps in a range. `fit` rounds its ends outwards to whole steps.
const FITTED_STEPS: f64 = 10.0;
/// The same for times and bytes, whose steps are coarser and whose ends matter less.
const FITTED_FINE_STEPS: f64 = 25.0;
/// Steps of times, ns: from one second on, those of a clock.
const LONG_STEPS: [f64; 16] = [
    1e9, 2e9, 5e9, 10e9, 15e9, 30e9, 60e9, 120e9, 300e9, 600e9, 900e9, 1800e9, 3600e9, 7200e9,
    21_600e9, 86_400e9,
];

/// Ticks of a scale of nines.
const NINES: [f64; 9] = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999_999, 0.999_999_9];

impl Scale {
    /// The smallest scale with round ends that holds every value.
    ///
    /// # Errors
    /// If there is no value, one is not finite, or one has no logarithm but needs it.
    pub fn fit(kind: Kind, values: impl IntoIterator<Item = f64>) -> Result<Scale, ChartError> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            if !value.is_finite() {
                return Err(ChartError::NotFinite { value });
            }
            if matches!(kind, Kind::Log2 | Kind::Log10) && value <= 0.0 {
                return Err(ChartError::NotPositive { value });
            }
            if kind == Kind::Nines && !(0.0..1.0).contains(&value) {
                return Err(ChartError::NotBelowOne { value });
            }
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            return Err(ChartError::Empty);
        }
        let (from, to) = match kind {
            Kind::Log2 => octaves(low, high),
            Kind::Log10 => decades(low, high),
            Kind::Nines => nines_around(low, high),
            _ => evenly(kind, low, high),
        };
        Ok(Scale { kind, from, to })
    }

    /// A scale of exactly this range, which must not be empty, and must be positive if logarithmic.
    ///
    /// # Errors
    /// Those of [`Scale::fit`]; an empty range is [`ChartError::Empty`].
    pub fn exactly(kind: Kind, from: f64, to: f64) -> Result<Scale, ChartError> {
        Scale::fit(kind, [from, to])?;
        if from >= to {
            return Err(ChartError::Empty);
        }
        Ok(Scale { kind, from, to })
    }

    pub fn ends(&self) -> (f64, f64) {
        (self.from, self.to)
    }

    /// Name of its layout for programs.
    pub(super) fn word(&self) -> &'static str {
        match self.kind {
            Kind::Linear | Kind::Binary | Kind::Time => "linear",
            Kind::Log2 | Kind::Log10 => "log",
            Kind::Nines => "nines",
        }
    }

    /// Position of a value between the ends, `0..=1`; `None` outside and for NaN.
    pub fn place(&self, value: f64) -> Option<f64> {
        if !(self.from..=self.to).contains(&value) {
            return None;
        }
        Some(match self.kind {
            Kind::Log2 | Kind::Log10 => (value / self.from).ln() / (self.to / self.from).ln(),
            Kind::Nines => {
                // The logarithm of the remainder, `1 - value`.
                let (from, to) = ((-self.from).ln_1p(), (-self.to).ln_1p());
                ((-value).ln_1p() - from) / (to - from)
            }
            _ => (value - self.from) / (self.to - self.from),
        })
    }

    /// Sets of ticks, the densest first. Ticks are exact, ascending and within the ends.
    pub(super) fn tick_sets(&self) -> Vec<Vec<f64>> {
        let sets: Vec<Vec<f64>> = match self.kind {
            Kind::Log2 => (1..=16).map(|every| self.powers_of_two(every)).collect(),
            Kind::Log10 => {
                let parts: [&[i32]; 3] = [&[1, 2, 3, 4, 5, 6, 7, 8, 9], &[1, 2, 5], &[1]];
                let fine = parts.iter().map(|part| self.powers_of_ten(part, 1));
                fine.chain((2..=8).map(|every| self.powers_of_ten(&[1], every))).collect()
            }
            Kind::Nines => {
                let more = NINES.iter().copied().filter(|share| self.holds(*share));
                let fewer = |leave: &[f64]| {
                    NINES.into_iter().filter(|s| self.holds(*s) && !leave.contains(s)).collect()
                };
                vec![more.collect(), fewer(&[0.5]), fewer(&[0.5, 0.99, 0.9999, 0.999999])]
            }
            _ => {
                let span = self.to - self.from;
                let mut sets = Vec::new();
                let mut step = step_at_least(self.kind, span / 24.0);
                while step <= span {
                    sets.push(self.multiples(step));
                    step = step_at_least(self.kind, step * 1.01);
                }
                sets
            }
        };
        // At least two ticks, so that the scale is visible.
        sets.into_iter().filter(|set| set.len() >= 2).collect()
    }

    /// Values for faint lines between the ticks of a logarithmic scale or of one of nines.
    pub(super) fn minor_ticks(&self) -> Vec<f64> {
        if self.kind == Kind::Nines {
            return NINES.into_iter().filter(|share| self.holds(*share)).collect();
        }
        if self.kind == Kind::Log10 && (self.to / self.from).log10() <= 6.0 {
            return self.powers_of_ten(&[1, 2, 3, 4, 5, 6, 7, 8, 9], 1);
        }
        Vec::new()
    }

    fn multiples(&self, step: f64) -> Vec<f64> {
        // Multiplying by an integer avoids the accumulated errors of a sum.
        let first = (self.from / step - 1e-9).ceil() as i64;
        let last = (self.to / step + 1e-9).floor() as i64;
        (first..=last).map(|index| index as f64 * step).filter(|v| self.holds(*v)).collect()
    }

    fn powers_of_two(&self, every: i32) -> Vec<f64> {
        let (first, last) = (self.from.log2().floor() as i32, self.to.log2().ceil() as i32);
        (first..=last)
            .filter(|exponent| exponent.rem_euclid(every) == 0)
            .map(|exponent| 2f64.powi(exponent))
            .filter(|value| self.holds(*value))
            .collect()
    }

    fn powers_of_ten(&self, parts: &[i32], every: i32) -> Vec<f64> {
        let (first, last) = (self.from.log10().floor() as i32, self.to.log10().ceil() as i32);
        (first..=last)
            .filter(|exponent| exponent.rem_euclid(every) == 0)
            .flat_map(|exponent| parts.iter().map(move |part| times_ten(*part, exponent)))
            .filter(|value| self.holds(*value))
            .collect()
    }

    fn holds(&self, value: f64) -> bool {
        self.place(value).is_some()
    }
}

/// `part * 10^exponent`, rounded like a literal.
fn times_ten(part: i32, exponent: i32) -> f64 {
    let power = 10f64.powi(exponent.abs());
    if exponent < 0 { f64::from(part) / power } else { f64::from(part) * power }
}

/// Powers of two that enclose a range; a single value gets one on each side.
fn octaves(low: f64, high: f64) -> (f64, f64) {
    let (first, last) = (low.log2().floor() as i32, high.log2().ceil() as i32);
    let alone = i32::from(first == last);
    (2f64.powi(first - alone), 2f64.powi(last + alone))
}

/// 1, 2 or 5 times a power of ten that enclose a range; a single value gets one on each side.
fn decades(low: f64, high: f64) -> (f64, f64) {
    let rounds = |value: f64| {
        let exponent = value.log10().floor() as i32;
        [-1, 0, 1]
            .into_iter()
            .flat_map(move |more| [1, 2, 5].map(|part| times_ten(part, exponent + more)))
    };
    let below = |value: f64, or_equal: bool| {
        rounds(value).filter(|r| *r < value || or_equal && *r == value).fold(f64::MIN, f64::max)
    };
    let above = |value: f64, or_equal: bool| {
        rounds(value).filter(|r| *r > value || or_equal && *r == value).fold(f64::MAX, f64::min)
    };
    let (from, to) = (below(low, true), above(high, true));
    if from < to { (from, to) } else { (below(low, false), above(high, false)) }
}

/// Ticks of nines that enclose a range. A range beyond the last tick ends at its highest value.
fn nines_around(low: f64, high: f64) -> (f64, f64) {
    let from = NINES.into_iter().filter(|tick| *tick <= low).fold(0.0, f64::max);
    let to = NINES.into_iter().find(|tick| *tick >= high && *tick > from).unwrap_or(high);
    if from < to { (from, to) } else { (0.0, to) }
}

/// Multiples of a round step that enclose a range; a single value gets zero as the other end.
fn evenly(kind: Kind, low: f64, high: f64) -> (f64, f64) {
    let (low, high) = match (low == high, low == 0.0) {
        (true, true) => (0.0, 1.0),
        (true, false) => (low.min(0.0), high.max(0.0)),
        _ => (low, high),
    };
    let steps = if kind == Kind::Linear { FITTED_STEPS } else { FITTED_FINE_STEPS };
    let step = step_at_least(kind, (high - low) / steps);
    ((low / step).floor() * step, (high / step).ceil() * step)
}

/// The smallest round step that is not smaller than `least`.
fn step_at_least(kind: Kind, least: f64) -> f64 {
    match kind {
        Kind::Binary => 2f64.powi(least.max(1.0).log2().ceil() as i32),
        Kind::Time if least > 500e6 => {
            let days = (least / 86_400e9).ceil() * 86_400e9;
            LONG_STEPS.into_iter().find(|step| *step >= least).unwrap_or(days)
        }
        _ => {
            let exponent = least.log10().floor() as i32;
            let steps = [1, 2, 5, 10].map(|part| times_ten(part, exponent));
            steps.into_iter().find(|step| *step >= least).unwrap_or(least)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn fitted(kind: Kind, values: &[f64]) -> (f64, f64) {
        Scale::fit(kind, values.iter().copied()).unwrap().ends()
    }

    #[test]
    fn a_fitted_scale_has_round_ends_and_holds_its_values() {
        assert_eq!(fitted(Kind::Linear, &[0.0, 83.0]), (0.0, 90.0));
        assert_eq!(fitted(Kind::Linear, &[7.1]), (0.0, 8.0));
        assert_eq!(fitted(Kind::Linear, &[0.0]), (0.0, 1.0));
        assert_eq!(fitted(Kind::Binary, &[0.0, 900.0 * 1048576.0]), (0.0, 960.0 * 1048576.0));
        assert_eq!(fitted(Kind::Time, &[0.0, 59e9]), (0.0, 60e9));
        assert_eq!(fitted(Kind::Time, &[0.0, 61.3e9]), (0.0, 65e9));
        assert_eq!(fitted(Kind::Log2, &[5.0, 250.0]), (4.0, 256.0));
        assert_eq!(fitted(Kind::Log2, &[4096.0]), (2048.0, 8192.0));
        assert_eq!(fitted(Kind::Log10, &[83e3, 11.9e6]), (50e3, 20e6));
        assert_eq!(fitted(Kind::Log10, &[100.0]), (50.0, 200.0));
        assert_eq!(fitted(Kind::Log10, &[1e-6, 1.0]), (1e-6, 1.0));
    }

    #[test]
    fn what_has_no_place_is_refused_or_none_and_never_moved() {
        use ChartError::{Empty, NotFinite, NotPositive};
        assert_eq!(Scale::fit(Kind::Linear, []), Err(Empty));
        assert!(matches!(Scale::fit(Kind::Linear, [f64::NAN]), Err(NotFinite { .. })));
        assert_eq!(Scale::fit(Kind::Log10, [0.0]), Err(NotPositive { value: 0.0 }));
        let scale = Scale::exactly(Kind::Log10, 1.0, 100.0).unwrap();
        assert_eq!(scale.place(10.0), Some(0.5));
        assert_eq!((scale.place(1.0), scale.place(100.0)), (Some(0.0), Some(1.0)));
        assert_eq!(
            (scale.place(0.99), scale.place(101.0), scale.place(f64::NAN)),
            (None, None, None)
        );
        assert_eq!(Scale::exactly(Kind::Linear, 3.0, 3.0), Err(Empty));
    }

    #[test]
    fn each_nine_is_as_far_from_the_next() {
        assert_eq!(fitted(Kind::Nines, &[0.02, 0.9995]), (0.0, 0.9999));
        assert_eq!(fitted(Kind::Nines, &[0.0]), (0.0, 0.5));
        assert_eq!(fitted(Kind::Nines, &[0.5, 0.99]), (0.5, 0.99));
        let scale = Scale::fit(Kind::Nines, [0.0, 0.9999]).unwrap();
        for (value, place) in [(0.0, 0.0), (0.9, 0.25), (0.99, 0.5), (0.999, 0.75), (0.9999, 1.0)] {
            assert!((scale.place(value).unwrap() - place).abs() < 1e-9, "{value}");
        }
        assert!((scale.place(0.5).unwrap() - 2f64.log10() / 4.0).abs() < 1e-12);
        assert_eq!(scale.tick_sets()[0], [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999]);
        let refused = Scale::fit(Kind::Nines, [0.5, 1.0]);
        assert_eq!(refused, Err(ChartError::NotBelowOne { value: 1.0 }));
    }

    #[test]
    fn ticks_are_exact_and_thin_out() {
        let sets = |kind, from, to| Scale::exactly(kind, from, to).unwrap().tick_sets();
        let octaves = sets(Kind::Log2, 1.0, 256.0);
        assert_eq!(octaves[0], [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0]);
        assert_eq!(octaves[1], [1.0, 4.0, 16.0, 64.0, 256.0]);
        let decades = sets(Kind::Log10, 50e3, 20e6);
        assert_eq!(decades[1], [50e3, 100e3, 200e3, 500e3, 1e6, 2e6, 5e6, 10e6, 20e6]);
        assert_eq!(decades[2], [1e5, 1e6, 1e7]);
        let tail = sets(Kind::Log10, 1e-5, 1.0);
        assert_eq!(tail[2], [1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0], "as literals are");
        let times = sets(Kind::Time, 0.0, 60e9);
        assert!(times.contains(&vec![0.0, 15e9, 30e9, 45e9, 60e9]), "{times:?}");
        for set in sets(Kind::Linear, 0.0, 0.7) {
            assert!(set.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}
