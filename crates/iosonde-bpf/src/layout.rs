//! Types of the maps' values: the Rust side of `bpf/layout.h`. Loading checks each size against the
//! compiled object.

/// A unit of time in histograms is `1 << TIME_SHIFT` ns.
pub const TIME_SHIFT: u32 = 6;
/// A unit of size in histograms is `1 << SIZE_SHIFT` B.
pub const SIZE_SHIFT: u32 = 9;
/// Buckets of a histogram of times.
pub const TIME_BUCKETS: usize = 864;
/// Buckets of a histogram of sizes.
pub const SIZE_BUCKETS: usize = 576;
/// Buckets of a histogram of depths.
pub const DEPTH_BUCKETS: usize = 256;
/// A unit of time in histograms of files and cgroups is `1 << COARSE_SHIFT` ns.
pub const COARSE_SHIFT: u32 = 10;
/// Buckets of a histogram of files and cgroups.
pub const COARSE_BUCKETS: usize = 176;
/// Maximum number of slots.
pub const SLOTS: u32 = 128;
/// Bytes of a block, the unit within a chunk.
pub const BLOCK_BYTES: u64 = 1 << 12;
/// Bytes of a chunk.
pub const CHUNK_BYTES: u64 = 1 << 20;
/// Path components of a file that are kept.
pub const NAMES: usize = 17;
/// Bytes of each component, including a zero at the end.
pub const NAME_BYTES: usize = 56;
/// Operations from this number on are syncs, by kind.
pub const SYNC: u8 = 16;
/// Phases of a sync: data is written, the journal is written, the cache is flushed.
pub const PHASES: usize = 3;
/// Number of flags of requests, including none.
pub const FLAGS: u32 = 5;
/// Buckets of bursts: of 1 request, of 2 and 3, of 4 to 7.
pub const BURST_BUCKETS: usize = 16;
/// Distance from which a request begins a new burst, ns.
pub const WITHIN_BURST_NS: u64 = 1 << 15;
/// Places of files.
pub const FILE_PLACES: u32 = 8192;

/// Declares a plain structure shared with the kernel programs.
macro_rules! shared {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        #[repr(C)]
        pub struct $name { $($(#[$what])* pub $field: $kind,)* }

        // SAFETY: repr(C), integers and arrays of them only; the kernel side has the same fields
        // in the same order without padding, so every byte is initialised.
        unsafe impl aya::Pod for $name {}
    };
}

mod buckets;
mod flight;
mod places;
mod stacks;
mod times;

pub use buckets::{bucket_edges, bucket_of, coarse_edges};
pub use flight::Flight;
pub use places::{Chunk, ChunkKey, Sampling};
pub use stacks::{Blocked, STACK_OF_REQUEST, STACK_OF_WAIT, StackKey, StackUse};
pub use times::{CgroupUse, Times};

shared! {
    /// State of counting, set by user space.
    #[derive(Default)]
    Control {
        /// Incremented when a process is followed, so that known threads are checked again.
        generation: u32,
        /// 1 once requests count.
        has_begun: u32,
    }
}

shared! {
    /// Key of requests that are counted together.
    #[derive(Default, Eq, Ord, PartialEq, PartialOrd)]
    SlotKey {
        /// Kernel-internal `dev_t` of the whole disk; 0 for syncs.
        disk: u32,
        /// Operation, or [`SYNC`] and a kind.
        op: u8,
        /// Class.
        class: u8,
        /// Thread group.
        group: u16,
    }
}

shared! {
    /// Counts of one slot on one CPU. Bucket counts wrap.
    Slot {
        /// Requests that ended.
        requests: u64,
        /// Bytes.
        bytes: u64,
        /// Bytes that bypass the page cache.
        direct_bytes: u64,
        /// Writes with FUA or a flush.
        durable: u64,
        /// Requests with an error.
        errors: u64,
        /// Sequential requests.
        sequential: u64,
        /// Strided requests.
        strided: u64,
        /// Sum of latencies, ns.
        total_ns: u64,
        /// Sum of waiting times, ns.
        queued_ns: u64,
        /// Sum of device times, ns.
        device_ns: u64,
        /// Smallest latency, ns; valid if `total_max_ns` is not 0.
        total_min_ns: u64,
        /// Largest latency, ns.
        total_max_ns: u64,
        /// Distances between starts.
        gaps: u64,
        /// Sum of the distances, ns.
        gap_ns: u64,
        /// Sum of the squared distances, µs².
        gap_us_squared: u64,
        /// First start on this CPU, CLOCK_MONOTONIC ns; 0 for none.
        first_ns: u64,
        /// Last end on this CPU, ns.
        last_ns: u64,
        /// For syncs: time in each of [`PHASES`], ns.
        phase_ns: [u64; PHASES],
        /// Ended bursts, by the logarithm of their number of requests.
        bursts: [u32; BURST_BUCKETS],
        /// Latencies.
        total: [u32; TIME_BUCKETS],
        /// Waiting times.
        queued: [u32; TIME_BUCKETS],
        /// Device times.
        device: [u32; TIME_BUCKETS],
        /// Distances between starts.
        gap: [u32; TIME_BUCKETS],
        /// Sizes.
        size: [u32; SIZE_BUCKETS],
    }
}

shared! {
    /// Requests in flight on a disk now.
    #[derive(Default)]
    Depth {
        /// All requests in the low half, the program's in the high half.
        level: u64,
        /// Time of the last change, ns.
        since_ns: u64,
        /// Internal.
        spare: [u64; 6],
    }
}

shared! {
    /// Requests in flight so far, on one CPU.
    Levels {
        /// Highest level.
        max: u64,
        /// Sum of the latencies of requests that ended by a merge, ns.
        merged_ns: u64,
        /// Time at each level, ns.
        time_ns: [u64; DEPTH_BUCKETS],
        /// Requests that arrived at each level.
        arrivals: [u64; DEPTH_BUCKETS],
    }
}

impl Levels {
    /// No requests.
    pub const NONE: Levels =
        Levels { max: 0, merged_ns: 0, time_ns: [0; DEPTH_BUCKETS], arrivals: [0; DEPTH_BUCKETS] };
}

shared! {
    /// Levels of all requests and of the program's.
    DepthUse {
        /// All requests.
        all: Levels,
        /// The program's requests.
        program: Levels,
        /// While all requests were the program's: counts for each of the two.
        both: Levels,
    }
}

shared! {
    /// Reads or writes with a flag, on one CPU.
    FlagUse {
        /// Bytes.
        bytes: u64,
        /// Sum of latencies, ns.
        total_ns: u64,
        /// Latencies.
        time: [u64; TIME_BUCKETS],
    }
}

shared! {
    /// Work of file systems of one kind, on one CPU.
    WorkUse {
        /// Number of operations.
        times: u64,
        /// Pages, blocks or operations.
        amount: u64,
        /// Time spent, ns.
        ns: u64,
    }
}

shared! {
    /// A thread.
    Thread {
        /// Thread id.
        tid: u32,
        /// Process id.
        tgid: u32,
        /// Internal.
        generation: u32,
        /// Thread group.
        group: u16,
        /// Whether it is followed.
        of_program: u8,
        /// Whether it is the kernel's.
        of_kernel: u8,
        /// Name.
        comm: [u8; 16],
        /// Read requests.
        reads: u64,
        /// Write requests.
        writes: u64,
        /// Other requests.
        others: u64,
        /// Bytes read.
        read_bytes: u64,
        /// Bytes written.
        write_bytes: u64,
        /// Sequential requests.
        sequential: u64,
        /// Syncs that returned.
        syncs: u64,
        /// Time in syncs, ns.
        sync_ns: u64,
        /// Start of the current sync, ns; 0 for none.
        sync_since_ns: u64,
        /// Internal.
        sync_phase_ns: [u64; PHASES],
        /// When the thread ended, ns; 0 if it has not.
        ended_ns: u64,
        /// Internal.
        streams: [u64; 12],
        /// Internal.
        last_sector: u64,
        /// Internal.
        last_distance: i64,
        /// Internal.
        next_new: u32,
        /// Internal.
        next_kept: u32,
        /// Internal.
        inode: u64,
        /// The file of its last request.
        file: FileKey,
        /// Internal.
        file_place: FilePlace,
        /// Internal.
        call_ns: u64,
        /// Internal.
        posted_ns: u64,
        /// Internal.
        wait_since_ns: u64,
        /// Internal.
        disk: u32,
        /// Internal.
        disk_index: u32,
        /// Internal.
        slot_key: SlotKey,
        /// Internal.
        slot: u32,
        /// Internal.
        cgroup_place: u32,
        /// Internal.
        cgroup: u64,
        /// Pages that its read calls looked up in the page cache.
        looked_up: u64,
        /// Pages that the thread brought in, including those read ahead.
        brought_in: u64,
        /// Internal.
        read: [u64; 3],
        /// Internal.
        added: [u64; 4],
    }
}

shared! {
    /// A file.
    #[derive(Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
    FileKey {
        /// `dev_t` of its file system, or of the device itself if it is one.
        device: u32,
        /// One of `FILE_…`.
        kind: u32,
        /// Inode number.
        inode: u64,
        /// Generation of the inode, because inode numbers are reused.
        generation: u32,
        /// Zero.
        zero: u32,
    }
}

shared! {
    /// Location of the counts of a file.
    #[derive(Default)]
    FilePlace {
        /// Its place; 0 if the table was full.
        place: u32,
        /// Time since which the place is this file's, low half, ns.
        since: u32,
    }
}

/// A file with an inode.
pub const FILE_NAMED: u32 = 0;
/// A device's own page cache: metadata of its file system, or the device opened as a file.
pub const FILE_OF_DEVICE: u32 = 1;
/// Direct I/O whose file is not reported.
pub const FILE_UNKNOWN: u32 = 2;

shared! {
    /// Accesses to a file.
    FileUse {
        /// Internal.
        since_ns: u64,
        /// Read requests.
        reads: u64,
        /// Write requests.
        writes: u64,
        /// Bytes read through the page cache, and bypassing it.
        read_bytes: [u64; 2],
        /// Bytes written through the page cache, and bypassing it.
        write_bytes: [u64; 2],
        /// Bytes written by write-back.
        write_back_bytes: u64,
        /// Sequential requests.
        sequential: u64,
        /// Number of names kept.
        names: u32,
        /// Whether the root of the file system was reached.
        is_whole: u32,
        /// Internal.
        kept_inode: u64,
        /// Its name, then those of its parent directories.
        name: [[u8; NAME_BYTES]; NAMES],
    }
}

impl FileUse {
    /// No accesses.
    pub const NONE: FileUse = FileUse {
        since_ns: 0,
        reads: 0,
        writes: 0,
        read_bytes: [0; 2],
        write_bytes: [0; 2],
        write_back_bytes: 0,
        sequential: 0,
        names: 0,
        is_whole: 0,
        kept_inode: 0,
        name: [[0; NAME_BYTES]; NAMES],
    };

    /// Bytes read.
    pub fn read(&self) -> u64 {
        self.read_bytes.iter().sum()
    }

    /// Bytes written.
    pub fn written(&self) -> u64 {
        self.write_bytes.iter().sum()
    }

    /// Bytes read and written that bypass the page cache.
    pub fn direct(&self) -> u64 {
        self.read_bytes[1] + self.write_bytes[1]
    }
}

/// Layers of an I/O call that are timed: see [`Layers`].
pub const LAYERS: usize = 4;

shared! {
    /// Time of I/O calls outside the block layer and the device, on one CPU. In this order: from
    /// the call to the submission of the request (io_uring); from there to the block layer; from
    /// the device's end to the posted completion (io_uring); from there, or from the device's end,
    /// to the return of the call.
    Layers {
        /// Number of spans.
        calls: [u64; LAYERS],
        /// Sums of the spans, ns.
        sum_ns: [u64; LAYERS],
        /// Histograms.
        time: [[u32; TIME_BUCKETS]; LAYERS],
    }
}

shared! {
    /// Counters that exist once.
    Counts {
        /// Opens.
        opens: u64,
        /// Opens and fcntl calls that set O_DIRECT.
        open_direct: u64,
        /// Opens and fcntl calls that set O_SYNC.
        open_sync: u64,
        /// Opens and fcntl calls that set O_DSYNC without O_SYNC.
        open_dsync: u64,
        /// Read calls of threads that ended.
        calls_read: u64,
        /// Write calls of threads that ended.
        calls_write: u64,
        /// Bytes of those read calls.
        bytes_read: u64,
        /// Bytes of those write calls.
        bytes_written: u64,
        /// Bytes fetched from storage.
        storage_read: u64,
        /// Bytes caused to be written.
        storage_written: u64,
        /// Bytes truncated before they were written.
        cancelled: u64,
        /// Time waited for block I/O, ns: by delay accounting of threads that ended, or by the
        /// programs for all threads.
        io_delay_ns: u64,
        /// Time that ended threads were ready to run without a CPU, ns.
        run_delay_ns: u64,
        /// Threads that ended.
        ended_threads: u64,
        /// Bytes of pages dirtied.
        dirtied_bytes: u64,
        /// Bytes written through the page cache.
        written_back_bytes: u64,
        /// Requests that did not fit in the table of requests in flight.
        lost_flights: u64,
        /// Requests for which there was no slot.
        lost_slots: u64,
        /// Threads that did not fit in the table.
        lost_threads: u64,
        /// Bytes whose place on the disk was not kept.
        lost_chunk_bytes: u64,
        /// Requests of cgroups that did not fit in the table.
        lost_cgroups: u64,
        /// Syncs that did not fit in the table.
        lost_syncs: u64,
        /// Requests that began again without a completion seen.
        lost_ends: u64,
        /// Stacks that did not fit in the table.
        lost_stacks: u64,
    }
}
