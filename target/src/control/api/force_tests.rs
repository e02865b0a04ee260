//! Tests of refusals of changes by which hosts would lose something.

use serde_json::{Value, json};
use sluice_config::AllowedHost;

use super::tests::{NQN, Rig, with};
use crate::serve::engine::{Loss, LostHost};

#[test]
fn what_would_hurt_connected_hosts_is_refused_by_name_unless_forced() {
    let size = json!({"subsystem": NQN, "nsid": 1, "size": "512 KiB"});
    let host = "nqn.2026-01.io.x:h0";
    let address = "127.0.0.1:4420".parse().unwrap();
    let from = json!({"subsystem": NQN, "host": host, "addresses": ["192.0.2.0/24"]});
    let sources = ["192.0.2.0/24".parse().unwrap()].into_iter().collect();
    let bound = [AllowedHost { sources, ..host.into() }];
    let access = |any, hosts| Loss::Access { nqn: NQN, any, hosts };
    let cases = [
        (Loss::Size(NQN, 1, Some(512 << 10)), "namespace.resize", size),
        (Loss::Namespace(NQN, 1), "namespace.remove", json!({"subsystem": NQN, "nsid": 1})),
        (access(true, &bound), "host.set", from),
        (access(true, &[]), "host.remove", json!({"subsystem": NQN, "host": host})),
        (access(false, &[]), "host.any", json!({"subsystem": NQN, "allow": false})),
        (Loss::Listener(address), "listener.remove", json!({"address": "127.0.0.1:4420"})),
        (Loss::Subsystem(NQN), "subsystem.remove", json!({"nqn": NQN})),
    ];
    let rig = Rig::new();
    rig.call("host.any", json!({"subsystem": NQN, "allow": true}));
    for (loss, method, params) in cases {
        check_force(&rig, &loss, method, params);
    }
}

/// Checks that connected hosts prevent a change by which they lose something, and that the change can be forced. Returns
/// the message of the refusal.
pub(super) fn check_force(rig: &Rig, loss: &Loss<'_>, method: &str, params: Value) -> String {
    (1..=10).for_each(|n| rig.engine.add_hurt(loss, &format!("nqn.2026-01.io.x:h{n}")));
    let before = rig.check_agreement();
    let hosts = "by 10 connected hosts: nqn.2026-01.io.x:h1, nqn.2026-01.io.x:h2, ";
    let message = rig.refuses(method, params.clone(), "refused", hosts);
    let ending = "use --force (\"force\": true) to make the change anyway";
    assert!(message.contains(":h8 and 2 more;") && message.ends_with(ending), "{message}");
    assert_eq!(rig.check_agreement(), before, "nothing was changed");
    rig.call(method, with(params, json!({"force": true})));
    assert_ne!(rig.check_agreement(), before, "{method} was done");
    message
}

#[test]
fn what_lost_hosts_would_lose_is_refused_with_the_time_that_they_have() {
    let rig = Rig::new();
    let loss = format!("{:?}", Loss::Namespace(NQN, 1));
    let lost = |host: &str, restored| {
        let host = LostHost {
            host: host.into(),
            listener: "127.0.0.1:4420".into(),
            lost_seconds: 40,
            left_seconds: 560,
            restored,
            ..LostHost::default()
        };
        (loss.clone(), host)
    };
    let after = "; they would lose the disk; disconnect them in order (`nvme disconnect` while they \
                 are connected), or wait, or use --force (\"force\": true) to make the change anyway";
    let both = [(loss.clone(), "nqn.c".to_owned())];
    for (connected, all, users) in [
        (
            &[][..],
            vec![lost("nqn.a", false)],
            "host nqn.a: it disconnected 40 s ago without a shutdown and can reconnect until 10 min \
             after that",
        ),
        (
            &[],
            vec![lost("nqn.a", true)],
            "host nqn.a: it was connected before sluiced started 40 s ago, did not shut down, and can \
             reconnect until 10 min after the start",
        ),
        (
            &[],
            vec![lost("nqn.a", false), lost("", true)],
            "2 hosts that disconnected without a shutdown and can reconnect: nqn.a (for 560 s more), \
             without a name (for 560 s more)",
        ),
        (
            &both,
            vec![lost("nqn.a", false)],
            "1 connected host: nqn.c; and by host nqn.a: it disconnected 40 s ago without a shutdown \
             and can reconnect until 10 min after that",
        ),
    ] {
        *rig.engine.hurt.lock().unwrap() = connected.to_vec();
        let rows = all.iter().map(|(_, lost)| json!(lost)).collect::<Vec<_>>();
        *rig.engine.lost.lock().unwrap() = all;
        let (kind, message) = rig.refused("namespace.remove", json!({"subsystem": NQN, "nsid": 1}));
        assert_eq!(kind, "refused");
        assert_eq!(message, format!("namespace 1 of {NQN} is in use by {users}{after}"));
        assert_eq!(rig.ask("host.list")[0]["lost"], json!(rows));
    }
    let mut now = lost("nqn.a", true);
    now.1.lost_seconds = 0;
    rig.engine.hurt.lock().unwrap().clear();
    *rig.engine.lost.lock().unwrap() = vec![now];
    let (_, message) = rig.refused("namespace.remove", json!({"subsystem": NQN, "nsid": 1}));
    assert!(message.contains("before sluiced started 0 s ago,"), "{message}");
    let forced = json!({"subsystem": NQN, "nsid": 1, "force": true});
    rig.call("namespace.remove", forced);
}
