//! Whether a stage may skip its purge or preconditioning because an earlier experiment did it. The
//! records of that experiment make this possible; measurements on the target decide. After a purge
//! or a change of firmware, earlier preconditioning does not count.

use super::{StageFacts, Study};
use iosonde_model::record::TargetFacts;
use iosonde_model::spec::experiment::{Parameter, PassOrder, Stage, Value};
use iosonde_model::units::{bytes, count};
use iosonde_stats::steady_state::Window;

/// Limits of range and slope, as shares of the mean (SNIA PTS 2.0.2, 2.1.24).
const LIMITS: (f64, f64) = (0.20, 0.10);

/// The state in which an earlier experiment left its target, according to its records.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    /// Folder of the records.
    pub folder: String,
    /// Identity of the target.
    pub identity: String,
    /// Firmware of the device; empty if unknown.
    pub firmware: String,
    /// Bytes of the range that was purged or preconditioned last.
    pub range_bytes: u64,
    /// Whether it was purged, and nothing was written since.
    pub is_purged: bool,
    /// Passes of preconditioning since the last purge, unless loads of another order wrote since.
    pub passes: Option<(u32, PassOrder)>,
}

iosonde_model::words! {
    /// A step that may be skipped.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub enum Candidate {
        Purge => "the purge",
        /// The passes of preconditioning.
        Passes => "preconditioning",
    }
}

/// Measurements on the target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Number of blocks read, spread over the range.
    pub checked_blocks: u32,
    /// Number of these blocks that are blank.
    pub blank_blocks: u32,
    /// Bytes per second of consecutive short runs of writes.
    pub rates: Vec<f64>,
}

impl Left {
    /// Reads the records of an experiment; `None` if it neither purged nor preconditioned.
    pub fn of(study: &Study, folder: &str) -> Option<Left> {
        let (identity, firmware) = identity(study.target.as_ref()?);
        let folder = folder.to_owned();
        let mut left =
            Left { folder, identity, firmware, range_bytes: 0, is_purged: false, passes: None };
        let mut is_prepared = false;
        for facts in &study.stages {
            for prepared in &facts.laid_out.prepared {
                if prepared.purge.is_some() {
                    (left.is_purged, left.passes) = (true, None);
                }
                if let Some(own) = facts.stage.precondition.as_ref().filter(|_| prepared.passes > 0)
                {
                    (left.is_purged, left.passes) = (false, Some((prepared.passes, own.order)));
                }
                if prepared.purge.is_some() || prepared.passes > 0 {
                    (left.range_bytes, is_prepared) = (prepared.range_bytes, true);
                }
            }
            if facts.trials.iter().any(|trial| trial.written_bytes > 0) {
                let order = order_of_writes(facts);
                left.is_purged = false;
                left.passes = left.passes.filter(|(_, own)| order == Some(*own));
            }
        }
        is_prepared.then_some(left)
    }

    /// The step that a stage may skip according to these records, on the present target.
    ///
    /// # Errors
    /// If it may skip nothing; the error is the reason in words.
    pub fn candidate(
        &self,
        now: &TargetFacts,
        stage: &Stage,
        range_bytes: u64,
    ) -> Result<Candidate, String> {
        let (own, firmware) = identity(now);
        if own != self.identity || own.is_empty() {
            return Err(format!("the target is `{own}`, and that was `{}`", self.identity));
        }
        if firmware != self.firmware {
            return Err(format!("the firmware is `{firmware}` now, and was `{}`", self.firmware));
        }
        if self.range_bytes < range_bytes {
            let (then, now) = (bytes::rough(self.range_bytes), bytes::rough(range_bytes));
            return Err(format!("it prepared {then}, and {now} are used now"));
        }
        if stage.purged().is_some() {
            return match self.is_purged {
                true => Ok(Candidate::Purge),
                false => Err("it was written since its last purge".into()),
            };
        }
        let Some(requested) = stage.precondition.as_ref().filter(|each| each.passes > 0) else {
            return Err("the stage neither purges nor preconditions".into());
        };
        if requested.order == PassOrder::SinglePass {
            return Err("how much flash a single pass was made for is not compared".into());
        }
        match self.passes {
            Some((passes, order)) if passes >= requested.passes && order == requested.order => {
                Ok(Candidate::Passes)
            }
            Some((passes, order)) => Err(format!(
                "it was preconditioned by {passes} {} passes, and {} {} ones are requested",
                word(order),
                requested.passes,
                word(requested.order)
            )),
            None => Err("no preconditioning is on record since it was last purged, or \
                         written in another order"
                .into()),
        }
    }
}

impl Candidate {
    /// Whether the measurements allow the step to be skipped, with the reason in words.
    ///
    /// # Errors
    /// If they do not; the error is the reason in words.
    pub fn confirmed(self, seen: &Seen) -> Result<String, String> {
        let Seen { checked_blocks: checked, blank_blocks: blank, rates } = seen;
        match self {
            Candidate::Purge if *checked > 0 && blank == checked => {
                Ok(format!("all {checked} blocks that were read are blank"))
            }
            Candidate::Purge => Err(format!("{} of {checked} blocks hold data", checked - blank)),
            Candidate::Passes if *checked == 0 || *blank > 0 => {
                Err(format!("{blank} of {checked} blocks that were read are blank"))
            }
            Candidate::Passes => {
                let window = Window::of(rates).ok_or("the rate of writes is not known")?;
                let percent = |part: f64| count::percent(part / window.mean);
                let rates = format!(
                    "{} short runs of writes have a range of {} and a slope excursion of {}",
                    window.rounds,
                    percent(window.range),
                    percent(window.slope_excursion)
                );
                match window.is_steady(LIMITS.0, LIMITS.1) {
                    true => Ok(format!("all {checked} blocks that were read hold data; {rates}")),
                    false => Err(format!("the rate of writes is not steady: {rates}")),
                }
            }
        }
    }
}

/// Identity and firmware of a target that was opened for writing; empty if unknown.
fn identity(target: &TargetFacts) -> (String, String) {
    let audit = target.write_audits.first();
    let identity = audit.map(|audit| match audit.identity.as_str() {
        "" => audit.path.clone(),
        identity => identity.to_owned(),
    });
    let firmware = target.device.as_ref().and_then(|device| device.firmware.clone());
    (identity.unwrap_or_default(), firmware.unwrap_or_default())
}

/// The order of all writes of a stage; `None` if there are several, or it is unknown.
fn order_of_writes(facts: &StageFacts) -> Option<PassOrder> {
    let levels = facts.laid_out.cells.iter().flat_map(|cell| &cell.levels);
    let set = levels.flat_map(|level| &level.set).filter_map(|(parameter, value)| {
        match (parameter, value) {
            (Parameter::Rw, Value::Word(word)) => Some(word.as_str()),
            _ => None,
        }
    });
    let mut words: Vec<&str> = set.collect();
    if words.is_empty() {
        words.extend(facts.stage.set.get("rw").and_then(toml::Value::as_str));
    }
    let mut orders = words.into_iter().filter(|word| !["read", "randread"].contains(word)).map(
        |word| match word {
            "write" | "rw" | "readwrite" => Some(PassOrder::Sequential),
            "randwrite" | "randrw" => Some(PassOrder::Random),
            _ => None,
        },
    );
    let first = orders.next()??;
    orders.all(|order| order == Some(first)).then_some(first)
}

fn word(order: PassOrder) -> &'static str {
    match order {
        PassOrder::Sequential => "sequential",
        PassOrder::Random => "random",
        PassOrder::SinglePass => "single",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::testing;
    use super::*;
    use iosonde_fixtures::Load;
    use iosonde_model::record::experiment::{Preparation, Purged};
    use iosonde_model::record::facts::DeviceFacts;
    use iosonde_model::record::write_audit::WriteAudit;

    const PASSES: &str = "repeats = 1\nset = { rw = \"RW\" }\nprecondition = { passes = 2, order = \
                          \"random\" }\n";
    const PURGED: &str = "repeats = 1\nset = { rw = \"RW\" }\npurge = \"any\"\n";

    fn target(identity: &str, firmware: &str) -> TargetFacts {
        let audit = WriteAudit { identity: identity.into(), ..WriteAudit::default() };
        let device = DeviceFacts { firmware: Some(firmware.into()), ..DeviceFacts::default() };
        TargetFacts { write_audits: vec![audit], device: Some(device), ..TargetFacts::default() }
    }

    fn purged() -> Purged {
        Purged {
            method: "discard".into(),
            reason: String::new(),
            tool: String::new(),
            identity: String::new(),
            firmware: String::new(),
            range_bytes: 1 << 30,
            checked_blocks: 256,
            blank_blocks: 256,
            started_unix_ns: 0,
            ended_unix_ns: 1,
        }
    }

    /// A stage with this access pattern, prepared by these passes and, if set, a purge.
    fn stage(text: &str, rw: &str, passes: u32, purge: bool) -> StageFacts {
        let read_percent = if rw.contains("write") { 0 } else { 100 };
        let load = Load { read_percent, ..Load::default() };
        let mut facts = testing::facts(&testing::stage_of(&text.replace("RW", rw)), |_, _| load);
        facts.laid_out.prepared.push(Preparation {
            first_round: 0,
            passes,
            range_bytes: 1 << 30,
            written_bytes: u64::from(passes) << 30,
            started_unix_ns: 0,
            ended_unix_ns: 1,
            purge: purge.then(purged),
            decision: String::new(),
        });
        facts
    }

    fn left(stages: Vec<StageFacts>) -> Option<Left> {
        let mut study = testing::study(stages, None);
        study.target = Some(target("SN1", "1.0"));
        Left::of(&study, "before")
    }

    #[test]
    fn records_make_it_possible_and_no_more() {
        let passes = stage(PASSES, "randwrite", 2, false);
        let done = left(vec![passes.clone()]).unwrap();
        let requested = passes.stage.clone();
        let now = target("SN1", "1.0");
        let of = |left: &Left, stage: &Stage| left.candidate(&now, stage, 1 << 30);
        assert_eq!(of(&done, &requested), Ok(Candidate::Passes));
        let why = |now: TargetFacts, range| done.candidate(&now, &requested, range).unwrap_err();
        assert!(why(target("SN2", "1.0"), 1 << 30).contains("`SN2`, and that was `SN1`"));
        assert!(why(target("SN1", "1.1"), 1 << 30).contains("firmware is `1.1` now"));
        assert!(why(target("SN1", "1.0"), 2 << 30).contains("it prepared"));
        // After a purge, or writes of another order, the preconditioning does not count.
        for after in [stage(PURGED, "randread", 0, true), stage(PASSES, "write", 0, false)] {
            let left = left(vec![passes.clone(), after]).unwrap();
            assert!(of(&left, &requested).unwrap_err().contains("no preconditioning is on record"));
        }
        // Reads, and writes of the same order, change nothing.
        let mut reads = stage(PASSES, "randread", 0, false);
        reads.laid_out.prepared.clear();
        assert_eq!(
            of(&left(vec![passes.clone(), reads]).unwrap(), &requested),
            Ok(Candidate::Passes)
        );
        let sequential = testing::stage_of("precondition = { passes = 2 }");
        assert!(of(&done, &sequential).unwrap_err().contains("2 random passes"));
        assert_eq!(left(Vec::new()), None);
    }

    #[test]
    fn a_purge_is_left_out_only_if_nothing_was_written_since() {
        let now = target("SN1", "1.0");
        let of = |stages: Vec<StageFacts>, stage: &Stage| {
            left(stages).unwrap().candidate(&now, stage, 1 << 30)
        };
        let reads = stage(PURGED, "randread", 0, true);
        assert_eq!(of(vec![reads.clone()], &reads.stage), Ok(Candidate::Purge));
        let writes = stage(PURGED, "randwrite", 0, true);
        assert!(of(vec![writes], &reads.stage).unwrap_err().contains("written since"));
        // A stage that purges must precondition afterwards, regardless of earlier passes.
        let passes = stage(PASSES, "randwrite", 2, false);
        let both = testing::stage_of("purge = \"any\"\nprecondition = { order = \"random\" }");
        assert!(of(vec![passes], &both).unwrap_err().contains("written since"));
    }

    #[test]
    fn what_is_measured_decides() {
        let seen = |blank_blocks, rates: &[f64]| Seen {
            checked_blocks: 256,
            blank_blocks,
            rates: rates.to_vec(),
        };
        let (purge, passes) = (Candidate::Purge, Candidate::Passes);
        assert!(purge.confirmed(&seen(256, &[])).unwrap().contains("are blank"));
        assert!(
            purge.confirmed(&seen(255, &[])).unwrap_err().contains("1 of 256 blocks hold data")
        );
        assert!(purge.confirmed(&Seen::default()).is_err());
        let steady = [100.0, 101.0, 99.0, 100.0, 100.0];
        assert!(passes.confirmed(&seen(0, &steady)).unwrap().contains("hold data"));
        assert!(passes.confirmed(&seen(1, &steady)).unwrap_err().contains("are blank"));
        let falls = [100.0, 90.0, 80.0, 70.0, 60.0];
        assert!(passes.confirmed(&seen(0, &falls)).unwrap_err().contains("not steady"));
        assert!(passes.confirmed(&seen(0, &[])).is_err());
    }
}
