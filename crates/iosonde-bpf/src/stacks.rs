//! Stacks taken by the programs.

use aya::maps::StackTraceMap;

use crate::{Blocked, Collector, StackKey, StackUse, chain};

/// Maps that need memory only if stacks are taken.
pub(super) const MAPS: [&str; 3] = ["stacks", "blocked_threads", "frames"];

impl Collector {
    /// Stacks and how often each was seen.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn stacks(&self) -> Result<Vec<(StackKey, StackUse)>, String> {
        self.all::<StackKey, StackUse>("stacks")
    }

    /// Threads that are waiting now.
    ///
    /// # Errors
    /// The reason, as text.
    pub fn blocked(&self) -> Result<Vec<Blocked>, String> {
        let all = self.all::<u32, Blocked>("blocked_threads")?;
        Ok(all.into_iter().map(|(_, blocked)| blocked).collect())
    }

    /// Addresses of the stack with this number, innermost first.
    ///
    /// # Errors
    /// The reason, as text, if there is no such stack.
    pub fn frames(&self, number: u32) -> Result<Vec<u64>, String> {
        let map = StackTraceMap::try_from(self.map("frames")?);
        let map = map.map_err(|error| format!("map `frames`: {}", chain(&error)))?;
        let stack = map.get(&number, 0).map_err(|error| chain(&error))?;
        Ok(stack.frames().iter().map(|frame| frame.ip).collect())
    }
}
