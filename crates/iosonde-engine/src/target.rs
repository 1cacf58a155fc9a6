//! The target: facts about it, how it is opened, and what protects it.
//!
//! Only this module opens a target for writing. The engine receives an owned descriptor.

pub mod contents;
pub mod create;
mod error;
pub mod gate;
pub mod held;
mod in_use;
mod inspection;
pub mod open;
pub mod passthrough;
pub mod purge;
mod ranges;
pub mod safety;
pub mod signature;
pub mod truth;
pub mod undo;
pub mod vhost;
pub mod write_cache;
mod written;

pub use contents::{Inspection, Seen};
pub use gate::GateError;
pub use open::{Direct, Held, Intent, TargetError};
pub use passthrough::PassthroughError;
