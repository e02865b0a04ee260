//! Devices and protection domains.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null, null_mut};
use std::sync::Arc;

use rdma_sys::{
    ibv_alloc_pd, ibv_context, ibv_dealloc_pd, ibv_device_attr, ibv_device_attr_ex,
    ibv_get_device_name, ibv_odp_transport_cap_bits, ibv_pd, ibv_query_device, rdma_free_devices,
    rdma_get_devices,
};

use super::extended::later_verb;
use super::flush;
use crate::error::{Error, has_ended};
use crate::facts::{DeviceLimits, RateRange};

/// A device that the connection manager has open. While this lives, the device is not closed. Other
/// devices are not held, so that a removed device leaves nothing behind.
#[derive(Debug)]
struct Held(NonNull<ibv_context>);

// SAFETY: the context may be used by all threads (ibv_open_device).
unsafe impl Send for Held {}
// SAFETY: as for `Send`.
unsafe impl Sync for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        // The connection manager takes devices back as lists alone, ended by null, and frees the list.
        // SAFETY: the call has no other arguments.
        let list = unsafe { libc::malloc(2 * size_of::<*mut ibv_context>()) };
        let list = NonNull::new(list.cast::<*mut ibv_context>());
        let Some(list) = list else { return };
        // SAFETY: the list has room for two. The device was in a list of rdma_get_devices, and is given
        // back once.
        unsafe {
            list.write(self.0.as_ptr());
            list.add(1).write(null_mut());
            rdma_free_devices(list.as_ptr());
        }
    }
}

/// An open RDMA device.
#[derive(Clone, Debug)]
pub struct Device {
    held: Arc<Held>,
    name: Arc<str>,
    limits: DeviceLimits,
}

/// The bit for RDMA WRITE among a device's on-demand capabilities for reliable connections.
const ON_DEMAND_WRITE: u32 = ibv_odp_transport_cap_bits::IBV_ODP_SUPPORT_WRITE.0;

/// Asks a device for its extended attributes; `None` where the device or the library has none.
///
/// # Safety
/// The context is open.
unsafe fn extended(context: NonNull<ibv_context>) -> Option<ibv_device_attr_ex> {
    let mut attributes = MaybeUninit::<ibv_device_attr_ex>::zeroed();
    let size = size_of::<ibv_device_attr_ex>();
    // SAFETY: the caller vouches for the context. There is no input, and the attributes are written to.
    // All zeroes are attributes too.
    unsafe {
        let query = later_verb!(context, query_device_ex)?;
        let answer = query(context.as_ptr(), null(), attributes.as_mut_ptr(), size);
        (answer == 0).then(|| attributes.assume_init())
    }
}

/// Asks a device for the attributes that every device has.
///
/// # Safety
/// The context is open.
unsafe fn plain(context: NonNull<ibv_context>) -> Result<ibv_device_attr, Error> {
    let mut attributes = MaybeUninit::zeroed();
    // SAFETY: the caller vouches for the context, and the attributes are written to.
    let answer = unsafe { ibv_query_device(context.as_ptr(), attributes.as_mut_ptr()) };
    Error::check("ibv_query_device", answer)?;
    // SAFETY: all zeroes are attributes too, and the call has filled them in.
    Ok(unsafe { attributes.assume_init() })
}

impl Device {
    /// Lists the devices of this machine, without failed ones.
    ///
    /// # Errors
    /// The machine has no RDMA.
    pub fn all() -> Result<Vec<Self>, Error> {
        let mut count = 0;
        // SAFETY: `count` is written to; the list is null or ended by null.
        let list = unsafe { rdma_get_devices(&raw mut count) };
        let list =
            NonNull::new(list).ok_or_else(|| Error::NoRdma(std::io::Error::last_os_error()))?;
        let mut held = Vec::new();
        for index in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: the list has `count` entries.
            let context = unsafe { *list.as_ptr().add(index) };
            let Some(context) = NonNull::new(context) else { break };
            held.push(Held(context));
        }
        // SAFETY: the list has room for one entry at least, which may be the null at its end. It is freed
        // without its devices, which are held one by one.
        unsafe {
            list.write(null_mut());
            rdma_free_devices(list.as_ptr());
        }
        Ok(held.into_iter().filter_map(|one| Self::from_held(one).ok()).collect())
    }

    /// Finds the device that has this context.
    pub(super) fn find(context: *mut ibv_context) -> Result<Self, Error> {
        let known = Self::all()?.into_iter().find(|device| device.raw() == context);
        let gone = || std::io::Error::from_raw_os_error(libc::ENODEV);
        known.ok_or_else(|| Error::Call { call: "rdma_get_devices", source: gone() })
    }

    fn from_held(held: Held) -> Result<Self, Error> {
        let context = held.0;
        // SAFETY: the context is open.
        let (attributes, on_demand, rates, flushes) = match unsafe { extended(context) } {
            Some(all) => {
                let on_demand = all.odp_caps.per_transport_caps.rc_odp_caps;
                let flushes = flush::of_device(all.device_cap_flags_ex);
                (all.orig_attr, on_demand, RateRange::from_caps(all.packet_pacing_caps), flushes)
            }
            // SAFETY: as above.
            None => (unsafe { plain(context) }?, 0, None, None),
        };
        // SAFETY: the context's device lives as long as the context; its name is a C string.
        let name = unsafe { CStr::from_ptr(ibv_get_device_name((*context.as_ptr()).device)) };
        let positive = |value: i32| u32::try_from(value).unwrap_or(0);
        let small = |value: i32| u8::try_from(value.clamp(0, 255)).unwrap_or(0);
        let limits = DeviceLimits {
            work_requests: positive(attributes.max_qp_wr),
            completions: positive(attributes.max_cqe),
            reads_answered: small(attributes.max_qp_rd_atom),
            reads: small(attributes.max_qp_init_rd_atom),
            atomics: attributes.atomic_cap != rdma_sys::ibv_atomic_cap::IBV_ATOMIC_NONE,
            parts: positive(attributes.max_sge),
            writes_on_demand: on_demand & ON_DEMAND_WRITE != 0,
            rates,
            flushes,
        };
        let name = name.to_string_lossy().into();
        Ok(Self { held: Arc::new(held), name, limits })
    }

    /// Returns the device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the limits of the device.
    #[must_use]
    pub fn limits(&self) -> DeviceLimits {
        self.limits
    }

    pub(super) fn raw(&self) -> *mut ibv_context {
        self.held.0.as_ptr()
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        self.raw() == other.raw()
    }
}

/// A protection domain: which memory goes with which queue pairs.
#[derive(Clone, Debug)]
pub struct Domain(Arc<RawDomain>);

#[derive(Debug)]
struct RawDomain {
    raw: NonNull<ibv_pd>,
    device: Device,
}

// SAFETY: a protection domain may be used by all threads.
unsafe impl Send for RawDomain {}
// SAFETY: as for `Send`.
unsafe impl Sync for RawDomain {}

impl Domain {
    /// Makes a protection domain.
    ///
    /// # Errors
    /// The device has no room for another one.
    pub fn new(device: &Device) -> Result<Self, Error> {
        // SAFETY: the device is open.
        let raw = unsafe { ibv_alloc_pd(device.raw()) };
        let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_alloc_pd"))?;
        Ok(Self(Arc::new(RawDomain { raw, device: device.clone() })))
    }

    /// Returns the device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    pub(super) fn raw(&self) -> *mut ibv_pd {
        self.0.raw.as_ptr()
    }
}

impl Drop for RawDomain {
    fn drop(&mut self) {
        // SAFETY: every object made in the domain has a clone of it, and is gone. The device is
        // open.
        let answer = unsafe { ibv_dealloc_pd(self.raw.as_ptr()) };
        debug_assert!(
            has_ended(answer),
            "nothing uses the protection domain of {}",
            self.device.name()
        );
    }
}
