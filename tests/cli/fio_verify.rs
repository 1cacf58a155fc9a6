//! Verification in fio's job files: the data written, the data that a later job expects, and cases
//! that are not damage.

use std::fs;

use serde_json::Value;

use super::program::{Ended, Place};

/// Its standard output as fio's JSON.
fn fio_json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap()
}

#[test]
fn a_pattern_is_written_and_verified_without_verify_and_read_back_later() {
    let place = Place::new();
    let job = "run --name=x --filename=data.img --bs=4k --size=64k";
    for more in ["--verify_pattern=0xdead", "--verify_pattern=0xdead --verify=md5"] {
        let words = format!("{job} --rw=write {more} --output-format=json");
        let document = fio_json(&place.iosonde(&words).end().exits(0));
        assert_eq!(document["jobs"][0]["read"]["total_ios"].as_u64(), Some(16), "{more}");
        let bytes = fs::read(place.work().join("data.img")).unwrap();
        assert!(bytes.chunks(2).all(|pair| pair == [0xde, 0xad]), "{more}");
        place.iosonde(&format!("{job} --rw=read {more}")).end().exits(0);
        fs::remove_file(place.work().join("data.img")).unwrap();
    }
    let job = format!("{job} --verify=crc32c --buffer_pattern=0xbeef");
    place.iosonde(&format!("{job} --rw=write --do_verify=0")).end().exits(0);
    place.iosonde(&format!("{job} --rw=read")).end().exits(0);
}

#[test]
fn what_only_verifies_a_damaged_file_needs_no_consent_and_reads_alone() {
    let place = Place::new();
    let job = "run --name=x --filename=data.img --bs=4k --size=64k --rw=write --verify=crc32c";
    place.iosonde(job).end().exits(0);
    place.iosonde(&format!("{job} --verify_only")).end().exits(0);
    let path = place.work().join("data.img");
    let mut bytes = fs::read(&path).unwrap();
    bytes[20_000] ^= 1;
    fs::write(&path, &bytes).unwrap();
    for more in ["--verify_only", "--verify_only --readonly"] {
        place.iosonde(&format!("{job} {more}")).end().exits(4);
    }
    assert!(fs::read(&path).unwrap() == bytes, "nothing was written");
    place.iosonde(job).end().exits(5).says("writing would destroy it");
}

#[test]
fn operations_of_several_sizes_and_writes_after_trims_are_verified() {
    let place = Place::new();
    for more in ["rw=write --bssplit=4k/50:8k/50", "rw=randwrite --bsrange=4k-16k", "rw=trimwrite"]
    {
        let words = format!("run --name=x --filename=data.img --size=256k --{more}");
        place.iosonde(&format!("{words} --verify=crc32c")).end().exits(0);
    }
}

#[test]
fn what_this_program_did_not_write_is_refused_and_not_called_corrupt() {
    let place = Place::new();
    let job = "run --name=x --filename=data.img --bs=4k --size=64k --rw=read --verify=crc32c";
    let foreign: Vec<u8> = (0..65_536u32).map(|at| (at % 251) as u8 | 1).collect();
    place.file("data.img", &foreign);
    for more in ["", "--verify_only"] {
        let ended = place.iosonde(&format!("{job} {more}")).end().exits(7);
        ended.says("cannot be verified: what it holds was not written by iosonde");
    }
    fs::remove_file(place.work().join("data.img")).unwrap();
    let write = "run --name=x --filename=data.img --bs=4k --size=64k --rw=write --verify=crc32c";
    place.iosonde(&format!("{write} --randseed=5")).end().exits(0);
    place.iosonde(&format!("{job} --randseed=5")).end().exits(0);
    place.iosonde(job).end().exits(7).says("with another randseed");
    let path = place.work().join("data.img");
    let mut bytes = fs::read(&path).unwrap();
    bytes[20_000] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let ended = place.iosonde(&format!("{job} --randseed=5")).end().exits(4);
    let ended = ended.prints("offset 16,384").prints("iosonde verify");
    ended.lacks("smartctl").lacks("I/O errors");
}

#[test]
fn an_operation_that_takes_too_long_is_no_io_error() {
    let place = Place::new();
    let job = "run --name=x --filename=data.img --size=1m --rw=randread --thinktime=1 \
               --max_latency=1us";
    place.iosonde(job).end().exits(1).prints("max_latency").lacks("smartctl").lacks("I/O errors");
    let document = fio_json(&place.iosonde(&format!("{job} --output-format=json")).end().exits(1));
    assert_eq!(document["jobs"][0]["error"].as_i64(), Some(110), "{document}");
}
