//! The active range of a stage and its preconditioning passes.

use super::chance::mix;
use super::stream::single_pass;
use super::{Plan, Refusal, Setting, Stop, resolve};
use crate::spec::experiment::{PassOrder, Precondition, Stage};
use crate::spec::{Access, Role, Rw, Workload};

/// Unit of an active range, bytes; a multiple of every usual block size.
const UNIT_BYTES: u64 = 1 << 20;
/// Number of probes of a constant write rate: the rounds of a window.
const PROBES: u64 = 5;
/// Length of a probe.
const PROBE_NS: u64 = 1_000_000_000;

/// Reduces the targets to the active range of a stage. If the stage has a percentage or
/// preconditioning, the range is a multiple of 1 MiB, or of the preconditioning's block size if
/// that is larger.
pub fn active_range(stage: &Stage, setting: &Setting) -> Setting {
    let mut setting = setting.clone();
    if stage.active_range_percent == 100 && stage.precondition.is_none() {
        return setting;
    }
    let unit = stage.precondition.as_ref().map_or(0, |each| each.block_size).max(UNIT_BYTES);
    for target in &mut setting.targets {
        let share = u128::from(target.bytes) * u128::from(stage.active_range_percent) / 100;
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        target.bytes = share - share % unit;
    }
    setting
}

/// Bytes written by one pass over an active range.
pub fn pass_bytes(precondition: &Precondition, range_bytes: u64) -> u64 {
    match (precondition.order, precondition.over_provisioning_percent) {
        (PassOrder::SinglePass, Some(spare_percent)) => {
            let blocks = range_bytes / precondition.block_size;
            single_pass::writes(blocks, spare_percent) * precondition.block_size
        }
        _ => range_bytes,
    }
}

/// The plans of the passes over an active range, one per pass. Each has one writer, so that a pass
/// writes every address exactly once (except `SinglePass`).
///
/// # Errors
/// If the target does not support the block size, or the range is smaller than a block.
pub fn passes(precondition: &Precondition, active: &Setting) -> Result<Vec<Plan>, Refusal> {
    let spare_percent = precondition.over_provisioning_percent;
    let access = spare_percent.map_or(Access::Permutation, Access::SinglePass);
    let workload = workload(precondition, active, access);
    let pass = |number: u32| {
        let setting = Setting {
            seed: mix(active.seed ^ mix(0x9c0d ^ u64::from(number))),
            warmup_ns: 0,
            stop: Stop::AfterOnePass,
            final_sync: number + 1 == precondition.passes,
            ..active.clone()
        };
        resolve(&workload, &setting)
    };
    (0..precondition.passes).map(pass).collect()
}

/// Short runs of the same writes, one after another, to test whether their rate is constant.
///
/// # Errors
/// As [`passes`].
pub fn probes(precondition: &Precondition, active: &Setting) -> Result<Vec<Plan>, Refusal> {
    let workload = workload(precondition, active, Access::default());
    let probe = |number: u64| {
        let setting = Setting {
            seed: mix(active.seed ^ mix(0x50be ^ number)),
            warmup_ns: 0,
            stop: Stop::AfterNs(PROBE_NS),
            ..active.clone()
        };
        resolve(&workload, &setting)
    };
    (0..PROBES).map(probe).collect()
}

fn workload(precondition: &Precondition, active: &Setting, access: Access) -> Workload {
    let is_random = precondition.order != PassOrder::Sequential;
    let depth = if active.engine.kind.is_synchronous() { 1 } else { precondition.iodepth };
    let role = Role {
        block_size: Some(precondition.block_size),
        iodepth: Some(depth),
        access,
        ..Role::new("precondition", if is_random { Rw::RandWrite } else { Rw::Write })
    };
    Workload {
        name: "precondition".into(),
        title: "preconditioning".into(),
        pattern: if is_random { "randwrite" } else { "write" }.into(),
        models: String::new(),
        block_size: precondition.block_size,
        read_percent: 0,
        roles: vec![role],
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::plan::stream::OpStream;
    use crate::plan::{Engine, EngineKind, OnError, Target};
    use crate::spec::Experiment;

    fn setting(bytes: u64) -> Setting {
        Setting {
            engine: Engine::of(EngineKind::IoUring),
            targets: vec![Target { path: "x".into(), bytes, direct: true, align_bytes: 512 }],
            offset_bytes: 0,
            cpus: 2,
            iodepth: 1,
            seed: 1,
            warmup_ns: 5,
            stop: Stop::AfterNs(1),
            on_error: OnError::Stop,
            final_sync: false,
            buffer_limit_bytes: 1 << 28,
        }
    }

    fn stage(more: &str) -> Stage {
        let text = format!("name = \"x\"\nquestion = \"?\"\n[[stage]]\nname = \"s\"\n{more}");
        toml::from_str::<Experiment>(&text).unwrap().stages.remove(0)
    }

    /// T21: counted per address, each pass writes the whole range once, in either order.
    #[test]
    fn every_address_is_written_exactly_as_often_as_there_are_passes() {
        for order in ["sequential", "random"] {
            for passes_count in [1, 2, 5] {
                let stage = stage(&format!(
                    "precondition = {{ passes = {passes_count}, order = \"{order}\" }}\n\
                     active-range-percent = 75"
                ));
                // Three quarters are not a multiple of 1 MiB.
                let active = active_range(&stage, &setting((33 << 20) + 512));
                let range = active.targets[0].bytes;
                assert_eq!(range, 24 << 20);
                let unit = 512;
                let mut written = vec![0u32; ((33 << 20) / unit + 1) as usize];
                let plans = passes(stage.precondition.as_ref().unwrap(), &active).unwrap();
                assert_eq!(plans.len(), passes_count);
                for plan in &plans {
                    assert!(plan.writes() && plan.jobs.len() == 1 && plan.warmup_ns == 0);
                    let mut stream = OpStream::new(&plan.jobs[0], plan.stop);
                    while let Some(op) = stream.next_op() {
                        let first = op.offset / unit;
                        for at in first..first + u64::from(op.bytes) / unit {
                            written[at as usize] += 1;
                        }
                    }
                }
                let (inside, outside) = written.split_at((range / unit) as usize);
                assert!(inside.iter().all(|count| *count as usize == passes_count), "{order}");
                assert!(outside.iter().all(|count| *count == 0), "{order}");
            }
        }
    }

    #[test]
    fn random_passes_differ_and_only_the_last_ends_with_a_sync() {
        let stage = stage("precondition = { order = \"random\" }");
        let plans =
            passes(stage.precondition.as_ref().unwrap(), &active_range(&stage, &setting(1 << 26)))
                .unwrap();
        assert_ne!(plans[0].seed, plans[1].seed);
        assert_eq!((plans[0].final_sync, plans[1].final_sync), (false, true));
    }

    #[test]
    fn a_stage_without_either_uses_all_of_the_target() {
        let odd = setting((1 << 20) + 512);
        assert_eq!(active_range(&stage(""), &odd).targets[0].bytes, (1 << 20) + 512);
    }
}
