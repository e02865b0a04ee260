//! Damaged and arbitrary bytes: an answer or a clean end, in bounded memory.

use proptest::prelude::*;
use zerocopy::little_endian::U16;

use super::{joined, sent};
use crate::nvme::{Sqe, Status};
use crate::queue::{CapsuleData, HostReceived, HostTransport, Received, Transport};
use crate::tcp::{HostConnection, HostParams, TargetConnection, TargetParams};

const DIGESTS: HostParams =
    HostParams { hpda: 0, header_digest: true, data_digest: true, maxr2t: 1 };

/// Makes both roles with a queue of 8 entries, with digests as the host asks.
pub(super) fn pair(params: HostParams) -> (HostConnection<Vec<u8>>, TargetConnection<Vec<u8>>) {
    let (host, mut target) = joined(TargetParams::default(), params);
    target.set_queue(8, false);
    target.set_in_capsule_data(8192);
    (host, target)
}

fn sqe(cid: u16) -> Sqe {
    Sqe { cid: U16::new(cid), ..Sqe::default() }
}

/// Returns everything that the chunks lead to: for each piece of data its length, for each end its
/// verdict.
fn data_events<'a>(
    target: &mut TargetConnection<Vec<u8>>,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<usize>, Vec<bool>) {
    let (mut pieces, mut ends) = (vec![], vec![]);
    for mut input in chunks {
        while let Some(event) = target.next(&mut input).unwrap() {
            match event {
                Received::Data { bytes, .. } => pieces.push(bytes.len()),
                Received::DataEnd { digest_ok, .. } => ends.push(digest_ok),
                Received::Command { data: CapsuleData::Whole(_), .. } => ends.push(true),
                _ => {}
            }
        }
    }
    (pieces, ends)
}

#[test]
fn damaged_in_capsule_data_fails_its_command_alone() {
    let (mut host, mut target) = pair(DIGESTS);
    host.submit(sqe(1), Some(vec![7; 512]), 0).unwrap();
    host.submit(sqe(2), Some(vec![7; 512]), 0).unwrap();
    let mut bytes = sent(host.tx());
    bytes[100] ^= 1;
    // In one chunk: the fast path must notice as well.
    assert_eq!(data_events(&mut target, [&bytes[..]]), (vec![512], vec![false, true]));
}

#[test]
fn damaged_h2c_data_is_reported_at_end() {
    let (mut host, mut target) = pair(DIGESTS);
    host.set_in_capsule_data(0);
    host.submit(sqe(1), Some(vec![7; 200_000]), 0).unwrap();
    let bytes = sent(host.tx());
    let Ok(Some(Received::Command { slot, .. })) = target.next(&mut &bytes[..]) else { panic!() };
    target.fetch(slot, 200_000);
    let request = sent(target.tx());
    assert!(matches!(host.next(&mut &request[..]), Ok(None)));
    let mut data = sent(host.tx());
    data[5000] ^= 1;
    let (pieces, ends) = data_events(&mut target, data.chunks(1000));
    assert_eq!((pieces.iter().sum::<usize>(), ends), (200_000, vec![false]));
}

#[test]
fn damaged_read_data_turns_success_into_a_transport_error() {
    for (result, success_flag) in [(0, true), (5, false)] {
        let (mut host, mut target) = pair(DIGESTS);
        host.submit(sqe(3), None, 4096).unwrap();
        let bytes = sent(host.tx());
        let Ok(Some(Received::Command { slot, .. })) = target.next(&mut &bytes[..]) else {
            panic!()
        };
        target.complete_with_data(slot, vec![1; 4096], result);
        let mut bytes = sent(target.tx());
        assert_eq!(bytes.len(), 24 + 4 + 4096 + 4 + if success_flag { 0 } else { 28 });
        bytes[1000] ^= 0x80;
        let mut input = &bytes[..];
        assert!(matches!(host.next(&mut input), Ok(Some(HostReceived::ReadData { .. }))));
        assert!(matches!(host.next(&mut input), Ok(Some(HostReceived::DigestError { cid: 3 }))));
        let Ok(Some(HostReceived::Response { cqe, .. })) = host.next(&mut input) else { panic!() };
        assert_eq!(cqe.status(), Status::TRANSIENT_TRANSPORT_ERROR);
        assert_eq!(host.in_flight(), 0);
    }
}

#[test]
fn answer_waits_for_data_in_transit() {
    let (mut host, mut target) = pair(HostParams::default());
    host.submit(sqe(1), Some(vec![7; 512]), 0).unwrap();
    let bytes = sent(host.tx());
    let mut input = &bytes[..300];
    let Ok(Some(Received::Command { slot, .. })) = target.next(&mut input) else { panic!() };
    target.complete(slot, 0, Status::INVALID_FIELD);
    assert!(matches!(target.next(&mut input), Ok(None)));
    assert_eq!((target.tx().pending_bytes(), target.in_flight()), (0, 1));
    assert!(matches!(target.next(&mut &bytes[300..]), Ok(None)));
    assert_eq!((target.tx().pending_bytes(), target.in_flight()), (24, 0));
}

/// Feeds `bytes` to a target whose shell answers nothing.
fn flood_target(target: &mut TargetConnection<Vec<u8>>, bytes: &[u8], chunk: usize) {
    for mut input in bytes.chunks(chunk) {
        while let Ok(Some(_)) = target.next(&mut input) {}
        assert!(input.is_empty() || target.next(&mut input).is_ok());
    }
    assert!(target.in_flight() <= 8);
    assert!(target.tx().pending_bytes() <= 128 + 152);
}

fn flood_host(host: &mut HostConnection<Vec<u8>>, bytes: &[u8], chunk: usize) {
    for mut input in bytes.chunks(chunk) {
        while let Ok(Some(_)) = host.next(&mut input) {}
    }
    // The commands' data at most once with its heads, and the termination request.
    assert!(host.tx().pending_bytes() <= 20_000);
}

/// Generates bytes that look like PDUs often enough to get past the first checks.
fn plausible() -> impl Strategy<Value = Vec<u8>> {
    let pdu = (0u8..12, 0u8..4, any::<bool>(), any::<u8>(), prop::collection::vec(0u8..9, 120));
    let pdu = pdu.prop_map(|(kind, flags, plain, noise, body)| {
        let hlen = match kind {
            0 | 1 => 128,
            4 => 72,
            _ => 24,
        };
        let (flags, pdo) = if plain { (0, 0) } else { (flags, hlen) };
        let data = if plain { 0 } else { noise };
        let mut bytes = vec![kind, flags, hlen, pdo, hlen.saturating_add(data), 0, 0, 0];
        bytes.extend(body);
        bytes.truncate(usize::from(hlen));
        bytes
    });
    prop::collection::vec(pdu, 0..20).prop_map(|pdus| pdus.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_safe(
        bytes in prop_oneof![prop::collection::vec(any::<u8>(), 0..600), plausible()],
        chunk in 1usize..300,
    ) {
        flood_target(&mut TargetConnection::new(TargetParams::default()), &bytes, chunk);
        flood_host(&mut HostConnection::new(HostParams::default()), &bytes, chunk);
        let (mut host, mut target) = pair(HostParams::default());
        host.submit(sqe(1), None, 4096).unwrap();
        host.submit(sqe(2), Some(vec![0; 9000]), 0).unwrap();
        flood_target(&mut target, &bytes, chunk);
        flood_host(&mut host, &bytes, chunk);
    }

    #[test]
    fn a_changed_byte_in_a_good_stream_is_safe(
        at in 0usize..20_000, flip in 1u8..=255, digests: bool, chunk in 1usize..5000,
    ) {
        let (mut host, mut target) = pair(if digests { DIGESTS } else { HostParams::default() });
        for cid in 0..3 {
            host.submit(sqe(cid), None, 4096).unwrap();
            host.submit(sqe(cid + 3), Some(vec![1; 4096]), 0).unwrap();
        }
        let mut bytes = sent(host.tx());
        let at = at % bytes.len();
        bytes[at] ^= flip;
        flood_target(&mut target, &bytes, chunk);
    }
}
