//! F2: does a flush take longer, the more was written before it?

use serde::Serialize;

use super::{Rung, Strength, signed};
use iosonde_model::plan::ladder::{Call, FEWEST_LEVELS, FEWEST_ROUNDS};
use iosonde_model::record::LadderRun;
use iosonde_model::units::{bytes, duration};
use iosonde_stats::Slope;
use iosonde_stats::ratio::median;

/// Bytes per second at which no drive empties its cache to its medium: growth that such a speed
/// explains is none.
const FASTEST_BYTES_PER_S: f64 = 10e9;

/// What the slope means.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "reason")]
pub enum Growth {
    /// The interval of the slope lies above zero.
    Proportional,
    /// The interval leaves no room for a medium's work.
    Flat,
    /// The noise leaves room for either.
    Undecided,
    /// There is no slope.
    Unknown(String),
}

/// The slope in ns per byte over whole rounds, of levels with data: with nothing to flush, a file
/// system may leave out the flush itself.
pub(super) fn growth(run: &LadderRun) -> (Option<Slope>, Growth) {
    let levels = run.plan.levels.iter().filter(|level| **level > 0).count();
    let rounds: Vec<Vec<(f64, f64)>> = (0..run.plan.rounds)
        .map(|round| points(run, round))
        .filter(|points| points.len() == levels)
        .collect();
    let slope = Slope::in_rounds(&rounds);
    let growth = if levels < FEWEST_LEVELS {
        Growth::Unknown(format!("{levels} of at least {FEWEST_LEVELS} levels fit the size"))
    } else if rounds.len() < FEWEST_ROUNDS as usize {
        Growth::Unknown(format!("{} of at least {FEWEST_ROUNDS} rounds were done", rounds.len()))
    } else {
        match slope.and_then(|slope| slope.interval) {
            None => Growth::Unknown("there are too few pairs of levels".into()),
            Some((_, high)) if high * FASTEST_BYTES_PER_S < 1e9 => Growth::Flat,
            Some((low, _)) if low > 0.0 => Growth::Proportional,
            Some(_) => Growth::Undecided,
        }
    };
    (slope, growth)
}

fn points(run: &LadderRun, round: u32) -> Vec<(f64, f64)> {
    let of_it = run.samples.iter().filter(|sample| sample.round == round);
    of_it
        .filter(|sample| sample.call == Call::Fdatasync && sample.dirty_bytes > 0)
        .map(|sample| (sample.dirty_bytes as f64, sample.sync_ns as f64))
        .collect()
}

/// The statement. Where it is known that no flush is sent, none has a latency.
pub(super) fn rung(
    run: &LadderRun,
    slope: Option<&Slope>,
    growth: &Growth,
    none_sent: bool,
) -> Rung {
    if none_sent && run.plan.direct {
        let words = "not available: no flush is sent, so that none has a latency";
        return Rung::silent("F2", words);
    }
    let (slope, interval) = match (growth, slope, slope.and_then(|slope| slope.interval)) {
        (Growth::Unknown(reason), ..) => {
            return Rung::silent("F2", format!("not available: {reason}"));
        }
        (_, Some(slope), Some(interval)) => (slope, interval),
        _ => return Rung::silent("F2", "not available: there is no slope"),
    };
    let per_mib = |slope: f64| signed(slope * f64::from(1 << 20));
    let told = format!(
        "{} per MiB [{}, {}]",
        per_mib(slope.median),
        per_mib(interval.0),
        per_mib(interval.1)
    );
    let times = run.samples.iter().filter(|s| s.call == Call::Fdatasync && s.dirty_bytes > 0);
    let times: Vec<f64> = times.map(|sample| sample.sync_ns as f64).collect();
    let usual = duration::latency(median(&times).unwrap_or_default());
    let (strength, words) = match (growth, run.plan.direct) {
        (Growth::Proportional, true) => (
            Strength::Supported,
            format!(
                "flush does work proportional to data: {told}, as if written at {}",
                bytes::per_second(1e9 / slope.median)
            ),
        ),
        (Growth::Proportional, false) => (
            Strength::ConsistentWith,
            format!(
                "fsync does work proportional to data: {told}; that includes writing back the page \
                 cache and says nothing of the device's own cache"
            ),
        ),
        (Growth::Flat, true) => (
            Strength::ConsistentWith,
            format!(
                "flush is flat at {usual} ({told}): a protected cache, one that empties as fast as \
                 it is filled, or flushes are ignored"
            ),
        ),
        (Growth::Flat, false) => (
            Strength::Supported,
            format!(
                "fsync is flat at {usual} ({told}) though the page cache had to be written back \
                 first: it does not wait for that"
            ),
        ),
        (Growth::Undecided | Growth::Unknown(_), _) => {
            let words = format!(
                "not available: the noise hides it ({told}); more --samples narrow the interval"
            );
            return Rung::silent("F2", words);
        }
    };
    Rung::stating("F2", strength, words)
}

#[cfg(test)]
mod tests {
    use super::super::ladder;
    use super::*;
    use iosonde_fixtures::ladder::Model;

    #[track_caller]
    fn expect(model: &Model, strength: Option<Strength>, start: &str) {
        let told = ladder(&model.run());
        let rung = told.rungs.iter().find(|rung| rung.code == "F2");
        let found = rung.map(|rung| (rung.strength, rung.words.as_str()));
        assert!(found.is_some_and(|(s, w)| s == strength && w.starts_with(start)), "{found:?}");
    }

    #[test]
    fn work_that_grows_with_the_data_is_seen() {
        // 0.5 ns per byte: a cache that empties at 2 GB/s.
        expect(&Model::honest(), Some(Strength::Supported), "flush does work proportional to data");
        let buffered = Model { direct: false, ..Model::honest() };
        expect(&buffered, Some(Strength::ConsistentWith), "fsync does work proportional to data");
    }

    #[test]
    fn a_flat_flush_is_told_as_what_it_may_be() {
        let flat = Model { ns_per_byte: 0.0, ..Model::honest() };
        expect(&flat, Some(Strength::ConsistentWith), "flush is flat at ");
        // Growth that no medium could explain is none.
        let faint = Model { ns_per_byte: 0.01, ..Model::honest() };
        expect(&faint, Some(Strength::ConsistentWith), "flush is flat at ");
        let buffered = Model { direct: false, ns_per_byte: 0.0, ..Model::honest() };
        expect(&buffered, Some(Strength::Supported), "fsync is flat at ");
    }

    #[test]
    fn noise_is_no_statement() {
        let noisy = Model { ns_per_byte: 0.0, noise: 50.0, ..Model::honest() };
        expect(&noisy, None, "not available: the noise hides it");
    }

    #[test]
    fn two_levels_are_no_slope() {
        let small = Model { span_bytes: 2 << 20, ..Model::honest() };
        expect(&small, None, "not available: 2 of at least 3 levels fit the size");
    }

    #[test]
    fn an_interrupted_climb_says_how_far_it_came() {
        let model = Model { rounds: 20, ..Model::honest() };
        let mut run = model.run();
        run.samples.truncate(run.samples.len() - 1);
        let told = ladder(&run);
        let words = told.rungs.iter().find(|rung| rung.code == "F2").map(|rung| &*rung.words);
        assert_eq!(words, Some("not available: 19 of at least 20 rounds were done"));
    }

    #[test]
    fn a_drift_of_the_whole_device_is_no_slope() {
        let drifting = Model { ns_per_byte: 0.0, drift: 1e6, ..Model::honest() };
        expect(&drifting, Some(Strength::ConsistentWith), "flush is flat at ");
    }
}
