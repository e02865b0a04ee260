//! Limits of sessions at devices of each style: immediate commands count as well.

use arbitration::overload::RetryDelays;
use arbitration::session::SessionSpec;
use fabric::host::commands::property_get;
use fabric::nvme::{Sqe, Status, opcode};
use fabric::tcp::HostParams;

use super::rig::{DRIVE, MEMORY, MS, Plan, Rig};
use super::rig::{bandwidth, io, iops, kind, read, retry_delay, write};

/// A rig whose commands are charged to a session with this limit.
fn limited(spec: SessionSpec) -> Rig {
    let mut rig = Rig::new(&Plan::default());
    rig.limit(spec);
    rig
}

/// A rig whose host honours retry delays, and whose commands are charged to a session with this limit.
fn patient(spec: SessionSpec) -> Rig {
    let mut rig = limited(spec);
    rig.honour_delays(0);
    rig
}

/// One command of 4 KiB in a ms, by a limit on commands or on bytes: 4 ms of the rate at once, and the command that
/// comes last.
#[test]
fn limits_hold_at_devices_of_each_style() {
    for (spec, more) in [(iops(1000), 0), (bandwidth(4_096_000), 1)] {
        for nsid in [MEMORY, DRIVE] {
            let mut rig = limited(spec.clone());
            let mut cids = Vec::new();
            for n in 0..50 {
                cids.push(rig.queue(1, write(nsid, n * 8, 8), Some(vec![1; 4096]), 0));
                cids.push(rig.queue(1, read(nsid, n * 8, 8), None, 4096));
            }
            for (ms, least, most) in [(0, 0, 5), (20, 20, 26), (30, 50, 56), (100, 100, 100)] {
                rig.run();
                while rig.end_oldest() {}
                for _ in 0..ms {
                    rig.pass(MS);
                    while rig.end_oldest() {}
                }
                let count = rig.peers[1].answers.len();
                assert!((least..=most + more).contains(&count), "{count} of {nsid}: {spec:?}");
            }
            assert!(rig.succeeded(1, &cids));
        }
    }
}

/// The length of a step of [`LinuxHost`], in ms.
const STEP: u64 = 250;

/// A command of a [`LinuxHost`].
#[derive(Default)]
struct Outstanding {
    number: u64,
    /// The peer of its queue: a command is always sent over the same one.
    queue: usize,
    cid: u16,
    /// The step of the submission.
    since: u64,
    retries: u32,
}

/// A Linux host that always has this many commands outstanding on each of its queues.
#[derive(Default)]
struct LinuxHost {
    next: u64,
    /// Commands in the target.
    here: Vec<Outstanding>,
    /// Commands that wait for the one timer of their namespace.
    waiting: Vec<Outstanding>,
    /// The step in which the timer is due.
    timer: u64,
    done: u64,
    /// The most retries of a command, and the longest time of one in the target in ms.
    retries: u32,
    longest: u64,
}

impl LinuxHost {
    /// Keeps `depth` commands outstanding for this many seconds, on one queue.
    fn run(
        rig: &mut Rig,
        make: impl Fn(u64) -> (Sqe, Option<Vec<u8>>, u32),
        depth: usize,
        seconds: u64,
    ) -> Self {
        Self::run_on(rig, &[1], make, depth, seconds)
    }

    /// Keeps `depth` commands outstanding for this many seconds on each of these queues.
    fn run_on(
        rig: &mut Rig,
        queues: &[usize],
        make: impl Fn(u64) -> (Sqe, Option<Vec<u8>>, u32),
        depth: usize,
        seconds: u64,
    ) -> Self {
        let (mut host, mut room) = (Self::default(), queues.repeat(depth));
        for step in 0..seconds * 1000 / STEP {
            let mut next =
                if step >= host.timer { std::mem::take(&mut host.waiting) } else { vec![] };
            next.extend(room.drain(..).map(|queue| {
                host.next += 1;
                Outstanding { number: host.next, queue, ..Outstanding::default() }
            }));
            for command in next {
                let (sqe, data, reads) = make(command.number);
                let cid = rig.queue(command.queue, sqe, data, reads);
                host.here.push(Outstanding { cid, since: step, ..command });
            }
            let end = rig.now.after(STEP * MS);
            while rig.now < end {
                let next = rig.core.idle_until().unwrap_or(end).min(end);
                rig.pass(next.ns_since(rig.now).max(1));
                while rig.end_oldest() {}
            }
            let until = rig.core.idle_until();
            assert!(until.is_some_and(|until| until > rig.now), "it sleeps until {until:?}");
            for command in std::mem::take(&mut host.here) {
                host.longest = host.longest.max((step - command.since) * STEP);
                match rig.answer(command.queue, command.cid) {
                    None => host.here.push(command),
                    Some(Status::SUCCESS) => {
                        host.done += 1;
                        room.push(command.queue);
                    }
                    Some(status) => {
                        assert_eq!(kind(status), Status::COMMAND_INTERRUPTED);
                        let crd = usize::from(retry_delay(status));
                        let delays = RetryDelays::DEFAULT.hundreds_of_ms();
                        let delay = crd.checked_sub(1).map_or(0, |crd| u64::from(delays[crd]));
                        host.timer = step + delay * 100 / STEP;
                        let retries = command.retries + 1;
                        host.retries = host.retries.max(retries);
                        host.waiting.push(Outstanding { retries, ..command });
                    }
                }
            }
        }
        host
    }
}

#[test]
fn d1_a_limit_of_any_rate_makes_no_linux_host_time_out() {
    for (rate, depth) in [(1, 8), (1, 20), (1, 100), (4, 60), (4, 120), (10, 120), (20, 120)] {
        let mut rig = patient(iops(rate));
        let read_of = |number: u64| (read(DRIVE, number % 1000, 1), None, 512);
        let host = LinuxHost::run(&mut rig, read_of, depth, 400);
        let case = format!("{depth} commands at {rate}/s");
        assert!(host.longest <= 10_500, "{case}: one was in the target for {} ms", host.longest);
        assert!(host.retries <= 5, "{case}: Linux fails a command after 5 retries");
        let due = rate * 400;
        assert!(host.done <= due + due / 50 + 10, "{case}: {} are more than the limit", host.done);
        assert!(host.done + 41 * rate + due / 50 >= due, "{case}: {} of {due}", host.done);
        assert_eq!(rig.core.inventory().commands, host.here.len());
    }
}

/// Deallocations of a namespace differ by their data alone.
#[test]
fn d1_equal_commands_are_counted() {
    let deallocate =
        Sqe { opcode: opcode::io::DATASET_MANAGEMENT, cdw11: 4.into(), ..io(0, DRIVE, 0, 1) };
    let deallocate_of = |_| (deallocate, Some(vec![0; 16]), 0);
    for (rate, depth) in [(1, 20), (1, 100), (2, 60), (4, 120), (8, 120)] {
        let mut rig = patient(iops(rate));
        let host = LinuxHost::run(&mut rig, deallocate_of, depth, 2400);
        let case = format!(
            "{depth} commands at {rate}/s: {} retries, {} ms, {} done",
            host.retries, host.longest, host.done
        );
        assert!(host.longest <= 11_000, "{case}");
        assert!((1..=5).contains(&host.retries), "{case}");
        assert!((2300 * rate..=2450 * rate).contains(&host.done), "{case}");
    }
}

/// The target stops reading where a session is full, or has no memory for data that comes with commands.
#[test]
fn d1_commands_that_wait_for_less_than_ten_seconds_stay() {
    let read_of = |number: u64| (read(DRIVE, number % 4000, 1), None, 512);
    let write_of = |number: u64| (write(DRIVE, number % 4000, 1), Some(vec![1; 512]), 0);
    for (queues, depth, rate, writes) in [
        (8, 50, 100, false),
        (8, 64, 150, false),
        (1, 40, 10, true),
        (4, 2, 2, true),
        (2, 1, 1, true),
    ] {
        let mut rig = Rig::new(&Plan { queue: 128, ..Plan::default() });
        rig.limit(iops(rate));
        rig.honour_delays(0);
        let more: Vec<usize> = (2..=queues).map(|qid| rig.connect_queue(qid)).collect();
        let all: Vec<usize> = [1].into_iter().chain(more).collect();
        let host = match writes {
            true => LinuxHost::run_on(&mut rig, &all, write_of, depth, 60),
            false => LinuxHost::run_on(&mut rig, &all, read_of, depth, 60),
        };
        let case = format!("{queues} queues of {depth} at {rate}/s, {} ms", host.longest);
        assert_eq!(host.retries, 0, "{case}");
        assert!(host.done >= 58 * rate, "{case}: {} done", host.done);
    }
}

/// A host with a queue for each of its processors has more outstanding than passes while it waits. None fails; the limit
/// is exceeded if six waits and five delays are not enough.
#[test]
fn d1_last_try_does_not_wait_for_its_limit() {
    for (queues, rate, most) in [(4, 1, 2450), (10, 2, 4900), (10, 1, 3300)] {
        let mut rig = patient(iops(rate));
        let more: Vec<usize> = (2..=queues).map(|qid| rig.connect_queue(qid)).collect();
        let all: Vec<usize> = [1].into_iter().chain(more).collect();
        let case = format!("{queues} queues of 120 commands at {rate}/s");
        let read_of = |number: u64| (read(DRIVE, number % 4000, 1), None, 512);
        let host = LinuxHost::run_on(&mut rig, &all, read_of, 120, 2400);
        assert!(host.longest <= 11_000, "{case}: one was in the target for {} ms", host.longest);
        assert!(host.retries <= 5, "{case}: Linux fails a command after 5 retries");
        assert!((2300 * rate..=most).contains(&host.done), "{case}: {} were done", host.done);
    }
}

#[test]
fn d1_commands_that_were_sent_back_to_a_host_that_has_gone_leave_nothing_for_others() {
    let mut rig = patient(iops(1));
    rig.queue_reads(1, DRIVE, 0..60);
    rig.pass_often(14, 1000 * MS);
    let sent_back = rig.peers[1].answers.len();
    assert!(sent_back > 30, "{sent_back} answers");
    rig.pass_often(20, 1000 * MS);
    rig.cut(1, "lost");
    while rig.end_oldest() {}
    let other = rig.add_host();
    rig.pass_often(2, 1000 * MS);
    rig.queue_reads(other, DRIVE, 0..20);
    rig.run();
    while rig.end_oldest() {}
    let passed = rig.peers[other].answers.len();
    assert!(passed <= 2, "{passed} at 1/s");
}

#[test]
fn d1_writes_that_wait_for_a_limit_give_back_their_buffers_when_they_are_sent_back() {
    let mut rig = patient(bandwidth(1024));
    let write_of = |number: u64| (write(DRIVE, number % 1000, 1), Some(vec![1; 512]), 0);
    let host = LinuxHost::run(&mut rig, write_of, 60, 300);
    assert!((500..=620).contains(&host.done), "{} of 600", host.done);
    assert!(host.retries > 0 && host.retries <= 5, "{} retries", host.retries);
    // Commands that were not read for 10 s and more wait for 10 s at most afterwards.
    assert!(host.longest <= 11_000, "one was on its way or in the target for {} ms", host.longest);
    rig.charge_to("other");
    while !rig.states().is_empty() {
        rig.pass(10 * MS);
        while rig.end_oldest() {}
    }
    assert_eq!(rig.core.buffers().0, 0);
}

#[test]
fn d1_writes_are_sent_back_that_wait_for_memory_for_their_data() {
    let mut rig = patient(bandwidth(64 << 10));
    // Sixteen of 64 KiB fill the memory; the others wait before their data is asked for.
    let write_of = |number: u64| {
        // Different places or lengths: a command is known again by them.
        let blocks = 128 - u32::try_from(number / 7 % 16).unwrap();
        let data = vec![1; blocks as usize * 512];
        (write(DRIVE, number % 7 * 128, blocks), Some(data), 0)
    };
    let host = LinuxHost::run(&mut rig, write_of, 60, 300);
    assert!(host.longest <= 10_500, "one was in the target for {} ms", host.longest);
    assert!((255..=340).contains(&host.done), "{} of 300", host.done);
    assert!(host.retries > 0 && host.retries <= 5, "{} retries", host.retries);
}

#[test]
fn d1_write_zeroes_counts_for_one_command_and_not_for_its_length() {
    let mut rig = limited(bandwidth(1 << 20));
    let zeroes = |number: u64| (io(opcode::io::WRITE_ZEROES, DRIVE, number % 500, 256), None, 0);
    // 128 KiB each: by its length one would take an eighth of a second.
    let host = LinuxHost::run(&mut rig, zeroes, 16, 10);
    assert!(host.done >= 500, "{} in ten seconds", host.done);
}

#[test]
fn d1_answers_wait_for_no_more_than_ten_seconds_for_the_turns_that_they_cost() {
    let mut rig = limited(iops(1));
    let unknown = io(0x99, MEMORY, 0, 1);
    let cids: Vec<u16> = (0..60).map(|_| rig.submit(1, unknown, None, 0)).collect();
    let answered = |rig: &Rig| cids.iter().filter(|cid| rig.answer(1, **cid).is_some()).count();
    rig.pass_often(9000 / STEP, STEP * MS);
    assert!((8..=12).contains(&answered(&rig)), "{} in 9 s, at 1/s", answered(&rig));
    rig.pass_often(2000 / STEP, STEP * MS);
    assert_eq!(answered(&rig), 60, "whether or not the host understands retry delays");
    assert!(cids.iter().all(|cid| rig.answer(1, *cid).is_some_and(|status| !status.is_success())));
    assert_eq!(rig.states(), []);
}

#[test]
fn d1_hosts_without_retry_delays_have_queues_that_their_limits_can_serve() {
    // 32 commands of 64 KiB in 25 s.
    let mut rig = limited(bandwidth(32 * (64 << 10) / 25 + 1));
    let mqes = |rig: &mut Rig, admin| rig.call(admin, property_get(0, true), None, 0).1 & 0xffff;
    assert_eq!(mqes(&mut rig, 0), 127, "nothing was known of the host");
    let admin = rig.connect_again(HostParams::default());
    assert_eq!(mqes(&mut rig, admin), 31, "it had one queue and did not set ACRE");
    rig.charge_to("other");
    let admin = rig.connect_again(HostParams::default());
    assert_eq!(mqes(&mut rig, admin), 127, "there is no limit now");
}
