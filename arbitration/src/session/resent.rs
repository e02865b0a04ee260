//! Commands that a host resends after a reconnect, and the debt that they leave.
//!
//! Linux ends a reconnect only when all commands that were in its queues have completed, and fails the
//! attempt after 30 s. So resent commands bypass the limits of their session and are charged to them:
//! later commands wait until the limits have repaid the debt. A host may have [`UNPAID_MAX`] unpaid
//! reconnects, and no command bypasses a limit with a debt of more than [`DEBT_MAX`].

use std::sync::{Mutex, PoisonError};

use units::Nanos;

use super::host_id::HostId;

/// The most unpaid reconnects of one host. With two, a host survives a second outage during its debt.
const UNPAID_MAX: usize = 2;
/// The longest debt of a limit, in ns, with which a further command may bypass the limit. A Linux host
/// waits for 810 s in six waits here and five retry delays: the commands behind the debt need half.
pub(super) const DEBT_MAX: u64 = 400_000_000_000;
/// The most unpaid reconnects of all hosts. Commands of further ones wait for their limits.
const ALL_UNPAID_MAX: usize = 4096;

/// A reconnect of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconnect {
    /// The host.
    pub host: HostId,
    /// The number of the host's new controller.
    pub controller: u16,
    /// The time of the first I/O queue's Connect.
    pub since: Nanos,
}

/// An unpaid reconnect.
#[derive(Debug)]
struct Debt {
    reconnect: Reconnect,
    /// The time at which all limits have paid for the reconnect's last command.
    until: Nanos,
}

/// The unpaid reconnects of all hosts.
#[derive(Debug, Default)]
pub(super) struct Debts(Mutex<Vec<Debt>>);

impl Debts {
    /// Calls `charge` for a command of a reconnect, unless the host has too many unpaid ones. `charge`
    /// returns the time at which the command is paid for; `None`: it was not charged. Returns whether
    /// the command was charged.
    pub(super) fn charge(
        &self,
        now: Nanos,
        reconnect: Reconnect,
        charge: impl FnOnce() -> Option<Nanos>,
    ) -> bool {
        let mut debts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        debts.retain(|debt| debt.until > now);
        let known = debts.iter().position(|debt| debt.reconnect == reconnect);
        let of_host = debts.iter().filter(|debt| debt.reconnect.host == reconnect.host).count();
        if known.is_none() && (of_host >= UNPAID_MAX || debts.len() >= ALL_UNPAID_MAX) {
            return false;
        }
        let Some(until) = charge() else { return false };
        match known.and_then(|at| debts.get_mut(at)) {
            Some(debt) => debt.until = debt.until.max(until),
            None => debts.push(Debt { reconnect, until }),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::limit::{Rate, TOLERANCE};
    use crate::session::{SessionSpec, Sessions};
    use crate::testing::{ROOT, SECOND, spec};

    const MIB: u64 = 1 << 20;

    /// Makes a session `low` with 1 MiB/s below `top` with `above` bytes a second, and an unlimited one.
    fn sessions(above: u64) -> Sessions {
        let limited = |name, parent, rate| SessionSpec {
            bandwidth: Rate::per_second(rate),
            ..spec(name, parent)
        };
        let (top, low) = (limited("top", None, above), limited("low", Some("top"), MIB));
        crate::testing::sessions(&ROOT, &[top, low, spec("free", None)])
    }

    fn reconnect(host: u64, at: u64) -> Reconnect {
        Reconnect { host: HostId(host), controller: 7, since: Nanos(at) }
    }

    #[test]
    fn d1_resent_commands_are_charged_to_each_limit() {
        let sessions = sessions(MIB / 2);
        let [low, top, free] = ["low", "top", "free"].map(|name| sessions.named(name).unwrap());
        for _ in 0..64 {
            assert!(low.charge_resent(Nanos(SECOND), reconnect(1, SECOND), true, MIB));
        }
        for (session, seconds) in [(low, 64), (top, 128)] {
            let paid = session.all.bandwidth.check(Nanos(2 * SECOND)).unwrap_err();
            assert_eq!(paid.0.div_ceil(SECOND), 1 + seconds, "{}", session.name());
            assert!(session.all.bandwidth.check(paid).is_ok());
        }
        let is_charged = free.charge_resent(Nanos(SECOND), reconnect(1, SECOND), true, MIB);
        assert!(!is_charged, "no limit exists");
    }

    #[test]
    fn d1_a_host_has_two_unpaid_reconnects_at_most() {
        let sessions = sessions(64 * MIB);
        let low = sessions.named("low").unwrap();
        let again =
            |at: u64, host| low.charge_resent(Nanos(at), reconnect(host, at), true, 60 * MIB);
        assert!(again(10 * SECOND, 1) && again(40 * SECOND, 1), "two outages in short order");
        assert!(!again(41 * SECOND, 1) && !again(69 * SECOND, 1), "a third during the debt");
        assert!(again(69 * SECOND, 2), "another host");
        assert!(again(71 * SECOND, 1), "the first is repaid");
        assert!(!again(72 * SECOND, 1));
    }

    #[test]
    fn d1_debt_of_a_limit_is_bounded() {
        let sessions = sessions(1000 * MIB);
        let low = sessions.named("low").unwrap();
        let passed =
            (0..1000).filter(|_| low.charge_resent(Nanos(0), reconnect(1, 0), true, MIB)).count();
        assert_eq!(passed, 400);
        assert!(!low.charge_resent(Nanos(0), reconnect(2, 0), true, MIB), "nor under another name");
        assert!(low.charge_resent(Nanos(SECOND), reconnect(2, 0), true, MIB));
    }

    /// Generates events: ns since the event before, host, action (0: reconnect, 1 to 5: resend, others:
    /// new command), bytes.
    fn events() -> impl Strategy<Value = Vec<(u64, u64, u8, u64)>> {
        let gap = prop_oneof![3 => Just(0), 3 => 0..SECOND, 1 => 0..40 * SECOND];
        prop::collection::vec((gap, 0..3_u64, 0..8_u8, 1..2 * MIB), 1..400)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

        /// In any interval, hosts that reconnect at random get at most their limit and the content of
        /// their queues for two reconnects. Every debt is repaid.
        #[test]
        fn d1_limit_holds_across_random_reconnects(events in events()) {
            const CONTENT: u64 = 8 * MIB;
            let sessions = sessions(1000 * MIB);
            let low = sessions.named("low").unwrap();
            let (mut now, mut passed) = (SECOND, Vec::new());
            let mut hosts: HashMap<u64, (u64, u64)> = HashMap::new();
            for (gap, host, what, bytes) in events {
                now += gap;
                match what {
                    0 => drop(hosts.insert(host, (now, 0))),
                    1..=5 => {
                        let Some((since, sent)) = hosts.get_mut(&host) else { continue };
                        if *sent + bytes > CONTENT {
                            continue;
                        }
                        *sent += bytes;
                        if low.charge_resent(Nanos(now), reconnect(host, *since), true, bytes) {
                            passed.push((now, bytes));
                        }
                    }
                    _ if low.all.bandwidth.take(Nanos(now), bytes).is_ok() => passed.push((now, bytes)),
                    _ => {}
                }
            }
            let more = 3 * 2 * CONTENT + 2 * MIB + MIB * TOLERANCE.0 / SECOND;
            for (begin, &(from, _)) in passed.iter().enumerate() {
                let mut sum = 0;
                for &(at, bytes) in passed.iter().skip(begin) {
                    sum += bytes;
                    let due = u128::from(MIB) * u128::from(at - from) / u128::from(SECOND);
                    prop_assert!(u128::from(sum) <= due + u128::from(more) + 1, "{sum} in {} ns", at - from);
                }
            }
            let end = now + more * SECOND / MIB;
            prop_assert!(low.all.bandwidth.check(Nanos(end)).is_ok(), "the debt is too long");
            prop_assert!(low.charge_resent(Nanos(end), reconnect(0, end), true, 1), "a repaid debt is kept");
        }
    }
}
