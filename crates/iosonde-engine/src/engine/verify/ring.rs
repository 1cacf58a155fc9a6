//! The ring of the pipeline mode: each job passes the blocks it wrote to the next one, which reads
//! them through its own queue and returns them.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};

use iosonde_model::plan::{VerifyMode, VerifyPlan};

/// Blocks of the previous job that were written and acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parcel {
    /// First block, counted within the previous job's part.
    pub(super) first: u64,
    pub(super) blocks: u32,
    /// Generation of all of them: every pass writes each block once.
    pub(super) generation: u32,
}

/// Most parcels on their way to one job.
const ROOM: usize = 256;

/// The ends of the ring that one job holds.
pub(super) struct Ends {
    /// The job whose blocks this one reads.
    pub(super) producer: usize,
    inbox: Receiver<Parcel>,
    /// `None` once the job passes on nothing more.
    outbox: Option<SyncSender<Parcel>>,
    /// Returns parcels that were read to the previous job.
    thanks_to: SyncSender<Parcel>,
    thanks: Receiver<Parcel>,
    /// Parcels not sent yet: the outbox was full.
    waiting: Vec<Parcel>,
    /// Parcels read, but not returned yet.
    unsaid: Vec<Parcel>,
    /// Parcels sent and not returned yet.
    outstanding: usize,
    /// The previous job passes on nothing more.
    closed: bool,
}

/// The ends for every job of a pipeline; nothing for another mode.
pub(super) fn ring(plan: &VerifyPlan) -> Vec<Ends> {
    if plan.mode != VerifyMode::Pipeline {
        return Vec::new();
    }
    let jobs = plan.plan.jobs.len();
    let before = |job: usize| (job + jobs - 1) % jobs;
    // Channel k leads from job k to the one after it; thanks k lead back.
    let (mut parcels_to, mut parcels): (Vec<_>, Vec<_>) =
        (0..jobs).map(|_| sync_channel(ROOM)).map(|(to, from)| (Some(to), Some(from))).unzip();
    let (mut thanks_to, mut thanks): (Vec<_>, Vec<_>) =
        (0..jobs).map(|_| sync_channel(ROOM)).map(|(to, from)| (Some(to), Some(from))).unzip();
    let ends = (0..jobs).filter_map(|job| {
        let producer = before(job);
        Some(Ends {
            producer,
            inbox: parcels[producer].take()?,
            outbox: Some(parcels_to[job].take()?),
            thanks_to: thanks_to[producer].take()?,
            thanks: thanks[job].take()?,
            waiting: Vec::with_capacity(ROOM),
            unsaid: Vec::with_capacity(ROOM),
            outstanding: 0,
            closed: false,
        })
    });
    ends.collect()
}

impl Ends {
    /// Whether another write may begin: unsent parcels do not pile up.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() + self.outstanding < ROOM
    }

    /// Passes on written blocks.
    pub(super) fn give(&mut self, parcel: Parcel) {
        self.waiting.push(parcel);
        self.push_on();
    }

    /// Sends waiting parcels, new and returned, as far as there is room.
    pub(super) fn push_on(&mut self) {
        while let (Some(outbox), Some(parcel)) = (&self.outbox, self.waiting.first()) {
            match outbox.try_send(*parcel) {
                Ok(()) => {
                    self.waiting.remove(0);
                    self.outstanding += 1;
                }
                Err(TrySendError::Full(_)) => break,
                // The reader is gone: nobody will read it.
                Err(TrySendError::Disconnected(_)) => self.waiting.clear(),
            }
        }
        while let Some(parcel) = self.unsaid.first() {
            match self.thanks_to.try_send(*parcel) {
                Err(TrySendError::Full(_)) => break,
                _ => self.unsaid.remove(0),
            };
        }
    }

    /// The next parcel to read, if there is one.
    pub(super) fn take(&mut self) -> Option<Parcel> {
        match self.inbox.try_recv() {
            Ok(parcel) => Some(parcel),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                self.closed = true;
                None
            }
        }
    }

    /// Returns a parcel that was read.
    pub(super) fn thank(&mut self, parcel: Parcel) {
        self.unsaid.push(parcel);
        self.push_on();
    }

    /// A parcel of this job that the next job has read.
    pub(super) fn returned(&mut self) -> Option<Parcel> {
        match self.thanks.try_recv() {
            Ok(parcel) => {
                self.outstanding -= 1;
                Some(parcel)
            }
            Err(TryRecvError::Empty) => None,
            // The reader is gone.
            Err(TryRecvError::Disconnected) => {
                self.outstanding = 0;
                None
            }
        }
    }

    /// Sends what waits after the last write, then closes the outbox.
    pub(super) fn finish(&mut self) {
        self.push_on();
        if self.waiting.is_empty() {
            self.outbox = None;
        }
    }

    /// Whether every parcel sent was read, and every parcel received was returned.
    pub(super) fn is_done(&self) -> bool {
        let given = self.outbox.is_none() && self.outstanding == 0;
        given && self.closed && self.unsaid.is_empty()
    }
}
