//! Storage that several hosts would write.

use iosonde_model::record::hosts::TargetIdentity;

use super::connection::Connection;

/// The first storage that is the same on two hosts, one of which writes it, in words.
pub(super) fn shared(hosts: &[Connection]) -> Option<String> {
    for (index, host) in hosts.iter().enumerate() {
        for target in host.known.targets.iter().filter(|target| !target.identity.is_empty()) {
            let is_same = |other: &&TargetIdentity| {
                other.identity == target.identity && (other.writes || target.writes)
            };
            let found = hosts[index + 1..].iter().find_map(|other| {
                let same = other.known.targets.iter().find(is_same)?;
                Some((&other.known.name, &same.path))
            });
            let Some((other, path)) = found else { continue };
            return Some(format!(
                "`{}` on {} and `{path}` on {other} are the same storage ({}), and would be \
                 written from both: give each host a part of it (--host-region partitioned), or a \
                 target of its own",
                target.path, host.known.name, target.identity
            ));
        }
    }
    None
}
