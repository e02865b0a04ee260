//! A device of which nothing is known but its measured times: how long a command takes that is alone,
//! and how many are completed in a second when as many wait as it can take.
//!
//! The device has servers. A command takes the server that is free first, in order of arrival, for the
//! time that is drawn for it. [`fit()`] makes such a device from measurements.

mod device;
mod fit;
mod settings;
mod times;

pub use device::Profiled;
pub use fit::{Alone, FitError, KindMeasured, Saturated, fit};
pub use settings::{SERVERS_MAX, Settings};
pub use times::{Times, TimesError};

#[cfg(test)]
mod tests;
