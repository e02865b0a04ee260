//! Tests of both roles, and of the two joined.

mod joined;
mod target;
