//! One virtqueue with its buffers, used by one thread at a time.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use virtio_driver::{EventFd, QueueNotifier, VirtioBlkQueue, VirtioTransport};

use crate::connection::{Connection, Transport, within};
use crate::memory::Memory;

/// Descriptors of one request: its head, its data, its status.
const DESCRIPTORS: usize = 3;
/// Descriptors of a ring, at most: the limit of the servers that were tested.
const MAX_DESCRIPTORS: usize = 1024;
/// Slots begin on a page.
const PAGE_BYTES: usize = 4096;
/// Time limit for a server to set up its queues.
const SET_UP_WITHIN: Duration = Duration::from_secs(5);

/// Slots and buffers of one queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shape {
    /// Requests in flight, at most.
    pub slots: usize,
    /// Bytes of a buffer; each begins on a page.
    pub slot_bytes: usize,
}

impl Shape {
    /// Bytes from one slot to the next.
    fn stride(self) -> usize {
        self.slot_bytes.next_multiple_of(PAGE_BYTES)
    }

    fn bytes(self) -> usize {
        self.stride().saturating_mul(self.slots)
    }
}

/// What a request does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Request {
    /// From the device.
    Read,
    /// To the device.
    Write,
    /// Makes written data durable.
    Flush,
    /// Releases the data of a range.
    Discard,
}

/// Why queues could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetUpError {
    /// More queues than the server has.
    #[error(
        "{wanted} queue(s) are needed, one per job, and the server has {has}; ask for \
         --numjobs {has}, or start the server with more queues"
    )]
    Queues {
        /// One per job.
        wanted: usize,
        /// Queues of the server.
        has: usize,
    },
    /// More requests in flight than a ring holds.
    #[error(
        "--iodepth {wanted}: a vhost-user queue of {MAX_DESCRIPTORS} descriptors holds at most \
         {has} requests, {DESCRIPTORS} descriptors each; ask for a smaller --iodepth, or for more \
         --numjobs"
    )]
    Depth {
        /// Requested depth.
        wanted: usize,
        /// Most requests that a ring holds.
        has: usize,
    },
    /// No memory.
    #[error("{bytes} B of shared I/O buffers{pages}: {error}", pages = in_pages(*.huge))]
    Memory {
        /// Requested size, bytes.
        bytes: usize,
        /// Whether huge pages were demanded.
        huge: bool,
        /// The system's error.
        error: io::Error,
    },
    /// No descriptors left.
    #[error("two event descriptors per queue: {0}; raise the limit on open files (ulimit -n)")]
    Descriptors(io::Error),
    /// The server refuses.
    #[error("the server refuses {queues} queue(s) of {descriptors} descriptors: {error}")]
    Refused {
        /// Number of requested queues.
        queues: usize,
        /// Descriptors of each.
        descriptors: usize,
        /// The server's error.
        error: io::Error,
    },
    /// The server does not answer within these seconds.
    #[error("the server does not set up its queues within {0} s")]
    Silent(u64),
}

impl Connection {
    /// Sets up one queue per shape, with buffers that the server shares.
    ///
    /// # Errors
    /// If the server has fewer queues, a ring cannot hold so many requests, there is no memory, or
    /// the server refuses.
    pub fn queues(self, shapes: &[Shape], huge_pages: bool) -> Result<Vec<Queue>, SetUpError> {
        let (wanted, has) = (shapes.len(), self.facts().queues);
        if wanted > has {
            return Err(SetUpError::Queues { wanted, has });
        }
        let descriptors = descriptors(shapes)?;
        let bytes = shapes.iter().fold(0usize, |sum, shape| sum.saturating_add(shape.bytes()));
        let memory = Memory::new(bytes.max(PAGE_BYTES), huge_pages)
            .map_err(|error| SetUpError::Memory { bytes, huge: huge_pages, error })?;
        spare_descriptors(wanted).map_err(SetUpError::Descriptors)?;
        let transport = self.transport;
        let prepared =
            within(SET_UP_WITHIN, move || prepare(transport, memory, wanted, descriptors));
        let Some(prepared) = prepared else {
            return Err(SetUpError::Silent(SET_UP_WITHIN.as_secs()));
        };
        let (rings, transport, memory) =
            prepared.map_err(|error| SetUpError::Refused { queues: wanted, descriptors, error })?;
        Ok(deal(rings, &Arc::new(transport), &Arc::new(memory), shapes))
    }
}

fn in_pages(huge: bool) -> &'static str {
    if huge { " in huge pages" } else { "" }
}

/// Descriptors of each ring: the same for all, a power of two.
fn descriptors(shapes: &[Shape]) -> Result<usize, SetUpError> {
    let wanted = shapes.iter().map(|shape| shape.slots).max().unwrap_or(1);
    let has = MAX_DESCRIPTORS / DESCRIPTORS;
    if wanted > has {
        return Err(SetUpError::Depth { wanted, has });
    }
    Ok((wanted * DESCRIPTORS).next_power_of_two().max(8))
}

/// Checks that enough file descriptors are free: `virtio-driver` panics where they run out.
fn spare_descriptors(queues: usize) -> io::Result<()> {
    let events = (0..2 * queues + 1).map(|_| eventfd(0, EventfdFlags::CLOEXEC));
    events.collect::<Result<Vec<_>, _>>().map(drop).map_err(Into::into)
}

type Ring = VirtioBlkQueue<'static, u32>;

fn prepare(
    mut transport: Transport,
    memory: Memory,
    queues: usize,
    descriptors: usize,
) -> io::Result<(Vec<Ring>, Transport, Memory)> {
    use std::os::fd::AsRawFd;
    let base = memory.base().as_ptr() as usize;
    let mut rings = Ring::setup_queues(&mut transport, queues, descriptors as u16)?;
    transport.map_mem_region(base, memory.bytes(), memory.file.as_raw_fd(), 0)?;
    for ring in &mut rings {
        ring.set_used_notif_enabled(false);
    }
    Ok((rings, transport, memory))
}

/// Gives each ring its range of the memory.
fn deal(
    rings: Vec<Ring>,
    transport: &Arc<Transport>,
    memory: &Arc<Memory>,
    shapes: &[Shape],
) -> Vec<Queue> {
    let mut at = 0;
    let dealt = rings.into_iter().zip(shapes).enumerate();
    dealt
        .map(|(index, (ring, shape))| {
            let start = at;
            at += shape.bytes();
            assert!(at <= memory.bytes(), "the ranges lie within the memory");
            Queue {
                ring,
                notifier: transport.get_submission_notifier(index),
                called: transport.get_completion_fd(index),
                // SAFETY: start is at most the length of the mapping, as asserted.
                base: unsafe { memory.base().add(start) },
                shape: *shape,
                lent: vec![OURS; shape.slots].into(),
                in_flight: 0,
                page_bytes: memory.page_bytes,
                _memory: Arc::clone(memory),
                _transport: Arc::clone(transport),
            }
        })
        .collect()
}

/// A slot that is not in flight.
const OURS: i32 = i32::MIN;

/// One virtqueue with its buffers.
pub struct Queue {
    // Dropped first: its rings lie in memory of the transport (rule 3).
    ring: Ring,
    notifier: Box<dyn QueueNotifier>,
    called: Arc<EventFd>,
    base: NonNull<u8>,
    shape: Shape,
    /// Per slot: the result of a success, or [`OURS`].
    lent: Box<[i32]>,
    in_flight: usize,
    page_bytes: usize,
    _memory: Arc<Memory>,
    _transport: Arc<Transport>,
}

// SAFETY: `base` points to a range of the shared mapping that this queue alone has (rule 1); the
// rest is `Send` by itself.
unsafe impl Send for Queue {}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("shape", &self.shape)
            .field("in_flight", &self.in_flight)
            .finish()
    }
}

impl Queue {
    /// Slots and buffers as requested.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Size of the pages behind the buffers, bytes.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    #[inline(always)]
    fn pointer(&self, slot: usize) -> *mut u8 {
        assert!(self.lent[slot] == OURS, "slot {slot} is the server's");
        // SAFETY: the slot exists, so the offset lies within this queue's range.
        unsafe { self.base.as_ptr().add(slot * self.shape.stride()) }
    }

    /// The bytes of a slot that is ours.
    ///
    /// # Panics
    /// If the slot is in flight or does not exist.
    #[inline(always)]
    pub fn buffer(&mut self, slot: usize) -> &mut [u8] {
        let start = self.pointer(slot);
        // SAFETY: the slot is ours (rule 2), lies within this queue's range (rule 1), which was
        // zeroed by the kernel, and the reference borrows the queue.
        unsafe { std::slice::from_raw_parts_mut(start, self.shape.stride()) }
    }

    /// Puts a request into the ring. A server that polls sees it at once; `kick` wakes one that
    /// sleeps. `offset` and `bytes` are those on the device; the data begins at `skip` in the
    /// slot's buffer.
    ///
    /// # Errors
    /// If `offset` or the length of a discard is no multiple of 512 B.
    ///
    /// # Panics
    /// If the slot is in flight, or the range leaves its buffer.
    #[inline(always)]
    pub fn push(
        &mut self,
        slot: usize,
        request: Request,
        offset: u64,
        skip: u32,
        bytes: u32,
    ) -> io::Result<()> {
        let start = self.pointer(slot);
        let (from, length) = (skip as usize, bytes as usize);
        let moves = matches!(request, Request::Read | Request::Write);
        assert!(!moves || from + length <= self.shape.stride(), "slot {slot}: beyond its buffer");
        let context = slot as u32;
        match request {
            // SAFETY: the range lies within the slot, as asserted, which is the server's from now
            // on (rule 2), in memory that lives as long as the queue (rule 1).
            Request::Read => unsafe {
                self.ring.read_raw(offset, start.add(from), length, context)
            },
            // SAFETY: as above.
            Request::Write => unsafe {
                self.ring.write_raw(offset, start.add(from), length, context)
            },
            Request::Flush => self.ring.flush(context),
            Request::Discard => self.ring.discard(offset, u64::from(bytes), context),
        }?;
        self.lent[slot] = bytes as i32;
        self.in_flight += 1;
        Ok(())
    }

    /// Wakes the server if it has requested that; returns whether it was woken.
    ///
    /// # Errors
    /// If the system refuses.
    #[inline(always)]
    pub fn kick(&mut self) -> io::Result<bool> {
        let needed = self.ring.avail_notif_needed();
        if needed {
            self.notifier.notify()?;
        }
        Ok(needed)
    }

    /// Requests that are finished and not yet reaped.
    #[inline(always)]
    pub fn finished(&mut self) -> usize {
        self.ring.completions().size_hint().0
    }

    /// Sleeps until a request is finished, at most this long.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn sleep(&mut self, at_most: Duration) -> io::Result<()> {
        self.ring.set_used_notif_enabled(true);
        if self.finished() == 0 {
            let limit = Timespec {
                tv_sec: at_most.as_secs() as i64,
                tv_nsec: i64::from(at_most.subsec_nanos()),
            };
            let mut watched = [PollFd::new(&*self.called, PollFlags::IN)];
            match poll(&mut watched, Some(&limit)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => drop(self.called.read()?),
                Err(error) => return Err(error.into()),
            }
        }
        self.ring.set_used_notif_enabled(false);
        Ok(())
    }

    /// Returns at most this many finished slots, each with the requested length or a negated errno:
    /// EOPNOTSUPP if the device lacks the request, EIO for any other error (the protocol does not
    /// distinguish them).
    #[inline(always)]
    pub fn reap(&mut self, at_most: usize, mut done: impl FnMut(usize, i32)) {
        for completion in self.ring.completions().take(at_most) {
            let slot = completion.context as usize;
            let moved = std::mem::replace(&mut self.lent[slot], OURS);
            self.in_flight -= 1;
            done(slot, if completion.ret == 0 { moved } else { completion.ret });
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_ring_holds_a_third_of_its_descriptors() {
        let of = |slots| descriptors(&[Shape { slots, slot_bytes: 4096 }]);
        assert_eq!(of(1).unwrap(), 8);
        assert_eq!(of(32).unwrap(), 128);
        assert_eq!(of(341).unwrap(), 1024);
        let reported = of(342).unwrap_err().to_string();
        assert!(
            reported.contains("--iodepth 342") && reported.contains("at most 341"),
            "{reported}"
        );
    }

    #[test]
    fn slots_begin_on_pages() {
        let shape = Shape { slots: 3, slot_bytes: 5000 };
        assert_eq!((shape.stride(), shape.bytes()), (8192, 24576));
    }
}
