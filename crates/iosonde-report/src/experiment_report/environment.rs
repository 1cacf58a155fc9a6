//! The machine and the target, as names and values.

use crate::run_report::environment_of;
use iosonde_analysis::experiment::Study;
use iosonde_model::record::WriteAudit;

/// What is known; what is not is left out.
pub(super) fn environment(study: &Study) -> Vec<(String, String)> {
    let mut all = environment_of(study.target.as_ref(), None);
    if study.target.is_none() {
        all.push(("target".into(), study.run.target.path.clone()));
    }
    let target = study.target.iter();
    all.extend(target.flat_map(|target| &target.write_audits).flat_map(WriteAudit::lines));
    all.extend(environment_of(None, study.host.as_ref()));
    all.push(("seed".into(), study.run.seed.to_string()));
    all
}
