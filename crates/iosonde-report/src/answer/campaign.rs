//! The first three lines of a campaign: the result, its completeness, the next action. Each
//! experiment reports the confidence in its own figures.

use serde::Serialize;

use super::lines;

/// The first three lines of a campaign.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct CampaignAnswer {
    /// The progress or the verdict of the campaign.
    pub result: String,
    /// `yes` or `no`, with missing experiments and unsteady stages.
    pub complete: String,
    /// One command or action.
    pub next: String,
}

impl CampaignAnswer {
    /// Three lines for a screen of `screen` columns, followed by the words that do not fit.
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
