//! Why a metric of two sides is not compared.

use super::observation::better;
use super::{Better, Runs};

/// Why the sides are not compared by this metric; `None` if they are compared.
pub(super) fn why(metric: &str, a: &Runs<'_>, b: &Runs<'_>) -> Option<String> {
    absent(metric, a, b).or_else(|| unlike_offers(metric, a, b))
}

/// Why some runs do not have a metric.
fn absent(metric: &str, a: &Runs<'_>, b: &Runs<'_>) -> Option<String> {
    let all = a.len() + b.len();
    let without = || a.iter().chain(b).filter(|run| run.value(metric).is_none());
    let without_it = format!("{} of {all} runs do not have it", without().count());
    let words = match without().filter(|run| run.is_unsustainable).count() {
        0 if without().count() == all => "no run has this metric".into(),
        0 => format!("{without_it}: too few operations, or none"),
        over => format!(
            "{without_it}: in {over} more was offered than was sustained, so latencies \
             would only show the length of the run"
        ),
    };
    (without().count() > 0).then_some(words)
}

/// Why rates are not compared: with different offered loads, rates differ because of the load.
fn unlike_offers(metric: &str, a: &Runs<'_>, b: &Runs<'_>) -> Option<String> {
    let [of_a, of_b] = [a, b].map(|runs| runs.first()?.identity.offered());
    let is_rate = better(metric) == Better::Higher;
    let formatted = |rate: Option<String>| rate.unwrap_or_else(|| "a closed loop".into());
    let differ = is_rate && of_a != of_b;
    differ.then(|| {
        let [of_a, of_b] = [of_a, of_b].map(formatted);
        format!("the offered loads differ, A {of_a}, B {of_b}: what is done follows the load")
    })
}
