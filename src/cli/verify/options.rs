//! Options that the modes share.

use std::path::PathBuf;

use clap::Args;

use crate::cli::consent::ConsentArgs;
use crate::cli::exit::{Failure, wrong};
use crate::cli::hosts::{Command, HostsArgs};
use crate::cli::output::OutputFormat;
use crate::cli::place;
use crate::cli::share::Share;
use crate::cli::words::{size, time, unfit};
use iosonde_engine::backend::fault::Injection;
use iosonde_model::plan::{EngineKind, VerifyMode};

/// What is verified, and how.
#[derive(Args, Debug)]
pub(super) struct ProveArgs {
    /// File, block device, directory (an unnamed file of --size is created in it and removed
    /// afterwards), socket of a vhost-user-blk server; for the simulated engine, the device spec
    #[arg(value_name = "PATH", conflicts_with = "path")]
    positional: Option<PathBuf>,
    /// The same as an option
    #[arg(long, visible_alias = "filename", value_name = "PATH")]
    path: Option<PathBuf>,
    #[command(flatten)]
    pub(super) region: RegionArgs,
    #[command(flatten)]
    pub(super) ops: OpArgs,
    #[command(flatten)]
    pub(super) engine: EngineArgs,
    #[command(flatten)]
    pub(super) consent: ConsentArgs,
    #[command(flatten)]
    pub(super) result: ResultArgs,
    #[command(flatten)]
    hosts: HostsArgs,
}

impl ProveArgs {
    /// Command to run on several hosts.
    pub(super) fn on_hosts(&self) -> Command<'_> {
        Command {
            results: self.result.results.as_deref(),
            ..Command::new("verify", &self.hosts, self.result.output_format)
        }
    }
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Region")]
pub(super) struct RegionArgs {
    /// Length of the region, which is divided among the jobs [default: the whole target]
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// First byte of the region
    #[arg(long, value_name = "SIZE", default_value = "0")]
    offset: String,
    /// Use only this part of the region, of so many equal parts, such as 2/4
    #[arg(long, value_name = "PART/PARTS")]
    share: Option<String>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Operations")]
pub(super) struct OpArgs {
    /// Length of a block, which carries its own identity; a power of two from 512 to 1m
    #[arg(long, value_name = "SIZE", default_value = "4k")]
    bs: String,
    /// Minimum and maximum length of an operation, in blocks of --bs [default: 1:16, pipeline 1:1]
    #[arg(long, value_name = "MIN:MAX")]
    verify_sectors: Option<String>,
    /// Jobs: one thread and queue each, with its own part of the region
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) numjobs: u32,
    /// All jobs write the same region concurrently (soak, write): the set of valid contents of each
    /// block is known, and no other passes. The jobs meet at a barrier after every --iodepth
    /// operations; there are no trims
    #[arg(long)]
    pub(super) overlap: bool,
    /// Maximum time of writing, followed by reading everything back [default: flush until all is
    /// written, pipeline and write 10, soak 60, powercut until stopped]
    #[arg(long, value_name = "TIME")]
    runtime: Option<String>,
    /// Maximum bytes to write
    #[arg(long, value_name = "SIZE")]
    io_size: Option<String>,
    /// Maximum operations per job
    #[arg(long, value_name = "N")]
    ops: Option<u64>,
    /// Run only this job, to reproduce a failure
    #[arg(long, value_name = "JOB")]
    only_job: Option<u32>,
    /// Write the whole region this many times in order, with a flush in between [default: 1
    /// for flush; write uses random offsets without it]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    loops: Option<u32>,
    /// Share of reads, percent (soak) [default: 40]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=99))]
    read_percent: Option<u8>,
    /// Share of trims, percent (soak, write, powercut) [default: soak 5 if the target and the
    /// engine can trim, else 0]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=99))]
    pub(super) trim_percent: Option<u8>,
    /// A flush after every N operations of a job (soak, write, powercut) [default: soak and
    /// write 1000, powercut 32]
    #[arg(long, value_name = "N")]
    flush_every: Option<u64>,
    /// Pause between the last flush and reading back
    #[arg(long, value_name = "TIME", default_value = "0")]
    verify_delay: String,
    /// Inject faults, such as drop, tear=3:nth=5 or misdirect:every=100; without a value, one byte
    /// per job. `iosonde verify selftest` lists the faults
    #[arg(long, value_name = "FAULT", num_args = 0..=1, default_missing_value = "byte")]
    verify_inject_fault: Option<Injection>,
    /// Seed of all operations, for exact reproduction
    #[arg(long, visible_alias = "seed", value_name = "N")]
    pub(super) randseed: Option<u64>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Engine")]
pub(super) struct EngineArgs {
    /// Requests in flight per job [default: 16; 1 with a synchronous engine]
    #[arg(long, value_name = "N")]
    pub(super) iodepth: Option<u32>,
    /// 1: direct I/O, or fail; 0: buffered I/O [default: direct if possible]
    #[arg(long, value_name = "0|1", value_parser = ["0", "1"])]
    pub(super) direct: Option<String>,
    #[arg(
        long,
        visible_alias = "driver",
        value_name = "NAME",
        help = place::engine_help(EngineKind::all().filter(|kind| *kind != EngineKind::Null))
    )]
    pub(super) ioengine: Option<String>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Run and result")]
pub(super) struct ResultArgs {
    /// Print what would be done, and do nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Format of the result on stdout
    #[arg(long, value_parser = OutputFormat::text_or_json(), default_value = "normal")]
    pub(super) output_format: OutputFormat,
    /// Time between progress lines; 0 for none
    #[arg(long, value_name = "TIME", default_value = "2")]
    eta_interval: String,
    /// Directory under which the results are stored [default: the user's state directory]
    #[arg(long, value_name = "DIR")]
    pub(super) results: Option<PathBuf>,
}

/// Hides the options for writing from the help of `check`: its ledger or witness log sets them.
pub(super) fn of_check(check: clap::Command) -> clap::Command {
    let others = RegionArgs::augment_args(clap::Command::default());
    let others = ConsentArgs::augment_args(OpArgs::augment_args(others));
    let is_for_others =
        |arg: &clap::Arg| others.get_arguments().any(|o| o.get_id() == arg.get_id());
    check.mut_args(|arg| match is_for_others(&arg) {
        true => arg.hide(true).conflicts_with_all(["ledger", "witness_log"]),
        false => arg,
    })
}

/// Requested operations, with the defaults of the mode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) block_bytes: u64,
    pub(super) blocks: (u32, u32),
    pub(super) length_ns: u64,
    pub(super) written_bytes: u64,
    pub(super) ops: u64,
    pub(super) only_job: Option<u32>,
    pub(super) passes: u32,
    pub(super) read_percent: u8,
    /// `None` if the target decides.
    pub(super) trim_percent: Option<u8>,
    pub(super) flush_every: u64,
    pub(super) delay_ns: u64,
    pub(super) fault: Option<Injection>,
}

impl ProveArgs {
    /// Path of the target.
    pub(super) fn path(&self) -> Result<PathBuf, Failure> {
        let path = self.positional.as_ref().or(self.path.as_ref());
        path.cloned().ok_or_else(|| wrong("PATH is missing: give a file, device or directory"))
    }

    /// First byte of the region, and its length if given.
    pub(super) fn region(&self) -> Result<(u64, Option<u64>), Failure> {
        let offset = size("--offset", &self.region.offset)?;
        let length = self.region.size.as_deref().map(|text| size("--size", text)).transpose()?;
        match length {
            Some(0) => Err(wrong("--size: found 0, expected at least one block")),
            length => Ok((offset, length)),
        }
    }

    /// First byte and end of the part of the region that is used.
    pub(super) fn share_of(&self, region: (u64, u64)) -> Result<(u64, u64), Failure> {
        Share::parse(self.region.share.as_deref())?.of(region, size("--bs", &self.ops.bs)?)
    }

    pub(super) fn eta_interval_ns(&self) -> Result<u64, Failure> {
        time("--eta-interval", &self.result.eta_interval)
    }

    /// Requested operations; options without effect in this mode are refused.
    pub(super) fn requested(&self, mode: VerifyMode) -> Result<Request, Failure> {
        let args = &self.ops;
        self.refuse_ineffective(mode)?;
        let random = matches!(mode, VerifyMode::Soak | VerifyMode::Write | VerifyMode::PowerCut)
            && args.loops.is_none();
        let length_ns = match (&args.runtime, mode) {
            (Some(text), _) => match time("--runtime", text)? {
                0 => {
                    return Err(wrong("--runtime: found 0, expected a time above 0"));
                }
                ns => ns,
            },
            (None, VerifyMode::Soak) if !self.has_other_end() => 60_000_000_000,
            (None, VerifyMode::Pipeline | VerifyMode::Write) if !self.has_other_end() => {
                10_000_000_000
            }
            (None, _) => u64::MAX,
        };
        let written = args.io_size.as_deref().map(|text| size("--io-size", text)).transpose()?;
        Ok(Request {
            block_bytes: size("--bs", &args.bs)?,
            blocks: blocks(args.verify_sectors.as_deref(), mode)?,
            length_ns,
            written_bytes: written.unwrap_or(u64::MAX),
            ops: args.ops.unwrap_or(u64::MAX),
            only_job: args.only_job,
            passes: match (args.loops, mode) {
                (Some(passes), _) => passes,
                (None, VerifyMode::Flush) => 1,
                (None, _) => 0,
            },
            read_percent: match mode {
                VerifyMode::Soak => args.read_percent.unwrap_or(40),
                _ => 0,
            },
            trim_percent: match mode {
                VerifyMode::Soak => args.trim_percent,
                _ => Some(args.trim_percent.unwrap_or(0)),
            },
            flush_every: match (args.flush_every, mode) {
                (Some(every), _) => every,
                (None, VerifyMode::PowerCut) => 32,
                (None, _) if random => 1000,
                (None, _) => 0,
            },
            delay_ns: time("--verify-delay", &args.verify_delay)?,
            fault: args.verify_inject_fault,
        })
    }

    /// Whether anything but time ends the writing.
    fn has_other_end(&self) -> bool {
        self.ops.io_size.is_some() || self.ops.ops.is_some() || self.ops.loops.is_some()
    }

    fn refuse_ineffective(&self, mode: VerifyMode) -> Result<(), Failure> {
        use VerifyMode::{Flush, Pipeline, PowerCut, Soak, Write};
        let args = &self.ops;
        let in_order = args.loops.is_some();
        let given: [(&str, bool, &[VerifyMode]); 6] = [
            ("--overlap", args.overlap, &[Soak, Write]),
            ("--loops", in_order, &[Flush, Write]),
            ("--read-percent", args.read_percent.is_some(), &[Soak]),
            ("--trim-percent", args.trim_percent.is_some() && !in_order, &[Soak, Write, PowerCut]),
            ("--flush-every", args.flush_every.is_some(), &[Flush, Soak, Write, PowerCut]),
            ("--verify-delay", args.verify_delay != "0", &[Flush, Pipeline, Soak]),
        ];
        for (option, is_given, modes) in given {
            if is_given && !modes.contains(&mode) {
                let modes: Vec<&str> = modes.iter().map(|mode| mode.word()).collect();
                return Err(wrong(format!(
                    "{option} has no effect with `{}`; it is for {}",
                    mode.word(),
                    modes.join(", ")
                )));
            }
        }
        if in_order && args.trim_percent.is_some() {
            return Err(wrong("--trim-percent has no effect with --loops, which only writes"));
        }
        Ok(())
    }
}

/// Parses `MIN:MAX`, or one number for both.
fn blocks(text: Option<&str>, mode: VerifyMode) -> Result<(u32, u32), Failure> {
    let Some(text) = text else {
        return Ok(if mode == VerifyMode::Pipeline { (1, 1) } else { (1, 16) });
    };
    let (min, max) = text.split_once(':').unwrap_or((text, text));
    match (min.trim().parse(), max.trim().parse()) {
        (Ok(min), Ok(max)) => Ok((min, max)),
        _ => Err(unfit("--verify-sectors", text, "MIN:MAX, such as 1:16")),
    }
}
