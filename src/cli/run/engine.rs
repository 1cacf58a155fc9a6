//! Options of the I/O engine.

use std::path::PathBuf;

use clap::Args;

use super::{Switch, switched};
use crate::cli::exit::{Failure, wrong};
use crate::cli::place;
use iosonde_model::plan::{Engine, EngineKind};

#[derive(Args, Debug)]
#[command(next_help_heading = "Engine")]
pub(super) struct EngineArgs {
    /// Requests in flight per job [default: 1; of a built-in workload as in `iosonde check`]
    #[arg(long, value_name = "N")]
    pub(super) iodepth: Option<u32>,
    /// 1: direct I/O, or fail; 0: buffered I/O [default: direct if possible]
    #[arg(long, value_name = "0|1", value_parser = ["0", "1"])]
    pub(super) direct: Option<String>,
    #[arg(
        long,
        visible_alias = "driver",
        value_name = "NAME",
        help = place::engine_help(EngineKind::all())
    )]
    pub(super) ioengine: Option<String>,
    /// A kernel thread submits (io_uring, io_uring_cmd)
    #[arg(
        long,
        visible_alias = "sqthread-poll",
        num_args = 0..=1,
        default_missing_value = "1",
        value_name = "0|1"
    )]
    sqpoll: Option<Switch>,
    /// Poll for completions (io_uring, io_uring_cmd; needs a device with polled queues)
    #[arg(long, num_args = 0..=1, default_missing_value = "1", value_name = "0|1")]
    hipri: Option<Switch>,
    /// Register the target with the ring (io_uring, io_uring_cmd) [default: 1]
    #[arg(long, num_args = 0..=1, default_missing_value = "1", value_name = "0|1")]
    registerfiles: Option<Switch>,
    /// Register the buffers with the ring (io_uring, io_uring_cmd) [default: 1]
    #[arg(long, num_args = 0..=1, default_missing_value = "1", value_name = "0|1")]
    fixedbufs: Option<Switch>,
    /// 0: requests carry vectors of one buffer, READV and WRITEV (io_uring, io_uring_cmd)
    /// [default: 1]
    #[arg(long, num_args = 0..=1, default_missing_value = "1", value_name = "0|1")]
    nonvectored: Option<Switch>,
}

impl EngineArgs {
    /// Engine with its modes.
    pub(super) fn engine(&self, targets: &[PathBuf]) -> Result<Engine, Failure> {
        let Some(word) = self.ioengine.as_deref() else {
            return self.with_modes(place::engine_for(targets));
        };
        let engines: Vec<EngineKind> = EngineKind::all().collect();
        let kind = EngineKind::parse(word, &engines)?;
        self.with_modes(Engine::of(kind))
    }

    /// Refuses options that have no effect with the engine.
    fn with_modes(&self, engine: Engine) -> Result<Engine, Failure> {
        let modes = [
            ("--sqpoll", self.sqpoll),
            ("--hipri", self.hipri),
            ("--registerfiles", self.registerfiles),
            ("--fixedbufs", self.fixedbufs),
            ("--nonvectored", self.nonvectored),
        ];
        for (option, given) in modes {
            if given.is_some() && !engine.kind.is_uring() {
                let word = engine.kind.name();
                return Err(wrong(format!("{option} has no effect with the {word} engine")));
            }
        }
        let without_cache = match engine.kind {
            EngineKind::VhostUser => Some("the server decides whether it uses a page cache"),
            EngineKind::IoUringCmd => Some("NVMe commands bypass the page cache"),
            EngineKind::Sim | EngineKind::Null => Some("nothing is read or written"),
            _ => None,
        };
        if let Some(why) = without_cache.filter(|_| self.direct.is_some()) {
            let word = engine.kind.name();
            return Err(wrong(format!("--direct has no effect with the {word} engine: {why}")));
        }
        let vectored = self.nonvectored == Some(Switch::Off);
        if vectored && self.fixedbufs == Some(Switch::On) {
            let message = "--fixedbufs 1 and --nonvectored 0 contradict each other: vectored \
                requests cannot use registered buffers";
            return Err(wrong(message));
        }
        Ok(Engine {
            sqpoll: switched(self.sqpoll),
            iopoll: switched(self.hipri),
            registered_files: self.registerfiles != Some(Switch::Off),
            fixed_buffers: self.fixedbufs != Some(Switch::Off) && !vectored,
            vectored,
            ..engine
        })
    }
}
