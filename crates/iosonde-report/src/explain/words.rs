//! Warnings of experiments, tests of fsync, and the words in which reports state a verdict.

use super::terms::{Kind, Term, terms};

/// Every one of them. A word that a schema lists and that is missing here fails a test.
pub(super) const WORDS: &[Term] = terms! {
    ExperimentFinding {
        "above_bound": "Throughput at depth is above what the latency at depth 1 allows.",
            "N x throughput at depth 1 as an upper bound of the throughput at depth N",
            "Look for a cache or for merged requests, and keep the device out of power saving.";
        "beyond_physics": "Latency below what the type of device can do.",
            "mean latency, compared with the fastest devices of this type",
            "Find what answers instead of the device: a cache, or unwritten space.";
        "cache_label": "The cache was not in the state that the label of a curve states.",
            "share of the requested bytes that the device transferred",
            "Read those curves without their label, or repeat with enough free memory.";
        "few_operations": "A run had too few operations for a figure.",
            "operations in the window, compared with 30",
            "Repeat with longer runs (--seconds).";
        "level_not_applied": "The transferred size is not the requested size.",
            "bytes / operations of each cell, compared with its block size",
            "Discard those levels: another limit of the engine or the kernel was in effect.";
        "not_qd1": "The mean queue depth of a baseline at depth 1 was above 1.",
            "time integral of the requests in flight",
            "Do not use it as the latency of a single request.";
        "not_steady": "The rounds ended without a steady state.",
            "range and slope of the tracked figures over the last rounds (SNIA PTS)",
            "Repeat with more rounds (--rounds), or with more preconditioning.";
        "search_not_over": "A search ended at a limit of time or of runs.",
            "the limits of the experiment",
            "Resume it or give it more time: a better combination may exist.";
        "size_step": "Service time does not grow along one line with the block size.",
            "residuals of the fitted line t(s) = t0 + s / bandwidth",
            "Use the measured points on each side of the step instead of the line.";
        "slc_exhausted": "Writing became slower for good after a certain amount of data.",
            "change points of the write rate over the bytes written",
            "Plan with the lower rate for writes that are larger than the cache.";
        "state_lost": "The target was prepared again after an interruption.",
            "the stored state of the stage",
            "Run the experiment without an interruption to use all its rounds.";
        "steady_state_left": "A target that had reached a steady state left it again.",
            "range and slope of the tracked figures after the steady window",
            "Look for garbage collection, temperature, or other programs.";
        "trend_over_runs": "Throughput rose or fell from run to run, whatever the setting.",
            "the median slope between runs of one cell over their order, and its 95 % interval",
            "Bring the storage into a steady state first; look for temperature and other loads.";
    }
    HostsFinding {
        "invalid_host": "A consistency check failed on a host.",
            "the consistency checks of each host's own run",
            "Discard the total; look at the result that this host has kept.";
        "lost_host": "A host did not do everything that was asked of it.",
            "the exit code of its command, or the end of the connection",
            "Read why, correct it there, and repeat: the total is PARTIAL.";
        "no_common_time": "There was no time in which all hosts ran.",
            "the beginning and the end of each host's window on the coordinator's clock",
            "Repeat with a longer --runtime, so that no host ends before another begins.";
        "server_cache": "The disks of the server read less than half of what the hosts read.",
            "the server's counters before and after the run (--server-counters)",
            "Use a region larger than the memory of the server, or state that its cache is meant.";
        "slow_host": "A host was slower than the others.",
            "the 95 % interval of its rate, wholly below 80 % of the median of the others",
            "Run iosonde doctor and iosonde check on it, and compare with another host.";
        "start_skew": "The hosts began more than 2 % of the window apart.",
            "the beginning of each host's window on the coordinator's clock",
            "Repeat with a longer --runtime, or on a network that is less busy.";
    }
    FsyncTest {
        "F0": "Nothing could be tested.", "", "Read the reasons of the other tests.";
        "F1": "Whether an fsync sends a flush to each device below the file.",
            "the kernel's flush counters before and after every fsync",
            "Where none is sent, mount with barriers or enable flushes of the virtual disk.";
        "F2": "Whether the time of a flush grows with the amount of data before it.",
            "latency of a flush after 64 KiB to 64 MiB of writes, in random order",
            "Where it does not grow, test with a power cut: iosonde verify powercut.";
        "F3": "Whether every logged write before a flush is enough to recover the data.",
            "replay of a log of the writes (dm-log-writes)",
            "Read the reason; no verdict depends on this test.";
        "F4": "Whether data survives a power cut.", "a witness on another machine",
            "Run iosonde verify powercut with a witness on another machine.";
    }
    Word {
        // The verdict of runs, and its confidence.
        "no_fault_seen": "No detector reports that the figures are limited, uncertain or wrong.",
            "all detectors of findings", "Nothing; a fault without a trace is still possible.";
        "limited_by": "The figures are those of a limit that is not the device's own.",
            "a finding of severity `limit`", "Read the finding, which names the limit.";
        "low_confidence": "The figures may be off by a tenth or more, or by an unknown amount.",
            "a finding of this severity", "Remove the cause that the finding names, and repeat.";
        "failing": "Errors, failed consistency checks, or a device that reports a failure.",
            "a finding of severity `fault`, or a consistency check",
            "Do not use the figures; read the finding.";
        "high": "Findings move the headline figures by no more than their intervals.",
            "the effect of each finding", "Nothing.";
        "medium": "Findings move the figures by less than a tenth, or more is only suspected.",
            "the effect of each finding", "Read the findings before you use the figures.";
        "low": "Findings move the figures by a tenth or more, or by an unknown amount.",
            "the effect of each finding", "Remove the cause that the finding names, and repeat.";
        "good": "No finding casts doubt on this row.", "all detectors of findings", "Nothing.";
        // Severity and strength of a finding.
        "fact": "A finding that only describes.", "", "Nothing.";
        "warning": "A finding that may move the figures.", "", "Read it before you use them.";
        "limit": "A finding that names what limited the rate.", "", "Raise the limit, or state it.";
        "fault": "A finding of an error or of a failing device.", "", "Do not use the figures.";
        "invalid": "A consistency check failed that every sound measurement passes.",
            "the consistency checks", "Discard the figures.";
        "note": "A consistency check of this severity leaves the figures valid.", "",
            "Read which figure it concerns.";
        "proven": "A counter or the kernel reports it.", "", "Rely on it.";
        "supported": "Evidence and a discriminating test agree.", "",
            "Rely on it; if much depends on it, test other causes too.";
        "consistent_with": "The evidence also fits other causes.", "",
            "Test the other causes before you act.";
        "not_available": "The kernel or the device does not show what a test needs.", "",
            "Read the reason, which says what would show it.";
        // How a run ended.
        "complete": "It ended as planned.", "", "Nothing.";
        "incomplete": "Some runs of a campaign are missing.", "",
            "Complete it: iosonde campaign resume.";
        "complete,_not_steady_throughout": "All runs were made, not all in a steady state.",
            "range and slope of the tracked figures (SNIA PTS)",
            "Read which experiments, and repeat them with more rounds.";
        "partial": "It ended before its planned end; what was measured is kept.", "",
            "Read the figures as those of a shorter run.";
        "failed": "It ended by an error; of a gate: the limit is exceeded.", "",
            "Read the error or the gate beside it.";
        "interrupted": "A signal ended it; what was measured is kept.", "",
            "Repeat it, or resume the experiment.";
        "exited": "The command ended by itself.", "", "Read its exit code.";
        "killed": "A signal ended the command.", "", "Read which signal.";
        "gone": "The profiled process or cgroup no longer existed.", "", "Nothing.";
        "stopped": "The user ended the profile from its live view.", "", "Nothing.";
        "time_up": "The time of the profile (--for) was over.", "", "Nothing.";
        // Latency targets.
        "MET_AND_BINDING": "The latency target is met, and a larger depth is not shown to meet it.",
            "counts of slow requests at each depth", "Use this depth.";
        "MET_NOT_BINDING": "The latency target is met, and something else limits the depth.",
            "counts of slow requests at each depth",
            "Read what limits it; the target could be stricter.";
        "INFEASIBLE": "The latency target is missed even with one request in flight.",
            "counts of slow requests at depth 1",
            "Ask for a higher latency, or use another device.";
        "UNSTABLE": "The latency target is met only at times.",
            "counts of slow requests in each interval", "Measure longer, or remove other load.";
        "UNDECIDED": "The time was too short to find the depth.",
            "counts of slow requests at each depth", "Measure longer.";
        "max_depth": "The largest permitted depth limits a latency target.", "",
            "Permit a larger depth.";
        "target": "The latency target itself limits the depth.", "", "Nothing.";
        "search": "A latency target finds its depth before the measurement, and keeps it.", "",
            "Use this mode for a figure that can be repeated.";
        "hold": "A latency target adjusts its depth during the measurement.", "",
            "Use this mode for a load that changes.";
        "as_planned": "The planned warm-up was long enough.", "MSER-5 on the rate", "Nothing.";
        "lengthened": "The warm-up was lengthened until the rate was steady.",
            "MSER-5 on the rate", "Nothing.";
        // Comparisons.
        "faster": "B is better than A by more than the tolerance.",
            "interval of the ratio over runs", "Nothing.";
        "slower": "B is worse than A by more than the tolerance.",
            "interval of the ratio over runs",
            "Read the findings of the runs of B (`iosonde report RUN`), and what changed since A.";
        "below_tolerance": "B differs from A, by less than the tolerance.",
            "interval of the ratio over runs", "Nothing.";
        "same": "B equals A within the tolerance; of a read: the second one returned the same.",
            "interval of the ratio over runs; a second read", "Nothing.";
        "inconclusive": "The data is too little or too noisy for a verdict.",
            "interval of the ratio over runs; number of checked blocks",
            "Measure longer, or more often.";
        "too_few": "Fewer than five runs of a side, or fewer than six rounds of --run.",
            "number of runs", "Make more runs.";
        "passed": "The change is within the limit of the gate.", "interval of the ratio",
            "Nothing.";
        "unknown": "The data does not decide.", "", "Read the reason beside it.";
        "agrees": "The other program measures the same rate within the tolerance.",
            "interval of the ratio over alternating rounds", "Nothing.";
        "differs": "The other program measures another rate.",
            "interval of the ratio over alternating rounds",
            "Compare the options of both programs.";
        "undecided": "The rounds do not show whether there is a difference.",
            "interval of the ratio over rounds", "Make more rounds.";
        // Fidelity of a replay.
        "mix": "How similar the shares of reads, writes and discards are.",
            "both profiles, class by class", "Nothing if it is near 1.";
        "gaps": "How similar the inter-arrival times are.", "distance of both distributions",
            "Replay on a device that is as fast as the recorded one.";
        "sequential": "How similar the sequential fractions are.", "both profiles",
            "Nothing if it is near 1.";
        "working_set": "How similar the numbers of touched blocks are.", "both profiles",
            "Replay for as long as was recorded.";
        "skew": "How similar the shares of the most frequent blocks are.", "both profiles",
            "Nothing if it is near 1.";
        "syncs": "How similar the rates of syncs are.", "both profiles",
            "Nothing if it is near 1.";
        "device_rate": "How similar the bytes per second of the device are, journal included.",
            "requests of both profiles", "Replay on a device that is as fast as the recorded one.";
        "flushes": "How similar the flushes per second of the device are.",
            "requests of both profiles", "Nothing if it is near 1.";
        "journal": "How similar the journal's shares of the bytes are.",
            "requests of both profiles", "Nothing if it is near 1.";
        // The first lines of a report, and marks and headings of its tables.
        "Result": "What was found, compared with something where there is something.",
            "the figures, the class of storage, earlier results", "Read Confidence beside it.";
        "Confidence": "How far the figures are to be trusted: high, medium or low.",
            "the effect of each finding on the headline figures",
            "Read the reason after the colon.";
        "Next": "The one action that helps most.", "the most severe finding", "Do it.";
        "Waits": "What the threads of the program waited for, with shares.",
            "off-CPU time, by what ended it", "Start with the largest share.";
        "Heaviest": "The files with most bytes.", "requests by inode", "Nothing.";
        "lower_third": "In the lowest third of a range of a class, on a logarithmic scale.",
            "references/storage.toml", "Nothing.";
        "middle_third": "In the middle third of a range of a class, on a logarithmic scale.",
            "references/storage.toml", "Nothing.";
        "upper_third": "In the highest third of a range of a class, on a logarithmic scale.",
            "references/storage.toml", "Nothing.";
        "service": "Latency from submission, without the wait for a free slot.",
            "time of completion - time of submission", "Compare it with the response time.";
        "response": "Latency from the time at which a request was due.",
            "time of completion - due time (open loop)", "Use it: it is what a user waits for.";
        "stdev": "Standard deviation of the latencies of one run.",
            "square root of the variance over requests",
            "Read the percentiles: latencies are skewed.";
        "*": "A warning or a limit concerns this row.", "the findings below the table",
            "Read them.";
        "!": "The figure has low confidence, or the row failed.", "the findings below the table",
            "Read them before you use the figure.";
        "~": "The percentile has no 95 % interval.",
            "too few of its requests are independent of each other", "Measure longer.";
        "n/a": "There is no such figure, and the report says why.",
            "too few requests, or a fact that cannot be seen", "Read the reason.";
        "+D": "The workload above, each write durable before it completes (RWF_DSYNC).", "",
            "Compare it with the row above: the difference is the cost of durability.";
        "Pattern": "Order of the offsets, and what is done at them.", "", "Nothing.";
        "IO Size": "Block size of a request.", "", "Nothing.";
        "Thr": "Threads of the workload, each with a queue of its own.", "", "Nothing.";
        "Avg Lat": "Arithmetic mean of the latency.", "sum of latencies / number of them",
            "Read the percentiles: a few slow requests move a mean.";
        "P99 Lat": "99 % of the requests took this long or less.",
            "nearest rank in the histogram of all requests", "Read its interval below the row.";
        "R/W %": "Shares of reads and writes, as achieved.", "operations completed", "Nothing.";
        "sd": "Standard deviation over runs.", "square root of the variance over runs",
            "Compare by the interval: a standard deviation is not a confidence interval.";
        "acknowledged": "Writes that completed, whether or not they are durable.",
            "completions in the measured window", "Read the durable rate beside it.";
        "tool_overhead": "Time that this program adds to each operation, data included.",
            "a calibration of the engine on this machine", "Nothing, if it is a small share.";
        "class": "The class of storage whose ranges fit most rows.",
            "references/storage.toml, by transport and model of the device",
            "Name classes of your own in references.toml.";
        "typical": "Within the range of the class, and a quarter beyond.",
            "references/storage.toml", "Nothing.";
        "slow": "Below the range of the class by more than a quarter.",
            "references/storage.toml", "Read the findings, or compare with an earlier result.";
        "fast": "Above the range of the class by more than a quarter.",
            "references/storage.toml", "Look for a cache that serves the requests.";
        // Self-test of the verifier.
        "visible": "Injected faults that changed what can be read.",
            "the simulated device compared with what was written", "Nothing.";
        "injected": "Simulations in which the fault was carried out.", "", "Nothing.";
        "detected": "Visible faults that the verifier reported.", "", "Nothing.";
        "named": "Detected faults that were given the right kind.", "", "Nothing.";
        "alarms": "Reports of corruption where there was none.",
            "simulations without a fault", "Report it: the verifier is wrong.";
        "drop": "Injected: a write is acknowledged and lost.", "", "Nothing.";
        "delay": "Injected: a write takes effect later.", "", "Nothing.";
        "tear": "Injected: a part of a write takes effect.", "", "Nothing.";
        "flip": "Injected: bits of a stored block change.", "", "Nothing.";
        "byte": "Injected: a byte of a stored block changes.", "", "Nothing.";
        "zero": "Injected: a block is stored as zeros.", "", "Nothing.";
        "duplicate": "Injected: a block is stored at a second place, too.", "", "Nothing.";
        "swap": "Injected: two blocks change places.", "", "Nothing.";
        "misdirect": "Injected: a write goes to another place.", "", "Nothing.";
        "bit-stored": "Injected: a bit of the file changes.", "", "Nothing.";
        "tear-stored": "Injected: a part of a block in the file is of an older write.",
            "", "Nothing.";
        "zeros-stored": "Injected: a block of the file becomes zeros.", "", "Nothing.";
        "older-stored": "Injected: a block of the file is of an older write.", "", "Nothing.";
        "newer-stored": "Injected: a block of the file is of a write that was never made.",
            "", "Nothing.";
        "other-run": "Injected: a block of the file is of another run.", "", "Nothing.";
        "other-shape": "Injected: a block of the file is of a load with other sizes.",
            "", "Nothing.";
        "untrimmed": "Injected: a trimmed block of the file has its data again.", "", "Nothing.";
        "superseded": "Injected: a block of the file is of a write that a later one replaced.",
            "", "Nothing.";
        "swap-jobs": "Injected: sectors of two jobs change places in the file.", "", "Nothing.";
        "swap-in-block": "Injected: two sectors of a block change places in the file.",
            "", "Nothing.";
        "swap-blocks": "Injected: sectors of two blocks change places in the file.", "", "Nothing.";
        "copy-in-block": "Injected: a sector is copied over another of its block in the file.",
            "", "Nothing.";
        "copy-blocks": "Injected: a sector is copied into another block in the file.",
            "", "Nothing.";
        "copy-jobs": "Injected: a sector is copied into a block of another job in the file.",
            "", "Nothing.";
        "shift-in-block": "Injected: sectors of a block move on within it in the file.",
            "", "Nothing.";
        "shift-blocks": "Injected: sectors move into the next block in the file.", "", "Nothing.";
        "shift-jobs": "Injected: sectors move into a block of another job in the file.",
            "", "Nothing.";
        "swap-sectors": "Injected: two sectors of a block change places.", "", "Nothing.";
        "copy-sector": "Injected: a sector is stored over another one.", "", "Nothing.";
        "shift-sectors": "Injected: the sectors of a block are stored one place further.", "",
            "Nothing.";
        "reorder": "Injected: writes take effect in another order.", "", "Nothing.";
        "read-flip": "Injected: bits change on the way of a read.", "", "Nothing.";
        "read-misdirect": "Injected: a read returns another block.", "", "Nothing.";
        "sync-eio": "Injected: a sync reports an I/O error.", "", "Nothing.";
        "sync-lie": "Injected: a sync reports success and does nothing.", "", "Nothing.";
        "write-eio": "Injected: a write reports an I/O error.", "", "Nothing.";
        "read-eio": "Injected: a read reports an I/O error.", "", "Nothing.";
        "short": "Injected: a transfer moves fewer bytes than requested.", "", "Nothing.";
        "enospc": "Injected: a write finds no space.", "", "Nothing.";
        // Verification.
        "pass": "Every block that was read back contains what it must.",
            "identity and checksum of each sector, compared with the ledger", "Nothing.";
        "written": "Data was written and not yet read back.", "",
            "Read it back: iosonde verify check.";
        "fail": "At least one block does not contain what was written.",
            "identity and checksum of each sector, compared with the ledger",
            "Stop using the device for data; keep the report and its reproducing command.";
        "answer": "A cache may have answered reads instead of the device.",
            "type and state of each cache on the way", "Bypass it, or read after a restart.";
        "not": "A cache cannot have answered.", "type and state of each cache on the way",
            "Nothing.";
        "none": "Not read a second time; of a request of a profile: no flag.", "", "Nothing.";
        "right": "The second read returned the right data.", "a second read",
            "Look for a fault on the way: memory, cable, controller.";
        "other": "The second read returned other wrong data; of a profile: requests of others.",
            "a second read; the thread of each request", "Read which one it concerns.";
        "reached": "A flush was counted at this device for each fsync.",
            "the kernel's flush counters", "Nothing.";
        "missing": "No flush was counted at this device.", "the kernel's flush counters",
            "Mount with barriers, or enable flushes of the virtual disk.";
        "some": "Fewer flushes than fsync calls were counted.", "the kernel's flush counters",
            "Look for a file system or a layer that merges or omits flushes.";
        "not_needed": "The device has no volatile cache, so it needs no flush.",
            "its `write_cache` attribute", "Nothing.";
        "drowned": "Flushes of others hide ours.", "the kernel's flush counters",
            "Repeat while no other program writes.";
        "proportional": "Flush time grows with the amount of data.",
            "a line through latency over bytes", "Nothing: a flush that writes behaves so.";
        "flat": "Flush time does not grow with the amount of data.",
            "a line through latency over bytes", "Test with a power cut: iosonde verify powercut.";
        // Profiles.
        "program": "Requests that threads of the program submitted.", "the thread of each request",
            "Nothing.";
        "write_back": "Requests that the kernel made to write the program's dirty pages.",
            "the owner of each page", "Count them as the program's.";
        "device_flush": "Flushes that a file system sends to the device.",
            "flags of each request", "Batch the syncs of the program if they are many.";
        "read_ahead": "Reads that the kernel made before the program asked for the data.",
            "flags of each request", "Nothing.";
        "sync": "Writes that somebody waits for.", "flags of each request", "Nothing.";
        "meta": "Metadata of a file system, its journal included.", "flags of each request",
            "Nothing.";
        "fua": "Writes that must be durable when they complete.", "flags of each request",
            "Batch the syncs of the program if they are many.";
        // Work of file systems.
        "pages_of_program": "Dirty pages that ext4 writes in calls of the program.",
            "tracepoints of ext4", "Write more between syncs.";
        "pages_of_others": "Dirty pages that ext4 writes elsewhere.", "tracepoints of ext4",
            "Nothing.";
        "write_back_background": "Write-back because many pages are dirty.",
            "tracepoints of write-back", "See vm.dirty_background_bytes.";
        "write_back_memory": "Write-back because memory is short.", "tracepoints of write-back",
            "Give the machine more memory.";
        "write_back_sync": "Write-back because somebody waits for a sync.",
            "tracepoints of write-back", "Sync less often.";
        "write_back_age": "Write-back of pages that have been dirty for long.",
            "tracepoints of write-back", "Nothing.";
        "write_back_other": "Write-back for another reason.", "tracepoints of write-back",
            "Nothing.";
        "commit": "Commits of ext4's journal.", "tracepoints of the journal",
            "Sync less often.";
        "commit_operations": "Operations that these commits made durable.",
            "tracepoints of the journal", "Nothing.";
        "commit_wait": "Commits wait for operations under way.", "tracepoints of the journal",
            "Nothing.";
        "commit_data": "Commits write data of files first.", "tracepoints of the journal",
            "Sync the files before, or write less.";
        "commit_log": "Commits write the log, and flush the cache.", "tracepoints of the journal",
            "Use a device with fast flushes.";
        "log_force_of_program": "The program has the log of XFS written out.", "tracepoints of XFS",
            "Sync less often.";
        "log_force_of_others": "Others have the log of XFS written out.", "tracepoints of XFS",
            "Nothing.";
        "log_full_of_program": "The program waits for room in the log of XFS.",
            "tracepoints of XFS", "Use a larger log.";
        "log_full_of_others": "Others wait for room in the log of XFS.", "tracepoints of XFS",
            "Use a larger log.";
        "tracepoints": "Each request was traced.", "tracepoints of the kernel", "Nothing.";
        "counters": "Only sums are known; no request was traced.", "counters of the kernel",
            "Repeat as root, or with CAP_BPF and CAP_PERFMON.";
        "regular": "Inter-arrival times vary less than those of random arrivals.",
            "coefficient of variation of the inter-arrival times", "Nothing.";
        "poisson_like": "Inter-arrival times vary as those of random arrivals.",
            "coefficient of variation of the inter-arrival times", "Nothing.";
        "bursty": "Inter-arrival times vary more than those of random arrivals.",
            "coefficient of variation of the inter-arrival times",
            "Size a device for the bursts, not for the mean.";
    }
};
