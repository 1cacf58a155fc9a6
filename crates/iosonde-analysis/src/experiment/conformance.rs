//! How closely an experiment follows the published procedure that its file names. The result is
//! never a certification; at best, the program itself declares that the procedure was followed.

mod changes;

use std::iter::repeat;

use serde::Serialize;

use super::Study;
use iosonde_model::record::experiment::Purged;
use iosonde_model::spec::experiment::Purge;
use iosonde_model::units::{bytes, count};

/// How an experiment relates to a published procedure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Conformance {
    /// `none` with any deviation, else `procedure followed, self-declared`.
    pub claim: String,
    /// Name of the procedure.
    pub basis: String,
    /// Deviations from the procedure, each as `what:how`.
    pub deviations: Vec<String>,
}

impl Conformance {
    /// The conformance of an experiment; `None` if it names no procedure.
    pub fn of(study: &Study) -> Option<Conformance> {
        let procedure = study.run.experiment.procedure.as_ref()?;
        let built_in = changes::built_in(&study.run.experiment);
        let mut deviations = match &built_in {
            Some(built_in) => changes::changes(&study.run.experiment, built_in),
            None => vec!["procedure:no built-in experiment has it to compare with".to_owned()],
        };
        // The built-in experiment defines the procedure, not the user's file.
        let procedure =
            built_in.as_ref().and_then(|known| known.procedure.as_ref()).unwrap_or(procedure);
        let prepared = study.stages.iter().flat_map(|facts| &facts.laid_out.prepared);
        let purges: Vec<&Purged> = prepared.filter_map(|each| each.purge.as_ref()).collect();
        match purges.as_slice() {
            [] => deviations.push("purge:none".to_owned()),
            [first, ..] if !Purge::parse(&first.method).is_some_and(Purge::is_of_the_drive) => {
                deviations.push(format!("purge:{}", first.method));
            }
            _ => {}
        }
        if study.stages.iter().any(|facts| facts.laid_out.write_cache.is_none()) {
            deviations.push("write_cache:not_controlled".into());
        }
        if study.target.as_ref().is_some_and(|target| target.kind != "block device") {
            let kind = study.target.as_ref().map_or("", |target| target.kind.as_str());
            deviations.push(format!("target:{kind}, not a whole device"));
        }
        let used = study.run.target.used_bytes;
        let device = study.target.as_ref().and_then(|target| target.device.as_ref());
        if let Some(whole) = device.and_then(|device| device.bytes).filter(|whole| *whole > used) {
            let share = count::percent(used as f64 / whole as f64);
            deviations.push(format!("range:{} = {share} of the device", bytes::rough(used)));
        }
        let lengths = study.stages.iter().map(|facts| facts.stage.seconds);
        let shortest = lengths.fold(f64::INFINITY, f64::min);
        if shortest < procedure.seconds {
            deviations.push(format!("cell_time:{shortest} s instead of {} s", procedure.seconds));
        }
        if study.run.target.is_laid_out
            && study.stages.first().is_some_and(|first| {
                first.stage.precondition.is_none() && first.stage.purged().is_none()
            })
        {
            deviations.push("first_state:the region was written once, sequentially".into());
        }
        for facts in &study.stages {
            if let Some(steadiness) = facts.steadiness.as_ref().filter(|s| !s.is_steady) {
                let stage = &facts.stage.name;
                deviations.push(format!("steady_state:{stage} {}", steadiness.verdict()));
            }
            for (cell, reason) in &facts.laid_out.left_out {
                let name = facts.points.get(*cell).map(super::Point::name).unwrap_or_default();
                deviations.push(format!("cell_left_out:{name}: {reason}"));
            }
        }
        let stages = study.stages.iter();
        let prepared = stages.flat_map(|facts| facts.laid_out.prepared.iter().zip(repeat(facts)));
        for (prepared, facts) in prepared {
            let requested = facts.stage.precondition.as_ref().map_or(0, |each| each.passes);
            if prepared.passes < requested {
                let (name, passes) = (&facts.stage.name, prepared.passes);
                deviations.push(format!("preconditioning:{name} {passes} of {requested} passes"));
            }
        }
        deviations.extend(procedure.deviations.iter().cloned());
        let claim =
            if deviations.is_empty() { "procedure followed, self-declared" } else { "none" };
        Some(Conformance { claim: claim.into(), basis: procedure.basis.clone(), deviations })
    }

    /// Label of every heading and chart.
    pub fn label(&self) -> &'static str {
        if self.deviations.iter().any(|each| each.starts_with(changes::CRITERION)) {
            "not PTS-style: its criteria were changed"
        } else if self.deviations.is_empty() {
            "PTS-style, procedure followed, not certified"
        } else {
            "PTS-style, scaled: not a SNIA PTS result"
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::testing::{facts, stage_of, study};
    use super::*;
    use iosonde_fixtures::Load;
    use iosonde_model::spec::experiment::Procedure;

    #[test]
    fn a_scaled_run_names_what_it_scales_and_claims_nothing() {
        let stage = stage_of("seconds = 2.0\n");
        let mut study = study(vec![facts(&stage, |_, _| Load::default())], None);
        assert_eq!(Conformance::of(&study), None);
        study.run.experiment.procedure = Some(Procedure {
            basis: "SNIA SSS PTS 2.0.2, IOPS test".into(),
            seconds: 60.0,
            deviations: vec!["cells:9 of 56".into()],
        });
        study.run.experiment.name = "pts-iops-core".into();
        let found = Conformance::of(&study).unwrap();
        assert_eq!(found.claim, "none");
        assert!(found.label().contains("not a SNIA PTS result"));
        for deviation in ["purge:none", "cell_time:2 s instead of 60 s", "cells:9 of 56"] {
            assert!(found.deviations.iter().any(|each| each == deviation), "{found:?}");
        }
    }

    #[test]
    fn a_changed_criterion_is_not_of_the_style() {
        let stage = stage_of("seconds = 2.0\n");
        let mut study = study(vec![facts(&stage, |_, _| Load::default())], None);
        let core = iosonde_model::spec::catalogue::experiment("pts-iops-core").unwrap();
        study.run.experiment = core.clone();
        let label = |study: &Study| Conformance::of(study).unwrap().label();
        assert!(label(&study).starts_with("PTS-style"));
        // Deviations are found even if the file does not declare them.
        study.run.experiment.procedure.as_mut().unwrap().deviations.clear();
        let found = Conformance::of(&study).unwrap();
        assert!(found.deviations.contains(&"cells:9 of 56".to_owned()), "{found:?}");
        let rounds = study.run.experiment.stages[0].rounds.as_mut().unwrap();
        rounds.range_percent = 80.0;
        assert!(label(&study).starts_with("not PTS-style"));
    }
}
