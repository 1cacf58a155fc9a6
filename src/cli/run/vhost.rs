//! `run` on the device of a vhost-user server.

use std::sync::Arc;

use super::request::Request;
use super::resolved_target::{ResolvedTarget, TargetArgs, within};
use crate::cli::consent::ConsentArgs;
use crate::cli::exit::{Exit, Failure, shown, wrong};
use crate::cli::output::note;
use iosonde_engine::backend::vhost::{AdmitError, ConnectError, Server};
use iosonde_engine::engine::Medium;
use iosonde_engine::target::vhost::{VhostRefusal, admit_writes};
use iosonde_model::plan::{Plan, Target, Wait};
use iosonde_model::units::count;

/// Connects to the server.
pub(super) fn resolve_target(
    args: &TargetArgs,
    requested: &Request,
) -> Result<ResolvedTarget, Failure> {
    let paths = args.paths();
    let [path] = paths.as_slice() else {
        return Err(wrong(format!(
            "--path: found {} targets, expected the one socket of a vhost-user-blk server",
            paths.len()
        )));
    };
    args.consent.of_server()?;
    let server = Server::connect(path)?;
    let facts = server.facts();
    let what = format!("the device behind {}", shown(path));
    let (offset_bytes, end_bytes) = within(requested, facts.bytes, &what)?;
    let target = target(&server, end_bytes);
    let durable = facts.flush;
    let medium = Medium::Vhost(Arc::new(server));
    Ok(ResolvedTarget { durable, ..ResolvedTarget::of(medium, target, offset_bytes) })
}

/// Checks the plan against the device, sets up the queues, and requires consent if it writes.
pub(super) fn admit(
    args: &TargetArgs,
    medium: &Medium,
    plan: &Plan,
    cpus: u32,
) -> Result<(), Failure> {
    let Medium::Vhost(server) = medium else { return Ok(()) };
    server.admit(plan)?;
    let polling = plan.jobs.iter().filter(|job| job.reap.wait == Wait::Poll).count();
    if polling >= cpus as usize {
        note(&format!(
            "warning: {} on {} leave none for the server: the latencies will be those of the \
             scheduler",
            count::of(polling as u64, "polling job"),
            count::of(cpus.into(), "CPU")
        ));
    }
    if plan.writes() { admit_to_write(&args.consent, server) } else { Ok(()) }
}

/// Target for a server's device up to this end, in whole blocks.
pub(in crate::cli) fn target(server: &Server, end_bytes: u64) -> Target {
    let align_bytes = u64::from(server.facts().block_bytes);
    Target {
        path: server.path().to_string_lossy().into_owned(),
        bytes: end_bytes / align_bytes * align_bytes,
        direct: true,
        align_bytes,
    }
}

/// Requires consent to write the device of a server.
pub(in crate::cli) fn admit_to_write(
    consent: &ConsentArgs,
    server: &Server,
) -> Result<(), Failure> {
    let mut read = |offset: u64, into: &mut [u8]| server.read(offset, into);
    let (agreed, how) = (consent.of_server()?, consent.inspection());
    Ok(admit_writes(server.path(), server.facts().bytes, agreed, how, &mut read)?)
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Failure {
        let exit = match &error {
            ConnectError::Missing(_)
            | ConnectError::NotASocket { .. }
            | ConnectError::Protocol { .. } => Exit::Usage,
            ConnectError::NobodyListens(_)
            | ConnectError::InUse(_)
            | ConnectError::Silent { .. }
            | ConnectError::System { .. } => Exit::Environment,
        };
        Failure::new(exit, error.to_string())
    }
}

impl From<AdmitError> for Failure {
    fn from(error: AdmitError) -> Failure {
        let exit = if error.is_usage_error() { Exit::Usage } else { Exit::Environment };
        Failure::new(exit, error.to_string())
    }
}

impl From<VhostRefusal> for Failure {
    fn from(error: VhostRefusal) -> Failure {
        let exit = match &error {
            VhostRefusal::Unread { .. } => Exit::Environment,
            _ => Exit::Refused,
        };
        Failure::new(exit, error.to_string())
    }
}
