//! For tests: a profile with data for every picture, and checks of pictures.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::Picture;
use crate::chart::reading;
use iosonde_model::record::ProfileRun;
use iosonde_model::record::facts::DeviceFacts;
use iosonde_model::record::profile::{
    Chunk, Class, Depth, Op, Places, ProfiledDevice, Subject, SyncKind, SyncPhases, SyncRun,
    Traffic, TrafficSeries,
};
use iosonde_model::record::run::{CounterSeries, HistogramSeries};
use iosonde_stats::Histogram;

/// Reproducible pseudo-random numbers.
struct Lot(u64);

impl Lot {
    /// A number in `0..1`.
    fn draw(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Distributed around `middle_ns`, with a heavy tail towards slow requests.
    fn latency(&mut self, middle_ns: f64) -> u64 {
        let tail = if self.draw() < 0.02 { 1.0 / (self.draw() + 0.002) } else { 1.0 };
        (middle_ns * (0.6 + 0.8 * self.draw()) * tail) as u64
    }
}

/// Requests on `vda` for 61.3 s, slower than usual by the factor `slow`.
pub(super) fn profile(slow: f64) -> ProfileRun {
    let mut lot = Lot(1);
    let reads =
        traffic(&mut lot, Op::Read, 40_000, 90e3 * slow, &[(4096, 36_000), (16_384, 4_000)]);
    let writes = traffic(
        &mut lot,
        Op::Write,
        9_000,
        600e3 * slow,
        &[(4096, 6_000), (8192, 500), (131_072, 2_000), (524_288, 300), (1_048_576, 200)],
    );
    let mut requested = traffic(&mut lot, Op::Flush, 900, 2.9e6 * slow, &[]);
    (requested.queued, requested.device_time) = (Histogram::new(), Histogram::new());
    let mut flushes = traffic(&mut lot, Op::Flush, 700, 2.2e6 * slow, &[]);
    flushes.class = Class::DeviceFlush;
    flushes.queued = Histogram::new();
    flushes.queued.record_many(30, 700);
    let series = [(Op::Read, 90e3 * slow, 650.0), (Op::Write, 600e3 * slow, 150.0)]
        .map(|(op, middle, rate)| series(&mut lot, op, middle, rate))
        .into();
    ProfileRun {
        subject: Subject::Command {
            words: ["fio", "--name=mix", "--rw=randrw", "--filename=/srv/<data>&more"]
                .map(str::to_owned)
                .into(),
            pid: 1,
        },
        measured_ns: 60_000_000_000,
        settle_ns: 1_300_000_000,
        devices: vec![device()],
        traffic: vec![reads, writes, requested, flushes],
        syncs: vec![sync(&mut lot, SyncKind::Fsync, 300), sync(&mut lot, SyncKind::Fdatasync, 700)],
        places: vec![map(&mut lot)],
        series,
        ..ProfileRun::default()
    }
}

fn traffic(lot: &mut Lot, op: Op, requests: u64, middle: f64, sizes: &[(u64, u64)]) -> Traffic {
    let mut traffic = Traffic {
        device: "vda".into(),
        op,
        requests,
        bytes: sizes.iter().map(|(size, requests)| size * requests).sum(),
        sizes: sizes.to_vec(),
        ..Traffic::default()
    };
    for _ in 0..requests {
        let (queued, device) = (lot.latency(middle * 0.02), lot.latency(middle));
        traffic.queued.record(queued);
        traffic.device_time.record(device);
        traffic.latency.record(queued + device);
        traffic.gaps.record(lot.latency(60e9 / requests as f64));
    }
    traffic
}

fn sync(lot: &mut Lot, kind: SyncKind, calls: u64) -> SyncRun {
    let mut latency = Histogram::new();
    (0..calls).for_each(|_| latency.record(lot.latency(2.6e6)));
    let time_ns = latency.sum() as f64;
    let journal = if kind == SyncKind::Fsync { 0.3 } else { 0.02 };
    let phases = Some(SyncPhases {
        data_ns: (time_ns * 0.15) as u64,
        journal_ns: (time_ns * journal) as u64,
        flush_ns: (time_ns * 0.4) as u64,
    });
    SyncRun { kind, group: 0, calls, errors: 0, latency, phases }
}

fn series(lot: &mut Lot, op: Op, middle: f64, rate: f64) -> TrafficSeries {
    let (mut counters, mut latencies) = (CounterSeries::default(), HistogramSeries::default());
    (counters.width_ns, latencies.width_ns) = (500_000_000, 1_000_000_000);
    for index in 0..123 {
        // A stall after a third of the time.
        let ops =
            if (40..44).contains(&index) { 0.0 } else { rate / 2.0 * (0.8 + 0.4 * lot.draw()) };
        counters.ops.push(ops as u64);
        counters.bytes.push(ops as u64 * 8192);
    }
    for pair in counters.ops.chunks(2) {
        let mut histogram = Histogram::new();
        for _ in 0..pair.iter().sum() {
            histogram.record(lot.latency(middle));
        }
        latencies.intervals.push(histogram.occupied().collect());
        latencies.exact.push(histogram.exact());
    }
    TrafficSeries { op, counters, latencies }
}

fn device() -> ProfiledDevice {
    let depth = |shift: u32| Depth {
        time_ns: [40, 25, 12, 8, 5, 4, 3, 2, 1]
            .iter()
            .zip(0..)
            .map(|(share, level)| {
                (if level == 0 { 0 } else { level * 2 + shift }, share * 600_000_000)
            })
            .collect(),
        arrivals: (0..18).map(|level| (level + shift, u64::from(40 - level))).collect(),
        max: 18 + shift,
        area_ns: 100_000_000_000,
    };
    ProfiledDevice {
        facts: DeviceFacts { name: "vda".into(), ..DeviceFacts::default() },
        program_depth: depth(0),
        depth: depth(3),
        ..ProfiledDevice::default()
    }
}

fn map(lot: &mut Lot) -> Places {
    let mut chunks = Vec::new();
    for number in (800..1200).chain(3000..3040) {
        let near = 1.0 / (0.02 + ((number as f64 - 900.0) / 300.0).abs());
        let (reads, writes) = ((near * 30.0 * lot.draw()) as u64, (near * 8.0 * lot.draw()) as u64);
        if reads + writes > 0 {
            chunks.push(Chunk { number, reads, writes, ..Chunk::default() });
        }
    }
    Places {
        device: "vda".into(),
        chunk_bytes: 16 << 20,
        block_bytes: 4096,
        chunks,
        ..Places::default()
    }
}

/// Fails if a picture has a layout fault. Writes the pictures into the folder `IOSONDE_PICTURES`,
/// if set, for inspection.
pub(super) fn looked_at(pictures: &[Picture]) {
    for (name, svg) in pictures {
        if let Some(folder) = std::env::var_os("IOSONDE_PICTURES") {
            std::fs::write(std::path::Path::new(&folder).join(name), svg).unwrap();
        }
        assert_eq!(reading::faults(svg), Vec::<String>::new(), "{name}");
        assert!(!svg.contains("<data>"), "{name}: a foreign text is not escaped");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}: not a number");
    }
}
