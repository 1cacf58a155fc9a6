//! Options of other tools that this one lacks, with the reason or the alternative.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::cli::exit::{Failure, wrong};

const VERIFY: &str = "use `iosonde verify`";

/// Option, and the reason or the alternative.
const FOREIGN: [(&str, &str); 20] = [
    ("random-generator", "one generator draws all offsets and data; --randseed is its seed"),
    ("randrepeat", "every run has a new seed, which it prints; --randseed repeats one"),
    ("allrandrepeat", "every run has a new seed, which it prints; --randseed repeats one"),
    ("buffered", "use --direct 0 for buffered I/O"),
    ("verify", VERIFY),
    ("verify-sectors", VERIFY),
    ("verify-inject-fault", VERIFY),
    ("do-verify", VERIFY),
    ("seconds", "use --runtime"),
    ("duration", "use --runtime"),
    ("loops", "use --runtime, --number-ios or --io-size"),
    ("name", "a command line is a single unnamed load; roles of a workload file have names"),
    ("stonewall", "a command line is a single load; use separate commands"),
    ("startdelay", "give a first --phase with rate=0"),
    ("rate-min", "give an --expect such as 'read.iops>=1000'"),
    ("rate-iops-min", "give an --expect such as 'read.iops>=1000'"),
    ("thinktime-spin", "a pause never keeps the CPU busy on purpose"),
    ("exec-prerun", "iosonde does not run programs"),
    ("exec-postrun", "iosonde does not run programs"),
    ("gtod-reduce", "time stamps cost what `tool overhead` says, and are always taken"),
];

/// Improves clap's error for an option of another tool, and for an option combined with a workload
/// file.
pub(crate) fn explained(error: &clap::Error, words: &[String]) -> Option<Failure> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    match error.kind() {
        ErrorKind::UnknownArgument => not_ours(word),
        ErrorKind::ArgumentConflict if word == "[FILE]" => beside_file(error, words),
        _ => None,
    }
}

/// Names the given option that cannot be combined with a workload file.
fn beside_file(error: &clap::Error, words: &[String]) -> Option<Failure> {
    let Some(ContextValue::Strings(options)) = error.get(ContextKind::PriorArg) else {
        return None;
    };
    let name = |option: &str| option.split(' ').next().unwrap_or("").to_owned();
    let given = |option: &String| {
        words.iter().any(|word| word.split('=').next() == Some(name(option).as_str()))
    };
    let option = name(options.iter().find(|option| given(option))?);
    let message = format!("{option} cannot be combined with a workload file; set it in the file");
    Some(wrong(message))
}

fn not_ours(word: &str) -> Option<Failure> {
    let name = word.trim_start_matches('-').split('=').next().unwrap_or("");
    let (name, why) = FOREIGN.iter().find(|(foreign, _)| *foreign == name)?;
    Some(wrong(format!("--{name} is not an option here: {why}")))
}
