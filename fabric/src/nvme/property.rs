//! Controller properties: CAP, VS, CC, CSTS (NVMe base 2.0, section 3.1.3).
