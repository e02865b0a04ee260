//! Get Region, a vendor-specific admin command by which a host asks for a region of persistent
//! memory (docs/reference/conformance.md), and its answer.

mod command;
mod grant;
mod name;

pub use command::{BadGetRegion, GetRegion, RegionRights};
pub use grant::{BadRegionGrant, REGION_GRANT_SIZE, RegionGrant, Survives};
pub use name::{BadRegionName, REGION_NAME_MAX, RegionName};
