//! A block device served by another process over a vhost-user socket: one connection, one virtqueue
//! per job, shared memory. An event wakes the server unless it polls; I/O to a polling server needs
//! no system call.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use iosonde_sys::Clock;
pub use iosonde_vhost::ConnectError;
use iosonde_vhost::{Connection, Facts, Queue as Ring, Request, SetUpError, Shape, is_listening};

use super::{OpenError, Queue, QueueFacts, Transfer};
use iosonde_model::plan::{IoKind, Job, Plan};
use iosonde_model::units::bytes;

/// A server and its queues.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    facts: Facts,
    pool: Mutex<Pool>,
}

/// Connection and rings that no job uses.
#[derive(Default)]
struct Pool {
    fresh: Option<Connection>,
    idle: Vec<Ring>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("idle", &self.idle).finish_non_exhaustive()
    }
}

/// Why a plan cannot be carried out on this server; found before the first request.
#[derive(Debug, thiserror::Error)]
pub enum AdmitError {
    /// The device refuses writes.
    #[error("the device is read-only, and this load writes; use --rw read or randread")]
    ReadOnly,
    /// The device has no flush.
    #[error(
        "the device offers no flush, so nothing can be made durable by a request; \
         leave out --fsync, --fdatasync and --sync"
    )]
    NoFlush,
    /// The device has no discard.
    #[error("the device offers no discard; trims cannot be measured here")]
    NoDiscard,
    /// A trim is larger than the device's largest discard.
    #[error(
        "a trim of {found}: the device takes at most {most} in one request; give a smaller --bs"
    )]
    LongDiscard {
        /// Size of a trim.
        found: String,
        /// Largest discard of the device.
        most: String,
    },
    /// The plan makes each write durable.
    #[error(
        "virtio-blk has no synchronous writes (O_SYNC, O_DSYNC, FUA); use --fdatasync 1 instead"
    )]
    EachWrite,
    /// The plan has several targets.
    #[error("{0} targets: a run has one vhost-user connection; give one socket")]
    Targets(usize),
    /// The plan places buffers on a NUMA node.
    #[error("a NUMA node for the buffers has no effect here: the server maps them too")]
    Node,
    /// The server is gone, or another client holds the connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Queues or buffers could not be set up.
    #[error("{0}")]
    SetUp(#[from] SetUpError),
}

impl AdmitError {
    /// Whether a different plan could succeed.
    pub fn is_usage_error(&self) -> bool {
        !matches!(
            self,
            AdmitError::Connect(_)
                | AdmitError::SetUp(
                    SetUpError::Memory { .. }
                        | SetUpError::Descriptors(_)
                        | SetUpError::Refused { .. }
                        | SetUpError::Silent(_)
                )
        )
    }
}

/// Timeout of a single request outside of a run.
const SINGLE_PATIENCE: Duration = Duration::from_secs(10);

impl Server {
    /// Connects, and reads what the device offers.
    ///
    /// # Errors
    /// If there is no usable vhost-user-blk server behind the socket.
    pub fn connect(path: &Path) -> Result<Server, ConnectError> {
        let connection = Connection::open(path)?;
        let facts = connection.facts().clone();
        let pool = Mutex::new(Pool { fresh: Some(connection), idle: Vec::new() });
        Ok(Server { path: path.into(), facts, pool })
    }

    /// Features and limits that the device reports.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Path of the socket, as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks a plan against the device, and sets up its queues.
    ///
    /// # Errors
    /// If the device cannot carry out the plan, or has too few or too small queues.
    pub fn admit(&self, plan: &Plan) -> Result<(), AdmitError> {
        let facts = &self.facts;
        if plan.targets.len() > 1 {
            return Err(AdmitError::Targets(plan.targets.len()));
        }
        if plan.jobs.iter().any(|job| job.place.numa_node.is_some()) {
            return Err(AdmitError::Node);
        }
        if plan.writes() && facts.read_only {
            return Err(AdmitError::ReadOnly);
        }
        if plan.jobs.iter().any(|job| job.sync.each_write != Default::default()) {
            return Err(AdmitError::EachWrite);
        }
        if plan.jobs.iter().any(|job| job.syncs()) && !facts.flush {
            return Err(AdmitError::NoFlush);
        }
        if let Some(job) = plan.jobs.iter().find(|job| job.trims) {
            match facts.max_discard_bytes {
                0 => return Err(AdmitError::NoDiscard),
                most if job.block_bytes > most => {
                    let (found, most) = (bytes::exact(job.block_bytes), bytes::exact(most));
                    return Err(AdmitError::LongDiscard { found, most });
                }
                _ => {}
            }
        }
        self.prepare(&plan.jobs)
    }

    /// Provides one idle queue per job. Existing queues are reused if they fit; otherwise new ones
    /// get a new connection, because queues are set up once per connection.
    fn prepare(&self, jobs: &[Job]) -> Result<(), AdmitError> {
        let shapes: Vec<Shape> = jobs.iter().map(shape).collect();
        let mut pool = self.pool();
        if pool.idle.iter().map(Ring::shape).eq(shapes.iter().copied()) {
            return Ok(());
        }
        pool.idle.clear();
        let connection = match pool.fresh.take() {
            Some(connection) => connection,
            None => Connection::open(&self.path)?,
        };
        let huge_pages = jobs.iter().any(|job| job.place.huge_pages);
        pool.idle = connection.queues(&shapes, huge_pages)?;
        Ok(())
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads from the device outside of a run; the plan must have been admitted.
    ///
    /// # Errors
    /// If the device returns an error, or does not answer within 10 s.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let mut pool = self.pool();
        let ring = pool.idle.first_mut().ok_or(io::ErrorKind::NotConnected)?;
        let length = into.len();
        // If the server answers without filling the buffer, its old content must not show.
        ring.buffer(0)[..length].fill(0);
        self.single(ring, Request::Read, offset, length as u32)?;
        into.copy_from_slice(&ring.buffer(0)[..length]);
        Ok(())
    }

    /// Flushes the device, outside of a run.
    ///
    /// # Errors
    /// If the device returns an error, or does not answer within 10 s.
    pub fn flush(&self) -> io::Result<()> {
        let mut pool = self.pool();
        let ring = pool.idle.first_mut().ok_or(io::ErrorKind::NotConnected)?;
        self.single(ring, Request::Flush, 0, 0)
    }

    fn single(&self, ring: &mut Ring, request: Request, offset: u64, bytes: u32) -> io::Result<()> {
        ring.push(0, request, offset, 0, bytes)?;
        ring.kick()?;
        let started = Instant::now();
        while ring.finished() == 0 {
            ring.sleep(Duration::from_secs(1))?;
            if ring.finished() == 0 {
                self.lives()?;
            }
            if started.elapsed() > SINGLE_PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        let mut answer = 0;
        ring.reap(1, |_slot, result| answer = result);
        if answer < 0 { Err(io::Error::from_raw_os_error(-answer)) } else { Ok(()) }
    }

    /// Fails if the server is gone. A silent server is only slow while a process listens on its
    /// socket.
    fn lives(&self) -> io::Result<()> {
        match is_listening(&self.path) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                ) =>
            {
                Err(io::Error::new(
                    error.kind(),
                    format!(
                        "the vhost-user server behind `{}` is gone: nothing completed for 1 s, \
                         and its socket is no longer open ({error})",
                        self.path.display()
                    ),
                ))
            }
            _ => Ok(()),
        }
    }
}

/// Shape of the queue that a job needs.
fn shape(job: &Job) -> Shape {
    Shape { slots: job.iodepth as usize, slot_bytes: job.block_bytes as usize }
}

/// After this long without a completion, the queue checks that the server still runs, ns.
const SILENCE_NS: u64 = 1_000_000_000;
/// Polls without a completion per reading of the clock.
const LOOKS_PER_CLOCK: u32 = 1024;

/// The queue of one job.
#[derive(Debug)]
pub struct VhostQueue {
    clock: Clock,
    server: Arc<Server>,
    /// Returned to the pool when the job has ended.
    ring: Option<Ring>,
    staged: Vec<(usize, Transfer)>,
    /// Requests finished when `enter` returned. Later ones have a later completion time and are
    /// left for the next call.
    seen: usize,
    silence: Silence,
    syscalls: u64,
}

/// Time without a completion while requests are in flight.
#[derive(Debug, Default)]
struct Silence {
    looks: u32,
    /// When the silence was first noticed, ns; 0 while there is none.
    since_ns: u64,
}

impl VhostQueue {
    /// The queue for this job of an admitted plan.
    ///
    /// # Errors
    /// If the server's queues were not set up for this job.
    pub fn open(job: &Job, server: Arc<Server>, clock: Clock) -> Result<Self, OpenError> {
        let mut pool = server.pool();
        let wanted = shape(job);
        let place = pool.idle.iter().position(|ring| ring.shape() == wanted);
        let ring = place.map(|place| pool.idle.remove(place)).ok_or(OpenError::NoQueue)?;
        drop(pool);
        let staged = Vec::with_capacity(job.iodepth as usize);
        let silence = Silence::default();
        Ok(VhostQueue { clock, server, ring: Some(ring), staged, seen: 0, silence, syscalls: 0 })
    }

    #[inline(always)]
    fn ring(&mut self) -> &mut Ring {
        match &mut self.ring {
            Some(ring) => ring,
            None => unreachable!("`give_back` takes it, after the last request"),
        }
    }

    /// Puts the staged requests into the ring, and notifies the server if it requests that.
    #[inline(always)]
    fn hand_over(&mut self) -> io::Result<()> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        if self.staged.is_empty() {
            return Ok(());
        }
        for (slot, transfer) in self.staged.drain(..) {
            let request = match transfer.way {
                IoKind::Read => Request::Read,
                IoKind::Write => Request::Write,
                IoKind::Trim => Request::Discard,
                IoKind::Sync => Request::Flush,
            };
            ring.push(slot, request, transfer.offset, transfer.skip, transfer.bytes)?;
        }
        self.syscalls += u64::from(ring.kick()?);
        Ok(())
    }

    /// Sleeps until `wait_for` requests are finished or `patience_ns` is over.
    #[cold]
    fn sleep(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        let until_ns = self.clock.now_ns() + patience_ns;
        loop {
            let now_ns = self.clock.now_ns();
            self.heed_silence(now_ns)?;
            if now_ns >= until_ns {
                return Ok(());
            }
            self.syscalls += 1;
            let longest_ns = (until_ns - now_ns).min(SILENCE_NS);
            self.ring().sleep(Duration::from_nanos(longest_ns))?;
            self.seen = self.ring().finished();
            if self.seen >= wait_for as usize {
                return Ok(());
            }
        }
    }

    /// A dead server sends nothing, so its socket is checked after a second without a completion.
    #[cold]
    fn heed_silence(&mut self, now_ns: u64) -> io::Result<()> {
        if self.silence.since_ns == 0 {
            self.silence.since_ns = now_ns;
        } else if now_ns.saturating_sub(self.silence.since_ns) >= SILENCE_NS {
            self.silence.since_ns = now_ns;
            return self.server.lives();
        }
        Ok(())
    }
}

impl Queue for VhostQueue {
    forward!(field clock: now_ns);

    #[inline(always)]
    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.ring().buffer(slot)
    }

    #[inline(always)]
    fn push(&mut self, slot: usize, transfer: Transfer) {
        self.staged.push((slot, transfer));
    }

    #[inline(always)]
    fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        self.hand_over()?;
        self.seen = self.ring().finished();
        if self.seen >= wait_for.max(1) as usize || self.ring().in_flight() == 0 {
            return Ok(());
        }
        if wait_for > 0 && patience_ns > 0 {
            return self.sleep(wait_for, patience_ns);
        }
        self.silence.looks = self.silence.looks.wrapping_add(1);
        if self.silence.looks.is_multiple_of(LOOKS_PER_CLOCK) {
            return self.heed_silence(self.clock.now_ns());
        }
        Ok(())
    }

    #[inline(always)]
    fn reap(&mut self, mut done: impl FnMut(usize, i32)) {
        let Some(ring) = &mut self.ring else { return };
        let silence_ns = &mut self.silence.since_ns;
        ring.reap(self.seen, |slot, result| {
            *silence_ns = 0;
            done(slot, result);
        });
    }

    /// Returns a ring with nothing in flight to the pool, for requests after the run.
    fn give_back(&mut self) {
        if let Some(ring) = self.ring.take_if(|ring| ring.in_flight() == 0) {
            self.server.pool().idle.push(ring);
        }
    }

    fn syscalls(&self) -> u64 {
        self.syscalls
    }

    fn facts(&self) -> QueueFacts {
        let facts = &self.server.facts;
        let refused = |name: &&str| format!("{name}: the server does not offer it");
        QueueFacts {
            features: facts.features.iter().map(ToString::to_string).collect(),
            missing: facts.missing.iter().map(refused).collect(),
            buffer_page_bytes: self.ring.as_ref().map_or(0, |ring| ring.page_bytes() as u64),
        }
    }
}

impl Drop for VhostQueue {
    fn drop(&mut self) {
        self.give_back();
    }
}
