//! Which distances of a table follow which operation.

use super::spread::WHOLE;
use iosonde_model::plan::{Commit, Job};

/// What follows an operation before its job sends the next.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) enum Follows {
    Nothing,
    Sync,
    /// A sync that waits for a commit of another job.
    Commit,
    /// Not known, because the operation is never sent.
    Unknown,
}

/// The parts of a table of distances in ascending order. After a sync, a thread sends its next
/// request later than after a write, and later still if the sync waits for a commit: the longest
/// distances are those after a sync.
#[derive(Debug)]
pub(super) struct Parts {
    /// Start of the distances after a sync of a group commit; 1 where syncs have no influence.
    sync: f64,
    /// Start of the distances after a sync that waits for a commit.
    commit: f64,
}

impl Parts {
    pub(super) fn new(job: &Job) -> Parts {
        // If phases have other numbers of syncs, no single share of the distances fits them.
        let is_alike = job.phases.iter().all(|phase| phase.sync_percent == 100.0);
        if !job.sync.barrier || !is_alike {
            return Parts { sync: 1.0, commit: 1.0 };
        }
        Parts { sync: 1.0 - job.sync.followed_share(), commit: 1.0 - committed_share(job, 100.0) }
    }

    /// Whether syncs have an influence.
    pub(super) fn differ(&self) -> bool {
        self.sync < 1.0
    }

    /// Start and end of the distances that follow this.
    pub(super) fn after(&self, follows: Follows) -> (f64, f64) {
        let part = match follows {
            Follows::Nothing => (0.0, self.sync),
            Follows::Sync => (self.sync, self.commit),
            Follows::Commit => (self.commit, 1.0),
            Follows::Unknown => WHOLE,
        };
        if part.0 < part.1 { part } else { WHOLE }
    }
}

/// Share of the writes followed by a sync that waits for a commit. `commit_percent` scales the
/// job's own commits per sync.
pub(super) fn committed_share(job: &Job, commit_percent: f64) -> f64 {
    let Some(Commit::WaitsFor { percent, .. }) = &job.commit else { return 0.0 };
    let commits = job.sync.per_write() * percent / 100.0 * commit_percent / 100.0;
    commits.min(job.sync.followed_share())
}
