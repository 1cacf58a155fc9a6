//! Stacks at which threads make requests and wait.

/// [`StackKey::kind`] of the beginning of a request.
pub const STACK_OF_REQUEST: u32 = 0;
/// [`StackKey::kind`] of a wait.
pub const STACK_OF_WAIT: u32 = 1;

shared! {
    /// The kernel and user stack of a thread, by number; below 0 there is none.
    #[derive(Default, Eq, Ord, PartialEq, PartialOrd)]
    StackKey {
        /// Process.
        tgid: u32,
        /// [`STACK_OF_REQUEST`] or [`STACK_OF_WAIT`].
        kind: u32,
        /// Kernel stack.
        kernel: i32,
        /// User stack.
        user: i32,
        /// Name of the thread, padded with zeros.
        comm: [u8; 16],
    }
}

shared! {
    /// How often a stack was seen.
    #[derive(Default)]
    StackUse {
        /// Requests, or waits.
        count: u64,
        /// Bytes of the requests, or ns of the waits.
        amount: u64,
    }
}

shared! {
    /// A waiting thread.
    #[derive(Default)]
    Blocked {
        /// Start of the wait, CLOCK_MONOTONIC, ns.
        since_ns: u64,
        /// Its stacks.
        key: StackKey,
    }
}
