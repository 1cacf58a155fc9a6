//! Storage that several hosts would write.

use iosonde_model::record::hosts::{HostRun, TargetIdentity};

/// The first storage that is the same on two hosts, one of which writes it, in words.
pub(super) fn shared(hosts: &[&HostRun]) -> Option<String> {
    for (index, host) in hosts.iter().enumerate() {
        for target in host.targets.iter().filter(|target| !target.identity.is_empty()) {
            let is_same = |other: &&TargetIdentity| {
                other.identity == target.identity && (other.writes || target.writes)
            };
            let found = hosts[index + 1..].iter().find_map(|other| {
                let same = other.targets.iter().find(is_same)?;
                Some((&other.name, &same.path))
            });
            let Some((other, path)) = found else { continue };
            return Some(format!(
                "`{}` on {} and `{path}` on {other} are the same storage ({}), and would be \
                 written from both: give each host a part of it (--host-region partitioned), or a \
                 target of its own",
                target.path, host.name, target.identity
            ));
        }
    }
    None
}
