//! `ram_backed`: the target is memory.

use iosonde_model::record::facts::FilesystemClass;

use super::{Case, Detect, Detector, Finding, Severity, Strength};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "ram_backed",
    meaning: "The target is memory.",
    method: "type of the device or of the file system",
    action: "Measure on storage, unless memory is what is meant.",
    subject: "memory",
    severity: Severity::LowConfidence,
    detect,
};

/// Transports of block devices that keep their data in memory.
const MEMORY_TRANSPORTS: [&str; 4] = ["zram", "ram", "brd", "pmem-legacy"];

/// Whether a block device of this transport keeps its data in memory.
pub(crate) fn is_memory(transport: &str) -> bool {
    MEMORY_TRANSPORTS.contains(&transport)
}

/// Reports when the file system or the block device keeps its data in memory, or stores no data
/// (`/dev/zero`, `/dev/null`). A file system in memory gives low confidence, because a directory is
/// expected to be on storage; a block device in memory was named explicitly.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let target = &case.run.target;
    let transport = target.device.as_ref().and_then(|device| device.transport.as_deref());
    let (name, severity) = if super::is_endless(target) {
        ("a device that stores no data", Severity::LowConfidence)
    } else if target.class == FilesystemClass::Memory {
        let name = target.filesystem.as_deref().unwrap_or("a memory file system");
        (name, Severity::LowConfidence)
    } else {
        (transport.filter(|name| is_memory(name))?, Severity::Warning)
    };
    let words = format!("The target is memory ({name}), not storage.");
    Some(DETECTOR.found_at(severity, Strength::Proven, words).with("name", name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::finding::tests::ask;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::facts::DeviceFacts;

    #[test]
    fn tmpfs_and_zram_are_reported_and_a_loop_device_is_not() {
        let mut run = run_of(&[Load::default()]);
        let device = |transport: &str| DeviceFacts {
            transport: Some(transport.into()),
            ..DeviceFacts::default()
        };
        run.target.device = Some(device("loop"));
        assert_eq!(ask(detect, &run, None), None);
        run.target.device = Some(device("zram"));
        assert_eq!(ask(detect, &run, None).unwrap().severity, Severity::Warning);
        run.target.device = None;
        run.target.kind = "character device".into();
        assert!(ask(detect, &run, None).unwrap().words.contains("stores no data"));
        run.target.kind = "file".into();
        run.target.class = FilesystemClass::Memory;
        run.target.filesystem = Some("tmpfs".into());
        let finding = ask(detect, &run, None).unwrap();
        assert_eq!(finding.severity, Severity::LowConfidence);
        assert!(finding.words.contains("tmpfs"));
    }
}
