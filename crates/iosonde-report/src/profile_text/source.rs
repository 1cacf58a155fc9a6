//! Trust in the figures: consistency checks, findings, source, missing data, tool overhead.

use crate::clean::clean;
use crate::wrap::Text;
use iosonde_analysis::consistency::Identity;
use iosonde_analysis::finding::Finding;
use iosonde_analysis::profile::Figures;
use iosonde_analysis::profile::consistency::matters;
use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::Method;
use iosonde_model::units::count;

use super::cells::percent;

/// Warning at the top of the report if a consistency check failed.
pub(super) fn unbalanced(out: &mut Text, figures: &Figures) {
    if figures.consistency.broken().any(matters) {
        let words = if figures.consistency.valid() {
            "Some consistency checks failed; do not rely on what these lines name:"
        } else {
            "CONSISTENCY CHECKS FAILED: do not rely on the figures below."
        };
        out.hanging("", words);
        broken(out, figures.consistency.broken().filter(|entry| matters(entry)));
    }
}

fn broken<'a>(out: &mut Text, entries: impl Iterator<Item = &'a Identity>) {
    for entry in entries {
        let words = format!(
            "{} (off by {}, tolerance {})",
            clean(&entry.words()),
            count::percent(entry.residual),
            count::percent(entry.tolerance)
        );
        out.hanging("  - ", &words);
    }
}

/// The findings with their evidence.
pub(super) fn findings(out: &mut Text, figures: &Figures) {
    if !figures.findings.is_empty() {
        out.push_str("\nFindings:\n");
        found(figures).iter().for_each(|words| out.hanging("  - ", words));
    }
}

/// The words of each finding with its code and its strength.
pub(super) fn found(figures: &Figures) -> Vec<String> {
    let words = |finding: &Finding| {
        format!("{} [{}: {}]", clean(&finding.words), finding.code, finding.strength.word())
    };
    figures.findings.iter().map(words).collect()
}

/// Consistency, method, missing data with the fix, lost records, and the cost of tracing.
pub(super) fn source(out: &mut Text, run: &ProfileRun, figures: &Figures) {
    out.push('\n');
    let off = figures.consistency.broken().count();
    let consistency = match figures.consistency.entries.len() {
        0 => "nothing to compare: sums from one source only".to_owned(),
        1 if off == 0 => "1 check passed".to_owned(),
        all if off == 0 => format!("all {all} checks passed"),
        all => format!("{off} of {all} checks failed"),
    };
    out.hanging("Consistency: ", &consistency);
    broken(out, figures.consistency.broken().filter(|entry| !matters(entry)));
    out.hanging("Source: ", &method(run));
    for device in &figures.devices {
        if let Some(reason) = &device.invisible {
            let words = format!("not visible on {}: {}", clean(&device.name), clean(reason));
            out.hanging("  ", &words);
        }
    }
    for missing in &run.source.missing {
        let fix = missing.fix.as_deref().map(|fix| format!("; to get it: {}", clean(fix)));
        let words = format!(
            "no {}: {}{}",
            clean(&missing.what),
            clean(&missing.reason),
            fix.unwrap_or_default()
        );
        out.hanging("  ", &words);
    }
    let lost = match run.lost.values().sum::<u64>() {
        0 => "0".to_owned(),
        _ => {
            let each = run
                .lost
                .iter()
                .map(|(what, times)| format!("{} {}", clean(what), count::thousands(*times)));
            each.collect::<Vec<_>>().join(", ")
        }
    };
    if run.source.method == Method::Tracepoints {
        out.hanging("Lost: ", &lost);
    }
    out.hanging("Tool overhead: ", &overhead(figures));
}

fn method(run: &ProfileRun) -> String {
    match run.source.method {
        Method::Tracepoints => {
            let attached =
                run.source.programs.iter().filter(|program| program.refused.is_none()).count();
            let programs = match run.source.programs.len() {
                0 => String::new(),
                all => format!("; {attached} of {all} kernel programs attached"),
            };
            let attribution = match run.source.attribution.as_str() {
                "" => String::new(),
                event => format!(", attributed at {}", clean(event)),
            };
            format!("every request, at the block layer's tracepoints{attribution}{programs}")
        }
        Method::Counters => "counters of the process and of the devices: sums only, the devices' \
                             of everybody"
            .into(),
    }
}

fn overhead(figures: &Figures) -> String {
    match figures.machine.collector_cpu {
        Some(share) => format!("collector {} of one CPU", percent(share)),
        None => "no data (not counted)".into(),
    }
}
