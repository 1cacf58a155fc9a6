//! `compressed`: the target stores less than was written.

use iosonde_model::units::bytes;

use super::{Case, Detect, Detector, Finding, Severity, Strength};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "compressed",
    meaning: "The target stores less than was written: part of the work was not done.",
    method: "allocated space, compared with the bytes written",
    action: "Write incompressible data (the default), or measure below the compression.",
    subject: "compression",
    severity: Severity::Warning,
    detect,
};

/// Mount options that make a file system compress all data. Other f2fs options only apply to marked
/// files or to some name endings; this one applies to all names.
const ALL_NAMES: &str = "compress_extension=*";
const OPTIONS: [&str; 3] = ["compress", "compress-force", "compression"];
const SWITCHED_OFF: [&str; 2] = ["no", "none"];

/// Whether a mount option enables compression.
fn asks(option: &str) -> bool {
    let (name, method) = option.split_once('=').unwrap_or((option, ""));
    option == ALL_NAMES || OPTIONS.contains(&name) && !SWITCHED_OFF.contains(&method)
}

/// Reports when extents of the target are stored encoded, or a mount option enables compression.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let target = &case.run.target;
    let encoded = target.encoded_bytes.unwrap_or(0);
    let option = target.mount_options.iter().find(|option| asks(option));
    if encoded > 0 {
        let words = format!(
            "{} of the target are stored compressed: rates depend on the data.",
            bytes::rough(encoded)
        );
        return Some(DETECTOR.proven(words).with("encoded_bytes", encoded));
    }
    let option = option?;
    let words = format!(
        "The file system compresses ({option}); the data written here is incompressible, so \
         compression costs CPU time and saves no space."
    );
    let finding = DETECTOR.found_at(Severity::Fact, Strength::ConsistentWith, words);
    Some(finding.with("mount_option", option.as_str()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn encoded_extents_are_reported_and_plain_ones_are_not() {
        let mut run = run_of(&[Load::default()]);
        run.target.encoded_bytes = Some(0);
        run.target.mount_options = vec!["rw".into(), "compress=no".into()];
        assert_eq!(ask(detect, &run, None), None);
        run.target.mount_options = vec!["compress-force=zstd:3".into()];
        assert_eq!(ask(detect, &run, None).unwrap().severity, Severity::Fact);
        run.target.encoded_bytes = Some(1 << 20);
        assert_eq!(ask(detect, &run, None).unwrap().strength, Strength::Proven);
    }

    #[test]
    fn an_option_that_compresses_nothing_by_itself_is_none() {
        let asking = ["compress", "compress=zlib", "compression=lz4", "compress_extension=*"];
        assert!(asking.into_iter().all(asks));
        let others = [
            "compress=none",
            "compression=none",
            "compress_algorithm=lz4",
            "compress_extension=txt",
        ];
        assert!(!others.into_iter().any(asks));
    }
}
