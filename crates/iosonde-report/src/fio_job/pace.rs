//! The times at which operations are due: rates, pauses, phases.

use super::Said;
use iosonde_model::plan::Job;
use iosonde_model::spec::{Arrivals, Pace, Rate};

pub(super) fn pace(job: &Job, out: &mut Said) {
    out.lacks_if(!job.listed.is_empty(), "operations of a log");
    match &job.pace {
        Pace::Closed => {}
        Pace::Recorded(_) => out.lacks("recorded arrival times"),
        Pace::Each { read, other, arrivals } => {
            match (read, other) {
                (Rate::Ops(read), Rate::Ops(other)) => {
                    out.say("rate_iops", format!("{read},{other}"));
                }
                (Rate::Bytes(read), Rate::Bytes(other)) => {
                    out.say("rate", format!("{read},{other}"));
                }
                _ => out.lacks("rates of operations beside rates of bytes"),
            }
            process(arrivals, out);
        }
        Pace::Rate { rate, arrivals } => {
            let (option, per_second) = match rate {
                Rate::Ops(rate) => ("rate_iops", *rate),
                Rate::Bytes(rate) => ("rate", *rate),
            };
            let read = per_second * f64::from(job.read_percent) / 100.0;
            // fio's rates are per direction.
            let shares = match job.read_percent {
                0 | 100 => vec![per_second],
                _ => vec![read, per_second - read],
            };
            if shares.iter().any(|share| share.fract() != 0.0 || *share < 1.0) {
                out.lacks("a rate of each way that is not a whole number");
            }
            let said: Vec<String> = shares.iter().map(f64::to_string).collect();
            out.say(option, said.join(","));
            process(arrivals, out);
        }
    }
    out.lacks_if(!job.phases.is_empty(), "phases");
    if job.think.ns > 0 {
        out.time("thinktime", job.think.ns);
        out.say_if(job.think.every_ops < u64::MAX, "thinktime_blocks", job.think.every_ops);
        out.time_if_any("thinktime_spin", job.think.spin_ns);
        out.time_if_any("thinktime_iotime", job.think.every_ns);
        out.say("thinktime_blocks_type", "issue");
    }
}

fn process(arrivals: &Arrivals, out: &mut Said) {
    match arrivals {
        Arrivals::Constant => {}
        Arrivals::Poisson => out.say("rate_process", "poisson"),
        Arrivals::Drawn(_) => out.lacks("arrivals drawn from a table"),
        Arrivals::Bursts(_) => out.lacks("arrivals in bursts"),
    }
}
