//! Limits of a job: least rates, tolerated errors, and its share of a flow.

use super::super::job::FioJob;
use super::super::{Fault, shown};
use super::{narrow, used};
use crate::spec::{Flow, Limits, Rate, Rw};

/// Errors that fio treats as not fatal: EIO and EILSEQ.
const NOT_FATAL: [i32; 2] = [5, 84];
/// The errors that fio accepts by name, from number 1 on.
const ERRORS: [&str; 34] = [
    "EPERM", "ENOENT", "ESRCH", "EINTR", "EIO", "ENXIO", "E2BIG", "ENOEXEC", "EBADF", "ECHILD",
    "EAGAIN", "ENOMEM", "EACCES", "EFAULT", "ENOTBLK", "EBUSY", "EEXIST", "EXDEV", "ENODEV",
    "ENOTDIR", "EISDIR", "EINVAL", "ENFILE", "EMFILE", "ENOTTY", "ETXTBSY", "EFBIG", "ENOSPC",
    "ESPIPE", "EROFS", "EMLINK", "EPIPE", "EDOM", "ERANGE",
];
/// Default interval over which a least rate is measured, ms.
const RATE_CYCLE_MS: u64 = 1000;

pub(super) fn limits(job: &FioJob, rw: Rw) -> Result<Limits, Fault> {
    let [least_read, least_write, least_trim] = least(job, rw)?;
    let rated = [&least_read, &least_write, &least_trim].iter().any(|rate| rate.is_some());
    let cycle_ms = job.count("rate_cycle").unwrap_or(RATE_CYCLE_MS).max(1);
    let [ignored_read, ignored_write, ignored_verify] = ignored(job)?;
    Ok(Limits {
        least_read,
        least_write,
        least_trim,
        least_over_ns: if rated { cycle_ms.saturating_mul(1_000_000) } else { 0 },
        ignored_read,
        ignored_write,
        ignored_verify,
    })
}

/// The least rate of each used direction.
fn least(job: &FioJob, rw: Rw) -> Result<[Option<Rate>; 3], Fault> {
    let used = used(rw);
    let rate_of = |name: &str, most: &str, rate: fn(f64) -> Rate| {
        let (given, limits) = (job.ways(name), job.ways(most));
        let mut rates = [None; 3];
        for way in (0..3).filter(|way| used[*way]) {
            let Some(least) = given[way].filter(|least| *least > 0) else { continue };
            if let Some(most) = limits[way].filter(|most| *most > 0 && *most < least) {
                let what = format!("{least} exceeds the rate, which is {most} at most");
                return Err(job.fault(name, what));
            }
            rates[way] = Some(rate(least as f64));
        }
        Ok(rates)
    };
    let bytes = rate_of("rate_min", "rate", Rate::Bytes)?;
    let ops = rate_of("rate_iops_min", "rate_iops", Rate::Ops)?;
    if bytes.iter().any(Option::is_some) && ops.iter().any(Option::is_some) {
        return Err(job.fault("rate_iops_min", "stands beside rate_min; give one of them"));
    }
    Ok([0, 1, 2].map(|way| bytes[way].or(ops[way])))
}

/// Error numbers that do not end the job: of reads, writes, verification.
fn ignored(job: &FioJob) -> Result<[Vec<i32>; 3], Fault> {
    let ways = match job.word("continue_on_error").map_or("none", |(word, _)| word) {
        "read" => [true, false, false],
        "write" => [false, true, false],
        "verify" => [false, false, true],
        "io" => [true, true, false],
        "all" | "1" => [true, true, true],
        _ => [false; 3],
    };
    let mut lists = ways.map(|way| if way { NOT_FATAL.to_vec() } else { Vec::new() });
    let name = "ignore_error";
    let Some(text) = job.text(name) else { return Ok(lists) };
    let given: Vec<&str> = text.split(',').collect();
    if given.len() > lists.len() {
        let what = format!("found `{}`, expected READ,WRITE,VERIFY at most", shown(text));
        return Err(job.fault(name, what));
    }
    for (list, text) in lists.iter_mut().zip(given) {
        let errors = text.split(':').map(str::trim).filter(|text| !text.is_empty());
        let errors: Result<Vec<i32>, String> = errors.map(errno).collect();
        let errors = errors.map_err(|what| job.fault(name, what))?;
        if !errors.is_empty() {
            *list = errors;
        }
    }
    Ok(lists)
}

/// The number of an error, given by name or number.
fn errno(text: &str) -> Result<i32, String> {
    if let Some(at) = ERRORS.iter().position(|known| *known == text) {
        return Ok(at as i32 + 1);
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let number = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(digits) => i32::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    number.ok().filter(|number| (1..=4095).contains(number)).ok_or_else(|| {
        format!(
            "found `{}`, expected errors such as ENOSPC:EIO, or their numbers: fio knows the names \
             of 1 to 34 (EPERM to ERANGE), such as ENOSPC, and 84 is EILSEQ, 122 EDQUOT",
            shown(text)
        )
    })
}

pub(super) fn flow(job: &FioJob) -> Result<Option<Flow>, Fault> {
    let Some(weight) = job.count("flow").filter(|weight| *weight > 0) else { return Ok(None) };
    if weight > 1000 {
        return Err(job.fault("flow", format!("found {weight}, expected a weight of 1 to 1000")));
    }
    Ok(Some(Flow {
        id: job.count("flow_id").unwrap_or(0),
        weight: narrow(job, "flow", weight)?,
        sleep_ns: job.count("flow_sleep").unwrap_or(0).saturating_mul(1000),
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::super::job::testing::read;
    use super::*;

    fn of(lines: &str) -> Result<Limits, String> {
        let file = read(&format!("[a]\nsize=1m\n{lines}")).unwrap();
        let job = &file.groups[0].jobs[0];
        limits(job, super::super::rw(job).unwrap()).map_err(|fault| fault.to_string())
    }

    #[test]
    fn errors_are_ignored_by_name_and_by_number() {
        let lists = |lines: &str| {
            let found = of(lines).unwrap();
            [found.ignored_read, found.ignored_write, found.ignored_verify]
        };
        assert_eq!(lists("ignore_error=EAGAIN,ENOSPC:122\n"), [vec![11], vec![28, 122], vec![]]);
        assert_eq!(lists("ignore_error=,,0x54\n"), [vec![], vec![], vec![84]]);
        assert_eq!(
            lists("continue_on_error=io\nignore_error=,ENOSPC\n"),
            [vec![5, 84], vec![28], vec![]]
        );
        assert!(lists("continue_on_error=none\n").iter().all(Vec::is_empty));
        assert!(of("ignore_error=EILSEQ\n").unwrap_err().contains("84 is EILSEQ"));
        assert!(of("ignore_error=1,2,3,4\n").unwrap_err().contains("READ,WRITE,VERIFY"));
        assert!(of("ignore_error=0\n").is_err());
    }

    #[test]
    fn a_lowest_rate_is_of_the_ways_that_the_job_goes() {
        let mixed = of("rw=randrw\nrate_iops_min=50,20\nrate_cycle=500\n").unwrap();
        assert_eq!(mixed.least_read, Some(Rate::Ops(50.0)));
        assert_eq!(mixed.least_write, Some(Rate::Ops(20.0)));
        assert_eq!((mixed.least_trim, mixed.least_over_ns), (None, 500_000_000));
        let read = of("rw=read\nrate_min=1m\n").unwrap();
        assert_eq!((read.least_read, read.least_write), (Some(Rate::Bytes(1048576.0)), None));
        assert!(of("rw=read\nrate=1m\nrate_min=2m\n").unwrap_err().contains("exceeds the rate"));
        assert!(of("rate_min=2m\nrate_iops_min=2\n").unwrap_err().contains("beside rate_min"));
    }
}
