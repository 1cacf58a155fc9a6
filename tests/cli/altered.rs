//! Every command that reads stored results reports files altered since.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use iosonde_model::record::RunFolder;
use iosonde_model::record::checksums::{SUMS, alterations, names_in};
use rustix::process::Signal;

use super::program::{Place, listing};

const RUN: &str = "run --ioengine sim --path read=1ms --rw randread --runtime 1";
const EXPERIMENT: &str = r#"
name = "small"
question = "Does it work?"
[[stage]]
name = "depth"
seconds = 0.5
repeats = 5
set = { rw = "randread", block-size = "4k" }
[[stage.axis]]
name = "iodepth"
values = [1, 4, 16]
"#;

/// A folder of each kind; the last is of a killed command.
fn folders(place: &Place) -> Vec<PathBuf> {
    place.file("small.toml", EXPERIMENT.as_bytes());
    place.hole("data", 4 << 20);
    for words in [
        RUN,
        "experiment run small.toml servers=8,read=1ms --ioengine sim",
        "verify flush data",
        "check . 256M --seconds 0.3 --only cache --threads 1",
    ] {
        place.iosonde(words).end().exits(0);
    }
    let words = "check . 256M --seconds 2 --only cache,logging --threads 1";
    let running = place.iosonde(words).start().until_stderr("Logging");
    running.signal(Signal::KILL).end();
    let kept = place.kept();
    kept.iter().for_each(|folder| until_ended(folder));
    assert_eq!(kept.len(), 5, "{kept:?}");
    assert!(kept.iter().any(|path| path.to_string_lossy().ends_with(".partial")));
    kept
}

/// Waits for the worker of a killed supervisor, which ends by itself.
pub(super) fn until_ended(folder: &Path) {
    let patience = Instant::now() + Duration::from_secs(30);
    while RunFolder::is_in_use(folder) {
        assert!(Instant::now() < patience, "still running: {}", folder.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A number below `below`, from a fixed pseudo-random sequence.
fn draw(state: &mut u64, below: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize % below
}

/// Flips a bit of a file. Returns its previous content.
fn flip(path: &Path, bit: usize) -> Vec<u8> {
    let text = fs::read(path).unwrap();
    let mut flipped = text.clone();
    flipped[bit / 8] ^= 1 << (bit % 8);
    fs::write(path, flipped).unwrap();
    text
}

/// 200 random bits over the files of all folders, each file at least once.
#[test]
fn every_flipped_bit_is_reported_with_the_name_of_its_file() {
    let place = Place::new();
    let mut state = 7;
    let mut flips = 0;
    for folder in folders(&place) {
        assert_eq!(alterations(&folder).unwrap(), [], "{}", folder.display());
        let mut names = names_in(&folder).unwrap();
        names.push(SUMS.into());
        let more: Vec<String> =
            (0..40).map(|_| names[draw(&mut state, names.len())].clone()).collect();
        for (number, name) in names.iter().chain(&more).enumerate() {
            let path = folder.join(name);
            let bits = path.metadata().unwrap().len() as usize * 8;
            if bits == 0 {
                continue;
            }
            let text = flip(&path, draw(&mut state, bits));
            let found = alterations(&folder).unwrap();
            assert!(found.iter().any(|each| each.name == *name), "{name}: {found:?}");
            // The program reports the same and prints no result.
            if number % 12 == 0 {
                let ended = place.iosonde("report").arg(&folder).end().exits(6);
                ended.says(name).says("--accept-altered").silent();
            }
            fs::write(&path, text).unwrap();
            flips += 1;
        }
        assert_eq!(alterations(&folder).unwrap(), []);
    }
    assert!(flips >= 200, "{flips}");
    eprintln!("{flips} flipped bits, all reported");
}

#[test]
fn what_is_accepted_is_marked() {
    let place = Place::new();
    for _ in 0..2 {
        place.iosonde(RUN).end().exits(0);
    }
    let kept = place.kept();
    let record = kept[0].join("01-run.json");
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, text.replacen("\"ops\":", "\"ops\": ", 1)).unwrap();
    let report = |more: &str| place.iosonde(&format!("report {more}")).arg(&kept[0]).end();
    let said = "found SHA-256 ";
    report("").exits(6).says("01-run.json").says(said).says("expected ").silent();
    report("--accept-altered").exits(0).says("01-run.json").prints("ALTERED: ").prints("IOPS");
    let document = report("--accept-altered --output-format json").exits(0).json();
    assert!(document["altered"][1].as_str().unwrap().contains("01-run.json"));
    for form in ["html", "markdown"] {
        let printed = report(&format!("--accept-altered --output-format {form}")).exits(0);
        assert!(
            printed.out.contains("altered since") && printed.out.contains("01-run.json"),
            "{form}"
        );
    }
    report("--accept-altered --output-format csv").exits(2).says("cannot be marked");
    // A record inside the folder is checked like the folder.
    place.iosonde("report").arg(&record).end().exits(6).says(said);
    // Both sides are checked against their checksums before the comparison.
    let compare =
        |more: &str| place.iosonde(&format!("compare {more}")).arg(&kept[1]).arg(&kept[0]).end();
    compare("").exits(6).says("01-run.json").silent();
    compare("--accept-altered --save-baseline base.json").exits(6).says("01-run.json");
    let other = place.iosonde("report").arg(&kept[1]).end().exits(0);
    assert!(!other.err.contains("altered"), "{other}");
    fs::remove_file(kept[1].join("host.json")).unwrap();
    place.iosonde("report").arg(&kept[1]).end().exits(6).says("host.json: found no such file");
}

#[test]
fn what_a_killed_command_left_is_explained() {
    let place = Place::new();
    let words = "check . 256M --seconds 2 --only cache,logging --threads 1";
    place.iosonde(words).start().until_stderr("Logging").signal(Signal::KILL).end();
    let folder = place.kept().remove(0);
    until_ended(&folder);
    let printed = place.iosonde("report").arg(&folder).end().exits(0);
    printed.says("`iosonde check`").says("was killed").says("finished result").prints("Cache");
    // A folder without a result is reported as such.
    for entry in listing(&folder) {
        let name = entry.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with('0') {
            fs::remove_file(entry).unwrap();
        }
    }
    let words = "run --path . --size 64M --rw randread --runtime 60 --eta-interval 0.1";
    place.iosonde(words).start().until_stderr("IOPS").signal(Signal::KILL).end();
    let folder = place.kept().into_iter().find(|path| path.to_string_lossy().contains("-run-"));
    let folder = folder.unwrap();
    until_ended(&folder);
    let ended = place.iosonde("report").arg(folder).end().exits(7);
    ended.says("was killed").says("no finished result").says("may be removed").silent();
}

#[test]
fn what_is_no_stored_file_is_refused_at_once() {
    let place = Place::new();
    let pipe = place.work().join("pipe.json");
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    );
    made.unwrap();
    place.iosonde(RUN).end().exits(0);
    let run = place.kept().remove(0);
    let pipe = pipe.to_str().unwrap();
    // A read of `/proc/kmsg` may block until the kernel logs a message.
    for (path, said) in
        [(pipe, "a pipe"), ("/proc/kmsg", ""), ("/proc/self/environ", "procfs"), ("/dev/zero", "")]
    {
        for words in [format!("report {path}"), format!("experiment run {path} .")] {
            let ended = place.iosonde(&words).end();
            assert!([1, 2].contains(&ended.code.unwrap()), "{words}: {ended}");
            assert!(ended.err.contains(said) && ended.out.is_empty(), "{words}: {ended}");
        }
        let ended = place.iosonde(&format!("compare {path}")).arg(&run).end();
        assert!([1, 2].contains(&ended.code.unwrap()), "{path}: {ended}");
    }
    let pipe_toml = place.work().join("pipe.toml");
    fs::rename(pipe, &pipe_toml).unwrap();
    for words in ["run pipe.toml --path data", "experiment run pipe.toml ."] {
        place.iosonde(words).end().exits(2).says("a pipe");
    }
    fs::rename(&pipe_toml, place.work().join("pipe.fio")).unwrap();
    place.iosonde("run pipe.fio").end().exits(2).says("a pipe");
}
