//! Where a program makes requests, and where it waits: stacks of functions.

use serde::{Deserialize, Serialize};

words! {
    /// What a thread did at a stack.
    #[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum StackKind {
        /// A request of the block layer began.
        Request,
        /// The thread gave up its CPU until something happened.
        Wait,
    }
}

/// The only user frame of a stack that was not read because the process had ended.
pub const ENDED: &str = "[ended before its functions were read]";

/// A stack, and how often it was seen.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct StackRun {
    pub kind: StackKind,
    /// Name of the thread, cut to 15 bytes by the kernel.
    pub thread: String,
    /// Functions of the program, the outermost first. A frame of an unknown function has the name
    /// of its file, in brackets.
    pub user: Vec<String>,
    /// Functions of the kernel, the outermost first.
    pub kernel: Vec<String>,
    /// Requests or waits.
    pub count: u64,
    /// Bytes of the requests, or length of the waits in ns.
    pub amount: u64,
}
