//! What an experiment would do: runs, time, bytes written, wear.

use serde_json::{Value, json};

use super::aim::Aim;
use super::wrong;
use crate::cli::exit::Failure;
use iosonde_model::plan::design::{self, Found};
use iosonde_model::plan::trial::trial;
use iosonde_model::spec::Experiment;
use iosonde_model::spec::experiment::{Claims, Stage};
use iosonde_model::units::{bytes, count, duration};
use iosonde_report::clean::clean;

/// What is assumed of a writing run before anything was measured, bytes per second.
const ASSUMED_BYTES_PER_S: f64 = 500e6;

/// What is told.
pub(super) struct Told {
    name: String,
    target: String,
    layout_bytes: u64,
    stages: Vec<StageTold>,
    endurance_bytes: Option<u64>,
}

struct StageTold {
    name: String,
    cells: Vec<String>,
    refused: Vec<(String, String)>,
    repeats: u32,
    length_ns: u64,
    writing_ns: u64,
    note: String,
}

impl Told {
    /// Lays everything out without touching the target.
    pub(super) fn of(
        experiment: &Experiment,
        claims: Option<&Claims>,
        aim: &Aim,
        endurance_bytes: Option<u64>,
    ) -> Result<Told, Failure> {
        let mut stages = Vec::new();
        for stage in &experiment.stages {
            stages.push(StageTold::of(stage, claims, aim)?);
        }
        Ok(Told {
            name: experiment.name.clone(),
            target: aim.words.clone(),
            layout_bytes: aim.layout.as_ref().map_or(0, |layout| layout.target().bytes),
            stages,
            endurance_bytes,
        })
    }

    fn length_ns(&self) -> u64 {
        self.stages.iter().map(|stage| stage.length_ns).sum()
    }

    /// Bytes that writing runs put down at the assumed rate.
    fn assumed_bytes(&self) -> u64 {
        let seconds: f64 = self.stages.iter().map(|stage| stage.writing_ns as f64 / 1e9).sum();
        (seconds * ASSUMED_BYTES_PER_S) as u64
    }

    fn wear(&self) -> Option<f64> {
        let endurance = self.endurance_bytes.filter(|bytes| *bytes > 0)?;
        Some((self.layout_bytes + self.assumed_bytes()) as f64 / endurance as f64 * 100.0)
    }

    /// In words.
    pub(super) fn text(&self) -> String {
        let mut out = format!("{} on {}\n\n", self.name, clean(&self.target));
        for stage in &self.stages {
            let (cells, repeats) = (stage.cells.len(), stage.repeats);
            out += &format!(
                "  {}: {cells} cells x {repeats} runs, {}{}\n",
                stage.name,
                duration::span(stage.length_ns),
                stage.note
            );
            for cell in &stage.cells {
                out += &format!("      {}\n", clean(cell));
            }
            for (cell, reason) in &stage.refused {
                out += &format!("      left out: {}: {}\n", clean(cell), clean(reason));
            }
        }
        let assumed = bytes::rough(self.assumed_bytes());
        out += &format!(
            "\n  time     {} and the laying out\n  written  {} to lay out; up to {assumed} by the \
             runs, if they write {}\n",
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

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let stages = self.stages.iter().map(|stage| {
            json!({
                "name": stage.name,
                "cells": stage.cells,
                "left_out": stage.refused,
                "repeats": stage.repeats,
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

impl StageTold {
    fn of(stage: &Stage, claims: Option<&Claims>, aim: &Aim) -> Result<StageTold, Failure> {
        let mut found = Found::new();
        let from = stage.axes.iter().filter(|axis| !axis.from.is_empty());
        for axis in from.clone() {
            // Only the number of levels is meant; their values come with the stage before.
            found.insert(axis.from.clone(), 8.0);
        }
        let sources: Vec<&str> = from.map(|axis| axis.from.as_str()).collect();
        let mut note = match sources.as_slice() {
            [] => String::new(),
            some => format!(" (levels from {}; shown as if that were 8)", some.join(", ")),
        };
        let cells = match stage.axes.iter().any(|axis| axis.claims) && claims.is_none() {
            true => {
                note = " (skipped: no data sheet was given)".into();
                Vec::new()
            }
            false => design::cells(stage, &found, claims).map_err(wrong)?,
        };
        let shared = design::shared(stage).map_err(wrong)?;
        let mut told = StageTold {
            name: stage.name.clone(),
            cells: Vec::new(),
            refused: Vec::new(),
            repeats: stage.repeats,
            length_ns: 0,
            writing_ns: 0,
            note,
        };
        let each_ns = (stage.seconds * 1e9) as u64 * u64::from(stage.repeats);
        for cell in &cells {
            let labels: Vec<&str> = cell.levels.iter().map(|level| level.label.as_str()).collect();
            let name = labels.join(", ");
            let reason = match trial(stage, &shared, cell, &aim.setting) {
                Ok(planned) if planned.plan.writes() => match &aim.reads_only {
                    Some(reason) => Some(format!("it writes, and {reason}")),
                    None => {
                        told.writing_ns += each_ns;
                        None
                    }
                },
                Ok(_) => None,
                Err(error) => Some(error.to_string()),
            };
            match reason {
                None => told.cells.push(name),
                Some(reason) => told.refused.push((name, reason)),
            }
        }
        told.length_ns = design::length_ns(stage, told.cells.len());
        Ok(told)
    }
}
