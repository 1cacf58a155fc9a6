//! F1: did a flush reach the block device?
//!
//! The kernel counts all flushes of a device, including those of other programs. The counts between
//! our calls show how often other programs flush.

use serde::Serialize;

use super::{LadderTest, Strength};
use iosonde_model::plan::ladder::Call;
use iosonde_model::record::LadderRun;
use iosonde_model::record::facts::FilesystemClass;
use iosonde_model::record::ladder::{FlushLayer, SyncSample};

/// Minimum number of calls for a statement.
const FEWEST_CALLS: usize = 5;
/// Probability below which other programs' flushes alone cannot explain the counts.
const RULED_OUT: f64 = 1e-3;

/// The counts of one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerCount {
    /// Name of the device.
    pub name: String,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// fsync calls, each after a write.
    pub calls: usize,
    /// Calls during which the flush counter rose.
    pub with_flush: usize,
    /// Flushes counted during the calls.
    pub flushes: u64,
    /// Flushes of other programs: those counted between our calls of any kind.
    pub flushes_between: u64,
    /// Interpretation of the counts.
    pub counted: Counted,
}

/// The interpretation of the counts of a device.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "reason")]
pub enum Counted {
    /// Every call sent a flush.
    Reached,
    /// No call sent a flush, although the device has a volatile cache.
    Missing,
    /// Only some calls were accompanied by a flush.
    Some,
    /// The device reports no volatile cache, so the kernel sends no flush.
    NotNeeded,
    /// Other programs flush too often to identify our flushes.
    Drowned,
    /// There is no result, for this reason: no counter, unknown cache type, or too few calls.
    Unknown(String),
}

/// Evaluates every device.
pub(super) fn layers(run: &LadderRun) -> Vec<LayerCount> {
    run.layers.iter().enumerate().map(|(at, layer)| judge(run, at, layer)).collect()
}

fn judge(run: &LadderRun, at: usize, layer: &FlushLayer) -> LayerCount {
    let pair = |sample: &SyncSample| sample.flushes.get(at).copied().flatten();
    let fsyncs = || run.samples.iter().filter(|sample| sample.call == Call::Fsync);
    let rises: Vec<u64> = fsyncs().filter_map(pair).map(|(a, b)| b.saturating_sub(a)).collect();
    let with_flush = rises.iter().filter(|rise| **rise > 0).count();
    let (between, between_ns) = between(run, &pair);
    // Three more than were counted, as an upper bound of the rate.
    let rate_per_ns = (between as f64 + 3.0) / between_ns.max(1) as f64;
    let by_chance: f64 =
        fsyncs().map(|sample| 1.0 - (-rate_per_ns * sample.sync_ns as f64).exp()).product();
    let calls = fsyncs().count();
    let counted = match (&layer.uncounted, layer.write_cache.as_deref()) {
        (Some(reason), _) => Counted::Unknown(reason.clone()),
        _ if rises.len() < calls => Counted::Unknown("its counter could not be read".into()),
        _ if calls < FEWEST_CALLS => Counted::Unknown(format!("only {calls} calls were made")),
        (None, Some("write through")) if with_flush == 0 => Counted::NotNeeded,
        (None, Some("write back")) if with_flush == 0 => Counted::Missing,
        _ if with_flush == 0 => Counted::Unknown("its write cache type is not known".into()),
        _ if with_flush < calls => Counted::Some,
        _ if by_chance >= RULED_OUT => Counted::Drowned,
        _ => Counted::Reached,
    };
    LayerCount {
        name: layer.name.clone(),
        write_cache: layer.write_cache.clone(),
        calls,
        with_flush,
        flushes: rises.iter().sum(),
        flushes_between: between,
        counted,
    }
}

/// Flushes counted between calls, and the total time between calls, ns.
fn between(run: &LadderRun, pair: &dyn Fn(&SyncSample) -> Option<(u64, u64)>) -> (u64, u64) {
    let gaps = run.samples.windows(2).filter_map(|two| {
        let (early, late) = (pair(&two[0])?, pair(&two[1])?);
        let idle_ns = two[1].at_ns.saturating_sub(two[0].at_ns + two[0].sync_ns);
        Some((late.0.saturating_sub(early.1), idle_ns))
    });
    gaps.fold((0, 0), |sum, gap| (sum.0 + gap.0, sum.1 + gap.1))
}

/// Whether it is known that no fsync sent a flush.
pub(super) fn none_sent(layers: &[LayerCount]) -> bool {
    let silent = |counted: &Counted| matches!(counted, Counted::Missing | Counted::NotNeeded);
    let known = layers.iter().filter(|layer| !matches!(layer.counted, Counted::Unknown(_)));
    known.clone().count() > 0 && known.clone().all(|layer| silent(&layer.counted))
}

/// The statement over all devices. A device with missing flushes decides first.
pub(super) fn ladder_test(run: &LadderRun, layers: &[LayerCount]) -> LadderTest {
    let Some(first) = layers.first() else {
        return LadderTest::silent("F1", format!("not available: {}", out_of_sight(run)));
    };
    let calls = first.calls;
    let that = |counted: Counted| layers.iter().filter(move |layer| layer.counted == counted);
    let names = |counted: Counted| {
        that(counted).map(|layer| layer.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let has = |counted: Counted| that(counted).next().is_some();
    let (strength, words) = if has(Counted::Missing) {
        let missing = names(Counted::Missing);
        let why = if has(Counted::Reached) {
            format!(
                "flushes reach {}, and none of {calls} fsync calls reached {missing} below (write \
                 back): a layer between them drops flushes",
                names(Counted::Reached)
            )
        } else {
            format!(
                "fsync sends no flush: none of {calls} calls reached {missing} (write back): {}",
                culprit(run)
            )
        };
        (Strength::Proven, why)
    } else if let Some(layer) = that(Counted::Some).next() {
        let LayerCount { with_flush, name, .. } = layer;
        let words = format!(
            "only {with_flush} of {calls} fsync calls were accompanied by a flush of {name}, \
             which another program may have caused"
        );
        (Strength::ConsistentWith, words)
    } else if has(Counted::Reached) {
        let words = format!(
            "flushes reach the block device: each of {calls} fsync calls sent one to {}",
            names(Counted::Reached)
        );
        (Strength::Proven, words)
    } else if has(Counted::NotNeeded) {
        let words = format!(
            "fsync sends no flush, and none is needed if {} has no volatile cache, as it reports \
             (write through): only the device's report supports that",
            names(Counted::NotNeeded)
        );
        (Strength::ConsistentWith, words)
    } else {
        let doubts = layers.iter().filter_map(doubt).collect::<Vec<_>>().join("; ");
        return LadderTest::silent("F1", format!("not available: {doubts}"));
    };
    LadderTest::stating("F1", strength, format!("{words}{}", besides(run, layers)))
}

/// The probable reason why no flush is sent, according to the mount options.
fn culprit(run: &LadderRun) -> String {
    let off = ["nobarrier", "barrier=0", "barrier=none", "fsync_mode=nobarrier"];
    let options = &run.target.mount_options;
    match options.iter().find(|option| off.contains(&option.as_str())) {
        Some(option) => format!("the file system is mounted with {option}"),
        None => "mounted with nobarrier, or a layer drops the flush".into(),
    }
}

/// Remarks on devices without a result and on devices that are not visible.
fn besides(run: &LadderRun, layers: &[LayerCount]) -> String {
    let uncertain = layers.iter().filter_map(doubt);
    let unseen = run.layers.iter().filter_map(|layer| layer.below_unseen.clone());
    let all: Vec<String> = uncertain.chain(unseen).collect();
    if all.is_empty() { String::new() } else { format!(" ({})", all.join("; ")) }
}

fn doubt(layer: &LayerCount) -> Option<String> {
    match &layer.counted {
        Counted::Unknown(reason) => Some(format!("{}: {reason}", layer.name)),
        Counted::Drowned => Some(format!(
            "{}: other programs flush it so often that our flushes cannot be \
                identified",
            layer.name
        )),
        _ => None,
    }
}

/// Why no device was found.
fn out_of_sight(run: &LadderRun) -> String {
    let name = run.target.filesystem.as_deref().unwrap_or("this target");
    match run.target.class {
        FilesystemClass::UserSpace => {
            format!("{name} is served by a program, and no block device below it is visible")
        }
        FilesystemClass::Network => {
            format!("{name} is on another machine, whose counters are not readable here")
        }
        FilesystemClass::Stacked => {
            format!(
                "{name} is stacked on another file system; give a directory of that file \
                system"
            )
        }
        FilesystemClass::HostShare => {
            format!("{name} is shared from another system, whose counters are not readable here")
        }
        _ => "no block device with a flush counter is visible".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ladder;
    use super::*;
    use iosonde_fixtures::ladder::{Model, Seen, layer};

    fn f1(model: &Model) -> (Option<Strength>, String) {
        let outcome = ladder(&model.run());
        let ladder_test =
            outcome.ladder_tests.into_iter().find(|ladder_test| ladder_test.code == "F1");
        ladder_test.map(|ladder_test| (ladder_test.strength, ladder_test.words)).unwrap_or_default()
    }

    #[track_caller]
    fn expect(model: &Model, strength: Option<Strength>, start: &str) {
        let (found, words) = f1(model);
        assert_eq!(found, strength, "{words}");
        assert!(words.starts_with(start), "{words}");
    }

    #[test]
    fn flushes_that_arrive_are_proven() {
        let start = "flushes reach the block device: each of 20 fsync calls sent one to vda";
        expect(&Model::honest(), Some(Strength::Proven), start);
    }

    #[test]
    fn flushes_that_do_not_arrive_are_proven_missing() {
        let model = Model { layers: vec![layer("vda", Seen::None)], ..Model::honest() };
        expect(&model, Some(Strength::Proven), "fsync sends no flush: none of 20 calls");
        assert!(f1(&model).1.ends_with("mounted with nobarrier, or a layer drops the flush"));
        // A flush that is not sent has no latency that could show a cache.
        let mut run = model.run();
        assert!(ladder(&run).ladder_tests[1].words.starts_with("not available: no flush is sent"));
        run.target.mount_options = vec!["rw".into(), "nobarrier".into()];
        assert!(ladder(&run).ladder_tests[0].words.ends_with("system is mounted with nobarrier"));
    }

    #[test]
    fn a_device_without_a_cache_needs_none_if_it_says_the_truth() {
        let mut through = layer("vda", Seen::None);
        through.0.write_cache = Some("write through".into());
        let model = Model { layers: vec![through], ..Model::honest() };
        expect(&model, Some(Strength::ConsistentWith), "fsync sends no flush, and none is needed");
        assert!(f1(&model).1.contains("only the device's report supports that"));
    }

    #[test]
    fn a_layer_between_that_drops_them_is_found() {
        let layers = vec![layer("loop0", Seen::Each), layer("vda", Seen::None)];
        let model = Model { layers, ..Model::honest() };
        expect(&model, Some(Strength::Proven), "flushes reach loop0, and none of 20 fsync calls");
        let layers = vec![layer("loop0", Seen::Each), layer("vda", Seen::Each)];
        let (strength, words) = f1(&Model { layers, ..Model::honest() });
        assert_eq!(strength, Some(Strength::Proven));
        assert!(words.ends_with("sent one to loop0, vda"), "{words}");
    }

    #[test]
    fn a_counter_that_stands_still_by_nature_is_no_evidence() {
        let mut volume = layer("dm-0", Seen::None);
        volume.0.uncounted = Some("not counted here".into());
        let alone = Model { layers: vec![volume.clone()], ..Model::honest() };
        expect(&alone, None, "not available: dm-0: not counted here");
        let both = Model { layers: vec![volume, layer("sda", Seen::Each)], ..Model::honest() };
        expect(&both, Some(Strength::Proven), "flushes reach the block device");
        assert!(f1(&both).1.ends_with("(dm-0: not counted here)"));
        let mut odd = layer("vda", Seen::None);
        odd.0.write_cache = None;
        expect(&Model { layers: vec![odd], ..Model::honest() }, None, "not available");
    }

    #[test]
    fn flushes_of_others_are_no_evidence() {
        // Other programs flush at any time; our calls send no flush.
        let busy = Model { layers: vec![layer("vda", Seen::Others)], ..Model::honest() };
        expect(&busy, None, "not available: vda: other programs flush it");
        // A few flushes of other programs do not make ours uncertain.
        let few = Model { layers: vec![layer("vda", Seen::EachAndFewOfOthers)], ..Model::honest() };
        expect(&few, Some(Strength::Proven), "flushes reach");
        let half = Model { layers: vec![layer("vda", Seen::EverySecond)], ..Model::honest() };
        expect(&half, Some(Strength::ConsistentWith), "only 10 of 20");
    }

    #[test]
    fn too_few_calls_say_nothing() {
        let model = Model { rounds: 4, ..Model::honest() };
        expect(&model, None, "not available: vda: only 4 calls");
    }

    #[test]
    fn where_no_device_is_in_sight_the_reason_is_reported() {
        let model = Model { layers: Vec::new(), ..Model::honest() };
        let mut run = model.run();
        for (class, word) in [
            (FilesystemClass::UserSpace, "served by a program"),
            (FilesystemClass::Network, "another machine"),
            (FilesystemClass::Stacked, "stacked"),
            (FilesystemClass::Local, "no block device"),
        ] {
            run.target.class = class;
            let outcome = ladder(&run);
            let states = |code, word| {
                let tests = &outcome.ladder_tests;
                tests.iter().any(|test| test.code == code && test.words.contains(word))
            };
            assert!(states("F1", word));
        }
    }
}
