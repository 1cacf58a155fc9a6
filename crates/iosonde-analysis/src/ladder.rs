//! Was fsync honoured? A series of tests, each of which states only what it can show.
//!
//! F0: nothing; F1: flushes counted by devices; F2: cost of a flush by the amount written before
//! it; F3: replay of logged writes; F4: power cuts.

mod count;
mod growth;

use serde::{Serialize, Serializer};

use super::finding::Strength;
use iosonde_model::plan::ladder::Call;
use iosonde_model::record::LadderRun;
use iosonde_model::record::ladder::FailedCall;
use iosonde_model::units::{
    bytes,
    count::{percent, significant},
    duration,
};
use iosonde_stats::Slope;
use iosonde_stats::ratio::median;

pub use count::{Counted, LayerCount};
pub use growth::Growth;

/// Results of all tests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ladder {
    /// F1 to F4, in this order; preceded by F0 if no other test states anything.
    #[serde(rename = "rungs")]
    pub ladder_tests: Vec<LadderTest>,
    /// The flush counts of each device on the path of a flush.
    pub layers: Vec<LayerCount>,
    /// Latencies by the amount written before.
    pub levels: Vec<Level>,
    /// Growth of the latency of a flush, ns per byte written before it.
    #[serde(rename = "slope_ns_per_byte")]
    pub slope: Option<Slope>,
    /// Interpretation of the slope.
    pub growth: Growth,
    /// Overwrites of one block, each made durable by an fsync, per second.
    pub overwrites_per_s: Option<f64>,
    pub notes: Vec<String>,
    /// Consequence of the failed call, as text; `None` if none failed.
    pub failure: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LadderTest {
    /// `F0` to `F4`.
    pub code: &'static str,
    /// The strength of the evidence; `None` if it states nothing.
    #[serde(serialize_with = "in_words")]
    pub strength: Option<Strength>,
    /// The statement, or why there is none.
    pub words: String,
}

fn in_words<S: Serializer>(strength: &Option<Strength>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(strength.map_or("not available", Strength::word))
}

/// Sync calls of one kind after one amount of written data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Level {
    pub call: Call,
    /// Bytes written before each call.
    pub dirty_bytes: u64,
    /// Number of calls.
    pub calls: usize,
    /// Median latency, ns.
    pub median_ns: f64,
    /// Minimum latency, ns.
    pub min_ns: u64,
    /// Maximum latency, ns.
    pub max_ns: u64,
    /// For each layer, the number of calls during which its flush counter rose.
    pub with_flush: Vec<Option<usize>>,
}

/// Revolutions per second of a 7,200 rpm disk: the rate of durable overwrites of one block.
const TURNS_PER_S: f64 = 120.0;

/// Evaluates a ladder run.
pub fn ladder(run: &LadderRun) -> Ladder {
    let layers = count::layers(run);
    let (slope, growth) = growth::growth(run);
    let mut ladder_tests = vec![
        count::ladder_test(run, &layers),
        growth::ladder_test(run, slope.as_ref(), &growth, count::none_sent(&layers)),
        logged_writes(run),
        power_cuts(run),
    ];
    if ladder_tests.iter().all(|ladder_test| ladder_test.strength.is_none()) {
        ladder_tests
            .insert(0, LadderTest::silent("F0", "not tested: none of the tests could be run"));
    }
    let overwrites_per_s = overwrites_per_s(run);
    Ladder {
        ladder_tests,
        levels: levels(run),
        notes: notes(run, overwrites_per_s),
        failure: run.failed.as_ref().map(meaning),
        layers,
        slope,
        growth,
        overwrites_per_s,
    }
}

impl Ladder {
    /// Whether anything could be stated.
    pub fn states(&self) -> bool {
        self.ladder_tests.iter().any(|ladder_test| ladder_test.strength.is_some())
    }

    /// All statements, joined on one line.
    pub fn words(&self) -> String {
        let stated = self.ladder_tests.iter().filter(|ladder_test| ladder_test.strength.is_some());
        let stated: Vec<&str> = stated.map(|ladder_test| ladder_test.words.as_str()).collect();
        if stated.is_empty() { "not tested".into() } else { stated.join("; ") }
    }
}

impl LadderTest {
    fn stating(code: &'static str, strength: Strength, words: impl Into<String>) -> LadderTest {
        LadderTest { code, strength: Some(strength), words: words.into() }
    }

    fn silent(code: &'static str, words: impl Into<String>) -> LadderTest {
        LadderTest { code, strength: None, words: words.into() }
    }
}

/// 95 % upper bound of the probability of a loss per power cut after `cuts` cuts without a loss:
/// with this probability, all of them succeed in 5 % of cases.
pub fn loss_bound(cuts: u32) -> f64 {
    1.0 - 0.05f64.powf(1.0 / f64::from(cuts.max(1)))
}

fn logged_writes(run: &LadderRun) -> LadderTest {
    let words = if run.device_mapper {
        "not run: this version does not replay logged writes (dm-log-writes)"
    } else {
        "not available: this kernel has no device mapper, which dm-log-writes needs"
    };
    LadderTest::silent("F3", words)
}

fn power_cuts(run: &LadderRun) -> LadderTest {
    let bound = |cuts| format!("{cuts} to {}", percent(loss_bound(cuts)));
    let words = format!(
        "not tested: only a power cut with a witness on another machine tests which data \
         survives: iosonde verify powercut {} --witness 'ssh HOST iosonde verify witness'; n cuts \
         without data loss bound the probability of a loss per cut at p < 1 - 0.05^(1/n), 95 %: \
         {}, {}, {}",
        harmless(&run.plan.path),
        bound(5),
        bound(30),
        bound(299)
    );
    LadderTest::silent("F4", words)
}

/// The path if it needs no quotes in a shell, else a placeholder.
fn harmless(path: &str) -> &str {
    let plain = |c: char| c.is_alphanumeric() || "/._-+".contains(c);
    if path.chars().all(plain) { path } else { "PATH" }
}

fn levels(run: &LadderRun) -> Vec<Level> {
    let mut kinds: Vec<(Call, u64)> =
        run.samples.iter().map(|sample| (sample.call, sample.dirty_bytes)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.into_iter().filter_map(|kind| level(run, kind)).collect()
}

fn level(run: &LadderRun, (call, dirty_bytes): (Call, u64)) -> Option<Level> {
    let of_it = || run.samples.iter().filter(|s| s.call == call && s.dirty_bytes == dirty_bytes);
    let times: Vec<f64> = of_it().map(|sample| sample.sync_ns as f64).collect();
    let rose = |layer: usize| {
        let counts = of_it().map(|sample| sample.flushes.get(layer).copied().flatten());
        let rose = counts.map(|pair| pair.map(|(before, after)| usize::from(after > before)));
        rose.sum()
    };
    Some(Level {
        call,
        dirty_bytes,
        calls: times.len(),
        median_ns: median(&times)?,
        min_ns: of_it().map(|sample| sample.sync_ns).min()?,
        max_ns: of_it().map(|sample| sample.sync_ns).max()?,
        with_flush: (0..run.layers.len()).map(rose).collect(),
    })
}

fn overwrites_per_s(run: &LadderRun) -> Option<f64> {
    let fsyncs = run.samples.iter().filter(|sample| sample.call == Call::Fsync);
    let times: Vec<f64> = fsyncs.map(|s| (s.write_ns + s.sync_ns) as f64).collect();
    median(&times).filter(|ns| *ns > 0.0).map(|ns| 1e9 / ns)
}

fn notes(run: &LadderRun, overwrites_per_s: Option<f64>) -> Vec<String> {
    let mut notes = Vec::new();
    if !run.plan.left_out.is_empty() {
        let left_out: Vec<String> = run.plan.left_out.iter().map(|b| bytes::exact(*b)).collect();
        notes.push(format!(
            "left out, since {} have no space for them: {}",
            bytes::exact(run.plan.span_bytes),
            left_out.join(", ")
        ));
    }
    let lowest = run.layers.iter().max_by_key(|layer| layer.depth);
    let spins = lowest.filter(|layer| layer.rotational == Some(true));
    if let (Some(layer), Some(rate)) = (spins, overwrites_per_s.filter(|rate| *rate > TURNS_PER_S))
    {
        let outcome = significant(rate);
        notes.push(if layer.is_virtual == Some(true) {
            format!(
                "{} reports that it is rotational, which virtual disks often do wrongly: {outcome} \
                 overwrites with fsync per second are too many for a 7,200 rpm disk",
                layer.name
            )
        } else {
            format!(
                "{} is rotational, and a 7,200 rpm disk can make the same block durable about 120 \
                 times per second; {outcome} per second are implausible unless a cache \
                 acknowledges the writes",
                layer.name
            )
        });
    }
    notes
}

/// Consequence of a failed call for a program.
fn meaning(failed: &FailedCall) -> String {
    let FailedCall { call, error, dirty_bytes } = failed;
    let dirty = bytes::rough(*dirty_bytes);
    if call == "write" {
        return format!("write failed with {error}; no retry was made");
    }
    format!(
        "{call} failed with {error} after {dirty} of writes and was not retried: the kernel may \
         have marked the unwritten pages as clean, and it reports the error only once, so a \
         second {call} may succeed although the data is lost. A program must treat this as fatal \
         and restore what it wrote since the last successful {call} from its own log"
    )
}

/// Formats a time that may be negative: `-1.25 ms`.
fn signed(ns: f64) -> String {
    let outcome = duration::latency(ns.abs());
    if ns < 0.0 { format!("-{outcome}") } else { outcome }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_fixtures::ladder::Model;

    #[test]
    fn the_bound_of_the_tables() {
        for (cuts, percent) in [(5, 45.07), (30, 9.50), (299, 0.997)] {
            let found = loss_bound(cuts) * 100.0;
            assert!((found / percent - 1.0).abs() < 1e-3, "{cuts}: {found}");
        }
    }

    #[test]
    fn what_cannot_be_climbed_is_reported_and_never_claimed() {
        let outcome = ladder(&Model { layers: Vec::new(), noise: 5e3, ..Model::honest() }.run());
        let codes: Vec<&str> =
            outcome.ladder_tests.iter().map(|ladder_test| ladder_test.code).collect();
        assert_eq!(codes, ["F0", "F1", "F2", "F3", "F4"]);
        assert!(!outcome.states());
        assert_eq!(outcome.words(), "not tested");
        let mut run = Model::honest().run();
        assert!(ladder(&run).ladder_tests[2].words.contains("no device mapper"));
        run.device_mapper = true;
        let outcome = ladder(&run);
        assert_eq!(outcome.ladder_tests[2].strength, None);
        assert!(outcome.ladder_tests[2].words.starts_with("not run"));
        assert_eq!(outcome.ladder_tests[0].code, "F1");
        assert!(
            outcome.ladder_tests[3].words.contains("299 to 0.997 %"),
            "{}",
            outcome.ladder_tests[3].words
        );
    }

    #[test]
    fn a_disk_that_turns_is_not_faster_than_its_turns() {
        let mut run = Model::honest().run();
        let outcome = |run: &LadderRun| ladder(run).notes.join(" ");
        assert_eq!(outcome(&run), "");
        run.layers[0].rotational = Some(true);
        assert!(outcome(&run).contains("implausible"));
        run.layers[0].is_virtual = Some(true);
        assert!(outcome(&run).contains("which virtual disks often do wrongly"));
        run.samples.iter_mut().for_each(|sample| sample.sync_ns += 8_400_000);
        assert_eq!(outcome(&run), "");
    }

    #[test]
    fn a_failed_fsync_is_reported_as_what_it_is() {
        let mut run = Model::honest().run();
        let failed = |call: &str| FailedCall {
            call: call.into(),
            error: "EIO".into(),
            dirty_bytes: 1 << 20,
        };
        run.failed = Some(failed("fsync"));
        assert!(
            ladder(&run).failure.is_some_and(|words| words.contains("must treat this as fatal"))
        );
        run.failed = Some(failed("write"));
        assert!(ladder(&run).failure.is_some_and(|words| !words.contains("fsync")));
    }

    #[test]
    fn levels_are_listed_with_their_flushes() {
        let outcome = ladder(&Model::honest().run());
        let kinds: Vec<(Call, u64)> =
            outcome.levels.iter().map(|level| (level.call, level.dirty_bytes)).collect();
        let data = [0, 64 << 10, 1 << 20, 16 << 20, 64 << 20].map(|b| (Call::Fdatasync, b));
        assert_eq!(kinds[0], (Call::Fsync, 4 << 10));
        assert_eq!(kinds[1..], data);
        assert!(outcome.levels.iter().all(|l| l.calls == 20 && l.with_flush == [Some(20)]));
    }
}
