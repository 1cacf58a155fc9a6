//! `iosonde campaign`: experiments on many devices, unattended, over days.
//!
//! Each experiment on a device is an `iosonde experiment` process with its own gate before every
//! write: a device that fails or vanishes ends only its own work.

mod begin;
mod configure;
pub(super) mod demo;
mod events;
mod execution;
mod export;
mod file;
mod plan;
mod state;
mod summary;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::exit::{Exit, Failure};
use super::hosts::{Command, HostsArgs};
use super::output::OutputFormat;

/// Qualify one or many devices: experiments on each, unattended, resumable.
///
/// A campaign file names the devices (with the consent for each) and the experiments. Devices run
/// in parallel, each experiment in a process of its own; a failure on one device does not affect
/// the others. Everything is stored in one output directory, from which a campaign is resumed after
/// an interrupt, a kill or a power cut.
///
/// Examples:
///   iosonde campaign configure fleet.toml
///   iosonde campaign check fleet.toml
///   iosonde campaign plan fleet.toml --preset quick
///   iosonde campaign run fleet.toml --output results --set stop.after=8h
///   iosonde campaign run fleet.toml --output results --hosts node[01-08]
///   iosonde campaign status results
///   iosonde campaign resume results
///   iosonde campaign report results --output-format json
///   iosonde campaign export fio fleet.toml --output jobs
///   iosonde campaign demo --output demo
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct CampaignArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make or change a campaign file: a full-screen menu, or --preset and --set
    Configure(configure::ConfigureArgs),
    /// Check a campaign file, its experiments and its devices; nothing is measured
    Check(FileArgs),
    /// Print what would be run: experiments, order, time, bytes
    Plan(FileArgs),
    /// Run a campaign
    Run(RunArgs),
    /// Complete a campaign that was interrupted
    Resume(ResumeArgs),
    /// Print the progress of a campaign
    Status(OutputArgs),
    /// Print the results of a campaign, and write its sign-off
    Report(ReportArgs),
    /// Export the points of a campaign for another program
    Export(ExportArgs),
    /// Unpack a recorded campaign and report on it, without a device
    Demo(DemoArgs),
}

/// A campaign file, and what is changed in it.
#[derive(Args, Debug)]
struct FileArgs {
    /// Campaign file (TOML)
    file: PathBuf,
    /// Preset: `quick` shortens all experiments, `enterprise` and `client` set range and write
    /// cache for them, `none` removes them; `all` (the PTS-style experiments),
    /// `provision-sequential`, `provision-random` and `families` replace them;
    /// `provision-mixed` gives both kinds of provisioning to the devices in turn
    #[arg(long, value_name = "NAME",
          value_parser = clap::builder::PossibleValuesParser::new(file::PRESETS.map(|(n, _)| n)))]
    preset: Option<String>,
    /// A value of the file, by its dotted key (such as device.a.size=1g); may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Format of the result on stdout
    #[arg(long, value_parser = OutputFormat::text_or_json(), default_value = "normal")]
    output_format: OutputFormat,
}

#[derive(Args, Debug)]
struct RunArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Output directory, new or empty [default: that of the file]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    hosts: HostsArgs,
}

#[derive(Args, Debug)]
struct ResumeArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    hosts: HostsArgs,
}

/// The output directory of a campaign.
#[derive(Args, Debug)]
struct OutputArgs {
    /// Output directory of `campaign run`
    output: PathBuf,
    /// Format of the result on stdout
    #[arg(long, value_parser = OutputFormat::text_or_json(), default_value = "normal")]
    output_format: OutputFormat,
}

#[derive(Args, Debug)]
struct ReportArgs {
    #[command(flatten)]
    output: OutputArgs,
    /// Write the sign-off as a page to this file, such as sign-off.html
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct ExportArgs {
    #[command(subcommand)]
    to: ExportTo,
}

/// Where the recorded campaign goes.
#[derive(Args, Debug)]
struct DemoArgs {
    /// Directory for the recorded campaign, new or empty
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
    /// Format of the result on stdout
    #[arg(long, value_parser = OutputFormat::text_or_json(), default_value = "normal")]
    output_format: OutputFormat,
}

#[derive(Debug, Subcommand)]
enum ExportTo {
    /// One fio job file for each point
    Fio(FioArgs),
}

#[derive(Args, Debug)]
struct FioArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Directory for the job files
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
}

impl CampaignArgs {
    /// The command for many hosts, if supported; each has its own devices and campaign file.
    pub(super) fn on_hosts(&self) -> Option<Command<'_>> {
        let (hosts, output_format, output) = match &self.what {
            What::Run(args) => (&args.hosts, args.file.output_format, args.output.as_ref()),
            What::Resume(args) => (&args.hosts, args.output.output_format, None),
            _ => return None,
        };
        let same = output.map(|output| format!("--output={}", output.display()));
        Some(Command {
            same: same.into_iter().collect(),
            together: Some(summary::of_hosts),
            ..Command::new("campaign", hosts, output_format)
        })
    }
}

pub(super) fn campaign(args: &CampaignArgs, words: &[String]) -> Result<Exit, Failure> {
    match &args.what {
        What::Configure(args) => configure::configure(args),
        What::Check(args) => plan::check(args),
        What::Plan(args) => plan::plan(args),
        What::Run(args) => execution::run(args, words),
        What::Resume(args) => execution::resume(&args.output, words),
        What::Status(args) => summary::status(args),
        What::Report(args) => {
            let OutputArgs { output, output_format } = &args.output;
            summary::report(output, *output_format, args.page.as_deref())
        }
        What::Demo(args) => demo::demo(args),
        What::Export(args) => {
            let ExportTo::Fio(args) = &args.to;
            export::fio(args)
        }
    }
}

impl FileArgs {
    /// Reads the campaign with preset and --set applied.
    fn load(&self) -> Result<iosonde_model::spec::campaign::Campaign, Failure> {
        self.output_format.supports("campaign")?;
        file::load(&self.file, self.preset.as_deref(), &self.set)
    }
}
