//! Latencies against bpftrace's on the same run, and on devices of known latency or limit.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use iosonde::record::LayersRun;
use iosonde::record::layers::Layer;
use iosonde::stats::Histogram;
use iosonde_rig::guard::{IoLimits, IoThrottle, LoopDevice, LoopOptions};
use iosonde_rig::{FuseMount, ScratchDir};
use serde_json::Value;

use super::{MIB, bare, has, merged, name, own, profile, reads, requests, traffic};
use crate::ask::{Answer, ask, here, lay_out, program, served, turn};

/// A noisy machine makes a device slower than it is, never faster.
const LOOKS: usize = 3;
const TRACING: &str = "/sys/kernel/tracing";

/// The kernel's tracing files, unmounted again where this test mounted them.
struct TraceFs(bool);

impl TraceFs {
    fn new() -> Option<TraceFs> {
        if Path::new(TRACING).join("events").exists() {
            return Some(TraceFs(false));
        }
        let mut mount = Command::new("mount");
        mount.args(["-t", "tracefs", "tracefs", TRACING]).stderr(Stdio::null());
        let mounted = mount.status().is_ok_and(|status| status.success());
        if !mounted {
            eprintln!("skipped: no tracefs at {TRACING}, which bpftrace needs");
        }
        mounted.then_some(TraceFs(true))
    }
}

impl Drop for TraceFs {
    fn drop(&mut self) {
        if self.0 {
            let _ = Command::new("umount").arg(TRACING).status();
        }
    }
}

/// bpftrace's script for one device: from start and from issue to the end, in buckets of `width`
/// us.
fn script(device: &LoopDevice, width: u64) -> String {
    let (major, minor) = device.number();
    let dev = u64::from(major) << 20 | u64::from(minor);
    let begins = |event: &str, map: &str| {
        format!("tracepoint:block:{event} /args->dev == {dev}/ {{ @{map}[args->sector] = nsecs; }}")
    };
    let ends = |event: &str, from: &str, map: &str| {
        let top = width * 900;
        format!(
            "tracepoint:block:{event} /args->dev == {dev} && @{from}[args->sector]/ {{ \
             @{map} = lhist((nsecs - @{from}[args->sector]) / 1000, 0, {top}, {width}); \
             delete(@{from}[args->sector]); }}"
        )
    };
    [
        begins("block_io_start", "begun"),
        begins("block_rq_issue", "issued"),
        ends("block_rq_complete", "issued", "device"),
        ends("block_io_done", "begun", "whole"),
        "END { clear(@begun); clear(@issued); }".to_owned(),
    ]
    .join("\n")
}

/// bpftrace's linear histogram: edges in us, and how many.
struct Linear(Vec<(u64, u64, u64)>);

impl Linear {
    fn of(told: &str, map: &str) -> Linear {
        let lines = told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut found = lines.filter_map(|line| line.pointer(&format!("/data/@{map}")).cloned());
        let buckets = found.next().unwrap_or_else(|| panic!("no @{map} in {told}"));
        let edge = |bucket: &Value, key: &str| bucket[key].as_u64();
        let buckets = buckets.as_array().unwrap().iter().map(|bucket| {
            let (min, max) = (edge(bucket, "min").unwrap_or(0), edge(bucket, "max"));
            (min, max.map_or(u64::MAX, |max| max + 1), bucket["count"].as_u64().unwrap())
        });
        Linear(buckets.collect())
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|(_, _, count)| count).sum()
    }

    /// The bucket of that quantile.
    fn quantile(&self, q: f64) -> (u64, u64) {
        let rank = (q * self.count() as f64).ceil() as u64;
        let mut below = 0;
        let bucket = self.0.iter().find(|(_, _, count)| {
            below += count;
            below >= rank
        });
        bucket.map(|(low, high, _)| (*low, *high)).unwrap()
    }
}

/// Within the bucket's width of the bucket.
#[track_caller]
fn agree(what: &str, ours: &Histogram, theirs: &Linear, width: u64) {
    let (found, counted) = (ours.count(), theirs.count());
    assert!(found.abs_diff(counted) * 100 <= counted, "{what}: {found}, bpftrace {counted}");
    for q in [0.5, 0.99] {
        let us = ours.quantile(q).unwrap() as f64 / 1e3;
        let (low, high) = theirs.quantile(q);
        let is_close = us >= low.saturating_sub(width) as f64 && us <= (high + width) as f64;
        let percent = 100.0 * q;
        eprintln!("{what}: p{percent} {us:.1} us, bpftrace {low}..{high} us");
        assert!(is_close, "{what}: p{percent} is {us:.1} us, bpftrace says {low}..{high} us");
    }
}

/// fio's load on the device, watched by both.
fn both(device: &LoopDevice, place: &Path, load: &str, width: u64) {
    if !has("bpftrace") || !has("fio") {
        return;
    }
    let Some(_tracing) = TraceFs::new() else { return };
    let load = format!("fio --name=load --filename={} {load}", device.path().display());
    let profile = profile(device, place, &load);
    let inner = profile.command(Command::new(program()));
    // A command without quoting: bpftrace splits it at spaces.
    let starter = place.join("start.sh");
    let words = std::iter::once(inner.get_program()).chain(inner.get_args());
    let words = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect::<Vec<_>>();
    fs::write(&starter, words.join(" ")).unwrap();
    let mut bpftrace = Command::new("bpftrace");
    bpftrace.args(["-f", "json", "-e", &script(device, width)]);
    bpftrace.args(["-c", &format!("/bin/sh {}", starter.display())]).current_dir(place);
    let output = bpftrace.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    if !told.contains("attached_probes") {
        let why = String::from_utf8_lossy(&output.stderr);
        eprintln!("skipped: bpftrace cannot attach here: {}", why.lines().next().unwrap_or(""));
        return;
    }
    let Some(run) = profile.read() else { return };
    let all = traffic(&run, |kind| kind.device == name(device));
    agree("device", &merged(&all, |kind| &kind.device_time), &Linear::of(&told, "device"), width);
    agree("whole", &merged(&all, |kind| &kind.latency), &Linear::of(&told, "whole"), width);
}

#[test]
fn bpftrace_sees_the_same_reads_by_io_uring() {
    let _turn = turn();
    let Some((device, dir)) = bare(64) else { return };
    let load = "--ioengine=io_uring --iodepth=8 --rw=randread --bs=4k --direct=1 --size=64M";
    both(&device, dir.path(), load, 10);
}

#[test]
fn bpftrace_sees_the_same_mixed_load_by_psync() {
    let _turn = turn();
    let Some((device, dir)) = bare(64) else { return };
    let load = "--ioengine=psync --rw=randrw --bs=16k --direct=1 --size=64M";
    both(&device, dir.path(), load, 10);
}

/// A loop device over a file of known latency.
struct Slow {
    device: LoopDevice,
    mount: FuseMount,
}

impl Slow {
    fn new() -> Option<Slow> {
        let mount = served(&["read=const:2ms"])?;
        let file = mount.path().join("file");
        lay_out(&file, 16);
        let options = LoopOptions { direct_io: true, ..LoopOptions::default() };
        let device = here(LoopDevice::over(&file, options))?;
        Some(Slow { device, mount })
    }

    /// What the device really took, by its own account, ns.
    fn median(&self) -> f64 {
        self.mount.truth().read.response.quantile_ns(0.5).unwrap() as f64
    }
}

fn is_2_ms(ns: f64) -> bool {
    (ns / 2e6 - 1.0).abs() <= 0.05
}

#[test]
fn bpftrace_sees_the_same_on_a_device_of_2_ms() {
    let _turn = turn();
    let Some(slow) = Slow::new() else { return };
    let dir = ScratchDir::new().unwrap();
    let load = "--ioengine=psync --rw=randread --bs=4k --direct=1 --size=16M --io_size=2M";
    both(&slow.device, dir.path(), load, 20);
}

#[test]
fn the_median_of_a_device_of_2_ms_is_2_ms() {
    let _turn = turn();
    let Some(slow) = Slow::new() else { return };
    let dir = ScratchDir::new().unwrap();
    let load =
        format!("dd if={} of=/dev/null bs=4k count=400 iflag=direct", slow.device.path().display());
    let mut told = Vec::new();
    for _ in 0..LOOKS {
        slow.mount.restart();
        let Some(run) = profile(&slow.device, dir.path(), &load).seen() else { return };
        let kinds = traffic(&run, |kind| own(kind) && reads(kind));
        assert_eq!(requests(&kinds), 400);
        let found = merged(&kinds, |kind| &kind.device_time).quantile(0.5).unwrap() as f64;
        if is_2_ms(found) {
            return;
        }
        told.push((found, slow.median()));
    }
    panic!("{told:?} ns (found, true)");
}

/// The layers that `run --profile` tells of its cell.
fn layers(answer: &Answer) -> Option<LayersRun> {
    if answer.exit == Some(2) || answer.stderr.contains("--profile: ") {
        eprintln!("skipped: {}", answer.stderr);
        return None;
    }
    assert_eq!(answer.exit, Some(0), "{}", answer.gist());
    Some(serde_json::from_value(answer.at("/cells/0/layers").clone()).unwrap())
}

fn mean(layers: &LayersRun, layer: Layer) -> f64 {
    layers.of(layer).and_then(Histogram::mean).unwrap_or_else(|| panic!("no {layer:?}"))
}

#[test]
fn a_run_puts_the_2_ms_of_a_device_into_the_device() {
    let _turn = turn();
    let Some(slow) = Slow::new() else { return };
    for engine in ["psync", "io_uring"] {
        let line =
            format!("run --path {{}} --rw randread --ioengine {engine} --runtime 2 --profile");
        let mut told = Vec::new();
        for _ in 0..LOOKS {
            slow.mount.restart();
            let answer = ask(&line, slow.device.path()).answer();
            let Some(layers) = layers(&answer) else { return };
            let found = layers.of(Layer::Device).unwrap().quantile(0.5).unwrap() as f64;
            if is_2_ms(found) {
                // The other layers are the kernel's work alone.
                assert!(mean(&layers, Layer::BeforeBlock) < 2e5, "{layers:?}");
                assert!(mean(&layers, Layer::BlockQueue) < 2e5, "{layers:?}");
                told.clear();
                break;
            }
            told.push((found, slow.median()));
        }
        assert!(told.is_empty(), "{engine}: {told:?} ns (found, true)");
    }
}

#[test]
fn a_limit_makes_a_run_wait_before_the_block_layer() {
    let _turn = turn();
    let Some((device, _dir)) = bare(64) else { return };
    let limits = IoLimits { read_iops: Some(500), ..IoLimits::default() };
    let Some(group) = here(IoThrottle::new(device.number(), &limits)) else { return };
    for engine in ["psync", "io_uring --iodepth 8"] {
        let line =
            format!("run --path {{}} --rw randread --ioengine {engine} --runtime 3 --profile");
        let answer = ask(&line, device.path()).answer_within(&group);
        let Some(layers) = layers(&answer) else { return };
        let (before, after) = (mean(&layers, Layer::BeforeBlock), mean(&layers, Layer::Device));
        eprintln!("{engine}: {before:.0} ns before the block layer, {after:.0} ns in the device");
        // 2 ms each, for every one in flight; a device in memory takes a part of it.
        assert!(before > 1e6 && before > 3.0 * after, "{engine}: {before} {after}");
        assert!(layers.requests >= 1000, "{engine}: {}", layers.requests);
    }
}
