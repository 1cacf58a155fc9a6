//! A scenario: one small device, one plan, one fault or none, all drawn from a seed.

use std::cell::RefCell;
use std::rc::Rc;

use iosonde_engine::backend::fault::{Fault, Injection, When};
use iosonde_engine::backend::sim::{Model, SharedDevice};
use iosonde_model::content::block::{Format, Label};
use iosonde_model::plan::chance::{Chance, mix};
use iosonde_model::plan::{
    Engine, EngineKind, RunId, Target, VerifyMode, VerifyPlan, VerifySetting,
};

/// All parameters of one simulation.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) plan: VerifyPlan,
    /// The fault, and the job whose queue it is injected into.
    pub(super) fault: Option<(Injection, usize)>,
    /// The device spec.
    pub(super) model: String,
    pub(super) before: Before,
    /// What happens between writing and reading back.
    pub(super) interlude: Interlude,
    pub(super) seed: u64,
}

/// The initial content of the device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Before {
    Zeros,
    OldRun,
    Garbage,
}

/// What happens between writing and reading back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Interlude {
    /// Nothing: one run does both.
    None,
    /// Another process reads, with a recomputed ledger.
    Reopen,
    /// The power is cut after everything is written and flushed.
    PowerCut,
    /// The process is killed while writing, and part of the requests in flight arrives.
    Kill,
    /// The power is cut while writing.
    PowerCutAtWork,
}

/// A run on the simulated device.
pub(super) fn setting(mode: VerifyMode, bytes: u64) -> VerifySetting {
    VerifySetting {
        mode,
        run: RunId(0x5e1f),
        engine: Engine::of(EngineKind::Sim),
        target: Target { path: "sim".into(), bytes, direct: false, align_bytes: 512 },
        offset_bytes: 0,
        jobs: 1,
        overlap: false,
        iodepth: 1,
        block_bytes: 4096,
        sector_bytes: 512,
        blocks: (1, 4),
        read_percent: 0,
        trim_percent: 0,
        flush_every: 0,
        passes: 0,
        ops: u64::MAX,
        only_job: None,
        length_ns: u64::MAX,
        written_bytes: u64::MAX,
        delay_ns: 0,
        trims_make_zeros: true,
        begins_as_zeros: false,
        seed: 0,
        cpus: 1,
        memory_limit_bytes: u64::MAX,
    }
}

/// A simulated device from its spec.
pub(super) fn device(words: &str, seed: u64) -> SharedDevice {
    let model = Model::parse(words).unwrap_or_else(|error| unreachable!("{words}: {error}"));
    Rc::new(RefCell::new(model.build(seed)))
}

impl Scenario {
    /// A scenario with this fault.
    pub(super) fn with(fault: Fault, seed: u64) -> Scenario {
        let mut chance = Chance::new(seed);
        let interlude = match fault {
            Fault::Delay | Fault::SyncLie => Interlude::PowerCut,
            Fault::Reorder => Interlude::Reopen,
            Fault::ReadFlip | Fault::ReadMisdirect | Fault::ReadEio => Interlude::None,
            _ if chance.below(2) == 0 => Interlude::Reopen,
            _ => Interlude::None,
        };
        let mut setting = drawn(&mut chance, 1 + chance_u32(&mut Chance::new(!seed), 2));
        // A read fault is visible if every block is known; a delayed write, if nothing follows it.
        let in_order = matches!(
            fault,
            Fault::ReadFlip | Fault::ReadMisdirect | Fault::ReadEio | Fault::Reorder | Fault::Stale
        ) || chance.below(2) == 0;
        if in_order {
            (setting.passes, setting.read_percent, setting.trim_percent) = (2, 0, 0);
            // A block that was never written has no required content, so a bit flip in it does not
            // count.
            setting.ops = u64::MAX;
        }
        if interlude == Interlude::PowerCut {
            (setting.passes, setting.flush_every) = (1 + chance_u32(&mut chance, 2), 0);
            (setting.read_percent, setting.trim_percent) = (0, 0);
        }
        setting.mode = mode(interlude, in_order || interlude == Interlude::PowerCut);
        let fault = match fault {
            Fault::Flip(_) => Fault::Flip(1 + chance.below(8) as u8),
            other => other,
        };
        let jobs = u64::from(setting.jobs);
        let plan = resolved(&setting);
        let when = When::Nth(1 + chance.below(strikes(fault, &plan)));
        Scenario {
            fault: Some((Injection { fault, when }, chance.below(jobs) as usize)),
            model: "servers=5,read=exp:50us,write=exp:50us".into(),
            before: if chance.below(2) == 0 { Before::Zeros } else { Before::OldRun },
            interlude,
            seed,
            plan,
        }
    }

    /// A scenario without a fault; some resemble one.
    pub(super) fn without_fault(seed: u64) -> Scenario {
        let mut chance = Chance::new(seed);
        let interlude = match chance.below(6) {
            0 => Interlude::Reopen,
            1 => Interlude::PowerCut,
            2 => Interlude::Kill,
            3 => Interlude::PowerCutAtWork,
            _ => Interlude::None,
        };
        let jobs = 1 + chance_u32(&mut chance, 4);
        let mut setting = drawn(&mut chance, jobs);
        let in_order = chance.below(4) == 0;
        if in_order {
            setting.passes = 1 + chance_u32(&mut chance, 3);
        }
        setting.mode = mode(interlude, in_order);
        if interlude == Interlude::None && chance.below(4) == 0 {
            (setting.mode, setting.passes, setting.length_ns) =
                (VerifyMode::Pipeline, 0, 3_000_000);
            (setting.read_percent, setting.trim_percent, setting.flush_every) = (0, 0, 0);
        }
        let can_overlap = setting.mode.can_overlap() && jobs > 1;
        if can_overlap && chance.below(3) == 0 {
            (setting.overlap, setting.trim_percent) = (true, 0);
        }
        // The simulated device divides a request anywhere on a grid of 512 bytes; a cut in the
        // middle of an atomically written sector is damage.
        let may_be_short = setting.sector_bytes == 512;
        let model = match chance.below(4) {
            0 if may_be_short => "servers=3,read=50us,write=70us,short-every=7",
            1 => "servers=9,read=exp:90us,write=exp:20us,error-every=29,errno=5",
            2 => "servers=2,read=bimodal:0.9:10us:2ms,write=bimodal:0.9:10us:2ms",
            _ => "servers=8,read=exp:50us,write=exp:50us",
        };
        // A flush error ends a run, as intended: the scenario needs a complete run.
        let model = match interlude {
            Interlude::None => model.into(),
            _ => model.replace(",error-every=29,errno=5", ""),
        };
        let before = [Before::Zeros, Before::OldRun, Before::Garbage][chance.below(3) as usize];
        Scenario { plan: resolved(&setting), fault: None, model, before, interlude, seed }
    }

    /// Describes the simulation.
    pub(super) fn words(&self) -> String {
        let plan = &self.plan;
        let length = match plan.passes {
            0 => format!("{} operations per job", plan.ops[0]),
            passes => format!("{passes} pass(es)"),
        };
        format!(
            "verify {}, {} job(s){} at depth {}, {} blocks of {} B in sectors of {} B, {} to {} \
             per operation, {} % reads, {} % trims, {length}, a flush after {}; before: {:?}; \
             between writing and reading back: {:?}; device: {}",
            plan.mode.word(),
            plan.plan.jobs.len(),
            if plan.overlaps() { " in one region" } else { "" },
            plan.plan.jobs[0].iodepth,
            plan.blocks(),
            plan.block_bytes,
            plan.sector_bytes,
            plan.min_blocks,
            plan.max_blocks,
            plan.read_percent,
            plan.trim_percent,
            plan.flush_every,
            self.before,
            self.interlude,
            self.model,
        )
    }

    /// The initial content of the device.
    pub(super) fn content_before(&self) -> Vec<u8> {
        let region = self.plan.blocks() * u64::from(self.plan.block_bytes);
        let mut bytes = vec![0; region as usize];
        match self.before {
            Before::Zeros => {}
            Before::Garbage => {
                let mut chance = Chance::new(mix(self.seed));
                bytes.iter_mut().for_each(|byte| *byte = chance.bits() as u8);
            }
            Before::OldRun => {
                let old = RunId(self.plan.run.0 ^ 0xffff);
                let format = Format::new(old, self.plan.block_bytes, self.plan.sector_bytes);
                let mut label = Label { generation: 3, ..Label::default() };
                for block in bytes.chunks_exact_mut(self.plan.block_bytes as usize) {
                    format.seal(block, &label);
                    label.offset += u64::from(self.plan.block_bytes);
                }
            }
        }
        bytes
    }
}

/// Largest number of the request that receives the fault, so that such a request is likely.
fn strikes(fault: Fault, plan: &VerifyPlan) -> u64 {
    match fault {
        Fault::SyncEio | Fault::SyncLie => 1,
        _ if plan.passes > 0 => (plan.blocks_of(0) / u64::from(plan.max_blocks)).max(1),
        _ => (plan.ops[0] / 3).max(1),
    }
}

fn mode(interlude: Interlude, in_order: bool) -> VerifyMode {
    match interlude {
        Interlude::None if in_order => VerifyMode::Flush,
        Interlude::None => VerifyMode::Soak,
        _ => VerifyMode::Write,
    }
}

fn chance_u32(chance: &mut Chance, below: u32) -> u32 {
    chance.below(below.into()) as u32
}

/// A small plan of any shape.
fn drawn(chance: &mut Chance, jobs: u32) -> VerifySetting {
    let shapes = [(512, 512), (4096, 512), (4096, 4096), (8192, 512), (2048, 512)];
    let (block_bytes, sector_bytes) = shapes[chance.below(5) as usize];
    let min = 1 + chance_u32(chance, 3);
    let max = min + chance_u32(chance, 4);
    let blocks = u64::from(jobs) * (u64::from(max) + 4 + chance.below(24));
    VerifySetting {
        jobs,
        iodepth: 1 + chance_u32(chance, 8),
        block_bytes,
        sector_bytes,
        blocks: (min, max),
        read_percent: [0, 30, 60][chance.below(3) as usize],
        trim_percent: [0, 10][chance.below(2) as usize],
        flush_every: [0, 5, 20][chance.below(3) as usize],
        ops: 20 + chance.below(150),
        seed: chance.bits(),
        run: RunId(u128::from(chance.bits()) << 64 | u128::from(chance.bits())),
        ..setting(VerifyMode::Soak, blocks * block_bytes)
    }
}

pub(super) fn resolved(setting: &VerifySetting) -> VerifyPlan {
    VerifyPlan::resolve(setting).unwrap_or_else(|error| unreachable!("our own scene: {error}"))
}
