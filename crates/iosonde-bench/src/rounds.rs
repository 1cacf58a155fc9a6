//! The protocol: a control, then rounds of all tools in alternating order.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use iosonde_model::plan::interleave;
use iosonde_stats::ratio::median;
use serde::Serialize;

use crate::case::{CaseName, TargetName};
use crate::machine::{self, Foreign, Others};
use crate::measure::{children_peak_bytes, pinned};
use crate::parse;
use crate::passes::Pass;
use crate::server::Server;
use crate::summary::{self, BenchReport};
use crate::target::Targets;
use crate::tool::{Kind, Load, STARTUP_JOBS, Work, found};
use crate::watched::{self, Programs, Tracefs, Watched};
use crate::{BenchError, RunArgs, doing};

/// One run of one tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Sample {
    /// The case, or `control`.
    pub(crate) case: String,
    /// Title of the tool in its setting.
    pub(crate) tool: &'static str,
    /// Number of the round from 0; the order of tools alternates.
    pub(crate) round: u32,
    /// Operations per second, as reported.
    pub(crate) iops: f64,
    /// CPU time of the whole process per operation, including start and end.
    pub(crate) cpu_ns_per_op: f64,
    /// Its part in user mode, if only the work itself is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user_ns_per_op: Option<f64>,
    /// Mean latency from before submission, if the tool reports one.
    pub(crate) mean_ns: Option<f64>,
    /// Median of it.
    pub(crate) p50_ns: Option<f64>,
    /// 99th percentile of it.
    pub(crate) p99_ns: Option<f64>,
    /// Floor of a bare loop of calls in the same round, for depth 1.
    pub(crate) floor_ns: Option<f64>,
    /// Figures of a start, in the start-up case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start: Option<Start>,
    /// Number of operations, if the tool reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ops: Option<f64>,
    /// Figures of profiling, in the profiling cases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) watched: Option<Watched>,
}

impl Sample {
    /// A sample with a rate only.
    pub(crate) fn bare(tool: &'static str, round: u32, iops: f64) -> Self {
        Self {
            case: String::new(),
            tool,
            round,
            iops,
            cpu_ns_per_op: 0.0,
            user_ns_per_op: None,
            mean_ns: None,
            p50_ns: None,
            p99_ns: None,
            floor_ns: None,
            start: None,
            ops: None,
            watched: None,
        }
    }
}

/// Figures of a program's start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Start {
    /// Seconds from its start to its first I/O.
    pub(crate) first_io_s: f64,
    /// Largest resident memory in addition to I/O buffers, bytes.
    pub(crate) besides_buffers: u64,
}

/// The samples of one case, the tools skipped, and the CPU use of other processes meanwhile.
#[derive(Debug, Default)]
pub(crate) struct CaseResult {
    /// All runs in the order in which they ran.
    pub(crate) samples: Vec<Sample>,
    /// Tool, and reason for skipping it.
    pub(crate) skipped: Vec<(&'static str, String)>,
    pub(crate) foreign: Foreign,
}

/// The control: how far the same command deviates from itself.
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// Runs of both halves.
    pub(crate) samples: Vec<Sample>,
    /// Deviation of the medians, as a share; `None` without iosonde.
    pub(crate) deviation: Option<f64>,
    pub(crate) foreign: Foreign,
}

struct Bench<'a> {
    args: &'a RunArgs,
    cpu: usize,
    state: PathBuf,
    targets: Targets,
    programs: Programs,
}

/// Target files of a case, and the rate that depends on it.
struct Scenario {
    case: CaseName,
    files: Vec<PathBuf>,
    bytes: u64,
    /// Half of the last rate of the first contender.
    half_rate: f64,
}

/// Runs the protocol and prints the results, and with `--save` stores them.
pub(crate) fn run(args: &RunArgs, out: &mut impl Write) -> Result<(), BenchError> {
    let dir = fs::canonicalize(&args.dir).or_else(|_| std::path::absolute(&args.dir));
    let dir = dir.map_err(doing("cannot find --dir"))?;
    let targets = Targets::below(&dir, args.seconds)?;
    let bench = Bench {
        args,
        cpu: args.cpu.unwrap_or_else(machine::last_cpu),
        state: dir.join("state"),
        targets,
        programs: Programs::of(args)?,
    };
    let said = |error| BenchError::File { what: "cannot write the results".to_owned(), error };
    Kind::IosondeUring.program(args).map_err(BenchError::Gate)?;
    let control = bench.control()?;
    let mut result = BenchReport::new(control, args, bench.cpu, machine::facts(&dir));
    write!(out, "{}", summary::control_text(&result)).map_err(said)?;
    let mut failed = Vec::new();
    for case in CaseName::ALL {
        if args.only.is_empty() || args.only.contains(&case) {
            if case.target() == TargetName::Served && !found(&args.vhost_server) {
                let name = args.vhost_server.display();
                writeln!(out, "\nskipped: {}: {name} is not there", case.title()).map_err(said)?;
                continue;
            }
            if case.is_watched() && !machine::is_root() {
                writeln!(out, "\nskipped: {}: needs root", case.title()).map_err(said)?;
                continue;
            }
            let described = bench.case(case)?;
            write!(out, "{}", summary::case_text(case, &described, &result)).map_err(said)?;
            out.flush().map_err(said)?;
            let ours = case.contenders()[0].title();
            if !described.samples.iter().any(|sample| sample.tool == ours) {
                failed.push(format!("{case:?}").to_lowercase());
            }
            result.cases.push((case, described));
        }
    }
    let _ = fs::remove_dir_all(&bench.state);
    if let Some(label) = &args.save {
        let kept = summary::save(&args.save_dir, label, &mut result, &dir)?;
        writeln!(out, "\nstored in {}", kept.display()).map_err(said)?;
    }
    if !failed.is_empty() {
        let cases = failed.join(", ");
        return Err(BenchError::Gate(format!("iosonde has no result in: {cases}; see above")));
    }
    Ok(())
}

impl Bench<'_> {
    /// The same command twice in each round, in the case `Qd128`.
    fn control(&self) -> Result<Control, BenchError> {
        let others = Others::watch();
        let scene = self.scene(CaseName::Qd128)?;
        let program = self.args.iosonde.clone();
        let (mut halves, mut samples) = ([Vec::new(), Vec::new()], Vec::new());
        for round in 0..self.args.rounds {
            for half in interleave::order(2, round) {
                let mut sample = self.sample(&scene, Kind::IosondeUring, &program)?;
                sample.case = "control".to_owned();
                sample.tool = ["iosonde A", "iosonde A again"][half];
                sample.round = round;
                halves[half].push(sample.iops);
                samples.push(sample);
            }
        }
        let deviation = match (median(&halves[0]), median(&halves[1])) {
            (Some(a), Some(b)) if b > 0.0 => Some((a / b - 1.0).abs()),
            _ => None,
        };
        Ok(Control { samples, deviation, foreign: others.used() })
    }

    fn case(&self, case: CaseName) -> Result<CaseResult, BenchError> {
        let mut scene = self.scene(case)?;
        let _server = match case.target() {
            TargetName::Served => {
                Some(Server::start(&self.args.vhost_server, &scene.files[0], self.cpu)?)
            }
            _ => None,
        };
        let _tracefs = case.is_watched().then(Tracefs::there);
        let others = Others::watch();
        let mut result = CaseResult::default();
        let mut field = Vec::new();
        for &kind in case.contenders() {
            match kind.program(self.args) {
                Ok(program) => field.push((kind, program)),
                Err(reason) => result.skipped.push((kind.title(), reason)),
            }
        }
        for round in 0..case.rounds(self.args.rounds) {
            for i in interleave::order(field.len(), round) {
                let (kind, program) = &field[i];
                if result.skipped.iter().any(|(tool, _)| *tool == kind.title()) {
                    continue;
                }
                match self.sample(&scene, *kind, program) {
                    Ok(sample) => {
                        if *kind == case.contenders()[0] {
                            scene.half_rate = sample.iops / 2.0;
                        }
                        result.samples.push(Sample { round, ..sample });
                    }
                    // After one failure a tool leaves the case, with all its rounds.
                    Err(error) => {
                        result.samples.retain(|sample| sample.tool != kind.title());
                        result.skipped.push((kind.title(), error.to_string()));
                    }
                }
            }
        }
        result.foreign = others.used();
        if case.target() == TargetName::Loop {
            result.foreign.cpus = (result.foreign.cpus - others.kernel_workers()).max(0.0);
        }
        Ok(result)
    }

    fn scene(&self, case: CaseName) -> Result<Scenario, BenchError> {
        let (files, bytes) = self.targets.get(case.target())?;
        Ok(Scenario { case, files, bytes: bytes.min(case.most_bytes()), half_rate: 0.0 })
    }

    fn sample(&self, scene: &Scenario, kind: Kind, program: &Path) -> Result<Sample, BenchError> {
        let &Scenario { case, ref files, bytes, half_rate } = scene;
        let (depth, load) = (case.depth(), case.load());
        let seconds = case.seconds(self.args.seconds);
        if let Kind::Memory(pass) = kind {
            return self.pass(case, pass, seconds);
        }
        let work = Work { files, bytes, depth, seconds, load, half_rate, programs: &self.programs };
        let arguments = kind.arguments(&work);
        let cpus = match load {
            Load::TwoJobs => format!("{},{}", usize::from(self.cpu == 0), self.cpu),
            _ => self.cpu.to_string(),
        };
        // Only the record of this run must exist.
        let _ = fs::remove_dir_all(&self.state);
        let called = SystemTime::now();
        let ran = pinned(&cpus, program, &arguments, &self.state, kind.fine_statuses())?;
        let kept = self.record(kind.record());
        let reported = kind.reported(&ran, kept.as_deref()).filter(|reported| reported.iops > 0.0);
        let reported = reported.ok_or_else(|| BenchError::Output {
            program: kind.title().to_owned(),
            what: "rate".to_owned(),
        })?;
        // If a tool reports no operations, its rate and its time give them.
        let ops = reported.ops.unwrap_or(reported.iops * ran.wall.as_secs_f64());
        let cpu_ns = match reported.cpu_ns {
            Some((user, system)) => Some(user + system),
            None if case.is_cost_table() => {
                self.record("01-run.json").and_then(|record| parse::iosonde_cpu_ns(&record))
            }
            None => Some(ran.cpu.as_nanos() as f64),
        };
        let cpu_ns = cpu_ns.ok_or_else(|| BenchError::Output {
            program: kind.title().to_owned(),
            what: "CPU time".to_owned(),
        })?;
        let floor_ns = if kind == Kind::IosondePsync { self.floor_ns()? } else { None };
        let start = if kind == Kind::IosondeStartup { self.start(called, depth) } else { None };
        let mut watched = None;
        if let Kind::Watched(watcher, _) = kind {
            watched = watched::watched(watcher, &ran, called, ops, kept.as_deref());
            if watched.is_none() {
                let what = "account of each request".to_owned();
                return Err(BenchError::Output { program: kind.title().to_owned(), what });
            }
        }
        Ok(Sample {
            case: format!("{case:?}").to_lowercase(),
            cpu_ns_per_op: cpu_ns / ops,
            user_ns_per_op: reported.cpu_ns.map(|(user, _)| user / ops),
            mean_ns: reported.mean_ns,
            p50_ns: reported.p50_ns,
            p99_ns: reported.p99_ns,
            floor_ns,
            start,
            ops: reported.ops,
            watched,
            ..Sample::bare(kind.title(), 0, reported.iops)
        })
    }

    /// A pass over memory, run by this program itself.
    fn pass(
        &self,
        case: CaseName,
        pass: &'static Pass,
        seconds: f64,
    ) -> Result<Sample, BenchError> {
        let came = pass.measure(self.cpu, seconds).ok_or_else(|| BenchError::Output {
            program: pass.title.to_owned(),
            what: "blocks that are found again".to_owned(),
        })?;
        Ok(Sample {
            case: format!("{case:?}").to_lowercase(),
            cpu_ns_per_op: came.cpu_ns_per_unit,
            ..Sample::bare(pass.title, 0, came.units_per_s)
        })
    }

    /// A file of the record that the latest run of iosonde stored.
    fn record(&self, name: &str) -> Option<String> {
        let runs = fs::read_dir(self.state.join("iosonde/runs")).ok()?;
        let run = runs.flatten().next()?.path();
        fs::read_to_string(run.join(name)).ok()
    }

    /// Figures of the run started at `called`, from its record and the system's counters.
    fn start(&self, called: SystemTime, depth: u32) -> Option<Start> {
        let record = self.record("01-run.json")?;
        let started = UNIX_EPOCH + Duration::from_nanos(parse::iosonde_started_unix_ns(&record)?);
        let buffers = u64::from(STARTUP_JOBS) * u64::from(depth) * 4096;
        Some(Start {
            first_io_s: started.duration_since(called).ok()?.as_secs_f64(),
            besides_buffers: children_peak_bytes()?.saturating_sub(buffers),
        })
    }

    /// The calibrated floor as iosonde reports it; `None` if it reports none.
    fn floor_ns(&self) -> Result<Option<f64>, BenchError> {
        let arguments = ["doctor", "--output-format", "json"].map(str::to_owned);
        let cpu = self.cpu.to_string();
        let ran = pinned(&cpu, &self.args.iosonde, &arguments, &self.state, &[0])?;
        Ok(parse::iosonde_floor_ns(&ran.said))
    }
}
