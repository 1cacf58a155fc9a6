//! Checks whether several hosts would carry out the same runs of an experiment.

use iosonde_model::spec::Experiment;
use iosonde_model::spec::experiment::Stage;

/// Why hosts would carry out different runs of an experiment, if so.
pub(super) fn differs(experiment: &Experiment) -> Option<String> {
    let why = |stage: &Stage| {
        let until = &stage.until;
        let ends = until.worse_percent.or(until.width_percent).or(until.minutes).is_some();
        if ends || stage.search.is_some() || stage.rounds.is_some() {
            return Some("its results decide what comes next");
        }
        let depends = stage.axes.iter().any(|axis| !axis.from.is_empty());
        depends.then_some("it depends on what an earlier stage finds")
    };
    let stage = experiment.stages.iter().find_map(|stage| Some((&stage.name, why(stage)?)));
    let (name, why) = stage?;
    Some(format!("stage `{name}` cannot run on several hosts together: {why}"))
}
