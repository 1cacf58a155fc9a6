//! Compares each device of a fleet with its peers.

use std::path::Path;

use super::{CompareArgs, no_replay, request_text};
use crate::cli::exit::{Exit, Failure, no_effect};
use crate::cli::intact::AcceptArgs;
use crate::cli::output::Output;
use crate::cli::recorded::fleet::Fleet;
use crate::cli::recorded::runs::{Read, visit};
use crate::cli::screen;
use iosonde_analysis::comparison::Observation;
use iosonde_analysis::comparison::peers::{Member, compare_with_peers};
use iosonde_model::record::Run;
use iosonde_report::{peers_json, peers_text};

/// Placeholder: this comparison uses no seed.
const NO_SEED: u64 = 0;

/// Finds devices that differ from their peers.
pub(super) fn compare(args: &CompareArgs) -> Result<Exit, Failure> {
    no_replay(args)?;
    let given = [
        ("--allow", !args.allow.is_empty()),
        ("--gate", !args.gate.is_empty()),
        ("--page", args.page.is_some()),
        ("--rounds", args.rounds.is_some()),
        ("--results", args.results.is_some()),
        ("--seed", args.seed.is_some()),
    ];
    no_effect(&given, "--peers, which compares one device with all others")?;
    let request = request_text(args, NO_SEED)?;
    let fleet = Fleet::under(&args.peers)?;
    let mut members = Vec::new();
    let left_out = fleet.read(
        |folder| members_of(folder, args.accept),
        |found| {
            members.extend(found);
            Ok(true)
        },
    )?;
    let peers = compare_with_peers(&members, &request.metrics, request.tolerance);
    let exit = if peers.groups.is_empty() { Exit::Inconclusive } else { Exit::Done };
    let exit = exit.or_graver(fleet.end(&left_out));
    let mut output = Output::new(args.output_format);
    output.text(&peers_text(&peers, screen::columns()));
    output.value(&peers_json(&peers, exit.code()));
    Ok(output.end(exit))
}

/// Reads the runs of a result.
fn members_of(folder: &Path, accept: AcceptArgs) -> Result<Vec<Member>, Failure> {
    let mut members = Vec::new();
    visit("--peers", folder, accept, &mut |read| {
        // A baseline does not name the devices of its runs, and result folders contain none.
        let Read::Run { machine, run, cell, host } = read else { return };
        members.push(Member {
            name: name(machine.as_deref(), &run),
            observation: Observation::of(&run, &cell, host),
        });
    })?;
    Ok(members)
}

/// Name of the host, if known, with the device's serial number or the target's path.
fn name(machine: Option<&str>, run: &Run) -> String {
    let device = run.target.device.as_ref();
    let serial = device.and_then(|device| device.serial.as_deref());
    let target = serial.map_or(run.target.path.as_str(), str::trim);
    match machine {
        Some(machine) => format!("{machine} {target}"),
        None => target.to_owned(),
    }
}
