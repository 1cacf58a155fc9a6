//! The target: what it truly is, and (elsewhere in this room) how it is opened and let go.

pub mod truth;
