//! Whether a run reached fio's steady state (`steadystate`), as fio reports it.

use std::collections::VecDeque;

use serde_json::{Value, json};

use iosonde_model::plan::{PrecisionGoal, Settling, SettlingFigure};
use iosonde_model::record::run::Run;
use iosonde_stats::settled::Settled;

/// The window at the end of a run with a steady-state criterion.
struct Window {
    settling: Settling,
    attained: bool,
    /// Operations and bytes per second, and latencies in ns, oldest first; 0 if not measured.
    iops: Vec<f64>,
    bytes_per_s: Vec<f64>,
    latency_ns: Vec<f64>,
    judged: Settled,
}

/// `None` if the run has no steady-state criterion.
fn window(run: &Run) -> Option<Window> {
    let PrecisionGoal::Settled(settling) = run.plan.until else { return None };
    let record = run.precision.as_ref()?;
    let size = settling.intervals as usize;
    let mut last = VecDeque::new();
    for look in &record.looks {
        // A late check counts for all intervals that it covers.
        last.extend((0..look.intervals).map(|_| look));
        last.drain(..last.len().saturating_sub(size));
    }
    let padded = |of: fn(&iosonde_model::record::precision::PrecisionCheck) -> Option<f64>| {
        let mut values: Vec<f64> = last.iter().map(|look| of(look).unwrap_or(0.0)).collect();
        values.resize(size, 0.0);
        values
    };
    let iops = padded(|look| look.value);
    let bytes_per_s = padded(|look| look.bytes_per_s);
    let latency_ns = padded(|look| look.mean_latency_ns);
    let judged = match (last.len() == size, settling.figure) {
        (false, _) => Settled::default(),
        (true, SettlingFigure::Iops) => Settled::of(&iops),
        (true, SettlingFigure::Bandwidth) => Settled::of(&bytes_per_s),
        (true, SettlingFigure::Latency) => Settled::of(&latency_ns),
    };
    Some(Window { settling, attained: record.reached, iops, bytes_per_s, latency_ns, judged })
}

fn mean(values: &[f64]) -> u64 {
    (values.iter().sum::<f64>() / values.len().max(1) as f64) as u64
}

impl Window {
    /// The slope or the deviation, as a percentage if requested.
    fn criterion(&self) -> f64 {
        let Settling { by_slope, in_percent, .. } = self.settling;
        self.judged.criterion(by_slope, in_percent).unwrap_or(0.0)
    }
}

/// fio's JSON object `steadystate`.
pub(super) fn object(run: &Run) -> Option<Value> {
    let window = window(run)?;
    let Settling { figure, by_slope, limit, in_percent, .. } = window.settling;
    let percent = if in_percent { "%" } else { "" };
    let whole = |values: &[f64]| values.iter().map(|value| *value as u64).collect::<Vec<_>>();
    let mut data = json!({
        "bw_mean": mean(&window.bytes_per_s),
        "iops_mean": mean(&window.iops),
        "iops": whole(&window.iops),
        "bw": whole(&window.bytes_per_s),
    });
    if figure == SettlingFigure::Latency {
        data["lat_mean"] = json!(mean(&window.latency_ns));
        data["lat_ns"] = json!(whole(&window.latency_ns));
    }
    let only = |judged: bool, value: f64| if judged { value } else { 0.0 };
    Some(json!({
        "ss": format!("{}:{limit:.6}{percent}", window.settling.criterion()),
        "duration": window.settling.window_ns() / 1_000_000_000,
        "attained": u8::from(window.attained),
        "criterion": format!("{:.6}{percent}", window.criterion()),
        "max_deviation": only(!by_slope, window.judged.max_deviation),
        "slope": only(by_slope, window.judged.slope),
        "data": data,
    }))
}

/// fio's steady-state line; `None` if the run has no steady-state criterion.
pub fn settled_text(run: &Run) -> Option<String> {
    let window = window(run)?;
    let Settling { figure, by_slope, in_percent, .. } = window.settling;
    let bytes_per_s = mean(&window.bytes_per_s);
    Some(format!(
        "  steadystate attained={}, bw={:.1} MB/s ({:.1} MiB/s), iops={}, {} {}={:.3}{} \
         (limit {})",
        if window.attained { "yes" } else { "no" },
        bytes_per_s as f64 / 1e6,
        bytes_per_s as f64 / f64::from(1 << 20),
        mean(&window.iops),
        figure.word(),
        if by_slope { "slope" } else { "mean dev" },
        window.criterion(),
        if in_percent { "%" } else { "" },
        window.settling,
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::PrecisionRun;
    use iosonde_model::record::precision::PrecisionCheck;

    fn settling_run(values: &[f64], reached: bool) -> Run {
        let mut run = run_of(&[Load::default()]);
        run.plan.until = PrecisionGoal::Settled(Settling {
            figure: SettlingFigure::Iops,
            by_slope: true,
            limit: 0.3,
            in_percent: true,
            interval_ns: 1_000_000_000,
            intervals: 3,
            ramp_ns: 0,
        });
        let look = |(index, value): (usize, &f64)| PrecisionCheck {
            at_ns: (index as u64 + 1) * 1_000_000_000,
            intervals: 1,
            value: Some(*value),
            bytes_per_s: Some(value * 4096.0),
            ..PrecisionCheck::default()
        };
        let looks = values.iter().enumerate().map(look).collect();
        run.precision = Some(PrecisionRun { reached, looks, unlisted: 0 });
        run
    }

    #[test]
    fn the_last_window_is_what_fio_prints() {
        let run = settling_run(&[50.0, 99.0, 100.0, 101.0], true);
        let object = object(&run).unwrap();
        assert_eq!(object["ss"], "iops_slope:0.300000%");
        assert_eq!((&object["attained"], &object["duration"]), (&json!(1), &json!(3)));
        assert_eq!(object["data"]["iops"], json!([99, 100, 101]));
        assert_eq!(object["data"]["bw_mean"], 409_600);
        assert_eq!((&object["slope"], &object["criterion"]), (&json!(1.0), &json!("1.000000%")));
        let text = settled_text(&run).unwrap();
        assert!(text.contains("attained=yes"), "{text}");
    }

    #[test]
    fn a_window_that_never_filled_has_zeros_at_its_end_and_no_criterion() {
        let object = object(&settling_run(&[50.0], false)).unwrap();
        assert_eq!(object["data"]["iops"], json!([50, 0, 0]));
        assert_eq!((&object["attained"], &object["criterion"]), (&json!(0), &json!("0.000000%")));
        assert_eq!(settled_text(&run_of(&[Load::default()])), None);
    }
}
