//! QoS classes, and the 2-bit field in which a command names one.
#![forbid(unsafe_code)]

/// A QoS class, as NVMe names them (NVMe base specification 2.0, section 3.4.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The least weight.
    Low,
    /// Between Low and High.
    Medium,
    /// The greatest weight.
    High,
    /// Strictly before all others.
    Urgent,
}

impl Class {
    /// The class that a command's CDW13 names in bits 9:8: 00b none (inherit), 01b Medium, 10b
    /// High, 11b Urgent.
    ///
    /// The bits are spare only where CETYPE (`cdw12` bits 19:16) is zero; else they belong to the
    /// command extension and name no class. Seed row E6.
    #[must_use]
    pub fn of_command(cdw12: u32, cdw13: u32) -> Option<Self> {
        if cdw12 >> 16 & 0xf != 0 {
            return None;
        }
        match cdw13 >> 8 & 0b11 {
            1 => Some(Self::Medium),
            2 => Some(Self::High),
            3 => Some(Self::Urgent),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e6_class_bits_count_only_without_a_command_extension() {
        assert_eq!(Class::of_command(0, 0), None, "a host that knows no QoS sends zero");
        assert_eq!(Class::of_command(0, 0x100), Some(Class::Medium));
        assert_eq!(Class::of_command(0, 0x200), Some(Class::High));
        assert_eq!(Class::of_command(0, 0x300), Some(Class::Urgent));
        assert_eq!(Class::of_command(0, 0xffff_fcff), None, "other bits name no class");
        assert_eq!(Class::of_command(0x1_0000, 0x300), None, "bits of a command extension");
    }
}
