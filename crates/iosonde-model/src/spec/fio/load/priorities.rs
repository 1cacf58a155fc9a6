//! Priorities of single requests: `cmdprio_percentage`, `cmdprio_bssplit` and related options.

use super::super::job::FioJob;
use super::super::number::{self, KbBase};
use super::super::{Fault, shown};
use super::{engine, used};
use crate::spec::priority::HINT_MOST;
use crate::spec::{Priorities, Priority, Rw};

/// Default class: real-time.
const CLASS: u64 = 1;
/// Most entries of a split.
const MAX_SPLIT: usize = 64;

/// The priorities of the used directions. fio's other engines do not support these options; a note
/// says that they have no effect.
pub(super) fn priorities(job: &FioJob, rw: Rw) -> Result<Priorities, Fault> {
    let percentages = of_ways(job, "cmdprio_percentage", 0, 100)?;
    let classes = of_ways(job, "cmdprio_class", 1, 3)?.map(|class| class.unwrap_or(CLASS));
    let levels = of_ways(job, "cmdprio", 0, 7)?.map(|level| level.unwrap_or(0));
    let hints = of_ways(job, "cmdprio_hint", 0, u64::from(HINT_MOST))?;
    let split = job.text("cmdprio_bssplit");
    if split.is_some() && percentages.iter().flatten().any(|percent| *percent > 0) {
        let what = "stands beside cmdprio_percentage, and fio takes one of them; give one";
        return Err(job.fault("cmdprio_bssplit", what));
    }
    if !matches!(engine(job), "io_uring" | "libaio") {
        return Ok(Priorities::default());
    }
    let parts: Vec<&str> = split.map_or(Vec::new(), |text| text.split(',').collect());
    let used = used(rw);
    let of_way = |way: usize| -> Result<Vec<Priority>, String> {
        if !used[way] {
            return Ok(Vec::new());
        }
        let (class, level) = (classes[way] as u8, levels[way] as u8);
        let hint = hints[way].unwrap_or(0) as u16;
        let usual = Priority { percent: 0, bytes: 0, class, level, hint };
        // A single part applies to reads and writes, as in fio.
        match parts.get(way).or(parts.last()) {
            Some(part) => of_sizes(part, usual, job.base()),
            None => {
                let percent = percentages[way].unwrap_or(0) as u8;
                let one = Priority { percent, ..usual };
                Ok(if percent > 0 { vec![one] } else { Vec::new() })
            }
        }
    };
    let fault = |what| job.fault("cmdprio_bssplit", what);
    let found = Priorities { read: of_way(0).map_err(fault)?, write: of_way(1).map_err(fault)? };
    found.fault().map_or(Ok(found), |what| Err(fault(what)))
}

/// The numbers for reads and for writes.
fn of_ways(job: &FioJob, name: &str, low: u64, high: u64) -> Result<[Option<u64>; 2], Fault> {
    let [read, write, _] = job.ways(name);
    let range = low..=high;
    match [read, write].iter().flatten().find(|number| !range.contains(number)) {
        Some(number) => Err(job.fault(name, format!("found {number}, expected {low} to {high}"))),
        None => Ok([read, write]),
    }
}

/// Parses `64k/20`, `64k/20/2/7` or `64k/20/2/7/1`: size, share, class, level and hint.
fn of_sizes(text: &str, usual: Priority, base: KbBase) -> Result<Vec<Priority>, String> {
    let entries: Vec<&str> = text.split(':').filter(|entry| !entry.trim().is_empty()).collect();
    if entries.len() > MAX_SPLIT {
        return Err(format!("found {} sizes, expected at most {MAX_SPLIT}", entries.len()));
    }
    let mut found = Vec::new();
    for entry in entries {
        let wrong = || {
            format!(
                "found `{}`, expected SIZE/PERCENT, SIZE/PERCENT/CLASS/LEVEL or \
                 SIZE/PERCENT/CLASS/LEVEL/HINT, such as 64k/20/1/0",
                shown(entry)
            )
        };
        let fields: Vec<&str> = entry.split('/').map(str::trim).collect();
        let number = |text: &str| text.parse::<u8>().map_err(|_error| wrong());
        let (size, one) = match fields.as_slice() {
            // As in fio, an entry without a share has 0 %, and so no effect.
            [size] | [size, ""] => (size, usual),
            [size, percent] => (size, Priority { percent: number(percent)?, ..usual }),
            [size, percent, class, level, hint @ ..] if hint.len() < 2 => {
                let hint =
                    hint.first().map_or(Ok(0), |hint| hint.parse().map_err(|_error| wrong()));
                let (class, level) = (number(class)?, number(level)?);
                (size, Priority { percent: number(percent)?, bytes: 0, class, level, hint: hint? })
            }
            _ => return Err(wrong()),
        };
        let bytes = number::bytes(size, base)?;
        if bytes == 0 {
            return Err(wrong());
        }
        if one.percent > 0 {
            found.push(Priority { bytes, ..one });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::super::job::testing::read;
    use super::*;

    fn of(lines: &str) -> Result<Priorities, String> {
        let file = read(&format!("[a]\nsize=1m\nrw=randrw\nioengine=libaio\n{lines}")).unwrap();
        let job = &file.groups[0].jobs[0];
        priorities(job, super::super::rw(job).unwrap()).map_err(|fault| fault.to_string())
    }

    fn priority(percent: u8, bytes: u64, class: u8, level: u8) -> Priority {
        Priority { percent, bytes, class, level, hint: 0 }
    }

    #[test]
    fn a_percentage_has_the_class_and_level_of_its_way() {
        let both = of("cmdprio_percentage=20\n").unwrap();
        assert_eq!(both.read, [priority(20, 0, 1, 0)], "fio's own class is real-time");
        assert_eq!(both.write, both.read);
        let each = of("cmdprio_percentage=20,0\ncmdprio_class=2,3\ncmdprio=7\n").unwrap();
        assert_eq!((each.read, each.write), (vec![priority(20, 0, 2, 7)], vec![]));
        let reads = of("rw=randread\ncmdprio_percentage=20\n").unwrap();
        assert!(reads.write.is_empty(), "nothing is written");
        for (lines, expected) in [
            ("cmdprio_percentage=101\n", "expected 0 to 100"),
            ("cmdprio_percentage=1\ncmdprio_class=4\n", "expected 1 to 3"),
            ("cmdprio_percentage=1\ncmdprio=8\n", "expected 0 to 7"),
            ("cmdprio_percentage=1\ncmdprio_hint=1024\n", "expected 0 to 1023"),
        ] {
            assert!(of(lines).unwrap_err().contains(expected), "{lines}");
        }
    }

    #[test]
    fn a_split_is_by_size() {
        let found = of("cmdprio_class=2\ncmdprio=1\ncmdprio_bssplit=4k/30:8k/:64k/20/3/0\n");
        let expected = [priority(30, 4096, 2, 1), priority(20, 65_536, 3, 0)];
        assert_eq!(found.as_ref().unwrap().read, expected);
        assert_eq!(found.unwrap().write, expected);
        let hinted = of("cmdprio_bssplit=4k/30/2/0/3\n").unwrap().read;
        assert_eq!(hinted, [Priority { hint: 3, ..priority(30, 4096, 2, 0) }]);
        let ways = of("cmdprio_bssplit=4k/30,8k/10\n").unwrap();
        assert_eq!(ways.read, [priority(30, 4096, 1, 0)]);
        assert_eq!(ways.write, [priority(10, 8192, 1, 0)]);
        for (text, expected) in [
            ("4k/30/1", "expected SIZE/PERCENT"),
            ("4k/x", "expected SIZE/PERCENT"),
            ("4k/60:4k/60", "add up to 120 %"),
            ("4k/60/0/0", "class 0"),
        ] {
            let error = of(&format!("cmdprio_bssplit={text}\n")).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let both = of("cmdprio_percentage=1\ncmdprio_bssplit=4k/30\n").unwrap_err();
        assert!(both.contains("beside cmdprio_percentage"), "{both}");
    }

    #[test]
    fn other_engines_have_none() {
        assert!(of("ioengine=psync\ncmdprio_percentage=20\n").unwrap().is_none());
    }
}
