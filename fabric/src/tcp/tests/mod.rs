//! Tests of both roles, and of the two joined.

mod hostile;
mod speed;
mod target;
mod violations;
