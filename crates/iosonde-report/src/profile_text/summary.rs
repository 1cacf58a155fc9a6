//! The summary: rates, threads, ratio, order, syncs, flags.

use crate::wrap::Text;
use iosonde_analysis::profile::{Figures, OpFigures, Side, missing};
use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::{FileRun, Method, Op};
use iosonde_model::units::{bytes, count, duration};

use super::cells::{maybe_percent, megabytes, megabytes_per_s, percent, rate};
use super::{labelled, no_data};

/// `IO Summary:` and its lines.
pub(super) fn summary(out: &mut Text, run: &ProfileRun, figures: &Figures) {
    out.push_str("IO Summary:\n");
    match &figures.program {
        Some(side) => {
            rates(out, run, figures, side);
            shape(out, figures, side);
        }
        None => unseen(out, figures),
    }
    syncs(out, run, figures);
    opens(out, run, figures);
    if run.source.method == Method::Counters || figures.program.is_none() {
        counters(out, figures);
    }
    calls(out, figures);
    page_cache(out, run, figures);
}

fn rates(out: &mut Text, run: &ProfileRun, figures: &Figures, side: &Side) {
    let (read, write) = (side.op(Op::Read), side.op(Op::Write));
    labelled(out, "Throughput:", &throughput(side));
    let after = match side.window_ns.saturating_sub(run.measured_ns) {
        0 => String::new(),
        _ if run.settle_ns == 0 => format!(
            "over {}, until the last of these requests had ended",
            duration::span(side.window_ns)
        ),
        ns => format!(
            "over {}, {} of it after the end, until what it wrote was written back",
            duration::span(side.window_ns),
            duration::span(ns)
        ),
    };
    if !after.is_empty() {
        labelled(out, "", &after);
    }
    let requests = format!(
        "Read {} | Write {} (requests of the block layer)",
        rate(read.requests_per_s),
        rate(write.requests_per_s)
    );
    labelled(out, "IOPS:", &requests);
    let named = [("Discards:", Op::Discard), ("Flushes:", Op::Flush), ("Other:", Op::Other)];
    for (label, op) in named {
        let op = side.op(op);
        if op.requests > 0 {
            labelled(out, label, &beside(op));
        }
    }
    let errors: u64 = side.ops.iter().map(|op| op.errors).sum();
    if errors > 0 {
        labelled(out, "Errors:", &format!("{} ended with one", count::of(errors, "request")));
    }
    if let Some(all) = figures.everybody.as_ref().filter(|all| all.requests() > side.requests()) {
        let (read, write) = (all.op(Op::Read), all.op(Op::Write));
        let words = format!(
            "{}; {} and {} requests/s, over {}",
            throughput(all),
            rate(read.requests_per_s),
            rate(write.requests_per_s),
            duration::latency(all.window_ns as f64)
        );
        labelled(out, "With others:", &words);
    }
}

fn throughput(side: &Side) -> String {
    format!(
        "Read {} | Write {}",
        megabytes_per_s(side.op(Op::Read).bytes_per_s),
        megabytes_per_s(side.op(Op::Write).bytes_per_s)
    )
}

fn beside(op: &OpFigures) -> String {
    let mut words = format!("{} ({}/s)", count::thousands(op.requests), rate(op.requests_per_s));
    if op.bytes > 0 {
        words.push_str(&format!(", {}", megabytes_per_s(op.bytes_per_s)));
    }
    words
}

fn shape(out: &mut Text, figures: &Figures, side: &Side) {
    if let Some(threads) = figures.io_threads {
        let words = format!(
            "{}{} (and {} of the kernel, {} of others)",
            if threads.at_least { "at least " } else { "" },
            threads.of_program,
            threads.of_kernel,
            threads.others
        );
        labelled(out, "IO Threads:", &words);
    }
    let ratio = match (side.read_share, side.read_byte_share) {
        (Some(read), bytes) => format!(
            "{} read / {} write (by bytes {} / {})",
            percent(read),
            percent(1.0 - read),
            maybe_percent(bytes),
            maybe_percent(bytes.map(|read| 1.0 - read))
        ),
        (None, _) => "no request of the program reached a device".into(),
    };
    labelled(out, "R/W Ratio:", &ratio);
    if let Some(whole) = side.sequential_share {
        let each = |op: &OpFigures| {
            format!(
                "{} (strided {})",
                maybe_percent(op.sequential_share),
                maybe_percent(op.strided_share)
            )
        };
        let words = format!(
            "{}; reads {}, writes {}",
            percent(whole),
            each(side.op(Op::Read)),
            each(side.op(Op::Write))
        );
        labelled(out, "Sequential:", &words);
    }
}

/// Lines in place of those of requests, if requests were not traced.
fn unseen(out: &mut Text, figures: &Figures) {
    let reason = no_data(figures.unseen.as_deref());
    match &figures.calls {
        Some(calls) => {
            let words = format!(
                "Read {} | Write {} (fetched and dirtied by the program, by its counters)",
                megabytes_per_s(calls.storage_read_bytes_per_s),
                megabytes_per_s(calls.storage_write_bytes_per_s)
            );
            labelled(out, "Throughput:", &words);
        }
        None => labelled(out, "Throughput:", &reason),
    }
    for label in ["IOPS:", "IO Threads:", "R/W Ratio:", "Sequential:"] {
        labelled(out, label, &reason);
    }
}

fn syncs(out: &mut Text, run: &ProfileRun, figures: &Figures) {
    let Some(syncs) = &figures.syncs else {
        let reason = missing(run, "syncs").map(|missing| missing.reason.as_str());
        labelled(out, "fsync calls:", &no_data(reason.or(figures.unseen.as_deref())));
        return;
    };
    // The first three kinds are always listed, others only if they occurred.
    let formatted = syncs.kinds.iter().enumerate().filter(|(at, kind)| *at < 3 || kind.calls > 0);
    let kinds: Vec<String> = formatted
        .map(|(_, kind)| format!("{}={}", kind.word, count::thousands(kind.calls)))
        .collect();
    let words = format!(
        "{} ({}/s) [{}]",
        count::thousands(syncs.calls),
        rate(syncs.per_s),
        kinds.join(" ")
    );
    labelled(out, "fsync calls:", &words);
}

fn opens(out: &mut Text, run: &ProfileRun, figures: &Figures) {
    let Some(opens) = figures.opens else {
        let reason = missing(run, "how files are opened").map(|missing| missing.reason.as_str());
        labelled(out, "O_DIRECT:", &no_data(reason.or(figures.unseen.as_deref())));
        return;
    };
    let direct_bytes = figures.program.as_ref().and_then(|side| side.direct_share);
    let is_direct = run.files.iter().any(|file| is_named(file) && file.direct_bytes > 0);
    let mut words = match opens.direct {
        0 if is_direct => "Yes, by files opened before".to_owned(),
        0 => "No".to_owned(),
        direct => {
            let all = count::thousands(opens.opens);
            format!("Yes ({} of {all} opens)", count::thousands(direct))
        }
    };
    if let Some(share) = direct_bytes {
        words.push_str(&format!("; {} of the bytes", percent(share)));
        if words.starts_with("No") && share > 0.0 {
            words.push_str(" bypassed the page cache (metadata, or a file that is not known)");
        }
    }
    for (name, times) in [("O_SYNC", opens.sync), ("O_DSYNC", opens.dsync)] {
        if times > 0 {
            words.push_str(&format!("; {name} {}", count::thousands(times)));
        }
    }
    labelled(out, "O_DIRECT:", &words);
}

/// Whether an entry is a file or device opened by a program, not metadata, an unknown file, or the
/// sum of further files.
fn is_named(file: &FileRun) -> bool {
    file.inode != 0 || (file.path.starts_with('/') && !file.path.ends_with(" metadata"))
}

/// The kernel's counters, the only source without tracepoints.
fn counters(out: &mut Text, figures: &Figures) {
    for device in &figures.devices {
        let Some(counters) = device.counters else { continue };
        let per_s = |amount: u64| amount as f64 * 1e9 / counters.window_ns.max(1) as f64;
        let later = match counters.later_write_bytes {
            0 => String::new(),
            later => format!("; {} written after the end", bytes::rough(later)),
        };
        let words = format!(
            "Read {} | Write {}; {} reads/s, {} writes/s, {} flushes; busy {}{later} (everybody's, \
             by the kernel's counters)",
            megabytes_per_s(per_s(counters.read_bytes)),
            megabytes_per_s(per_s(counters.write_bytes)),
            rate(per_s(counters.reads)),
            rate(per_s(counters.writes)),
            count::thousands(counters.flushes),
            maybe_percent(counters.busy_share),
        );
        labelled(out, &format!("{}:", device.name), &words);
    }
}

/// Page cache hits of read calls, if requests are traced.
fn page_cache(out: &mut Text, run: &ProfileRun, figures: &Figures) {
    let Some(cache) = figures.page_cache else {
        if let Some(missing) = missing(run, "page cache") {
            labelled(out, "Page Cache:", &no_data(Some(&missing.reason)));
        }
        return;
    };
    let Some(share) = cache.hit_share else { return };
    let words = format!(
        "{} of the {} pages that read calls looked up were in memory; {} brought in, read-ahead \
         included",
        percent(share),
        count::thousands(cache.counts.looked_up_pages),
        count::thousands(cache.counts.brought_in_pages),
    );
    labelled(out, "Page Cache:", &words);
}

fn calls(out: &mut Text, figures: &Figures) {
    let Some(calls) = figures.calls else { return };
    let counts = calls.counts;
    let words = format!(
        "{} read ({} MB) | {} write ({} MB) to files, pipes, sockets; {} MB fetched from storage, \
         {} MB of pages dirtied or written directly",
        count::thousands(counts.reads),
        megabytes(counts.read_bytes),
        count::thousands(counts.writes),
        megabytes(counts.written_bytes),
        megabytes(counts.storage_read_bytes),
        megabytes(counts.storage_write_bytes.saturating_sub(counts.cancelled_bytes))
    );
    labelled(out, "Calls:", &words);
    if figures.page_cache.is_none()
        && counts.read_bytes > 0
        && counts.storage_read_bytes <= counts.read_bytes
    {
        let from_memory = 1.0 - counts.storage_read_bytes as f64 / counts.read_bytes as f64;
        let words = format!("{} of the bytes that read calls returned", percent(from_memory));
        labelled(out, "From memory:", &words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_analysis::profile::figures;
    use iosonde_fixtures::profile::{Flow, profile_of};
    use iosonde_model::record::profile::OpenCounts;

    #[test]
    fn files_are_direct_if_one_was_opened_so_and_not_for_metadata() {
        let mut run = profile_of(&[Flow::default()]);
        run.opens = Some(OpenCounts { opens: 5, ..OpenCounts::default() });
        let said = |run: &ProfileRun| {
            let mut out = Text::new(100, 100);
            opens(&mut out, run, &figures(run));
            out.into_string()
        };
        assert!(said(&run).contains("Yes, by files opened before"), "{}", said(&run));
        for path in
            ["direct I/O on /dev/vda1, file unknown", "/dev/vda1 and its file system's metadata"]
        {
            (run.files[0].inode, run.files[0].path) = (0, path.into());
            assert!(said(&run).contains("No; 100% of the bytes bypassed"), "{}", said(&run));
        }
    }
}
