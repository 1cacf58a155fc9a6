//! What jobs of a run may have for themselves: engine, begin, end, the choice among files, zones.

use super::{Words, engine, say, section_name, time, whole};
use iosonde_model::plan::{Flow, Job, Plan, Rate, Service, Stop};

/// What is its own where the jobs of a run differ: engine, begin, end.
pub(super) fn span(plan: &Plan, job: &Job, words: &mut Words, missing: &mut Vec<String>) {
    if let Some(own) = &job.engine {
        engine(own, words, missing);
    } else if plan.jobs.iter().any(|job| job.engine.is_some()) {
        engine(&plan.engine, words, missing);
    }
    let span = &job.span;
    if let Some(Stop::AfterNs(ns) | Stop::AfterNsOrBytes(ns, _)) = span.stop {
        time(words, "runtime", ns, missing);
    }
    if let Some(Stop::AfterNs(_)) = span.stop {
        words.push(("time_based", None));
    }
    if let Some(warmup_ns) = span.warmup_ns {
        time(words, "ramp_time", warmup_ns, missing);
    }
    if span.delay_ns > 0 {
        time(words, "startdelay", span.delay_ns, missing);
    }
    if !span.after.is_empty() {
        say(words, "wait_for", section_name(&span.after));
    }
    ends(plan, job, words, missing);
    if span.most_latency_ns > 0 {
        time(words, "max_latency", span.most_latency_ns, missing);
    }
}

/// Which jobs end with it: `exitall` is of all jobs, each with its `exit_what`.
fn ends(plan: &Plan, job: &Job, words: &mut Words, missing: &mut Vec<String>) {
    let span = &job.span;
    let first = plan.jobs.iter().find(|other| other.span.group == span.group);
    if span.group > 0 && first.is_some_and(|first| first.role == job.role) {
        words.push(("new_group", None));
    }
    let ends = |job: &Job| job.span.ends_all || job.span.ends_group;
    if ends(job) {
        words.push(("exitall", None));
    } else if plan.jobs.iter().any(ends) {
        missing.push(format!("the end of {} ends no other job", job.role));
    }
    if span.ends_all && plan.jobs.iter().any(|other| other.span.group > 0) {
        say(words, "exit_what", "stonewall");
    }
}

/// What it has to keep, which errors it survives, its share of a common pace.
pub(super) fn limits(job: &Job, words: &mut Words, missing: &mut Vec<String>) {
    let limits = &job.limits;
    let least = [limits.least_read, limits.least_write, limits.least_trim];
    if let Some(rate) = least.iter().flatten().next() {
        let option = if matches!(rate, Rate::Ops(_)) { "rate_iops_min" } else { "rate_min" };
        let each = least.map(|rate| match rate {
            Some(Rate::Ops(least) | Rate::Bytes(least)) => least.to_string(),
            None => "0".into(),
        });
        say(words, option, each.join(","));
        say(
            words,
            "rate_cycle",
            whole("rate_cycle", limits.least_over_ns, (1_000_000, "ms"), missing),
        );
    }
    if limits.ignores_some() {
        let lists = [&limits.ignored_read, &limits.ignored_write, &limits.ignored_verify];
        let text = lists.map(|list| list.iter().map(i32::to_string).collect::<Vec<_>>().join(":"));
        say(words, "ignore_error", text.join(","));
    }
    if let Some(Flow { id, weight, sleep_ns }) = job.flow {
        say(words, "flow", weight);
        say(words, "flow_id", id);
        say(words, "flow_sleep", whole("flow_sleep", sleep_ns, (1000, "us"), missing));
    }
}

/// How it chooses among its files, and its zones.
pub(super) fn service(job: &Job, words: &mut Words) {
    match job.service {
        Service::EachInTurn => {}
        Service::InTurn(each) => say(words, "file_service_type", format!("roundrobin:{each}")),
        Service::Random(each) => say(words, "file_service_type", format!("random:{each}")),
        Service::Sequential => say(words, "file_service_type", "sequential"),
    }
    if job.strides.range_bytes > 0 {
        say(words, "zonemode", "strided");
        say(words, "zonesize", job.strides.zone_bytes);
        say(words, "zonerange", job.strides.range_bytes);
        say(words, "zoneskip", job.strides.skip_bytes);
    }
}
