//! One simulation: what happened, what was damaged, and the verifier's result.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::crash::Crash;
use super::dying::Dying;
use super::scene::{Interlude, Scenario, device};
use iosonde_engine::backend::fault::{Fault, FaultLog, FaultQueue, Injection, When};
use iosonde_engine::backend::sim::memory::SharedMemory;
use iosonde_engine::backend::sim::watched::{Shadow, Watched};
use iosonde_engine::backend::sim::{Memory, SimQueue};
use iosonde_engine::engine::Control;
use iosonde_engine::engine::verify::{RunInputs, VerifyMeasured, simulate_comparing, site};
use iosonde_model::content::block::{Comparisons, MAGIC};
use iosonde_model::content::classify::Class;
use iosonde_model::content::ledger::Survival;
use iosonde_model::content::outcomes::Outcomes;
use iosonde_model::content::replay::replay;
use iosonde_model::plan::chance::Chance;
use iosonde_model::plan::{Job, VerifyMode, VerifyPlan};
use iosonde_model::record::run::Outcome;
use iosonde_model::record::verify::Reread;
use iosonde_model::record::{Repetition, RepetitionBlock};

/// The expected result of a fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// Damaged blocks are found, and classified as one of these.
    Damage(&'static [Class]),
    /// As [`Answer::Damage`], and a second read finds nothing wrong.
    Transient(&'static [Class]),
    /// An error is reported, and no damage.
    Error,
    /// Nothing: it resembles a fault but is none.
    Silence,
}

const MISSING: &[Class] = &[Class::Stale, Class::Lost, Class::OldRun];
const IN_PART: &[Class] = &[Class::Torn, Class::Stale, Class::Lost, Class::OldRun];
const ASTRAY: &[Class] = &[Class::Misdirected, Class::Stale, Class::Lost, Class::OldRun];

const SWAPPED: &[Class] = &[Class::Swapped, Class::Misdirected];
const COPIED: &[Class] = &[Class::Duplicated, Class::Misdirected];
const SHIFTED: &[Class] = &[Class::Shifted, Class::Duplicated, Class::Misdirected];

impl Answer {
    /// The expected result of this fault.
    pub fn to(fault: Fault) -> Answer {
        match fault {
            Fault::Drop | Fault::Delay | Fault::Reorder | Fault::SyncLie => Answer::Damage(MISSING),
            Fault::Stale => Answer::Damage(&[Class::Stale]),
            Fault::Tear(_) | Fault::Zero => Answer::Damage(IN_PART),
            Fault::Flip(_) | Fault::Byte => Answer::Damage(&[Class::BitFlip]),
            Fault::Corrupt => Answer::Damage(&[Class::Corrupt]),
            Fault::Misdirect => Answer::Damage(ASTRAY),
            Fault::Duplicate | Fault::Swap => Answer::Damage(&[Class::Misdirected]),
            Fault::SwapSectors => Answer::Damage(SWAPPED),
            Fault::CopySector => Answer::Damage(COPIED),
            Fault::ShiftSectors => Answer::Damage(SHIFTED),
            Fault::Phantom => Answer::Damage(&[Class::Phantom]),
            Fault::ReadFlip => Answer::Transient(&[Class::BitFlip]),
            Fault::ReadMisdirect => Answer::Transient(&[Class::Misdirected]),
            Fault::SyncEio | Fault::WriteEio | Fault::ReadEio | Fault::Enospc => Answer::Error,
            Fault::Short => Answer::Silence,
        }
    }

    /// As text, for the table.
    pub fn words(self) -> &'static str {
        match self {
            Answer::Damage(MISSING) => "stale, lost or old-run",
            Answer::Damage(IN_PART) => "torn; whole blocks missing",
            Answer::Damage(ASTRAY) => "misdirected, and missing at its own offset",
            Answer::Damage(SWAPPED) => "swapped; misdirected in others",
            Answer::Damage(COPIED) => "duplicated; misdirected in others",
            Answer::Damage(SHIFTED) => "shifted; misdirected in others",
            Answer::Damage([class]) => class.word(),
            Answer::Damage(_) => "damage",
            Answer::Transient([class]) => match class {
                Class::BitFlip => "bit-flip, gone at a second read",
                _ => "misdirected, gone at a second read",
            },
            Answer::Transient(_) => "gone at a second read",
            Answer::Error => "an error, and no damage",
            Answer::Silence => "nothing",
        }
    }
}

/// The result of one scenario.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    /// Whether the fault was injected.
    pub struck: bool,
    /// Damaged blocks, by offset, with the correct classifications of each.
    damaged: BTreeMap<u64, &'static [Class]>,
    /// Blocks that the verifier found, by offset.
    found: BTreeMap<u64, (Class, Reread)>,
    /// Blocks found at the end that are not damaged.
    pub false_alarms: u64,
    /// Whether an error was reported.
    has_error: bool,
    answer: Option<Answer>,
}

impl Trial {
    /// Whether there was damage to find.
    pub(super) fn is_visible(&self) -> bool {
        self.struck
            && match self.answer {
                Some(Answer::Damage(_)) => !self.damaged.is_empty(),
                _ => true,
            }
    }

    /// Whether all damage was found.
    pub(super) fn is_detected(&self) -> bool {
        match self.answer {
            Some(Answer::Damage(_)) => {
                self.damaged.keys().all(|offset| self.found.contains_key(offset))
            }
            Some(Answer::Transient(_)) => !self.found.is_empty(),
            Some(Answer::Error) => self.has_error,
            Some(Answer::Silence) | None => true,
        }
    }

    /// Whether the classification was correct.
    pub(super) fn is_named(&self) -> bool {
        let named = |offset: &u64, names: &[Class]| {
            self.found.get(offset).is_some_and(|(class, _)| names.contains(class))
        };
        match self.answer {
            Some(Answer::Damage(_)) => self.damaged.iter().all(|(at, names)| named(at, names)),
            Some(Answer::Transient(names)) => {
                let right = |(class, reread): &(Class, Reread)| {
                    names.contains(class) && *reread == Reread::Right
                };
                self.found.values().all(right)
            }
            _ => self.found.is_empty(),
        }
    }

    /// Whether exactly the expected damage was found, with the correct classification.
    pub(super) fn is_right(&self) -> bool {
        let answered = match self.answer {
            Some(_) => !self.is_visible() || self.is_detected() && self.is_named(),
            None => self.found.is_empty(),
        };
        answered && self.false_alarms == 0
    }

    /// All details, with this fault, seed and scenario.
    pub(super) fn reported(&self, fault: String, seed: u64, scene: String) -> Repetition {
        let offsets: BTreeSet<u64> =
            self.damaged.keys().chain(self.found.keys()).copied().collect();
        let words = |names: &&[Class]| names.iter().map(|class| class.word()).collect();
        let block = |offset: u64| RepetitionBlock {
            offset,
            damaged: self.damaged.get(&offset).map(words).unwrap_or_default(),
            found: self.found.get(&offset).map(|(class, _)| class.word()),
        };
        Repetition {
            fault,
            seed,
            scene,
            struck: self.struck,
            visible: self.is_visible(),
            detected: self.is_detected(),
            named: self.is_named(),
            false_alarms: self.false_alarms,
            right: self.is_right(),
            blocks: offsets.into_iter().map(block).collect(),
        }
    }

    /// Runs a scenario.
    pub(super) fn of<C: Comparisons>(scene: &Scenario) -> Trial {
        let before = scene.content_before();
        let shadow = Memory::holding(before.clone()).shared();
        let volatile = matches!(scene.interlude, Interlude::PowerCut | Interlude::PowerCutAtWork);
        let memory = match volatile {
            true => volatile_holding(&before),
            false => Memory::holding(before).shared(),
        };
        let log = FaultLog::default();
        let crash = Crash::planned(scene);
        let written = play::<C>(scene, &memory, &shadow, &log, &crash);
        let mut trial = Trial {
            struck: log.count() > 0,
            answer: scene.fault.map(|(injection, _)| Answer::to(injection.fault)),
            has_error: has_error(&written),
            ..Trial::default()
        };
        match scene.interlude {
            Interlude::PowerCut => drop(memory.borrow_mut().power_cut()),
            Interlude::PowerCutAtWork => {
                let mut chance = Chance::new(scene.seed);
                let sector_bytes = scene.plan.sector_bytes as usize;
                memory.borrow_mut().power_cut_in_part(sector_bytes, &mut chance);
            }
            _ => {}
        }
        trial.compare(scene, memory.borrow().bytes(), shadow.borrow().bytes());
        let read_back = match scene.interlude {
            Interlude::None => None,
            _ => Some(check::<C>(scene, &memory, &crash)),
        };
        trial.see(&written);
        if let Some(run) = &read_back {
            trial.see(run);
        }
        trial
    }

    /// The findings for a fault in stored data, with the known correct classifications of each
    /// damaged block.
    pub(super) fn of_stored(
        damaged: impl Iterator<Item = (u64, &'static [Class])>,
        run: &VerifyMeasured,
    ) -> Trial {
        let mut trial = Trial {
            struck: true,
            damaged: damaged.collect(),
            answer: Some(Answer::Damage(&[])),
            ..Trial::default()
        };
        trial.see(run);
        trial
    }

    /// Adds the findings of a run.
    fn see(&mut self, run: &VerifyMeasured) {
        for failure in run.jobs.iter().flat_map(|job| &job.failures) {
            let at_end = failure.op.is_none() && failure.reread != Reread::Right;
            if at_end && !self.damaged.contains_key(&failure.offset) {
                self.false_alarms += 1;
            }
            // The final content counts, and otherwise what was seen during the run.
            let seen = (failure.misfit.class, failure.reread);
            if failure.op.is_none() || !self.found.contains_key(&failure.offset) {
                self.found.insert(failure.offset, seen);
            }
        }
    }

    /// The blocks that differ from the acknowledged data.
    fn compare(&mut self, scene: &Scenario, real: &[u8], right: &[u8]) {
        // Requests in flight at the cut are neither right nor wrong.
        if matches!(scene.interlude, Interlude::Kill | Interlude::PowerCutAtWork) {
            return;
        }
        let Some((Injection { fault, .. }, _)) = scene.fault else { return };
        if Answer::to(fault) == Answer::Error {
            return;
        }
        let block_bytes = scene.plan.block_bytes as usize;
        let blocks = real.chunks_exact(block_bytes).zip(right.chunks_exact(block_bytes));
        for (index, (real, right)) in (0..).zip(blocks) {
            if real != right {
                let offset = index * u64::from(scene.plan.block_bytes);
                self.damaged.insert(offset, names(fault, &scene.plan, offset, real, right));
            }
        }
    }
}

/// The correct classifications of a damaged block, from its actual and expected content.
fn names(
    fault: Fault,
    plan: &VerifyPlan,
    offset: u64,
    real: &[u8],
    right: &[u8],
) -> &'static [Class] {
    match Answer::to(fault) {
        Answer::Damage(IN_PART) => {
            let size = plan.sector_bytes as usize;
            let same = real.chunks(size).zip(right.chunks(size)).any(|(real, right)| real == right);
            if same { &[Class::Torn] } else { missing(plan, real) }
        }
        Answer::Damage(ASTRAY) => {
            let belongs = u64::from_le_bytes(real[16..24].try_into().unwrap_or_default());
            let is_astray = is_ours(plan, real) && belongs != offset;
            if is_astray { &[Class::Misdirected] } else { missing(plan, real) }
        }
        Answer::Damage(MISSING) => missing(plan, real),
        Answer::Damage(names @ (SWAPPED | COPIED | SHIFTED)) => {
            let mut sectors = real.chunks(plan.sector_bytes as usize);
            let is_own = |sector: &[u8]| sector[16..24] == offset.to_le_bytes();
            match (sectors.all(is_own), fault) {
                (true, _) => &names[..names.len() - 1],
                (false, Fault::ShiftSectors) => &[Class::Shifted, Class::Misdirected],
                (false, _) => &[Class::Misdirected],
            }
        }
        Answer::Damage(names) => names,
        _ => &[],
    }
}

/// The classification of a missing block, from what is there instead: read directly from its bytes,
/// not with the code under test.
fn missing(plan: &VerifyPlan, real: &[u8]) -> &'static [Class] {
    match (is_ours(plan, real), real.iter().all(|byte| *byte == 0)) {
        (true, _) => &[Class::Stale],
        (_, true) => &[Class::Lost],
        _ => &[Class::OldRun],
    }
}

fn is_ours(plan: &VerifyPlan, real: &[u8]) -> bool {
    real[..4] == MAGIC && real[32..48] == plan.run.0.to_le_bytes()
}

fn has_error(measured: &VerifyMeasured) -> bool {
    matches!(measured.outcome, Outcome::Failed { .. })
        || measured.jobs.iter().any(|job| !job.errors.is_empty())
}

fn volatile_holding(before: &[u8]) -> SharedMemory {
    let mut memory = Memory::volatile(before.len());
    memory.bytes_mut().copy_from_slice(before);
    memory.shared()
}

/// A fault that is never injected.
const NEVER: Injection = Injection { fault: Fault::Drop, when: When::Nth(u64::MAX) };

type Queue = Watched<FaultQueue<Watched<SimQueue, Dying>>, Shadow>;

fn play<C: Comparisons>(
    scene: &Scenario,
    memory: &SharedMemory,
    shadow: &SharedMemory,
    log: &FaultLog,
    crash: &Crash,
) -> VerifyMeasured {
    let plan = &scene.plan;
    let device = device(&scene.model, scene.seed);
    let control = Arc::new(Control::default());
    let jobs = 0..plan.plan.jobs.len();
    let journals = jobs.map(|job| crash.journal(job)).collect();
    let inputs = RunInputs { journals, ..RunInputs::default() };
    simulate_comparing::<Queue, C>(plan, inputs, &control, |job: &Job, index| {
        let queue = SimQueue::with_memory(job, device.clone(), memory.clone());
        let chance = Chance::new(scene.seed ^ index as u64);
        let dying = Dying::new(memory.clone(), plan.sector_bytes, chance);
        let queue = Watched::new(queue, dying);
        let injection = match scene.fault {
            Some((injection, struck)) if struck == index => injection,
            _ => NEVER,
        };
        let queue = FaultQueue::new(queue, injection, site(plan, index), log.clone());
        Watched::new(queue, Shadow::new(shadow.clone()))
    })
}

/// Reads back with a ledger reconstructed from what is known of the run.
fn check<C: Comparisons>(scene: &Scenario, memory: &SharedMemory, crash: &Crash) -> VerifyMeasured {
    let known = crash.known();
    let own = 0..if scene.plan.overlaps() { 0 } else { known.len() };
    let ledgers = own.map(|job| replay(&scene.plan, job, &known[job], true)).collect();
    let survival = match scene.interlude {
        Interlude::PowerCut | Interlude::PowerCutAtWork => Survival::Durable,
        _ => Survival::Acknowledged,
    };
    let outcomes = scene.plan.overlaps().then(|| {
        let known: Vec<_> = known.into_iter().map(|known| (known, true)).collect();
        Outcomes::replay(&scene.plan, &known, survival)
    });
    let mut plan = scene.plan.clone();
    plan.mode = VerifyMode::Check;
    let memory = Memory::holding(memory.borrow().bytes().to_vec()).shared();
    let device = device("servers=4,read=exp:50us", scene.seed);
    let inputs = RunInputs { ledgers, outcomes, survival: Some(survival), ..RunInputs::default() };
    let control = Arc::new(Control::default());
    simulate_comparing::<_, C>(&plan, inputs, &control, |job: &Job, _| {
        SimQueue::with_memory(job, device.clone(), memory.clone())
    })
}
