//! What holds for queue pairs beside what holds for all transports (`queue::tests`).

mod host;
mod target;
