//! Text form of a run of the verifier for `--dry-run`: one line per fact, resolved values only.

use super::{VerifyMode, VerifyPlan};
use crate::units::clean::clean;
use crate::units::{bytes, count, duration};

/// Describes what a run of the verifier would do.
pub fn describe_verify(plan: &VerifyPlan) -> String {
    let target = plan.plan.target();
    let depth = plan.plan.jobs.first().map_or(1, |job| job.iodepth);
    let region = plan.blocks() * u64::from(plan.block_bytes);
    let first = plan.plan.jobs.first().map_or(0, |job| job.region_start);
    let mut out = format!("plan {}  ({})\n", plan.plan.title, &plan.plan.hash()[..12]);
    let mut line = |name: &str, words: String| out.push_str(&format!("  {name:<10} {words}\n"));
    line("run", format!("{}, seed {}", plan.run, plan.plan.seed));
    line("engine", format!("{}, depth {depth} per job", plan.plan.engine.kind.name()));
    let how = if target.direct { "direct" } else { "buffered" };
    line("target", format!("{}, {how}", clean(&target.path)));
    let [block, sector] = [plan.block_bytes, plan.sector_bytes].map(|b| bytes::exact(b.into()));
    let (length, blocks) = (bytes::rough(region), count::thousands(plan.blocks()));
    line(
        "region",
        format!("{length} from byte {first} on: {blocks} blocks of {block} in sectors of {sector}"),
    );
    line("writes", writes(plan, region));
    line("until", until(plan));
    line("reads back", reads_back(plan));
    let [ledger, buffers] = [plan.ledger_bytes(), plan.plan.buffer_bytes()].map(bytes::rough);
    line("memory", format!("ledger {ledger}, buffers {buffers}"));
    for (index, job) in plan.plan.jobs.iter().enumerate() {
        let silent = if plan.changes() && plan.ops[index] == 0 { ": writes nothing" } else { "" };
        let end = job.region_start + job.region_bytes;
        line(&format!("job {index:<6}"), format!("[{}, {end}){silent}", job.region_start));
    }
    out
}

fn writes(plan: &VerifyPlan, region: u64) -> String {
    if !plan.changes() {
        return "nothing".into();
    }
    let sizes = match (plan.min_blocks, plan.max_blocks) {
        (min, max) if min == max => format!("{max} blocks"),
        (min, max) => format!("{min} to {max} blocks"),
    };
    let how = match (plan.mode, plan.passes) {
        (VerifyMode::Pipeline, _) => {
            format!("pass after pass, in operations of {sizes}; each job reads its neighbour's")
        }
        (_, 0) => {
            let (reads, trims) = (plan.read_percent, plan.trim_percent);
            let shares =
                format!("{} % writes, {reads} % reads, {trims} % trims", 100 - reads - trims);
            format!("at random places, in operations of {sizes}: {shares}")
        }
        (_, 1) => format!("{} in one pass, in operations of {sizes}", bytes::rough(region)),
        (_, passes) => format!(
            "{} in {passes} passes, in operations of {sizes}",
            bytes::rough(region.saturating_mul(passes.into()))
        ),
    };
    let flushes = match plan.flush_every {
        0 => "a flush at the end".into(),
        every => format!("a flush after every {} operations of a job", count::thousands(every)),
    };
    let together = match plan.epoch_ops {
        0 => String::new(),
        ops => format!("all jobs in the same region, with a barrier after {ops} of each; "),
    };
    format!("{together}{how}; {flushes}")
}

/// The conditions that end the writing; the earliest applies.
fn until(plan: &VerifyPlan) -> String {
    if !plan.changes() {
        return "everything is read".into();
    }
    let mut ends = Vec::new();
    if plan.passes > 0 && plan.mode != VerifyMode::Pipeline {
        ends.push("the passes are done".to_owned());
    }
    if plan.length_ns != u64::MAX {
        ends.push(format!("{} are over", duration::span(plan.length_ns)));
    }
    if plan.written_bytes != u64::MAX {
        ends.push(format!("{} are written", bytes::exact(plan.written_bytes)));
    }
    if let Some(ops) = plan.ops.iter().filter(|ops| **ops != u64::MAX).max() {
        ends.push(format!("a job has done {} operations", count::thousands(*ops)));
    }
    match (ends.is_empty(), plan.mode) {
        (false, _) => ends.join(", or "),
        (true, VerifyMode::PowerCut) => "the power goes".into(),
        (true, _) => "it is stopped".into(),
    }
}

fn reads_back(plan: &VerifyPlan) -> String {
    let when = match plan.delay_ns {
        0 => String::new(),
        delay => format!(", {} after the last flush", duration::latency(delay as f64)),
    };
    match plan.mode.sweeps() {
        true => format!("all {} blocks, in random order{when}", count::thousands(plan.blocks())),
        false => "nothing: `iosonde verify check` does, with the ledger".into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::VerifySetting;
    use super::super::tests::setting;
    use super::*;

    fn formatted(setting: &VerifySetting) -> String {
        describe_verify(&VerifyPlan::resolve(setting).unwrap())
    }

    #[test]
    fn passes_have_a_volume_and_random_places_an_end() {
        let flush = formatted(&setting(VerifyMode::Flush, 1 << 20));
        assert!(flush.contains("1.00 MiB in one pass, in operations of 1 to 4 blocks"), "{flush}");
        assert!(flush.contains("until      the passes are done\n"), "{flush}");
        assert!(flush.contains("run        0000000000000000000000000000feed, seed 1"), "{flush}");
        assert!(flush.contains("ledger 3.25 KiB"), "{flush}");
        let soak = formatted(&VerifySetting {
            length_ns: 60_000_000_000,
            written_bytes: 1 << 30,
            read_percent: 30,
            trim_percent: 10,
            flush_every: 1000,
            delay_ns: 2_000_000_000,
            only_job: Some(1),
            ..setting(VerifyMode::Soak, 1 << 20)
        });
        assert!(soak.contains("60 % writes, 30 % reads, 10 % trims"), "{soak}");
        assert!(soak.contains("a flush after every 1,000 operations of a job"), "{soak}");
        assert!(soak.contains("until      1 min 0 s are over, or 1 GiB are written"), "{soak}");
        assert!(soak.contains("in random order, 2.00 s after the last flush"), "{soak}");
        assert!(soak.contains("job 0      [0, 524288): writes nothing"), "{soak}");
        assert!(soak.contains("job 1      [524288, 1048576)\n"), "{soak}");
    }

    #[test]
    fn what_is_left_to_a_check_and_a_check_say_so() {
        let write = formatted(&setting(VerifyMode::Write, 1 << 20));
        assert!(write.contains("reads back nothing: `iosonde verify check`"), "{write}");
        let check = formatted(&setting(VerifyMode::Check, 1 << 20));
        assert!(check.contains("writes     nothing\n"), "{check}");
        assert!(check.contains("reads back all 256 blocks"), "{check}");
        let cut = formatted(&VerifySetting { passes: 0, ..setting(VerifyMode::PowerCut, 1 << 20) });
        assert!(cut.contains("until      the power goes"), "{cut}");
    }
}
