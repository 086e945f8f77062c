//! The front door for developers.
fn main() {}
