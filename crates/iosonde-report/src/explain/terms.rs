//! Findings, checks, failures and exit codes: what each means, how it was found, what to do.

use serde::Serialize;

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

/// The terms of these kinds. A detector, a check or an exit code without one fails a test.
const TERMS: &[Term] = terms! {
    Finding {
        "began_empty": "The backlog of an open loop was still building up when the measurement \
                        began: its latencies are too low.",
            "how long latencies depend on earlier ones, compared with the warm-up",
            "Repeat with the longer warm-up that the finding names (--ramp-time).";
        "buffered": "Direct I/O is not in effect: the page cache is part of the measurement.",
            "what open(2) answered to O_DIRECT",
            "Measure on a file system with direct I/O, or state that the cache is meant.";
        "cgroup_limit": "The rate is what a cgroup allows, not what the storage can do.",
            "limits of the cgroups of this process, compared with the measured rate",
            "Raise or remove the I/O limit of the cgroup, or state it beside the figures.";
        "client_cpu": "This machine, not the device, is the limit.",
            "CPU time of the jobs and of the machine over the measured window",
            "Give it more CPUs: repeat with more jobs (check: --threads), or on an idle machine.";
        "client_lag": "Operations were submitted late although slots were free.",
            "due times of an open loop, compared with submission times",
            "Repeat on an idle machine, or at a lower rate per job.";
        "client_sched": "The host stalled threads for long enough to show in the latency tail.",
            "a thread that sleeps 25 ms and measures by how much it overslept",
            "Repeat on an idle machine: the tail is partly that of the host.";
        "clock_suspect": "The clock that times the requests cannot be trusted.",
            "two clocks read at both ends of the run, and the kernel's clock source",
            "Check the clock source of the machine (`iosonde doctor`), and repeat.";
        "compressed": "The target stores less than was written: part of the work was not done.",
            "allocated space, compared with the bytes written",
            "Write incompressible data (the default), or measure below the compression.";
        "depth_not_applied": "The requested queue depth was not reached.",
            "time integral of the requests in flight, compared with --iodepth",
            "Read the QD column instead of the option; a larger depth changes little.";
        "engine_fallback": "A less suitable engine was used than the one that was wanted.",
            "what the kernel answered when io_uring was set up",
            "Allow io_uring (`iosonde doctor` says what blocks it), or choose --ioengine.";
        "errors": "Requests failed, or did not complete.",
            "result of each request",
            "Read the kernel log (dmesg) and the drive's health (smartctl -a).";
        "fsync_suspicious": "The final fsync was faster than a flush of what was written can be.",
            "its duration, compared with the bytes written since the last sync",
            "Test whether flushes reach the device: iosonde verify fsync PATH.";
        "host_cache": "Random reads of a virtual disk are faster than flash: memory of the host \
                       serves them.",
            "latency distribution of a virtual disk",
            "Use a test file larger than the host's memory, or state that its cache is meant.";
        "level_change": "The rate changed: a burst at the start, or a rise.",
            "change points of the rate per interval, with a permutation test",
            "Measure longer, so that the level that lasts can be reported for itself.";
        "level_drop": "The rate fell to a lower level during the run, as when a cache is full.",
            "change point of the rate per interval, with a permutation test",
            "Measure longer, so that the lower level can be reported for itself.";
        "link_down": "The link runs below what both ends support.",
            "current and largest PCIe speed and width in sysfs",
            "Check the slot, the cable and the backplane.";
        "misaligned": "Writes do not fit the physical blocks of the device, which must read first.",
            "offsets and sizes, compared with the physical block size",
            "Align the partition and the block size to the physical block.";
        "mix_off": "The achieved share of reads differs from the nominal one.",
            "operations counted in the measured window",
            "Use one role with --rwmixread where the ratio matters.";
        "no_steady_part": "The rate was still changing when the run ended: one mean does not \
                           describe it.",
            "the halves of the measured window, compared",
            "Measure longer (--seconds or --runtime), or prepare the device first.";
        "noisy_neighbour": "Other programs used the device during the run.",
            "counters of the device, less our own requests",
            "Repeat when the device is idle; `pidstat -d 1` shows who uses it.";
        "not_local": "The path to the storage goes through a network, a hypervisor or a program.",
            "type of the file system and of the devices below it",
            "Read the figures as those of the whole path.";
        "odirect_ignored": "Direct I/O was accepted, but memory served the reads.",
            "bytes read by the device, compared with ours",
            "Use a test file larger than memory.";
        "off_schedule": "The due times of an open loop differ from what was requested.",
            "the recorded schedule, compared with the requested rate",
            "Repeat on an idle machine, or at a lower rate.";
        "page_cache": "Buffered reads were served from memory.",
            "blocks found in the page cache before the run; bytes read by the device",
            "Use direct I/O (--direct 1), or drop the caches first.";
        "physics": "Faster than the link, or than this program can be: nothing real was measured.",
            "bandwidth of the link and the cost of a bare system call",
            "Find what answers instead of the device: a cache, a null target, unwritten space.";
        "punted": "io_uring hands every request to a worker thread of the kernel.",
            "count of such threads during the run",
            "Compare with --ioengine psync; use a file system that supports non-blocking I/O.";
        "ram_backed": "The target is memory.",
            "type of the device or of the file system",
            "Measure on storage, unless memory is what is meant.";
        "shared_extents": "The first write to each block must copy it (a snapshot or reflink).",
            "extents of the file, as the file system reports them",
            "Write the file once before measuring, or use a file of its own.";
        "smart_failing": "The drive reports that it is failing, or lost data during the run.",
            "the drive's health report before and after the run",
            "Back up the data and replace the drive.";
        "stall": "For short times far less was done than usual.",
            "operations per 10 ms or more, compared with their median",
            "Look for what happened at these times (kernel log, other programs), and repeat.";
        "suspended": "The machine was suspended during the run.",
            "a clock that counts while suspended, compared with one that does not",
            "Repeat without suspending the machine.";
        "thermal": "The drive or the CPU was too hot and slowed down.",
            "temperatures and throttling counters before and after the run",
            "Improve the cooling, and repeat once it is cool.";
        "token_bucket": "A burst allowance was used up, and a limit applies since.",
            "two levels of the rate, the lower one nearly constant",
            "Plan with the lower rate; measure longer than the burst lasts.";
        "unsustainable": "Operations were due faster than the storage could serve them.",
            "backlog of an open loop, growing to the end",
            "Lower --rate-iops: latency at this rate has no limit.";
        "unwritten_reads": "Space that was never written was read: no device was asked.",
            "holes and unwritten extents of the file",
            "Write the whole range once before reading it.";
        "write_cache_volatile": "An acknowledged write is not yet durable.",
            "the write cache that the device reports",
            "Read the Durable column for data that must survive a power cut.";
    }
    ProfileFinding {
        "buffered_stream": "Large sequential I/O went through the page cache.",
            "sizes and order of requests, and opens with O_DIRECT",
            "Consider O_DIRECT, or posix_fadvise(DONTNEED), for data that is used once.";
        "bursty": "Requests arrive several at once, followed by long pauses.",
            "coefficient of variation of the inter-arrival times",
            "Size the storage for the burst, or spread the requests.";
        "device_tail": "A few requests take far longer in the device than the others.",
            "time in the device of requests of similar size",
            "Look for stalls of the device: background work, other traffic, its health.";
        "dirty_left": "Data reached the device after the program's end, or not during the profile.",
            "dirty pages that the program left, and their write-back",
            "Add a sync where the data must be durable at the end.";
        "durable_writes": "Most writes are synchronous (O_SYNC, O_DSYNC).",
            "flags of opens and of requests",
            "Write several and sync once where the program allows it.";
        "fits_in_memory": "The same data was read repeatedly, and would fit in memory.",
            "distinct blocks read, compared with the memory of the machine",
            "Give it cache: buffered I/O, or a larger buffer pool.";
        "hot_spot": "Most requests go to a small part of the range.",
            "requests by chunk of 1 MiB",
            "Cache the hot part, or put it on faster storage.";
        "io_errors": "Requests of the program ended with an error.",
            "result of each request at the block layer",
            "Read the kernel log (dmesg) and the drive's health (smartctl -a).";
        "journal": "Journals and metadata add a quarter of the program's bytes or more.",
            "requests of kernel threads for the file system as a whole",
            "Batch creates, renames and syncs; preallocate files that grow.";
        "latency_bound_reads": "A thread waits for small random reads one at a time.",
            "depth, sizes and the time that the thread spent waiting",
            "Issue reads in parallel: more threads, io_uring, or read-ahead.";
        "limited_fidelity": "Only totals were recorded, no single requests.",
            "which tracepoints could be attached",
            "Run it with CAP_BPF and CAP_PERFMON (as root).";
        "not_visible": "A device was used whose requests no tracepoint covers.",
            "counters of the devices, compared with the trace",
            "Profile the device below it.";
        "other_traffic": "Other programs used the same device at the same time.",
            "requests by class",
            "Repeat when the device is idle, or move the other program away.";
        "overwrites": "The same blocks are written repeatedly.",
            "distinct blocks written, compared with blocks written",
            "Collect changes in memory before writing them.";
        "partial_blocks": "Writes are not multiples of the device's physical block size.",
            "sizes and offsets, compared with the physical block size",
            "Write whole physical blocks.";
        "queue_time": "Requests spend more time before the device than in it.",
            "time from arrival to issue, compared with the time in the device",
            "Send fewer at once, or look for a limit (cgroup, scheduler, device queue).";
        "strided": "Requests follow each other at a constant stride.",
            "distances between successive requests of a thread",
            "Reorder the data or the loop so that accesses are contiguous.";
        "sync_bound": "Syncs take half of a thread's time or more.",
            "time in sync calls over the duration",
            "Sync less often, group commits, or use storage with a protected cache.";
        "sync_small_writes": "Small writes are synced one by one.",
            "writes between sync calls, and the time in them",
            "Group several changes into one sync.";
        "written_for_it": "Other threads wrote back what the program left in the page cache.",
            "pages dirtied by the program, written by another thread",
            "Count these requests as the program's own.";
    }
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
        "floor": "No latency is below the cost of a bare request.", "calibration before the run",
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
        "phantom": "Content that no write of the ledger produced.",
            "header of the block, compared with every operation of the ledger",
            "Check whether another program wrote to the target.";
        "torn": "Sectors of different writes are mixed in one block.",
            "generation of each sector",
            "Expect this after a power cut only; else treat it as corruption.";
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
        "6": "INVALID: consistency checks failed.", "", "Discard the figures.";
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

/// Every term.
pub fn all() -> impl Iterator<Item = &'static Term> {
    TERMS.iter().chain(super::words::WORDS)
}

/// What to do about a finding.
pub fn action(code: &str) -> Option<&'static str> {
    let of = |term: &&Term| {
        matches!(
            term.kind,
            Kind::Finding | Kind::ProfileFinding | Kind::ExperimentFinding | Kind::HostsFinding
        )
    };
    all().filter(of).find(|term| term.word == code).map(|term| term.action)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(kind: Kind) -> Vec<&'static str> {
        let mut words: Vec<&str> =
            TERMS.iter().filter(|term| term.kind == kind).map(|term| term.word).collect();
        words.sort_unstable();
        words
    }

    #[test]
    fn every_finding_is_explained() {
        let codes = |detectors: &mut dyn Iterator<Item = &'static str>| {
            let mut codes: Vec<&str> = detectors.collect();
            codes.sort_unstable();
            codes
        };
        let all = iosonde_analysis::finding::DETECTORS;
        let run = codes(&mut all.iter().map(|(code, _)| *code));
        assert_eq!(words(Kind::Finding), run);
        let all = iosonde_analysis::profile::finding::DETECTORS;
        // Both kinds of reports have a `page_cache`.
        let profile = codes(&mut all.iter().map(|(code, _)| *code).filter(|c| *c != "page_cache"));
        assert_eq!(words(Kind::ProfileFinding), profile);
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
        assert_eq!(action("nothing"), None);
        assert!(action("no_steady_part").is_some_and(|words| words.starts_with("Measure longer")));
    }
}
