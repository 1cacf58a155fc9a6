//! Capabilities of the collector, and how it drops them.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets};

/// Kept while profiling: to read the tracer's maps, to read `/proc/PID/io` of another user's
/// process, and to forward a signal to a command that has changed its user.
const KEPT: CapabilitySet =
    CapabilitySet::BPF.union(CapabilitySet::SYS_PTRACE).union(CapabilitySet::KILL);

/// How an unprivileged user gets the capabilities for tracing.
pub(super) const FIX: &str =
    "run it with sudo, or grant the capabilities: setcap cap_bpf,cap_perfmon+ep iosonde";

/// How to read processes of other users.
pub(super) const FIX_FOR_OTHERS: &str = "run it with sudo, or as the user of those processes";

/// CAP_BPF or CAP_PERFMON, or both, if missing; CAP_SYS_ADMIN implies both.
pub(super) fn lacking() -> Option<String> {
    let effective = rustix::thread::capabilities(None).ok()?.effective;
    if effective.contains(CapabilitySet::SYS_ADMIN) {
        return None;
    }
    let needed = [(CapabilitySet::BPF, "CAP_BPF"), (CapabilitySet::PERFMON, "CAP_PERFMON")];
    let lacking: Vec<&str> =
        needed.iter().filter(|(set, _)| !effective.contains(*set)).map(|(_, name)| *name).collect();
    (!lacking.is_empty()).then(|| lacking.join(" and "))
}

/// Permanently drops all capabilities that profiling does not need. `may_write_later` keeps the
/// right to write results into another user's directory, disabled until [`wake_writing`].
///
/// # Errors
/// If the kernel refuses; nothing is dropped then.
pub(super) fn give_up(may_write_later: bool) -> io::Result<()> {
    let now = rustix::thread::capabilities(None)?;
    let asleep = if may_write_later { CapabilitySet::DAC_OVERRIDE } else { CapabilitySet::empty() };
    let sets = CapabilitySets {
        effective: now.effective & KEPT,
        permitted: now.permitted & (KEPT | asleep),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, sets)?;
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// Enables the right to write into another user's directory, if it was kept.
pub fn wake_writing() {
    let Ok(now) = rustix::thread::capabilities(None) else { return };
    let effective = now.effective | (now.permitted & CapabilitySet::DAC_OVERRIDE);
    // If this fails, the write fails too and reports it.
    let _ = rustix::thread::set_capabilities(None, CapabilitySets { effective, ..now });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_is_given_up_is_gone_in_this_thread() {
        // Capabilities belong to a thread: the other tests keep theirs.
        let both = std::thread::spawn(|| {
            give_up(true).unwrap();
            let given = rustix::thread::capabilities(None).unwrap();
            wake_writing();
            (given, rustix::thread::capabilities(None).unwrap())
        });
        let (given, woken) = both.join().unwrap();
        assert!(KEPT.contains(given.effective));
        assert!((KEPT | CapabilitySet::DAC_OVERRIDE).contains(given.permitted));
        assert_eq!(given.permitted, woken.permitted);
        assert_eq!(
            woken.effective & CapabilitySet::DAC_OVERRIDE,
            woken.permitted & CapabilitySet::DAC_OVERRIDE
        );
    }
}
