//! Records of devices with known behaviour.

use iosonde_model::plan::chance::Chance;
use iosonde_model::plan::ladder::{Call, LadderPlan};
use iosonde_model::record::facts::TargetFacts;
use iosonde_model::record::ladder::{FlushLayer, LADDER_SCHEMA, LadderRun, SyncSample};
use iosonde_model::record::run::Outcome;

/// Flushes that a device counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Seen {
    /// One flush for each call.
    Each,
    None,
    /// One flush for every second call.
    EverySecond,
    /// None of ours, and one from another process every 50 µs.
    Others,
    /// One for each call, and one from another process every second.
    EachAndFewOfOthers,
}

/// A layer that counts flushes in this way.
pub fn layer(name: &str, seen: Seen) -> (FlushLayer, Seen) {
    let write_cache = Some("write back".into());
    (FlushLayer { name: name.into(), write_cache, ..FlushLayer::default() }, seen)
}

/// A device with known flush latency.
#[derive(Clone, Debug)]
pub struct Model {
    pub layers: Vec<(FlushLayer, Seen)>,
    pub rounds: u32,
    pub span_bytes: u64,
    pub direct: bool,
    /// Cost of a flush per byte written since the last one, ns.
    pub ns_per_byte: f64,
    /// Mean of the exponential noise, ms.
    pub noise: f64,
    /// Slowdown from each round to the next, ns.
    pub drift: f64,
}

impl Model {
    /// A write-back device that flushes on request, with realistic latency.
    pub fn honest() -> Model {
        let layers = vec![layer("vda", Seen::Each)];
        Model {
            layers,
            rounds: 20,
            span_bytes: 128 << 20,
            direct: true,
            ns_per_byte: 0.5,
            noise: 0.05,
            drift: 0.0,
        }
    }

    /// Record of a flush ladder on this device.
    pub fn run(&self) -> LadderRun {
        let plan = LadderPlan::new("/x", 5, self.rounds, self.span_bytes);
        let plan = if self.direct { plan.directly(512) } else { plan };
        let mut chance = Chance::new(3);
        let (mut now_ns, mut samples) = (0, Vec::new());
        let mut ours = 0;
        for round in 0..self.rounds {
            for step in plan.round(round) {
                let write_ns = 50_000 + step.dirty_bytes / 2;
                now_ns += write_ns;
                let noise = -self.noise * 1e6 * (1.0 - chance.unit()).ln();
                let work = self.ns_per_byte * step.dirty_bytes as f64;
                let sync_ns = (200_000.0 + work + noise + self.drift * f64::from(round)) as u64;
                if step.call == Call::Fsync {
                    ours += 1;
                }
                let index = samples.len() as u64;
                let flushes = self.layers.iter().map(|(layer, seen)| {
                    let counted = layer.uncounted.is_none();
                    let (before, after) = match seen {
                        Seen::None => (7, 7),
                        Seen::Each => (index, index + 1),
                        Seen::EverySecond => (0, ours % 2),
                        Seen::Others => (now_ns / 50_000, (now_ns + sync_ns) / 50_000),
                        Seen::EachAndFewOfOthers => {
                            let theirs = |at: u64| at / 1_000_000_000;
                            (index + theirs(now_ns), index + 1 + theirs(now_ns + sync_ns))
                        }
                    };
                    counted.then_some((before, after))
                });
                samples.push(SyncSample {
                    round,
                    call: step.call,
                    dirty_bytes: step.dirty_bytes,
                    write_ns,
                    at_ns: now_ns,
                    sync_ns,
                    flushes: flushes.collect(),
                });
                now_ns += sync_ns;
            }
        }
        LadderRun {
            schema: LADDER_SCHEMA.into(),
            program: "0".into(),
            plan,
            started_unix_ns: 0,
            outcome: Outcome::Complete,
            target: TargetFacts::default(),
            layers: self.layers.iter().map(|(layer, _)| layer.clone()).collect(),
            device_mapper: false,
            samples,
            failed: None,
        }
    }
}
