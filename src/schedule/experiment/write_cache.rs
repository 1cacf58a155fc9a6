//! Sets the write cache of the device for a stage, and restores it afterwards.

use super::{Course, StageEvent, StageJob};
use iosonde_engine::target::write_cache;
use iosonde_model::record::experiment::CacheSetting;

/// The setting made before an interruption and not restored since.
pub(super) fn left(job: &StageJob<'_>) -> Option<CacheSetting> {
    job.laid_out.write_cache.clone().filter(|setting| setting.after.is_none())
}

impl Course<'_> {
    /// Sets the write cache, if the stage requests that; `false` if the stage ends here, with the
    /// reason in `end`.
    pub(super) fn set_write_cache(&mut self) -> bool {
        let Some(wanted) = self.job.stage.write_cache else { return true };
        let before = self.end.run.write_cache.as_ref().map(|setting| setting.before);
        let setting = match &self.context.held {
            Some(held) => write_cache::set(held, &self.context.root, wanted, before),
            None => Err("the target is not a block device".into()),
        };
        match setting {
            Ok(setting) => {
                self.end.run.write_cache = Some(setting);
                (self.on_event)(&StageEvent::CacheSet(&self.end.run));
                true
            }
            Err(why) => {
                self.end.run.ended_early = format!("write-cache = {}: {why}", wanted.word());
                false
            }
        }
    }

    /// Restores the write cache.
    pub(super) fn restore_write_cache(&mut self) {
        let (context, end) = (self.context, &mut self.end);
        let (Some(setting), Some(held)) = (&mut end.run.write_cache, &context.held) else { return };
        if let Err(why) = write_cache::restore(held, &context.root, setting) {
            end.run.ended_early = why;
        }
    }
}
