//! F2: does a flush take longer, the more was written before it?

use serde::Serialize;

use super::{LadderTest, Strength, signed};
use iosonde_model::plan::ladder::{Call, FEWEST_LEVELS, FEWEST_ROUNDS};
use iosonde_model::record::LadderRun;
use iosonde_model::record::ladder::SyncSample;
use iosonde_model::units::{bytes, duration};
use iosonde_stats::Slope;
use iosonde_stats::ratio::median;

/// Bytes per second above the speed at which any drive writes its cache to the medium. Growth
/// that corresponds to a higher speed counts as none.
const FASTEST_BYTES_PER_S: f64 = 10e9;

/// The interpretation of the slope.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "reason")]
pub enum Growth {
    /// The interval of the slope lies above zero.
    Proportional,
    /// The interval excludes a flush time proportional to the amount of data.
    Flat,
    /// The interval allows both.
    Undecided,
    /// There is no slope, for this reason.
    Unknown(String),
}

/// The slope in ns per byte over complete rounds. Levels without data are excluded: a file system
/// may omit the flush if there is nothing to flush.
pub(super) fn growth(run: &LadderRun) -> (Option<Slope>, Growth) {
    let levels = run.plan.levels.iter().filter(|level| **level > 0).count();
    let rounds = (0..run.plan.rounds).map(|round| points(run, round));
    let rounds: Vec<_> = rounds.filter(|points| points.len() == levels).collect();
    let slope = Slope::in_rounds(&rounds);
    let growth = if levels < FEWEST_LEVELS {
        Growth::Unknown(format!(
            "{levels} levels fit the size, at least {FEWEST_LEVELS} are \
            needed"
        ))
    } else if rounds.len() < FEWEST_ROUNDS as usize {
        Growth::Unknown(format!(
            "{} rounds completed, at least {FEWEST_ROUNDS} are needed",
            rounds.len()
        ))
    } else {
        match slope.and_then(|slope| slope.interval) {
            None => Growth::Unknown("too few pairs of levels".into()),
            Some((_, high)) if high * FASTEST_BYTES_PER_S < 1e9 => Growth::Flat,
            Some((low, _)) if low > 0.0 => Growth::Proportional,
            Some(_) => Growth::Undecided,
        }
    };
    (slope, growth)
}

fn points(run: &LadderRun, round: u32) -> Vec<(f64, f64)> {
    let own = syncs(run).filter(|sample| sample.round == round);
    own.map(|sample| (sample.dirty_bytes as f64, sample.sync_ns as f64)).collect()
}

/// The fdatasync calls after writes.
fn syncs(run: &LadderRun) -> impl Iterator<Item = &SyncSample> {
    run.samples.iter().filter(|sample| sample.call == Call::Fdatasync && sample.dirty_bytes > 0)
}

/// The statement of F2. With direct I/O and no flush sent, there is no flush latency.
pub(super) fn ladder_test(
    run: &LadderRun,
    slope: Option<&Slope>,
    growth: &Growth,
    none_sent: bool,
) -> LadderTest {
    if none_sent && run.plan.direct {
        let words = "not available: no flush is sent, so there is no flush latency";
        return LadderTest::silent("F2", words);
    }
    let (slope, interval) = match (growth, slope, slope.and_then(|slope| slope.interval)) {
        (Growth::Unknown(reason), ..) => {
            return LadderTest::silent("F2", format!("not available: {reason}"));
        }
        (_, Some(slope), Some(interval)) => (slope, interval),
        _ => return LadderTest::silent("F2", "not available: there is no slope"),
    };
    let per_mib = |slope: f64| signed(slope * f64::from(1 << 20));
    let outcome = format!(
        "{} per MiB [{}, {}]",
        per_mib(slope.median),
        per_mib(interval.0),
        per_mib(interval.1)
    );
    let times: Vec<f64> = syncs(run).map(|sample| sample.sync_ns as f64).collect();
    let usual = duration::latency(median(&times).unwrap_or_default());
    let (strength, words) = match (growth, run.plan.direct) {
        (Growth::Proportional, true) => (
            Strength::Supported,
            format!(
                "flush time is proportional to the amount of data: {outcome}, which corresponds \
                 to {}",
                bytes::per_second(1e9 / slope.median)
            ),
        ),
        (Growth::Proportional, false) => (
            Strength::ConsistentWith,
            format!(
                "fsync time is proportional to the amount of data: {outcome}; this includes \
                 write-back of the page cache and says nothing about the device's own cache"
            ),
        ),
        (Growth::Flat, true) => (
            Strength::ConsistentWith,
            format!(
                "flush is flat at {usual} ({outcome}): a cache protected against power loss, a \
                 cache that drains as fast as it fills, or flushes are ignored"
            ),
        ),
        (Growth::Flat, false) => (
            Strength::Supported,
            format!(
                "fsync is flat at {usual} ({outcome}) although the page cache has to be written \
                 back first: fsync does not wait for that"
            ),
        ),
        (Growth::Undecided | Growth::Unknown(_), _) => {
            let words = format!(
                "not available: lost in the noise ({outcome}); more --samples narrow the interval"
            );
            return LadderTest::silent("F2", words);
        }
    };
    LadderTest::stating("F2", strength, words)
}

#[cfg(test)]
mod tests {
    use super::super::ladder;
    use super::*;
    use iosonde_fixtures::ladder::Model;

    #[track_caller]
    fn expect(model: &Model, strength: Option<Strength>, start: &str) {
        let outcome = ladder(&model.run());
        let ladder_test = outcome.ladder_tests.iter().find(|ladder_test| ladder_test.code == "F2");
        let found =
            ladder_test.map(|ladder_test| (ladder_test.strength, ladder_test.words.as_str()));
        assert!(found.is_some_and(|(s, w)| s == strength && w.starts_with(start)), "{found:?}");
    }

    #[test]
    fn work_that_grows_with_the_data_is_seen() {
        // 0.5 ns per byte: a cache that drains at 2 GB/s.
        expect(
            &Model::honest(),
            Some(Strength::Supported),
            "flush time is proportional to the \
            amount of data",
        );
        let buffered = Model { direct: false, ..Model::honest() };
        expect(
            &buffered,
            Some(Strength::ConsistentWith),
            "fsync time is proportional to the \
            amount of data",
        );
    }

    #[test]
    fn a_flat_flush_is_reported_as_what_it_may_be() {
        let flat = Model { ns_per_byte: 0.0, ..Model::honest() };
        expect(&flat, Some(Strength::ConsistentWith), "flush is flat at ");
        // Growth faster than any medium counts as none.
        let faint = Model { ns_per_byte: 0.01, ..Model::honest() };
        expect(&faint, Some(Strength::ConsistentWith), "flush is flat at ");
        let buffered = Model { direct: false, ns_per_byte: 0.0, ..Model::honest() };
        expect(&buffered, Some(Strength::Supported), "fsync is flat at ");
    }

    #[test]
    fn noise_is_no_statement() {
        let noisy = Model { ns_per_byte: 0.0, noise: 50.0, ..Model::honest() };
        expect(&noisy, None, "not available: lost in the noise");
    }

    #[test]
    fn two_levels_are_no_slope() {
        let small = Model { span_bytes: 2 << 20, ..Model::honest() };
        expect(&small, None, "not available: 2 levels fit the size, at least 3 are needed");
    }

    #[test]
    fn an_interrupted_climb_says_how_far_it_came() {
        let model = Model { rounds: 20, ..Model::honest() };
        let mut run = model.run();
        run.samples.truncate(run.samples.len() - 1);
        let outcome = ladder(&run);
        let words = outcome
            .ladder_tests
            .iter()
            .find(|ladder_test| ladder_test.code == "F2")
            .map(|ladder_test| &*ladder_test.words);
        assert_eq!(words, Some("not available: 19 rounds completed, at least 20 are needed"));
    }

    #[test]
    fn a_drift_of_the_whole_device_is_no_slope() {
        let drifting = Model { ns_per_byte: 0.0, drift: 1e6, ..Model::honest() };
        expect(&drifting, Some(Strength::ConsistentWith), "flush is flat at ");
    }
}
