//! The target: what it truly is, how it is opened, and what protects it.
//!
//! Promises: this room alone opens anything for writing, and hands the engine an owned descriptor.

pub mod create;
pub mod gate;
pub mod held;
pub mod open;
pub mod safety;
pub mod signature;
pub mod truth;
pub mod vhost;

pub use gate::GateError;
pub use open::{Direct, Held, Intent, TargetError};
