//! `steadystate`: the run ends as soon as a figure is steady over a rolling window.

use super::super::job::{FioJob, Group};
use super::super::number::{self, KbBase, TimeUnit};
use super::super::{Fault, Faults, shown};
use super::the_same;
use crate::spec::{Settling, SettlingFigure};

const SECOND_NS: u64 = 1_000_000_000;
/// Most values of a window.
const MAX_INTERVALS: u64 = 4000;
/// fio's default criterion.
const USUAL: &str = "iops_slope:0.01%";

/// The common criterion of a group, which judges its jobs together, as fio does for a report group.
pub(super) fn of_group(group: &Group) -> Result<Option<Settling>, Faults> {
    let agreed = the_same(group, "steadystate", of_job)?;
    let (Some(_), Some(job)) = (agreed, group.jobs.first()) else { return Ok(None) };
    let clones: u64 = group.jobs.iter().map(|job| job.count("numjobs").unwrap_or(1)).sum();
    let apart = group.jobs.iter().find(|job| !job.is_on("group_reporting"));
    match apart {
        Some(_) if clones > 1 => {
            let what = "several jobs at the same time are judged together here: give \
                        group_reporting, or put them into groups with stonewall";
            Err(job.fault("steadystate", what).into())
        }
        _ if job.time_ns("latency_target").unwrap_or(0) > 0 => {
            let what = "stands beside latency_target, which determines the end; give one of them";
            Err(job.fault("steadystate", what).into())
        }
        _ => Ok(agreed),
    }
}

/// The criterion of a job; `None` without a duration, as in fio.
fn of_job(job: &FioJob) -> Result<Option<Settling>, Fault> {
    let window_ns = job.time_ns("steadystate_duration").unwrap_or(0);
    if window_ns == 0 {
        return Ok(None);
    }
    let interval_ns = job.time_ns("steadystate_check_interval").unwrap_or(SECOND_NS);
    if interval_ns < SECOND_NS {
        return Err(job.fault("steadystate_check_interval", "expected at least 1s"));
    }
    let intervals = window_ns / interval_ns;
    if !window_ns.is_multiple_of(interval_ns) || !(2..=MAX_INTERVALS).contains(&intervals) {
        let what = format!(
            "expected 2 to {MAX_INTERVALS} times steadystate_check_interval, which is {} s",
            interval_ns / SECOND_NS
        );
        return Err(job.fault("steadystate_duration", what));
    }
    let text = job.text("steadystate").unwrap_or(USUAL);
    let (figure, by_slope, limit, in_percent) =
        criterion(text).map_err(|what| job.fault("steadystate", what))?;
    Ok(Some(Settling {
        figure,
        by_slope,
        limit,
        in_percent,
        interval_ns,
        intervals: intervals as u32,
        ramp_ns: job.time_ns("steadystate_ramp_time").unwrap_or(0),
    }))
}

/// Parses `iops_slope:0.3%`: figure, whether by slope, limit, whether in percent.
fn criterion(text: &str) -> Result<(SettlingFigure, bool, f64, bool), String> {
    let expected = "expected iops, bw or lat, alone or with _slope, and a limit: iops_slope:0.3%";
    let wrong = || format!("found `{}`, {expected}", shown(text));
    let (word, limit) = text.split_once(':').ok_or_else(wrong)?;
    let (word, by_slope) = match word.trim().strip_suffix("_slope") {
        Some(word) => (word, true),
        None => (word.trim(), false),
    };
    let figure = match word {
        "iops" => SettlingFigure::Iops,
        "bw" => SettlingFigure::Bandwidth,
        "lat" => SettlingFigure::Latency,
        _ => return Err(wrong()),
    };
    let (value, in_percent) = match (limit.trim().strip_suffix('%'), figure) {
        (Some(percent), _) => (number::real(percent.trim())?, true),
        (None, SettlingFigure::Iops) => (number::real(limit.trim())?, false),
        (None, SettlingFigure::Bandwidth) => {
            (number::bytes(limit.trim(), KbBase::Binary)? as f64, false)
        }
        (None, SettlingFigure::Latency) => {
            (number::time_ns(limit.trim(), TimeUnit::Micros)? as f64, false)
        }
    };
    if value <= 0.0 {
        return Err(format!("found a limit of {value}, expected one above 0"));
    }
    Ok((figure, by_slope, value, in_percent))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::super::job::testing::read;
    use super::*;

    fn of(lines: &str) -> Result<Option<Settling>, String> {
        let file = read(&format!("[a]\nsize=1m\n{lines}")).unwrap();
        of_group(&file.groups[0]).map_err(|faults| faults.to_string())
    }

    #[test]
    fn the_criterion_is_read_as_fio_reads_it() {
        let found = of("ss=iops_slope:0.3%\nss_dur=1m\nss_ramp=5\n").unwrap().unwrap();
        assert_eq!((found.figure, found.by_slope), (SettlingFigure::Iops, true));
        assert_eq!((found.limit, found.in_percent), (0.3, true));
        assert_eq!((found.intervals, found.ramp_ns), (60, 5 * SECOND_NS));
        let found = of("ss=bw:2k\nss_dur=10\nss_interval=2\n").unwrap().unwrap();
        assert_eq!((found.limit, found.intervals, found.by_slope), (2048.0, 5, false));
        assert_eq!(of("ss=lat:5us\nss_dur=9\n").unwrap().unwrap().limit, 5_000.0);
        assert_eq!(of("ss=iops:2\n").unwrap(), None, "no duration: fio does not judge");
        for (lines, expected) in [
            ("ss=fast:2\nss_dur=9\n", "found `fast:2`, expected iops, bw or lat"),
            ("ss=iops\nss_dur=9\n", "found `iops`"),
            ("ss=iops:x\nss_dur=9\n", "expected a number"),
            ("ss=iops:0\nss_dur=9\n", "above 0"),
            ("ss=iops:1\nss_dur=1\n", "steadystate_duration: expected 2 to"),
            ("ss=iops:1\nss_dur=9\nss_interval=500ms\n", "at least 1s"),
            ("ss=iops:1\nss_dur=9\nnumjobs=2\n", "give group_reporting"),
            ("ss=iops:1\nss_dur=9\nlatency_target=5\n", "beside latency_target"),
        ] {
            let error = of(lines).unwrap_err();
            assert!(error.contains(expected), "{lines}: {error}");
        }
        assert!(of("ss=iops:1\nss_dur=9\nnumjobs=2\ngroup_reporting\n").is_ok());
    }
}
