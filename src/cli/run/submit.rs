//! Options for submission, waiting, and placement of threads and memory.

use clap::{Args, ValueEnum};

use super::words::cpus;
use super::{Switch, switched};
use crate::cli::exit::{Failure, wrong};
use crate::cli::place::Place;
use iosonde_model::spec::{Placement, Reap, Role, Wait};

#[derive(Args, Debug)]
#[command(next_help_heading = "Submission and placement")]
pub(super) struct SubmitArgs {
    /// Maximum number of requests submitted at once [default: by depth]
    #[arg(long, visible_alias = "iodepth-batch", value_name = "N")]
    iodepth_batch_submit: Option<u32>,
    /// Minimum number of completions to wait for [default: 1]
    #[arg(long, visible_alias = "iodepth-batch-complete", value_name = "N")]
    iodepth_batch_complete_min: Option<u32>,
    /// Maximum number of completions processed at once [default: all available]
    #[arg(long, value_name = "N")]
    iodepth_batch_complete_max: Option<u32>,
    /// Refill a full queue only when no more than this number of requests is in flight [default: as
    /// soon as there is room]
    #[arg(long, value_name = "N")]
    iodepth_low: Option<u32>,
    /// How to wait for completions: sleeping (event), polling (poll), or both (hybrid) [default:
    /// event]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(super) wait: Option<WaitMode>,
    /// Submit and wait in separate calls, so that submission latency is measured separately
    #[arg(long, num_args = 0..=1, default_missing_value = "1", value_name = "0|1")]
    slat: Option<Switch>,
    /// CPUs that the jobs may use, such as 0-3,5
    #[arg(long, value_name = "LIST")]
    cpus_allowed: Option<String>,
    /// NUMA node of the buffers
    #[arg(long, value_name = "N")]
    numa_node: Option<u32>,
    /// Buffers in huge pages, or fail
    #[arg(long, num_args = 0..=1, default_missing_value = "1", value_name = "0|1")]
    hugepages: Option<Switch>,
    /// Where buffers come from: mmap, or mmaphuge for huge pages
    #[arg(long, visible_alias = "iomem", value_enum, value_name = "KIND")]
    mem: Option<Memory>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum WaitMode {
    Event,
    Poll,
    Hybrid,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Memory {
    Mmap,
    Mmaphuge,
}

impl SubmitArgs {
    /// Adds submission, waiting and placement to the role.
    pub(super) fn onto(&self, role: Role) -> Result<Role, Failure> {
        let usual = Reap::default();
        let reap = Reap {
            complete_min: self.iodepth_batch_complete_min.unwrap_or(usual.complete_min),
            complete_max: self.iodepth_batch_complete_max.unwrap_or(usual.complete_max),
            refill_at: self.iodepth_low.unwrap_or(usual.refill_at),
            wait: self.wait.map_or(usual.wait, |word| match word {
                WaitMode::Event => Wait::Event,
                WaitMode::Poll => Wait::Poll,
                WaitMode::Hybrid => Wait::Hybrid,
            }),
            slat: switched(self.slat),
            ..Reap::default()
        };
        let huge_pages = switched(self.hugepages) || self.mem == Some(Memory::Mmaphuge);
        if self.hugepages == Some(Switch::Off) && huge_pages
            || switched(self.hugepages) && self.mem == Some(Memory::Mmap)
        {
            return Err(wrong("--hugepages and --mem contradict each other; give one of them"));
        }
        let allowed = self.cpus_allowed.as_deref().map(|text| cpus("--cpus-allowed", text));
        let place = Placement {
            cpus: allowed.transpose()?.unwrap_or_default(),
            numa_node: self.numa_node,
            huge_pages,
            ..Placement::default()
        };
        Ok(Role { batch: self.iodepth_batch_submit, reap, place, ..role })
    }
}

/// Checks that this machine has the CPUs and the NUMA node that a role names.
pub(super) fn placeable(role: &Role, place: &Place) -> Result<(), Failure> {
    let allowed = iosonde_sys::thread::allowed_cpus();
    if let Some(cpu) = role.place.cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        return Err(wrong(format!(
            "role `{}`: CPU {cpu} may not be used here, expected some of {}",
            role.name,
            listed(&allowed)
        )));
    }
    match role.place.numa_node {
        Some(node) if !place.root.exists(format!("/sys/devices/system/node/node{node}")) => {
            let online = place.root.word("/sys/devices/system/node/online");
            Err(wrong(format!(
                "role `{}`: no NUMA node {node}, expected one of {}",
                role.name,
                online.as_deref().unwrap_or("none: this system knows of no nodes")
            )))
        }
        _ => Ok(()),
    }
}

/// Formats ascending numbers as ranges: `0-3,5`.
fn listed(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let range = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_read_well() {
        assert_eq!(listed(&[0, 1, 2, 3, 5, 7, 8]), "0-3,5,7-8");
        assert_eq!(listed(&[4]), "4");
    }
}
