//! Every unsafe block of iosonde: buffers, rings, system calls, clocks.
