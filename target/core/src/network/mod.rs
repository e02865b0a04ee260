//! A connection's part in stage S6: the rates of its classes, and the order in which replies and R2Ts
//! use the network.

pub(crate) mod dscp;
pub(crate) mod fairness;
pub(crate) mod pacer;
pub(crate) mod replies;
pub(crate) mod stage;
pub(crate) mod tokens;
pub(crate) mod traffic;
