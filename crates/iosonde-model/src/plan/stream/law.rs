//! Distributions of popularity and offset, which draw one of `n` positions. Neither memory nor
//! set-up time depends on `n`.

use std::f64::consts::TAU;

use crate::plan::chance::{Chance, Permutation};
use crate::spec::Zone;

/// Distribution of a position below a count.
#[derive(Clone, Debug)]
pub(super) enum Law {
    /// All positions are equally likely.
    Uniform(u64),
    /// The share falls with a power of the rank; ranks are scattered over the region.
    Zipf(Zipf, Permutation),
    /// The rank is a power of a uniform draw; ranks are scattered over the region.
    Pareto { positions: u64, power: f64, scatter: Permutation },
    /// Normal distribution around the middle.
    Normal { positions: u64, deviation: f64 },
    /// Uniform within zones.
    Zoned(Box<[Stretch]>),
}

/// Positions of a zone, and the upper bound of its share of the draws.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    /// The zone gets the 32-bit draws below this bound, down to that of the previous zone.
    below: u64,
    first: u64,
    count: u64,
}

impl Law {
    /// A Pareto law: a share `h` of the positions gets a share `1 - h` of the draws.
    pub(super) fn pareto(positions: u64, h: f64, seed: u64) -> Law {
        // The share of draws with a rank below x n is x^(1 / power); it is 1 - h at x = h.
        let power = h.ln() / (1.0 - h).ln();
        Law::Pareto { positions, power, scatter: Permutation::new(positions, seed) }
    }

    /// Contiguous zones, each with at least one position.
    pub(super) fn zoned(positions: u64, zones: &[Zone]) -> Law {
        let (mut access, mut size, mut first) = (0.0, 0.0, 0);
        let stretches = zones.iter().map(|zone| {
            access += zone.access_percent / 100.0;
            size += zone.size_percent / 100.0;
            let end = ((positions as f64 * size).round() as u64).clamp(first, positions);
            let here = Stretch {
                below: (access * (1u64 << 32) as f64).round() as u64,
                first: first.min(positions - 1),
                count: (end - first).max(1),
            };
            first = end;
            here
        });
        let mut stretches: Box<[Stretch]> = stretches.collect();
        if let Some(last) = stretches.last_mut() {
            last.below = 1 << 32;
            last.count = positions - last.first;
        }
        Law::Zoned(stretches)
    }

    /// The next position.
    #[inline]
    pub(super) fn draw(&self, chance: &mut Chance) -> u64 {
        match self {
            Law::Uniform(positions) => chance.below(*positions),
            Law::Zipf(zipf, scatter) => scatter.at(zipf.draw(chance) - 1),
            Law::Pareto { positions, power, scatter } => {
                let rank = (*positions as f64 * chance.unit().powf(*power)) as u64;
                scatter.at(rank.min(positions - 1))
            }
            Law::Normal { positions, deviation } => normal(*positions, *deviation, chance),
            Law::Zoned(stretches) => {
                let draw = chance.bits() >> 32;
                let here = stretches.iter().find(|stretch| draw < stretch.below);
                here.map_or(0, |here| here.first + chance.below(here.count))
            }
        }
    }
}

/// Normal distribution around the middle (Box-Muller); positions outside are redrawn.
fn normal(positions: u64, deviation: f64, chance: &mut Chance) -> u64 {
    let n = positions as f64;
    loop {
        let radius = (-2.0 * (1.0 - chance.unit()).ln()).sqrt();
        let at = n * (0.5 + deviation * radius * (TAU * chance.unit()).cos());
        if (0.0..n).contains(&at) {
            return (at as u64).min(positions - 1);
        }
    }
}

/// Ranks from 1 to n with probabilities proportional to k^-theta, by rejection-inversion (W.
/// Hörmann and G. Derflinger, "Rejection-inversion to generate variates from monotone discrete
/// distributions", ACM TOMACS 6(3), 1996): a uniform draw of the integral of x^-theta is inverted,
/// rounded to the nearest rank, and rejected if the step lies above the curve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zipf {
    /// 1 - theta.
    tail: f64,
    n: f64,
    /// Bounds of a draw of the integral: its value at 1.5 less 1 (the first step), and at n + 0.5.
    low: f64,
    high: f64,
    /// A rank at most this far above its draw is never rejected.
    sure: f64,
}

impl Zipf {
    /// The law over ranks `1..=n` with this skew, which must be above 0.
    pub(super) fn new(n: u64, theta: f64) -> Zipf {
        let tail = 1.0 - theta;
        let n = n as f64;
        let sure = 2.0 - inverse(integral(2.5, tail) - 2f64.powf(-theta), tail);
        Zipf { tail, n, low: integral(1.5, tail) - 1.0, high: integral(n + 0.5, tail), sure }
    }

    #[inline]
    fn draw(&self, chance: &mut Chance) -> u64 {
        loop {
            let under = self.high + chance.unit() * (self.low - self.high);
            let x = inverse(under, self.tail);
            let rank = x.round().clamp(1.0, self.n);
            if rank - x <= self.sure
                || under >= integral(rank + 0.5, self.tail) - rank.powf(self.tail - 1.0)
            {
                return rank as u64;
            }
        }
    }
}

/// The integral of t^(tail - 1) from 1 to x: (x^tail - 1) / tail, or ln x if tail is 0.
fn integral(x: f64, tail: f64) -> f64 {
    let log = x.ln();
    if (tail * log).abs() < 1e-8 { log } else { (tail * log).exp_m1() / tail }
}

/// The x whose integral is `area`.
fn inverse(area: f64, tail: f64) -> f64 {
    let scaled = (area * tail).max(-1.0);
    if scaled.abs() < 1e-8 { area.exp() } else { (scaled.ln_1p() / tail).exp() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 400_000;

    /// Draws per position of `0..n`, in descending order.
    fn counts(law: &Law, n: usize) -> Vec<f64> {
        let mut chance = Chance::new(11);
        let mut counts = vec![0.0; n];
        for _ in 0..DRAWS {
            counts[law.draw(&mut chance) as usize] += 1.0;
        }
        counts
    }

    /// Chi-squared of counts against shares, divided by the degrees of freedom: its mean is 1, its
    /// standard deviation sqrt(2 / degrees).
    fn chi_per_degree(seen: &[f64], shares: &[f64]) -> f64 {
        let sum: f64 = shares.iter().sum();
        let cells = seen.iter().zip(shares).map(|(seen, share)| {
            let expected = DRAWS as f64 * share / sum;
            assert!(expected > 5.0, "too few for a chi-squared: {expected}");
            (seen - expected) * (seen - expected) / expected
        });
        cells.sum::<f64>() / (seen.len() - 1) as f64
    }

    #[test]
    fn zipf_follows_its_law_on_both_sides_of_one_and_at_it() {
        for theta in [0.2, 0.8, 0.99, 1.0, 1.2, 1.5] {
            let n = 300;
            let scatter = Permutation::new(n, 5);
            let law = Law::Zipf(Zipf::new(n, theta), scatter.clone());
            let seen = counts(&law, n as usize);
            let by_rank: Vec<f64> = (0..n).map(|rank| seen[scatter.at(rank) as usize]).collect();
            let shares: Vec<f64> = (1..=n).map(|rank| (rank as f64).powf(-theta)).collect();
            let chi = chi_per_degree(&by_rank, &shares);
            // Five standard deviations.
            assert!((chi - 1.0).abs() < 0.41, "theta {theta}: {chi}");
        }
    }

    #[test]
    fn zipf_over_a_few_ranks_and_over_very_many() {
        let mut chance = Chance::new(3);
        for n in [1, 2, 3] {
            let zipf = Zipf::new(n, 1.1);
            assert!((0..10_000).all(|_| (1..=n).contains(&zipf.draw(&mut chance))));
        }
        // Without a last rank, the share of the first is 1 / zeta(2) = 6 / pi^2.
        let zipf = Zipf::new(1 << 50, 2.0);
        let first = (0..DRAWS).filter(|_| zipf.draw(&mut chance) == 1).count() as f64;
        let share = first / DRAWS as f64;
        assert!((share - 0.6079).abs() < 0.004, "{share}");
    }

    #[test]
    fn pareto_gives_h_of_the_positions_the_rest_of_the_draws() {
        for h in [0.05, 0.2, 0.3] {
            let n = 1000;
            let mut seen = counts(&Law::pareto(n, h, 9), n as usize);
            seen.sort_by(|a, b| b.total_cmp(a));
            let popular: f64 = seen[..(h * n as f64) as usize].iter().sum();
            let share = popular / DRAWS as f64;
            assert!((share - (1.0 - h)).abs() < 0.005, "pareto:{h}: {share}");
        }
        // In between, a share x of the positions gets x^(1 / power).
        let law = Law::pareto(1000, 0.2, 9);
        let Law::Pareto { scatter, .. } = &law else { panic!("{law:?}") };
        let seen = counts(&law, 1000);
        let shares: Vec<f64> = (0..1000)
            .map(|rank| {
                let power = 0.8f64.ln() / 0.2f64.ln();
                (f64::from(rank + 1) / 1000.0).powf(power) - (f64::from(rank) / 1000.0).powf(power)
            })
            .collect();
        let by_rank: Vec<f64> = (0..1000).map(|rank| seen[scatter.at(rank) as usize]).collect();
        let chi = chi_per_degree(&by_rank, &shares);
        assert!((chi - 1.0).abs() < 0.23, "{chi}");
    }

    #[test]
    fn normal_has_its_mean_and_deviation() {
        let law = Law::Normal { positions: 10_000, deviation: 0.1 };
        let mut chance = Chance::new(1);
        let draws: Vec<f64> = (0..DRAWS).map(|_| law.draw(&mut chance) as f64).collect();
        let mean = draws.iter().sum::<f64>() / DRAWS as f64;
        let squares: f64 = draws.iter().map(|draw| (draw - mean) * (draw - mean)).sum();
        let deviation = (squares / DRAWS as f64).sqrt();
        // The standard error is 1000 / sqrt(400,000) = 1.6.
        assert!((mean - 4999.5).abs() < 8.0, "mean {mean}");
        assert!((deviation - 1000.0).abs() < 6.0, "deviation {deviation}");
    }

    #[test]
    fn zones_get_their_shares_and_are_even_within() {
        let zone = |access_percent, size_percent| Zone { access_percent, size_percent };
        let law = Law::zoned(1000, &[zone(60.0, 10.0), zone(30.0, 20.0), zone(10.0, 70.0)]);
        let seen = counts(&law, 1000);
        let mut shares = vec![0.6 / 100.0; 100];
        shares.extend(vec![0.3 / 200.0; 200]);
        shares.extend(vec![0.1 / 700.0; 700]);
        let chi = chi_per_degree(&seen, &shares);
        assert!((chi - 1.0).abs() < 0.23, "{chi}");
        // More zones than positions.
        let tiny = Law::zoned(2, &[zone(30.0, 1.0), zone(30.0, 1.0), zone(40.0, 98.0)]);
        assert_eq!(counts(&tiny, 2).iter().sum::<f64>(), DRAWS as f64);
    }

    #[test]
    fn the_popular_ones_are_scattered() {
        // The hundred most popular of 100,000 positions, by sixteenths of the region.
        let scatter = Permutation::new(100_000, 5);
        let mut parts = [0; 16];
        for rank in 0..100 {
            parts[(scatter.at(rank) * 16 / 100_000) as usize] += 1;
        }
        assert!(parts.iter().all(|seen| (1..20).contains(seen)), "{parts:?}");
    }
}
