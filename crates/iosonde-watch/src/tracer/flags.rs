//! Latency by the flags of requests.

use iosonde_bpf::Collector;
use iosonde_bpf::layout::{FLAGS, SYNC};

use super::tally::{Rest, Tally};
use super::{class, op};
use iosonde_model::record::profile::{Class, Flag, FlagRun, Op};

/// Reads and writes of the program and of journals, by flag. The kernel counts requests with a
/// flag; the remainder has none.
pub(super) fn flags<'a>(
    collector: &Collector,
    tallies: impl Iterator<Item = &'a Tally> + Clone,
) -> Result<Vec<FlagRun>, String> {
    let mut runs = Vec::new();
    for (wanted, first) in [(Op::Read, 0), (Op::Write, FLAGS)] {
        let is_meant = |tally: &&Tally| {
            tally.key.op < SYNC
                && op(tally.key.op) == wanted
                && (class(tally.key.class).is_of_the_program()
                    || class(tally.key.class) == Class::Journal)
        };
        let mut rest = Rest::of(tallies.clone().filter(is_meant));
        for (flag, place) in Flag::ALL.into_iter().zip(first..).skip(1) {
            let part = rest.take(&collector.flags(place)?);
            runs.push(FlagRun { op: wanted, flag, bytes: part.0, latency: part.1 });
        }
        let (bytes, latency) = rest.left();
        runs.push(FlagRun { op: wanted, flag: Flag::None, bytes, latency });
    }
    runs.retain(|run| run.latency.count() > 0);
    Ok(runs)
}
