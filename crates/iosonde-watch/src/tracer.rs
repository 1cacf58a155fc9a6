//! Tracing of every request by kernel programs at the block layer's tracepoints. Converts the
//! kernel's maps to the figures of [`iosonde_model::record::profile`].

mod containers;
mod convert;
mod file_systems;
mod files;
mod flags;
mod layers;
mod names;
mod places;
mod recent;
mod refusal;
mod series;
mod stacks;
mod tally;
mod threads;
mod times;

use std::collections::BTreeMap;

use iosonde_bpf::layout::SYNC;
use iosonde_bpf::{Collector, Flight, Options, SlotKey, WAITS, major_minor};

use self::files::Files;
use self::names::{Disks, Names};
use self::recent::Before;
pub use self::recent::{Done, Recent, Row};
use self::series::Series;
use self::stacks::Stacks;
pub use self::tally::Increase;
use self::tally::Tally;
use self::threads::Ended;
use super::counters::accounts_delays;
use iosonde_engine::host::{Root, mounts};
use iosonde_model::record::layers::Layer;
use iosonde_model::record::profile::{
    CallCounts, CgroupRun, Class, Depth, FileRun, FileSystemRun, FlagRun, Group, KernelProgram,
    Method, Missing, Op, OpenCounts, PageCache, Places, Source, SyncKind, SyncRun, ThreadRun,
    Traffic, TrafficSeries,
};
use iosonde_model::record::run::CounterSeries;
use iosonde_model::record::stacks::StackRun;
use iosonde_stats::Histogram;

/// What to trace.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Major and minor numbers of whole disks; empty for every disk.
    pub devices: Vec<(u32, u32)>,
    /// Width of an interval of the series, ns; 0 means a second.
    pub interval_ns: u64,
    /// Whether I/O calls are timed layer by layer.
    pub layers: bool,
    /// Whether stacks are taken.
    pub stacks: bool,
}

/// Attached programs, and the data received from them so far.
#[derive(Debug)]
pub struct Tracer {
    collector: Collector,
    root: Root,
    zero_ns: u64,
    interval_ns: u64,
    layers: bool,
    disks: Disks,
    tallies: BTreeMap<u32, Tally>,
    series: Option<Series>,
    ended: Ended,
    files: Files,
    /// `None` if not requested.
    stacks: Option<Stacks>,
    /// State of a live view, if any.
    recent: Option<Before>,
    /// Sampling shift of places when chunks outside the sample were last removed.
    chunk_shift: u32,
    troubles: Troubles,
}

/// Errors from reading the maps, counted by message. The figures lack the data that could not be
/// read.
#[derive(Debug, Default)]
struct Troubles(BTreeMap<String, u64>);

impl Troubles {
    /// The data, or the default with the error recorded.
    fn heed<T: Default>(&mut self, outcome: Result<T, String>) -> T {
        outcome.unwrap_or_else(|trouble| {
            *self.0.entry(trouble).or_default() += 1;
            T::default()
        })
    }
}

/// All data received from the programs.
#[derive(Clone, Debug, Default)]
pub struct Traced {
    /// Each whole disk with traffic.
    pub devices: Vec<TracedDevice>,
    /// See [`iosonde_model::record::ProfileRun::traffic`]; likewise for the fields below.
    pub traffic: Vec<Traffic>,
    /// Reads and writes by flag.
    pub flags: Vec<FlagRun>,
    /// Thread groups.
    pub groups: Vec<Group>,
    pub threads: Vec<ThreadRun>,
    pub files: Vec<FileRun>,
    pub cgroups: Vec<CgroupRun>,
    pub syncs: Vec<SyncRun>,
    pub opens: Option<OpenCounts>,
    /// Calls of threads that have ended.
    pub calls: Option<CallCounts>,
    /// Look-ups of reads in the page cache.
    pub page_cache: Option<PageCache>,
    /// Work of file systems.
    pub file_systems: Vec<FileSystemRun>,
    /// Time that ended threads waited for block I/O by delay accounting, ns.
    pub io_delay_ns: Option<u64>,
    /// Time that ended threads waited for a CPU, ns; 0 if the kernel does not account it.
    pub run_delay_ns: Option<u64>,
    /// Time that all threads waited for I/O by our own programs, ns, if they are attached.
    pub waits_ns: Option<u64>,
    pub places: Vec<Places>,
    pub series: Vec<TrafficSeries>,
    /// Stacks, if requested.
    pub stacks: Vec<StackRun>,
    /// Spans outside the block layer and the device, if requested.
    pub spans: Vec<(Layer, Histogram)>,
    /// Lost data by kind.
    pub lost: BTreeMap<String, u64>,
}

/// One disk.
#[derive(Clone, Debug, Default)]
pub struct TracedDevice {
    /// Major and minor number.
    pub number: (u32, u32),
    /// Kernel name.
    pub name: String,
    /// Requests in flight, all programs.
    pub depth: Depth,
    /// The program's requests in flight.
    pub program_depth: Depth,
}

impl Tracer {
    /// Loads and attaches the programs. Needs CAP_BPF and CAP_PERFMON, and a kernel with BTF.
    ///
    /// # Errors
    /// The missing data, the reason and a fix; nothing is attached then.
    pub fn attach(root: &Root, wanted: &Wanted) -> Result<Tracer, Missing> {
        refusal::of_first_namespace(root)?;
        let Wanted { devices: disks, layers, stacks, .. } = wanted.clone();
        let options = Options {
            disks,
            layers,
            stacks,
            waits: !accounts_delays(root),
            file_systems: file_systems::mounted(root),
            page_bytes: rustix::param::page_size() as u32,
            ..Options::default()
        };
        let collector =
            Collector::attach(&options).map_err(|error| refusal::missing(root, &error))?;
        Ok(Tracer {
            collector,
            root: root.clone(),
            zero_ns: 0,
            interval_ns: if wanted.interval_ns == 0 { 1_000_000_000 } else { wanted.interval_ns },
            layers,
            disks: Disks::new(root),
            tallies: BTreeMap::new(),
            series: None,
            ended: Ended::default(),
            files: Files::new(),
            stacks: stacks.then(|| Stacks::new(root)),
            recent: None,
            chunk_shift: 0,
            troubles: Troubles::default(),
        })
    }

    /// The method, the attribution, and the status of each program.
    pub fn source(&self) -> Source {
        let programs = self.collector.programs();
        let refused = programs.iter().filter_map(|program| {
            let reason = format!("{}: {}", program.tracepoint, program.refused.as_ref()?);
            Some(Missing { what: program.provides.to_owned(), reason, fix: None })
        });
        let mut missing: Vec<Missing> = refused.collect();
        missing.extend(self.stacks.as_ref().and_then(Stacks::missing));
        Source {
            method: Method::Tracepoints,
            attribution: self.collector.begins_at().to_owned(),
            programs: programs
                .iter()
                .map(|program| KernelProgram {
                    tracepoint: program.tracepoint.clone(),
                    refused: program.refused.clone(),
                })
                .collect(),
            missing,
        }
    }

    /// Follows a process and all its future children.
    ///
    /// # Errors
    /// As text, if the kernel's table is full.
    pub fn follow(&mut self, pid: u32) -> Result<(), String> {
        self.collector.follow(pid)
    }

    /// Followed processes that have not ended.
    pub fn followed(&self) -> Vec<u32> {
        self.collector.followed().unwrap_or_default()
    }

    /// Sets time zero, CLOCK_MONOTONIC ns: the command is released now.
    pub fn begin(&mut self, now_ns: u64) {
        self.zero_ns = now_ns;
        self.series = Some(Series::new(now_ns, self.interval_ns));
        self.troubles.heed(self.collector.begin());
    }

    /// Call about once per interval: stores the interval, and frees entries in the kernel's tables.
    pub fn poll(&mut self, now_ns: u64) {
        let looked = self.look(now_ns);
        self.troubles.heed(looked);
        self.troubles.heed(self.ended.harvest(&mut self.collector));
        self.troubles.heed(self.collector.forget_ended());
        self.troubles.heed(self.files.harvest(&mut self.collector));
        if let Some(stacks) = &mut self.stacks {
            self.troubles.heed(stacks.look(&self.collector));
        }
        let thinned = self.thin_places();
        self.troubles.heed(thinned);
    }

    fn look(&mut self, now_ns: u64) -> Result<(), String> {
        if let Some(series) = &mut self.series {
            series.look(now_ns);
        }
        for (key, place) in self.collector.slots()? {
            let slots = self.collector.slot(place)?;
            let tally = self.tallies.entry(place).or_insert_with(|| Tally::new(key));
            let increase = tally.look(slots);
            if key.op >= SYNC {
                continue;
            }
            self.disks.name(major_minor(key.disk));
            if increase.requests == 0 {
                continue;
            }
            if let Some(series) = &mut self.series {
                series.add_slot(place, &increase);
            }
            if !class(key.class).is_of_the_program() {
                continue;
            }
            if let Some(series) = &mut self.series {
                series.add_op(op(key.op), &increase);
            }
            if let Some(recent) = &mut self.recent {
                recent.add(op(key.op), &increase);
            }
        }
        Ok(())
    }

    /// Bytes of pages that followed processes dirtied and that are not written yet, if known. Pages
    /// truncated before being written count as not written.
    pub fn dirty_bytes(&self) -> Option<u64> {
        let counts = self.collector.counts().ok()?;
        Some(counts.dirtied_bytes.saturating_sub(counts.written_back_bytes))
    }

    /// Stops counting I/O that begins from now on; I/O in flight still counts.
    pub fn pause(&mut self) {
        self.troubles.heed(self.collector.pause());
    }

    /// Detaches and returns all data. Call [`pause`](Tracer::pause) before.
    pub fn finish(mut self, now_ns: u64) -> Traced {
        self.poll(now_ns);
        let left = self.settle();
        let stacks = self.stacks.take().map(|stacks| stacks.finish(&self.collector, now_ns));
        let stacks = self.troubles.heed(stacks.transpose()).unwrap_or_default();
        let flags = flags::flags(&self.collector, self.tallies.values());
        let flags = self.troubles.heed(flags);
        let file_systems = self.troubles.heed(file_systems::work(&self.collector));
        let counts = self.troubles.heed(self.collector.counts().map(Some));
        let threads = std::mem::take(&mut self.ended).finish(&self.collector);
        let page_bytes = rustix::param::page_size() as u64;
        let page_cache = (self.has("mm_filemap_get_pages")
            && self.has("mm_filemap_add_to_page_cache"))
        .then_some(PageCache { page_bytes, ..threads.page_cache });
        let mut lost = counts.as_ref().map(convert::losses).unwrap_or_default();
        lost.append(&mut self.troubles.0);
        if !left.is_empty() {
            *lost.entry(convert::LATENCIES.to_owned()).or_default() += left.len() as u64;
        }
        let exits = counts.filter(|_| self.has("sched_process_exit"));
        let calls_seen = counts.filter(|_| self.has("sys_enter"));
        let series = self.series.take();
        let over_time = series.map(|series| series.finish(now_ns)).unwrap_or_default();
        Traced {
            devices: self.devices(now_ns),
            flags,
            groups: self.groups(&threads.groups),
            threads: convert::threads(threads.runs),
            page_cache,
            file_systems,
            files: self.files(),
            cgroups: convert::cgroups(self.cgroups(&left)),
            syncs: self.syncs(),
            opens: calls_seen.as_ref().map(convert::opens),
            calls: exits.as_ref().map(convert::calls),
            io_delay_ns: exits
                .filter(|_| accounts_delays(&self.root))
                .map(|counts| counts.io_delay_ns),
            run_delay_ns: exits.map(|counts| counts.run_delay_ns),
            waits_ns: counts.filter(|_| self.times_waits()).map(|counts| counts.io_delay_ns),
            places: self.places(counts.as_ref().map_or(0, |counts| counts.lost_chunk_bytes)),
            traffic: self.traffic(over_time.slots),
            series: over_time.ops,
            stacks,
            spans: if self.layers { layers::spans(&self.collector) } else { Vec::new() },
            lost,
        }
    }

    /// Counts requests without a seen completion on disks with none in flight: they have ended.
    fn settle(&mut self) -> Vec<Flight> {
        let flights = self.collector.flights().unwrap_or_default();
        let mut left = Vec::new();
        for flight in flights {
            let name = self.disks.name(major_minor(flight.disk));
            let in_flight = self.root.text(format!("/sys/block/{name}/inflight"));
            let is_idle = in_flight
                .is_some_and(|text| text.split_whitespace().all(|direction| direction == "0"));
            if let Some(tally) = self.tallies.get_mut(&u32::from(flight.slot)).filter(|_| is_idle) {
                tally.add_unseen(&flight);
                left.push(flight);
            }
        }
        left
    }

    fn has(&self, tracepoint: &str) -> bool {
        let mut programs = self.collector.programs().iter();
        programs.any(|program| program.tracepoint == tracepoint && program.refused.is_none())
    }

    /// Whether our own programs time waits for I/O.
    fn times_waits(&self) -> bool {
        let programs = self.collector.programs().iter();
        let mut of_waits = programs.filter(|program| program.provides == WAITS).peekable();
        of_waits.peek().is_some() && of_waits.all(|program| program.refused.is_none())
    }

    fn devices(&mut self, now_ns: u64) -> Vec<TracedDevice> {
        let mut devices = Vec::new();
        for (disk, place) in self.collector.disks().unwrap_or_default() {
            let Ok((now, so_far)) = self.collector.depths(place) else { continue };
            let number = major_minor(disk);
            let name = self.disks.name(number);
            let latencies = |of: fn(Class) -> bool| -> u64 {
                let own = self.tallies.values().filter(|tally| tally.key.disk == disk);
                own.filter(|tally| tally.key.op < SYNC && of(class(tally.key.class)))
                    .map(Tally::latencies_ns)
                    .sum()
            };
            let all: Vec<_> = so_far.iter().flat_map(|cpu| [&cpu.all, &cpu.both]).collect();
            let own: Vec<_> = so_far.iter().flat_map(|cpu| [&cpu.program, &cpu.both]).collect();
            let lasts_ns = if now.since_ns > 0 { now_ns.saturating_sub(now.since_ns) } else { 0 };
            let depth = convert::levels(&all, (now.level as u32, lasts_ns), latencies(|_| true));
            let program_depth = convert::levels(
                &own,
                ((now.level >> 32) as u32, lasts_ns),
                latencies(Class::is_of_the_program),
            );
            devices.push(TracedDevice { number, name, depth, program_depth });
        }
        devices.sort_by_key(|device| std::cmp::Reverse(device.program_depth.area_ns));
        devices
    }

    fn traffic(&mut self, mut over_time: BTreeMap<u32, CounterSeries>) -> Vec<Traffic> {
        let mut traffic = Vec::new();
        for (place, tally) in self.tallies.iter().filter(|(_, tally)| tally.key.op < SYNC) {
            let SlotKey { disk, op: number, class: of, group } = tally.key;
            traffic.push(Traffic {
                device: self.disks.name(major_minor(disk)),
                class: class(of),
                op: op(number),
                group: u32::from(group),
                counters: over_time.remove(place).unwrap_or_default(),
                ..tally.traffic(self.zero_ns)
            });
        }
        traffic.retain(|traffic| traffic.requests > 0);
        traffic.sort_by(|a, b| {
            (&a.device, a.class, a.op, a.group).cmp(&(&b.device, b.class, b.op, b.group))
        });
        traffic
    }

    fn syncs(&self) -> Vec<SyncRun> {
        let of_syncs = self.tallies.values().filter(|tally| tally.key.op >= SYNC);
        let mut syncs: Vec<SyncRun> = of_syncs
            .filter_map(|tally| {
                let kind = *SyncKind::ALL.get(usize::from(tally.key.op - SYNC))?;
                Some(SyncRun {
                    kind,
                    group: u32::from(tally.key.group),
                    calls: tally.calls(),
                    errors: tally.errors(),
                    latency: tally.latency(),
                    phases: Some(tally.phases()),
                })
            })
            .filter(|sync| sync.calls > 0)
            .collect();
        syncs.sort_by_key(|sync| (sync.kind, sync.group));
        syncs
    }

    /// Thread groups; entry 0 is for threads that did not fit in the table.
    fn groups(&self, sizes: &BTreeMap<u16, u32>) -> Vec<Group> {
        let named = self.collector.groups().unwrap_or_default();
        let last = named.iter().map(|(_, number)| *number).max().unwrap_or(0);
        let mut groups = vec![Group::default(); last as usize + 1];
        groups[0].name = "other threads".to_owned();
        for (name, number) in named {
            groups[number as usize].name = threads::name(&name);
        }
        for (number, threads) in sizes {
            if let Some(group) = groups.get_mut(usize::from(*number)) {
                group.threads = *threads;
            }
        }
        groups
    }

    fn files(&mut self) -> Vec<FileRun> {
        let finished = std::mem::replace(&mut self.files, Files::new()).finish(&self.collector);
        let Some((files, rest)) = self.troubles.heed(finished.map(Some)) else {
            return Vec::new();
        };
        let mut names = Names::new(&self.root, mounts(&self.root));
        let mut files = files::by_name(files, |key, file| names.path(key, &file.counts));
        let others = files.split_off(files.len().min(convert::MOST));
        let others = others.iter().map(|(.., file)| file).chain([&rest]);
        let named = files.iter().map(|(path, key, file)| {
            convert::file(key, file, path.clone(), self.disks.name(major_minor(key.device)))
        });
        named.collect::<Vec<FileRun>>().into_iter().chain(convert::further_files(others)).collect()
    }

    /// Cgroups with the requests that ended, including those without a seen completion.
    fn cgroups(&self, left: &[Flight]) -> Vec<CgroupRun> {
        let paths = names::cgroups(&self.root);
        let mut uses = self.collector.cgroups().unwrap_or_default();
        for (_, place, used) in &mut uses {
            let unseen = left.iter().filter(|flight| u32::from(flight.cgroup_place) == *place);
            unseen.for_each(|flight| used.add_unseen(flight));
        }
        let mut cgroups: Vec<CgroupRun> = uses
            .into_iter()
            .filter(|(_, _, used)| used.requests > 0)
            .map(|(id, _, used)| {
                let path = paths.get(&id).cloned();
                convert::cgroup(&used, path.unwrap_or_else(|| format!("cgroup number {id}")))
            })
            .collect();
        cgroups.sort_by_key(|used| std::cmp::Reverse(used.read_bytes + used.write_bytes));
        cgroups
    }
}

fn class(number: u8) -> Class {
    Class::ALL.get(usize::from(number)).copied().unwrap_or(Class::Other)
}

fn op(number: u8) -> Op {
    Op::ALL.get(usize::from(number)).copied().unwrap_or(Op::Other)
}
