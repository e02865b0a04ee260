//! Models that only figures of the sources and the benchmark of bottlenecks use.
//!
//! - [`law`]: the laws of windows: DCTCP, QTCP, QTCP with Fig. 15a, D2TCP.
//! - [`dtm`]: the discrete-time model of QTCP on one bottleneck.
//! - [`experiments`]: the experiments of Haechi.

pub mod dtm;
pub mod experiments;
pub mod law;
