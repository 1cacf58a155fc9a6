//! Where threads make requests, and where they wait.

/// [`StackKey::kind`] of the beginning of a request.
pub const STACK_OF_REQUEST: u32 = 0;
/// [`StackKey::kind`] of a wait.
pub const STACK_OF_WAIT: u32 = 1;

shared! {
    /// Two stacks of a thread, by their numbers; below 0 there is none.
    #[derive(Default, Eq, Ord, PartialEq, PartialOrd)]
    StackKey {
        /// Process.
        tgid: u32,
        /// [`STACK_OF_REQUEST`] or [`STACK_OF_WAIT`].
        kind: u32,
        /// Of the kernel.
        kernel: i32,
        /// Of the program.
        user: i32,
        /// Name of the thread, with zeros at the end.
        comm: [u8; 16],
    }
}

shared! {
    /// How often a stack was seen.
    #[derive(Default)]
    StackUse {
        /// Requests, or waits.
        count: u64,
        /// Their bytes, or ns.
        amount: u64,
    }
}

shared! {
    /// A thread that waits.
    #[derive(Default)]
    Blocked {
        /// Since when, on CLOCK_MONOTONIC.
        since_ns: u64,
        /// Where.
        key: StackKey,
    }
}
