//! Work of file systems.

use serde::{Deserialize, Serialize};

/// Work of one kind, of all programs and file systems together.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct FileSystemRun {
    pub work: FileSystemWork,
    /// Number of occurrences.
    pub times: u64,
    /// Pages written, blocks of a commit, or operations that it made durable; otherwise 0.
    pub amount: u64,
    /// Duration, ns; 0 for work without an observable end.
    pub total_ns: u64,
}

words! {
    /// What a file system does between system calls and block layer requests, in the order of the
    /// kernel programs' numbers.
    #[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum FileSystemWork {
        /// ext4 writes dirty pages of a file during a call of the program (fsync, or a limit of
        /// dirty pages).
        PagesOfProgram,
        /// The same in a kernel thread or another program.
        PagesOfOthers,
        /// Write-back because there are many dirty pages.
        WriteBackBackground,
        /// Write-back because memory is short.
        WriteBackMemory,
        /// Write-back for a sync.
        WriteBackSync,
        /// Write-back because pages have been dirty for long.
        WriteBackAge,
        /// Write-back for another reason.
        WriteBackOther,
        /// ext4's journal commits a transaction; the time is that of the three steps.
        Commit,
        /// Operations of programs in these transactions.
        CommitOperations,
        /// First step of a commit: waiting for running operations.
        CommitWait,
        /// Second step: writing file data before the log.
        CommitData,
        /// Third step: writing blocks and commit record to the log.
        CommitLog,
        /// XFS writes its log during a call of the program.
        LogForceOfProgram,
        /// XFS writes its log elsewhere.
        LogForceOfOthers,
        /// A call of the program waits for space in the log of XFS.
        LogFullOfProgram,
        /// Another thread waits for space in the log of XFS.
        LogFullOfOthers,
    }
}
