//! Resolves a request and the available targets into a plan, or refuses it.

use super::chance::Chance;
use super::commit;
use super::shape::jobs_of;
use super::{Engine, Job, LatencyGoal, OnError, Plan, PrecisionGoal, Stop, Target};
use crate::spec::{Role, Threads, Workload};
use crate::units::bytes;

/// The values that a workload leaves open.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The I/O engine.
    pub engine: Engine,
    /// At least one.
    pub targets: Vec<Target>,
    /// Start of the region from the beginning of the target, bytes.
    pub offset_bytes: u64,
    /// Number of threads that `per-cpu` means.
    pub cpus: u32,
    /// Requests in flight per thread if the role does not define them.
    pub iodepth: u32,
    /// Seed of the whole run.
    pub seed: u64,
    /// Warm-up, ns.
    pub warmup_ns: u64,
    /// When the run ends.
    pub stop: Stop,
    /// Reaction to an I/O error.
    pub on_error: OnError,
    /// Whether a writing run ends with a timed fsync.
    pub final_sync: bool,
    /// Largest total size of the I/O buffers, bytes.
    pub buffer_limit_bytes: u64,
}

/// Why a plan cannot be made: the request contradicts itself or the target. Exit code 2.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The target does not support a block size.
    #[error(
        "block size {found_bytes} B of role `{role}`: {target} takes multiples of {align_bytes} B; \
         give --bs a multiple of that{}", if *.direct { ", or --direct 0" } else { "" }
    )]
    Block {
        role: String,
        /// The requested size.
        found_bytes: u64,
        /// The target's path.
        target: String,
        /// The alignment that the target requires.
        align_bytes: u64,
        /// Whether buffered I/O would remove the restriction.
        direct: bool,
    },
    /// The target does not support an offset.
    #[error("offset {found_bytes} B: it must be a multiple of {align_bytes} B here")]
    Offset {
        found_bytes: u64,
        /// The required alignment.
        align_bytes: u64,
    },
    /// A synchronous engine cannot keep the depth.
    #[error(
        "iodepth {found}: the {engine} engine keeps exactly one request in flight; \
         use --iodepth 1 with more --numjobs, or --ioengine io_uring"
    )]
    Depth { engine: &'static str, found: u32 },
    /// The region is too small for one block.
    #[error(
        "the region of role `{role}` is {region_bytes} B and its {threads} thread(s) need \
         {needed_bytes} B each at least; give a larger --size or a smaller --bs"
    )]
    Region {
        role: String,
        /// Available bytes.
        region_bytes: u64,
        /// Threads that share it.
        threads: u32,
        /// Bytes that one thread needs.
        needed_bytes: u64,
    },
    /// A count is zero or too large.
    #[error("{what} {found}: expected {expected}")]
    Range {
        /// Option or field.
        what: &'static str,
        found: u64,
        expected: &'static str,
    },
    /// Settings contradict each other, or have no effect together.
    #[error("role `{role}`: {what}")]
    Conflict {
        role: String,
        /// The contradiction, and how to fix it.
        what: String,
    },
    /// A goal cannot be pursued: a latency target, a precision, a steady rate.
    #[error("{goal}: {what}")]
    Goal {
        /// The goal as named in messages.
        goal: String,
        /// The contradiction, and how to fix it.
        what: String,
    },
    /// Memory does not suffice for one buffer per job.
    #[error(
        "{jobs} job(s) need at least {needed_bytes} B of I/O buffers, and {limit_bytes} B \
         (a quarter of the available memory) may be used; use fewer jobs or smaller blocks"
    )]
    Memory {
        jobs: usize,
        /// One buffer per job, bytes.
        needed_bytes: u64,
        /// Permitted memory.
        limit_bytes: u64,
    },
}

impl Refusal {
    /// A conflict in a role; `what` says what is wrong, and how to fix it.
    pub(super) fn conflict(role: &str, what: impl Into<String>) -> Refusal {
        Refusal::Conflict { role: role.into(), what: what.into() }
    }
}

/// Largest depth of one job.
pub const MAX_IODEPTH: u32 = 4096;
/// Most threads of one run.
pub const MAX_THREADS: u64 = 4096;
/// Width of a counter interval.
const INTERVAL_NS: u64 = 10_000_000;
/// Counter intervals per histogram interval. A percentile needs 20 of these: two seconds.
const INTERVALS_PER_HISTOGRAM: u32 = 10;

/// Makes the plan of one run.
///
/// # Errors
/// A [`Refusal`] that states what was found, what was expected, and how to fix it.
pub fn resolve(workload: &Workload, setting: &Setting) -> Result<Plan, Refusal> {
    let mut notes = Vec::new();
    let threads = deal_threads(&workload.roles, setting.cpus);
    let total: u64 = threads.iter().map(|count| u64::from(*count)).sum();
    in_range("threads", total, 1, MAX_THREADS, "1 to 4096")?;
    let counted = matches!(setting.stop, Stop::AfterOps(_) | Stop::AfterBytes(_));
    if counted && setting.warmup_ns > 0 {
        let what = "a number of operations or bytes (--number-ios, --io-size) and a warm-up \
                    (--ramp-time), which would use up the count; give --runtime";
        return Err(Refusal::conflict(&workload.roles[0].name, what));
    }
    let mut chance = Chance::new(setting.seed);
    let mut jobs = Vec::new();
    for (role, threads) in workload.roles.iter().zip(threads) {
        jobs.extend(jobs_of(role, threads, workload, setting, &mut chance)?);
    }
    commit::agree(&jobs)?;
    fit_buffers(&mut jobs, setting.buffer_limit_bytes, &mut notes)?;
    let pinned = jobs.len() <= setting.cpus as usize;
    let writes = jobs.iter().any(Job::changes);
    Ok(Plan {
        name: workload.name.clone(),
        title: workload.title.clone(),
        pattern: workload.pattern.clone(),
        nominal_block_bytes: workload.block_size,
        nominal_read_percent: workload.read_percent,
        engine: setting.engine.clone(),
        targets: setting.targets.clone(),
        seed: setting.seed,
        warmup_ns: setting.warmup_ns,
        stop: setting.stop,
        latency: LatencyGoal::None,
        until: PrecisionGoal::None,
        on_error: setting.on_error,
        final_sync: setting.final_sync && writes,
        interval_ns: INTERVAL_NS,
        intervals_per_histogram: INTERVALS_PER_HISTOGRAM,
        pinned,
        notes,
        jobs,
    })
}

/// Threads per role. Shares are cumulative ceilings of `cpus`, so that they add up to it; every
/// role gets at least one thread, even with one CPU.
fn deal_threads(roles: &[Role], cpus: u32) -> Vec<u32> {
    let fixed: u32 = roles
        .iter()
        .map(|role| match role.threads {
            Threads::Count(count) => count,
            _ => 0,
        })
        .sum();
    let mut percent_before = 0;
    let edge = |percent: u32| (u64::from(cpus) * u64::from(percent)).div_ceil(100) as u32;
    roles
        .iter()
        .map(|role| match role.threads {
            Threads::PerCpu => cpus,
            Threads::Count(count) => count,
            Threads::Rest => cpus.saturating_sub(fixed).max(1),
            Threads::Percent(percent) => {
                let low = edge(percent_before);
                percent_before += u32::from(percent);
                edge(percent_before).saturating_sub(low).max(1)
            }
        })
        .collect()
}

/// Halves the depth of the jobs with the largest buffers until all buffers fit.
fn fit_buffers(jobs: &mut [Job], limit_bytes: u64, notes: &mut Vec<String>) -> Result<(), Refusal> {
    let needed: u64 = jobs.iter().map(|job| job.block_bytes.next_multiple_of(4096)).sum();
    if needed > limit_bytes {
        return Err(Refusal::Memory { jobs: jobs.len(), needed_bytes: needed, limit_bytes });
    }
    let before = jobs.iter().map(|job| job.iodepth).max().unwrap_or(0);
    let total = |jobs: &[Job]| jobs.iter().map(Job::buffer_bytes).sum::<u64>();
    let mut lowered = false;
    while total(jobs) > limit_bytes {
        let greediest = jobs.iter().filter(|job| job.iodepth > 1).map(Job::buffer_bytes).max();
        let Some(greediest) = greediest else { break };
        let lowers = |job: &&mut Job| job.iodepth > 1 && job.buffer_bytes() == greediest;
        for job in jobs.iter_mut().filter(lowers) {
            job.iodepth /= 2;
            job.batch = job.batch.min(job.iodepth);
            job.reap.complete_min = job.reap.complete_min.min(job.iodepth);
            job.reap.refill_at = job.reap.refill_at.min(job.iodepth - 1);
        }
        lowered = true;
    }
    if lowered {
        let after = jobs.iter().map(|job| job.iodepth).min().unwrap_or(0);
        notes.push(format!(
            "depth lowered from {before} to at least {after}: I/O buffers may take {} \
             (a quarter of the available memory)",
            bytes::rough(limit_bytes)
        ));
    }
    Ok(())
}

pub(super) fn in_range(
    what: &'static str,
    found: u64,
    low: u64,
    high: u64,
    expected: &'static str,
) -> Result<(), Refusal> {
    if (low..=high).contains(&found) {
        Ok(())
    } else {
        Err(Refusal::Range { what, found, expected })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeSet;

    use super::super::{EngineKind, Order, describe};
    use super::*;
    use crate::spec::{Access, Arrivals, Draw, Pace, Priority, Rate, Region, Rw, Wait};

    fn role(name: &str, rw: Rw, threads: Threads) -> Role {
        Role { threads, ..Role::new(name, rw) }
    }

    fn workload(roles: Vec<Role>) -> Workload {
        Workload {
            name: "w".into(),
            title: "W".into(),
            pattern: "p".into(),
            models: String::new(),
            block_size: 4096,
            read_percent: 50,
            roles,
        }
    }

    fn setting(cpus: u32) -> Setting {
        Setting {
            engine: Engine::of(EngineKind::IoUring),
            targets: vec![Target {
                path: "/t".into(),
                bytes: 1 << 30,
                direct: true,
                align_bytes: 512,
            }],
            offset_bytes: 0,
            cpus,
            iodepth: 32,
            seed: 1,
            warmup_ns: 0,
            stop: Stop::AfterNs(1_000_000_000),
            on_error: OnError::Stop,
            final_sync: true,
            buffer_limit_bytes: 1 << 30,
        }
    }

    #[test]
    fn every_role_keeps_a_thread_on_one_two_and_three_cores() {
        let lakehouse = |cpus| {
            let roles = [40, 30, 30].map(|share| role("r", Rw::Read, Threads::Percent(share)));
            deal_threads(&roles, cpus)
        };
        assert_eq!(lakehouse(1), [1, 1, 1]);
        assert_eq!(lakehouse(2), [1, 1, 1]);
        assert_eq!(lakehouse(3), [2, 1, 1]);
        assert_eq!(lakehouse(8), [4, 2, 2]);
        assert_eq!(lakehouse(10), [4, 3, 3]);
        let store = |cpus| {
            let roles = [
                role("append", Rw::Write, Threads::Count(1)),
                role("get", Rw::RandRead, Threads::Rest),
            ];
            deal_threads(&roles, cpus)
        };
        assert_eq!(store(1), [1, 1]);
        assert_eq!(store(2), [1, 1]);
        assert_eq!(store(8), [1, 7]);
    }

    #[test]
    fn depth_with_psync_is_refused_unless_it_stands_in() {
        let mut setting = setting(1);
        setting.engine.kind = EngineKind::Psync;
        setting.iodepth = 4;
        let requested = workload(vec![role("r", Rw::RandRead, Threads::Count(1))]);
        assert_eq!(
            resolve(&requested, &setting),
            Err(Refusal::Depth { engine: "psync", found: 4 })
        );
        setting.engine.chosen_because = "io_uring is forbidden here".into();
        let plan = resolve(&requested, &setting).unwrap();
        assert_eq!(plan.jobs.len(), 4);
        assert!(plan.jobs.iter().all(|job| job.iodepth == 1));
        assert_eq!(plan.depth(), 4);
    }

    #[test]
    fn misaligned_blocks_and_offsets_are_refused() {
        let mut requested = workload(vec![role("r", Rw::RandRead, Threads::Count(1))]);
        requested.block_size = 1000;
        assert!(matches!(resolve(&requested, &setting(1)), Err(Refusal::Block { .. })));
        requested.block_size = 512;
        assert!(resolve(&requested, &setting(1)).is_ok());
        let mut four = setting(1);
        four.targets[0].align_bytes = 4096;
        let refusal = resolve(&requested, &four).unwrap_err();
        assert!(refusal.to_string().contains("multiples of 4096 B"), "{refusal}");
        let mut odd = setting(1);
        odd.offset_bytes = 100;
        assert!(matches!(resolve(&requested, &odd), Err(Refusal::Offset { .. })));
    }

    #[test]
    fn partitions_are_disjoint_and_inside() {
        let mut streams = role("log", Rw::Write, Threads::Count(4));
        streams.region = Region::Partitioned;
        let plan = resolve(&workload(vec![streams]), &setting(2)).unwrap();
        for pair in plan.jobs.windows(2) {
            assert_eq!(pair[0].region_start + pair[0].region_bytes, pair[1].region_start);
        }
        let last = plan.jobs.last().unwrap();
        assert_eq!(last.region_start + last.region_bytes, 1 << 30);
        assert!(!plan.pinned, "four jobs on two CPUs are not pinned");
    }

    #[test]
    fn buffers_are_kept_below_the_limit_by_lowering_the_depth() {
        let mut requested = workload(vec![role("r", Rw::Read, Threads::Count(4))]);
        requested.block_size = 1 << 20;
        let mut setting = setting(4);
        setting.buffer_limit_bytes = 40 << 20;
        let plan = resolve(&requested, &setting).unwrap();
        assert!(plan.buffer_bytes() <= 40 << 20);
        assert_eq!(plan.jobs[0].iodepth, 8);
        assert!(plan.notes[0].contains("from 32 to at least 8"), "{:?}", plan.notes);
        setting.buffer_limit_bytes = 1 << 20;
        assert!(matches!(resolve(&requested, &setting), Err(Refusal::Memory { .. })));
    }

    #[test]
    fn a_depth_of_one_is_never_lowered() {
        let deep = Role {
            iodepth: Some(4),
            block_size: Some(1 << 20),
            ..role("deep", Rw::Read, Threads::Count(1))
        };
        let large = Role {
            iodepth: Some(1),
            block_size: Some(4 << 20),
            ..role("large", Rw::Read, Threads::Count(1))
        };
        let mut setting = setting(2);
        setting.buffer_limit_bytes = 6 << 20;
        let plan = resolve(&workload(vec![deep, large]), &setting).unwrap();
        let depths: Vec<u32> = plan.jobs.iter().map(|job| job.iodepth).collect();
        assert_eq!(depths, [2, 1]);
    }

    #[test]
    fn what_has_no_effect_or_reaches_beyond_everything_is_refused() {
        type Change = fn(&mut Role, &mut Setting);
        let changes: [(Change, &str); 19] = [
            (
                |role, _| (role.rw, role.access) = (Rw::RandWrite, Access::SinglePass(7.0)),
                "by 2 jobs of one region",
            ),
            (
                |role, _| {
                    (role.rw, role.access) = (Rw::RandWrite, Access::SinglePass(7.0));
                    role.threads = Threads::Count(1);
                    role.sizes.write = Draw::Range { low: 4096, high: 8192, step: 4096 };
                },
                "of one block size",
            ),
            (
                |role, _| {
                    role.sizes.read = Draw::Range { low: 512, high: 1536, step: 256 };
                },
                "block size 256 B",
            ),
            (|role, _| (role.rw, role.block_align) = (Rw::Read, Some(8192)), "alignment"),
            (|role, _| role.offset_increment = Some(u64::MAX / 512 * 512), "give a larger --size"),
            (
                |role, setting| (role.offset, setting.offset_bytes) = (Some(u64::MAX - 511), 1024),
                "beyond the end",
            ),
            (|role, _| (role.rw, role.stride) = (Rw::Read, Some(-(1 << 30))), "stride"),
            (
                |role, setting| {
                    setting.engine.kind = EngineKind::Psync;
                    (setting.iodepth, role.reap.complete_max) = (1, 1);
                },
                "psync engine",
            ),
            (
                |role, setting| {
                    setting.engine.kind = EngineKind::Psync;
                    (setting.iodepth, role.reap.slat) = (1, true);
                },
                "psync engine",
            ),
            (
                |role, setting| {
                    setting.engine.kind = EngineKind::Null;
                    role.reap.wait = Wait::Poll;
                },
                "null engine",
            ),
            (|role, _| role.priorities.write = vec![IDLE], "does not use"),
            (|role, _| role.priorities.read = vec![IDLE; 3], "add up to 120 %"),
            (
                |role, setting| {
                    (setting.engine.kind, setting.iodepth) = (EngineKind::Psync, 1);
                    role.priorities.read = vec![IDLE];
                },
                "need the io_uring or libaio engine",
            ),
            (
                |role, setting| {
                    setting.engine.kind = EngineKind::IoUringCmd;
                    role.priorities.read = vec![IDLE];
                },
                "need the io_uring or libaio engine",
            ),
            (
                |role, setting| {
                    setting.engine.kind = EngineKind::IoUringCmd;
                    (role.rw, role.sync.atomic) = (Rw::RandWrite, true);
                },
                "atomic writes need",
            ),
            (
                |role, _| role.engine = Some(Engine::of(EngineKind::IoUringCmd)),
                "beside another engine",
            ),
            (|role, _| (role.pace, role.reap.wait) = (rate(), Wait::Hybrid), "hybrid"),
            (
                |_, setting| (setting.stop, setting.warmup_ns) = (Stop::AfterOps(9), 1),
                "would use up the count",
            ),
            (
                |_, setting| (setting.stop, setting.warmup_ns) = (Stop::AfterBytes(9), 1),
                "would use up the count",
            ),
        ];
        for (index, (change, expected)) in changes.into_iter().enumerate() {
            let (mut role, mut setting) = (role("r", Rw::RandRead, Threads::Count(2)), setting(2));
            change(&mut role, &mut setting);
            let refusal = resolve(&workload(vec![role]), &setting).unwrap_err().to_string();
            assert!(refusal.contains(expected), "{index}: {refusal}");
        }
    }

    const IDLE: Priority = Priority { percent: 40, bytes: 0, class: 3, level: 0, hint: 0 };

    fn rate() -> Pace {
        Pace::Rate { rate: Rate::Ops(100.0), arrivals: Arrivals::default() }
    }

    #[test]
    fn threads_agree_on_the_order_of_a_shared_region_and_on_nothing_else() {
        for region in [Region::Shared, Region::Partitioned] {
            let mut role = role("r", Rw::RandRw, Threads::Count(4));
            role.region = region;
            let plan = resolve(&workload(vec![role]), &setting(4)).unwrap();
            let own: BTreeSet<u64> = plan.jobs.iter().map(|job| job.seed).collect();
            assert_eq!(own.len(), 4, "{region:?}");
            let orders = plan.jobs.iter().map(|job| match job.order {
                Order::Permutation { seed, .. } => seed,
                ref order => panic!("{order:?}"),
            });
            let distinct = if region == Region::Shared { 1 } else { 4 };
            assert_eq!(orders.collect::<BTreeSet<u64>>().len(), distinct, "{region:?}");
        }
        // A synchronous engine as a fallback: each request in flight has its own thread.
        let mut setting = setting(1);
        setting.engine.kind = EngineKind::Psync;
        setting.engine.chosen_because = "io_uring is forbidden here".into();
        let requested = workload(vec![role("r", Rw::RandWrite, Threads::Count(1))]);
        let plan = resolve(&requested, &setting).unwrap();
        let own: BTreeSet<u64> = plan.jobs.iter().map(|job| job.seed).collect();
        assert_eq!(own.len(), 32);
    }

    #[test]
    fn a_region_smaller_than_a_block_is_refused() {
        let mut setting = setting(1);
        setting.targets[0].bytes = 1024;
        let requested = workload(vec![role("r", Rw::Read, Threads::Count(1))]);
        assert!(matches!(resolve(&requested, &setting), Err(Refusal::Region { .. })));
    }

    #[test]
    fn the_same_asking_gives_the_same_plan() {
        let requested = workload(vec![role("r", Rw::RandRw, Threads::PerCpu)]);
        let (a, b) =
            (resolve(&requested, &setting(2)).unwrap(), resolve(&requested, &setting(2)).unwrap());
        assert_eq!(a.hash(), b.hash());
        let mut other = setting(2);
        other.seed = 2;
        assert_ne!(a.hash(), resolve(&requested, &other).unwrap().hash());
        assert!(describe(&a).contains("job 1"), "{}", describe(&a));
    }
}
