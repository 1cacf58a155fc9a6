//! When operations are due: rates, pauses, phases.

use super::{Words, say, time};
use iosonde_model::plan::Job;
use iosonde_model::spec::{Arrivals, Pace, Rate};

pub(super) fn pace(job: &Job, words: &mut Words, missing: &mut Vec<String>) {
    if !job.listed.is_empty() {
        missing.push("operations of a log".into());
    }
    match &job.pace {
        Pace::Closed => {}
        Pace::Recorded(_) => missing.push("recorded arrival times".into()),
        Pace::Each { read, other, arrivals } => {
            match (read, other) {
                (Rate::Ops(read), Rate::Ops(other)) => {
                    say(words, "rate_iops", format!("{read},{other}"));
                }
                (Rate::Bytes(read), Rate::Bytes(other)) => {
                    say(words, "rate", format!("{read},{other}"));
                }
                _ => missing.push("rates of operations beside rates of bytes".into()),
            }
            process(arrivals, words, missing);
        }
        Pace::Rate { rate, arrivals } => {
            let (option, per_second) = match rate {
                Rate::Ops(rate) => ("rate_iops", *rate),
                Rate::Bytes(rate) => ("rate", *rate),
            };
            let read = per_second * f64::from(job.read_percent) / 100.0;
            // fio's rates are of each way by itself.
            let shares = match job.read_percent {
                0 | 100 => vec![per_second],
                _ => vec![read, per_second - read],
            };
            if shares.iter().any(|share| share.fract() != 0.0 || *share < 1.0) {
                missing.push("a rate of each way that is not a whole number".into());
            }
            let said: Vec<String> = shares.iter().map(f64::to_string).collect();
            say(words, option, said.join(","));
            process(arrivals, words, missing);
        }
    }
    if !job.phases.is_empty() {
        missing.push("phases".into());
    }
    if job.think.ns > 0 {
        time(words, "thinktime", job.think.ns, missing);
        if job.think.every_ops < u64::MAX {
            say(words, "thinktime_blocks", job.think.every_ops);
        }
        if job.think.spin_ns > 0 {
            time(words, "thinktime_spin", job.think.spin_ns, missing);
        }
        if job.think.every_ns > 0 {
            time(words, "thinktime_iotime", job.think.every_ns, missing);
        }
        say(words, "thinktime_blocks_type", "issue");
    }
}

fn process(arrivals: &Arrivals, words: &mut Words, missing: &mut Vec<String>) {
    match arrivals {
        Arrivals::Constant => {}
        Arrivals::Poisson => say(words, "rate_process", "poisson"),
        Arrivals::Drawn(_) => missing.push("arrivals drawn from a table".into()),
        Arrivals::Bursts(_) => missing.push("arrivals in bursts".into()),
    }
}
