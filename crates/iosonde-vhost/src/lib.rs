//! The front end of a vhost-user-blk device: a connection, its queues, and the memory they share.
//!
//! The `virtio-driver` crate implements the protocol and the rings. This crate adds what that one
//! leaves to its user: a connection with time limits, memory that outlives every request, slots
//! that are either ours or the server's, and a check whether a silent server still listens.
//!
//! The rules that make the unsafe blocks sound, stated once:
//!
//! 1. All buffers lie in one shared mapping, held by every queue. Each queue owns a range of it
//!    that no other queue has.
//! 2. A slot is ours or the server's. [`Queue::push`] hands it over and panics if it was not ours;
//!    only [`Queue::reap`] returns it. While it is the server's, no reference to its bytes can be
//!    obtained.
//! 3. A queue's rings lie in memory that the connection owns. Each queue holds the connection, and
//!    drops its rings first.
//! 4. The server has its own mappings. Its writes after ours are unmapped do not reach our memory.
//!
//! A server is trusted like a kernel: it can write to the shared memory at any time.

mod connection;
mod memory;
mod queue;

pub use connection::{ConnectError, Connection, Facts, is_listening};
pub use queue::{Queue, Request, SetUpError, Shape};
