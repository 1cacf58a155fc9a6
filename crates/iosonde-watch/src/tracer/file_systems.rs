//! Work of file systems.

use iosonde_bpf::{Collector, FileSystem};

use iosonde_engine::host::{Root, mounts};
use iosonde_model::record::profile::{FileSystemRun, FileSystemWork};

/// Mounted file systems whose tracepoints are known.
pub(super) fn mounted(root: &Root) -> Vec<FileSystem> {
    let mounts = mounts(root);
    let is_mounted = |names: &[&str]| mounts.iter().any(|m| names.contains(&m.filesystem.as_str()));
    let known = [(FileSystem::Ext4, &["ext4", "ext3", "ext2"][..]), (FileSystem::Xfs, &["xfs"])];
    known.into_iter().filter(|(_, names)| is_mounted(names)).map(|(system, _)| system).collect()
}

/// Counts of each kind of work. The time of a commit is the sum of its steps.
pub(super) fn work(collector: &Collector) -> Result<Vec<FileSystemRun>, String> {
    let mut runs = Vec::new();
    for (kind, work) in (0..).zip(FileSystemWork::ALL) {
        let mut run = FileSystemRun { work, times: 0, amount: 0, total_ns: 0 };
        for cpu in collector.work(kind)? {
            run.times += cpu.times;
            run.amount += cpu.amount;
            run.total_ns += cpu.ns;
        }
        runs.push(run);
    }
    runs.retain(|run| run.times > 0);
    use FileSystemWork::{Commit, CommitData, CommitLog, CommitWait};
    let steps = runs.iter().filter(|run| [CommitWait, CommitData, CommitLog].contains(&run.work));
    let steps_ns = steps.map(|run| run.total_ns).sum();
    if let Some(commit) = runs.iter_mut().find(|run| run.work == Commit) {
        commit.total_ns = steps_ns;
    }
    Ok(runs)
}
