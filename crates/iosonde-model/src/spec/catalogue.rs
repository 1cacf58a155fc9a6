//! The built-in workloads and experiments, in the format of a user's file, embedded in the binary.

use super::{Experiment, Workload};

/// Every built-in workload. A new one needs a file and a line here.
pub const WORKLOADS: [&str; 11] = [
    include_str!("../../../../workloads/backup.toml"),
    include_str!("../../../../workloads/recovery.toml"),
    include_str!("../../../../workloads/database.toml"),
    include_str!("../../../../workloads/cache.toml"),
    include_str!("../../../../workloads/logging.toml"),
    include_str!("../../../../workloads/kv-store.toml"),
    include_str!("../../../../workloads/training.toml"),
    include_str!("../../../../workloads/lakehouse.toml"),
    include_str!("../../../../workloads/layout.toml"),
    include_str!("../../../../workloads/mixed-load.toml"),
    include_str!("../../../../workloads/pts-composite.toml"),
];

/// Every built-in experiment. A new one needs a file and a line here.
pub const EXPERIMENTS: [&str; 39] = [
    include_str!("../../../../experiments/check.toml"),
    include_str!("../../../../experiments/qd1-baseline.toml"),
    include_str!("../../../../experiments/block-size.toml"),
    include_str!("../../../../experiments/read-write-mix.toml"),
    include_str!("../../../../experiments/queue-depth.toml"),
    include_str!("../../../../experiments/jobs.toml"),
    include_str!("../../../../experiments/tail-latency.toml"),
    include_str!("../../../../experiments/vendor.toml"),
    include_str!("../../../../experiments/study.toml"),
    include_str!("../../../../experiments/io-size.toml"),
    include_str!("../../../../experiments/stride.toml"),
    include_str!("../../../../experiments/random.toml"),
    include_str!("../../../../experiments/seek-curve.toml"),
    include_str!("../../../../experiments/zones.toml"),
    include_str!("../../../../experiments/rotation.toml"),
    include_str!("../../../../experiments/micro.toml"),
    include_str!("../../../../experiments/latency-matrix.toml"),
    include_str!("../../../../experiments/rate-staircase.toml"),
    include_str!("../../../../experiments/cache-size.toml"),
    include_str!("../../../../experiments/token-bucket.toml"),
    include_str!("../../../../experiments/durability.toml"),
    include_str!("../../../../experiments/surface.toml"),
    include_str!("../../../../experiments/best-configuration.toml"),
    include_str!("../../../../experiments/cpu-cost.toml"),
    include_str!("../../../../experiments/basic.toml"),
    include_str!("../../../../experiments/iobatch.toml"),
    include_str!("../../../../experiments/max-iobatch-single-job.toml"),
    include_str!("../../../../experiments/max-iobatch-jobs.toml"),
    include_str!("../../../../experiments/pts-iops.toml"),
    include_str!("../../../../experiments/pts-iops-core.toml"),
    include_str!("../../../../experiments/pts-throughput.toml"),
    include_str!("../../../../experiments/pts-latency.toml"),
    include_str!("../../../../experiments/pts-write-saturation.toml"),
    include_str!("../../../../experiments/pts-idle-recovery.toml"),
    include_str!("../../../../experiments/pts-cross-stimulus.toml"),
    include_str!("../../../../experiments/pts-demand-variation.toml"),
    include_str!("../../../../experiments/pts-composite.toml"),
    include_str!("../../../../experiments/provision-sequential.toml"),
    include_str!("../../../../experiments/provision-random.toml"),
];

/// Why a built-in or user's file was not understood.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FileError {
    /// The text is not TOML or has wrong fields.
    #[error("{0}")]
    Malformed(#[from] toml::de::Error),
    /// No entry has this name.
    #[error("no {what} `{name}`; available: {known}")]
    Unknown {
        /// `workload` or `experiment`.
        what: &'static str,
        /// The requested name.
        name: String,
        /// The available names.
        known: String,
    },
}

/// Reads a workload file.
///
/// # Errors
/// If it is not TOML, lacks a field, or has an unknown one.
pub fn parse_workload(text: &str) -> Result<Workload, FileError> {
    Ok(toml::from_str(text)?)
}

/// The file of a built-in workload.
///
/// # Errors
/// If no workload has this name.
pub fn workload_text(name: &str) -> Result<String, FileError> {
    let wanted = workload(name)?;
    let is_it = |text: &&&str| parse_workload(text).is_ok_and(|parsed| parsed == wanted);
    let text = WORKLOADS.iter().find(is_it).copied().unwrap_or_default();
    Ok(match depth_in_check(name) {
        Some(depth) => text.replace("[[role]]\n", &format!("[[role]]\niodepth = {depth}\n")),
        None => text.to_owned(),
    })
}

/// A built-in workload by name.
///
/// # Errors
/// If no workload has this name; the message lists the available names.
pub fn workload(name: &str) -> Result<Workload, FileError> {
    let mut known = Vec::new();
    for text in WORKLOADS {
        let workload = parse_workload(text)?;
        if workload.name.eq_ignore_ascii_case(name) || workload.title.eq_ignore_ascii_case(name) {
            return Ok(workload);
        }
        known.push(workload.name);
    }
    Err(FileError::Unknown { what: "workload", name: name.into(), known: known.join(", ") })
}

/// Requests in flight per job in `check` for the workload of this name, if `check` includes it.
pub fn depth_in_check(name: &str) -> Option<u32> {
    let check = experiment("check").ok()?;
    let stage = check.stages.first()?;
    let mut rows = stage.axes.iter().flat_map(|axis| &axis.values).filter_map(|row| row.as_str());
    rows.any(|row| row.eq_ignore_ascii_case(name)).then(|| stage.depth())
}

/// Every built-in experiment.
///
/// # Errors
/// If one is malformed, which a test rules out.
pub fn experiments() -> Result<Vec<Experiment>, FileError> {
    EXPERIMENTS.iter().map(|text| Ok(toml::from_str(text)?)).collect()
}

/// A built-in experiment by name.
///
/// # Errors
/// If no experiment has this name.
pub fn experiment(name: &str) -> Result<Experiment, FileError> {
    let mut known = Vec::new();
    for text in EXPERIMENTS {
        let experiment: Experiment = toml::from_str(text)?;
        if experiment.name == name {
            return Ok(experiment);
        }
        known.push(experiment.name);
    }
    Err(FileError::Unknown { what: "experiment", name: name.into(), known: known.join(", ") })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn every_embedded_file_parses_and_every_cell_exists() {
        for text in WORKLOADS {
            let parsed = parse_workload(text).unwrap();
            assert_eq!(workload(&parsed.name).unwrap(), parsed);
        }
        let check = experiment("check").unwrap();
        let names = &check.stages[0].axes[0].values;
        assert_eq!(names.len(), 8);
        for name in names {
            workload(name.as_str().unwrap()).unwrap();
            assert_eq!(depth_in_check(name.as_str().unwrap()), Some(32));
        }
        assert_eq!(depth_in_check("layout"), None);
    }

    #[test]
    fn a_workload_of_check_is_printed_with_the_depth_that_it_has_there() {
        let check = experiment("check").unwrap();
        for name in check.stages[0].axes[0].values.iter().map(|name| name.as_str().unwrap()) {
            let printed = parse_workload(&workload_text(name).unwrap()).unwrap();
            assert!(printed.roles.iter().all(|role| role.iodepth == Some(32)), "{printed:?}");
        }
        assert_eq!(parse_workload(&workload_text("layout").unwrap()), workload("layout"));
    }

    #[test]
    fn every_experiment_and_all_that_it_includes_exists_once() {
        let names: Vec<String> = EXPERIMENTS
            .iter()
            .map(|text| toml::from_str::<Experiment>(text).unwrap().name)
            .collect();
        let different: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(different.len(), names.len());
        for name in &names {
            let found = experiment(name).unwrap();
            assert!(found.question.ends_with('?'), "{name}");
            for included in &found.include {
                experiment(included).unwrap();
            }
            for stage in &found.stages {
                assert!(
                    stage.until.known.is_empty()
                        || crate::spec::Precision::parse(&stage.until.known).is_ok(),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn unknown_fields_and_names_are_refused() {
        let text = WORKLOADS[0].replace("pattern", "patern");
        assert!(matches!(parse_workload(&text), Err(FileError::Malformed(_))));
        let error = workload("databse").unwrap_err().to_string();
        assert!(error.contains("database"), "{error}");
    }
}
