//! A profile as a document: every figure, with its unit in its name.

use serde_json::{Map, Value, json};

use iosonde_analysis::profile::spread::QUANTILES;
use iosonde_analysis::profile::{
    Against, CourseFigures, DepthFigures, DeviceFigures, Figures, Heat, Latency, OpFigures,
    PartFigures, PlaceFigures, Side, Spread, SyncFigures, SyncPart,
};
use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::Op;

/// Name and version of the document.
pub const PROFILE_RESULT_SCHEMA: &str = "iosonde.profile-result/2";

/// The document. A figure that was not seen is `null`; `unseen` and `source.missing` say why.
pub fn profile_json(
    run: &ProfileRun,
    figures: &Figures,
    against: &[Against],
    exit_code: u8,
) -> Value {
    json!({
        "schema": PROFILE_RESULT_SCHEMA,
        "program": concat!("iosonde ", env!("CARGO_PKG_VERSION")),
        "verb": "profile",
        "exit_code": exit_code,
        "subject": run.subject,
        "ended": run.ended,
        "started_unix_ns": run.started_unix_ns,
        "measured_ns": run.measured_ns,
        "settle_ns": run.settle_ns,
        "host": run.host,
        "source": run.source,
        "unseen": figures.unseen,
        "program_requests": figures.program.as_ref().map(side),
        "all_requests": figures.everybody.as_ref().map(side),
        "classes": figures.classes.iter().map(|class| json!({
            "class": class.class,
            "requests": class.requests,
            "read_bytes": class.read_bytes,
            "write_bytes": class.write_bytes,
            "byte_share": class.byte_share,
            "latency_ns": latency(&class.latency),
        })).collect::<Vec<_>>(),
        "flags": figures.flags.iter().map(|flag| json!({
            "op": flag.op,
            "flag": flag.flag,
            "requests": flag.requests,
            "bytes": flag.bytes,
            "latency_ns": latency(&flag.latency),
        })).collect::<Vec<_>>(),
        "devices": figures
            .devices
            .iter()
            .zip(&run.devices)
            .map(|(each, of)| device(each, json!(of.facts)))
            .collect::<Vec<_>>(),
        "io_threads": figures.io_threads,
        "syncs": figures.syncs.as_ref().map(syncs),
        "opens": figures.opens,
        "calls": figures.calls.map(|calls| json!({
            "reads": calls.counts.reads,
            "writes": calls.counts.writes,
            "read_bytes": calls.counts.read_bytes,
            "written_bytes": calls.counts.written_bytes,
            "storage_read_bytes": calls.counts.storage_read_bytes,
            "storage_write_bytes": calls.counts.storage_write_bytes,
            "cancelled_bytes": calls.counts.cancelled_bytes,
            "storage_read_bytes_per_s": whole(calls.storage_read_bytes_per_s),
            "storage_write_bytes_per_s": whole(calls.storage_write_bytes_per_s),
        })),
        "page_cache": figures.page_cache,
        "file_systems": run.file_systems,
        "waits": figures.waits,
        "cpu": cpu(run, figures),
        "threads": threads(figures),
        "files": files(figures),
        "cgroups": cgroups(figures),
        "places": figures.places.iter().map(place).collect::<Vec<_>>(),
        "arrivals": figures.arrivals.iter().map(|each| json!({
            "device": each.device,
            "group": each.group,
            "class": each.class,
            "op": each.op,
            "gaps": each.gaps,
            "per_s": each.per_s,
            "gap_cv": each.cv,
            "process": each.process,
        })).collect::<Vec<_>>(),
        "over_time": figures.course.as_ref().map(over_time),
        "consistency": {
            "balanced": figures.consistency.valid(),
            "entries": figures.consistency.entries,
        },
        "findings": figures.findings,
        "against": against,
        "lost": run.lost,
    })
}

fn over_time(course: &CourseFigures) -> Value {
    json!({
        "interval_ns": course.width_ns,
        "intervals": course.intervals,
        "idle_intervals": course.idle,
        "requests_per_s": spread(&course.requests_per_s),
        "bytes_per_s": spread(&course.bytes_per_s),
        "reads_per_s": spread(&course.read.0),
        "read_bytes_per_s": spread(&course.read.1),
        "writes_per_s": spread(&course.write.0),
        "write_bytes_per_s": spread(&course.write.1),
        "latencies": course.heat.as_ref().map(heat),
    })
}

fn side(side: &Side) -> Value {
    let mut fields = Map::new();
    fields.insert("window_ns".into(), json!(side.window_ns));
    fields.insert("read_share".into(), json!(side.read_share));
    fields.insert("read_byte_share".into(), json!(side.read_byte_share));
    fields.insert("sequential_share".into(), json!(side.sequential_share));
    fields.insert("direct_share".into(), json!(side.direct_share));
    for (op, figures) in Op::ALL.iter().zip(&side.ops) {
        let name = match op {
            Op::Read => "read",
            Op::Write => "write",
            Op::Discard => "discard",
            Op::Flush => "flush",
            Op::Other => "other",
        };
        fields.insert(name.into(), of_op(figures));
    }
    Value::Object(fields)
}

fn of_op(figures: &OpFigures) -> Value {
    json!({
        "requests": figures.requests,
        "bytes": figures.bytes,
        "requests_per_s": figures.requests_per_s,
        "bytes_per_s": whole(figures.bytes_per_s),
        "direct_bytes": figures.direct_bytes,
        "durable": figures.durable,
        "errors": figures.errors,
        "sequential_share": figures.sequential_share,
        "strided_share": figures.strided_share,
        "size_bytes": spread(&figures.sizes),
        "latency_ns": latency(&figures.latency),
        "queued_ns": latency(&figures.queued),
        "device_time_ns": latency(&figures.device_time),
    })
}

fn device(device: &DeviceFigures, facts: Value) -> Value {
    json!({
        "name": device.name,
        "facts": facts,
        "invisible": device.invisible,
        "program_requests": device.program.as_ref().map(side),
        "depth": device.depth.as_ref().map(depth),
        "program_depth": device.program_depth.as_ref().map(depth),
        "counters": device.counters,
    })
}

fn depth(depth: &DepthFigures) -> Value {
    json!({
        "busy_share": depth.busy_share,
        "mean": depth.mean,
        "max": depth.max,
        "while_busy": spread(&depth.by_time),
        "on_arrival": spread(&depth.on_arrival),
    })
}

fn syncs(syncs: &SyncFigures) -> Value {
    let mut kinds = Map::new();
    for kind in &syncs.kinds {
        let value = json!({
            "calls": kind.calls,
            "errors": kind.errors,
            "per_s": kind.per_s,
            "latency_ns": latency(&kind.latency),
            "parts": sync_parts(&kind.parts),
        });
        kinds.insert(kind.word.replace(' ', "_"), value);
    }
    let groups = syncs.groups.iter().map(|group| {
        json!({
            "name": group.name,
            "threads": group.threads,
            "calls": group.calls,
            "time_ns": group.ns,
            "time_share": group.time_share,
            "in_flight": group.in_flight,
        })
    });
    json!({
        "calls": syncs.calls,
        "per_s": syncs.per_s,
        "kinds": kinds,
        "groups": groups.collect::<Vec<_>>(),
    })
}

/// Where the time of calls went; `null` if there were none, or it is not known.
fn sync_parts(parts: &[PartFigures]) -> Value {
    if parts.is_empty() {
        return Value::Null;
    }
    let fields = parts.iter().map(|part| {
        let name = match part.part {
            SyncPart::Data => "data",
            SyncPart::Journal => "journal",
            SyncPart::Flush => "flush",
            SyncPart::Other => "other",
        };
        let value = json!({
            "total_ns": part.total_ns,
            "mean_ns": whole(part.mean_ns),
            "share": part.share,
        });
        (name.to_owned(), value)
    });
    Value::Object(fields.collect())
}

fn cpu(run: &ProfileRun, figures: &Figures) -> Value {
    let machine = &figures.machine;
    json!({
        "used_share": spread(&machine.cpu_used),
        "iowait_share": spread(&machine.iowait),
        "user_share": machine.cpu_mean.map(|[user, _, _]| user),
        "system_share": machine.cpu_mean.map(|[_, system, _]| system),
        "steal_share": machine.cpu_mean.map(|[_, _, steal]| steal),
        "io_pressure_share": machine.io_pressure,
        "switches_per_s": machine.switches_per_s,
        "program_user_cpus": machine.program_user,
        "program_system_cpus": machine.program_system,
        "program_voluntary_switches_per_s":
            machine.program_switches_per_s.map(|(voluntary, _)| voluntary),
        "program_involuntary_switches_per_s":
            machine.program_switches_per_s.map(|(_, involuntary)| involuntary),
        "program_io_delay_ns": run.io_delay_ns,
        "collector_cpus": machine.collector_cpu,
    })
}

fn threads(figures: &Figures) -> Vec<Value> {
    let each = figures.threads.iter().map(|each| {
        let thread = &each.thread;
        json!({
            "name": thread.name,
            "tid": thread.tid,
            "pid": thread.pid,
            "of_program": thread.of_program,
            "of_kernel": thread.of_kernel,
            "reads": thread.reads,
            "writes": thread.writes,
            "others": thread.others,
            "read_bytes": thread.read_bytes,
            "write_bytes": thread.write_bytes,
            "requests_per_s": each.requests_per_s,
            "sequential_share": each.sequential_share,
            "syncs": thread.syncs,
            "sync_time_ns": thread.sync_ns,
            "sync_time_share": each.sync_share,
        })
    });
    each.collect()
}

fn files(figures: &Figures) -> Vec<Value> {
    let each = figures.files.iter().map(|each| {
        let file = &each.file;
        json!({
            "path": file.path,
            "device": file.device,
            "inode": file.inode,
            "reads": file.reads,
            "writes": file.writes,
            "read_bytes": file.read_bytes,
            "write_bytes": file.write_bytes,
            "write_back_bytes": file.write_back_bytes,
            "direct_bytes": file.direct_bytes,
            "sequential_share": each.sequential_share,
            "read_latency_ns": latency(&each.read_ns),
            "write_latency_ns": latency(&each.write_ns),
        })
    });
    each.collect()
}

fn cgroups(figures: &Figures) -> Vec<Value> {
    let each = figures.cgroups.iter().map(|each| {
        json!({
            "path": each.cgroup.path,
            "requests": each.cgroup.requests,
            "read_bytes": each.cgroup.read_bytes,
            "write_bytes": each.cgroup.write_bytes,
            "read_latency_ns": latency(&each.read_ns),
            "write_latency_ns": latency(&each.write_ns),
        })
    });
    each.collect()
}

fn place(place: &PlaceFigures) -> Value {
    json!({
        "device": place.device,
        "block_bytes": place.block_bytes,
        "chunk_bytes": place.chunk_bytes,
        "chunks": place.chunks,
        "one_block_in": place.one_block_in,
        "working_set_bytes": place.working_set_bytes,
        "read_set_bytes": place.read_set_bytes,
        "write_set_bytes": place.write_set_bytes,
        "written_bytes": place.written_bytes,
        "overwrite_share": place.overwrite_share,
        "hottest_fifth_share": place.hot_share,
        "span_bytes": place.span_bytes,
        "lost_bytes": place.lost_bytes,
    })
}

fn heat(heat: &Heat) -> Value {
    json!({
        "column_ns": heat.column_ns,
        "row_from_ns": heat.row_edges_ns,
        "requests": heat.counts,
    })
}

/// Count, mean, extremes and percentiles; one that has not earned its place is `null`.
fn spread(spread: &Spread) -> Value {
    let mut fields = Map::new();
    fields.insert("count".into(), json!(spread.count));
    fields.insert("mean".into(), json!(spread.mean));
    fields.insert("min".into(), json!(spread.min));
    fields.insert("max".into(), json!(spread.max));
    for q in QUANTILES {
        fields.insert(name(q), json!(spread.at(q)));
    }
    Value::Object(fields)
}

fn latency(latency: &Latency) -> Value {
    let mut fields = Map::new();
    fields.insert("count".into(), json!(latency.count));
    fields.insert("sum".into(), json!(u64::try_from(latency.sum_ns).unwrap_or(u64::MAX)));
    fields.insert("mean".into(), json!(latency.mean_ns.map(whole)));
    fields.insert("max".into(), json!(latency.max_ns));
    for q in QUANTILES {
        fields.insert(name(q), json!(latency.at(q)));
    }
    Value::Object(fields)
}

/// `p99`, `p99.9`.
fn name(q: f64) -> String {
    format!("p{}", (q * 1e5).round() / 1e3)
}

fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::golden::{assert_golden, closed};
    use iosonde_analysis::profile::{against, figures};
    use iosonde_fixtures::profile::{by_counters, database, profile_of};
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::facts::DeviceFacts;

    const SCHEMA: &str = include_str!("../../../schema/iosonde-profile-result-2.schema.json");

    #[track_caller]
    fn assert_fits(run: &ProfileRun, against: &[Against]) -> Value {
        let document = profile_json(run, &figures(run), against, 0);
        let validator = jsonschema::validator_for(&closed(SCHEMA)).unwrap();
        let faults: Vec<String> = validator
            .iter_errors(&document)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(faults.is_empty(), "{faults:#?}");
        document
    }

    #[test]
    fn every_kind_of_profile_fits_the_schema() {
        let run = database();
        let mut load = run_of(&[Load::default()]);
        load.target.device = Some(DeviceFacts { name: "vda".into(), ..DeviceFacts::default() });
        let formatted = against(&run, &figures(&run), &load).unwrap();
        let document = assert_fits(&run, &[formatted]);
        assert_eq!(document["program_requests"]["read"]["requests"], 80_000);
        assert_eq!(document["syncs"]["kinds"]["fdatasync"]["calls"], 20_000);
        let document = assert_fits(&by_counters(), &[]);
        for missing in ["program_requests", "syncs", "opens", "io_threads", "over_time"] {
            assert!(document[missing].is_null(), "{missing}");
        }
        assert_eq!(document["unseen"], "CAP_BPF and CAP_PERFMON are missing");
        assert_fits(&profile_of(&[]), &[]);
    }

    #[test]
    fn the_document_does_not_change_unnoticed() {
        let run = database();
        let mut document = profile_json(&run, &figures(&run), &[], 0);
        document["program"] = Value::Null;
        let text = serde_json::to_string_pretty(&document).unwrap() + "\n";
        assert_golden("profile.json", &text);
    }
}
