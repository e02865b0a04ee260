//! The requests of the network's stage to a reactor (stage S6).

use std::sync::Arc;
use std::time::Duration;

use arbitration::{Class, PerClass};
use fabric::nvme::Status;
use fabric::tcp::HostParams;
use qtcp::Rate;
use qtcp::pacing::{Answers, Pacing};

use super::rig::{DRIVE, MEMORY, MS, Plan, Rig, iops, kind, of_class, read, retry_delay, write};

/// A rig with the network's stage, and its pacing of the I/O queue.
fn rig() -> (Rig, Arc<Pacing>) {
    let rig = Rig::new(&Plan { network: true, ..Plan::default() });
    let pacing = Arc::clone(&rig.paced[0]);
    (rig, pacing)
}

/// Paces the answers on a connection at a rate in bytes per second, or not at all.
fn pace_answers(pacing: &Pacing, rate: Option<u64>) {
    pacing.set_out_rate(rate);
    pacing.set_held(rate.is_some());
    pacing.hand_over(if rate.is_some() { Answers::Window(32 << 10) } else { Answers::All });
}

#[test]
fn while_a_connection_is_limited_replies_leave_in_the_order_of_their_classes() {
    let (mut rig, pacing) = rig();
    pacing.set_held(true);
    rig.peers[1].reads = false;
    let low: Vec<u16> =
        (0..6).map(|n| rig.submit(1, read(MEMORY, n * 64, 64), None, 32 << 10)).collect();
    let urgent = rig.submit(1, of_class(Class::Urgent, read(MEMORY, 0, 8)), None, 4096);
    let (moved, waiting) = pacing.out[Class::Low].read();
    assert_eq!(moved + waiting, 6 * (32 << 10), "what is sent and what waits");
    assert!(waiting >= 3 * (32 << 10), "no more than 64 KiB is handed over at once: {waiting}");
    assert_eq!(pacing.out[Class::Urgent].read(), (0, 4096));
    assert!(pacing.is_sending());
    rig.peers[1].reads = true;
    rig.run();
    let order = &rig.peers[1].order;
    let place = order.iter().position(|cid| *cid == urgent).unwrap();
    assert!(place <= order.len() - 4, "before those that waited longer: {order:?}");
    assert!(rig.succeeded(1, &low));
    assert_eq!(pacing.out[Class::Low].read(), (6 * (32 << 10), 0));
    assert_eq!(pacing.out[Class::Urgent].read(), (4096, 0));
    assert!(!pacing.is_sending());
}

#[test]
fn a_host_that_reads_much_is_asked_for_data_before_all_answers_are_sent() {
    let (mut rig, pacing) = rig();
    pacing.hand_over(Answers::Pieces(Rate::ZERO));
    let connected = rig.peers[1].order.len();
    rig.peers[1].reads = false;
    (0..8).for_each(|n| _ = rig.submit(1, read(MEMORY, n * 64, 64), None, 32 << 10));
    let (moved, waiting) = pacing.out[Class::Low].read();
    // Half an answer is on its way alone, for the host does not read.
    assert_eq!((moved, waiting), (16 << 10, 240 << 10));
    rig.submit(1, write(MEMORY, 0, 64), Some(vec![1; 32 << 10]), 0);
    (rig.peers[1].reads, rig.peers[1].sends) = (true, false);
    while rig.unsent(1) == 0 {
        rig.turn();
    }
    let answered = rig.peers[1].order.len() - connected;
    assert!(answered <= 1, "it is asked for data after {answered} of 8 answers");
    rig.peers[1].sends = true;
    rig.run();
    assert_eq!(rig.peers[1].order.len() - connected, 9);
    assert_eq!(pacing.out[Class::Low].read(), (256 << 10, 0));
}

#[test]
fn a_host_is_asked_for_data_at_the_rate_that_it_may_send_at() {
    let (mut rig, pacing) = rig();
    // 64 KiB in 65 ms, except for the data that is requested at once.
    pacing.set_r2t_rate(Some(1_000_000));
    let cids = rig.submit_writes(4);
    let mut times = Vec::new();
    for ms in 1..1000 {
        rig.pass(MS);
        if rig.peers[1].answers.len() > times.len() + 1 {
            times.push(ms);
        }
    }
    assert!(rig.succeeded(1, &cids));
    let last = times.last().copied().unwrap_or_default();
    assert!((180..=320).contains(&last), "256 KiB at 1 MB/s: {times:?} ms");
    assert_eq!(pacing.into[Class::Low].read(), (256 << 10, 0));
}

#[test]
fn data_that_comes_whole_with_its_command_is_counted() {
    for (nsid, stages) in [(MEMORY, true), (MEMORY, false), (DRIVE, true), (DRIVE, false)] {
        let mut rig = Rig::new(&Plan { network: true, stages, ..Plan::default() });
        let pacing = Arc::clone(&rig.paced[0]);
        rig.submit(1, of_class(Class::High, write(nsid, 0, 8)), Some(vec![3; 4096]), 0);
        while rig.end_oldest() {}
        rig.submit(1, of_class(Class::Medium, write(nsid, 0, 1)), Some(vec![3; 512]), 0);
        while rig.end_oldest() {}
        assert_eq!(pacing.into[Class::High].read(), (4096, 0), "namespace {nsid}");
        assert_eq!(pacing.into[Class::Medium].read(), (512, 0), "namespace {nsid}");
        rig.submit(1, read(nsid, 0, 1), None, 512);
        while rig.end_oldest() {}
        assert_eq!(pacing.into[Class::Low].read(), (0, 0), "a read brings nothing");
    }
}

#[test]
fn data_that_hosts_owe_is_known() {
    let (mut rig, pacing) = rig();
    rig.queue(1, of_class(Class::High, write(DRIVE, 0, 64)), Some(vec![3; 32 << 10]), 0);
    rig.run_until_asked(1);
    assert_eq!(pacing.into[Class::High].read(), (0, 32 << 10));
    rig.peers[1].sends = true;
    rig.run();
    assert_eq!(pacing.into[Class::High].read(), (32 << 10, 0));
}

const RTT: Duration = Duration::from_millis(10);

/// A rig with few buffers and eight hosts that are far away, and the hosts' I/O queues.
fn far_hosts() -> (Rig, Vec<usize>) {
    let mut rig = Rig::new(&Plan { network: true, memory: 256 << 10, ..Plan::default() });
    let hosts = [1].into_iter().chain((0..7).map(|_| rig.add_host())).collect();
    rig.paced.iter().for_each(|pacing| pacing.set_rtt(RTT));
    (rig, hosts)
}

#[test]
fn a_host_is_asked_for_data_before_there_is_a_buffer_where_one_will_be_free_in_time() {
    let (mut rig, hosts) = far_hosts();
    // More is always on its way than there are buffers for, and 16 KiB become free each ms.
    let (mut written, mut ahead) = (Vec::new(), 0);
    let content = |n: usize| vec![u8::try_from(n % 251).unwrap(); 16 << 10];
    let place = |n: usize| n as u64 * 32;
    for _ in 0..300 {
        for &host in &hosts {
            while rig.in_flight(host) < 4 {
                let n = written.len();
                let sqe = write(DRIVE, place(n), 32);
                written.push((host, rig.submit(host, sqe, Some(content(n)), 0)));
            }
        }
        let held = rig.core.inventory();
        assert!(held.promised_bytes <= 32 << 10, "an eighth of the memory: {held:?}");
        ahead += u32::from(held.promised_bytes > 0);
        rig.pass(MS);
        rig.end_oldest();
    }
    assert!(ahead > 200, "hosts were asked ahead in {ahead} of 300 ms");
    while rig.end_oldest() {}
    assert!(written.iter().all(|(host, cid)| rig.answer(*host, *cid) == Some(Status::SUCCESS)));
    let held = rig.core.inventory();
    assert_eq!((held.promised_bytes, held.buffer_bytes, held.commands), (0, 0, 0));
    // Data for which there was no buffer when it came was kept elsewhere.
    for n in 0..written.len() {
        assert!(rig.content(1, DRIVE, place(n), 32) == content(n), "written by command {n}");
    }
}

#[test]
fn data_that_came_before_its_buffer_with_a_wrong_digest_reaches_no_device() {
    let (mut rig, hosts) = far_hosts();
    rig.add_host();
    let wrong = rig.connect(2, HostParams { data_digest: true, ..HostParams::default() }, None);
    rig.paced.iter().for_each(|pacing| pacing.set_rtt(RTT));
    rig.peers[wrong].sends = false;
    let (mut sent, mut parked) = (Vec::new(), 0);
    for _ in 0..300 {
        for &host in &hosts {
            while rig.in_flight(host) < 4 {
                rig.submit(host, write(DRIVE, 0, 32), Some(vec![1; 16 << 10]), 0);
            }
        }
        if rig.in_flight(wrong) == 0 {
            sent.push(rig.queue(wrong, write(DRIVE, 64, 32), Some(vec![2; 16 << 10]), 0));
        }
        let mut bytes = rig.bytes_of(wrong);
        if bytes.len() > 16 << 10 {
            // Before the digest, which ends the data.
            let last = bytes.len() - 5;
            bytes[last] ^= 0xff;
            let end = bytes.split_off(last);
            rig.peers[wrong].up().extend(bytes);
            rig.run();
            parked += u32::from(rig.states().iter().any(|(state, _)| *state == "parked"));
            bytes = end;
        }
        rig.peers[wrong].up().extend(bytes);
        rig.pass(MS);
        rig.end_oldest();
    }
    assert!(parked > 0, "no data came before its buffer");
    sent.pop();
    let told = |cid: &u16| rig.answer(wrong, *cid);
    assert!(sent.iter().all(|cid| told(cid) == Some(Status::TRANSIENT_TRANSPORT_ERROR)));
    while rig.end_oldest() {}
    assert!(rig.content(hosts[0], DRIVE, 64, 32) == [0; 16 << 10], "nothing of it was written");
}

#[test]
fn packets_carry_the_dscp_of_their_connections_class() {
    let (mut rig, _) = rig();
    assert_eq!(rig.dscps, [], "nothing is marked by the default");
    (2..40).for_each(|qid| _ = rig.connect_queue(qid));
    let dscp = PerClass { high: 34, ..PerClass::default() };
    rig.change_rules(|rules| {
        (rules.class, rules.dscp, rules.mark) = (Some(Class::High), dscp, true);
    });
    let mut marked = std::mem::take(&mut rig.dscps);
    marked.sort_unstable_by_key(|(key, ..)| key.index);
    let keys: Vec<_> = rig.peers[1..].iter().map(|peer| (peer.key, 34, 4)).collect();
    assert_eq!(marked, keys, "all I/O queues, each once");
    rig.change_rules(|_| {});
    assert_eq!(rig.dscps, [], "they are marked so already");
}

#[test]
fn a_connection_has_its_class_before_its_first_command() {
    let (mut rig, pacing) = rig();
    assert_eq!(pacing.class(), Class::Low);
    rig.change_rules(|rules| rules.class = Some(Class::Urgent));
    rig.connect_queue(2);
    let classes: Vec<Class> = rig.paced.iter().map(|pacing| pacing.class()).collect();
    assert_eq!(classes, [Class::Urgent; 2], "by a change of settings, and from the start");
}

#[test]
fn commands_that_wait_to_be_asked_are_charged_by_what_holds_when_they_are() {
    let (mut rig, pacing) = rig();
    pacing.set_r2t_rate(Some(1_000_000));
    rig.submit_writes(3);
    let before = rig.shared.rules.borrow().tenant.clone();
    rig.shared.change_rules(|rules| rules.class = Some(Class::High));
    rig.charge_to("other");
    rig.pass_often(500, MS);
    let seen = before.stats.get(0).unwrap().snapshot().write.ops;
    assert_eq!(seen + rig.session_stats().write.ops, 3);
    assert!(rig.session_stats().write.ops >= 1, "{seen} were charged to the session before");
    assert_eq!(rig.core.driver().classes[Class::High].snapshot().write.ops, 3 - seen);
}

#[test]
fn aborted_commands_take_nothing_of_the_rate_at_which_hosts_are_asked_for_data() {
    let (mut rig, pacing) = rig();
    pacing.set_r2t_rate(Some(1_000_000));
    let cids = rig.submit_writes(8);
    assert!(cids[1..7].iter().all(|cid| rig.abort(0, 1, *cid)));
    // 128 KiB at 1 MB/s.
    rig.pass_often(170, MS);
    for (n, cid) in cids.iter().enumerate() {
        let aborted = (1..7).contains(&n);
        let status = if aborted { Status::ABORT_REQUESTED } else { Status::SUCCESS };
        assert_eq!(rig.answer(1, *cid), Some(status), "command {n}");
    }
    assert_eq!(pacing.into[Class::Low].read().1, 0, "none waits to be asked for");
}

#[test]
fn e2_answers_leave_at_the_rate_that_the_target_itself_keeps_to() {
    let (mut rig, pacing) = rig();
    // 256 KiB in 262 ms, except for the data that is handed over at once.
    pace_answers(&pacing, Some(1_000_000));
    rig.submit_reads(4);
    let mut sent = Vec::new();
    for _ in 0..300 {
        rig.pass(MS);
        sent.push(pacing.out[Class::Low].read().0);
    }
    for (ms, least, most) in [(50, 40_000, 90_000), (100, 90_000, 140_000), (200, 190_000, 240_000)]
    {
        assert!((least..=most).contains(&sent[ms]), "{} bytes in {ms} ms", sent[ms]);
    }
    assert_eq!(sent.last(), Some(&(256 << 10)));
}

#[test]
fn e2_answers_go_on_soon_after_their_rate_is_lifted() {
    let (mut rig, pacing) = rig();
    pace_answers(&pacing, Some(1));
    rig.submit_reads(1);
    rig.pass(100 * MS);
    let (moved, waiting) = pacing.out[Class::Low].read();
    assert!(moved <= 16 << 10 && waiting > 0, "a byte in a second: {moved}");
    pace_answers(&pacing, None);
    rig.pass(20 * MS);
    assert_eq!(pacing.out[Class::Low].read(), (64 << 10, 0));
}

/// Returns whether a command was answered with Command Interrupted.
fn is_sent_back(rig: &Rig, cid: u16) -> bool {
    rig.answer(1, cid).map(kind) == Some(Status::COMMAND_INTERRUPTED)
}

#[test]
fn commands_are_sent_back_that_wait_too_long_to_be_asked_for_their_data() {
    let (mut rig, pacing) = rig();
    rig.honour_delays(0);
    // An R2T of 16 KiB in 11 s.
    pacing.set_r2t_rate(Some(1500));
    let cids = rig.submit_writes(2);
    let (begun, fresh) = (cids[0], cids[1]);
    rig.pass_often(44, 250 * MS);
    assert!(is_sent_back(&rig, fresh), "after 10 s");
    assert_eq!(rig.answer(1, begun), None, "a part of its data has come");
    rig.pass_often(41, 250 * MS);
    assert!(is_sent_back(&rig, begun), "after 20 s");
    assert_eq!(rig.states(), []);
    assert_eq!(rig.core.buffers().0, 0);
}

#[test]
fn answers_that_wait_too_long_for_the_rate_of_their_connection_are_sent_back() {
    let (mut rig, pacing) = rig();
    rig.honour_delays(0);
    // A piece of 16 KiB in 16 s.
    pace_answers(&pacing, Some(1000));
    let cids = rig.submit_reads(3);
    rig.pass_often(38, 250 * MS);
    assert!(cids.iter().all(|cid| rig.answer(1, *cid).is_none()), "in 9.5 s");
    rig.pass_often(7, 250 * MS);
    assert_eq!(rig.answer(1, cids[0]), None, "a part of its answer has gone");
    assert!(cids[1..].iter().all(|cid| is_sent_back(&rig, *cid)));
    // Without a rate the first one goes on.
    pace_answers(&pacing, None);
    rig.pass_often(80, 250 * MS);
    assert_eq!(rig.answer(1, cids[0]), Some(Status::SUCCESS));
    assert_eq!(rig.core.buffers().0, 0);
}

/// Linux has one timer for the retries of a namespace. An answer that is sent back postpones the retries
/// of commands that a limit has sent back, which keep their turns.
#[test]
fn d1_commands_sent_back_by_a_limit_keep_their_turns_while_answers_postpone_their_retries() {
    let (mut rig, pacing) = rig();
    rig.limit(iops(1));
    rig.honour_delays(0);
    pace_answers(&pacing, Some(1000));
    let answers = rig.submit_reads(4);
    let reads: Vec<u16> =
        (0..24).map(|lba| rig.submit(1, read(DRIVE, lba, 1), None, 512)).collect();
    let pass = |rig: &mut Rig, seconds: u64| {
        for _ in 0..seconds * 10 {
            rig.pass(100 * MS);
            while rig.end_oldest() {}
        }
    };
    pass(&mut rig, 15);
    let delay = |rig: &Rig, cid: u16| {
        let status = rig.answer(1, cid).filter(|_| is_sent_back(rig, cid));
        status.map(|status| u64::from(retry_delay(status)))
    };
    let is_longer = |cid: &u16| delay(&rig, *cid) == Some(2);
    assert!(answers.iter().any(is_longer), "no answer postpones the retries");
    let by_limit = (0..24).zip(&reads).filter(|(_, cid)| delay(&rig, **cid) == Some(1));
    let sent_back: Vec<u64> = by_limit.map(|(lba, _)| lba).collect();
    assert!(sent_back.len() >= 8, "{sent_back:?}");
    // The timer of the last answer, 30 s, runs out.
    pace_answers(&pacing, None);
    pass(&mut rig, 29);
    let again: Vec<u16> =
        sent_back.iter().map(|lba| rig.submit(1, read(DRIVE, *lba, 1), None, 512)).collect();
    pass(&mut rig, 1);
    let done = again.iter().filter(|cid| rig.answer(1, **cid) == Some(Status::SUCCESS)).count();
    assert!(
        done + 1 >= again.len(),
        "{done} of {} have the time that they stayed away",
        again.len()
    );
}
