//! The parts of the kernel's interface that are used here: `linux/io_uring.h`, `linux/aio_abi.h`
//! and `linux/nvme_ioctl.h`.

use std::mem::{offset_of, size_of};

/// Submission queue entry. Fields that are never set here are padding.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Sqe {
    pub(crate) opcode: u8,
    pub(crate) flags: u8,
    pub(crate) priority: u16,
    pub(crate) fd: i32,
    /// Offset on the target, or the number of a command.
    pub(crate) offset: u64,
    /// Buffer or vectors; the length of `FALLOCATE`; the start of a discard.
    pub(crate) address: u64,
    /// Bytes or vectors; the mode of `FALLOCATE`.
    pub(crate) length: u32,
    /// `RWF_*`, or the flags of `FSYNC`.
    pub(crate) operation_flags: u32,
    pub(crate) user_data: u64,
    pub(crate) buffer_index: u16,
    pub(crate) personality: u16,
    pub(crate) file_index: u32,
    /// The length of a discard.
    pub(crate) address_3: u64,
    pub(crate) padding: u64,
}

/// Completion queue entry.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Cqe {
    pub(crate) user_data: u64,
    pub(crate) result: i32,
    pub(crate) flags: u32,
}

/// Submission queue entry of twice the length, with a command to an NVMe drive.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct CommandSqe {
    pub(crate) opcode: u8,
    pub(crate) flags: u8,
    pub(crate) priority: u16,
    pub(crate) fd: i32,
    /// The driver's number of the command.
    pub(crate) command: u32,
    pub(crate) padding: u32,
    pub(crate) address: u64,
    pub(crate) length: u32,
    /// `IORING_URING_CMD_*`.
    pub(crate) command_flags: u32,
    pub(crate) user_data: u64,
    pub(crate) buffer_index: u16,
    pub(crate) personality: u16,
    pub(crate) file_index: u32,
    pub(crate) nvme: NvmeCommand,
    pub(crate) padding_2: u64,
}

/// `struct nvme_uring_cmd` of `linux/nvme_ioctl.h`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct NvmeCommand {
    pub(crate) opcode: u8,
    pub(crate) flags: u8,
    pub(crate) reserved_1: u16,
    pub(crate) namespace: u32,
    pub(crate) cdw2: u32,
    pub(crate) cdw3: u32,
    pub(crate) metadata: u64,
    /// Buffer or vectors.
    pub(crate) address: u64,
    pub(crate) metadata_bytes: u32,
    /// Bytes or vectors.
    pub(crate) data_length: u32,
    pub(crate) cdw10: u32,
    pub(crate) cdw11: u32,
    pub(crate) cdw12: u32,
    pub(crate) cdw13: u32,
    pub(crate) cdw14: u32,
    pub(crate) cdw15: u32,
    pub(crate) timeout_ms: u32,
    pub(crate) reserved_2: u32,
}

/// Completion queue entry of twice the length.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct LongCqe {
    /// `result` is the drive's status if it is above 0.
    pub(crate) usual: Cqe,
    pub(crate) more: [u64; 2],
}

/// Offsets of the parts of the submission ring from the start of its mapping.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct SqOffsets {
    pub(crate) head: u32,
    pub(crate) tail: u32,
    pub(crate) ring_mask: u32,
    pub(crate) ring_entries: u32,
    pub(crate) flags: u32,
    pub(crate) dropped: u32,
    pub(crate) array: u32,
    pub(crate) reserved_1: u32,
    pub(crate) user_address: u64,
}

/// The same for the completion ring.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct CqOffsets {
    pub(crate) head: u32,
    pub(crate) tail: u32,
    pub(crate) ring_mask: u32,
    pub(crate) ring_entries: u32,
    pub(crate) overflow: u32,
    pub(crate) entries: u32,
    pub(crate) flags: u32,
    pub(crate) reserved_1: u32,
    pub(crate) user_address: u64,
}

/// The request to `io_uring_setup`, and its answer.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Params {
    pub(crate) sq_entries: u32,
    pub(crate) cq_entries: u32,
    pub(crate) flags: u32,
    pub(crate) sq_thread_cpu: u32,
    pub(crate) sq_thread_idle_ms: u32,
    pub(crate) features: u32,
    pub(crate) wq_fd: u32,
    pub(crate) reserved: [u32; 3],
    pub(crate) sq: SqOffsets,
    pub(crate) cq: CqOffsets,
}

/// `struct __kernel_timespec`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Timespec {
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: i64,
}

impl Timespec {
    #[inline(always)]
    pub(crate) fn of_ns(ns: u64) -> Timespec {
        let second_ns = 1_000_000_000;
        Timespec { seconds: (ns / second_ns) as i64, nanoseconds: (ns % second_ns) as i64 }
    }
}

/// `struct io_uring_getevents_arg`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct WaitArguments {
    pub(crate) signal_mask: u64,
    pub(crate) signal_mask_bytes: u32,
    pub(crate) min_wait_us: u32,
    /// Address of a [`Timespec`].
    pub(crate) timeout: u64,
}

/// `struct io_uring_rsrc_update`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct ResourceUpdate {
    pub(crate) offset: u32,
    pub(crate) reserved: u32,
    pub(crate) data: u64,
}

/// `struct io_uring_sync_cancel_reg`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct SyncCancel {
    pub(crate) address: u64,
    pub(crate) fd: i32,
    pub(crate) flags: u32,
    pub(crate) timeout: Timespec,
    pub(crate) opcode: u8,
    pub(crate) padding: [u8; 7],
    pub(crate) padding_2: [u64; 3],
}

/// `struct iocb`: a request of the older interface.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Iocb {
    pub(crate) data: u64,
    #[cfg(target_endian = "little")]
    pub(crate) key: u32,
    pub(crate) rw_flags: u32,
    #[cfg(target_endian = "big")]
    pub(crate) key: u32,
    pub(crate) opcode: u16,
    pub(crate) priority: i16,
    pub(crate) fd: u32,
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) offset: i64,
    pub(crate) reserved: u64,
    pub(crate) flags: u32,
    pub(crate) event_fd: u32,
}

/// `struct io_event`: its completion.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct IoEvent {
    pub(crate) data: u64,
    pub(crate) iocb: u64,
    pub(crate) result: i64,
    pub(crate) result_2: i64,
}

// With other layouts, the kernel would read or write other fields.
const _: () = {
    assert!(size_of::<Sqe>() == 64);
    assert!(size_of::<Cqe>() == 16);
    assert!(size_of::<CommandSqe>() == 128);
    assert!(offset_of!(CommandSqe, nvme) == 48);
    assert!(size_of::<NvmeCommand>() == 72);
    assert!(size_of::<LongCqe>() == 32);
    assert!(size_of::<Params>() == 120);
    assert!(size_of::<WaitArguments>() == 24);
    assert!(size_of::<ResourceUpdate>() == 16);
    assert!(size_of::<SyncCancel>() == 64);
    assert!(size_of::<Iocb>() == 64);
    assert!(size_of::<IoEvent>() == 32);
};

pub(crate) const OP_NOP: u8 = 0;
pub(crate) const OP_READV: u8 = 1;
pub(crate) const OP_WRITEV: u8 = 2;
pub(crate) const OP_FSYNC: u8 = 3;
pub(crate) const OP_READ_FIXED: u8 = 4;
pub(crate) const OP_WRITE_FIXED: u8 = 5;
pub(crate) const OP_FALLOCATE: u8 = 17;
pub(crate) const OP_READ: u8 = 22;
pub(crate) const OP_WRITE: u8 = 23;
pub(crate) const OP_URING_CMD: u8 = 46;

/// `IOSQE_FIXED_FILE`.
pub(crate) const SQE_FIXED_FILE: u8 = 1;
pub(crate) const FSYNC_DATASYNC: u32 = 1;
/// `_IO(0x12, 0)` of `linux/blkdev.h`, Linux 6.12.
pub(crate) const CMD_DISCARD: u64 = 0x1200;

/// `NVME_URING_CMD_IO`: `_IOWR('N', 0x80, struct nvme_uring_cmd)`, Linux 5.19.
pub(crate) const CMD_NVME_IO: u32 = libc::_IOWR::<NvmeCommand>(b'N' as u32, 0x80) as u32;
/// `NVME_URING_CMD_IO_VEC`: the same with vectors.
pub(crate) const CMD_NVME_IO_VEC: u32 = libc::_IOWR::<NvmeCommand>(b'N' as u32, 0x81) as u32;
/// `IORING_URING_CMD_FIXED`: the buffer is a registered one.
pub(crate) const CMD_FIXED: u32 = 1 << 0;

pub(crate) const SETUP_IOPOLL: u32 = 1 << 0;
pub(crate) const SETUP_SQPOLL: u32 = 1 << 1;
pub(crate) const SETUP_SQ_AFF: u32 = 1 << 2;
pub(crate) const SETUP_CQSIZE: u32 = 1 << 3;
pub(crate) const SETUP_CLAMP: u32 = 1 << 4;
pub(crate) const SETUP_SUBMIT_ALL: u32 = 1 << 7;
pub(crate) const SETUP_COOP_TASKRUN: u32 = 1 << 8;
pub(crate) const SETUP_TASKRUN_FLAG: u32 = 1 << 9;
pub(crate) const SETUP_SQE128: u32 = 1 << 10;
pub(crate) const SETUP_CQE32: u32 = 1 << 11;
pub(crate) const SETUP_SINGLE_ISSUER: u32 = 1 << 12;
pub(crate) const SETUP_DEFER_TASKRUN: u32 = 1 << 13;
pub(crate) const SETUP_NO_SQARRAY: u32 = 1 << 16;

pub(crate) const ENTER_GETEVENTS: u32 = 1 << 0;
pub(crate) const ENTER_SQ_WAKEUP: u32 = 1 << 1;
pub(crate) const ENTER_EXT_ARG: u32 = 1 << 3;
pub(crate) const ENTER_REGISTERED_RING: u32 = 1 << 4;

pub(crate) const SQ_NEED_WAKEUP: u32 = 1 << 0;
pub(crate) const SQ_CQ_OVERFLOW: u32 = 1 << 1;
pub(crate) const SQ_TASKRUN: u32 = 1 << 2;

/// Both rings come in one mapping.
pub(crate) const FEATURE_SINGLE_MMAP: u32 = 1 << 0;
/// `ENTER_EXT_ARG` is supported.
pub(crate) const FEATURE_EXT_ARG: u32 = 1 << 8;

pub(crate) const MAP_RINGS: i64 = 0;
pub(crate) const MAP_SQES: i64 = 0x1000_0000;

pub(crate) const REGISTER_BUFFERS: u32 = 0;
pub(crate) const REGISTER_FILES: u32 = 2;
pub(crate) const REGISTER_RING_FDS: u32 = 20;
pub(crate) const UNREGISTER_RING_FDS: u32 = 21;
pub(crate) const REGISTER_SYNC_CANCEL: u32 = 24;

/// Cancels every request.
pub(crate) const CANCEL_ANY: u32 = 1 << 2;

pub(crate) const IOCB_PREAD: u16 = 0;
pub(crate) const IOCB_PWRITE: u16 = 1;
pub(crate) const IOCB_FSYNC: u16 = 2;
pub(crate) const IOCB_FDSYNC: u16 = 3;
pub(crate) const IOCB_PREADV: u16 = 7;
pub(crate) const IOCB_PWRITEV: u16 = 8;
/// `IOCB_FLAG_IOPRIO`: the priority of the request is set.
pub(crate) const IOCB_FLAG_PRIORITY: u32 = 1 << 1;
