//! `iosonde compare`: how near does a replay come to what was recorded?

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::exit::{Exit, Failure};
use super::output::{Output, OutputFormat};
use super::recorded::{Record, record};
use crate::analysis::fidelity::{fidelity, observed::Observed};
use crate::record::export;
use crate::report::{fidelity_json, fidelity_text, profile_figures};
use crate::spec::Speed;

/// How near does a replay come to the program it stands for? A score for each dimension of the load
/// and their mean: 1 is alike.
///
/// PROFILE is the result of `iosonde profile`. REPLAY is best the profile of a replay, which was
/// seen by the same eyes; the result of the replay's own `iosonde run` tells less. Each is a result
/// folder or a record in it, such as 01-profile.json. What one of both does not hold is said and
/// not counted. Comparing two runs is not supported.
///
/// Examples:
///   iosonde profile --emit app.toml -- ./app
///   iosonde profile -- iosonde run app.toml --path disk.img --runtime 60
///   iosonde compare RESULTS/20261121T100000Z-profile-1 RESULTS/20261121T100500Z-profile-2
///   iosonde compare first/01-profile.json fast/01-profile.json --speed 2x
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompareArgs {
    /// What was recorded: a folder or record of `iosonde profile`
    profile: PathBuf,
    /// What was regenerated: a folder or record of `iosonde profile` or `iosonde run`
    replay: PathBuf,
    /// The speed of the replay: times of the recording are divided by it, or left out with max
    #[arg(long, value_name = "N(x)|max", default_value = "1x")]
    speed: String,
    /// Folder for pictures of both side by side (SVG); needs a profile of the replay
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// Form of the result on stdout
    #[arg(long, value_enum, default_value = "normal")]
    output_format: OutputFormat,
}

/// Runs the verb.
pub(super) fn compare(args: &CompareArgs) -> Result<Exit, Failure> {
    args.output_format.can_tell("compare")?;
    let speed = Speed::parse(&args.speed).map_err(|error| asked(format!("--speed: {error}")))?;
    let (first, first_path) = record("PROFILE", &args.profile)?;
    let (second, second_path) = record("REPLAY", &args.replay)?;
    let recorded = match &first {
        Record::Profile(run) => Observed::of_profile(run),
        Record::Run(_) => {
            return Err(asked(format!(
                "PROFILE: `{}` is a run, expected a profile: a replay is compared with the profile \
                 of the program, and comparing two runs is not supported; profile the program with \
                 `iosonde profile -- COMMAND`",
                args.profile.display()
            )));
        }
    };
    let regenerated = match &second {
        Record::Profile(run) => Observed::of_profile(run),
        Record::Run(run) => Observed::of_run(run),
    };
    if let Some(folder) = &args.figures {
        draw(folder, &first, &second)?;
    }
    let told = fidelity(&recorded, &regenerated, speed);
    let exit = if told.score.is_some() { Exit::Done } else { Exit::Inconclusive };
    let mut output = Output::new(args.output_format);
    output.text(&fidelity_text(&told));
    let [one, other] = [first_path, second_path].map(|path| path.to_string_lossy().into_owned());
    output.value(&fidelity_json(&told, &one, &other, exit.code()));
    Ok(output.end(exit))
}

/// Draws both side by side.
fn draw(folder: &Path, first: &Record, second: &Record) -> Result<(), Failure> {
    let (Record::Profile(recorded), Record::Profile(regenerated)) = (first, second) else {
        let message = "--figures: found the result of a run, expected a profile of the replay, \
                       which alone holds its requests: `iosonde profile -- iosonde run …`";
        return Err(asked(message.to_owned()));
    };
    let failed = |path: &Path, why: String| {
        Failure::new(Exit::Environment, format!("--figures: `{}`: {why}", path.display()))
    };
    let pictures = profile_figures::comparison(recorded, regenerated)
        .map_err(|error| failed(folder, error.to_string()))?;
    fs::create_dir_all(folder).map_err(|error| failed(folder, error.to_string()))?;
    for (name, picture) in pictures {
        let path = folder.join(name);
        export::probe(&path, &|start| start.starts_with("<svg"))
            .and_then(|()| export::write(&path, &picture))
            .map_err(|error| failed(&path, error.to_string()))?;
    }
    Ok(())
}

fn asked(message: String) -> Failure {
    Failure::new(Exit::Asked, message)
}
