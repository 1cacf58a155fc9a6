//! Connects to the server behind a path, or reports why that fails.

use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use virtio_driver::{
    VhostUser, VirtioBlkConfig, VirtioBlkFeatureFlags, VirtioBlkReqBuf, VirtioFeatureFlags,
    VirtioTransport,
};

/// The transport of the `virtio-driver` crate.
pub(crate) type Transport = VhostUser<VirtioBlkConfig, VirtioBlkReqBuf>;

/// Attempts to connect, and the pause after each: a server that takes one client after another
/// needs a moment in between.
const RETRIES: u32 = 20;
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Time limit of an answer. A free vhost-user server answers in under a millisecond.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The path does not exist.
    #[error("`{0}` does not exist: no vhost-user server has made its socket there")]
    Missing(PathBuf),
    /// The path is not a socket.
    #[error("`{path}` is {kind}; expected the socket of a vhost-user-blk server")]
    NotASocket {
        /// The path.
        path: PathBuf,
        /// Kind of the file.
        kind: &'static str,
    },
    /// A socket without a server.
    #[error("nobody listens on `{0}`: its server has ended, and left the socket behind")]
    NobodyListens(PathBuf),
    /// The server closes the connection.
    #[error(
        "the server behind `{0}` closes the connection at once: it serves one client at a time, \
         and another is connected, or it speaks no vhost-user"
    )]
    InUse(PathBuf),
    /// No answer.
    #[error(
        "whoever listens on `{path}` said nothing for {seconds} s: it is no vhost-user server, it \
         serves another client already, or it hangs"
    )]
    Silent {
        /// The path.
        path: PathBuf,
        /// Time limit, s.
        seconds: u64,
    },
    /// The answer is not that of a usable vhost-user-blk server.
    #[error("`{path}` is not the socket of a usable vhost-user-blk server: {why}")]
    Protocol {
        /// The path.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The system refuses.
    #[error("cannot connect to `{path}`: {error}")]
    System {
        /// The path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// Properties that the device reports.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Facts {
    /// Size, bytes.
    pub bytes: u64,
    /// Smallest unit of an offset and a length, bytes.
    pub block_bytes: u32,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether flush requests are supported.
    pub flush: bool,
    /// Longest discard, bytes; 0 where discard is not supported.
    pub max_discard_bytes: u64,
    /// Queues, at most.
    pub queues: usize,
    /// Features in effect.
    pub features: Vec<&'static str>,
    /// Features requested but not offered.
    pub missing: Vec<&'static str>,
}

/// A connection whose queues are not set up yet.
pub struct Connection {
    pub(crate) transport: Transport,
    facts: Facts,
}

/// The requested features, by the names of the specification.
const FEATURES: [(&str, u64); 7] = [
    ("VERSION_1", VirtioFeatureFlags::VERSION_1.bits()),
    ("RING_EVENT_IDX", VirtioFeatureFlags::RING_EVENT_IDX.bits()),
    ("BLK_F_MQ", VirtioBlkFeatureFlags::MQ.bits()),
    ("BLK_F_BLK_SIZE", VirtioBlkFeatureFlags::BLK_SIZE.bits()),
    ("BLK_F_FLUSH", VirtioBlkFeatureFlags::FLUSH.bits()),
    ("BLK_F_DISCARD", VirtioBlkFeatureFlags::DISCARD.bits()),
    ("BLK_F_RO", VirtioBlkFeatureFlags::RO.bits()),
];

impl Connection {
    /// Connects to the server behind this socket and reads its configuration. A server that takes
    /// one client after another may need a moment in between: attempts are repeated for a second.
    ///
    /// # Errors
    /// If there is no socket, no server listens, another client is connected, or the answer is not
    /// that of a vhost-user-blk server with protocol features CONFIG, REPLY_ACK and
    /// CONFIGURE_MEM_SLOTS.
    pub fn open(path: &Path) -> Result<Connection, ConnectError> {
        let mut attempt = 1;
        loop {
            let error = match attempt_once(path) {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            let passing = matches!(
                error,
                ConnectError::Missing(_) | ConnectError::NobodyListens(_) | ConnectError::InUse(_)
            );
            if !passing || attempt == RETRIES {
                return Err(error);
            }
            attempt += 1;
            thread::sleep(RETRY_PAUSE);
        }
    }

    /// The properties that the device reports.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }
}

fn attempt_once(path: &Path) -> Result<Connection, ConnectError> {
    is_socket(path)?;
    let Some(text) = path.to_str().map(str::to_owned) else {
        let why = "its name is not UTF-8".into();
        return Err(ConnectError::Protocol { path: path.into(), why });
    };
    let answer = within(ANSWER_WITHIN, move || greet(&text));
    match answer {
        Some(Ok(connection)) => Ok(connection),
        Some(Err(error)) => Err(refusal(path, error)),
        None => Err(ConnectError::Silent { path: path.into(), seconds: ANSWER_WITHIN.as_secs() }),
    }
}

fn is_socket(path: &Path) -> Result<(), ConnectError> {
    let kind = match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(ConnectError::Missing(path.into()));
        }
        Err(error) => return Err(ConnectError::System { path: path.into(), error }),
        Ok(facts) => facts.file_type(),
    };
    let kind = match kind {
        kind if kind.is_socket() => return Ok(()),
        kind if kind.is_file() => "a file",
        kind if kind.is_dir() => "a directory",
        kind if kind.is_block_device() => "a block device",
        kind if kind.is_char_device() => "a character device",
        kind if kind.is_fifo() => "a pipe",
        _ => "no socket",
    };
    Err(ConnectError::NotASocket { path: path.into(), kind })
}

/// The handshake, and the device's configuration.
fn greet(path: &str) -> io::Result<Connection> {
    let wanted = FEATURES.iter().fold(0, |bits, (_, bit)| bits | bit);
    let transport = Transport::new(path, wanted)?;
    let config = transport.get_config()?;
    let bits = transport.get_features();
    let has = |flag: VirtioBlkFeatureFlags| bits & flag.bits() != 0;
    let queues = virtio_driver::virtio_blk_max_queues(&transport)?;
    let (features, missing) = split(bits);
    let block_bytes =
        if has(VirtioBlkFeatureFlags::BLK_SIZE) { u32::from(config.blk_size) } else { 512 };
    let discard_sectors =
        if has(VirtioBlkFeatureFlags::DISCARD) { u32::from(config.max_discard_sectors) } else { 0 };
    let facts = Facts {
        bytes: u64::from(config.capacity).saturating_mul(512),
        block_bytes: block_bytes.max(512),
        read_only: has(VirtioBlkFeatureFlags::RO),
        flush: has(VirtioBlkFeatureFlags::FLUSH),
        max_discard_bytes: u64::from(discard_sectors) * 512,
        queues: transport.max_queues().map_or(queues, |most| most.min(queues)),
        features,
        missing,
    };
    Ok(Connection { transport, facts })
}

/// Features in effect, and those not offered, except read-only, whose absence is no lack.
fn split(bits: u64) -> (Vec<&'static str>, Vec<&'static str>) {
    let named = |has: bool| {
        let names = FEATURES.iter().filter(move |(_, bit)| (bits & bit != 0) == has);
        names.map(|(name, _)| *name).collect::<Vec<_>>()
    };
    let mut missing = named(false);
    missing.retain(|name| *name != "BLK_F_RO");
    (named(true), missing)
}

/// The meaning of an error in the handshake.
fn refusal(path: &Path, error: io::Error) -> ConnectError {
    let path = path.to_path_buf();
    match error.kind() {
        ErrorKind::NotFound => ConnectError::Missing(path),
        ErrorKind::ConnectionRefused => ConnectError::NobodyListens(path),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => ConnectError::InUse(path),
        // `virtio-driver` has no kind for a connection that ends before the answer.
        ErrorKind::Other if error.to_string().contains("failed to receive") => {
            ConnectError::InUse(path)
        }
        ErrorKind::Other => ConnectError::Protocol { path, why: lower(&error.to_string()) },
        _ => ConnectError::System { path, error },
    }
}

fn lower(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// Runs a task in a separate thread, which is abandoned after the limit: `virtio-driver` waits for
/// answers without a limit.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    task: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (answer_to, answer) = channel();
    let spawned = thread::Builder::new().name("vhost-user".into()).spawn(move || {
        let _ = answer_to.send(task());
    });
    if spawned.is_err() {
        return None;
    }
    answer.recv_timeout(limit).ok()
}

/// Checks that a server listens on this socket, without sending anything or blocking. A server that
/// is stopped, or too busy to accept, still listens.
///
/// # Errors
/// The system's error if no server listens.
pub fn is_listening(path: &Path) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        // The backlog of the socket is full.
        Ok(()) | Err(Errno::AGAIN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::os::unix::net::UnixListener;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("iosonde-vhost-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    fn error(path: &Path) -> ConnectError {
        Connection::open(path).err().unwrap()
    }

    #[test]
    fn what_is_no_server_is_named() {
        assert!(matches!(error(&scratch("none")), ConnectError::Missing(_)));
        let reported = error(Path::new("/dev/null")).to_string();
        assert!(reported.contains("is a character device"), "{reported}");
        let path = scratch("left");
        drop(UnixListener::bind(&path).unwrap());
        assert!(matches!(error(&path), ConnectError::NobodyListens(_)));
        assert!(is_listening(&path).is_err());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_listener_that_says_nothing_is_not_waited_for_without_end() {
        let path = scratch("silent");
        let listener = UnixListener::bind(&path).unwrap();
        assert!(matches!(error(&path), ConnectError::Silent { .. }));
        // It does not accept, so its backlog fills up, but it still listens.
        for _ in 0..200 {
            is_listening(&path).unwrap();
        }
        drop(listener);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn another_protocol_is_distinguished() {
        use std::io::Write;
        let path = scratch("http");
        let listener = UnixListener::bind(&path).unwrap();
        let server = thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
            thread::sleep(Duration::from_millis(200));
        });
        assert!(matches!(error(&path), ConnectError::Protocol { .. }));
        server.join().unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}
