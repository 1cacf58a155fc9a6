//! Wald's sequential test: is the share of operations above a limit at most the allowed one?
//!
//! A quantile limit, "p99 at most L", is a share: at most 1 % beyond L. The test uses counts, not
//! an estimated percentile, and needs as few operations as possible: many where the share is close
//! to the allowed one, few where it is far off.

use super::summary::{Summary, autocorrelation_time};

/// A share of this multiple of the allowed one passes with at least 95 % certainty.
const GOOD: f64 = 0.8;
/// A share of this multiple of the allowed one fails with at least 95 % certainty.
const BAD: f64 = 1.25;
/// Likelihood ratio that ends a test with 5 % errors on either side.
const DECIDES: f64 = 19.0;

/// The current result of a test.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// The share is below the allowed one.
    Pass,
    /// The share is above it.
    Fail,
    /// More operations are needed.
    Open,
}

/// Wald's sequential probability ratio test of `exceeded` of `n` against the share `allowed`
/// (above 0, at most 0.5): 0.8 times that passes and 1.25 times that fails, each with at most 5 %
/// of errors. Both counts may have been divided by a [design effect](design_effect).
pub fn wald(allowed: f64, n: f64, exceeded: f64) -> Verdict {
    let (good, bad) = (GOOD * allowed, BAD * allowed);
    let within = n - exceeded;
    let ratio = exceeded * (bad / good).ln() + within * ((1.0 - bad) / (1.0 - good)).ln();
    if ratio >= DECIDES.ln() {
        Verdict::Fail
    } else if ratio <= -DECIDES.ln() {
        Verdict::Pass
    } else {
        Verdict::Open
    }
}

/// Operations, none above the limit, that show with 95 % confidence that the share is below the
/// allowed one: 299 for p99, 2,995 for p99.9.
pub fn fewest_without(allowed: f64) -> u64 {
    (0.05f64.ln() / (-allowed).ln_1p()).ceil() as u64
}

/// Operations, none above the limit, that [`wald`] needs for a pass: 648 for p99.
pub fn fewest_for_a_pass(allowed: f64) -> u64 {
    let step = ((1.0 - GOOD * allowed) / (1.0 - BAD * allowed)).ln();
    (DECIDES.ln() / step).ceil() as u64
}

/// Operations, and those beyond the limit, in one of several intervals of similar length.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Bin {
    /// Operations completed.
    pub ops: u64,
    /// Operations beyond the limit.
    pub exceeded: u64,
}

/// Variance of the count beyond the limit over that of independent operations, at least 1: `n`
/// clustered operations carry as much information as `n / effect` independent ones. It is the
/// dispersion within an interval times the autocorrelation time between intervals.
pub fn design_effect(bins: &[Bin]) -> f64 {
    let ops: u64 = bins.iter().map(|bin| bin.ops).sum();
    let exceeded: u64 = bins.iter().map(|bin| bin.exceeded).sum();
    if exceeded == 0 || exceeded == ops {
        return 1.0;
    }
    // Uses the excess over the common share, so that an uneven rate does not count as clustering.
    let share = exceeded as f64 / ops as f64;
    let excess: Vec<f64> =
        bins.iter().map(|bin| bin.exceeded as f64 - share * bin.ops as f64).collect();
    let Some(spread) = Summary::of(&excess) else { return 1.0 };
    let independent = ops as f64 * share * (1.0 - share) / bins.len() as f64;
    let dispersion = (spread.std_dev.powi(2) / independent).max(1.0);
    dispersion * autocorrelation_time(&excess)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;

    #[test]
    fn known_answers() {
        for (allowed, fewest) in [(0.1, 29), (0.05, 59), (0.01, 299), (0.001, 2_995)] {
            assert_eq!(fewest_without(allowed), fewest);
        }
        // ln 19 / ln(0.992 / 0.9875) = 647.6.
        assert_eq!(fewest_for_a_pass(0.01), 648);
        assert_eq!(wald(0.01, 647.0, 0.0), Verdict::Open);
        assert_eq!(wald(0.01, 648.0, 0.0), Verdict::Pass);
        // ln 19 / ln(1.25 / 0.8) = 6.6: seven in a row are enough.
        assert_eq!(wald(0.01, 6.0, 6.0), Verdict::Open);
        assert_eq!(wald(0.01, 7.0, 7.0), Verdict::Fail);
        assert_eq!(wald(0.01, 10_000.0, 101.0), Verdict::Open);
    }

    #[test]
    fn at_most_one_in_twenty_is_decided_wrongly() {
        let decide = |allowed: f64, share: f64, seed: u64| {
            let mut chance = Chance::new(seed);
            let (mut n, mut exceeded) = (0.0, 0.0);
            loop {
                n += 1.0;
                exceeded += f64::from(u8::from(chance.unit() < share));
                let verdict = wald(allowed, n, exceeded);
                if verdict != Verdict::Open {
                    return (verdict, n);
                }
            }
        };
        for allowed in [0.5, 0.1, 0.01] {
            for (factor, right) in [(0.8, Verdict::Pass), (1.25, Verdict::Fail)] {
                let all: Vec<(Verdict, f64)> =
                    (0..1_000).map(|seed| decide(allowed, factor * allowed, seed * 7)).collect();
                let wrong = all.iter().filter(|(verdict, _)| *verdict != right).count();
                // 50 of 1,000 and three standard deviations.
                assert!(wrong <= 70, "{allowed} {factor}: {wrong}");
            }
            let fewer = decide(allowed, 0.2 * allowed, 1).1;
            assert!(fewer < 20.0 / allowed, "{allowed}: {fewer}");
        }
    }

    #[test]
    fn clumps_are_counted_once() {
        let mut chance = Chance::new(3);
        // Independent: 1 % of 50,000 in intervals of 100.
        let even: Vec<Bin> = (0..500)
            .map(|_| Bin {
                ops: 100,
                exceeded: (0..100).filter(|_| chance.unit() < 0.01).count() as u64,
            })
            .collect();
        assert!(design_effect(&even) < 1.5, "{}", design_effect(&even));
        // A stall in one of a hundred intervals hits all of its operations: one event, not 100.
        let clumped: Vec<Bin> = (0..500)
            .map(|_| Bin { ops: 100, exceeded: if chance.unit() < 0.01 { 100 } else { 0 } })
            .collect();
        let effect = design_effect(&clumped);
        assert!((60.0..160.0).contains(&effect), "{effect}");
        // A stall that lasts five intervals: five times that.
        let long: Vec<Bin> =
            (0..500).map(|at| Bin { ops: 100, exceeded: u64::from(at % 250 < 5) * 100 }).collect();
        assert!((250.0..1_000.0).contains(&design_effect(&long)), "{}", design_effect(&long));
        assert_eq!(design_effect(&[]), 1.0);
        assert_eq!(design_effect(&[Bin { ops: 9, exceeded: 9 }; 20]), 1.0);
    }
}
