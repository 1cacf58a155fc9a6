//! What a word of the reports means: a number and how it is computed, or a term and what to do.

pub mod terms;
mod words;

use serde::Serialize;
use terms::Term;

use iosonde_model::units::count;

/// A metric in words.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct Meaning {
    /// Its name in reports.
    pub metric: &'static str,
    /// Other words for it.
    pub also: &'static [&'static str],
    /// What it means.
    pub meaning: &'static str,
    /// What it is counted in.
    pub unit: &'static str,
    /// How it is computed.
    pub formula: &'static str,
    /// From which records.
    pub source: &'static str,
    /// What to mind.
    pub caveats: &'static str,
}

/// All that a word means.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Explanation {
    /// As a number.
    pub metrics: Vec<Meaning>,
    /// As a finding, a check, a kind of corruption, an exit code.
    pub terms: Vec<Term>,
}

/// Why a word is not explained.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("found `{word}`, which has no explanation{meant}; `list` prints every word")]
pub struct UnknownWord {
    word: String,
    /// The nearest, as a question; empty if none is near.
    meant: String,
}

macro_rules! metrics {
    ($($metric:literal $([$($also:literal),*])?: $unit:literal,
       $meaning:literal, $formula:literal, $source:literal, $caveats:literal;)*) => {
        [$(Meaning {
            metric: $metric,
            also: &[$($($also),*)?],
            unit: $unit,
            meaning: $meaning,
            formula: $formula,
            source: $source,
            caveats: $caveats,
        }),*]
    };
}

/// Percentiles share what is to be said of them; `p50` stands first.
const METRICS: &[Meaning] = &metrics! {
    "iops" ["rate", "throughput"]: "operations per second",
        "How many reads, writes and trims were completed per second.",
        "completions in the measured window / length of the window",
        "counters of each job, summed; the window begins after the warm-up",
        "Syncs are counted apart. Where the rate is not steady, the warm-up is lengthened \
         (MSER-5), or the finding no_steady_part says that one mean does not describe the run.";
    "bw" ["bandwidth", "mb/s"]: "MB/s of 10^6 bytes per second",
        "How many bytes were moved per second.",
        "bytes completed in the window / length of the window",
        "the same counters; checked against IOPS times block size, exactly",
        "MiB/s are 4.6 % smaller numbers for the same rate.";
    "mean" ["avg", "average", "avg_latency"]: "ns, shown in the unit that fits",
        "The arithmetic mean of the latency.",
        "sum of latencies / number of them, both exact",
        "from before submission to after reaping; in an open loop from the due time",
        "A few slow requests move it: half of all may be far below it. It is what Little's law \
         needs, and not what a user feels.";
    "p50" ["median"]: "ns, shown in the unit that fits",
        "Half of the requests took this long or less.",
        "nearest rank in the histogram of all requests",
        "histogram with 128 buckets per octave, 0.4 to 0.8 % wide",
        "Percentiles are merged from histograms and never averaged.";
    "p95": "ns, shown in the unit that fits",
        "95 % of the requests took this long or less.",
        "nearest rank in the histogram of all requests",
        "histogram with 128 buckets per octave, 0.4 to 0.8 % wide",
        "Shown with a 95 % interval from order statistics; `n/a` with fewer than 74 samples.";
    "p99": "ns, shown in the unit that fits",
        "99 % of the requests took this long or less: one in a hundred was slower.",
        "nearest rank in the histogram of all requests",
        "histogram with 128 buckets per octave, 0.4 to 0.8 % wide",
        "`n/a` with fewer than 370 samples: at least 3.7 must be expected beyond it. A program \
         that makes 100 requests for a page meets it on most pages.";
    "p99.9" ["p999"]: "ns, shown in the unit that fits",
        "One request in a thousand was slower.",
        "nearest rank in the histogram of all requests",
        "histogram with 128 buckets per octave, 0.4 to 0.8 % wide",
        "`n/a` with fewer than 3,700 samples. A closed loop sends nothing during a stall \
         (coordinated omission): use a rate (open loop) to see what users would.";
    "p99.99" ["p9999"]: "ns, shown in the unit that fits",
        "One request in ten thousand was slower.",
        "nearest rank in the histogram of all requests",
        "histogram with 128 buckets per octave, 0.4 to 0.8 % wide",
        "`n/a` with fewer than 37,000 samples. Look at stalls of the host (`hiccups`) beside it.";
    "max" ["maximum"]: "ns, shown in the unit that fits",
        "The slowest request of all.",
        "exact",
        "kept beside the histogram",
        "It grows with the length of the run: never compare it between runs of different length.";
    "min" ["minimum"]: "ns, shown in the unit that fits",
        "The fastest request of all.",
        "exact",
        "kept beside the histogram",
        "Far below the median it is often a cache.";
    "depth" ["iodepth", "queue_depth", "qd", "in_flight"]: "requests",
        "How many requests were in flight, averaged over time.",
        "time integral of the requests in flight / length of the window",
        "each job adds depth times time at every submission and completion",
        "Compared with what was asked: below 95 % it was not applied. Where requests complete \
         inside submission, depth is only a label.";
    "little" ["littles_law"]: "requests",
        "Little's law: what is in flight is what arrives per second times how long it stays.",
        "in flight = IOPS x mean latency",
        "judged in each run by sums that are kept independently",
        "It holds for any system. Where it fails, the measurement contradicts itself: INVALID.";
    "knee": "the setting of a sweep",
        "Where more load begins to add more latency than throughput.",
        "the largest power, throughput / latency (Kleinrock), with its interval over repeats",
        "points of a sweep over depth or jobs",
        "A best point at the end of the sweep is no knee: the knee is then outside the sweep.";
    "n_star" ["n*"]: "requests",
        "The depth at which the device would be just busy if nothing waited.",
        "N* = highest throughput x latency at depth 1",
        "points of a sweep",
        "An upper estimate: the latency at depth 1 holds the host's own time too.";
    "saturation" ["saturation_depth"]: "requests",
        "The lowest depth with 95 % of the best throughput: more depth mainly adds latency.",
        "smallest depth of the sweep with throughput >= 0.95 x the highest",
        "points of a sweep",
        "Where the last doubling still gained 5 % or more, the device is not saturated yet. Not \
         the `%util` of iostat, which says little of a device that serves many at once.";
    "crossover": "bytes",
        "The size below which operations limit, and above which bandwidth does.",
        "s* = t0 x bandwidth of the fitted line t(s) = t0 + s / bandwidth",
        "points of a sweep over block size",
        "Fitted with weights; its residuals are shown: above 15 % it is not one line, and the \
         place of the step is reported instead.";
    "power": "operations per second and second",
        "Throughput divided by latency (Kleinrock).",
        "IOPS / mean latency",
        "points of a sweep",
        "Its largest value is the knee.";
    "steady" ["steady_state", "warm-up"]: "yes, lengthened, or no",
        "Whether one mean describes the run.",
        "MSER-5 on the rate per interval, and the change between the halves",
        "the series of counters",
        "A run without a steady part needs more time or more preparation, not another average.";
    "regimes" ["regime"]: "intervals of time",
        "Parts of a run with different levels, as after a cache is full.",
        "change points of the rate per interval, with a permutation test",
        "the series of counters",
        "Figures over several regimes are reported beside each of them.";
    "interval" ["ci", "confidence"]: "as its figure",
        "A range that contains the true value in 95 of 100 such measurements.",
        "means: t or bootstrap over repeats; percentiles: ranks of the binomial distribution",
        "repeats, or the histogram of one run",
        "Within one run successive requests are correlated, so intervals over repeats are wider \
         and more honest.";
    "durable": "MB/s of 10^6 bytes per second",
        "How fast data became safe, not only acknowledged.",
        "bytes written / time from the first write to the return of the final fsync",
        "the timed fsync that ends a writing run",
        "Only a power cut shows whether a cache ignores flushes: `iosonde verify powercut`.";
    "cpu" ["cpu_per_op"]: "ns per operation",
        "CPU time that an operation cost this process, in user space and kernel.",
        "CPU time of the process over the window / completions",
        "resource usage at both ends of the window",
        "Work of other threads of the kernel, such as workers and interrupts, is not in it.";
    "slat": "ns, shown in the unit that fits",
        "From before the submitting call to its return.",
        "a stamp before and one after the submitting call",
        "only where the plan asked for it",
        "A submission that blocks shows here and not in `clat`.";
    "clat": "ns, shown in the unit that fits",
        "From the return of the submission to completion.",
        "whole latency - slat",
        "only where the plan asked for it; fio's percentiles are of this one",
        "Where requests complete inside submission it is next to nothing and means nothing.";
    "lag": "ns, shown in the unit that fits",
        "How late requests of an open loop were submitted.",
        "submission - due time",
        "open loop only",
        "Where it is large, this program was the limit.";
    "hiccups": "ns, shown in the unit that fits",
        "By how much a thread that sleeps 25 ms overslept: stalls of the host, not of the storage.",
        "a watchdog thread beside the jobs",
        "its histogram",
        "Where its tail is that of the latency, the host is the reason.";
};

/// What a word means; everything for `list`.
///
/// # Errors
/// If the word is unknown, with the nearest that is not.
pub fn explain(word: &str) -> Result<Explanation, UnknownWord> {
    let plain = |word: &str| word.trim().to_ascii_lowercase().replace(['-', ' '], "_");
    let requested = plain(word);
    let is_list = requested == "list" || requested == "all";
    let is_meant = |name: &str| is_list || plain(name) == requested;
    let metrics = METRICS.iter().filter(|each| names(each).any(is_meant)).copied();
    let terms = terms::all().filter(|term| is_meant(term.word));
    let found = Explanation { metrics: metrics.collect(), terms: terms.collect() };
    if found != Explanation::default() {
        return Ok(found);
    }
    let known = METRICS.iter().flat_map(names).chain(terms::all().map(|term| term.word));
    let meant = count::did_you_mean(&requested, known);
    Err(UnknownWord { word: super::clean::clean(word), meant })
}

fn names(metric: &Meaning) -> impl Iterator<Item = &'static str> + use<> {
    std::iter::once(metric.metric).chain(metric.also.iter().copied())
}

/// The entries as text.
pub fn explain_text(all: &Explanation) -> String {
    let metrics = all.metrics.iter().map(|each| {
        let also = match each.also {
            [] => String::new(),
            others => format!("  (also {})", others.join(", ")),
        };
        format!(
            "{}{also}\n  {}\n  unit:    {}\n  formula: {}\n  source:  {}\n  note:    {}\n",
            each.metric, each.meaning, each.unit, each.formula, each.source, each.caveats
        )
    });
    let terms = all.terms.iter().map(|term| {
        let method = match term.method {
            "" => String::new(),
            method => format!("  found by: {method}\n"),
        };
        let (word, kind) = (term.word, term.kind.word());
        format!("{word}  ({kind})\n  {}\n{method}  next:     {}\n", term.meaning, term.action)
    });
    metrics.chain(terms).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn each_word_is_explained_once() {
        let names = METRICS.iter().flat_map(|each| each.also.iter().chain([&each.metric]));
        let mut names: Vec<&str> = names.copied().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for each in METRICS {
            let found = explain(each.metric).unwrap();
            assert_eq!(found.metrics, [*each]);
            assert!(explain_text(&found).contains(each.formula));
        }
        for term in terms::all() {
            let found = explain(term.word).unwrap();
            assert!(found.terms.contains(&term));
            assert!(explain_text(&found).contains(term.action));
        }
        let list = explain("list").unwrap();
        assert_eq!((list.metrics.len(), list.terms.len()), (METRICS.len(), terms::all().count()));
    }

    #[test]
    fn other_spellings_are_known_and_a_slip_gets_a_suggestion() {
        assert_eq!(explain("QD").unwrap().metrics[0].metric, "depth");
        assert_eq!(explain("queue-depth").unwrap().metrics[0].metric, "depth");
        assert_eq!(explain("p999").unwrap().metrics[0].metric, "p99.9");
        // As the analysis of a sweep names them.
        assert_eq!(explain("saturation_depth").unwrap().metrics[0].metric, "saturation");
        assert_eq!(explain("saturation").unwrap().metrics[0].unit, "requests");
        assert_eq!(explain("N*").unwrap().metrics[0].metric, "n_star");
        let error = explain("iosp").unwrap_err().to_string();
        assert!(error.starts_with("found `iosp`"), "{error}");
        assert!(error.contains("did you mean `iops`?"), "{error}");
        assert_eq!(explain("NO-STEADY-PART").unwrap().terms[0].word, "no_steady_part");
    }
}
