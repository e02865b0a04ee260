//! Log pages (NVMe base 2.0, section 5.16).
