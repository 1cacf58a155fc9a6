//! The table of work by file systems.

use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::{FileSystemRun, FileSystemWork};
use iosonde_model::units::count;

use super::cells::{Table, time};

/// The scope of the table.
pub(super) const CAPTION: &str = "Work of file systems for all programs";

/// Work of file systems between calls and requests.
pub(super) fn table(run: &ProfileRun) -> Table {
    let rows = run.file_systems.iter().map(|each| {
        let timed = |ns: f64| if each.total_ns > 0 { time(ns) } else { "-".into() };
        vec![
            name(each.work).into(),
            count::thousands(each.times),
            amount(each),
            timed(each.total_ns as f64),
            timed(each.total_ns as f64 / each.times.max(1) as f64),
        ]
    });
    Table::new(&["Work"], &["Times", "Amount", "Time", "Mean"], rows)
}

fn amount(run: &FileSystemRun) -> String {
    use FileSystemWork::{
        Commit, CommitData, CommitLog, CommitOperations, CommitWait, LogForceOfOthers,
        LogForceOfProgram, LogFullOfOthers, LogFullOfProgram,
    };
    let of = match run.work {
        CommitWait | CommitData | CommitLog => return "-".into(),
        LogForceOfProgram | LogForceOfOthers | LogFullOfProgram | LogFullOfOthers => {
            return "-".into();
        }
        Commit => "block",
        CommitOperations => "operation",
        _ => "page",
    };
    count::of(run.amount, of)
}

fn name(work: FileSystemWork) -> &'static str {
    match work {
        FileSystemWork::PagesOfProgram => "ext4 writes dirty pages, called by the program",
        FileSystemWork::PagesOfOthers => "ext4 writes dirty pages, called by others",
        FileSystemWork::WriteBackBackground => "write-back: many dirty pages",
        FileSystemWork::WriteBackMemory => "write-back: memory is short",
        FileSystemWork::WriteBackSync => "write-back: a sync",
        FileSystemWork::WriteBackAge => "write-back: dirty for long",
        FileSystemWork::WriteBackOther => "write-back: other reasons",
        FileSystemWork::Commit => "ext4 journal commits",
        FileSystemWork::CommitOperations => "- operations in them",
        FileSystemWork::CommitWait => "- waiting for operations under way",
        FileSystemWork::CommitData => "- writing data of files first",
        FileSystemWork::CommitLog => "- writing the log",
        FileSystemWork::LogForceOfProgram => "XFS log forces, called by the program",
        FileSystemWork::LogForceOfOthers => "XFS log forces, called by others",
        FileSystemWork::LogFullOfProgram => "XFS log full, the program waits",
        FileSystemWork::LogFullOfOthers => "XFS log full, others wait",
    }
}
