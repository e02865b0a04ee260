//! Tests of what depends on the transport by which a host has come: one service serves both.

use super::*;

#[test]
fn identify_and_the_error_log_tell_the_transport() {
    let mut bench = Bench::with(ServiceConfig {
        in_capsule_data: 8192,
        rdma_in_capsule_data: 4096,
        max_transfer: 16 << 20,
        ..ServiceConfig::default()
    });
    let rdma = ListenerId(9);
    let spec = ListenerSpec { transport: TransportType::Rdma, ..listener(rdma, false) };
    bench.service.add_listener(bench.now, spec).unwrap();
    let of_rdma = [
        (77, 77, 11, "MDTS: 8 MiB, since lengths have 24 bits"),
        (536, 539, 1 | 1 << 2 | 1 << 20, "SGLS: supported, keyed, offsets"),
        (1792, 1795, (64 + 4096) / 16, "IOCCSZ"),
    ];
    let of_tcp = [(77, 77, 12, "MDTS: 16 MiB")];
    for (listener, trtype, fields) in [(LISTENER, 3, &of_tcp[..]), (rdma, 1, &of_rdma[..])] {
        let (admin, _) = Connect { listener, ..Connect::admin(SUBSYSTEM) }.enabled(&mut bench);
        pages::shows(&mut bench, admin, &identify(1, 0), fields);
        bench.fails(admin, &command(0xfe, 5), Status::INVALID_OPCODE);
        let transport = [(29, 29, trtype, "Transport Type")];
        pages::shows(&mut bench, admin, &log(1, 64, 0, true), &transport);
    }
}
