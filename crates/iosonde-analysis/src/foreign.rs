//! Consistency checks of another program's results, from what it prints.
//!
//! Its numbers are rounded, some counters are missing, and the machine was not inspected. So fewer
//! identities can be evaluated than for our own runs, and a failed one is reported as a warning
//! with its strength. Little's law is evaluated on printed means: completions per second times mean
//! latency.

use iosonde_model::plan::{EngineKind, IoKind};
use iosonde_model::record::import::{Foreign, ForeignDirection, ForeignJob, ForeignLatency};
use iosonde_model::units::{bytes, count, duration};

use super::finding::Strength;

/// Rates may be off by this share, plus the rounding error of times printed in ms.
const RATE_TOLERANCE: f64 = 0.02;
const TIME_STEP_NS: f64 = 2e6;
/// Below this share of the requested depth, the depth was not applied (method 4.1).
const DEPTH_FROM: f64 = 0.95;
/// Below this share the measurement is not the requested one.
const DEPTH_LOST: f64 = 0.5;
/// A bin of fio is at most this share of its value wide.
const BIN: f64 = 1.0 / 64.0;
/// No device has a median completion latency below this, ns.
const INLINE_BELOW_NS: u64 = 1_000;
/// A shorter run does not show whether its rate was steady, ns.
const SHORT_NS: u64 = 10_000_000_000;
/// Options that prevent a job from filling its queue.
const PACED: [&str; 9] = [
    "rate",
    "rate_min",
    "rate_iops",
    "rate_iops_min",
    "rate_process",
    "thinktime",
    "latency_target",
    "read_iolog",
    "thinkcycles",
];

/// A reason to distrust a result of another program.
#[derive(Clone, Debug, PartialEq)]
pub struct Concern {
    /// Short name; the same as that of our own finding, if there is one.
    pub code: &'static str,
    /// Strength of the evidence.
    pub strength: Strength,
    /// Whether a number must not be used.
    pub severe: bool,
    /// The job it concerns; `None` for all.
    pub job: Option<usize>,
    /// The sentence, with its numbers.
    pub words: String,
}

/// Number of requests in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InFlight {
    /// Mean queue depth, by Little's law.
    pub seen: f64,
    /// Requested: iodepth times the jobs of the entry; `None` if unknown.
    pub requested: Option<u64>,
}

/// All reasons to distrust a result, the most severe first.
pub fn concerns(foreign: &Foreign) -> Vec<Concern> {
    let mut all = Vec::new();
    for (index, job) in foreign.jobs.iter().enumerate().filter(|(_, job)| !job.is_sum) {
        let mut reported = Reporter { index, job, out: &mut all };
        reported.errors();
        reported.consistency();
        reported.depth(foreign);
        reported.caches();
        reported.inline();
    }
    let longest = foreign.jobs.iter().map(|job| job.runtime_ns).max().unwrap_or(0);
    if longest < SHORT_NS {
        let words = format!(
            "The run lasted {}: too short to decide whether the rate was steady.",
            duration::span(longest)
        );
        let strength = Strength::Proven;
        all.push(Concern { code: "short_run", strength, severe: false, job: None, words });
    }
    all.sort_by_key(|doubt| !doubt.severe);
    all
}

/// Number of requests of a job in flight; `None` without latencies.
pub fn in_flight(foreign: &Foreign, job: &ForeignJob) -> Option<InFlight> {
    let moving = || job.directions.iter().filter(|direction| direction.way != IoKind::Sync);
    let time = moving().map(|direction| direction.runtime_ns).max().filter(|ns| *ns > 0)?;
    let mut seen = 0.0;
    for direction in moving() {
        let (_, latency) = direction.whole()?;
        seen += direction.ops as f64 * latency.mean_ns / time as f64;
    }
    let number =
        |names: &[&str]| job.option(names).map_or(Some(1), |text| text.parse::<u64>().ok());
    let depth = if one_at_a_time(job) { Some(1) } else { number(&["iodepth"]) };
    let jobs = if is_group(foreign, job) { number(&["numjobs"]) } else { Some(1) };
    let requested = depth.zip(jobs).and_then(|(depth, jobs)| depth.checked_mul(jobs));
    Some(InFlight { seen, requested })
}

/// Whether an entry combines several jobs: its numjobs is larger than the number of entries listed.
pub fn is_group(foreign: &Foreign, job: &ForeignJob) -> bool {
    let like = |other: &&ForeignJob| other.name == job.name && other.host == job.host;
    let jobs = job.option(&["numjobs"]).and_then(|text| text.parse::<usize>().ok()).unwrap_or(1);
    jobs > 1 && foreign.jobs.iter().filter(like).count() < jobs
}

/// Whether the job's engine keeps one request in flight. Without the option fio takes psync.
pub fn one_at_a_time(job: &ForeignJob) -> bool {
    let name = job.option(&["ioengine"]).unwrap_or("psync");
    name == "splice" || EngineKind::of_fio(name).is_some_and(EngineKind::is_synchronous)
}

/// The single block size of a job, bytes; `None` if it has several.
pub fn block_bytes(job: &ForeignJob, way: IoKind) -> Option<u64> {
    const OTHERS: [&str; 6] =
        ["bsrange", "blocksize_range", "bssplit", "bs_unaligned", "kb_base", "bs_is_seq_rand"];
    if OTHERS.iter().any(|name| job.options.contains_key(*name)) {
        return None;
    }
    let text = job.option(&["bs", "blocksize"]).unwrap_or("4k");
    let of_way = text.split(',').nth(way as usize).filter(|size| !size.is_empty());
    bytes::parse(of_way.or(text.split(',').next())?).ok().filter(|size| *size > 0)
}

struct Reporter<'a> {
    index: usize,
    job: &'a ForeignJob,
    out: &'a mut Vec<Concern>,
}

impl Reporter<'_> {
    fn report(&mut self, code: &'static str, strength: Strength, severe: bool, words: String) {
        self.out.push(Concern { code, strength, severe, job: Some(self.index), words });
    }

    fn errors(&mut self) {
        if self.job.error != 0 {
            let words = format!("The job ended with error {}.", self.job.error);
            self.report("errors", Strength::Proven, true, words);
        }
        for direction in &self.job.directions {
            let (short, dropped) = (direction.short_ops, direction.dropped_ops);
            if short + dropped > 0 {
                let words = format!(
                    "Of {} {} operations, {} moved less than requested and {} were dropped.",
                    count::thousands(direction.ops),
                    direction.way.word(),
                    count::thousands(short),
                    count::thousands(dropped)
                );
                self.report("short_transfers", Strength::Proven, false, words);
            }
        }
    }

    /// Checks rates, bytes, sample counts and the order of a distribution's figures.
    fn consistency(&mut self) {
        let job = self.job;
        for direction in &job.directions {
            let way = direction.way.word();
            if direction.way != IoKind::Sync {
                self.rate(direction, "operations", direction.iops, direction.ops);
                self.rate(direction, "bytes", direction.bytes_per_s, direction.bytes);
                self.sizes(direction);
            }
            let parts =
                [("slat", &direction.slat), ("clat", &direction.clat), ("lat", &direction.lat)];
            for (name, latency) in parts {
                let Some(latency) = latency else { continue };
                if let Some(fault) = contradiction(latency) {
                    let words = format!("The {way} {name} is inconsistent: {fault}.");
                    self.report("histogram", Strength::Proven, true, words);
                }
                let (known, all) = (latency.count, direction.ops);
                if known > all || (known as f64) < 0.999 * all as f64 {
                    let words = format!(
                        "The {way} {name} has {} samples of {} operations.",
                        count::thousands(known),
                        count::thousands(all)
                    );
                    self.report("samples", Strength::Proven, known > all, words);
                }
            }
        }
    }

    fn rate(&mut self, direction: &ForeignDirection, what: &str, printed: f64, total: u64) {
        let time = direction.runtime_ns as f64;
        if time <= 0.0 || total == 0 {
            return;
        }
        let expected = total as f64 * 1e9 / time;
        let tolerance = RATE_TOLERANCE + TIME_STEP_NS / time;
        let off = (printed - expected).abs() / expected;
        if off > tolerance {
            let words = format!(
                "{} {what} of {} in {} are {} per second; {} are printed.",
                count::thousands(total),
                direction.way.word(),
                duration::span(direction.runtime_ns),
                count::significant_or_whole(expected),
                count::significant_or_whole(printed)
            );
            self.report("rate", Strength::Proven, true, words);
        }
    }

    /// Bandwidth is IOPS times block size, if the job has a single block size.
    fn sizes(&mut self, direction: &ForeignDirection) {
        let Some(block) = block_bytes(self.job, direction.way) else { return };
        let size = direction.bytes as f64 / direction.ops as f64;
        let whole = direction.short_ops + direction.dropped_ops == 0;
        if whole && (size / block as f64 - 1.0).abs() > 0.005 {
            let words = format!(
                "A {} operation moved {} on average, and the block size is {}: BW is not IOPS \
                 times block size. Jobs of different sizes may be reported as one.",
                direction.way.word(),
                bytes::rough(size as u64),
                bytes::exact(block)
            );
            self.report("bytes", Strength::Supported, false, words);
        }
    }

    /// Little's law against the requested depth.
    fn depth(&mut self, foreign: &Foreign) {
        let job = self.job;
        let Some(InFlight { seen, requested: Some(requested) }) = in_flight(foreign, job) else {
            return;
        };
        let written = job.option(&["iodepth"]).and_then(|text| text.parse::<u64>().ok());
        if let Some(written) = written.filter(|depth| *depth > 1 && one_at_a_time(job)) {
            let engine = job.option(&["ioengine"]).unwrap_or("psync");
            let words = format!(
                "iodepth={written} had no effect: the engine {engine} keeps one request in \
                 flight. This is a measurement at depth 1."
            );
            self.report("depth_not_applied", Strength::Proven, true, words);
            return;
        }
        if PACED.iter().any(|name| job.options.contains_key(*name)) {
            return;
        }
        let shown = count::significant(seen);
        if seen < DEPTH_FROM * requested as f64 {
            let words = format!(
                "Requested depth {requested}, mean queue depth {shown} (IOPS x mean latency): the \
                 depth was not applied{}.",
                if seen < DEPTH_LOST * requested as f64 {
                    ", so these figures do not describe that depth"
                } else {
                    ""
                }
            );
            let severe = seen < DEPTH_LOST * requested as f64;
            self.report("depth_not_applied", Strength::Supported, severe, words);
        } else if seen > requested as f64 * (2.0 - DEPTH_FROM) + 0.05 {
            let words = format!(
                "The requested depth allows at most {requested} requests in flight, but IOPS x \
                 mean latency is {shown}. Possible causes: different jobs reported as one group, \
                 or a clock that jumped."
            );
            self.report("little", Strength::ConsistentWith, false, words);
        }
    }

    fn caches(&mut self) {
        let job = self.job;
        let direct = job.option(&["direct"]).is_some_and(|value| value != "0");
        let buffered = job.option(&["buffered"]).is_some_and(|value| value == "0");
        let moves =
            job.directions.iter().any(|each| matches!(each.way, IoKind::Read | IoKind::Write));
        let is_null = job.option(&["ioengine"]) == Some("null");
        if moves && !direct && !buffered && !is_null {
            let words =
                "Without direct=1 the page cache may have served requests instead of the storage."
                    .to_owned();
            self.report("page_cache", Strength::ConsistentWith, false, words);
        }
    }

    /// Reports a completion latency that excludes the time spent within submission.
    fn inline(&mut self) {
        let job = self.job;
        for direction in &job.directions {
            let Some(("clat", spread)) = direction.spread() else { continue };
            let Some(median) = spread.percentile(50.0).filter(|ns| *ns < INLINE_BELOW_NS) else {
                continue;
            };
            let whole = direction.lat.as_ref().map_or(String::new(), |lat| {
                format!("; the mean total latency is {}", duration::latency(lat.mean_ns))
            });
            let words = format!(
                "Half of the {} requests took {} or less after submission returned: they complete \
                 within submission, so these percentiles do not include the storage's \
                 time{whole}.",
                direction.way.word(),
                duration::latency(median as f64)
            );
            self.report("inline", Strength::Supported, true, words);
        }
    }
}

/// Figures of one distribution that contradict each other.
fn contradiction(latency: &ForeignLatency) -> Option<String> {
    let (low, high) = (latency.min_ns as f64, latency.max_ns as f64);
    let ns = duration::latency;
    // Means are printed with few decimals.
    if latency.mean_ns < low * 0.999 - 1.0 || latency.mean_ns > high * 1.001 + 1.0 {
        let (mean, low, high) = (ns(latency.mean_ns), ns(low), ns(high));
        return Some(format!("a mean of {mean} does not lie between {low} and {high}"));
    }
    let beyond = |value: f64| value > high * (1.0 + BIN) + 1.0 || value < low * (1.0 - BIN) - 1.0;
    let wrong = latency.percentiles.iter().find(|(_, value)| beyond(*value as f64));
    if let Some((share, value)) = wrong {
        let (value, low, high) = (ns(*value as f64), ns(low), ns(high));
        return Some(format!("p{share} of {value} does not lie between {low} and {high}"));
    }
    let histogram = latency.histogram()?;
    if histogram.count() != latency.count {
        let (bins, all) = (count::thousands(histogram.count()), count::thousands(latency.count));
        return Some(format!("its bins contain {bins} of {all} samples"));
    }
    let mean = histogram.mean().filter(|mean| (mean / latency.mean_ns - 1.0).abs() > 2.0 * BIN);
    mean.map(|mean| {
        format!("its mean is {}, but the mean of its bins is {}", ns(latency.mean_ns), ns(mean))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_model::record::import::fio_json::fio_json;

    const TWO: &str = include_str!("../../../tests/fixtures/fio-results/two-3.33.json");
    const PLUS: &str = include_str!("../../../tests/fixtures/fio-results/two-3.42.json");
    const GROUP: &str = include_str!("../../../tests/fixtures/fio-results/group-3.33.json");

    fn codes(text: &str) -> Vec<&'static str> {
        concerns(&fio_json(text).unwrap()).iter().map(|doubt| doubt.code).collect()
    }

    fn reported(text: &str, code: &str) -> Concern {
        let all = concerns(&fio_json(text).unwrap());
        all.iter().find(|doubt| doubt.code == code).unwrap_or_else(|| panic!("{all:?}")).clone()
    }

    #[test]
    fn sound_results_balance() {
        for text in [TWO, PLUS] {
            assert_eq!(codes(text), ["short_run"]);
            let foreign = fio_json(text).unwrap();
            let depth = in_flight(&foreign, &foreign.jobs[0]).unwrap();
            assert_eq!(depth.requested, Some(8));
            assert!((depth.seen - 8.0).abs() < 0.1, "{depth:?}");
        }
        let group = fio_json(GROUP).unwrap();
        assert!(is_group(&group, &group.jobs[0]));
        assert_eq!(in_flight(&group, &group.jobs[0]).unwrap().requested, Some(8));
    }

    #[test]
    fn a_depth_that_was_not_applied_is_reported_with_its_numbers() {
        let deep = TWO.replace("\"iodepth\" : \"8\"", "\"iodepth\" : \"32\"");
        let doubt = reported(&deep, "depth_not_applied");
        assert!(doubt.severe);
        assert!(doubt.words.starts_with("Requested depth 32, mean queue depth 7.98"));
        let sync = TWO.replace("\"ioengine\" : \"libaio\"", "\"ioengine\" : \"psync\"");
        let doubt = reported(&sync, "depth_not_applied");
        assert_eq!(doubt.strength, Strength::Proven);
        assert!(doubt.words.contains("iodepth=8 had no effect"), "{}", doubt.words);
        let shallow = TWO.replace("\"iodepth\" : \"8\"", "\"iodepth\" : \"2\"");
        assert!(reported(&shallow, "little").words.contains("is 7.98"));
        // A job with a rate limit need not fill its queue.
        let paced = deep.replace("\"iodepth\" : \"32\"", "\"iodepth\" : \"32\", \"rate\" : \"1m\"");
        assert!(!codes(&paced).contains(&"depth_not_applied"));
    }

    #[test]
    fn each_identity_that_fails_is_reported() {
        for (from, to, code) in [
            ("\"iops\" : 40282.858571", "\"iops\" : 50282.8", "rate"),
            ("\"bw_bytes\" : 164998588", "\"bw_bytes\" : 161131000000", "rate"),
            ("\"bs\" : \"4k\"", "\"bs\" : \"8k\"", "bytes"),
            ("\"mean\" : 192454.259075", "\"mean\" : 99192454.2", "histogram"),
            ("\"99.990000\" : 14876672", "\"99.990000\" : 64876672", "histogram"),
            ("\"direct\" : \"1\"", "\"direct\" : \"0\"", "page_cache"),
            ("\"error\" : 0", "\"error\" : 5", "errors"),
            ("\"short_ios\" : 0", "\"short_ios\" : 7", "short_transfers"),
        ] {
            assert!(TWO.contains(from), "{from}");
            assert!(codes(&TWO.replacen(from, to, 1)).contains(&code), "{code}");
        }
        // The bins have one sample more than the total.
        let bins = PLUS.replacen("\"23680\" : 1", "\"23680\" : 2", 1);
        assert!(reported(&bins, "histogram").words.contains(
            "its bins contain 80,714 of 80,713 \
            samples"
        ));
    }
}
