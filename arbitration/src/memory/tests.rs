//! Tests of the gate to the I/O memory.

use std::collections::{BTreeMap, HashSet, VecDeque};

use proptest::prelude::*;

use super::*;
use crate::Nanos;
use crate::session::{HostId, SessionSpec, Sessions};
use crate::settings::Unit;
use crate::testing::{ROOT, spec};

/// Sessions, each with the one above it.
const SESSIONS: [(&str, Option<&str>); 4] =
    [("a", None), ("b", None), ("b1", Some("b")), ("b2", Some("b"))];

fn sessions() -> Sessions {
    crate::testing::sessions(&ROOT, &SESSIONS.map(|(name, parent)| spec(name, parent)))
}

fn gate<T>(pages: u32) -> MemoryGate<T> {
    MemoryGate::new(&OrderSettings::default(), (pages * PAGE) as usize)
}

/// Makes a gate with the flow of a host of session "a".
fn gate_with_flow<T>(pages: u32) -> (MemoryGate<T>, MemoryFlowId, Sessions) {
    let (mut gate, sessions) = (gate(pages), sessions());
    let flow = gate.flow(sessions.named("a").unwrap(), HostId(1));
    (gate, flow, sessions)
}

/// Takes all grants that there are.
fn pull_all<T>(gate: &mut MemoryGate<T>) -> VecDeque<(T, MemoryGrant)> {
    std::iter::from_fn(|| gate.pull()).collect()
}

/// Returns memory, the oldest grant first, and takes all grants that follow, until none is left. Returns all items in
/// the order of their grants.
fn drain<T: Copy>(gate: &mut MemoryGate<T>, mut held: VecDeque<(T, MemoryGrant)>) -> Vec<T> {
    let mut items: Vec<_> = held.iter().map(|(item, _)| *item).collect();
    while let Some((_, grant)) = held.pop_front() {
        gate.give_back(grant);
        let next = pull_all(gate);
        items.extend(next.iter().map(|(item, _)| *item));
        held.extend(next);
    }
    items
}

/// Lets six hosts of session "a" wait for all memory, and takes their grants.
fn take_all(gate: &mut MemoryGate<u32>, sessions: &Sessions) -> VecDeque<(u32, MemoryGrant)> {
    for host in 2..8 {
        let flow = gate.flow(sessions.named("a").unwrap(), HostId(host));
        for _ in 0..100 {
            gate.enqueue(flow, Class::Urgent, 16 * PAGE, 0);
        }
    }
    pull_all(gate)
}

#[test]
fn f4_memory_set_aside_is_left_to_tenant() {
    let sessions = sessions();
    let tenant = sessions.named("b").unwrap();
    assert!(tenant.set_aside(u64::from(400 * PAGE)), "more than a host's quarter");
    let mut gate = gate(1024).setting_aside();
    let flow = gate.flow(sessions.named("b1").unwrap(), HostId(1));
    let held = take_all(&mut gate, &sessions);
    // All but the memory set aside, and the reserve.
    assert_eq!(gate.held(), (1024 - 400 - 128) / 16 * 16);
    for n in 1..=30 {
        gate.enqueue(flow, Class::Low, 16 * PAGE, n);
    }
    let mut own = pull_all(&mut gate);
    assert!(own.iter().map(|(n, _)| *n).eq(1..=25));
    assert!(own.iter().all(|(_, grant)| gate.is_for_reserve(grant)), "and have buffers at once");
    gate.give_back(own.pop_front().unwrap().1);
    assert_eq!(gate.pull().map(|(n, grant)| (n, grant.pages())), Some((26, 16)), "its own again");
    assert!(gate.pull().is_none());
    drop((held, own));
}

#[test]
fn f4_released_set_aside_memory_is_shared() {
    let sessions = sessions();
    let tenant = sessions.named("b").unwrap();
    assert!(tenant.set_aside(u64::from(256 * PAGE)) && !tenant.set_aside(u64::from(256 * PAGE)));
    let mut gate = gate(1024).setting_aside();
    let flow = gate.flow(tenant, HostId(1));
    let _held = take_all(&mut gate, &sessions);
    assert_eq!((gate.held(), gate.left_aside()), (1024 - 256 - 128, 256 * PAGE as usize));
    assert!(tenant.set_aside(0));
    let _more = pull_all(&mut gate);
    assert_eq!((gate.held(), gate.left_aside()), (1024 - 128, 0));
    gate.release(flow);
    // Nothing is set aside in other gates, or for absent tenants.
    assert!(tenant.set_aside(u64::from(256 * PAGE)));
    assert_eq!(gate.left_aside(), 0);
    let mut reads = self::gate(1024);
    let _flow = reads.flow(tenant, HostId(1));
    let _held = take_all(&mut reads, &sessions);
    assert_eq!(reads.held(), 1024 - 128);
}

#[test]
fn f5_hosts_take_turns_with_a_batch_each() {
    // Eight hosts have eight commands each, and there is memory for 28 commands beside the reserve.
    let chosen = |burst| {
        let sessions = sessions();
        // Batches are of commands, as in the source.
        let order = OrderSettings { burst, unit: Unit::Commands, ..OrderSettings::default() };
        let mut gate = MemoryGate::new(&order, (1024 * PAGE) as usize);
        for n in 0..64_u32 {
            let flow = gate.flow(sessions.named("a").unwrap(), HostId(u64::from(n % 8)));
            gate.enqueue(flow, Class::Medium, 32 * PAGE, n % 8);
        }
        let held = pull_all(&mut gate);
        drain(&mut gate, held)
    };
    let batches = |size: u32| (0..64).map(|n| n / size % 8).collect::<Vec<_>>();
    assert_eq!(chosen(4), batches(4), "those of the last host wait until the first have ended");
    assert_eq!(chosen(1), batches(1), "commands of all hosts, where bursts have one command");
}

#[test]
fn no_host_has_more_than_a_quarter() {
    let sessions = sessions();
    let mut gate = gate(1024);
    let flows = [1, 2].map(|host| gate.flow(sessions.named("a").unwrap(), HostId(host)));
    for n in 0..100 {
        gate.enqueue(flows[0], Class::Low, 128 << 10, n);
    }
    let mut held = pull_all(&mut gate);
    // Of 1,024 pages a quarter is 8 commands of 128 KiB.
    assert_eq!((held.len(), gate.held_by(flows[0])), (8, 256), "the rest waits beside free memory");
    gate.enqueue(flows[1], Class::Low, 128 << 10, 100);
    held.extend(pull_all(&mut gate));
    assert_eq!(held.len(), 9, "another host finds memory at once");
    let mut order = drain(&mut gate, held);
    assert_eq!((order.len(), gate.waiting(), gate.held()), (101, 0, 0));
    order.retain(|item| *item < 100);
    assert!(order.is_sorted(), "a host's commands go in the order in which they came");
}

#[test]
fn host_goes_on_after_its_blocked_command_was_withdrawn() {
    let (mut gate, flow, _sessions) = gate_with_flow(64);
    let first = gate.pass(flow, Class::Low, 16 * PAGE).unwrap();
    let waits = gate.enqueue(flow, Class::Low, 16 * PAGE, 2);
    assert!(gate.pull().is_none(), "the host has its quarter");
    assert_eq!(gate.cancel(waits), Some(2));
    gate.give_back(first);
    gate.enqueue(flow, Class::Low, 16 * PAGE, 3);
    assert_eq!(gate.pull().map(|(n, grant)| (n, grant.pages())), Some((3, 16)));
}

#[test]
fn a_host_has_one_quarter_whatever_its_sessions() {
    let sessions = sessions();
    let mut gate = gate(1024);
    let flows = ["a", "b1", "b2"].map(|name| gate.flow(sessions.named(name).unwrap(), HostId(1)));
    for n in 0..60 {
        gate.enqueue(flows[n % 3], Class::ALL[n % 4], 32 * PAGE, n);
    }
    let mut held = pull_all(&mut gate);
    assert_eq!((held.len(), gate.held()), (8, 256));
    let mut went = 8;
    while let Some((_, grant)) = held.pop_back() {
        gate.give_back(grant);
        let next = pull_all(&mut gate);
        assert!(next.len() <= 1 && gate.held() <= 256, "{} pages", gate.held());
        went += next.len();
        held.extend(next);
    }
    assert_eq!(went, 60, "what one session gives back another goes on with");
}

/// Lets hosts take all the memory that they can get in commands of one size, and keep it. Returns
/// the pages that are left.
fn left_by(hosts: u64, pages: u32, bytes: u32) -> (MemoryGate<u64>, Sessions, u32) {
    let sessions = sessions();
    let mut gate = gate(pages);
    for host in 0..hosts {
        let flow = gate.flow(sessions.named("a").unwrap(), HostId(host));
        for _ in 0..2 * pages {
            gate.enqueue(flow, Class::Urgent, bytes, host);
        }
        // The grants are never given back.
        while gate.pull().is_some() {}
    }
    let left = pages - gate.held();
    (gate, sessions, left)
}

#[test]
fn hoarding_host_cannot_starve_others() {
    for (hosts, bytes) in [(1, PAGE), (4, PAGE), (12, 256 * PAGE), (16, PAGE), (100, PAGE)] {
        let (mut gate, sessions, left) = left_by(hosts, 16_384, bytes);
        let flow = gate.flow(sessions.named("b").unwrap(), HostId(1 << 40));
        let least = if bytes > PAGE { 768_u64 } else { 2048 - hosts * 16 };
        assert!(u64::from(left) >= least, "{left}: {hosts} of {bytes}");
        let first = gate.pass(flow, Class::Low, PAGE);
        assert!(first.is_some(), "a host that holds nothing goes at once");
        gate.enqueue(flow, Class::Low, PAGE, u64::MAX);
        let next = gate.pull().map(|(item, _)| item);
        assert_eq!(next, Some(u64::MAX), "before those that have waited longer and hold much");
    }
}

#[test]
fn large_holders_get_nothing_from_reserve() {
    let (gate, _, left) = left_by(5, 16_384, 64 * PAGE);
    assert!(left > 16_384 / 8 - 3 * 64, "two hosts found only their first command there: {left}");
    assert!(gate.waiting() > 0);
}

#[test]
fn memory_used_by_others_is_unavailable() {
    let (mut gate, flow, _sessions) = gate_with_flow(1024);
    gate.set_others(1000 * PAGE as usize, 0);
    assert!(gate.pass(flow, Class::High, 25 * PAGE).is_none());
    gate.enqueue(flow, Class::High, 25 * PAGE, ());
    assert!(gate.pull().is_none(), "24 pages are left");
    gate.set_others(999 * PAGE as usize, 0);
    assert!(gate.pull().is_some());
    gate.set_others(0, 1024 * PAGE as usize);
    assert!(gate.pass(flow, Class::High, PAGE).is_none(), "all is kept for others");
}

#[test]
fn oversized_commands_are_admitted_alone() {
    let (mut gate, flow, _sessions) = gate_with_flow(16);
    for (bytes, item) in [(8 * PAGE, 0), (1000 * PAGE, 1), (0, 2)] {
        gate.enqueue(flow, Class::High, bytes, item);
    }
    for (pages, expected) in [(8, 0), (16, 1), (1, 2)] {
        let (item, grant) = gate.pull().unwrap();
        assert_eq!((item, grant.pages()), (expected, pages));
        assert!(gate.pull().is_none(), "it has its quarter");
        gate.give_back(grant);
    }
}

/// Runs hosts on sessions that always have commands waiting. Returns how many commands of each the
/// gate let go.
fn flood(hosts: &[(&str, Class)], commands: usize) -> Vec<f64> {
    let sessions = sessions();
    let mut gate = gate(64 * 32);
    let flows: Vec<_> = (0..)
        .zip(hosts)
        .map(|(host, (name, _))| gate.flow(sessions.named(name).unwrap(), HostId(host)))
        .collect();
    for (index, (flow, (_, class))) in flows.iter().zip(hosts).enumerate() {
        for _ in 0..64 {
            gate.enqueue(*flow, *class, 128 << 10, index);
        }
    }
    let (mut held, mut went) = (VecDeque::new(), vec![0.0; hosts.len()]);
    for _ in 0..commands {
        while let Some((index, grant)) = gate.pull() {
            went[index] += 1.0;
            held.push_back(grant);
            gate.enqueue(flows[index], hosts[index].1, 128 << 10, index);
        }
        gate.give_back(held.pop_front().unwrap());
    }
    assert!(gate.held() >= 55 * 32, "the memory is used, but for the reserve");
    went
}

#[test]
fn classes_share_by_weight_then_sessions_and_hosts() {
    use Class::{High, Low, Medium, Urgent};
    let close = |got: f64, want: f64| assert!((got / want - 1.0).abs() < 0.02, "{got}, not {want}");
    // Three hosts each, so that none reaches its quarter.
    let classes: Vec<_> = [High, Medium, Low].into_iter().flat_map(|c| [("a", c); 3]).collect();
    let went = flood(&classes, 20_000);
    let of = |went: &[f64], range: std::ops::Range<usize>| went[range].iter().sum::<f64>();
    close(of(&went, 0..3) / of(&went, 6..9), 3.0);
    close(of(&went, 3..6) / of(&went, 6..9), 2.0);
    // Sessions a and b in turn, in b the sessions b1 and b2, in each of these its hosts.
    let names = [("a", Low); 4].into_iter().chain([("b1", Low); 2]).chain([("b2", Low); 6]);
    let went = flood(&names.collect::<Vec<_>>(), 20_000);
    let total = of(&went, 0..12);
    close(of(&went, 0..4) / total, 0.5);
    close(of(&went, 4..6) / total, 0.25);
    close(of(&went, 6..12) / total, 0.25);
    went[6..12].iter().for_each(|went| close(went / total, 0.25 / 6.0));
    // Urgent has its share of 20 % first, and High's weight of the rest.
    let classes: Vec<_> = [Urgent, High].into_iter().flat_map(|c| [("a", c); 3]).collect();
    let went = flood(&classes, 20_000);
    close(of(&went, 0..3) / of(&went, 0..6), 0.6);
}

#[test]
fn urgent_goes_before_all_that_waited_longer() {
    let sessions = sessions();
    let mut gate = gate(64);
    let session = sessions.named("a").unwrap();
    let flows = [1, 2, 3].map(|host| gate.flow(session, HostId(host)));
    for (flow, class) in flows.into_iter().zip([Class::Low, Class::High, Class::Urgent]) {
        for _ in 0..3 {
            gate.enqueue(flow, class, PAGE, class);
        }
    }
    let order = pull_all(&mut gate);
    assert_eq!(order.iter().take_while(|(class, _)| *class == Class::Urgent).count(), 3);
}

/// A command that waits: the item, its entry and its bytes.
type Waiting = (u64, MemoryEntryId, u32);

/// A history of the gate, and its invariants.
struct History {
    gate: MemoryGate<u64>,
    pages: u32,
    sessions: Sessions,
    flows: Vec<MemoryFlowId>,
    /// The commands that wait, by flow and class, in order.
    waiting: BTreeMap<(usize, usize), VecDeque<Waiting>>,
    held: Vec<(usize, MemoryGrant)>,
    sent: u64,
    gone: HashSet<u64>,
}

impl History {
    fn new(pages: u32) -> Self {
        let (mut gate, sessions) = (gate(pages), sessions());
        let session = |n: usize| sessions.named(SESSIONS[n % 4].0).unwrap();
        let flows = (0..8).map(|n| gate.flow(session(n), HostId(n as u64 / 4))).collect();
        Self {
            gate,
            pages,
            sessions,
            flows,
            waiting: BTreeMap::new(),
            held: Vec::new(),
            sent: 0,
            gone: HashSet::new(),
        }
    }

    fn enqueue(&mut self, which: usize, bytes: u32) {
        let (flow, class) = (which % 8, which / 8 % 4);
        let entry = self.gate.enqueue(self.flows[flow], Class::ALL[class], bytes, self.sent);
        self.waiting.entry((flow, class)).or_default().push_back((self.sent, entry, bytes));
        self.sent += 1;
    }

    fn cancel(&mut self, which: usize) {
        let queues: Vec<_> = self.waiting.values_mut().filter(|queue| !queue.is_empty()).collect();
        let count = queues.len();
        if let Some(queue) = queues.into_iter().nth(which % count.max(1)) {
            let (item, entry, _) = queue.remove(which / 7 % queue.len()).unwrap();
            assert_eq!(self.gate.cancel(entry), Some(item));
            assert!(self.gone.insert(item), "taken back twice");
        }
    }

    fn pull(&mut self) -> bool {
        let before = self.gate.held();
        let Some((item, grant)) = self.gate.pull() else {
            self.check_that_none_could_go();
            return false;
        };
        let head = |queue: &VecDeque<Waiting>| queue.front().map(|head| head.0);
        let found = self.waiting.iter_mut().find(|(_, queue)| head(queue) == Some(item));
        let ((flow, _), queue) = found.expect("the first of its flow and class");
        let (_, _, bytes) = queue.pop_front().unwrap();
        assert!(self.gone.insert(item), "pulled twice");
        assert_eq!(grant.pages(), bytes.div_ceil(PAGE).max(1).min(self.pages - before));
        let host = flow / 4;
        let held: u32 = (0..4).map(|n| self.gate.held_by(self.flows[host * 4 + n])).sum();
        let (others, left) = (held - grant.pages(), self.pages - self.gate.held());
        let in_turn = left >= self.pages / RESERVE_PART;
        let little = others == 0 || held <= left + grant.pages();
        assert!(in_turn || little || before == 0, "{held} pages of one host, {left} are left");
        self.held.push((*flow, grant));
        self.check();
        true
    }

    fn give_back(&mut self, which: usize) {
        if !self.held.is_empty() {
            let (_, grant) = self.held.swap_remove(which % self.held.len());
            self.gate.give_back(grant);
            self.check();
        }
    }

    fn check(&self) {
        let sum: u32 = self.held.iter().map(|(_, grant)| grant.pages()).sum();
        assert_eq!(self.gate.held(), sum, "pages that are held are those of the grants");
        assert!(sum <= self.pages);
        for flow in 0..8 {
            let grants = self.held.iter().filter(|(of, _)| *of == flow);
            let pages: u32 = grants.map(|(_, grant)| grant.pages()).sum();
            assert_eq!(pages, self.gate.held_by(self.flows[flow]));
        }
        for host in 0..2 {
            let grants = || self.held.iter().filter(|(of, _)| *of / 4 == host);
            let pages: u32 = grants().map(|(_, grant)| grant.pages()).sum();
            assert!(grants().count() <= 1 || pages * 4 <= self.pages, "more than a quarter");
        }
    }

    /// Checks that each waiting host has its quarter, or waits behind a command for which memory is
    /// short, and that hosts that hold nothing find the reserve.
    fn check_that_none_could_go(&self) {
        let waits = |flow: usize| {
            let heads = self.waiting.iter().filter(move |((of, _), _)| *of == flow);
            heads.filter_map(|(_, queue)| queue.front()).map(|head| pages_of(head.2))
        };
        let left = self.pages - self.gate.held();
        let in_turn = left.saturating_sub(self.pages / RESERVE_PART);
        let short = (0..8).flat_map(waits).any(|pages| pages > in_turn);
        for flow in 0..8 {
            let host = flow / 4 * 4;
            let held: u32 = (host..host + 4).map(|n| self.gate.held_by(self.flows[n])).sum();
            let blocked = held > 0 && waits(flow).any(|pages| (held + pages) * 4 > self.pages);
            let none = waits(flow).next().is_none();
            let cancelled = held > 0 && self.gate.flows[self.flows[flow].0.at()].blocked;
            assert!(none || blocked || short || cancelled, "flow {flow} waits for nothing");
            // The reserve is asked with the first command of the flow's first class.
            let first = waits(flow).next();
            assert!(
                held > 0 || first.is_none_or(|pages| pages > left / ONE_PART),
                "flow {flow} holds nothing, and {left} pages are left"
            );
        }
        let is_stuck = self.gate.waiting() > 0 && self.gate.held() == 0;
        assert!(!is_stuck, "all wait, nobody holds anything");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Under any sequence of steps, no page is lost or allocated twice, no host has more than a
    /// quarter, each command is dispatched once and in its order, and waiters are woken.
    #[test]
    fn memory_is_conserved_and_waiters_are_woken(
        pages in 4u32..200,
        steps in proptest::collection::vec((0u8..10, 0usize..10_000, 0u32..60), 1..300),
    ) {
        let mut history = History::new(pages);
        for (what, which, size) in steps {
            match what {
                0..=3 => history.enqueue(which, size * 3000),
                4 => history.cancel(which),
                5 => {
                    // Another connection of the same host begins and ends.
                    let session = history.sessions.named(SESSIONS[which % 4].0).unwrap();
                    let flow = history.gate.flow(session, HostId(which as u64 / 4 % 2));
                    prop_assert_eq!(flow, history.flows[which % 8]);
                    history.gate.release(flow);
                }
                6 => {
                    let burst = if size % 2 == 0 { 1 } else { 8 };
                    let order = OrderSettings { burst, ..OrderSettings::default() };
                    history.gate.set_order(&order);
                }
                7 => history.give_back(which),
                8 => {
                    let (flow, bytes) = (which % 8, size * 3000);
                    let waits = history.waiting.iter().any(|((of, _), q)| *of == flow && !q.is_empty());
                    if let Some(grant) = history.gate.pass(history.flows[flow], Class::ALL[which / 8 % 4], bytes) {
                        prop_assert!(!waits, "it overtakes its own");
                        history.held.push((flow, grant));
                        history.check();
                    }
                }
                _ => while history.pull() {},
            }
        }
        // A host is removed; its outstanding commands stay until they end.
        for flow in history.flows.clone() {
            history.gate.release(flow);
        }
        let mut turns = 0;
        while history.gate.waiting() > 0 || !history.held.is_empty() {
            if let Some((item, grant)) = history.gate.pull() {
                prop_assert!(history.gone.insert(item), "pulled twice");
                history.held.push((0, grant));
            } else {
                let (_, grant) = history.held.pop().expect("somebody holds what others wait for");
                history.gate.give_back(grant);
            }
            turns += 1;
            prop_assert!(turns < 10_000);
        }
        prop_assert_eq!(history.gone.len() as u64, history.sent, "each command once");
        prop_assert_eq!(history.gate.held(), 0);
        prop_assert!(history.gate.by_host.is_empty() && history.gate.flows() == 0);
        prop_assert!(history.gate.holder_of.is_empty() && history.gate.holders.is_empty());
        prop_assert!(history.gate.needy.is_empty());
        prop_assert_eq!(history.gate.order.sizes(), (0, 1));
        prop_assert!(!history.gate.clock.contended());
    }
}

proptest! {
    #[test]
    fn only_permitted_commands_are_admitted(
        pages in 4_u32..200,
        steps in prop::collection::vec((0_usize..3, 1_u32..20 * PAGE, any::<bool>()), 1..200),
    ) {
        let sessions = sessions();
        let mut gate = gate::<()>(pages);
        let flows = [1, 2, 3].map(|host| gate.flow(sessions.named("a").unwrap(), HostId(host)));
        let mut held = VecDeque::new();
        for (flow, bytes, gives_back) in steps {
            let may = gate.may_pass(flows[flow], bytes);
            let grant = gate.pass(flows[flow], Class::Low, bytes);
            prop_assert_eq!(may, grant.is_some(), "{} bytes beside {} pages", bytes, gate.held());
            held.extend(grant);
            if gives_back && let Some(grant) = held.pop_front() {
                gate.give_back(grant);
            }
        }
    }
}

#[test]
fn reserve_serves_hosts_holding_little() {
    let (mut gate, flow, _sessions) = gate_with_flow::<()>(1024);
    let first = gate.pass(flow, Class::Low, PAGE).unwrap();
    assert!(gate.is_for_reserve(&first), "it holds nothing besides");
    let more: Vec<_> = (0..255).map_while(|_| gate.pass(flow, Class::Low, PAGE)).collect();
    assert!(more.len() > 200);
    assert!(!gate.is_for_reserve(&first), "its host holds a quarter besides");
    more.into_iter().for_each(|grant| gate.give_back(grant));
    assert!(gate.is_for_reserve(&first));
    gate.give_back(first);
}

#[test]
fn commands_from_reserve_leave_no_debt() {
    for weight in [None, Some(300)] {
        let (mut sessions, mut gate) = (sessions(), gate(1024));
        sessions.put(Nanos(0), &SessionSpec { weight, ..spec("b", None) }).unwrap();
        let quiet = gate.flow(sessions.named("b1").unwrap(), HostId(1));
        let mut held = take_all(&mut gate, &sessions);
        for _ in 0..100_000 {
            let grant = gate.pass(quiet, Class::Urgent, 16 * PAGE).unwrap();
            gate.give_back(grant);
        }
        // From now on it waits like the others, which have the memory.
        for n in 1..=100 {
            gate.enqueue(quiet, Class::Urgent, 16 * PAGE, n);
        }
        let mut own = 0;
        for _ in 0..60 {
            gate.give_back(held.pop_front().unwrap().1);
            let next = pull_all(&mut gate);
            own += next.iter().filter(|(n, _)| *n > 0).count();
            held.extend(next);
        }
        assert!(own >= 15, "{weight:?}: {own}, and a host may have 16 in a quarter of the memory");
    }
}

#[test]
fn d1_sessions_share_memory_by_weight() {
    let mut sessions = sessions();
    let mut gate = gate(1024);
    // Four hosts of each session: no host may have more than a quarter of the memory.
    let mut flows = Vec::new();
    for host in 1..=4 {
        for (n, name) in ["a", "b1"].into_iter().enumerate() {
            let id = HostId(host * 2 + n as u64);
            flows.push((gate.flow(sessions.named(name).unwrap(), id), n));
        }
    }
    let mut held = VecDeque::new();
    // Session "a" and session "b", above "b1", have weights that change while commands wait.
    for (of_a, of_b) in [(100, 100), (300, 100), (100, 700), (1, 1000), (100, 100)] {
        for (name, weight) in [("a", of_a), ("b", of_b)] {
            let weighted = SessionSpec { weight: Some(weight), ..spec(name, None) };
            sessions.put(Nanos(0), &weighted).unwrap();
            gate.touch_session(sessions.named(name).unwrap());
        }
        let mut served = [0_u32; 2];
        for turn in 0..8000 {
            for (flow, n) in flows.iter().copied() {
                while gate.flows[flow.0.at()].waiting < 40 {
                    gate.enqueue(flow, Class::Medium, 16 * PAGE, n);
                }
            }
            if let Some(grant) = held.pop_front() {
                gate.give_back(grant);
            }
            while let Some((n, grant)) = gate.pull_in_turn() {
                served[n] += u32::from(turn >= 100);
                held.push_back(grant);
            }
        }
        let share = f64::from(served[0]) / f64::from(served[0] + served[1]);
        let expected = f64::from(of_a) / f64::from(of_a + of_b);
        assert!((share - expected).abs() < 0.005, "{share} instead of {expected}: {served:?}");
    }
    held.into_iter().for_each(|grant| gate.give_back(grant));
}
