//! Features and their values (NVMe base 2.0, section 5.27).
