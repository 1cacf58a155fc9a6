//! What the user requests: workloads and experiments, as typed and as stored in files.
//!
//! This module only parses; it uses no device, clock or thread. A built-in workload and a user's
//! file go through the same parser and can express the same.

pub mod arrivals;
pub mod campaign;
pub mod catalogue;
pub mod commit;
pub mod engine;
pub mod experiment;
pub mod fio;
pub mod latency;
pub mod limits;
pub mod listed;
pub mod load;
pub mod precision;
pub mod priority;
pub mod reference;
pub mod settling;
pub mod speed;
pub mod workload;

pub use arrivals::{Arrivals, Bursts};
pub use catalogue::FileError;
pub use commit::Commit;
pub use engine::{EngineKind, WorksOn};
pub use experiment::Experiment;
pub use latency::{LatencyTarget, Pursuit};
pub use limits::{Flow, Limits};
pub use listed::{IoKind, Listed};
pub use load::*;
pub use precision::{Direction, Metric, Precision};
pub use priority::{Priorities, Priority};
pub use settling::{Settling, SettlingFigure};
pub use speed::{Speed, SpeedError};
pub use workload::{Access, Region, Role, Rw, Start, Threads, Workload};
