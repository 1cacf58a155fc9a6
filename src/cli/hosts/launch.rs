//! Starts an agent on a host by a command that passes on standard input and output.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use iosonde_model::record::checksums::checksum;

use crate::cli::exit::{About, Failure, wrong};
use crate::cli::words::split;

/// Launchers by name. `{host}` is the host, `{command}` the agent's command line.
const LAUNCHERS: [(&str, &str); 7] = [
    ("ssh", "ssh -T -o BatchMode=yes -- {host} {command}"),
    ("clush", "clush -N -w {host} -- {command}"),
    ("srun", "srun --quiet --nodes=1 --ntasks=1 --nodelist={host} -- {command}"),
    ("mpirun", "mpirun --allow-run-as-root --host {host} -n 1 {command}"),
    ("docker", "docker exec -i {host} {command}"),
    ("kubectl", "kubectl exec -i {host} -- {command}"),
    ("local", "{command}"),
];

/// A launcher and the command line of the agent.
#[derive(Clone, Debug)]
pub(super) struct Launcher {
    /// Template, as recorded.
    pub(super) template: String,
    words: Vec<String>,
    /// Command line of the agent, or of a shell if the program is sent.
    agent: Vec<String>,
    /// Program that is sent to each host, if any.
    pub(super) sent: Option<Sent>,
}

/// The program in the form that is sent to a host.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// Shell script that receives and starts the program.
    pub(super) script: String,
    /// Content of the executable.
    pub(super) program: Arc<Vec<u8>>,
}

impl Sent {
    /// Reads the executable of this process.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn this_program() -> std::io::Result<Sent> {
        let program = std::fs::read("/proc/self/exe")?;
        let sum = checksum(&program);
        let bytes = program.len();
        // The shell reads the whole block before it requests the program, so it cannot read ahead
        // into it. The agent removes the file once it runs; otherwise the trap does.
        let script = format!(
            "{{ umask 077; file=$(mktemp \"${{TMPDIR:-/tmp}}/iosonde.XXXXXX\") || exit 1
trap 'rm -f \"$file\"' EXIT; trap 'exit 1' HUP INT TERM
printf '#iosonde 8\\n\"Wanted\"\\n'
head -c {bytes} >\"$file\"; sum=$(sha256sum <\"$file\"); sum=${{sum%% *}}
if [ \"$sum\" != {sum} ]; then
echo \"the program arrived with checksum ${{sum:-unknown}}, expected {sum}\" >&2; exit 1; fi
chmod 700 \"$file\"; \"$file\" agent --sent \"$file\"; exit; }}\n"
        );
        Ok(Sent { script, program: Arc::new(program) })
    }
}

impl Launcher {
    /// Parses the name of a launcher, or a template.
    ///
    /// # Errors
    /// If it is neither, or the agent's command line cannot be split.
    pub(super) fn parse(launch: &str, agent: &str) -> Result<Launcher, Failure> {
        let named = LAUNCHERS.iter().find(|(name, _)| *name == launch);
        let template = named.map_or(launch, |(_, template)| template);
        let words = split(template).or_wrong(format!("--launch: `{template}`"))?;
        if !words.iter().any(|word| word.contains("{command}")) {
            let names = LAUNCHERS.map(|(name, _)| name).join(", ");
            return Err(wrong(format!(
                "--launch: found `{launch}`, expected {names}, or a command with {{host}} and \
                 {{command}} in it"
            )));
        }
        let agent = split(agent).or_wrong(format!("--agent: `{agent}`"))?;
        if agent.is_empty() {
            return Err(wrong("--agent: found nothing, expected a command"));
        }
        let agent = agent.into_iter().chain(["agent".to_owned()]).collect();
        Ok(Launcher { template: template.to_owned(), words, agent, sent: None })
    }

    /// Makes the launcher send this program to each host, where a shell starts it.
    ///
    /// # Errors
    /// If the program cannot be read.
    pub(super) fn sending(self) -> std::io::Result<Launcher> {
        Ok(Launcher { agent: vec!["sh".into()], sent: Some(Sent::this_program()?), ..self })
    }

    /// Command line for a host.
    pub(super) fn words(&self, host: &str) -> Vec<String> {
        let mut words = Vec::new();
        for word in &self.words {
            match word.as_str() {
                "{command}" => words.extend(self.agent.iter().cloned()),
                word => {
                    let command = self.agent.join(" ");
                    words.push(word.replace("{host}", host).replace("{command}", &command));
                }
            }
        }
        words
    }

    /// Starts the agent on a host.
    ///
    /// # Errors
    /// If the launcher itself cannot be run.
    pub(super) fn start(&self, host: &str) -> std::io::Result<Child> {
        let words = self.words(host);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        // An interrupt from the terminal is for the coordinator, which stops the agents.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_template_is_filled_word_by_word() {
        let line = |launch: &str, agent: &str| {
            Launcher::parse(launch, agent).unwrap().words("node1").join("|")
        };
        assert_eq!(line("ssh", "iosonde"), "ssh|-T|-o|BatchMode=yes|--|node1|iosonde|agent");
        assert_eq!(
            line("ip netns exec {host} {command}", "'/opt/my tools/iosonde'"),
            "ip|netns|exec|node1|/opt/my tools/iosonde|agent"
        );
        assert_eq!(line("sh -c 'x={host} {command}'", "a b"), "sh|-c|x=node1 a b agent");
        assert_eq!(line("local", "iosonde"), "iosonde|agent");
    }

    #[test]
    fn what_is_no_launcher_is_refused() {
        let words = |launch: &str, agent: &str| Launcher::parse(launch, agent).unwrap_err().message;
        assert!(words("shh", "a").contains("found `shh`, expected ssh, clush"));
        assert!(words("ssh '{command}", "a").contains("unclosed quote"));
        assert!(words("ssh", "").contains("--agent: found nothing"));
    }
}
