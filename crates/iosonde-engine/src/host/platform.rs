//! Kernel, distribution, clock, and the hypervisor and containers below this process.

use super::{Root, processor};
use iosonde_model::record::HostFacts;

/// DMI vendor or product words, and the hypervisor they belong to.
const DMI_WORDS: [(&str, &str); 12] = [
    ("KVM", "kvm"),
    ("QEMU", "qemu"),
    ("Amazon EC2", "kvm"),
    ("Google Compute Engine", "kvm"),
    ("OpenStack", "kvm"),
    ("DigitalOcean", "kvm"),
    ("VMware", "vmware"),
    ("innotek GmbH", "virtualbox"),
    ("VirtualBox", "virtualbox"),
    ("Xen", "xen"),
    ("Parallels", "parallels"),
    ("Virtual Machine", "hyperv"),
];

/// Words in the cgroup path of process 1 or of this process, and the container kind they show.
const CGROUP_WORDS: [(&str, &str); 4] =
    [("/docker", "docker"), ("kubepods", "kubernetes"), ("/lxc", "lxc"), ("libpod", "podman")];

/// Fills the platform facts.
pub(super) fn describe(root: &Root, facts: &mut HostFacts) {
    facts.hostname = root.word("/proc/sys/kernel/hostname");
    facts.kernel = root.word("/proc/sys/kernel/osrelease");
    facts.os = os_name(root);
    facts.clocksource =
        root.word("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    facts.io_uring_disabled = root.number("/proc/sys/kernel/io_uring_disabled");
    facts.virtualization = virtualization(root);
}

/// `PRETTY_NAME` of os-release(5).
fn os_name(root: &Root) -> Option<String> {
    let text = root.text("/etc/os-release").or_else(|| root.text("/usr/lib/os-release"))?;
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    let value = value.trim().trim_matches(['"', '\'']);
    (!value.is_empty()).then(|| value.to_owned())
}

/// Hypervisor first, then WSL, then container kinds; each once.
fn virtualization(root: &Root) -> Vec<String> {
    let mut kinds: Vec<String> = Vec::new();
    let mut add = |kind: &str| {
        if !kind.is_empty() && !kinds.iter().any(|known| known == kind) {
            kinds.push(kind.to_owned());
        }
    };
    if let Some(kind) = hypervisor(root) {
        add(&kind);
    }
    let version = root.text("/proc/version").unwrap_or_default();
    if version.contains("WSL2") || version.contains("microsoft-standard") {
        add("wsl2");
    } else if version.contains("Microsoft") {
        add("wsl1");
    }
    for (file, kind) in [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")] {
        if root.exists(file) {
            add(kind);
        }
    }
    // systemd(1), "container interface": the manager of the container names itself here.
    if let Some(kind) = root.word("/run/systemd/container") {
        add(&kind);
    }
    for file in ["/proc/1/cgroup", "/proc/self/cgroup"] {
        let text = root.text(file).unwrap_or_default();
        for (word, kind) in CGROUP_WORDS {
            if text.contains(word) {
                add(kind);
            }
        }
    }
    kinds
}

/// The hypervisor's name; `hypervisor` if only the CPU flag shows one.
fn hypervisor(root: &Root) -> Option<String> {
    if let Some(kind) = root.word("/sys/hypervisor/type") {
        return Some(kind);
    }
    let cpuinfo = root.text("/proc/cpuinfo").unwrap_or_default();
    let flagged = processor::flags(&cpuinfo).map(|flags| flags.contains(&"hypervisor"));
    // Without the flag it is bare metal, even if the DMI words are those of a cloud.
    if flagged == Some(false) {
        return None;
    }
    let dmi: Vec<String> = ["sys_vendor", "product_name", "board_vendor"]
        .iter()
        .filter_map(|file| root.text(format!("/sys/class/dmi/id/{file}")))
        .collect();
    let by_dmi = DMI_WORDS.iter().find(|(word, _)| dmi.iter().any(|text| text.contains(word)));
    if let Some((_, kind)) = by_dmi {
        return Some((*kind).to_owned());
    }
    let clocks = root
        .text("/sys/devices/system/clocksource/clocksource0/available_clocksource")
        .unwrap_or_default();
    if clocks.contains("kvm-clock") {
        return Some("kvm".to_owned());
    }
    if clocks.contains("hyperv_clocksource") {
        return Some("hyperv".to_owned());
    }
    (flagged == Some(true)).then(|| "hypervisor".to_owned())
}
