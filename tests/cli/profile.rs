//! `iosonde profile`: the command behaves as without it, and missing data are reported.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use iosonde_rig::guard::{TmpfsMount, ZramDevice};
use iosonde_rig::skip;
use rustix::process::Signal;
use serde_json::Value;

use super::program::{Call, Held, Place, listing};
use super::robot::Robot;

/// `iosonde profile` with these options and a shell script as its command.
fn script(place: &Place, words: &str, script: &str) -> Call {
    place.iosonde(&format!("profile {words} -- sh -c")).arg(script)
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The record of the only run in this folder.
fn record(folder: &Path) -> Value {
    let runs: Vec<PathBuf> = listing(folder).into_iter().filter(|path| path.is_dir()).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    read(&runs[0].join("01-profile.json"))
}

/// The missing items of a record, with their reasons.
fn missing(record: &Value) -> String {
    record["source"]["missing"].to_string()
}

fn is_traced(record: &Value) -> bool {
    record["source"]["method"] == "tracepoints"
}

#[test]
fn the_exit_code_is_that_of_the_command() {
    let place = Place::new();
    for code in [0, 3, 125, 255] {
        script(&place, "", &format!("exit {code}")).end().exits(code).silent();
    }
    script(&place, "", "kill -TERM $$").end().exits(128 + 15).says("killed by signal 15");
    script(&place, "", "kill -KILL $$").end().exits(128 + 9);
    // The Rust runtime ignores SIGPIPE; the command must not inherit that.
    script(&place, "", "kill -PIPE $$").end().exits(128 + 13);
    let endings: Vec<Value> =
        place.kept().iter().map(|folder| read(&folder.join("manifest.json"))).collect();
    let codes: Vec<i64> =
        endings.iter().map(|manifest| manifest["exit_code"].as_i64().unwrap()).collect();
    let mut codes = codes;
    codes.sort_unstable();
    assert_eq!(codes, [0, 3, 125, 137, 141, 143, 255]);
}

#[test]
fn what_cannot_be_executed_has_its_own_exit_code() {
    let place = Place::new();
    place.iosonde("profile -- /no/such/program").end().exits(127).silent().says("no such file");
    place.iosonde("profile -- no-such-program").end().exits(127).says("not found in PATH");
    place.file("plain", b"no program");
    place.iosonde("profile -- ./plain").end().exits(126).says("Permission denied");
    place.iosonde("profile -- .").end().exits(126).says("cannot be executed");
    let lost = place.file("lost", b"#!/no/such/interpreter\n");
    fs::set_permissions(&lost, fs::Permissions::from_mode(0o755)).unwrap();
    place.iosonde("profile -- ./lost").end().exits(127).says("interpreter");
    assert!(place.kept().is_empty(), "nothing was watched: {:?}", place.kept());
}

#[test]
fn stdout_and_stdin_are_the_commands() {
    let place = Place::new();
    let bytes: Vec<u8> = (0..=255u8).cycle().take(100_000).collect();
    let input = place.file("input", &bytes);
    let mut command = place.iosonde("profile --json -v -- cat").into_command();
    command.stdin(fs::File::open(input).unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout, bytes, "byte for byte");
    assert!(String::from_utf8_lossy(&output.stderr).contains("=== IO Profile: cat"));
}

#[test]
fn words_after_the_dashes_stay_as_they_are() {
    let place = Place::new();
    let ended = place
        .iosonde("profile -- printf %s, --a_b=c_d -? --output-format=json --results")
        .arg("x  y")
        .end();
    let ended = ended.exits(0);
    assert_eq!(ended.out.trim_end(), "--a_b=c_d,-?,--output-format=json,--results,x  y,");
    // Nor do they select the format of iosonde's own errors.
    place.iosonde("profile -- no-such --output-format=json").end().exits(127).silent();
}

#[test]
fn the_command_keeps_its_place_and_its_rights() {
    let place = Place::new();
    let ask = "pwd; id -u; grep -E 'CapEff|NoNewPrivs|SigIgn|SigBlk' /proc/self/status; echo $MARK";
    let seen = script(&place, "", ask).env("MARK", "here").end().exits(0).out;
    let mut bare = Command::new("sh");
    bare.args(["-c", ask]).current_dir(place.work()).env("MARK", "here");
    let alone = String::from_utf8(bare.output().unwrap().stdout).unwrap();
    // In a process with threads the C library handles the second of its two internal signals, so
    // both are left out.
    let usable = |line: &str| match line.strip_prefix("SigIgn:\t") {
        Some(mask) => format!("{:x}", u64::from_str_radix(mask, 16).unwrap() & !(0b11 << 31)),
        None => line.to_owned(),
    };
    let usable = |all: &str| all.lines().map(usable).collect::<Vec<_>>();
    assert_eq!(usable(&seen), usable(&alone));
    // Signals ignored as under nohup stay ignored, by iosonde too.
    let program = iosonde_fixtures::program!().path();
    let ask = "grep SigIgn /proc/self/status; kill -HUP $PPID; sleep 0.2; exit 6";
    let mut deaf = Command::new("sh");
    deaf.args(["-c", "trap '' HUP; exec \"$0\" profile -- sh -c \"$1\"", program, ask]);
    let output = deaf.current_dir(place.work()).env("HOME", place.home()).output().unwrap();
    let ignored = String::from_utf8(output.stdout).unwrap();
    let mask = ignored.trim().rsplit('\t').next().unwrap();
    assert_eq!(u64::from_str_radix(mask, 16).unwrap() & 1, 1, "{ignored}");
    assert_eq!(output.status.code(), Some(6));
}

#[test]
fn results_go_into_the_folder_of_another_user() {
    let place = Place::new();
    if !rustix::process::geteuid().is_root() {
        skip("needs root, who writes into folders of others");
        return;
    }
    let folder = place.work().join("theirs");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::chown(&folder, Some(65534), Some(65534)).unwrap();
    let ended = place.iosonde("profile -o theirs --json -- true").end().exits(0);
    let ended = ended.says("results stored in theirs/");
    assert!(folder.join("report.txt").exists() && folder.join("report.json").exists(), "{ended}");
    assert!(!ended.err.contains("not kept"), "{ended}");
}

#[test]
fn the_collector_gives_up_what_it_does_not_need() {
    let place = Place::new();
    let ask = "grep -E 'CapPrm|CapEff|NoNewPrivs' /proc/$PPID/status";
    let seen = script(&place, "", ask).end().exits(0).out;
    let field = |name: &str| {
        let line = seen.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    // At most CAP_KILL, CAP_SYS_PTRACE and CAP_BPF.
    let kept = 1 << 5 | 1 << 19 | 1 << 39;
    assert_eq!(field("CapEff:") & !kept, 0, "{seen}");
    assert_eq!(field("CapPrm:") & !kept, 0, "{seen}");
    assert_eq!(field("NoNewPrivs:"), 1, "{seen}");
}

#[test]
fn what_it_did_is_counted_with_its_children() {
    let place = Place::new();
    let work = "dd if=/dev/zero of=a bs=64k count=32 oflag=direct; \
                (dd if=/dev/zero of=b bs=1M count=4 conv=fsync); exit 7";
    let ended = script(&place, "-o results --json", work).end().exits(7).silent();
    let run = record(&place.work().join("results"));
    let written = run["calls"]["written_bytes"].as_u64().unwrap();
    let least = (2 << 20) + (4 << 20);
    assert!((least..least + (1 << 20)).contains(&written), "{written}: {ended}");
    assert_eq!(run["ended"], serde_json::json!({"ended": "exited", "code": 7}));
    let cpu = |part: &str| run["cpu"][part].as_u64().unwrap();
    assert!(cpu("cpu_system_ns") + cpu("cpu_user_ns") > 0, "{}", run["cpu"]);
    assert!(run["telemetry"].as_array().unwrap().len() >= 2);
    if !is_traced(&run) {
        assert!(missing(&run).contains("requests"), "{run}");
        return;
    }
    let traffic = run["traffic"].as_array().unwrap();
    for kind in traffic {
        let over_time = kind["counters"]["ops"].as_array().unwrap().iter();
        let requests: u64 = over_time.filter_map(Value::as_u64).sum();
        // Requests without a traced completion have no latency.
        assert!(kind["requests"].as_u64().unwrap().abs_diff(requests) <= 5, "{kind}");
    }
    let written = |class: &str| -> u64 {
        let of_class = traffic.iter().filter(|kind| kind["class"] == class);
        let writes = of_class.filter(|kind| kind["op"] == "write");
        writes.map(|kind| kind["bytes"].as_u64().unwrap()).sum()
    };
    // Write-back by the kernel may include data of other tests.
    let (own, back) = (written("program"), written("write_back"));
    assert!(own < least + (1 << 20) && own + back >= least, "{own}, {back}: {ended}");
}

#[test]
fn a_child_that_outlives_the_command_is_named() {
    let place = Place::new();
    let outlives = "tail -f /dev/null >out 2>&1 & echo $! >pid; sleep 1";
    script(&place, "--settle 0 --output outlives", outlives).end().exits(0);
    let pid: i32 = fs::read_to_string(place.work().join("pid")).unwrap().trim().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    let said = missing(&record(&place.work().join("outlives")));
    assert!(said.contains("later I/O of 1 process that outlives the command (tail)"), "{said}");
    let waits = "tail -f /dev/null >out 2>&1 & sleep 1; kill $!; wait";
    script(&place, "--settle 0 --output waits", waits).end().exits(0);
    let said = missing(&record(&place.work().join("waits")));
    assert!(!said.contains("later I/O"), "{said}");
}

#[test]
fn a_named_folder_holds_every_run_and_the_latest_report() {
    let place = Place::new();
    // An existing JSON document is not left beside a newer report.
    for (json, word) in [("--json", "first"), ("", "second")] {
        place.iosonde(&format!("profile -o results {json} -- true {word}")).end().exits(0);
    }
    let results = place.work().join("results");
    assert_eq!(listing(&results).iter().filter(|path| path.is_dir()).count(), 2);
    let text = fs::read_to_string(results.join("report.txt")).unwrap();
    assert!(text.contains("\n=== IO Profile: true second ==="), "{text}");
    let document = read(&results.join("report.json"));
    assert_eq!(document["exit_code"], 0);
    assert_eq!(document["subject"]["words"], serde_json::json!(["true", "second"]));
    assert!(place.kept().is_empty());
    // A foreign file is not replaced.
    fs::write(results.join("report.txt"), "my notes\n").unwrap();
    let ended = place.iosonde("profile -o results -- touch ran").end().exits(125);
    ended.says("contains something else");
    assert!(!place.work().join("ran").exists());
}

#[test]
fn what_was_seen_becomes_a_workload_that_runs() {
    let place = Place::new();
    let work = "dd if=/dev/zero of=x bs=64k count=200 oflag=direct";
    place.iosonde("profile -o seen -- true").end().exits(0);
    if !is_traced(&record(&place.work().join("seen"))) {
        // If a requested feature is unavailable, the command is not run.
        let ended = place.iosonde("profile --emit app.toml -- touch ran").end();
        ended.exits(125).says("--emit: single requests cannot be seen").silent();
        assert!(!place.work().join("ran").exists());
        return;
    }
    let ended = script(&place, "--emit app.toml -o results", work).end();
    ended.exits(0).says("workload written to app.toml");
    place.iosonde("run app.toml --path . --size 64m --dry-run").end().exits(0).prints("dd");
    let files = listing(&place.work().join("results"));
    let pictures = files.iter().filter(|path| path.is_dir()).flat_map(|folder| listing(folder));
    assert!(pictures.filter(|path| path.extension().is_some_and(|end| end == "svg")).count() > 0);
    // Too few requests for a load; the command's own exit code comes first.
    script(&place, "--emit app.toml", "exit 9").end().exits(9).says("--emit app.toml: no workload");
    script(&place, "--emit app.toml", "true").end().exits(125);
    place.file("mine", b"my notes");
    place.iosonde("profile --emit mine -- touch ran").end().exits(125).says("something else");
    assert!(!place.work().join("ran").exists());
}

#[test]
fn a_result_that_cannot_stand_beside_is_said_before_the_command_is_run() {
    let place = Place::new();
    place.file("other", br#"{"schema": "else/1"}"#);
    place.file("half", br#"{"schema": "iosonde.run/1"}"#);
    for (result, why) in [
        ("nowhere", "no such file"),
        (".", "contains no record"),
        ("other", "a document of else/1"),
        ("/dev/zero", "expected a regular file"),
    ] {
        let ended = place.iosonde(&format!("profile --against {result} -- touch ran")).end();
        ended.exits(125).says("--against: `").says(why).silent();
    }
    place.iosonde("profile --against half -- touch ran").end().exits(125).says("`half`");
    assert!(!place.work().join("ran").exists());
}

#[test]
fn a_folder_that_takes_nothing_is_said_before_the_command_is_run() {
    let place = Place::new();
    place.file("file", b"");
    for folder in ["/proc/none", "file", "file/below"] {
        let ended = place.iosonde(&format!("profile -o {folder} -- touch ran")).end();
        ended.exits(125).says("results cannot be stored").silent();
    }
    let ended = place.iosonde("profile -o file -- touch ran").end();
    ended.says("file: it is no folder");
    assert!(!place.work().join("ran").exists());
    // At the default location, the command runs even if results cannot be stored.
    let call = place.iosonde("profile -- touch ran").env("XDG_STATE_HOME", "/proc/none");
    call.end().exits(0).says("the results are not stored").says("-o DIR");
    assert!(place.work().join("ran").exists());
}

/// Depending on the size, a different write is the first to find no space.
#[test]
fn a_full_disk_is_named_and_nothing_half_written_stays_on_it() {
    let place = Place::new();
    let mut ends = [false; 2];
    for kib in (4..100).step_by(8) {
        let disk = match TmpfsMount::new(kib << 10) {
            Ok(disk) => disk,
            Err(reason) => {
                skip(reason);
                return;
            }
        };
        let state = disk.path().display().to_string();
        let ended = place.iosonde("profile -- true").env("XDG_STATE_HOME", &state).end().exits(0);
        let runs = fs::read_dir(disk.path().join("iosonde/runs")).into_iter().flatten();
        let left: Vec<PathBuf> = runs.map(|entry| entry.unwrap().path()).collect();
        let Some(partial) = left.iter().find(|path| path.extension().is_some()) else {
            ends[usize::from(!left.is_empty())] = true;
            if left.is_empty() {
                ended.says("No space left").says(&format!("not stored: {state}"));
            }
            continue;
        };
        // The record is complete, and its location is reported.
        ended.says(&format!("is in {}", partial.display()));
        assert!(read(&partial.join("01-profile.json"))["schema"].is_string());
        let names = fs::read_dir(partial).unwrap().map(|entry| entry.unwrap().file_name());
        let is_whole = |name: &std::ffi::OsString| !name.to_string_lossy().ends_with(".tmp");
        assert!(names.collect::<Vec<_>>().iter().all(is_whole));
    }
    assert_eq!(ends, [true; 2], "both a disk that was full and one that was not");
}

#[test]
fn a_usage_error_is_125_and_says_how_to_fix_it() {
    let place = Place::new();
    for (words, says) in [
        ("profile -d no-such-disk -- touch ran", "no block device `no-such-disk`; available: "),
        ("profile -p 4194305", "no process 4194305"),
        ("profile --attach 4194305 -- touch ran", "no process 4194305"),
        ("profile --cgroup no/such -- touch ran", "no cgroup `no/such`"),
        ("profile --attach no/such", "no cgroup `no/such`"),
        ("profile", "nothing to profile"),
        ("profile --for 0", "--for: found 0, expected a time above 0"),
        ("profile --for 3 --settle 1", "--settle has no effect on the whole machine"),
        ("profile dd if=/dev/zero", "the command must follow --"),
        ("profile --live -- touch ran", "--live: a command keeps the terminal"),
        ("profile --for 3 -- touch ran", "--for has no effect with a command"),
        ("profile -p 1 --cgroup / --for 1", "cannot be used with"),
        ("profile --interval 1ms -- touch ran", "from 100ms to 1h"),
        ("profile --settle x -- touch ran", "--settle"),
        ("profile --jsn -- touch ran", "--json"),
    ] {
        place.iosonde(words).end().exits(125).says(says).silent();
    }
    // The message must not blame a missing command.
    for words in ["profile --jsn", "profile -p x", "profile --for", "profile -p 1 --cgroup /"] {
        let ended = place.iosonde(words).end().exits(125);
        assert!(!ended.err.contains("must follow --"), "{words}: {ended}");
    }
    assert!(!place.work().join("ran").exists());
    assert!(place.kept().is_empty());
}

#[test]
fn a_rehearsal_says_what_would_be_seen() {
    let place = Place::new();
    let ended = place.iosonde("profile --dry-run -- touch ran").end().exits(0).silent();
    let ended = ended.says("disks: ");
    assert!(
        ended.err.contains("attributed at") || ended.err.contains("missing: requests"),
        "{ended}"
    );
    assert!(!place.work().join("ran").exists() && place.kept().is_empty());
    place.iosonde("profile --dry-run -- no-such-cmd").end().exits(127).says("not found in PATH");
}

const PATIENT: &str = "trap 'echo got INT; exit 42' INT; trap 'echo got TERM; exit 43' TERM; \
                       trap 'echo got USR1' USR1; echo ready; while :; do sleep 0.05; done";

#[test]
fn a_signal_to_us_reaches_the_command_once() {
    for (signal, says, code) in [(Signal::INT, "got INT\n", 42), (Signal::TERM, "got TERM\n", 43)] {
        let place = Place::new();
        let running = script(&place, "", PATIENT).start().until_stdout("ready");
        let ended = running.signal(signal).end().exits(code).says("=== IO Profile");
        assert_eq!(ended.out, format!("ready\n{says}"));
        assert_eq!(place.kept().len(), 1, "what was seen is kept");
    }
    let place = Place::new();
    let running = script(&place, "", PATIENT).start().until_stdout("ready");
    let running = running.signal(Signal::USR1).until_stdout("got USR1");
    running.signal(Signal::TERM).end().exits(43);
    // Without a handler the command is killed by the signal.
    let running = script(&place, "", "echo ready; exec sleep 60").start().until_stdout("ready");
    running.signal(Signal::TERM).end().exits(143).says("killed by signal 15");
}

#[test]
fn a_key_on_the_terminal_reaches_the_command_once() {
    let place = Place::new();
    let tool = Command::new("script").arg("--version").output();
    if !tool.is_ok_and(|output| output.status.success()) {
        skip("there is no script(1) to make a terminal");
        return;
    }
    place.file("patient.sh", PATIENT.as_bytes());
    let program = iosonde_fixtures::program!().path();
    // Without `exec` it depends on the user's shell whether a shell remains in between and is
    // killed by the key.
    let line = format!("exec {program} profile -o results -- sh patient.sh > stdout 2> stderr");
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    command.current_dir(place.work()).env("HOME", place.home());
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut script = Held::spawn(&mut command).unwrap();
    let said = place.work().join("stdout");
    let began = Instant::now();
    while !fs::read_to_string(&said).is_ok_and(|text| text.contains("ready")) {
        assert!(began.elapsed() < Duration::from_secs(60), "the command does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::io::Write::write_all(script.child().stdin.as_mut().unwrap(), b"\x03").unwrap();
    let status = script.wait().expect("the key ends the command");
    assert_eq!(fs::read_to_string(&said).unwrap(), "ready\ngot INT\n");
    assert_eq!(status.code(), Some(42));
    assert!(place.work().join("results/report.txt").exists());
}

#[test]
fn a_second_signal_leaves_at_once() {
    let place = Place::new();
    let stubborn = "trap 'echo no' INT; echo ready; for i in $(seq 60); do sleep 0.05; done";
    let running = script(&place, "", stubborn).start().until_stdout("ready");
    let running = running.signal(Signal::INT).until_stdout("no");
    let pause = Duration::from_millis(300);
    let ended = running.pause(pause).signal(Signal::INT).end().exits(130);
    ended.says("aborted by a second signal");
    assert!(place.kept().is_empty(), "nothing was reported: {:?}", place.kept());
}

#[test]
fn what_runs_already_is_watched_for_a_time_or_until_its_end() {
    let place = Place::new();
    let mut shell = Command::new("sh");
    shell.args(["-c", "while read line; do dd if=/dev/zero of=x bs=4096 count=100; done"]);
    shell.current_dir(place.work()).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut shell = Held::spawn(&mut shell).unwrap();
    let pid = shell.child().id();
    let feed = |shell: &mut Held| {
        std::io::Write::write_all(shell.child().stdin.as_mut().unwrap(), b"go\n").unwrap();
    };
    // Activity before the profile does not count.
    feed(&mut shell);
    let (began, written) = (Instant::now(), place.work().join("x"));
    while !fs::metadata(&written).is_ok_and(|file| file.len() == 409_600) {
        assert!(began.elapsed() < Duration::from_secs(60), "the shell does not write");
        std::thread::sleep(Duration::from_millis(10));
    }
    place.iosonde(&format!("profile -o timed -p {pid} --for 0.3")).end().exits(0).silent();
    let run = record(&place.work().join("timed"));
    assert_eq!(run["ended"]["ended"], "time_up");
    assert_eq!(run["subject"]["subject"], "process");
    assert!(run["calls"]["written_bytes"].as_u64().unwrap() < 400_000, "{}", run["calls"]);

    let running = place.iosonde(&format!("profile -v -o whole --attach {pid}")).start();
    let running = running.until_stderr("watching");
    feed(&mut shell);
    drop(shell.child().stdin.take());
    assert!(shell.wait().is_some(), "its input has ended");
    running.end().exits(0);
    let run = record(&place.work().join("whole"));
    assert_eq!(run["ended"]["ended"], "gone");
}

/// A shell that writes a file repeatedly, or `None` if requests cannot be traced.
fn writer(place: &Place) -> Option<Held> {
    let rehearsed = place.iosonde("profile --dry-run --for 1").end().exits(0);
    if !rehearsed.err.contains("attributed at") {
        skip("requests cannot be traced here");
        return None;
    }
    let words = "while :; do dd if=/dev/zero of=written bs=4k count=500 oflag=direct,dsync; done";
    let mut shell = Command::new("sh");
    shell.args(["-c", words]).current_dir(place.work()).stderr(Stdio::null());
    Some(Held::spawn(&mut shell).unwrap())
}

#[test]
fn the_live_view_names_who_writes_and_what_and_ends_by_a_key() {
    let place = Place::new();
    let Some(_writer) = writer(&place) else { return };
    let mut robot = Robot::start(&place, "profile --live -o results");
    robot.sees("q end");
    robot.sees("the whole machine");
    robot.sees("dd (");
    robot.types("\t");
    robot.sees("/written");
    robot.types("\t");
    robot.sees("cgroup ");
    robot.types("p");
    robot.sees("PAUSED");
    robot.resizes(40);
    // Drawn in the next second; there is no room for another column.
    robot.sees("requests/s\n");
    robot.types("p");
    robot.types("q");
    assert_eq!(robot.ends(), Some(0));
    assert!(robot.contents().contains("results stored in"), "{}", robot.contents());
    let run = record(&place.work().join("results"));
    assert_eq!(run["ended"]["ended"], "stopped");
}

#[test]
fn without_a_terminal_the_live_view_is_a_line_per_second() {
    let place = Place::new();
    let Some(_writer) = writer(&place) else { return };
    let ended = place.iosonde("profile --live --for 3 -o results").end().exits(0).silent();
    let lines = ended.err.lines().filter(|line| line.contains("; write "));
    let lines: Vec<&str> = lines.filter(|line| line.contains("most: ")).collect();
    assert!((1..=3).contains(&lines.len()), "{ended}");
    assert_eq!(record(&place.work().join("results"))["ended"]["ended"], "time_up");
}

#[test]
fn a_process_beside_the_command_is_watched_and_the_command_is_not() {
    let place = Place::new();
    let mut sleeper = Held::spawn(Command::new("sleep").arg("600")).unwrap();
    let words = format!("-o results -p {}", sleeper.child().id());
    let work = "dd if=/dev/zero of=x bs=1M count=3 oflag=direct; exit 5";
    script(&place, &words, work).end().exits(5);
    let run = record(&place.work().join("results"));
    assert_eq!(run["subject"]["subject"], "process");
    assert_eq!(run["ended"]["code"], 5);
    let of_program = |kind: &&Value| kind["class"] == "program";
    let traffic = run["traffic"].as_array().unwrap();
    let bytes = traffic.iter().filter(of_program).filter_map(|kind| kind["bytes"].as_u64());
    assert_eq!(bytes.sum::<u64>(), 0, "{traffic:?}");
}

#[test]
fn an_interrupt_ends_the_watching_of_what_runs_already() {
    let place = Place::new();
    let mut sleeper = Held::spawn(Command::new("sleep").arg("600")).unwrap();
    let call = place.iosonde(&format!("profile -v -o results -p {}", sleeper.child().id()));
    let running = call.start().until_stderr("watching");
    running.signal(Signal::INT).end().exits(130).says("=== IO Profile");
    assert!(sleeper.child().try_wait().unwrap().is_none(), "it runs on");
    let run = record(&place.work().join("results"));
    assert_eq!(run["ended"], serde_json::json!({"ended": "interrupted", "signal": 2}));
}

#[test]
fn a_cgroup_is_watched_with_who_joins_it() {
    let place = Place::new();
    let Some(group) = Group::new() else { return };
    let call = place.iosonde("profile -v -o results --interval 0.2 --cgroup");
    let running = call.arg(&group.0).start().until_stderr("watching");
    // It waits until it has been detected, so that its child is followed.
    let work = "sleep 1; dd if=/dev/zero of=x bs=64k count=64 oflag=direct; sleep 0.5";
    let joins = format!("echo $$ > {}; {work}", group.0.join("cgroup.procs").display());
    let mut shell = Command::new("sh");
    shell.args(["-c", &joins]).current_dir(place.work()).stderr(Stdio::null());
    assert!(shell.status().unwrap().success());
    running.signal(Signal::INT).end().exits(130);
    let run = record(&place.work().join("results"));
    assert_eq!(run["subject"]["subject"], "cgroup");
    let written = run["calls"]["written_bytes"].as_u64().unwrap();
    assert!(written >= 4 << 20, "{written}");
}

/// A new cgroup, if this user may create one.
struct Group(PathBuf);

impl Group {
    fn new() -> Option<Group> {
        let name = format!("iosonde-test-{}", std::process::id());
        for hierarchy in ["", "unified", "systemd", "pids"] {
            let place = Path::new("/sys/fs/cgroup").join(hierarchy);
            let folder = place.join(&name);
            if place.join("cgroup.procs").exists() && fs::create_dir(&folder).is_ok() {
                return Some(Group(folder));
            }
        }
        skip("no cgroup can be made here");
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn two_profilers_do_not_see_each_others_command() {
    let place = Place::new();
    let write = |name: &str, count: u32| {
        let work = format!("sleep 0.3; dd if=/dev/zero of={name} bs=1M count={count} oflag=direct");
        script(&place, &format!("-o {name}-results"), &work).start()
    };
    let both = [write("a", 3), write("b", 5)];
    for running in both {
        running.end().exits(0);
    }
    for (name, mib) in [("a", 3u64), ("b", 5)] {
        let run = record(&place.work().join(format!("{name}-results")));
        let written = run["calls"]["written_bytes"].as_u64().unwrap();
        assert!((mib << 20..(mib << 20) + (1 << 19)).contains(&written), "{name}: {written}");
        if is_traced(&run) {
            let kinds = run["traffic"].as_array().unwrap().iter();
            let kinds = kinds.filter(|kind| kind["class"] == "program" && kind["op"] == "write");
            let bytes: u64 = kinds.map(|kind| kind["bytes"].as_u64().unwrap()).sum();
            assert!((mib << 20..(mib << 20) + (1 << 20)).contains(&bytes), "{name}: {bytes}");
        }
    }
}

#[test]
fn an_ordinary_user_gets_what_counters_tell_and_a_reason_for_the_rest() {
    let place = Place::new();
    let Some(call) = place.as_nobody("profile -o results --json -- sh -c") else { return };
    let work = "id -u; dd if=/dev/zero of=x bs=1M count=4 oflag=direct";
    let ended = call.arg(work).end().exits(0);
    let own = rustix::process::geteuid();
    let user = if own.is_root() { "65534".into() } else { own.as_raw().to_string() };
    assert_eq!(ended.out.trim(), user);
    let run = record(&place.work().join("results"));
    if is_traced(&run) {
        skip("this user may trace");
        return;
    }
    let ended = ended.says("no data (").says("CAP_BPF and CAP_PERFMON").says("setcap");
    assert!(run["calls"]["written_bytes"].as_u64().unwrap() >= 4 << 20, "{ended}");
    assert!(run["calls"]["storage_write_bytes"].as_u64().unwrap() >= 4 << 20, "{ended}");
    assert_eq!(run["traffic"].as_array().map(Vec::len), Some(0));
    let lacking = missing(&run);
    assert!(lacking.contains("no parent waits for"), "{lacking}");
}

#[test]
fn a_device_without_requests_is_said_and_not_zero() {
    let place = Place::new();
    let zram = match ZramDevice::new(16 << 20) {
        Ok(zram) => zram,
        Err(reason) => {
            skip(reason);
            return;
        }
    };
    let disk = zram.path().display().to_string();
    let work = format!("dd if=/dev/zero of={disk} bs=64k count=32 oflag=direct");
    let name = disk.trim_start_matches("/dev/");
    for (folder, device) in [("named", format!("-d {disk}")), ("found", String::new())] {
        let words = format!("-o {folder} {device}");
        let ended = script(&place, &words, &work).end().exits(0);
        let run = record(&place.work().join(folder));
        let devices = run["devices"].as_array().unwrap();
        let found = devices.iter().find(|device| device["facts"]["name"] == name).unwrap();
        let why = found["invisible"].as_str().unwrap();
        assert!(why.contains("has no request queue"), "{why}");
        let sectors = |at: usize| found["counters"][at]["write_sectors"].as_u64().unwrap();
        assert!(sectors(1) - sectors(0) >= 4096, "{ended}");
        ended.says("no request queue");
    }
}

#[test]
fn a_partition_stands_for_its_disk() {
    let place = Place::new();
    let mount = Command::new("findmnt").args(["-no", "SOURCE", "/"]).output();
    let source = mount.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let Ok(source) = source.map(|source| source.trim_start_matches("/dev/").to_owned()) else {
        skip("there is no findmnt");
        return;
    };
    if !Path::new("/sys/class/block").join(&source).exists() {
        skip("the root file system is not on a block device of its own");
        return;
    }
    place.iosonde(&format!("profile -o results -d {source} -- true")).end().exits(0);
    let run = record(&place.work().join("results"));
    let disk = run["devices"][0]["facts"]["name"].as_str().unwrap();
    assert!(Path::new("/sys/block").join(disk).exists(), "{disk}");
    assert!(source.starts_with(disk), "{source} on {disk}");
}
