//! Numbers of a role that are out of range or contradict each other.

use crate::plan::{Job, Order};
use crate::spec::{Arrivals, Bursts, Pace, Phase, Rate, Role, Sync};

/// Limit of `extra_syncs`, exclusive.
const MOST_SYNCS: u64 = 1_000_000;

/// The first fault: what was found, what is expected, and how to fix it.
pub(super) fn fault(role: &Role, job: &Job) -> Option<String> {
    job.phases
        .iter()
        .find_map(phase)
        .or_else(|| data(job))
        .or_else(|| rates(&job.pace))
        .or_else(|| arrivals(&job.pace))
        .or_else(|| queue(role, job))
        .or_else(|| pause(job))
        .or_else(|| sequence(&job.order, job))
        .or_else(|| zones(job))
        .or_else(|| syncs(&job.sync))
}

fn syncs(sync: &Sync) -> Option<String> {
    if sync.extra_syncs >= MOST_SYNCS {
        return Some(format!(
            "{} extra-syncs, expected fewer than {MOST_SYNCS}; give a smaller number",
            sync.extra_syncs
        ));
    }
    let most = sync.every_writes.min(1 + sync.extra_syncs);
    (sync.followed > most).then(|| {
        format!(
            "syncs follow {} of the writes (followed), expected at most {most}, the smaller of \
             every-writes and all syncs in these; give a smaller number",
            sync.followed
        )
    })
}

fn phase(phase: &Phase) -> Option<String> {
    if let Some(percent) = phase.read_percent.filter(|percent| *percent > 100) {
        return Some(format!(
            "a phase with {percent} % of reads, expected 0 to 100; give a smaller read-percent"
        ));
    }
    if phase.ns == 0 {
        return Some("a phase of 0 ns, expected a longer one; give its length, such as 10s".into());
    }
    let most = Phase::MOST_PERCENT;
    let shares = [
        (phase.sync_percent, "syncs per write", "sync-percent"),
        (phase.commit_percent, "commits per sync", "commit-percent"),
    ];
    for (percent, what, key) in shares {
        if !(0.0..=most).contains(&percent) {
            return Some(format!(
                "a phase with {percent} % of the {what}, expected 0 to {most}; give another {key}"
            ));
        }
    }
    let percent = phase.rate_percent;
    (!percent.is_finite() || percent < 0.0).then(|| {
        format!("a phase at {percent} % of the rate, expected 0 or more; give rate=0 for idle")
    })
}

fn data(job: &Job) -> Option<String> {
    let data = &job.data;
    let percentages = [
        ("zeros at the end of each block", "buffer-compress-percentage", data.compress_percent),
        ("repeated blocks", "dedupe-percentage", data.dedupe_percent),
        ("the set of repeated blocks", "dedupe-working-set-percentage", data.set_percent),
    ];
    let (what, option, percent) = percentages.into_iter().find(|(.., percent)| *percent > 100)?;
    Some(format!("{percent} % for {what}, expected 0 to 100; give a smaller --{option}"))
}

fn rates(pace: &Pace) -> Option<String> {
    let rates = match pace {
        Pace::Rate { rate, .. } => vec![rate],
        Pace::Each { read, other, .. } => vec![read, other],
        Pace::Closed | Pace::Recorded(_) => Vec::new(),
    };
    let number = |rate: &Rate| match rate {
        Rate::Ops(rate) | Rate::Bytes(rate) => *rate,
    };
    let is_wrong = |rate: &f64| !rate.is_finite() || *rate <= 0.0;
    let rate = rates.into_iter().map(number).find(is_wrong)?;
    Some(format!("a rate of {rate}, expected one above 0; give another, or none for full speed"))
}

/// The entries of a table of arrivals.
const TIMES: &str = "inter-arrival times";

/// A fault in the shares of a table.
fn shares(table: &[(u64, f64)], of: &str) -> Option<String> {
    let is_wrong = |percent: &f64| percent.is_nan() || *percent < 0.0;
    if let Some((_, percent)) = table.iter().find(|(_, percent)| is_wrong(percent)) {
        return Some(format!(
            "{percent} % in a table of {of}, expected 0 or more; give shares that add up to 100 %"
        ));
    }
    let sum = table.iter().fold(0.0, |sum, (_, percent)| sum + percent);
    ((sum - 100.0).abs() >= 0.01).then(|| {
        format!(
            "a table of {} {of} that adds up to {sum} %, expected 100 %; give the rest of the \
             shares",
            table.len()
        )
    })
}

/// A table of times must contain a time above 0.
fn no_time(table: &[(u64, f64)]) -> Option<String> {
    let lasts = table.iter().any(|(ns, percent)| *ns > 0 && *percent > 0.0);
    (!lasts).then(|| {
        format!("a table of {TIMES} that are all 0 ns, expected one above 0; give a longer one")
    })
}

fn in_bursts(Bursts { requests, within, between }: &Bursts) -> Option<String> {
    if let Some((number, _)) = requests.iter().find(|(number, _)| *number == 0) {
        return Some(format!("bursts of {number} requests, expected 1 or more; give longer ones"));
    }
    let is_several = |(number, percent): &(u64, f64)| *number > 1 && *percent > 0.0;
    shares(requests, "bursts")
        .or_else(|| shares(between, TIMES))
        .or_else(|| no_time(between))
        .or_else(|| requests.iter().any(is_several).then(|| shares(within, TIMES)).flatten())
}

fn arrivals(pace: &Pace) -> Option<String> {
    match pace {
        Pace::Each { arrivals: Arrivals::Bursts(_), .. } => Some(
            "arrivals in bursts with a rate of each way, expected one rate; give a role for each \
             way"
            .into(),
        ),
        Pace::Rate { arrivals, .. } | Pace::Each { arrivals, .. } => match arrivals {
            Arrivals::Constant | Arrivals::Poisson => None,
            Arrivals::Drawn(table) => shares(table, TIMES).or_else(|| no_time(table)),
            Arrivals::Bursts(bursts) => in_bursts(bursts),
        },
        Pace::Recorded(times) if times.is_empty() => {
            Some("0 recorded arrival times, expected one or more; give a longer record".into())
        }
        Pace::Recorded(times) => {
            let pair = times.windows(2).find(|pair| pair[1] < pair[0])?;
            Some(format!(
                "a recorded arrival time of {} ns after one of {} ns, expected times that ascend; \
                 sort the record",
                pair[1], pair[0]
            ))
        }
        Pace::Closed => None,
    }
}

fn queue(role: &Role, job: &Job) -> Option<String> {
    let (depth, batch) = (job.iodepth, role.batch.unwrap_or(job.batch));
    let (least, most) = (job.reap.complete_min, job.reap.complete_max);
    if job.batch == 0 || role.batch.is_some_and(|batch| batch > depth) {
        return Some(format!(
            "batches of {batch} requests at depth {depth}, expected 1 to {depth}; give another \
             --iodepth-batch-submit"
        ));
    }
    if least == 0 || least > depth {
        return Some(format!(
            "waiting for {least} completions at depth {depth}, expected 1 to {depth}; give \
             another --iodepth-batch-complete-min"
        ));
    }
    if most != 0 && most < least {
        return Some(format!(
            "--iodepth-batch-complete-max {most} is below --iodepth-batch-complete-min {least}, \
             expected {least} or more; give a larger one, or 0 for no limit"
        ));
    }
    let low = job.reap.refill_at;
    (low >= depth).then(|| {
        format!(
            "--iodepth-low {low} at depth {depth} has no effect: the queue is refilled as soon as \
             there is room; give a number below {depth}, or leave it out"
        )
    })
}

fn pause(job: &Job) -> Option<String> {
    let think = &job.think;
    let has_distance = think.every_ops > 0 || think.every_ns > 0;
    match (think.ns > 0, has_distance) {
        (true, false) => Some(format!(
            "a pause of {} ns after 0 operations, expected a number or a time between two of \
             them; give --thinktime-blocks",
            think.ns
        )),
        (false, true) => Some(format!(
            "a pause of 0 ns every {}, expected a longer one; give --thinktime",
            match think.every_ops {
                0 => format!("{} ns", think.every_ns),
                ops => format!("{ops} operations"),
            }
        )),
        _ => None,
    }
}

/// A fault if a sequence names a block beyond the region.
fn sequence(order: &Order, job: &Job) -> Option<String> {
    let places = job.region_bytes.saturating_sub(job.block_bytes) / job.unit().max(1) + 1;
    match order {
        Order::Sequence(sequence) => {
            let block = sequence.blocks.iter().find(|block| u64::from(**block) >= places)?;
            Some(format!(
                "a sequence names block {block}, and the region has {places}, expected 0 to {}; \
                 give a larger size",
                places - 1
            ))
        }
        Order::Runs { between, .. } | Order::Following { between, .. } => sequence(between, job),
        _ => None,
    }
}

fn zones(job: &Job) -> Option<String> {
    let strides = &job.strides;
    (strides.range_bytes > 0 && strides.zone_bytes == 0).then(|| {
        format!(
            "zones every {} B with 0 B in each, expected more; give --zonesize",
            strides.range_bytes
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Data, Rw, Sequence};

    fn said(job: Job) -> Option<String> {
        fault(&Role::new("r", Rw::RandRead), &job)
    }

    fn job() -> Job {
        Job { iodepth: 4, batch: 1, region_bytes: 1 << 20, ..Job::default() }
    }

    #[test]
    fn each_number_is_named_with_what_is_expected_and_what_to_do() {
        let phase = |ns, rate_percent, read_percent| Job {
            phases: vec![Phase { ns, rate_percent, read_percent, ..Phase::default() }],
            ..job()
        };
        let paced = |pace| Job { pace, ..job() };
        let drawn =
            |table| paced(Pace::Rate { rate: Rate::Ops(1.0), arrivals: Arrivals::Drawn(table) });
        let bursts = |requests, between| {
            let arrivals = Arrivals::Bursts(Bursts { requests, within: vec![], between });
            paced(Pace::Rate { rate: Rate::Ops(1.0), arrivals })
        };
        let mut least = job();
        least.reap.complete_min = 5;
        let mut most = job();
        (most.reap.complete_min, most.reap.complete_max) = (3, 2);
        let mut low = job();
        low.reap.refill_at = 4;
        let mut think = job();
        think.think.every_ops = 8;
        let mut zones = job();
        zones.strides.range_bytes = 4096;
        let sequence = Order::Sequence(Sequence { blocks: vec![1, 256], advances: false });
        let cases = [
            (phase(1, 100.0, Some(101)), "101 %"),
            (phase(0, 100.0, None), "0 ns"),
            (phase(1, -5.0, None), "-5 %"),
            (
                Job {
                    phases: vec![Phase { ns: 1, commit_percent: -1.0, ..Phase::default() }],
                    ..job()
                },
                "a phase with -1 % of the commits per sync",
            ),
            (Job { data: Data { dedupe_percent: 120, ..Data::default() }, ..job() }, "120 %"),
            (
                paced(Pace::Rate { rate: Rate::Ops(-2.0), arrivals: Arrivals::Constant }),
                "a rate of -2",
            ),
            (drawn(vec![(5, 60.0), (7, 30.0)]), "adds up to 90 %"),
            (drawn(vec![(0, 100.0)]), "all 0 ns"),
            (bursts(vec![(0, 100.0)], vec![(9, 100.0)]), "bursts of 0 requests"),
            (bursts(vec![(2, 50.0)], vec![(9, 100.0)]), "1 bursts that adds up to 50 %"),
            (
                bursts(vec![(2, 100.0)], vec![(9, 100.0)]),
                "0 inter-arrival times that adds up to 0 %",
            ),
            (bursts(vec![(1, 100.0)], vec![(0, 100.0)]), "all 0 ns"),
            (bursts(vec![(1, 100.0)], vec![(7, f64::NAN)]), "NaN % in a table"),
            (
                paced(Pace::Each {
                    read: Rate::Ops(1.0),
                    other: Rate::Ops(1.0),
                    arrivals: Arrivals::Bursts(Bursts::default()),
                }),
                "bursts with a rate of each way",
            ),
            (paced(Pace::Recorded(vec![])), "0 recorded"),
            (paced(Pace::Recorded(vec![7, 3])), "3 ns after one of 7 ns"),
            (Job { batch: 0, ..job() }, "batches of 0 requests at depth 4"),
            (least, "waiting for 5 completions at depth 4"),
            (most, "complete-max 2 is below --iodepth-batch-complete-min 3"),
            (low, "--iodepth-low 4 at depth 4"),
            (think, "0 ns every 8 operations"),
            (Job { order: sequence, block_bytes: 4096, ..job() }, "names block 256"),
            (zones, "every 4096 B with 0 B"),
        ];
        for (job, found) in cases {
            let words = said(job).unwrap();
            assert!(words.contains(found), "{found}: {words}");
            let has_advice = ["; give ", "; sort "].iter().any(|advice| words.contains(advice));
            assert!(has_advice && (words.contains("expected") || words.contains("no effect")));
        }
        assert_eq!(said(job()), None);
    }
}
