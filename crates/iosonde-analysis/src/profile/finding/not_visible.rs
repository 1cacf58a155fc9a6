//! `not_visible`: a device was used whose requests no tracepoint shows.

use crate::finding::{Finding, Gravity, Strength};
use iosonde_model::record::ProfileRun;

use super::super::Figures;

/// Speaks of the first such device that did anything, as far as is known.
pub(super) fn detect(run: &ProfileRun, _figures: &Figures) -> Option<Finding> {
    let hidden = run.devices.iter().filter(|device| super::super::moved(device));
    let (device, reason) =
        hidden.filter_map(|device| Some((device, device.invisible.as_ref()?))).next()?;
    let name = &device.facts.name;
    let words = format!(
        "The requests on {name} cannot be seen: {reason}; what the program did there is in no \
         figure of requests, latency or depth."
    );
    let finding =
        Finding::new("not_visible", "a hidden device", Strength::Proven, Gravity::Doubt, words);
    Some(finding.with("device", name.as_str()).with("reason", reason.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of};
    use iosonde_model::record::facts::DeviceCounters;

    #[test]
    fn a_hidden_device_in_use_speaks_and_an_idle_one_does_not() {
        let mut run = profile_of(&[Flow::default(), Flow { device: "zram0", ..Flow::default() }]);
        assert_eq!(ask(detect, &run), None);
        run.devices[1].invisible = Some("it has no request queue".into());
        let told = words(detect, &run);
        assert!(told.contains("The requests on zram0 cannot be seen: it has no"), "{told}");
        run.devices[1].counters = Some((DeviceCounters::default(), DeviceCounters::default()));
        assert_eq!(ask(detect, &run), None);
    }
}
