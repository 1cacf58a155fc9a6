//! The iosonde command.
fn main() {}
