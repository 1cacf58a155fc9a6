//! The unsafe code for buffers, rings, system calls and clocks.
//!
//! The rules that make it sound:
//!
//! 1. A slot of a [`Slab`] is either ours or the kernel's. `push` of a [`Ring`] or an [`Aio`] hands
//!    it over and panics if it was not ours; only `reap` returns it. While it is the kernel's, no
//!    reference to its bytes can be obtained.
//! 2. The slab outlives every request. A queue that is dropped with requests in flight waits for
//!    them (a ring cancels them first). If they do not complete, the memory is leaked for good.
//! 3. `user_data` is the slot index. A completion for a slot that is not in flight stops the
//!    program: the bookkeeping is wrong, and with it the measurement.
//! 4. Memory is zeroed by the kernel before it is first read.
//!
//! Everything public here is safe to call, and independent of workloads, plans and backends.

pub mod aio;
pub mod clock;
pub mod counting;
pub mod device_command;
pub mod held;
pub mod inspect;
pub mod mapping;
pub mod nvme;
pub mod process;
pub mod ring;
pub mod sharing;
pub mod signals;
pub mod slab;
mod slots;
pub mod stdout;
pub mod syscall;
pub mod thread;
mod uapi;

pub use aio::Aio;
pub use clock::Clock;
pub use held::HeldCommand;
pub use mapping::Mapping;
pub use ring::{CommandRing, Ring, RingOptions};
pub use slab::{Nodes, Placement, Slab, SlabError, Spread};

/// What a request does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Direction {
    /// From storage.
    Read = 0,
    /// To storage.
    Write = 1,
    /// Releases a range: punches a hole into a file, or discards on a block device. The result is
    /// the length released.
    Trim = 2,
    /// Makes written data durable. The result is 0.
    Sync = 3,
}

impl Direction {
    const ALL: [Direction; 4] =
        [Direction::Read, Direction::Write, Direction::Trim, Direction::Sync];
}

/// One request of a [`Ring`] or an [`Aio`].
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Its direction.
    pub way: Direction,
    /// Index of the file.
    pub target: u16,
    /// First byte on the target.
    pub offset: u64,
    /// First byte within the slot.
    pub skip: u32,
    /// Length, bytes.
    pub bytes: u32,
}

/// The name of an errno (`EIO`), or `errno N` if it has none here.
pub fn errno_name(errno: i32) -> String {
    let name = match errno {
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::EINTR => "EINTR",
        libc::EIO => "EIO",
        libc::ENXIO => "ENXIO",
        libc::EBADF => "EBADF",
        libc::EAGAIN => "EAGAIN",
        libc::ENOMEM => "ENOMEM",
        libc::EACCES => "EACCES",
        libc::EFAULT => "EFAULT",
        libc::EBUSY => "EBUSY",
        libc::EEXIST => "EEXIST",
        libc::ENODEV => "ENODEV",
        libc::ENOTDIR => "ENOTDIR",
        libc::EISDIR => "EISDIR",
        libc::EINVAL => "EINVAL",
        libc::ENFILE => "ENFILE",
        libc::EMFILE => "EMFILE",
        libc::EFBIG => "EFBIG",
        libc::ENOSPC => "ENOSPC",
        libc::EROFS => "EROFS",
        libc::EPIPE => "EPIPE",
        libc::ENOSYS => "ENOSYS",
        libc::ENODATA => "ENODATA",
        libc::ETIME => "ETIME",
        libc::EPROTO => "EPROTO",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::ETIMEDOUT => "ETIMEDOUT",
        libc::ESTALE => "ESTALE",
        libc::EREMOTEIO => "EREMOTEIO",
        libc::EDQUOT => "EDQUOT",
        libc::ECANCELED => "ECANCELED",
        libc::EBADMSG => "EBADMSG",
        libc::EILSEQ => "EILSEQ",
        libc::ENOTCONN => "ENOTCONN",
        libc::ECONNABORTED => "ECONNABORTED",
        other => return format!("errno {other}"),
    };
    name.into()
}
