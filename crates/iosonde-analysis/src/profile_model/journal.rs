//! The file system's journal in a model: commits for which the program's syncs wait, and the
//! flushes that those syncs do not make themselves.

use super::arrivals;
use super::durable::set_often;
use super::rows::Row;
use iosonde_model::record::profile::{Class, Op, ProfileRun};
use iosonde_model::spec::{Commit, Pace, Role};
use iosonde_model::units::count;

/// Share of the flushes below which they are not attributed to a journal.
const FEW: f64 = 0.01;
/// Share of the device's syncs that one role must have to wait for the commits.
const CALLER: f64 = 0.9;
/// Commits per sync of that role: with fewer, the journal mainly writes for other reasons; with
/// more, it also writes for others.
const PER_SYNC: std::ops::RangeInclusive<f64> = 0.1..=1.2;

/// Gives the journal's role its flushes, and either writes on demand or its own clock.
pub(super) fn attach(
    run: &ProfileRun,
    rows: &[Row],
    roles: &mut [Role],
    left_out: &mut Vec<String>,
) {
    let is_journal = |row: &Row| row.class == Class::Journal && row.op == Op::Write;
    let mut forced = 0;
    let (mut waited_for, mut alone) = (0, 0);
    for at in (0..rows.len()).filter(|at| is_journal(&rows[*at])) {
        forced += rows[at].durable;
        couple(rows, roles, at);
        flush(run, rows, roles, at);
        let requests = if roles[at].commit.is_some() { &mut waited_for } else { &mut alone };
        *requests += rows[at].requests;
    }
    let mut say = |requests: u64, what: &str| {
        if requests > 0 {
            left_out.push(format!("{} {what}", count::thousands(requests)));
        }
    };
    say(
        forced,
        "writes of the file system's journal bypassed the device's cache (FUA); they are plain \
         writes",
    );
    say(
        waited_for,
        "requests of the file system's journal and metadata are commits, for which syncs wait; \
         their place is not recorded",
    );
    say(
        alone,
        "requests of the file system's journal and metadata are a role with a clock of its own: a \
         sync does not wait for it, and its place is not recorded",
    );
}

/// Number of syncs of a role; a burst has the syncs of one write.
fn syncs(row: &Row, role: &Role) -> f64 {
    role.sync.per_write() * row.requests as f64 / role.pace.burst_length()
}

/// Makes the syncs of one role wait for the journal in this row, if most of both belong together.
fn couple(rows: &[Row], roles: &mut [Role], journal: usize) {
    let syncs = |at: usize| syncs(&rows[at], &roles[at]);
    let of_device = || (0..rows.len()).filter(|at| rows[*at].device == rows[journal].device);
    let all: f64 = of_device().map(syncs).sum();
    let callers = of_device().filter(|at| roles[*at].sync.barrier);
    let Some(caller) = callers.max_by(|a, b| syncs(*a).total_cmp(&syncs(*b))) else { return };
    let own = syncs(caller);
    // The last write of a commit bypasses the cache.
    let share = rows[journal].durable as f64 / own;
    if own < CALLER * all || !PER_SYNC.contains(&share) {
        return;
    }
    let commits = own * share.min(1.0);
    let percent = (1000.0 * share.min(1.0)).round() / 10.0;
    roles[caller].commit = Some(Commit::WaitsFor { role: roles[journal].name.clone(), percent });
    arrivals::spread_commits(&mut roles[caller].phases, &rows[journal].counters, percent);
    let writes = (rows[journal].requests as f64 / commits * 1000.0).round() / 1000.0;
    let role = &mut roles[journal];
    role.commit = Some(Commit::Writes(writes.max(1.0)));
    role.iodepth = Some(1);
    role.pace = Pace::Closed;
    role.phases = Vec::new();
}

/// Gives the journal the flushes that the program's syncs do not make.
fn flush(run: &ProfileRun, rows: &[Row], roles: &mut [Role], at: usize) {
    let (device, requests) = (&rows[at].device, rows[at].requests);
    let own = rows.iter().zip(roles.iter()).filter(|(row, _)| row.device == *device);
    let own: f64 = own.map(|(row, role)| syncs(row, role)).sum();
    let flushes = run.traffic.iter().filter(|traffic| {
        traffic.device == *device && traffic.class == Class::DeviceFlush && traffic.op == Op::Flush
    });
    let flushes: u64 = flushes.map(|traffic| traffic.requests).sum();
    let left = flushes.saturating_sub(own.round() as u64);
    if left as f64 >= FEW * flushes as f64 && left > 0 {
        let bursts = requests as f64 / roles[at].pace.burst_length();
        set_often(&mut roles[at].sync, left, bursts.round() as u64);
        (roles[at].sync.barrier, roles[at].sync.by_call) = (true, true);
        roles[at].iodepth = Some(1);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::{Modelled, workload};
    use super::*;
    use iosonde_fixtures::profile_model::{profile, row, sync};
    use iosonde_model::record::profile::{SyncKind, Traffic};
    use iosonde_model::spec::{EachWrite, Sync};

    fn named<'a>(modelled: &'a Modelled, name: &str) -> &'a Role {
        modelled.workload.roles.iter().find(|role| role.name == name).unwrap()
    }

    /// A program of 1000 writes and 1000 syncs on a journal with this many writes, of which
    /// `durable` end a commit.
    fn journalled(writes: u64, durable: u64, flushes: u64) -> ProfileRun {
        let mut run = profile(vec![
            row(Class::Program, Op::Write, 1000),
            Traffic { group: 0, durable, ..row(Class::Journal, Op::Write, writes) },
            Traffic { bytes: 0, ..row(Class::DeviceFlush, Op::Flush, flushes) },
        ]);
        run.syncs = vec![sync(SyncKind::Fdatasync, 1, 1000)];
        run
    }

    #[test]
    fn syncs_wait_for_the_commits_of_the_journal() {
        let modelled = workload(&journalled(2000, 1000, 2000)).unwrap();
        let waits_for = |percent| Commit::WaitsFor { role: "journal".into(), percent };
        assert_eq!(named(&modelled, "app-write").commit, Some(waits_for(100.0)));
        let journal = named(&modelled, "journal");
        assert_eq!((&journal.commit, &journal.pace), (&Some(Commit::Writes(2.0)), &Pace::Closed));
        assert_eq!((journal.sync.every_writes, journal.sync.extra_syncs), (2, 0));
        let all = modelled.left_out.join("\n");
        assert!(
            all.contains("2,000 requests of the file system's journal and metadata are commits")
        );
        // Commits for a quarter of the syncs; the other syncs flush by themselves.
        let modelled = workload(&journalled(500, 250, 1000)).unwrap();
        assert_eq!(named(&modelled, "app-write").commit, Some(waits_for(25.0)));
        let journal = named(&modelled, "journal");
        assert_eq!((&journal.commit, journal.sync.every_writes), (&Some(Commit::Writes(2.0)), 0));
    }

    #[test]
    fn a_journal_that_writes_for_others_has_a_clock_of_its_own() {
        let mut two_threads = journalled(2000, 1000, 2000);
        two_threads.groups[1].threads = 2;
        let own = [journalled(2000, 0, 2000), journalled(4000, 1900, 4000), two_threads];
        for run in own {
            let modelled = workload(&run).unwrap();
            assert!(modelled.workload.roles.iter().all(|role| role.commit.is_none()));
            assert_ne!(named(&modelled, "journal").pace, Pace::Closed);
            assert!(modelled.left_out.join("\n").contains("a clock of its own"));
        }
    }

    #[test]
    fn the_journal_makes_the_flushes_that_syncs_do_not_explain() {
        let flushes = Traffic { bytes: 0, ..row(Class::DeviceFlush, Op::Flush, 1500) };
        let mut run = profile(vec![
            row(Class::Program, Op::Write, 1000),
            Traffic { group: 0, ..row(Class::Journal, Op::Write, 1000) },
            flushes,
        ]);
        run.syncs = vec![sync(SyncKind::Fdatasync, 1, 1000)];
        let roles = workload(&run).unwrap().workload.roles;
        let journal = roles.iter().find(|role| role.name == "journal").unwrap();
        assert_eq!((journal.sync.every_writes, journal.sync.extra_syncs), (2, 0));
        assert_eq!((journal.sync.barrier, journal.iodepth), (true, Some(1)));
        let program = roles.iter().find(|role| role.name == "app-write").unwrap();
        assert!(journal.offset.unwrap() >= program.offset.unwrap() + program.size.unwrap());
        // All flushes are those of the program.
        run.traffic[2].requests = 1005;
        let roles = workload(&run).unwrap().workload.roles;
        let journal = roles.iter().find(|role| role.name == "journal").unwrap();
        assert_eq!(journal.sync, Sync::default());
    }

    #[test]
    fn a_journal_flushes_only_what_syncs_do_not_explain() {
        let journal = Traffic { durable: 60, ..row(Class::Journal, Op::Write, 100) };
        let flushes = Traffic { bytes: 0, ..row(Class::DeviceFlush, Op::Flush, 40) };
        let mut run = profile(vec![row(Class::Program, Op::Write, 100), journal, flushes]);
        run.syncs = vec![sync(SyncKind::Fsync, 1, 20)];
        let modelled = workload(&run).unwrap();
        let role = modelled.workload.roles.iter().find(|role| role.name == "journal").unwrap();
        assert_eq!(role.sync.each_write, EachWrite::Accepted);
        assert_eq!((role.sync.every_writes, role.sync.extra_syncs), (5, 0));
        let all = modelled.left_out.join("\n");
        assert!(all.contains("60 writes of the file system's journal bypassed"), "{all}");
    }
}
