//! Selects the runs of two sides that are compared.

use std::collections::BTreeSet;

use super::{Incomparable, Observation, Request, Runs, Side};

/// The usable runs of both sides; in rounds, only runs whose partner is usable too.
pub(super) fn kept<'a>(
    a: &'a Side,
    b: &'a Side,
    requested: &Request,
    warnings: &mut Vec<String>,
) -> Result<[Vec<&'a Observation>; 2], Incomparable> {
    let mut why = [Vec::new(), Vec::new()];
    let mut counts = |index: usize, run: &Observation| {
        if let Some(reason) = &run.left_out {
            why[index].push(format!("{} ({reason})", run.cell));
        }
        run.left_out.is_none()
    };
    let mut kept: [Vec<&Observation>; 2] = if requested.in_rounds {
        let pairs = a.runs.iter().zip(&b.runs);
        pairs.filter(|(x, y)| counts(0, x) & counts(1, y)).unzip().into()
    } else {
        let [of_a, of_b] = [(0, a), (1, b)]
            .map(|(index, side)| side.runs.iter().filter(|run| counts(index, run)).collect());
        [of_a, of_b]
    };
    for (side, runs) in ["A", "B"].into_iter().zip(&mut kept) {
        let before = runs.len();
        if !requested.in_rounds {
            let mut seen = BTreeSet::new();
            runs.retain(|run| run.identical().is_none_or(|record| seen.insert(record)));
        }
        if runs.len() < before {
            let twice = before - runs.len();
            warnings.push(format!("{side}: {twice} runs were given twice and are counted once"));
        }
    }
    leave_out_copies(&mut kept, requested.in_rounds, warnings);
    for (index, (side, left)) in ["A", "B"].into_iter().zip(&why).enumerate() {
        if kept[index].is_empty() {
            let why = left.first().cloned().unwrap_or_else(|| "there is none".into());
            return Err(Incomparable::NothingLeft { side: side.into(), why });
        }
        if let Some(first) = left.first() {
            warnings.push(format!(
                "{side}: {} of {} runs are left out, the first of them {first}",
                left.len(),
                left.len() + kept[index].len()
            ));
        }
    }
    Ok(kept)
}

/// Leaves out repeated simulations with the same seed, which count as one run; in rounds, leaves
/// out the round if either of its runs is such a copy.
fn leave_out_copies(kept: &mut [Runs<'_>; 2], in_rounds: bool, warnings: &mut Vec<String>) {
    let is_first = |runs: &Runs<'_>| -> Vec<bool> {
        let first = |at: usize| !runs[..at].iter().any(|earlier| runs[at].is_copy_of(earlier));
        (0..runs.len()).map(first).collect()
    };
    let mut stays = [is_first(&kept[0]), is_first(&kept[1])];
    if in_rounds {
        let both = stays[0].iter().zip(&stays[1]).map(|(a, b)| a & b).collect::<Vec<_>>();
        stays = [both.clone(), both];
    }
    for ((side, runs), stays) in ["A", "B"].into_iter().zip(kept).zip(stays) {
        let before = runs.len();
        let mut stays = stays.into_iter();
        runs.retain(|_| stays.next() == Some(true));
        if runs.len() < before {
            warnings.push(format!(
                "{side}: {} of {before} runs are simulations with the seed of another and equal to \
                 it, and left out",
                before - runs.len()
            ));
        }
    }
}
