//! Detects settings of a role that have no effect or contradict another.

mod numbers;

use super::resolve::Refusal;
use super::{Engine, EngineKind, Job};
use crate::spec::{Access, Commit, Draw, EachWrite, Pace, Phase, Region, Role, Rw, Sizes, Wait};

/// Refuses settings that have no effect or contradict another.
pub(super) fn effective(role: &Role, job: &Job, engine: &Engine) -> Result<(), Refusal> {
    let fault = numbers::fault(role, job)
        .or_else(|| without_effect(role, job, engine))
        .or_else(|| job.priorities.fault())
        .or_else(|| distribution(role));
    fault.map_or(Ok(()), |what| Err(Refusal::conflict(&role.name, what)))
}

/// The first setting without effect or with a contradiction.
fn without_effect(role: &Role, job: &Job, engine: &Engine) -> Option<String> {
    let writes = job.writes_data();
    let random = role.rw.is_random();
    let varied = job.sizes != Sizes::default()
        && job.iodepth == 1
        && engine.kind.is_synchronous()
        && !engine.chosen_because.is_empty();
    let sizes = &role.sizes;
    let open_loop = job.is_open_loop();
    let paced = !job.keeps_depth() || job.sync.every_writes > 0;
    let has_phase = |is: fn(&Phase) -> bool| job.phases.iter().any(is);
    let faults: [(bool, &str); 36] = [
        (
            (!job.reads() && sizes.read != Draw::Block)
                || (!writes && sizes.write != Draw::Block)
                || (!job.trims && sizes.trim != Draw::Block),
            "block sizes for a direction that the load does not use have no effect",
        ),
        (
            !role.rw.is_mixed() && has_phase(|phase| phase.read_percent.is_some()),
            "a share of reads in a phase has no effect; give --rw rw or randrw",
        ),
        (
            job.sync.every_writes == 0 && has_phase(|phase| phase.sync_percent != 100.0),
            "a share of the syncs in a phase has no effect: there are none; give every-writes",
        ),
        (
            !matches!(job.commit, Some(Commit::WaitsFor { .. }))
                && has_phase(|phase| phase.commit_percent != 100.0),
            "a share of the commits in a phase has no effect: no sync waits for one; give \
             commit = { waits-for = … }",
        ),
        (
            !open_loop && has_phase(|phase| ![0.0, 100.0].contains(&phase.rate_percent)),
            "a phase at a part of the rate, and no rate; give --rate or --rate-iops, or rate=0 for \
             an idle phase",
        ),
        (
            job.data.constant && (job.data.zeros || job.data.dedupe_percent > 0),
            "data that is the same in every write cannot also be zeros or partly deduplicable; \
             give one of them",
        ),
        (
            !writes && (job.sync.every_writes > 0 || job.sync.each_write != EachWrite::Accepted),
            "syncs (--fsync, --fdatasync, --sync) have no effect: nothing is written",
        ),
        (
            job.data.dedupe_percent == 0 && (job.data.set_percent > 0 || job.data.set_shared),
            "a set of repeated blocks has no effect: nothing is repeated",
        ),
        (!writes && job.sync.atomic, "atomic writes have no effect: nothing is written"),
        (
            job.sync.atomic && !engine.kind.has_write_flags(),
            &format!("atomic writes need the {} engine", those(EngineKind::has_write_flags)),
        ),
        (
            job.sync.barrier && job.sync.every_writes == 0,
            "group commit needs a number of writes: give --fsync, --fdatasync or --sync",
        ),
        (
            job.sync.extra_syncs > 0 && job.sync.every_writes == 0,
            "further syncs need a number of writes: give every-writes",
        ),
        (
            job.sync.in_flight > 0 && (job.sync.barrier || job.sync.every_writes == 0),
            "a limit of the syncs in flight has no effect without syncs, or with a group commit; \
             give every-writes without a barrier, or no limit",
        ),
        (
            job.sync.by_call && !(job.sync.barrier && job.targets.len() <= 1),
            "syncs by call need a group commit (barrier = true) on one target",
        ),
        (
            !writes && !job.data.checked && job.data != crate::spec::Data::default(),
            "the kind of data has no effect: nothing is written",
        ),
        (
            job.data.zeros && (job.data.compress_percent > 0 || job.data.dedupe_percent > 0),
            "zeros cannot also be partly compressible or deduplicable; give one of them",
        ),
        (
            random && job.stride_bytes != 0,
            "a stride has no effect on random offsets; give a sequential --rw",
        ),
        (
            !random && role.access != Access::Permutation,
            "a distribution of offsets has no effect on sequential ones; give a random --rw",
        ),
        (
            role.offset_increment.is_some() && role.region != Region::Shared,
            "an offset increment places the regions; they cannot be partitioned or staggered too",
        ),
        (
            role.random_percent.is_some() && !random,
            "a share of random offsets has no effect on sequential ones; give a random --rw",
        ),
        (
            random && role.region == Region::Staggered,
            "staggered streams are sequential ones; give a sequential --rw",
        ),
        (
            matches!(job.pace, Pace::Recorded(_)) && !job.phases.is_empty(),
            "recorded arrival times have phases of their own",
        ),
        (
            !job.phases.is_empty() && job.phases.iter().all(|phase| phase.rate_percent == 0.0),
            "every phase is idle",
        ),
        (
            engine.kind.is_synchronous()
                && (job.reap.wait != Wait::Event
                    || job.reap.complete_min > 1
                    || job.reap.complete_max > 0
                    || job.reap.refill_at > 0
                    || job.reap.slat),
            &format!(
                "the {} engine submits and waits in one call: --wait, batches of completions, \
                 --iodepth-low and --slat have no effect; give --ioengine io_uring",
                engine.kind.name()
            ),
        ),
        (
            engine.kind == EngineKind::Null && job.reap.wait != Wait::Event,
            "--wait has no effect with the null engine, which completes everything immediately",
        ),
        (
            paced && job.reap.wait == Wait::Hybrid,
            "--wait hybrid has no effect with a rate, a pause, phases or syncs; give --wait event \
             or poll",
        ),
        (
            !random && role.block_align.is_some(),
            "an alignment of offsets (--blockalign) has no effect on sequential ones; give a \
             random --rw",
        ),
        (
            engine.kind == EngineKind::Sim && job.reap.wait != Wait::Event,
            "the sim engine runs on virtual time, which does not pass while one polls; \
             give --wait event",
        ),
        (
            engine.kind == EngineKind::Sim && job.place.huge_pages,
            "--hugepages has no effect with the sim engine, which keeps its buffers wherever they \
             are",
        ),
        (
            matches!(job.pace, Pace::Each { .. }) && !job.phases.is_empty(),
            "separate rates of reads and writes cannot be combined with phases",
        ),
        (
            matches!(job.pace, Pace::Each { .. }) && !role.rw.is_mixed(),
            "separate rates of reads and writes need --rw rw or randrw",
        ),
        (role.run_length.is_some() && !random, "runs of random offsets need a random --rw"),
        (
            !job.priorities.is_none() && !engine.kind.has_priorities(),
            &format!(
                "priorities of single requests need the {} engine",
                those(EngineKind::has_priorities)
            ),
        ),
        (
            (!job.reads() && !job.priorities.read.is_empty())
                || (!writes && !job.priorities.write.is_empty()),
            "I/O priorities for a direction that the load does not use have no effect",
        ),
        (
            matches!(role.access, Access::SinglePass(_))
                && (job.sizes != Sizes::default()
                    || job.unit() != job.block_bytes
                    || job.strides.range_bytes > 0),
            "a single pass is of one block size, on its grid and without zones",
        ),
        (
            varied && (!random || role.access == Access::RandomMap),
            "blocks of several sizes need an asynchronous engine where they are sequential or in a \
             random map",
        ),
    ];
    faults.iter().find(|(found, _)| *found).map(|(_, what)| (*what).into())
}

/// The engines with this ability.
fn those(can: fn(EngineKind) -> bool) -> String {
    EngineKind::either_of(EngineKind::all().filter(|kind| can(*kind)))
}

/// A fault in the parameters of a distribution.
fn distribution(role: &Role) -> Option<String> {
    let adds_up = |sum: f64| (sum - 100.0).abs() < 0.01;
    if let Some(percent) = role.random_percent.filter(|percent| !(0.0..=100.0).contains(percent)) {
        return Some(format!("{percent} % of random offsets, expected 0 to 100"));
    }
    let what = match &role.access {
        Access::Permutation | Access::RandomMap | Access::Uniform => return None,
        Access::Sequence(sequence) if !sequence.blocks.is_empty() => return None,
        Access::Sequence(_) => "a sequence without blocks, expected one at least".into(),
        Access::Zipf(theta) if theta.is_finite() && *theta > 0.0 => return None,
        Access::Zipf(theta) => format!("zipf:{theta}, expected a skew above 0"),
        Access::Pareto(h) if *h > 0.0 && *h < 1.0 => return None,
        Access::Pareto(h) => format!("pareto:{h}, expected a share above 0 and below 1"),
        Access::Normal(deviation) if *deviation > 0.0 && *deviation <= 100.0 => return None,
        Access::Normal(deviation) => {
            format!("normal:{deviation}, expected a deviation above 0 and up to 100 percent")
        }
        Access::SinglePass(_) if role.rw != Rw::RandWrite => {
            "a single pass that does not only write, expected randwrite".into()
        }
        Access::SinglePass(_) if role.random_percent.is_some() || role.run_length.is_some() => {
            "a single pass in runs, or with sequential writes between".into()
        }
        Access::SinglePass(spare) if *spare > 0.0 && *spare <= 1000.0 => return None,
        Access::SinglePass(spare) => {
            format!("single-pass:{spare}, expected spare flash above 0 and up to 1000 percent")
        }
        Access::Zoned(zones) => {
            let access: f64 = zones.iter().map(|zone| zone.access_percent).sum();
            let size: f64 = zones.iter().map(|zone| zone.size_percent).sum();
            let positive =
                zones.iter().all(|zone| zone.access_percent >= 0.0 && zone.size_percent > 0.0);
            if positive && adds_up(access) && adds_up(size) {
                return None;
            }
            format!(
                "zones that add up to {access} % of accesses and {size} % of the region, expected \
                 100 % of each, none of the accesses below 0 and none of the sizes 0; give other \
                 shares"
            )
        }
    };
    Some(what)
}
