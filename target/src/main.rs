//! `sluiced`: the NVMe over Fabrics target daemon.

fn main() {}
