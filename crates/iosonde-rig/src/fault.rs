//! Faults and their triggers: one line of text per fault, `OP:KIND[:WHEN]`.

use std::str::FromStr;

use serde::Serialize;

use crate::quantity::{bytes, duration_ns};

/// Requests that are timed and can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    Read,
    Write,
    /// An fsync or fdatasync.
    Sync,
}

impl Op {
    /// All kinds, in the order of their index.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Sync];

    /// The name used in scripts and in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
        }
    }
}

/// Requests to which a fault applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpFilter {
    /// `any`: all of them.
    Any,
    /// One kind.
    Only(Op),
}

impl OpFilter {
    /// Whether the fault applies to `op`.
    pub fn admits(self, op: Op) -> bool {
        match self {
            Self::Any => true,
            Self::Only(only) => only == op,
        }
    }
}

/// Effect of a fault on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// `eio`, `enospc`, `edquot`, `erofs`, `etimedout`, `eagain`: it fails with that errno.
    Errno(i32),
    /// `short`: a read returns half of its data, at least one byte. Needs `direct_io`; without it
    /// the kernel reads the rest itself.
    Short,
    /// `corrupt`: one bit is flipped in the data that a read returns (the stored data stay intact)
    /// or that a write stores.
    Corrupt,
    /// `zero`: a read returns zeros, or a write stores them.
    Zero,
    /// `lost`: a write is acknowledged but not stored.
    Lost,
    /// `torn[=BYTES]`: only the first BYTES (512) of a write are stored.
    Torn {
        /// Bytes that are stored.
        kept_bytes: u64,
    },
    /// `misdirected[=BYTES]`: a write or read takes place BYTES (4096) after its offset.
    Misdirected {
        /// Distance from the requested offset.
        shift_bytes: u64,
    },
    /// `swap[=BYTES]`: a write is stored BYTES (4096) after its offset, and the old data from there
    /// are stored at its offset.
    Swap {
        /// Distance from the requested offset.
        shift_bytes: u64,
    },
    /// `swap-within[=BYTES]`, `copy-within[=BYTES]`, `shift-within[=BYTES]`: pieces of BYTES (512)
    /// are rearranged within the data that a write stores or a read returns.
    Within {
        /// How the pieces are rearranged.
        pieces: Pieces,
        /// Length of a piece.
        piece_bytes: u64,
    },
    /// `lie`: a sync is acknowledged and makes nothing durable.
    Lie,
    /// `stall=T`: the request takes T longer; with `time=`, the whole device stalls for T.
    Stall {
        /// Duration of the stall.
        for_ns: u64,
    },
}

/// How the pieces of a request are rearranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pieces {
    /// The second and the last are swapped.
    Swap,
    /// The last is overwritten with a copy of the second.
    Copy,
    /// All but the last move to the next place; the first also stays at its own.
    Shift,
}

impl Pieces {
    /// Rearranges pieces of `piece_bytes`. Data of fewer than three pieces are left unchanged.
    pub(crate) fn apply(self, data: &mut [u8], piece_bytes: u64) {
        let piece = piece_bytes as usize;
        let end = data.len() / piece * piece;
        if end < 3 * piece {
            return;
        }
        let last = end - piece;
        match self {
            Self::Swap => {
                let (front, back) = data.split_at_mut(last);
                front[piece..2 * piece].swap_with_slice(&mut back[..piece]);
            }
            Self::Copy => data.copy_within(piece..2 * piece, last),
            Self::Shift => data.copy_within(..last, piece),
        }
    }
}

/// When a fault strikes. Each fault counts the requests to which it applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// No `WHEN`: each request.
    Always,
    /// `every=N`: every N-th request.
    Every(u64),
    /// `nth=N`: the N-th request only, counted from 1.
    Nth(u64),
    /// `after=N`: all but the first N requests.
    After(u64),
    /// `offset=START+LENGTH`: requests that touch that byte range of their file.
    Range {
        /// First byte.
        start: u64,
        /// Number of bytes.
        length: u64,
    },
    /// `bytes=B`: requests that would bring the total bytes transferred above B.
    Bytes(u64),
    /// `time=T`: every request from time T, counted from the first read or write.
    Time(u64),
}

/// One fault of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Requests to which it applies.
    pub ops: OpFilter,
    /// Effect on the request.
    pub effect: Effect,
    /// When it strikes.
    pub trigger: Trigger,
    /// The fault as written.
    pub text: String,
}

/// Counters of a fault.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    seen: u64,
    bytes: u64,
    /// How often it struck.
    pub(crate) fired: u64,
}

impl Fault {
    /// Whether the fault strikes this request; counts it either way.
    pub(crate) fn strikes(
        &self,
        progress: &mut Progress,
        at_ns: u64,
        op: Op,
        offset: u64,
        length: u64,
    ) -> bool {
        if !self.ops.admits(op) {
            return false;
        }
        progress.seen += 1;
        let strikes = match self.trigger {
            Trigger::Always => true,
            Trigger::Every(n) => progress.seen.is_multiple_of(n),
            Trigger::Nth(n) => progress.seen == n,
            Trigger::After(n) => progress.seen > n,
            Trigger::Range { start, length: range } => {
                offset < start.saturating_add(range) && start < offset.saturating_add(length)
            }
            Trigger::Bytes(limit) => progress.bytes.saturating_add(length) > limit,
            Trigger::Time(at) => at_ns >= at,
        };
        if strikes {
            progress.fired += 1;
        } else {
            progress.bytes += length;
        }
        strikes
    }

    /// Start and duration of a stall of the whole device, if the fault is one. ns.
    pub(crate) fn freeze(&self) -> Option<(u64, u64)> {
        match (self.effect, self.trigger) {
            (Effect::Stall { for_ns }, Trigger::Time(at_ns)) => Some((at_ns, for_ns)),
            _ => None,
        }
    }
}

fn effect(text: &str) -> Result<Effect, String> {
    let (kind, value) = match text.split_once('=') {
        Some((kind, value)) => (kind, Some(value)),
        None => (text, None),
    };
    let size = |default: u64| value.map_or(Ok(default), bytes);
    let effect = match kind {
        "torn" => return Ok(Effect::Torn { kept_bytes: size(512)? }),
        "misdirected" => return Ok(Effect::Misdirected { shift_bytes: size(4096)? }),
        "swap" => return Ok(Effect::Swap { shift_bytes: size(4096)? }),
        "swap-within" | "copy-within" | "shift-within" => {
            let pieces = match kind {
                "swap-within" => Pieces::Swap,
                "copy-within" => Pieces::Copy,
                _ => Pieces::Shift,
            };
            return match size(512)? {
                0 => Err(format!("fault kind `{kind}`: pieces of 0 bytes")),
                piece_bytes => Ok(Effect::Within { pieces, piece_bytes }),
            };
        }
        "stall" => {
            let value = value.ok_or("stall needs a duration: stall=500ms")?;
            return Ok(Effect::Stall { for_ns: duration_ns(value)? });
        }
        "eio" => Effect::Errno(5),
        "eagain" => Effect::Errno(11),
        "enospc" => Effect::Errno(28),
        "erofs" => Effect::Errno(30),
        "etimedout" => Effect::Errno(110),
        "edquot" => Effect::Errno(122),
        "short" => Effect::Short,
        "corrupt" => Effect::Corrupt,
        "zero" => Effect::Zero,
        "lost" => Effect::Lost,
        "lie" => Effect::Lie,
        _ => {
            return Err(format!(
                "fault kind `{kind}` is none of eio, eagain, enospc, erofs, etimedout, edquot, \
                 short, corrupt, zero, lost, torn, misdirected, swap, swap-within, copy-within, \
                 shift-within, lie, stall"
            ));
        }
    };
    if value.is_some() { Err(format!("fault kind `{kind}` takes no value")) } else { Ok(effect) }
}

fn trigger(text: &str) -> Result<Trigger, String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("`{text}` should be NAME=VALUE"))?;
    let count = || value.parse::<u64>().map_err(|_| format!("`{value}` is not a count"));
    match name {
        "every" | "nth" if count()? == 0 => Err(format!("`{text}`: requests count from 1")),
        "every" => Ok(Trigger::Every(count()?)),
        "nth" => Ok(Trigger::Nth(count()?)),
        "after" => Ok(Trigger::After(count()?)),
        "bytes" => Ok(Trigger::Bytes(bytes(value)?)),
        "time" => Ok(Trigger::Time(duration_ns(value)?)),
        "offset" => {
            let (start, length) = value
                .split_once('+')
                .ok_or_else(|| format!("`{text}` should be offset=START+LENGTH"))?;
            Ok(Trigger::Range { start: bytes(start)?, length: bytes(length)? })
        }
        _ => Err(format!("`{name}` is none of every, nth, after, offset, bytes, time")),
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(3, ':');
        let ops = match parts.next().unwrap_or("") {
            "any" => OpFilter::Any,
            "read" => OpFilter::Only(Op::Read),
            "write" => OpFilter::Only(Op::Write),
            "sync" => OpFilter::Only(Op::Sync),
            other => return Err(format!("`{other}` is none of read, write, sync, any")),
        };
        let effect =
            effect(parts.next().ok_or_else(|| format!("`{text}` should be OP:KIND[:WHEN]"))?)?;
        let trigger = parts.next().map_or(Ok(Trigger::Always), trigger)?;
        let fits: &[Op] = match effect {
            Effect::Short => &[Op::Read],
            Effect::Corrupt | Effect::Zero | Effect::Misdirected { .. } | Effect::Within { .. } => {
                &[Op::Read, Op::Write]
            }
            Effect::Lost | Effect::Torn { .. } | Effect::Swap { .. } => &[Op::Write],
            Effect::Lie => &[Op::Sync],
            Effect::Errno(_) | Effect::Stall { .. } => &Op::ALL,
        };
        if Op::ALL.iter().any(|op| ops.admits(*op) && !fits.contains(op)) {
            return Err(format!("`{text}` can never happen: that kind is for another operation"));
        }
        if matches!((effect, trigger), (Effect::Stall { .. }, Trigger::Time(_)))
            && ops != OpFilter::Any
        {
            return Err(format!("`{text}`: a stall at a time stops the device; write any:stall"));
        }
        Ok(Self { ops, effect, trigger, text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn struck(fault: &str, requests: &[(u64, Op, u64, u64)]) -> Vec<usize> {
        let fault: Fault = fault.parse().unwrap();
        let mut progress = Progress::default();
        let struck: Vec<usize> = requests
            .iter()
            .enumerate()
            .filter(|(_, (at, op, offset, len))| {
                fault.strikes(&mut progress, *at, *op, *offset, *len)
            })
            .map(|(i, _)| i)
            .collect();
        assert_eq!(progress.fired as usize, struck.len());
        struck
    }

    fn writes(n: u64) -> Vec<(u64, Op, u64, u64)> {
        (0..n).map(|i| (i * 1000, Op::Write, i * 4096, 4096)).collect()
    }

    #[test]
    fn each_trigger_strikes_where_it_says() {
        assert_eq!(struck("write:eio", &writes(3)), [0, 1, 2]);
        assert_eq!(struck("write:eio:every=3", &writes(7)), [2, 5]);
        assert_eq!(struck("write:eio:nth=2", &writes(5)), [1]);
        assert_eq!(struck("write:eio:after=3", &writes(5)), [3, 4]);
        assert_eq!(struck("write:enospc:bytes=8k", &writes(4)), [2, 3]);
        assert_eq!(struck("write:eio:time=2us", &writes(4)), [2, 3]);
        assert_eq!(struck("write:eio:offset=4k+1", &writes(4)), [1]);
        assert_eq!(struck("write:eio:offset=4095+2", &writes(4)), [0, 1]);
    }

    #[test]
    fn other_requests_are_left_alone_and_not_counted() {
        let mixed = [(0, Op::Read, 0, 4096), (0, Op::Write, 0, 4096), (0, Op::Read, 0, 4096)];
        assert_eq!(struck("read:eio:nth=2", &mixed), [2]);
        assert_eq!(struck("sync:eio", &mixed), [] as [usize; 0]);
        assert_eq!(struck("any:eio:nth=2", &mixed), [1]);
    }

    #[test]
    fn impossible_and_unknown_faults_are_refused() {
        for bad in [
            "",
            "read",
            "read:boom",
            "trim:eio",
            "read:lost",
            "write:short",
            "read:swap",
            "sync:swap-within",
            "write:copy-within=0",
            "any:zero",
            "sync:misdirected",
            "any:lie",
            "write:eio:every=0",
            "write:eio:often",
            "read:stall",
            "read:eio=3",
            "read:stall=1ms:time=1s",
            "read:eio:offset=4k",
        ] {
            assert!(bad.parse::<Fault>().is_err(), "{bad}");
        }
    }
}
