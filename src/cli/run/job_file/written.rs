//! The options of the jobs as they were written, which fio's JSON repeats.

use iosonde_model::spec::fio::Asking;
use iosonde_report::json::{WrittenJob, WrittenOptions};

/// What the jobs of these groups, whose runs bear these names, were asked for.
pub(super) fn written<'a>(groups: impl Iterator<Item = (&'a Asking, &'a str)>) -> WrittenOptions {
    let mut all = WrittenOptions::default();
    for (asking, run) in groups {
        for (role, job) in asking.jobs() {
            all.global.extend(job.written(true));
            let mut options = job.written(false);
            // On a command line the name is an option, and in a file it is that of a section.
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
