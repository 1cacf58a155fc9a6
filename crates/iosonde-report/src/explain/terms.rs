//! Findings, checks, failures and exit codes: what each means, how it was found, what to do.

use serde::Serialize;

use iosonde_analysis::finding::{self, Detector};
use iosonde_analysis::profile;

/// Where a term occurs.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A finding about a run.
    Finding,
    /// A finding about a profiled program.
    ProfileFinding,
    /// A warning about an experiment.
    ExperimentFinding,
    /// A warning about a load on many hosts.
    HostsFinding,
    FsyncTest,
    /// A consistency check.
    Check,
    /// What is wrong with a block.
    Corruption,
    ExitCode,
    /// A word in which a verdict, a state or a class is stated.
    Word,
}

impl Kind {
    /// As printed.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Finding => "finding",
            Kind::ProfileFinding => "finding of a profile",
            Kind::ExperimentFinding => "warning of an experiment",
            Kind::HostsFinding => "warning about many hosts",
            Kind::FsyncTest => "test of fsync",
            Kind::Check => "consistency check",
            Kind::Corruption => "kind of corruption",
            Kind::ExitCode => "exit code",
            Kind::Word => "word of a report",
        }
    }
}

/// A term of the reports.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct Term {
    /// As reports print it.
    pub word: &'static str,
    /// Where it occurs.
    pub kind: Kind,
    /// What it means.
    pub meaning: &'static str,
    /// How it is found.
    pub method: &'static str,
    /// What to do, in one sentence.
    pub action: &'static str,
}

macro_rules! terms {
    ($($kind:ident {
        $($word:literal: $meaning:literal, $method:literal, $action:literal;)*
    })*) => {
        &[$($(Term {
            word: $word,
            kind: Kind::$kind,
            meaning: $meaning,
            method: $method,
            action: $action,
        }),*),*]
    };
}
pub(super) use terms;

/// The terms of these kinds. A check or an exit code without one fails a test.
const TERMS: &[Term] = terms! {
    Check {
        "little": "In flight = IOPS x mean latency (Little's law).",
            "three sums that are kept independently",
            "Discard the run: the measurement contradicts itself. Please report it.";
        "bytes": "Bytes = operations x size.", "counters of each job",
            "Discard the run: the measurement contradicts itself. Please report it.";
        "histogram": "The histogram holds as many samples as operations completed.",
            "count of the histogram, compared with the counter",
            "Discard the run: the measurement contradicts itself. Please report it.";
        "histogram_mean": "The mean of the histogram is that of the exact sums.",
            "both means, compared within the width of a bucket",
            "Discard the run: the measurement contradicts itself. Please report it.";
        "intervals": "The intervals of the series add up to the total.",
            "sum over the series, compared with the counters",
            "Use the totals rather than the series.";
        "region": "No offset lies outside the requested region.", "smallest and largest offset",
            "Discard the run, and please report it.";
        "depth": "The mean queue depth reaches the requested depth.",
            "time integral of the requests in flight",
            "Read the measured depth instead of the option.";
        "device": "The device transferred what we requested.",
            "counters of the device, compared with ours",
            "Look for a cache or for other programs on the device.";
        "device_queue": "The device's own queue is as long as ours.",
            "its time-weighted queue counter",
            "Look for splitting, merging, or other programs on the device.";
        "latency": "The device's own mean latency is not above ours.",
            "its time counters, compared with ours",
            "Look for other programs on the device.";
        "clock": "Two clocks agree on the length of the run.", "monotonic and processor clock",
            "Check the clock source (`iosonde doctor`), and repeat.";
        "suspend": "The machine was not suspended.", "boot time clock, compared with monotonic",
            "Repeat without suspending the machine.";
        "cpu": "CPU time is at most CPUs x time.", "resource usage of the process",
            "Repeat; the counters of this kernel may be coarse.";
        "bandwidth": "Not faster than the link of the device allows.", "speed of the link",
            "Find what answers instead of the device: a cache, or unwritten space.";
        "floor": "No mean latency is below the tool overhead without that of data.",
            "calibration before the run",
            "Find what answers instead of the device.";
        "area": "Time at depth adds up to the sum of latencies.", "the trace of a profile",
            "Read the counts; treat the depth as approximate.";
        "histograms": "The histograms hold as many samples as requests.", "the trace of a profile",
            "Treat the percentiles as approximate.";
        "lost": "No event of the trace was lost.", "the collector's own counters",
            "Profile a shorter time, or fewer devices.";
        "parts": "The parts of the latency add up to the whole.", "the trace of a profile",
            "Treat the division between queue and device as approximate.";
        "sizes": "Sizes add up to the bytes transferred.", "the trace of a profile",
            "Treat the block sizes as approximate.";
    }
    Corruption {
        "stale": "An older content of the block, although a newer write was acknowledged.",
            "generation in the header of the block, compared with the ledger",
            "Stop using the device for data; keep the report and its reproducing command.";
        "lost": "The block is as before any write, although one was acknowledged.",
            "content of the block, compared with the ledger",
            "Stop using the device for data; keep the report and its reproducing command.";
        "old-run": "Content of an earlier run, although this run wrote the block.",
            "identity of the run in the header", "Check that the right ledger was given; if so, \
             treat it as a lost write.";
        "misdirected": "Content that belongs to another offset.",
            "offset in the header, compared with the place",
            "Stop using the device for data: two blocks are affected, this one and that one.";
        "phantom": "A version of the block that this run has not written.",
            "generation in the header of the block, compared with every operation of the ledger",
            "Run `iosonde verify selftest`, and report it: the ledger or the verifier is wrong.";
        "torn": "Sectors of different writes are mixed in one block.",
            "generation of each sector",
            "Stop using the device for data; keep the report. A write that a power cut interrupted \
             may be there in part, and is not reported.";
        "swapped": "Sectors are in each other's place.", "index in each sector",
            "Stop using the device for data; keep the report and its reproducing command.";
        "duplicated": "A sector is stored in more than one place.", "index in each sector",
            "Stop using the device for data; keep the report and its reproducing command.";
        "shifted": "Sectors are displaced by a constant distance.", "index in each sector",
            "Look for a partition or a mapping that moved.";
        "bit-flip": "A few bits differ from the expected content.",
            "checksum of each sector, then a comparison of all bits",
            "Test the memory of the machine, then the cable and the device.";
        "corrupt": "The content is recognisable, and damaged.", "checksum of each sector",
            "Stop using the device for data; keep the report and its reproducing command.";
        "garbage": "Nothing of the block is recognisable.", "no sector has a valid checksum",
            "Check whether another program wrote to the target.";
        "unread": "The read returned without filling its buffer.",
            "a pattern that is put into the buffer before the read",
            "Look for a driver or a server that acknowledges reads that it did not perform.";
    }
    ExitCode {
        "0": "Done.", "", "Nothing.";
        "1": "The environment failed: I/O error, no space, no permission.", "",
            "Read the error; partial results are stored and marked.";
        "2": "The command line or a file is wrong.", "", "Read the error, which names the place.";
        "3": "Measured, but an expectation, a gate or a target was missed.", "",
            "Read which; the figures are valid.";
        "4": "Data is not as it was written.", "",
            "Stop using the device for data; keep the report.";
        "5": "The target was refused: data at risk, or not storage.", "",
            "Read the refusal: it names what was found and what would permit it.";
        "6": "Not to be trusted: consistency checks failed (INVALID), stored files were altered, \
             or the verifier failed its own test.", "",
            "Read which; discard figures whose checks failed.";
        "7": "Inconclusive: too little was measured for a verdict.", "", "Measure longer.";
        "125": "A command could not be profiled.", "", "Read the error.";
        "126": "The command of `profile` was found and could not be executed.", "",
            "Read the error: it names the file.";
        "127": "The command of `profile` was not found.", "", "Check its name and PATH.";
        "129": "The terminal was closed (SIGHUP).", "",
            "Read the partial result, or resume the experiment.";
        "130": "Interrupted (SIGINT).", "", "Read the partial result, or resume the experiment.";
        "143": "Terminated (SIGTERM).", "", "Read the partial result, or resume the experiment.";
    }
};

fn of_detector<F>(kind: Kind, detector: &Detector<F>) -> Term {
    let Detector { code: word, meaning, method, action, .. } = *detector;
    Term { word, kind, meaning, method, action }
}

/// Every term. Those of findings are what their detectors say.
pub fn all() -> impl Iterator<Item = Term> {
    let of_run = finding::DETECTORS.iter().map(|each| of_detector(Kind::Finding, each));
    let of_profile =
        profile::finding::DETECTORS.iter().map(|each| of_detector(Kind::ProfileFinding, each));
    let others = TERMS.iter().chain(super::words::WORDS).copied();
    of_run.chain(of_profile).chain(others)
}

/// What to do about a finding of one of these kinds.
pub fn action(kinds: &[Kind], code: &str) -> Option<&'static str> {
    let is_meant = |term: &Term| kinds.contains(&term.kind) && term.word == code;
    all().find(is_meant).map(|term| term.action)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(kind: Kind) -> Vec<&'static str> {
        let mut words: Vec<&str> =
            all().filter(|term| term.kind == kind).map(|term| term.word).collect();
        words.sort_unstable();
        words
    }

    #[test]
    fn every_kind_of_corruption_is_explained() {
        let mut classes: Vec<&str> =
            iosonde_model::content::classify::Class::ALL.iter().map(|class| class.word()).collect();
        classes.sort_unstable();
        assert_eq!(words(Kind::Corruption), classes);
    }

    #[test]
    fn an_action_is_one_sentence() {
        for term in all() {
            assert!(term.action.ends_with('.') && !term.meaning.is_empty(), "{}", term.word);
        }
        assert_eq!(action(&[Kind::Finding], "nothing"), None);
        let of = |kind: Kind| action(&[kind], "page_cache").unwrap_or_default();
        assert!(of(Kind::Finding).starts_with("Use direct I/O"));
        assert!(of(Kind::ProfileFinding).starts_with("Read the rates"));
    }
}
