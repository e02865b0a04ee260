//! Reactors.

pub mod pool;
pub mod ring;
