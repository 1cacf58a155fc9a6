//! Cost of a coordinator of many hosts: its CPU time and memory for growing numbers of agents. The
//! agents are simulated unless real ones are requested: each is a process that answers over its
//! pipes and sends the record of one real run.

use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use iosonde_sys::clock::monotonic_ns;
use serde_json::{Value, json};

use crate::{BenchError, doing};

/// How many agents, and where.
#[derive(Args)]
pub(crate) struct HostsArgs {
    /// The iosonde to measure
    #[arg(long, env = "IOSONDE", default_value = "target/release/iosonde")]
    iosonde: PathBuf,
    /// Directory for the results
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// Agents
    #[arg(long, value_delimiter = ',', default_value = "10,100,300,1000")]
    counts: Vec<u32>,
    /// Real agents, three processes each, that carry out the load
    #[arg(long)]
    real: bool,
}

/// The record that each pretended agent sends.
#[derive(Args)]
pub(crate) struct PretendArgs {
    /// The record
    record: PathBuf,
    /// The verb that a coordinator adds
    #[arg(value_parser = ["agent"])]
    verb: String,
}

/// Load of the recorded run.
const LOAD: &str = "--ioengine sim --path servers=8,read=exp:90us --rw randread --iodepth 4 \
                    --number-ios 20000";
/// Limits for a coordinator of 1,000 hosts: CPU time in seconds, and memory in MiB.
const MOST: (f64, f64) = (5.0, 512.0);
/// Interval at which memory is read.
const LOOK: Duration = Duration::from_millis(2);
/// Clock ticks per second in `/proc`.
const TICKS: f64 = 100.0;

/// Measures each count and prints a line for each.
pub(crate) fn hosts(args: &HostsArgs, out: &mut impl Write) -> Result<(), BenchError> {
    let kept = args.dir.join("hosts");
    let _ = fs::remove_dir_all(&kept);
    fs::create_dir_all(&kept).map_err(doing("cannot make the directory"))?;
    let record = record(args, &kept)?;
    let own = std::env::current_exe().map_err(doing("this program has no path"))?;
    let agent = match args.real {
        true => format!("'{}'", args.iosonde.display()),
        false => format!("'{}' pretend '{}'", own.display(), record.display()),
    };
    let line = |out: &mut dyn Write, text: String| {
        writeln!(out, "{text}").map_err(doing("cannot write the table"))
    };
    line(out, "agents  processor   per agent    memory  elapsed".into())?;
    for count in &args.counts {
        let hosts = format!("n[1-{count}]");
        let began = Instant::now();
        let coordinator = Command::new(&args.iosonde)
            .args(["run", "--hosts", &hosts, "--launch", "local", "--agent", &agent])
            .args(LOAD.split_whitespace())
            .args(["--output-format", "json", "--host-timeout", "300", "--results"])
            .arg(kept.join(format!("of-{count}")))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let coordinator = coordinator.map_err(|error| BenchError::NotRun {
            program: args.iosonde.display().to_string(),
            error,
        })?;
        let (seconds, mib, json) = watched(coordinator)?;
        let elapsed = began.elapsed().as_secs_f64();
        let measured = json["loads"][0]["hosts"].as_array().map_or(0, Vec::len);
        if measured != *count as usize {
            let what = format!("{count} hosts, but {measured}");
            return Err(BenchError::Output { program: "iosonde".into(), what });
        }
        let each = seconds * 1e3 / f64::from(*count);
        let text =
            format!("{count:6}  {seconds:7.2} s  {each:6.2} ms  {mib:4.0} MiB  {elapsed:5.1} s");
        line(out, text)?;
        if *count == 1000 {
            let is_met = seconds < MOST.0 && mib < MOST.1;
            let verdict = if is_met { "as asked" } else { "NOT met" };
            let text = format!("        1,000 below {} s and {} MiB: {verdict}", MOST.0, MOST.1);
            line(out, text)?;
        }
    }
    Ok(())
}

/// Makes the real run whose record all agents send.
fn record(args: &HostsArgs, kept: &Path) -> Result<PathBuf, BenchError> {
    let folder = kept.join("record");
    let ended = Command::new(&args.iosonde)
        .arg("run")
        .args(LOAD.split_whitespace())
        .arg("--results")
        .arg(&folder)
        .output();
    ended.map_err(|error| BenchError::NotRun {
        program: args.iosonde.display().to_string(),
        error,
    })?;
    let results = fs::read_dir(&folder).map_err(doing("nothing was kept"))?;
    let found = results.flatten().map(|result| result.path().join("01-run.json"));
    let found = found.filter_map(|path| path.canonicalize().ok()).next();
    found.ok_or(BenchError::Output { program: "iosonde run".into(), what: "record".into() })
}

/// CPU seconds of the coordinator alone, its peak memory in MiB, and its output.
fn watched(mut coordinator: Child) -> Result<(f64, f64, Value), BenchError> {
    let place = PathBuf::from(format!("/proc/{}", coordinator.id()));
    let reads = coordinator.stdout.take().map(|mut stdout| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            stdout.read_to_end(&mut text).map(|_| text)
        })
    });
    let mut mib: f64 = 0.0;
    let seconds = loop {
        if let Some(kib) = most_memory_kib(&place) {
            mib = mib.max(kib / 1024.0);
        }
        let stat = fs::read_to_string(place.join("stat")).map_err(doing("no process"))?;
        let fields: Vec<&str> =
            stat.rsplit_once(") ").map_or(Vec::new(), |(_, rest)| rest.split(' ').collect());
        // A process that has ended keeps its times until it is waited for.
        if fields.first() == Some(&"Z") {
            let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok());
            break ticks(11).zip(ticks(12)).map_or(0.0, |(user, system)| (user + system) / TICKS);
        }
        std::thread::sleep(LOOK);
    };
    coordinator.wait().map_err(doing("cannot wait"))?;
    let text = reads.and_then(|reads| reads.join().ok()).and_then(Result::ok).unwrap_or_default();
    Ok((seconds, mib, serde_json::from_slice(&text).unwrap_or_default()))
}

fn most_memory_kib(place: &Path) -> Option<f64> {
    let status = fs::read_to_string(place.join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// An agent that measures nothing: it follows the protocol and sends the record.
pub(crate) fn pretend(args: &PretendArgs, out: &mut impl Write) -> Result<(), BenchError> {
    let run = fs::read_to_string(&args.record).map_err(doing("no record"))?;
    let broken = || doing("the coordinator is gone");
    let mut say =
        |text: &str| write!(out, "#iosonde {}\n{text}\n", text.len()).and_then(|()| out.flush());
    let hello = json!({ "Hello": {
        "protocol": 1, "program": env!("CARGO_PKG_VERSION"), "node": "none", "kernel": "none",
    }});
    say(&hello.to_string()).map_err(broken())?;
    let mut orders = io::stdin().lock();
    while let Some(order) = next(&mut orders).map_err(broken())? {
        let answer = match &order {
            Value::String(word) if word == "Prepare" => {
                json!({ "Ready": { "cell": 0, "title": "pretended" } })
            }
            _ if !order["Begin"].is_null() => json!({ "Admitted": { "targets": [] } }),
            _ if !order["Ping"].is_null() => json!({ "Pong": {
                "sent_ns": order["Ping"]["sent_ns"], "clock_ns": monotonic_ns(),
            }}),
            _ if !order["Start"].is_null() => break,
            _ => return Ok(()),
        };
        say(&answer.to_string()).map_err(broken())?;
    }
    let opened = json!({ "Opened": { "cell": 0, "at_ns": monotonic_ns() } });
    say(&opened.to_string()).map_err(broken())?;
    say(&format!("{{\"Record\":{{\"cell\":0,\"run\":{run}}}}}")).map_err(broken())?;
    say("{\"Ended\":{\"code\":0,\"output\":\"\"}}").map_err(broken())
}

/// Reads the next message of the coordinator.
fn next(from: &mut impl BufRead) -> io::Result<Option<Value>> {
    let mut head = String::new();
    from.read_line(&mut head)?;
    let Some(length) = head.trim().strip_prefix("#iosonde ").and_then(|text| text.parse().ok())
    else {
        return Ok(None);
    };
    let mut text = vec![0_u8; length];
    from.read_exact(&mut text)?;
    let mut feed = [0];
    from.read_exact(&mut feed)?;
    Ok(serde_json::from_slice(&text).ok())
}
