//! The protocol: a control, then rounds of all tools in alternating order.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::case::{CaseName, TargetName};
use crate::machine::{self, Foreign, Others};
use crate::measure::pinned;
use crate::numbers::median;
use crate::parse;
use crate::server::Server;
use crate::summary::{self, Story};
use crate::target::Targets;
use crate::tool::{Kind, found};
use crate::{BenchError, RunArgs, doing};

/// One run of one tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Sample {
    /// The case, or `control`.
    pub(crate) case: String,
    /// The tool in its setting.
    pub(crate) tool: &'static str,
    /// From 0; a tool's place in the round alternates.
    pub(crate) round: u32,
    /// Operations per second, as reported.
    pub(crate) iops: f64,
    /// CPU time of the whole process per operation, start and end included.
    pub(crate) cpu_ns_per_op: f64,
    /// Mean latency from before submission, where the tool has one.
    pub(crate) mean_ns: Option<f64>,
    /// Median of it.
    pub(crate) p50_ns: Option<f64>,
    /// 99th percentile of it.
    pub(crate) p99_ns: Option<f64>,
    /// Floor of a bare loop of calls in the same round, for depth 1.
    pub(crate) floor_ns: Option<f64>,
}

/// The samples of one case, its absent tools, and the foreign CPU use meanwhile.
#[derive(Debug, Default)]
pub(crate) struct CaseStory {
    /// All runs in the order of their being run.
    pub(crate) samples: Vec<Sample>,
    /// Tool and reason.
    pub(crate) skipped: Vec<(&'static str, String)>,
    /// What others used.
    pub(crate) foreign: Foreign,
}

/// The control: how far the same command deviates from itself.
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// Both halves.
    pub(crate) samples: Vec<Sample>,
    /// Deviation of the medians, as a share; `None` without iosonde.
    pub(crate) deviation: Option<f64>,
    /// What others used.
    pub(crate) foreign: Foreign,
}

struct Bench<'a> {
    args: &'a RunArgs,
    cpu: usize,
    state: PathBuf,
    targets: Targets,
}

/// Runs the protocol and prints, and with `--save` keeps, what came of it.
pub(crate) fn run(args: &RunArgs, out: &mut impl Write) -> Result<(), BenchError> {
    let dir = fs::canonicalize(&args.dir).or_else(|_| std::path::absolute(&args.dir));
    let dir = dir.map_err(doing("cannot find --dir"))?;
    let targets = Targets::below(&dir)?;
    let bench = Bench {
        args,
        cpu: args.cpu.unwrap_or_else(machine::last_cpu),
        state: dir.join("state"),
        targets,
    };
    let said = |error| BenchError::File { what: "cannot write the results".to_owned(), error };
    Kind::IosondeUring.program(args).map_err(BenchError::Gate)?;
    let control = bench.control()?;
    let mut story = Story::new(control, args, bench.cpu, machine::facts(&dir));
    write!(out, "{}", summary::control_text(&story)).map_err(said)?;
    let mut failed = Vec::new();
    for case in CaseName::ALL {
        if args.only.is_empty() || args.only.contains(&case) {
            if case.target() == TargetName::Served && !found(&args.vhost_server) {
                let name = args.vhost_server.display();
                writeln!(out, "\nskipped: {}: {name} is not there", case.title()).map_err(said)?;
                continue;
            }
            let told = bench.case(case)?;
            write!(out, "{}", summary::case_text(case, &told, &story)).map_err(said)?;
            out.flush().map_err(said)?;
            let ours = case.contenders()[0].title();
            if !told.samples.iter().any(|sample| sample.tool == ours) {
                failed.push(format!("{case:?}").to_lowercase());
            }
            story.cases.push((case, told));
        }
    }
    let _ = fs::remove_dir_all(&bench.state);
    if let Some(label) = &args.save {
        let kept = summary::save(&args.save_dir, label, &mut story, &dir)?;
        writeln!(out, "\nkept in {}", kept.display()).map_err(said)?;
    }
    if !failed.is_empty() {
        let cases = failed.join(", ");
        return Err(BenchError::Gate(format!("iosonde has no result in: {cases}; see above")));
    }
    Ok(())
}

impl Bench<'_> {
    /// The same command twice in each round, for the first case.
    fn control(&self) -> Result<Control, BenchError> {
        let others = Others::watch();
        let (file, bytes) = self.targets.get(CaseName::Qd128.target())?;
        let program = self.args.iosonde.clone();
        let (mut halves, mut samples) = ([Vec::new(), Vec::new()], Vec::new());
        for round in 0..self.args.rounds {
            for place in 0..2 {
                let half = (place + round as usize) % 2;
                let kind = Kind::IosondeUring;
                let mut sample = self.sample(CaseName::Qd128, kind, &program, &file, bytes)?;
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

    fn case(&self, case: CaseName) -> Result<CaseStory, BenchError> {
        let (file, bytes) = self.targets.get(case.target())?;
        let _server = match case.target() {
            TargetName::Served => Some(Server::start(&self.args.vhost_server, &file, self.cpu)?),
            TargetName::Unwritten | TargetName::Written => None,
        };
        let others = Others::watch();
        let mut story = CaseStory::default();
        let mut field = Vec::new();
        for &kind in case.contenders() {
            match kind.program(self.args) {
                Ok(program) => field.push((kind, program)),
                Err(reason) => story.skipped.push((kind.title(), reason)),
            }
        }
        for round in 0..self.args.rounds {
            let mut order: Vec<usize> = (0..field.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for i in order {
                let (kind, program) = &field[i];
                if story.skipped.iter().any(|(tool, _)| *tool == kind.title()) {
                    continue;
                }
                match self.sample(case, *kind, program, &file, bytes) {
                    Ok(sample) => story.samples.push(Sample { round, ..sample }),
                    // One failure and a tool is out of this case: its other rounds prove nothing.
                    Err(error) => {
                        story.samples.retain(|sample| sample.tool != kind.title());
                        story.skipped.push((kind.title(), error.to_string()));
                    }
                }
            }
        }
        story.foreign = others.used();
        Ok(story)
    }

    fn sample(
        &self,
        case: CaseName,
        kind: Kind,
        program: &Path,
        file: &Path,
        bytes: u64,
    ) -> Result<Sample, BenchError> {
        let seconds = self.args.seconds;
        let arguments = kind.arguments(&file.to_string_lossy(), bytes, case.depth(), seconds);
        let ran = pinned(self.cpu, program, &arguments, &self.state)?;
        let reported = kind.reported(&ran).filter(|reported| reported.iops > 0.0);
        let reported = reported.ok_or_else(|| BenchError::Output {
            program: kind.title().to_owned(),
            what: "rate".to_owned(),
        })?;
        // A tool that counts no operations runs at its rate for all its time.
        let ops = reported.ops.unwrap_or(reported.iops * ran.wall.as_secs_f64());
        let floor_ns = if kind == Kind::IosondePsync { self.floor_ns()? } else { None };
        Ok(Sample {
            case: format!("{case:?}").to_lowercase(),
            tool: kind.title(),
            round: 0,
            iops: reported.iops,
            cpu_ns_per_op: ran.cpu.as_nanos() as f64 / ops,
            mean_ns: reported.mean_ns,
            p50_ns: reported.p50_ns,
            p99_ns: reported.p99_ns,
            floor_ns,
        })
    }

    /// The calibrated floor by iosonde's own account; `None` where it has none.
    fn floor_ns(&self) -> Result<Option<f64>, BenchError> {
        let arguments = ["doctor", "--output-format", "json"].map(str::to_owned);
        let ran = pinned(self.cpu, &self.args.iosonde, &arguments, &self.state)?;
        Ok(parse::iosonde_floor_ns(&ran.said))
    }
}
