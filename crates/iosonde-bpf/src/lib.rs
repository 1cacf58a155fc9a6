//! Kernel programs that watch the block layer, their loader, and the contents of their maps.
//!
//! The programs are C (`bpf/`), compiled once and kept beside their source, so that building needs
//! only Rust; CI compiles them again and compares. Each program is optional: a kernel that lacks
//! its tracepoint, or refuses it, is distinguished from one with nothing to report.
//!
//! Everything public is safe to call. `unsafe` only declares structures as plain data.
#![cfg(target_os = "linux")]

mod cast;
mod cgroups;
mod files;
pub mod layout;
mod programs;
mod stacks;
mod threads;
mod types;

use std::fmt;
use std::os::fd::OwnedFd;
use std::thread::ScopedJoinHandle;

use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, Queue};
use aya::{Ebpf, EbpfLoader, Pod};
use aya_obj::Object;

use self::types::Types;
pub use layout::{
    Blocked, CgroupUse, Chunk, ChunkKey, Control, Counts, Depth, DepthUse, FileKey, FilePlace,
    FileUse, FlagUse, Flight, Layers, Levels, Sampling, Slot, SlotKey, StackKey, StackUse, Thread,
    Times, WorkUse,
};
pub use programs::{FileSystem, Part, Program, Runs, WAITS};

/// The compiled programs.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/profile.bpf.o");

/// What to watch, and facts about this machine that the programs need.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whole disks, as (major, minor); empty for all.
    pub disks: Vec<(u32, u32)>,
    /// Whether the spans of [`Layers`] are measured.
    pub layers: bool,
    /// Whether I/O waits of followed threads are measured at each context switch and wake-up of the
    /// machine; otherwise by the kernel's delay accounting of threads that end.
    pub waits: bool,
    /// Whether stacks are taken where requests begin and threads wait.
    pub stacks: bool,
    /// File systems to be traced.
    pub file_systems: Vec<FileSystem>,
    /// Size of a memory page, bytes.
    pub page_bytes: u32,
    /// Parts of the programs to leave out, to measure their cost. Empty for a profile.
    pub without: Vec<Part>,
    /// Whether an empty program is attached too: its time is the overhead of timing a program.
    pub meter: bool,
}

/// Why nothing could be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The kernel has no type information.
    #[error("the kernel does not show its types (/sys/kernel/btf/vmlinux): {0}")]
    NoTypes(String),
    /// The object could not be loaded.
    #[error("the kernel refuses the programs' maps: {0}")]
    Maps(String),
    /// A required program was refused.
    #[error("the kernel refuses the program at {tracepoint}: {reason}")]
    Program {
        /// Its tracepoint.
        tracepoint: String,
        /// The kernel's reason.
        reason: String,
    },
}

/// Attached programs and their maps. Dropping it detaches them.
pub struct Collector {
    ebpf: Ebpf,
    programs: Vec<Program>,
    begins_at: &'static str,
    control: Control,
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").field("programs", &self.programs).finish_non_exhaustive()
    }
}

/// The kernel types that the programs need, and those of the device mapper if it is a module.
fn types() -> Result<Types, AttachError> {
    let kernel = std::fs::read("/sys/kernel/btf/vmlinux");
    let kernel = kernel.map_err(|error| AttachError::NoTypes(error.to_string()))?;
    let module = std::fs::read("/sys/kernel/btf/dm_mod").unwrap_or_default();
    let programs = Object::parse(OBJECT).map_err(|error| AttachError::Maps(chain(&error)))?;
    let programs = programs.btf.map(|types| types.to_bytes()).unwrap_or_default();
    Types::pick(&kernel, &module, &programs).map_err(AttachError::NoTypes)
}

/// The result of a thread.
fn joined<T>(thread: ScopedJoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Kernel-internal device number: 12 bits of major, 20 of minor.
fn kernel_number((major, minor): (u32, u32)) -> u32 {
    major << 20 | minor & 0xf_ffff
}

/// Major and minor number of a kernel-internal one.
pub fn major_minor(device: u32) -> (u32, u32) {
    (device >> 20, device & 0xf_ffff)
}

impl Collector {
    /// Loads and attaches the programs. Nothing counts before [`Collector::begin`]. Creating the
    /// loader reads all kernel types, which are not used.
    ///
    /// # Errors
    /// If the kernel has no type information, refuses the maps, or refuses a required program.
    pub fn attach(options: &Options) -> Result<Collector, AttachError> {
        let (types, mut loader) = std::thread::scope(|scope| {
            let loader = std::thread::Builder::new().spawn_scoped(scope, EbpfLoader::new);
            let types = types();
            // Sequential if no thread can be started.
            (types, loader.map_or_else(|_| EbpfLoader::new(), joined))
        });
        let types = types?;
        let begins = programs::beginning(&types);
        let constants = [
            ("wants_layers", u32::from(options.layers)),
            ("counts_waits", u32::from(options.waits)),
            ("begins_at", begins.number),
            ("watches_all", u32::from(options.disks.is_empty())),
            ("flag_direct", libc::O_DIRECT as u32),
            ("flag_sync", libc::O_SYNC as u32),
            ("flag_dsync", libc::O_DSYNC as u32),
            ("page_bytes", options.page_bytes),
            ("without", Part::mask(&options.without)),
        ];
        let cast_types = cast::TYPES.map(|name| (name, types.number(&name["type_".len()..])));
        loader.btf(Some(&types.named));
        for (name, value) in constants.iter().chain(&cast_types) {
            loader.override_global(name, value, true);
        }
        if !options.stacks {
            for map in stacks::MAPS {
                loader.map_max_entries(map, 1);
            }
        }
        let calls = programs::calls(options.layers);
        loader.override_global("call_of", &calls, true);
        let mut load = |object: &[u8], has_cast: &'static u32| {
            loader.override_global("has_cast", has_cast, true);
            let loaded = loader.load(object);
            let mut ebpf = loaded.map_err(|error| AttachError::Maps(chain(&error)))?;
            programs::attach(&mut ebpf, &types, begins, options).map(|programs| (ebpf, programs))
        };
        // Without casts if the kernel lacks them or refuses a program with them.
        let fast = types.cast.and_then(|number| load(&cast::with(OBJECT, number), &1).ok());
        let (ebpf, programs) = fast.map_or_else(|| load(OBJECT, &0), Ok)?;
        let mut collector =
            Collector { ebpf, programs, begins_at: begins.tracepoint, control: Control::default() };
        collector.check_layout()?;
        for (index, disk) in (0u32..).zip(&options.disks) {
            collector.insert("disks", kernel_number(*disk), index).map_err(AttachError::Maps)?;
        }
        let count = options.disks.len() as u32;
        collector.set("disk_count", 0, count).map_err(AttachError::Maps)?;
        Ok(collector)
    }

    /// Checks that every map has values of the size of its Rust type.
    fn check_layout(&self) -> Result<(), AttachError> {
        let checks = [
            self.array::<Control>("control").map(|_| ()),
            self.array::<Counts>("counts").map(|_| ()),
            self.array::<Depth>("depths").map(|_| ()),
            self.per_cpu::<DepthUse>("depth_data").map(|_| ()),
            self.array::<Sampling>("sampling_state").map(|_| ()),
            self.array::<Thread>("thread_data").map(|_| ()),
            self.table::<u64, Flight>("flights").map(|_| ()),
            self.array::<Flight>("flight_places").map(|_| ()),
            self.table::<FileKey, FilePlace>("files").map(|_| ()),
            self.array::<FileUse>("file_data").map(|_| ()),
            self.array::<Times>("file_times").map(|_| ()),
            self.table::<u64, u32>("cgroups").map(|_| ()),
            self.per_cpu::<CgroupUse>("cgroup_data").map(|_| ()),
            self.table::<ChunkKey, Chunk>("chunks").map(|_| ()),
            self.table::<SlotKey, u32>("slots").map(|_| ()),
            self.per_cpu::<Slot>("slot_data").map(|_| ()),
            self.per_cpu::<FlagUse>("flag_data").map(|_| ()),
            self.per_cpu::<WorkUse>("work_data").map(|_| ()),
            self.table::<StackKey, StackUse>("stacks").map(|_| ()),
            self.table::<u32, Blocked>("blocked_threads").map(|_| ()),
        ];
        checks.into_iter().collect::<Result<(), String>>().map_err(AttachError::Maps)
    }

    /// Each program with its status.
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// Run count and time of each attached program; the kernel counts them while [`timed`] is held.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn runs(&self) -> Result<Vec<Runs>, String> {
        programs::runs(&self.ebpf)
    }

    /// The tracepoint at which a request is attributed.
    pub fn begins_at(&self) -> &'static str {
        self.begins_at
    }

    /// Follows a process and all its future children.
    ///
    /// # Errors
    /// The reason, as text, if the table of processes is full.
    pub fn follow(&mut self, process: u32) -> Result<(), String> {
        self.insert("followed", process, 1u32)?;
        self.control.generation += 1;
        self.tell_control()
    }

    /// Starts counting requests.
    ///
    /// # Errors
    /// The reason, as text, if the kernel refuses.
    pub fn begin(&mut self) -> Result<(), String> {
        self.control.has_begun = 1;
        self.tell_control()
    }

    /// Stops counting requests and syncs that begin from now on; those in flight still count.
    ///
    /// # Errors
    /// The reason, as text, if the kernel refuses.
    pub fn pause(&mut self) -> Result<(), String> {
        self.control.has_begun = 0;
        self.tell_control()
    }

    /// Processes that are followed and have not ended.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn followed(&self) -> Result<Vec<u32>, String> {
        let all = self.all::<u32, u32>("followed")?.into_iter();
        Ok(all.filter(|(_, alive)| *alive != 0).map(|(process, _)| process).collect())
    }

    /// Removes ended processes from the kernel's table, which frees their places.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn forget_ended(&mut self) -> Result<(), String> {
        let all = self.all::<u32, u32>("followed")?;
        let mut table = self.table_mut::<u32, u32>("followed")?;
        for (process, _) in all.into_iter().filter(|(_, alive)| *alive == 0) {
            // If the PID was reused meanwhile, the entry is alive again; the next request finds it
            // so.
            if table.get(&process, 0).is_ok_and(|alive| alive == 0) {
                table.remove(&process).map_err(in_words)?;
            }
        }
        Ok(())
    }

    /// Counters that exist once.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn counts(&self) -> Result<Counts, String> {
        self.at("counts", 0)
    }

    /// Disks by the kernel's own number, with their places among the depths.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn disks(&self) -> Result<Vec<(u32, u32)>, String> {
        self.all::<u32, u32>("disks")
    }

    /// Requests in flight on the disk at this place: now, and so far per CPU.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn depths(&self, place: u32) -> Result<(Depth, Vec<DepthUse>), String> {
        Ok((self.at("depths", place)?, self.of_each_cpu("depth_data", place)?))
    }

    /// Slots in use, with their places.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn slots(&self) -> Result<Vec<(SlotKey, u32)>, String> {
        self.all::<SlotKey, u32>("slots")
    }

    /// Counts of the slot at this place, per CPU.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn slot(&self, place: u32) -> Result<Vec<Slot>, String> {
        self.of_each_cpu("slot_data", place)
    }

    /// Counts by flag, per CPU: of reads or, from [`layout::FLAGS`] on, of writes.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn flags(&self, place: u32) -> Result<Vec<FlagUse>, String> {
        self.of_each_cpu("flag_data", place)
    }

    /// Work of file systems of one kind, per CPU.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn work(&self, kind: u32) -> Result<Vec<WorkUse>, String> {
        self.of_each_cpu("work_data", kind)
    }

    /// Thread groups with their numbers.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn groups(&self) -> Result<Vec<([u8; 16], u32)>, String> {
        self.all::<[u8; 16], u32>("groups")
    }

    /// Spans outside the block layer and the device, per CPU.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn layers(&self) -> Result<Vec<Layers>, String> {
        self.of_each_cpu("layer_data", 0)
    }

    /// Requests whose completion was not seen.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn flights(&self) -> Result<Vec<Flight>, String> {
        let places = self.array::<Flight>("flight_places")?;
        let in_places = places.iter().filter_map(Result::ok).filter(|flight| flight.key != 0);
        let others = self.all::<u64, Flight>("flights")?.into_iter().map(|(_, flight)| flight);
        Ok(in_places.chain(others).collect())
    }

    /// The sampling of places.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn sampling(&self) -> Result<Sampling, String> {
        self.at("sampling_state", 0)
    }

    /// Removes chunks that are no longer in the sample from the kernel's table.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn forget_chunks(&mut self, sampling: &Sampling) -> Result<(), String> {
        let all = self.table::<ChunkKey, Chunk>("chunks")?;
        let out = all.keys().filter_map(Result::ok).filter(|key| !sampling.keeps(key.number));
        let out: Vec<ChunkKey> = out.collect();
        out.iter().try_for_each(|key| self.remove::<ChunkKey, Chunk>("chunks", *key))
    }

    /// Sampled chunks of disks.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn chunks(&self) -> Result<Vec<(ChunkKey, Chunk)>, String> {
        self.all::<ChunkKey, Chunk>("chunks")
    }

    fn map(&self, name: &str) -> Result<&Map, String> {
        self.ebpf.map(name).ok_or_else(|| format!("the object has no map `{name}`"))
    }

    fn array<T: Pod>(&self, name: &str) -> Result<Array<&MapData, T>, String> {
        Array::try_from(self.map(name)?).map_err(|error| format!("map `{name}`: {}", chain(&error)))
    }

    fn table<K: Pod, V: Pod>(&self, name: &str) -> Result<HashMap<&MapData, K, V>, String> {
        HashMap::try_from(self.map(name)?)
            .map_err(|error| format!("map `{name}`: {}", chain(&error)))
    }

    fn per_cpu<T: Pod>(&self, name: &str) -> Result<PerCpuArray<&MapData, T>, String> {
        PerCpuArray::try_from(self.map(name)?)
            .map_err(|error| format!("map `{name}`: {}", chain(&error)))
    }

    /// One entry of an array.
    fn at<T: Pod>(&self, name: &str, place: u32) -> Result<T, String> {
        self.array::<T>(name)?.get(&place, 0).map_err(in_words)
    }

    /// One entry of an array, per CPU.
    fn of_each_cpu<T: Pod>(&self, name: &str, place: u32) -> Result<Vec<T>, String> {
        Ok(self.per_cpu::<T>(name)?.get(&place, 0).map_err(in_words)?.to_vec())
    }

    /// Every entry, except those removed meanwhile.
    fn all<K: Pod, V: Pod>(&self, name: &str) -> Result<Vec<(K, V)>, String> {
        Ok(self.table::<K, V>(name)?.iter().filter_map(Result::ok).collect())
    }

    fn insert<K: Pod, V: Pod>(&mut self, name: &str, key: K, value: V) -> Result<(), String> {
        self.table_mut::<K, V>(name)?.insert(key, value, 0).map_err(in_words)
    }

    fn remove<K: Pod, V: Pod>(&mut self, name: &str, key: K) -> Result<(), String> {
        self.table_mut::<K, V>(name)?.remove(&key).map_err(in_words)
    }

    /// Returns a cleared place to the free list of an array.
    fn free(&mut self, name: &str, place: u32) -> Result<(), String> {
        let mut free = Queue::<_, u32>::try_from(self.map_mut(name)?).map_err(in_words)?;
        free.push(place, 0).map_err(in_words)
    }

    fn set<V: Pod>(&mut self, name: &str, place: u32, value: V) -> Result<(), String> {
        let mut array = Array::<_, V>::try_from(self.map_mut(name)?).map_err(in_words)?;
        array.set(place, value, 0).map_err(in_words)
    }

    fn map_mut(&mut self, name: &str) -> Result<&mut Map, String> {
        self.ebpf.map_mut(name).ok_or_else(|| format!("no map `{name}`"))
    }

    fn table_mut<K: Pod, V: Pod>(
        &mut self,
        name: &str,
    ) -> Result<HashMap<&mut MapData, K, V>, String> {
        HashMap::try_from(self.map_mut(name)?).map_err(in_words)
    }

    fn tell_control(&mut self) -> Result<(), String> {
        let control = self.control;
        self.set("control", 0, control)
    }
}

fn in_words(error: MapError) -> String {
    chain(&error)
}

/// Makes the kernel count the runs and time of all programs until the descriptor is dropped.
///
/// # Errors
/// The reason, as text, if the kernel refuses.
pub fn timed() -> Result<OwnedFd, String> {
    aya::sys::enable_stats(aya::sys::Stats::RunTime).map_err(|error| chain(&error))
}

/// An error with its causes, in one line; only the last words of the verifier's log.
fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !words.contains(&more) {
            words.push_str(": ");
            words.push_str(&more);
        }
        cause = error.source();
    }
    let mut lines = words.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default().to_owned();
    let is_reason = |line: &&str| {
        !["processed ", "stack depth", "verification time"]
            .iter()
            .any(|statistic| line.starts_with(statistic))
    };
    match lines.rfind(is_reason) {
        Some(last) => format!("{first} ({last})"),
        None => first,
    }
}
