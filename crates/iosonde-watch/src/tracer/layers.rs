//! The layers of I/O calls, from the kernel's spans and from the traffic at the block layer.

use iosonde_bpf::Collector;

use super::Traced;
use super::tally::times;
use iosonde_model::record::LayersRun;
use iosonde_model::record::layers::Layer;
use iosonde_model::record::profile::{Class, Op, Traffic};
use iosonde_stats::Histogram;

/// Spans measured by the kernel programs, in order.
const MEASURED: [Layer; 4] =
    [Layer::Submission, Layer::BeforeBlock, Layer::Completion, Layer::Reaping];

/// Measured spans, summed over CPUs.
pub(super) fn spans(collector: &Collector) -> Vec<(Layer, Histogram)> {
    let cpus = collector.layers().unwrap_or_default();
    let each = MEASURED.into_iter().enumerate().map(|(at, layer)| {
        let sum_ns = cpus.iter().map(|cpu| cpu.sum_ns[at]).sum();
        (layer, times(cpus.iter().map(|cpu| &cpu.time[at][..]), sum_ns))
    });
    each.collect()
}

impl Traced {
    /// The time of the I/O calls by layer; `None` if no request was seen.
    pub fn layers(mut self, attribution: &str) -> Option<LayersRun> {
        let own = |traffic: &&Traffic| {
            traffic.class == Class::Program && matches!(traffic.op, Op::Read | Op::Write)
        };
        let merged = |of: fn(&Traffic) -> &Histogram| {
            let mut all = Histogram::new();
            self.traffic.iter().filter(own).for_each(|traffic| all.merge(of(traffic)));
            all
        };
        let requests = self.traffic.iter().filter(own).map(|traffic| traffic.requests).sum();
        let queued = merged(|traffic| &traffic.queued);
        let device = merged(|traffic| &traffic.device_time);
        if requests == 0 {
            return None;
        }
        self.spans.push((Layer::BlockQueue, queued));
        self.spans.push((Layer::Device, device));
        Some(LayersRun {
            layers: self.spans,
            attribution: attribution.to_owned(),
            requests,
            lost: self.lost.into_iter().collect(),
        })
    }
}
