//! Requirements of a stage on its target.

use super::Session;
use iosonde_engine::engine::Medium;
use iosonde_engine::host::Root;
use iosonde_model::spec::experiment::{Needs, Stage};

impl Session<'_> {
    /// Why the target does not meet the requirements of a stage, if so.
    pub(super) fn lacking(&self, stage: &Stage) -> Option<String> {
        if let Some(why) = &self.resolved.reads_only {
            if stage.precondition.is_some() {
                return Some(format!("its preconditioning writes, and {why}"));
            }
            if stage.purged().is_some() || stage.write_cache.is_some() {
                return Some(format!("it changes the target before its runs, and {why}"));
            }
        }
        match stage.needs {
            Needs::Nothing => None,
            Needs::Claims if self.study.run.claims.is_none() => {
                Some("no data sheet was given (--spec FILE)".into())
            }
            Needs::Writing => self.resolved.reads_only.clone(),
            Needs::Rotation => {
                if let Medium::Sim(model) = &self.resolved.medium
                    && model.turns()
                {
                    return None;
                }
                let device =
                    self.resolved.held.as_ref().and_then(|held| held.device(&self.place.root));
                match device {
                    Some(device)
                        if device.is_virtual == Some(true)
                            && !turns(&self.place.root, &device.name) =>
                    {
                        Some("a virtual disk does not report its rotation reliably".into())
                    }
                    Some(device) if device.rotational == Some(true) => None,
                    _ => Some("the target is not a rotational disk".into()),
                }
            }
            Needs::Claims => None,
        }
    }
}

/// Whether a disk reports its rotation rate (SBC-4, VPD page B1h, medium rotation rate). The kernel
/// takes a disk that reports none for rotational.
fn turns(root: &Root, disk: &str) -> bool {
    let page = root.bytes(format!("/sys/block/{disk}/device/vpd_pgb1"), 64).unwrap_or_default();
    let rate = page.get(4..6).map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    rate > 1 && rate != u16::MAX
}
