//! Findings about the drive, and about what it and its link report.

use iosonde_model::plan::{Draw, Order};
use iosonde_model::record::run::SyncResult;
use serde_json::{Value, json};

use super::{Line, Seen, between, finds, healthy_log, one_of, share, silent, whole};

/// Half as fast in the second half of the window.
const FALLS: &str = "servers=4,read=exp:1ms,slow-every=3500ms,slow-for=3500ms,slow-by=2";

/// The run ended with an fsync of this duration.
fn synced(seen: &mut Seen, sync_ns: u64) {
    let written: u64 = seen.run.jobs.iter().map(|job| job.write.bytes).sum();
    let since_ns = seen.run.measured_ns + seen.run.plan.warmup_ns;
    seen.run.final_sync = Some(SyncResult {
        since_window_ns: 2_000_000 + sync_ns,
        sync_ns,
        bytes_since_start: share(written, since_ns as f64 / seen.run.measured_ns as f64),
        since_start_ns: since_ns + 2_000_000 + sync_ns,
        error: None,
    });
}

fn write_back(seen: &mut Seen) {
    seen.device().write_cache = Some("write back".into());
}

/// Sets the drive's temperature of each sample, thousandths of a degree.
fn degrees(seen: &mut Seen, mut each: impl FnMut() -> u64) {
    for sample in &mut seen.run.telemetry {
        sample.device_temperature_mc = Some(each() as i64);
    }
}

/// A copy of the log with another value.
fn with(log: &Value, name: &str, value: u64) -> Value {
    let mut log = log.clone();
    log[name] = json!(value);
    log
}

/// A copy of the log with a value increased.
fn grown(log: &Value, name: &str, by: u64) -> Value {
    with(log, name, log[name].as_u64().unwrap_or(0) + by)
}

/// Bytes read per second.
fn rate(seen: &Seen) -> f64 {
    let bytes: u64 = seen.run.jobs.iter().map(|job| job.read.bytes).sum();
    bytes as f64 * 1e9 / seen.run.measured_ns as f64
}

/// The link's rate is `factor` times the run's.
fn link_of(seen: &mut Seen, factor: f64) {
    let ceiling = (rate(seen) * factor) as u64;
    seen.device().link_bytes_per_s = Some(ceiling);
}

pub(super) fn lines() -> Vec<Line> {
    let mut lines = of_the_path();
    lines.extend(of_caches());
    lines.extend(of_health());
    lines
}

fn of_the_path() -> Vec<Line> {
    vec![
        finds("link_down", "fewer lanes or a lower speed than both ends have", |seen, chance| {
            let links = ["8.0 GT/s PCIe x2", "2.5 GT/s PCIe x4", "5.0 GT/s PCIe x1"];
            seen.device().link = Some(one_of(chance, &links).into());
            link_of(seen, between(chance, 2.0, 20.0));
        }),
        finds("link_down", "one lane of four, 87 to 100 % of it used", |seen, chance| {
            seen.device().link = Some("8.0 GT/s PCIe x1".into());
            link_of(seen, between(chance, 1.0, 1.15));
        }),
        silent("link_down", "all lanes, 87 to 100 % of them used", |seen, chance| {
            link_of(seen, between(chance, 1.0, 1.15));
        }),
        silent("link_down", "SATA at 3.0 Gbps, of a drive whose most is not known", |seen, _| {
            seen.device().transport = Some("sata".into());
            seen.device().link = Some("3.0 Gbps".into());
            (seen.device().link_max, seen.device().link_bytes_per_s) = (None, Some(300_000_000));
        }),
        finds("physics", "1.1 to 2 times what the link carries", |seen, chance| {
            link_of(seen, 1.0 / between(chance, 1.1, 2.0));
        }),
        finds("physics", "latency of a half to 0.95 of a bare request", |seen, chance| {
            let part = between(chance, 0.5, 0.95);
            seen.run.backend.tool_overhead_ps = (3_000_000.0 / part) as u64;
        })
        .on("read=3us")
        .depth(1)
        .seconds(1),
        silent("physics", "96 to 104 % of what the link carries", |seen, chance| {
            link_of(seen, 1.0 / between(chance, 0.96, 1.04));
        }),
        silent("physics", "latency of 1.05 to 2 times a bare request", |seen, chance| {
            let times = between(chance, 1.05, 2.0);
            seen.run.backend.tool_overhead_ps = (3_000_000.0 / times) as u64;
        })
        .on("read=3us")
        .depth(1)
        .seconds(1),
        finds("split_requests", "128 to 512 KiB in requests of at most 64 KiB", |seen, _| {
            seen.device().max_sectors_kb = Some(64);
            let parts = seen.run.plan.jobs[0].block_bytes >> 16;
            let ours = seen.run.jobs[0].read.ops;
            seen.end().reads += ours * (parts - 1);
        })
        .asks(|plan| plan.jobs[0].block_bytes = (128 << 10) << (plan.seed % 3)),
        silent("split_requests", "64 KiB in requests of at most 64 KiB", |seen, _| {
            seen.device().max_sectors_kb = Some(64);
        })
        .asks(|plan| plan.jobs[0].block_bytes = 64 << 10),
        silent("split_requests", "more parts than the limit explains", |seen, _| {
            seen.device().max_sectors_kb = Some(64);
            let (ops, pages) =
                (seen.run.jobs[0].read.ops, seen.run.plan.jobs[0].block_bytes / 4096);
            seen.end().reads += ops * (pages - 1);
        })
        .asks(|plan| plan.jobs[0].block_bytes = (128 << 10) << (plan.seed % 3)),
        finds("misaligned", "4 KiB writes, partition from sector 63, 4 KiB blocks", |seen, _| {
            seen.device().physical_block_bytes = Some(4096);
            seen.device().partition_start_bytes = Some(63 * 512);
        })
        .writes(),
        finds("misaligned", "the kernel says that it is misaligned (-1)", |seen, _| {
            seen.device().physical_block_bytes = Some(4096);
            seen.device().alignment_offset = Some(-1);
        })
        .writes(),
        finds("misaligned", "writes of 512 B to 2 KiB on 4 KiB blocks", |seen, _| {
            seen.device().physical_block_bytes = Some(4096);
        })
        .asks(|plan| plan.jobs[0].block_bytes = 512 << (plan.seed % 3))
        .writes(),
        finds("misaligned", "writes of 1 KiB to 4 KiB on 4 KiB blocks", |seen, _| {
            seen.device().physical_block_bytes = Some(4096);
        })
        .asks(|plan| {
            plan.jobs[0].order = Order::Uniform;
            plan.jobs[0].unit_bytes = 4096;
            plan.jobs[0].sizes.write = Draw::Range { low: 1024, high: 4096, step: 1024 };
        })
        .writes(),
        finds("misaligned", "4 KiB writes at multiples of 512 B, 4 KiB blocks", |seen, _| {
            seen.device().physical_block_bytes = Some(4096);
        })
        .asks(|plan| {
            plan.jobs[0].order = Order::Uniform;
            plan.jobs[0].unit_bytes = 512;
        })
        .writes(),
        silent("misaligned", "writes of 512 B to 2 KiB on 512 B blocks", |_, _| {})
            .asks(|plan| plan.jobs[0].block_bytes = 512 << (plan.seed % 3))
            .writes(),
        silent("misaligned", "reads of 512 B to 2 KiB on 4 KiB blocks", |seen, _| {
            seen.device().physical_block_bytes = Some(4096);
        })
        .asks(|plan| plan.jobs[0].block_bytes = 512 << (plan.seed % 3)),
        silent("misaligned", "4 KiB writes, partition from 1 MiB, 4 KiB blocks", |seen, _| {
            seen.device().physical_block_bytes = Some(4096);
        })
        .writes(),
    ]
}

fn of_caches() -> Vec<Line> {
    vec![
        finds("write_cache_volatile", "writes to a write-back cache", |seen, _| write_back(seen))
            .writes(),
        silent("write_cache_volatile", "writes to a write-through cache", |_, _| {}).writes(),
        silent("write_cache_volatile", "reads from a device with a write-back cache", |seen, _| {
            write_back(seen);
        }),
        finds(
            "fsync_suspicious",
            "fsync of 5 to 90 us, 98 MB to a write-back cache",
            |seen, chance| {
                write_back(seen);
                synced(seen, whole(chance, 5_000, 90_000));
            },
        )
        .note("write_cache_volatile")
        .writes(),
        silent("fsync_suspicious", "fsync of 0.11 to 5 ms, write-back cache", |seen, chance| {
            write_back(seen);
            synced(seen, whole(chance, 110_000, 5_000_000));
        })
        .note("write_cache_volatile")
        .writes(),
        silent("fsync_suspicious", "fsync of 5 to 90 us, write-through cache", |seen, chance| {
            synced(seen, whole(chance, 5_000, 90_000));
        })
        .writes(),
        silent("fsync_suspicious", "fsync of 5 to 90 us after 49 MB", |seen, chance| {
            write_back(seen);
            synced(seen, whole(chance, 5_000, 90_000));
        })
        .note("write_cache_volatile")
        .writes()
        .seconds(2),
    ]
}

fn of_health() -> Vec<Line> {
    vec![
        finds("smart_failing", "1 to 20 media errors during the run", |seen, chance| {
            let log = healthy_log(chance);
            let after = grown(&log, "media_errors", whole(chance, 1, 20));
            seen.health(log, after);
        }),
        finds(
            "smart_failing",
            "critical warning: spare, reliability or read-only",
            |seen, chance| {
                let bits = [0x01, 0x04, 0x08, 0x05][chance.index(4)];
                let log = with(&healthy_log(chance), "critical_warning", bits);
                seen.health(log.clone(), log);
            },
        ),
        finds("smart_failing", "a SATA drive whose self-assessment failed", |seen, _| {
            let smart = seen.run.target.smart.get_or_insert_default();
            let report = json!({ "smart_status": { "passed": false } });
            (smart.before, smart.after) = (Some(report.clone()), Some(report));
        }),
        silent("smart_failing", "media errors before the run, none during it", |seen, chance| {
            let log = with(&healthy_log(chance), "media_errors", whole(chance, 1, 1_000));
            seen.health(log.clone(), log);
        }),
        silent("smart_failing", "used beyond its rated life, no warning", |seen, chance| {
            let log = with(&healthy_log(chance), "percentage_used", whole(chance, 100, 140));
            seen.health(log.clone(), log);
        }),
        silent("smart_failing", "critical warning: temperature alone", |seen, chance| {
            let before = healthy_log(chance);
            let after = with(&before, "critical_warning", 0x02);
            seen.health(before, after);
            let smart = seen.run.target.smart.get_or_insert_default();
            // smartctl derives this from any warning.
            if let Some(report) = &mut smart.after {
                report["smart_status"] = json!({ "passed": false, "nvme": { "value": 2 } });
            }
        })
        .and("thermal"),
        finds("thermal", "the drive was too hot for 1 to 5 minutes more", |seen, chance| {
            let log = healthy_log(chance);
            let name = one_of(chance, &["warning_temp_time", "critical_comp_time"]);
            let after = grown(&log, name, whole(chance, 1, 5));
            seen.health(log, after);
        }),
        finds("thermal", "72 to 85 degrees, and the rate halves", |seen, chance| {
            degrees(seen, || whole(chance, 72_000, 85_000));
        })
        .and("level_drop")
        .on(FALLS),
        finds("thermal", "1 to 50 throttle events of the CPU", |seen, chance| {
            let events = whole(chance, 1, 50);
            if let Some(last) = seen.run.telemetry.last_mut() {
                last.cpu_throttle_count = Some(7 + events);
            }
        }),
        silent("thermal", "72 to 85 degrees, an even rate", |seen, chance| {
            degrees(seen, || whole(chance, 72_000, 85_000));
        }),
        silent("thermal", "55 to 68 degrees, and the rate halves", |seen, chance| {
            degrees(seen, || whole(chance, 55_000, 68_000));
        })
        .and("level_drop")
        .on(FALLS),
    ]
}
