//! A failing device: exit code 1, the errno is reported, finished results are stored.

use std::fs;

use iosonde_rig::guard::{FsKind, ImageMount};
use iosonde_rig::{FuseMount, Script, skip};

use super::program::{Place, listing};

fn serve(words: &[&str]) -> Option<FuseMount> {
    let script = Script::from_words(words.iter().copied()).unwrap();
    FuseMount::new(script).map_err(skip).ok()
}

#[test]
fn no_room_during_layout() {
    for (errno, said) in [("enospc", "ENOSPC"), ("edquot", "EDQUOT"), ("eio", "EIO")] {
        let fault = format!("fault=write:{errno}:bytes=32M");
        let Some(mount) = serve(&[&fault]) else { return };
        let place = Place::new();
        let words = "check --seconds 0.5 --only cache --threads 1 --output-format json";
        let call = place.iosonde(words).arg(mount.path()).arg("256M");
        let ended = call.end().exits(1).says(said);
        let document = ended.json();
        assert_eq!(document["error"]["kind"], "environment");
        assert!(document["error"]["message"].as_str().unwrap().contains(said));
        assert!(listing(mount.path()).is_empty(), "no file stays");
        assert!(place.kept().is_empty());
    }
}

#[test]
fn an_error_in_the_middle_stops_and_is_named() {
    let Some(mount) = serve(&["read=const:200us", "fault=read:eio:after=200"]) else { return };
    let place = Place::new();
    let data = mount.path().join("data");
    fs::File::create(&data).unwrap().set_len(8 << 20).unwrap();
    let words = "run --rw randread --runtime 5 --iodepth 4 --output-format json --path";
    let ended = place.iosonde(words).arg(&data).end().exits(1);
    let document = ended.json();
    assert_eq!(document["complete"], false);
    assert_eq!(document["cells"][0]["status"], "failed");
    assert!(document["cells"][0]["outcome"]["error"].as_str().unwrap().contains("EIO"));
    assert!(document["summary"]["read"]["ops"].as_u64().unwrap() >= 100);
    assert_eq!(place.kept().len(), 1, "partial results are kept");
}

#[test]
fn errors_are_counted_where_that_is_asked() {
    let Some(mount) = serve(&["read=const:200us", "fault=read:eio:every=10"]) else { return };
    let place = Place::new();
    let data = mount.path().join("data");
    fs::File::create(&data).unwrap().set_len(8 << 20).unwrap();
    let words = "run --rw randread --runtime 1 --continue-on-error --output-format json --path";
    let ended = place.iosonde(words).arg(&data).end().exits(1);
    let document = ended.json();
    let errors = document["cells"][0]["errors"].to_string();
    assert!(errors.contains("EIO"), "{errors}");
    let ops = document["summary"]["read"]["ops"].as_f64().unwrap();
    let failed = document["cells"][0]["figures"]["errors"].as_f64().unwrap();
    assert!((failed / (failed + ops) - 0.1).abs() < 0.02, "{failed} of {}", failed + ops);
    assert_eq!(document["verdict"]["kind"], "failing");
}

#[test]
fn an_error_in_the_middle_of_a_simulated_device() {
    let place = Place::new();
    let device = "read=1ms,error-every=1,error-after=100";
    let words = format!("run --ioengine sim --path {device} --rw randread --runtime 1");
    let ended = place.iosonde(&words).arg("--output-format=json").end().exits(1);
    let document = ended.json();
    assert_eq!(document["summary"]["read"]["ops"], 100);
    assert_eq!(document["cells"][0]["status"], "failed");
    place.iosonde(&words).end().exits(1).prints("EIO");
}

#[test]
fn an_error_in_one_workload_does_not_stop_the_others() {
    // The layout writes 256 MiB in 256 requests of 1 MiB or more after splitting; only reads fail.
    let Some(mount) = serve(&["fault=read:eio:nth=500"]) else { return };
    let place = Place::new();
    let words = "check --seconds 0.5 --only cache,database,logging --threads 1";
    let call = place.iosonde(words).arg(mount.path()).arg("256M").arg("--output-format=json");
    let document = call.end().exits(1).json();
    let statuses: Vec<&str> = document["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["status"].as_str().unwrap())
        .collect();
    assert_eq!(statuses.len(), 3);
    assert_eq!(statuses.iter().filter(|status| **status == "failed").count(), 1, "{statuses:?}");
}

#[test]
fn a_failing_fsync_is_an_error() {
    // The layout ends with an fsync, so an existing file is measured instead.
    let Some(mount) = serve(&["fault=sync:eio"]) else { return };
    let place = Place::new();
    let data = mount.path().join("data");
    fs::File::create(&data).unwrap().set_len(8 << 20).unwrap();
    let words = "run --rw randwrite --runtime 0.3 --output-format json --path";
    let ended = place.iosonde(words).arg(&data).end();
    let document = ended.json();
    assert!(ended.code == Some(1), "a lost fsync is no success: {ended}");
    assert!(document.to_string().contains("EIO"), "{ended}");
}

#[test]
fn a_read_only_file_system() {
    let mount = match ImageMount::new(FsKind::Ext4, 2 << 30, "") {
        Ok(mount) => mount,
        Err(reason) => return skip(reason),
    };
    let place = Place::new();
    let data = mount.path().join("data");
    fs::write(&data, vec![0; 1 << 20]).unwrap();
    mount.set_read_only(true).unwrap();
    let call = place.iosonde("check --output-format json").arg(mount.path()).arg("256M");
    let ended = call.end().exits(1).says("Read-only file system");
    assert_eq!(ended.json()["error"]["kind"], "environment");
    let write = place.iosonde("run --rw randwrite --runtime 0.1 --path").arg(&data);
    write.end().exits(1).says("Read-only file system");
    place.iosonde("run --rw randread --runtime 0.1 --path").arg(&data).end().exits(0);
}
