//! Makes the plan of one run of a cell.

use super::design::Cell;
use super::{EngineKind, Plan, Refusal, Setting, resolve};
use crate::spec::experiment::{Parameter, Stage, Value};
use crate::spec::{
    Access, Arrivals, EachWrite, FileError, Pace, Placement, Rate, Role, Rw, Threads, Workload,
    catalogue,
};

/// The cache state of a run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Cache {
    /// As the target is open: no page cache if it uses direct I/O.
    #[default]
    AsOpen,
    /// No page cache: direct I/O.
    Direct,
    /// The page cache, emptied before the run.
    Cold,
    /// The page cache, filled before the run by reading the region.
    Warm,
}

/// One run of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    pub plan: Plan,
    pub cache: Cache,
}

/// Why a cell has no plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TrialError {
    /// The target does not support the settings.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The workload does not exist.
    #[error(transparent)]
    Workload(#[from] FileError),
    /// A value is unknown, or parameters contradict each other.
    #[error("{0}")]
    Word(String),
}

/// A trial under construction.
struct Draft {
    workload: Workload,
    setting: Setting,
    cache: Cache,
    gap: u64,
    misalign: u64,
    promise: Option<EachWrite>,
    arrivals: Arrivals,
    /// Names of the roles with a rate from a parameter.
    paced: Vec<String>,
}

/// The plan of one run of a cell: the stage's parameters, then those of its levels.
///
/// # Errors
/// If a value is unknown, or the target does not support the settings.
pub fn trial(
    stage: &Stage,
    shared: &[(Parameter, Value)],
    cell: &Cell,
    setting: &Setting,
) -> Result<Trial, TrialError> {
    let all: Vec<&(Parameter, Value)> =
        shared.iter().chain(cell.levels.iter().flat_map(|level| &level.set)).collect();
    let mut draft = Draft {
        workload: base(&all)?,
        setting: Setting { final_sync: stage.final_sync, ..setting.clone() },
        cache: Cache::AsOpen,
        gap: 0,
        misalign: 0,
        promise: None,
        arrivals: Arrivals::Poisson,
        paced: Vec::new(),
    };
    // Directions are set first, because other parameters depend on them.
    let is_direction = |(parameter, _): &&&(Parameter, Value)| *parameter == Parameter::Rw;
    for (parameter, value) in all.iter().filter(is_direction) {
        draft.set(*parameter, value)?;
    }
    for (parameter, _) in &all {
        effective(*parameter, &draft.workload.roles)?;
    }
    for (parameter, value) in all.iter().filter(|each| !is_direction(each)) {
        draft.set(*parameter, value)?;
    }
    draft.finish()?;
    draft.cap_batches();
    let mut plan = resolve(&draft.workload, &draft.setting)?;
    let names: Vec<&str> = cell.levels.iter().map(|level| level.label.as_str()).collect();
    plan.name = stage.name.clone();
    plan.title = if names.is_empty() { stage.heading().into() } else { names.join(", ") };
    Ok(Trial { plan, cache: draft.cache })
}

/// Refuses a parameter that has no effect with these directions: its label would be wrong.
fn effective(parameter: Parameter, roles: &[Role]) -> Result<(), TrialError> {
    let (has_effect, why): (fn(&Role) -> bool, _) = match parameter {
        Parameter::ReadPercent => (|role| role.rw.is_mixed(), "nothing mixes reads and writes"),
        Parameter::ReadRate => (only_reads, "no role only reads"),
        Parameter::WriteRate => (only_writes, "no role only writes"),
        _ => return Ok(()),
    };
    if roles.iter().any(has_effect) {
        return Ok(());
    }
    Err(TrialError::Word(format!("{} has no effect: {why}", parameter.word())))
}

fn only_reads(role: &Role) -> bool {
    role.rw.read_percent(50) == 100
}

fn only_writes(role: &Role) -> bool {
    role.rw.read_percent(50) == 0
}

/// The workload that the parameters modify: a named one, or a single role.
fn base(all: &[&(Parameter, Value)]) -> Result<Workload, TrialError> {
    let named = all.iter().rev().find_map(|(parameter, value)| match (parameter, value) {
        (Parameter::Workload, Value::Word(name)) => Some(name),
        _ => None,
    });
    match named {
        Some(name) => Ok(catalogue::workload(name)?),
        None => Ok(Workload {
            name: "load".into(),
            title: "Load".into(),
            pattern: "randread".into(),
            models: String::new(),
            block_size: 4096,
            read_percent: 100,
            roles: vec![Role { iodepth: Some(1), ..Role::new("job", Rw::RandRead) }],
        }),
    }
}

impl Draft {
    fn set(&mut self, parameter: Parameter, value: &Value) -> Result<(), TrialError> {
        match value {
            Value::Number(number) => self.number(parameter, *number),
            Value::Word(word) => self.word(parameter, word)?,
        }
        Ok(())
    }

    fn each(&mut self, change: impl FnMut(&mut Role)) {
        self.workload.roles.iter_mut().for_each(change);
    }

    /// Limits the batch to the depth, so that a sweep over depths can have a single batch.
    fn cap_batches(&mut self) {
        let usual = self.setting.iodepth;
        self.each(|role| {
            let depth = role.iodepth.unwrap_or(usual);
            role.batch = role.batch.map(|batch| batch.min(depth));
        });
    }

    fn number(&mut self, parameter: Parameter, number: f64) {
        let whole = number as u64;
        let small = u32::try_from(whole).unwrap_or(u32::MAX);
        match parameter {
            Parameter::BlockSize => {
                self.workload.block_size = whole;
                self.each(|role| role.block_size = Some(whole));
            }
            Parameter::Iodepth => {
                self.setting.iodepth = small;
                self.each(|role| role.iodepth = Some(small));
            }
            Parameter::BatchSubmit => self.each(|role| role.batch = Some(small)),
            Parameter::BatchCompleteMin => self.each(|role| role.reap.complete_min = small),
            Parameter::BatchCompleteMax => self.each(|role| role.reap.complete_max = small),
            Parameter::Numjobs => self.each(|role| role.threads = Threads::Count(small)),
            Parameter::ReadPercent => {
                let percent = number.clamp(0.0, 100.0) as u8;
                self.workload.read_percent = percent;
                self.each(|role| role.read_percent = Some(percent));
            }
            Parameter::RandomPercent => self.each(|role| role.random_percent = Some(number)),
            Parameter::Gap => self.gap = whole,
            Parameter::Offset => self.setting.offset_bytes = whole,
            Parameter::Span => self.each(|role| role.size = Some(whole)),
            Parameter::Misalign => self.misalign = whole,
            Parameter::SyncEvery => self.each(|role| {
                role.sync.every_writes = whole;
                (role.sync.extra_syncs, role.sync.followed) = (0, 0);
                role.sync.in_flight *= u64::from(whole > 0);
            }),
            Parameter::Rate => self.pace(number, |_| true),
            Parameter::ReadRate => self.pace(number, only_reads),
            Parameter::WriteRate => self.pace(number, only_writes),
            Parameter::Compress => {
                let percent = number.clamp(0.0, 100.0) as u8;
                self.each(|role| role.data.compress_percent = percent);
            }
            Parameter::Think => self.each(|role| {
                (role.think.ns, role.think.every_ops) = (whole, u64::from(whole > 0));
            }),
            Parameter::Runtime => {
                self.setting.stop = super::Stop::AfterNs(whole.max(1));
            }
            // These parameters have words as values.
            Parameter::Workload
            | Parameter::Rw
            | Parameter::Access
            | Parameter::EachWrite
            | Parameter::Arrivals
            | Parameter::Cache
            | Parameter::Engine
            | Parameter::Cpus => {}
        }
    }

    fn word(&mut self, parameter: Parameter, word: &str) -> Result<(), TrialError> {
        let unknown = |expected: &str| {
            TrialError::Word(format!("`{}`: found `{word}`, expected {expected}", parameter.word()))
        };
        match parameter {
            Parameter::Rw => {
                let known = Rw::WORDS.iter().find(|(name, _)| *name == word);
                let Some((_, rw)) = known else {
                    return Err(unknown("read, write, randread, randwrite, rw or randrw"));
                };
                self.workload.pattern = word.into();
                if !rw.is_mixed() {
                    self.workload.read_percent = rw.read_percent(0);
                }
                self.each(|role| role.rw = *rw);
            }
            Parameter::Access => {
                let access = access(word).ok_or_else(|| unknown("uniform, zipf:1.2 or such"))?;
                self.each(|role| role.access = access.clone());
            }
            Parameter::EachWrite => {
                self.promise = Some(match word {
                    "dsync" => EachWrite::Dsync,
                    "sync" => EachWrite::Sync,
                    _ => EachWrite::Accepted,
                });
            }
            Parameter::Arrivals => {
                self.arrivals =
                    if word == "constant" { Arrivals::Constant } else { Arrivals::Poisson };
            }
            Parameter::Cache => {
                self.cache = match word {
                    "cold" => Cache::Cold,
                    "warm" => Cache::Warm,
                    _ => Cache::Direct,
                };
            }
            Parameter::Engine if self.setting.engine.kind == EngineKind::Sim => {
                return Err(TrialError::Word("a simulated device supports no other engine".into()));
            }
            Parameter::Engine if self.setting.engine.kind == EngineKind::IoUringCmd => {
                return Err(TrialError::Word(
                    "a generic device takes the commands of io_uring_cmd only".into(),
                ));
            }
            Parameter::Engine => {
                let engines: Vec<EngineKind> = EngineKind::of_files().collect();
                let kind = EngineKind::parse(word, &engines)
                    .map_err(|error| TrialError::Word(error.to_string()))?;
                self.setting.engine = super::Engine::of(kind);
            }
            Parameter::Cpus => {
                let cpus = cpu_list(word).ok_or_else(|| unknown("`any`, or CPUs such as 0,2-3"))?;
                self.each(|role| {
                    role.place = Placement { cpus: cpus.clone(), ..role.place.clone() };
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// Makes the chosen roles open loops with this total rate per second; 0 removes them.
    fn pace(&mut self, per_second: f64, chosen: impl Fn(&Role) -> bool) {
        if per_second <= 0.0 {
            self.workload.roles.retain(|role| !chosen(role));
            return;
        }
        for role in self.workload.roles.iter_mut().filter(|role| chosen(role)) {
            // `finish` divides the rate among the threads and sets the arrivals.
            let rate = Rate::Ops(per_second);
            role.set_pace(Pace::Rate { rate, arrivals: Arrivals::Constant });
            self.paced.push(role.name.clone());
        }
    }

    /// Applies the settings that depend on all others.
    fn finish(&mut self) -> Result<(), TrialError> {
        if self.workload.roles.is_empty() {
            return Err(TrialError::Word("nothing is offered: every rate is 0".into()));
        }
        let (gap, misalign, promise) = (self.gap, self.misalign, self.promise);
        let block = self.workload.block_size;
        let arrivals = self.arrivals.clone();
        let direct = matches!(self.cache, Cache::AsOpen | Cache::Direct);
        for target in &mut self.setting.targets {
            match self.cache {
                Cache::Direct if !target.direct && self.setting.engine.kind != EngineKind::Sim => {
                    return Err(TrialError::Word(
                        "it needs direct I/O, but the target is opened without it".into(),
                    ));
                }
                Cache::AsOpen | Cache::Direct => {}
                Cache::Cold | Cache::Warm if self.setting.engine.kind == EngineKind::IoUringCmd => {
                    return Err(TrialError::Word("NVMe commands bypass the page cache".into()));
                }
                Cache::Cold | Cache::Warm => (target.direct, target.align_bytes) = (false, 1),
            }
        }
        for role in self.workload.roles.iter_mut() {
            let own = role.block_size.unwrap_or(block);
            if gap > 0 {
                let stride = i64::try_from(own.saturating_add(gap)).unwrap_or(i64::MAX);
                role.stride = Some(stride);
            }
            if misalign > 0 {
                let unit = self.setting.targets.first().map_or(512, |target| target.align_bytes);
                if direct && misalign % unit.max(1) != 0 {
                    return Err(TrialError::Word(format!(
                        "direct I/O takes multiples of {unit} B here, and a misalignment of \
                         {misalign} B is none"
                    )));
                }
                role.offset = Some(role.offset.unwrap_or(0) + misalign);
                role.size = role.size.map(|size| size.saturating_sub(own));
            }
            if let Some(promise) = promise {
                role.sync.each_write = promise;
            }
            if let Pace::Rate { rate: Rate::Ops(all), arrivals: how } = &mut role.pace
                && self.paced.contains(&role.name)
            {
                let threads = match role.threads {
                    Threads::Count(count) => count,
                    _ => self.setting.cpus,
                };
                *all /= f64::from(threads.max(1));
                *how = arrivals.clone();
            }
        }
        Ok(())
    }
}

fn access(word: &str) -> Option<Access> {
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| *number > 0.0);
    match word.split_once(':') {
        Some(("zipf", theta)) => number(theta).map(Access::Zipf),
        Some(("pareto", share)) => number(share).map(Access::Pareto),
        None if word == "uniform" => Some(Access::Uniform),
        None if word == "permutation" => Some(Access::Permutation),
        _ => None,
    }
}

/// Parses a CPU list; `any` means no restriction.
fn cpu_list(word: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in word.split(',').filter(|part| *part != "any") {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        if from > to || to > 4095 {
            return None;
        }
        cpus.extend(from..=to);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::plan::design::{Found, cells, shared};
    use crate::plan::{OnError, Stop, Target};
    use crate::spec::Experiment;

    fn setting(align_bytes: u64) -> Setting {
        Setting {
            engine: super::super::Engine::of(EngineKind::IoUring),
            targets: vec![Target { path: "x".into(), bytes: 1 << 30, direct: true, align_bytes }],
            offset_bytes: 0,
            cpus: 2,
            iodepth: 1,
            seed: 1,
            warmup_ns: 0,
            stop: Stop::AfterNs(1_000_000_000),
            on_error: OnError::Stop,
            final_sync: false,
            buffer_limit_bytes: 1 << 28,
        }
    }

    /// The trials of all cells of a stage.
    fn trials(set: &str, axis: &str) -> Vec<Result<Trial, TrialError>> {
        let text = format!(
            "name = \"x\"\nquestion = \"?\"\n[[stage]]\nname = \"s\"\nset = {{ {set} }}\n\
             [[stage.axis]]\n{axis}\n"
        );
        let experiment: Experiment = toml::from_str(&text).unwrap();
        let stage = &experiment.stages[0];
        let shared = shared(stage).unwrap();
        let cells = cells(stage, &Found::new(), None).unwrap();
        cells.iter().map(|cell| trial(stage, &shared, cell, &setting(512))).collect()
    }

    fn plans(set: &str, axis: &str) -> Vec<Plan> {
        trials(set, axis).into_iter().map(|trial| trial.unwrap().plan).collect()
    }

    #[test]
    fn each_level_changes_the_plan_and_nothing_else_does() {
        let plans =
            plans("rw = \"randwrite\", numjobs = 3", "name = \"iodepth\"\nvalues = [1, 16]");
        let seen: Vec<(usize, u64)> = plans.iter().map(|p| (p.jobs.len(), p.depth())).collect();
        assert_eq!(seen, [(3, 3), (3, 48)]);
        assert!(plans.iter().all(Plan::writes));
        assert_eq!((plans[1].name.as_str(), plans[1].title.as_str()), ("s", "16"));
    }

    #[test]
    fn a_batch_is_no_larger_than_the_depth_of_its_cell() {
        let plans = plans(
            "rw = \"randread\", batch-submit = 32",
            "name = \"iodepth\"\nvalues = [1, 16, 64]",
        );
        let batches: Vec<u32> = plans.iter().map(|plan| plan.jobs[0].batch).collect();
        assert_eq!(batches, [1, 16, 32]);
        assert!(plans.iter().all(|plan| plan.jobs[0].keeps_batch));
    }

    #[test]
    fn a_gap_is_added_to_the_size_of_its_cell() {
        let axis = "name = \"block-size\"\nvalues = [\"4k\", \"64k\"]";
        for (plan, stride) in plans("rw = \"read\", gap = \"8k\"", axis).iter().zip([12, 72]) {
            assert_eq!(plan.jobs[0].stride_bytes, stride * 1024);
        }
    }

    #[test]
    fn a_rate_is_shared_by_the_threads_and_zero_leaves_a_role_out() {
        let set = "workload = \"mixed-load\", numjobs = 2, write-rate = 500";
        let all = trials(set, "name = \"read-rate\"\nvalues = [0, 1000]");
        let paces = |trial: &Trial| -> Vec<(bool, f64)> {
            trial
                .plan
                .jobs
                .iter()
                .map(|job| match job.pace {
                    Pace::Rate { rate: Rate::Ops(ops), .. } => (job.reads(), ops),
                    _ => panic!("{:?}", job.pace),
                })
                .collect()
        };
        assert_eq!(paces(all[0].as_ref().unwrap()), [(false, 250.0); 2]);
        let both = paces(all[1].as_ref().unwrap());
        assert_eq!(both, [(true, 500.0), (true, 500.0), (false, 250.0), (false, 250.0)]);
        let none = trials(
            "workload = \"mixed-load\", write-rate = 0",
            "name = \"read-rate\"\nvalues = [0]",
        );
        assert!(none[0].as_ref().unwrap_err().to_string().contains("every rate is 0"));
    }

    #[test]
    fn what_the_directions_leave_without_effect_is_refused() {
        let refused = |set: &str, axis: &str| {
            let all = trials(set, axis);
            all.iter().map(|trial| trial.as_ref().unwrap_err().to_string()).collect::<Vec<_>>()
        };
        let shares = "name = \"read-percent\"\nvalues = [0, 50, 100]";
        let mixed = "read-percent has no effect: nothing mixes reads and writes";
        assert_eq!(refused("rw = \"randread\"", shares), [mixed; 3]);
        assert_eq!(refused("workload = \"mixed-load\"", shares), [mixed; 3]);
        let writes = "name = \"write-rate\"\nvalues = [0, 50]";
        let none = "write-rate has no effect: no role only writes";
        assert_eq!(refused("rw = \"randread\"", writes), [none; 2]);
        let reads = "name = \"read-rate\"\nvalues = [0, 50]";
        let none = "read-rate has no effect: no role only reads";
        assert_eq!(refused("rw = \"randwrite\"", reads), [none; 2]);
        let axis = "name = \"rw\"\nvalues = [\"write\", \"randwrite\"]";
        assert_eq!(refused("read-rate = 50", axis), [none; 2]);
        let axis = "name = \"rw\"\nvalues = [\"read\", \"write\"]";
        let of_random = refused("random-percent = 50", axis);
        assert!(of_random.iter().all(|why| why.contains("has no effect")), "{of_random:?}");
        let mixes = plans("rw = \"randrw\"", shares).into_iter();
        assert!(mixes.map(|plan| plan.nominal_read_percent).eq([0, 50, 100]));
    }

    #[test]
    fn caches_and_misalignment_are_as_the_target_allows() {
        let axis = "name = \"cache\"\nvalues = [\"direct\", \"cold\", \"warm\"]";
        let all = trials("rw = \"read\", misalign = 512", axis);
        let of = |place: usize| all[place].as_ref().unwrap();
        assert_eq!(of(0).cache, Cache::Direct);
        assert!(of(0).plan.target().direct && !of(1).plan.target().direct);
        assert_eq!(of(2).cache, Cache::Warm);
        assert_eq!(of(0).plan.jobs[0].region_start, 512);
        let odd = trials("rw = \"read\", misalign = 100", axis);
        assert!(odd[0].as_ref().unwrap_err().to_string().contains("multiples of 512 B"));
        assert_eq!(odd[1].as_ref().unwrap().plan.jobs[0].region_start, 100);
    }

    #[test]
    fn words_that_stand_for_nothing_are_refused() {
        let error = |set: &str| {
            let all = trials(set, "name = \"iodepth\"\nvalues = [1]");
            all[0].as_ref().unwrap_err().to_string()
        };
        assert!(error("rw = \"sideways\"").contains("expected read, write"));
        assert!(error("workload = \"databse\"").contains("database"));
        assert!(error("cpus = \"4-2\"").contains("CPUs such as"));
        assert!(error("access = \"zipf:none\"").contains("zipf:1.2"));
    }
}
