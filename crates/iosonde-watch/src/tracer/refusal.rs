//! Why requests cannot be traced.

use std::path::Path;

use iosonde_bpf::AttachError;
use iosonde_engine::host::Root;
use iosonde_model::record::profile::Missing;

/// The kernel programs identify processes by PIDs of the initial namespace.
pub(super) fn of_first_namespace(root: &Root) -> Result<(), Missing> {
    // The kernel has given it this inode number since 3.8.
    let first = Path::new("pid:[4026531836]");
    match root.link("/proc/self/ns/pid") {
        Some(namespace) if namespace != first => Err(Missing {
            what: "requests".to_owned(),
            reason: "process IDs here differ from those that the kernel programs see (a container \
                with its own PID namespace)"
                .to_owned(),
            fix: Some("run it on the host, or in a container with the host's PID namespace".into()),
        }),
        _ => Ok(()),
    }
}

/// The missing data if the programs cannot be attached, and a fix.
pub(super) fn missing(root: &Root, error: &AttachError) -> Missing {
    let fix = match error {
        AttachError::NoTypes(_) => {
            "a kernel with CONFIG_DEBUG_INFO_BTF, as in the major distributions".to_owned()
        }
        _ if root.word("/sys/kernel/security/lockdown").is_some_and(|word| is_locked(&word)) => {
            "the kernel is locked down (lockdown=confidentiality forbids kernel programs)"
                .to_owned()
        }
        _ => "run it as root, or give it CAP_BPF and CAP_PERFMON".to_owned(),
    };
    Missing { what: "requests".to_owned(), reason: error.to_string(), fix: Some(fix) }
}

/// Whether the kernel lockdown mode forbids tracing: `none integrity [confidentiality]` does.
fn is_locked(word: &str) -> bool {
    word.contains("[confidentiality]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_confidentiality_forbids() {
        assert!(is_locked("none integrity [confidentiality]"));
        assert!(!is_locked("none [integrity] confidentiality"));
    }
}
