//! The write cache of the device during a stage, and its return to what it was.

use super::{StageEnd, StageEvent, StageJob};
use crate::schedule::RunContext;
use iosonde_engine::target::write_cache;
use iosonde_model::record::experiment::CacheSetting;

/// What was set before an interruption, and has not been returned to what it was.
pub(super) fn left(job: &StageJob<'_>) -> Option<CacheSetting> {
    job.laid_out.write_cache.clone().filter(|setting| setting.after.is_none())
}

/// Sets it, if the stage requests that; `false` if the stage ends here, with the reason in `end`.
pub(super) fn set(
    job: &StageJob<'_>,
    context: &RunContext,
    end: &mut StageEnd,
    on_event: &mut dyn FnMut(&StageEvent<'_>),
) -> bool {
    let Some(wanted) = job.stage.write_cache else { return true };
    let before = end.run.write_cache.as_ref().map(|setting| setting.before);
    let setting = match &context.held {
        Some(held) => write_cache::set(held, &context.root, wanted, before),
        None => Err("the target is not a block device".into()),
    };
    match setting {
        Ok(setting) => {
            end.run.write_cache = Some(setting);
            on_event(&StageEvent::CacheSet(&end.run));
            true
        }
        Err(why) => {
            end.run.ended_early = format!("write-cache = {}: {why}", wanted.word());
            false
        }
    }
}

/// Returns it to what it was.
pub(super) fn restore(context: &RunContext, end: &mut StageEnd) {
    let (Some(setting), Some(held)) = (&mut end.run.write_cache, &context.held) else { return };
    if let Err(why) = write_cache::restore(held, &context.root, setting) {
        end.run.ended_early = why;
    }
}
