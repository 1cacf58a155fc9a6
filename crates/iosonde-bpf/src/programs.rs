//! The programs, their tracepoints and the data that each provides.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use aya::{Ebpf, programs};

use crate::types::Types;
use crate::{AttachError, Options, chain, joined};

/// A program and whether it is attached.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Program {
    /// Its tracepoint.
    pub tracepoint: String,
    /// The data that it provides.
    pub provides: &'static str,
    /// Why it is not attached; `None` if it is.
    pub refused: Option<String>,
}

/// One line per program: function, tracepoint, the data it provides, whether all figures need it.
/// Programs that take longest to verify come first, because they are loaded in this order.
const PROGRAMS: [(&str, &str, &str, bool); 25] = [
    ("rq_issue", "block_rq_issue", "requests", true),
    ("rq_complete", "block_rq_complete", "requests", true),
    ("io_start", "block_io_start", "requests", true),
    ("rq_merge", "block_rq_merge", "merged requests", false),
    ("process_fork", "sched_process_fork", "children", true),
    ("process_exit", "sched_process_exit", "read and write calls", false),
    ("task_rename", "task_rename", "names of threads", false),
    ("dirty_folio", "writeback_dirty_folio", WRITE_BACK, false),
    ("dirty_page", "writeback_dirty_page", WRITE_BACK, false),
    ("uring_queue", "io_uring_queue_async_work", "syncs by io_uring", false),
    ("uring_submit", "io_uring_submit_req", "where the time of io_uring calls goes", false),
    ("uring_complete", "io_uring_complete", "syncs by io_uring", false),
    ("call_enter", "sys_enter", "syncs and how files are opened", false),
    ("call_exit", "sys_exit", "syncs", false),
    ("page_added", PAGE_ADDED, PAGE_CACHE, false),
    ("pages_read", PAGES_READ, PAGE_CACHE, false),
    ("round_begin", "writeback_start", FILE_SYSTEMS, false),
    ("round_end", "writeback_written", FILE_SYSTEMS, false),
    ("rq_insert", "block_rq_insert", "requests", true),
    ("io_wait", "sched_switch", WAITS, false),
    ("io_wait_over", "sched_wakeup", WAITS, false),
    (STACK_REQUEST, "block_io_start", "stacks of requests", false),
    ("stack_switch", "sched_switch", STACKS_OF_WAITS, false),
    ("stack_wakeup", "sched_wakeup", STACKS_OF_WAITS, false),
    (METER, "block_rq_complete", "the cost of counting time", false),
];

/// Programs of file systems: function, tracepoint, and the file system that has the tracepoint.
/// They are raw tracepoints, because a file system may be a module.
const OF_FILE_SYSTEMS: [(&str, &str, FileSystem); 9] = [
    ("pages_begin", "ext4_writepages", FileSystem::Ext4),
    ("pages_end", "ext4_writepages_result", FileSystem::Ext4),
    ("commit_begin", "jbd2_start_commit", FileSystem::Ext4),
    ("commit_data", "jbd2_commit_flushing", FileSystem::Ext4),
    ("commit_log", "jbd2_commit_logging", FileSystem::Ext4),
    ("commit_size", "jbd2_run_stats", FileSystem::Ext4),
    ("commit_end", "jbd2_end_commit", FileSystem::Ext4),
    ("log_force", "xfs_log_force", FileSystem::Xfs),
    ("log_full", "xfs_log_grant_sleep", FileSystem::Xfs),
];

/// A file system whose tracepoints are known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileSystem {
    /// ext4, and its journal.
    Ext4,
    /// XFS.
    Xfs,
}

const FILE_SYSTEMS: &str = "file systems";

/// Data that [`Options::waits`] provides.
pub const WAITS: &str = "time the program waited for block I/O";

const STACKS_OF_WAITS: &str = "stacks of waits";

/// Pairs of programs that only work together.
const PAIRS: [[&str; 2]; 2] = [["io_wait", "io_wait_over"], ["stack_switch", "stack_wakeup"]];

/// The page cache figures need both.
const PAGE_ADDED: &str = "mm_filemap_add_to_page_cache";
const PAGES_READ: &str = "mm_filemap_get_pages";
const PAGE_CACHE: &str = "page cache";

/// Attached to the event that begins a request.
const STACK_REQUEST: &str = "stack_request";
/// The empty program.
const METER: &str = "meter";

/// A part of the programs that can be left out to measure its cost.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Part {
    /// Blocks that are touched.
    Places,
    /// Sequence within the streams of a thread.
    Sequence,
    /// Files.
    Files,
    /// Cgroups.
    Cgroups,
    /// Requests in flight.
    Depth,
    /// Distances between starts.
    Gaps,
    /// Histograms of times and sizes.
    Histograms,
    /// System calls.
    Calls,
    /// Pages in the page cache.
    Cache,
    /// Work of file systems.
    FileSystems,
}

impl Part {
    /// All parts with their names.
    pub const ALL: [(Part, &str); 10] = [
        (Part::Places, "places"),
        (Part::Sequence, "sequence"),
        (Part::Files, "files"),
        (Part::Cgroups, "cgroups"),
        (Part::Depth, "depth"),
        (Part::Gaps, "gaps"),
        (Part::Histograms, "histograms"),
        (Part::Calls, "calls"),
        (Part::Cache, "cache"),
        (Part::FileSystems, "file-systems"),
    ];

    /// The programs' bit mask: a bit per part, in the order of [`Part::ALL`].
    pub(crate) fn mask(parts: &[Part]) -> u32 {
        parts.iter().fold(0, |mask, part| mask | 1 << *part as u32)
    }
}

/// The kernel's run statistics of a program.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Runs {
    /// Its function.
    pub program: String,
    /// Runs.
    pub runs: u64,
    /// Total time, ns, including the kernel's own time for counting it.
    pub ns: u64,
}

pub(crate) fn runs(ebpf: &Ebpf) -> Result<Vec<Runs>, String> {
    let mut all = Vec::new();
    for (function, program) in ebpf.programs() {
        // A program that is not loaded has no statistics.
        let Ok(info) = program.info() else { continue };
        let ns = u64::try_from(info.run_time().as_nanos()).unwrap_or(u64::MAX);
        all.push(Runs { program: function.to_owned(), runs: info.run_count(), ns });
    }
    Ok(all)
}

const WRITE_BACK: &str = "write-back by file and thread";

/// Tracepoints that replace each other: a kernel has one of them, depending on its age.
const ALTERNATIVES: [(&str, &str); 2] = [
    ("writeback_dirty_folio", "writeback_dirty_page"),
    ("writeback_dirty_page", "writeback_dirty_folio"),
];

/// The event at which a request is attributed to its originator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    /// Its number in the programs.
    pub(crate) number: u32,
    /// Its tracepoint.
    pub(crate) tracepoint: &'static str,
}

/// The earliest event of a request that this kernel has. Requests that bypass the scheduler are not
/// inserted, so kernels without `block_io_start` use `block_rq_issue`.
pub(crate) fn beginning(types: &Types) -> Beginning {
    let earliest = (0..).zip(["block_io_start", "block_rq_insert"]);
    let has = |(_, tracepoint): &(u32, &str)| types.has(tracepoint);
    let (number, tracepoint) = earliest.into_iter().find(has).unwrap_or((2, "block_rq_issue"));
    Beginning { number, tracepoint }
}

/// A program that this kernel and these options can use.
struct Wanted {
    function: &'static str,
    tracepoint: &'static str,
    provides: &'static str,
    /// Without it there are no figures.
    is_vital: bool,
}

fn wanted(types: &Types, begins: Beginning, options: &Options) -> Vec<Wanted> {
    let mut all = Vec::new();
    for (function, tracepoint, provides, is_vital) in PROGRAMS {
        let idle = match function {
            "io_start" => begins.number != 0,
            "rq_insert" => begins.number != 1,
            METER => !options.meter,
            "io_wait" | "io_wait_over" => !options.waits,
            "uring_submit" => !options.layers,
            STACK_REQUEST | "stack_switch" | "stack_wakeup" => !options.stacks,
            "call_enter" | "call_exit" => options.without.contains(&Part::Calls),
            "page_added" => !types.has(PAGES_READ) || options.without.contains(&Part::Cache),
            "pages_read" => options.without.contains(&Part::Cache),
            "round_begin" | "round_end" => options.without.contains(&Part::FileSystems),
            _ => false,
        };
        let tracepoint = if function == STACK_REQUEST { begins.tracepoint } else { tracepoint };
        let other = ALTERNATIVES.iter().find(|(name, _)| *name == tracepoint);
        let replaced = other.is_some_and(|(_, other)| !types.has(tracepoint) && types.has(other));
        if !idle && !replaced {
            all.push(Wanted { function, tracepoint, provides, is_vital });
        }
    }
    for (function, tracepoint, of) in OF_FILE_SYSTEMS {
        let is_left_out = options.without.contains(&Part::FileSystems);
        if options.file_systems.contains(&of) && !is_left_out {
            all.push(Wanted { function, tracepoint, provides: FILE_SYSTEMS, is_vital: false });
        }
    }
    all
}

/// Loads and attaches every usable program, and returns the status of each.
pub(crate) fn attach(
    ebpf: &mut Ebpf,
    types: &Types,
    begins: Beginning,
    options: &Options,
) -> Result<Vec<Program>, AttachError> {
    let wanted = wanted(types, begins, options);
    let loaded = load(ebpf, types, &wanted);
    let mut programs = Vec::new();
    for Wanted { function, tracepoint, provides, is_vital } in wanted {
        let is_loaded = whole_fate(&loaded, function);
        let refused = is_loaded.and_then(|()| attach_one(ebpf, function, tracepoint)).err();
        let tracepoint = tracepoint.to_owned();
        if let Some(reason) = refused.clone().filter(|_| is_vital) {
            return Err(AttachError::Program { tracepoint, reason });
        }
        programs.push(Program { tracepoint, provides, refused });
    }
    crate::files::load(ebpf);
    Ok(programs)
}

/// `Err` is the reason why a program was refused.
type Fate = Result<(), String>;

/// Load result of a program; of a pair, that of both: alone, one would count waits that do not end,
/// or none.
fn whole_fate(loaded: &BTreeMap<String, Fate>, function: &str) -> Fate {
    let pair = PAIRS.iter().find(|pair| pair.contains(&function));
    let needed = pair.map_or_else(|| vec![function], |pair| pair.to_vec());
    needed.into_iter().try_for_each(|one| {
        loaded.get(one).cloned().unwrap_or_else(|| Err("not in the object".to_owned()))
    })
}

/// Loads the programs in parallel on all CPUs: the kernel verifies each on its own, and three of
/// them take most of the start-up time of a profile.
fn load(ebpf: &mut Ebpf, types: &Types, wanted: &[Wanted]) -> BTreeMap<String, Fate> {
    let place = |function: &str| wanted.iter().position(|one| one.function == function);
    let mut left: Vec<_> = ebpf
        .programs_mut()
        .filter_map(|(function, program)| Some((place(function)?, function, program)))
        .collect();
    // `pop` takes from the end: the first programs, which take longest, are loaded first.
    left.sort_by_key(|(place, ..)| Reverse(*place));
    let left = Mutex::new(left);
    let work = || {
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop();
        std::iter::from_fn(next)
            .map(|(place, function, program)| {
                (function.to_owned(), load_one(program, types, wanted[place].tracepoint))
            })
            .collect::<BTreeMap<_, _>>()
    };
    let others = std::thread::available_parallelism().map_or(0, |cpus| cpus.get() - 1);
    std::thread::scope(|scope| {
        let begun = || std::thread::Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (0..others.min(wanted.len())).map_while(|_| begun()).collect();
        let own = work();
        others.into_iter().flat_map(joined).chain(own).collect()
    })
}

fn load_one(program: &mut programs::Program, types: &Types, tracepoint: &str) -> Fate {
    let loaded = match program {
        programs::Program::RawTracePoint(program) => program.load(),
        _ if !types.has(tracepoint) => {
            return Err("this kernel has no such tracepoint".to_owned());
        }
        program => {
            let program: Result<&mut programs::BtfTracePoint, _> = program.try_into();
            program.and_then(|program| program.load(tracepoint, &types.tracepoints))
        }
    };
    loaded.map_err(|error| chain(&error))
}

fn attach_one(ebpf: &mut Ebpf, function: &str, tracepoint: &str) -> Fate {
    let attached = match ebpf.program_mut(function).ok_or("not in the object")? {
        programs::Program::RawTracePoint(program) => program.attach(tracepoint).map(drop),
        program => {
            let program: Result<&mut programs::BtfTracePoint, _> = program.try_into();
            program.and_then(|program| program.attach().map(drop))
        }
    };
    attached.map_err(|error| chain(&error))
}

/// Codes of relevant system calls for the programs: syncs have the number of their kind plus 1,
/// opens 16 and above, timed I/O calls 32 (only with `layers`).
pub(crate) fn calls(layers: bool) -> [u8; 512] {
    let mut calls = [0; 512];
    let known = [
        (libc::SYS_fsync, 1),
        (libc::SYS_fdatasync, 2),
        (libc::SYS_sync_file_range, 3),
        (libc::SYS_msync, 4),
        (libc::SYS_sync, 5),
        (libc::SYS_syncfs, 6),
        (libc::SYS_openat, 17),
        (libc::SYS_openat2, 18),
        (libc::SYS_fcntl, 20),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, 16),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, 19),
    ];
    let io = [
        libc::SYS_io_uring_enter,
        libc::SYS_io_submit,
        libc::SYS_io_getevents,
        libc::SYS_pread64,
        libc::SYS_pwrite64,
        libc::SYS_preadv,
        libc::SYS_pwritev,
        libc::SYS_preadv2,
        libc::SYS_pwritev2,
    ];
    let io = io.into_iter().filter(|_| layers).map(|number| (number, 32));
    for (number, call) in known.into_iter().chain(io) {
        if let Some(place) = usize::try_from(number).ok().and_then(|at| calls.get_mut(at)) {
            *place = call;
        }
    }
    calls
}
