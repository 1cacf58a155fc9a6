//! Compares a replay with the recorded profile.

use std::fs;
use std::path::Path;

use super::CompareArgs;
use crate::cli::exit::{About, Exit, Failure, shown, wrong};
use crate::cli::output::Output;
use crate::cli::recorded::{Record, record};
use crate::cli::screen;
use iosonde_analysis::fidelity::{fidelity, observed::Observed};
use iosonde_model::record::export;
use iosonde_model::spec::Speed;
use iosonde_report::{fidelity_json, fidelity_text, profile_figures};

/// Compares a profile with its replay.
pub(super) fn compare(args: &CompareArgs, profile: &Path, replay: &Path) -> Result<Exit, Failure> {
    let speed = args.speed.as_deref().unwrap_or("1x");
    let speed = Speed::parse(speed).or_wrong("--speed")?;
    let (first, first_path, mut altered) = record("PROFILE", profile, args.accept)?;
    let (second, second_path, more) = record("REPLAY", replay, args.accept)?;
    let Record::Profile(recording) = &first else {
        let path = profile.display();
        return Err(wrong(format!("PROFILE: found a run in `{path}`, expected a profile")));
    };
    let recorded = Observed::of_profile(recording);
    let regenerated = match &second {
        Record::Profile(run) => Observed::of_replay(run, recording),
        Record::Run(run) => Observed::of_run(run),
    };
    if let Some(folder) = &args.figures {
        draw(folder, &first, &second)?;
    }
    let mut analysed = fidelity(&recorded, &regenerated, speed);
    altered.extend(more);
    if !altered.is_empty() {
        analysed.notes.insert(0, format!("ALTERED: {}", altered.join(" ")));
    }
    let exit = if analysed.score.is_some() { Exit::Done } else { Exit::Inconclusive };
    let mut output = Output::new(args.output_format);
    output.text(&fidelity_text(&analysed, screen::columns()));
    let [one, other] = [first_path, second_path].map(|path| path.to_string_lossy().into_owned());
    output.value(&fidelity_json(&analysed, &one, &other, exit.code()));
    Ok(output.end(exit))
}

/// Draws charts of profile and replay side by side.
fn draw(folder: &Path, first: &Record, second: &Record) -> Result<(), Failure> {
    let (Record::Profile(recorded), Record::Profile(regenerated)) = (first, second) else {
        let message = "--figures: found the result of a run, expected a profile of the replay, \
            because only a profile contains its requests: `iosonde profile -- iosonde run …`";
        return Err(wrong(message));
    };
    let about = |path: &Path| format!("--figures: {}", shown(path));
    let pictures = profile_figures::comparison(recorded, regenerated);
    let pictures = pictures.or_environment(about(folder))?;
    fs::create_dir_all(folder).or_environment(about(folder))?;
    for (name, picture) in pictures {
        let path = folder.join(name);
        export::probe(&path, &|start| start.starts_with("<svg"))
            .and_then(|()| export::write(&path, &picture))
            .or_environment(about(&path))?;
    }
    Ok(())
}
