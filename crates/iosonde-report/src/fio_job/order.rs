//! The order of offsets in fio's words: `rw`, `random_distribution` and what goes with it.

use super::sizes::smallest;
use super::{Words, say};
use iosonde_model::plan::{Job, Order};
use iosonde_model::spec::Zone;

/// In which order the offsets come.
pub(super) fn order(job: &Job, words: &mut Words, missing: &mut Vec<String>) {
    law(&job.order, job, words, missing);
    let sequential = matches!(job.order, Order::Sequential { .. });
    if !sequential && job.unit() != smallest(job) {
        say(words, "ba", job.unit());
    }
}

fn law(order: &Order, job: &Job, words: &mut Words, missing: &mut Vec<String>) {
    let on_own_grid = job.unit() == smallest(job);
    match order {
        Order::Sequential { start_block, lanes, .. } => {
            let last = job.region_bytes.saturating_sub(job.block_bytes) / job.unit().max(1);
            let expected = if job.stride_bytes < 0 { last } else { 0 };
            if *start_block != expected {
                missing.push("a stream that begins within its region".into());
            }
            if *lanes > 1 {
                missing.push("several threads that stand in for one queue".into());
            }
            if !on_own_grid {
                missing.push("a sequential stream on another grid than its block size".into());
            }
        }
        // fio keeps no map of another grid; every block once is not sure then.
        Order::Permutation { .. } | Order::RandomMap { .. } if !on_own_grid => {
            missing.push("every block once on another grid than the block size".into());
        }
        Order::Permutation { .. } | Order::RandomMap { .. } => {}
        Order::SinglePass { .. } => {
            missing.push("a single pass that leaves flash as many passes would".into());
        }
        Order::Uniform => words.push(("norandommap", None)),
        Order::Zipf { theta } => {
            if *theta == 1.0 {
                missing.push("a skew of exactly 1".into());
            }
            say(words, "random_distribution", format!("zipf:{theta}"));
        }
        Order::Pareto { h } => say(words, "random_distribution", format!("pareto:{h}")),
        Order::Normal { deviation_percent } => {
            if *deviation_percent >= 100.0 {
                missing.push("a deviation of 100 % or more".into());
            }
            say(words, "random_distribution", format!("normal:{deviation_percent}"));
        }
        Order::Zoned { zones } => {
            let whole = |percent: f64| percent.fract() == 0.0;
            if !zones.iter().all(|zone| whole(zone.access_percent) && whole(zone.size_percent)) {
                missing.push("zones with shares that are not whole percent".into());
            }
            let zone = |zone: &Zone| format!("{}/{}", zone.access_percent, zone.size_percent);
            let said: Vec<String> = zones.iter().map(zone).collect();
            say(words, "random_distribution", format!("zoned:{}", said.join(":")));
        }
        Order::Sequence(sequence) => {
            let blocks: Vec<String> = sequence.blocks.iter().map(u32::to_string).collect();
            say(words, "random_distribution", format!("sequence:{}", blocks.join(",")));
            say(words, "random_sequence_stride", u8::from(sequence.advances));
        }
        Order::Runs { same, between, .. } => {
            if *same {
                say(words, "rw_sequencer", "identical");
            }
            law(between, job, words, missing);
        }
        Order::Following { drawn_percent, between } => {
            if drawn_percent.fract() != 0.0 {
                missing.push("a share of random offsets that is not whole percent".into());
            }
            if job.reads() && job.changes() {
                missing.push("offsets that follow on in a mixed job".into());
            }
            say(words, "percentage_random", drawn_percent);
            law(between, job, words, missing);
        }
    }
}
