//! The threads that keep the state that all threads share up to date: the timers, and the work of
//! authentications.

use std::sync::Once;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fabric::Nanos;

use super::authentication::carry_out;
use super::qos::notices::Notice;
use super::shared::Shared;
use crate::sys::line_bound::LeftOut;
use crate::sys::socket;

/// Runs the timers of the service, of reservations that wait, and of the log's lines about sessions and
/// about lines that were left out, until `over` holds: the body of the timer thread.
pub(crate) fn run_timers(shared: &Shared, over: impl Fn() -> bool) {
    /// The time between two looks for hosts that have been gone for a long time, old keys,
    /// addresses of this machine that have changed, and sessions that the log reports.
    const LOOK_EVERY: Duration = Duration::from_secs(10);
    /// The time within which the end of the daemon is noticed.
    const LONGEST: Duration = Duration::from_millis(200);
    /// The time by which a deadline may be late. Any user of the service may move a deadline, a flood of admin
    /// commands thousands of times in a second; woken as often, this thread would hold the service's lock when a
    /// reactor wants it.
    const REST: Duration = Duration::from_millis(5);
    let mut next_look = Nanos(0);
    while !over() {
        let now = shared.clock.now();
        if now >= next_look {
            shared.connections.forget_hosts(now);
            shared.workloads.forget(now);
            shared.tls.keys().forget_old(now);
            look_at_addresses(shared);
            shared.qos.notices(now).iter().for_each(Notice::log);
            next_look = now + LOOK_EVERY;
        }
        if shared.qos.retry(now) {
            shared.refresh();
        }
        // A reactor that stood still may not have read a Keep Alive yet.
        let read = now.min(oldest_turn(shared) + LONGEST * 2);
        shared.service().tick(&shared.mailboxes, (now, read), LONGEST);
        tell_of_lines_left_out(shared);
        std::thread::sleep(REST);
    }
}

/// Tells discovery which addresses this machine has now.
pub(crate) fn look_at_addresses(shared: &Shared) {
    static WARNED: Once = Once::new();
    match socket::machine_addresses() {
        Ok(addresses) => shared.with_service(|service| service.set_addresses(addresses)),
        Err(error) => WARNED.call_once(|| {
            tracing::warn!(
                %error,
                "the addresses of this machine cannot be listed: discovery shows of a listener on \
                 all addresses only the one by which a host came in; a sandbox must permit netlink \
                 sockets (RestrictAddressFamilies=AF_NETLINK)"
            );
        }),
    }
}

/// Carries out the work of authentications, until `over` holds: the body of their thread.
pub(crate) fn run_authentications(shared: &Shared, over: impl Fn() -> bool) {
    while !over() {
        let Some((connection, work)) = shared.service().work().take() else { continue };
        let worked = carry_out(work);
        shared.with_service(|service| service.authentication_worked(connection, worked));
    }
}

fn tell_of_lines_left_out(shared: &Shared) {
    let left_out = shared.take_left_out();
    if let Some(LeftOut { lines: passed_over, most }) = left_out {
        let peer = most.map(tracing::field::display);
        tracing::warn!(
            passed_over,
            peer,
            "lines about peers were left out of the log; most were about the named peer"
        );
    }
}

/// Returns the oldest of the reactors' last turns.
fn oldest_turn(shared: &Shared) -> Nanos {
    let seen = shared.gauges.iter().map(|gauges| gauges.seen.load(Ordering::Relaxed));
    Nanos(seen.min().unwrap_or(u64::MAX))
}
