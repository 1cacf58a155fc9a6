//! How the distances of due times scatter: evenly, by a law, from a table, in bursts.

use iosonde_model::plan::Arrivals;
use iosonde_model::plan::chance::Chance;

/// How the distances of due times scatter around their mean.
#[derive(Debug)]
pub(super) enum Spread {
    Even,
    Exponential,
    Drawn(Table),
    /// So many requests with the distances of the one table, then one of the other.
    Bursts {
        requests: Table,
        within: Table,
        between: Table,
        /// How many of the burst follow the operation that is due.
        left: u64,
    },
}

/// A draw from [0, 1) below the bound, and not below the one before, has this value.
#[derive(Debug)]
pub(super) struct Table(Box<[(f64, f64)]>);

impl Table {
    /// Values in these units.
    fn new(table: &[(u64, f64)], unit: f64) -> Table {
        let whole: f64 = table.iter().map(|(_, percent)| percent).sum();
        let mut below = 0.0;
        let bounds = table.iter().map(|(value, percent)| {
            below += percent / whole;
            (below, *value as f64 / unit)
        });
        Table(bounds.collect())
    }

    /// The mean of this part of the table; 0 of an empty one.
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

    /// A value from this part of the table, of its whole from 0 to 1.
    fn draw(&self, chance: &mut Chance, (from, to): (f64, f64)) -> f64 {
        let draw = from + chance.unit() * (to - from);
        let found = self.0.iter().find(|(below, _)| draw < *below).or(self.0.last());
        found.map_or(1.0, |(_, value)| *value)
    }
}

/// All of a table.
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

    /// The next distance, in means; of a table, from this part.
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
