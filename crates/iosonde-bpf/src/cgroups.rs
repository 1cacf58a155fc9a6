//! What cgroups did: each has a numbered place for its counts on every CPU.

use crate::{CgroupUse, Collector};

impl Collector {
    /// Cgroups by their kernel number.
    ///
    /// # Errors
    /// In words.
    pub fn cgroups(&self) -> Result<Vec<(u64, CgroupUse)>, String> {
        let places = self.all::<u64, u32>("cgroups")?.into_iter();
        let use_at = |place: u32| -> Result<CgroupUse, String> {
            let cpus = self.of_each_cpu::<CgroupUse>("cgroup_data", place)?;
            Ok(cpus.iter().fold(CgroupUse::NONE, CgroupUse::and))
        };
        let uses = places.map(|(id, place)| Ok((id, use_at(place)?)));
        // One whose requests are all in flight has a place, and no counts yet.
        uses.filter(|used| !matches!(used, Ok((_, used)) if used.requests == 0)).collect()
    }
}
