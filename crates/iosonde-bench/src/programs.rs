//! Cost of the kernel programs of `profile`: nanoseconds per run and runs per request, as counted
//! by the kernel, minus the cost of counting.
//!
//! One fio process reads at depth from a loop device over memory. Meanwhile the programs are
//! attached for short windows, complete or without one part, in rounds.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use iosonde_bpf::{Collector, FileSystem, Options, Part, Runs, timed};
use iosonde_stats::ratio::median;

use crate::watched::Loop;
use crate::{BenchError, doing};

/// What to measure, and how long.
#[derive(Args)]
pub(crate) struct ProgramArgs {
    /// Windows per variant
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    windows: u32,
    /// Length of a window, ms
    #[arg(long, default_value_t = 400)]
    window_ms: u64,
    /// Requests in flight
    #[arg(long, default_value_t = 32)]
    depth: u32,
    /// Size of the device, MiB
    #[arg(long, default_value_t = 256)]
    size_mib: u64,
    /// Measure with each part left out as well
    #[arg(long)]
    ablate: bool,
    /// Measure on this device or file instead of a loop device over memory; it is only read
    #[arg(long, value_name = "PATH")]
    target: Option<PathBuf>,
    /// Where the memory is
    #[arg(long, default_value = "/dev/shm")]
    memory: PathBuf,
    /// fio
    #[arg(long, env = "FIO", default_value = "fio")]
    fio: PathBuf,
}

/// Programs shown in the table.
const SHOWN: [&str; 9] = [
    "io_start",
    "rq_issue",
    "rq_complete",
    "uring_queue",
    "uring_complete",
    "call_enter",
    "call_exit",
    "io_wait",
    "io_wait_over",
];
/// A program that does nothing: its time is the cost of counting.
const METER: &str = "meter";
/// Programs that run for all processes, with or without requests.
const FOR_ALL: [&str; 4] = ["call_enter", "call_exit", "io_wait", "io_wait_over"];
/// The program that runs once per request.
const PER_REQUEST: &str = "rq_complete";

/// One window: net ns per request and runs per request of each program; ns of the meter.
struct Window {
    each: BTreeMap<String, (f64, f64)>,
    meter_ns: f64,
}

/// The reading child process, killed on drop.
struct Reader(Child);

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A file in memory, removed on drop.
struct Memory(PathBuf);

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Measures and writes the tables.
pub(crate) fn programs(args: &ProgramArgs, out: &mut impl Write) -> Result<(), BenchError> {
    let memory = Memory(args.memory.join(format!("iosonde-bench-{}", std::process::id())));
    let device;
    let target = match &args.target {
        Some(target) => target.clone(),
        None => {
            let bytes = vec![0xa5u8; 1 << 20];
            let mut file = std::fs::File::create(&memory.0).map_err(doing("cannot use memory"))?;
            for _ in 0..args.size_mib {
                file.write_all(&bytes).map_err(doing("cannot use memory"))?;
            }
            device = Loop::over(&memory.0)?;
            device.path()
        }
    };
    let calls = calls()?;
    let reader = read(args, &target)?;
    sleep(Duration::from_millis(500));
    let mut variants: Vec<(&str, Vec<Part>)> = vec![("all", Vec::new())];
    if args.ablate {
        variants.extend(Part::ALL.map(|(part, name)| (name, vec![part])));
    }
    let _timed = timed().map_err(BenchError::Gate)?;
    let mut windows: Vec<Vec<Window>> = variants.iter().map(|_| Vec::new()).collect();
    for _ in 0..args.windows {
        for ((_, without), windows) in variants.iter().zip(&mut windows) {
            windows.push(window(args, reader.0.id(), without)?);
        }
    }
    let text = tables(&variants, &windows) + &calls;
    write!(out, "{text}").map_err(doing("cannot write the tables"))
}

/// Duration of a system call in a process that is not profiled, with and without the programs
/// attached: the kernel's count does not include the entry into a program.
fn calls() -> Result<String, BenchError> {
    const ROUNDS: u32 = 9;
    let (mut without, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(call_ns());
        let _attached = attach(&[])?;
        beside.push(call_ns());
    }
    let (without, beside) = (median(&without).unwrap_or(0.0), median(&beside).unwrap_or(0.0));
    Ok(format!(
        "\nA system call of a program that is not profiled: {without:.0} ns, beside a profile \
         {beside:.0} ns (medians of {ROUNDS})\n"
    ))
}

/// Duration of one of the shortest system calls, ns.
fn call_ns() -> f64 {
    const CALLS: u32 = 500_000;
    let since = Instant::now();
    for _ in 0..CALLS {
        std::hint::black_box(std::os::unix::process::parent_id());
    }
    since.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

/// Attaches the programs of a profile except `without`, and the meter.
fn attach(without: &[Part]) -> Result<Collector, BenchError> {
    let options = Options {
        file_systems: vec![FileSystem::Ext4, FileSystem::Xfs],
        page_bytes: 4096,
        without: without.to_vec(),
        meter: true,
        waits: true,
        ..Options::default()
    };
    Collector::attach(&options).map_err(|error| BenchError::Gate(error.to_string()))
}

fn read(args: &ProgramArgs, target: &std::path::Path) -> Result<Reader, BenchError> {
    let mut command = Command::new(&args.fio);
    command.args(["--name=a", "--rw=randread", "--bs=4k", "--direct=1", "--time_based"]);
    command.args(["--runtime=3600", "--thread=1", "--ioengine=io_uring", "--norandommap=1"]);
    command.arg(format!("--iodepth={}", args.depth)).arg(format!("--size={}m", args.size_mib));
    command.arg(format!("--filename={}", target.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let program = args.fio.display().to_string();
    command.spawn().map(Reader).map_err(|error| BenchError::NotRun { program, error })
}

/// Attaches the programs, counts for one window, and detaches them.
fn window(args: &ProgramArgs, reader: u32, without: &[Part]) -> Result<Window, BenchError> {
    let mut collector = attach(without)?;
    collector.follow(reader).map_err(BenchError::Gate)?;
    collector.begin().map_err(BenchError::Gate)?;
    sleep(Duration::from_millis(args.window_ms / 4));
    let before = collector.runs().map_err(BenchError::Gate)?;
    sleep(Duration::from_millis(args.window_ms));
    let after = collector.runs().map_err(BenchError::Gate)?;
    Window::new(&before, &after)
        .ok_or_else(|| BenchError::Gate("no request was seen: is the device idle?".into()))
}

impl Window {
    fn new(before: &[Runs], after: &[Runs]) -> Option<Window> {
        let more = |program: &str| {
            let find = |all: &[Runs]| {
                let found = all.iter().find(|runs| runs.program == program)?;
                Some((found.runs, found.ns))
            };
            let ((runs, ns), (before_runs, before_ns)) = (find(after)?, find(before)?);
            Some(((runs - before_runs) as f64, (ns - before_ns) as f64))
        };
        let (meter_runs, meter_total) = more(METER)?;
        let (requests, _) = more(PER_REQUEST)?;
        if requests == 0.0 || meter_runs == 0.0 {
            return None;
        }
        let meter_ns = meter_total / meter_runs;
        let each = SHOWN.iter().filter_map(|program| {
            let (runs, ns) = more(program)?;
            Some(((*program).to_owned(), ((ns - runs * meter_ns) / requests, runs / requests)))
        });
        Some(Window { each: each.collect(), meter_ns })
    }

    /// Sum over all programs except those that run for all processes.
    fn of_requests(&self) -> f64 {
        let own = self.each.iter().filter(|(program, _)| !FOR_ALL.contains(&program.as_str()));
        own.map(|(_, (ns, _))| ns).sum()
    }
}

fn middle(windows: &[Window], of: impl Fn(&Window) -> Option<f64>) -> f64 {
    median(&windows.iter().filter_map(of).collect::<Vec<_>>()).unwrap_or(0.0)
}

/// Medians over the windows.
fn tables(variants: &[(&str, Vec<Part>)], windows: &[Vec<Window>]) -> String {
    let Some(all) = windows.first() else { return String::new() };
    let mut text = format!(
        "{} windows; {:.0} ns per run are the kernel's own count, and taken off\n\n\
         | program | ns per request | runs per request | ns per run |\n\
         | --- | --- | --- | --- |\n",
        all.len(),
        middle(all, |window| Some(window.meter_ns)),
    );
    for program in SHOWN {
        let ns = middle(all, |window| Some(window.each.get(program)?.0));
        let runs = middle(all, |window| Some(window.each.get(program)?.1));
        let each = if runs > 0.0 { ns / runs } else { 0.0 };
        text += &format!("| {program} | {ns:.0} | {runs:.2} | {each:.0} |\n");
    }
    let whole = middle(all, |window| Some(window.of_requests()));
    text += &format!("| all but system calls and switches | {whole:.0} | | |\n");
    for ((name, _), of) in variants.iter().zip(windows).skip(1) {
        // Differences are taken within a round, so that a slow period affects both sides.
        let pairs = all.iter().zip(of);
        let less: Vec<f64> =
            pairs.map(|(all, without)| all.of_requests() - without.of_requests()).collect();
        let less = median(&less).unwrap_or(0.0);
        text += &format!("| of it, {name} | {less:.0} | | |\n");
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn runs(each: &[(&str, u64, u64)]) -> Vec<Runs> {
        let one = |(program, runs, ns): &(&str, u64, u64)| Runs {
            program: (*program).to_owned(),
            runs: *runs,
            ns: *ns,
        };
        each.iter().map(one).collect()
    }

    #[test]
    fn what_the_count_costs_is_taken_off_each_run() {
        let before = runs(&[("meter", 10, 500), ("rq_complete", 10, 4000), ("io_start", 5, 9)]);
        let after =
            runs(&[("meter", 110, 5500), ("rq_complete", 110, 24_000), ("io_start", 205, 30_009)]);
        let window = Window::new(&before, &after).unwrap();
        assert!((window.meter_ns - 50.0).abs() < 1e-9);
        assert_eq!(window.each["rq_complete"], (150.0, 1.0));
        assert_eq!(window.each["io_start"], (200.0, 2.0));
        assert!((window.of_requests() - 350.0).abs() < 1e-9);
        assert!(Window::new(&before, &before).is_none(), "nothing ran");
        let text = tables(&[("all", vec![])], &[vec![window]]);
        assert!(text.contains("| io_start | 200 | 2.00 | 100 |"), "{text}");
    }
}
