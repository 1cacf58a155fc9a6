//! Work of file systems, compared with the journals' own counts of transactions.

use std::fs;

use iosonde_model::record::profile::{FileSystemRun, FileSystemWork};
use iosonde_rig::skip;

use super::{disk, has, name, profile};
use crate::request::turn;

const WRITES: u64 = 50;

/// The kernel's count of transactions of journals whose name has this prefix.
fn transactions(of: &str) -> u64 {
    let journals = fs::read_dir("/proc/fs/jbd2").into_iter().flatten().flatten();
    let own = journals.filter(|entry| entry.file_name().to_string_lossy().starts_with(of));
    let text = own.map(|entry| fs::read_to_string(entry.path().join("info")).unwrap_or_default());
    text.filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok()).sum()
}

#[test]
fn commits_of_a_journal_and_pages_that_syncs_write_are_counted() {
    let _turn = turn();
    let Some(mount) = has("dd").then(disk).flatten() else { return };
    let own = format!("{}-", name(mount.device()));
    let (before, all_before) = (transactions(&own), transactions(""));
    let write = "dd if=/dev/zero of=file bs=4k count=1 conv=notrunc,fsync seek=$i";
    let script = format!("for i in $(seq {WRITES}); do {write}; done; exit");
    let Some(run) = profile(mount.device(), mount.path(), &script).seen() else { return };
    let (own, all) = (transactions(&own) - before, transactions("") - all_before);
    if let Some(missing) = run.source.missing.iter().find(|each| each.what == "file systems") {
        skip(format!("{}: {}", missing.what, missing.reason));
        return;
    }
    let of = |work| run.file_systems.iter().find(|run| run.work == work).unwrap();
    let commits = of(FileSystemWork::Commit);
    // `all` includes the machine's other journals; the test's own was idle before and after.
    assert!(own >= WRITES && (own..=all).contains(&commits.times), "{own} {all} {commits:?}");
    assert!(commits.amount >= 2 * commits.times, "at least a descriptor and an inode: {commits:?}");
    let operations = of(FileSystemWork::CommitOperations);
    assert!(operations.times == commits.times && operations.amount >= WRITES, "{operations:?}");
    let steps = [FileSystemWork::CommitWait, FileSystemWork::CommitData, FileSystemWork::CommitLog];
    let of_steps: u64 = steps.into_iter().map(|step| of(step).total_ns).sum();
    assert_eq!(commits.total_ns, of_steps);
    let FileSystemRun { times, amount, total_ns, .. } = of(FileSystemWork::PagesOfProgram);
    assert!(*times >= WRITES && *amount >= WRITES && *total_ns > 0, "{times} {amount} {total_ns}");
}
