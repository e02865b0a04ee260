//! Requirements on every transport: the suite is generic, and each transport is put through it.

mod batches;
mod history;
mod joined;
mod violations;
