//! Requirements on queue pairs, beside the requirements on all transports (`queue::tests`).

mod host;
mod target;
