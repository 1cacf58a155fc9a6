//! Ordinary users, low limits, forbidden system calls.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use iosonde_rig::skip;
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use super::program::{Call, Ended, Place, Running, listing};

#[test]
fn an_ordinary_user_can_check() {
    let place = Place::new();
    let words = "check . 256M --seconds 0.5 --only database --threads 1 --output-format json";
    let Some(call) = place.as_nobody(words) else { return };
    let document = call.end().exits(0).says("results stored in").json();
    assert_eq!(document["complete"], true);
    assert!(listing(&place.work()).is_empty());
}

#[test]
fn an_ordinary_user_learns_what_is_not_allowed() {
    let place = Place::new();
    let locked = place.work().join("locked");
    fs::create_dir(&locked).unwrap();
    place.file("readable", &[0; 1 << 20]);
    let Some(_) = place.as_nobody("--version") else { return };
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
    let cases = [
        ("check locked 256M", "Permission denied"),
        ("run --path locked --size 1m --rw read", "Permission denied"),
    ];
    for (words, said) in cases {
        let call = place.as_nobody(words).unwrap().arg("--output-format=json");
        let ended = call.end().exits(1).says(said);
        assert_eq!(ended.json()["error"]["kind"], "environment");
    }
    let readable = place.work().join("readable");
    fs::set_permissions(&readable, fs::Permissions::from_mode(0o444)).unwrap();
    let write = place.as_nobody("run --path readable --rw write --runtime 0.1").unwrap();
    let write = write.arg("--accept-unseen-processes=readable");
    write.end().exits(1).says("Permission denied");
    place.as_nobody("run --path readable --rw read --runtime 0.1").unwrap().end().exits(0);
    assert!(listing(&locked).is_empty());
}

#[test]
fn little_locked_memory_is_recorded_and_no_obstacle() {
    let place = Place::new();
    place.hole("data", 16 << 20);
    let words = "run --path data --rw randread --iodepth 64 --runtime 0.3 --output-format json";
    // The limit applies only to unprivileged users.
    let Some(_) = place.as_nobody("--version") else { return };
    let mut command = place.as_nobody(words).unwrap().into_command();
    let limited = limited("--memlock=65536", &mut command);
    let Some(ended) = limited else { return };
    let document = ended.exits(0).json();
    let backend = &document["cells"][0]["backend"];
    assert_eq!(backend["engine"], "io_uring");
    let missing = backend["missing"].to_string();
    assert!(missing.contains("registered_buffers"), "{missing}");
    assert!(missing.contains("65536 B (ulimit -l)"), "{missing}");
    assert!(!backend["features"].to_string().contains("registered_buffers"), "{backend}");
}

#[test]
fn few_open_files_are_a_clear_error() {
    let place = Place::new();
    place.hole("data", 16 << 20);
    for engine in ["io_uring", "libaio", "psync"] {
        let words = format!("run --path data --rw randread --numjobs 64 --ioengine {engine}");
        let mut command = place.iosonde(&words).arg("--output-format=json").into_command();
        let Some(ended) = limited("--nofile=10", &mut command) else { return };
        let document = ended.exits(1).says("ulimit -n").json();
        assert_eq!(document["error"]["kind"], "environment");
    }
}

#[test]
fn more_asynchronous_requests_than_the_system_has_are_a_clear_error() {
    let place = Place::new();
    place.hole("data", 16 << 20);
    let allowed = fs::read_to_string("/proc/sys/fs/aio-max-nr").unwrap_or_default();
    match allowed.trim().parse::<u64>() {
        Ok(allowed) if allowed <= 1 << 20 => {}
        _ => return skip(format!("fs.aio-max-nr is too high to be reached: {allowed}")),
    }
    let words = "run --path data --rw randread --bs 512 --iodepth 4096 --numjobs 17 \
                 --ioengine libaio --runtime 0.1 --output-format json";
    let ended = place.iosonde(words).end().exits(1).says("fs.aio-max-nr");
    assert_eq!(ended.json()["error"]["kind"], "environment");
}

/// Runs a command under `prlimit`; `None`, with the reason, if that is not installed.
fn limited(limit: &str, command: &mut std::process::Command) -> Option<Ended> {
    let mut wrapped = std::process::Command::new("prlimit");
    wrapped.arg(limit).arg(command.get_program()).args(command.get_args());
    wrapped.current_dir(command.get_current_dir()?);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    wrapped.stdin(std::process::Stdio::null());
    wrapped.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    match Running::of(&mut wrapped) {
        Ok(running) => Some(running.end()),
        Err(reason) => {
            skip(format!("prlimit(1): {reason}"));
            None
        }
    }
}

/// Runs a command whose io_uring_setup fails with this errno.
fn without_io_uring(call: Call, errno: u32) -> Option<Ended> {
    let io_uring_setup = 425;
    // A filter applies only to calls with a rule, so the condition is always true.
    let always = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::Ge, 0).unwrap();
    let rules = [(io_uring_setup, vec![SeccompRule::new(vec![always]).unwrap()])];
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let forbid = SeccompAction::Errno(errno);
    let filter =
        SeccompFilter::new(rules.into_iter().collect(), SeccompAction::Allow, forbid, arch);
    let program: seccompiler::BpfProgram = filter.unwrap().try_into().unwrap();
    // A filter applies to the calling thread and its children.
    let child = std::thread::spawn(move || {
        seccompiler::apply_filter(&program).map_err(|error| error.to_string())?;
        Ok::<Running, String>(call.start())
    });
    match child.join().unwrap() {
        Ok(running) => Some(running.end()),
        Err(reason) => {
            skip(format!("no seccomp filter: {reason}"));
            None
        }
    }
}

#[test]
fn forbidden_io_uring_is_said_and_replaced() {
    for errno in [1, 38] {
        let place = Place::new();
        place.hole("data", 16 << 20);
        let words = "run --path data --rw randread --iodepth 4 --runtime 0.3";
        let call = place.iosonde(words).arg("--output-format=json");
        let Some(ended) = without_io_uring(call, errno) else { return };
        let document = ended.exits(0).says("io_uring cannot be used here").json();
        let cell = &document["cells"][0];
        assert_eq!(cell["backend"]["engine"], "psync");
        let jobs = cell["plan"]["jobs"].as_array().unwrap();
        assert_eq!(jobs.len(), 4, "one thread per request in flight");
        assert!(jobs.iter().all(|job| job["iodepth"] == 1));
        let why = cell["plan"]["engine"]["chosen_because"].as_str().unwrap();
        assert!(why.contains("io_uring cannot be used here"), "{why}");
        let Some(ended) = without_io_uring(place.iosonde(words), errno) else { return };
        ended.exits(0).prints("engine: psync");
    }
}

#[test]
fn forbidden_io_uring_that_was_asked_for_is_an_error() {
    let place = Place::new();
    place.hole("data", 16 << 20);
    let words = "run --path data --rw randread --ioengine io_uring --runtime 0.3";
    let Some(ended) = without_io_uring(place.iosonde(words), 1) else { return };
    ended.exits(1).silent().says("--ioengine psync");
}

#[test]
fn doctor_says_that_io_uring_is_forbidden() {
    let place = Place::new();
    let Some(ended) = without_io_uring(place.iosonde("doctor"), 1) else { return };
    let ended = ended.exits(0);
    let is_feature = |line: &&str| line.trim_start().starts_with("no ");
    let missing: Vec<&str> = ended.out.lines().filter(is_feature).collect();
    assert!(missing.iter().any(|line| line.contains("io_uring")), "{missing:?}");
    assert!(ended.out.lines().next().unwrap().contains("missing: io_uring"));
}

#[test]
fn check_without_io_uring_measures_with_threads() {
    let place = Place::new();
    let words = "check . 256M --seconds 0.5 --only database --threads 1 --output-format json";
    let Some(ended) = without_io_uring(place.iosonde(words), 1) else { return };
    let document = ended.exits(0).says("io_uring cannot be used here").json();
    assert_eq!(document["cells"][0]["backend"]["engine"], "psync");
    assert_eq!(document["cells"][0]["figures"]["depth_asked"], 32);
}
