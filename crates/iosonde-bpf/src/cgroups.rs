//! Counts of cgroups. Each cgroup has a numbered place for its counts on every CPU.

use crate::{CgroupUse, Collector};

impl Collector {
    /// Cgroups: kernel number, place, and counts. Requests in flight are not counted yet.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn cgroups(&self) -> Result<Vec<(u64, u32, CgroupUse)>, String> {
        let places = self.all::<u64, u32>("cgroups")?.into_iter();
        let uses = places.map(|(id, place)| {
            let cpus = self.of_each_cpu::<CgroupUse>("cgroup_data", place)?;
            Ok((id, place, cpus.iter().fold(CgroupUse::NONE, CgroupUse::and)))
        });
        uses.collect()
    }
}
