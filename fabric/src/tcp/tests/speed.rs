//! The cost of the state machines: `cargo test --release -p fabric speed -- --ignored --nocapture`.

use std::time::Instant;

use zerocopy::little_endian::U16;

use super::hostile::pair;
use super::sent;
use crate::nvme::Sqe;
use crate::queue::{HostReceived, HostTransport, Received, Transport};
use crate::tcp::HostParams;

static BLOCK: [u8; 4096] = [0; 4096];
const DEPTH: u16 = 128;
const ROUNDS: u32 = 10_000;

#[test]
#[ignore = "a measurement, not a check"]
fn a_read_of_4_kib_in_both_roles() {
    for digests in [false, true] {
        measure(digests);
    }
}

fn measure(digests: bool) {
    let params =
        HostParams { header_digest: digests, data_digest: digests, ..HostParams::default() };
    let (mut host, mut target) = pair::<&'static [u8]>(params);
    target.set_queue(DEPTH, false);
    let mut spent = [0u128; 4];
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for cid in 0..DEPTH {
            let sqe = Sqe { cid: U16::new(cid), ..Sqe::default() };
            host.submit(sqe, None, 4096).unwrap();
        }
        spent[0] += start.elapsed().as_nanos();
        let bytes = sent(host.tx());
        let start = Instant::now();
        let mut input = &bytes[..];
        let mut slots = [None; DEPTH as usize];
        for entry in &mut slots {
            if let Some(Received::Command { slot, .. }) = target.next(&mut input).unwrap() {
                *entry = Some(slot);
            }
        }
        spent[1] += start.elapsed().as_nanos();
        let start = Instant::now();
        for slot in slots {
            target.complete_with_data(slot.unwrap(), &BLOCK, 0);
        }
        spent[2] += start.elapsed().as_nanos();
        let bytes = sent(target.tx());
        let start = Instant::now();
        let (mut input, mut done) = (&bytes[..], 0);
        while let Some(event) = host.next(&mut input).unwrap() {
            done += u16::from(matches!(event, HostReceived::Response { .. }));
        }
        assert_eq!(done, DEPTH);
        spent[3] += start.elapsed().as_nanos();
    }
    let [submit, receive, complete, finish] = spent.map(|ns| {
        let tenths = ns * 10 / u128::from(ROUNDS * u32::from(DEPTH));
        format!("{}.{} ns", tenths / 10, tenths % 10)
    });
    println!(
        "digests {digests}: submit {submit}, target next {receive}, complete_with_data \
         {complete}, host next {finish}"
    );
}
