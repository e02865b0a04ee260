//! Tests of both roles, and of the two joined.

mod edges;
mod hostile;
mod speed;
mod target;
mod violations;
