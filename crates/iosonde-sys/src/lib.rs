//! Every unsafe block of iosonde: buffers, rings, system calls, clocks.
//!
//! The rules that make them sound, stated once:
//!
//! 1. A slot of a [`Slab`] is either ours or the kernel's. [`Ring::push`] hands it over and panics
//!    if it was not ours; only [`Ring::reap`] gives it back. While it is the kernel's, no reference
//!    to its bytes can be had.
//! 2. The slab outlives every request. A ring that is dropped with requests in flight cancels them
//!    and waits; if the kernel does not give them back, the memory is leaked and never reused.
//! 3. `user_data` is the slot index. A completion for a slot that is not in flight stops the
//!    program: the bookkeeping is wrong, and with it the measurement.
//! 4. Memory is zeroed by the kernel before it is first read.
//!
//! Everything public here is safe to call. Nothing here knows a workload, a plan or a backend.

pub mod clock;
pub mod counting;
pub mod inspect;
pub mod ring;
pub mod slab;
pub mod syscall;
pub mod thread;

pub use clock::Clock;
pub use ring::{Direction, Ring, RingOptions};
pub use slab::Slab;

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
