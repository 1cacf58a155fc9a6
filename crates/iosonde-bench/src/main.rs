//! `iosonde-bench`: compares the speed of iosonde with other tools on this machine.
//!
//! It begins with a control: iosonde against itself. Then each case runs in rounds, all tools one
//! after another on one CPU, in reversed order every other round, so that a slow period affects all
//! of them. Results are ratios within a round. If the control deviates, or other processes use the
//! CPU, it prints the numbers without a verdict.
#![forbid(unsafe_code)]

mod campaign;
mod case;
mod cost;
mod hosts;
mod instructions;
mod live;
mod machine;
mod measure;
mod numbers;
mod parse;
mod passes;
mod programs;
mod rendering;
mod rounds;
mod server;
mod summary;
mod target;
mod tool;
mod verify;
mod watched;
mod watched_table;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// Why the bench could not measure.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// A required program did not start.
    #[error("{program} cannot be run: {error}")]
    NotRun { program: String, error: std::io::Error },
    /// A required program failed.
    #[error("{program} failed ({status}): {said}")]
    Failed {
        program: String,
        status: String,
        /// The end of its standard error.
        said: String,
    },
    /// A program's output lacks an expected item.
    #[error("the output of {program} has no {what}")]
    Output {
        program: String,
        /// The missing item.
        what: String,
    },
    /// A file or directory of the bench itself.
    #[error("{what}: {error}")]
    File {
        /// The action that failed.
        what: String,
        error: std::io::Error,
    },
    /// A count exceeds its limit, or a measurement is impossible.
    #[error("{0}")]
    Gate(String),
}

/// For `map_err`: prefixes an I/O error with the action that failed.
pub(crate) fn doing(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> BenchError {
    let what = what.into();
    move |error| BenchError::File { what, error }
}

#[derive(Parser)]
#[command(about, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Subcommand)]
enum Verb {
    /// Count instructions per operation on the null engine, by callgrind
    Instructions(InstructionArgs),
    /// Time to render experiments of 200 and of 1,000 runs
    Rendering(rendering::RenderingArgs),
    /// Time of the kernel programs of `profile` per request, by the kernel's own count
    Programs(programs::ProgramArgs),
    /// What the live view costs a run: with it and without it in turn
    Live(live::LiveArgs),
    /// Time of a campaign outside I/O, its space per point, and what its status costs
    Campaign(campaign::CampaignArgs),
    /// What a coordinator of many hosts costs, for 10 to 1,000 pretended agents
    Hosts(hosts::HostsArgs),
    /// Go through the protocol of an agent and measure nothing
    #[command(hide = true)]
    Pretend(hosts::PretendArgs),
    /// Run a program and report the CPU time of the machine: the command given to a profiler
    #[command(hide = true)]
    Within(WithinArgs),
}

/// What to measure, and where.
#[derive(Args)]
pub(crate) struct RunArgs {
    /// The iosonde to measure
    #[arg(long, env = "IOSONDE", default_value = "target/release/iosonde")]
    pub(crate) iosonde: PathBuf,
    /// Directory for the files to read, on a real file system
    #[arg(long, default_value = "target/bench")]
    pub(crate) dir: PathBuf,
    /// Rounds per case; five at least for a verdict
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Seconds per run
    #[arg(long, default_value_t = 1.5)]
    pub(crate) seconds: f64,
    /// CPU to pin each tool to [default: the last one allowed]
    #[arg(long)]
    pub(crate) cpu: Option<usize>,
    /// Only these cases
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<case::CaseName>,
    /// Store the raw rounds and the summary under benches/runs/DATE-LABEL
    #[arg(long, value_name = "LABEL")]
    pub(crate) save: Option<String>,
    /// Where --save makes its directory
    #[arg(long, default_value = "benches/runs")]
    pub(crate) save_dir: PathBuf,
    /// Debian's fio
    #[arg(long, env = "FIO", default_value = "fio")]
    pub(crate) fio: PathBuf,
    /// A newer fio
    #[arg(long, env = "FIO_NEW")]
    pub(crate) fio_new: Option<PathBuf>,
    /// fio's own t/io_uring, built from its source
    #[arg(long, env = "T_IO_URING")]
    pub(crate) t_io_uring: Option<PathBuf>,
    /// elbencho
    #[arg(long, env = "ELBENCHO")]
    pub(crate) elbencho: Option<PathBuf>,
    /// AuraIO's BFFIO
    #[arg(long, env = "BFFIO")]
    pub(crate) bffio: Option<PathBuf>,
    /// ioping
    #[arg(long, env = "IOPING", default_value = "ioping")]
    pub(crate) ioping: PathBuf,
    /// The bare loop on the vhost-user crate
    #[arg(long, env = "BARE_VHOST", default_value = "target/release/examples/bare")]
    pub(crate) bare_vhost: PathBuf,
    /// The vhost-user server
    #[arg(long, env = "QEMU_STORAGE_DAEMON", default_value = "qemu-storage-daemon")]
    pub(crate) vhost_server: PathBuf,
    /// bpftrace
    #[arg(long, env = "BPFTRACE", default_value = "bpftrace")]
    pub(crate) bpftrace: PathBuf,
    /// What bpftrace runs
    #[arg(long, default_value = "benches/profile.bt")]
    pub(crate) bpftrace_script: PathBuf,
}

/// What to run.
#[derive(Args)]
pub(crate) struct WithinArgs {
    /// The program and its arguments
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<String>,
}

/// How to count, and against what.
#[derive(Args)]
pub(crate) struct InstructionArgs {
    /// The iosonde to count in
    #[arg(long, env = "IOSONDE", default_value = "target/release/iosonde")]
    pub(crate) iosonde: PathBuf,
    /// Operations of the smaller run
    #[arg(long, default_value_t = 200_000)]
    pub(crate) small: u64,
    /// Operations of the larger run
    #[arg(long, default_value_t = 1_200_000)]
    pub(crate) large: u64,
    /// Fail where the count is more than 5 % above the one in this file
    #[arg(long, value_name = "FILE", conflicts_with = "write")]
    pub(crate) gate: Option<PathBuf>,
    /// Count the other loads too
    #[arg(long)]
    pub(crate) table: bool,
    /// Write the counts of all loads to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = std::io::stdout();
    let done = match cli.verb {
        Some(Verb::Instructions(args)) => instructions::count(&args, &mut out),
        Some(Verb::Rendering(args)) => rendering::rendering(&args, &mut out),
        Some(Verb::Programs(args)) => programs::programs(&args, &mut out),
        Some(Verb::Live(args)) => live::live(&args, &mut out),
        Some(Verb::Campaign(args)) => campaign::campaign(&args, &mut out),
        Some(Verb::Hosts(args)) => hosts::hosts(&args, &mut out),
        Some(Verb::Pretend(args)) => hosts::pretend(&args, &mut out),
        Some(Verb::Within(args)) => watched::within(&args, &mut out),
        None => rounds::run(&cli.run, &mut out),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "iosonde-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
