//! Options by which jobs of a run may differ: engine, start, end, file service, zones.

use super::{Said, engine, section_name};
use iosonde_model::plan::{Flow, Job, Plan, Rate, Service, Stop};

/// Engine, start and end, where the jobs of a run differ.
pub(super) fn span(plan: &Plan, job: &Job, out: &mut Said) {
    if let Some(own) = &job.engine {
        engine(own, out);
    } else if plan.jobs.iter().any(|job| job.engine.is_some()) {
        engine(&plan.engine, out);
    }
    let span = &job.span;
    if let Some(Stop::AfterNs(ns) | Stop::AfterNsOrBytes(ns, _)) = span.stop {
        out.time("runtime", ns);
    }
    if let Some(Stop::AfterNs(_)) = span.stop {
        out.word("time_based");
    }
    if let Some(warmup_ns) = span.warmup_ns {
        out.time("ramp_time", warmup_ns);
    }
    out.time_if_any("startdelay", span.delay_ns);
    out.say_if(!span.after.is_empty(), "wait_for", section_name(&span.after));
    ends(plan, job, out);
    out.time_if_any("max_latency", span.most_latency_ns);
}

/// Which jobs end with this one: fio's `exitall` applies to all jobs, `exit_what` to each.
fn ends(plan: &Plan, job: &Job, out: &mut Said) {
    let span = &job.span;
    let first = plan.jobs.iter().find(|other| other.span.group == span.group);
    out.word_if(span.group > 0 && first.is_some_and(|first| first.role == job.role), "new_group");
    let ends = |job: &Job| job.span.ends_all || job.span.ends_group;
    if ends(job) {
        out.word("exitall");
    } else if plan.jobs.iter().any(ends) {
        out.lacks(format!("the end of {} ends no other job", job.role));
    }
    if span.ends_all && plan.jobs.iter().any(|other| other.span.group > 0) {
        out.say("exit_what", "stonewall");
    }
}

/// Minimum rates, ignored errors, and the job's share of a common rate.
pub(super) fn limits(job: &Job, out: &mut Said) {
    let limits = &job.limits;
    let least = [limits.least_read, limits.least_write, limits.least_trim];
    if let Some(rate) = least.iter().flatten().next() {
        let option = if matches!(rate, Rate::Ops(_)) { "rate_iops_min" } else { "rate_min" };
        let each = least.map(|rate| match rate {
            Some(Rate::Ops(least) | Rate::Bytes(least)) => least.to_string(),
            None => "0".into(),
        });
        out.say(option, each.join(","));
        let cycle_ms = out.whole("rate_cycle", limits.least_over_ns, (1_000_000, "ms"));
        out.say("rate_cycle", cycle_ms);
    }
    if limits.ignores_some() {
        let lists = [&limits.ignored_read, &limits.ignored_write, &limits.ignored_verify];
        let text = lists.map(|list| list.iter().map(i32::to_string).collect::<Vec<_>>().join(":"));
        out.say("ignore_error", text.join(","));
    }
    if let Some(Flow { id, weight, sleep_ns }) = job.flow {
        out.say("flow", weight);
        out.say("flow_id", id);
        let sleep_us = out.whole("flow_sleep", sleep_ns, (1000, "us"));
        out.say("flow_sleep", sleep_us);
    }
}

/// File service and zones.
pub(super) fn service(job: &Job, out: &mut Said) {
    match job.service {
        Service::EachInTurn => {}
        Service::InTurn(each) => out.say("file_service_type", format!("roundrobin:{each}")),
        Service::Random(each) => out.say("file_service_type", format!("random:{each}")),
        Service::Sequential => out.say("file_service_type", "sequential"),
    }
    if job.strides.range_bytes > 0 {
        out.say("zonemode", "strided");
        out.say("zonesize", job.strides.zone_bytes);
        out.say("zonerange", job.strides.range_bytes);
        out.say("zoneskip", job.strides.skip_bytes);
    }
}
