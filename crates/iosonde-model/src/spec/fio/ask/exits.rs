//! Jobs that end other jobs: `exitall`, `exit_what` and `new_group`.

use super::{Asking, Part};

impl Asking {
    /// Sets the groups and which jobs end others. `new_group` divides the concurrent jobs, and
    /// `exitall` ends the job's own group unless `exit_what` says otherwise.
    pub(super) fn set_groups(&mut self) {
        let mut group = 0;
        for (index, part) in self.parts.iter_mut().enumerate() {
            group += u32::from(index > 0 && part.job.is_on("new_group"));
            part.role.span.group = group;
        }
        for part in &mut self.parts {
            let span = &mut part.role.span;
            let own = part.job.word("exit_what").is_none_or(|(word, _)| word == "group");
            span.ends_group = span.ends_all && own && group > 0;
            span.ends_all &= !span.ends_group;
        }
    }

    /// Whether later groups are skipped (`exit_what=all`).
    pub fn is_last(&self) -> bool {
        let ends = |part: &Part| {
            let what = part.job.word("exit_what").map_or("group", |(word, _)| word);
            part.job.is_on("exitall") && what == "all"
        };
        self.parts.iter().any(ends)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::super::job::testing::read;
    use super::super::ask;

    /// Per job: whether it ends all, whether it ends its group, its group.
    fn ends(lines: &str) -> Vec<(bool, bool, u32)> {
        let file = read(&format!("[global]\nsize=1m\n{lines}")).unwrap();
        let asking = ask(&file.groups[0]).unwrap();
        let spans = asking.parts.iter().map(|part| &part.role.span);
        spans.map(|span| (span.ends_all, span.ends_group, span.group)).collect()
    }

    #[test]
    fn exitall_is_of_every_job_wherever_it_stands() {
        assert_eq!(ends("[a]\n[b]\nexitall\n"), [(true, false, 0); 2]);
        assert_eq!(ends("[a]\n[b]\nnew_group\n"), [(false, false, 0), (false, false, 1)]);
    }

    #[test]
    fn a_job_ends_its_own_group_unless_exit_what_says_otherwise() {
        let jobs = "exitall\n[a]\nexit_what=stonewall\n[b]\nnew_group\n[c]\n[d]\nnew_group\n\
                    exit_what=all\n";
        let expected = [(true, false, 0), (false, true, 1), (false, true, 1), (true, false, 2)];
        assert_eq!(ends(jobs), expected);
    }

    #[test]
    fn exit_what_all_ends_the_later_groups_too() {
        let last = |lines: &str| {
            let file = read(&format!("[a]\nsize=1m\n{lines}")).unwrap();
            ask(&file.groups[0]).unwrap().is_last()
        };
        assert!(last("exitall\nexit_what=all\n"));
        assert!(!last("exit_what=all\n"), "nothing is ended without exitall");
        assert!(!last("exitall\nexit_what=stonewall\n"));
    }
}
