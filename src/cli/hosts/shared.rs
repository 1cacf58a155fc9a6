//! Storage that several hosts would write.

use super::connection::Connection;

/// The first storage that is the same on two hosts, one of which writes it, in words.
pub(super) fn shared(hosts: &[Connection]) -> Option<String> {
    for (index, host) in hosts.iter().enumerate() {
        for target in host.known.targets.iter().filter(|target| !target.identity.is_empty()) {
            for other in &hosts[index + 1..] {
                let same = other.known.targets.iter().find(|same| same.identity == target.identity);
                let Some(same) = same.filter(|same| same.writes || target.writes) else { continue };
                return Some(format!(
                    "`{}` on {} and `{}` on {} are the same storage ({}), and would be written \
                     from both: give each host a part of it (--host-region partitioned), or a target of \
                     its own",
                    target.path, host.known.name, same.path, other.known.name, target.identity
                ));
            }
        }
    }
    None
}
