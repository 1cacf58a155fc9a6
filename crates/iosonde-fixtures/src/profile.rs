//! Synthetic profiles for tests: consistent by construction, then modified by the test.

use std::collections::BTreeMap;

use iosonde_model::record::HostFacts;
use iosonde_model::record::ProfileRun;
use iosonde_model::record::facts::{DeviceCounters, DeviceFacts, TelemetrySample};
use iosonde_model::record::profile::{
    CallCounts, Chunk, Class, Depth, Ended, FileRun, FileSystemRun, FileSystemWork, Flag, FlagRun,
    Group, Method, Op, OpenCounts, PROFILE_SCHEMA, PageCache, Places, ProfiledDevice, Source,
    Subject, SyncKind, SyncPhases, SyncRun, ThreadRun, Traffic, TrafficSeries,
};
use iosonde_model::record::run::{CounterSeries, HistogramSeries, ProcessUse};
use iosonde_stats::Histogram;

/// Length of every synthetic profile, seconds.
pub const SECONDS: u64 = 10;
const SECOND: u64 = 1_000_000_000;

/// One kind of requests of a synthetic profile, spread evenly over it.
#[derive(Clone, Copy)]
pub struct Flow {
    pub device: &'static str,
    pub class: Class,
    pub op: Op,
    /// Name of its threads.
    pub group: &'static str,
    pub threads: u32,
    pub requests: u64,
    pub size_bytes: u64,
    /// Time of each request in the block layer's queue, and in the device.
    pub queued_ns: u64,
    pub device_ns: u64,
    /// Shares in thousandths.
    pub sequential_milli: u64,
    pub strided_milli: u64,
    pub direct_milli: u64,
    /// Requests that arrive together; 1 for evenly spaced ones.
    pub burst: u64,
}

impl Default for Flow {
    fn default() -> Self {
        Flow {
            device: "vda",
            class: Class::Program,
            op: Op::Read,
            group: "app",
            threads: 1,
            requests: 50_000,
            size_bytes: 4096,
            queued_ns: 10_000,
            device_ns: 90_000,
            sequential_milli: 0,
            strided_milli: 0,
            direct_milli: 1_000,
            burst: 1,
        }
    }
}

/// A complete profile of these requests: 10 s, all requests recorded, nothing lost.
pub fn profile_of(flows: &[Flow]) -> ProfileRun {
    let mut run = ProfileRun {
        schema: PROFILE_SCHEMA.into(),
        program: "test".into(),
        subject: Subject::Command {
            words: vec!["app".into(), "--fast".into(), "a b".into()],
            pid: 100,
        },
        ended: Ended::Exited { code: 0 },
        started_unix_ns: 1_700_000_000 * SECOND,
        measured_ns: SECONDS * SECOND,
        host: HostFacts {
            kernel: Some("6.18.0".into()),
            memory_bytes: Some(8 << 30),
            cpus_online: Some(2),
            ..HostFacts::default()
        },
        source: Source {
            method: Method::Tracepoints,
            attribution: "block_io_start".into(),
            ..Source::default()
        },
        groups: vec![Group { name: "others".into(), threads: 0 }],
        opens: Some(OpenCounts { opens: 5, direct: 1, ..OpenCounts::default() }),
        calls: Some(CallCounts::default()),
        page_cache: Some(PageCache::default()),
        cpu: Some(ProcessUse {
            span_ns: SECONDS * SECOND,
            cpu_user_ns: SECOND,
            cpu_system_ns: 2 * SECOND,
            voluntary_switches: 50_000,
            involuntary_switches: 100,
            max_rss_bytes: 20 << 20,
        }),
        io_delay_ns: Some(5 * SECOND),
        telemetry: (0..=SECONDS).map(look).collect(),
        machine_switches: Some((1_000, 201_000)),
        collector: ProcessUse {
            span_ns: SECONDS * SECOND,
            cpu_user_ns: SECOND / 100,
            cpu_system_ns: SECOND / 100,
            ..ProcessUse::default()
        },
        ..ProfileRun::default()
    };
    for flow in flows {
        add(&mut run, flow);
    }
    run
}

/// CPU time: 20 % user, 10 % system, 10 % waiting for I/O.
fn look(second: u64) -> TelemetrySample {
    TelemetrySample {
        at_ns: i64::try_from(second * SECOND).unwrap_or(0),
        cpu_ticks: Some([20, 10, 60, 10, 0].map(|share| share * 2 * second)),
        io_pressure_us: Some(250_000 * second),
        ..TelemetrySample::default()
    }
}

/// Adds sync calls of one kind and equal latency by a group that already has requests. A tenth of
/// each is data, a fifth the journal, half the flush.
pub fn with_syncs(run: &mut ProfileRun, group: &str, kind: SyncKind, calls: u64, latency_ns: u64) {
    let index = group_index(run, group, 1);
    let latency = many(latency_ns, calls);
    let time_ns = calls * latency_ns;
    let phases =
        Some(SyncPhases { data_ns: time_ns / 10, journal_ns: time_ns / 5, flush_ns: time_ns / 2 });
    run.syncs.push(SyncRun { kind, group: index, calls, errors: 0, latency, phases });
    if let Some(thread) = run.threads.iter_mut().find(|thread| thread.name == group) {
        thread.syncs += calls;
        thread.sync_ns += calls * latency_ns;
    }
}

/// Adds chunks of 1 MiB with equal counts.
pub fn with_places(run: &mut ProfileRun, chunks: u64, each: Chunk) {
    run.places.push(Places {
        device: "vda".into(),
        chunk_bytes: 1 << 20,
        block_bytes: 4096,
        chunks: (0..chunks).map(|number| Chunk { number: number + 100, ..each }).collect(),
        ..Places::default()
    });
}

fn many(value: u64, times: u64) -> Histogram {
    let mut histogram = Histogram::new();
    if times > 0 {
        histogram.record_many(value, times);
    }
    histogram
}

fn add(run: &mut ProfileRun, flow: &Flow) {
    let group = match flow.class {
        Class::Journal | Class::Other | Class::DeviceFlush => 0,
        _ => group_index(run, flow.group, flow.threads),
    };
    let traffic = traffic(flow, group);
    let own = flow.class.is_of_the_program();
    device(run, flow, own);
    thread(run, flow, &traffic);
    if own {
        series(run, flow);
        file(run, flow, &traffic);
    }
    run.traffic.push(traffic);
}

fn group_index(run: &mut ProfileRun, name: &str, threads: u32) -> u32 {
    let at = run.groups.iter().position(|group| group.name == name).unwrap_or_else(|| {
        run.groups.push(Group { name: name.into(), threads });
        run.groups.len() - 1
    });
    u32::try_from(at).unwrap_or(0)
}

fn traffic(flow: &Flow, group: u32) -> Traffic {
    let bytes = flow.requests * flow.size_bytes;
    let part = |milli: u64| flow.requests * milli / 1_000;
    // Bursts of equal requests: almost no time passes within a burst.
    let bursts = flow.requests / flow.burst.max(1);
    let between_ns = SECONDS * SECOND / bursts.max(1);
    let mut gaps = many(between_ns, bursts.saturating_sub(1));
    let within = flow.requests.saturating_sub(bursts);
    if within > 0 {
        gaps.record_many(1_000, within);
    }
    Traffic {
        device: flow.device.into(),
        class: flow.class,
        op: flow.op,
        group,
        requests: flow.requests,
        bytes,
        direct_bytes: bytes * flow.direct_milli / 1_000,
        latency: many(flow.queued_ns + flow.device_ns, flow.requests),
        queued: many(flow.queued_ns, flow.requests),
        device_time: many(flow.device_ns, flow.requests),
        sizes: if bytes > 0 { vec![(flow.size_bytes, flow.requests)] } else { vec![] },
        sequential: part(flow.sequential_milli),
        strided: part(flow.strided_milli),
        gap_square_sum: bursts.saturating_sub(1) as f64 * (between_ns as f64).powi(2)
            + within as f64 * 1e6,
        gaps,
        active_ns: Some((0, SECONDS * SECOND)),
        ..Traffic::default()
    }
}

/// Adds the flow to the counters and the depth of its device.
fn device(run: &mut ProfileRun, flow: &Flow, own: bool) {
    let at = run.devices.iter().position(|device| device.facts.name == flow.device);
    let at = at.unwrap_or_else(|| {
        run.devices.push(ProfiledDevice {
            facts: DeviceFacts { name: flow.device.into(), ..DeviceFacts::default() },
            counters: Some((DeviceCounters::default(), DeviceCounters::default())),
            ..ProfiledDevice::default()
        });
        run.devices.len() - 1
    });
    let device = &mut run.devices[at];
    let area_ns = flow.requests * (flow.queued_ns + flow.device_ns);
    if let Some((_, end)) = &mut device.counters {
        let sectors = flow.requests * flow.size_bytes / 512;
        match (flow.op, flow.class) {
            (Op::Read, _) => {
                end.reads += flow.requests;
                end.read_sectors += sectors;
                end.read_ms += area_ns / 1_000_000;
            }
            (Op::Flush, Class::DeviceFlush) => end.flushes += flow.requests,
            (Op::Discard, _) => end.discards += flow.requests,
            _ => {
                end.writes += flow.requests;
                end.write_sectors += sectors;
                end.write_ms += area_ns / 1_000_000;
            }
        }
        end.weighted_ms += area_ns / 1_000_000;
        end.busy_ms = (end.weighted_ms).min(SECONDS * 1_000);
    }
    deepen(&mut device.depth, area_ns, flow.requests);
    if own {
        deepen(&mut device.program_depth, area_ns, flow.requests);
    }
}

/// Adds request-time. The depth is then always one of the two integers around its mean.
fn deepen(depth: &mut Depth, area_ns: u64, requests: u64) {
    let all_ns = SECONDS * SECOND;
    depth.area_ns += area_ns;
    let low = u32::try_from(depth.area_ns / all_ns).unwrap_or(u32::MAX);
    let high_ns = depth.area_ns - u64::from(low) * all_ns;
    depth.time_ns = vec![(low, all_ns - high_ns), (low + 1, high_ns)];
    let known: u64 = depth.arrivals.iter().map(|(_, requests)| requests).sum();
    depth.arrivals = vec![(low, known + requests)];
    depth.max = low + 1;
}

fn thread(run: &mut ProfileRun, flow: &Flow, traffic: &Traffic) {
    let (name, of_program, of_kernel) = match flow.class {
        Class::Program => (flow.group, true, false),
        Class::WriteBack => ("kworker/u8:1+fl", false, true),
        Class::Journal | Class::DeviceFlush => ("jbd2/vda1-8", false, true),
        Class::Other => ("someone else", false, false),
    };
    let tid = 1_000 + run.threads.len() as u32;
    let at = run.threads.iter().position(|thread| thread.name == name).unwrap_or_else(|| {
        let tid = Some(tid);
        let name = name.into();
        run.threads.push(ThreadRun { name, tid, of_program, of_kernel, ..ThreadRun::default() });
        run.threads.len() - 1
    });
    let thread = &mut run.threads[at];
    match flow.op {
        Op::Read => {
            thread.reads += flow.requests;
            thread.read_bytes += traffic.bytes;
        }
        Op::Write => {
            thread.writes += flow.requests;
            thread.write_bytes += traffic.bytes;
        }
        _ => thread.others += flow.requests,
    }
    thread.sequential += traffic.sequential;
}

fn file(run: &mut ProfileRun, flow: &Flow, traffic: &Traffic) {
    let mut file = FileRun {
        path: format!("/data/{} file", flow.group),
        device: flow.device.into(),
        inode: 12,
        direct_bytes: traffic.direct_bytes,
        sequential: traffic.sequential,
        ..FileRun::default()
    };
    match flow.op {
        Op::Read => {
            (file.reads, file.read_bytes) = (flow.requests, traffic.bytes);
            file.read_latency = traffic.latency.clone();
        }
        Op::Write => {
            (file.writes, file.write_bytes) = (flow.requests, traffic.bytes);
            file.write_latency = traffic.latency.clone();
        }
        _ => return,
    }
    if flow.class == Class::WriteBack {
        file.write_back_bytes = traffic.bytes;
    }
    run.files.push(file);
}

fn series(run: &mut ProfileRun, flow: &Flow) {
    // The remainder of the division is in the last second.
    let (each, rest) = (flow.requests / SECONDS, flow.requests % SECONDS);
    let counts: Vec<u64> =
        (0..SECONDS).map(|at| if at + 1 == SECONDS { each + rest } else { each }).collect();
    let latencies: Vec<Histogram> =
        counts.iter().map(|count| many(flow.queued_ns + flow.device_ns, *count)).collect();
    run.series.push(TrafficSeries {
        op: flow.op,
        counters: CounterSeries {
            width_ns: SECOND,
            bytes: counts.iter().map(|count| count * flow.size_bytes).collect(),
            ops: counts,
        },
        latencies: HistogramSeries {
            width_ns: SECOND,
            intervals: latencies.iter().map(|each| each.occupied().collect()).collect(),
            exact: latencies.iter().map(Histogram::exact).collect(),
        },
    });
}

/// A profile from counters only, as an unprivileged user gets it.
pub fn by_counters() -> ProfileRun {
    let mut run = profile_of(&[Flow::default()]);
    run.source = Source {
        method: Method::Counters,
        missing: vec![iosonde_model::record::profile::Missing {
            what: "requests".into(),
            reason: "CAP_BPF and CAP_PERFMON are missing".into(),
            fix: Some("run as root, or with these capabilities".into()),
        }],
        ..Source::default()
    };
    run.calls = Some(CallCounts {
        reads: 50_000,
        read_bytes: 204_800_000,
        storage_read_bytes: 204_800_000,
        ..CallCounts::default()
    });
    run.traffic.clear();
    run.threads.clear();
    run.files.clear();
    run.series.clear();
    run.groups.clear();
    run.flags.clear();
    run.file_systems.clear();
    run.opens = None;
    run.page_cache = None;
    run.lost = BTreeMap::new();
    for device in &mut run.devices {
        device.depth = Depth::default();
        device.program_depth = Depth::default();
    }
    run
}

/// A database: a log writer that waits for each fdatasync, random readers, page writeback, a
/// journal, and another process.
pub fn database() -> ProfileRun {
    let log = Flow {
        op: Op::Write,
        group: "log writer",
        requests: 20_000,
        queued_ns: 5_000,
        device_ns: 45_000,
        sequential_milli: 990,
        direct_milli: 0,
        ..Flow::default()
    };
    let kernel = Flow { group: "", direct_milli: 0, ..Flow::default() };
    let mut run = profile_of(&[
        log,
        Flow { requests: 80_000, group: "reader", threads: 4, size_bytes: 8192, ..Flow::default() },
        Flow {
            class: Class::WriteBack,
            requests: 1_000,
            size_bytes: 256 << 10,
            device_ns: 2_000_000,
            sequential_milli: 600,
            op: Op::Write,
            group: "reader",
            burst: 50,
            ..log
        },
        Flow { class: Class::Journal, op: Op::Write, requests: 10_000, size_bytes: 8192, ..kernel },
        Flow {
            class: Class::DeviceFlush,
            op: Op::Flush,
            requests: 20_000,
            size_bytes: 0,
            device_ns: 300_000,
            ..kernel
        },
        Flow { class: Class::Other, requests: 3_000, ..kernel },
    ]);
    let flag = |op, flag, requests, size: u64, latency_ns| FlagRun {
        op,
        flag,
        bytes: requests * size,
        latency: many(latency_ns, requests),
    };
    run.flags = vec![
        flag(Op::Read, Flag::None, 80_000, 8192, 100_000),
        flag(Op::Write, Flag::None, 1_000, 256 << 10, 2_005_000),
        flag(Op::Write, Flag::Sync, 20_000, 4096, 50_000),
        flag(Op::Write, Flag::Meta, 10_000, 8192, 100_000),
    ];
    let work = |work, times, amount, total_ns| FileSystemRun { work, times, amount, total_ns };
    run.file_systems = vec![
        work(FileSystemWork::PagesOfProgram, 20_000, 20_000, 1_000_000_000),
        work(FileSystemWork::WriteBackAge, 4, 64_000, 2_100_000_000),
        work(FileSystemWork::Commit, 5_000, 10_000, 600_000_000),
        work(FileSystemWork::CommitOperations, 5_000, 20_500, 0),
        work(FileSystemWork::CommitWait, 5_000, 0, 50_000_000),
        work(FileSystemWork::CommitData, 5_000, 0, 150_000_000),
        work(FileSystemWork::CommitLog, 5_000, 0, 400_000_000),
    ];
    with_syncs(&mut run, "log writer", SyncKind::Fdatasync, 20_000, 455_000);
    with_syncs(&mut run, "reader", SyncKind::Fsync, 20, 9_000_000);
    let each = Chunk {
        reads: 400,
        writes: 100,
        read_blocks: 100,
        written_blocks: 20,
        touched_blocks: 110,
        block_writes: 200,
        overwrites: 180,
        ..Chunk::default()
    };
    with_places(&mut run, 50, each);
    run
}
