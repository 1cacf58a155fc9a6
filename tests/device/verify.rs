//! The verifier on devices that lie: each lie is found and classified, and a device with similar
//! behaviour that does not lie passes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use iosonde_rig::guard::{LoopDevice, LoopOptions};
use iosonde_rig::{FuseMount, ScratchDir, skip};
use rustix::process::{Pid, Signal, kill_process};

use crate::request::{Answer, Ask, ask, here, lay_out, served, starting, turn};
use crate::vhost::{NULL, Server};

/// Each block once, in order, one per write: the n-th write is of the n-th block.
const IN_ORDER: &str = "flush {} --verify-sectors 1:1 --iodepth 1";
/// Random blocks, one at a time: the seed determines everything.
const ONE_AT_A_TIME: &str = "soak {} --verify-sectors 1:1 --iodepth 1 --ops 4000 --randseed 7";
/// Random blocks at depth.
const MUCH: &str = "soak {} --numjobs 3 --iodepth 16 --ops 2000";

type Classes = BTreeMap<String, u64>;

/// `iosonde verify`.
pub(crate) fn verify(line: &str, path: impl AsRef<Path>) -> Ask {
    ask(&format!("verify {line}"), path)
}

/// Failed blocks by class.
pub(crate) fn classes(answer: &Answer) -> Classes {
    let record = answer.record();
    let mut classes = Classes::new();
    for job in record["jobs"].as_array().unwrap() {
        for (class, count) in job["failed_blocks"].as_object().unwrap() {
            *classes.entry(class.clone()).or_default() += count.as_u64().unwrap();
        }
    }
    classes
}

fn exactly(expected: &[(&str, u64)]) -> Classes {
    expected.iter().map(|(class, count)| ((*class).to_owned(), *count)).collect()
}

/// Distinct results of rereading each failed block.
fn second_looks(answer: &Answer) -> Vec<String> {
    let record = answer.record();
    let failures = record["jobs"].as_array().unwrap().iter().flat_map(|job| {
        let failures = job["failures"].as_array().unwrap().clone();
        failures.into_iter().map(|failure| failure["reread"].as_str().unwrap().to_owned())
    });
    let mut looks: Vec<String> = failures.collect();
    looks.sort();
    looks.dedup();
    looks
}

/// A file of 4 MiB of zeros on a device with this script; its faults count from now on.
fn file_on(words: &[&str]) -> Option<(FuseMount, std::path::PathBuf)> {
    let _starting = starting();
    let mount = served(words)?;
    let file = mount.path().join("file");
    lay_out(&file, 4);
    mount.restart();
    Some((mount, file))
}

/// Runs on a device with this script.
fn on(words: &[&str], line: &str) -> Option<Answer> {
    let (_mount, file) = file_on(words)?;
    Some(verify(line, file).answer())
}

#[test]
fn each_lie_is_called_by_its_name() {
    let _turn = turn();
    // Before the run fewer than 300 reads look for foreign data.
    for (fault, line, expected, second_look) in [
        ("write:lost:nth=7", IN_ORDER, exactly(&[("lost", 1)]), "same"),
        ("write:zero:nth=7", IN_ORDER, exactly(&[("lost", 1)]), "same"),
        ("write:torn=512:nth=7", IN_ORDER, exactly(&[("torn", 1)]), "same"),
        ("write:torn=3584:nth=7", IN_ORDER, exactly(&[("torn", 1)]), "same"),
        ("write:corrupt:nth=7", IN_ORDER, exactly(&[("bit-flip", 1)]), "same"),
        ("read:corrupt:nth=500", IN_ORDER, exactly(&[("bit-flip", 1)]), "right"),
        ("read:zero:nth=500", IN_ORDER, exactly(&[("lost", 1)]), "right"),
        ("read:misdirected:nth=500", IN_ORDER, exactly(&[("misdirected", 1)]), "right"),
    ] {
        let Some(answer) = on(&[&format!("fault={fault}")], line) else { return };
        let answer = answer.exits(4);
        assert_eq!(classes(&answer), expected, "{fault}");
        assert_eq!(second_looks(&answer), [second_look], "{fault}");
    }
}

#[test]
fn each_lie_within_a_block_is_called_by_its_name() {
    let _turn = turn();
    // In order, the fifth write of these 4 MiB is of the fifth block.
    for bs in ["4k", "16k", "64k"] {
        let line = format!("{IN_ORDER} --bs {bs}");
        for (fault, class) in [
            ("swap-within", "swapped"),
            ("copy-within", "duplicated"),
            ("shift-within", "shifted"),
            ("corrupt", "bit-flip"),
        ] {
            let word = format!("fault=write:{fault}:nth=5");
            let Some(answer) = on(&[&word], &line) else { return };
            let answer = answer.exits(4);
            assert_eq!(classes(&answer), exactly(&[(class, 1)]), "{fault} {bs}");
            assert_eq!(second_looks(&answer), ["same"], "{fault} {bs}");
        }
    }
    // Pieces of a page, as a file system or an SSD may move them.
    for (fault, class) in [
        ("write:swap-within=4096:nth=5", "swapped"),
        ("write:copy-within=4096:nth=5", "duplicated"),
        ("write:shift-within=4096:nth=5", "shifted"),
    ] {
        let line = format!("{IN_ORDER} --bs 64k");
        let Some(answer) = on(&[&format!("fault={fault}")], &line) else { return };
        assert_eq!(classes(&answer.exits(4)), exactly(&[(class, 1)]), "{fault}");
    }
    // Data that only a read corrupted are right when reread.
    for (fault, class) in
        [("swap-within", "swapped"), ("copy-within", "duplicated"), ("shift-within", "shifted")]
    {
        let Some(answer) = on(&[&format!("fault=read:{fault}:nth=500")], IN_ORDER) else { return };
        let answer = answer.exits(4);
        assert_eq!(classes(&answer), exactly(&[(class, 1)]), "{fault}");
        assert_eq!(second_looks(&answer), ["right"], "{fault}");
    }
}

#[test]
fn jobs_that_overlap_find_each_lie_and_raise_no_alarm_without_one() {
    let _turn = turn();
    let line = "soak {} --overlap --numjobs 3 --iodepth 4 --ops 3000 --randseed 7";
    for words in [&[][..], &["read=exp:200us", "write=exp:300us", "servers=8"]] {
        let Some(answer) = on(words, line) else { return };
        assert_eq!(classes(&answer.exits(0)), Classes::new(), "{words:?}");
    }
    for (fault, expected) in [
        ("write:lost:every=150", &["stale", "lost"][..]),
        ("write:torn=512:every=150", &["torn", "stale", "lost"]),
        ("write:misdirected=64k:every=150", &["misdirected", "stale", "lost", "shifted"]),
        ("write:swap-within:every=150", &["swapped", "misdirected"]),
        ("write:corrupt:every=150", &["bit-flip"]),
    ] {
        let Some(answer) = on(&[&format!("fault={fault}")], line) else { return };
        let found = classes(&answer.exits(4));
        assert!(!found.is_empty(), "{fault}");
        assert!(found.keys().all(|class| expected.contains(&&**class)), "{fault}: {found:?}");
    }
}

#[test]
fn a_lost_write_leaves_what_was_there_before() {
    let _turn = turn();
    // Twice in order: write 1024 + 7 is the second of block 6.
    for (fault, line, class) in [
        ("write:lost:nth=1031", IN_ORDER, "old-run"),
        ("write:lost:nth=1031", "flush {} --loops 2 --verify-sectors 1:1 --iodepth 1", "stale"),
        ("write:torn:nth=1031", IN_ORDER, "torn"),
    ] {
        let Some((_mount, file)) = file_on(&[&format!("fault={fault}")]) else { return };
        if !line.contains("--loops") {
            verify(line, &file).answer().exits(0);
        }
        let answer = verify(line, &file).answer().exits(4);
        assert_eq!(classes(&answer), exactly(&[(class, 1)]), "{fault}");
        let failure = &answer.record()["jobs"][0]["failures"][0];
        assert_eq!(failure["offset"], 6 * 4096, "{fault}");
    }
}

#[test]
fn a_write_that_goes_astray_is_found_at_both_places() {
    let _turn = turn();
    // The seed is fixed, and determines which of the two places is written again before it is read.
    // The place that was missed contains zeros or its previous data.
    for fault in ["write:misdirected=8192:nth=2120", "write:swap=8192:nth=2120"] {
        let Some(answer) = on(&[&format!("fault={fault}")], ONE_AT_A_TIME) else { return };
        let found = classes(&answer.exits(4));
        assert!(found.contains_key("misdirected"), "{fault}: {found:?}");
        assert!(found.values().sum::<u64>() <= 2, "{fault}: {found:?}");
        if fault.contains("misdirected") {
            let missed = found.get("stale").or(found.get("lost"));
            assert_eq!((found["misdirected"], missed), (1, Some(&1)), "{found:?}");
        }
    }
}

#[test]
fn each_lie_is_found_among_much_else() {
    let _turn = turn();
    for (fault, expected) in [
        ("write:lost", &["lost", "stale"][..]),
        ("write:zero", &["lost"]),
        ("write:torn=512", &["torn", "stale", "lost"]),
        ("write:misdirected=64k", &["misdirected", "stale", "lost"]),
        ("write:swap=64k", &["misdirected", "stale", "lost"]),
        ("write:corrupt", &["bit-flip"]),
        // A trimmed block of zeros with one bit flipped cannot be recognised as ours.
        ("read:corrupt", &["bit-flip", "garbage"]),
        ("read:zero", &["lost"]),
        ("read:misdirected", &["misdirected", "lost"]),
    ] {
        // Every 150th request, because a later write may hide a fault. A fault in the inspection
        // before the run would look like foreign data, so consent names the file.
        let word = format!("fault={fault}:every=150");
        let line = format!("{MUCH} --overwrite-file={{}}");
        let Some(answer) = on(&[&word], &line) else { return };
        assert_eq!(answer.exit, Some(4), "{fault}: {}", answer.gist());
        let found = classes(&answer.exits(4));
        assert!(found.contains_key(expected[0]) || fault == "write:lost", "{fault}: {found:?}");
        assert!(found.keys().all(|class| expected.contains(&&**class)), "{fault}: {found:?}");
    }
}

#[test]
fn devices_that_do_not_lie_pass() {
    let _turn = turn();
    let each_line_on = |words: &[&str]| {
        for line in [
            "flush {} --iodepth 1",
            "flush {} --iodepth 16 --numjobs 3 --loops 3",
            "flush {} --bs 64k --verify-sectors 1:4",
            "flush {} --bs 512 --direct 0",
            "pipeline {} --numjobs 3 --io-size 8m",
            "soak {} --iodepth 1 --ops 1500",
            MUCH,
            "soak {} --numjobs 2 --iodepth 16 --ops 1000 --bs 16k --flush-every 10",
            "soak {} --numjobs 2 --ops 1000 --ioengine libaio",
            "soak {} --numjobs 2 --ops 500 --ioengine psync",
            "soak {} --numjobs 2 --ops 1000 --direct 0",
        ] {
            let Some((_mount, file)) = file_on(words) else { return };
            let answer = verify(line, file).answer();
            assert_eq!(answer.exit, Some(0), "{words:?} {line}: {}", answer.gist());
            assert_eq!(classes(&answer), Classes::new());
        }
    };
    // Concurrently, because most of them wait for their device.
    std::thread::scope(|scope| {
        for words in [
            &[][..],
            &["direct_io=on"],
            &["direct_io=on", "fault=read:short:every=7"],
            &["fallocate=off"],
            &["read=exp:200us", "write=exp:300us", "sync=const:2ms", "servers=8"],
            // Not detectable without a power cut.
            &["fault=sync:lie"],
            &["fault=any:eagain:every=100"],
        ] {
            scope.spawn(move || each_line_on(words));
        }
    });
}

#[test]
fn errors_are_errors_and_no_damage() {
    let _turn = turn();
    for fault in [
        "write:eio:nth=100",
        "write:enospc:nth=100",
        "read:eio:nth=600",
        // The first sync belongs to the creation of the file.
        "sync:eio:nth=2",
        "any:etimedout:after=900",
    ] {
        let Some(answer) = on(&[&format!("fault={fault}")], MUCH) else { return };
        let answer = answer.exits(1);
        assert_eq!(classes(&answer), Classes::new(), "{fault}");
        let record = answer.record();
        let jobs = record["jobs"].as_array().unwrap();
        let reported = jobs.iter().any(|job| !job["errors"].as_object().unwrap().is_empty());
        assert!(reported, "{fault}: {}", answer.stderr);
    }
}

/// A loop device over a file of 4 MiB on this mount.
fn loop_over(mount: &FuseMount) -> Option<LoopDevice> {
    let image = mount.path().join("image");
    lay_out(&image, 4);
    let options = LoopOptions { direct_io: true, ..LoopOptions::default() };
    here(LoopDevice::over(&image, options))
}

/// Runs on a device that needs consent by name; first finds the name from the refusal.
fn consented(line: &str, path: &Path) -> Answer {
    let refused = verify(line, path).answer().exits(5);
    let id = refused.stderr.split("--destroy-data=").nth(1).unwrap();
    let id = id.split_whitespace().next().unwrap().trim_end_matches(['`', '.', ',']);
    verify(line, path).word(format!("--destroy-data={id}")).answer()
}

#[test]
fn a_block_device_that_lies_is_found_and_an_honest_one_passes() {
    let _turn = turn();
    for (fault, line, expected) in [
        ("", MUCH, &[][..]),
        ("", "flush {} --iodepth 1", &[]),
        ("write:lost:after=200", MUCH, &["lost", "stale"]),
        ("write:corrupt:every=300", MUCH, &["bit-flip"]),
        ("write:misdirected=64k:every=300", MUCH, &["misdirected", "stale", "lost"]),
        ("write:torn:every=300", MUCH, &["torn", "stale", "lost"]),
    ] {
        let words = [format!("fault={fault}")];
        let words: Vec<&str> = words.iter().filter(|_| !fault.is_empty()).map(|w| &**w).collect();
        let Some(mount) = served(&words) else { return };
        let Some(device) = loop_over(&mount) else { return };
        mount.restart();
        let answer = consented(line, device.path());
        let answer = answer.exits(if expected.is_empty() { 0 } else { 4 });
        let found = classes(&answer);
        assert!(found.keys().all(|class| expected.contains(&&**class)), "{fault}: {found:?}");
        drop(device);
    }
}

/// A raw file of 16 MiB whose driver fails by this rule from the first such event on.
fn failing(event: &str, rule: &str) -> Option<Server> {
    let file = r#"{"driver":"file","node-name":"f","filename":"DIR/image","discard":"unmap"}"#;
    let rules = format!(r#"[{{"event":"{event}","errno":5,{rule}}}]"#);
    let device =
        format!(r#"{{"driver":"blkdebug","node-name":"n","image":{file},"inject-error":{rules}}}"#);
    Server::with(&device, "writable=on,num-queues=3", |dir| {
        File::create(dir.join("image")).unwrap().set_len(16 << 20).unwrap();
    })
}

#[test]
fn errors_of_a_vhost_user_device_are_errors_and_no_damage() {
    let _turn = turn();
    for rule in [
        // In sectors of 512 bytes; any request that touches it.
        r#""iotype":"write","sector":20000"#,
        r#""iotype":"write","sector":20000,"once":true"#,
        r#""iotype":"flush""#,
    ] {
        let Some(server) = failing("none", rule) else { return };
        let answer = consented("flush {} --numjobs 2", &server.socket()).exits(1);
        assert_eq!(classes(&answer), Classes::new(), "{rule}");
    }
    // All of it is read before the first write, after which this one sector fails.
    let unreadable = r#""iotype":"read","sector":20000"#;
    let Some(server) = failing("pwritev", unreadable) else { return };
    let answer = consented("flush {} --numjobs 2", &server.socket()).exits(1);
    assert_eq!(classes(&answer), Classes::new());
    assert!(answer.record()["jobs"][1]["unreadable_blocks"].as_u64().unwrap() > 0);
    // A sector that could never be read may hold data: nothing is written.
    let Some(server) = failing("none", unreadable) else { return };
    let consent = format!("--destroy-data={}", server.socket().display());
    for words in ["", &*consent] {
        let line = format!("flush {{}} --numjobs 2 {words}");
        let refused = verify(&line, server.socket()).answer().exits(5);
        let message = refused.at("/error/message").as_str().unwrap();
        assert!(message.contains("could not be read)"), "{message}");
    }
    let image = fs::read(server.socket().with_file_name("image")).unwrap();
    assert!(image.iter().all(|byte| *byte == 0), "something was written");
}

#[test]
fn a_vhost_user_device_that_keeps_nothing_is_found_and_an_honest_one_passes() {
    let _turn = turn();
    let Some(server) = Server::new(NULL, 2) else { return };
    let answer = consented("flush {} --size 16m --numjobs 2", &server.socket()).exits(4);
    assert_eq!(classes(&answer), exactly(&[("lost", 4096)]));
    for line in [
        "flush {} --iodepth 1",
        "flush {} --iodepth 16 --loops 2",
        "soak {} --iodepth 16 --ops 2000",
        "pipeline {} --io-size 32m",
    ] {
        let Some(server) = Server::over_file(b"") else { return };
        let answer = consented(line, &server.socket()).exits(0);
        assert_eq!(classes(&answer), Classes::new(), "{line}");
    }
}

/// The server stops midway: no call is answered, not even whether the file exists.
#[test]
fn an_interrupt_ends_it_where_a_server_stopped_and_keeps_what_was_checked() {
    let _turn = turn();
    let dir = ScratchDir::new().unwrap();
    let [image, point] = ["image", "point"].map(|name| dir.path().join(name));
    File::create(&image).unwrap().set_len(16 << 20).unwrap();
    File::create(&point).unwrap();
    let image = image.to_str().unwrap();
    let facts = r#""driver":"file","node-name":"n","discard":"unmap""#;
    let device = format!(r#"{{{facts},"filename":"{image}"}}"#);
    let Some(server) = Exported::new(&device, &point) else { return };
    // At depth some versions swap writes.
    let asking = verify("soak {} --iodepth 1 --runtime 60", &point).start_measuring();
    server.signal(Signal::STOP);
    // The kernel's cached attributes of the file expire after a second.
    std::thread::sleep(Duration::from_secs(2));
    let interrupted = Instant::now();
    asking.interrupt();
    let answer = asking.wait();
    let took = interrupted.elapsed();
    server.signal(Signal::CONT);
    let answer = answer.exits(130);
    eprintln!("ended {took:.2?} after the interrupt");
    // The watchdog would end it after 10 s, and store nothing.
    assert!(took < Duration::from_secs(8), "{took:?}");
    assert_eq!(answer.record()["outcome"]["ended"], "interrupted");
    assert!(answer.record()["jobs"][0]["ops"].as_u64().unwrap() > 0);
}

#[test]
fn a_file_that_qemu_serves_by_fuse_passes_and_its_errors_are_errors() {
    let _turn = turn();
    let file = r#"{"driver":"file","node-name":"f","filename":"DIR/image","discard":"unmap"}"#;
    for (rules, exit) in [
        ("", 0),
        (r#"[{"event":"none","errno":5,"iotype":"write","sector":20000}]"#, 1),
        (r#"[{"event":"none","errno":5,"iotype":"flush"}]"#, 1),
    ] {
        let dir = ScratchDir::new().unwrap();
        let [image, point] = ["image", "point"].map(|name| dir.path().join(name));
        File::create(&image).unwrap().set_len(16 << 20).unwrap();
        File::create(&point).unwrap();
        let file = file.replace("DIR", dir.path().to_str().unwrap());
        let device = match rules {
            "" => file.replace(r#""f""#, r#""n""#),
            _ => format!(
                r#"{{"driver":"blkdebug","node-name":"n","image":{file},"inject-error":{rules}}}"#
            ),
        };
        let Some(_server) = Exported::new(&device, &point) else { return };
        // At depth some versions swap writes, as fio finds too.
        let answer = verify("flush {} --iodepth 1", &point).answer().exits(exit);
        assert_eq!(classes(&answer), Classes::new());
    }
}

/// A file served over FUSE by qemu-storage-daemon, until drop.
struct Exported {
    child: std::process::Child,
    point: std::path::PathBuf,
}

impl Exported {
    fn new(device: &str, point: &Path) -> Option<Exported> {
        let export = "type=fuse,id=e,node-name=n,writable=on";
        let child = std::process::Command::new("qemu-storage-daemon")
            .args(["--blockdev", device, "--export"])
            .arg(format!("{export},mountpoint={}", point.display()))
            .stderr(std::process::Stdio::null())
            .spawn();
        let Ok(child) = child else {
            skip("`qemu-storage-daemon` (qemu-system-common) is not installed");
            return None;
        };
        let mut exported = Exported { child, point: point.to_owned() };
        for _ in 0..500 {
            if fs::metadata(point).is_ok_and(|facts| facts.len() > 0) {
                return Some(exported);
            }
            if exported.child.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        skip("this `qemu-storage-daemon` serves nothing by FUSE");
        None
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Exported {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = rustix::mount::unmount(&self.point, rustix::mount::UnmountFlags::DETACH);
    }
}
