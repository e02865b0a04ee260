//! Tests of the division among nodes: shares, turns, expiry, and whole racks of nodes in simulated time.

use proptest::prelude::*;

use super::*;
use crate::session::{RootSpec, SessionSpec};
use crate::testing::{MS, ROOT, named, sessions, spec};

fn session(operations: u32, bandwidth: Option<u64>) -> Arc<Session> {
    let root = RootSpec { caps: Caps { operations, payload: u64::MAX }, ..ROOT };
    let bandwidth = bandwidth.and_then(Rate::per_second);
    named(&sessions(&root, &[SessionSpec { bandwidth, ..spec("a", None) }]), "a")
}

fn report(in_flight: u32, waiting: u32) -> NodeReport {
    let of = |operations| Used { operations, payload: u64::from(operations) * 4 };
    NodeReport { in_flight: of(in_flight), waiting: of(waiting), completed: Used::default() }
}

fn operations(table: &mut NodeTable, at: u64, session: &Arc<Session>, node: &str) -> u32 {
    table.share(Nanos(at * MS), session, node).caps.operations
}

#[test]
fn f6_backlogged_nodes_share_equally() {
    let (mut table, session) = (NodeTable::default(), session(100, None));
    for (name, report) in [("a", report(60, 500)), ("b", report(1, 0)), ("c", report(40, 9))] {
        table.report(Nanos(1000 * MS), &session, name, report);
    }
    let shares = ["a", "b", "c"].map(|name| operations(&mut table, 1001, &session, name));
    assert_eq!(shares, [47, 6, 47], "twice one, and a batch; the rest in halves");
}

#[test]
fn d6_lone_node_has_the_whole_session() {
    let (mut table, session) = (NodeTable::default(), session(100, Some(1 << 20)));
    table.report(Nanos(1000 * MS), &session, "a", report(1, 0));
    let share = table.share(Nanos(1001 * MS), &session, "a");
    assert_eq!(share.caps, Caps { operations: 100, payload: u64::MAX });
    let [all, ..] = share.rates;
    assert_eq!((all.bandwidth.map(Rate::get), all.iops), (Some(1 << 20), None));
}

#[test]
fn f5_more_nodes_than_batches_are_active_in_turn() {
    let (mut table, session) = (NodeTable::default(), session(9, None));
    let names: Vec<String> = (0..5).map(|number| format!("n{number}")).collect();
    let mut active = [0; 5];
    for round in 0..10 {
        let at = 1000 + round * 100;
        for name in &names {
            table.report(Nanos(at * MS), &session, name, report(4, 10));
        }
        let shares: Vec<u32> =
            names.iter().map(|name| operations(&mut table, at, &session, name)).collect();
        assert_eq!(shares.iter().filter(|share| **share == BATCH).count(), 2, "{shares:?}");
        assert_eq!(shares.iter().filter(|share| **share == 1).count(), 3, "never blocked");
        for (count, share) in active.iter_mut().zip(shares) {
            *count += usize::from(share == BATCH);
        }
    }
    assert_eq!(active, [4; 5]);
}

#[test]
fn d6_lost_node_returns_its_share_when_its_credits_expire() {
    let (mut table, session) = (NodeTable::default(), session(100, None));
    table.report(Nanos(1000 * MS), &session, "lost", report(50, 50));
    for at in [1000, 2000, 2900, 3200] {
        table.report(Nanos(at * MS), &session, "here", report(50, 50));
        let want = if at <= 3000 { 50 } else { 100 };
        assert_eq!(operations(&mut table, at, &session, "here"), want, "{at} ms");
    }
    assert_eq!(table.nodes(&session), 1);
}

#[test]
fn f6_satisfied_node_leaves_its_rate_to_others() {
    let limit = 100 << 20;
    let (mut table, session) = (NodeTable::default(), session(1000, Some(limit)));
    let done = |kib: u64| Used { operations: 0, payload: kib };
    for (at, small) in [(1000, 0), (2000, 10 << 10)] {
        let greedy = NodeReport { completed: done(90 * small / 10), ..report(50, 50) };
        let small = NodeReport { completed: done(small), ..report(2, 0) };
        table.report(Nanos(at * MS), &session, "greedy", greedy);
        table.report(Nanos(at * MS), &session, "small", small);
    }
    let mut of = |name: &str| {
        let [all, ..] = table.share(Nanos(2000 * MS), &session, name).rates;
        all.bandwidth.map_or(0, Rate::get) * 1000 / limit
    };
    // All but 10 % and 1/256 of the limit: the small node has not been held back.
    assert_eq!((of("small"), of("greedy")), (896, 896));
}

#[test]
fn f6_names_without_end_take_no_memory_without_end() {
    let (mut table, session) = (NodeTable::default(), session(100, None));
    for number in 0..2 * NODES_MAX as u64 {
        table.report(Nanos(number * MS / 10), &session, &format!("n{number}"), report(1, 1));
    }
    assert_eq!(table.nodes(&session), NODES_MAX);
}

proptest! {
    /// While there are batches for all, the shares of nodes with demand are the whole, and a node with a backlog
    /// has at least an equal part of it. No node is ever without an operation.
    #[test]
    fn d6_shares_of_any_nodes_are_the_whole(
        cap in 1u32..2000,
        nodes in prop::collection::vec((0u32..300, 0u32..300), 1..60),
    ) {
        let (mut table, session) = (NodeTable::default(), session(cap, None));
        let name = |number: usize| format!("n{number}");
        for (number, (in_flight, waiting)) in nodes.iter().enumerate() {
            table.report(Nanos(1000 * MS), &session, &name(number), report(*in_flight, *waiting));
        }
        let shares: Vec<u32> = (0..nodes.len())
            .map(|number| operations(&mut table, 1000, &session, &name(number)))
            .collect();
        prop_assert!(shares.iter().all(|share| *share >= 1));
        let demand = |at: &usize| nodes[*at].0 > 0 || nodes[*at].1 > 0;
        let wanting: Vec<usize> = (0..nodes.len()).filter(demand).collect();
        let count = u32::try_from(wanting.len()).unwrap();
        let sum: u32 = wanting.iter().map(|at| shares[*at]).sum();
        if count * BATCH <= cap && count > 0 {
            prop_assert!(sum <= cap && sum > cap - count, "{sum} of {cap}");
            let backlogged = wanting.iter().filter(|at| nodes[**at].1 > 0);
            prop_assert!(backlogged.clone().all(|at| shares[*at] >= cap / count));
        } else if count > 0 {
            prop_assert!(sum <= cap.max(BATCH) + count, "{sum} of {cap}");
        }
    }

    #[test]
    fn d6_max_min_gives_claims_or_equal_parts(
        amount in 0u64..10_000,
        claims in prop::collection::vec(0u64..1000, 1..40),
    ) {
        let shares = divide_max_min(amount, &claims);
        let count = claims.len() as u64;
        let sum: u64 = shares.iter().sum();
        prop_assert!(sum <= amount && sum + 2 * count > amount);
        for (share, claim) in shares.iter().zip(&claims) {
            prop_assert!(*share >= (*claim).min(amount / count));
        }
    }
}

/// A process of a node in simulated time: it holds operations that the target completes at the session's rate.
struct SimulatedNode {
    name: String,
    /// Operations that its processes want in flight, all together.
    greed: u32,
    in_flight: u32,
    completed: u32,
    allowed: u32,
    valid_until: u64,
    /// Whether its agent is alive.
    has_agent: bool,
}

#[test]
fn d6_thousand_nodes_keep_within_session() {
    let nodes = 1000;
    let session = session(8000, None);
    let mut random = fastrand::Rng::with_seed(7);
    let mut table = NodeTable::default();
    let mut all: Vec<SimulatedNode> = (0..nodes)
        .map(|number| SimulatedNode {
            name: format!("n{number}"),
            // Ten processes each.
            greed: (0..10).map(|_| random.u32(1..8)).sum(),
            in_flight: 0,
            completed: 0,
            allowed: BATCH,
            valid_until: u64::MAX,
            has_agent: true,
        })
        .collect();
    let mut most = 0;
    let mut total = 0_u64;
    for step in 0..400_u64 {
        // 25 ms each; a clock step of the target by 5 s in the middle.
        let at = 1000 + step * 25 + if step > 200 { 5000 } else { 0 };
        let now = Nanos(at * MS);
        for node in &mut all {
            if random.u32(0..4000) == 0 {
                node.has_agent = !node.has_agent;
            }
            // Each agent reports four times a second, and one report or answer in fifty is lost.
            let is_due = node.has_agent && random.u32(0..10) == 0;
            if is_due && random.u32(0..50) != 0 {
                let waiting = node.greed.saturating_sub(node.in_flight);
                let completed = Used { operations: node.completed, payload: 0 };
                let sent = NodeReport { completed, ..report(node.in_flight, waiting) };
                table.report(now, &session, &node.name, sent);
                if random.u32(0..50) != 0 {
                    node.allowed = table.share(now, &session, &node.name).caps.operations;
                    node.valid_until = at + VALID.0 / MS;
                }
            }
            if node.valid_until < at {
                // Without an agent the node is bounded by the target alone.
                node.allowed = u32::MAX;
            }
            node.in_flight = node.in_flight.max(node.greed.min(node.allowed)).min(node.greed);
        }
        let in_flight: u32 =
            all.iter().filter(|node| node.allowed != u32::MAX).map(|node| node.in_flight).sum();
        if step > 100 && !(200..300).contains(&step) {
            most = most.max(in_flight);
        }
        // The target completes up to 8,000 in a step, of each node in proportion.
        let sum: u32 = all.iter().map(|node| node.in_flight).sum();
        for node in &mut all {
            let done = if sum <= 8000 { node.in_flight } else { node.in_flight * 8000 / sum };
            node.in_flight -= done;
            node.completed += done;
            total += u64::from(done);
        }
    }
    // 2 % over the session's 8,000: credits of the round before are still in use.
    assert!(most <= 8160, "{most} operations in flight");
    let least = all.iter().map(|node| node.completed).min().unwrap_or(0);
    assert!(least >= 400 / 2, "a node completed {least} operations in 400 steps");
    assert!(total >= 400 * 8000 * 9 / 10, "{total} operations in all");
}
