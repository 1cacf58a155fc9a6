//! Waits of a stage: until the device has been powered long enough, and until it is cool.

use std::os::fd::AsFd;
use std::time::Duration;

use super::{Course, StageEvent, signal};
use crate::schedule::RunContext;
use iosonde_engine::engine::Medium;
use iosonde_engine::host::nvme_health;
use iosonde_engine::host::telemetry::Sampler;
use iosonde_model::record::experiment::StageRun;
use iosonde_model::spec::experiment::Stage;
use iosonde_model::units::duration;

/// A device that was too hot rests until it is this far below the limit, degrees.
const COOLER: i64 = 5;
/// Maximum rest: without load nothing takes longer to cool.
const MOST_COOLING: Duration = Duration::from_secs(3600);
/// Interval between two temperature readings.
const LOOK: Duration = Duration::from_secs(1);
const SLICE: Duration = Duration::from_millis(50);

impl Course<'_> {
    /// Waits until the machine, and with it the device, has been powered as long as the stage
    /// requests; `false` if the stage ends here, with the reason in `end`.
    pub(super) fn energised(&mut self) -> bool {
        let Some(text) = &self.job.stage.energised_for else { return true };
        let wanted_ns = match duration::parse(text, 1_000_000_000) {
            Ok(ns) => ns,
            Err(error) => {
                self.end.run.ended_early = format!("energised-for: {error}");
                return false;
            }
        };
        if self.context.held.is_none() {
            return true;
        }
        let up_ns = || {
            let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
            up.tv_sec as u64 * 1_000_000_000
        };
        if up_ns() < wanted_ns {
            (self.on_event)(&StageEvent::Preparing(
                "waiting until the device was powered long enough",
            ));
        }
        while up_ns() < wanted_ns {
            if let Some(number) = signal(self.context) {
                self.end.signal = Some(number);
                return true;
            }
            std::thread::sleep(SLICE);
        }
        true
    }

    /// Waits while the device is too hot. Fails with the reason if it stays hot or its temperature
    /// cannot be read.
    pub(super) fn cool(&mut self) -> Result<(), String> {
        let context = self.context;
        let Some(limit) = self.job.max_temperature_c.map(i64::from) else { return Ok(()) };
        if context.held.is_none() {
            return Ok(());
        }
        let now = |context| {
            celsius(context).ok_or("its temperature cannot be read here (--max-temperature)")
        };
        let mut found = now(context)?;
        if is_cool(found, limit, None)? {
            return Ok(());
        }
        (self.on_event)(&StageEvent::Hot(found));
        let began_ns = context.clock.now_ns();
        let waited = || Duration::from_nanos(context.clock.now_ns().saturating_sub(began_ns));
        while signal(context).is_none() && !is_cool(found, limit, Some(waited()))? {
            for _ in 0..LOOK.as_millis() / SLICE.as_millis() {
                if signal(context).is_none() {
                    std::thread::sleep(SLICE);
                }
            }
            found = now(context)?;
        }
        Ok(())
    }
}

/// Whether a run may begin at this temperature, after the device has rested this long, if it has.
/// Fails with the reason after the maximum rest.
fn is_cool(found: i64, limit: i64, waited: Option<Duration>) -> Result<bool, String> {
    match waited {
        None => Ok(found < limit),
        Some(_) if found <= limit - COOLER => Ok(true),
        Some(waited) if waited < MOST_COOLING => Ok(false),
        Some(waited) => Err(format!(
            "{}: {found} °C after {} without load, and --max-temperature is {limit}",
            StageRun::TOO_HOT,
            duration::span(waited.as_nanos() as u64),
        )),
    }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_hot_device_rests_until_it_is_cooler_or_an_hour_has_passed() {
        let after = |seconds| Some(Duration::from_secs(seconds));
        assert!(is_cool(69, 70, None).unwrap());
        assert!(!is_cool(70, 70, None).unwrap());
        assert!(!is_cool(66, 70, after(60)).unwrap(), "it would be hot again at once");
        assert!(is_cool(65, 70, after(60)).unwrap());
        assert!(is_cool(65, 70, after(3600)).unwrap());
        let reason = is_cool(66, 70, after(3600)).unwrap_err();
        assert!(reason.starts_with(StageRun::TOO_HOT) && reason.contains("66 °C"), "{reason}");
    }
}
