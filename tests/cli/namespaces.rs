//! Network namespaces as hosts, which share a file system on a loop device: the launchers of
//! clusters without a cluster. The agents communicate over pipes, so no network is needed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use iosonde_rig::guard::{FsKind, ImageMount, IoLimits, IoThrottle};

use crate::hosts::{assert_merged, kill};
use crate::program::{Call, Ended, Held, Place, listing};
use crate::ranks;

/// The agent program on every host.
const AGENT: iosonde_fixtures::Program = iosonde_fixtures::program!();
const IP: &str = "ip netns exec {host} {command}";
const CLUSH: &str = "clush -N -R exec -w {host} -- ip netns exec {host} {command}";
/// Two instances must not share a folder for temporary files, which each creates anew.
const MPIRUN: &str = "mpirun --allow-run-as-root --mca orte_tmpdir_base {host} -n 1 \
                      ip netns exec {host} {command}";

/// `ip netns exec` may fail while another process creates or removes a namespace.
static ALONE: Mutex<()> = Mutex::new(());

/// Namespaces joined by a bridge in an additional one, removed on drop.
struct Namespaces {
    // Released after the namespaces are removed.
    _alone: MutexGuard<'static, ()>,
    /// Prefix of each name.
    front: String,
    count: usize,
}

impl Namespaces {
    /// Creates the namespaces; `Err` with the reason if that is impossible.
    fn new(count: usize) -> Result<Namespaces, String> {
        iosonde_rig::require_root().map_err(|why| why.to_string())?;
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let front = format!("ios{}n{count}-", std::process::id());
        let made = Namespaces { _alone, front, count };
        let hub = made.name(0);
        ip(&["netns", "add", &hub])?;
        ip(&["-n", &hub, "link", "add", "bridge", "type", "bridge"])?;
        for number in 1..=count {
            let (name, port) = (made.name(number), format!("port{number}"));
            ip(&["netns", "add", &name])?;
            let ends = ["link", "add", &port, "netns", &hub, "type", "veth", "peer"];
            ip(&[&ends[..], &["name", "net", "netns", &name]].concat())?;
            ip(&["-n", &hub, "link", "set", &port, "master", "bridge", "up"])?;
            made.address(&name, "net", number)?;
        }
        made.address(&hub, "bridge", 254)?;
        Ok(made)
    }

    fn address(&self, name: &str, link: &str, number: usize) -> Result<(), String> {
        ip(&["-n", name, "addr", "add", &format!("10.99.0.{number}/24"), "dev", link])?;
        ip(&["-n", name, "link", "set", link, "up"])?;
        ip(&["-n", name, "link", "set", "lo", "up"])
    }

    fn name(&self, number: usize) -> String {
        format!("{}{number}", self.front)
    }

    fn list(&self) -> String {
        format!("{}[1-{}]", self.front, self.count)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for number in 0..=self.count {
            let _ = ip(&["netns", "del", &self.name(number)]);
        }
    }
}

fn ip(words: &[&str]) -> Result<(), String> {
    let ended = Command::new("ip").args(words).output().map_err(|error| format!("ip: {error}"))?;
    let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
    ended.status.success().then_some(()).ok_or_else(|| format!("ip {}: {said}", words.join(" ")))
}

fn has(program: &str) -> bool {
    let asked = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    asked.is_ok_and(|ended| ended.success())
}

/// The namespaces and the file system; `None` after reporting a skip.
fn scene(count: usize) -> Option<(Namespaces, ImageMount)> {
    let made = Namespaces::new(count).and_then(|namespaces| {
        let shared = ImageMount::new(FsKind::Ext4, 4 << 30, "");
        Ok((namespaces, shared.map_err(|why| why.to_string())?))
    });
    made.map_err(|why| iosonde_rig::skip(format!("no network namespaces over a loop: {why}"))).ok()
}

fn on(place: &Place, namespaces: &Namespaces, launch: &str, words: &str) -> Call {
    let words = format!("{words} --hosts {} --agent {AGENT}", namespaces.list());
    place.iosonde(&words).arg(format!("--launch={launch}"))
}

#[test]
fn one_load_through_each_launcher_is_merged() {
    let Some((two, shared)) = scene(2) else { return };
    let place = Place::new();
    let data = shared.path().join("data");
    fs::write(&data, vec![7; 32 << 20]).unwrap();
    let names: Vec<String> = (1..=2).map(|number| two.name(number)).collect();
    for (launcher, launch) in [("ip", IP), ("clush", CLUSH), ("mpirun", MPIRUN)] {
        if launcher != "ip" && !has(launcher) {
            iosonde_rig::skip_part(launcher, "it is not installed");
            continue;
        }
        let words = format!(
            "run --path {} --rw randread --ioengine psync --runtime 1 --results {launcher} \
             --output-format json",
            data.display()
        );
        let disk = shared.device().path().file_name().unwrap().to_str().unwrap().to_owned();
        let counters = format!("--server-counters=cat /sys/block/{disk}/stat");
        let json = on(&place, &two, launch, &words).arg(counters).end().exits(0).json();
        assert_eq!(json["complete"], true, "{launcher}");
        let server = &json["loads"][0]["server"];
        let [hosts, disk] = ["hosts_read_bytes", "server_read_bytes"].map(|of| server[of].as_f64());
        assert!((0.99..1.2).contains(&(disk.unwrap() / hosts.unwrap())), "{server}");
        let mut folders = listing(&place.work().join(launcher)).into_iter();
        let folder = folders.rfind(|path| path.join("hosts.json").is_file()).unwrap();
        assert_merged(&json["loads"][0], &folder, &names);
        let namespace = json["hosts"][1]["end"]["ended"].as_str();
        assert_eq!(namespace, Some("exited"));
    }
}

/// Each namespace is a node with its own name, and the ranks communicate over the bridge.
#[test]
fn ranks_of_mpi_in_namespaces_are_merged() {
    let Some(program) = ranks::program() else { return };
    for count in [2, 4] {
        let Some((nodes, shared)) = scene(count) else { return };
        let place = Place::new();
        let data = shared.path().join("data");
        fs::write(&data, vec![7; 32 << 20]).unwrap();
        let remote = "#!/bin/sh\nhost=$1; shift\n\
                      exec ip netns exec $host unshare --uts sh -c \"hostname $host; $*\"\n";
        let remote = place.file("remote", remote.as_bytes());
        fs::set_permissions(&remote, fs::Permissions::from_mode(0o755)).unwrap();
        let names: Vec<String> = (1..=count).map(|number| nodes.name(number)).collect();
        let words = format!(
            "netns exec {} mpirun --allow-run-as-root --bind-to none --mca orte_tmpdir_base {} \
             --mca plm_rsh_agent {} --mca oob_tcp_if_include 10.99.0.0/24 --mca btl self,tcp --mca \
             btl_tcp_if_include 10.99.0.0/24 --host {} -n {count} {} run --path {} --rw randread \
             --ioengine psync --runtime 1 --results kept --output-format json",
            nodes.name(0),
            place.work().display(),
            remote.display(),
            names.join(","),
            program.display(),
            data.display()
        );
        let json = place.other_iosonde(Path::new("ip"), &words).end().exits(0).json();
        assert_eq!(json["complete"], true);
        let ranks: Vec<String> = (0..count).map(|rank| format!("rank{rank}")).collect();
        let folder = listing(&place.work().join("kept")).remove(0);
        assert_merged(&json["loads"][0], &folder, &ranks);
        let known = json["hosts"].as_array().unwrap();
        let found: Vec<&str> = known.iter().map(|host| host["node"].as_str().unwrap()).collect();
        assert_eq!(found, names);
    }
}

/// A directory that a server shares with both namespaces over the network.
#[test]
fn storage_of_one_server_is_recognised_on_all_hosts() {
    const SERVER: &str = "/usr/lib/openssh/sftp-server";
    if !Path::new(SERVER).is_file() || !["socat", "sshfs"].iter().all(|name| is_there(name)) {
        return iosonde_rig::skip("no socat, sshfs or sftp-server: a file system over a network");
    }
    let Some((two, shared)) = scene(2) else { return };
    let place = Place::new();
    fs::write(shared.path().join("data"), vec![0; 8 << 20]).unwrap();
    let mut serve = Command::new("ip");
    serve.args(["netns", "exec", &two.name(0), "socat", "TCP-LISTEN:7777,reuseaddr,fork"]);
    let serves = Held::spawn(serve.arg(format!("EXEC:{SERVER}"))).unwrap();
    let mounts = [1, 2].map(|number| {
        let at = place.work().join(two.name(number));
        fs::create_dir(&at).unwrap();
        let source = format!("10.99.0.254:{}", shared.path().display());
        let mut mounted = false;
        for _ in 0..50 {
            let mut mount = Command::new("nsenter");
            mount.arg(format!("--net=/run/netns/{}", two.name(number)));
            mount.args(["sshfs", "-o", "directport=7777,direct_io", &source]).arg(&at);
            mounted = mount.output().unwrap().status.success();
            if mounted {
                break;
            }
            // The server may not listen yet.
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(mounted);
        Mounted(at)
    });
    let launch = "nsenter --net=/run/netns/{host} {command}";
    let words = "run --path {host}/data --accept-unseen-processes={host}/data --ioengine psync \
                 --runtime 1 --rw";
    let refused = on(&place, &two, launch, &format!("{words} randwrite")).end().exits(5);
    refused.silent().says("are the same storage").says("--host-region partitioned");
    let words = format!("{words} randwrite --host-region partitioned");
    on(&place, &two, launch, &words).end().exits(0).prints("on 2 hosts");
    // Each host verifies its part of the file while the other one writes too.
    let words = "verify soak {host}/data --accept-unseen-processes={host}/data --ioengine psync \
                 --ops 500";
    on(&place, &two, launch, words).end().exits(5).says("--host-region partitioned");
    let words = format!("{words} --host-region partitioned");
    on(&place, &two, launch, &words).end().exits(0).prints("PASS on 2 of 2 hosts");
    let whole = words.replace("partitioned", "shared");
    on(&place, &two, launch, &whole).end().exits(4).prints("FAIL on ");
    drop(mounts);
    drop(serves);
}

/// Unmounted on drop.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn is_there(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    found.is_ok_and(|ended| ended.status.success())
}

#[test]
fn every_command_runs_in_namespaces() {
    let Some((two, shared)) = scene(2) else { return };
    let place = Place::new();
    for number in 1..=2 {
        fs::create_dir(shared.path().join(two.name(number))).unwrap();
    }
    let own = format!("{}/{{host}}", shared.path().display());
    let launch = if has("clush") { CLUSH } else { IP };
    let check = format!("check {own} 256M --seconds 1 --only database --output-format json");
    let json = on(&place, &two, launch, &check).end().exits(0).json();
    assert_eq!(json["loads"].as_array().unwrap().len(), 1);
    let doctor = format!("doctor {own} --output-format json");
    let json = on(&place, &two, launch, &doctor).end().exits(0).json();
    assert_eq!(json["outputs"].as_array().unwrap().len(), 2);
    let verify = format!("verify pipeline {own} --size 8M");
    on(&place, &two, launch, &verify).end().exits(0).prints(&two.name(2));
    let experiment = "name = \"e\"\nquestion = \"?\"\n[[stage]]\nname = \"s\"\nrepeats = 2\n\
                      seconds = 0.5\nset = { rw = \"randread\", block-size = \"4k\" }\n\
                      [[stage.axis]]\nname = \"numjobs\"\nvalues = [1, 2]\n";
    place.file("e.toml", experiment.as_bytes());
    let words = format!("experiment run e.toml {own} --size 256M --ioengine psync");
    on(&place, &two, launch, &words).end().exits(0).prints("2 cells in 4 runs on 2 hosts");
}

#[test]
fn a_throttled_host_of_four_is_named_and_a_killed_one_leaves_a_partial_total() {
    let Some((four, shared)) = scene(4) else { return };
    let limits = IoLimits { read_iops: Some(200), ..IoLimits::default() };
    let throttle = match IoThrottle::new(shared.device().number(), &limits) {
        Ok(throttle) => throttle,
        Err(why) => return iosonde_rig::skip(why),
    };
    let place = Place::new();
    let data = shared.path().join("data");
    fs::write(&data, vec![7; 64 << 20]).unwrap();
    let words = format!("run --path {} --rw randread --ioengine psync", data.display());
    let slow = format!(
        "sh -c 'if [ {{host}} = {} ]; then echo $$ > {}; fi; exec {IP}'",
        four.name(3),
        throttle.processes().display()
    );
    let words_of = format!("{words} --runtime 4 --results slow --output-format json");
    let json = on(&place, &four, &slow, &words_of).end().exits(0).json();
    let named: Vec<&str> = json["loads"][0]["slow"]
        .as_array()
        .unwrap()
        .iter()
        .map(|host| host["name"].as_str().unwrap())
        .collect();
    assert_eq!(named, [four.name(3)]);
    page(&place, "slow").prints(&format!("{} is slow: ", four.name(3)));
    let noted =
        format!("sh -c 'if [ {{host}} = {} ]; then echo $$ > agent; fi; exec {IP}'", four.name(2));
    let words = format!("{words} --runtime 15 --results kept");
    let running = on(&place, &four, &noted, &words).start().until_stderr("hosts: 4 running");
    kill(&place.work().join("agent"));
    let ended = running.end().exits(1).prints("PARTIAL: ").prints("on 3 of 4 hosts");
    ended.says(&format!("warning: {} is lost", four.name(2)));
    page(&place, "kept").prints("PARTIAL: ").prints(&format!("{}: lost", four.name(2)));
}

/// HTML page of the only multi-host result in a folder.
fn page(place: &Place, results: &str) -> Ended {
    let mut folders = listing(&place.work().join(results)).into_iter();
    let folder = folders.rfind(|path| path.join("hosts.json").is_file()).unwrap();
    place.iosonde("report --output-format html").arg(&folder).end().exits(0)
}
