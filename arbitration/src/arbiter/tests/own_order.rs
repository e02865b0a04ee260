//! Tests of the order of a host's own queues within its part.

use super::*;
use crate::arbiter::own_order::WeightedQueue;
use units::QueueWeights;

/// Value of the Arbitration feature: the burst's exponent, and weights from 1 on of High, Medium and
/// Low.
fn feature(exponent: u32, [high, medium, low]: [u32; 3]) -> u32 {
    exponent | (low - 1) << 8 | (medium - 1) << 16 | (high - 1) << 24
}

fn weights(exponent: u32, of: [u32; 3]) -> Arc<QueueWeights> {
    Arc::new(QueueWeights::new(feature(exponent, of)))
}

fn queue(weights: &Arc<QueueWeights>, qid: u16, priority: Class) -> WeightedQueue {
    WeightedQueue { qid, priority, weights: Arc::clone(weights) }
}

/// Reactors over one device that carries out one command at a time.
struct Bench {
    arbiters: Vec<Arbiter<usize>>,
    sessions: Sessions,
    /// Flow of each queue, its reactor, and the class of its commands.
    queues: Vec<(HostFlowId, usize, Class)>,
    entries: Vec<(usize, EntryId)>,
}

const NOW: Nanos = Nanos(SECOND);

impl Bench {
    fn with(reactors: usize, specs: &[SessionSpec], rules: DeviceRules) -> Self {
        let order = OrderSettings { burst: 1, ..OrderSettings::default() };
        let arbiters = arbiters(reactors, &order, &Arc::new(Device::new(rules, reactors)));
        Self { arbiters, sessions: sessions(&ROOT, specs), queues: Vec::new(), entries: Vec::new() }
    }

    fn new() -> Self {
        Self::with(1, &[], DeviceRules { window: fixed(1), ..DeviceRules::default() })
    }

    /// Adds a queue of a host in the root session, whose commands are Low.
    fn add(&mut self, host: u64, queue: Option<&WeightedQueue>) -> usize {
        self.add_to((0, "root", host, Class::Low), queue)
    }

    fn add_to(
        &mut self,
        (reactor, session, host, class): (usize, &str, u64, Class),
        queue: Option<&WeightedQueue>,
    ) -> usize {
        let session = self.sessions.named(session).unwrap();
        let arbiter = &mut self.arbiters[reactor];
        let flow = match queue {
            Some(queue) => arbiter.flow_of_queue(DEVICE, session, HostId(host), queue),
            None => arbiter.flow(DEVICE, session, HostId(host)),
        };
        self.queues.push((flow.unwrap(), reactor, class));
        self.queues.len() - 1
    }

    fn send(&mut self, queue: usize, commands: usize) {
        let (flow, reactor, class) = self.queues[queue];
        for _ in 0..commands {
            let submission = Submission::of_host(queue, false, 4096);
            let entry = self.arbiters[reactor].enqueue(NOW, flow, class, submission).unwrap();
            self.entries.push((queue, entry));
        }
    }

    /// Lets one command of a reactor go.
    fn go_in(&mut self, reactor: usize) -> Option<usize> {
        loop {
            match self.arbiters[reactor].pull(NOW) {
                Pull::Command(Dispatched { item, grant, .. }) => {
                    self.arbiters[reactor].complete(NOW, grant, true);
                    return Some(item);
                }
                Pull::Wake(_) => {}
                Pull::Later(_) | Pull::Nothing => return None,
            }
        }
    }

    /// Lets this many commands go. Returns the queues that they were of.
    fn go(&mut self, commands: usize) -> Vec<usize> {
        std::iter::from_fn(|| self.go_in(0)).take(commands).collect()
    }
}

fn count(gone: &[usize], queue: usize) -> usize {
    gone.iter().filter(|other| **other == queue).count()
}

/// Returns the most commands of one queue that went in a row.
fn longest_run(gone: &[usize]) -> usize {
    gone.chunk_by(|a, b| a == b).map(<[usize]>::len).max().unwrap_or(0)
}

#[test]
fn queue_weights_affect_only_their_host() {
    // The commands of a session with a limit are looked at one by one.
    for (of, session) in [[1, 1, 1], [5, 2, 1], [256, 16, 1], [1, 2, 61]]
        .into_iter()
        .flat_map(|of| [(of, "free"), (of, "limited")])
    {
        let limit = SessionSpec { iops: Rate::per_second(1_000_000_000), ..spec("limited", None) };
        let rules = DeviceRules { window: fixed(1), ..DeviceRules::default() };
        let mut bench = Bench::with(1, &[spec("free", None), limit], rules);
        let (own, class) = (weights(0, of), Class::Low);
        let queues = [Class::High, Class::Medium, Class::Low].map(|priority| {
            let qid = priority as u16;
            bench.add_to((0, session, 1, class), Some(&queue(&own, qid, priority)))
        });
        let other = bench.add_to((0, session, 2, class), None);
        queues.into_iter().chain([other]).for_each(|queue| bench.send(queue, 3000));
        let sum: u32 = of.iter().sum();
        let commands = 2 * 10 * sum as usize;
        let gone = bench.go(commands);
        assert_eq!(count(&gone, other), commands / 2, "the other host has its part");
        for (queue, weight) in queues.into_iter().zip(of) {
            let (got, want) = (count(&gone, queue), 10 * weight as usize);
            assert!(got.abs_diff(want) <= 1, "{of:?}, {session}: {got}, not {want}");
        }
    }
}

#[test]
fn weights_hold_beside_a_queue_that_comes_and_goes() {
    let (mut bench, own) = (Bench::new(), weights(0, [4, 1, 1]));
    let high = bench.add(1, Some(&queue(&own, 1, Class::High)));
    let low = bench.add(1, Some(&queue(&own, 2, Class::Low)));
    bench.send(low, 2000);
    bench.go(1000);
    // High has saved up no turns while nothing of it waited.
    bench.send(high, 1000);
    let gone = bench.go(100);
    assert!(count(&gone, high).abs_diff(80) <= 1, "{}", count(&gone, high));
    // A queue with one command at a time gets each of them ahead of the others' many.
    let mut bench = Bench::new();
    let high = bench.add(1, Some(&queue(&own, 1, Class::High)));
    let low = bench.add(1, Some(&queue(&own, 2, Class::Low)));
    bench.send(low, 100);
    for _ in 0..10 {
        bench.send(high, 1);
        assert!(bench.go(2).contains(&high));
    }
}

#[test]
fn urgent_queues_go_first_within_their_hosts_part_alone() {
    let (mut bench, own) = (Bench::new(), weights(0, [256, 1, 1]));
    let high = bench.add(1, Some(&queue(&own, 1, Class::High)));
    let urgent = bench.add(1, Some(&queue(&own, 2, Class::Urgent)));
    let other = bench.add(2, None);
    bench.send(high, 100);
    bench.send(other, 100);
    bench.send(urgent, 20);
    let gone = bench.go(40);
    assert_eq!((count(&gone, urgent), count(&gone, high), count(&gone, other)), (20, 0, 20));
    let gone = bench.go(20);
    assert_eq!((count(&gone, high), count(&gone, other)), (10, 10));
    // A late one is the host's next.
    bench.send(urgent, 1);
    assert!(bench.go(2).contains(&urgent));
}

#[test]
fn queues_of_priority_class_alternate_by_burst() {
    for (exponent, longest) in [(0, 1), (1, 2), (3, 8), (6, 64), (7, 300)] {
        let (mut bench, own) = (Bench::new(), weights(exponent, [1, 1, 1]));
        let two = [1, 2].map(|qid| bench.add(1, Some(&queue(&own, qid, Class::Medium))));
        bench.send(two[0], 300);
        bench.send(two[1], 300);
        let gone = bench.go(600);
        assert_eq!(longest_run(&gone), longest, "AB is {exponent}");
        assert_eq!((count(&gone, two[0]), count(&gone, two[1])), (300, 300));
    }
}

#[test]
fn a_burst_is_of_one_queue_alone() {
    let (mut bench, own) = (Bench::new(), weights(2, [1, 1, 1]));
    let three = [1, 2, 3].map(|qid| bench.add(1, Some(&queue(&own, qid, Class::Low))));
    for (queue, commands) in three.into_iter().zip([3, 20, 20]) {
        bench.send(queue, commands);
    }
    let gone = bench.go(23);
    let runs: Vec<_> = gone.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect();
    let [a, b, c] = three;
    assert_eq!(runs, [(a, 3), (b, 4), (c, 4), (b, 4), (c, 4), (b, 4)]);
}

#[test]
fn changed_weights_apply_to_next_command() {
    let (mut bench, own) = (Bench::new(), weights(7, [256, 1, 1]));
    let queues = [(1, Class::High), (2, Class::Low), (3, Class::Low)]
        .map(|(qid, priority)| bench.add(1, Some(&queue(&own, qid, priority))));
    queues.iter().for_each(|queue| bench.send(*queue, 2000));
    let gone = bench.go(1030);
    assert!(count(&gone, queues[0]) >= 1024);
    own.set(feature(0, [1, 1, 3]));
    let gone = bench.go(400);
    assert!(count(&gone, queues[0]).abs_diff(100) <= 1, "{}", count(&gone, queues[0]));
    assert!(count(&gone, queues[1]).abs_diff(count(&gone, queues[2])) <= 1, "the burst is 1 now");
    // A queue that connects now has the present weights too.
    let medium = bench.add(1, Some(&queue(&own, 4, Class::Medium)));
    bench.send(medium, 200);
    let gone = bench.go(500);
    assert!(count(&gone, medium).abs_diff(100) <= 1, "{}", count(&gone, medium));
}

#[test]
fn controllers_of_one_host_take_turns_in_its_part() {
    let (mut bench, first, second) = (Bench::new(), weights(0, [9, 1, 1]), weights(0, [1, 1, 1]));
    let plain = bench.add(1, None);
    // Commands that wait when the first weighted queue is added keep their turns.
    bench.send(plain, 400);
    let of = |bench: &mut Bench, own, qid, priority| {
        let queue = bench.add(1, Some(&queue(own, qid, priority)));
        bench.send(queue, 400);
        queue
    };
    let high = of(&mut bench, &first, 1, Class::High);
    let low = of(&mut bench, &first, 2, Class::Low);
    let alone = of(&mut bench, &second, 1, Class::Low);
    let other = bench.add(2, None);
    bench.send(other, 400);
    let gone = bench.go(600);
    let parts = [plain, high, low, alone, other].map(|queue| count(&gone, queue));
    assert_eq!(parts, [100, 90, 10, 100, 300]);
}

#[test]
fn removed_queues_leave_nothing_behind() {
    let (mut bench, own) = (Bench::new(), weights(0, [3, 2, 1]));
    let one = queue(&own, 1, Class::High);
    let high = bench.add(1, Some(&one));
    let again = bench.add(1, Some(&one));
    assert_eq!(bench.queues[high].0, bench.queues[again].0, "the queue's flow is found again");
    let plain = bench.add(1, None);
    bench.send(high, 10);
    bench.send(plain, 10);
    for queue in [high, again, plain] {
        let flow = bench.queues[queue].0;
        bench.arbiters[0].release(flow);
    }
    let orders = |bench: &Bench| bench.arbiters[0].devices.get(DEVICE).unwrap().own.len();
    assert_eq!(orders(&bench), 1, "commands keep their queue");
    // Commands are withdrawn from any place in their queue.
    for (queue, entry) in bench.entries.clone().into_iter().skip(1).step_by(3) {
        assert_eq!(bench.arbiters[0].cancel(NOW, entry), Some(queue));
    }
    assert_eq!(bench.go(100).len(), 13);
    assert_eq!((orders(&bench), bench.arbiters[0].flows.sizes().0), (0, 0));
}

#[test]
fn output_mark_stays_behind_its_queue() {
    let rules = DeviceRules { window: fixed(1), containers: by_place(1), ..Default::default() };
    let (mut bench, own) = (Bench::with(1, &[], rules), weights(0, [1, 1, 1]));
    let low = bench.add(1, Some(&queue(&own, 1, Class::Low)));
    let urgent = bench.add(1, Some(&queue(&own, 2, Class::Urgent)));
    bench.send(urgent, 2);
    bench.send(low, 3);
    // Behind another queue's mark there is something to end, behind its own there is not.
    for queue in [low, urgent, urgent] {
        bench.arbiters[0].output(NOW, bench.queues[queue].0, Class::Low);
    }
    assert_eq!(bench.arbiters[0].waiting(), 7);
    assert_eq!(bench.go(10), [urgent, urgent, low, low, low]);
    assert_eq!(bench.arbiters[0].waiting(), 0);
}

/// A queue of a random history: its reactor, session, host and class; perhaps its controller's number and its priority
/// class.
type RandomQueue = ((usize, &'static str, u64, Class), Option<(usize, Class)>);

fn a_queue() -> impl Strategy<Value = RandomQueue> {
    let class = || proptest::sample::select(Class::ALL.to_vec());
    let session = proptest::sample::select(vec!["root", "a", "b"]);
    let own = proptest::option::weighted(0.7, (0usize..2, class()));
    ((0usize..2, session, 0u64..3, class()), own)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Under any weights of hosts, and any changes of them, each turn goes to the same host and
    /// class as without weights. So no host gets more, and no other less. The commands of one queue
    /// keep their order, and all of them are dispatched.
    #[test]
    fn host_weights_preserve_turns_of_hosts_and_classes(
        queues in proptest::collection::vec(a_queue(), 1..10),
        values in proptest::collection::vec(any::<u32>(), 6),
        sent in proptest::collection::vec((any::<proptest::sample::Index>(), 1usize..30), 1..40),
        reactors in 1usize..3,
    ) {
        let run = |weighted: bool| {
            let rules = DeviceRules { window: fixed(1), ..DeviceRules::default() };
            let mut bench = Bench::with(reactors, &[spec("a", None), spec("b", Some("a"))], rules);
            let own: Vec<_> = (0..6).map(|n| Arc::new(QueueWeights::new(values[n]))).collect();
            for (qid, ((reactor, session, host, class), weight)) in queues.iter().enumerate() {
                let weighted = weight.filter(|_| weighted).map(|(controller, priority)| {
                    // No two hosts have a controller in common.
                    let own = &own[usize::try_from(*host).unwrap() * 2 + controller];
                    queue(own, u16::try_from(qid).unwrap(), priority)
                });
                bench.add_to((reactor % reactors, session, *host, *class), weighted.as_ref());
            }
            let mut turns = Vec::new();
            let mut of_queues = vec![0; queues.len()];
            let mut all = 0;
            for (step, (which, commands)) in sent.iter().enumerate() {
                own[step % 6].set(values[(step + 1) % 6].rotate_left(u32::try_from(step).unwrap()));
                let queue = which.index(queues.len());
                bench.send(queue, *commands);
                all += commands;
                of_queues[queue] += commands;
                let last = step + 1 == sent.len();
                for turn in 0..if last { 2 * all } else { 8 } {
                    if let Some(queue) = bench.go_in(turn % reactors) {
                        let ((_, session, host, class), _) = queues[queue];
                        turns.push((session, host, class));
                        of_queues[queue] -= 1;
                    }
                }
            }
            (turns, of_queues)
        };
        let ((with, left), (without, _)) = (run(true), run(false));
        prop_assert_eq!(with, without);
        prop_assert!(left.iter().all(|left| *left == 0), "commands that never go: {:?}", left);
    }
}
