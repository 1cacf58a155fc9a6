//! Sizes of operations as fio options: `bs`, `bsrange` or `bssplit`, for reads, writes and trims.

use super::Said;
use iosonde_model::plan::Job;
use iosonde_model::spec::Draw;

/// Options for the sizes of operations in each direction.
pub(super) fn sizes(job: &Job, out: &mut Said) {
    let used = [job.reads(), job.writes_data(), job.trims];
    let draws = [&job.sizes.read, &job.sizes.write, &job.sizes.trim];
    let fixed = |draw: &Draw| match draw {
        Draw::Block => Some(job.block_bytes),
        Draw::Fixed(bytes) => Some(*bytes),
        Draw::Range { .. } | Draw::Split(_) => None,
    };
    let of_used = || draws.iter().zip(used).filter(|(_, used)| *used).map(|(draw, _)| *draw);
    let has_range = of_used().any(|draw| matches!(draw, Draw::Range { .. }));
    let has_split = of_used().any(|draw| matches!(draw, Draw::Split(_)));
    out.lacks_if(has_range && has_split, "a range of sizes beside a split");
    let mut one = |draw: &Draw| match draw {
        Draw::Range { low, high, step } => {
            out.lacks_if(step != low, "a range of sizes whose step is not its smallest size");
            format!("{low}-{high}")
        }
        Draw::Split(shares) => {
            if shares.iter().any(|(_, share)| share.fract() != 0.0) {
                out.lacks("a split of sizes with shares that are not whole percent");
            }
            let share = |(bytes, share): &(u64, f64)| format!("{bytes}/{share}");
            shares.iter().map(share).collect::<Vec<_>>().join(":")
        }
        Draw::Block | Draw::Fixed(_) => {
            let bytes = fixed(draw).unwrap_or(job.block_bytes);
            match (has_split, has_range) {
                (true, _) => format!("{bytes}/100"),
                (false, true) => format!("{bytes}-{bytes}"),
                (false, false) => bytes.to_string(),
            }
        }
    };
    // A direction that the job does not use repeats one that it uses.
    let any = of_used().next().unwrap_or(&Draw::Block).clone();
    let said: Vec<String> =
        draws.iter().zip(used).map(|(draw, used)| one(if used { draw } else { &any })).collect();
    let option = match (has_split, has_range) {
        (true, _) => "bssplit",
        (false, true) => "bsrange",
        (false, false) => "bs",
    };
    let alike = said.iter().all(|each| *each == said[0]);
    out.say(option, if alike { said[0].clone() } else { said.join(",") });
}

/// Smallest operation of the job, bytes.
pub(super) fn smallest(job: &Job) -> u64 {
    let used = [
        (&job.sizes.read, job.reads()),
        (&job.sizes.write, job.writes_data()),
        (&job.sizes.trim, job.trims),
    ];
    let of = |draw: &Draw| match draw {
        Draw::Block => job.block_bytes,
        Draw::Fixed(bytes) | Draw::Range { low: bytes, .. } => *bytes,
        Draw::Split(shares) => shares.iter().map(|(bytes, _)| *bytes).min().unwrap_or(0),
    };
    used.iter().filter(|(_, used)| *used).map(|(draw, _)| of(draw)).min().unwrap_or(0)
}
