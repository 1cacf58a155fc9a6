//! The served directory, through the kernel. Skipped, with the reason, without root or /dev/fuse.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use iosonde_rig::{FuseMount, Script, skip};

fn serve(words: &[&str]) -> Option<FuseMount> {
    let script = Script::from_words(words.iter().copied()).unwrap();
    FuseMount::new(script).map_err(skip).ok()
}

/// A new file opened with O_DIRECT, so that each call reaches the server.
fn direct(mount: &FuseMount, name: &str) -> File {
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    let mut options = File::options();
    options.read(true).write(true).create(true).custom_flags(flags);
    options.open(mount.path().join(name)).unwrap()
}

fn errno(result: std::io::Result<impl Sized>) -> i32 {
    result.err().unwrap().raw_os_error().unwrap()
}

#[test]
fn files_live_as_files_do() {
    let Some(mount) = serve(&[]) else { return };
    let file = direct(&mount, "a");
    file.write_all_at(&[7; 10_000], 100).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 10_100);
    fs::rename(mount.path().join("a"), mount.path().join("b")).unwrap();
    let names: Vec<_> =
        fs::read_dir(mount.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["b"]);
    assert_eq!(fs::read(mount.path().join("b")).unwrap()[99..102], [0, 7, 7]);
    fs::remove_file(mount.path().join("b")).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 200).unwrap();
    assert_eq!(byte, [7], "an unlinked file is there until it is closed");
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1 << 20);
    file.set_len(150).unwrap();
    file.set_len(300).unwrap();
    file.read_exact_at(&mut byte, 200).unwrap();
    assert_eq!(byte, [0]);
    // Files must be created by name: the server does not support O_TMPFILE.
    let unnamed = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR;
    let unnamed = rustix::fs::open(mount.path(), unnamed, rustix::fs::Mode::RUSR);
    assert_eq!(unnamed.unwrap_err(), rustix::io::Errno::OPNOTSUPP);
}

#[test]
fn the_truth_is_what_the_script_says_and_what_the_client_waits() {
    let Some(mount) = serve(&["read=bimodal:0.8:2ms/20ms", "write=none"]) else { return };
    let file = direct(&mount, "a");
    file.write_all_at(&[1; 4096], 0).unwrap();
    mount.restart();
    let mut waited_ns = 0;
    for _ in 0..100 {
        let start = Instant::now();
        file.read_exact_at(&mut [0; 4096], 0).unwrap();
        waited_ns += start.elapsed().as_nanos() as u64;
    }
    let read = mount.truth().read;
    assert_eq!((read.count, read.errors, read.bytes), (100, 0, 409_600));
    assert!(read.service.is_exact());
    // 20 slow ones expected, standard deviation 4.
    let slow = read.service.sample_ns.iter().filter(|&&ns| ns >= 20_000_000).count();
    assert!((1..=40).contains(&slow), "{slow}");
    assert!(read.service.min_ns >= 2_000_000);
    assert_eq!(read.service.quantile_ns(0.05), Some(read.service.sample_ns[4]));
    assert!(waited_ns >= read.response.sum_ns, "no client is faster than its server");
}

#[test]
fn requests_overlap_up_to_the_number_of_servers() {
    let took = |servers: &str| {
        let mount = serve(&["read=const:500ms", servers])?;
        let file = direct(&mount, "a");
        file.write_all_at(&[1; 4096], 0).unwrap();
        let (meeting, start) = (Barrier::new(6), Instant::now());
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    meeting.wait();
                    file.read_exact_at(&mut [0; 4096], 0).unwrap();
                });
            }
        });
        Some((start.elapsed(), mount.truth().read))
    };
    let Some((all_at_once, read)) = took("servers=0") else { return };
    // One after another they would take 3 s; on a busy machine their start may take up to 2.5 s.
    assert!(all_at_once < Duration::from_secs(3), "{all_at_once:?}");
    assert_eq!(read.response.sum_ns, read.service.sum_ns, "none waits for a server");
    let (in_threes, read) = took("servers=2").unwrap();
    assert!(in_threes >= Duration::from_millis(1500), "{in_threes:?}");
    // 1.5 s if all arrive at once.
    let longest_ns = read.response.max_ns;
    assert!(longest_ns >= 1_000_000_000, "waiting is part of the response: {longest_ns}");
}

#[test]
fn errors_come_where_they_are_written() {
    let words = ["fault=read:eio:offset=8k+1", "fault=write:enospc:bytes=16k", "fault=sync:edquot"];
    let Some(mount) = serve(&words) else { return };
    let file = direct(&mount, "a");
    for i in 0..4 {
        file.write_all_at(&[1; 4096], i * 4096).unwrap();
    }
    assert_eq!(errno(file.write_all_at(&[1; 4096], 0)), 28);
    assert_eq!(errno(file.sync_all()), 122);
    let page = &mut [0; 4096];
    file.read_exact_at(page, 4096).unwrap();
    assert_eq!(errno(file.read_exact_at(page, 8192)), 5);
    file.read_exact_at(page, 12_288).unwrap();
    let truth = mount.truth();
    assert_eq!((truth.read.errors, truth.write.errors, truth.sync.errors), (1, 1, 1));
    assert!(truth.faults.iter().all(|(_, fired)| *fired == 1), "{:?}", truth.faults);
}

#[test]
fn an_exceeded_quota_says_so() {
    let Some(mount) = serve(&["fault=write:edquot:bytes=4k"]) else { return };
    let file = direct(&mount, "a");
    file.write_all_at(&[1; 4096], 0).unwrap();
    assert_eq!(errno(file.write_all_at(&[1; 1], 4096)), 122);
}

#[test]
fn lost_torn_and_misdirected_writes_are_acknowledged() {
    let words = [
        "fault=write:lost:nth=2",
        "fault=write:torn:nth=3",
        "fault=write:misdirected=8k:nth=4",
        "fault=read:corrupt:nth=5",
        "fault=read:short:nth=6",
        "direct_io=on",
    ];
    let Some(mount) = serve(&words) else { return };
    let file = direct(&mount, "a");
    file.write_all_at(&[1; 16_384], 0).unwrap();
    file.write_all_at(&[2; 4096], 0).unwrap();
    file.write_all_at(&[3; 4096], 4096).unwrap();
    file.write_all_at(&[4; 4096], 0).unwrap();
    let read = |page: u64| {
        let mut data = [0; 4096];
        let length = file.read_at(&mut data, page * 4096).unwrap();
        data[..length].to_vec()
    };
    assert_eq!(read(0), [1; 4096], "lost, and then misdirected");
    let torn = read(1);
    assert!(torn[..512] == [3; 512] && torn[512..] == [1; 3584], "torn");
    assert_eq!(read(2), [4; 4096], "where the misdirected one went");
    assert_eq!(read(3), [1; 4096]);
    assert_eq!(read(3).iter().filter(|&&byte| byte != 1).count(), 1, "corrupt");
    assert_eq!(read(3).len(), 2048, "short");
    assert_eq!(read(3), [1; 4096], "and only what the faults said");
}

#[test]
fn a_power_cut_takes_what_no_honest_sync_has_kept() {
    let Some(mount) = serve(&["fault=sync:lie:nth=2"]) else { return };
    let file = direct(&mount, "a");
    let page = &mut [0; 4096];
    file.write_all_at(&[1; 4096], 0).unwrap();
    file.sync_data().unwrap();
    file.write_all_at(&[2; 4096], 0).unwrap();
    mount.power_cut();
    file.read_exact_at(page, 0).unwrap();
    assert_eq!(*page, [1; 4096]);
    file.write_all_at(&[3; 4096], 0).unwrap();
    file.sync_data().unwrap();
    mount.power_cut();
    file.read_exact_at(page, 0).unwrap();
    assert_eq!(*page, [1; 4096], "the second sync lied");
    file.write_all_at(&[4; 4096], 0).unwrap();
    file.sync_data().unwrap();
    mount.power_cut();
    file.read_exact_at(page, 0).unwrap();
    assert_eq!(*page, [4; 4096]);
}

#[test]
fn nothing_is_left_mounted_even_in_use_or_in_a_panic() {
    let Some(mount) = serve(&["read=const:30s"]) else { return };
    let path = mount.path().to_owned();
    let file = direct(&mount, "a");
    file.write_all_at(&[1; 4096], 0).unwrap();
    let waiting = thread::spawn(move || file.read_exact_at(&mut [0; 4096], 0));
    thread::sleep(Duration::from_millis(50));
    let unwound = thread::spawn(move || {
        let _mount = mount;
        std::panic::resume_unwind(Box::new("the test failed"));
    });
    assert!(unwound.join().is_err());
    assert!(waiting.join().unwrap().is_err(), "its request is not left hanging");
    assert!(!path.exists());
    assert!(!fs::read_to_string("/proc/self/mounts").unwrap().contains(path.to_str().unwrap()));
}

#[test]
fn the_program_serves_reports_the_truth_and_leaves_nothing() {
    use std::io::BufRead;
    use std::process::{Command, Stdio};

    use rustix::process::{Pid, Signal, kill_process};

    if serve(&[]).is_none() {
        return;
    }
    let dir = iosonde_rig::ScratchDir::new().unwrap();
    let (mountpoint, truth) = (dir.path().join("mount"), dir.path().join("truth.json"));
    fs::create_dir(&mountpoint).unwrap();
    let script = dir.path().join("script.toml");
    fs::write(&script, "read = \"const:1ms\"\nfault = [\"read:eio:nth=2\"]\n").unwrap();
    iosonde_rig::default_signals_for_children();
    let mut server = Command::new(env!("CARGO_BIN_EXE_iosonde-rig"));
    server.arg("fuse").arg(&mountpoint).arg("--script").arg(&script);
    let mut server =
        server.arg(format!("truth={}", truth.display())).stdout(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_child(&server);
    let signal = |signal| kill_process(pid, signal).unwrap();
    // The server polls signals in the order of their numbers: once the truth has been written
    // twice, signals sent before have been handled.
    let write_truth = || {
        for _ in 0..2 {
            let _ = fs::remove_file(&truth);
            signal(Signal::USR2);
            let start = Instant::now();
            while !truth.exists() {
                assert!(start.elapsed() < Duration::from_secs(60), "no truth is written");
                thread::sleep(Duration::from_millis(5));
            }
        }
    };
    let mut ready = String::new();
    std::io::BufReader::new(server.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert!(ready.starts_with("serving "), "{ready}");
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    let mut options = File::options();
    options.read(true).write(true).create(true).custom_flags(flags);
    let file = options.open(mountpoint.join("a")).unwrap();
    file.write_all_at(&[1; 512], 0).unwrap();
    file.sync_all().unwrap();
    file.write_all_at(&[2; 512], 0).unwrap();
    signal(Signal::USR1);
    write_truth();
    let mut data = [0; 512];
    file.read_exact_at(&mut data, 0).unwrap();
    assert_eq!(data, [1; 512], "the power was cut");
    assert_eq!(errno(file.read_exact_at(&mut data, 0)), 5);
    drop(file);
    write_truth();
    let reported: serde_json::Value = serde_json::from_slice(&fs::read(&truth).unwrap()).unwrap();
    assert_eq!((&reported["read"]["count"], &reported["read"]["errors"]), (&2.into(), &1.into()));
    assert_eq!(reported["faults"][0], serde_json::json!(["read:eio:nth=2", 1]));
    assert!(reported["read"]["service"]["sample_ns"][0].as_u64().unwrap() >= 1_000_000);
    signal(Signal::TERM);
    assert!(server.wait().unwrap().success());
    assert!(fs::read_dir(&mountpoint).unwrap().next().is_none(), "unmounted");
}
