//! One line on the end of a run that stops once a figure is precise enough.

use iosonde_analysis::precision::{Ended, PrecisionFigures};
use iosonde_model::plan::Metric;
use iosonde_model::units::{bytes, count, duration};

/// `stopped after 37 s: p99 1.84 ms ±2.9 % (requested ±3 %)`
pub(crate) fn precision_text(figures: &PrecisionFigures) -> String {
    let subject = figures.requested.subject();
    let requested = (1e6 * figures.requested.width).round() / 1e4;
    let known = known(figures);
    let seconds = duration::span(figures.measured_ns);
    let limit = |limit: String| {
        format!(
            "stopped by the limit of {limit}: at the last check {subject} was {known}, requested \
             ±{requested} %"
        )
    };
    let line = match figures.ended {
        Ended::Reached => {
            format!("stopped after {seconds}: {subject} {known} (requested ±{requested} %)")
        }
        Ended::TimeLimit => limit(duration::span(figures.most_ns)),
        Ended::ByteLimit => {
            limit(format!("{} per job", bytes::exact(figures.most_bytes.unwrap_or(0))))
        }
        Ended::Unsustainable => format!(
            "no answer after {seconds}: {subject} cannot be determined (requested ±{requested} %), \
             because the backlog grows"
        ),
        Ended::Early => {
            format!("ended early, after {seconds}: {subject} {known}, requested ±{requested} %")
        }
    };
    format!("  {line}\n")
}

fn known(figures: &PrecisionFigures) -> String {
    let (Some(value), Some(half_width)) = (figures.value, figures.half_width) else {
        return "is not known yet".into();
    };
    let value = match figures.requested.metric {
        Metric::Iops => format!("{} IOPS", count::significant_or_whole(value)),
        Metric::Bandwidth | Metric::Durable => bytes::per_second(value),
        Metric::Mean | Metric::Max | Metric::Quantile(_) => duration::latency(value),
    };
    // Rounded up, so that the precision is never overstated.
    format!("{value} ±{} %", (half_width * 1000.0).ceil() / 10.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use iosonde_model::plan::Precision;

    #[test]
    fn every_end_has_its_line() {
        let reached = PrecisionFigures {
            ended: Ended::Reached,
            requested: Precision::parse("p99+-3%").unwrap(),
            value: Some(1_840_000.0),
            half_width: Some(0.0287),
            intervals: 370,
            at_ns: 37_000_000_000,
            measured_ns: 37_000_000_000,
            most_ns: 600_000_000_000,
            most_bytes: None,
            looks: 28,
        };
        let text = |figures: &PrecisionFigures| precision_text(figures).trim().to_owned();
        assert_eq!(text(&reached), "stopped after 37.0 s: p99 1.84 ms ±2.9 % (requested ±3 %)");
        let limit = PrecisionFigures {
            ended: Ended::TimeLimit,
            half_width: Some(0.051),
            ..reached.clone()
        };
        let expected = "stopped by the limit of 10 min 0 s: at the last check p99 was 1.84 ms \
                        ±5.1 %, requested ±3 %";
        assert_eq!(text(&limit), expected);
        let nothing = PrecisionFigures { ended: Ended::Early, value: None, ..reached.clone() };
        assert!(text(&nothing).ends_with("p99 is not known yet, requested ±3 %"));
        let full = PrecisionFigures {
            ended: Ended::ByteLimit,
            most_bytes: Some(10 << 30),
            ..reached.clone()
        };
        assert!(text(&full).starts_with("stopped by the limit of 10 GiB per job: at the last"));
        let grows = PrecisionFigures { ended: Ended::Unsustainable, ..reached };
        assert!(text(&grows).contains("the backlog grows"));
    }
}
