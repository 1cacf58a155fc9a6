//! A limit of cgroup version 2 on an NVMe disk.

use iosonde_rig::ScratchDir;
use serde_json::Value;

use crate::inside::{Answer, boot_with_nvme, inside, sh};

fn findings(answer: &Answer) -> impl Iterator<Item = &Value> {
    let findings = answer.json["cells"][0]["findings"].as_array();
    findings.into_iter().flatten().filter(|finding| finding["code"] == "cgroup_limit")
}

#[test]
fn a_limit_of_cgroup_version_2_is_named() {
    let dir = ScratchDir::new().unwrap();
    let Some(mut guest) = boot_with_nvme(dir.path()) else { return };
    let load = "run --path /dev/nvme0n1 --rw randread --iodepth 8 --runtime 4";
    let free = inside(&mut guest, load).exits(0, "without a limit");
    assert_eq!(findings(&free).count(), 0, "{free:?}");
    let rate = free.json["cells"][0]["summary"]["read"]["iops"].as_f64().unwrap();
    // Far below the disk's rate, so that the limit applies even if the machine gets busier.
    let limit = (rate / 20.0).max(5.0) as u64;
    sh(
        &mut guest,
        &format!(
            "cd /sys/fs/cgroup; echo +io >cgroup.subtree_control; mkdir slow; \
             echo \"$(cat /sys/block/nvme0n1/dev) riops={limit}\" >slow/io.max"
        ),
    );
    // The shell joins the group, and so the program runs in it.
    let limited = format!(
        "sh -c 'echo $$ >/sys/fs/cgroup/slow/cgroup.procs; exec iosonde {load} \
         --output-format json --eta-interval 0'"
    );
    let ran = guest.run(&limited).unwrap();
    let answer = Answer::of(&ran).exits(0, "with a limit");
    let found: Vec<&Value> = findings(&answer).collect();
    assert_eq!(found.len(), 1, "{:#}", answer.json["cells"][0]["findings"]);
    assert_eq!(found[0]["strength"], "proven");
    let words = answer.json["verdict"]["words"].as_str().unwrap();
    let limit = iosonde_model::units::count::thousands(limit);
    let expected = format!("cgroup I/O limit of {limit} reads per second");
    assert!(words.contains(&expected), "{words}");
}
