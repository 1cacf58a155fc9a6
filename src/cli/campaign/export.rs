//! Exports the points of a campaign as fio job files, one per point.

use serde_json::json;

use super::FioArgs;
use super::plan::devices;
use crate::cli::exit::{About, Exit, Failure, environment, shown};
use crate::cli::experiment::points;
use crate::cli::output::{Output, note};
use iosonde_model::record::export;
use iosonde_report::clean::clean;
use iosonde_report::fio_job::fio_job;

/// `campaign export fio`.
pub(super) fn fio(args: &FioArgs) -> Result<Exit, Failure> {
    let campaign = args.file.load()?;
    devices(&campaign)?;
    std::fs::create_dir_all(&args.output).or_environment(shown(&args.output))?;
    let mut output = Output::new(args.file.output_format);
    let (mut written, mut left_out) = (Vec::new(), Vec::new());
    for device in &campaign.devices {
        for (number, requested) in campaign.steps(device) {
            let prefix = format!("{}-{}", device.name, requested.folder(number));
            for (place, point) in points(&requested.words(device))?.into_iter().enumerate() {
                let name = format!("{prefix}-{}-{place:04}.ini", point.stage);
                let text = match &point.plan {
                    Ok(plan) => fio_job(&[(plan, &[])]).map_err(|error| error.to_string()),
                    Err(why) => Err(why.clone()),
                };
                match text {
                    Ok(text) => {
                        let path = args.output.join(&name);
                        export::write(&path, &text).map_err(environment)?;
                        written.push(name);
                    }
                    Err(why) => {
                        note(&format!("left out: {name} ({}): {}", point.name, clean(&why)));
                        left_out.push(json!({ "name": name, "because": why }));
                    }
                }
            }
        }
    }
    let shown = clean(&args.output.display().to_string());
    output.text(&format!("{} job files in {shown}, {} left out\n", written.len(), left_out.len()));
    output.value(&json!({ "written": written, "left_out": left_out }));
    Ok(output.end(Exit::Done))
}
