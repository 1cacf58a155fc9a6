//! A table of the time that I/O calls spend in each layer.

use iosonde_model::record::layers::Layer;
use iosonde_model::record::run::Run;
use iosonde_model::units::{count, duration};
use iosonde_stats::Histogram;
use iosonde_stats::quantile::Quantile;

/// One line per layer: name, median, mean, 99th percentile, contents. Medians do not add up to the
/// median of the whole, which is last; means show where a few long waits are. A closed loop has no
/// queue of its own. Empty for a run that was not traced.
pub(crate) fn layers_text(run: &Run) -> String {
    let Some(layers) = &run.layers else { return String::new() };
    let mut text = format!(
        "  layers, by the kernel's events ({} requests, at the block layer by {}):\n",
        count::thousands(layers.requests),
        layers.attribution
    );
    if let Some(lag) = lag(run) {
        text.push_str(&line("user queue", Some(&lag), "due, and not yet submitted"));
    }
    for layer in Layer::ALL {
        let (name, what) = words(layer);
        text.push_str(&line(name, layers.of(layer), what));
    }
    text.push_str(&line("whole", latency(run).as_ref(), "as the program sees it"));
    for (what, count) in &layers.lost {
        text.push_str(&format!("    lost: {what} {}\n", count::thousands(*count)));
    }
    text
}

fn line(name: &str, times: Option<&Histogram>, what: &str) -> String {
    let quantile = |times: &Histogram, q| {
        let known = Quantile::of(times, q).value_ns();
        known.map_or_else(|| "n/a".to_owned(), |ns| duration::latency(ns as f64))
    };
    let Some(times) = times else {
        return format!("    {name:<24} {:<42}{what}\n", "not seen");
    };
    let mean = times.mean().map_or_else(|| "n/a".to_owned(), duration::latency);
    let (median, tail) = (quantile(times, 0.5), quantile(times, 0.99));
    format!("    {name:<24} p50 {median:>8}  mean {mean:>8}  p99 {tail:>8}   {what}\n")
}

fn words(layer: Layer) -> (&'static str, &'static str) {
    match layer {
        Layer::Submission => ("submission", "in the call, before the request's turn"),
        Layer::BeforeBlock => ("before the block layer", "file system, cgroup limits"),
        Layer::BlockQueue => ("block queue", "scheduler, waiting for the device"),
        Layer::Device => ("device", "driver and device"),
        Layer::Completion => ("completion", "from the device's end to the posted completion"),
        Layer::Reaping => ("reaping", "until the program's call returns"),
    }
}

/// Lag of an open loop; a closed loop has none.
fn lag(run: &Run) -> Option<Histogram> {
    let all = |of: fn(&iosonde_model::record::DirectionRun) -> &Histogram| merged(run, of);
    Some(all(|direction| &direction.lag)).filter(|lag| lag.count() > 0)
}

fn latency(run: &Run) -> Option<Histogram> {
    Some(merged(run, |direction| &direction.latency)).filter(|latency| latency.count() > 0)
}

/// Latencies of reads and writes, merged over all jobs.
fn merged(run: &Run, of: fn(&iosonde_model::record::DirectionRun) -> &Histogram) -> Histogram {
    let mut all = Histogram::new();
    for job in &run.jobs {
        all.merge(of(&job.read));
        all.merge(of(&job.write));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use iosonde_fixtures::{Load, run_of};
    use iosonde_model::record::LayersRun;

    #[test]
    fn layers_stand_in_the_order_of_the_way() {
        let mut run = run_of(&[Load::default()]);
        assert_eq!(layers_text(&run), "");
        let times = |ns| {
            let mut times = Histogram::new();
            times.record_many(ns, 1000);
            times
        };
        run.layers = Some(LayersRun {
            layers: vec![(Layer::Device, times(2_000_000)), (Layer::BeforeBlock, times(900))],
            attribution: "block_io_start".into(),
            requests: 1000,
            lost: vec![("syncs".into(), 2)],
        });
        let text = layers_text(&run);
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("{word}: {text}"));
        assert!(
            at("before the block layer") < at("block queue") && at("block queue") < at("device")
        );
        assert!(text.contains("device                   p50  2.00 ms  mean  2.00 ms"), "{text}");
        assert!(text.contains("block queue              not seen"), "{text}");
        assert!(!text.contains("user queue"), "{text}");
        assert!(text.contains("lost: syncs 2"), "{text}");
    }
}
