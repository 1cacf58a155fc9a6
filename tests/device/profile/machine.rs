//! A whole machine: processes without a common ancestor, processes started during the profile, and
//! no kernel threads.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use iosonde_model::record::profile::Subject;
use iosonde_rig::ScratchDir;

use super::{MIB, Profile, bytes, disk, group, has, name, own, traffic, writes};
use crate::request::{program, turn};

#[test]
fn every_process_counts_and_none_is_sampled() {
    let _turn = turn();
    let Some(mount) = has("dd").then(disk).flatten() else { return };
    // Other processes of this machine use other disks.
    let words = ["-d", name(mount.device()), "--for", "3", "--verbose"].map(str::to_owned);
    let place = mount.path().to_owned();
    let asked = Profile { words: words.to_vec(), place, results: ScratchDir::new().unwrap() };
    let mut command = asked.command(Command::new(program()));
    let mut profiler = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(profiler.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("watching")), "it ended before it began");
    for (writer, mib) in [("one", 8), ("two", 16)] {
        let words = format!("if=/dev/zero of={writer} bs=64k count={} oflag=direct", mib * 16);
        let ended = Command::new("dd")
            .args(words.split(' '))
            .current_dir(mount.path())
            .stderr(Stdio::null())
            .status();
        assert!(ended.unwrap().success());
    }
    let report = said.collect::<Vec<String>>().join("\n");
    assert!(profiler.wait().unwrap().success(), "{report}");
    assert!(report.contains("the whole machine"), "{report}");
    let Some(run) = asked.read() else { return };
    assert_eq!(run.subject, Subject::Machine);
    let written = traffic(&run, |kind| writes(kind) && own(kind) && group(&run, kind) == "dd");
    assert_eq!(bytes(&written), 24 * MIB);
    for (writer, mib) in [("one", 8), ("two", 16)] {
        let file = run.files.iter().find(|file| file.path.ends_with(&format!("/{writer}")));
        assert_eq!(file.map(|file| file.write_bytes), Some(mib * MIB), "{writer}: {report}");
    }
    assert_eq!((run.calls, run.cpu), (None, None));
    let missing = run.source.missing.iter().any(|each| each.what.contains("calls and CPU time"));
    assert!(missing, "{report}");
}
