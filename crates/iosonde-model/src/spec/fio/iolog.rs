//! Logs of operations, versions 2 and 3, of fio's `write_iolog` and `read_iolog`. A log becomes a
//! list of operations and their due times.

use std::sync::Arc;

use super::job::FioJob;
use super::load::narrow;
use super::{Fault, shown};
use crate::spec::listed::MAX_LISTED;
use crate::spec::{IoKind, Listed};

/// Longest operation, bytes.
const MAX_BYTES: u64 = 1 << 30;

/// A parsed log.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Iolog {
    /// The files of its operations, in order of appearance.
    pub(super) files: Vec<String>,
    /// The operations; a target is an index into `files`.
    pub(super) ops: Vec<Listed>,
    /// Due times, ns from the start; empty if each operation follows the previous one immediately.
    pub(super) due_ns: Vec<u64>,
    /// Whether all syncs are fdatasync.
    pub(super) of_data: bool,
}

/// Modifications of a log by the options of its job.
struct Changes<'a> {
    no_stall: bool,
    redirect: Option<&'a str>,
    scale: u64,
    align: u64,
    time_percent: u64,
    skipped: Vec<IoKind>,
}

/// The log that a job replays, if any.
pub(super) fn of(job: &FioJob) -> Result<Option<Iolog>, Fault> {
    if job.get("read_iolog").is_none() {
        return Ok(None);
    }
    let Some(text) = &job.iolog else {
        return Err(job.fault("read_iolog", "the log was not read"));
    };
    for (name, why) in [
        ("verify", "a replay has no order to verify by"),
        ("verify_pattern", "a replay has no order to verify by"),
        ("rate", "the log has the times"),
        ("rate_iops", "the log has the times"),
        ("directory", "the log names the files; give replay_redirect for another one"),
        ("ramp_time", "the log has an end of its own"),
    ] {
        if job.get(name).is_some() {
            return Err(job.fault(name, format!("not supported beside read_iolog: {why}")));
        }
    }
    let log = read(text, &changes(job)?);
    log.map(Some).map_err(|what| job.fault("read_iolog", what))
}

fn changes(job: &FioJob) -> Result<Changes<'_>, Fault> {
    let number = |name: &str| job.count(name).map_or(Ok(0), |n| narrow(job, name, n));
    let align = u64::from(number("replay_align")?);
    if align > 0 && !align.is_power_of_two() {
        return Err(job.fault("replay_align", format!("found {align}, expected a power of two")));
    }
    let percent = job.count("replay_time_scale").unwrap_or(100);
    let time_percent = u64::from(narrow(job, "replay_time_scale", percent)?);
    let mut skipped = Vec::new();
    for word in job.text("replay_skip").unwrap_or("").split([',', ':']).filter(|w| !w.is_empty()) {
        let what = || format!("found `{}`, expected read, write, trim, sync", shown(word));
        let way = IoKind::parse(word.trim());
        skipped.push(way.ok_or_else(|| job.fault("replay_skip", what()))?);
    }
    Ok(Changes {
        no_stall: job.is_on("replay_no_stall"),
        redirect: job.text("replay_redirect").filter(|path| !path.is_empty()),
        scale: u64::from(number("replay_scale")?),
        align,
        time_percent,
        skipped,
    })
}

/// Parses a log. An error names the line.
fn read(text: &str, changes: &Changes<'_>) -> Result<Iolog, String> {
    let mut lines = (1..).zip(text.lines());
    let timed = match lines.next().map(|(_, head)| head.trim_end()) {
        Some("fio version 2 iolog") => false,
        Some("fio version 3 iolog") => true,
        found => {
            return Err(format!(
                "its first line is `{}`, expected `fio version 2 iolog` or `fio version 3 iolog` \
                 (a trace of blktrace is not supported)",
                shown(found.unwrap_or(""))
            ));
        }
    };
    let log = Iolog { of_data: true, ..Iolog::default() };
    let mut reader = Reader { log, changes, now_ns: 0, last: 0 };
    for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        reader.line(line, timed).map_err(|what| format!("line {number}: {what}"))?;
    }
    let mut log = reader.log;
    if !log.ops.iter().any(|op| op.way != IoKind::Sync) {
        return Err("it has no operation to replay".into());
    }
    if log.due_ns.iter().all(|ns| *ns == 0) {
        log.due_ns.clear();
    }
    Ok(log)
}

struct Reader<'a> {
    log: Iolog,
    changes: &'a Changes<'a>,
    /// Due time of the next operation.
    now_ns: u64,
    /// Timestamp of the previous line, µs.
    last: u64,
}

impl Reader<'_> {
    fn line(&mut self, line: &str, timed: bool) -> Result<(), String> {
        let mut words = line.split_whitespace();
        let delay_ns = if timed { self.delay_ns(words.next())? } else { 0 };
        let (Some(name), Some(act)) = (words.next(), words.next()) else {
            return Err("expected a file and what is done to it".into());
        };
        let numbers: Vec<&str> = words.collect();
        match (act, numbers.as_slice()) {
            ("add" | "open" | "close", []) => self.now_ns += delay_ns,
            ("wait", [ms, _]) if !timed => {
                // fio interprets it as milliseconds from the start.
                let ms: u64 = ms.parse().map_err(|_| format!("`{}` is not a time", shown(ms)))?;
                if !self.changes.no_stall {
                    self.now_ns = self.now_ns.max(ms.saturating_mul(1_000_000));
                }
            }
            (_, [offset, bytes]) => {
                let way = IoKind::parse(if act == "datasync" { "sync" } else { act });
                let wrong = || format!("found `{}`, expected an operation", shown(act));
                let way = way.ok_or_else(wrong)?;
                let skips = act != "datasync" && self.changes.skipped.contains(&way);
                if !skips {
                    self.now_ns += delay_ns;
                    let name = self.changes.redirect.unwrap_or(name);
                    let op = self.op(way, name, (offset, bytes))?;
                    self.log.of_data &= way != IoKind::Sync || act == "datasync";
                    self.log.ops.push(op);
                    self.log.due_ns.push(self.now_ns);
                }
            }
            _ => return Err(format!("`{}` is not a line of a log", shown(line))),
        }
        if self.log.ops.len() > MAX_LISTED {
            return Err(format!("more than {MAX_LISTED} operations"));
        }
        Ok(())
    }

    /// Time since the previous line, which fio gives in µs; 0 for the first line.
    fn delay_ns(&mut self, time: Option<&str>) -> Result<u64, String> {
        let time = time.unwrap_or("");
        let us: u64 = time.parse().map_err(|_| format!("`{}` is not a time", shown(time)))?;
        let last = std::mem::replace(&mut self.last, us);
        if last == 0 || self.changes.no_stall || us < last {
            return Ok(0);
        }
        let scaled = u128::from(us - last) * 100_000 / u128::from(self.changes.time_percent);
        u64::try_from(scaled).ok().filter(|ns| *ns < 1 << 60).ok_or_else(|| "too late".into())
    }

    fn op(
        &mut self,
        way: IoKind,
        name: &str,
        (offset, bytes): (&str, &str),
    ) -> Result<Listed, String> {
        let number = |text: &str| {
            text.parse::<u64>().map_err(|_| format!("`{}` is not a number of bytes", shown(text)))
        };
        let (offset, bytes) = (number(offset)?, number(bytes)?);
        if bytes > MAX_BYTES || (bytes == 0) != (way == IoKind::Sync) {
            return Err(format!("{bytes} bytes, expected 1 to {MAX_BYTES}, and 0 for a sync"));
        }
        let offset = offset / self.changes.scale.max(1);
        let offset = offset & !self.changes.align.saturating_sub(1);
        offset.checked_add(bytes).ok_or("it lies beyond 64 bits")?;
        let known = self.log.files.iter().position(|file| file == name);
        let at = known.unwrap_or_else(|| {
            self.log.files.push(name.into());
            self.log.files.len() - 1
        });
        let target = u16::try_from(at).map_err(|_| "more than 65536 files")?;
        Ok(Listed { way, target, offset, bytes: bytes as u32 })
    }
}

impl Iolog {
    /// Direction and order, in fio's terms.
    pub(super) fn rw(&self) -> &'static str {
        let goes = |way: IoKind| self.ops.iter().any(|op| op.way == way);
        match (goes(IoKind::Read), goes(IoKind::Write), goes(IoKind::Trim)) {
            (true, false, false) => "randread",
            (false, true, false) => "randwrite",
            (false, false, true) => "randtrim",
            _ => "randrw",
        }
    }

    /// Share of reads, percent; at least 1 if there is a read.
    pub(super) fn read_percent(&self) -> u8 {
        let moving = || self.ops.iter().filter(|op| op.way != IoKind::Sync);
        let reads = moving().filter(|op| op.way == IoKind::Read).count();
        match (reads * 100 / moving().count().max(1)) as u8 {
            0 if reads > 0 => 1,
            percent => percent,
        }
    }

    /// Sizes of the operations that transfer data, each with its percentage.
    pub(super) fn sizes(&self) -> Vec<(u64, f64)> {
        let mut sizes: Vec<u64> =
            self.ops.iter().map(|op| u64::from(op.bytes)).filter(|bytes| *bytes > 0).collect();
        sizes.sort_unstable();
        let share = 100.0 / sizes.len() as f64;
        let mut split: Vec<(u64, f64)> = Vec::new();
        for bytes in sizes {
            match split.last_mut().filter(|(last, _)| *last == bytes) {
                Some((_, percent)) => *percent += share,
                None => split.push((bytes, share)),
            }
        }
        split
    }

    /// The largest grid that contains all offsets and sizes, bytes.
    pub(super) fn grid(&self) -> u64 {
        let numbers = self.ops.iter().flat_map(|op| [op.offset, u64::from(op.bytes)]);
        numbers.fold(0, greatest_common_divisor).clamp(1, MAX_BYTES)
    }

    /// End of the used part of each file, bytes.
    pub(super) fn ends(&self) -> Vec<u64> {
        let mut ends = vec![0; self.files.len()];
        for op in &self.ops {
            let end = &mut ends[usize::from(op.target)];
            *end = op.offset.saturating_add(u64::from(op.bytes)).max(*end);
        }
        ends
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// The text of a log, shared between jobs.
pub type Text = Arc<str>;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn plain() -> Changes<'static> {
        Changes {
            no_stall: false,
            redirect: None,
            scale: 0,
            align: 0,
            time_percent: 100,
            skipped: Vec::new(),
        }
    }

    const THREE: &str = "fio version 3 iolog\n50 a add\n60 a open\n160 a read 0 4096\n\
                         1160 b write 8192 8192\n3160 a sync 0 0\n3170 a read 12288 4096\n\
                         3180 a close\n";

    #[test]
    fn a_log_with_times_is_due_by_their_differences() {
        let log = read(THREE, &plain()).unwrap();
        assert_eq!(log.files, ["a", "b"]);
        assert_eq!(log.due_ns, [110_000, 1_110_000, 3_110_000, 3_120_000]);
        assert_eq!((log.rw(), log.read_percent(), log.grid()), ("randrw", 66, 4096));
        assert_eq!(log.ends(), [16384, 16384]);
        assert_eq!(log.sizes().iter().map(|(bytes, _)| *bytes).collect::<Vec<_>>(), [4096, 8192]);
        let slow = Changes { time_percent: 50, ..plain() };
        assert_eq!(read(THREE, &slow).unwrap().due_ns[1], 2_220_000);
        assert!(read(THREE, &Changes { no_stall: true, ..plain() }).unwrap().due_ns.is_empty());
    }

    #[test]
    fn what_is_skipped_takes_its_delay_with_it_as_in_fio() {
        let skipped = vec![IoKind::Write, IoKind::Sync];
        let log = read(THREE, &Changes { skipped, ..plain() }).unwrap();
        assert_eq!(log.due_ns, [110_000, 120_000]);
        assert_eq!(log.files, ["a"]);
    }

    #[test]
    fn places_are_scaled_aligned_and_redirected() {
        let text = "fio version 2 iolog\na read 9000 512\nb read 20000 512\n";
        let changes = Changes { redirect: Some("c"), scale: 2, align: 4096, ..plain() };
        let log = read(text, &changes).unwrap();
        assert_eq!(log.files, ["c"]);
        assert_eq!(log.ops.iter().map(|op| op.offset).collect::<Vec<_>>(), [4096, 8192]);
    }

    #[test]
    fn what_is_no_log_is_refused_with_its_line() {
        for (text, expected) in [
            ("\u{7}binary", "its first line is"),
            ("fio version 2 iolog\na read 0 4096\na fly 0 1\n", "line 3: found `fly`"),
            ("fio version 3 iolog\na read 0 4096\n", "line 2: `a` is not a time"),
            ("fio version 2 iolog\na add\na open\n", "no operation"),
            ("fio version 2 iolog\na read 0 0\n", "line 2: 0 bytes"),
        ] {
            let error = read(text, &plain()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
