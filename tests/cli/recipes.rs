//! The recipes of `examples/recipes`, as far as they run without a cluster.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use iosonde_rig::{skip, skip_part};
use serde_json::Value;

use crate::program::{Place, listing};

fn recipe(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/recipes").join(name)
}

/// A PATH whose first directory contains `iosonde`.
fn path_with_iosonde(place: &Place) -> String {
    let programs = place.work().join("programs");
    fs::create_dir(&programs).unwrap();
    symlink(iosonde_fixtures::program!().path(), programs.join("iosonde")).unwrap();
    format!("{}:{}", programs.display(), std::env::var("PATH").unwrap())
}

fn succeeds(ended: &Output) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(ended.status.success(), "{}{}", text(&ended.stdout), text(&ended.stderr));
}

#[test]
fn the_script_for_slurm_makes_one_result_of_all_nodes() {
    let place = Place::new();
    match Command::new("shellcheck").arg(recipe("slurm.sh")).output() {
        Ok(ended) => succeeds(&ended),
        Err(error) => skip_part("shellcheck of slurm.sh", error),
    }
    let path = path_with_iosonde(&place);
    // Each node is this machine.
    let srun = place.work().join("programs/srun");
    fs::write(&srun, "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"\n")
        .unwrap();
    fs::set_permissions(&srun, fs::Permissions::from_mode(0o755)).unwrap();
    let call = place.other_iosonde(Path::new("bash"), recipe("slurm.sh").to_str().unwrap());
    let call = call.arg(place.work()).env("PATH", path).env("SLURM_JOB_NODELIST", "node[1-2]");
    call.env("SIZE", "16m").env("RUNTIME", "1").end().exits(0);
    let text = fs::read(place.work().join("iosonde-0.json")).unwrap();
    let json: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(json["loads"][0]["hosts"].as_array().unwrap().len(), 2);
    assert_eq!(listing(&place.work().join("iosonde-results")).len(), 1);
}

#[test]
fn the_play_for_ansible_brings_the_results_of_each_host() {
    let place = Place::new();
    let path = path_with_iosonde(&place);
    let data = place.work().join("data");
    fs::create_dir(&data).unwrap();
    let play = Command::new("ansible-playbook")
        .args(["-i", "localhost,", "-c", "local"])
        .arg(recipe("ansible.yaml"))
        .args(["-e", &format!("directory={}", data.display())])
        .args(["-e", &format!("remote={}", place.work().join("there").display())])
        .args(["-e", &format!("packed={}", place.work().join("packed.tar.gz").display())])
        .args(["-e", &format!("fleet={}", place.work().join("fleet").display())])
        .current_dir(place.work())
        .env("HOME", place.home())
        .env("PATH", path)
        .output();
    let Ok(ended) = play else { return skip("ansible-playbook is not installed") };
    succeeds(&ended);
    let fleet = place.work().join("fleet/localhost");
    assert_eq!(listing(&fleet).len(), 1);
    place.iosonde("report --output-format ndjson").arg(&fleet).end().exits(0).prints("\"check\"");
}

#[test]
fn the_job_for_kubernetes_is_what_its_schema_asks_for() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python");
    let script = "import sys, yaml, kubernetes_validate as kv\n\
        for each in yaml.safe_load_all(open(sys.argv[1])):\n    \
            kv.validate(each, kv.latest_version(), strict=True)";
    let mut validate = Command::new("python3");
    validate.env("PYTHONPATH", &python);
    let found = validate.args(["-c", "import kubernetes_validate"]).output();
    if !found.is_ok_and(|ended| ended.status.success()) {
        return skip("Python's kubernetes-validate is not there");
    }
    let mut validate = Command::new("python3");
    validate.env("PYTHONPATH", &python).args(["-c", script]).arg(recipe("kubernetes.yaml"));
    succeeds(&validate.output().unwrap());
}
