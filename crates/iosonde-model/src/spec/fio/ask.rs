//! Converts a group of jobs into the request for one run: engine, targets, roles, end. What fio
//! sets per job and we per run (invalidation of the page cache, error handling) must agree in a
//! group.

mod end;
mod exits;
mod names;
mod nodes;
mod replay;
mod request;
mod shared;
mod steady;
mod verify;

use super::job::{FioJob, Group, Setting};
use super::number::Amount;
use super::{Fault, Faults, Place, iolog, load, shown};
use crate::spec::{
    Access, EngineKind, Role, Rw, Settling, Sizes, Span, Start, Stop, Strides, Threads, Workload,
};

pub(super) use nodes::list as nodes;
pub use request::{AccessHint, EngineRequest, LatencyRequest, LogRequest, TargetRequest};
use shared::{
    direct, engine, first_and_own, latency, logs, on_files_or_on_nothing, seed, the_same,
};

/// The request for one run; sizes in percent are resolved when the targets are known.
#[derive(Clone, Debug)]
pub struct Asking {
    /// Names of the jobs.
    pub title: String,
    pub engine: EngineRequest,
    /// Targets; roles refer to them by index.
    pub targets: Vec<TargetRequest>,
    /// Warm-up, ns.
    pub warmup_ns: u64,
    /// Seed of the run; `None` means a fresh one.
    pub seed: Option<u64>,
    /// Logs to write.
    pub logs: Vec<LogRequest>,
    /// The latency target, if any.
    pub latency: Option<LatencyRequest>,
    /// The steady-state criterion that ends the run, if any.
    pub settling: Option<Settling>,
    /// Whether the targets' pages stay in the page cache (`invalidate=0`).
    pub keeps_cache: bool,
    /// Whether only files are prepared, without running jobs.
    pub creates_only: bool,
    /// Differences from fio that do not change the load, in words.
    pub notes: Vec<String>,
    parts: Vec<Part>,
    /// Which properties differ between the jobs.
    own: Own,
}

/// Whether the jobs of a group differ in each property.
#[derive(Clone, Copy, Debug)]
struct Own {
    engine: bool,
    warmup: bool,
    seed: bool,
}

/// A role whose sizes are resolved when its targets are known.
#[derive(Clone, Debug)]
struct Part {
    job: FioJob,
    role: Role,
    offset: Amount,
    increment: Amount,
    size: Option<Amount>,
    /// NUMA nodes whose CPUs it may use.
    nodes: Vec<u32>,
}

/// Most jobs of a group, and most files of a run.
const MAX_JOBS: u64 = 4096;

/// The request for the run of a group.
///
/// # Errors
/// Everything in the group that one run cannot do, each with the place of the option.
pub fn ask(group: &Group) -> Result<Asking, Faults> {
    on_files_or_on_nothing(group)?;
    let (first_engine, own_engine) = first_and_own(group, engine)?;
    // A generic device takes only NVMe commands, and no other target does.
    the_same(group, "ioengine", |job| Ok(engine(job)?.kind == EngineKind::IoUringCmd))?;
    the_same(group, "verify_only", |job| Ok(job.is_on("verify_only")))?;
    let (warmup_ns, own_warmup) = first_and_own(group, warmup)?;
    let (seed, own_seed) = first_and_own(group, |job| Ok(seed(job)))?;
    let mut asking = Asking {
        title: title(group),
        engine: first_engine,
        targets: Vec::new(),
        warmup_ns,
        seed,
        own: Own { engine: own_engine, warmup: own_warmup, seed: own_seed },
        logs: Vec::new(),
        latency: the_same(group, "latency_target", latency)?,
        settling: steady::of_group(group)?,
        keeps_cache: the_same(group, "invalidate", |job| Ok(job.is_off("invalidate")))?,
        creates_only: the_same(group, "create_only", |job| Ok(job.is_on("create_only")))?,
        notes: Vec::new(),
        parts: Vec::new(),
    };
    let mut faults = Vec::new();
    for job in &group.jobs {
        if let Err(fault) = asking.add(job) {
            faults.push(fault);
        }
        if let Some(awaited) = job.text("wait_for")
            && !group.jobs.iter().any(|other| other.name == awaited && other.name != job.name)
        {
            let what = format!("no job of this group is called `{}`", shown(awaited));
            faults.push(job.fault("wait_for", what));
        }
    }
    asking.set_groups();
    if faults.is_empty() { Ok(asking) } else { Err(Faults(faults)) }
}

impl Asking {
    /// The workload and the end of the run, for these target lengths.
    ///
    /// # Errors
    /// If a percentage refers to an unknown length.
    pub fn workload(&self, target_bytes: &[u64]) -> Result<(Workload, Stop), Faults> {
        let mut roles = Vec::new();
        let mut ends = Vec::new();
        for part in &self.parts {
            let of = part
                .role
                .targets
                .iter()
                .filter_map(|index| target_bytes.get(usize::from(*index)).copied());
            let (role, end) = part.settled(of.min().unwrap_or(0))?;
            roles.push(role);
            ends.push(end);
        }
        let together = |role: &Role| {
            let Span { delay_ns, after, warmup_ns, .. } = &role.span;
            *delay_ns == 0 && after.is_empty() && warmup_ns.is_none()
        };
        let stop = match end::of_all(&ends) {
            stop if roles.iter().all(together) => stop,
            _ => Stop::EachJob,
        };
        if stop == Stop::EachJob {
            for (role, end) in roles.iter_mut().zip(&ends) {
                role.span.stop = Some(end.stop);
            }
        }
        let block_size = roles.iter().filter_map(|role| role.block_size).max().unwrap_or(4096);
        let words: Vec<&str> = roles.iter().map(|role| role.rw.word()).collect();
        let mut pattern = words.clone();
        pattern.dedup();
        let read_percent =
            roles.first().map_or(100, |role| role.rw.read_percent(role.read_percent.unwrap_or(50)));
        let workload = Workload {
            name: "run".into(),
            title: self.title.clone(),
            pattern: pattern.join("+"),
            models: String::new(),
            block_size,
            read_percent,
            roles,
        };
        Ok((workload, stop))
    }

    /// The NUMA nodes whose CPUs each role may use (empty for all), and the place of the option.
    pub fn cpu_nodes(&self) -> impl Iterator<Item = (&[u32], &Place)> {
        self.parts.iter().map(|part| (&*part.nodes, part.job.place("numa_cpu_nodes")))
    }

    /// Whether the files are read into the page cache before the run.
    pub fn pre_reads(&self) -> bool {
        self.parts.iter().any(|part| part.job.is_on("pre_read"))
    }

    /// Whether a target created for the run must first be written: jobs read or overwrite it.
    pub fn prepares(&self, index: u16) -> bool {
        self.parts.iter().any(|Part { role, job, .. }| {
            let reads = role.rw.is_mixed() || matches!(role.rw, Rw::Read | Rw::RandRead);
            role.uses(index) && (reads || job.is_on("overwrite"))
        })
    }

    /// The kernel's access hint for a target, that of its first job.
    pub fn hint(&self, index: u16) -> AccessHint {
        let mut users = self.parts.iter().filter(|part| part.role.uses(index));
        let Some(Part { job, role, .. }) = users.next() else { return AccessHint::None };
        match (job.word("fadvise_hint"), role.rw.is_random()) {
            (Some(("0" | "none", _)), _) => AccessHint::None,
            (Some(("noreuse", _)), _) => AccessHint::Once,
            (Some(("random", _)), _) | (None | Some(("1", _)), true) => AccessHint::Random,
            _ => AccessHint::Sequential,
        }
    }

    /// Adds the role of a job, or one role per copy if the copies differ.
    fn add(&mut self, job: &FioJob) -> Result<(), Fault> {
        let clones = job.count("numjobs").unwrap_or(1);
        if clones == 0 || self.parts.len() as u64 + clones > MAX_JOBS {
            return Err(job.fault("numjobs", format!("expected 1 to {MAX_JOBS} jobs in a group")));
        }
        let log = iolog::of(job)?;
        for Setting { entry, place, .. } in job.replaced().filter(|_| log.is_some()) {
            let name = entry.name;
            self.note(format!("{place} {name} has no effect beside read_iolog, which has its own"));
        }
        let replaying = log.as_ref().map(|log| job.replaying(log.rw()));
        let job = replaying.as_ref().unwrap_or(job);
        let mut role = load::role(job, &job.name)?;
        verify::repeatable(job, &role)?;
        let nodes = nodes::of_cpus(job)?;
        if let Some(log) = &log {
            replay::by(&mut role, log);
        }
        let requested_engine = engine(job)?;
        let kind = requested_engine.kind;
        role.engine = self.own.engine.then(|| requested_engine.engine());
        role.span.warmup_ns = if self.own.warmup { Some(warmup(job)?) } else { None };
        role.seed = if self.own.seed { seed(job) } else { None };
        let requested = load::engine(job);
        if let Some(instead) = kind.instead_of(requested) {
            let place = job.place("ioengine");
            self.note(format!("{place} ioengine={requested}: replaced by {instead}"));
        }
        [load::shallow(job), load::counted_warmup(job)].into_iter().flatten().for_each(|note| {
            self.note(note);
        });
        let split = job.has_word("cpus_allowed_policy", "split");
        let offset = job.amount("offset").unwrap_or(Amount::Bytes(0));
        let increment = job.amount("offset_increment").unwrap_or(Amount::Bytes(0));
        let part = Part { job: job.clone(), role, offset, increment, size: size(job)?, nodes };
        let shared = match &log {
            Some(log) => Some(log.files.clone()),
            None => names::shared(job, requested == "null")?,
        };
        if let Some(paths) = shared.as_deref().filter(|_| !split) {
            let targets = self.named(job, &part, paths, clones)?;
            let mut part = part;
            if let Some(log) = &log {
                self.listed(log, &targets, &mut part.role);
            }
            let mut role = Role { targets, ..part.role.clone() };
            role.threads = Threads::Count(u32::try_from(clones).unwrap_or(u32::MAX));
            role.name = self.free_name(&job.name);
            // Copies draw different orders, as in fio: an increment, even 0, distinguishes them.
            role.offset_increment = (clones > 1).then_some(0);
            self.logs.extend(logs(job, &role.name)?);
            self.parts.push(Part { role, ..part });
            return Ok(());
        }
        for clone in 0..clones {
            let mut own = part.clone();
            own.offset = advanced(job, part.offset, part.increment, clone)?;
            own.increment = Amount::Bytes(0);
            own.role.targets = match &shared {
                Some(paths) => self.named(job, &own, paths, 1)?,
                None => self.own(job, &own, clone)?,
            };
            own.role.name = self.free_name(&job.name);
            if split && !own.role.place.cpus.is_empty() {
                let cpus = &own.role.place.cpus;
                own.role.place.cpus = vec![cpus[clone as usize % cpus.len()]];
            }
            self.logs.extend(logs(job, &own.role.name)?);
            self.parts.push(own);
        }
        Ok(())
    }

    /// Adds files with these names as targets; equal paths are one target.
    fn named(
        &mut self,
        job: &FioJob,
        part: &Part,
        paths: &[String],
        clones: u64,
    ) -> Result<Vec<u16>, Fault> {
        let last = advanced(job, part.offset, part.increment, clones - 1)?;
        let bytes = match (last, part.size) {
            _ if part.file_bytes().is_some() => part.file_bytes(),
            (Amount::Bytes(offset), Some(Amount::Bytes(size))) => {
                Some(offset.saturating_add(size / paths.len() as u64))
            }
            _ => None,
        };
        let option = if job.get("filename").is_some() { "filename" } else { "directory" };
        let unlinked = job.is_on("unlink");
        let direct = direct(job)?;
        let mut indexes = Vec::new();
        for path in paths {
            let is_it = |target: &TargetRequest| target.path == *path && target.direct == direct;
            let found = self.targets.iter_mut().find(|target| is_it(target));
            if let Some(known) = found {
                known.bytes = known.bytes.zip(bytes).map(|(a, b)| a.max(b));
            } else {
                let place = job.place(option).clone();
                let target = TargetRequest { path: path.clone(), direct, unlinked, bytes, place };
                self.targets.push(target);
            }
            let at = self.targets.iter().position(is_it);
            indexes.push(at.and_then(|at| u16::try_from(at).ok()).unwrap_or(u16::MAX));
        }
        Ok(indexes)
    }

    /// Adds the files of one copy of a job.
    fn own(&mut self, job: &FioJob, part: &Part, clone: u64) -> Result<Vec<u16>, Fault> {
        let files = job.count("nrfiles").unwrap_or(1).max(1);
        let is_known = matches!(part.offset, Amount::Bytes(_)) || part.file_bytes().is_some();
        if !is_known || !matches!(part.size, Some(Amount::Bytes(_))) {
            let name = if part.size.is_none() { "size" } else { "offset" };
            let what = "a test file needs a size in bytes; or give a filename that exists";
            return Err(job.fault(name, what));
        }
        if files > MAX_JOBS || self.targets.len() as u64 + files > MAX_JOBS {
            return Err(job.fault("nrfiles", format!("expected at most {MAX_JOBS} files in all")));
        }
        let paths = names::own(job, clone, files)?;
        self.named(job, part, &paths, 1)
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// A name that no role has.
    fn free_name(&self, name: &str) -> String {
        let taken = |name: &str| self.parts.iter().any(|part| part.role.name == name);
        if !taken(name) {
            return name.into();
        }
        let numbered = (1..).map(|number| format!("{name}.{number}"));
        numbered.into_iter().find(|name| !taken(name)).unwrap_or_default()
    }
}

impl Part {
    /// Size of each file by `filesize`, which bounds the offsets. Copies that share a file at an
    /// increment have none: `filesize` is their common length, and the last copy ends the file.
    fn file_bytes(&self) -> Option<u64> {
        let none = matches!(self.increment, Amount::Bytes(0) | Amount::Percent(0));
        self.job.count("filesize").filter(|_| none)
    }

    /// The role with its region in bytes, and its end.
    fn settled(&self, target_bytes: u64) -> Result<(Role, end::End), Fault> {
        let job = &self.job;
        let grid = self.role.block_size.unwrap_or(1).max(1);
        let in_bytes = |amount: Amount| match amount {
            Amount::Bytes(bytes) => bytes,
            Amount::Percent(percent) => {
                let share = u128::from(target_bytes) * u128::from(percent) / 100;
                (share as u64) / grid * grid
            }
        };
        let files = self.role.targets.len().max(1) as u64;
        let offset = match (self.offset, job.count("offset_align").filter(|align| *align > 0)) {
            (Amount::Percent(percent), Some(align)) => {
                let share = u128::from(target_bytes) * u128::from(percent) / 100;
                (share as u64).next_multiple_of(align)
            }
            (offset, _) => in_bytes(offset),
        };
        let rest = target_bytes.saturating_sub(offset);
        if target_bytes == u64::MAX && !matches!(self.size, Some(Amount::Bytes(_))) {
            return Err(job.fault("size", "the target has no length of its own: give a size"));
        }
        // fio's size is the total of all files of the job; a percentage applies to each file.
        let region = match self.size {
            _ if self.file_bytes().is_some_and(|each| each <= offset) => {
                return Err(job.fault("offset", "expected a place before the end of filesize"));
            }
            None => rest,
            Some(Amount::Bytes(size)) => match self.file_bytes() {
                Some(each) => each - offset,
                None => size / files,
            },
            Some(percent) => in_bytes(percent).min(rest),
        };
        let mut role = self.role.clone();
        role.offset = Some(offset);
        let listed = !role.listed.is_empty();
        let whole = whole_blocks(&role, region, rest);
        let covered = if walks(&role) { region.min(whole) } else { region };
        role.size = (!listed).then_some(whole);
        if let (Some(stride @ ..0), Some(size), 0) = (role.stride, role.size, offset) {
            // fio begins at 0, then descends from the start of the last hole.
            role.size = Some(size.saturating_sub(stride.unsigned_abs()));
            role.start = Start::Last;
        }
        role.offset_increment = role.offset_increment.map(|_| in_bytes(self.increment));
        if role.offset_increment > Some(0) && self.size.is_none() {
            role.size = None;
        }
        let wraps = offset.saturating_add(region) >= target_bytes;
        let end = match role.listed.len() {
            0 => end::End::of(job, &role, (covered, files), wraps, in_bytes)?,
            _ => end::End::of_list(job, &role),
        };
        Ok((role, end))
    }
}

/// The region in whole blocks. A sequential fio job with one size exceeds its end if the file
/// continues; any other job omits what is smaller than the smallest block.
fn whole_blocks(role: &Role, region: u64, rest: u64) -> u64 {
    let is_plain = role.sizes == Sizes::default();
    let block = if is_plain { role.block_size.unwrap_or(1) } else { load::least(&role.sizes) };
    if role.block_align.is_some() || block == 0 || region < block {
        return region;
    }
    let over = region.next_multiple_of(block);
    let reaches_over = is_plain && !role.rw.is_random() && over <= rest;
    if reaches_over { over } else { region / block * block }
}

/// Whether a job covers its region block by block, and so ends at the last whole block. A job with
/// random draws continues until it has moved as many bytes as the region has.
fn walks(role: &Role) -> bool {
    let has_holes = role.stride.is_some() || role.strides != Strides::default();
    let covers = matches!(role.access, Access::Permutation | Access::RandomMap);
    !has_holes && (covers || !role.rw.is_random())
}

fn warmup(job: &FioJob) -> Result<u64, Fault> {
    Ok(job.time_ns("ramp_time").unwrap_or(0))
}

fn size(job: &FioJob) -> Result<Option<Amount>, Fault> {
    let size = match (job.amount("size"), job.count("filesize")) {
        // With `filesize`, `size` is the amount of data, and `filesize` the region.
        (_, Some(each)) => {
            let files = job.count("nrfiles").unwrap_or(1).max(1);
            Some(Amount::Bytes(each.saturating_mul(files)))
        }
        (size, None) => size,
    };
    if matches!(size, Some(Amount::Bytes(0) | Amount::Percent(0))) {
        return Err(job.fault("size", "found 0, expected at least one block"));
    }
    Ok(size)
}

/// The offset of a copy.
fn advanced(job: &FioJob, offset: Amount, by: Amount, clone: u64) -> Result<Amount, Fault> {
    let advanced = match (offset, by) {
        (offset, Amount::Bytes(0) | Amount::Percent(0)) => Some(offset),
        (Amount::Bytes(offset), Amount::Bytes(by)) => {
            by.checked_mul(clone).and_then(|by| offset.checked_add(by)).map(Amount::Bytes)
        }
        (Amount::Percent(offset), Amount::Percent(by)) => {
            let percent = u64::from(offset) + u64::from(by) * clone;
            u8::try_from(percent).ok().filter(|percent| *percent <= 100).map(Amount::Percent)
        }
        // A percentage of the target alone.
        (Amount::Bytes(0), Amount::Percent(by)) => {
            let percent = u64::from(by) * clone;
            u8::try_from(percent).ok().filter(|percent| *percent <= 100).map(Amount::Percent)
        }
        _ => return Err(job.fault("offset_increment", "give it in the unit of offset")),
    };
    advanced.ok_or_else(|| job.fault("offset_increment", "the last copy begins beyond the target"))
}

/// The names of the first jobs.
fn title(group: &Group) -> String {
    const SHOWN: usize = 4;
    let names: Vec<String> = group.jobs.iter().take(SHOWN).map(|job| shown(&job.name)).collect();
    let more = if group.jobs.len() > SHOWN { "+…" } else { "" };
    format!("{}{more}", names.join("+"))
}
