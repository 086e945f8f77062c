//! The `seaworthy` program.
fn main() {}
