//! Estimates the cost of an experiment: runs, time, bytes written, wear.

use serde_json::{Value, json};

use super::execution::cell_name;
use super::resolved_target::ResolvedTarget;
use crate::cli::exit::{Failure, wrong};
use iosonde_model::plan::design::{self, Found};
use iosonde_model::plan::precondition::active_range;
use iosonde_model::plan::trial::trial;
use iosonde_model::spec::Experiment;
use iosonde_model::spec::experiment::{Claims, Stage};
use iosonde_model::units::{bytes, count, duration};
use iosonde_report::clean::clean;

/// Assumed rate of a run with writes before anything was measured, bytes per second.
const ASSUMED_BYTES_PER_S: f64 = 500e6;

/// Cost of an experiment.
pub(super) struct Estimate {
    name: String,
    target: String,
    layout_bytes: u64,
    stages: Vec<StageEstimate>,
    endurance_bytes: Option<u64>,
    /// Limit of bytes written, if any.
    limit_bytes: Option<u64>,
}

struct StageEstimate {
    name: String,
    /// Whether it purges or preconditions.
    prepares: bool,
    cells: Vec<String>,
    refused: Vec<(String, String)>,
    repeats: u32,
    /// Minimum and maximum number of rounds of a stage in rounds.
    rounds: Option<(u32, u32)>,
    precondition_bytes: u64,
    length_ns: u64,
    writing_ns: u64,
    note: String,
}

impl Estimate {
    /// Designs all stages without touching the target.
    pub(super) fn of(
        experiment: &Experiment,
        claims: Option<&Claims>,
        resolved: &ResolvedTarget,
        (endurance_bytes, limit_bytes): (Option<u64>, Option<u64>),
    ) -> Result<Estimate, Failure> {
        let mut stages = Vec::new();
        for stage in &experiment.stages {
            stages.push(StageEstimate::of(stage, claims, resolved)?);
        }
        Ok(Estimate {
            name: experiment.name.clone(),
            target: resolved.words.clone(),
            layout_bytes: resolved.layout_bytes(&experiment.stages),
            stages,
            endurance_bytes,
            limit_bytes,
        })
    }

    fn length_ns(&self) -> u64 {
        self.stages.iter().map(|stage| stage.length_ns).sum()
    }

    /// Bytes written by the runs at the assumed rate, up to the limit.
    fn assumed_bytes(&self) -> u64 {
        let seconds: f64 = self.stages.iter().map(|stage| stage.writing_ns as f64 / 1e9).sum();
        let before = self.layout_bytes.saturating_add(self.precondition_bytes());
        let most = self.limit_bytes.map_or(u64::MAX, |limit| limit.saturating_sub(before));
        most.min((seconds * ASSUMED_BYTES_PER_S) as u64)
    }

    fn wear(&self) -> Option<f64> {
        let endurance = self.endurance_bytes.filter(|bytes| *bytes > 0)?;
        let before = self.layout_bytes.saturating_add(self.precondition_bytes());
        Some(before.saturating_add(self.assumed_bytes()) as f64 / endurance as f64 * 100.0)
    }

    fn precondition_bytes(&self) -> u64 {
        let each = self.stages.iter().map(|stage| stage.precondition_bytes);
        each.fold(0, u64::saturating_add)
    }

    /// As text.
    pub(super) fn text(&self) -> String {
        let mut out = format!("{} on {}\n\n", self.name, clean(&self.target));
        for stage in &self.stages {
            let cells = count::of(stage.cells.len() as u64, "cell");
            let (runs, upto) = match stage.rounds {
                None => (format!("{} runs", stage.repeats), ""),
                Some((least, most)) => (format!("{least} to {most} rounds"), "up to "),
            };
            out += &format!(
                "  {}: {cells} x {runs}, {upto}{}{}\n",
                stage.name,
                duration::span(stage.length_ns),
                stage.note
            );
            if stage.precondition_bytes > 0 {
                let size = bytes::exact(stage.precondition_bytes);
                out += &format!("      preconditioning writes {size}\n");
            }
            for cell in &stage.cells {
                out += &format!("      {}\n", clean(cell));
            }
            for (cell, reason) in &stage.refused {
                out += &format!("      left out: {}: {}\n", clean(cell), clean(reason));
            }
        }
        let assumed = bytes::rough(self.assumed_bytes());
        let preconditioned = match self.precondition_bytes() {
            0 => String::new(),
            some => format!("; {} by preconditioning", bytes::rough(some)),
        };
        out += &format!(
            "\n  time     {} plus preparing the test file\n  written  {} to prepare the test \
             file{preconditioned}; up to {assumed} by the runs, if they write {}\n",
            duration::span(self.length_ns()),
            bytes::rough(self.layout_bytes),
            bytes::per_second(ASSUMED_BYTES_PER_S),
        );
        out += &match self.wear() {
            Some(percent) => {
                format!(
                    "  wear     about {} % of the rated endurance\n",
                    count::significant(percent)
                )
            }
            None => "  wear     not known: give --rated-endurance\n".to_owned(),
        };
        out
    }

    /// As JSON.
    pub(super) fn json(&self) -> Value {
        let stages = self.stages.iter().map(|stage| {
            json!({
                "name": stage.name,
                "cells": stage.cells,
                "left_out": stage.refused,
                "repeats": stage.repeats,
                "least_rounds": stage.rounds.map(|(least, _)| least),
                "max_rounds": stage.rounds.map(|(_, most)| most),
                "prepares": stage.prepares,
                "precondition_bytes": stage.precondition_bytes,
                "length_ns": stage.length_ns,
                "writing_ns": stage.writing_ns,
            })
        });
        json!({
            "experiment": self.name,
            "target": self.target,
            "length_ns": self.length_ns(),
            "layout_bytes": self.layout_bytes,
            "assumed_written_bytes": self.assumed_bytes(),
            "assumed_write_bytes_per_s": ASSUMED_BYTES_PER_S,
            "wear_percent": self.wear(),
            "stages": stages.collect::<Vec<_>>(),
        })
    }
}

impl StageEstimate {
    fn of(
        stage: &Stage,
        claims: Option<&Claims>,
        resolved: &ResolvedTarget,
    ) -> Result<StageEstimate, Failure> {
        let mut found = Found::new();
        let from = stage.axes.iter().filter(|axis| !axis.from.is_empty());
        for axis in from.clone() {
            // Only the number of levels matters; their values follow from an earlier stage.
            found.insert(axis.from.clone(), 8.0);
        }
        let sources: Vec<&str> = from.map(|axis| axis.from.as_str()).collect();
        let mut note = match sources.as_slice() {
            [] => String::new(),
            some => format!(" (levels from {}; estimated with 8)", some.join(", ")),
        };
        let cells = match stage.axes.iter().any(|axis| axis.claims) && claims.is_none() {
            true => {
                note = " (skipped: no data sheet was given)".into();
                Vec::new()
            }
            false => design::cells(stage, &found, claims).map_err(wrong)?,
        };
        let shared = design::shared(stage).map_err(wrong)?;
        let mut estimate = StageEstimate {
            name: stage.name.clone(),
            prepares: stage.purged().is_some() || stage.precondition.is_some(),
            cells: Vec::new(),
            refused: Vec::new(),
            repeats: stage.repeats,
            rounds: stage.rounds.as_ref().map(|rounds| (rounds.window, rounds.max)),
            precondition_bytes: resolved.precondition_bytes(stage),
            length_ns: 0,
            writing_ns: 0,
            note,
        };
        let runs = stage.rounds.as_ref().map_or(stage.repeats, |rounds| rounds.max);
        let each_ns = (stage.seconds * 1e9) as u64 * u64::from(runs);
        let active = active_range(stage, &resolved.setting);
        for cell in &cells {
            let name = cell_name(cell);
            let reason = match trial(stage, &shared, cell, &active) {
                Ok(planned) if planned.plan.writes() => match &resolved.reads_only {
                    Some(reason) => Some(format!("it writes, and {reason}")),
                    None => {
                        estimate.writing_ns += each_ns;
                        None
                    }
                },
                Ok(_) => None,
                Err(error) => Some(error.to_string()),
            };
            match reason {
                None => estimate.cells.push(name),
                Some(reason) => estimate.refused.push((name, reason)),
            }
        }
        estimate.length_ns = design::length_ns(stage, estimate.cells.len());
        Ok(estimate)
    }
}
