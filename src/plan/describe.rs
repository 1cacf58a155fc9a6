//! A plan in words, for `--dry-run`: one line per fact, resolved values only.

use super::{Job, Order, Plan, Stop};
use crate::spec::Zone;
use crate::units::{bytes, count};

/// Plan and estimate in words, for `--dry-run`: one line per fact, resolved values only.
pub fn describe(plan: &Plan) -> String {
    let mut out = format!(
        "plan {}  ({})\n  engine    {}{}\n\
         \x20 target    {}, {} bytes from 0, {}, alignment {} B\n\
         \x20 seed      {}\n",
        plan.title,
        &plan.hash()[..12],
        plan.engine.kind.word(),
        if plan.engine.chosen_because.is_empty() {
            String::new()
        } else {
            format!(" ({})", plan.engine.chosen_because)
        },
        plan.target().path,
        count::thousands(plan.target().bytes),
        if plan.target().direct { "direct" } else { "buffered" },
        plan.target().align_bytes,
        plan.seed,
    );
    let seconds = |ns: u64| format!("{} s", count::significant(ns as f64 / 1e9));
    let stop = match plan.stop {
        Stop::AfterNs(ns) => {
            format!("{} warm-up, then {} measured", seconds(plan.warmup_ns), seconds(ns))
        }
        Stop::AfterOps(ops) => format!("{} operations per job", count::thousands(ops)),
        Stop::AfterBytes(length) => format!("{} per job", bytes::exact(length)),
        Stop::AfterOnePass => "one pass over each region".into(),
    };
    out.push_str(&format!("  length    {stop}\n"));
    out.push_str(&format!("  buffers   {}\n", bytes::exact(plan.buffer_bytes())));
    out.push_str(&format!("  writes    {}\n", volume(plan)));
    for note in &plan.notes {
        out.push_str(&format!("  note      {note}\n"));
    }
    for (index, job) in plan.jobs.iter().enumerate() {
        out.push_str(&format!(
            "  job {index:<5} {}: {} % reads, {} blocks, depth {}, {} in [{}, {})\n",
            job.role,
            job.read_percent,
            bytes::exact(job.block_bytes),
            job.iodepth,
            order_words(&job.order),
            job.region_start,
            job.region_start + job.region_bytes,
        ));
    }
    out
}

/// How much will be written, as far as the plan knows.
fn volume(plan: &Plan) -> String {
    if !plan.writes() {
        return "nothing".into();
    }
    let write_share = |job: &Job| f64::from(100 - job.read_percent) / 100.0;
    match plan.stop {
        Stop::AfterNs(_) => "as much as the target takes in the time".into(),
        Stop::AfterOps(ops) => {
            let bytes: f64 = plan
                .jobs
                .iter()
                .map(|job| ops as f64 * job.block_bytes as f64 * write_share(job))
                .sum();
            format!("about {}", bytes::rough(bytes as u64))
        }
        Stop::AfterBytes(length) => {
            let bytes: f64 = plan.jobs.iter().map(|job| length as f64 * write_share(job)).sum();
            format!("about {}", bytes::rough(bytes as u64))
        }
        Stop::AfterOnePass => {
            let bytes: f64 = plan
                .jobs
                .iter()
                .map(|job| {
                    job.region_bytes as f64 * write_share(job) / f64::from(lanes(&job.order))
                })
                .sum();
            bytes::exact(bytes as u64)
        }
    }
}

fn lanes(order: &Order) -> u32 {
    match *order {
        Order::Permutation { lanes, .. } | Order::Sequential { lanes, .. } => lanes,
        _ => 1,
    }
}

fn order_words(order: &Order) -> String {
    match *order {
        Order::Permutation { lanes: 1, .. } => "permuted".into(),
        Order::Permutation { lane, lanes, .. } => format!("permuted (turn {lane} of {lanes})"),
        Order::Sequential { start_block, lanes: 1, .. } => {
            format!("sequential from block {start_block}")
        }
        Order::Sequential { start_block, lane, lanes } => {
            format!("sequential from block {start_block} (turn {lane} of {lanes})")
        }
        Order::Uniform => "uniform".into(),
        Order::Zipf { theta } => format!("zipf:{theta}"),
        Order::Pareto { h } => format!("pareto:{h}"),
        Order::Normal { deviation_percent } => format!("normal:{deviation_percent}"),
        Order::Zoned { ref zones } => {
            let zone = |zone: &Zone| format!("{}/{}", zone.access_percent, zone.size_percent);
            format!("zoned:{}", zones.iter().map(zone).collect::<Vec<_>>().join(":"))
        }
    }
}
