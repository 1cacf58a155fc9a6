//! I/O priorities of single requests as fio options.

use super::Said;
use iosonde_model::plan::Job;
use iosonde_model::spec::{Priority, Sizes};

/// Priorities of single requests; only a percentage per direction if sizes do not matter.
pub(super) fn priorities(job: &Job, out: &mut Said) {
    if job.priorities.is_none() {
        return;
    }
    if job.priorities.all().any(|one| one.hint > 0) {
        // fio 3.33 has no hints.
        out.lacks("hints of I/O priorities");
    }
    let of_ways = [&job.priorities.read, &job.priorities.write];
    if job.priorities.all().all(|priority| priority.bytes == 0)
        && of_ways.iter().all(|list| list.len() < 2)
    {
        let each = |value: fn(&Priority) -> u8, other: u8| {
            of_ways.map(|list| list.first().map_or(other, value).to_string()).join(",")
        };
        out.say("cmdprio_percentage", each(|one| one.percent, 0));
        out.say("cmdprio_class", each(|one| one.class, 1));
        out.say("cmdprio", each(|one| one.level, 0));
        return;
    }
    if job.priorities.all().any(|one| one.bytes == 0) && job.sizes != Sizes::default() {
        out.lacks("several priorities of requests of any size");
    }
    let split = |list: &Vec<Priority>| {
        let entry = |one: &Priority| {
            let bytes = if one.bytes == 0 { job.block_bytes } else { one.bytes };
            format!("{bytes}/{}/{}/{}", one.percent, one.class, one.level)
        };
        list.iter().map(entry).collect::<Vec<_>>().join(":")
    };
    out.say("cmdprio_bssplit", of_ways.map(split).join(","));
}
