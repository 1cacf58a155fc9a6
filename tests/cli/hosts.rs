//! One command on several hosts: with real agents as local processes, and with scripts that act as
//! agents.

use std::fmt::Display;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use iosonde_model::record::Run;
use iosonde_rig::guard::{FsKind, ImageMount};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::formats::assert_fits;
use crate::program::{Call, Ended, Place, listing};

pub(crate) const SCHEMA: &str = include_str!("../../schema/iosonde-hosts-result-1.schema.json");
/// The agent program on every host.
const AGENT: iosonde_fixtures::Program = iosonde_fixtures::program!();

pub(crate) const SIM: &str =
    "--ioengine sim --path servers=8,read=exp:90us --rw randread --iodepth 4";

/// `run` with local agents and the options in `rest`.
fn run(place: &Place, hosts: &str, rest: &str) -> Call {
    place.iosonde(&format!("run --hosts {hosts} --launch local --agent {AGENT} {rest}"))
}

/// A launcher that runs this script as the agent of `b`, and a real agent for `a`.
fn with_b(script: &str) -> String {
    format!("--launch=sh -c 'if [ {{host}} = a ]; then exec {{command}}; else {script}; fi'")
}

/// Checks that a load's percentiles are those of its records' raw histograms together: the nearest
/// rank among all their buckets.
pub(crate) fn assert_merged(load: &Value, folder: &Path, names: &[impl Display]) {
    let records = names.iter().map(|name| {
        let text = fs::read(folder.join(format!("01-run@{name}.json"))).unwrap();
        serde_json::from_slice::<Run>(&text).unwrap()
    });
    let records: Vec<Run> = records.collect();
    let raw: Vec<_> =
        records.iter().flat_map(|run| run.jobs.iter().map(|job| &job.read.latency)).collect();
    let mut buckets: Vec<(u32, u64)> = raw.iter().flat_map(|raw| raw.occupied()).collect();
    buckets.sort_unstable();
    let count: u64 = raw.iter().map(|raw| raw.count()).sum();
    let (min_ns, max_ns) = (
        raw.iter().filter_map(|raw| raw.min()).min(),
        raw.iter().filter_map(|raw| raw.max()).max(),
    );
    let found = &load["latency"];
    assert_eq!(
        (found["count"].as_u64(), found["min_ns"].as_u64(), found["max_ns"].as_u64()),
        (Some(count), min_ns, max_ns)
    );
    let sum: u128 = raw.iter().map(|raw| raw.sum()).sum();
    let mean = sum as f64 / count as f64;
    assert!((found["mean_ns"].as_f64().unwrap() / mean - 1.0).abs() < 1e-9);
    let mut compared = 0;
    for quantile in found["quantiles"].as_array().unwrap() {
        let Some(value_ns) = quantile["estimate"]["value_ns"].as_u64() else { continue };
        let rank = (quantile["q"].as_f64().unwrap() * count as f64).ceil() as u64;
        let mut below = 0;
        let nearest = buckets.iter().find(|(_, times)| {
            below += times;
            below >= rank
        });
        let mut alone = iosonde_stats::Histogram::new();
        alone.add_buckets(&[(nearest.unwrap().0, 1)]);
        // Any value in the bucket of this rank.
        let middle_ns = alone.quantile(0.5).unwrap().clamp(min_ns.unwrap(), max_ns.unwrap());
        let off = value_ns.abs_diff(middle_ns) as f64 / middle_ns as f64;
        assert!(off <= iosonde_stats::histogram::RELATIVE_ERROR, "{quantile}: {middle_ns}");
        compared += 1;
    }
    assert!(compared >= 5, "{found}");
}

#[test]
fn each_host_has_its_own_path_by_its_name() {
    let place = Place::new();
    place.file("data-a", &[1; 1 << 20]);
    place.file("data-b", &[2; 1 << 20]);
    let words = "--ioengine psync --path data-{host} --rw randread --number-ios 50 \
                 --output-format json";
    let json = run(&place, "a,b", words).end().exits(0).json();
    assert_eq!(json["loads"][0]["hosts"].as_array().unwrap().len(), 2);
    let missing = run(&place, "a,c", words).end().exits(2);
    missing.says("hosts: c: `data-c` does not exist");
}

#[test]
fn hosts_are_merged_into_one_result() {
    let place = Place::new();
    let words = format!("{SIM} --number-ios 20000 --results kept --output-format json");
    let json = run(&place, "node[1-3]", &words).end().exits(0).json();
    assert_eq!((&json["complete"], &json["exit_code"]), (&true.into(), &0.into()));
    assert_fits(SCHEMA, &json);
    let load = &json["loads"][0];
    let names: Vec<&str> = load["hosts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|host| host["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["node1", "node2", "node3"]);
    let rate = |host: &Value| host["iops"].as_f64().unwrap();
    let sum: f64 = load["hosts"].as_array().unwrap().iter().map(rate).sum();
    assert!((sum / load["common"]["iops"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    let folder = listing(&place.work().join("kept")).remove(0);
    assert_merged(load, &folder, &["node1", "node2", "node3"]);
    // The same again from the stored results.
    let again = place.iosonde("report --output-format json").arg(&folder);
    assert_eq!(again.end().exits(0).json()["loads"], json["loads"]);
    place.iosonde("report").arg(&folder).end().exits(0).prints("on 3 hosts");
    let page = place.iosonde("report --output-format html").arg(&folder);
    page.end().exits(0).prints("node2");
}

#[test]
fn why_hosts_cannot_begin_is_said_once() {
    let place = Place::new();
    place.file("disk-a", &[7; 1 << 20]);
    let words = "--path disk-{host} --rw randread --ioengine psync --number-ios 10";
    let ended = run(&place, "a,b,c", words).end().exits(2).silent();
    let of = |host| format!("\n         {host}: `disk-{host}` does not exist");
    let ended = ended.says(&format!("hosts:{}", of("b"))).says(&of("c"));
    assert!(!ended.err.contains("called off") && !ended.err.contains("is lost"), "{}", ended.err);
    let ended = run(&place, "b,c", &words.replace("-{host}", "")).end().exits(2).silent();
    assert_eq!(ended.err.matches("`disk` does not exist").count(), 1, "{}", ended.err);
    ended.says("nothing was written on any of 2 hosts: b, c: `disk` does not exist");
}

#[test]
fn a_campaign_runs_on_each_host_with_its_own_devices() {
    let place = Place::new();
    let experiment = TWO_DEPTHS.replace("seconds = 0.5", "seconds = 0.2");
    let campaign = "name = \"fleet\"\n[[device]]\nname = \"s\"\nioengine = \"sim\"\n\
                    path = \"servers=8,read=exp:1ms,size=64M\"\n[[experiment]]\n\
                    name = \"depths.toml\"\n";
    for host in ["a", "b"] {
        fs::create_dir(place.work().join(host)).unwrap();
        fs::write(place.work().join(host).join("depths.toml"), &experiment).unwrap();
        fs::write(place.work().join(host).join("fleet.toml"), campaign).unwrap();
    }
    let on_both = |words: &str| {
        let words = format!("campaign {words} --hosts a,b --agent {AGENT}");
        place.iosonde(&words).arg("--launch=sh -c 'cd {host} && exec {command}'")
    };
    let together = "fleet: 2 of 2 experiments complete on 2 devices of 2 hosts";
    on_both("run fleet.toml --output out").end().exits(0).prints(together);
    let kept = listing(&place.work().join("b/out"));
    assert!(kept.iter().any(|folder| folder.join("signoff.json").is_file()), "{kept:?}");
    // One host lacks the device: no host begins.
    let missing = campaign.replace("ioengine = \"sim\"", "").replace("servers=8,", "/nowhere/");
    fs::write(place.work().join("b/fleet.toml"), missing).unwrap();
    let ended = on_both("run fleet.toml --output other").end().exits(2).silent();
    ended.says("nothing was written on any of 2 hosts: b: device `s`");
    assert!(!place.work().join("a/other").exists());
    let again = on_both("resume out --output-format json").end().exits(0).json();
    assert_fits(SCHEMA, &again);
    assert_eq!(again["outputs"][1]["complete"], true);
    assert!(again["answer"]["result"].as_str().unwrap().starts_with(together), "{again:#}");
}

#[test]
fn real_runs_begin_together() {
    let place = Place::new();
    place.file("disk", &[7; 4 << 20]);
    let words = "--path disk --rw randread --ioengine psync --runtime 500ms --output-format json";
    let json = run(&place, "a,b", words).end().exits(0).json();
    let common = &json["loads"][0]["common"];
    let span_ns = common["span_ns"].as_u64().unwrap();
    // At most half a second; a busy machine may start a process late, never early.
    assert!((250_000_000..=500_000_000).contains(&span_ns), "{common}");
}

#[test]
fn nothing_is_written_unless_every_host_can_take_part() {
    let place = Place::new();
    place.file("mine", b"somebody's data");
    place.file("blank", &[0; 1 << 20]);
    // A separate directory for each host; in one of them the file holds data.
    for (host, file) in [("a", "blank"), ("b", "mine")] {
        fs::create_dir(place.work().join(host)).unwrap();
        fs::copy(place.work().join(file), place.work().join(host).join("disk")).unwrap();
    }
    let call =
        place.iosonde(&format!("run --hosts a,b --agent {AGENT} --path disk --rw randwrite"));
    let ended = call
        .arg("--number-ios=10")
        .arg("--launch=sh -c 'cd {host} && exec {command}'")
        .end()
        .exits(5);
    ended.says("nothing was written on any of 2 hosts: b: `disk` holds data");
    assert_eq!(fs::read(place.work().join("a/disk")).unwrap(), vec![0; 1 << 20]);
    assert_eq!(fs::read(place.work().join("b/disk")).unwrap(), b"somebody's data");
}

#[test]
fn what_is_no_agent_is_named_and_the_others_are_let_go() {
    let place = Place::new();
    let refused = |script: &str, words: &str| {
        let began = Instant::now();
        let call = place
            .iosonde(&format!("run --hosts a,b --host-timeout 3 --agent {AGENT} {SIM}"))
            .arg("--number-ios=1000")
            .arg(with_b(script));
        call.end().exits(1).silent().says("nothing was written on any of 2 hosts").says(words);
        assert!(began.elapsed() < Duration::from_secs(60));
    };
    refused("echo bash: iosonde: command not found", "expected an iosonde agent");
    refused("echo no route to host >&2; exit 255", "b: the connection ended (no route to host)");
    refused("sleep 100", "b: it sent nothing for 3 s (--host-timeout)");
    refused("yes", "expected an iosonde agent");
    refused("echo \"#iosonde 999999999999\"; sleep 100", "a message of 999999999999 B");
    refused("echo \"#iosonde 9\"; echo \"{}\"", "ended within a message");
    let hello = |protocol: u32, program: &str| {
        let message = format!(
            "{{\\\"Hello\\\":{{\\\"protocol\\\":{protocol},\\\"program\\\":\\\"{program}\\\",\
             \\\"node\\\":\\\"x\\\",\\\"kernel\\\":\\\"y\\\"}}}}"
        );
        let bytes = message.replace('\\', "").len();
        format!("echo \"#iosonde {bytes}\"; echo \"{message}\"; sleep 100")
    };
    refused(&hello(1, "9.9.9"), "iosonde 9.9.9 (protocol 1) is installed there, expected");
    refused(&hello(7, env!("CARGO_PKG_VERSION")), "(protocol 7) is installed there");
    refused(&hello(1, env!("CARGO_PKG_VERSION")), "b: it sent nothing for 3 s");
}

#[test]
fn a_banner_does_no_harm() {
    let place = Place::new();
    let call = place.iosonde(&format!("run --hosts a,b --agent {AGENT} {SIM} --number-ios 1000"));
    let banner = with_b("echo Welcome to b; echo; printf \"no line feed\"; exec {command}");
    call.arg(banner).end().exits(0).prints("on 2 hosts");
}

#[test]
fn a_host_that_dies_leaves_a_partial_result() {
    let place = Place::new();
    place.file("disk", &[7; 4 << 20]);
    let call =
        place.iosonde(&format!("run --hosts a,b,c --agent {AGENT} --path disk --rw randread"));
    // The agent of `b` is killed during the measurement.
    let noted = "--launch=sh -c 'if [ {host} = b ]; then echo $$ > agent; fi; exec {command}'";
    let call = call.arg("--ioengine=psync").arg("--runtime=15").arg("--results=kept").arg(noted);
    let running = call.start().until_stderr("hosts: 3 running");
    kill(&place.work().join("agent"));
    let ended = running.end().exits(1);
    let ended = ended.prints("PARTIAL: ").prints("on 2 of 3 hosts").says("warning: b is lost");
    ended.prints("See why b did not end as it should");
    let folder = listing(&place.work().join("kept")).remove(0);
    assert!(folder.join("01-run@a.json").is_file() && folder.join("01-run@c.json").is_file());
    place.iosonde("report").arg(&folder).end().exits(0).prints("PARTIAL: ");
}

/// Kills the process whose number is in this file.
pub(crate) fn kill(file: &Path) {
    let pid = fs::read_to_string(file).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn storage_that_two_hosts_would_write_is_refused() {
    let place = Place::new();
    place.file("disk", &[0; 1 << 20]);
    let words = "--path disk --rw randwrite --ioengine psync --number-ios 10";
    // With both hosts on one machine, the gate of the second refuses even earlier.
    let ended = run(&place, "a,b", words).end().exits(5);
    ended.says("nothing was written on any of 2 hosts");
    assert_eq!(fs::read(place.work().join("disk")).unwrap(), vec![0; 1 << 20]);
}

#[test]
fn an_interrupt_stops_all_hosts_and_keeps_what_there_is() {
    let place = Place::new();
    place.file("disk", &[7; 4 << 20]);
    let words = "--path disk --rw randread --ioengine psync --runtime 60 --results kept";
    // Both hosts measure by then.
    let running = run(&place, "a,b", words).start().until_stderr("hosts: 2 running");
    let began = Instant::now();
    running.signal(Signal::INT).end().exits(130).prints("PARTIAL: ");
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(listing(&place.work().join("kept")).len(), 1);
}

#[test]
fn other_verbs_are_shown_host_by_host() {
    let place = Place::new();
    let doctor = format!("doctor . --hosts a,b --launch local --agent {AGENT}");
    let shown = place.iosonde(&doctor).end().exits(0).prints("── a ──").prints("── b ──");
    assert!(shown.out.starts_with("Result:      done on 2 of 2 hosts\n"), "{shown}");
    let json = place.iosonde(&doctor).arg("--output-format=json").end().exits(0).json();
    assert_eq!(json["outputs"].as_array().unwrap().len(), 2);
    assert_fits(SCHEMA, &json);
    assert!(json["outputs"][1].is_object(), "{json:#}");
    for host in ["a", "b"] {
        fs::create_dir(place.work().join(host)).unwrap();
    }
    let flush = place.iosonde(&format!("verify flush . --size 8M --hosts a,b --agent {AGENT}"));
    let shown = flush.arg("--launch=sh -c 'cd {host} && exec {command}'").end().exits(0);
    shown.prints("Result:      PASS on 2 of 2 hosts\n").prints("── b ──");
}

#[test]
fn the_counters_of_a_shared_server_stand_beside_the_load() {
    let place = Place::new();
    let folder = place.work().display().to_string();
    // A server whose read counter grows by 4,096 bytes at each call, and whose write counter is 0.
    place.file(
        "count",
        b"#!/bin/sh\ncd \"$1\"; echo x >> asked\necho $(($(wc -l < asked) * 4096)) 0",
    );
    let words = format!("--number-ios 100 --output-format json --results kept {SIM}");
    let counters = format!("--server-counters=sh {folder}/count {folder}");
    let json = run(&place, "a,b", &words).arg(&counters).end().exits(0).json();
    assert_fits(SCHEMA, &json);
    let server = &json["loads"][0]["server"];
    assert_eq!(
        (server["hosts_read_bytes"].as_u64(), server["server_read_bytes"].as_u64()),
        (Some(2 * 4 * 102_400), Some(4096))
    );
    assert_eq!(server["is_cached"], true);
    let confidence = json["answer"]["confidence"].as_str().unwrap();
    assert!(confidence.contains("most reads did not reach the server's disks"), "{confidence}");
    page(&place, "kept").prints("The server's disks read 4.00 KiB while the hosts read");
    let ended = run(&place, "a,b", &words).arg("--server-counters=echo busy").end().exits(1);
    ended.says("--server-counters: `echo busy`: found `busy`, expected lines of /sys/block");
    // Failing counters do not stop the run once the hosts have begun.
    place.file(
        "once",
        b"#!/bin/sh\ncd \"$1\"; echo x >> calls; [ $(wc -l < calls) = 1 ] && echo 1 1",
    );
    let counters = format!("--server-counters=sh {folder}/once {folder}");
    let ended = run(&place, "a,b", &words).arg(&counters).end().exits(0);
    ended.says("warning: --server-counters: exit code 1").says("this run goes without them");
}

/// Page of the newest multi-host result in a folder.
fn page(place: &Place, results: &str) -> Ended {
    let folders = listing(&place.work().join(results));
    place.iosonde("report --output-format markdown").arg(folders.last().unwrap()).end().exits(0)
}

#[test]
fn bad_lists_and_launchers_are_refused() {
    let place = Place::new();
    let refuse = |words: &str, message: &str| {
        place.iosonde(&format!("run {SIM} {words}")).end().exits(2).silent().says(message);
    };
    refuse("--hosts a,a", "`a` is named twice");
    refuse("--hosts a[1-", "not closed");
    refuse("--hosts a --launch shh", "found `shh`, expected ssh, clush");
    refuse("--hosts a --host-timeout 1", "expected 2 s to 24 h");
    refuse("--hosts a --output-format terse", "text or JSON");
    refuse("--launch local", "--hosts");
    refuse("--host-region shared", "has no effect on one host");
    refuse("--server-counters true", "--server-counters has no effect on one host");
    refuse("--hosts a --launch local --server-counters 'x", "--server-counters: `'x`: unclosed");
    refuse("--share 0/2", "expected a part and the number of parts");
    let check = "check . --hosts a --launch local --host-region shared";
    place.iosonde(check).end().exits(2).says("--host-region has no effect");
    let doctor = "doctor . --hosts a --launch local --server-counters uptime";
    place.iosonde(doctor).end().exits(2).says("it is for run, check, experiment");
}

/// Two depths, two runs each.
const TWO_DEPTHS: &str = "name = \"depths\"\nquestion = \"?\"\n[[stage]]\nname = \"depth\"\n\
    repeats = 2\nseconds = 0.5\nset = { rw = \"randread\", block-size = \"4k\" }\n\
    [[stage.axis]]\nname = \"iodepth\"\nvalues = [1, 4]\n";

#[test]
fn an_experiment_goes_cell_by_cell_on_all_hosts() {
    let place = Place::new();
    place.file("depths.toml", TWO_DEPTHS.as_bytes());
    let words = format!(
        "experiment run depths.toml servers=8,read=exp:90us --ioengine sim --hosts a,b,c \
         --launch local --agent {AGENT} --results kept"
    );
    let json = place.iosonde(&words).arg("--output-format=json").end().exits(0).json();
    assert_fits(SCHEMA, &json);
    assert_eq!((&json["verb"], &json["complete"]), (&"experiment".into(), &true.into()));
    let loads = json["loads"].as_array().unwrap();
    assert_eq!(loads.len(), 4);
    assert!(loads.iter().all(|load| load["hosts"].as_array().unwrap().len() == 3));
    let cells = json["cells"].as_array().unwrap();
    assert_eq!(cells.iter().map(|cell| &cell["runs"]).collect::<Vec<_>>(), [2, 2]);
    for cell in cells {
        let of_cell = loads.iter().filter(|load| load["title"] == cell["title"]);
        let counts = of_cell.map(|load| load["latency"]["count"].as_u64().unwrap());
        assert_eq!(cell["latency"]["count"], counts.sum::<u64>());
    }
    // All hosts have the same order of cells, and different offsets.
    let folder = place.work().join("kept");
    let folder = listing(&folder).into_iter().find(|path| path.join("hosts.json").is_file());
    let folder = folder.unwrap();
    let run = |host: &str| {
        let text = fs::read(folder.join(format!("01-depth@{host}.json"))).unwrap();
        serde_json::from_slice::<iosonde_model::record::Run>(&text).unwrap().plan
    };
    assert_eq!(run("a").title, run("b").title);
    assert_ne!(run("a").seed, run("b").seed);
    place.iosonde("report").arg(&folder).end().exits(0).prints("2 cells in 4 runs on 3 hosts");
    let again = place.iosonde("report --output-format json").arg(&folder).end().exits(0).json();
    assert_eq!(again["cells"], json["cells"]);
}

#[test]
fn a_host_that_dies_in_an_experiment_leaves_the_cells_of_the_others() {
    let place = Place::new();
    place.file("disk", &[0; 4 << 20]);
    let depths = TWO_DEPTHS.replace("0.5", "1.5").replace("iodepth", "numjobs");
    place.file("depths.toml", depths.as_bytes());
    let words = format!(
        "experiment run depths.toml disk --ioengine psync --hosts a,b --agent {AGENT} \
         --host-region shared --output-format json"
    );
    // Each host reads its own file; the agent of `b` is killed during the second run.
    for host in ["a", "b"] {
        fs::create_dir(place.work().join(host)).unwrap();
        for file in ["disk", "depths.toml"] {
            fs::copy(place.work().join(file), place.work().join(host).join(file)).unwrap();
        }
    }
    let dies = "--launch=sh -c 'cd {host}; if [ {host} = b ]; then timeout -s KILL 4 {command}; \
                else exec {command}; fi'";
    let ended = place.iosonde(&words).arg(dies).end().exits(1).says("warning: b is lost");
    let json = ended.json();
    assert_eq!(json["complete"], false);
    let hosts_of = |load: &Value| load["hosts"].as_array().unwrap().len();
    let loads = json["loads"].as_array().unwrap();
    assert_eq!(loads.len(), 4);
    assert_eq!(hosts_of(&loads[3]), 1);
    assert!(json["answer"]["result"].as_str().unwrap().starts_with("PARTIAL: "));
}

#[test]
fn an_experiment_in_which_hosts_would_go_different_ways_is_refused() {
    let place = Place::new();
    let refuse = |words: &str, why: &str| {
        let words = format!(
            "experiment run {words} servers=8,read=exp:90us --ioengine sim --hosts a,b \
             --launch local --agent {AGENT}"
        );
        place.iosonde(&words).end().exits(2).silent().says(why);
    };
    refuse("basic", "its results decide what comes next");
    refuse("best-configuration", "cannot run on several hosts together");
    place.file("depths.toml", TWO_DEPTHS.as_bytes());
    refuse("depths.toml --host-region partitioned", "an experiment has no parts");
    // A host whose file has other cells is not merged with the others.
    for (host, text) in [("a", TWO_DEPTHS.into()), ("b", TWO_DEPTHS.replace("[1, 4]", "[2, 8]"))] {
        fs::create_dir(place.work().join(host)).unwrap();
        fs::write(place.work().join(host).join("depths.toml"), text).unwrap();
    }
    let words = format!(
        "experiment run depths.toml servers=8,read=exp:90us --ioengine sim --hosts a,b \
         --agent {AGENT}"
    );
    let other = place.iosonde(&words).arg("--launch=sh -c 'cd {host} && exec {command}'").end();
    other
        .exits(1)
        .prints("PARTIAL: ")
        .says("warning: b is lost: it is at `")
        .says("while a is at `");
}

#[test]
fn the_program_is_sent_where_it_is_not_installed_and_leaves_nothing() {
    let place = Place::new();
    for host in ["a", "b"] {
        fs::create_dir(place.work().join(host)).unwrap();
    }
    let words = format!("run --hosts a,b --send-binary {SIM} --number-ios 1000");
    let launch = |rest: &str| {
        format!(
            "--launch=sh -c 'echo Welcome; export TMPDIR=$PWD/{{host}}; {rest}exec {{command}}'"
        )
    };
    place.iosonde(&words).arg(launch("")).end().exits(0).prints("on 2 hosts");
    let is_empty = |host: &str| listing(&place.work().join(host)).is_empty();
    assert!(is_empty("a") && is_empty("b"));
    // Bytes are changed in transit to `b`.
    let bad = place.work().join("bad");
    fs::create_dir(&bad).unwrap();
    fs::write(bad.join("head"), "#!/bin/sh\n/usr/bin/head \"$@\" | tr A B\n").unwrap();
    fs::set_permissions(bad.join("head"), fs::Permissions::from_mode(0o755)).unwrap();
    let changed = "if [ {host} = b ]; then PATH=$PWD/bad:$PATH; fi; ";
    let ended = place.iosonde(&words).arg(launch(changed)).end().exits(1).silent();
    ended
        .says("nothing was written on any of 2 hosts: b: ")
        .says("the program arrived with checksum");
    assert!(is_empty("a") && is_empty("b"));
    // There is no directory for it.
    let nowhere = "TMPDIR=/nowhere; ";
    place.iosonde(&words).arg(launch(nowhere)).end().exits(1).says("mktemp");
    let both = format!("{words} --agent iosonde");
    place.iosonde(&both).end().exits(2).says("--send-binary");
}

#[test]
fn a_connection_that_ends_in_any_phase_harms_no_other_host() {
    let place = Place::new();
    // The last message of `b`. While hosts are still connecting, no host begins.
    for last in ["Hello", "Pong"] {
        let call = place.iosonde(&format!("run --hosts a,b --agent {AGENT} {SIM}"));
        let cut = with_b(&format!("{{command}} | sed -u /{last}/q"));
        let ended = call.arg("--number-ios=1000").arg(cut).end().exits(1).silent();
        ended.says("nothing was written on any of 2 hosts: b: the connection ended");
    }
    // Once all hosts are admitted, the others continue.
    for (last, hosts) in [("Admitted", 1), ("Ready", 1), ("Opened", 1), ("Record", 2)] {
        let call = place.iosonde(&format!("run --hosts a,b --agent {AGENT} {SIM}"));
        let cut = with_b(&format!("{{command}} | (sed -u /{last}/q; sleep 3)"));
        let call = call.arg("--number-ios=1000").arg("--output-format=json").arg(cut);
        let ended = call.end().exits(1).says("b is lost: the connection ended");
        let json = ended.json();
        assert_fits(SCHEMA, &json);
        assert!(json["answer"]["result"].as_str().unwrap().starts_with("PARTIAL: "), "{last}");
        assert!(json["answer"].to_string().contains("See why b did not end as it should"));
        assert_eq!(json["hosts"][0]["end"]["code"], 0, "{last}");
        let measured = json["loads"][0]["hosts"].as_array().unwrap();
        assert_eq!((measured.len(), &measured[0]["name"]), (hosts, &"a".into()), "{last}");
    }
}

#[test]
fn clocks_an_hour_apart_are_no_skew() {
    let place = Place::new();
    // A time namespace has its own monotonic clock.
    let apart = "unshare --time --monotonic 3600";
    let has_them = Command::new("sh").args(["-c", &format!("{apart} true")]).output();
    if !has_them.is_ok_and(|ended| ended.status.success()) {
        return iosonde_rig::skip("no time namespace can be made: clocks that are apart");
    }
    place.file("disk", &[7; 4 << 20]);
    let words = "--path disk --rw randread --ioengine psync --runtime 1 --output-format json";
    let call = place.iosonde(&format!("run --hosts a,b --agent {AGENT} {words}"));
    let json = call.arg(with_b(&format!("exec {apart} {{command}}"))).end().exits(0).json();
    let offset_ns = |host: usize| json["hosts"][host]["clock"]["offset_ns"].as_i64().unwrap();
    assert!((offset_ns(1) - offset_ns(0) - 3_600_000_000_000).abs() < 1_000_000_000);
    // They ran at the same time, and the result shows it.
    let common = &json["loads"][0]["common"];
    assert!(common["span_ns"].as_u64().unwrap() > 500_000_000, "{common}");
}

#[test]
fn a_disk_that_is_full_on_one_host_leaves_the_result_of_the_other() {
    let full = match ImageMount::new(FsKind::Ext4, 16 << 20, "") {
        Ok(full) => full,
        Err(why) => return iosonde_rig::skip(why),
    };
    let place = Place::new();
    fs::create_dir(place.work().join("a")).unwrap();
    std::os::unix::fs::symlink(full.path(), place.work().join("b")).unwrap();
    // Four times the available space.
    for host in ["a", "b"] {
        let file = fs::File::create(place.work().join(host).join("disk")).unwrap();
        file.set_len(64 << 20).unwrap();
    }
    let words = "--path {host}/disk --rw write --bs 64k --ioengine psync --size 64M";
    let call = run(&place, "a,b", words).arg("--output-format=json").end().exits(1);
    let json = call.json();
    assert_eq!((&json["complete"], &json["hosts"][0]["end"]["code"]), (&false.into(), &0.into()));
    assert_eq!(json["hosts"][1]["end"]["code"], 1);
    let said = json["answer"].to_string();
    assert!(said.contains("b did not end as it should: exit code 1, error: write of "), "{said}");
    assert!(said.contains("ENOSPC"), "{said}");
    assert!(json["loads"][0]["hosts"].as_array().unwrap().iter().any(|host| host["name"] == "a"));
    // The file cannot be created on one host: no host begins.
    let words = "--path {host} --size 64M --rw randread --number-ios 10";
    let refused = run(&place, "a,b", words).end().exits(2);
    refused.says("nothing was written on any of 2 hosts: b: ");
}
