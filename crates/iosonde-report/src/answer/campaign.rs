//! The first three lines of a campaign: what is done, whether that is all, what to do next. How far
//! its figures can be trusted is said by each experiment.

use serde::Serialize;

use super::lines;

/// What stands first.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct CampaignAnswer {
    /// What is done.
    pub result: String,
    /// `yes` or `no`, and what of it is not as it should be.
    pub complete: String,
    /// One command or action.
    pub next: String,
}

impl CampaignAnswer {
    /// Three lines of a screen of so many columns, and below them what these have no space for.
    pub fn text(&self, screen: usize) -> String {
        let (result, complete, next) = (&self.result, &self.complete, &self.next);
        lines([("Result", result), ("Complete", complete), ("Next", next)], screen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completeness_is_no_confidence() {
        let answer = CampaignAnswer {
            result: "fleet: 2 of 3 done".into(),
            complete: "no: 1 experiment is missing".into(),
            next: "Run what is missing: iosonde campaign resume out".into(),
        };
        let expected = "Result:      fleet: 2 of 3 done\n\
                        Complete:    no: 1 experiment is missing\n\
                        Next:        Run what is missing: iosonde campaign resume out\n\n";
        assert_eq!(answer.text(80), expected);
    }
}
