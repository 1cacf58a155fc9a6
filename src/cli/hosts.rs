//! One command on many hosts: a launcher that the cluster already has starts an agent on each, and
//! the results are combined.

mod agent;
mod connection;
mod launch;
mod nodes;
mod outcome;
mod peers;
mod protocol;
#[cfg(feature = "mpi")]
mod ranks;
mod server;
mod session;
mod shared;
mod view;

use std::path::Path;
use std::time::Duration;

use clap::{Args, ValueEnum};
use iosonde_analysis::hosts::{
    HostMeasured, HostsCell, HostsFigures, cells, hosts as hosts_figures,
};
use iosonde_model::record::Run;
use iosonde_model::record::hosts::{HOSTS, HOSTS_SCHEMA, HostCell, HostsRun, ServerRun};
use iosonde_report::hosts_report::{HostsResult, hosts_json, hosts_report};
use iosonde_report::plain::plain;
use iosonde_report::{CampaignAnswer, hosts_answer};

pub(super) use agent::{AgentArgs, agent};
pub(super) use peers::{Agent, BARRIER};
pub use protocol::read_frames;

use super::exit::{About, Exit, Failure, wrong};
use super::keep::Keeper;
use super::output::{Output, OutputFormat};
use super::screen;
use super::watchdog;
use super::words::time;
use launch::Launcher;
use outcome::Outcome;
use server::Server;
use session::{Request, Session, exit_of};

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Many hosts")]
pub(crate) struct HostsArgs {
    /// Run this command on these hosts at the same time: node[01-32],login or @group of
    /// ClusterShell; {host} in other options is the name of each
    #[arg(long, value_name = "LIST")]
    hosts: Option<String>,
    /// How to reach a host: ssh, clush, srun, mpirun, docker, kubectl, local, or a command with
    /// {host} and {command} in it
    #[arg(long, value_name = "NAME|COMMAND", default_value = "ssh", requires = "hosts")]
    launch: String,
    /// iosonde on the hosts
    #[arg(long, value_name = "COMMAND", default_value = "iosonde", requires = "hosts")]
    agent: String,
    /// Send this program to each host, where it is not installed: into $TMPDIR or /tmp there, from
    /// where it is removed; its checksum is compared
    #[arg(long, requires = "hosts", conflicts_with = "agent")]
    send_binary: bool,
    /// A host that sends nothing for this time counts as lost
    #[arg(long, value_name = "TIME", default_value = "30", requires = "hosts")]
    host_timeout: String,
    /// How the hosts use a target that they share: a part each, or all of it
    #[arg(long, value_enum, value_name = "WHICH")]
    host_region: Option<Region>,
    /// Command that prints what the disks of a server that the hosts share have read and written,
    /// such as 'ssh nas cat /sys/block/md0/stat'; run here before and after each run
    #[arg(long, value_name = "COMMAND")]
    server_counters: Option<String>,
}

impl HostsArgs {
    /// The first given option that has no effect on a single host.
    fn for_several(&self) -> Option<&'static str> {
        let region = self.host_region.map(|_| "--host-region");
        region.or(self.server_counters.as_ref().map(|_| "--server-counters"))
    }

    /// Opens the server whose counters are read.
    ///
    /// # Errors
    /// If the counters cannot be read.
    fn server(&self) -> Result<Option<Server>, Failure> {
        self.server_counters.as_deref().map(Server::open).transpose()
    }
}

/// What hosts use of a target that they share.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Region {
    /// Each host uses a part of its own, in the order of the list.
    Partitioned,
    /// Every host uses and writes all of it: the last write wins.
    Shared,
}

/// Options of the coordinator, which hosts do not get.
const OURS: [&str; 10] = [
    "--hosts",
    "--launch",
    "--agent",
    "--host-timeout",
    "--host-region",
    "--server-counters",
    "--results",
    "--output",
    "--output-format",
    "--eta-interval",
];
/// Commands whose runs are measured on all hosts together.
const MEASURES: [&str; 3] = ["run", "check", "experiment"];

/// Variables with the number of MPI ranks: Open MPI, MPICH and Intel MPI, MVAPICH.
const RANKS: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"];
/// Variables of ranks that Slurm starts: one that only ranks have, and the number of ranks.
const RANKS_OF_SLURM: [&str; 2] = ["PMIX_RANK", "SLURM_STEP_NUM_TASKS"];

/// Number of ranks in the MPI job of this process, if there are several.
fn ranks() -> Option<usize> {
    // A command that an agent started inherits the variables of a rank but is not one.
    let is_command = std::env::var_os(BARRIER).is_some();
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    let [rank, tasks] = RANKS_OF_SLURM.map(number);
    let ranks = RANKS.into_iter().find_map(number).or_else(|| rank.and(tasks));
    ranks.filter(|ranks| *ranks > 1 && !is_command)
}

/// Whether this process is one of several ranks of an MPI job.
pub(super) fn is_rank() -> bool {
    ranks().is_some()
}

/// Runs a command on many hosts, if --hosts or MPI requests that.
///
/// # Errors
/// If that fails, or was cancelled before any host wrote anything.
pub(super) fn on_hosts(command: &Command<'_>, words: &[String]) -> Result<Option<Exit>, Failure> {
    let usage = |message: String| Err(wrong(message));
    match (command.hosts.hosts.is_some(), ranks()) {
        (true, None) => coordinate(command, words).map(Some),
        (true, Some(ranks)) => usage(format!(
            "--hosts: this is one of {ranks} ranks of an MPI job, which would each start all \
             hosts: leave out --hosts, or start one rank"
        )),
        (false, Some(ranks)) => join(command, words, ranks).map(Some),
        (false, None) => match command.hosts.for_several() {
            Some(option) => usage(format!(
                "{option} has no effect on one host: name several by --hosts, or start ranks by \
                 mpirun"
            )),
            None => Ok(None),
        },
    }
}

#[cfg(feature = "mpi")]
fn join(command: &Command<'_>, words: &[String], _ranks: usize) -> Result<Exit, Failure> {
    ranks::join(command, words)
}

#[cfg(not(feature = "mpi"))]
fn join(_command: &Command<'_>, _words: &[String], ranks: usize) -> Result<Exit, Failure> {
    Err(wrong(format!(
        "this is one of {ranks} ranks of an MPI job, and this program was built without MPI: the \
         ranks would disturb each other without knowing it; build it with `cargo build --release \
         --features mpi`, or start one rank with --hosts"
    )))
}

/// Combines the documents of the hosts into one answer and its rows as text.
type Together = fn(&[(&str, serde_json::Value)]) -> (CampaignAnswer, String);

/// The parts of a command that the coordinator needs.
pub(super) struct Command<'a> {
    pub(super) verb: &'static str,
    pub(super) hosts: &'a HostsArgs,
    /// Further arguments, the same for every host.
    pub(super) same: Vec<String>,
    pub(super) output_format: OutputFormat,
    pub(super) output: Option<&'a Path>,
    pub(super) results: Option<&'a Path>,
    /// Combines the documents of all hosts (null where missing) into one answer with a row for
    /// each. `None`: each host's own text is shown.
    pub(super) together: Option<Together>,
}

impl<'a> Command<'a> {
    /// A command without further arguments.
    pub(super) fn new(
        verb: &'static str,
        hosts: &'a HostsArgs,
        output_format: OutputFormat,
    ) -> Command<'a> {
        let same = Vec::new();
        Command { verb, hosts, same, output_format, output: None, results: None, together: None }
    }
}

/// Runs a command on the hosts of --hosts.
fn coordinate(command: &Command<'_>, words: &[String]) -> Result<Exit, Failure> {
    let args = command.hosts;
    let list = args.hosts.as_deref().unwrap_or_default();
    let names = nodes::hosts(list)?;
    let mut launcher = Launcher::parse(&args.launch, &args.agent)?;
    if args.send_binary {
        launcher =
            launcher.sending().or_environment("--send-binary: this program cannot be read")?;
    }
    let silence_ns = time("--host-timeout", &args.host_timeout)?;
    if !(2_000_000_000..=86_400_000_000_000).contains(&silence_ns) {
        let found = &args.host_timeout;
        return Err(wrong(format!("--host-timeout: found {found}, expected 2 s to 24 h")));
    }
    has_effect(command)?;
    let count = names.len();
    let names_of = names.iter().enumerate();
    let request = Request {
        hosts: &names,
        launcher: &launcher,
        words: names_of.map(|(at, name)| of_host(command, words, (name, at, count))).collect(),
        silence: Duration::from_nanos(silence_ns),
        region: args.host_region,
    };
    let output = Output::to(command.output_format, command.output)?;
    let server = args.server()?;
    let mut session = Session::open(&request, server, watchdog::heed());
    let carried_out = session.carry_out();
    session.close();
    carried_out?;
    let signal = session.signalled();
    let ended = Ended {
        outcomes: session.hosts.into_iter().map(|host| host.outcome).collect(),
        server: session.server.map(Server::into_read),
        signal,
    };
    Ok(conclude(command, words, &launcher.template, ended, output))
}

/// Refuses options that would be ignored.
fn has_effect(command: &Command<'_>) -> Result<(), Failure> {
    let args = command.hosts;
    if !matches!(command.output_format, OutputFormat::Normal | OutputFormat::Json) {
        let message = "--hosts: the result of many hosts is available as text or JSON: \
                       --output-format normal or json";
        return Err(wrong(message));
    }
    let is_without_effect = match command.verb {
        "run" | "verify" => None,
        "experiment" if args.host_region == Some(Region::Partitioned) => {
            Some("an experiment has no parts: give each host a target of its own ({host} in it)")
        }
        "experiment" => None,
        _ => Some("it is for run, verify and experiment"),
    };
    if args.server_counters.is_some() && !MEASURES.contains(&command.verb) {
        return Err(wrong(format!(
            "--server-counters has no effect with `{}`; it is for {}",
            command.verb,
            MEASURES.join(", ")
        )));
    }
    match (args.host_region, is_without_effect) {
        (Some(_), Some(why)) => Err(wrong(format!("--host-region has no effect: {why}"))),
        _ => Ok(()),
    }
}

/// The command line for the host with this name and index, of `count` hosts.
fn of_host(
    command: &Command<'_>,
    words: &[String],
    (name, at, count): (&str, usize, usize),
) -> Vec<String> {
    let all = for_host(words).into_iter().chain(command.same.iter().cloned());
    let mut words: Vec<String> = all.map(|word| word.replace("{host}", name)).collect();
    if command.output_format == OutputFormat::Json || command.together.is_some() {
        words.push("--output-format=json".into());
    }
    if command.hosts.host_region == Some(Region::Partitioned) {
        words.push(format!("--share={}/{count}", at + 1));
    }
    words
}

/// The command line for a host, without the options of the coordinator.
fn for_host(words: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        let (name, value) =
            word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        let name = name.replace('_', "-");
        if name == "--send-binary" {
            // It has no value.
        } else if !OURS.contains(&name.as_str()) {
            kept.push(word.clone());
        } else if value.is_none() {
            words.next();
        }
    }
    kept
}

/// How the command ended.
struct Ended {
    /// One per host.
    outcomes: Vec<Outcome>,
    /// Counters of a shared server.
    server: Option<ServerRun>,
    /// The signal that ended it early.
    signal: Option<i32>,
}

/// Stores and reports the results of the hosts.
fn conclude(
    command: &Command<'_>,
    words: &[String],
    launch: &str,
    Ended { mut outcomes, server, signal }: Ended,
    mut output: Output,
) -> Exit {
    let mut keeper = Keeper::open(command.results, command.verb, words);
    let mut kept: Vec<(usize, usize, Run)> = Vec::new();
    for (index, host) in outcomes.iter_mut().enumerate() {
        for (cell, run) in std::mem::take(&mut host.runs) {
            let file = format!("{:02}-{}@{}.json", cell + 1, run.plan.name, file_name(host));
            keeper.keep_cell(&file, &run);
            let opened = host.opened.iter().find(|(of, _)| *of == cell);
            let opened_ns = opened.map(|(_, there_ns)| host.here_ns(*there_ns));
            host.known.cells.push(HostCell { cell, opened_ns, file });
            kept.push((index, cell, run));
        }
        if !host.output.is_empty() {
            keeper.keep_bytes(&format!("{}.txt", file_name(host)), &host.output);
        }
    }
    let record = HostsRun {
        schema: HOSTS_SCHEMA.into(),
        program: env!("CARGO_PKG_VERSION").into(),
        verb: command.verb.into(),
        launch: launch.into(),
        hosts: outcomes.iter().map(|host| host.known.clone()).collect(),
        server,
    };
    keeper.keep(HOSTS, &record);
    let runs = kept.iter().map(|(host, cell, run)| (*host, *cell, run));
    let (loads, cells) = loads(&record, &runs.collect::<Vec<_>>());
    let ends = record.hosts.iter().map(|host| exit_of(&host.end));
    let mut exit = ends.fold(Exit::Done, Exit::or_graver);
    if let Some(signal) = signal {
        exit = exit.or_graver(Exit::Signal(signal));
    }
    let hosts = HostsResult {
        record: &record,
        loads: &loads,
        cells: &cells,
        manifest: None,
        exit_code: exit.code(),
    };
    let mut document = hosts_json(hosts);
    let answer = hosts_answer(hosts);
    let mut result = answer.result.clone();
    match command.together {
        _ if !loads.is_empty() => output.text(&hosts_text(hosts)),
        Some(together) => {
            let documents = outcomes.iter().map(|host| (&host.known.name[..], document_of(host)));
            let (all, rows) = together(&documents.collect::<Vec<_>>());
            output.text(&format!("{}{rows}", all.text(screen::columns())));
            document["answer"] = serde_json::json!(all);
            result = all.result;
        }
        None => {
            output.text(&answer.text(screen::columns()));
            outcomes.iter().for_each(|host| output.text(&under_its_name(host)));
        }
    }
    if loads.is_empty() {
        document["outputs"] = outcomes.iter().map(document_of).collect();
    }
    output.value(&document);
    let exit = output.end(exit);
    let complete = record.hosts.iter().all(|host| host.end.is_done());
    keeper.finish(complete, exit.code(), &result);
    exit
}

/// Figures of all hosts together: of each cell in order, and of each load over its repeats.
pub(super) fn loads(
    record: &HostsRun,
    runs: &[(usize, usize, &Run)],
) -> (Vec<HostsFigures>, Vec<HostsCell>) {
    let last = runs.iter().map(|(_, cell, _)| *cell).max();
    let numbers = 0..last.map_or(0, |last| last + 1);
    let of_cell = |cell: usize| {
        let of_cell = runs.iter().filter(|(_, of, _)| *of == cell);
        let measured: Vec<HostMeasured<'_>> = of_cell
            .map(|(index, _, run)| {
                let host = &record.hosts[*index];
                let kept = host.cells.iter().find(|kept| kept.cell == cell);
                HostMeasured {
                    name: &host.name,
                    opened_ns: kept.and_then(|kept| kept.opened_ns),
                    round_trip_ns: host.clock.map_or(0, |clock| clock.round_trip_ns),
                    run,
                }
            })
            .collect();
        let server = record.server.iter().flat_map(|server| &server.cells);
        let server = server.into_iter().find(|counted| counted.cell == cell);
        hosts_figures(&measured, server).map(|figures| (measured, figures))
    };
    let all: Vec<_> = numbers.filter_map(of_cell).collect();
    let cells = cells(&all);
    (all.into_iter().map(|(_, figures)| figures).collect(), cells)
}

/// The report as text.
pub(super) fn hosts_text(hosts: HostsResult<'_>) -> String {
    let columns = screen::columns();
    let mut report = hosts_report(hosts);
    // The answer is printed first.
    report.answer.clear();
    format!("{}{}", hosts_answer(hosts).text(columns), plain(&report, columns))
}

/// The output of a host's command, below the host's name.
fn under_its_name(host: &Outcome) -> String {
    let name = &host.known.name;
    format!("── {name} ──\n{}\n", host.output.trim_end())
}

/// The JSON document that a host's command printed, or null.
fn document_of(host: &Outcome) -> serde_json::Value {
    serde_json::from_str(&host.output).unwrap_or_default()
}

/// The name of a host as part of a file name.
fn file_name(host: &Outcome) -> String {
    host.known.name.replace(['/', ':'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_gets_the_command_without_what_is_for_the_coordinator() {
        let words = "iosonde run --hosts a,b --rw=read --launch=local --eta_interval 1 \
                     --send-binary \
                     --path x";
        let words: Vec<String> = words.split(' ').map(String::from).collect();
        assert_eq!(for_host(&words), ["run", "--rw=read", "--path", "x"]);
    }
}
