//! The order of offsets as fio options: `rw`, `random_distribution` and related ones.

use super::Said;
use super::sizes::smallest;
use iosonde_model::plan::{Job, Order};
use iosonde_model::spec::Zone;

/// Options for the order of offsets.
pub(super) fn order(job: &Job, out: &mut Said) {
    law(&job.order, job, out);
    let sequential = matches!(job.order, Order::Sequential { .. });
    out.say_if(!sequential && job.unit() != smallest(job), "ba", job.unit());
}

fn law(order: &Order, job: &Job, out: &mut Said) {
    let on_own_grid = job.unit() == smallest(job);
    match order {
        Order::Sequential { start_block, lanes, .. } => {
            let last = job.region_bytes.saturating_sub(job.block_bytes) / job.unit().max(1);
            let expected = if job.stride_bytes < 0 { last } else { 0 };
            out.lacks_if(*start_block != expected, "a stream that begins within its region");
            out.lacks_if(*lanes > 1, "several threads that stand in for one queue");
            out.lacks_if(!on_own_grid, "a sequential stream on another grid than its block size");
        }
        // fio keeps no random map on another grid, so it may not access every block exactly once.
        Order::Permutation { .. } | Order::RandomMap { .. } if !on_own_grid => {
            out.lacks("every block once on another grid than the block size");
        }
        Order::Permutation { .. } | Order::RandomMap { .. } => {}
        Order::SinglePass { .. } => {
            out.lacks("a single pass that leaves flash as many passes would");
        }
        Order::Uniform => out.word("norandommap"),
        Order::Zipf { theta } => {
            out.lacks_if(*theta == 1.0, "a skew of exactly 1");
            out.say("random_distribution", format!("zipf:{theta}"));
        }
        Order::Pareto { h } => out.say("random_distribution", format!("pareto:{h}")),
        Order::Normal { deviation_percent } => {
            out.lacks_if(*deviation_percent >= 100.0, "a deviation of 100 % or more");
            out.say("random_distribution", format!("normal:{deviation_percent}"));
        }
        Order::Zoned { zones } => {
            let whole = |percent: f64| percent.fract() == 0.0;
            if !zones.iter().all(|zone| whole(zone.access_percent) && whole(zone.size_percent)) {
                out.lacks("zones with shares that are not whole percent");
            }
            let zone = |zone: &Zone| format!("{}/{}", zone.access_percent, zone.size_percent);
            let said: Vec<String> = zones.iter().map(zone).collect();
            out.say("random_distribution", format!("zoned:{}", said.join(":")));
        }
        Order::Sequence(sequence) => {
            let blocks: Vec<String> = sequence.blocks.iter().map(u32::to_string).collect();
            out.say("random_distribution", format!("sequence:{}", blocks.join(",")));
            out.say("random_sequence_stride", u8::from(sequence.advances));
        }
        Order::Runs { same, between, .. } => {
            out.say_if(*same, "rw_sequencer", "identical");
            law(between, job, out);
        }
        Order::Following { drawn_percent, between } => {
            if drawn_percent.fract() != 0.0 {
                out.lacks("a share of random offsets that is not whole percent");
            }
            out.lacks_if(job.reads() && job.changes(), "offsets that follow on in a mixed job");
            out.say("percentage_random", drawn_percent);
            law(between, job, out);
        }
    }
}
