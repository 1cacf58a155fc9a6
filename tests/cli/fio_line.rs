//! Command lines of fio with `fio` replaced by `iosonde run`.

use std::fs;
use std::process::Command;

use iosonde_rig::skip;
use serde_json::Value;

use super::program::{Place, listing};

const LINES: &str = include_str!("../fixtures/fio/command-lines.txt");

/// The lines with their outcomes, adapted to run here: with smaller sizes and times, and files in
/// place of devices.
fn lines() -> impl Iterator<Item = (&'static str, &'static str, String)> {
    let lines = LINES.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| {
        let (fate, command) = line.split_once(" | fio ").unwrap();
        let words: Vec<String> = command.split(' ').map(shortened).collect();
        (fate, command, words.join(" "))
    })
}

fn shortened(word: &str) -> String {
    let Some((name, value)) = word.split_once('=') else { return word.into() };
    let value = match (name.trim_start_matches('-'), value) {
        ("filename", "/dev/sdX" | "/custom/file" | "fileT") => "device.img",
        ("directory", _) => ".",
        ("runtime", _) => "200ms",
        ("ramp_time", _) => "100ms",
        ("size", "4k") => "4k",
        ("size" | "io_size", _) => "1m",
        _ => value,
    };
    format!("{name}={value}")
}

#[test]
fn common_command_lines_run_with_one_word_replaced() {
    let (mut run, mut all) = (0, 0);
    for (fate, command, words) in lines() {
        let place = Place::new();
        place.hole("device.img", 4 << 20);
        let ended = place.iosonde(&format!("run {words}")).end();
        all += 1;
        match fate.strip_prefix("refused: ") {
            None => {
                assert_eq!(fate, "runs", "{command}");
                assert!(ended.code == Some(0), "{command}\n{}\n{}", ended.out, ended.err);
                run += 1;
            }
            Some(name) => {
                assert_eq!(ended.code, Some(2), "{command}\n{}", ended.err);
                assert!(ended.err.contains(name), "{command}\n{}", ended.err);
                let made = listing(&place.work());
                assert_eq!(made.len(), 1, "{command}: nothing is made: {made:?}");
            }
        }
    }
    assert!(all >= 58 && run >= 50, "{run} of {all}");
}

#[test]
fn a_command_line_means_what_its_job_file_means() {
    let place = Place::new();
    place.hole("data.img", 4 << 20);
    place.file(
        "a.fio",
        b"[global]\nfilename=data.img\nbs=8k\n[a]\nrw=randread\nioengine=libaio\niodepth=4\n\
          [b]\nstonewall\nrw=read\nsize=1m\n",
    );
    let printed = |words: &str| -> Value {
        let words = format!("run --randseed=1 {words} --dry-run --output-format iosonde-json");
        serde_json::from_str(&place.iosonde(&words).end().exits(0).out).unwrap()
    };
    let plans = |words: &str| printed(words)["plans"].clone();
    let line = "--filename=data.img --bs=8k --name=a --rw=randread --ioengine=libaio --iodepth=4 \
                --name=b --stonewall --rw=read --size=1m";
    assert_eq!(plans("a.fio"), plans(line));
    // Options of the command line apply only where the file sets none.
    let with = plans("a.fio --bs=4k --io_size=64k --section a --section b");
    assert_eq!(with[0]["jobs"][0]["block_bytes"], 8192);
    assert_eq!(with[0]["stop"]["after_bytes"], 65_536, "{}", with[0]["stop"]);
    assert_eq!(printed("a.fio --section b")["plan"]["jobs"][0]["role"], "b");
    assert_eq!(plans("a.fio a.fio").as_array().unwrap().len(), 4);
}

#[test]
fn defaults_are_fios_and_the_first_line_says_so() {
    let place = Place::new();
    let words = "run --name=x --size=64k --rw=randwrite --iodepth=8";
    let ended = place.iosonde(words).end().exits(0);
    assert!(ended.out.starts_with("read as fio's command line: fio's defaults"), "{}", ended.out);
    assert!(ended.err.contains("iodepth=8 has no effect, as in fio"), "{}", ended.err);
    assert_eq!(fs::metadata(place.work().join("x.0.0")).unwrap().len(), 65_536);
    // A file that this job created may be written again; another's may not.
    place.iosonde(words).end().exits(0);
    place.file("x.0.0", &[7; 65_536]);
    place.iosonde(words).end().exits(5);
    assert_eq!(fs::read(place.work().join("x.0.0")).unwrap(), vec![7; 65_536]);
    place.iosonde("run --name=y --size=64k --rw=read --unlink=1").end().exits(0);
    assert!(!place.work().join("y.0.0").exists());
}

/// Output of a run in a shell with both streams joined.
fn piped(place: &Place, words: &str) -> String {
    let line = format!("{} run {words} 2>&1", iosonde_fixtures::program!());
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(line).current_dir(place.work());
    shell.env("XDG_STATE_HOME", place.work().join("state"));
    String::from_utf8(shell.output().unwrap().stdout).unwrap()
}

#[test]
fn the_options_are_in_the_json_as_they_were_written_and_nothing_stands_in_its_way() {
    let place = Place::new();
    let words = "--blocksize=4k --ioengine=psync --name=a --readwrite=randread --size=64k \
                 --iodepth=4 --name=b --rw=read --size=64k --iodepth=8 --output-format=json";
    let result: Value = serde_json::from_str(&piped(&place, words)).unwrap();
    let written = |pairs: &[(&str, &str)]| -> Value {
        pairs.iter().map(|(name, value)| ((*name).to_string(), Value::from(*value))).collect()
    };
    assert_eq!(result["global options"], written(&[("bs", "4k"), ("ioengine", "psync")]));
    let first = [("name", "a"), ("rw", "randread"), ("size", "64k"), ("iodepth", "4")];
    assert_eq!(result["jobs"][0]["job options"], written(&first));
    assert_eq!(result["jobs"][1]["job options"]["iodepth"], "8");
    let notes = result["iosonde"]["notes"].as_array().unwrap();
    let is_said = |what: &str| notes.iter().any(|note| note.as_str().unwrap().contains(what));
    assert!(is_said("iodepth=4 has no effect") && is_said("is created, and stays"), "{notes:?}");
    // In a file the section sets the name; of jobs reported together the last name is used.
    place.file(
        "job.fio",
        b"[global]\nfilename=data.img\nsize=64k\ngroup_reporting\n[a]\nbs=8k\n[b]\nbs=16k\n",
    );
    let lines = piped(&place, "job.fio --output-format=terse");
    assert!(lines.lines().all(|line| line.starts_with("3;iosonde")), "{lines}");
    let result: Value =
        serde_json::from_str(&piped(&place, "job.fio --output-format=json+")).unwrap();
    assert_eq!(result["jobs"][0]["job options"], written(&[("bs", "16k")]));
    let global = written(&[("filename", "data.img"), ("size", "64k")]);
    assert_eq!(result["global options"], global);
}

#[test]
fn percentiles_are_those_that_are_asked_for() {
    let place = Place::new();
    place.hole("data.img", 4 << 20);
    let words = "run --filename=data.img --percentile_list=25:75 --name=x --rw=read --bs=4k \
                 --lat_percentiles=1 --clat_percentiles=0 --output-format=json --name=y --rw=read \
                 --bs=4k --percentile_list=50";
    let out = place.iosonde(words).end().exits(0).out;
    let result: Value = serde_json::from_str(&out).unwrap();
    let names = |job: usize, kind: &str| -> Vec<String> {
        let shown = result["jobs"][job]["read"][kind]["percentile"].as_object();
        shown.map_or(Vec::new(), |shown| shown.keys().cloned().collect())
    };
    assert_eq!(names(0, "lat_ns"), ["25.000000", "75.000000"]);
    assert!(names(0, "clat_ns").is_empty() && names(1, "lat_ns").is_empty());
    assert_eq!(names(1, "clat_ns"), ["50.000000"]);
}

#[test]
fn a_mixed_job_is_verified_after_it_has_written() {
    let place = Place::new();
    for (rw, bs) in [("randrw", "4k"), ("rw", "16k")] {
        let words = format!(
            "run --name={rw} --rw={rw} --bs={bs} --size=512k --verify=crc32c --output-format=json"
        );
        let out = place.iosonde(&words).end().exits(0).out;
        let job = serde_json::from_str::<Value>(&out).unwrap()["jobs"][0].clone();
        assert!(job["write"]["total_ios"].as_u64().unwrap() > 0 && job["error"] == 0, "{job}");
        // Reads of the load and of the verification together cover the whole file, as with fio.
        let read = &job["read"];
        assert_eq!(read["io_bytes"], 512 << 10, "{job}");
        assert_eq!(read["lat_ns"]["N"], read["total_ios"], "{job}");
        let path = place.work().join(format!("{rw}.0.0"));
        let mut bytes = fs::read(&path).unwrap();
        bytes.iter_mut().step_by(1024).for_each(|byte| *byte ^= 1);
        fs::write(&path, bytes).unwrap();
        let read = format!("{words} --verify_only");
        place.iosonde(&read).end().exits(4);
    }
}

#[test]
fn the_null_engine_shares_no_run_with_engines_that_move_data() {
    let place = Place::new();
    let words = "run --name=n --ioengine=null --size=1m --name=f --rw=write --size=64k";
    place.iosonde(words).end().exits(2).says("null moves no data, and `f` of the same group does");
    let apart = format!("{words} --stonewall --output-format=json");
    let out = place.iosonde(&apart).end().exits(0).out;
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["jobs"][1]["write"]["io_bytes"], 65_536);
    assert_eq!(fs::metadata(place.work().join("f.0.0")).unwrap().len(), 65_536);
}

#[test]
fn a_warm_up_without_a_runtime_is_part_of_the_size() {
    let place = Place::new();
    let words = "run --name=x --rw=read --bs=4k --size=400k --rate_iops=100 --ramp_time=500ms \
                 --output-format=json";
    let ended = place.iosonde(words).end().exits(0).says("ramp_time: its I/O counts");
    let result: Value = serde_json::from_str(&ended.out).unwrap();
    let moved = result["jobs"][0]["read"]["total_ios"].as_u64().unwrap();
    assert!((30..=60).contains(&moved), "{moved}");
}

#[test]
fn a_single_pass_writes_all_flash_once() {
    let place = Place::new();
    let words = "run --name=x --rw=randwrite --bs=4k --size=400k --sprandom=1 --spr_op=0.2 \
                 --spr_num_regions=10 --output-format=json";
    let out = place.iosonde(words).end().exits(0).out;
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["jobs"][0]["write"]["total_ios"], 120);
    for (more, expected) in [
        ("--rw=randrw", "sprandom: needs rw=randwrite"),
        ("--random_generator=tausworthe", "needs lfsr"),
        ("--norandommap=0", "needs norandommap=1"),
        ("--spr_op=2", "spr_op: expected one number above 0"),
        ("--nrfiles=2", "is of one file"),
    ] {
        place.iosonde(&format!("{words} {more}")).end().exits(2).says(expected);
    }
}

#[test]
fn output_goes_to_a_file_and_replaces_no_other() {
    let place = Place::new();
    place.hole("data.img", 1 << 20);
    let run = |more: &str| {
        let words = format!("run --name=x --filename=data.img --rw=read --bs=64k {more}");
        place.iosonde(&words).end()
    };
    run("--output=result.json --output-format=json").exits(0).silent();
    let text = fs::read_to_string(place.work().join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    assert!(result["jobs"][0]["read"]["iops"].as_f64().unwrap() > 0.0);
    run("--output=result.json").exits(0).silent();
    run("--output=/dev/null").exits(0).silent();
    run("-o short.txt").exits(0).silent();
    assert!(fs::read_to_string(place.work().join("short.txt")).unwrap().contains("IOPS="));
    run("--output=/dev/stdout").exits(0).prints("IOPS=");
    run("--output=/dev/stderr").exits(0).silent().says("IOPS=");
    // An earlier report is replaced also with native options.
    let own = "run --path=data.img --rw=read --bs=64k --io-size=256k --output=own.txt";
    for format in ["normal", "json", "fio-json", "terse"] {
        let own = format!("{own}.{format} --output-format={format}");
        place.iosonde(&own).end().exits(0);
        place.iosonde(&own).end().exits(0);
    }
    place.file("notes.txt", b"mine");
    run("--output=notes.txt").exits(2);
    assert_eq!(fs::read(place.work().join("notes.txt")).unwrap(), b"mine");
    run("--readonly --minimal").exits(0);
    let written = "run --name=x --filename=data.img --rw=write --readonly";
    place.iosonde(written).end().exits(2).says("--readonly");
    let shown = place.iosonde("run --name=x --rw=read --size=1m --showcmd").end().exits(0);
    assert_eq!(shown.out, "fio --name=x --rw=read --size=1m\n");
    place.iosonde("run --name=x --rw=read --size=1m --parse-only").end().exits(0).silent();
    assert!(!place.work().join("x.0.0").exists());
}

#[test]
fn several_formats_are_written_in_fios_order() {
    let place = Place::new();
    place.hole("data.img", 1 << 20);
    let run = |more: &str| {
        let words = format!("run --name=x --filename=data.img --rw=read --bs=64k {more}");
        place.iosonde(&words).end().exits(0).out
    };
    let all = run("--output-format=normal,json,terse");
    let (line, rest) = all.split_once('\n').unwrap();
    assert!(line.starts_with("3;iosonde-"), "{line}");
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    let document = values.next().unwrap().unwrap();
    assert_eq!(document["jobs"][0]["read"]["total_ios"], 16);
    let text = &rest[values.byte_offset()..];
    assert!(text.contains("read as fio's command line") && text.contains("IOPS="), "{text}");
    let appended = run("--append-terse --terse-version=5");
    assert!(appended.starts_with("5;iosonde-") && appended.contains("IOPS="), "{appended}");
}

#[test]
fn a_file_that_is_too_short_is_lengthened_if_it_holds_nothing_of_others() {
    let place = Place::new();
    let words = "run --name=x --filename=data.img --rw=read --bs=64k --size=512k --numjobs=2 \
                 --offset_increment=768k --group_reporting";
    let length = || fs::metadata(place.work().join("data.img")).unwrap().len();
    place.hole("data.img", 1 << 20);
    place.iosonde(&format!("{words} --readonly")).end().exits(2).says("reach to 1310720 B");
    place.iosonde(&format!("{words} --dry-run")).end().exits(0);
    assert_eq!(length(), 1 << 20);
    place.iosonde(words).end().exits(0).says("is lengthened to");
    assert_eq!(length(), (768 + 512) << 10);
    place.file("data.img", &[7; 1 << 20]);
    place.iosonde(words).end().exits(5);
    assert_eq!(fs::read(place.work().join("data.img")).unwrap(), vec![7; 1 << 20]);
}

#[test]
fn what_is_verified_is_read_by_the_job_that_wrote_it() {
    let place = Place::new();
    let words = "run --name=x --size=256k --rw=randwrite --bs=4k --verify=crc32c \
                 --name=y --stonewall --rw=read --size=64k --output-format=json";
    let out = place.iosonde(words).end().exits(0).out;
    let document: Value = serde_json::from_str(&out).unwrap();
    let jobs = document["jobs"].as_array().unwrap();
    let figures = |job: &Value| {
        let ios = |way: &str| job[way]["total_ios"].as_u64().unwrap();
        (
            job["jobname"].as_str().unwrap().to_string(),
            job["groupid"].clone(),
            ios("read"),
            ios("write"),
        )
    };
    let found: Vec<_> = jobs.iter().map(figures).collect();
    assert_eq!(found, [("x".into(), 0.into(), 64, 64), ("y".into(), 1.into(), 16, 0)]);
    assert!(jobs[0]["read"]["bw_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn an_atomic_write_is_one_or_the_error_of_the_system() {
    let place = Place::new();
    let words =
        "run --name=x --size=64k --rw=write --bs=4k --direct=1 --ioengine=libaio --atomic=1";
    let ended = place.iosonde(words).end();
    // Fails before Linux 6.11, and if the file system or device lacks support.
    let is_refused = ended.code == Some(1)
        && ["EOPNOTSUPP", "EINVAL", "ENOTSUP"].iter().any(|name| ended.out.contains(name));
    assert!(ended.code == Some(0) || is_refused, "{:?}\n{}\n{}", ended.code, ended.out, ended.err);
    let words = "run --name=x --size=64k --rw=write --atomic=1 --ioengine=psync";
    place.iosonde(words).end().exits(2).says("expected ioengine=io_uring, libaio or pvsync2");
}

#[test]
fn batches_and_depths_are_counted_as_they_were() {
    let place = Place::new();
    place.hole("data.img", 1 << 20);
    let words = "run --name=x --filename=data.img --rw=read --bs=4k --ioengine=libaio --iodepth=8 \
                 --iodepth_batch_submit=8 --iodepth_batch_complete_min=8 --output-format=json";
    let out = place.iosonde(words).end().exits(0).out;
    let job = serde_json::from_str::<Value>(&out).unwrap()["jobs"][0].clone();
    let share = |key: &str, class: &str| job[key][class].as_f64().unwrap();
    assert_eq!(share("iodepth_level", "8"), 100.0, "{job}");
    assert_eq!(share("iodepth_submit", "8"), 100.0, "{job}");
    for key in ["iodepth_level", "iodepth_submit", "iodepth_complete"] {
        let sum: f64 = job[key].as_object().unwrap().values().filter_map(Value::as_f64).sum();
        assert!((sum - 100.0).abs() < 0.01, "{key}: {job}");
    }
}

#[test]
fn fios_options_are_listed_with_where_we_stand() {
    let place = Place::new();
    let listed = place.iosonde("run --cmdhelp=all").end().exits(0).out;
    assert!(listed.lines().count() > 200, "{listed}");
    assert!(listed.contains("\nrw  "), "{listed}");
    let one = place.iosonde("run --cmdhelp=exec_prerun").end().exits(0).out;
    assert!(one.contains("refused"), "{one}");
    let documented = include_str!("../../docs/fio-options.txt");
    assert_eq!(listed, documented, "docs/fio-options.txt is what --cmdhelp=all prints");
}

#[test]
fn jobs_of_a_group_have_engines_ends_and_logs_of_their_own() {
    let place = Place::new();
    place.file(
        "job.fio",
        b"[w]\nfilename=w.img\nsize=1m\nrw=write\nioengine=libaio\niodepth=4\nverify=crc32c\n\
          write_bw_log=w\nlog_avg_msec=100\n\
          [r]\nfilename=r.img\nsize=256k\nrw=randread:4\nioengine=mmap\nwait_for=w\n\
          write_hist_log\nlog_hist_msec=100\n\
          [m]\nfilename=m.img\nsize=256k\nrw=randrw\nrate_iops=2000,1000\nstartdelay=50ms\n",
    );
    let out = place.iosonde("run job.fio --output-format=json").end().exits(0).out;
    let result: Value = serde_json::from_str(&out).unwrap();
    let count = |job: usize, way: &str| result["jobs"][job][way]["total_ios"].as_u64().unwrap();
    assert_eq!((count(0, "write"), count(1, "read")), (256, 64));
    assert_eq!(count(2, "read") + count(2, "write"), 64);
    let jobs = result["jobs"].as_array().unwrap();
    assert_eq!((jobs.len(), count(0, "read")), (3, 256), "verified by the job that wrote");
    let log = fs::read_to_string(place.work().join("w_bw.1.log")).unwrap();
    assert!(log.lines().all(|line| line.split(", ").count() == 5) && !log.is_empty(), "{log}");
    let log = fs::read_to_string(place.work().join("r_clat_hist.2.log")).unwrap();
    assert!(log.lines().all(|line| line.split(", ").count() == 3 + 1856), "{log}");
}

#[test]
fn a_log_of_operations_is_written_and_replayed() {
    let place = Place::new();
    let writes = "run --name=a --filename=a.img --rw=randwrite --bs=4k --size=32k --fsync=3";
    place.iosonde(&format!("{writes} --write_iolog=out.log")).end().exits(0);
    let log = fs::read_to_string(place.work().join("out.log")).unwrap();
    assert!(log.starts_with("fio version 3 iolog\n0 a.img add\n0 a.img open\n"), "{log}");
    let times: Vec<u64> =
        log.lines().skip(1).map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    assert!(times.is_sorted() && *times.last().unwrap() > 0, "{log}");
    assert_eq!((log.matches(" write ").count(), log.matches(" sync ").count()), (8, 2), "{log}");
    let replays = "run --name=a --read_iolog=out.log --bs=8k --output-format=json";
    let ended = place.iosonde(replays).end().exits(0).says("bs has no effect beside read_iolog");
    let result: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(result["jobs"][0]["write"]["total_ios"].as_u64(), Some(8));
    place.file("bad.log", b"fio version 2 iolog\na.img fly 0 1\n");
    place.iosonde("run --name=a --read_iolog=bad.log").end().exits(2).says("line 2: found `fly`");
}

#[test]
fn what_was_written_and_is_damaged_later_is_found() {
    let place = Place::new();
    let job = "run --name=x --filename=data.img --size=256k --bs=4k --verify=md5";
    place.iosonde(&format!("{job} --rw=randwrite --do_verify=0")).end().exits(0);
    place.iosonde(&format!("{job} --rw=read")).end().exits(0);
    let path = place.work().join("data.img");
    let mut bytes = fs::read(&path).unwrap();
    bytes[100_000] ^= 1;
    fs::write(&path, bytes).unwrap();
    place.iosonde(&format!("{job} --rw=read")).end().exits(4).prints("EILSEQ");
}

#[test]
fn what_makes_a_result_misleading_is_listed_without_a_run() {
    let place = Place::new();
    place.file("bad.fio", b"[a]\nsize=1g\nrw=randread\niodepth=32\n");
    let bad = place.iosonde("run --lint bad.fio").end().exits(3).out;
    assert!(bad.contains("bad.fio:4: [a] iodepth: 32 has no effect"), "{bad}");
    assert!(bad.contains("page cache"), "{bad}");
    place.file(
        "good.fio",
        b"[a]\nsize=100g\nrw=randread\niodepth=32\nioengine=libaio\ndirect=1\nruntime=60\n\
          time_based\n",
    );
    let good = place.iosonde("run --lint good.fio").end().exits(0).out;
    assert!(good.contains("nothing found"), "{good}");
    place.file(
        "few.json",
        b"{\"jobs\":[{\"jobname\":\"a\",\"error\":0,\"read\":{\"total_ios\":9,\"iops\":9.0,\
          \"runtime\":1000,\"lat_ns\":{\"mean\":1e6}},\"job options\":{\"iodepth\":\"32\"}}]}",
    );
    let few = place.iosonde("run --lint good.fio few.json").end().exits(3).out;
    for expected in ["9 operations", "1 s measured", "requested depth 32"] {
        assert!(few.contains(expected), "{expected}: {few}");
    }
    assert!(!place.work().join("a.0.0").exists());
}

#[test]
fn a_run_ends_when_it_has_settled_and_says_so_as_fio_does() {
    let place = Place::new();
    place.hole("data.img", 4 << 20);
    let run = |more: &str, most: u32| -> Value {
        let words = format!(
            "run --name=x --filename=data.img --rw=randread --rate_iops=400 --time_based \
             --runtime={most} {more} --output-format=json"
        );
        serde_json::from_str(&place.iosonde(&words).end().exits(0).out).unwrap()
    };
    let settled = run("--ss=iops:90% --ss_dur=2", 300);
    let job = &settled["jobs"][0];
    assert_eq!(job["steadystate"]["attained"], 1, "{job}");
    assert_eq!(job["steadystate"]["ss"], "iops:90.000000%");
    assert_eq!(job["steadystate"]["data"]["iops"].as_array().unwrap().len(), 2);
    assert!(job["job_runtime"].as_u64().unwrap() < 200_000, "{job}");
    let never = run("--ss=bw_slope:1 --ss_dur=60", 2);
    assert_eq!(never["jobs"][0]["steadystate"]["attained"], 0);
    assert!(never["jobs"][0]["job_runtime"].as_u64().unwrap() >= 1_900);
}

#[test]
fn jobs_of_a_flow_share_by_weight_and_a_rate_too_low_ends_the_run() {
    let place = Place::new();
    place.file(
        "flow.fio",
        b"[global]\nfilename=data.img\nsize=1m\nrw=randread\ntime_based\nruntime=1\n\
          [one]\nflow=1\n[three]\nflow=3\n",
    );
    let out = place.iosonde("run flow.fio --output-format=json").end().exits(0).out;
    let result: Value = serde_json::from_str(&out).unwrap();
    let count = |job: usize| result["jobs"][job]["read"]["total_ios"].as_u64().unwrap();
    let (one, three) = (count(0), count(1));
    // Differences come from batches, and from the threads' last moments.
    assert!(three.abs_diff(3 * one) <= 16 + one / 10, "{one} and {three}");
    let slow = "run --name=x --filename=data.img --rw=randread --thinktime=50ms --time_based \
                --runtime=30 --rate_iops_min=1000";
    place.iosonde(slow).end().exits(1).prints("rate_iops_min: read at");
}

#[test]
fn errors_that_are_ignored_are_counted_and_end_nothing() {
    let place = Place::new();
    let job = "run --name=x --filename=data.img --size=256k --bs=4k --verify=md5";
    place.iosonde(&format!("{job} --rw=write --do_verify=0")).end().exits(0);
    let path = place.work().join("data.img");
    let mut bytes = fs::read(&path).unwrap();
    bytes[5_000] ^= 1;
    fs::write(&path, bytes).unwrap();
    let read = |more: &str| -> u64 {
        let words = format!("{job} --rw=read --output-format=json {more}");
        let out = place.iosonde(&words).end().exits(4).out;
        let result: Value = serde_json::from_str(&out).unwrap();
        result["jobs"][0]["read"]["total_ios"].as_u64().unwrap()
    };
    assert_eq!(read("--ignore_error=,,84"), 63);
    assert_eq!(read("--continue_on_error=verify"), 63);
    assert_eq!(read("--ignore_error=5"), 1);
    place.iosonde(&format!("{job} --rw=read --ignore_error=EFOO")).end().exits(2).says("`EFOO`");
}

#[test]
fn engines_and_options_of_fio_that_are_not_had_are_refused_with_what_to_use_instead() {
    let place = Place::new();
    for (words, expected) in [
        ("--ioengine=io_uring_cmd --pi_act=1", "metadata for each block"),
        ("--ioengine=io_uring_cmd --cmd_type=bsg", "only NVMe commands"),
        ("--ioengine=io_uring_cmd --write_mode=uncor", "dataset management"),
        ("--ioengine=libblkio", "vhost-user"),
        ("--ioengine=rados", "rbd map"),
        ("--http_host=x", "mount the store"),
        ("--nfs_url=nfs://x/y", "mount the export"),
        ("--libblkio_path=x", "ioengine=io_uring"),
        ("--ioengine=libaioo", "did you mean `libaio`"),
    ] {
        let words = format!("run --name=x --size=1m --rw=read {words}");
        let ended = place.iosonde(&words).end().exits(2);
        assert!(ended.err.contains(expected), "{words}: {}", ended.err);
        assert!(!ended.err.contains("not a fio option"), "{words}: {}", ended.err);
    }
    let nodes = "run --name=x --size=64k --rw=read --unlink=1 --numa_cpu_nodes=";
    place.iosonde(&format!("{nodes}all --numa_mem_policy=default")).end().exits(0);
    place.iosonde(&format!("{nodes}900")).end().exits(2).says("no node 900");
    place.iosonde(&format!("{nodes}all --numa_mem_policy=bind:x")).end().exits(2).says("`x`");
}

/// Name, group and approximate run time in quarters of a second of each job.
fn ends(json: &str) -> Vec<(String, u64, u64)> {
    let from = json.find('{').unwrap_or(json.len());
    let result: Value = serde_json::from_str(&json[from..]).unwrap();
    let of = |job: &Value| {
        let name = job["jobname"].as_str().unwrap().to_owned();
        let quarters = (job["read"]["runtime"].as_u64().unwrap() + 125) / 250;
        (name, job["groupid"].as_u64().unwrap(), quarters)
    };
    result["jobs"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn jobs_end_with_those_of_fio_and_are_of_the_same_groups() {
    let place = Place::new();
    place.hole("data", 1 << 20);
    let global = "[global]\nfilename=data\nsize=1m\nrw=read\nioengine=psync\nthinktime=1000\n\
                  time_based\nruntime=8\n";
    let jobs = [
        ("by-group", "exitall\n[a]\nruntime=500ms\n[b]\n[c]\nnew_group\nruntime=1500ms\n[d]\n"),
        ("anywhere", "[a]\nruntime=1\n[b]\nexitall\n"),
        (
            "by-name",
            "exitall\n[a]\nruntime=1\nexit_what=stonewall\n[b]\nnew_group\n[c]\nstonewall\n\
             runtime=500ms\nexit_what=all\n[d]\n[never]\nstonewall\n",
        ),
        ("together", "group_reporting\nruntime=500ms\n[a]\n[b]\n[c]\nnew_group\nnumjobs=2\n"),
    ];
    let has_fio = Command::new("fio").arg("--version").output().is_ok();
    for (name, text) in jobs {
        let file = format!("{name}.fio");
        place.file(&file, format!("{global}{text}").as_bytes());
        let ended = place.iosonde(&format!("run {file} --output-format=json")).end().exits(0);
        let mut own = ends(&ended.out);
        if name == "by-name" {
            ended.says("exit_what=all: not run: never");
        }
        if !has_fio {
            skip("fio is not installed");
            continue;
        }
        let mut fio = Command::new("fio");
        let fio = fio.args([&file, "--output-format=json"]).current_dir(place.work());
        let mut theirs = ends(&String::from_utf8(fio.output().unwrap().stdout).unwrap());
        // fio lists a job that never ran, and sums the times of jobs that are reported together.
        theirs.retain(|(name, ..)| name != "never");
        if name == "together" {
            own.iter_mut().chain(&mut theirs).for_each(|(.., quarters)| *quarters = 0);
        }
        let names = |jobs: &[(String, u64, u64)]| -> Vec<(String, u64)> {
            jobs.iter().map(|(name, group, _)| (name.clone(), *group)).collect()
        };
        assert_eq!(names(&own), names(&theirs), "{name}");
        // A busy machine delays the ends of all jobs, fio's most, so differences are compared. A
        // job that did not end with another would continue for 8 s.
        let apart = |jobs: &[(String, u64, u64)]| -> Vec<i64> {
            let quarters = |job: &(String, u64, u64)| i64::try_from(job.2).unwrap();
            jobs.iter().map(|job| quarters(job) - quarters(&jobs[0])).collect()
        };
        let mut each = apart(&own).into_iter().zip(apart(&theirs));
        assert!(each.all(|(own, fio)| own.abs_diff(fio) <= 2), "{name}: {own:?}, fio {theirs:?}");
    }
}

#[test]
fn jobs_are_reported_together_where_they_ask_for_it_and_copies_share_a_name() {
    let place = Place::new();
    let global = "[global]\nfilename=data.img\nsize=64k\nbs=4k\n";
    let entries = |jobs: &str| -> Vec<(String, u64, u64)> {
        place.file("job.fio", format!("{global}{jobs}").as_bytes());
        let ended = place.iosonde("run job.fio --output-format=json").end().exits(0);
        let document: Value = serde_json::from_str(&ended.out).unwrap();
        let jobs = document["jobs"].as_array().unwrap();
        let ops = |job: &Value, way: &str| job[way]["total_ios"].as_u64().unwrap();
        let entry = |job: &Value| {
            let name = job["jobname"].as_str().unwrap().to_string();
            (name, ops(job, "read"), ops(job, "write"))
        };
        jobs.iter().map(entry).collect()
    };
    let own = |name: &str, read: u64, write: u64| (name.to_string(), read, write);
    let grouped = "rw=read\ngroup_reporting\n";
    let found = entries(&format!("[a]\n{grouped}[b]\nrw=write\n"));
    assert_eq!(found, [own("a", 16, 0), own("b", 0, 16)]);
    let found =
        entries(&format!("[a]\n{grouped}numjobs=2\n[b]\nrw=write\nnumjobs=2\n[c]\n{grouped}"));
    assert_eq!(found, [own("a", 32, 0), own("b", 0, 16), own("b", 16, 16)]);
    // Copies that differ become separate roles.
    let split = "rw=read\nnumjobs=2\ncpus_allowed=0\ncpus_allowed_policy=split\n";
    let found = entries(&format!("[a]\n{split}[b]\n{split}"));
    let names: Vec<&str> = found.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["a", "a", "b", "b"]);
}

#[test]
fn a_log_is_written_as_its_options_ask_and_an_option_without_effect_is_noted() {
    let place = Place::new();
    let job = "run --name=x --size=256k --rw=read --write_lat_log=x --log_avg_msec=100";
    let lines = |more: &str| -> Vec<Vec<u64>> {
        place.iosonde(&format!("{job} {more}")).end().exits(0);
        let log = fs::read_to_string(place.work().join("x_lat.1.log")).unwrap();
        let fields = |line: &str| line.split(", ").map(|field| field.parse().unwrap()).collect();
        log.lines().map(fields).collect()
    };
    let usual = lines("");
    let other = lines("--log_unix_epoch=1 --log_offset=1 --log_max_value=1");
    assert!(usual.iter().all(|line| line.len() == 5 && line[0] < 1_000_000), "{usual:?}");
    assert!(other.iter().all(|line| line.len() == 6), "{other:?}");
    assert!(other.iter().all(|line| line[0] > 1_600_000_000_000), "{other:?}");
    let job = "run --parse-only --name=x --size=64k --gtod_reduce=1 --thread";
    let ended = place.iosonde(job).end().exits(0).says("gtod_reduce has no effect here");
    assert!(!ended.err.contains("thread"), "{}", ended.err);
}
