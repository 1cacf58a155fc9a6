//! `not_local`: the path to the storage goes through a network, a hypervisor or a program.

use iosonde_model::record::facts::FilesystemClass;

use super::{Case, Detect, Detector, Finding, Severity};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "not_local",
    meaning: "The path to the storage goes through a network, a hypervisor or a program.",
    method: "type of the file system and of the devices below it",
    action: "Read the figures as those of the whole path.",
    subject: "the path to the storage",
    severity: Severity::Warning,
    detect,
};

const NETWORK: &str = "a network";
const PROGRAM: &str = "a program in user space";

/// Transports of block devices whose data is only on another machine. Devices below device mapper
/// or md are not examined.
const REMOTE: [&str; 7] = ["nbd", "rbd", "iscsi", "fc", "nvme-tcp", "nvme-rdma", "nvme-fc"];

/// Reports when the file system is not local, or the device below it is not.
fn detect(case: &Case<'_>) -> Option<Finding> {
    let target = &case.run.target;
    let of_device = || {
        let transport = target.device.as_ref()?.transport.as_deref()?;
        match transport {
            "ublk" => Some(("transport", transport, PROGRAM)),
            _ => REMOTE.contains(&transport).then_some(("transport", transport, NETWORK)),
        }
    };
    let name = target.filesystem.as_deref().unwrap_or("this file system");
    let through = |over| ("filesystem", name, over);
    let (key, name, over) = match target.class {
        FilesystemClass::Network => through(NETWORK),
        FilesystemClass::HostShare => through("a shared folder of the host"),
        FilesystemClass::UserSpace => through(PROGRAM),
        FilesystemClass::Stacked => through("another file system"),
        _ => of_device()?,
    };
    let words = format!("{name} reaches its storage through {over}: both were measured together.");
    Some(DETECTOR.proven(words).with(key, name))
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

    #[test]
    fn a_device_on_another_machine_is_reported_and_a_drive_here_is_not() {
        let speaks = |transport: &str| {
            let mut run = run_of(&[Load::default()]);
            let device = run.target.device.get_or_insert_default();
            device.transport = Some(transport.into());
            ask(detect, &run, None).map(|finding| finding.words)
        };
        assert!(
            speaks("nvme-tcp").unwrap().starts_with("nvme-tcp reaches its storage through a n")
        );
        assert!(speaks("ublk").unwrap().contains("a program in user space"));
        assert!(
            [speaks("nvme"), speaks("nvme-loop"), speaks("virtio")].iter().all(Option::is_none)
        );
    }
}
