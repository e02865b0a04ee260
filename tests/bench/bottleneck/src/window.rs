//! The window of a flow under a pure controller. The congestion control in the kernel takes it from
//! here.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use qtcp::linux::Info;
use qtcp::{Nanos, Observation, Rate};
use reproduce::models::law::WindowControl;
use sluice_sim::control::{Controller as _, FlowTarget};

use crate::bpf::{NAME, WindowMap};

/// Registers the congestion control, where it was asked for.
pub(crate) fn load(base: Option<&str>) -> Result<Option<Arc<WindowMap>>> {
    if base != Some(NAME) {
        return Ok(None);
    }
    Ok(Some(Arc::new(WindowMap::load().context(NAME)?)))
}

/// The controller of one flow, with a step for each round trip: QTCP as Eq. 5 has it; or DCTCP,
/// where limits take care of targets.
pub(crate) struct Pilot {
    windows: Arc<WindowMap>,
    controller: WindowControl,
    /// Sum of the observations since the last step.
    seen: Option<Observation>,
    /// Window that the kernel was last given, in packets.
    told: u32,
}

impl Pilot {
    pub(crate) fn new(windows: Arc<WindowMap>, eq5: bool) -> Self {
        let controller = if eq5 { WindowControl::qtcp() } else { WindowControl::dctcp() };
        Self { windows, controller, seen: None, told: 0 }
    }

    pub(crate) fn see(
        &mut self,
        socket: BorrowedFd<'_>,
        now: Nanos,
        seen: &Observation,
        info: &Info,
        target: Option<Rate>,
    ) -> Result<()> {
        // A window that a limit keeps from being used does not grow.
        let unused = info.unacked + info.unacked / 8 + 1 < info.snd_cwnd;
        let seen = &Observation { app_limited: seen.app_limited || unused, ..*seen };
        let all = self.seen.map_or(*seen, |before| sum(&before, seen));
        self.seen = Some(all);
        if all.interval < all.rtt || all.interval == Duration::ZERO {
            return Ok(());
        }
        self.seen = None;
        self.controller.set_target(target.map_or(FlowTarget::None, FlowTarget::Throughput));
        let window = self.controller.step(now, &all).window.round();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 1e6")]
        let window = window as u32;
        if window != self.told {
            self.windows.set_window(socket, window)?;
            self.told = window;
        }
        Ok(())
    }
}

fn sum(before: &Observation, seen: &Observation) -> Observation {
    Observation {
        interval: before.interval + seen.interval,
        delivered: before.delivered + seen.delivered,
        marked: before.marked + seen.marked,
        bytes: before.bytes + seen.bytes,
        app_limited: before.app_limited && seen.app_limited,
        ..*seen
    }
}
