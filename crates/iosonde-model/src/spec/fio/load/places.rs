//! Offsets and files of a job's operations: order, runs, holes, zones.

use super::super::job::FioJob;
use super::super::number;
use super::super::value::Value;
use super::super::{Fault, shown};
use super::{BLOCK_BYTES, of_way};
use crate::spec::{Access, Draw, Role, Rw, Sequence, Service, Sizes, Strides, Zone};

/// fio's default skews.
const ZIPF_THETA: f64 = 1.1;
const PARETO_H: f64 = 0.2;

/// `rw=randread:8` draws every eighth offset; the operations between are contiguous.
pub(super) fn run_length(job: &FioJob, rw: Rw) -> Result<Option<u64>, Fault> {
    match job.word("rw") {
        Some((_, Some(rest))) if rw.is_random() => match rest.parse::<u64>() {
            Ok(length) if length > 0 => Ok(Some(length)),
            _ => Err(job.fault("rw", format!("found `{rest}`, expected a number of operations"))),
        },
        _ => Ok(None),
    }
}

/// `zonemode=strided`: a number of bytes within a zone, then the next zone.
pub(super) fn strides(job: &FioJob, role: &Role) -> Result<Strides, Fault> {
    let zone = job.count("zonesize").unwrap_or(0);
    let wanted = job.word("zonemode").map_or(zone > 0, |(word, _)| word == "strided");
    if !wanted {
        return Ok(Strides::default());
    }
    if zone == 0 {
        return Err(job.fault("zonesize", "zonemode=strided needs a size above 0"));
    }
    let range_bytes = job.count("zonerange").filter(|range| *range > 0).unwrap_or(zone);
    if range_bytes < role.block_size.unwrap_or(BLOCK_BYTES) {
        return Err(job.fault("zonerange", "a zone must have room for a block"));
    }
    let skip_bytes = job.count("zoneskip").unwrap_or(0);
    Ok(Strides { range_bytes, zone_bytes: zone, skip_bytes })
}

/// Selection of the next file.
pub(super) fn service(job: &FioJob) -> Result<Service, Fault> {
    let name = "file_service_type";
    let (word, rest) = job.word(name).unwrap_or(("roundrobin", None));
    let each = match rest.map(|rest| (rest, rest.parse::<u64>())) {
        None => 1,
        Some((_, Ok(each))) if each > 0 => each,
        Some((rest, _)) => {
            let what = format!("found `{}`, expected a number of operations", shown(rest));
            return Err(job.fault(name, what));
        }
    };
    match (word, each) {
        ("roundrobin", 1) => Ok(Service::EachInTurn),
        ("roundrobin", each) => Ok(Service::InTurn(each)),
        ("random", each) => Ok(Service::Random(each)),
        ("sequential", _) => Ok(Service::Sequential),
        (word, _) => {
            let what = format!("{word} is not supported; give roundrobin, random or sequential");
            Err(job.fault(name, what))
        }
    }
}

/// `rw=read:8k` skips 8k after each operation.
pub(super) fn stride(job: &FioJob, role: &Role) -> Result<Option<i64>, Fault> {
    let Some((word, Some(rest))) = job.word("rw") else { return Ok(None) };
    if role.rw.is_random() {
        return Ok(None);
    }
    let (sign, digits) = match rest.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, rest),
    };
    let hole = number::bytes(digits, job.base()).map_err(|what| job.fault("rw", what))?;
    let block = role.block_size.unwrap_or(BLOCK_BYTES);
    if role.sizes != Sizes::default() {
        return Err(job.fault("rw", "a hole after each operation needs a fixed block size"));
    }
    let stride = i64::try_from(hole)
        .ok()
        .and_then(|hole| i64::try_from(block).ok()?.checked_add(sign * hole));
    match stride {
        Some(0) => Err(job.fault("rw", format!("{word}:{rest} never leaves the first block"))),
        Some(stride) => Ok(Some(stride)),
        None => Err(job.fault("rw", format!("{rest} exceeds 63 bits"))),
    }
}

/// The share of drawn offsets. Mixed jobs are rejected: fio continues from the last operation of
/// the same direction, and we from the last of any.
pub(super) fn random_percent(job: &FioJob, rw: Rw) -> Result<Option<f64>, Fault> {
    let name = "percentage_random";
    let ways = job.ways(name);
    if !rw.is_random() || ways.iter().flatten().all(|percent| *percent == 100) {
        return Ok(None);
    }
    if rw.is_mixed() {
        let what = "an order that is partly random is not supported in a mixed job; give a job \
                    that reads and one that writes";
        return Err(job.fault(name, what));
    }
    match of_way(&ways, rw) {
        Some(percent) if percent > 100 => Err(job.fault(name, "expected 0 to 100 percent")),
        percent => Ok(percent.filter(|percent| *percent < 100).map(|percent| percent as f64)),
    }
}

pub(super) fn access(job: &FioJob, rw: Rw) -> Result<Access, Fault> {
    if job.is_on("sprandom") {
        return single_pass(job, rw);
    }
    if !rw.is_random() {
        return Ok(Access::Permutation);
    }
    let name = "random_distribution";
    let wrong = |what: &str| Err(job.fault(name, what));
    let parameter = |default: f64| match job.word(name).and_then(|(_, rest)| rest) {
        None => Ok(default),
        Some(rest) if rest.contains(':') => {
            Err(job.fault(name, "a centre of the distribution is not supported"))
        }
        Some(rest) => {
            number::real(rest.trim_end_matches('%')).map_err(|what| job.fault(name, what))
        }
    };
    match job.word(name).unwrap_or(("random", None)) {
        ("zipf", _) => match parameter(ZIPF_THETA)? {
            theta if theta > 0.0 && theta != 1.0 => Ok(Access::Zipf(theta)),
            _ => wrong("expected a skew above 0 that is not 1"),
        },
        ("pareto", _) => match parameter(PARETO_H)? {
            h if h > 0.0 && h < 1.0 => Ok(Access::Pareto(h)),
            _ => wrong("expected a share above 0 and below 1"),
        },
        ("normal", _) => match parameter(0.0)? {
            deviation if deviation > 0.0 && deviation < 100.0 => Ok(Access::Normal(deviation)),
            _ => wrong("expected a deviation in percent above 0 and below 100"),
        },
        ("zoned", Some(rest)) => zones(job, rest).map(Access::Zoned),
        ("zoned", None) => wrong("expected zones such as zoned:90/10:10/90"),
        ("sequence", rest) => sequence(job, rest.unwrap_or_default(), rw).map(Access::Sequence),
        ("zoned_abs", _) => wrong("zones in bytes are not supported; give zoned and percentages"),
        _ if job.is_on("norandommap") || job.get("ba").is_some() => Ok(Access::Uniform),
        _ => Ok(Access::Permutation),
    }
}

/// fio's default spare flash for a single pass, and the largest that its model covers.
const SPARE: f64 = 0.15;
const MOST_SPARE: f64 = 1.66;

/// `sprandom` writes all flash once, so that valid data falls with age as after many passes. Both
/// programs use Desnoyers' model; fio's approximate shares differ from it by up to 1 %.
fn single_pass(job: &FioJob, rw: Rw) -> Result<Access, Fault> {
    let wrong = |name: &str, what: &str| Err(job.fault(name, what));
    if rw != Rw::RandWrite {
        return wrong("sprandom", "needs rw=randwrite, as in fio");
    }
    if job.word("random_generator").is_some_and(|(word, _)| word != "lfsr") {
        return wrong("random_generator", "sprandom needs lfsr, as in fio");
    }
    if job.is_off("norandommap") {
        return wrong("norandommap", "sprandom needs norandommap=1, as in fio");
    }
    if has_several_files(job) {
        return wrong("sprandom", "is of one file, as in fio");
    }
    match spare(job) {
        Some(spare) if spare > 0.0 && spare <= MOST_SPARE => Ok(Access::SinglePass(spare * 100.0)),
        _ => wrong("spr_op", &format!("expected one number above 0 and up to {MOST_SPARE}")),
    }
}

fn has_several_files(job: &FioJob) -> bool {
    let names = job.text("filename").unwrap_or_default().replace("\\:", "");
    job.count("nrfiles").unwrap_or(1) > 1 || names.contains(':')
}

/// Spare flash as a share of the capacity that the host sees.
fn spare(job: &FioJob) -> Option<f64> {
    match job.value("spr_op") {
        None => Some(SPARE),
        Some(Value::Reals(shares)) if shares.len() == 1 => shares.first().copied(),
        Some(_) => None,
    }
}

/// Whether a random job uses a random map, as in fio: sizes differ, reads and writes have the same
/// smallest size, and no other option determines offsets.
pub(super) fn has_random_map(
    role: &Role,
    random_percent: Option<f64>,
    run_length: Option<u64>,
    strides: Strides,
) -> bool {
    let [read, write, trim] = [&role.sizes.read, &role.sizes.write, &role.sizes.trim];
    let mut smallest = [read, write, trim].into_iter().filter(|draw| **draw != Draw::Block);
    let first = smallest.next().map(super::smallest);
    role.rw.is_random()
        && !role.rw.rewrites()
        && first.is_some()
        && smallest.all(|draw| Some(super::smallest(draw)) == first)
        && random_percent.is_none()
        && run_length.is_none_or(|length| length == 1)
        && strides == Strides::default()
}

/// Most blocks of a sequence, as in fio.
const MAX_SEQUENCE: usize = 256;

/// Parses `2,0,1`: blocks in this order.
fn sequence(job: &FioJob, text: &str, rw: Rw) -> Result<Sequence, Fault> {
    let wrong = |what: String| job.fault("random_distribution", what);
    let block = |text: &str| {
        let text = text.trim();
        let expected = format!("found `{}`, expected blocks such as sequence:2,0,1", shown(text));
        text.parse::<u32>().map_err(|_error| wrong(expected))
    };
    let blocks = text.split(',').map(block).collect::<Result<Vec<u32>, Fault>>()?;
    if blocks.len() > MAX_SEQUENCE {
        let what = format!("found {} blocks, expected at most {MAX_SEQUENCE}", blocks.len());
        return Err(wrong(what));
    }
    if rw.is_mixed() || has_several_files(job) {
        let what = "a sequence is of one direction and one file here; give a job for each";
        return Err(wrong(what.into()));
    }
    Ok(Sequence { blocks, advances: job.is_on("random_sequence_stride") })
}

/// Parses `60/10:30/20:8/30:2/40`: percent of the accesses, percent of the region.
fn zones(job: &FioJob, text: &str) -> Result<Vec<Zone>, Fault> {
    let wrong = |what: String| job.fault("random_distribution", what);
    if text.contains(',') {
        return Err(wrong("zones of their own for reads and writes are not supported".into()));
    }
    let mut zones = Vec::new();
    for part in text.split(':').filter(|part| !part.is_empty()) {
        let (access, size) = part.split_once('/').unwrap_or((part, ""));
        let percent = |text: &str| text.trim().parse::<u8>().ok().filter(|p| *p <= 100);
        let percents = match size.trim() {
            // Zones without a size share the rest of the region.
            "" => percent(access).map(|access| (access, None)),
            size => percent(access).zip(percent(size)).map(|(access, size)| (access, Some(size))),
        };
        let Some((access, size)) = percents else {
            let what = format!("found `{}`, expected percentages such as 60/10", shown(part));
            return Err(wrong(what));
        };
        zones.push((access, size));
    }
    let given: u32 = zones.iter().filter_map(|(_, size)| *size).map(u32::from).sum();
    let open = zones.iter().filter(|(_, size)| size.is_none()).count().max(1);
    let share = f64::from(100u32.saturating_sub(given)) / open as f64;
    let zone = |(access, size): (u8, Option<u8>)| Zone {
        access_percent: f64::from(access),
        size_percent: size.map_or(share, f64::from),
    };
    let zones: Vec<Zone> = zones.into_iter().map(zone).collect();
    let sum = |share: fn(&Zone) -> f64| zones.iter().map(share).sum::<f64>();
    let (access, size) = (sum(|zone| zone.access_percent), sum(|zone| zone.size_percent));
    if access != 100.0 || size != 100.0 {
        return Err(wrong(format!(
            "the zones add up to {access} % of the accesses and {size} % of the region, \
             expected 100 and 100"
        )));
    }
    Ok(zones)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::super::job::testing::read;
    use super::*;

    fn of(lines: &str) -> Result<Access, String> {
        let file = read(&format!("[a]\nsize=1m\nrw=randread\n{lines}")).unwrap();
        let job = &file.groups[0].jobs[0];
        access(job, super::super::rw(job).unwrap()).map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_sequence_is_a_list_of_blocks() {
        let sequence = |advances| Access::Sequence(Sequence { blocks: vec![2, 0, 1], advances });
        assert_eq!(of("random_distribution=sequence:2,0, 1\n"), Ok(sequence(false)));
        let further = "random_distribution=sequence:2,0,1\nrandom_sequence_stride=1\n";
        assert_eq!(of(further), Ok(sequence(true)));
        for wrong in ["sequence", "sequence:1,-2", "sequence:1,,2", "sequence:a"] {
            let error = of(&format!("random_distribution={wrong}\n")).unwrap_err();
            assert!(error.contains("expected blocks such as sequence:2,0,1"), "{error}");
        }
        let many = format!("random_distribution=sequence:{}0\n", "1,".repeat(300));
        assert!(of(&many).unwrap_err().contains("at most 256"));
        let files = "random_distribution=sequence:1,0\nfilename=a:b\n";
        assert!(of(files).unwrap_err().contains("one file"));
    }
}
