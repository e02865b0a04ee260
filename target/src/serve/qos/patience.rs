//! Limits with which connected hosts would time out that do not honour Command Retry Delays (Host
//! Behavior Support, ACRE). The target cannot send their commands back: a limit must let all pass that
//! their queues hold before they time out.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use arbitration::overload::HOST_WAIT_MAX;
use fabric::controller::HostWithoutAcre;
use sluice_config::{LimitedSize, QosConfig, ROOT_SESSION, RateLimit, Session, split_namespace};

use super::snapshot::{Asker, Rule, Rules};
use crate::sys::words::list;

/// A limit that is too low for the hosts without ACRE of its session.
#[derive(Debug, PartialEq, Eq)]
struct TooLow<'a> {
    session: &'a str,
    limit: RateLimit,
    /// The lowest value of its key that is high enough.
    least: u64,
    /// Number of commands that the hosts' queues hold.
    commands: u64,
    hosts: BTreeSet<&'a str>,
}

/// Settings, and the size of the namespaces of each session.
#[derive(Clone, Copy)]
pub(super) struct SizedSettings<'a> {
    pub(super) config: &'a QosConfig,
    pub(super) size: &'a dyn Fn(&str) -> Option<LimitedSize>,
}

/// Describes a limit that a change would lower too far for connected hosts without ACRE; `None` if there is none.
/// `largest` is the largest transfer of a command in bytes.
pub(super) fn refusal(
    before: SizedSettings<'_>,
    after: SizedSettings<'_>,
    hosts: &[HostWithoutAcre],
    largest: u32,
) -> Option<String> {
    if hosts.is_empty() {
        return None;
    }
    let was = too_low(before, hosts, largest);
    let is_lowered = |one: &&TooLow<'_>| {
        let same =
            |other: &&TooLow<'_>| (other.session, other.limit.key) == (one.session, one.limit.key);
        was.iter().find(same).is_none_or(|other| other.limit.rate > one.limit.rate)
    };
    let now = too_low(after, hosts, largest);
    let TooLow { session, limit, least, commands, hosts } = now.iter().find(is_lowered)?;
    let key = limit.key;
    let seconds = HOST_WAIT_MAX / 1_000_000_000;
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    Some(format!(
        "session {session}: with {} the {commands} commands that hosts without retry delays \
         (ACRE) may send at once take more than {seconds} s, and these hosts would time out: {}; set \
         {key} to {} or more, or disconnect these hosts first: their queues are as small as the limit \
         needs when they connect again",
        limit.written(),
        list(&hosts),
        limit.show(*least),
    ))
}

/// Lists the limits of a configuration that are too low, by the names of their sessions.
fn too_low<'a>(
    SizedSettings { config, size }: SizedSettings<'a>,
    hosts: &'a [HostWithoutAcre],
    largest: u32,
) -> Vec<TooLow<'a>> {
    let mut found = Vec::new();
    if !config.general.enabled {
        return found;
    }
    let users = users(config, hosts);
    for entry in &config.sessions {
        let Some((commands, hosts)) = users.get(entry.name.as_str()) else { continue };
        let commands = *commands;
        let bytes = commands.saturating_mul(u64::from(largest));
        // The commands of the queues may all be of one direction.
        for limit in entry.limits_with(&config.profiles).rate_limits(size(&entry.name)) {
            let rate = match limit.is_bytes {
                true => least(bytes).next_multiple_of(1024),
                false => least(commands),
            };
            if limit.rate < rate {
                let value = limit.value_for(rate);
                let least = if limit.is_bytes { value.next_multiple_of(1024) } else { value };
                let (session, hosts) = (entry.name.as_str(), hosts.clone());
                found.push(TooLow { session, limit, least, commands, hosts });
            }
        }
    }
    found
}

/// Returns the lowest rate per second at which an amount passes in time.
fn least(amount: u64) -> u64 {
    let rate = (u128::from(amount) * 1_000_000_000).div_ceil(u128::from(HOST_WAIT_MAX));
    u64::try_from(rate).unwrap_or(u64::MAX >> 1)
}

/// Returns the hosts of each session, including the sessions below it, with the number of commands that their
/// queues hold.
fn users<'a>(
    config: &'a QosConfig,
    hosts: &'a [HostWithoutAcre],
) -> BTreeMap<String, (u64, BTreeSet<&'a str>)> {
    let mut rules = Rules::default();
    for policy in &config.policies {
        rules.add(Rule { policy: policy.clone(), urgent: None, tenant: None });
    }
    let entries: HashMap<&str, &Session> =
        config.sessions.iter().map(|session| (session.name.as_str(), session)).collect();
    let mut users = BTreeMap::<String, (u64, BTreeSet<&str>)>::new();
    for host in hosts {
        let asker = Asker { host: &host.host, address: host.address };
        let mut sessions = BTreeSet::new();
        for nsid in &host.nsids {
            let fitting = rules.fitting(&asker, &host.subsystem, Some(*nsid));
            let named = fitting.iter().find_map(|rule| rule.policy.session.clone());
            let own = || format!("{}/{nsid}", host.subsystem);
            let mut above = Some(named.unwrap_or_else(own));
            while let Some(name) = above {
                above = parent(&entries, &name);
                // Those above a session that is known are known, too.
                if !sessions.insert(name) {
                    break;
                }
            }
        }
        for session in sessions {
            let (commands, hosts) = users.entry(session).or_default();
            *commands += host.commands;
            hosts.insert(&host.host);
        }
    }
    users
}

/// Returns the name of the session above another; `None` for one below the root.
fn parent(entries: &HashMap<&str, &Session>, name: &str) -> Option<String> {
    let own = entries.get(name).and_then(|session| session.parent.clone());
    let parent = own.or_else(|| split_namespace(name).map(|(nqn, _)| nqn.to_owned()));
    parent.filter(|parent| parent != ROOT_SESSION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_config::testing::{rates, total};
    use sluice_config::{Limits, LowestRates, Policy, format_size};

    const NQN: &str = "nqn.2026-01.io.x:s";
    const HOST: &str = "nqn.2026-01.io.x:h";
    const MIB: u32 = 1 << 20;

    /// A host with a queue of 128 commands.
    fn host() -> HostWithoutAcre {
        HostWithoutAcre {
            host: HOST.to_owned(),
            subsystem: NQN.to_owned(),
            address: None,
            nsids: vec![1, 2],
            commands: 128,
        }
    }

    fn gib(count: u64) -> Option<LimitedSize> {
        Some(LimitedSize { bytes: count << 30, lowest: LowestRates::default() })
    }

    /// Checks a change where each session's namespaces have 2 GiB.
    fn refusal(
        before: &QosConfig,
        after: &QosConfig,
        hosts: &[HostWithoutAcre],
        largest: u32,
    ) -> Option<String> {
        let [before, after] =
            [before, after].map(|config| SizedSettings { config, size: &|_| gib(2) });
        super::refusal(before, after, hosts, largest)
    }

    fn config(sessions: Vec<Session>) -> QosConfig {
        QosConfig { sessions, ..QosConfig::default() }
    }

    fn session(name: &str, iops: Option<u64>, bandwidth: Option<u64>) -> Session {
        Session { name: name.to_owned(), limits: total(iops, bandwidth), ..Session::default() }
    }

    #[test]
    fn a_limit_that_makes_hosts_time_out_is_refused_with_the_lowest_that_does_not() {
        let none = config(Vec::new());
        let own: &str = &format!("{NQN}/1");
        let of = |name: &str, limits: Limits, hosts: &[HostWithoutAcre]| {
            let limited = Session { limits, ..session(name, None, None) };
            refusal(&none, &config(vec![limited]), hosts, MIB)
        };
        // 128 MiB in 25 s.
        let least = (128_u64 << 20).div_ceil(25).next_multiple_of(1024);
        let more = format!("set bandwidth to {} or more", format_size(least));
        let bandwidth = [HOST, "128 commands", "bandwidth = 1 MiB", &more];
        let per_gib = |iops| Limits { per_gib: rates(Some(iops), None), ..Limits::default() };
        let sized = ["iops_per_gib = 2 (4 a second)", "set iops_per_gib to 3 or more"];
        let writes = Limits { writes: rates(Some(5), None), ..total(Some(1000), None) };
        let unseen: &str = &format!("{NQN}/3");
        for (name, limits, words) in [
            (own, total(None, Some(1 << 20)), Some(&bandwidth[..])),
            (own, total(None, Some(least)), None),
            (own, total(Some(5), None), Some(&["set iops to 6 or more"])),
            (own, total(Some(6), None), None),
            // All commands may be writes.
            (own, writes, Some(&["set write_iops to 6 or more"])),
            (own, per_gib(2), Some(&sized)),
            // 6 a second for 2 GiB.
            (own, per_gib(3), None),
            // The session above it.
            (NQN, total(Some(5), None), Some(&[])),
            (unseen, total(Some(1), None), None),
        ] {
            let text = of(name, limits, &[host()]);
            assert_eq!(text.is_some(), words.is_some(), "{name}, {limits:?}: {text:?}");
            for words in words.unwrap_or_default() {
                assert!(text.as_ref().is_some_and(|text| text.contains(words)), "{text:?}");
            }
        }
        let low = total(Some(1), None);
        assert_eq!(of(own, low, &[]), None, "others wait for their retries");
    }

    #[test]
    fn a_policy_that_moves_hosts_to_a_limit_is_refused_too() {
        let gold = vec![session("gold", Some(5), None)];
        let before = config(gold.clone());
        let to_gold = |host: &str| Policy {
            host: Some(host.to_owned()),
            session: Some("gold".to_owned()),
            ..Policy::default()
        };
        let after = |host| QosConfig { policies: vec![to_gold(host)], ..config(gold.clone()) };
        assert!(refusal(&before, &after(HOST), &[host()], MIB).is_some());
        assert_eq!(refusal(&before, &after("nqn.2026-01.io.x:o"), &[host()], MIB), None);
        let hosts = [host(), HostWithoutAcre { subsystem: "nqn.2026-01.io.x:t".into(), ..host() }];
        let text = refusal(&before, &after(HOST), &hosts, MIB).unwrap();
        assert!(text.contains("the 256 commands"), "both of its controllers: {text}");
    }

    #[test]
    fn a_change_that_lowers_no_limit_is_made() {
        let of = |iops| config(vec![session(NQN, Some(iops), None)]);
        let hosts = [host()];
        assert_eq!(refusal(&of(2), &of(2), &hosts, MIB), None, "the host came later");
        assert_eq!(refusal(&of(2), &of(3), &hosts, MIB), None);
        assert!(refusal(&of(3), &of(2), &hosts, MIB).is_some());
        let limits = Limits { per_gib: rates(Some(3), None), ..Limits::default() };
        let config = &config(vec![Session { limits, ..session(NQN, None, None) }]);
        let large = SizedSettings { config, size: &|_| gib(2) };
        let small = SizedSettings { config, size: &|_| gib(1) };
        let text = super::refusal(large, small, &hosts, MIB).unwrap();
        assert!(text.contains("iops_per_gib = 3 (3 a second)"), "a smaller namespace: {text}");
        assert_eq!(super::refusal(small, large, &hosts, MIB), None, "a larger one");
        let mut off = of(1);
        off.general.enabled = false;
        assert_eq!(refusal(&of(2), &off, &hosts, MIB), None);
    }
}
