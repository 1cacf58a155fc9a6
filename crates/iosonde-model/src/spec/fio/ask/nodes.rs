//! NUMA nodes of a job's CPUs and buffers.

use super::super::job::FioJob;
use super::super::{Fault, shown, value};

/// Largest node number.
const MAX_NODE: u32 = 1023;

/// The nodes whose CPUs a job may use (`numa_cpu_nodes`); empty means all.
pub(super) fn of_cpus(job: &FioJob) -> Result<Vec<u32>, Fault> {
    let name = "numa_cpu_nodes";
    match job.text(name) {
        None | Some("all") => Ok(Vec::new()),
        Some(_) if ["cpus_allowed", "cpumask"].iter().any(|name| job.get(name).is_some()) => {
            Err(job.fault(name, "stands beside cpus_allowed; give one of them"))
        }
        Some(text) => list(text).map_err(|what| job.fault(name, what)),
    }
}

/// Parses a list of nodes such as `0,2-3`.
pub(in super::super) fn list(text: &str) -> Result<Vec<u32>, String> {
    let wrong = |_error| format!("found `{}`, expected nodes such as 0,2-3", shown(text));
    let nodes = value::cpus(text).map_err(wrong)?;
    match nodes.iter().find(|node| **node > MAX_NODE) {
        Some(node) => Err(format!("found {node} in `{}`, expected 0 to {MAX_NODE}", shown(text))),
        None => Ok(nodes),
    }
}
