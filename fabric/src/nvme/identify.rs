//! Identify data structures (NVMe base 2.0, section 5.17).
