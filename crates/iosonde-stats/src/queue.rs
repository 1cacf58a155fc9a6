//! Which simple queue behaves like this device? Models of throughput over depth, the simplest
//! first.
//!
//! - **Bounds** of any closed loop: X(N) ≤ min(N / R0, X_max), R(N) ≥ max(R0, N / X_max). A point
//!   above them is an error of measurement, or a cache.
//! - **Balanced dies**: D equal servers, each request to one of them at random and all of
//!   exponential service: X(N) = X_max N / (N + D - 1) (the balanced closed network; Lazowska et
//!   al., "Quantitative System Performance", 1984). Typical of random reads of flash dies.
//! - **M/M/c**: one queue before c servers, Erlang's C formula. It is a model of open arrivals; for
//!   a closed loop the arrival rate is taken at which N requests are in the system on average,
//!   λ R(λ) = N. That is an approximation: the population of a closed loop does not vary.
//! - **USL**, where throughput really falls ([`super::usl`]).
//!
//! Each has one shape parameter and one scale parameter (USL has two of shape). The first model
//! whose residuals are all within 10 % is the answer; if there is none, no simple queue model fits,
//! which is reported too. No model is valid for depths above the largest one measured.

use super::ratio::median;
use super::summary::is_positive;
use super::usl::{self, Usl};

/// Largest residual of a model that fits.
pub const FITS_WITHIN: f64 = 0.10;
/// Excess over the bound from which a point is reported as above it.
pub const ABOVE_BOUND_FROM: f64 = 0.05;
/// Levels below which no model is fitted.
pub const FEWEST_LEVELS: usize = 4;
/// Largest number of servers tried in M/M/c.
const MOST_SERVERS: usize = 4_096;
/// Grid points of a shape parameter, before refinement.
const PLACES: usize = 200;

/// Probability that a request waits in M/M/c at `load` = λ S (Erlang C, by the recursion of Erlang
/// B); `None` unless `load` is below `servers`.
pub fn erlang_c(servers: usize, load: f64) -> Option<f64> {
    let rho = load / servers as f64;
    if servers == 0 || !(0.0..1.0).contains(&rho) {
        return None;
    }
    let blocked = (1..=servers).fold(1.0, |b, k| load * b / (k as f64 + load * b));
    Some(blocked / (1.0 - rho * (1.0 - blocked)))
}

/// Mean response time of M/M/c.
pub fn mmc_response(servers: usize, service: f64, rate: f64) -> Option<f64> {
    let load = rate * service;
    let waits = erlang_c(servers, load)?;
    Some(service + waits * service / (servers as f64 - load))
}

/// Throughput of M/M/c at which `n` requests are in the system on average.
pub fn mmc_rate(servers: usize, service: f64, n: f64) -> f64 {
    let (mut low, mut high) = (0.0, servers as f64 / service);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        let inside = mmc_response(servers, service, middle).map(|response| middle * response);
        if inside.is_some_and(|inside| inside < n) { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Throughput of `dies` equal servers hit at random by `n` requests.
pub fn dies_rate(dies: f64, most: f64, n: f64) -> f64 {
    most * n / (n + dies - 1.0)
}

/// A model that was fitted.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// A linear rise, then a plateau.
    Bounds {
        /// Response time below saturation.
        base_response: f64,
        /// Greatest throughput; `None` if the sweep does not reach it.
        most: Option<f64>,
    },
    /// Equal servers hit at random.
    BalancedDies {
        /// Number of dies.
        dies: f64,
        /// Throughput at unlimited depth.
        most: f64,
    },
    /// One queue before equal servers.
    Mmc {
        /// Number of servers.
        servers: usize,
        /// Mean service time.
        service: f64,
    },
    /// Contention and coherency.
    Usl(Box<Usl>),
}

/// A model and its residuals.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The model with its parameters.
    pub model: Model,
    /// Per level, `(N, residual)`: measured over fitted throughput, minus 1.
    pub residuals: Vec<(f64, f64)>,
    /// Largest absolute residual.
    pub largest_residual: f64,
}

/// The fitted queueing models of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// Index in `tried` of the simplest model whose residuals are all within 10 %; `None` if no
    /// simple queue model fits.
    pub fits: Option<usize>,
    /// Fitted models, the simplest first; none is tried after one that fits.
    pub tried: Vec<Fitted>,
    /// c ≈ X_max · R0, an upper estimate of the parallelism: R0 contains the time of the host.
    pub parallelism: Option<f64>,
    /// Levels more than 5 % above N / R0: `(N, measured over bound)`.
    pub above_bound: Vec<(f64, f64)>,
    /// The models are not valid above this depth.
    pub largest_depth: f64,
}

impl Queue {
    /// The simplest model that fits.
    pub fn best(&self) -> Option<&Fitted> {
        self.tried.get(self.fits?)
    }
}

/// Fits the models to a sweep, `(N, throughputs of the repeats)`. `base_response` is the mean
/// response time at depth 1; if `None`, 1 / X(1) is used. `None` for fewer than [`FEWEST_LEVELS`]
/// levels, or if a throughput is not a positive number.
pub fn fit(levels: &[usl::Level], base_response: Option<f64>, seed: u64) -> Option<Queue> {
    let sound = |(_, rates): &usl::Level| rates.iter().all(is_positive);
    if levels.len() < FEWEST_LEVELS || !levels.iter().all(sound) {
        return None;
    }
    let mut points: Vec<(f64, f64)> =
        levels.iter().map(|(n, rates)| Some((*n, median(rates)?))).collect::<Option<_>>()?;
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at_one = points.first().filter(|(n, _)| *n == 1.0).map(|(_, rate)| rate.recip());
    let base = base_response.filter(is_positive).or(at_one);
    let most = points.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let ratio = |base: f64| points.iter().map(move |(n, rate)| (*n, rate * base / n));
    let above = base.map(|base| ratio(base).filter(|(_, ratio)| *ratio > 1.0 + ABOVE_BOUND_FROM));
    let mut queue = Queue {
        fits: None,
        tried: Vec::new(),
        parallelism: base.map(|base| most * base),
        above_bound: above.map(Iterator::collect).unwrap_or_default(),
        largest_depth: points.last()?.0,
    };
    let scalability_law = || {
        let law = usl::usl(levels, seed).ok()?;
        Some(Fitted::new(law.residuals.clone(), Model::Usl(Box::new(law))))
    };
    let laws: [&dyn Fn() -> Option<Fitted>; 4] = [
        &|| Some(bounds(&points)),
        &|| Some(balanced_dies(&points)),
        &|| Some(mmc(&points)),
        &scalability_law,
    ];
    for fitted in laws.into_iter().filter_map(|law| law()) {
        let fits = fitted.largest_residual <= FITS_WITHIN;
        queue.tried.push(fitted);
        if fits {
            queue.fits = Some(queue.tried.len() - 1);
            break;
        }
    }
    Some(queue)
}

impl Fitted {
    fn new(residuals: Vec<(f64, f64)>, model: Model) -> Fitted {
        let largest = residuals.iter().map(|(_, residual)| residual.abs()).fold(0.0, f64::max);
        Fitted { model, residuals, largest_residual: largest }
    }
}

/// A shape times a scale, fitted in log X: the log of the best scale is the mean of log(X / shape).
struct Scaled {
    scale: f64,
    residuals: Vec<(f64, f64)>,
    error: f64,
}

fn scaled(points: &[(f64, f64)], shape: impl Fn(f64) -> f64) -> Scaled {
    let left: Vec<(f64, f64)> =
        points.iter().map(|(n, rate)| (*n, (rate / shape(*n)).ln())).collect();
    let mean = left.iter().map(|(_, left)| left).sum::<f64>() / left.len() as f64;
    let error = left.iter().map(|(_, left)| (left - mean).powi(2)).sum();
    let residuals = left.iter().map(|(n, left)| (*n, (left - mean).exp() - 1.0)).collect();
    Scaled { scale: mean.exp(), residuals, error }
}

/// The shape parameter of least error, from 1 to four times the largest depth: a grid of equal
/// ratios, then golden-section search between the neighbours of the best.
fn best_shape(points: &[(f64, f64)], shape: impl Fn(f64, f64) -> f64) -> f64 {
    let error = |log: f64| scaled(points, |n| shape(log.exp(), n)).error;
    let width = (4.0 * points.last().map_or(1.0, |(n, _)| *n)).ln() / PLACES as f64;
    let places = (0..=PLACES).map(|place| place as f64 * width);
    let best = places.min_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap_or(0.0);
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    let (mut low, mut high) = ((best - width).max(0.0), best + width);
    for _ in 0..40 {
        let (left, right) = (high - golden * (high - low), low + golden * (high - low));
        if error(left) < error(right) { high = right } else { low = left }
    }
    ((low + high) / 2.0).exp()
}

fn bounds(points: &[(f64, f64)]) -> Fitted {
    let shape = |servers: f64, n: f64| n.min(servers);
    let servers = best_shape(points, shape);
    let fit = scaled(points, |n| shape(servers, n));
    let reached = points.last().is_some_and(|(n, _)| servers < *n);
    let most = reached.then_some(fit.scale * servers);
    Fitted::new(fit.residuals, Model::Bounds { base_response: fit.scale.recip(), most })
}

fn balanced_dies(points: &[(f64, f64)]) -> Fitted {
    let shape = |dies: f64, n: f64| dies_rate(dies, 1.0, n);
    let dies = best_shape(points, shape);
    let fit = scaled(points, |n| shape(dies, n));
    Fitted::new(fit.residuals, Model::BalancedDies { dies, most: fit.scale })
}

fn mmc(points: &[(f64, f64)]) -> Fitted {
    // The number of servers is whole: also try both neighbours.
    let servers = best_shape(points, |servers, n| mmc_rate(whole(servers), 1.0, n));
    let near = [whole(servers) - 1, whole(servers), whole(servers) + 1];
    let fits = near.into_iter().filter(|servers| *servers > 0).map(|servers| {
        let fit = scaled(points, |n| mmc_rate(servers, 1.0, n));
        (servers, fit)
    });
    let best = fits.min_by(|(_, a), (_, b)| a.error.total_cmp(&b.error));
    let (servers, fit) = best.unwrap_or((1, scaled(points, |n| mmc_rate(1, 1.0, n))));
    Fitted::new(fit.residuals, Model::Mmc { servers, service: fit.scale.recip() })
}

fn whole(servers: f64) -> usize {
    (servers.round() as usize).clamp(1, MOST_SERVERS)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const DEPTHS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

    fn sweep(shape: impl Fn(f64) -> f64) -> Vec<usl::Level> {
        DEPTHS.map(|n| (n, vec![shape(n) * 0.99, shape(n), shape(n) * 1.01])).to_vec()
    }

    #[test]
    fn queues_of_the_textbooks() {
        // One server waits with probability rho; two with rho = 0.5: 1 / 3.
        assert!((erlang_c(1, 0.7).unwrap() - 0.7).abs() < 1e-12);
        assert!((erlang_c(2, 1.0).unwrap() - 1.0 / 3.0).abs() < 1e-12);
        // Ten servers at a load of 8: the tables say 0.409.
        assert!((erlang_c(10, 8.0).unwrap() - 0.4092).abs() < 1e-4);
        // M/M/1: the service time over 1 - rho.
        assert_eq!(mmc_response(1, 2.0, 0.25), Some(4.0));
        assert_eq!(erlang_c(4, 4.0), None);
        // One server: N = rho / (1 - rho).
        assert!((mmc_rate(1, 1.0, 3.0) - 0.75).abs() < 1e-9);
    }

    #[test]
    fn each_shape_is_known_by_its_own_model() {
        let queue = fit(&sweep(|n| 1_000.0 * n.min(8.0)), None, 1).unwrap();
        let Model::Bounds { base_response, most } = queue.best().unwrap().model else {
            panic!("{queue:?}")
        };
        assert!((base_response / 1e-3 - 1.0).abs() < 0.01);
        assert!((most.unwrap() / 8_000.0 - 1.0).abs() < 0.01);
        assert!((queue.parallelism.unwrap() - 8.0).abs() < 1e-9);

        let queue = fit(&sweep(|n| dies_rate(16.0, 80_000.0, n)), None, 1).unwrap();
        let Model::BalancedDies { dies, most } = queue.best().unwrap().model else {
            panic!("{queue:?}")
        };
        assert!((dies - 16.0).abs() < 0.01 && (most / 80_000.0 - 1.0).abs() < 1e-3);
        assert!(queue.tried[0].largest_residual > FITS_WITHIN);

        let fall = |n: f64| n / (1.0 + 0.07 * (n - 1.0) + 0.0008 * n * (n - 1.0));
        let queue = fit(&sweep(fall), None, 1).unwrap();
        let Model::Usl(law) = &queue.best().unwrap().model else { panic!("{queue:?}") };
        assert!((law.optimum - 34.1).abs() < 0.1);
        assert_eq!(queue.tried.len(), 4);
    }

    #[test]
    fn servers_behind_one_queue_are_counted() {
        for servers in [1, 3, 12] {
            let points = DEPTHS.map(|n| (n, mmc_rate(servers, 1e-3, n)));
            let fitted = mmc(&points);
            let Model::Mmc { servers: found, service } = fitted.model else { panic!() };
            assert!(found == servers && (service / 1e-3 - 1.0).abs() < 1e-6, "{found}, {service}");
            assert!(fitted.largest_residual < 1e-6);
        }
    }

    #[test]
    fn a_straight_line_has_no_greatest_throughput() {
        let queue = fit(&sweep(|n| 100.0 * n), None, 1).unwrap();
        let Model::Bounds { most, .. } = queue.best().unwrap().model else { panic!("{queue:?}") };
        assert_eq!(most, None);
        assert_eq!(queue.largest_depth, 256.0);
    }

    #[test]
    fn a_dent_in_the_middle_fits_nothing() {
        let dent = |n: f64| n.min(32.0) * if n == 8.0 { 0.5 } else { 1.0 };
        let queue = fit(&sweep(dent), None, 1).unwrap();
        assert_eq!((queue.fits, queue.best()), (None, None));
        assert_eq!(queue.tried.len(), 3);
    }

    #[test]
    fn what_lies_above_the_bound_is_named() {
        let cached = |n: f64| n.min(8.0) * if n == 4.0 { 1.3 } else { 1.0 };
        let queue = fit(&sweep(cached), Some(1.0), 1).unwrap();
        assert_eq!(queue.above_bound.len(), 1);
        assert!(queue.above_bound[0].0 == 4.0 && (queue.above_bound[0].1 - 1.3).abs() < 1e-9);
        assert_eq!(fit(&sweep(cached)[..3], None, 1), None);
        assert_eq!(fit(&sweep(|_| 0.0), None, 1), None);
    }
}
