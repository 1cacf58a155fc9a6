//! Models of the service time of a request.

use std::str::FromStr;

use crate::quantity::duration_ns;

/// A seeded random number generator (SplitMix64, Steele, Lea and Flood 2014): the same seed gives
/// the same device.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// A generator that depends only on `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A uniform number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Model of the service time of one kind of request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Latency {
    /// `none`: the request completes at once.
    None,
    /// `const:300us`.
    Constant {
        /// Service time of every request.
        ns: u64,
    },
    /// `bimodal:0.995:300us/5ms`: the first with that probability, otherwise the second.
    Bimodal {
        /// Probability of `first_ns`, 0 to 1.
        share: f64,
        /// Service time of the common mode.
        first_ns: u64,
        /// Service time of the rare mode.
        second_ns: u64,
    },
    /// `step:500us/1500us@6s`: the first constant until that time, then the second.
    Step {
        /// Service time before the step.
        before_ns: u64,
        /// Service time from the step on.
        after_ns: u64,
        /// Time of the step since the device's clock started.
        at_ns: u64,
    },
    /// `exp:300us`: exponential with that mean.
    Exponential {
        /// Mean service time.
        mean_ns: u64,
    },
}

impl Latency {
    /// A service time in ns for a request that starts `at_ns` after the device's clock started.
    pub fn draw(&self, at_ns: u64, rng: &mut Rng) -> u64 {
        match *self {
            Self::None => 0,
            Self::Constant { ns } => ns,
            Self::Bimodal { share, first_ns, second_ns } => {
                if rng.unit() < share {
                    first_ns
                } else {
                    second_ns
                }
            }
            Self::Step { before_ns, after_ns, at_ns: step } => {
                if at_ns < step {
                    before_ns
                } else {
                    after_ns
                }
            }
            // Inverse of the exponential distribution function; 1-u is never 0.
            Self::Exponential { mean_ns } => (-(1.0 - rng.unit()).ln() * mean_ns as f64) as u64,
        }
    }
}

impl FromStr for Latency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (model, rest) = text.split_once(':').unwrap_or((text, ""));
        let pair = |pair: &str| -> Result<(u64, u64), String> {
            let (a, b) =
                pair.split_once('/').ok_or_else(|| format!("`{pair}` should be two times A/B"))?;
            Ok((duration_ns(a)?, duration_ns(b)?))
        };
        match model.trim() {
            "none" if rest.is_empty() => Ok(Self::None),
            "const" => Ok(Self::Constant { ns: duration_ns(rest)? }),
            "exp" => Ok(Self::Exponential { mean_ns: duration_ns(rest)? }),
            "bimodal" => {
                let (share, times) = rest
                    .split_once(':')
                    .ok_or_else(|| format!("`{text}` should be bimodal:P:A/B"))?;
                let share: f64 =
                    share.parse().map_err(|_| format!("`{share}` is not a probability"))?;
                if !(0.0..=1.0).contains(&share) {
                    return Err(format!("probability {share} is not within 0 and 1"));
                }
                let (first_ns, second_ns) = pair(times)?;
                Ok(Self::Bimodal { share, first_ns, second_ns })
            }
            "step" => {
                let (times, at) =
                    rest.split_once('@').ok_or_else(|| format!("`{text}` should be step:A/B@T"))?;
                let (before_ns, after_ns) = pair(times)?;
                Ok(Self::Step { before_ns, after_ns, at_ns: duration_ns(at)? })
            }
            _ => Err(format!(
                "latency `{text}` is none of none, const:T, bimodal:P:A/B, step:A/B@T, exp:T"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn draws(model: &str, seed: u64, n: u64) -> Vec<u64> {
        let model: Latency = model.parse().unwrap();
        let mut rng = Rng::new(seed);
        (0..n).map(|i| model.draw(i, &mut rng)).collect()
    }

    #[test]
    fn constant_and_step_know_no_chance() {
        assert!(draws("const:300us", 1, 100).iter().all(|&ns| ns == 300_000));
        let step: Latency = "step:500us/1500us@6s".parse().unwrap();
        let mut rng = Rng::new(1);
        assert_eq!(step.draw(5_999_999_999, &mut rng), 500_000);
        assert_eq!(step.draw(6_000_000_000, &mut rng), 1_500_000);
    }

    #[test]
    fn bimodal_keeps_its_share() {
        let all = draws("bimodal:0.995:300us/5ms", 7, 100_000);
        let slow = all.iter().filter(|&&ns| ns == 5_000_000).count();
        assert_eq!(slow + all.iter().filter(|&&ns| ns == 300_000).count(), all.len());
        // 500 expected, standard deviation 22: the bounds are five deviations on each side.
        assert!((390..610).contains(&slow), "{slow}");
        assert!(draws("bimodal:1:1us/2us", 7, 1000).iter().all(|&ns| ns == 1000));
        assert!(draws("bimodal:0:1us/2us", 7, 1000).iter().all(|&ns| ns == 2000));
    }

    #[test]
    fn exponential_has_its_mean_and_its_median() {
        let mut all = draws("exp:300us", 3, 100_000);
        all.sort_unstable();
        let mean = all.iter().sum::<u64>() as f64 / all.len() as f64;
        let median = all[all.len() / 2] as f64;
        assert!((mean / 300e3 - 1.0).abs() < 0.02, "{mean}");
        assert!((median / (300e3 * std::f64::consts::LN_2) - 1.0).abs() < 0.03, "{median}");
    }

    #[test]
    fn one_seed_is_one_sequence() {
        assert_eq!(draws("exp:1ms", 5, 50), draws("exp:1ms", 5, 50));
        assert_ne!(draws("exp:1ms", 5, 50), draws("exp:1ms", 6, 50));
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [
            "",
            "const",
            "const:3",
            "bimodal:1ms/2ms",
            "bimodal:1.5:1ms/2ms",
            "bimodal:NaN:1ms/2ms",
            "step:1ms/2ms",
            "gauss:1ms",
            "none:1ms",
        ] {
            assert!(bad.parse::<Latency>().is_err(), "{bad}");
        }
    }
}
