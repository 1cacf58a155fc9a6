//! A ring whose requests are NVMe commands to a namespace and bypass the block layer. It has the
//! same queues as [`super::Ring`], with longer entries.

use std::io;

use super::core::Core;
use super::form::Command;
use super::{RingOptions, SECOND_NS};
use crate::nvme::{Namespace, Shape};
use crate::syscall::{DSYNC, SYNC};
use crate::uapi::{self, CommandSqe, NvmeCommand};
use crate::{Direction, Request, Slab};

/// Opcodes of the NVMe specification.
const FLUSH: u8 = 0x00;
const WRITE: u8 = 0x01;
const READ: u8 = 0x02;
const DATASET_MANAGEMENT: u8 = 0x09;
/// Flag of a write: the data is on the medium before completion (`FUA`).
const FORCE_UNIT_ACCESS: u32 = 1 << 30;
/// Flag of dataset management: deallocates the blocks (`AD`).
const DEALLOCATE: u32 = 1 << 2;
/// Size of a range of dataset management: attributes, number of blocks, first block.
const RANGE_BYTES: usize = 16;
/// Most logical blocks of a command, which has 16 bits for their number.
const MOST_BLOCKS: u64 = 1 << 16;

/// The parts of an entry that are the same for all requests on a namespace.
struct Template {
    entries: [CommandSqe; 4],
    shape: Shape,
}

/// A ring with its namespaces and its buffers.
pub struct CommandRing {
    /// One per namespace.
    templates: Box<[Template]>,
    core: Core<Command>,
}

impl CommandRing {
    /// Sets up a ring on the calling thread, which alone may use it.
    ///
    /// # Errors
    /// If the kernel has no io_uring (ENOSYS) or none with long entries (EINVAL, before Linux
    /// 5.19), forbids it (EPERM, EACCES), or has no memory for it.
    ///
    /// # Panics
    /// If a slot is larger than a command can be.
    pub fn new(
        namespaces: Vec<Namespace>,
        slab: Slab,
        options: RingOptions,
    ) -> io::Result<CommandRing> {
        let (files, shapes): (Vec<_>, Vec<Shape>) =
            namespaces.into_iter().map(Namespace::into_parts).unzip();
        let fits = |shape: &Shape| slab.slot_bytes() as u64 >> shape.block_shift <= MOST_BLOCKS;
        assert!(shapes.iter().all(fits), "a slot is larger than a command");
        let core = Core::new(files, slab, &options)?;
        let template = |(index, shape)| template(index, shape, &core, &options);
        Ok(CommandRing { templates: shapes.into_iter().enumerate().map(template).collect(), core })
    }

    /// Features in effect.
    pub fn features(&self) -> &[&'static str] {
        &self.core.shared.features
    }

    /// Features that could not be used, each with the reason.
    pub fn missing(&self) -> &[String] {
        &self.core.shared.missing
    }

    /// System calls made by `enter`.
    pub fn syscalls(&self) -> u64 {
        self.core.syscalls
    }

    /// The bytes of a slot that is ours.
    ///
    /// # Panics
    /// If the slot is in flight or does not exist.
    #[inline(always)]
    pub fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.core.slots.buffer(slot)
    }

    /// Stages one request on a slot that is ours; `enter` submits it. A trim uses the first bytes
    /// of its slot for the range.
    ///
    /// # Panics
    /// If the slot is in flight, the range leaves the slot or is no whole number of logical blocks,
    /// there is no such namespace, it is written without having been opened for writing, or more is
    /// staged than the depth.
    #[inline(always)]
    pub fn push(&mut self, slot: usize, request: Request) {
        let Template { entries, shape } = &self.templates[usize::from(request.target)];
        let mut entry = entries[request.way as usize];
        let (shape, shift) = (*shape, shape.block_shift);
        let misplaced = (request.offset | u64::from(request.bytes)) & ((1 << shift) - 1);
        assert!(misplaced == 0, "a command is of whole logical blocks");
        let changes = matches!(request.way, Direction::Write | Direction::Trim);
        assert!(shape.writable || !changes, "the namespace is not open for writing");
        let (block, blocks) = (request.offset >> shift, request.bytes >> shift);
        if request.way == Direction::Trim {
            self.core.slots.buffer(slot)[..RANGE_BYTES].copy_from_slice(&range(block, blocks));
        }
        let place = self.core.place();
        let start = self.core.slots.lend_whole(slot, &request);
        entry.user_data = slot as u64;
        match request.way {
            Direction::Read | Direction::Write => {
                entry.nvme.cdw10 = block as u32;
                entry.nvme.cdw11 = (block >> 32) as u32;
                // The number is zero-based.
                entry.nvme.cdw12 |= blocks.wrapping_sub(1) & 0xffff;
                if self.core.vectored {
                    let vector = self.core.slots.vector(slot, start, request.bytes);
                    entry.nvme.address = vector as u64;
                } else {
                    entry.nvme.address = start as u64;
                    entry.nvme.data_length = request.bytes;
                    entry.buffer_index = (slot >> self.core.region_shift) as u16;
                }
            }
            Direction::Trim => {
                entry.nvme.address = start as u64;
                entry.buffer_index = (slot >> self.core.region_shift) as u16;
            }
            Direction::Sync => {}
        }
        // SAFETY: `place` is an entry that the kernel does not read before the tail has passed it.
        // The memory it names belongs to the slab, which outlives the request (rule 2), and the
        // slot is marked as the kernel's, so that its bytes are not touched meanwhile (rule 1). The
        // drive moves no more than the blocks of the command, whose bytes lie within the slot.
        unsafe { place.write(entry) };
        self.core.sq_tail = self.core.sq_tail.wrapping_add(1);
    }

    /// Submits the staged requests and waits for completions.
    ///
    /// # Errors
    /// As [`super::Ring::enter`].
    #[inline(always)]
    pub fn enter(&mut self, wait_for: u32, patience_ns: u64) -> io::Result<()> {
        self.core.enter(wait_for, patience_ns)
    }

    /// Returns every finished slot with its result: bytes moved or trimmed, 0 for a sync, or the
    /// negated errno. [`crate::nvme::errno_of_status`] gives the errno for a status of the drive.
    ///
    /// # Panics
    /// If the kernel names a slot that is not in flight (rule 3).
    #[inline(always)]
    pub fn reap(&mut self, done: impl FnMut(usize, i32)) {
        self.core.reap(done);
    }

    /// Whether requests name registered buffers.
    pub fn has_fixed_buffers(&self) -> bool {
        self.core.fixed_buffers
    }

    /// Names buffers by their address from now on; records the reason.
    pub fn forgo_fixed_buffers(&mut self, reason: &str) {
        let entries = self.templates.iter_mut().flat_map(|template| &mut template.entries);
        entries.for_each(|entry| entry.command_flags &= !uapi::CMD_FIXED);
        self.core.fixed_buffers = false;
        self.core.region_shift = 31;
        self.core.shared.features.retain(|feature| *feature != "registered_buffers");
        self.core.shared.missing.push(format!("registered_buffers: {reason}"));
    }

    /// Runs one request alone, on slot 0; `None` if it does not complete in this many seconds.
    ///
    /// # Errors
    /// As [`CommandRing::enter`].
    ///
    /// # Panics
    /// As [`CommandRing::push`].
    pub fn trial(&mut self, request: Request, seconds: u32) -> io::Result<Option<i32>> {
        self.push(0, request);
        let mut answer = None;
        for _ in 0..seconds {
            self.enter(1, SECOND_NS)?;
            self.reap(|_slot, result| answer = Some(result));
            if answer.is_some() {
                break;
            }
        }
        Ok(answer)
    }
}

/// The range of a dataset management command.
fn range(block: u64, blocks: u32) -> [u8; RANGE_BYTES] {
    let mut range = [0; RANGE_BYTES];
    range[4..8].copy_from_slice(&blocks.to_le_bytes());
    range[8..].copy_from_slice(&block.to_le_bytes());
    range
}

/// The template for requests on one namespace.
fn template(index: usize, shape: Shape, core: &Core<Command>, options: &RingOptions) -> Template {
    let (flags, fd) = core.file_name(index);
    let fixed = if core.fixed_buffers { uapi::CMD_FIXED } else { 0 };
    let common = CommandSqe {
        opcode: uapi::OP_URING_CMD,
        flags,
        fd,
        command: uapi::CMD_NVME_IO,
        nvme: NvmeCommand { namespace: shape.number, ..NvmeCommand::default() },
        ..CommandSqe::default()
    };
    let moving = |opcode, cdw12| CommandSqe {
        command: if core.vectored { uapi::CMD_NVME_IO_VEC } else { uapi::CMD_NVME_IO },
        command_flags: fixed,
        // One vector. For a plain buffer, `push` sets the length.
        nvme: NvmeCommand { opcode, cdw12, data_length: 1, ..common.nvme },
        ..common
    };
    let durable = options.write_flags & (DSYNC | SYNC) != 0;
    let entry = |way| match way {
        Direction::Read => moving(READ, 0),
        Direction::Write => moving(WRITE, if durable { FORCE_UNIT_ACCESS } else { 0 }),
        Direction::Trim => CommandSqe {
            command_flags: fixed,
            nvme: NvmeCommand {
                opcode: DATASET_MANAGEMENT,
                data_length: RANGE_BYTES as u32,
                cdw11: DEALLOCATE,
                ..common.nvme
            },
            ..common
        },
        Direction::Sync => {
            CommandSqe { nvme: NvmeCommand { opcode: FLUSH, ..common.nvme }, ..common }
        }
    };
    Template { entries: Direction::ALL.map(entry), shape }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const SLOT: usize = 8192;

    /// A ring on `/dev/null`, as a namespace of 4 KiB blocks; `None` without io_uring.
    fn ring(writable: bool, options: RingOptions) -> Option<CommandRing> {
        let shape =
            Shape { number: 7, block_shift: 12, blocks: 1 << 40, metadata_bytes: 0, writable };
        let file = std::fs::File::open("/dev/null").unwrap();
        let slab = Slab::new(options.depth as usize, SLOT).unwrap();
        match CommandRing::new(vec![Namespace::pretended(file.into(), shape)], slab, options) {
            Ok(ring) => Some(ring),
            Err(error) => {
                skipped(&error);
                None
            }
        }
    }

    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    fn skipped(error: &io::Error) {
        eprintln!("skipped: no io_uring with long entries: {error}; untested: NVMe commands");
    }

    fn request(way: Direction, offset: u64, bytes: u32) -> Request {
        Request { way, target: 0, offset, skip: 0, bytes }
    }

    /// The entry that is staged for a request on slot 1.
    fn staged(ring: &mut CommandRing, request: Request) -> CommandSqe {
        let at = ring.core.sq_tail & (ring.core.shared.sq_entries - 1);
        ring.push(1, request);
        // SAFETY: the ring has that many entries, and the kernel has not been entered.
        unsafe { ring.core.shared.sqes.add(at as usize).read() }
    }

    fn settle(ring: &mut CommandRing) -> i32 {
        let mut answer = None;
        while answer.is_none() {
            ring.enter(1, SECOND_NS).unwrap();
            ring.reap(|_, result| answer = Some(result));
        }
        answer.unwrap()
    }

    #[test]
    fn a_command_is_laid_out_as_the_drive_has_it() {
        let options = RingOptions { write_flags: DSYNC, ..RingOptions::of_depth(2) };
        let Some(mut ring) = ring(true, options) else { return };
        let far = (1_u64 << 33) + 5;
        let read = staged(&mut ring, request(Direction::Read, far << 12, 8192));
        assert_eq!((read.opcode, read.command), (46, 0xc048_4e80));
        assert_eq!((read.nvme.opcode, read.nvme.namespace), (2, 7));
        assert_eq!((read.nvme.cdw10, read.nvme.cdw11, read.nvme.cdw12), (5, 2, 1));
        assert_eq!(read.nvme.data_length, 8192);
        assert_ne!(read.nvme.address, 0);
        // `/dev/null` accepts every command; before Linux 6.0, none.
        assert!([8192, -libc::EOPNOTSUPP].contains(&settle(&mut ring)));

        let write = staged(&mut ring, request(Direction::Write, 4096, 4096));
        assert_eq!((write.nvme.opcode, write.nvme.cdw10, write.nvme.cdw12), (1, 1, 1 << 30));
        settle(&mut ring);

        let flush = staged(&mut ring, request(Direction::Sync, 0, 0));
        assert_eq!((flush.nvme.opcode, flush.nvme.data_length, flush.nvme.address), (0, 0, 0));
        settle(&mut ring);

        let trim = staged(&mut ring, request(Direction::Trim, far << 12, 1 << 20));
        assert_eq!((trim.nvme.opcode, trim.nvme.cdw10, trim.nvme.cdw11), (9, 0, 4));
        assert_eq!(trim.nvme.data_length, 16);
        settle(&mut ring);
        let range = &ring.buffer(1)[..RANGE_BYTES];
        assert_eq!(range, [[0, 0, 0, 0, 0, 1, 0, 0], [5, 0, 0, 0, 2, 0, 0, 0]].concat());
    }

    #[test]
    fn vectors_and_plain_buffers_are_commands_of_their_own() {
        let options = RingOptions { vectored: true, ..RingOptions::of_depth(2) };
        let Some(mut vectored) = ring(false, options) else { return };
        let read = staged(&mut vectored, request(Direction::Read, 0, 4096));
        assert_eq!((read.command, read.nvme.data_length), (0xc048_4e81, 1));
        assert_eq!(read.command_flags, 0);
        settle(&mut vectored);

        let mut ring = ring(false, RingOptions::of_depth(2)).unwrap();
        let fixed = staged(&mut ring, request(Direction::Read, 0, 4096));
        assert_eq!(fixed.command_flags, u32::from(ring.has_fixed_buffers()));
        settle(&mut ring);
        ring.forgo_fixed_buffers("a test");
        assert!(!ring.has_fixed_buffers());
        assert_eq!(staged(&mut ring, request(Direction::Read, 0, 4096)).command_flags, 0);
        assert_eq!(ring.missing().last().unwrap(), "registered_buffers: a test");
        settle(&mut ring);
    }

    #[test]
    #[should_panic(expected = "not open for writing")]
    fn what_was_opened_for_reading_is_not_written() {
        match ring(false, RingOptions::of_depth(2)) {
            Some(mut ring) => ring.push(0, request(Direction::Write, 0, 4096)),
            None => panic!("not open for writing"),
        }
    }

    #[test]
    #[should_panic(expected = "whole logical blocks")]
    fn parts_of_a_block_are_refused() {
        match ring(true, RingOptions::of_depth(2)) {
            Some(mut ring) => ring.push(0, request(Direction::Write, 512, 4096)),
            None => panic!("whole logical blocks"),
        }
    }
}
