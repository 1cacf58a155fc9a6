//! Ends a run as soon as a figure is known well enough. At the edges of short intervals, each job
//! puts its counts into its own place, and the watching side reads them there. A job only tries the
//! lock of its place, and everything in it is allocated beforehand.

use std::collections::VecDeque;
use std::sync::Mutex;

use super::steer::Lane;
use super::tally::Tally;
use super::window::Window;
use iosonde_model::plan::{
    Direction, Metric, Plan, Precision, PrecisionGoal, Settling, SettlingFigure,
};
use iosonde_model::record::PrecisionRun;
use iosonde_model::record::precision::PrecisionCheck;
use iosonde_stats::Histogram;
use iosonde_stats::dependent::{Batch, Loop};
use iosonde_stats::precision::{Measure, PER_LOOK, Sequential};
use iosonde_stats::settled::Settled;
use iosonde_stats::steady_state::Window as Steady;

/// Looks listed in a record, in addition to the last one.
const MAX_LISTED: usize = 4096;
/// A job that finds its place locked tries again after this long, ns.
const RETRY_NS: u64 = 1_000_000;

/// Counts of a job since the window opened.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// Intervals that have ended.
    edges: u64,
    /// Operations or bytes.
    pub(super) amount: u64,
    pub(super) bytes: u64,
    /// Latencies; in an open loop, response times.
    pub(super) latency: Histogram,
}

/// Where a job puts its sums; empty where nothing reads them.
#[derive(Debug, Default)]
pub(super) struct Place(Option<Mutex<Sums>>);

impl Place {
    pub(super) fn new(plan: &Plan) -> Place {
        let is_asked = plan.until != PrecisionGoal::None;
        Place(is_asked.then(|| Mutex::new(Sums::default())))
    }
}

/// Length of an interval, ns; `u64::MAX` where there are none.
fn interval_ns(plan: &Plan) -> u64 {
    match plan.until {
        PrecisionGoal::None => u64::MAX,
        PrecisionGoal::Known { look_ns, .. } => look_ns / PER_LOOK as u64,
        PrecisionGoal::Steady { round_ns, .. } => round_ns,
        PrecisionGoal::Settled(settling) => settling.interval_ns,
    }
}

/// The job's side.
#[derive(Debug)]
pub(super) struct Post {
    direction: Direction,
    counts_bytes: bool,
    interval_ns: u64,
    open_ns: u64,
    /// When the next interval ends, ns.
    pub(super) next_ns: u64,
}

impl Post {
    /// Puts nothing down before [`Post::begin`].
    pub(super) fn new(plan: &Plan) -> Post {
        let (direction, counts_bytes) = match plan.until {
            PrecisionGoal::None | PrecisionGoal::Steady { .. } | PrecisionGoal::Settled(_) => {
                (Direction::Total, false)
            }
            PrecisionGoal::Known { precision, .. } => {
                (precision.direction, precision.metric == Metric::Bandwidth)
            }
        };
        let interval_ns = interval_ns(plan);
        Post { direction, counts_bytes, interval_ns, open_ns: 0, next_ns: u64::MAX }
    }

    /// Sets when the window opens.
    pub(super) fn begin(&mut self, open_ns: u64) {
        self.open_ns = open_ns;
        self.next_ns = open_ns.saturating_add(self.interval_ns);
    }

    /// Stores the counts in the place, if an interval has ended.
    pub(super) fn put(&mut self, place: &Place, tally: &Tally, now_ns: u64) {
        let Some(place) = place.0.as_ref().filter(|_| now_ns >= self.next_ns) else { return };
        let Ok(mut sums) = place.try_lock() else {
            self.next_ns = now_ns + RETRY_NS;
            return;
        };
        sums.edges = (now_ns - self.open_ns) / self.interval_ns;
        tally.sum_up(self.direction, self.counts_bytes, &mut sums);
        self.next_ns = self.open_ns + (sums.edges + 1) * self.interval_ns;
    }
}

/// Rule by which the run ends.
enum Rule {
    /// The figure is known well enough.
    Known(Sequential),
    /// The last `window` rounds are steady. Each has its rate; `None` if a job was late at its end.
    Steady { rounds: Vec<Option<f64>>, window: usize, range_share: f64, slope_share: f64 },
    /// The figure has settled: its values in the window, and when the first of them may begin, ns
    /// from the opening.
    Settled { settling: Settling, values: VecDeque<f64>, from_ns: u64 },
}

impl Rule {
    fn of(plan: &Plan) -> Option<Rule> {
        match plan.until {
            PrecisionGoal::None => None,
            PrecisionGoal::Known { precision, .. } => {
                let of_loop = Loop::from(plan.jobs.iter().any(|job| {
                    let is_seen = match precision.direction {
                        Direction::Read => job.read_percent > 0,
                        Direction::Write => job.read_percent < 100,
                        Direction::Total => true,
                    };
                    is_seen && job.is_open_loop()
                }));
                Some(Rule::Known(Sequential::new(measure(precision, of_loop), precision.width)))
            }
            PrecisionGoal::Steady { window, range_percent, slope_percent, .. } => {
                Some(Rule::Steady {
                    rounds: Vec::new(),
                    window: window as usize,
                    range_share: range_percent / 100.0,
                    slope_share: slope_percent / 100.0,
                })
            }
            PrecisionGoal::Settled(settling) => Some(Rule::Settled {
                settling,
                values: VecDeque::with_capacity(settling.intervals as usize + 1),
                from_ns: settling.ramp_ns.saturating_sub(plan.warmup_ns),
            }),
        }
    }
}

/// The side that watches.
pub(super) struct Watcher<'a> {
    lanes: &'a [Lane],
    rule: Rule,
    interval_ns: u64,
    open_ns: u64,
    close_ns: u64,
    /// Intervals taken so far.
    edges: u64,
    amount: u64,
    bytes: u64,
    latency: Histogram,
    record: PrecisionRun,
    last: Option<PrecisionCheck>,
}

impl<'a> Watcher<'a> {
    /// `None` where a run ends by its length alone.
    pub(super) fn new(plan: &Plan, lanes: &'a [Lane], start_ns: u64) -> Option<Watcher<'a>> {
        let rule = Rule::of(plan)?;
        let Window { open_ns, close_ns } = Window::planned(plan, start_ns);
        Some(Watcher {
            lanes,
            rule,
            interval_ns: interval_ns(plan),
            open_ns,
            close_ns,
            edges: 0,
            amount: 0,
            bytes: 0,
            latency: Histogram::new(),
            record: PrecisionRun::default(),
            last: None,
        })
    }

    /// When the next interval ends, ns.
    fn next_ns(&self) -> u64 {
        self.open_ns + (self.edges + 1) * self.interval_ns
    }

    /// Time until the next interval ends, ns. Jobs are a moment late at every edge.
    pub(super) fn pause_ns(&self, now_ns: u64) -> u64 {
        self.next_ns().saturating_sub(now_ns).max(RETRY_NS)
    }

    /// Takes in the intervals that have ended. Returns whether the rule is met.
    ///
    /// It waits half an interval for a job that is late because its device does not answer; later
    /// completions belong to a later interval.
    pub(super) fn tick(&mut self, now_ns: u64) -> bool {
        if now_ns < self.next_ns() || self.record.reached {
            return self.record.reached;
        }
        let edges = (now_ns - self.open_ns) / self.interval_ns;
        let edge_ns = self.open_ns + edges * self.interval_ns;
        // The last one may be cut short by the end of the window.
        if edge_ns >= self.close_ns {
            return false;
        }
        let lanes = self.lanes;
        let places = || lanes.iter().filter_map(|lane| lane.place.0.as_ref());
        let is_late = |place: &Mutex<Sums>| place.lock().is_ok_and(|sums| sums.edges < edges);
        if now_ns < edge_ns + self.interval_ns / 2 && places().any(is_late) {
            return false;
        }
        let (mut amount, mut bytes, mut latency) = (0, 0, Histogram::new());
        for sums in places().filter_map(|place| place.lock().ok()) {
            amount += sums.amount;
            bytes += sums.bytes;
            latency.merge(&sums.latency);
        }
        let interval = Batch {
            span_ns: (edges - self.edges) * self.interval_ns,
            amount: amount - self.amount,
            latency: latency.since(&self.latency),
            overflow: latency.overflow() - self.latency.overflow(),
            sum_ns: latency.sum() - self.latency.sum(),
        };
        let passed = edges - self.edges;
        let moved = bytes - self.bytes;
        (self.edges, self.amount, self.bytes, self.latency) = (edges, amount, bytes, latency);
        self.look(interval, moved, passed);
        self.record.reached
    }

    /// Takes in the operations since the last edge, `passed` intervals ago.
    fn look(&mut self, interval: Batch, bytes: u64, passed: u64) {
        match &mut self.rule {
            Rule::Known(sequential) => {
                let Some(look) = sequential.add(interval) else { return };
                self.record.reached = look.is_enough;
                self.list(PrecisionCheck {
                    at_ns: self.edges * self.interval_ns,
                    intervals: u32::try_from(look.intervals).unwrap_or(u32::MAX),
                    value: look.known.map(|known| known.value),
                    half_width: look.known.map(|known| known.half_width),
                    ..PrecisionCheck::default()
                });
            }
            Rule::Steady { rounds, window, range_share, slope_share } => {
                let rate = interval.amount as f64 * 1e9 / interval.span_ns as f64;
                let value = (passed == 1).then_some(rate);
                rounds.extend((0..passed).map(|_| value));
                let last = rounds[rounds.len().saturating_sub(*window)..].iter().copied();
                let last: Option<Vec<f64>> = last.collect();
                let last = last.filter(|last| last.len() == *window);
                self.record.reached = last
                    .and_then(|last| Steady::of(&last))
                    .is_some_and(|found| found.is_steady(*range_share, *slope_share));
                for round in self.edges - passed + 1..=self.edges {
                    let at_ns = round * self.interval_ns;
                    let check = PrecisionCheck { at_ns, intervals: 1, value, ..Default::default() };
                    self.list(check);
                }
            }
            Rule::Settled { settling, values, from_ns } => {
                let at_ns = self.edges * self.interval_ns;
                if at_ns <= *from_ns {
                    return;
                }
                let per_s = |count: u64| count as f64 * 1e9 / interval.span_ns as f64;
                let (iops, bytes_per_s) = (per_s(interval.amount), per_s(bytes));
                let timed: u64 = interval.latency.iter().map(|(_, count)| count).sum();
                let timed = timed + interval.overflow;
                let mean_ns = (timed > 0).then(|| interval.sum_ns as f64 / timed as f64);
                let value = match settling.figure {
                    SettlingFigure::Iops => iops,
                    SettlingFigure::Bandwidth => bytes_per_s,
                    SettlingFigure::Latency => mean_ns.unwrap_or(0.0),
                };
                for _ in 0..passed {
                    values.push_back(value);
                    if values.len() > settling.intervals as usize {
                        values.pop_front();
                    }
                }
                let criterion = Settled::of(values.make_contiguous())
                    .criterion(settling.by_slope, settling.in_percent);
                self.record.reached = values.len() == settling.intervals as usize
                    && criterion.is_some_and(|criterion| criterion.abs() < settling.limit);
                let check = PrecisionCheck {
                    at_ns,
                    intervals: u32::try_from(passed).unwrap_or(u32::MAX),
                    value: Some(iops),
                    half_width: None,
                    bytes_per_s: Some(bytes_per_s),
                    mean_latency_ns: mean_ns,
                };
                // The latest looks matter most.
                if self.record.looks.len() == MAX_LISTED {
                    self.record.looks.remove(0);
                    self.record.unlisted += 1;
                }
                self.record.looks.push(check);
            }
        }
    }

    fn list(&mut self, look: PrecisionCheck) {
        if self.record.looks.len() < MAX_LISTED {
            self.record.looks.push(look);
        } else {
            self.record.unlisted += u64::from(self.last.is_some());
            self.last = Some(look);
        }
    }

    pub(super) fn into_record(mut self) -> PrecisionRun {
        self.record.looks.extend(self.last);
        self.record
    }
}

fn measure(precision: Precision, of_loop: Loop) -> Measure {
    match precision.metric {
        Metric::Quantile(q) => Measure::Quantile(q, of_loop),
        Metric::Mean => Measure::Mean(of_loop),
        // Durable and max are refused: they have no confidence interval.
        Metric::Iops | Metric::Bandwidth | Metric::Durable | Metric::Max => Measure::Rate,
    }
}
