//! Options of the jobs as written, which fio's JSON repeats.

use iosonde_model::spec::fio::Asking;
use iosonde_report::json::{WrittenJob, WrittenOptions};

/// Written options of the jobs of these groups; each group comes with the name of its run.
pub(super) fn written<'a>(groups: impl Iterator<Item = (&'a Asking, &'a str)>) -> WrittenOptions {
    let mut all = WrittenOptions::default();
    for (asking, run) in groups {
        for (role, job) in asking.jobs() {
            all.global.extend(job.written(true));
            let mut options = job.written(false);
            // On a command line the name is an option; in a file it is the section's name.
            if job.place.line == 0 {
                options.insert("name".into(), job.name.clone());
            }
            let grouped = job.is_grouped();
            let written = WrittenJob { name: job.name.clone(), grouped, options };
            all.jobs.insert((run.into(), role.into()), written);
        }
    }
    all
}
