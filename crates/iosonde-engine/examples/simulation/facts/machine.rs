//! Findings about the machine during the run: its CPUs, clocks and limits.

use iosonde_model::plan::{Arrivals, Engine, EngineKind};
use iosonde_model::record::facts::{IoLimit, IoLimitKind};

use super::{Line, Seen, between, finds, one_of, share, silent, whole};

/// A device behind a cgroup limit of 2,000 requests per second.
const LIMITED: &str = "servers=4,read=exp:1ms,write=exp:1ms,rate=2000";

/// Sets the kernel's limit of the read rate.
fn limit(seen: &mut Seen, kind: IoLimitKind, per_second: f64) {
    seen.run.target.io_limits =
        vec![IoLimit { source: "/job/io.max".into(), kind, per_second: per_second as u64 }];
}

/// Two jobs of half the depth.
fn two_jobs(plan: &mut iosonde_model::plan::Plan) {
    let mut second = plan.jobs[0].clone();
    (second.seed, second.order) = (second.seed + 1_000_000, iosonde_model::plan::Order::Uniform);
    (plan.jobs[0].iodepth, second.iodepth) = (4, 4);
    plan.jobs[0].order = iosonde_model::plan::Order::Uniform;
    plan.jobs.push(second);
}

/// Both CPUs of the machine are busy for this share.
fn full(seen: &mut Seen, busy: f64) {
    (seen.host.cpus_online, seen.host.cpus_allowed) = (Some(2), Some(2));
    seen.busy(busy);
}

/// While the client computes, the device is mostly idle.
fn device_waits(seen: &mut Seen, part: f64) {
    let whole = seen.run.jobs.iter().map(|job| job.in_flight_area_ns / 1_000_000).sum();
    let end = seen.end();
    (end.weighted_ms, end.read_ms) = (share(whole, part), share(whole, part));
}

pub(super) fn lines() -> Vec<Line> {
    let mut lines = of_limits();
    lines.extend(of_cpus());
    lines.extend(of_clocks());
    lines
}

fn of_limits() -> Vec<Line> {
    vec![
        finds("cgroup_limit", "2,000 reads/s, limit of 0.98 to 1.02 of it", |seen, chance| {
            limit(seen, IoLimitKind::ReadIops, 2e3 * between(chance, 0.98, 1.02));
        })
        .on(LIMITED),
        finds("cgroup_limit", "8.2 MB/s read, limit of 0.98 to 1.02 of it", |seen, chance| {
            limit(seen, IoLimitKind::ReadBytes, 2e3 * 4096.0 * between(chance, 0.98, 1.02));
        })
        .on(LIMITED),
        finds("cgroup_limit", "2,000 writes/s, limit of 0.98 to 1.02 of it", |seen, chance| {
            limit(seen, IoLimitKind::WriteIops, 2e3 * between(chance, 0.98, 1.02));
        })
        .on(LIMITED)
        .writes(),
        silent("cgroup_limit", "4,000 reads/s, limit of 1.1 to 3 times that", |seen, chance| {
            limit(seen, IoLimitKind::ReadIops, 4e3 * between(chance, 1.1, 3.0));
        }),
        silent(
            "cgroup_limit",
            "2,000 reads/s in open loop, limit of 0.98 to 1.02 of it",
            |seen, chance| {
                limit(seen, IoLimitKind::ReadIops, 2e3 * between(chance, 0.98, 1.02));
            },
        )
        .open(2e3, Arrivals::Poisson),
        silent("cgroup_limit", "2,000 reads/s, limit of as many writes", |seen, _| {
            limit(seen, IoLimitKind::WriteIops, 2e3);
        })
        .on(LIMITED),
        finds("engine_fallback", "psync, for io_uring is forbidden", |seen, _| {
            seen.run.plan.engine = Engine::of(EngineKind::Psync);
            seen.run.plan.engine.chosen_because = "io_uring is forbidden here (EPERM)".into();
        })
        .depth(1),
        silent("engine_fallback", "psync, as requested", |seen, _| {
            seen.run.plan.engine = Engine::of(EngineKind::Psync);
        })
        .depth(1),
        silent("engine_fallback", "io_uring, the default", |seen, _| {
            seen.run.plan.engine.chosen_because = "io_uring is the default".into();
        }),
    ]
}

fn of_cpus() -> Vec<Line> {
    vec![
        finds("client_cpu", "0.93 to 1 of the job's CPU", |seen, chance| {
            seen.cpu(between(chance, 0.93, 1.0));
            device_waits(seen, between(chance, 0.1, 0.6));
        }),
        finds("client_cpu", "both CPUs of the machine full, most of it own", |seen, chance| {
            seen.cpu(between(chance, 0.65, 0.85));
            full(seen, between(chance, 0.93, 1.0));
        })
        .asks(two_jobs),
        silent("client_cpu", "0.7 to 0.88 of the job's CPU", |seen, chance| {
            seen.cpu(between(chance, 0.7, 0.88));
        }),
        silent("client_cpu", "a job that polls, 0.97 to 1 of its CPU", |seen, chance| {
            seen.run.plan.engine.iopoll = true;
            seen.cpu(between(chance, 0.97, 1.0));
        }),
        silent("client_cpu", "both CPUs of the machine full, most of others", |seen, chance| {
            seen.cpu(between(chance, 0.1, 0.4));
            full(seen, between(chance, 0.93, 1.0));
        })
        .asks(two_jobs),
        finds("client_sched", "a pause of 500 ms of 5 s, in which nothing completes", |seen, _| {
            seen.run.hiccups.record(500_000_000);
        })
        .and("stall")
        .on("servers=4,read=exp:1ms,stall-every=4s,stall-for=500ms"),
        finds("client_sched", "4 to 10 % of the wake-ups 15 to 50 ms late", |seen, chance| {
            for _ in 0..whole(chance, 8, 20) {
                seen.run.hiccups.record(whole(chance, 15_000_000, 50_000_000));
            }
        }),
        silent("client_sched", "a pause of 20 to 90 ms", |seen, chance| {
            seen.run.hiccups.record(whole(chance, 20_000_000, 90_000_000));
        }),
        silent("client_sched", "4 to 10 % of the wake-ups 1 to 3 ms late", |seen, chance| {
            for _ in 0..whole(chance, 8, 20) {
                seen.run.hiccups.record(whole(chance, 1_000_000, 3_000_000));
            }
        }),
    ]
}

fn of_clocks() -> Vec<Line> {
    vec![
        finds("clock_suspect", "a drift of 60 to 500 ppm", |seen, chance| {
            let sign = [-1, 1][chance.index(2)];
            seen.run.backend.clock_drift_ppb = sign * whole(chance, 60_000, 500_000) as i64;
        }),
        finds("clock_suspect", "clock source hpet, acpi_pm or jiffies", |seen, chance| {
            seen.host.clocksource = Some(one_of(chance, &["hpet", "acpi_pm", "jiffies"]).into());
        }),
        finds(
            "clock_suspect",
            "a job with 1.05 to 1.5 times the CPU time there is",
            |seen, chance| {
                let job = &mut seen.run.jobs[0];
                job.cpu_system_ns = share(job.measured_ns, between(chance, 1.05, 1.5));
            },
        ),
        silent("clock_suspect", "a drift of 5 to 45 ppm", |seen, chance| {
            let sign = [-1, 1][chance.index(2)];
            seen.run.backend.clock_drift_ppb = sign * whole(chance, 5_000, 45_000) as i64;
        }),
        silent("clock_suspect", "clock source kvm-clock or arch_sys_counter", |seen, chance| {
            seen.host.clocksource = Some(one_of(chance, &["kvm-clock", "arch_sys_counter"]).into());
        }),
        finds("suspended", "asleep for 20 ms to 60 s", |seen, chance| {
            let slept_ns = 10f64.powf(between(chance, 7.3, 10.8));
            seen.run.measured_boottime_ns += slept_ns as u64;
        }),
        silent("suspended", "clocks apart by up to 9 ms", |seen, chance| {
            seen.run.measured_boottime_ns += whole(chance, 0, 9_000_000);
        }),
    ]
}
