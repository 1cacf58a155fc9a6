//! What a stage waits for: a device that is powered long enough, and one that is not too hot.

use std::os::fd::AsFd;
use std::time::Duration;

use super::{StageEnd, StageEvent, StageJob, signal};
use crate::schedule::RunContext;
use iosonde_engine::engine::Medium;
use iosonde_engine::host::nvme_health;
use iosonde_engine::host::telemetry::Sampler;
use iosonde_model::spec::experiment::Stage;
use iosonde_model::units::duration;

/// A device that was too hot is left alone until it is this much below the limit, degrees.
const COOLER: i64 = 5;
/// It is looked this often.
const LOOK: Duration = Duration::from_secs(1);
const SLICE: Duration = Duration::from_millis(50);

/// Waits until the machine, and with it the device, has been powered as long as the stage requests;
/// `false` if the stage ends here, with the reason in `end`.
pub(super) fn energised(
    job: &StageJob<'_>,
    context: &RunContext,
    end: &mut StageEnd,
    on_event: &mut dyn FnMut(&StageEvent<'_>),
) -> bool {
    let Some(text) = &job.stage.energised_for else { return true };
    let wanted_ns = match duration::parse(text, 1_000_000_000) {
        Ok(ns) => ns,
        Err(error) => {
            end.ended_early = format!("energised-for: {error}");
            return false;
        }
    };
    if context.held.is_none() {
        return true;
    }
    let up_ns = || {
        let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        up.tv_sec as u64 * 1_000_000_000
    };
    if up_ns() < wanted_ns {
        on_event(&StageEvent::Preparing("waiting until the device was powered long enough"));
    }
    while up_ns() < wanted_ns {
        if let Some(number) = signal(context) {
            end.signal = Some(number);
            return true;
        }
        std::thread::sleep(SLICE);
    }
    true
}

/// Waits while the device is too hot; the reason, if its temperature cannot be read.
pub(super) fn cool(
    job: &StageJob<'_>,
    context: &RunContext,
    on_event: &mut dyn FnMut(&StageEvent<'_>),
) -> Result<(), String> {
    let Some(limit) = job.max_temperature_c.map(i64::from) else { return Ok(()) };
    if context.held.is_none() {
        return Ok(());
    }
    let now =
        |context| celsius(context).ok_or("its temperature cannot be read here (--max-temperature)");
    let mut is_hot = now(context)? >= limit;
    if is_hot {
        on_event(&StageEvent::Hot(now(context)?));
    }
    while is_hot && signal(context).is_none() {
        for _ in 0..LOOK.as_millis() / SLICE.as_millis() {
            if signal(context).is_none() {
                std::thread::sleep(SLICE);
            }
        }
        is_hot = now(context)? > limit - COOLER;
    }
    Ok(())
}

/// Temperature of the device, degrees Celsius: by its sensor, or else by its own health log.
fn celsius(context: &RunContext) -> Option<i64> {
    let held = context.held.as_ref()?;
    let device = held.device(&context.root);
    let mut sampler = Sampler::new(&context.root, device.as_ref());
    if let Some(milli) = sampler.sample().device_temperature_mc {
        return Some(milli / 1000);
    }
    nvme_health(held.file.as_fd()).ok()?["temperature"]["current"].as_i64()
}

/// The pause before a run; `true` if a signal ended it, or came before.
pub(super) fn idle(stage: &Stage, context: &RunContext) -> bool {
    if let Medium::Sim(model) = &context.medium {
        model.rest((stage.idle_seconds * 1e9) as u64);
        return signal(context).is_some();
    }
    let mut left = Duration::from_secs_f64(stage.idle_seconds.clamp(0.0, 86_400.0));
    while !left.is_zero() && signal(context).is_none() {
        let pause = left.min(SLICE);
        std::thread::sleep(pause);
        left -= pause;
    }
    signal(context).is_some()
}
