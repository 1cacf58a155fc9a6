//! `not_visible`: a used device whose requests no tracepoint covers.

use super::{Detect, Detector, Figures, Finding, Severity};
use iosonde_model::record::profile::{ProfileRun, ProfiledDevice};

pub(super) const DETECTOR: Detector<Detect> = Detector {
    code: "not_visible",
    meaning: "A device was used whose requests no tracepoint covers.",
    method: "counters of the devices, compared with the trace",
    action: "Use the figures of the disks below it; if there are none, repeat it on another disk.",
    subject: "an untraced device",
    severity: Severity::LowConfidence,
    detect,
};

/// Reports the first such device that did any I/O, as far as known. A device whose requests are
/// traced on the disks below it is not reported.
fn detect(run: &ProfileRun, _figures: &Figures) -> Option<Finding> {
    let used = run.devices.iter().filter(|device| super::super::moved(device));
    let hidden = used.filter(|device| !is_traced(run, device));
    let (device, reason) =
        hidden.filter_map(|device| Some((device, device.invisible.as_ref()?))).next()?;
    let name = &device.facts.name;
    let words = format!(
        "The requests on {name} cannot be traced: {reason}; the figures for requests, latency and \
         depth do not include them."
    );
    Some(DETECTOR.proven(words).with("device", name.as_str()).with("reason", reason.as_str()))
}

fn is_traced(run: &ProfileRun, device: &ProfiledDevice) -> bool {
    let below = &device.beneath;
    let are_selected = run.unwatched.as_deref() == Some(ProfileRun::SELECTED);
    // A disk without I/O is not part of the record, unless disks were selected.
    let is_traced_below = |name: &String| {
        let disk = run.devices.iter().find(|each| each.facts.name == *name);
        disk.map_or(!are_selected, |disk| is_traced(run, disk))
    };
    device.invisible.is_none() || (!below.is_empty() && below.iter().all(is_traced_below))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of};
    use iosonde_model::record::facts::DeviceCounters;

    #[test]
    fn a_hidden_device_in_use_is_reported_and_an_idle_one_is_not() {
        let mut run = profile_of(&[Flow::default(), Flow { device: "zram0", ..Flow::default() }]);
        assert_eq!(ask(detect, &run), None);
        run.devices[1].invisible = Some("it has no request queue".into());
        let message = words(detect, &run);
        assert!(message.contains("The requests on zram0 cannot be traced: it has no"), "{message}");
        run.devices[1].counters = Some((DeviceCounters::default(), DeviceCounters::default()));
        assert_eq!(ask(detect, &run), None);
    }

    #[test]
    fn of_a_volume_whose_disk_is_traced_nothing_is_missing() {
        let mut run = profile_of(&[Flow::default(), Flow { device: "dm-0", ..Flow::default() }]);
        run.devices[1].invisible = Some("it has no request queue".into());
        run.devices[1].beneath = vec!["vda".into(), "idle".into()];
        assert_eq!(ask(detect, &run), None);
        run.unwatched = Some(ProfileRun::SELECTED.into());
        assert!(ask(detect, &run).is_some());
        run.unwatched = None;
        run.devices[0].invisible = Some("it has none either".into());
        assert!(ask(detect, &run).is_some());
    }
}
