//! A vhost-user-blk server whose device has no data.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::BenchError;

/// Size of the device.
pub(crate) const BYTES: u64 = 1 << 30;
/// Time limit for the server to create its socket.
const PATIENCE: Duration = Duration::from_secs(10);

/// The server, killed on drop.
#[derive(Debug)]
pub(crate) struct Server(Child);

impl Server {
    /// Starts it on a CPU other than that of the tools: both ends poll.
    pub(crate) fn start(
        program: &Path,
        socket: &Path,
        tools_cpu: usize,
    ) -> Result<Server, BenchError> {
        // A server that was killed leaves its socket behind.
        let _ = std::fs::remove_file(socket);
        let device = format!(r#"{{"driver":"null-co","node-name":"n","size":{BYTES}}}"#);
        let export = "type=vhost-user-blk,id=e,node-name=n,writable=on,addr.type=unix";
        let export = format!("{export},addr.path={}", socket.display());
        let cpu = usize::from(tools_cpu == 0);
        let mut command = Command::new("taskset");
        command.arg("-c").arg(cpu.to_string()).arg(program);
        command.args(["--blockdev", &device, "--export", &export]).stdin(Stdio::null());
        let name = program.display().to_string();
        let child =
            command.spawn().map_err(|error| BenchError::NotRun { program: name.clone(), error })?;
        let server = Server(child);
        let started = Instant::now();
        while !socket.metadata().is_ok_and(|facts| facts.file_type().is_socket()) {
            if started.elapsed() > PATIENCE {
                return Err(BenchError::Gate(format!("{name} creates no socket")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
