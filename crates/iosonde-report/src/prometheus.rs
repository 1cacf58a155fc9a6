//! Figures in Prometheus' text format, for the textfile collector of the node exporter. Values have
//! Prometheus' base units, seconds and bytes.

use std::fmt::Write;

use super::clean::clean;
use super::json::Document;
use super::progress::Pace;
use iosonde_analysis::Assessment;
use iosonde_analysis::arrivals::{ArrivalFigures, ArrivalVerdict};
use iosonde_analysis::figures::DirectionFigures;
use iosonde_model::record::run::Run;
use iosonde_stats::Quantile;

/// Start of every file written here.
pub const OPENING: &str = "# HELP iosonde_";

/// A metric under construction: `# HELP` and `# TYPE` once, then its samples.
struct Metrics(String);

impl Metrics {
    fn new() -> Metrics {
        let mut metrics = Metrics(String::new());
        metrics.family("iosonde_info", "gauge", "The program; always 1.");
        metrics.sample("iosonde_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        metrics
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, labels: &[(&str, &str)], value: f64) {
        self.family(name, kind, help);
        self.sample(name, labels, value);
    }
}

/// Escapes the control characters, backslashes and quotes of a label value.
fn escaped(text: &str) -> String {
    clean(text).replace('\\', "\\\\").replace('"', "\\\"")
}

/// Metrics of a running command.
pub fn live(pace: &Pace) -> String {
    let mut out = Metrics::new();
    let labels = [("verb", pace.verb), ("workload", pace.title.as_str())];
    running(&mut out, pace.verb, true);
    let mut put = |name, kind, help, value| out.one(name, kind, help, &labels, value);
    put("iosonde_run_number", "gauge", "Which run of the command this is.", (pace.cell + 1) as f64);
    put("iosonde_runs", "gauge", "Runs of the whole command.", pace.cells as f64);
    let help = "Time since the start of the run, warm-up included.";
    put("iosonde_elapsed_seconds", "gauge", help, pace.elapsed_ns as f64 / 1e9);
    if let Some(left_ns) = pace.left_ns {
        let help = "Time left for the whole command.";
        put("iosonde_remaining_seconds", "gauge", help, left_ns as f64 / 1e9);
    }
    let help = "Operations completed since the start of the run, warm-up included.";
    put("iosonde_operations_total", "counter", help, pace.ops as f64);
    let help = "Operations per second since the last sample.";
    put("iosonde_live_iops", "gauge", help, pace.iops);
    out.0
}

/// Metrics of a command that has ended. A run that fails a consistency check has no figures.
pub fn ended(document: &Document<'_>) -> String {
    let mut out = Metrics::new();
    running(&mut out, document.verb, false);
    let verb = [("verb", document.verb)];
    let help = "Whether everything that was asked for was done.";
    out.one("iosonde_complete", "gauge", help, &verb, f64::from(u8::from(document.complete)));
    let help = "Exit code of the command.";
    out.one("iosonde_exit_code", "gauge", help, &verb, f64::from(document.exit_code));
    let valid = |(_, facts): &&(&Run, &Assessment)| facts.consistency.valid();
    let cells: Vec<_> = document.cells.iter().filter(valid).collect();
    type Value = fn(&DirectionFigures) -> f64;
    let directed: [(&str, &str, Value); 4] = [
        ("iosonde_operations", "Operations completed in the measured window.", |of| of.ops as f64),
        ("iosonde_bytes", "Bytes moved in the measured window.", |of| of.bytes as f64),
        ("iosonde_iops", "Operations per second.", |of| of.iops),
        ("iosonde_bytes_per_second", "Bytes per second.", |of| of.bytes_per_s),
    ];
    for (name, help, value) in directed {
        out.family(name, "gauge", help);
        for (run, facts) in &cells {
            for (word, direction) in facts.figures.all.directions() {
                let labels = [("workload", run.plan.name.as_str()), ("direction", word)];
                out.sample(name, &labels, value(direction));
            }
        }
    }
    out.family("iosonde_latency_seconds", "summary", "Latency of an operation.");
    for (run, facts) in &cells {
        for (word, direction) in facts.figures.all.directions() {
            summary(&mut out, &run.plan.name, word, direction);
        }
    }
    arrivals(&mut out, &cells);
    out.family("iosonde_errors", "gauge", "I/O errors, warm-up included.");
    for (run, facts) in &cells {
        let labels = [("workload", run.plan.name.as_str())];
        out.sample("iosonde_errors", &labels, facts.figures.errors as f64);
    }
    out.0
}

/// Operations due in open loops, and whether the storage sustained the rate.
fn arrivals(out: &mut Metrics, cells: &[&(&Run, &Assessment)]) {
    let open: Vec<(&str, &ArrivalFigures)> = cells
        .iter()
        .filter_map(|(run, facts)| Some((&*run.plan.name, facts.figures.arrivals.as_ref()?)))
        .collect();
    if open.is_empty() {
        return;
    }
    out.family("iosonde_arrivals", "gauge", "Operations of an open loop in the measured window.");
    for (workload, figures) in &open {
        let counts = [
            ("due", figures.due),
            ("late", figures.late),
            ("queued", figures.queued),
            ("dropped", figures.dropped),
        ];
        for (fate, count) in counts {
            let labels = [("workload", *workload), ("fate", fate)];
            out.sample("iosonde_arrivals", &labels, count as f64);
        }
    }
    let help = "0 where the backlog of an open loop grew: its latencies are withheld.";
    out.family("iosonde_sustainable", "gauge", help);
    for (workload, figures) in &open {
        let kept_up = figures.verdict != ArrivalVerdict::Unsustainable;
        let value = f64::from(u8::from(kept_up));
        out.sample("iosonde_sustainable", &[("workload", workload)], value);
    }
}

fn running(out: &mut Metrics, verb: &str, running: bool) {
    let help = "1 while the command measures, 0 once it has ended.";
    out.one("iosonde_running", "gauge", help, &[("verb", verb)], f64::from(u8::from(running)));
}

/// Quantiles with enough samples, sum and count of one direction.
fn summary(out: &mut Metrics, workload: &str, word: &str, direction: &DirectionFigures) {
    let name = "iosonde_latency_seconds";
    let latency = &direction.latency;
    let labels = [("workload", workload), ("direction", word)];
    for quantile in &latency.quantiles {
        if let Some(ns) = Quantile::value_ns(quantile) {
            let q = format!("{}", (quantile.q * 1e6).round() / 1e6);
            out.sample(name, &[labels[0], labels[1], ("quantile", &q)], ns as f64 / 1e9);
        }
    }
    // Latencies are withheld or were not measured.
    let Some(mean_ns) = latency.mean_ns else { return };
    let sum_ns = mean_ns * latency.count as f64;
    out.sample("iosonde_latency_seconds_sum", &labels, sum_ns / 1e9);
    out.sample("iosonde_latency_seconds_count", &labels, latency.count as f64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_golden;
    use iosonde_analysis::assess;
    use iosonde_fixtures::{Load, open_run_of, run_of};

    fn pace() -> Pace {
        Pace {
            verb: "run",
            title: "randread".into(),
            cell: 0,
            cells: 1,
            elapsed_ns: 1_500_000_000,
            left_ns: Some(8_500_000_000),
            ops: 20_000,
            iops: 12_345.5,
        }
    }

    /// Checks the rules of the format: each family is declared once, before its samples, and every
    /// sample belongs to the family declared last.
    fn assert_format(text: &str) {
        let mut seen = std::collections::BTreeSet::new();
        let mut family = "";
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                family = rest.split(' ').next().unwrap_or_default();
                assert!(seen.insert(family), "{family} twice");
            } else if !line.starts_with("# HELP ") {
                let name = line.split(['{', ' ']).next().unwrap_or_default();
                let bare = name.trim_end_matches("_sum").trim_end_matches("_count");
                assert!(name == family || bare == family, "{line} under {family}");
                let value = line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
                assert!(value.is_some(), "{line}");
            }
        }
        assert!(text.starts_with(OPENING) && text.ends_with('\n'));
    }

    #[test]
    fn a_running_and_an_ended_command_stand_as_kept() {
        let version = env!("CARGO_PKG_VERSION");
        let text = live(&pace());
        assert_format(&text);
        assert_golden("live.prom", &text.replace(version, "…"));
        let run = run_of(&[Load { read_percent: 70, noise: 0.0, ..Load::default() }]);
        let facts = assess(&run, None);
        let cells = [(&run, &facts)];
        let document =
            Document { verb: "run", complete: true, cells: &cells, ..Default::default() };
        let text = ended(&document);
        assert_format(&text);
        assert_golden("ended.prom", &text.replace(version, "…"));
        // T20: seconds and bytes.
        assert!(text.contains(
            "iosonde_bytes_per_second{workload=\"database\",direction=\"read\"} 14336000\n"
        ));
        let mean: Vec<f64> = ["_sum", "_count"]
            .iter()
            .filter_map(|part| {
                let name = format!("iosonde_latency_seconds{part}");
                let line = text.lines().find(|line| line.starts_with(&name))?;
                line.rsplit(' ').next()?.parse().ok()
            })
            .collect();
        assert!((mean[0] / mean[1] / 6.4e-3 - 1.0).abs() < 0.01, "{mean:?}");
    }

    #[test]
    fn an_open_loop_that_falls_behind_says_so_and_has_no_latency() {
        let load = Load { depth: 1, iops: 1_000.0, ..Load::default() };
        let formatted = |backlog: fn(u64) -> u64| {
            let run = open_run_of(&load, backlog);
            let facts = assess(&run, None);
            let cells = [(&run, &facts)];
            let text = ended(&Document { verb: "run", cells: &cells, ..Document::default() });
            assert_format(&text);
            let latency = text.contains("iosonde_latency_seconds_count{");
            (text.contains("iosonde_sustainable{workload=\"database\"} 1\n"), latency)
        };
        assert_eq!(formatted(|_| 0), (true, true));
        assert_eq!(formatted(|tenth| tenth * 50_000_000), (false, false));
    }

    #[test]
    fn labels_are_escaped() {
        let text = live(&Pace { title: "a\"b\\c\nd\u{1b}[31m".into(), ..pace() });
        assert!(text.contains(r#"workload="a\"b\\c\\nd\\x1b[31m""#), "{text}");
        assert_format(&text);
    }
}
