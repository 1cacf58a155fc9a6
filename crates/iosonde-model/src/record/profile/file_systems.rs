//! Work of file systems.

use serde::{Deserialize, Serialize};

/// Work of one kind, of all programs and file systems together.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct FileSystemRun {
    /// Kind.
    pub work: FileSystemWork,
    /// How many times.
    pub times: u64,
    /// Pages written; blocks of a commit; operations that it made durable. 0 for others.
    pub amount: u64,
    /// Time that it took, ns; 0 where it has no end of its own.
    pub total_ns: u64,
}

words! {
    /// What a file system does between the calls of programs and the requests of the block layer,
    /// by its number in the kernel programs.
    #[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum FileSystemWork {
        /// ext4 writes dirty pages of a file in a call of the program (fsync, or a limit of dirty
        /// pages).
        PagesOfProgram,
        /// The same in a thread of the kernel, or of another program.
        PagesOfOthers,
        /// A round of write-back because there are many dirty pages.
        WriteBackBackground,
        /// Because memory is short.
        WriteBackMemory,
        /// Because somebody waits for a sync.
        WriteBackSync,
        /// Because pages have been dirty for long.
        WriteBackAge,
        /// For another reason.
        WriteBackOther,
        /// ext4's journal commits a transaction; its time is that of the three steps.
        Commit,
        /// Operations of programs in these transactions.
        CommitOperations,
        /// First step of a commit: operations under way are waited for.
        CommitWait,
        /// Second: data of files is written before the log.
        CommitData,
        /// Third: blocks and the commit record are written to the log.
        CommitLog,
        /// XFS writes its log out in a call of the program.
        LogForceOfProgram,
        /// The same elsewhere.
        LogForceOfOthers,
        /// A call of the program waits for room in the log of XFS.
        LogFullOfProgram,
        /// The same elsewhere.
        LogFullOfOthers,
    }
}
