//! Where does the warm-up end? MSER-5.
//!
//! The series is averaged over batches of five; the cut is after the first `d` batches for which
//! the squared standard error of the remaining mean is smallest. At most half may be cut off: a
//! minimum at that limit means that no steady state was reached.

/// Values averaged into one batch.
pub const BATCH: usize = 5;
/// Fewest batches for the rule.
const FEWEST_BATCHES: usize = 4;

/// The result of MSER-5 for a series.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WarmUp {
    /// Discard this many values from the start; may be 0.
    EndsAfter(usize),
    /// The best cut is at the search limit.
    NoSteadyPart,
    /// Fewer than four batches: no result.
    TooShort,
}

/// Applies MSER-5 (White; Spratt 1998) to per-interval values.
pub fn mser5(series: &[f64]) -> WarmUp {
    let batches: Vec<f64> =
        series.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    let k = batches.len();
    if k < FEWEST_BATCHES {
        return WarmUp::TooShort;
    }
    let limit = k / 2;
    let statistic = |cut: usize| {
        let rest = &batches[cut..];
        let n = rest.len() as f64;
        let mean = rest.iter().sum::<f64>() / n;
        rest.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n * n)
    };
    // Strictly smaller, so that a constant series keeps everything.
    let (mut best, mut least) = (0, statistic(0));
    for cut in 1..=limit {
        let value = statistic(cut);
        if value < least * (1.0 - 1e-9) {
            (best, least) = (cut, value);
        }
    }
    if best == limit { WarmUp::NoSteadyPart } else { WarmUp::EndsAfter(best * BATCH) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_series_keeps_everything() {
        assert_eq!(mser5(&[7.0; 70]), WarmUp::EndsAfter(0));
    }

    #[test]
    fn a_slow_start_is_cut_off() {
        let mut series = vec![10.0; 100];
        series[..15].fill(4.0);
        assert_eq!(mser5(&series), WarmUp::EndsAfter(15));
        series[..13].fill(4.0);
        series[13..].fill(10.0);
        assert_eq!(mser5(&series), WarmUp::EndsAfter(15));
    }

    #[test]
    fn a_ramp_and_a_late_step_have_no_steady_part() {
        let ramp: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(mser5(&ramp), WarmUp::NoSteadyPart);
        let mut late = vec![10.0; 100];
        late[55..].fill(4.0);
        assert_eq!(mser5(&late), WarmUp::NoSteadyPart);
    }

    #[test]
    fn a_short_series_is_not_judged() {
        assert_eq!(mser5(&[1.0; 19]), WarmUp::TooShort);
        assert_eq!(mser5(&[1.0; 20]), WarmUp::EndsAfter(0));
    }
}
