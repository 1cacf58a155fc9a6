//! Latencies compared with bpftrace's in the same run, and on devices of known latency or limit.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use iosonde_model::record::LayersRun;
use iosonde_model::record::layers::Layer;
use iosonde_rig::guard::{IoLimits, IoThrottle, LoopDevice, LoopOptions};
use iosonde_rig::{FuseMount, ScratchDir, skip};
use iosonde_stats::Histogram;
use serde_json::Value;

use super::{bare, disk, has, merged, name, own, profile, reads, requests, traffic};
use crate::request::{Answer, ask, here, lay_out, program, served, turn};

/// Attempts: a noisy machine makes a device slower than it is, never faster.
const LOOKS: usize = 3;
const TRACING: &str = "/sys/kernel/tracing";

/// The kernel's tracing files, unmounted on drop if this test mounted them.
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
            skip(format!("no tracefs at {TRACING}, which bpftrace needs"));
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

/// bpftrace's script for one device: times from start and from issue to completion, in buckets of
/// `width` us.
///
/// Both end at `block_rq_complete`, as the profiler's do. `block_io_done` comes after the
/// completion has woken the waiting program, which may preempt it: that time is the scheduler's.
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
        ends("block_rq_complete", "begun", "whole"),
        "END { clear(@begun); clear(@issued); }".to_owned(),
    ]
    .join("\n")
}

/// bpftrace's linear histogram: bounds in us, and count.
struct Linear(Vec<(u64, u64, u64)>);

impl Linear {
    fn of(reported: &str, map: &str) -> Linear {
        let lines = reported.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut found = lines.filter_map(|line| line.pointer(&format!("/data/@{map}")).cloned());
        let buckets = found.next().unwrap_or_else(|| panic!("no @{map} in {reported}"));
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

/// The quantiles must be within one bucket width; the profiler's buckets are 1/32 wide.
#[track_caller]
fn agree(what: &str, ours: &Histogram, theirs: &Linear, width: u64) {
    let (found, counted) = (ours.count(), theirs.count());
    assert!(found.abs_diff(counted) * 100 <= counted, "{what}: {found}, bpftrace {counted}");
    for q in [0.5, 0.99] {
        let us = ours.quantile(q).unwrap() as f64 / 1e3;
        let (low, high) = theirs.quantile(q);
        let room = width as f64 + us / 32.0;
        let is_close = us >= low as f64 - room && us <= high as f64 + room;
        let percent = 100.0 * q;
        eprintln!("{what}: p{percent} {us:.1} us, bpftrace {low}..{high} us");
        assert!(is_close, "{what}: p{percent} is {us:.1} us, bpftrace says {low}..{high} us");
    }
}

/// Runs fio on the device under both tracers.
fn both(device: &LoopDevice, place: &Path, load: &str, width: u64) {
    if !has("bpftrace") || !has("fio") {
        return;
    }
    let Some(_tracing) = TraceFs::new() else { return };
    let load = format!("fio --name=load --filename={} {load}", device.path().display());
    let profile = profile(device, place, &load);
    let inner = profile.command(Command::new(program()));
    // A command without quotes, because bpftrace splits it at spaces.
    let starter = place.join("start.sh");
    let words = std::iter::once(inner.get_program()).chain(inner.get_args());
    let words = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect::<Vec<_>>();
    fs::write(&starter, words.join(" ")).unwrap();
    let mut bpftrace = Command::new("bpftrace");
    bpftrace.args(["-f", "json", "-e", &script(device, width)]);
    bpftrace.args(["-c", &format!("/bin/sh {}", starter.display())]).current_dir(place);
    let output = bpftrace.output().unwrap();
    let (reported, why) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !reported.contains("attached_probes") {
        skip(format!("bpftrace cannot attach here: {}", why.lines().next().unwrap_or("")));
        return;
    }
    assert!(why.contains("results stored"), "{why}");
    let Some(run) = profile.read() else { return };
    let all = traffic(&run, |kind| kind.device == name(device));
    agree(
        "device",
        &merged(&all, |kind| &kind.device_time),
        &Linear::of(&reported, "device"),
        width,
    );
    agree("whole", &merged(&all, |kind| &kind.latency), &Linear::of(&reported, "whole"), width);
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
    _mount: FuseMount,
}

impl Slow {
    fn new() -> Option<Slow> {
        let mount = served(&["read=const:2ms"])?;
        let file = mount.path().join("file");
        lay_out(&file, 16);
        let options = LoopOptions { direct_io: true, ..LoopOptions::default() };
        let device = here(LoopDevice::over(&file, options))?;
        Some(Slow { device, _mount: mount })
    }

    /// Median latency of a bare loop of reads, ns: it includes the kernel's overhead on this
    /// machine at this time.
    fn witness(&self) -> f64 {
        let flags = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(self.device.path()).unwrap();
        let mut room = vec![0; 8192];
        let skip = room.as_ptr().align_offset(4096);
        let mut wait = |at: u64| {
            let start = Instant::now();
            file.read_exact_at(&mut room[skip..skip + 4096], at * 4096).unwrap();
            start.elapsed().as_nanos() as f64
        };
        let mut waits: Vec<f64> = (0..300).map(&mut wait).collect();
        waits.sort_by(f64::total_cmp);
        waits[waits.len() / 2]
    }

    /// Repeats until the median device time is 2 ms, or at most the witness's latency if that is
    /// more; both within 5 %.
    fn takes_2_ms(&self, what: &str, mut look: impl FnMut() -> Option<f64>) {
        let mut reported = String::new();
        for _ in 0..LOOKS {
            let before = self.witness();
            let Some(found) = look() else { return };
            let witness = before.max(self.witness());
            reported =
                format!("{reported}{what}: device {found:.0} ns, a bare read {witness:.0} ns\n");
            if found >= 2e6 * 0.95 && found <= witness.max(2e6) * 1.05 {
                eprint!("{reported}");
                return;
            }
        }
        panic!("{reported}");
    }
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
    let device = slow.device.path().display();
    let load = format!("dd if={device} of=/dev/null bs=4k count=400 iflag=direct");
    slow.takes_2_ms("profile", || {
        let run = profile(&slow.device, dir.path(), &load).seen()?;
        let kinds = traffic(&run, |kind| own(kind) && reads(kind));
        assert_eq!(requests(&kinds), 400);
        Some(merged(&kinds, |kind| &kind.device_time).quantile(0.5).unwrap() as f64)
    });
}

/// The layers that `run --profile` reports for its cell.
fn layers(answer: &Answer) -> Option<LayersRun> {
    if answer.exit == Some(2) || answer.stderr.contains("--profile: ") {
        skip(&answer.stderr);
        return None;
    }
    assert_eq!(answer.exit, Some(0), "{}", answer.gist());
    Some(serde_json::from_value(answer.at("/cells/0/layers").clone()).unwrap())
}

fn median(layers: &LayersRun, layer: Layer) -> f64 {
    let times = layers.of(layer).unwrap_or_else(|| panic!("no {layer:?}"));
    times.quantile(0.5).unwrap() as f64
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
        slow.takes_2_ms(engine, || {
            let layers = layers(&ask(&line, slow.device.path()).answer())?;
            // The other layers contain only the kernel's work.
            for other in [Layer::BeforeBlock, Layer::BlockQueue] {
                assert!(median(&layers, other) < 2e5, "{engine}: {layers:?}");
            }
            Some(median(&layers, Layer::Device))
        });
    }
}

#[test]
fn a_limit_makes_a_run_wait_before_the_block_layer() {
    let _turn = turn();
    let Some(mount) = disk() else { return };
    let file = mount.path().join("file");
    lay_out(&file, 64);
    waits_before_the_block_layer(mount.device(), &file);
}

#[test]
fn a_limit_makes_a_run_on_a_bare_device_wait_there_too() {
    let _turn = turn();
    let Some((device, _dir)) = bare(64) else { return };
    waits_before_the_block_layer(&device, device.path());
}

/// Runs on the target with a limit on its device.
fn waits_before_the_block_layer(device: &LoopDevice, target: &Path) {
    let limits = IoLimits { read_iops: Some(200), ..IoLimits::default() };
    let Some(group) = here(IoThrottle::new(device.number(), &limits)) else { return };
    for engine in ["psync", "io_uring --iodepth 8", "libaio --iodepth 8"] {
        let line =
            format!("run --path {{}} --rw randread --ioengine {engine} --runtime 4 --profile");
        let answer = ask(&line, target).answer_within(&group);
        let Some(layers) = layers(&answer) else { return };
        let (before, after) = (mean(&layers, Layer::BeforeBlock), mean(&layers, Layer::Device));
        eprintln!("{engine}: {before:.0} ns before the block layer, {after:.0} ns in the device");
        // 5 ms for each in flight. A device in memory takes microseconds, more on a busy machine.
        assert!(before > 1e6 && before > 2.0 * after, "{engine}: {before} {after}");
    }
}

#[test]
fn a_request_held_back_by_a_limit_stays_the_programs() {
    let _turn = turn();
    let Some((device, dir)) = has("dd").then(|| bare(64)).flatten() else { return };
    let limits = IoLimits { read_iops: Some(100), ..IoLimits::default() };
    let Some(group) = here(IoThrottle::new(device.number(), &limits)) else { return };
    let load =
        format!("dd if={} of=/dev/null bs=4k count=200 iflag=direct", device.path().display());
    let profile = profile(&device, dir.path(), &load);
    let output = profile.command(group.command(program())).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let Some(run) = profile.read() else { return };
    let read = traffic(&run, reads);
    let its = requests(&traffic(&run, |kind| own(kind) && reads(kind)));
    assert_eq!((its, requests(&read)), (200, 200), "{read:?}");
}
