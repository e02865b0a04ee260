//! The repository's layout keeps its promises.
fn main() {}
