//! Written and verified data of a group.

use super::super::Fault;
use super::super::job::FioJob;
use super::{Asking, Part};
use crate::spec::{Pace, Role, Rw};

/// Rejects verification of a mixed job with separate rates of reads and writes: their order depends
/// on time, so verification cannot repeat it.
pub(super) fn repeatable(job: &FioJob, role: &Role) -> Result<(), Fault> {
    let in_time = role.rw.is_mixed() && matches!(role.pace, Pace::Each { .. });
    if in_time && role.data.checked && !job.is_off("do_verify") {
        let what = "reads and writes with a rate each are not repeated in their order to verify \
                    them: leave out the rate, or give do_verify=0";
        return Err(job.fault("verify", what));
    }
    Ok(())
}

impl Asking {
    /// Names of the roles whose written data is verified afterwards.
    pub fn verified(&self) -> Vec<&str> {
        let is_verified = |part: &&Part| {
            part.role.data.checked
                && !part.job.is_off("do_verify")
                && part.role.rw.read_percent(50) < 100
        };
        self.parts.iter().filter(is_verified).map(|part| part.role.name.as_str()).collect()
    }

    /// Whether nothing is written, and only earlier writes are verified.
    pub fn verifies_only(&self) -> bool {
        self.parts.iter().all(|part| part.job.is_on("verify_only"))
    }

    /// Whether any job modifies stored data.
    pub fn writes(&self) -> bool {
        self.writing().next().is_some()
    }

    /// Whether any job modifies this target, found by its path.
    pub fn writes_to(&self, path: &str) -> bool {
        let is_it = |index: &u16| {
            self.targets.get(usize::from(*index)).is_some_and(|target| target.path == path)
        };
        let reaches =
            |part: &Part| part.role.targets.is_empty() || part.role.targets.iter().any(is_it);
        self.writing().any(reaches)
    }

    /// The option that forbids creating this target if it does not exist.
    pub fn forbids_creation(&self, index: u16) -> Option<&'static str> {
        let forbids = |part: &Part| part.role.uses(index) && part.job.is_off("allow_file_create");
        if self.verifies_only() {
            Some("verify_only=1")
        } else if self.parts.iter().any(forbids) {
            Some("allow_file_create=0")
        } else {
            None
        }
    }

    /// The jobs that modify stored data; none if all jobs only verify.
    fn writing(&self) -> impl Iterator<Item = &Part> {
        let verifies_only = self.verifies_only();
        let writes =
            move |part: &&Part| !verifies_only && !matches!(part.role.rw, Rw::Read | Rw::RandRead);
        self.parts.iter().filter(writes)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::super::job::testing::read;
    use super::super::ask;

    #[test]
    fn rates_of_a_mixed_job_leave_no_order_to_verify() {
        let fate = |more: &str| {
            let job = "[a]\nfilename=a.img\nsize=1m\nrw=randrw\nverify=crc32c\n";
            ask(&read(&format!("{job}{more}")).unwrap().groups[0]).map(|_| ())
        };
        assert!(fate("rate_iops=1000").unwrap_err().to_string().contains("leave out the rate"));
        assert!(fate("").is_ok() && fate("rate_iops=1000\ndo_verify=0").is_ok());
        assert!(fate("rw=write\nrate_iops=1000").is_ok());
    }

    #[test]
    fn a_group_that_only_verifies_writes_nothing() {
        let job = "[a]\nfilename=a.img\nsize=1m\nrw=write\nverify=crc32c\n";
        for (more, writes) in [("", true), ("verify_only=0\n", true), ("verify_only=1\n", false)] {
            let asking = ask(&read(&format!("{job}{more}")).unwrap().groups[0]).unwrap();
            assert_eq!((asking.writes(), asking.writes_to("a.img")), (writes, writes), "{more}");
        }
        let mixed = format!("{job}verify_only=1\n[b]\nfilename=b.img\nsize=1m\nrw=write\n");
        let fault = ask(&read(&mixed).unwrap().groups[0]).unwrap_err().to_string();
        assert!(fault.contains("verify_only: jobs `a` and `b`"), "{fault}");
    }
}
