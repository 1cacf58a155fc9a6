//! fio's JSON document, as printed by fio with `--output-format=json` and `json+`.
//!
//! Data without a field in fio is under `iosonde`: the verdict, the exit code, the error of the
//! command. A run whose consistency checks failed has no job entries.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    CLASSES, JobReport, Reported, VERSION, bins, clat, moving, numbered, settled, shown::Shown,
};
use crate::json::Document;
use iosonde_analysis::intervals::Direction;
use iosonde_model::record::run::{PriorityRun, Run};
use iosonde_model::spec::Priority;
use iosonde_stats::Histogram;

/// fio's classes of the number of requests in flight.
const DEPTHS: [&str; 7] = ["1", "2", "4", "8", "16", "32", ">=64"];
/// fio's classes of the number of requests per submission and per completion.
const BATCHES: [&str; 7] = ["0", "4", "8", "16", "32", "64", ">=64"];

/// One of fio's two forms.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// Percentiles.
    Plain,
    /// Percentiles, and the counts of all bins.
    Bins,
}

/// The document of a command; `now_unix_ns` is the wall-clock time since 1970.
pub fn fio_json(document: &Document<'_>, form: Form, now_unix_ns: u64) -> Value {
    let mut jobs = Vec::new();
    let balanced = numbered(document);
    for numbered in &balanced {
        let reports = numbered.reports();
        jobs.extend(reports.iter().map(|reported| job(reported, numbered.first_group, form)));
    }
    let disks: Vec<Value> = balanced.iter().filter_map(|numbered| disk(numbered.run.0)).collect();
    let mut out = json!({
        "fio version": VERSION,
        "timestamp": now_unix_ns / 1_000_000_000,
        "timestamp_ms": now_unix_ns / 1_000_000,
        "time": iosonde_model::record::store::utc(now_unix_ns),
        "jobs": jobs,
        "iosonde": {
            "verb": document.verb,
            "complete": document.complete,
            "exit_code": document.exit_code,
            "verdict": document.verdict.map(|verdict| &verdict.words),
            "invalid": document.cells.iter().filter(|(_, facts)| !facts.consistency.valid())
                .map(|(run, _)| &run.plan.name).collect::<Vec<_>>(),
            "error": document.error,
        },
    });
    if let Some(written) = document.written.filter(|written| !written.global.is_empty()) {
        out["global options"] = json!(written.global);
    }
    if !disks.is_empty() {
        out["disk_util"] = json!(disks);
    }
    out
}

/// A job with its verification; `first_group` is the number of the run's first group.
fn job(reported: &Reported<'_>, first_group: usize, form: Form) -> Value {
    let job_report = &reported.job;
    let options: BTreeMap<String, String> = match job_report.written {
        Some(written) => written.options.clone(),
        None => job_report.options().into_iter().map(|(name, of)| (name.to_owned(), of)).collect(),
    };
    let shown = &job_report.shown;
    let (user, system) = job_report.cpu_percent();
    let classes = job_report.classes();
    let whole_ns = job_report.run.plan.warmup_ns + job_report.window_ns();
    let mut out = json!({
        "jobname": job_report.name,
        "groupid": first_group + job_report.plan.span.group as usize,
        "error": job_report.errno(),
        "eta": 0,
        "elapsed": whole_ns.div_ceil(1_000_000_000),
        "job options": options,
        "sync": {
            "total_ios": job_report.job.sync.ops,
            "lat_ns": distribution(&job_report.job.sync.latency, form, shown),
        },
        "job_runtime": job_report.window_ns() / 1_000_000,
        "usr_cpu": user,
        "sys_cpu": system,
        "ctx": job_report.switches(),
        "majf": 0,
        "minf": 0,
        "iodepth_level": named(&DEPTHS, job_report.depth_shares()),
        "iodepth_submit": named(&BATCHES, job_report.submit_shares()),
        "iodepth_complete": named(&BATCHES, job_report.complete_shares()),
        "latency_ns": classed(&classes.ns),
        "latency_us": classed(&classes.us),
        "latency_ms": classed(&classes.ms),
        "latency_depth": job_report.plan.iodepth,
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    });
    if let Some(text) = job_report.written.and_then(|written| written.options.get("description")) {
        out["desc"] = json!(text);
    }
    if let Some(settled) = settled::object(job_report.run) {
        out["steadystate"] = settled;
    }
    for of in moving() {
        out[of.0] = direction(reported.of(of), of, form);
    }
    out
}

fn direction(job_report: &JobReport<'_>, of: Direction, form: Form) -> Value {
    let facts = (of.1)(&job_report.job);
    let (bw, iops) = job_report.samples(of);
    let per_second = |count: u64| match facts.ops {
        0 => 0.0,
        _ => count as f64 * 1e9 / job_report.window_ns().max(1) as f64,
    };
    let bw_bytes = per_second(facts.bytes).round() as u64;
    let shown = &job_report.shown;
    let latency = |of: &Histogram, in_full: bool| match in_full {
        true => distribution(of, form, shown),
        false => moments(of),
    };
    let mut out = json!({
        "io_bytes": facts.bytes,
        "io_kbytes": facts.bytes >> 10,
        "bw_bytes": bw_bytes,
        "bw": bw_bytes >> 10,
        "iops": per_second(facts.ops),
        "runtime": job_report.runtime_ms(facts),
        "total_ios": facts.ops,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": latency(&facts.slat, shown.slat),
        "clat_ns": latency(clat(facts), shown.clat),
        "lat_ns": latency(job_report.lat(facts).unwrap_or(&Histogram::new()), shown.lat),
        "bw_min": bw.min as u64,
        "bw_max": bw.max as u64,
        "bw_agg": job_report.share_percent(of),
        "bw_mean": bw.mean,
        "bw_dev": bw.dev,
        "bw_samples": bw.count,
        "iops_min": iops.min as u64,
        "iops_max": iops.max as u64,
        "iops_mean": iops.mean,
        "iops_stddev": iops.dev,
        "iops_samples": iops.count,
    });
    let with_samples = || facts.priorities.iter().filter(|run| run.latency.count() > 0);
    // fio lists priorities if there are at least two.
    if with_samples().count() > 1 {
        out["prios"] = with_samples().map(|run| priority(run, job_report, form)).collect();
    }
    out
}

/// The requests of one priority. Requests without their own priority have class and level of the
/// thread.
fn priority(run: &PriorityRun, job_report: &JobReport<'_>, form: Form) -> Value {
    let (own_class, own_level) = job_report.plan.place.io_priority;
    let (class, level, hint) = match run.priority {
        0 => (own_class, own_level, 0),
        priority => Priority::parts(priority),
    };
    json!({
        "prioclass": class,
        "prio": level,
        "priohint": hint,
        "clat_ns": distribution(&run.latency, form, &job_report.shown),
    })
}

/// Minimum, maximum, mean, standard deviation (ns) and count; all 0 if empty, as in fio.
fn moments(latency: &Histogram) -> Value {
    json!({
        "min": latency.min().unwrap_or(0),
        "max": latency.max().unwrap_or(0),
        "mean": latency.mean().unwrap_or(0.0),
        "stddev": latency.std_dev().unwrap_or(0.0),
        "N": latency.count(),
    })
}

/// The same with percentiles, and with bins if requested; an empty histogram has neither.
fn distribution(latency: &Histogram, form: Form, shown: &Shown) -> Value {
    let mut out = moments(latency);
    if latency.count() > 0 {
        let earned = shown.earned(latency).into_iter();
        out["percentile"] = earned.map(|(percent, ns)| (format!("{percent:.6}"), ns)).collect();
        if form == Form::Bins {
            let counted = bins(latency).into_iter();
            out["bins"] = counted.map(|(ns, times)| (ns.to_string(), times)).collect();
        }
    }
    out
}

fn named<'a>(names: &[&'a str], shares: [f64; 7]) -> BTreeMap<&'a str, f64> {
    names.iter().copied().zip(shares).collect()
}

fn classed(shares: &[f64]) -> BTreeMap<String, f64> {
    let names = CLASSES.iter().map(u64::to_string).chain(["2000".into(), ">=2000".into()]);
    names.zip(shares.iter().copied()).collect()
}

/// The device's counters over the window.
fn disk(run: &Run) -> Option<Value> {
    let (before, after) = run.device.as_ref()?;
    let device = run.target.device.as_ref()?;
    let busy_ms = after.busy_ms.saturating_sub(before.busy_ms);
    Some(json!({
        "name": device.name,
        "read_ios": after.reads.saturating_sub(before.reads),
        "write_ios": after.writes.saturating_sub(before.writes),
        "read_merges": after.read_merges.saturating_sub(before.read_merges),
        "write_merges": after.write_merges.saturating_sub(before.write_merges),
        "read_ticks": after.read_ms.saturating_sub(before.read_ms),
        "write_ticks": after.write_ms.saturating_sub(before.write_ms),
        "in_queue": after.weighted_ms.saturating_sub(before.weighted_ms),
        "util": (busy_ms as f64 * 1e8 / run.measured_ns.max(1) as f64).min(100.0),
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeSet;

    use super::*;
    use crate::golden::assert_golden;
    use crate::json::json_text;
    use iosonde_analysis::{assess, verdict};
    use iosonde_fixtures::{Load, open_run_of, run_of};

    /// Paths of all keys of a document; percentiles, bins and options are named by their parent.
    fn keys(value: &Value, path: &str, into: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let path = format!("{path}/{name}");
                    into.insert(path.clone());
                    if !["percentile", "bins", "job options"].contains(&name.as_str()) {
                        keys(value, &path, into);
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| keys(item, path, into)),
            _ => {}
        }
    }

    fn reported_of(run: &Run, form: Form) -> Value {
        let facts = assess(run, None);
        let judged = verdict(std::slice::from_ref(&facts));
        let cells = [(run, &facts)];
        let document =
            Document { verb: "run", cells: &cells, verdict: Some(&judged), ..Default::default() };
        fio_json(&document, form, 1_700_000_000_123_000_000)
    }

    #[test]
    fn every_key_of_fio_is_there() {
        let run = run_of(&[Load { read_percent: 50, ..Load::default() }]);
        let mut ours = BTreeSet::new();
        keys(&reported_of(&run, Form::Bins), "", &mut ours);
        let recorded = include_str!("../../../../tests/fixtures/fio/json-plus-3.33.keys");
        let missing: Vec<&str> = recorded.lines().filter(|key| !ours.contains(*key)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn a_mixed_run_stands_as_kept() {
        let load = Load { jobs: 2, read_percent: 70, noise: 0.0, ..Load::default() };
        let mut value = reported_of(&run_of(&[load]), Form::Plain);
        value["fio version"] = json!("…");
        value["jobs"].as_array_mut().unwrap().truncate(1);
        assert_golden("run.fio.json", &json_text(&value));
    }

    #[test]
    fn units_are_those_of_fio() {
        // T20: 5,000 operations of 4 KiB per second, 32 in flight, are 6.4 ms each.
        let value = reported_of(&run_of(&[Load { noise: 0.0, ..Load::default() }]), Form::Bins);
        let read = &value["jobs"][0]["read"];
        assert_eq!(read["bw_bytes"], 5_000 * 4096);
        assert_eq!(read["bw"], 5_000 * 4, "KiB per second");
        assert_eq!(read["io_kbytes"], 50_000 * 4, "KiB");
        assert_eq!(read["runtime"], 10_000, "ms");
        assert_eq!(read["iops"], 5_000.0);
        assert_eq!(
            (read["bw_min"].clone(), read["bw_max"].clone()),
            (json!(20_000), json!(20_000))
        );
        let mean_ns = read["lat_ns"]["mean"].as_f64().unwrap();
        assert!((mean_ns / 6.4e6 - 1.0).abs() < 0.01, "ns: {mean_ns}");
        let counts = read["clat_ns"]["bins"].as_object().unwrap();
        assert_eq!(counts.values().map(|n| n.as_u64().unwrap()).sum::<u64>(), 50_000);
        let median = read["clat_ns"]["percentile"]["50.000000"].as_f64().unwrap();
        assert!((median / 6.4e6 - 1.0).abs() < 0.05, "ns: {median}");
        let classes = &value["jobs"][0]["latency_ms"];
        let sum: f64 = classes.as_object().unwrap().values().map(|x| x.as_f64().unwrap()).sum();
        assert!((sum - 100.0).abs() < 1e-6, "percent: {sum}");
    }

    #[test]
    fn slat_clat_lat_trim_and_sync_stand_where_fio_has_them() {
        let mut run = run_of(&[Load { noise: 0.0, ..Load::default() }]);
        let job = &mut run.jobs[0];
        job.trim = std::mem::take(&mut job.read);
        job.trim.slat.record_many(1_000, 50_000);
        job.trim.clat.record_many(9_000, 50_000);
        // In an open loop, latency from the due time is longer than from submission.
        job.trim.response.record_many(20_000_000, 50_000);
        job.sync.ops = 7;
        job.sync.latency.record_many(3_000_000, 7);
        let value = reported_of(&run, Form::Plain);
        let job = &value["jobs"][0];
        assert_eq!(job["read"]["total_ios"], 0);
        let trim = &job["trim"];
        assert_eq!((trim["total_ios"].clone(), trim["bw"].clone()), (json!(50_000), json!(20_000)));
        for (word, ns) in [("slat_ns", 1_000.0), ("clat_ns", 9_000.0), ("lat_ns", 20e6)] {
            assert_eq!(trim[word]["mean"], ns, "{word}");
        }
        assert_eq!(job["sync"]["total_ios"], 7);
        assert_eq!(job["sync"]["lat_ns"]["mean"], 3e6);
        assert_eq!(job["latency_us"]["10"], 100.0, "classes are those of clat");
    }

    #[test]
    fn requests_of_two_priorities_stand_apart() {
        let mut run = run_of(&[Load { noise: 0.0, ..Load::default() }]);
        run.plan.jobs[0].place.io_priority = (2, 7);
        let of = |priority, latency_ns| {
            let mut latency = Histogram::new();
            latency.record_many(latency_ns, 1_000);
            PriorityRun { priority, latency }
        };
        run.jobs[0].read.priorities = vec![of(0, 5_000), of(0x2003, 3_000)];
        let prios = reported_of(&run, Form::Plain)["jobs"][0]["read"]["prios"].clone();
        for (at, [class, level, mean]) in [[2, 7, 5_000], [1, 3, 3_000]].into_iter().enumerate() {
            let found = &prios[at];
            assert_eq!((&found["prioclass"], &found["prio"]), (&json!(class), &json!(level)));
            assert_eq!(found["clat_ns"]["mean"], json!(mean as f64));
        }
        run.jobs[0].read.priorities.truncate(1);
        let one = reported_of(&run, Form::Plain);
        assert_eq!(one["jobs"][0]["read"].get("prios"), None, "as in fio");
    }

    #[test]
    fn an_open_loop_that_falls_behind_has_no_total_latency() {
        let load = Load { depth: 1, iops: 1_000.0, ..Load::default() };
        let lat =
            |run: &Run| reported_of(run, Form::Plain)["jobs"][0]["read"]["lat_ns"]["N"].clone();
        assert_eq!(lat(&open_run_of(&load, |_| 0)), 10_000);
        let behind = open_run_of(&load, |tenth| tenth * 50_000_000);
        assert_eq!(lat(&behind), 0);
        let clat = &reported_of(&behind, Form::Plain)["jobs"][0]["read"]["clat_ns"];
        assert_eq!(clat["N"], 10_000, "from submission it is still known");
    }

    #[test]
    fn an_unearned_percentile_is_left_out_and_an_invalid_run_too() {
        let mut run = run_of(&[Load { depth: 1, iops: 20.0, ..Load::default() }]);
        let value = reported_of(&run, Form::Plain);
        let earned = value["jobs"][0]["read"]["clat_ns"]["percentile"].as_object().unwrap();
        assert!(earned.contains_key("50.000000") && !earned.contains_key("99.000000"));
        run.jobs[0].read.bytes += 1;
        let value = reported_of(&run, Form::Plain);
        assert_eq!(value["jobs"], json!([]));
        assert_eq!(value["iosonde"]["invalid"], json!([run.plan.name]));
    }
}
