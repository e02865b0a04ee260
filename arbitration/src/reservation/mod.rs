//! Stage S3: reservations (seed rows F1 to F3).

mod terms;

pub use terms::{Budget, Locality, Terms};
