//! How closely a regenerated load matches the recorded one.
//!
//! Each dimension is a dimensionless distance between two distributions, and its score is one minus
//! that distance: the Kolmogorov-Smirnov distance for sizes, depths, inter-arrival times, skew and
//! requests over time; the total variation for the mix; the ratio of the smaller to the larger for
//! single numbers (see [`iosonde_stats::distance`]). The total is the mean over the dimensions for
//! which both have data. Latency is shown but not scored: it is the storage's response to the load
//! and not part of it.

mod dimension;
pub mod observed;
mod streams;

use serde::{Serialize, Serializer};

pub use dimension::word;
use dimension::{
    Scored, by_way, depth, device_rate, flushes, gaps, journal, mix, rate, sequential, sizes, skew,
    syncs, working_set,
};
use iosonde_model::record::profile::Op;
use iosonde_model::spec::Speed;
use iosonde_model::units::count;
use iosonde_stats::Histogram;
use iosonde_stats::distance::likeness;
use observed::{Known, Observed};

/// The score, dimension by dimension.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fidelity {
    /// Mean of the dimensions' scores, `0..=1`; `None` if no dimension has data, or the replay
    /// ended with an error.
    #[serde(rename = "fidelity", serialize_with = "rounded")]
    pub score: Option<f64>,
    /// The error with which the replay ended, if the recording did not end in the same way: what
    /// the replay did until then has no significance.
    #[serde(skip)]
    pub failed: Option<String>,
    /// The dimensions, in a fixed order.
    pub dimensions: Vec<Dimension>,
    /// Latencies, not scored.
    pub latencies: Vec<Latencies>,
    /// Limits of the score, each a sentence.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Dimension {
    /// A stable name (`sizes`).
    pub code: &'static str,
    /// The compared quantity, as text.
    pub title: &'static str,
    /// Method of comparison.
    pub method: &'static str,
    /// One minus the distance; `None` without data.
    #[serde(serialize_with = "rounded")]
    pub score: Option<f64>,
    /// Score of each direction in both loads; empty if directions are not distinguished.
    #[serde(rename = "directions", serialize_with = "by_direction")]
    pub ways: Vec<(Op, f64)>,
    /// Recorded value, as text.
    pub recorded: String,
    /// Regenerated value, as text.
    pub regenerated: String,
    /// Why there is no score; empty if there is one.
    #[serde(serialize_with = "null_if_empty")]
    pub no_data: String,
}

/// Latency of one direction, ns; `None` with fewer than ten requests beyond the percentile.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latencies {
    #[serde(rename = "direction")]
    pub op: Op,
    /// Median and 99th percentile, recorded.
    #[serde(rename = "recorded", serialize_with = "p50_and_p99")]
    pub recorded_ns: [Option<u64>; 2],
    /// Median and 99th percentile, regenerated.
    #[serde(rename = "regenerated", serialize_with = "p50_and_p99")]
    pub regenerated_ns: [Option<u64>; 2],
}

/// Serializes a score with six decimals.
fn rounded<S: Serializer>(
    score: &(impl Copy + Into<Option<f64>>),
    to: S,
) -> Result<S::Ok, S::Error> {
    (*score).into().map(|score| (score * 1e6).round() / 1e6).serialize(to)
}

fn by_direction<S: Serializer>(ways: &[(Op, f64)], to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Way {
        direction: Op,
        #[serde(serialize_with = "rounded")]
        score: f64,
    }
    to.collect_seq(ways.iter().map(|&(direction, score)| Way { direction, score }))
}

fn null_if_empty<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
    (!text.is_empty()).then_some(text).serialize(to)
}

fn p50_and_p99<S: Serializer>(pair: &[Option<u64>; 2], to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Percentiles {
        p50_ns: Option<u64>,
        p99_ns: Option<u64>,
    }
    let [p50_ns, p99_ns] = *pair;
    Percentiles { p50_ns, p99_ns }.serialize(to)
}

/// Lengths that differ by less than this share count as equal.
const SAME_LENGTH: f64 = 0.1;

/// Compares a recorded load with one regenerated at this speed.
pub fn fidelity(recorded: &Observed, regenerated: &Observed, speed: Speed) -> Fidelity {
    let (one, other) = match speed {
        Speed::Times(factor) => (recorded.faster(factor), regenerated),
        Speed::Max => (recorded.clone(), regenerated),
    };
    let timed = |score: fn(&Observed, &Observed) -> Known<Scored>| match speed {
        Speed::Max => Err("replayed without the clock of the recording (--speed max)".to_string()),
        Speed::Times(_) => score(&one, other),
    };
    let ks = "1 - Kolmogorov-Smirnov distance";
    let (ratio, difference) = ("smaller / larger", "1 - difference");
    let largest = "1 - largest difference of the cumulative sums";
    let rates = "device bytes per second, journal included";
    let dimensions = vec![
        dimension("sizes", "request size", ks, by_way(&one, other, sizes)),
        dimension("mix", "reads, writes, discards", "1 - total variation", mix(&one, other)),
        dimension("depth", "queue depth while busy", ks, depth(&one, other)),
        dimension("gaps", "inter-arrival time", ks, timed(|one, other| by_way(one, other, gaps))),
        dimension("sequential", "sequential fraction", difference, by_way(&one, other, sequential)),
        dimension("working_set", "bytes touched", ratio, by_way(&one, other, working_set)),
        dimension("skew", "accesses by region, hot to cold", ks, by_way(&one, other, skew)),
        dimension("syncs", "syncs per write request", ratio, syncs(&one, other)),
        dimension("rate", "requests over time", largest, timed(rate)),
        dimension("device_rate", rates, ratio, timed(device_rate)),
        dimension("flushes", "device flushes per second", ratio, timed(flushes)),
        dimension("journal", "journal's share of the bytes", difference, journal(&one, other)),
    ];
    let scores: Vec<f64> = dimensions.iter().filter_map(|dimension| dimension.score).collect();
    let failed = other.failed.clone().filter(|_| other.failed != one.failed);
    let is_scored = failed.is_none() && !scores.is_empty();
    let score = is_scored.then(|| scores.iter().sum::<f64>() / scores.len() as f64);
    let mut notes = notes(&one, other);
    notes.extend(failed.as_ref().map(|how| format!("the replay ended with an error: {how}")));
    Fidelity { score, failed, dimensions, latencies: latencies(&one, other), notes }
}

fn dimension(
    code: &'static str,
    title: &'static str,
    method: &'static str,
    scored: Known<Scored>,
) -> Dimension {
    let empty = Dimension { code, title, method, ..Dimension::default() };
    match scored {
        Ok(Scored { score, ways, formatted: [recorded, regenerated] }) => {
            Dimension { score: Some(score.clamp(0.0, 1.0)), ways, recorded, regenerated, ..empty }
        }
        Err(no_data) => Dimension { no_data, ..empty },
    }
}

fn latencies(one: &Observed, other: &Observed) -> Vec<Latencies> {
    let quantiles = |of: &Histogram| {
        [0.5, 0.99].map(|q| {
            let carried = of.count() as f64 * (1.0 - q) >= 10.0;
            of.quantile(q).filter(|_| carried)
        })
    };
    let both = one.ways.iter().filter_map(|(op, mine)| {
        let (_, theirs) = other.ways.iter().find(|(way, _)| way == op)?;
        let (recorded_ns, regenerated_ns) = (quantiles(&mine.latency), quantiles(&theirs.latency));
        Some(Latencies { op: *op, recorded_ns, regenerated_ns })
    });
    both.collect()
}

fn notes(one: &Observed, other: &Observed) -> Vec<String> {
    let mut notes = other.notes.clone();
    if let (Ok(mine), Ok(theirs)) = (&one.course, &other.course) {
        let (mine, theirs) = (mine.length_ns(), theirs.length_ns());
        if likeness(mine, theirs).is_some_and(|alike| alike < 1.0 - SAME_LENGTH) {
            notes.push(format!(
                "the recording's requests span {} s and the replay's {} s: use the same length \
                 (run --runtime) for a more meaningful score",
                count::significant(mine / 1e9),
                count::significant(theirs / 1e9)
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_fixtures::profile_model::{chunk, gaps as distances, profile, row};
    use iosonde_fixtures::profile_model::{series, sync};
    use iosonde_model::record::profile::{
        Class, Depth, Ended, Missing, Places, ProfileRun, SyncKind, Traffic,
    };

    fn full() -> ProfileRun {
        let mut run = profile(vec![
            row(Class::Program, Op::Read, 6000),
            row(Class::Program, Op::Write, 4000),
            Traffic { bytes: 0, ..row(Class::DeviceFlush, Op::Flush, 1000) },
            Traffic { group: 0, ..row(Class::Journal, Op::Write, 400) },
        ]);
        run.traffic[0].sequential = 600;
        run.traffic[0].sizes = vec![(4096, 5000), (8192, 1000)];
        run.traffic[0].gaps = distances((0..5999).map(|n| 1_000_000 + n * 100));
        run.devices[0].program_depth =
            Depth { time_ns: vec![(0, 9_000_000), (1, 700), (2, 300)], max: 2, ..Depth::default() };
        run.places = vec![Places {
            device: "vda".into(),
            chunk_bytes: 16 << 20,
            block_bytes: 4096,
            chunks: vec![chunk(1, (100, 5000), (0, 0)), chunk(3, (900, 1000), (4000, 4000))],
            ..Places::default()
        }];
        run.syncs = vec![sync(SyncKind::Fdatasync, 1, 1000)];
        run.series = vec![series(Op::Read, vec![60; 100]), series(Op::Write, vec![40; 100])];
        run
    }

    fn against(change: impl FnOnce(&mut ProfileRun)) -> Fidelity {
        let mut other = full();
        change(&mut other);
        fidelity(&Observed::of_profile(&full()), &Observed::of_profile(&other), Speed::Times(1.0))
    }

    fn scores(fidelity: &Fidelity) -> Vec<(&'static str, Option<f64>)> {
        fidelity.dimensions.iter().map(|dimension| (dimension.code, dimension.score)).collect()
    }

    /// Asserts that these dimensions have these scores and all others 1.
    fn only(fidelity: &Fidelity, expected: &[(&str, f64)]) {
        for (code, score) in scores(fidelity) {
            let wanted = expected.iter().find(|(name, _)| *name == code).map_or(1.0, |(_, s)| *s);
            let score = score.unwrap();
            assert!((score - wanted).abs() < 1e-9, "{code}: {score}, expected {wanted}");
        }
        let sum: f64 = scores(fidelity).iter().filter_map(|(_, score)| *score).sum();
        assert!((fidelity.score.unwrap() - sum / 12.0).abs() < 1e-12);
    }

    #[test]
    fn a_profile_is_exactly_like_itself() {
        let same = against(|_| {});
        only(&same, &[]);
        assert!((same.score.unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(same.notes, [] as [&str; 0]);
    }

    #[test]
    fn each_change_lowers_its_own_dimension() {
        // Half of the writes in another size: they are 40 % of the requests.
        let sizes = against(|run| run.traffic[1].sizes = vec![(4096, 2000), (65_536, 2000)]);
        only(&sizes, &[("sizes", 0.6 + 0.4 * 0.5)]);
        assert_eq!(sizes.dimensions[0].ways, [(Op::Read, 1.0), (Op::Write, 0.5)]);
        let depth = against(|run| {
            run.devices[0].program_depth.time_ns = vec![(0, 5), (1, 400), (2, 600)];
        });
        only(&depth, &[("depth", 0.7)]);
        only(&against(|run| run.traffic[0].sequential = 3600), &[("sequential", 1.0 - 0.6 * 0.5)]);
        only(&against(|run| run.syncs[0].calls = 500), &[("syncs", 0.5)]);
        let late = against(|run| run.traffic[0].gaps = distances((0..9).map(|_| 1 << 35)));
        only(&late, &[("gaps", 0.4)]);
        // Bursts whose requests follow each other at slightly different intervals.
        let burst = |ns| {
            let mut run = full();
            run.traffic[0].gaps =
                distances((0..6000).map(|n| if n % 2 == 0 { ns } else { 1 << 20 }));
            Observed::of_profile(&run)
        };
        only(&fidelity(&burst(1200), &burst(4100), Speed::Times(1.0)), &[]);
        only(&fidelity(&burst(1200), &burst(9000), Speed::Times(1.0)), &[("gaps", 0.7)]);
        let wide = against(|run| {
            run.places[0].chunks[0].read_blocks = 200;
            run.places[0].chunks[1].read_blocks = 1800;
        });
        only(&wide, &[("working_set", 0.4 + 0.6 * 0.5)]);
    }

    #[test]
    fn what_the_device_does_has_dimensions_of_its_own() {
        // 6,000 reads, 4,000 writes and 400 of the journal, all of 4 KiB.
        let small = against(|run| run.traffic[0].bytes /= 2);
        let shares = 400.0 / 7400.0 - 400.0 / 10_400.0;
        let rate = (0.5 * 6000.0 + 4400.0) / 10_400.0;
        only(&small, &[("device_rate", rate), ("journal", 1.0 - shares)]);
        only(&against(|run| run.traffic[2].requests = 250), &[("flushes", 0.25)]);
        let no_journal = against(|run| run.traffic[3].class = Class::WriteBack);
        let of = |code: &str| {
            no_journal.dimensions.iter().find(|dimension| dimension.code == code).unwrap()
        };
        assert_eq!(of("journal").score, Some(1.0 - 400.0 / 10_400.0));
        assert_eq!(of("device_rate").score, Some(1.0));
        assert_eq!((&*of("journal").recorded, &*of("journal").regenerated), ("3.85 %", "0 %"));
    }

    #[test]
    fn a_third_of_the_rate_is_a_third_of_the_score() {
        let slow = against(|run| {
            for row in &mut run.traffic {
                row.active_ns = Some((0, 30_000_000_000));
            }
        });
        only(&slow, &[("device_rate", 1.0 / 3.0), ("flushes", 1.0 / 3.0)]);
    }

    #[test]
    fn few_flushes_are_no_rate() {
        let once = |flushes: u64| {
            let mut run = full();
            run.traffic[2].requests = flushes;
            Observed::of_profile(&run)
        };
        let found = fidelity(&once(2), &once(5), Speed::Times(1.0));
        let flushes = found.dimensions.iter().find(|dimension| dimension.code == "flushes");
        assert_eq!(flushes.unwrap().no_data, "fewer than 20 flushes in both");
    }

    #[test]
    fn half_the_requests_in_the_first_half_are_a_quarter_away() {
        // 75 % in the first five seconds instead of 50 %.
        let early: Vec<u64> = (0..100).map(|at| if at < 50 { 90 } else { 30 }).collect();
        let writes: Vec<u64> = (0..100).map(|at| if at < 50 { 60 } else { 20 }).collect();
        let changed = against(|run| {
            run.series = vec![series(Op::Read, early), series(Op::Write, writes)];
        });
        only(&changed, &[("rate", 0.75)]);
    }

    #[test]
    fn twice_as_fast_is_alike_at_twice_the_speed() {
        let mut fast = full();
        let halved = |all: Vec<u64>| all.into_iter().map(|ns| ns / 2);
        fast.traffic[0].gaps = distances(halved((0..5999).map(|n| 1_000_000 + n * 100).collect()));
        fast.traffic[1].gaps = distances((0..3999).map(|_| 1_250_000));
        for series in &mut fast.series {
            series.counters.width_ns /= 2;
        }
        for row in &mut fast.traffic {
            row.active_ns = Some((0, 5_000_000_000));
        }
        let (one, other) = (Observed::of_profile(&full()), Observed::of_profile(&fast));
        let score = |speed, code| {
            let all = fidelity(&one, &other, speed);
            all.dimensions.into_iter().find(|dimension| dimension.code == code).unwrap()
        };
        assert!(score(Speed::Times(2.0), "gaps").score.unwrap() > 0.95);
        assert!(score(Speed::Times(2.0), "rate").score.unwrap() > 0.99);
        assert!(score(Speed::Times(1.0), "rate").score.unwrap() < 0.55);
        assert!(score(Speed::Max, "gaps").no_data.contains("max"));
    }

    #[test]
    fn of_a_replay_the_jobs_count_and_not_what_it_does_beside() {
        let replay = |run: &mut ProfileRun, beside: u64| {
            run.subject = iosonde_model::record::profile::Subject::Command {
                words: vec!["iosonde".into(), "run".into(), "app.toml".into()],
                pid: 1,
            };
            run.groups[1].name = "job 0".into();
            run.traffic.push(Traffic { group: 2, ..row(Class::Program, Op::Read, beside) });
            run.syncs.push(sync(SyncKind::Fsync, 2, 13));
        };
        only(&against(|run| replay(run, 50)), &[]);
        // Figures of all threads together are not available for the jobs.
        let looked = against(|run| replay(run, 5000));
        for (code, score) in scores(&looked) {
            let known = !matches!(code, "rate" | "depth");
            assert_eq!(score, known.then_some(1.0), "{code}");
        }
        // Where each group's requests over time are known, so are those of the jobs.
        let counted = against(|run| {
            replay(run, 5000);
            run.series[0] = series(Op::Read, vec![110; 100]);
            run.traffic[4].counters = series(Op::Read, vec![50; 100]).counters;
        });
        let rate = counted.dimensions.iter().find(|dimension| dimension.code == "rate").unwrap();
        assert_eq!(rate.score, Some(1.0));
        // The offsets of the writes are those of the jobs.
        let skew = looked.dimensions.iter().find(|dimension| dimension.code == "skew").unwrap();
        assert_eq!(skew.ways, [(Op::Write, 1.0)]);
    }

    #[test]
    fn a_few_syncs_at_the_end_are_no_property_of_the_load() {
        let with = |calls: u64| {
            let mut run = full();
            run.syncs[0].calls = calls;
            Observed::of_profile(&run)
        };
        let syncs = |one: u64, other: u64| {
            let all = fidelity(&with(one), &with(other), Speed::Times(1.0)).dimensions;
            let found = all.into_iter().find(|dimension| dimension.code == "syncs").unwrap();
            (found.score, found.no_data)
        };
        let few = (None, "fewer than 20 syncs in both".to_owned());
        assert_eq!([syncs(0, 1), syncs(19, 0)], [few.clone(), few]);
        assert_eq!(syncs(0, 20), (Some(0.0), String::new()));
        assert_eq!(syncs(20, 40), (Some(0.5), String::new()));
    }

    #[test]
    fn a_replay_that_ended_with_an_error_has_no_score() {
        let refused = against(|run| run.ended = Ended::Exited { code: 5 });
        assert_eq!((refused.score, refused.failed.as_deref()), (None, Some("exit code 5")));
        assert_eq!(refused.notes, ["the replay ended with an error: exit code 5"]);
        let killed = against(|run| run.ended = Ended::Killed { signal: 9 });
        assert_eq!(killed.failed.as_deref(), Some("killed by signal 9"));
        // A program that always ends this way equals itself.
        let mut same = full();
        same.ended = Ended::Exited { code: 1 };
        let same = Observed::of_profile(&same);
        assert_eq!(fidelity(&same, &same, Speed::Times(1.0)).score, Some(1.0));
        // With exit code 3 (a verdict), the load completed.
        let missed = |code: i32| {
            against(|run| {
                run.subject = iosonde_model::record::profile::Subject::Command {
                    words: vec!["iosonde".into(), "run".into(), "app.toml".into()],
                    pid: 1,
                };
                run.groups[1].name = "job 0".into();
                run.ended = Ended::Exited { code };
            })
        };
        assert_eq!((missed(3).score, missed(1).score), (Some(1.0), None));
    }

    #[test]
    fn syncs_that_could_not_be_seen_are_not_none() {
        let blind = against(|run| {
            run.syncs.clear();
            run.source.missing.push(Missing {
                what: "syncs and opens".into(),
                reason: "no tracepoint sys_enter".into(),
                fix: None,
            });
        });
        let found = blind.dimensions.iter().find(|dimension| dimension.code == "syncs").unwrap();
        assert_eq!((found.score, blind.score), (None, Some(1.0)));
        assert_eq!(found.no_data, "syncs were not observed: no tracepoint sys_enter");
    }

    #[test]
    fn what_is_not_known_is_not_counted() {
        let bare = against(|run| {
            run.places.clear();
            run.series.clear();
            run.devices[0].program_depth = Depth::default();
        });
        for code in ["working_set", "skew", "rate", "depth"] {
            let found = bare.dimensions.iter().find(|dimension| dimension.code == code).unwrap();
            assert!(found.score.is_none() && !found.no_data.is_empty(), "{found:?}");
        }
        assert!((bare.score.unwrap() - 1.0).abs() < 1e-12, "{:?}", bare.score);
        let nothing = Observed::of_profile(&ProfileRun::default());
        assert_eq!(fidelity(&nothing, &nothing, Speed::Times(1.0)).score, None);
    }

    #[test]
    fn latency_is_shown_and_not_scored() {
        let slow = against(|run| {
            run.traffic[0].latency.clear();
            run.traffic[0].latency.record_many(50_000_000, 6000);
        });
        only(&slow, &[]);
        let [Some(before), _] = slow.latencies[0].recorded_ns else { panic!() };
        let [Some(after), _] = slow.latencies[0].regenerated_ns else { panic!() };
        assert!(before.abs_diff(1_000_000) < 10_000 && after.abs_diff(50_000_000) < 400_000);
    }
}
