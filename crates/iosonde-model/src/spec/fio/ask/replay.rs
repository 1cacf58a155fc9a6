//! Jobs that replay a log of operations.

use super::super::iolog::Iolog;
use super::Asking;
use crate::spec::{Access, Draw, Pace, Role, Rw, Sizes, SyncCall};

impl Asking {
    /// Maps the operations of a log to the run's targets, and extends the targets to contain them.
    pub(super) fn listed(&mut self, log: &Iolog, targets: &[u16], role: &mut Role) {
        for (index, end) in targets.iter().zip(log.ends()) {
            let known = &mut self.targets[usize::from(*index)].bytes;
            *known = Some(known.unwrap_or(0).max(end));
        }
        for op in &mut role.listed {
            op.target = targets[usize::from(op.target)];
        }
    }
}

/// Makes the role replay the operations of a log.
pub(super) fn by(role: &mut Role, log: &Iolog) {
    role.listed.clone_from(&log.ops);
    role.access = Access::Uniform;
    role.read_percent = Some(log.read_percent());
    role.block_align = Some(log.grid());
    let sizes = log.sizes();
    role.block_size = sizes.last().map(|(bytes, _)| *bytes);
    if sizes.len() > 1 {
        let draw = |goes: bool| if goes { Draw::Split(sizes.clone()) } else { Draw::Block };
        let reads = role.rw.read_percent(50) > 0;
        let (writes, trims) = (role.rw.is_mixed() || role.rw == Rw::RandWrite, role.rw.trims());
        role.sizes = Sizes { read: draw(reads), write: draw(writes), trim: draw(trims) };
    }
    role.sync.call = if log.of_data { SyncCall::Fdatasync } else { SyncCall::Fsync };
    if !log.due_ns.is_empty() {
        role.pace = Pace::Recorded(log.due_ns.clone());
    }
}
