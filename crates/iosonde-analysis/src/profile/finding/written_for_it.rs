//! `written_for_it`: others wrote what the program had left in the page cache.

use crate::finding::{Finding, Gravity, Strength};
use iosonde_model::record::ProfileRun;
use iosonde_model::record::profile::{Class, Op, Traffic};
use iosonde_model::units::bytes;

use super::super::Figures;
use super::percent;

/// Share of the program's bytes written from which it matters.
const SHARE: f64 = 0.1;
/// Bytes below which it does not.
const FROM_BYTES: u64 = 1 << 20;

/// Speaks where write-back is a good part of the program's writing, and says for whom it was.
pub(super) fn detect(run: &ProfileRun, figures: &Figures) -> Option<Finding> {
    let all = figures.program.as_ref()?.op(Op::Write).bytes;
    let back = |traffic: &&Traffic| traffic.class == Class::WriteBack && traffic.op == Op::Write;
    let written: u64 = run.traffic.iter().filter(back).map(|traffic| traffic.bytes).sum();
    let share = written as f64 / all.max(1) as f64;
    if written < FROM_BYTES || share < SHARE {
        return None;
    }
    let mut whose: Vec<(u64, String)> = super::groups(run)
        .map(|(index, name, _)| {
            let own = run.traffic.iter().filter(|t| t.group == index).filter(back);
            (own.map(|traffic| traffic.bytes).sum(), name)
        })
        .filter(|(bytes, _)| *bytes > 0)
        .collect();
    whose.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let told: Vec<String> = whose
        .iter()
        .take(3)
        .map(|(bytes, name)| format!("`{name}` {}", bytes::rough(*bytes)))
        .collect();
    let words = format!(
        "{} of what it wrote ({}) was written for it by others, who write back its pages; dirtied \
         by {}. Its threads did not wait for these writes, and they delay those that do wait.",
        percent(share),
        bytes::rough(written),
        told.join(", "),
    );
    let finding =
        Finding::new("written_for_it", "write-back", Strength::Proven, Gravity::Fact, words);
    Some(finding.with("write_back_bytes", written as f64).with("write_back_share", share))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::finding::tests::{ask, words};
    use iosonde_fixtures::profile::{Flow, profile_of};

    #[test]
    fn write_back_is_told_by_who_dirtied_and_own_writes_are_not() {
        let own = Flow { op: Op::Write, requests: 1_000, ..Flow::default() };
        let back = |group, requests| Flow {
            class: Class::WriteBack,
            group,
            requests,
            size_bytes: 1 << 20,
            ..own
        };
        let told = words(detect, &profile_of(&[own, back("one", 300), back("two", 100)]));
        assert!(told.contains("99 % of what it wrote (400 MiB) was written for it"), "{told}");
        assert!(told.contains("dirtied by `one` 300 MiB, `two` 100 MiB"), "{told}");
        assert_eq!(ask(detect, &profile_of(&[Flow { requests: 100_000, ..own }])), None);
        // Somebody else's pages.
        let other = Flow { class: Class::Other, ..back("one", 300) };
        assert_eq!(ask(detect, &profile_of(&[own, other])), None);
    }
}
