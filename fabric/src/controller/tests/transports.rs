//! Tests of what depends on the transport by which a host has come: one service serves both.

use super::*;
use crate::fabrics::DiscoveryEntry;
use crate::nvme::identify::IdentifyController;
use crate::nvme::log::ErrorEntry;
use zerocopy::FromBytes;

/// The listener over RDMA.
const RDMA: ListenerId = ListenerId(9);

/// Returns a service with a listener over RDMA beside those over TCP.
fn both() -> Bench {
    let (in_capsule_data, rdma_in_capsule_data) = (8192, 4096);
    let max_transfer = 16 << 20;
    let config = ServiceConfig {
        in_capsule_data,
        rdma_in_capsule_data,
        max_transfer,
        ..ServiceConfig::default()
    };
    let mut bench = Bench::with(config);
    let spec = ListenerSpec { transport: TransportType::Rdma, ..listener(RDMA, false) };
    bench.service.add_listener(bench.now, spec).unwrap();
    bench
}

/// Returns an enabled admin queue through a listener.
fn admin_queue(bench: &mut Bench, listener: ListenerId, subsystem: &str) -> ConnectionId {
    let connect = Connect { listener, ..Connect::new(subsystem, 0, 0xffff) };
    let (id, connected) = connect.send(bench);
    connected.unwrap();
    bench.set_cc(id, ENABLE);
    id
}

#[test]
fn identify_tells_what_the_transport_can() {
    let mut bench = both();
    let mut tell = |listener| {
        let admin = admin_queue(&mut bench, listener, SUBSYSTEM);
        bench.ok(admin, &identify(1, 0));
        let id = IdentifyController::read_from_bytes(&bench.out[..]).unwrap();
        // SGLS: bit 0 SGLs, 2 keyed, 20 offsets (in the capsule), 21 transport descriptors. IOCCSZ is in
        // units of 16 bytes, MDTS a power of two of 4 KiB pages.
        (id.sgls.get(), id.ioccsz.get(), id.mdts)
    };
    assert_eq!(tell(LISTENER), (1 | 1 << 20 | 1 << 21, (64 + 8192) / 16, 12));
    assert_eq!(
        tell(RDMA),
        (1 | 1 << 2 | 1 << 20, (64 + 4096) / 16, 11),
        "8 MiB: lengths of 24 bits"
    );
}

#[test]
fn discovery_lists_both_whichever_is_asked() {
    let mut bench = both();
    for asked in [DISCOVERY_LISTENER, RDMA] {
        let admin = admin_queue(&mut bench, asked, DISCOVERY_NQN);
        bench.ok(admin, &log(0x70, 1024 * 9, 0, true));
        let entries: Vec<DiscoveryEntry> = bench.out[1024..]
            .chunks_exact(1024)
            .map(|entry| DiscoveryEntry::read_from_bytes(entry).unwrap())
            .filter(|entry| entry.subtype == 2)
            .collect();
        // TRTYPE: 1 RDMA, 3 TCP. TSAS of RDMA: bytes 0 to 2 the queue pair's type (1, reliable connected),
        // the provider (1, none named) and the connection manager (1, RDMA_IP_CM).
        for (trtype, tsas) in [(1, [1, 1, 1]), (3, [0, 0, 0])] {
            let of = entries.iter().filter(|entry| entry.trtype == trtype);
            let told: Vec<[u8; 3]> = of.map(|entry| [0, 1, 2].map(|i| entry.tsas[i])).collect();
            assert_eq!(told, [tsas, tsas], "two subsystems over transport {trtype}");
        }
    }
}

#[test]
fn the_error_log_names_the_transport() {
    let mut bench = both();
    for (listener, trtype) in [(LISTENER, 3), (RDMA, 1)] {
        let admin = admin_queue(&mut bench, listener, SUBSYSTEM);
        let refused = bench.admin(admin, &command(0xfe, 5));
        assert_eq!(code(refused), status_code(Status::INVALID_OPCODE));
        bench.ok(admin, &log(1, 64, 0, true));
        let entry = ErrorEntry::read_from_bytes(&bench.out[..64]).unwrap();
        assert_eq!(entry.trtype, trtype);
    }
}
