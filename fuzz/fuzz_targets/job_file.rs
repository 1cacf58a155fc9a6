//! Whatever stands in a job file, reading it ends, and without a panic.
#![no_main]

use iosonde_model::spec::fio::{self, Outside};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    // Every include gives the text itself, so that includes go as deep as they may.
    let mut load = |_: &str| Ok(text.to_string());
    let env = |name: &str| (name.len() % 2 == 0).then(|| name.to_string());
    let mut outside = Outside {
        load: &mut load,
        env: Some(&env),
        page_bytes: 4096,
        memory_mib: 1024,
        cpus: 2,
    };
    let Ok(file) = fio::parse(text, "job.fio", &mut outside) else { return };
    for group in &file.groups {
        let Ok(asking) = fio::ask(group) else { continue };
        let bytes: Vec<u64> =
            asking.targets.iter().map(|target| target.bytes.unwrap_or(1 << 30)).collect();
        let _ = asking.workload(&bytes);
    }
});
