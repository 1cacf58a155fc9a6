//! Options for the data written and its durability.

use clap::Args;

use super::words::not_one_of;
use super::{Switch, switched};
use crate::cli::exit::{Failure, wrong};
use iosonde_model::spec::{Data, EachWrite, Role, Sync, SyncCall};

#[derive(Args, Debug)]
#[command(next_help_heading = "Durability and data")]
pub(super) struct DataArgs {
    /// One fsync after every N writes
    #[arg(long, value_name = "N", conflicts_with = "fdatasync")]
    fsync: Option<u64>,
    /// One fdatasync after every N writes
    #[arg(long, value_name = "N")]
    fdatasync: Option<u64>,
    /// N: one fdatasync after every N writes; dsync or sync: synchronous writes (O_DSYNC, O_SYNC:
    /// what fio's sync=1 means); none or 0: neither
    #[arg(long, value_name = "N|dsync|sync|none")]
    sync: Option<String>,
    /// A flush waits for the writes before it, and the writes after it wait for the flush
    #[arg(long, num_args = 0..=1, default_missing_value = "1", value_name = "0|1")]
    group_commit: Option<Switch>,
    /// Compressible share of every 4 KiB written
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    buffer_compress_percentage: Option<u8>,
    /// Share of 4 KiB blocks written that repeat an earlier one
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    dedupe_percentage: Option<u8>,
    /// Write only zeros
    #[arg(long, num_args = 0..=1, default_missing_value = "1", value_name = "0|1")]
    zero_buffers: Option<Switch>,
    /// 0: the same data in every write; 1: new data [default: 1]
    #[arg(long, num_args = 0..=1, default_missing_value = "1", value_name = "0|1")]
    refill_buffers: Option<Switch>,
}

impl DataArgs {
    /// Adds data and syncs to the role.
    pub(super) fn onto(&self, role: Role) -> Result<Role, Failure> {
        if switched(self.zero_buffers) && self.refill_buffers.is_some() {
            return Err(wrong("--refill-buffers has no effect with --zero-buffers"));
        }
        let data = Data {
            compress_percent: self.buffer_compress_percentage.unwrap_or(0),
            dedupe_percent: self.dedupe_percentage.unwrap_or(0),
            zeros: switched(self.zero_buffers),
            constant: self.refill_buffers == Some(Switch::Off),
            ..Data::default()
        };
        Ok(Role { data, sync: self.sync()?, ..role })
    }

    fn sync(&self) -> Result<Sync, Failure> {
        let (mut number, mut each_write) = (None, EachWrite::Accepted);
        match self.sync.as_deref().map(|word| (word, word.parse::<u64>())) {
            None | Some(("none", _)) => {}
            Some(("dsync", _)) => each_write = EachWrite::Dsync,
            Some(("sync", _)) => each_write = EachWrite::Sync,
            Some((_, Ok(every))) => number = Some(every),
            Some((word, Err(_))) => {
                let names = ["a number of writes", "dsync", "sync", "none"];
                return Err(not_one_of("--sync", word, &names));
            }
        }
        let requested = [
            (self.fsync, SyncCall::Fsync),
            (self.fdatasync, SyncCall::Fdatasync),
            (number, SyncCall::Fdatasync),
        ];
        let mut counts =
            requested.iter().filter_map(|(every, call)| every.map(|every| (every, *call)));
        let (every_writes, call) = counts.next().unwrap_or_default();
        if counts.next().is_some() {
            let message = "--sync N and --fsync or --fdatasync both say when to flush; \
                           give one of them";
            return Err(wrong(message));
        }
        let barrier = switched(self.group_commit);
        Ok(Sync { every_writes, call, barrier, each_write, ..Sync::default() })
    }
}
