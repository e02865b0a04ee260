//! The data node: it grants rights, and a monitor hands out tokens.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use fabric::rdma::placement::Placement;
use fabric_verbs::SharedMemory;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use pmem::capacity::Profile;
use pmem::token::{Iops, Tokens};
use pmem_verbs::grant::Terms;
use pmem_verbs::message::Sync;
use pmem_verbs::node::{Claim, GrantKey, Grants, News, Node, Settings};
use pmem_verbs::private_data::{Reject, Request, Rights};

use crate::common::{BLOCK, Clock, LENGTH, REGION, request};

/// The grant: to each client the same data, and a reservation of its own.
struct Granted {
    data: Arc<SharedMemory>,
    reserved: Vec<u64>,
    revoked: Vec<GrantKey>,
}

impl Grants for Granted {
    fn claim(&mut self, wanted: &Request) -> Result<(GrantKey, Claim), Reject> {
        let secret = |number: u32| request(number).secret == wanted.secret;
        let known = (0..).zip(&self.reserved).find(|(number, _)| secret(*number));
        let Some((number, reserved)) = known.filter(|_| wanted.region == REGION) else {
            return Err(Reject::NoGrant);
        };
        // The last client may write, too.
        let may_write = number as usize + 1 == self.reserved.len();
        let key = GrantKey(number.into());
        if (wanted.rights == Rights::ReadWrite && !may_write) || self.revoked.contains(&key) {
            return Err(Reject::NoGrant);
        }
        let data = (self.data.clone() as Arc<_>, 0..LENGTH);
        let reservation = Tokens(*reserved);
        let flushes = Some(Placement::Global);
        Ok((key, Claim { data, rights: wanted.rights, reservation, limit: None, flushes }))
    }
}

/// Serves until it is asked to end.
pub(crate) fn serve(
    address: SocketAddr,
    capacity: u64,
    interval: u64,
    batch: u64,
    reserved: Vec<u64>,
) {
    let data = SharedMemory::new(LENGTH).unwrap();
    for block in 0..LENGTH / BLOCK {
        assert!(data.store(block * BLOCK, (block * BLOCK) as u64));
    }
    let clients = u32::try_from(reserved.len()).unwrap();
    let mut granted = Granted { data: Arc::new(data), reserved, revoked: Vec::new() };
    let settings = Settings {
        address,
        terms: Terms {
            period: Duration::from_secs(1),
            interval: Duration::from_millis(interval),
            batch: Tokens(batch),
            limit: None,
            io_bytes: NonZeroU32::new(u32::try_from(BLOCK).unwrap()).unwrap(),
        },
        clients,
        local: Iops(capacity),
        // The capacity stays at the given value: the link's capacity is known here.
        profile: Profile { mean: Tokens(capacity), sigma: 0.0 },
        increment: Tokens::ZERO,
        history: 5,
        // Clients that wait for a processor are not gone yet.
        silence: 20,
        secret: request(u32::MAX).secret,
    };
    let mut node = Node::new(settings).unwrap();
    println!("node listens on {}", node.address());
    let (clock, stdin) = (Clock::begin(), std::io::stdin());
    let mut input = BufReader::new(std::io::stdin());
    let mut period = node.capacity().1;
    loop {
        node.turn(clock.now(), &mut granted).unwrap();
        while let Some(news) = node.next_news() {
            match news {
                News::Ready => {
                    if capacity == 0 {
                        node.stop_monitor();
                    }
                    println!("node is ready");
                }
                News::Connected(key) => println!("node: client {} is here", key.0),
                News::Gone(key) => println!("node: client {} is gone", key.0),
                News::Profiled(profile) => println!("node: profile {profile:?}"),
                News::Evicted(key) => {
                    granted.revoked.push(key);
                    println!("node: client {} is evicted", key.0);
                }
                News::Finding(_, finding) => println!("node finds: {finding}"),
                News::Refused(address, reason) => println!("node refuses {address}: {reason}"),
                News::Unregistered(_, why) => panic!("{why}"),
                News::Unreserved(key, refusal) => println!("node: client {}: {refusal}", key.0),
                News::Sync(key, asked) => {
                    let Sync { offset, length, .. } = asked;
                    println!("node: client {} wants {length} bytes at {offset} to survive", key.0);
                    node.synced(key, asked.ticket, true);
                }
            }
        }
        let (capacity, now) = node.capacity();
        if now != period {
            period = now;
            println!("node period {} capacity {capacity}", period.0);
        }
        let longest = Duration::from_millis(100);
        node.wait(clock.now(), stdin.as_fd(), longest).unwrap();
        if is_readable(&stdin) && !command(&mut node, &mut granted, &mut input) {
            println!("node ends");
            return;
        }
    }
}

fn is_readable(stdin: &std::io::Stdin) -> bool {
    let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::ZERO).unwrap() > 0
}

/// Carries out a line of the input. Returns false at the end.
fn command(node: &mut Node, granted: &mut Granted, input: &mut BufReader<std::io::Stdin>) -> bool {
    let mut line = String::new();
    // A line comes as a whole.
    if input.by_ref().read_line(&mut line).unwrap() == 0 {
        return false;
    }
    match line.split_whitespace().collect::<Vec<_>>()[..] {
        ["revoke", number] => {
            let key = GrantKey(number.parse().unwrap());
            granted.revoked.push(key);
            node.revoke_rights(key);
            println!("node has revoked {number}");
        }
        ["stop"] => node.stop_monitor(),
        ["start"] => node.restart_monitor().unwrap(),
        ["end"] => return false,
        _ => panic!("{line}"),
    }
    true
}
