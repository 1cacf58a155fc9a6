//! A device of known rate: a loop device over memory, limited by a cgroup.

use std::path::Path;

use iosonde_rig::guard::{FsKind, ImageMount, IoLimits, IoThrottle};

use crate::request::{ask, here, turn};

const LIMIT: u64 = 5_000;

/// ext4 on an image in memory, so that no disk is slower than the limit.
fn fast() -> Option<ImageMount> {
    here(ImageMount::below(Path::new("/dev/shm"), FsKind::Ext4, 2 << 30, ""))
}

#[test]
fn the_cgroups_limit_is_the_rate_and_is_named() {
    let _turn = turn();
    let Some(mount) = fast() else { return };
    let limits = IoLimits { read_iops: Some(LIMIT), ..IoLimits::default() };
    let Some(group) = here(IoThrottle::new(mount.device().number(), &limits)) else { return };
    // The kernel releases a slice of 100 ms at once, so the window may contain one slice more or
    // less: 0.7 % of these 14 s.
    let line = "check {} 256M --only cache --seconds 20";
    let answer = ask(line, mount.path()).answer_within(&group).exits(0);
    let iops = answer.number("summary/read/iops");
    assert!((iops / LIMIT as f64 - 1.0).abs() < 0.01, "{iops}");
    answer.finds("cgroup_limit", "proven");
    let words = answer.at("/verdict/words").as_str().unwrap();
    assert_eq!(words, "limited by the cgroup I/O limit of 5,000 reads per second");
}

#[test]
fn a_short_look_names_the_limit_too() {
    let _turn = turn();
    let Some(mount) = fast() else { return };
    let limits = IoLimits { read_iops: Some(LIMIT), ..IoLimits::default() };
    let Some(group) = here(IoThrottle::new(mount.device().number(), &limits)) else { return };
    let line = "check {} 256M --only cache --seconds 2";
    let answer = ask(line, mount.path()).answer_within(&group).exits(0);
    answer.finds("cgroup_limit", "proven");
}

#[test]
fn without_a_limit_none_is_named() {
    let _turn = turn();
    let Some(mount) = fast() else { return };
    let line = "check {} 256M --only cache --seconds 2";
    let answer = ask(line, mount.path()).answer().exits(0);
    answer.finds_no("cgroup_limit");
    assert!(!answer.at("/verdict/words").as_str().unwrap().contains("cgroup"));
}

#[test]
fn a_limit_that_is_not_reached_is_not_named() {
    let _turn = turn();
    let Some(mount) = fast() else { return };
    // A limit of another device, and on this device a limit for writes only.
    let limits = IoLimits { write_iops: Some(LIMIT), ..IoLimits::default() };
    let Some(group) = here(IoThrottle::new(mount.device().number(), &limits)) else { return };
    let line = "run --path {} --size 64M --rw randread --iodepth 32 --runtime 1";
    let answer = ask(line, mount.path()).answer_within(&group).exits(0);
    answer.finds_no("cgroup_limit");
    assert_eq!(answer.target("io_limits/0/per_second"), LIMIT);
}

#[test]
fn a_latency_target_is_held_at_150_per_second() {
    let _turn = turn();
    let Some(mount) = fast() else { return };
    let limits = IoLimits { read_iops: Some(150), ..IoLimits::default() };
    let Some(group) = here(IoThrottle::new(mount.device().number(), &limits)) else { return };
    // Forty-five requests take 300 ms on average; slices of 100 ms may make the depth smaller.
    // Twenty decisions at that depth take 40 s, more if one is repeated.
    let line = "run --path {} --size 64M --rw randread --iodepth 64 --runtime 3 \
                --latency-target p99<=300ms --latency-mode hold --latency-window 200";
    let answer = ask(line, mount.path()).answer_within(&group);
    // A late slice within the three seconds of the measurement leaves the result undecided.
    let is_open = answer.at("/cells/0/latency_target/class") == "UNDECIDED";
    let answer = answer.exits(if is_open { 7 } else { 0 });
    let depth = answer.number("latency_target/depth");
    assert!((15.0..=45.0).contains(&depth), "{depth}");
    let class = answer.at("/cells/0/latency_target/class");
    assert!(is_open || class == "MET_AND_BINDING", "{}", answer.gist());
    // Two milliseconds are less than one slice.
    let line = "check {} 256M --quick --only cache -l 2";
    let answer = ask(line, mount.path()).answer_within(&group).exits(3);
    let class = answer.at("/cells/0/latency_target/class");
    assert_eq!(class, "INFEASIBLE", "{}", answer.gist());
}
