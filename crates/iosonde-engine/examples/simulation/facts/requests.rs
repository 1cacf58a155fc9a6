//! Findings about the outcome of requests and about a load that differs from the requested one. The
//! engine produces most of them on the simulated device.

use iosonde_analysis::pursuit::pursuit;
use iosonde_model::plan::{
    Arrivals, LatencyGoal, LatencyTarget, OnError, Order, Pace, Plan, Pursuit, Rate,
};
use iosonde_model::record::run::{HistogramSeries, SyncResult};
use iosonde_stats::Histogram;
use iosonde_stats::chance::Chance;

use super::{Line, Seen, between, finds, silent, whole};

/// Errors are counted without ending the run.
fn goes_on(plan: &mut Plan) {
    plan.on_error = OnError::Continue;
}

fn final_sync(seen: &mut Seen, error: &str) {
    seen.run.final_sync = Some(SyncResult {
        since_window_ns: 5_000_000,
        sync_ns: 3_000_000,
        bytes_since_start: 98_000_000,
        since_start_ns: 6_000_000_000,
        error: Some(error.into()),
    });
}

/// This share of the operations was sent late by a time within `late_ns`, all others by up to 30
/// us; operations due meanwhile wait.
fn sent_late(seen: &mut Seen, chance: &mut Chance, part: f64, late_ns: (u64, u64)) {
    let read = &mut seen.run.jobs[0].read;
    let (mut lag, mut response) = (Histogram::new(), Histogram::new());
    let mut responses =
        HistogramSeries { width_ns: read.responses.width_ns, ..read.responses.clone() };
    let intervals = read.responses.intervals.iter().zip(&read.responses.exact);
    for (at, (pairs, exact)) in intervals.enumerate() {
        let mut later = Histogram::new();
        for (ns, count) in Histogram::from_interval(pairs, *exact).midpoints() {
            for _ in 0..count {
                let (low, high) = if chance.unit() < part { late_ns } else { (5_000, 30_000) };
                let late = whole(chance, low, high);
                lag.record(late);
                later.record(ns + late);
            }
        }
        response.merge(&later);
        responses.intervals[at] = later.occupied().collect();
        responses.exact[at] = later.exact();
    }
    (read.lag, read.response, read.responses) = (lag, response, responses);
}

/// The plan requested `factor` times the rate that the engine kept.
fn asked(seen: &mut Seen, factor: f64) {
    if let Pace::Rate { rate: Rate::Ops(per_s), .. } = &mut seen.run.plan.jobs[0].pace {
        *per_s *= factor;
    }
}

/// The largest depth at which the p95 is below 4 ms.
fn p95_below_4_ms(plan: &mut Plan) {
    plan.jobs[0].iodepth = 64;
    plan.latency = LatencyGoal::Target {
        target: LatencyTarget { quantile: 0.95, limit_ns: 4_000_000 },
        pursuit: Pursuit::Search,
        patience_ns: 10_000_000_000,
    };
}

/// Places the limit: 0 is the estimate of the percentile, 1 the upper end of its interval.
fn limit_at(seen: &mut Seen, place: f64) {
    let Some(figures) = pursuit(&seen.run) else { return };
    let (Some(estimate), Some(Ok((_, high)))) =
        (figures.achieved.value_ns(), figures.achieved.interval())
    else {
        return;
    };
    if let LatencyGoal::Target { target, .. } = &mut seen.run.plan.latency {
        target.limit_ns = (estimate as f64 + place * (high as f64 - estimate as f64)) as u64;
    }
}

/// Separate jobs for reads and writes, with depths in the ratio 7 to 3.
fn of_two_jobs(plan: &mut Plan) {
    let mut writer = plan.jobs[0].clone();
    writer.read_percent = 0;
    writer.seed += 1_000_000;
    (plan.jobs[0].iodepth, writer.iodepth) = (7, 3);
    (plan.jobs[0].order, writer.order) = (Order::Uniform, Order::Uniform);
    plan.jobs.push(writer);
    plan.nominal_read_percent = 70;
}

/// One job with 70 % reads.
fn mixed(plan: &mut Plan) {
    plan.jobs[0].read_percent = 70;
    plan.nominal_read_percent = 70;
}

pub(super) fn lines() -> Vec<Line> {
    let mut lines = of_errors();
    lines.extend(of_the_load());
    lines.extend(of_open_loops());
    lines
}

fn of_errors() -> Vec<Line> {
    vec![
        finds("errors", "one read of 2,000 fails with EIO, counted", |_, _| {})
            .on("servers=4,read=exp:1ms,error-every=2000")
            .asks(goes_on),
        finds("errors", "a read after 4 s fails with EIO and ends the run", |_, _| {})
            .on("servers=4,read=exp:1ms,error-every=16000"),
        finds("errors", "one request never comes back", |seen, _| seen.run.jobs[0].abandoned = 1),
        finds("errors", "the final fsync fails with EIO", |seen, _| final_sync(seen, "EIO"))
            .writes(),
        silent("errors", "one read of 50 moves a half and is continued", |_, _| {})
            .on("servers=4,read=exp:1ms,short-every=50"),
        silent("errors", "one read of 100 is refused (EAGAIN) and sent again", |_, _| {})
            .on("servers=4,read=exp:1ms,error-every=100,errno=11"),
        finds("data_differs", "one block of 2,000 differs, counted", |_, _| {})
            .on("servers=4,read=exp:1ms,error-every=2000,errno=84")
            .asks(goes_on),
        silent("data_differs", "one block of 2,000 cannot be read (EIO)", |_, _| {})
            .and("errors")
            .on("servers=4,read=exp:1ms,error-every=2000")
            .asks(goes_on),
        finds("no_space", "a write after 4 s fails with ENOSPC", |_, _| {})
            .on("servers=4,write=exp:1ms,error-every=16000,errno=28")
            .writes(),
        finds("no_space", "one write of 2,000 exceeds the quota, counted", |_, _| {})
            .on("servers=4,write=exp:1ms,error-every=2000,errno=122")
            .asks(goes_on)
            .writes(),
        finds("no_space", "the final fsync finds no space", |seen, _| final_sync(seen, "ENOSPC"))
            .writes(),
        silent("no_space", "0.1 % of the file system is free, no error", |seen, chance| {
            seen.run.target.free_bytes = Some(whole(chance, 1 << 20, 1 << 24));
        })
        .writes(),
        silent("no_space", "one write of 2,000 fails with EIO, counted", |_, _| {})
            .and("errors")
            .on("servers=4,write=exp:1ms,error-every=2000")
            .asks(goes_on)
            .writes(),
        finds("not_supported", "one write of 2,000 fails with EOPNOTSUPP, counted", |_, _| {})
            .on("servers=4,write=exp:1ms,error-every=2000,errno=95")
            .asks(goes_on)
            .writes(),
        silent("not_supported", "one write of 2,000 fails with EINVAL, counted", |_, _| {})
            .and("errors")
            .on("servers=4,write=exp:1ms,error-every=2000,errno=22")
            .asks(goes_on)
            .writes(),
        finds("limit_missed", "a freeze of 30 ms, max_latency 25 ms", |_, _| {})
            .on("servers=4,read=exp:1ms,stall-every=4s,stall-for=30ms")
            .asks(|plan| plan.jobs[0].span.most_latency_ns = 25_000_000),
        finds("limit_missed", "4,000/s, rate_iops_min 4,400", |_, _| {}).asks(|plan| {
            plan.jobs[0].limits.least_read = Some(Rate::Ops(4_400.0));
            plan.jobs[0].limits.least_over_ns = 1_000_000_000;
        }),
        silent("limit_missed", "a freeze of 30 ms, max_latency 50 ms", |_, _| {})
            .on("servers=4,read=exp:1ms,stall-every=4s,stall-for=30ms")
            .asks(|plan| plan.jobs[0].span.most_latency_ns = 50_000_000),
        silent("limit_missed", "4,000/s, rate_iops_min 3,600", |_, _| {}).asks(|plan| {
            plan.jobs[0].limits.least_read = Some(Rate::Ops(3_600.0));
            plan.jobs[0].limits.least_over_ns = 1_000_000_000;
        }),
    ]
}

fn of_the_load() -> Vec<Line> {
    vec![
        finds("mix_off", "70 % reads by depth, writes twice as slow", |_, _| {})
            .on("servers=16,read=1ms,write=2ms")
            .asks(of_two_jobs),
        silent("mix_off", "70 % reads in one job, writes twice as slow", |_, _| {})
            .on("servers=16,read=1ms,write=2ms")
            .asks(mixed),
        silent("mix_off", "70 % reads in one job, 100/s", |_, _| {})
            .on("servers=2,read=exp:20ms,write=exp:20ms")
            .asks(mixed),
        silent("mix_off", "a reading role and a writing one", |_, _| {})
            .on("servers=16,read=1ms,write=2ms")
            .asks(|plan| {
                of_two_jobs(plan);
                (plan.jobs[0].role, plan.jobs[1].role) = ("reader".into(), "writer".into());
            }),
        finds("depth_not_applied", "depth 8 to 64 requested, 1 in flight", |seen, chance| {
            seen.run.plan.jobs[0].iodepth = 8 << chance.below(4);
        })
        .depth(1),
        finds("depth_not_applied", "depth 10 to 14 requested, 8 in flight", |seen, chance| {
            seen.run.plan.jobs[0].iodepth = whole(chance, 10, 14) as u32;
        }),
        silent("depth_not_applied", "depth 32, completions waited for in fours", |_, _| {})
            .depth(32)
            .asks(|plan| (plan.jobs[0].reap.complete_min, plan.jobs[0].batch) = (4, 4)),
        silent("depth_not_applied", "depth 8, 1 in flight, completed in submission", |seen, _| {
            seen.run.plan.jobs[0].iodepth = 8;
            (seen.run.jobs[0].inline_probed, seen.run.jobs[0].inline_seen) = (100, 100);
        })
        .depth(1),
        silent("depth_not_applied", "depth 8, a pause after each request", |_, _| {}).asks(
            |plan| {
                (plan.jobs[0].think.ns, plan.jobs[0].think.every_ops) = (1_000_000, 1);
            },
        ),
        finds("no_steady_part", "a disk that reads from inside to outside", |_, _| {})
            .on("rpm=7200,track=400k,inner-track=1M,size=1g")
            .asks(|plan| {
                plan.jobs[0].block_bytes = 64 << 10;
                plan.jobs[0].order = Order::Sequential { start_block: 0, lane: 0, lanes: 1 };
            }),
        silent("no_steady_part", "a disk that reads outside", |_, _| {})
            .on("rpm=7200,track=1M,inner-track=400k,size=100g")
            .asks(|plan| {
                plan.jobs[0].block_bytes = 64 << 10;
                plan.jobs[0].order = Order::Sequential { start_block: 0, lane: 0, lanes: 1 };
            }),
        finds("latency_target", "p95 below a limit within its interval", |seen, chance| {
            limit_at(seen, between(chance, 0.1, 0.9));
        })
        .on("servers=4,read=exp:1ms")
        .seconds(10)
        .asks(p95_below_4_ms),
        silent("latency_target", "p95 below a limit above its interval", |seen, chance| {
            limit_at(seen, between(chance, 1.1, 2.0));
        })
        .on("servers=4,read=exp:1ms")
        .seconds(10)
        .asks(p95_below_4_ms),
    ]
}

fn of_open_loops() -> Vec<Line> {
    let poisson = Arrivals::Poisson;
    vec![
        finds("client_lag", "3 to 20 % sent 0.3 to 2 ms late, slots free", |seen, chance| {
            let part = between(chance, 0.03, 0.2);
            sent_late(seen, chance, part, (300_000, 2_000_000));
        })
        .open(2e3, poisson.clone()),
        silent("client_lag", "all sent 5 to 60 us late", |seen, chance| {
            sent_late(seen, chance, 0.5, (5_000, 60_000));
        })
        .open(2e3, poisson.clone()),
        silent("client_lag", "0.1 to 0.7 % sent 0.3 to 2 ms late", |seen, chance| {
            let part = between(chance, 0.001, 0.007);
            sent_late(seen, chance, part, (300_000, 2_000_000));
        })
        .open(2e3, poisson.clone()),
        silent("client_lag", "sent late for want of free slots, 80 % load", |_, _| {})
            .open(3.2e3, poisson.clone())
            .asks(|plan| plan.jobs[0].iodepth = 8),
        finds("off_schedule", "0.6 to 0.9 of the rate requested", |seen, chance| {
            asked(seen, 1.0 / between(chance, 0.6, 0.9));
        })
        .open(2e3, poisson.clone()),
        finds("off_schedule", "even arrivals where Poisson ones were requested", |seen, _| {
            if let Pace::Rate { arrivals, .. } = &mut seen.run.plan.jobs[0].pace {
                *arrivals = Arrivals::Poisson;
            }
        })
        .open(2e3, Arrivals::Constant),
        silent("off_schedule", "0.993 to 0.997 of the rate requested", |seen, chance| {
            asked(seen, 1.0 / between(chance, 0.993, 0.997));
        })
        .open(2e3, poisson.clone()),
        silent("off_schedule", "20 requests per second, by chance", |_, _| {}).open(20.0, poisson),
    ]
}
