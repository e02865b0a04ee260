//! The machine's side of a target.
//!
//! [`ring`] sets up io_uring as the daemon's reactors need it, and [`limits`] counts file descriptors.
#![forbid(unsafe_code)]

pub mod container;
pub mod limits;
pub mod ring;
pub mod ring_error;
