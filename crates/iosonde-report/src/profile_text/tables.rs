//! Tables: threads, classes, syncs, files, cgroups.

use crate::clean::clean;
use crate::wrap::Text;
use iosonde_analysis::profile::{
    Figures, FileFigures, Latency, SyncFigures, ThreadFigures, missing,
};
use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::{Class, FileRun, Flag, Method, Op, Subject, ThreadRun};
use iosonde_model::units::count;

use super::cells::{Table, maybe_percent, megabytes, percent, rate, time};
use super::no_data;

/// Most rows of a table; the record has the rest.
const ROWS: usize = 20;
/// A thread of another program, or a file, with a smaller share of the bytes has no row.
const SMALL: f64 = 0.001;

/// Writes `Per-Thread IO Breakdown:` and its table.
pub(super) fn threads(out: &mut Text, run: &ProfileRun, figures: &Figures) {
    out.push_str("Per-Thread IO Breakdown:\n");
    match threads_table(run, figures) {
        Some((table, left)) => {
            out.push_str(&table.text(out.columns));
            more(out, left, "thread name");
        }
        None => {
            let reason = figures.unseen.as_deref().unwrap_or("no thread did I/O");
            out.hanging("  ", &no_data(Some(&clean(reason))));
        }
    }
}

/// A table of the heaviest threads, and the number of further names.
pub(super) fn threads_table(run: &ProfileRun, figures: &Figures) -> Option<(Table, usize)> {
    if run.source.method == Method::Counters || figures.threads.is_empty() {
        return None;
    }
    let all: u64 = figures.threads.iter().map(|each| moved(&each.thread)).sum();
    let grouped = by_name(&figures.threads);
    let formatted = grouped.iter().filter(|(each, _)| {
        let thread = &each.thread;
        thread.of_program || thread.syncs > 0 || moved(thread) as f64 >= SMALL * all as f64
    });
    let formatted: Vec<&(ThreadFigures, usize)> = formatted.take(ROWS).collect();
    let rows = formatted.iter().map(|(each, threads)| {
        let thread = &each.thread;
        let whose = match (thread.of_program, thread.of_kernel) {
            (true, _) => "",
            (false, true) => ", kernel",
            (false, false) => ", other",
        };
        let id = match (threads, thread.tid) {
            (1, Some(tid)) => format!("tid {tid}"),
            (1, None) => "all others".into(),
            (many, _) => format!("{} threads", count::thousands(*many as u64)),
        };
        vec![
            format!("{} ({id}{whose})", clean(&thread.name)),
            rate(each.requests_per_s),
            megabytes(thread.read_bytes),
            megabytes(thread.write_bytes),
            count::thousands(thread.syncs),
            each.sync_share.filter(|_| thread.syncs > 0).map_or("-".into(), in_sync),
            each.sequential_share.map_or("-".into(), percent),
        ]
    });
    let numbers = ["IOPS", "Read MB", "Write MB", "fsync", "in fsync", "Seq%"];
    let table = Table::new(&["Thread"], &numbers, rows);
    let left = grouped.len() - formatted.len();
    Some((table, left))
}

/// If more threads than this share a name, they share one row.
const ALIKE: usize = 4;

/// Threads with their number; those that share a name are combined if there are many.
fn by_name(threads: &[ThreadFigures]) -> Vec<(ThreadFigures, usize)> {
    let same = |a: &ThreadRun, b: &ThreadRun| {
        (&a.name, a.of_program, a.of_kernel) == (&b.name, b.of_program, b.of_kernel)
    };
    let mut grouped: Vec<(ThreadFigures, usize)> = Vec::new();
    for each in threads {
        let alike = threads.iter().filter(|other| same(&other.thread, &each.thread)).count();
        let sum = grouped.iter_mut().find(|(sum, _)| same(&sum.thread, &each.thread));
        match sum {
            Some((sum, number)) if alike > ALIKE => {
                add(sum, each);
                *number += 1;
            }
            _ => grouped.push((each.clone(), 1)),
        }
    }
    grouped
}

/// Adds the figures of `one` to `sum`.
fn add(sum: &mut ThreadFigures, one: &ThreadFigures) {
    let (to, of) = (&mut sum.thread, &one.thread);
    to.reads += of.reads;
    to.writes += of.writes;
    to.read_bytes += of.read_bytes;
    to.write_bytes += of.write_bytes;
    to.sequential += of.sequential;
    to.syncs += of.syncs;
    to.sync_ns += of.sync_ns;
    sum.requests_per_s += one.requests_per_s;
    sum.sync_share = sum.sync_share.zip(one.sync_share).map(|(a, b)| a + b);
    let requests = to.reads + to.writes;
    sum.sequential_share = (requests > 0).then(|| to.sequential as f64 / requests as f64);
}

/// Bytes of a thread's requests.
fn moved(thread: &ThreadRun) -> u64 {
    thread.read_bytes + thread.write_bytes
}

/// Share of the time in syncs; above 1 several syncs were in flight at once on average.
fn in_sync(share: f64) -> String {
    if share > 1.0 { format!("{} at once", count::significant(share)) } else { percent(share) }
}

fn more(out: &mut Text, left: usize, what: &str) {
    if left > 0 {
        let left = count::of(left as u64, &format!("more {what}"));
        out.push_str(&format!("  … and {left}, in the record\n"));
    }
}

/// Requests by the class on whose behalf they were made.
pub(super) fn classes_table(run: &ProfileRun, figures: &Figures) -> Table {
    let rows = figures.classes.iter().map(|class| {
        vec![
            made_for(class.class, &run.subject),
            count::thousands(class.requests),
            megabytes(class.read_bytes),
            megabytes(class.write_bytes),
            maybe_percent(class.byte_share),
            at(&class.latency, 0.5),
            at(&class.latency, 0.99),
        ]
    });
    let numbers = ["Requests", "Read MB", "Write MB", "Bytes", "p50", "p99"];
    Table::new(&["Made for"], &numbers, rows)
}

/// Reads and writes by their flags, if flags differ.
pub(super) fn flags_table(figures: &Figures) -> Table {
    let differ = figures.flags.iter().any(|each| each.flag != Flag::None);
    let rows = figures.flags.iter().filter(|_| differ).map(|each| {
        let op = if each.op == Op::Read { "reads" } else { "writes" };
        vec![
            format!("{op}, {}", word(each.flag)),
            count::thousands(each.requests),
            megabytes(each.bytes),
            known(each.latency.mean_ns),
            at(&each.latency, 0.5),
            at(&each.latency, 0.99),
        ]
    });
    Table::new(&["Requests with"], &["Requests", "MB", "mean", "p50", "p99"], rows)
}

fn word(flag: Flag) -> &'static str {
    match flag {
        Flag::None => "no flag",
        Flag::ReadAhead => "read-ahead",
        Flag::Sync => "sync",
        Flag::Meta => "metadata",
        Flag::Fua => "FUA",
    }
}

fn made_for(class: Class, subject: &Subject) -> String {
    let (of, their) = match subject {
        Subject::Machine => ("processes", "their"),
        _ => ("the program", "its"),
    };
    match class {
        Class::Program => format!("{of}, by {their} own threads"),
        Class::WriteBack => format!("{of}, by write-back of {their} pages"),
        Class::Journal => "the file systems' journals and metadata".into(),
        Class::DeviceFlush => "flushes of the devices' caches".into(),
        Class::Other => "others".into(),
    }
}

/// Sync calls by kind and by thread group.
pub(super) fn syncs(out: &mut Text, run: &ProfileRun, figures: &Figures) {
    let Some(syncs) = called(figures) else { return };
    out.push_str("\nSync Calls:\n");
    out.push_str(&syncs_table(syncs).text(out.columns));
    sync_parts_table(syncs).write_below(out, &format!("  {SYNC_PARTS}"));
    for group in syncs.groups.iter().take(ROWS) {
        let threads = match group.threads {
            1 => String::new(),
            threads => format!(" ({threads} threads)"),
        };
        let words = format!(
            "{}{threads}: {}{}{}",
            clean(&group.name),
            count::of(group.calls, "call"),
            group.time_share.map_or(String::new(), |s| format!(", {} of its time", percent(s))),
            group.in_flight.map_or(String::new(), |count| {
                format!(", by io_uring {} in flight per thread", count::significant(count))
            }),
        );
        out.hanging("  ", &words);
    }
    if let Some(part) = missing(run, "syncs by io_uring") {
        out.hanging("  by io_uring: ", &no_data(Some(&clean(&part.reason))));
    }
}

/// The sync calls, if there were any.
pub(super) fn called(figures: &Figures) -> Option<&SyncFigures> {
    figures.syncs.as_ref().filter(|syncs| syncs.calls > 0)
}

/// Latencies of each kind of call.
pub(super) fn syncs_table(syncs: &SyncFigures) -> Table {
    let rows = syncs.kinds.iter().filter(|kind| kind.calls > 0).map(|kind| {
        vec![
            kind.word.into(),
            count::thousands(kind.calls),
            rate(kind.per_s),
            count::thousands(kind.errors),
            known(kind.latency.mean_ns),
            at(&kind.latency, 0.5),
            at(&kind.latency, 0.99),
            known(kind.latency.max_ns.map(|ns| ns as f64)),
        ]
    });
    let numbers = ["Calls", "per s", "Errors", "mean", "p50", "p99", "max"];
    Table::new(&["Sync Call"], &numbers, rows)
}

/// Heading of the table of parts.
pub(super) const SYNC_PARTS: &str = "Where their time goes";

/// Time of each kind of call by the work in flight.
pub(super) fn sync_parts_table(syncs: &SyncFigures) -> Table {
    let rows = syncs.kinds.iter().flat_map(|kind| {
        kind.parts.iter().map(|part| {
            vec![
                kind.word.into(),
                part.part.word().into(),
                time(part.mean_ns),
                time(part.total_ns as f64),
                maybe_percent(part.share),
            ]
        })
    });
    Table::new(&["Sync Call", "In Flight"], &["per call", "total", "Share"], rows)
}

/// Writes the tables of files.
pub(super) fn files(out: &mut Text, figures: &Figures) {
    let (table, left) = files_table(figures);
    if !table.is_empty() {
        table.write_below(out, "\nFiles");
        more(out, left, "file");
        file_latencies_table(figures).write_below(out, &format!("  {LATENCIES}"));
    }
}

/// A table of the heaviest files, and the number of further files.
pub(super) fn files_table(figures: &Figures) -> (Table, usize) {
    let formatted = heaviest(figures);
    let unknown = || figures.files.iter().map(|each| &each.file).filter(|file| file.is_unknown());
    // Direct I/O of an unknown file on the same disk may belong to this file.
    let direct_is_known = |file: &FileRun| {
        file.direct_bytes > 0 || unknown().all(|other| other.device != file.device)
    };
    let rows = formatted.iter().map(|each| {
        let file = &each.file;
        let moved = (file.read_bytes + file.write_bytes).max(1);
        vec![
            clean(&file.path),
            megabytes(file.read_bytes),
            megabytes(file.write_bytes),
            each.write_back_share.map_or("-".into(), percent),
            match direct_is_known(file) {
                true => percent(file.direct_bytes as f64 / moved as f64),
                false => "n/a".into(),
            },
            each.sequential_share.map_or("-".into(), percent),
        ]
    });
    let numbers = ["Read MB", "Write MB", "written back", "direct", "Seq%"];
    (Table::new(&["File"], &numbers, rows), figures.files.len() - formatted.len())
}

/// Files with a row of their own.
fn heaviest(figures: &Figures) -> Vec<&FileFigures> {
    let moved = |file: &FileRun| file.read_bytes + file.write_bytes;
    let all: u64 = figures.files.iter().map(|each| moved(&each.file)).sum();
    let heavy = figures.files.iter().filter(|each| moved(&each.file) as f64 >= SMALL * all as f64);
    heavy.take(ROWS).collect()
}

/// Heading of the latencies of files and of cgroups.
pub(super) const LATENCIES: &str = "Latency of their requests";

/// Read and write latencies by owner; owners without latencies are left out.
fn latencies<'a>(
    what: &str,
    all: impl Iterator<Item = (&'a String, &'a Latency, &'a Latency)>,
) -> Table {
    let cells = |latency: &Latency| {
        let at = |q: f64| if latency.count == 0 { "-".into() } else { at(latency, q) };
        [count::thousands(latency.count), at(0.5), at(0.99)]
    };
    let known = all.filter(|(_, read, write)| read.count + write.count > 0);
    let rows = known.map(|(whose, read, write)| {
        [clean(whose)].into_iter().chain(cells(read)).chain(cells(write)).collect()
    });
    Table::new(&[what], &["Reads", "p50", "p99", "Writes", "p50", "p99"], rows)
}

fn known(ns: Option<f64>) -> String {
    ns.map_or("n/a".into(), time)
}

fn at(latency: &Latency, q: f64) -> String {
    known(latency.at(q).map(|ns| ns as f64))
}

/// Latencies of the heaviest files.
pub(super) fn file_latencies_table(figures: &Figures) -> Table {
    let files = heaviest(figures).into_iter();
    latencies("File", files.map(|each| (&each.file.path, &each.read_ns, &each.write_ns)))
}

/// Writes the tables of cgroups, if there are several.
pub(super) fn cgroups(out: &mut Text, figures: &Figures) {
    if figures.cgroups.len() > 1 {
        cgroups_table(figures).write_below(out, "\nCgroups");
        more(out, figures.cgroups.len().saturating_sub(ROWS), "cgroup");
        cgroup_latencies_table(figures).write_below(out, &format!("  {LATENCIES}"));
    }
}

pub(super) fn cgroups_table(figures: &Figures) -> Table {
    let rows = figures.cgroups.iter().take(ROWS).map(|each| {
        let cgroup = &each.cgroup;
        vec![
            clean(&cgroup.path),
            count::thousands(cgroup.requests),
            megabytes(cgroup.read_bytes),
            megabytes(cgroup.write_bytes),
        ]
    });
    Table::new(&["Cgroup"], &["Requests", "Read MB", "Write MB"], rows)
}

/// Latencies of cgroups.
pub(super) fn cgroup_latencies_table(figures: &Figures) -> Table {
    let cgroups = figures.cgroups.iter().take(ROWS);
    latencies("Cgroup", cgroups.map(|each| (&each.cgroup.path, &each.read_ns, &each.write_ns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_direct_is_not_said_to_be_buffered() {
        let file = |path: &str, device: &str, inode, direct_bytes| FileRun {
            path: path.into(),
            device: device.into(),
            inode,
            write_bytes: 4096,
            direct_bytes,
            ..FileRun::default()
        };
        let direct = |unknown: &str| {
            let files = vec![
                file("/a", "vda", 7, 0),
                file("/b", "vda", 8, 1024),
                file("/c", "vdb", 7, 0),
                file("/dev/vda", "vda", 0, 0),
                file(unknown, "vda", 0, 4096),
            ];
            let run = ProfileRun { files, ..ProfileRun::default() };
            let mut out = Text::new(100, 100);
            super::files(&mut out, &iosonde_analysis::profile::figures(&run));
            let text = out.into_string();
            ["/a", "/b", "/c", "/dev/vda "].map(|name| {
                let row = text.lines().find(|line| line.trim_start().starts_with(name));
                row.and_then(|row| row.split('|').nth(4)).unwrap_or(&text).trim().to_owned()
            })
        };
        let cells = direct("direct I/O on /dev/vda1, file unknown");
        assert_eq!(cells, ["n/a", "25%", "0%", "n/a"]);
        assert_eq!(direct("/d"), ["0%", "25%", "0%", "0%"]);
    }
}
