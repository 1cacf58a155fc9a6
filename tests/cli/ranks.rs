//! The ranks of an MPI job as hosts: the program built with `--features mpi`, started by `mpirun`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::formats::assert_fits;
use crate::hosts::{SCHEMA, SIM, assert_merged};
use crate::program::{Call, Place, listing};

/// One machine needs no network, and may have more ranks than CPUs.
const MPIRUN: &str = "--allow-run-as-root --oversubscribe --bind-to none --mca btl self,vader \
                      --mca orte_tmpdir_base .";

/// The program with MPI, built with the tests by `--features iosonde/mpi`; `None`, with the reason,
/// if they were built without.
pub(crate) fn program() -> Option<PathBuf> {
    if !cfg!(feature = "mpi") {
        iosonde_rig::skip("the tests were built without --features iosonde/mpi (libopenmpi-dev)");
        return None;
    }
    let tests = std::env::current_exe().unwrap();
    let profile = tests.parent().and_then(Path::parent).unwrap();
    let program = profile.join("examples/iosonde-mpi");
    assert!(program.is_file(), "cargo builds {} where it builds all tests", program.display());
    Some(program)
}

/// Ranks that run these words.
fn mpirun(place: &Place, program: &Path, ranks: u32, words: &str) -> Call {
    let words = format!("{MPIRUN} -n {ranks} {} {words}", program.display());
    place.other_iosonde(Path::new("mpirun"), &words)
}

#[test]
fn ranks_are_merged_into_one_result_and_each_keeps_its_own() {
    let Some(program) = program() else { return };
    let place = Place::new();
    let words = format!("run {SIM} --number-ios 20000 --results kept --output-format json");
    let json = mpirun(&place, &program, 4, &words).end().exits(0).json();
    assert_fits(SCHEMA, &json);
    assert_eq!(json["complete"], true);
    let names = ["rank0", "rank1", "rank2", "rank3"];
    let hosts = json["loads"][0]["hosts"].as_array().unwrap();
    assert_eq!(hosts.iter().map(|host| &host["name"]).collect::<Vec<_>>(), names);
    let folder = listing(&place.work().join("kept")).remove(0);
    assert_merged(&json["loads"][0], &folder, &names);
    assert_eq!(place.kept().len(), 4);
}

#[test]
fn ranks_begin_together_each_on_its_own_file() {
    let Some(program) = program() else { return };
    let place = Place::new();
    for rank in 0..2 {
        place.file(&format!("disk-rank{rank}"), &[7; 4 << 20]);
    }
    let words = "run --path disk-{host} --rw randread --ioengine psync --runtime 500ms \
                 --output-format json";
    let json = mpirun(&place, &program, 2, words).end().exits(0).json();
    let common = &json["loads"][0]["common"];
    // At most half a second; a busy machine may start a process late, never early.
    let span_ns = common["span_ns"].as_u64().unwrap();
    assert!((250_000_000..=500_000_000).contains(&span_ns), "{common}");
}

#[test]
fn no_rank_begins_unless_every_rank_can_and_the_reason_is_said_once() {
    let Some(program) = program() else { return };
    let place = Place::new();
    place.file("disk-rank0", &[0; 1 << 20]);
    let words = "run --path disk-{host} --rw randwrite --ioengine psync --number-ios 10";
    let ended = mpirun(&place, &program, 2, words).end().exits(2).silent();
    let reason = "not every rank can take part, and nothing was written on any of 2 hosts: rank1: ";
    assert_eq!(ended.err.matches(reason).count(), 1, "{}", ended.err);
    assert_eq!(fs::read(place.work().join("disk-rank0")).unwrap(), vec![0; 1 << 20]);
}

#[test]
fn a_rank_that_dies_ends_the_job_and_the_others_have_kept_what_they_have() {
    let Some(program) = program() else { return };
    let place = Place::new();
    place.file("disk", &[7; 4 << 20]);
    let words = "run --path disk --rw randread --ioengine psync --runtime 60";
    let script = format!(
        "#!/bin/sh\n[ $OMPI_COMM_WORLD_RANK = 1 ] && exec timeout -s KILL 6 {0} {words}\n\
         exec {0} {words}\n",
        program.display()
    );
    place.file("rank.sh", script.as_bytes());
    let began = std::time::Instant::now();
    let words = format!("{MPIRUN} -n 2 sh rank.sh");
    let ended = place.other_iosonde(Path::new("mpirun"), &words).end();
    assert_ne!(ended.code, Some(0));
    assert!(began.elapsed().as_secs() < 50, "{}", ended.err);
    let runs = place.runs();
    let kept = || listing(&runs).iter().any(|folder| folder.join("01-run.json").is_file());
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !kept() && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(kept(), "{:?}: {}", listing(&runs), ended.err);
}

#[test]
fn without_mpi_the_ranks_of_a_job_are_refused() {
    let tested = iosonde_fixtures::program!();
    if cfg!(feature = "mpi") && tested.path() == tested.built {
        return iosonde_rig::skip("the program under test was built with MPI");
    }
    let place = Place::new();
    let refuse = |words: &str, why: &str| {
        let call = place.iosonde(words).env("OMPI_COMM_WORLD_SIZE", "4");
        call.end().exits(2).silent().says(why);
    };
    refuse(&format!("run {SIM}"), "one of 4 ranks of an MPI job");
    refuse("check .", "--features mpi");
    refuse(&format!("run {SIM} --hosts a,b --launch local"), "leave out --hosts");
    let alone = place.iosonde(&format!("run {SIM} --number-ios 1000"));
    alone.env("OMPI_COMM_WORLD_SIZE", "1").end().exits(0);
}
