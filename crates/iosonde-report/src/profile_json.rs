//! A profile as JSON: every figure, with its unit in its name.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::json::envelope;
use iosonde_analysis::consistency::Identity;
use iosonde_analysis::profile::{
    Against, CgroupFigures, DeviceFigures, Figures, FileFigures, Latency, ThreadFigures,
};
use iosonde_model::record::ProfileRun;
use iosonde_model::record::facts::{DeviceFacts, HostFacts};
use iosonde_model::record::profile::{Ended, FileSystemRun, Source, Subject};

/// Name and version of the document.
pub const PROFILE_RESULT_SCHEMA: &str = "iosonde.profile-result/2";

/// The document. A figure that was not observed is `null`, for the reason in `unseen` and
/// `source.missing`.
pub fn profile_json(
    run: &ProfileRun,
    figures: &Figures,
    against: &[Against],
    exit_code: u8,
) -> Value {
    let devices = figures.devices.iter().zip(&run.devices);
    let document = Document {
        subject: &run.subject,
        ended: &run.ended,
        started_unix_ns: run.started_unix_ns,
        host: &run.host,
        source: &run.source,
        figures,
        devices: devices.map(|(figures, of)| Device { figures, facts: &of.facts }).collect(),
        threads: figures.threads.iter().map(thread).collect(),
        files: figures.files.iter().map(file).collect(),
        cgroups: figures.cgroups.iter().map(cgroup).collect(),
        file_systems: &run.file_systems,
        consistency: Consistency {
            balanced: figures.consistency.valid(),
            entries: &figures.consistency.entries,
        },
        against,
        lost: &run.lost,
    };
    envelope(PROFILE_RESULT_SCHEMA, "profile", exit_code, document)
}

#[derive(Serialize)]
struct Document<'a> {
    subject: &'a Subject,
    ended: &'a Ended,
    started_unix_ns: u64,
    host: &'a HostFacts,
    source: &'a Source,
    #[serde(flatten)]
    figures: &'a Figures,
    devices: Vec<Device<'a>>,
    threads: Vec<Thread<'a>>,
    files: Vec<File<'a>>,
    cgroups: Vec<Cgroup<'a>>,
    file_systems: &'a [FileSystemRun],
    consistency: Consistency<'a>,
    against: &'a [Against],
    lost: &'a BTreeMap<String, u64>,
}

#[derive(Serialize)]
struct Device<'a> {
    #[serde(flatten)]
    figures: &'a DeviceFigures,
    facts: &'a DeviceFacts,
}

#[derive(Serialize)]
struct Consistency<'a> {
    balanced: bool,
    entries: &'a [Identity],
}

#[derive(Serialize)]
struct Thread<'a> {
    name: &'a str,
    tid: Option<u32>,
    pid: u32,
    of_program: bool,
    of_kernel: bool,
    reads: u64,
    writes: u64,
    others: u64,
    read_bytes: u64,
    write_bytes: u64,
    requests_per_s: f64,
    sequential_share: Option<f64>,
    syncs: u64,
    sync_time_ns: u64,
    sync_time_share: Option<f64>,
}

fn thread(figures: &ThreadFigures) -> Thread<'_> {
    let thread = &figures.thread;
    Thread {
        name: &thread.name,
        tid: thread.tid,
        pid: thread.pid,
        of_program: thread.of_program,
        of_kernel: thread.of_kernel,
        reads: thread.reads,
        writes: thread.writes,
        others: thread.others,
        read_bytes: thread.read_bytes,
        write_bytes: thread.write_bytes,
        requests_per_s: figures.requests_per_s,
        sequential_share: figures.sequential_share,
        syncs: thread.syncs,
        sync_time_ns: thread.sync_ns,
        sync_time_share: figures.sync_share,
    }
}

#[derive(Serialize)]
struct File<'a> {
    path: &'a str,
    device: &'a str,
    inode: u64,
    reads: u64,
    writes: u64,
    read_bytes: u64,
    write_bytes: u64,
    write_back_bytes: u64,
    direct_bytes: u64,
    sequential_share: Option<f64>,
    read_latency_ns: &'a Latency,
    write_latency_ns: &'a Latency,
}

fn file(figures: &FileFigures) -> File<'_> {
    let file = &figures.file;
    File {
        path: &file.path,
        device: &file.device,
        inode: file.inode,
        reads: file.reads,
        writes: file.writes,
        read_bytes: file.read_bytes,
        write_bytes: file.write_bytes,
        write_back_bytes: file.write_back_bytes,
        direct_bytes: file.direct_bytes,
        sequential_share: figures.sequential_share,
        read_latency_ns: &figures.read_ns,
        write_latency_ns: &figures.write_ns,
    }
}

#[derive(Serialize)]
struct Cgroup<'a> {
    path: &'a str,
    requests: u64,
    read_bytes: u64,
    write_bytes: u64,
    read_latency_ns: &'a Latency,
    write_latency_ns: &'a Latency,
}

fn cgroup(figures: &CgroupFigures) -> Cgroup<'_> {
    let cgroup = &figures.cgroup;
    Cgroup {
        path: &cgroup.path,
        requests: cgroup.requests,
        read_bytes: cgroup.read_bytes,
        write_bytes: cgroup.write_bytes,
        read_latency_ns: &figures.read_ns,
        write_latency_ns: &figures.write_ns,
    }
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
