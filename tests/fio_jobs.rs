//! Job files as people write them: each runs as the load listed here, or is refused with a message
//! that names the option and the line. A corpus of odd files, and random mutations of it, must not
//! crash the parser.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use iosonde_model::plan::{EngineKind, Job, OnError, Order, Plan, Setting, Stop, Target, resolve};
use iosonde_model::spec::fio::{self, Asking, JobFile, Outside};
use iosonde_model::spec::{
    Access, Data, Draw, Limits, Pace, Reap, Role, Sizes, Sync, Think, Threads, Workload,
};
use iosonde_report::fio_job::{fio_arguments, fio_job};
use iosonde_rig::{skip, skip_part};

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fio")
}

/// Environment variables that our job files and the comments of fio's examples use.
const VARIABLES: [(&str, &str); 4] =
    [("DISK", "/dev/sdb"), ("FIO_BS", "4k"), ("FIO_RW", "randread"), ("FIO_IODEPTH", "16")];

/// Parses with includes from the fixtures and this environment.
fn parse(text: &str, name: &str) -> Result<JobFile, String> {
    let mut load =
        |name: &str| fs::read_to_string(fixtures().join(name)).map_err(|error| error.to_string());
    let env = |name: &str| {
        let given = VARIABLES.iter().find(|(known, _)| *known == name);
        given.map(|(_, value)| (*value).to_string())
    };
    let mut outside =
        Outside { load: &mut load, env: Some(&env), page_bytes: 4096, memory_mib: 1024, cpus: 2 };
    fio::parse(text, name, &mut outside).map_err(|faults| faults.to_string())
}

/// Lengths of the targets in this test: as requested, or 1 GiB.
fn lengths(asking: &Asking) -> Vec<u64> {
    asking.targets.iter().map(|target| target.bytes.unwrap_or(1 << 30)).collect()
}

/// The load of a job file: a line per run, then a line per role.
fn reported(file: &JobFile) -> Result<String, String> {
    let mut text = String::new();
    for group in &file.groups {
        let asking = fio::ask(group).map_err(|faults| faults.to_string())?;
        let (workload, stop) =
            asking.workload(&lengths(&asking)).map_err(|faults| faults.to_string())?;
        run(&mut text, &asking, stop);
        for role in &workload.roles {
            let _ = writeln!(text, "  {}", role_output(role, &workload));
        }
    }
    Ok(text)
}

fn run(text: &mut String, asking: &Asking, stop: Stop) {
    let engine = &asking.engine;
    let _ = write!(text, "{}", engine.kind.name());
    for (word, on) in [("hipri", engine.hipri), ("sqpoll", engine.sqpoll)] {
        let _ = write!(text, "{}", if on { format!(" {word}") } else { String::new() });
    }
    let direct = asking.targets.iter().any(|target| target.direct);
    let _ = write!(text, " {}", if direct { "direct" } else { "buffered" });
    let _ = write!(text, " {stop:?}");
    if asking.warmup_ns > 0 {
        let _ = write!(text, " after {} ns", asking.warmup_ns);
    }
    for target in &asking.targets {
        let own = if target.unlinked { " (unlinked)" } else { "" };
        let _ = write!(text, " {}{own}", target.path);
    }
    for log in &asking.logs {
        let _ = write!(text, " {}={}", log.option, log.prefix);
    }
    text.push('\n');
}

fn role_output(role: &Role, workload: &Workload) -> String {
    let Threads::Count(threads) = role.threads else { panic!("{:?}", role.threads) };
    let mut text = format!("{}: {}", role.name, role.rw);
    if role.rw.is_mixed() {
        let _ = write!(text, " {}% read", role.read_percent.unwrap());
    }
    let _ = write!(text, " {}", role.block_size.unwrap_or(workload.block_size));
    let draw = |draw: &Draw| match draw {
        Draw::Block => "-".to_string(),
        Draw::Fixed(bytes) => bytes.to_string(),
        Draw::Range { low, high, step } => format!("{low}..{high}/{step}"),
        Draw::Split(shares) => format!("{shares:?}"),
    };
    let Sizes { read, write, trim } = &role.sizes;
    if role.sizes != Sizes::default() {
        let _ = write!(text, " sizes {},{},{}", draw(read), draw(write), draw(trim));
    }
    let size = role.size.map_or("rest".into(), |size| size.to_string());
    let _ = write!(text, " x{threads} depth {}", role.iodepth.unwrap());
    let _ = write!(text, " at {}+{size}", role.offset.unwrap());
    let mut also = |said: bool, what: String| {
        if said {
            let _ = write!(text, " {what}");
        }
    };
    also(role.targets != [0], format!("on {:?}", role.targets));
    also(threads > 1, format!("apart {}", role.offset_increment.unwrap_or(0)));
    also(role.access != Access::Permutation, format!("{:?}", role.access));
    also(role.limits != Limits::default(), format!("{:?}", role.limits));
    also(role.flow.is_some(), format!("{:?}", role.flow));
    also(role.stride.is_some(), format!("stride {}", role.stride.unwrap_or(0)));
    also(role.block_align.is_some(), format!("grid {}", role.block_align.unwrap_or(0)));
    also(role.pace != Pace::Closed, format!("{:?}", role.pace));
    also(role.think != Think::default(), format!("{:?}", role.think));
    also(role.sync != Sync::default(), format!("{:?}", role.sync));
    also(role.data != Data::default(), format!("{:?}", role.data));
    also(role.batch.is_some(), format!("batch {}", role.batch.unwrap_or(0)));
    let Reap { complete_min, complete_max, .. } = role.reap;
    also(
        Reap { counts: false, times: false, ..role.reap } != Reap::default(),
        format!("reap {complete_min}..{complete_max}"),
    );
    also(!role.place.cpus.is_empty(), format!("cpus {:?}", role.place.cpus));
    text
}

/// The outcome of every job file, compared with `fates.txt`.
#[test]
fn every_job_file_runs_as_written_or_is_refused_by_name() {
    let mut found = String::new();
    let names = names();
    assert!(names.len() >= 30);
    for name in names {
        let file = format!("{name}.fio");
        let text = fs::read_to_string(fixtures().join(&file)).unwrap();
        let _ = match parse(&text, &file).and_then(|file| reported(&file)) {
            Ok(reported) => writeln!(found, "== {name} runs\n{reported}"),
            Err(reported) => writeln!(found, "== {name} is refused\n{reported}\n"),
        };
    }
    let expected = fs::read_to_string(fixtures().join("fates.txt")).unwrap();
    assert!(found == expected, "not as in fates.txt, but:\n{found}");
}

/// Names of the job files.
fn names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(fixtures())
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".fio").map(str::to_string)
        })
        .collect();
    names.sort();
    names
}

/// The plan of each group, on made-up targets.
fn plans(file: &JobFile) -> Vec<Plan> {
    let one = |group| {
        let asking = fio::ask(group).unwrap();
        let (workload, stop) = asking.workload(&lengths(&asking)).unwrap();
        let target = |(index, bytes): (usize, u64)| Target {
            path: format!("/t:{index}"),
            bytes,
            direct: asking.targets.get(index).is_some_and(|target| target.direct),
            align_bytes: 512,
        };
        let setting = Setting {
            engine: asking.engine.engine(),
            targets: lengths(&asking).into_iter().enumerate().map(target).collect(),
            offset_bytes: 0,
            cpus: 2,
            iodepth: 1,
            seed: asking.seed.unwrap_or(1),
            warmup_ns: asking.warmup_ns,
            stop,
            on_error: OnError::Stop,
            final_sync: true,
            buffer_limit_bytes: 1 << 30,
        };
        resolve(&workload, &setting).unwrap()
    };
    file.groups.iter().map(one).collect()
}

/// The part of a job that must survive conversion to fio's language: all but seeds and names.
fn lasting(job: &Job) -> Job {
    let mut job = job.clone();
    (job.role, job.seed) = (String::new(), 0);
    if let Order::Permutation { seed, .. } = &mut job.order {
        *seed = 0;
    }
    if job.reap.complete_max == 0 {
        job.reap.complete_max = job.iodepth;
    }
    if job.targets == [0] {
        job.targets.clear();
    }
    job
}

/// The job files that are accepted.
fn runs() -> impl Iterator<Item = (String, JobFile)> {
    names().into_iter().filter_map(|name| {
        let text = fs::read_to_string(fixtures().join(format!("{name}.fio"))).unwrap();
        let file = parse(&text, &name).ok()?;
        reported(&file).is_ok().then_some((name, file))
    })
}

#[test]
fn a_plan_written_as_a_job_file_is_read_back_as_the_same_plan() {
    for (name, file) in runs() {
        for plan in plans(&file) {
            let text = fio_job(&[(&plan, &[])]).unwrap_or_else(|error| panic!("{name}: {error}"));
            let again = parse(&text, &name).unwrap_or_else(|error| panic!("{error}\n{text}"));
            let again = plans(&again).remove(0);
            let jobs = |plan: &Plan| plan.jobs.iter().map(lasting).collect::<Vec<_>>();
            assert_eq!(jobs(&again), jobs(&plan), "{name}\n{text}");
            assert_eq!(
                (again.stop, again.warmup_ns, again.on_error, &again.engine, again.seed),
                (plan.stop, plan.warmup_ns, plan.on_error, &plan.engine, plan.seed),
                "{name}\n{text}"
            );
        }
    }
}

/// Whether the installed fio accepts a job file or arguments; `Err` with its message if not.
fn fio_takes(arguments: &[String]) -> Result<(), String> {
    let reported = Command::new("fio").arg("--parse-only").args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&reported.stderr).into_owned();
    if reported.status.success() { Ok(()) } else { Err(text) }
}

#[test]
fn the_installed_fio_accepts_every_plan_written_as_a_job_file() {
    if Command::new("fio").arg("--version").output().is_err() {
        skip("fio is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, file) in runs() {
        let plans = plans(&file);
        // Once with existing files, once with files that the run creates itself.
        let own: Vec<u16> = (0..64).collect();
        let groups =
            |fresh| -> Vec<(&Plan, &[u16])> { plans.iter().map(|plan| (plan, fresh)).collect() };
        let text = fio_job(&groups(&[])).unwrap();
        let path = folder.path().join(format!("{name}.fio"));
        fs::write(&path, &text).unwrap();
        let path = vec![path.to_string_lossy().into_owned()];
        for arguments in [path, fio_arguments(&groups(&own)).unwrap()] {
            // fio may refuse a CPU or node that this machine lacks.
            match fio_takes(&arguments) {
                Err(why) if why.contains("too large (max=") => {}
                found => assert_eq!(found, Ok(()), "{name}\n{text}"),
            }
        }
    }
}

#[test]
fn every_option_of_the_installed_fio_is_in_the_table() {
    let Ok(reported) = Command::new("fio").arg("--cmdhelp=all").output() else {
        skip("fio is not installed");
        return;
    };
    let reported = String::from_utf8_lossy(&reported.stdout);
    let names: Vec<&str> =
        reported.lines().filter_map(|line| line.split_once(':')).map(|(n, _)| n.trim()).collect();
    assert!(names.len() > 200, "{names:?}");
    for name in names {
        assert!(fio::table::find(name).is_ok(), "{name}");
    }
}

/// `docs/fio-popular.txt` lists the options of public job files.
#[test]
fn options_of_public_job_files_are_read_as_fio_reads_them() {
    let counted = include_str!("../docs/fio-popular.txt");
    let rows = counted.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (mut options, mut same, mut uses, mut same_uses) = (0, 0, 0, 0);
    for line in rows.take(200) {
        let (name, files) = line.split_once(' ').unwrap();
        let files: u32 = files.trim().parse().unwrap();
        let is_same = matches!(fio::table::find(name).unwrap().standing().0, "same" | "noted");
        (options, uses) = (options + 1, uses + files);
        same += u32::from(is_same);
        same_uses += if is_same { files } else { 0 };
    }
    println!("{same} of {options} options, {same_uses} of {uses} uses");
    assert!(options >= 100 && uses >= 3_000, "{options} options, {uses} uses");
    assert!(same * 100 >= options * 85, "{same} of {options}");
    assert!(same_uses * 100 >= uses * 98, "{same_uses} of {uses} uses");
}

/// Outcome of a foreign job file: it runs, needs another engine or a zoned device, or is refused.
fn fate(text: &str, name: &str) -> String {
    let Err(refused) = parse(text, name).and_then(|file| reported(&file)) else {
        return format!("runs     {name}");
    };
    let engines = text.lines().filter_map(|line| line.split_once('='));
    let engines = engines.filter(|(option, _)| option.trim() == "ioengine");
    let mut engines: Vec<&str> = engines
        .map(|(_, engine)| engine.split([';', '#', ':']).next().unwrap_or_default().trim())
        .filter(|engine| EngineKind::of_fio(engine).is_none())
        .collect();
    engines.sort_unstable();
    engines.dedup();
    match engines.is_empty() {
        true if refused.contains("zonemode=zbd is not supported") => {
            format!("device   {name}: needs a zoned device")
        }
        true => format!("refused  {}", refused.lines().next().unwrap_or_default()),
        false => format!("engine   {name}: needs {}", engines.join(", ")),
    }
}

/// `docs/fio-examples.txt` lists the outcome of fio's own examples. `IOSONDE_FIO_EXAMPLES` names
/// their directory; with `IOSONDE_BLESS` the test writes the page.
#[test]
fn the_examples_of_fio_stand_as_documented() {
    let documented = fs::read_to_string("docs/fio-examples.txt").unwrap_or_default();
    let Ok(folder) = std::env::var("IOSONDE_FIO_EXAMPLES") else {
        skip_part("the examples themselves", "IOSONDE_FIO_EXAMPLES names no directory");
        return;
    };
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter(|name| name.ends_with(".fio"))
        .collect();
    names.sort();
    let mut found: Vec<String> = Vec::new();
    for name in &names {
        let text = fs::read_to_string(PathBuf::from(&folder).join(name)).unwrap();
        found.push(fate(&text, name));
    }
    found.sort();
    let count = |word: &str| found.iter().filter(|line| line.starts_with(word)).count();
    let sum = format!(
        "{} examples of fio: {} run, {} need an engine that is not had here, {} a zoned device, {} \
         are refused\n",
        found.len(),
        count("runs"),
        count("engine"),
        count("device"),
        count("refused")
    );
    let table = found.join("\n") + "\n" + &sum;
    if std::env::var_os("IOSONDE_BLESS").is_some() {
        fs::write("docs/fio-examples.txt", &table).unwrap();
        return;
    }
    assert!(count("runs") >= 30, "{table}");
    assert!(table == documented, "not as documented, but:\n{table}");
}

/// Passes a job file through all stages from text to a workload; true if none refuses it.
fn all_the_way(text: &str) -> bool {
    let Ok(file) = parse(text, "corpus.fio") else { return false };
    file.groups
        .iter()
        .all(|group| fio::ask(group).is_ok_and(|asking| asking.workload(&lengths(&asking)).is_ok()))
}

/// The seed corpus of the fuzzer, and the job files above.
fn corpus() -> Vec<Vec<u8>> {
    let mut texts = Vec::new();
    for folder in [fixtures(), fixtures().join("corpus")] {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        texts.extend(paths.into_iter().filter(|path| path.is_file()).map(|p| fs::read(p).unwrap()));
    }
    texts
}

/// A small random number generator, so that a failure can be repeated from its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit.max(1)
    }
}

/// One random change: a byte, text of another file, a repeated or deleted piece, a token.
fn changed(text: &mut Vec<u8>, others: &[Vec<u8>], dice: &mut Dice) {
    let at = dice.below(text.len() + 1);
    let end = (at + dice.below(40)).min(text.len());
    let words: [&[u8]; 12] = [
        b"=",
        b"[",
        b"]\n",
        b"\n",
        b",",
        b":",
        b"/",
        b"99999999999999999999",
        b"-1",
        b"(",
        b"${",
        b"%",
    ];
    match dice.below(6) {
        0 => {
            if let Some(byte) = text.get_mut(at) {
                *byte = dice.below(256) as u8;
            }
        }
        1 => {
            let other = &others[dice.below(others.len())];
            let from = dice.below(other.len());
            let to = (from + dice.below(200)).min(other.len());
            text.splice(at..at, other[from..to].iter().copied());
        }
        2 => {
            let piece = text[at..end].to_vec();
            text.splice(at..at, piece.iter().copied().cycle().take(piece.len() * 50));
        }
        3 => {
            text.drain(at..end);
        }
        _ => {
            let word = words[dice.below(words.len())];
            text.splice(at..at, word.iter().copied());
        }
    }
}

/// CPU time of this thread, which does not depend on the load of the machine.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.try_into().unwrap()
}

#[test]
fn nothing_that_chance_writes_makes_the_parser_panic_or_hang() {
    let corpus = corpus();
    for text in &corpus {
        all_the_way(&String::from_utf8_lossy(text));
    }
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut dice = Dice(seed);
    let start = cpu_time();
    let (mut tried, mut passed) = (0, 0);
    while cpu_time() - start < Duration::from_secs(5) && tried < 20_000 {
        let mut text = corpus[dice.below(corpus.len())].clone();
        for _ in 0..=dice.below(6) {
            changed(&mut text, &corpus, &mut dice);
        }
        text.truncate(256 << 10);
        let text = String::from_utf8_lossy(&text).into_owned();
        let begun = cpu_time();
        passed += usize::from(all_the_way(&text));
        let took = cpu_time() - begun;
        assert!(took < Duration::from_secs(2), "{took:?}, seed {seed}, number {tried}:\n{text}");
        tried += 1;
    }
    assert!(tried >= 100 && passed > 0, "{tried} tried, {passed} passed: too few to say anything");
}

#[test]
fn limits_hold_before_memory_is_taken() {
    for (text, expected) in [
        (format!("[a]\n{}", "bs=4k\n".repeat(70_000)), "more than 65536 options"),
        ("[a]\n".repeat(5_000), "more than 4096 sections"),
        (format!("[a]\nbs={}\n", "9".repeat(70_000)), "longer than 64 KiB"),
        (format!("[a]\n{}", ";\n".repeat(33 << 20)), "larger than 64 MiB"),
        ("[a]\nsize=1m\nnumjobs=4000000000\n".into(), "expected 1 to 4096 jobs"),
        ("[a]\nsize=1g\nnrfiles=1m\n".into(), "expected at most 4096 files"),
    ] {
        let error = parse(&text, "x.fio").and_then(|file| reported(&file)).unwrap_err();
        assert!(error.contains(expected), "{error}");
        assert!(error.len() < 20_000);
    }
}
