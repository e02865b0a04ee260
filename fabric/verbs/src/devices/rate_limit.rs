//! The limit on a queue pair's sending rate, enforced by its device where supported.

use std::num::NonZeroU32;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

use rdma_sys::{ibv_packet_pacing_caps, ibv_qp, ibv_qp_rate_limit_attr, ibv_qp_type};

use super::extended::later_verb;
use crate::error::Error;
use crate::facts::RateRange;

impl RateRange {
    /// Reads a device's rate limits for reliable connections. The greatest rate is 0 if it cannot
    /// limit any, and bit n of the kinds stands for number n (`ibv_query_device_ex`).
    pub(super) fn from_caps(said: ibv_packet_pacing_caps) -> Option<Self> {
        let ibv_packet_pacing_caps { qp_rate_limit_min, qp_rate_limit_max, supported_qpts } = said;
        if supported_qpts & 1 << ibv_qp_type::IBV_QPT_RC == 0 {
            return None;
        }
        let most = NonZeroU32::new(qp_rate_limit_max)?;
        let least = NonZeroU32::new(qp_rate_limit_min).unwrap_or(NonZeroU32::MIN);
        (least <= most).then_some(Self { least, most })
    }
}

/// The queue pair that a limit is of.
#[derive(Debug)]
struct Limited(*mut ibv_qp);

// SAFETY: verbs may be called by all threads; the pointer is used under its lock only.
unsafe impl Send for Limited {}

/// The limit of one queue pair, which any thread may set while the queue pair lives. It covers all
/// packets of the queue pair: data of WRITEs, SENDs, and the requests of READs.
#[derive(Clone, Debug)]
pub struct RateLimit {
    queue: Arc<Mutex<Limited>>,
    range: RateRange,
}

impl RateLimit {
    /// Makes the limit of a queue pair, which must call [`Self::end`] before it is destroyed.
    ///
    /// # Safety
    /// The queue pair lives until [`Self::end`] returns.
    pub(super) unsafe fn new(queue: *mut ibv_qp, range: RateRange) -> Self {
        Self { queue: Arc::new(Mutex::new(Limited(queue))), range }
    }

    /// Returns the rates that the device can hold the queue pair to.
    #[must_use]
    pub fn range(&self) -> RateRange {
        self.range
    }

    /// Ends the setting of limits: the queue pair is about to be destroyed.
    pub(super) fn end(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).0 = null_mut();
    }

    /// Sets the limit, in kbit/s on the wire, by a system call; `None` lifts it.
    ///
    /// # Errors
    /// The device refuses it, or the queue pair has ended.
    pub fn set(&self, rate: Option<NonZeroU32>) -> Result<(), Error> {
        const CALL: &str = "ibv_modify_qp_rate_limit";
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let pair = NonNull::new(queue.0).ok_or_else(|| Error::gone("the queue pair"))?;
        // How much is sent at once stays as the device has it.
        let mut attributes = ibv_qp_rate_limit_attr {
            rate_limit: rate.map_or(0, NonZeroU32::get),
            max_burst_sz: 0,
            typical_pkt_sz: 0,
            comp_mask: 0,
        };
        // SAFETY: the queue pair lives: who destroys it takes the lock first. So does its device, which
        // is open; and the attributes do during the call.
        let answer = unsafe {
            let modify = NonNull::new((*pair.as_ptr()).context)
                .and_then(|context| later_verb!(context, modify_qp_rate_limit))
                .ok_or_else(|| Error::returned(CALL, libc::EOPNOTSUPP))?;
            modify(pair.as_ptr(), &raw mut attributes)
        };
        Error::check(CALL, answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RC: u32 = 1 << ibv_qp_type::IBV_QPT_RC;
    const RAW: u32 = 1 << ibv_qp_type::IBV_QPT_RAW_PACKET;

    #[test]
    fn device_without_reliable_pacing_has_no_rates() {
        let of = |qp_rate_limit_min, qp_rate_limit_max, supported_qpts| {
            let said =
                ibv_packet_pacing_caps { qp_rate_limit_min, qp_rate_limit_max, supported_qpts };
            RateRange::from_caps(said).map(|range| (range.least.get(), range.most.get()))
        };
        assert_eq!(of(0, 0, 0), None, "soft RoCE");
        assert_eq!(of(1000, 100_000_000, RAW), None, "other kinds only");
        assert_eq!(of(1000, 0, RC), None);
        assert_eq!(of(2000, 1000, RC), None, "no rate is in it");
        assert_eq!(of(1000, 100_000_000, RC | RAW), Some((1000, 100_000_000)));
        assert_eq!(of(0, 5, RC), Some((1, 5)), "0 would be no limit");
    }

    #[test]
    fn ended_queue_pair_ignores_limit() {
        let range = RateRange { least: NonZeroU32::MIN, most: NonZeroU32::MAX };
        // SAFETY: nothing uses the pointer before the end, which is the next call.
        let limit = unsafe { RateLimit::new(NonNull::dangling().as_ptr(), range) };
        let other = limit.clone();
        limit.end();
        for rate in [None, Some(NonZeroU32::MIN)] {
            assert!(other.set(rate).is_err());
        }
    }
}
