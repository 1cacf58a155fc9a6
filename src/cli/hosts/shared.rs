//! Refuses storage that several hosts would write, and partitioning of storage that none shares.

use std::collections::BTreeSet;

use iosonde_model::record::hosts::{HostRun, TargetIdentity};

use super::Region;
use crate::cli::exit::{Exit, Failure, wrong};

/// Why these hosts cannot use their targets as requested, if so.
pub(super) fn refusal(hosts: &[&HostRun], region: Option<Region>) -> Option<Failure> {
    match region {
        None => shared(hosts).map(|words| Failure::new(Exit::Refused, words)),
        Some(Region::Partitioned) if all_differ(hosts) => {
            let message = "--host-region partitioned has no effect: every host has storage of its \
                           own, and would use a part of it; leave it out, or name the storage that \
                           they share";
            Some(wrong(message))
        }
        Some(_) => None,
    }
}

/// Message on the first storage that two hosts share and at least one writes.
fn shared(hosts: &[&HostRun]) -> Option<String> {
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

/// Whether every target is identified, and no two hosts share one.
fn all_differ(hosts: &[&HostRun]) -> bool {
    let mut seen = BTreeSet::new();
    let mut targets = hosts.iter().flat_map(|host| &host.targets);
    let have_some = hosts.iter().all(|host| !host.targets.is_empty());
    let mut is_new = |identity| seen.insert(identity);
    hosts.len() > 1
        && have_some
        && targets.all(|target| !target.identity.is_empty() && is_new(&target.identity))
}
