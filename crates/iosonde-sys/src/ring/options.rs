//! The options of a ring.

/// Depth and modes of a ring, and the flags of its requests.
#[derive(Clone, Copy, Debug)]
pub struct RingOptions {
    /// Requests in flight, at most; as many as the slab has slots.
    pub depth: u32,
    /// A kernel thread submits (IORING_SETUP_SQPOLL).
    pub sqpoll: bool,
    /// The CPU of that thread (IORING_SETUP_SQ_AFF).
    pub sqpoll_cpu: Option<u32>,
    /// Completions are polled (IORING_SETUP_IOPOLL).
    pub iopoll: bool,
    /// The files are registered.
    pub registered_files: bool,
    /// The buffers are registered, unless requests carry vectors.
    pub fixed_buffers: bool,
    /// Requests carry vectors of one buffer.
    pub vectored: bool,
    /// `RWF_*` of every write.
    pub write_flags: u32,
    /// A sync covers the data and the metadata needed to read it (fdatasync), not all metadata.
    pub sync_data_only: bool,
}

impl RingOptions {
    /// The default options.
    pub fn of_depth(depth: u32) -> RingOptions {
        RingOptions {
            depth,
            sqpoll: false,
            sqpoll_cpu: None,
            iopoll: false,
            registered_files: true,
            fixed_buffers: true,
            vectored: false,
            write_flags: 0,
            sync_data_only: true,
        }
    }
}
