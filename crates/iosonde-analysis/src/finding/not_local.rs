//! `not_local`: the path to the storage goes through a network, a hypervisor or a program.

use iosonde_model::record::facts::FilesystemClass;

use super::{Case, Detect, Detector, Finding, Severity, Strength};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "not_local",
    meaning: "The path to the storage goes through a network, a hypervisor or a program.",
    method: "type of the file system and of the devices below it",
    action: "Read the figures as those of the whole path.",
    detect,
};

/// Reports when the file system is not local.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let over = match case.run.target.class {
        FilesystemClass::Network => "a network",
        FilesystemClass::HostShare => "a shared folder of the host",
        FilesystemClass::UserSpace => "a program in user space",
        FilesystemClass::Stacked => "another file system",
        _ => return None,
    };
    let name = case.run.target.filesystem.as_deref().unwrap_or("this file system");
    let words = format!("{name} reaches its storage through {over}: both were measured together.");
    let subject = "the path to the storage";
    let finding = Finding::new("not_local", subject, Strength::Proven, Severity::Warning, words);
    Some(finding.with("filesystem", name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};

    #[test]
    fn a_network_is_reported_and_a_local_disk_is_not() {
        let mut run = run_of(&[Load::default()]);
        assert_eq!(ask(detect, &run, None), None);
        run.target.class = FilesystemClass::Network;
        run.target.filesystem = Some("nfs".into());
        assert!(ask(detect, &run, None).unwrap().words.starts_with("nfs reaches"));
        run.target.class = FilesystemClass::Unknown;
        assert_eq!(ask(detect, &run, None), None);
    }
}
