//! The front end of a vhost-user-blk device: a connection, its queues, and the memory they share.
//!
//! The protocol and the rings are the `virtio-driver` crate's. What stands here is what it leaves
//! to its user: a connection that is bounded in time, memory that outlives every request, slots
//! that are either ours or the server's, and the question whether a silent server still lives.
//!
//! The rules that make the unsafe blocks sound, stated once:
//!
//! 1. All buffers lie in one shared mapping, held by every queue. Each queue owns a range of it
//!    that no other queue has.
//! 2. A slot is ours or the server's. [`Queue::push`] hands it over and panics if it was not ours;
//!    only [`Queue::reap`] gives it back. While it is the server's, no reference to its bytes can
//!    be had.
//! 3. A queue's rings lie in memory that the connection owns; each queue holds the connection, and
//!    is dropped before it lets go of it.
//! 4. The server has mappings of its own. What it still writes after we have let go of ours goes
//!    nowhere.
//!
//! A server is trusted as a kernel is: it can write to the memory it was shown at any time.

mod connection;
mod memory;
mod queue;

pub use connection::{ConnectError, Connection, Facts, is_listening};
pub use queue::{Queue, Request, SetUpError, Shape};
