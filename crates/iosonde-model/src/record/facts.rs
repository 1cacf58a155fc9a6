//! Facts about machine and target. Each is optional, since no kernel exposes all of them.

use serde::{Deserialize, Serialize};

use super::WriteAudit;

/// Facts about this machine, read once per command.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct HostFacts {
    /// Name of the machine.
    pub hostname: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Distribution, as `/etc/os-release` names it.
    pub os: Option<String>,
    /// Processor model.
    pub cpu_model: Option<String>,
    pub cpus_online: Option<u32>,
    /// CPUs this process may use: affinity mask, capped by the cgroup's CPU quota (rounded up).
    pub cpus_allowed: Option<u32>,
    /// CPU numbers of the affinity mask.
    pub cpu_list: Vec<u32>,
    /// Cgroup CPU quota, in thousandths of a CPU.
    pub cpu_quota_milli: Option<u64>,
    /// Frequency governor of CPU 0.
    pub governor: Option<String>,
    /// Whether turbo or boost frequencies are allowed.
    pub turbo: Option<bool>,
    /// Whether two threads of a core are online.
    pub smt: Option<bool>,
    /// `vulnerability: state` of every CPU mitigation listed by the kernel.
    pub mitigations: Vec<String>,
    /// Total memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Memory available now: the smaller of MemAvailable and what the cgroup leaves, bytes.
    pub memory_available_bytes: Option<u64>,
    /// Cgroup memory limit, bytes.
    pub memory_limit_bytes: Option<u64>,
    /// NUMA nodes online.
    pub numa_nodes: Option<u32>,
    /// Clock source in use.
    pub clocksource: Option<String>,
    /// Whether the CPU has an invariant time-stamp counter.
    pub invariant_tsc: Option<bool>,
    /// Hypervisor or container kind (`kvm`, `docker`, `wsl2`), if recognised.
    pub virtualization: Vec<String>,
    /// `kernel.io_uring_disabled`.
    pub io_uring_disabled: Option<u32>,
    /// Memory that may be locked, bytes (RLIMIT_MEMLOCK); `u64::MAX` for no limit.
    pub memlock_bytes: Option<u64>,
}

/// Facts about the target, as observed.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct TargetFacts {
    /// Path as given.
    pub path: String,
    /// `file`, `block device`, `character device`, `directory`, `null`, `simulated`,
    /// `vhost-user-blk device`.
    pub kind: String,
    /// File system type by its magic number (`ext4`, `tmpfs`), or `unknown (0x…)`.
    pub filesystem: Option<String>,
    /// Class of that file system.
    pub class: FilesystemClass,
    /// Mount point and source of the mount that holds the path.
    pub mount_point: Option<String>,
    /// Source of that mount (`/dev/vda1`).
    pub mount_source: Option<String>,
    /// Mount and super-block options.
    pub mount_options: Vec<String>,
    /// Size of the file or device, bytes.
    pub bytes: Option<u64>,
    /// Free space on the file system for this user, bytes.
    pub free_bytes: Option<u64>,
    /// Whether the descriptor in use was opened for direct I/O.
    pub direct: bool,
    /// Why direct I/O is not in effect although it was requested.
    pub direct_refused: Option<String>,
    /// Direct I/O alignment of memory, bytes (statx DIOALIGN); 0 means direct I/O is not supported.
    pub dio_mem_align: Option<u32>,
    /// Direct I/O alignment of offsets and lengths, bytes.
    pub dio_offset_align: Option<u32>,
    /// O_NOATIME in effect.
    pub noatime: bool,
    /// Bytes of the tested range that are holes. If `extents` is at its limit of 100,000, this and
    /// the next four fields cover only these extents.
    pub hole_bytes: Option<u64>,
    /// Bytes in preallocated, never written extents.
    pub unwritten_bytes: Option<u64>,
    /// Bytes in extents shared with another file (reflink).
    pub shared_bytes: Option<u64>,
    /// Bytes in compressed (encoded) extents.
    pub encoded_bytes: Option<u64>,
    /// Extents seen; `None` if the file system does not report them.
    pub extents: Option<u64>,
    /// Sampled blocks that were in the page cache before the run, and all sampled blocks.
    pub cached_samples: Option<(u32, u32)>,
    /// Whether requests that would block are refused (every RWF_NOWAIT probe returns EAGAIN):
    /// io_uring then hands each request to a worker thread.
    pub punted: Option<bool>,
    /// The block device underneath, where there is one.
    pub device: Option<DeviceFacts>,
    /// Cgroup I/O limits that bind this process on this device.
    pub io_limits: Vec<IoLimit>,
    /// Health reports of the drive before and after the run, if requested.
    pub smart: Option<SmartPair>,
    /// Safety checks of each written target before it was opened for writing.
    pub write_audits: Vec<WriteAudit>,
}

/// Output of `smartctl --json -a` before and after a run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct SmartPair {
    /// Report before the run.
    pub before: Option<serde_json::Value>,
    /// Report after the run.
    pub after: Option<serde_json::Value>,
    /// Why one of them is missing.
    pub missing: Option<String>,
}

/// How a file system relates to storage.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FilesystemClass {
    /// On local storage.
    Local,
    /// In memory (tmpfs, ramfs).
    Memory,
    /// Reached over a network.
    Network,
    /// Stacked on another file system (overlay, ecryptfs).
    Stacked,
    /// Shared from a hypervisor or another system (9p, virtiofs, vboxsf, drvfs).
    HostShare,
    /// Served by a program (FUSE).
    UserSpace,
    /// Not a place for files (proc, sysfs, …).
    Virtual,
    /// Not recognised.
    #[default]
    Unknown,
}

/// A block device as sysfs shows it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct DeviceFacts {
    /// Kernel name of the whole disk (`nvme0n1`).
    pub name: String,
    /// Kernel name of the partition, if the target is on one.
    pub partition: Option<String>,
    /// Major and minor number of the target's own device.
    pub major_minor: (u32, u32),
    /// Model.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Firmware revision.
    pub firmware: Option<String>,
    /// World-wide name.
    pub wwid: Option<String>,
    /// Size of the whole disk, bytes.
    pub bytes: Option<u64>,
    /// Logical block size, bytes.
    pub logical_block_bytes: Option<u32>,
    /// Physical block size, bytes.
    pub physical_block_bytes: Option<u32>,
    /// Active I/O scheduler.
    pub scheduler: Option<String>,
    /// Write cache as the kernel sees it (`write back`, `write through`).
    pub write_cache: Option<String>,
    /// Rotational flag as the kernel shows it (often wrong for virtual disks).
    pub rotational: Option<bool>,
    /// Queue depth of the block layer (nr_requests).
    pub nr_requests: Option<u32>,
    /// Largest request, KiB.
    pub max_sectors_kb: Option<u32>,
    /// Transport (`nvme`, `virtio`, `sata`, `usb`, `loop`, `zram`, `md`, `dm`, …).
    pub transport: Option<String>,
    /// Current link speed and width, as the kernel reports it (`8.0 GT/s PCIe x2`).
    pub link: Option<String>,
    /// Fastest link that both ends support; `None` if only one end is known (SATA, USB).
    pub link_max: Option<String>,
    /// Payload ceiling of the link, bytes per second, if known (method: PCIe per lane x 0.90).
    pub link_bytes_per_s: Option<u64>,
    /// Whether it is a virtual disk.
    pub is_virtual: Option<bool>,
    /// Offset of the partition from an optimal boundary, bytes (alignment_offset).
    pub alignment_offset: Option<i64>,
    /// Where the partition begins on the disk, bytes.
    pub partition_start_bytes: Option<u64>,
    /// Devices underneath (dm, md, loop backing), by kernel name or path.
    pub slaves: Vec<String>,
}

/// A cgroup limit on one device.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct IoLimit {
    /// Cgroup path, and file that holds the limit.
    pub source: String,
    pub kind: IoLimitKind,
    /// Limit per second.
    pub per_second: u64,
}

/// What a cgroup limit counts.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IoLimitKind {
    /// Bytes read per second.
    ReadBytes,
    /// Reads per second.
    ReadIops,
    /// Bytes written per second.
    WriteBytes,
    /// Writes per second.
    WriteIops,
}

/// The fields in use of the eleven to seventeen in `/sys/block/*/stat`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct DeviceCounters {
    /// Reads completed.
    pub reads: u64,
    /// Reads merged.
    pub read_merges: u64,
    /// Sectors of 512 bytes read.
    pub read_sectors: u64,
    /// Milliseconds spent reading, summed over requests.
    pub read_ms: u64,
    /// Writes completed.
    pub writes: u64,
    /// Writes merged.
    pub write_merges: u64,
    /// Sectors of 512 bytes written.
    pub write_sectors: u64,
    /// Milliseconds spent writing, summed over requests.
    pub write_ms: u64,
    /// Requests in flight when the counters were read.
    #[serde(default)]
    pub in_flight: u64,
    /// Milliseconds with at least one request in flight.
    pub busy_ms: u64,
    /// Milliseconds weighted by requests in flight.
    pub weighted_ms: u64,
    /// Discards completed.
    pub discards: u64,
    /// Flushes completed.
    pub flushes: u64,
    /// Milliseconds spent flushing.
    pub flush_ms: u64,
}

/// Activity of another process, from shortly before the run to its end.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Neighbour {
    /// Process id.
    pub pid: u32,
    /// Its name, as reported by the kernel.
    pub program: String,
    /// Path of its cgroup: in the unified hierarchy, else in the one that limits I/O.
    pub cgroup: Option<String>,
    /// Bytes read from storage for it, on all devices.
    pub read_bytes: u64,
    /// Bytes written to storage for it, on all devices.
    pub written_bytes: u64,
    /// CPU time, ns.
    pub cpu_ns: u64,
}

/// One sample of the machine during a run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct TelemetrySample {
    /// Nanoseconds since the run's clock zero (may be negative: before the measured window).
    pub at_ns: i64,
    /// Device temperature, thousandths of a degree Celsius.
    pub device_temperature_mc: Option<i64>,
    /// CPU package temperature, thousandths of a degree Celsius.
    pub cpu_temperature_mc: Option<i64>,
    /// CPU thermal throttle events since boot, summed.
    pub cpu_throttle_count: Option<u64>,
    /// Device counters.
    pub device: Option<DeviceCounters>,
    /// CPU time in ticks since boot: user + nice, system + irq, idle, iowait, steal.
    pub cpu_ticks: Option<[u64; 5]>,
    /// Microseconds some task waited for I/O since boot (/proc/pressure/io, `some total`).
    pub io_pressure_us: Option<u64>,
    /// Microseconds some task waited for CPU since boot.
    pub cpu_pressure_us: Option<u64>,
    /// Microseconds some task waited for memory since boot.
    pub memory_pressure_us: Option<u64>,
}
