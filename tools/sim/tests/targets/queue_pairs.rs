//! Whole models with hosts over NVMe/RDMA.
#![expect(clippy::indexing_slicing, reason = "tests fail where something is not there")]

use std::time::Duration;

use crate::common::*;
use qtcp::Rate;
use sluice_sim::control::dcqcn::Settings;
use sluice_sim::model::{Measured, Model, Plan};
use sluice_sim::network::{Pause, RateControl, Sender, Switch};
use units::Class;

const LINE: Sender = Sender::Rate { control: RateControl::Line };

fn dcqcn() -> Sender {
    // The hosts' links have four times the rate.
    Sender::Rate { control: RateControl::Dcqcn(Settings::of(Rate::from_bits(40e9))) }
}

/// Makes a plan of three hosts, High, Medium and Low, over RDMA on a link of 10 Gbit/s that pauses
/// senders before it loses anything.
fn three(sender: Sender, writes: bool) -> Plan {
    let mut plan = plan(3, 10 * GIGABIT, 4200, on_memory());
    let pause = Some(Pause { pause: 1 << 20, resume: 1 << 19 });
    plan.topology = dumbbell(3, 10 * GIGABIT, 4200, 10, Switch { pause, ..Switch::default() });
    plan.target.io_memory = 512 << 20;
    (plan.warmup, plan.duration) = (Duration::from_millis(2000), Duration::from_millis(300));
    for host in 0..3 {
        over_rdma(&mut plan.hosts[host], sender);
        plan.hosts[host].queues = 2;
        // More than the 10 ms of queue that a flow may have under way.
        load(&mut plan, host, closed(writes, 128 << 10, 250));
    }
    three_classes(&mut plan);
    plan.stage.link.capacity = Some(10 * GIGABIT);
    plan
}

fn used(measured: &Measured) -> f64 {
    bytes(measured).iter().sum::<f64>() * 8.0 / measured.time.as_secs_f64() / 10e9
}

#[test]
fn e2_queue_pairs_share_a_link_by_class() {
    for (sender, writes) in [(dcqcn(), false), (dcqcn(), true), (LINE, false)] {
        let measured = run(three(sender, writes));
        assert_parts(&bytes(&measured), &[3.0, 2.0, 1.0], 0.1);
        assert!(used(&measured) > 0.75, "writes: {writes}, {:.2} of the link", used(&measured));
    }
}

#[test]
fn without_the_stage_a_device_s_congestion_control_treats_all_alike() {
    for writes in [false, true] {
        let mut plan = three(dcqcn(), writes);
        plan.stage.enabled = false;
        plan.warmup = Duration::from_millis(100);
        assert_parts(&bytes(&run(plan)), &[1.0, 1.0, 1.0], 0.05);
    }
}

#[test]
fn e12_urgent_passes_bulk_where_switches_know_it() {
    let latency = |priority: bool| {
        let mut plan = three(dcqcn(), false);
        (plan.warmup, plan.duration) = (Duration::from_millis(20), Duration::from_millis(50));
        let switch = Switch { priority, ..Switch::default() };
        plan.topology = dumbbell(3, 10 * GIGABIT, 4200, 1, switch);
        plan.hosts[0].class = Some(Class::Urgent);
        plan.hosts[0].dscp = plan.qos.dscp[Class::Urgent];
        plan.hosts[0].loads.clear();
        load(&mut plan, 0, steady(false, 512, 512.0 * 8.0 * 10_000.0));
        p99(&run(plan))
    };
    let (first, in_turn) = (latency(true), latency(false));
    // There and back over three links, a packet of 4 KiB that is being sent, and two turns of a reactor.
    assert!(first < 15_000, "{first} ns");
    assert!(in_turn > 2 * first, "{in_turn} ns beside {first} ns");
}

#[test]
fn a_sender_of_the_other_transport_s_kind_is_refused() {
    let mut plan = three(LINE, false);
    plan.hosts[1].answers = None;
    let error = Model::new(plan).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("sender") && error.contains("over RDMA"), "{error}");
}
