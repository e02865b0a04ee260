//! `sluice`: the command line of Sluicegate.

fn main() {}
