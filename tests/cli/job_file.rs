//! Job files of fio on the command line: run group by group, as a dry run, written as a job file,
//! and refused with file and line.

use std::fs;

use serde_json::Value;

use super::program::{Place, listing};

const GROUPS: &str = "\
[global]
direct=0
bs=64k
size=1m
filename=data.img
[fill]
rw=write
[scan]
stonewall
rw=read
ioengine=io_uring
iodepth=4
[both]
stonewall
rw=randrw
rwmixread=70
bs=4k
numjobs=2
number_ios=50
";

/// The document of a dry run, which has no result.
fn rehearsed(place: &Place, words: &str) -> Value {
    let ended = place
        .iosonde(&format!("run {words} --dry-run --output-format iosonde-json"))
        .end()
        .exits(0);
    serde_json::from_str(&ended.out).unwrap()
}

#[test]
fn what_came_of_a_latency_target_is_printed() {
    let place = Place::new();
    let job = "[a]\nfilename=data.img\nsize=1m\nrw=randread\nioengine=io_uring\niodepth=2\n\
               runtime=2\ntime_based\nlatency_target=900ms\nlatency_window=200ms\n";
    place.file("job.fio", job.as_bytes());
    let ended = place.iosonde("run job.fio").end();
    assert!(ended.out.contains("latency target (search): "), "{}", ended.out);
}

#[test]
fn groups_run_one_after_another_on_one_file_that_stays() {
    let place = Place::new();
    place.file("job.fio", GROUPS.as_bytes());
    let before = listing(&place.work());
    let ended = place.iosonde("run job.fio --output-format iosonde-json").end().exits(0);
    let document =
        ended.says("job.fio:5: [global] `data.img` (1 MiB) is created, and stays").json();
    let cells = document["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 3, "{document}");
    let after = listing(&place.work());
    assert_eq!(after.len(), before.len() + 1, "{after:?}");
    // A file that this program wrote may be written again; unlink=1 removes it.
    place.iosonde("run job.fio").end().exits(0);
    fs::remove_file(place.work().join("data.img")).unwrap();
    place.iosonde("run --unlink=1 job.fio").end().exits(0);
    assert_eq!(listing(&place.work()), before, "no file is left behind");
}

#[test]
fn a_dry_run_prints_every_group_and_does_nothing() {
    let place = Place::new();
    place.file("job.fio", GROUPS.as_bytes());
    let before = listing(&place.work());
    let document = rehearsed(&place, "job.fio");
    let plans = document["plans"].as_array().unwrap();
    let jobs: Vec<usize> =
        plans.iter().map(|plan| plan["jobs"].as_array().unwrap().len()).collect();
    assert_eq!(jobs, [1, 1, 2]);
    let names: Vec<_> = plans.iter().map(|plan| plan["name"].clone()).collect();
    assert_eq!(names, ["fill", "scan", "both"]);
    assert_eq!(plans[1]["jobs"][0]["iodepth"], 4);
    assert_eq!(plans[2]["stop"], serde_json::json!({ "after_ops": 50 }));
    assert_eq!(listing(&place.work()), before);
}

#[test]
fn a_plan_is_written_as_a_job_file_that_gives_the_same_plan() {
    let place = Place::new();
    place.hole("data.img", 4 << 20);
    let plain = "--path data.img --direct 0 --rw randrw --rwmixread 70 --bs 8k --iodepth 8 \
                 --iodepth-low 3 --runtime 3 --ramp-time 500ms --randseed 7";
    let printed =
        place.iosonde(&format!("run {plain} --dry-run --output-format fio-job")).end().exits(0);
    let text = printed.out.clone();
    fs::write(place.work().join("written.fio"), &text).unwrap();
    let plan = |words: &str| rehearsed(&place, words)["plan"].clone();
    let (asked, read) = (plan(plain), plan("written.fio"));
    for field in ["engine", "targets", "seed", "stop", "warmup_ns", "on_error"] {
        assert_eq!(asked[field], read[field], "{field}\n{text}");
    }
    for field in ["block_bytes", "read_percent", "region_bytes", "iodepth", "batch", "data"] {
        assert_eq!(asked["jobs"][0][field], read["jobs"][0][field], "{field}\n{text}");
    }
    let refill_at = |plan: &Value| plan["jobs"][0]["reap"]["refill_at"].clone();
    assert_eq!((refill_at(&asked), refill_at(&read)), (3.into(), 3.into()), "{text}");
}

#[test]
fn what_cannot_run_is_refused_with_file_and_line() {
    let place = Place::new();
    place.hole("data.img", 4 << 20);
    fs::create_dir(place.work().join("inner")).unwrap();
    std::os::unix::fs::symlink("../outside", place.work().join("inner/link.fio")).unwrap();
    place.file("outside", b"bs=4k\n");
    let before = listing(&place.work());
    for (name, text, message) in [
        ("a.fio", "[a]\nsize=1m\nexec_prerun=true\n", "a.fio:3: [a] exec_prerun is not supported"),
        ("b.fio", "[a]\nsize=1m\nsprandom=1\n", "b.fio:3: [a] sprandom: needs rw=randwrite"),
        ("c.fio", "[a]\nsiez=1m\n", "did you mean `size`?"),
        ("d.fio", "[a]\nfilename=${IOSONDE_UNSET}\n", "d.fio:2: [a] filename: found nothing after"),
        ("e.fio", "[a]\nfilename=data.img\nsize=900t\n", "e.fio:2: [a] "),
        ("f.fio", "[a]\nfilename=none.img\n", "f.fio:2: [a] filename: `none.img` does not exist"),
        ("inner/g.fio", "[a]\ninclude link.fio\n", "outside of the job file's directory"),
        ("i.txt", "[a]\n", "a test file needs a size in bytes"),
    ] {
        fs::write(place.work().join(name), text).unwrap();
        place.iosonde(&format!("run {name}")).end().exits(2).silent().says(message);
        fs::remove_file(place.work().join(name)).unwrap();
    }
    place.file("j.fio", b"[a]\nsize=1m\n");
    for (words, message) in [
        ("run j.fio --path x", "--path is not a fio option"),
        ("run j.fio --section k", "--section=k: there is no such section"),
        ("run j.fio --output-format fio-job", "needs --dry-run"),
        ("run missing.fio", "cannot be read"),
        ("run --allow-env --rw read --path .", "--allow-env"),
    ] {
        place.iosonde(words).end().exits(2).says(message);
    }
    fs::remove_file(place.work().join("j.fio")).unwrap();
    assert_eq!(listing(&place.work()), before);
}

#[test]
fn every_group_is_ready_before_the_first_runs_and_consents_need_an_effect() {
    let place = Place::new();
    place.hole("data.img", 1 << 20);
    let fill = "[a]\nrw=write\nbs=64k\nfilename=data.img\n";
    let later = "[b]\nstonewall\nrw=read\nbs=64k\nfilename=none.img\n";
    place.file("job.fio", format!("{fill}{later}").as_bytes());
    place
        .iosonde("run job.fio")
        .end()
        .exits(2)
        .silent()
        .says("job.fio:9: [b] filename: `none.img`");
    assert_eq!(fs::read(place.work().join("data.img")).unwrap(), vec![0; 1 << 20]);
    place.file("one.fio", fill.as_bytes());
    place.file("null.fio", b"[a]\nioengine=null\nrw=write\nsize=1m\nbs=64k\n");
    for (words, message) in [
        ("one.fio --destroy-data=nonsense", "--destroy-data=nonsense has no effect"),
        ("one.fio --overwrite-signature=bogus", "--overwrite-signature"),
        ("one.fio --overwrite-file=zzz", "--overwrite-file=zzz has no effect"),
        ("null.fio --destroy-data=x", "--destroy-data has no effect: nothing is written"),
        ("--ioengine null --rw write --overwrite-file x", "--overwrite-file has no effect"),
    ] {
        place.iosonde(&format!("run {words}")).end().exits(2).silent().says(message);
    }
}

#[test]
fn a_target_that_is_only_read_need_not_be_ours() {
    let place = Place::new();
    place.hole("data.img", 1 << 20);
    place.file("kept.img", &[7; 1 << 20]);
    let text = "[global]\nbs=64k\nio_size=256k\nsize=1m\n[a]\nrw=write\nfilename=data.img\n\
                [b]\nrw=read\nfilename=kept.img\n";
    place.file("job.fio", text.as_bytes());
    place.iosonde("run job.fio").end().exits(0);
}

#[test]
fn a_file_that_holds_something_is_not_written_by_a_job_file_either() {
    let place = Place::new();
    place.file("data.img", &[7; 1 << 20]);
    place.file("job.fio", b"[a]\nrw=write\nbs=64k\nfilename=data.img\n");
    place.iosonde("run job.fio").end().exits(5).says("job.fio:4: ");
    assert_eq!(fs::read(place.work().join("data.img")).unwrap(), vec![7; 1 << 20]);
}

#[test]
fn no_file_is_created_where_none_may_be_or_none_is_used() {
    let place = Place::new();
    let before = listing(&place.work());
    let job = "run --name=a --filename=q.img --size=1m --rw=read";
    let ended = place.iosonde(&format!("{job} --allow_file_create=0")).end().exits(2);
    ended.says("`q.img` does not exist, and allow_file_create=0 creates no file");
    let ended = place.iosonde(&format!("{job} --latency_target=1ms")).end().exits(2);
    assert!(!ended.err.contains("is created"), "{}", ended.err);
    assert_eq!(listing(&place.work()), before);
    place.iosonde(job).end().exits(0).says("is created, and stays");
    place.iosonde(&format!("{job} --allow_file_create=0")).end().exits(0);
}
