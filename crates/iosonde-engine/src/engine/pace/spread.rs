//! Distributions of the distances between due times: even, exponential, from a table, in bursts.

use iosonde_model::plan::Arrivals;
use iosonde_model::plan::chance::Chance;

/// Distribution of the distances between due times.
#[derive(Debug)]
pub(super) enum Spread {
    Even,
    Exponential,
    Drawn(Table),
    /// Bursts of requests, with distances within a burst and between bursts.
    Bursts {
        requests: Table,
        within: Table,
        between: Table,
        /// Requests of the burst after the one that is due.
        left: u64,
    },
}

/// Bounds and values: a draw from [0, 1) has the value of the first bound above it.
#[derive(Debug)]
pub(super) struct Table(Box<[(f64, f64)]>);

impl Table {
    /// A table of values divided by `unit`.
    fn new(table: &[(u64, f64)], unit: f64) -> Table {
        let whole: f64 = table.iter().map(|(_, percent)| percent).sum();
        let mut below = 0.0;
        let bounds = table.iter().map(|(value, percent)| {
            below += percent / whole;
            (below, *value as f64 / unit)
        });
        Table(bounds.collect())
    }

    /// Mean of this part of the table; 0 for an empty part.
    pub(super) fn mean(&self, (from, to): (f64, f64)) -> f64 {
        let mut below = 0.0;
        let sum: f64 = self
            .0
            .iter()
            .map(|(next, value)| {
                let share = (next.min(to) - f64::max(below, from)).max(0.0);
                below = *next;
                share * value
            })
            .sum();
        sum / (to - from).max(f64::MIN_POSITIVE)
    }

    /// Draws a value from this part of the table, which reaches from 0 to 1.
    fn draw(&self, chance: &mut Chance, (from, to): (f64, f64)) -> f64 {
        let draw = from + chance.unit() * (to - from);
        let found = self.0.iter().find(|(below, _)| draw < *below).or(self.0.last());
        found.map_or(1.0, |(_, value)| *value)
    }
}

/// The whole table.
pub(super) const WHOLE: (f64, f64) = (0.0, 1.0);

impl Spread {
    pub(super) fn new(arrivals: &Arrivals, ascending: bool) -> Spread {
        let in_order = |table: &[(u64, f64)]| {
            let mut table = table.to_vec();
            if ascending {
                table.sort_by_key(|(ns, _)| *ns);
            }
            table
        };
        match arrivals {
            Arrivals::Constant => Spread::Even,
            Arrivals::Poisson => Spread::Exponential,
            Arrivals::Drawn(table) => {
                Spread::Drawn(Table::new(&in_order(table), Arrivals::mean(table)))
            }
            Arrivals::Bursts(bursts) => {
                let mean_ns = bursts.mean_ns();
                Spread::Bursts {
                    requests: Table::new(&bursts.requests, 1.0),
                    within: Table::new(&bursts.within, mean_ns),
                    between: Table::new(&in_order(&bursts.between), mean_ns),
                    left: 0,
                }
            }
        }
    }

    /// The next distance, as a multiple of the mean; from this part of a table.
    pub(super) fn draw(&mut self, chance: &mut Chance, part: (f64, f64)) -> f64 {
        match self {
            Spread::Even => 1.0,
            // 1 - U lies in (0, 1], so the logarithm is finite.
            Spread::Exponential => -(1.0 - chance.unit()).ln(),
            Spread::Drawn(table) => table.draw(chance, part),
            Spread::Bursts { within, left, .. } if *left > 0 => {
                *left -= 1;
                within.draw(chance, WHOLE)
            }
            Spread::Bursts { requests, between, left, .. } => {
                *left = (requests.draw(chance, WHOLE) as u64).saturating_sub(1);
                between.draw(chance, part)
            }
        }
    }
}
