//! Consent and dry-run reports of `run` for block devices that it would write.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::RunArgs;
use crate::cli::exit::{Exit, Failure, wrong};
use crate::cli::keep;
use crate::cli::output::Output;
use iosonde_engine::host::Root;
use iosonde_engine::target::Intent;
use iosonde_engine::target::gate::Report;
use iosonde_engine::target::passthrough::block_node;
use iosonde_model::plan::{self, Plan, Stop};
use iosonde_model::units::bytes;
use iosonde_report::fio_job::fio_job;

/// Intended use of this target, with the given consents.
pub(super) fn intent(args: &RunArgs, path: &Path, write: bool) -> Intent {
    args.target.consent.intent(path, write, args.run.results.as_deref(), args.run.dry_run)
}

/// Prints the plan and what prevents it; writes to no device.
pub(super) fn dry_run(
    args: &RunArgs,
    root: &Root,
    plan: &Plan,
    fresh: &[u16],
    mut output: Output,
) -> Result<Exit, Failure> {
    if output.is_fio_job() {
        let text = fio_job(&[(plan, fresh)]).map_err(wrong)?;
        output.fio_job(&text);
    }
    let paths = if plan.writes() { args.target.paths() } else { Vec::new() };
    let reports = reports(args, root, plan, &paths)?;
    let devices: Vec<serde_json::Value> = reports.iter().map(DeviceReport::value).collect();
    output.value(&json!({ "plan": plan, "devices": devices }));
    output.text(&plan::describe::describe(plan));
    reports.iter().for_each(|reports| output.text(&reports.text()));
    let refused = reports.iter().any(|reports| reports.refused.is_some());
    Ok(output.end(if refused { Exit::Refused } else { Exit::Done }))
}

/// Reports on the block devices among the paths, all of which the plan writes.
pub(super) fn reports(
    args: &RunArgs,
    root: &Root,
    plan: &Plan,
    paths: &[PathBuf],
) -> Result<Vec<DeviceReport>, Failure> {
    let mut reports = Vec::new();
    for path in paths {
        // A generic device writes to its block device.
        let path = &block_node(root, path)?.unwrap_or_else(|| path.clone());
        if std::path::absolute(path).is_ok_and(|absolute| root.node(absolute).is_some()) {
            reports.push(DeviceReport::of(args, root, plan, path)?);
        }
    }
    Ok(reports)
}

/// Dry-run report on a device.
pub(super) struct DeviceReport {
    report: Report,
    /// Largest number of bytes written; `None` if only time ends the plan.
    write_bytes: Option<u64>,
    pub(super) refused: Option<String>,
}

impl DeviceReport {
    fn of(args: &RunArgs, root: &Root, plan: &Plan, path: &Path) -> Result<DeviceReport, Failure> {
        let results = keep::directory(args.run.results.as_deref());
        let how = args.target.consent.inspection();
        let report = Report::of(root, path, results.as_deref(), how)?;
        let refused = report
            .objection(args.target.consent.of_devices())
            .map(|objection| objection.to_string());
        Ok(DeviceReport { report, write_bytes: write_bytes(plan), refused })
    }

    pub(super) fn value(&self) -> serde_json::Value {
        let report = &self.report;
        let findings = report.findings.iter().map(|finding| {
            json!({ "kind": finding.kind, "title": finding.title, "offset": finding.offset })
        });
        let uses: Vec<String> = report.in_use.uses.iter().map(ToString::to_string).collect();
        let unseen = &report.in_use.unseen;
        json!({
            "path": report.path,
            "node": report.node,
            "name": report.identity.name,
            "id": report.identity.id,
            "model": report.identity.model,
            "bytes": report.identity.bytes,
            "read_only": report.identity.read_only,
            "uses": uses,
            "unseen": (!unseen.is_empty()).then(|| unseen.to_string()),
            "shares_disk_with": report.shares_disk_with,
            "findings": findings.collect::<Vec<_>>(),
            "inspected_bytes": report.contents.seen.inspected_bytes,
            "write_bytes_at_most": self.write_bytes,
            "consent": report.options(),
            "refused": self.refused,
        })
    }

    pub(super) fn text(&self) -> String {
        let report = &self.report;
        let found: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        let found = match (found.as_slice(), report.contents.unseen_bytes()) {
            ([], 0) => "no data: all of it is zero or written by iosonde".into(),
            ([], _) => format!("no data that was found: {}", report.contents.seen),
            _ => found.join(", "),
        };
        let writes = match self.write_bytes {
            Some(most) => format!(
                "at most {}, {:.3} of the device's size",
                bytes::exact(most),
                most as f64 / report.identity.bytes.max(1) as f64
            ),
            None => "depends on the speed of the device; not known in advance".into(),
        };
        let unseen = match &report.in_use.unseen {
            unseen if unseen.is_empty() => String::new(),
            unseen => format!("  unseen    {unseen}\n"),
        };
        let verdict = match &self.refused {
            Some(reason) => format!("refused: {reason}"),
            None => "ready to run".into(),
        };
        format!(
            "device {}\n  identity  {}\n  holds     {found}\n  wear      writes {writes}\n{unseen}\
             \x20 {verdict}\n",
            report.device(),
            report.identity.id,
        )
    }
}

/// Largest number of bytes that a plan writes or trims; `None` if only time ends it.
fn write_bytes(plan: &Plan) -> Option<u64> {
    let share = |job: &plan::Job, bytes: u64| {
        let phases = job.phases.iter().filter_map(|phase| phase.read_percent);
        let reads = phases.fold(job.read_percent, u8::min).min(100);
        // Reads are drawn at random, so only all bytes are an upper bound.
        if reads == 100 { 0 } else { bytes }
    };
    let each = plan.jobs.iter().map(|job| match plan.stop_of(job) {
        // The syncs of other jobs determine the number.
        _ if matches!(job.commit, Some(plan::Commit::Writes(_))) => None,
        Stop::AfterNs(_) | Stop::EachJob => None,
        Stop::AfterOps(ops) => Some(share(job, ops.checked_mul(job.block_bytes)?)),
        Stop::AfterBytes(bytes) | Stop::AfterNsOrBytes(_, bytes) => Some(share(job, bytes)),
        Stop::AfterOnePass => Some(share(job, job.region_bytes)),
    });
    each.sum()
}
